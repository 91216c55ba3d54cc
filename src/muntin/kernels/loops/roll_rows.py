"""Windows of n rows over whole arrays: boundary aggregation (KDD 2021: SBA) on two levels.

As in `drivers.py`, these functions are written out into generated modules. Rows are cut into periods of
n - 1 rows and periods into blocks. A window that ends in a block begins in the block one period before:

    |....|..xx|xxxx|xxxx||xxxx|x...|....|....|      tail: the old block from each row to its end (lcs)
            tail between      head                  head: the new block from its start to each row (csa)

The blocks between are two partials again: blocks to the end of the old period, blocks since the start
of the new one. They go into the first tail of a block, so that a row costs three combines at any n, and
what is kept per row is as long as a block and stays in a near cache.

grid is (n, rows of a block, blocks of a period). A chain of combines is as slow as one combine is long,
so four stretches of the rows are worked on at once; stretch i is at block numbers[i] of a period, which
starts at row starts[i]. Its share of `blocks` holds, being at block k: in j > k the old blocks from j
on, in j < k the new block j, and after them the new blocks before k.
"""

from typing import Any

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


def back(values: Any, i: Any, rows: Any, tail: Any, tails: Any, j: Any) -> Any:
    """Store the tails of `rows` rows, from row i downwards."""
    for s in range(rows):
        tail = combine(lift_at(values, i - s), tail)
        store(tails, j - s, tail)
    return tail


def forth(
    values: Any, outs: Any, n: Any, i: Any, rows: Any, head: Any, seen: Any, tails: Any, j: Any
) -> Any:
    """Emit the windows that end in `rows` rows, from row i upwards."""
    for s in range(rows):
        head = combine(head, lift_at(values, i + s))
        seen = watch(seen, values, i + s)
        emit(outs, i + s, combine(load(tails, j + s), head), n)
    return head, seen


def back_four(values: Any, i: Any, tail: Any, tails: Any, j: Any) -> Any:
    """Store the tails of four rows, from row i downwards, at once."""
    a = combine(lift_at(values, i), tail)
    b = combine(lift_at(values, i - U(1)), a)
    c = combine(lift_at(values, i - U(2)), b)
    d = combine(lift_at(values, i - U(3)), c)
    store_four(tails, j - U(3), d, c, b, a)
    return d


def forth_four(
    values: Any, outs: Any, n: Any, i: Any, head: Any, seen: Any, tails: Any, j: Any
) -> Any:
    """Emit the windows that end in four rows, from row i upwards, at once."""
    a = combine(head, lift_at(values, i))
    b = combine(a, lift_at(values, i + U(1)))
    c = combine(b, lift_at(values, i + U(2)))
    d = combine(c, lift_at(values, i + U(3)))
    for s in range(U(4)):
        seen = watch(seen, values, i + s)
    before = load(tails, j), load(tails, j + U(1)), load(tails, j + U(2)), load(tails, j + U(3))
    w, x = combine(before[0], a), combine(before[1], b)
    y, z = combine(before[2], c), combine(before[3], d)
    emit_four(outs, i, w, x, y, z, n)
    return d, seen


def fetch(values: Any, outs: Any, i: Any, old: Any) -> None:
    """Tell the processor which rows and results come soon, and which old rows go back next."""
    read_soon(values[0], i + U(256))
    write_soon(outs[0], i + U(256))
    read_soon(values[0], old)


def last_tail(
    values: Any, grid: Any, i: Any, k: Any, tails: Any, j: Any, blocks: Any, b: Any
) -> Any:
    """Store the tail of an old block's last row, which goes on through the blocks between."""
    _, _, q = grid
    tail = lift_at(values, i)
    if q > U(1):
        if k == U(0):
            between = load(blocks, b + U(1))
        elif k + U(1) == q:
            between = load(blocks, b + q)
        else:
            between = combine(load(blocks, b + k + U(1)), load(blocks, b + q))
        tail = combine(tail, between)
    store(tails, j, tail)
    return tail


def first_head(values: Any, outs: Any, n: Any, c: Any, tails: Any, j: Any) -> Any:
    """Emit the window that ends in a block's first row."""
    head = lift_at(values, c)
    emit(outs, c, combine(load(tails, j), head), n)
    return head, watch(0.0, values, c)


def rows_of(grid: Any, k: Any) -> Any:
    """Return the rows of block k: the last of a period may be shorter."""
    n, size, _ = grid
    return min(size, n - U(1) - k * size)


def close_block(grid: Any, k: Any, head: Any, blocks: Any, b: Any) -> Any:
    """Keep the aggregate of new block k and return the next; new blocks become old after the last."""
    _, _, q = grid
    if q == U(1):
        return k
    store(blocks, b + k, head)
    if k + U(1) < q:
        store(blocks, b + q, combine(load(blocks, b + q), head) if k > U(0) else head)
        return k + U(1)
    sum_old(grid, U(0), blocks, b)
    return U(0)


def sum_old(grid: Any, k: Any, blocks: Any, b: Any) -> None:
    """Add up the blocks after block k from the end of the period."""
    _, _, q = grid
    j = q - U(1)
    while j > k + U(1):
        j -= U(1)
        store(blocks, b + j, combine(load(blocks, b + j), load(blocks, b + j + U(1))))


def block_before(grid: Any, j: Any, c: Any, k: Any) -> Any:
    """Return the first row of block j, the last one before block k, which starts at row c."""
    n, size, _ = grid
    return c + j * size - k * size - (n - U(1) if j >= k else U(0))


def begin(values: Any, grid: Any, starts: Any, numbers: Any, blocks: Any) -> None:
    """Aggregate the blocks of one period before each stretch."""
    _, _, q = grid
    share = q + U(1)
    for i in range(U(4)):
        for j in range(q):
            first = block_before(grid, j, starts[i], numbers[i])
            acc = lift_at(values, first)
            for s in range(U(1), rows_of(grid, j)):
                acc = combine(acc, lift_at(values, first + s))
            store(blocks, i * share + j, acc)
        for j in range(numbers[i]):
            close_block(grid, j, load(blocks, i * share + j), blocks, i * share)
        sum_old(grid, numbers[i], blocks, i * share)


def one_back(
    values: Any, grid: Any, i: Any, starts: Any, numbers: Any, tails: Any, blocks: Any
) -> None:
    """Store the tails for the block that stretch i is at."""
    n, size, q = grid
    c, k = starts[i], numbers[i]
    rows = rows_of(grid, k)
    e, j = c + rows - n, i * size + rows - U(1)
    tail = last_tail(values, grid, e, k, tails, j, blocks, i * (q + U(1)))
    back(values, e - U(1), rows - U(1), tail, tails, j - U(1))


def one_forth(
    values: Any, outs: Any, grid: Any, hi: Any, starts: Any, numbers: Any, tails: Any, blocks: Any
) -> Any:
    """Emit the block that the last stretch is at, up to row hi."""
    n, size, q = grid
    c, k, t = starts[3], numbers[3], U(3) * size
    rows = min(rows_of(grid, k), hi - c)
    head, seen = first_head(values, outs, n, c, tails, t)
    head, seen = forth(values, outs, n, c + U(1), rows - U(1), head, seen, tails, t + U(1))
    numbers[3] = close_block(grid, k, head, blocks, U(3) * (q + U(1)))
    starts[3] = c + rows
    return seen


def two_forth_two_back(
    values: Any,
    outs: Any,
    grid: Any,
    x: Any,
    y: Any,
    starts: Any,
    numbers: Any,
    tails: Any,
    blocks: Any,
) -> Any:
    """Emit a block of stretches x and x + 1, and store tails for y and y + 1: four chains at once."""
    n, size, q = grid
    c0, c1, c2, c3 = starts[x], starts[x + U(1)], starts[y], starts[y + U(1)]
    k0, k1, k2, k3 = numbers[x], numbers[x + U(1)], numbers[y], numbers[y + U(1)]
    r0, r1, r2, r3 = rows_of(grid, k0), rows_of(grid, k1), rows_of(grid, k2), rows_of(grid, k3)
    t0, t1 = x * size, (x + U(1)) * size
    b0, b2 = x * (q + U(1)), y * (q + U(1))
    b1, b3 = b0 + q + U(1), b2 + q + U(1)
    e2, e3 = c2 + r2 - n, c3 + r3 - n
    j2, j3 = y * size + r2 - U(1), (y + U(1)) * size + r3 - U(1)
    tail2 = last_tail(values, grid, e2, k2, tails, j2, blocks, b2)
    tail3 = last_tail(values, grid, e3, k3, tails, j3, blocks, b3)
    head0, seen0 = first_head(values, outs, n, c0, tails, t0)
    head1, seen1 = first_head(values, outs, n, c1, tails, t1)
    s, shortest = U(1), min(min(r0, r1), min(r2, r3))
    while s + U(4) <= shortest:
        head0, seen0 = forth_four(values, outs, n, c0 + s, head0, seen0, tails, t0 + s)
        tail2 = back_four(values, e2 - s, tail2, tails, j2 - s)
        head1, seen1 = forth_four(values, outs, n, c1 + s, head1, seen1, tails, t1 + s)
        tail3 = back_four(values, e3 - s, tail3, tails, j3 - s)
        fetch(values, outs, c0 + s, c0 + r0 + s + U(1) - n)
        fetch(values, outs, c1 + s, c1 + r1 + s + U(1) - n)
        s += U(4)
    while s < size:
        if s < r0:
            head0, seen0 = forth(values, outs, n, c0 + s, U(1), head0, seen0, tails, t0 + s)
        if s < r1:
            head1, seen1 = forth(values, outs, n, c1 + s, U(1), head1, seen1, tails, t1 + s)
        if s < r2:
            tail2 = back(values, e2 - s, U(1), tail2, tails, j2 - s)
        if s < r3:
            tail3 = back(values, e3 - s, U(1), tail3, tails, j3 - s)
        s += U(1)
    starts[x], starts[x + U(1)] = c0 + r0, c1 + r1
    numbers[x] = close_block(grid, k0, head0, blocks, b0)
    numbers[x + U(1)] = close_block(grid, k1, head1, blocks, b1)
    return seen0 + seen1


def ramp(values: Any, outs: Any, end: Any) -> None:
    """Emit the windows that begin with the first row."""
    acc = lift_at(values, U(0))
    emit(outs, U(0), acc, U(1))
    for i in range(U(1), end):
        acc = combine(acc, lift_at(values, i))
        emit(outs, i, acc, i + U(1))


@entry
def roll_rows(
    values: Any,
    outs: Any,
    n: Any,
    lo: Any,
    hi: Any,
    size: Any,
    starts: Any,
    numbers: Any,
    tails: Any,
    blocks: Any,
) -> Any:
    """Emit the windows of n rows that end in rows [lo, hi); lo is a multiple of n - 1.

    Returns True if a plain form met a NaN (watch adds rows to `seen`, in other forms it does nothing):
    the results are then not to be used.
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
    q = (period + size - U(1)) // size
    grid = (n, size, q)
    each = ((hi - lo) // period * q + (hi - lo) % period // size) // U(4)
    for i in range(U(4)):
        starts[i] = lo + i * each // q * period + i * each % q * size
        numbers[i] = i * each % q
    if q > U(1):
        begin(values, grid, starts, numbers, blocks)
    for i in range(U(2) if each > U(0) else U(0)):
        one_back(values, grid, i, starts, numbers, tails, blocks)
    for turn in range(U(2) * each):  # two stretches go forward while the two others go back
        x = turn % U(2) * U(2)
        seen += two_forth_two_back(values, outs, grid, x, U(2) - x, starts, numbers, tails, blocks)
        if seen != seen:
            return True
    while starts[3] < hi:
        one_back(values, grid, U(3), starts, numbers, tails, blocks)
        seen += one_forth(values, outs, grid, hi, starts, numbers, tails, blocks)
    return seen != seen
