"""Windows of n rows over whole arrays: boundary aggregation (KDD 2021: SBA) on two levels.

Rows are cut into periods of n - 1 rows and periods into blocks. A window that ends in a block begins in
the block one period before:

    |....|..xx|xxxx|xxxx||xxxx|x...|....|....|      tail: the old block from each row to its end (lcs)
            tail between      head                  head: the new block from its start to each row (csa)

The blocks between are two partials again: the blocks up to the end of the old period, and the blocks
since the start of the new one. The loop combines them into the first tail of a block, so a row costs
three combines at any n, and the partials kept per row are as long as a block and stay in a near cache.

A chain of combines is as slow as one combine is long, so the loop works on four stretches of the rows
at once. The partials of blocks of a stretch that is at block k are: in j > k the old blocks from j on,
in j < k the new block j, and after them the new blocks before k.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import U, entry, read_soon, write_soon
from muntin.kernels.loops.object_partials import (
    combine,
    emit,
    emit_four,
    lift_at,
    load,
    store,
    store_four,
    watch,
)

STRETCHES = 4
LAST = 3
"""The stretch that works on the rows that the others leave over."""
AHEAD = 256
"""How many rows ahead the processor fetches."""


class Stretches(NamedTuple):
    """Where the four stretches are, and arrays for their partials."""

    size: Any  # rows of a block
    starts: Any  # per stretch: the first row of its block
    numbers: Any  # per stretch: the number of its block in the period, from 0
    tails: Any  # partials, `size` per stretch: from each row of the old block on
    blocks: Any  # partials, one per block of a period and one more, per stretch


class Grid(NamedTuple):
    """How rows are cut into blocks."""

    n: Any  # rows of a window; a period has one row less
    size: Any  # rows of a block; the last block of a period may have fewer
    count: Any  # blocks of a period


class Work(NamedTuple):
    """The arrays that every step reads and writes."""

    values: Any  # columns of the rows
    outs: Any  # results, one per row
    grid: Any  # a Grid
    at: Any  # the Stretches


def back(work: Work, i: Any, rows: Any, tail: Any, j: Any) -> Any:
    """Store the tails of `rows` rows, from row i downwards, at j downwards; return the last."""
    for s in range(rows):
        tail = combine(lift_at(work.values, i - s), tail)
        store(work.at.tails, j - s, tail)
    return tail


def forth(work: Work, i: Any, rows: Any, head: Any, seen: Any, j: Any) -> Any:
    """Emit the windows that end in `rows` rows, from row i upwards; their tails are at j upwards."""
    for s in range(rows):
        head = combine(head, lift_at(work.values, i + s))
        seen = watch(seen, work.values, i + s)
        emit(work.outs, i + s, combine(load(work.at.tails, j + s), head), work.grid.n)
    return head, seen


def back_four(work: Work, i: Any, tail: Any, j: Any) -> Any:
    """Store the tails of four rows, from row i downwards, at once."""
    values = work.values
    a = combine(lift_at(values, i), tail)
    b = combine(lift_at(values, i - U(1)), a)
    c = combine(lift_at(values, i - U(2)), b)
    d = combine(lift_at(values, i - U(3)), c)
    store_four(work.at.tails, j - U(3), d, c, b, a)
    return d


def forth_four(work: Work, i: Any, head: Any, seen: Any, j: Any) -> Any:
    """Emit the windows that end in four rows, from row i upwards, at once."""
    values, tails = work.values, work.at.tails
    a = combine(head, lift_at(values, i))
    b = combine(a, lift_at(values, i + U(1)))
    c = combine(b, lift_at(values, i + U(2)))
    d = combine(c, lift_at(values, i + U(3)))
    for s in range(U(4)):
        seen = watch(seen, values, i + s)
    before = load(tails, j), load(tails, j + U(1)), load(tails, j + U(2)), load(tails, j + U(3))
    w, x = combine(before[0], a), combine(before[1], b)
    y, z = combine(before[2], c), combine(before[3], d)
    emit_four(work.outs, i, w, x, y, z, work.grid.n)
    return d, seen


def fetch(work: Work, i: Any, old: Any) -> None:
    """Ask the processor for the rows and results soon after row i, and for row `old`."""
    read_soon(work.values[0], i + U(AHEAD))
    write_soon(work.outs[0], i + U(AHEAD))
    read_soon(work.values[0], old)


def last_tail(work: Work, i: Any, k: Any, j: Any, b: Any) -> Any:
    """Store at j the tail of row i, the last of old block k, combined with the blocks between."""
    q, blocks = work.grid.count, work.at.blocks
    tail = lift_at(work.values, i)
    if q > U(1):
        if k == U(0):
            between = load(blocks, b + U(1))
        elif k + U(1) == q:
            between = load(blocks, b + q)
        else:
            between = combine(load(blocks, b + k + U(1)), load(blocks, b + q))
        tail = combine(tail, between)
    store(work.at.tails, j, tail)
    return tail


def first_head(work: Work, c: Any, j: Any) -> Any:
    """Emit the window that ends in row c, the first of a block; its tail is at j."""
    head = lift_at(work.values, c)
    emit(work.outs, c, combine(load(work.at.tails, j), head), work.grid.n)
    return head, watch(0.0, work.values, c)


def rows_of(grid: Grid, k: Any) -> Any:
    """Return the number of rows of block k: the last of a period may be shorter."""
    return min(grid.size, grid.n - U(1) - k * grid.size)


def close_block(work: Work, k: Any, head: Any, b: Any) -> Any:
    """Store the aggregate of new block k and return the number of the next block.

    After the last block of a period, the new blocks become old.
    """
    q, blocks = work.grid.count, work.at.blocks
    if q == U(1):
        return k
    store(blocks, b + k, head)
    if k + U(1) < q:
        store(blocks, b + q, combine(load(blocks, b + q), head) if k > U(0) else head)
        return k + U(1)
    sum_old(work, U(0), b)
    return U(0)


def sum_old(work: Work, k: Any, b: Any) -> None:
    """Combine the blocks after block k from the end of the period."""
    blocks = work.at.blocks
    j = work.grid.count - U(1)
    while j > k + U(1):
        j -= U(1)
        store(blocks, b + j, combine(load(blocks, b + j), load(blocks, b + j + U(1))))


def block_before(grid: Grid, j: Any, c: Any, k: Any) -> Any:
    """Return the first row of the last block j before block k, which starts at row c."""
    return c + j * grid.size - k * grid.size - (grid.n - U(1) if j >= k else U(0))


def begin(work: Work) -> None:
    """Aggregate the blocks of one period before each stretch."""
    q, at = work.grid.count, work.at
    share = q + U(1)
    for i in range(U(STRETCHES)):
        for j in range(q):
            first = block_before(work.grid, j, at.starts[i], at.numbers[i])
            acc = lift_at(work.values, first)
            for s in range(U(1), rows_of(work.grid, j)):
                acc = combine(acc, lift_at(work.values, first + s))
            store(at.blocks, i * share + j, acc)
        for j in range(at.numbers[i]):
            close_block(work, j, load(at.blocks, i * share + j), i * share)
        sum_old(work, at.numbers[i], i * share)


def one_back(work: Work, i: Any) -> None:
    """Store the tails for the block of stretch i."""
    c, k = work.at.starts[i], work.at.numbers[i]
    rows = rows_of(work.grid, k)
    e, j = c + rows - work.grid.n, i * work.grid.size + rows - U(1)
    tail = last_tail(work, e, k, j, i * (work.grid.count + U(1)))
    back(work, e - U(1), rows - U(1), tail, j - U(1))


def one_forth(work: Work, hi: Any) -> Any:
    """Emit the block of the last stretch, up to row hi."""
    at = work.at
    c, k, t = at.starts[LAST], at.numbers[LAST], U(LAST) * work.grid.size
    rows = min(rows_of(work.grid, k), hi - c)
    head, seen = first_head(work, c, t)
    head, seen = forth(work, c + U(1), rows - U(1), head, seen, t + U(1))
    at.numbers[LAST] = close_block(work, k, head, U(LAST) * (work.grid.count + U(1)))
    at.starts[LAST] = c + rows
    return seen


def two_forth_two_back(work: Work, x: Any, y: Any) -> Any:
    """Emit a block of stretches x and x + 1, and store tails for y and y + 1: four chains at once."""
    n, size, q = work.grid
    starts, numbers = work.at.starts, work.at.numbers
    c0, c1, c2, c3 = starts[x], starts[x + U(1)], starts[y], starts[y + U(1)]
    k0, k1, k2, k3 = numbers[x], numbers[x + U(1)], numbers[y], numbers[y + U(1)]
    r0, r1 = rows_of(work.grid, k0), rows_of(work.grid, k1)
    r2, r3 = rows_of(work.grid, k2), rows_of(work.grid, k3)
    t0, t1 = x * size, (x + U(1)) * size
    b0, b2 = x * (q + U(1)), y * (q + U(1))
    b1, b3 = b0 + q + U(1), b2 + q + U(1)
    e2, e3 = c2 + r2 - n, c3 + r3 - n
    j2, j3 = y * size + r2 - U(1), (y + U(1)) * size + r3 - U(1)
    tail2 = last_tail(work, e2, k2, j2, b2)
    tail3 = last_tail(work, e3, k3, j3, b3)
    head0, seen0 = first_head(work, c0, t0)
    head1, seen1 = first_head(work, c1, t1)
    s, shortest = U(1), min(min(r0, r1), min(r2, r3))
    while s + U(4) <= shortest:
        head0, seen0 = forth_four(work, c0 + s, head0, seen0, t0 + s)
        tail2 = back_four(work, e2 - s, tail2, j2 - s)
        head1, seen1 = forth_four(work, c1 + s, head1, seen1, t1 + s)
        tail3 = back_four(work, e3 - s, tail3, j3 - s)
        fetch(work, c0 + s, c0 + r0 + s + U(1) - n)
        fetch(work, c1 + s, c1 + r1 + s + U(1) - n)
        s += U(4)
    while s < size:
        if s < r0:
            head0, seen0 = forth(work, c0 + s, U(1), head0, seen0, t0 + s)
        if s < r1:
            head1, seen1 = forth(work, c1 + s, U(1), head1, seen1, t1 + s)
        if s < r2:
            tail2 = back(work, e2 - s, U(1), tail2, j2 - s)
        if s < r3:
            tail3 = back(work, e3 - s, U(1), tail3, j3 - s)
        s += U(1)
    starts[x], starts[x + U(1)] = c0 + r0, c1 + r1
    numbers[x] = close_block(work, k0, head0, b0)
    numbers[x + U(1)] = close_block(work, k1, head1, b1)
    return seen0 + seen1


def ramp(values: Any, outs: Any, end: Any) -> None:
    """Emit the windows that begin with the first row and end before row `end`."""
    acc = lift_at(values, U(0))
    emit(outs, U(0), acc, U(1))
    for i in range(U(1), end):
        acc = combine(acc, lift_at(values, i))
        emit(outs, i, acc, i + U(1))


@entry
def roll_rows(values: Any, outs: Any, n: Any, lo: Any, hi: Any, at: Stretches) -> Any:
    """Emit the windows of n rows that end in rows [lo, hi); lo is a multiple of n - 1.

    Returns True if a plain form met a NaN: its results are then wrong, and the caller runs the exact
    form. (watch adds rows to `seen`; in other forms it does nothing.)
    """
    if n == U(1):
        for i in range(lo, hi):
            emit(outs, i, lift_at(values, i), n)
        return False
    period = n - U(1)
    if lo == U(0):
        lo = min(period, hi)
        ramp(values, outs, lo)
    seen = 0.0
    for i in range(max(lo, period) - period, lo):
        seen = watch(seen, values, i)
    if lo == hi or seen != seen:
        return seen != seen
    q = (period + at.size - U(1)) // at.size
    work = Work(values, outs, Grid(n, at.size, q), at)
    each = ((hi - lo) // period * q + (hi - lo) % period // at.size) // U(STRETCHES)
    for i in range(U(STRETCHES)):
        at.starts[i] = lo + i * each // q * period + i * each % q * at.size
        at.numbers[i] = i * each % q
    if q > U(1):
        begin(work)
    for i in range(U(2) if each > U(0) else U(0)):
        one_back(work, i)
    for turn in range(U(2) * each):  # two stretches go forward while the two others go back
        x = turn % U(2) * U(2)
        seen += two_forth_two_back(work, x, U(2) - x)
        if seen != seen:
            return True
    while at.starts[LAST] < hi:
        one_back(work, U(LAST))
        seen += one_forth(work, hi)
    return seen != seen
