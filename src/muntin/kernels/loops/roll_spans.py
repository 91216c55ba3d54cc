"""Windows of time, and windows from any row to any other, over whole arrays.

Both loops are boundary aggregation (KDD 2021): the front [s, boundary) of a window is kept as suffixes,
the back [boundary, e) as one running aggregate. When the front is used up, the loop draws the boundary
at e. A row costs at most three combines.

A loop unpacks its arguments into local variables first, which Numba does not count references to at each
row, and allocates nothing.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import U, entry
from muntin.kernels.loops.loop_arguments import Spans, Suffixes
from muntin.kernels.loops.object_partials import combine, emit, emit_empty, lift_at, load, store


class TimeFrame(NamedTuple):
    """The times of rows, and which of them the window of a row at time t holds."""

    times: Any  # per row, never falling
    size: Any  # how far the window reaches back, in the unit of the times
    past: Any  # 0 if a row at t - size belongs to the window, else 1
    now: Any  # 1 if rows at t belong to the window, else 0


def flip(values: Any, s: Any, e: Any, suffixes: Suffixes) -> None:
    """Store the aggregates from each row of [s, e) to its end; the boundary is then at e."""
    partials, mask = suffixes
    i = e - U(1)
    tail = lift_at(values, i)
    store(partials, i & mask, tail)
    while i > s:
        i -= U(1)
        tail = combine(lift_at(values, i), tail)
        store(partials, i & mask, tail)


@entry
def roll_spans(values: Any, outs: Any, spans: Spans, lo: Any, hi: Any, suffixes: Suffixes) -> None:
    """Emit the windows of `spans` with numbers [lo, hi); neither their starts nor their ends fall."""
    starts, ends = spans
    partials, mask = suffixes
    s = e = boundary = U(starts[lo])
    acc = lift_at(values, min(s, U(len(values[0]) - 1)))
    for k in range(lo, hi):
        s = U(starts[k])
        end = U(ends[k])
        if s >= e:  # the last window and this one share no row
            e = boundary = s
        while e < end:
            v = lift_at(values, e)
            acc = v if e == boundary else combine(acc, v)
            e += U(1)
        if s == e:
            emit_empty(outs, k)
        else:
            if s >= boundary:
                flip(values, s, e, suffixes)
                boundary = e
            p = load(partials, s & mask)
            emit(outs, k, p if boundary == e else combine(p, acc), e - s)


@entry
def roll_times(
    values: Any, outs: Any, frame: TimeFrame, lo: Any, hi: Any, suffixes: Suffixes
) -> Any:
    """Emit for each row k in [lo, hi) the rows up to k with t - size + past <= time < t + now.

    Returns the row at which it stopped: hi, or a row whose window is longer than the suffixes' arrays.
    """
    times, size, past, now = frame
    partials, mask = suffixes
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
                flip(values, s, e, suffixes)
                boundary = e
            p = load(partials, s & mask)
            emit(outs, k, p if boundary == e else combine(p, acc), e - s)
    return hi
