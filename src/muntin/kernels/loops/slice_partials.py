"""Slices: rows folded into partials, partials merged into slices, slices merged into windows.

Partials of slices are in one array per field, at places; the slices of a key are neighbours. `base` is
where place 0 is in the arrays: after the inner nodes of a tree for an eager store, else 0. Numbers run
compiled, objects interpreted (`slice_kernels`).
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import U, entry, leading_zeros
from muntin.kernels.loops.loop_arguments import Spans, Suffixes
from muntin.kernels.loops.object_partials import (
    combine,
    declined,
    emit,
    lift_at,
    load,
    store,
    without,
)
from muntin.kernels.loops.slice_log import (
    ADD,
    CLOSE,
    JOIN,
    LATE,
    LOG_OTHER,
    LOG_PLACE,
    LOG_STEP,
    NEW,
    OPEN,
)


class Shifts(NamedTuple):
    """Slices that move back over kept rows."""

    places: Any  # per slice: its place
    firsts: Any  # per slice: its first kept row after the move
    afters: Any  # per slice: the kept row after its last, after the move
    by: Any  # per slice: how many rows it moves


class Table(NamedTuple):
    """Partials from which any run of slices is one combine (`build_table`)."""

    partials: Any  # `width` per row, one row per bit of `width`
    width: Any  # at least the number of slices of any key


@entry
def fold_spans(values: Any, lo: Any, hi: Any, partials: Any, place: Any, base: Any) -> None:
    """Store at place[j] the aggregate of rows [lo[j], hi[j])."""
    for j in range(len(lo)):
        i = U(lo[j])
        end = U(hi[j])
        acc = lift_at(values, i)
        i += U(1)
        while i < end:
            acc = combine(acc, lift_at(values, i))
            i += U(1)
        store(partials, base + U(place[j]), acc)


@entry
def fold_groups(values: Any, group: Any, first: Any, partials: Any) -> None:
    """Store the aggregate of each group's rows, in row order; first[g] is the first row of group g."""
    for i in range(len(group)):
        g = U(group[i])
        v = lift_at(values, U(i))
        if first[g] == i:
            store(partials, g, v)
        else:
            store(partials, g, combine(load(partials, g), v))


@entry
def merge_spans(rows: Any, lo: Any, hi: Any, partials: Any, place: Any, base: Any) -> None:
    """Store at place[j] the aggregate of the kept rows [lo[j], hi[j])."""
    for j in range(len(lo)):
        i = U(lo[j])
        end = U(hi[j])
        acc = load(rows, i)
        i += U(1)
        while i < end:
            acc = combine(acc, load(rows, i))
            i += U(1)
        store(partials, base + U(place[j]), acc)


@entry
def shift_spans(rows: Any, partials: Any, base: Any, shifts: Shifts, undone: Any) -> None:
    """Move slices back by `by` kept rows, to rows [a, b): [a, a + by) enter, [b, b + by) leave.

    EDBT 2019, Figure 6: the inverse removes the rows that leave, so the slice is not folded again.
    Where the inverse declines, the slice stays and undone[j] is set.
    """
    place, a, b, shift = shifts
    for j in range(len(place)):
        at = base + U(place[j])
        acc = load(partials, at)
        for i in range(shift[j]):
            if not undone[j]:
                acc = without(acc, load(rows, U(b[j] + i)))
                undone[j] = declined(acc)
        for i in range(shift[j]):
            if not undone[j]:
                acc = combine(acc, load(rows, U(a[j] + i)))
        if not undone[j]:
            store(partials, at, acc)


def replay_step(log: Any, j: Any, parts: Any, partials: Any, base: Any, in_order_only: Any) -> None:
    """Repeat one step of the log."""
    step = log[j, LOG_STEP]
    a = base + U(log[j, LOG_PLACE])
    b = U(log[j, LOG_OTHER])
    if step == NEW:
        store(partials, a, load(parts, b))
    elif step == ADD or (step == LATE and not in_order_only):
        store(partials, a, combine(load(partials, a), load(parts, b)))
    elif step == JOIN:
        store(partials, a, combine(load(partials, a), load(partials, base + b)))
    elif step == OPEN:
        i = base + b
        while i > a:
            store(partials, i, load(partials, i - U(1)))
            i -= U(1)
    elif step == CLOSE:
        i = a + U(1)
        while i < base + b:
            store(partials, i - U(1), load(partials, i))
            i += U(1)


@entry
def replay(log: Any, steps: Any, parts: Any, partials: Any, base: Any, in_order_only: Any) -> None:
    """Repeat on the partials the changes that the log says of the slices (`slice_log`).

    With `in_order_only`, for aggregates that are not commutative, a late part is skipped: the caller
    folds the slice again from kept rows.
    """
    for j in range(steps):
        replay_step(log, j, parts, partials, base, in_order_only)


def flip_slices(partials: Any, base: Any, s: Any, e: Any, suffixes: Suffixes) -> None:
    """Store the aggregates from each slice of [s, e) to its end; the boundary is then at e."""
    buffer, mask = suffixes
    i = e - U(1)
    tail = load(partials, base + i)
    store(buffer, i & mask, tail)
    while i > s:
        i -= U(1)
        tail = combine(load(partials, base + i), tail)
        store(buffer, i & mask, tail)


@entry
def query_spans(partials: Any, base: Any, spans: Spans, outs: Any, suffixes: Suffixes) -> Any:
    """Emit the windows of `spans`, which are over slices, by boundary aggregation.

    Return the number of combines.

    No window is empty. Among the windows of one key and kind neither starts nor ends fall, and each
    slice is combined at most three times for all of them. Where one falls, the boundary starts again.
    """
    lo, hi = spans
    buffer, mask = suffixes
    s = e = boundary = U(0)
    combines = U(0)
    acc = load(partials, base + U(lo[0]))
    for k in range(len(lo)):
        start = U(lo[k])
        end = U(hi[k])
        if start < s or start >= e or end < e:
            e = boundary = start
        s = start
        while e < end:
            v = load(partials, base + e)
            acc = v if e == boundary else combine(acc, v)
            combines += U(e != boundary)
            e += U(1)
        if s >= boundary:
            combines += e - s - U(1)
            flip_slices(partials, base, s, e, suffixes)
            boundary = e
        p = load(buffer, s & mask)
        combines += U(boundary != e)
        emit(outs, k, p if boundary == e else combine(p, acc), e - s)
    return combines


@entry
def query_folds(partials: Any, base: Any, lo: Any, hi: Any, outs: Any) -> None:
    """Emit the slices [lo[k], hi[k]) of each window k by a fold; windows share nothing."""
    for k in range(len(lo)):
        i = base + U(lo[k])
        end = base + U(hi[k])
        acc = load(partials, i)
        i += U(1)
        while i < end:
            acc = combine(acc, load(partials, i))
            i += U(1)
        emit(outs, k, acc, hi[k] - lo[k])


def update_tree(partials: Any, base: Any, a: Any, b: Any, lo: Any, hi: Any) -> None:
    """Combine the nodes above the leaves [a, b) again, as far as all their leaves are in [lo, hi).

    VLDB 2015: FlatFAT. Leaf p is node base + p and node i has the children 2i and 2i + 1: base is a
    power of two that no place reaches.
    """
    first = base + lo
    end = base + hi
    i = base + a
    j = base + b
    while end - first > U(1) and j > i:
        first = (first + U(1)) >> U(1)
        end = end >> U(1)
        i = max(i >> U(1), first)
        j = min((j + U(1)) >> U(1), end)
        k = i
        while k < j:
            store(
                partials, k, combine(load(partials, k << U(1)), load(partials, (k << U(1)) | U(1)))
            )
            k += U(1)


@entry
def update_trees(partials: Any, base: Any, a: Any, b: Any, lo: Any, hi: Any) -> None:
    """Update the tree above each run k of changed leaves [a[k], b[k]) of a key's [lo[k], hi[k])."""
    for k in range(len(a)):
        update_tree(partials, base, U(a[k]), U(b[k]), U(lo[k]), U(hi[k]))


def query_node(partials: Any, base: Any, lo: Any, hi: Any, outs: Any, k: Any) -> Any:
    """Emit the leaves [lo, hi): one node per level from either side, the older on the left.

    Return the number of combines.
    """
    nodes = U(0)
    i = base + lo
    j = base + hi
    rows = hi - lo
    left = load(partials, i)
    right = load(partials, j - U(1))
    some_left = False
    some_right = False
    while i < j:
        nodes += (i & U(1)) + (j & U(1))
        if i & U(1):
            v = load(partials, i)
            left = combine(left, v) if some_left else v
            some_left = True
            i += U(1)
        if j & U(1):
            j -= U(1)
            v = load(partials, j)
            right = combine(v, right) if some_right else v
            some_right = True
        i = i >> U(1)
        j = j >> U(1)
    if some_left and some_right:
        emit(outs, k, combine(left, right), rows)
    else:
        emit(outs, k, left if some_left else right, rows)
    return nodes - U(1)


@entry
def query_tree(partials: Any, base: Any, lo: Any, hi: Any, outs: Any) -> Any:
    """Emit the slices [lo[k], hi[k]) of each window k from the tree; return the combines."""
    combines = U(0)
    for k in range(len(lo)):
        combines += query_node(partials, base, U(lo[k]), U(hi[k]), outs, k)
    return combines


def build_table(partials: Any, base: Any, lo: Any, n: Any, into: Table) -> Any:
    """Fill a table from which any run of the n slices from lo on is one combine of two entries.

    Return the number of combines.

    Row l of the table cuts the slices at odd multiples of 2^l, and has at each place the aggregate
    between it and the cut in its block of 2^(l + 1): suffixes on the left, prefixes on the right.
    """
    table, width = into
    combines = U(0)
    l = U(0)
    half = U(1)
    while half < n:
        row = l * width
        cut = half
        while cut < n:
            combines += half - U(1) + min(cut + half, n) - cut - U(1)
            i = cut - U(1)
            acc = load(partials, base + lo + i)
            store(table, row + i, acc)
            while i > cut - half:
                i -= U(1)
                acc = combine(load(partials, base + lo + i), acc)
                store(table, row + i, acc)
            i = cut
            acc = load(partials, base + lo + i)
            store(table, row + i, acc)
            i += U(1)
            while i < min(cut + half, n):
                acc = combine(acc, load(partials, base + lo + i))
                store(table, row + i, acc)
                i += U(1)
            cut += U(2) * half
        half *= U(2)
        l += U(1)
    return combines


@entry
def query_table(partials: Any, base: Any, spans: Spans, outs: Any, cuts: Any, into: Table) -> Any:
    """Emit the windows of `spans`, which are over slices, from one table per key.

    Key c has the windows [cuts[c], cuts[c + 1]). Return the number of combines.
    """
    combines = U(0)
    lo, hi = spans
    table, width = into
    for c in range(len(cuts) - 1):
        least = U(lo[cuts[c]])
        most = U(hi[cuts[c]])
        for k in range(cuts[c], cuts[c + 1]):
            least = min(least, U(lo[k]))
            most = max(most, U(hi[k]))
        combines += build_table(partials, base, least, most - least, into)
        for k in range(cuts[c], cuts[c + 1]):
            i = U(lo[k]) - least
            j = U(hi[k]) - least - U(1)
            if i == j:
                emit(outs, k, load(partials, base + least + i), U(1))
            else:
                row = (U(63) - U(leading_zeros(i ^ j))) * width
                combines += U(1)
                emit(outs, k, combine(load(table, row + i), load(table, row + j)), j - i + U(1))
    return combines
