"""Windows of time, and from any row to any other: loops over whole arrays that are compiled.

These functions are never called from here. A generated module (`build.py`) writes them out beside an
aggregate's functions and defines the names they use: lift_at(values, i) is the partial of row i, combine
merges two partials, emit(outs, i, partial, rows) lowers one into the results, load and store keep
partials in a tuple of arrays, one per field, and U is uint64 (an index that is never negative).

Every kernel loads what changes into locals, loops, and allocates nothing.
"""

from typing import Any

from muntin.kernels.loops.instructions import U, entry
from muntin.kernels.loops.object_partials import combine, emit, emit_empty, lift_at, load, store


def flip(values: Any, s: Any, e: Any, buffer: Any, mask: Any) -> None:
    """Store the aggregates from each row of [s, e) to its end; the boundary is now at e."""
    i = e - U(1)
    tail = lift_at(values, i)
    store(buffer, i & mask, tail)
    while i > s:
        i -= U(1)
        tail = combine(lift_at(values, i), tail)
        store(buffer, i & mask, tail)


@entry
def roll_spans(
    values: Any, outs: Any, starts: Any, ends: Any, lo: Any, hi: Any, buffer: Any, mask: Any
) -> None:
    """Emit the windows [starts[k], ends[k]) for k in [lo, hi), both of them never falling.

    Boundary aggregation with the boundary drawn when the front is used up: the front [s, boundary) is in
    the buffer as suffixes, the back [boundary, e) is one running aggregate.
    """
    s = e = boundary = U(starts[lo])
    acc = lift_at(values, min(s, U(len(values[0]) - 1)))
    for k in range(lo, hi):
        s = U(starts[k])
        end = U(ends[k])
        if s >= e:  # nothing is left of the last window
            e = boundary = s
        while e < end:
            v = lift_at(values, e)
            acc = v if e == boundary else combine(acc, v)
            e += U(1)
        if s == e:
            emit_empty(outs, k)
        else:
            if s >= boundary:
                flip(values, s, e, buffer, mask)
                boundary = e
            p = load(buffer, s & mask)
            emit(outs, k, p if boundary == e else combine(p, acc), e - s)


@entry
def roll_times(
    values: Any,
    outs: Any,
    times: Any,
    size: Any,
    past: Any,
    now: Any,
    lo: Any,
    hi: Any,
    buffer: Any,
    mask: Any,
) -> Any:
    """Emit for each row k in [lo, hi) the rows up to it with t - size + past <= time < t + now.

    As roll_spans, with the spans found on the way; times never fall. Returns how far it came: it stops
    at a row whose window is longer than the buffer.
    """
    s = lo
    first = times[lo] - size + past
    while s > U(0) and times[s - U(1)] >= first:
        s -= U(1)
    e = boundary = s
    acc = lift_at(values, s)
    for k in range(lo, hi):
        t = times[k]
        first = t - size + past
        while s <= k and times[s] < first:
            s += U(1)
        if s >= e:
            e = boundary = s
        while e <= k and times[e] < t + now:
            v = lift_at(values, e)
            acc = v if e == boundary else combine(acc, v)
            e += U(1)
        if s >= e:
            emit_empty(outs, k)
        else:
            if s >= boundary:
                if e - s > mask + U(1):
                    return k
                flip(values, s, e, buffer, mask)
                boundary = e
            p = load(buffer, s & mask)
            emit(outs, k, p if boundary == e else combine(p, acc), e - s)
    return hi
