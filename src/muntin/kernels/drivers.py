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


def forward(values: Any, outs: Any, n: Any, c: Any, end: Any, lcs: Any) -> None:
    """Emit the windows that end in rows [c, end) of a chunk, with the suffixes of the one before it."""
    acc = lift_at(values, c)
    emit(outs, c, combine(load(lcs, U(1)), acc) if n > U(1) else acc, n)
    j = U(1)
    while c + j < end and j + U(1) < n:
        acc = combine(acc, lift_at(values, c + j))
        j += U(1)
        emit(outs, c + j - U(1), combine(load(lcs, j), acc), n)
    if c + j < end:
        emit(outs, c + j, combine(acc, lift_at(values, c + j)), n)


def forward_and_back(
    values: Any,
    outs: Any,
    n: Any,
    c0: Any,
    c1: Any,
    lcs0: Any,
    lcs1: Any,
    d0: Any,
    d1: Any,
    back0: Any,
    back1: Any,
) -> None:
    """Emit the chunks at c0 and c1, and in the same loop add up those at d0 and d1 from their ends."""
    e0 = d0 + n - U(1)
    e1 = d1 + n - U(1)
    acc0 = lift_at(values, c0)
    acc1 = lift_at(values, c1)
    tail0 = lift_at(values, e0)
    tail1 = lift_at(values, e1)
    emit(outs, c0, combine(load(lcs0, U(1)), acc0), n)
    emit(outs, c1, combine(load(lcs1, U(1)), acc1), n)
    store(back0, n - U(1), tail0)
    store(back1, n - U(1), tail1)
    j = U(1)
    while j + U(1) < n:
        acc0 = combine(acc0, lift_at(values, c0 + j))
        acc1 = combine(acc1, lift_at(values, c1 + j))
        tail0 = combine(lift_at(values, e0 - j), tail0)
        tail1 = combine(lift_at(values, e1 - j), tail1)
        store(back0, n - U(1) - j, tail0)
        store(back1, n - U(1) - j, tail1)
        j += U(1)
        emit(outs, c0 + j - U(1), combine(load(lcs0, j), acc0), n)
        emit(outs, c1 + j - U(1), combine(load(lcs1, j), acc1), n)
    emit(outs, c0 + j, combine(acc0, lift_at(values, c0 + j)), n)
    emit(outs, c1 + j, combine(acc1, lift_at(values, c1 + j)), n)


def roll_rows(
    values: Any, outs: Any, n: Any, lo: Any, hi: Any, q0: Any, q1: Any, q2: Any, q3: Any
) -> None:
    """Emit the windows of n rows that end in rows [lo, hi); lo is 0 or at least n. (KDD 2021: SBA.)

    Chunks are as long as the window: the result is the suffix of the previous chunk (lcs) merged with
    the running aggregate of the current one (csa). A chain of combines is as slow as one combine is
    long, so four stretches of the rows are worked on at once: while two go forward, the two others,
    whose chunks were just read, are added up from their ends. The four chains do not wait for each
    other.
    """
    c = lo
    if lo == U(0):
        c = min(n, hi)
        acc = lift_at(values, U(0))
        emit(outs, U(0), acc, U(1))
        for i in range(U(1), c):
            acc = combine(acc, lift_at(values, i))
            emit(outs, i, acc, i + U(1))
    chunks = (hi - c) // (U(4) * n) if n > U(1) else U(0)
    if chunks > U(0):
        c0, c1 = c, c + chunks * n
        c2, c3 = c1 + chunks * n, c1 + U(2) * chunks * n
        suffixes(values, c0 - n, n, q0)
        suffixes(values, c1 - n, n, q1)
        suffixes(values, c2 - n, n, q2)
        suffixes(values, c3 - n, n, q3)
        forward(values, outs, n, c0, c0 + n, q0)
        forward(values, outs, n, c1, c1 + n, q1)
        c = c3 + chunks * n
        while c3 < c:
            forward_and_back(values, outs, n, c2, c3, q2, q3, c0, c1, q0, q1)
            c0, c1 = c0 + n, c1 + n
            if c3 + n < c:
                forward_and_back(values, outs, n, c0, c1, q0, q1, c2, c3, q2, q3)
            c2, c3 = c2 + n, c3 + n
    while c < hi:
        end = min(c + n, hi)
        suffixes(values, c - n, n, q0)
        forward(values, outs, n, c, end, q0)
        c = end


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
