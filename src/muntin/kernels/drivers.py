"""Windows over whole arrays: the loops that generated modules compile.

These functions are never called from here. A generated module (`build.py`) writes them out beside an
aggregate's functions and defines the names they use: lift_at(values, i) is the partial of row i, combine
merges two partials, emit(outs, i, partial, rows) lowers one into the results, load and store keep
partials in a tuple of arrays, one per field, and U is uint64 (an index that is never negative).

Every kernel loads what changes into locals, loops, and allocates nothing.
"""
# ruff: noqa: F821
# mypy: ignore-errors

from typing import Any


def suffixes(values: Any, c: Any, n: Any, buffer: Any) -> None:
    """Store the aggregates from each row of [c, c + n) but the first to its end: SBA's lcs."""
    j = n - U(1)
    if j > U(0):
        tail = lift_at(values, c + j)
        store(buffer, j, tail)
        while j > U(1):
            j -= U(1)
            tail = combine(lift_at(values, c + j), tail)
            store(buffer, j, tail)


def roll_rows(values: Any, outs: Any, n: Any, lo: Any, hi: Any, front: Any, back: Any) -> None:
    """Emit the windows of n rows that end in rows [lo, hi); lo is 0 or at least n. (KDD 2021: SBA.)

    Chunks are as long as the window. The forward loop adds up the current chunk (csa) and merges it with
    the previous chunk's suffixes (lcs, in front); in the same iterations the current chunk's suffixes
    are added up from its end (into back). The two chains of combines do not wait for each other.
    """
    c = lo
    if lo == U(0):
        c = min(n, hi)
        acc = lift_at(values, U(0))
        emit(outs, U(0), acc, U(1))
        for i in range(U(1), c):
            acc = combine(acc, lift_at(values, i))
            emit(outs, i, acc, i + U(1))
    if c < hi:
        suffixes(values, c - n, n, front)
    while c + n <= hi:
        last = c + n - U(1)
        acc = lift_at(values, c)
        tail = lift_at(values, last)
        j = U(1)
        if n > U(1):
            store(back, n - U(1), tail)
            emit(outs, c, combine(load(front, U(1)), acc), n)
        while j + U(1) < n:
            acc = combine(acc, lift_at(values, c + j))
            tail = combine(lift_at(values, last - j), tail)
            store(back, n - U(1) - j, tail)
            j += U(1)
            emit(outs, c + j - U(1), combine(load(front, j), acc), n)
        if n > U(1):
            acc = combine(acc, lift_at(values, last))
        emit(outs, last, acc, n)
        front, back = back, front
        c += n
    if c < hi:
        acc = lift_at(values, c)
        emit(outs, c, combine(load(front, U(1)), acc), n)
        j = U(1)
        while c + j < hi:
            acc = combine(acc, lift_at(values, c + j))
            j += U(1)
            emit(outs, c + j - U(1), combine(load(front, j), acc), n)


def flip(values: Any, s: Any, e: Any, buffer: Any, mask: Any) -> None:
    """Store the aggregates from each row of [s, e) to its end; the boundary is now at e."""
    i = e - U(1)
    tail = lift_at(values, i)
    store(buffer, i & mask, tail)
    while i > s:
        i -= U(1)
        tail = combine(lift_at(values, i), tail)
        store(buffer, i & mask, tail)


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
) -> None:
    """Emit for each row k in [lo, hi) the rows up to it with t - size + past <= time < t + now.

    As roll_spans, with the spans found on the way; times never fall.
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
                flip(values, s, e, buffer, mask)
                boundary = e
            p = load(buffer, s & mask)
            emit(outs, k, p if boundary == e else combine(p, acc), e - s)


def longest_span(times: Any, size: Any, past: Any) -> Any:
    """Return the largest number of rows that any window of roll_times can hold."""
    longest = s = U(0)
    for k in range(U(0), U(len(times))):
        first = times[k] - size + past
        while s <= k and times[s] < first:
            s += U(1)
        longest = max(longest, k + U(1) - s)
    return longest
