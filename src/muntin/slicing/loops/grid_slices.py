"""Slices whose edges are the same for all keys: rows to groups, groups to slices."""

from typing import Any

import numpy as np

from muntin.kernels.loops.instructions import U, entry
from muntin.kernels.loops.slice_log import ADD, CLOSE, JOIN, LATE, NEW
from muntin.slicing.limits import ALWAYS, NEVER
from muntin.slicing.loops.arena_moves import find, log_step, open_place
from muntin.slicing.tables import (
    GROUP_FIRST,
    GROUP_KEY,
    GROUP_LAST,
    GROUP_LATE,
    GROUP_ROW,
    GROUP_ROWS,
    GROUP_START,
    PERIOD_EVERY,
    PERIOD_ORIGIN,
    PERIOD_SIZE,
    REFOLDED_SLICE,
    SLICE_FIRST,
    SLICE_LAST,
    SLICE_LATE,
    SLICE_ROWS,
    SLICE_STALE,
    SLICE_START,
    STALE_END,
    STALE_FIRST,
    STALE_KEY,
    STALE_PLACE,
    TIMED_SLICE,
    BatchRows,
    HashTable,
    KeyTimes,
    KnownEdges,
    Runs,
)

FEW_WINDOWS = 4
"""For more definitions it costs too much to find out when a new slice is due."""


def first_end(size: Any, every: Any, origin: Any, after: Any) -> Any:
    """Return the first end after a time of windows that repeat."""
    shift = origin + size
    return (after - shift) // every * every + every + shift


@entry
def ordered_edges(steps: Any, offsets: Any, lo: Any, hi: Any, cells: Any, edges: Any) -> Any:
    """Write the last edge up to lo and those in (lo, hi], in order and each once; return how many.

    Edges are k * step + offset. They are dealt into cells of the stretch, which are zeros at first and
    about as many as edges, so that little remains to be sorted.
    """
    edges[0] = (lo - offsets[0]) // steps[0] * steps[0] + offsets[0]
    per_unit = float(len(cells) - 1) / (float(hi - lo) + 1.0)
    for j in range(len(steps)):
        first = (lo - offsets[j]) // steps[j]
        edges[0] = max(edges[0], first * steps[j] + offsets[j])
        for k in range(first + 1, (hi - offsets[j]) // steps[j] + 1):
            cells[int(float(k * steps[j] + offsets[j] - lo) * per_unit)] += 1
    dealt = 1
    for cell in range(len(cells)):
        cells[cell], dealt = dealt, dealt + cells[cell]
    for j in range(len(steps)):
        first = (lo - offsets[j]) // steps[j]
        for k in range(first + 1, (hi - offsets[j]) // steps[j] + 1):
            cell = int(float(k * steps[j] + offsets[j] - lo) * per_unit)
            edges[cells[cell]] = k * steps[j] + offsets[j]
            cells[cell] += 1
    count = 1
    for p in range(1, dealt):
        edge = edges[p]
        at = count
        while edges[at - 1] > edge:
            at -= 1
        if edges[at - 1] < edge:
            for i in range(count, at, -1):
                edges[i] = edges[i - 1]
            edges[at] = edge
            count += 1
    return count


@entry
def slice_starts(measure: Any, edges: Any, guide: Any, out: Any) -> None:
    """Find the edge at or before each row; the next edge is one comparison away.

    For rows that jump, guide[i] is filled with the last edge at or before the i-th even step.
    """
    steps = len(guide) - 1
    span = edges[len(edges) - 2] - edges[0] + 1
    per_unit = float(steps) / float(span)
    g = 0
    for i in range(steps + 1):
        while g < len(edges) - 2 and float(edges[g + 1] - edges[0]) * per_unit <= float(i):
            g += 1
        guide[i] = g
    j = 0
    last = len(edges) - 2
    lo = edges[0]
    hi = edges[1]
    for i in range(len(measure)):
        t = measure[i]
        if t < lo or t >= hi:
            if t >= hi and j < last and t < edges[j + 2]:
                j += 1
            else:
                j = guide[min(int(float(t - edges[0]) * per_unit), steps)]
                while j < last and edges[j + 1] <= t:
                    j += 1
                while edges[j] > t:
                    j -= 1
            lo = edges[j]
            hi = edges[j + 1]
        out[i] = lo


def edge_before(edges: Any, t: Any) -> Any:
    """Return the last edge at or before a time; the first of them is not behind it."""
    a = 0
    b = len(edges)
    while b - a > 1:
        middle = (a + b) // 2
        if edges[middle] <= t:
            a = middle
        else:
            b = middle
    return edges[a]


@entry
def cut_rows(measure: Any, edges: Any, rows: Any) -> None:
    """Find the first row at or behind each edge; both are in order."""
    a = 0
    n = len(measure)
    for j in range(len(edges)):
        edge = edges[j]
        step = 1
        b = a
        while b < n and measure[b] < edge:
            a = b + 1
            b += step
            step *= 2
        b = min(b, n)
        while a < b:
            middle = (a + b) // 2
            if measure[middle] < edge:
                a = middle + 1
            else:
                b = middle
        rows[j] = a


def begin_group(found: Any, g: Any, key: Any, start: Any, t: Any, row: Any) -> None:
    """Write a group that has no rows yet; `t` and `row` are those of its first."""
    found[g, GROUP_KEY] = key
    found[g, GROUP_START] = start
    found[g, GROUP_ROWS] = 0
    found[g, GROUP_LATE] = 0
    found[g, GROUP_FIRST] = t
    found[g, GROUP_LAST] = t
    found[g, GROUP_ROW] = row


def add_row(found: Any, g: Any, t: Any, late: Any) -> None:
    """Count a row of a time into its group."""
    found[g, GROUP_ROWS] += 1
    if late:
        found[g, GROUP_LATE] += 1
    found[g, GROUP_FIRST] = min(found[g, GROUP_FIRST], t)
    found[g, GROUP_LAST] = max(found[g, GROUP_LAST], t)


@entry
def group_rows(
    rows: BatchRows, after: Any, stride: Any, hashing: HashTable, group: Any, found: Any
) -> Any:
    """Find the groups of a batch and the group of each row; return the number of groups.

    after[key * stride] is the end up to which windows of a key were reported: rows before it are late.
    Where a row is looked up depends on a secret, so that nobody can choose times that collide.
    """
    keys, starts, measure, times = rows
    table, secret = hashing
    mask = len(table) - 1
    count = 0
    g = -1
    for i in range(len(keys)):
        k = keys[i]
        s = starts[i]
        if g < 0 or found[g, GROUP_START] != s or found[g, GROUP_KEY] != k:
            h = U(k) * secret[0] + U(s) * secret[1]
            h = (h ^ (h >> U(32))) * secret[2]
            slot = np.int64((h >> U(32)) & U(mask))
            g = table[slot] - 1
            while g >= 0 and (found[g, GROUP_KEY] != k or found[g, GROUP_START] != s):
                slot = (slot + 1) & mask
                g = table[slot] - 1
            if g < 0:
                g = count
                count += 1
                table[slot] = count
                begin_group(found, g, k, s, times[i], i)
        group[i] = g
        add_row(found, g, times[i], measure[i] < after[k * stride])
    return count


@entry
def group_few(
    rows: BatchRows, after: Any, stride: Any, known: KnownEdges, group: Any, found: Any
) -> Any:
    """Do what `group_rows` does for so few rows that groups are compared one by one.

    Slices begin at `known` edges, and rows.starts is not read. If a row is not between them, return -1.
    """
    keys, _, measure, times = rows
    edges, lo, hi = known
    count = 0
    for i in range(len(keys)):
        t = measure[i]
        if t < lo or t > hi:
            return -1
        s = edge_before(edges, t)
        g = count - 1
        while g >= 0 and (found[g, GROUP_KEY] != keys[i] or found[g, GROUP_START] != s):
            g -= 1
        if g < 0:
            g = count
            count += 1
            begin_group(found, g, keys[i], s, times[i], i)
        group[i] = g
        add_row(found, g, times[i], t < after[keys[i] * stride])
    return count


def next_due(periods: Any, start: Any) -> Any:
    """Return when a key with a new slice is due at the earliest; ALWAYS if that costs too much."""
    if len(periods) == 0 or len(periods) > FEW_WINDOWS:
        return ALWAYS
    e = NEVER
    for d in range(len(periods)):
        size, every = periods[d, PERIOD_SIZE], periods[d, PERIOD_EVERY]
        e = min(e, first_end(size, every, periods[d, PERIOD_ORIGIN], start))
    return e


def add_to_slice(table: Any, p: Any, found: Any, g: Any) -> Any:
    """Count a group into the slice at place p; return the step that partials have to follow."""
    step = ADD
    if table.shape[1] >= TIMED_SLICE:
        if found[g, GROUP_FIRST] < table[p, SLICE_LAST]:
            step = LATE
            if table.shape[1] >= REFOLDED_SLICE:
                table[p, SLICE_STALE] = 1
        table[p, SLICE_FIRST] = min(table[p, SLICE_FIRST], found[g, GROUP_FIRST])
        table[p, SLICE_LAST] = max(table[p, SLICE_LAST], found[g, GROUP_LAST])
    table[p, SLICE_ROWS] += found[g, GROUP_ROWS]
    table[p, SLICE_LATE] += found[g, GROUP_LATE]
    return step


def new_slice(table: Any, p: Any, found: Any, g: Any) -> None:
    """Write a slice that consists of a group."""
    table[p, SLICE_START] = found[g, GROUP_START]
    table[p, SLICE_ROWS] = found[g, GROUP_ROWS]
    table[p, SLICE_LATE] = found[g, GROUP_LATE]
    if table.shape[1] >= TIMED_SLICE:
        table[p, SLICE_FIRST] = found[g, GROUP_FIRST]
        table[p, SLICE_LAST] = found[g, GROUP_LAST]
    if table.shape[1] >= REFOLDED_SLICE:
        table[p, SLICE_STALE] = 0


@entry
def place_groups(
    found: Any, order: Any, runs: Runs, times: KeyTimes, periods: Any, log: Any
) -> Any:
    """Put each group into its slice, or a new one; return the number of steps in the log.

    Groups are taken in the given order, or as they are if there is none.
    """
    table, head, length = runs
    due, dirty, first, last = times
    n = 0
    for i in range(len(found)):
        g = order[i] if len(order) > 0 else i
        k = found[g, GROUP_KEY]
        s = found[g, GROUP_START]
        h = head[k]
        tail = h + length[k]
        p = tail - 1
        start = last[k]
        if p >= h and start > s:
            p = find(table, h, p, s + 1) - 1
            start = table[max(p, h), SLICE_START]
        if p >= h and start == s:
            n = log_step(log, n, add_to_slice(table, p, found, g), p, g)
        else:
            p += 1
            n = open_place(table, p, tail, log, n)
            length[k] += 1
            if p == h:
                first[k] = s
            if p == tail:
                last[k] = s
            due[k] = min(due[k], next_due(periods, s))
            new_slice(table, p, found, g)
            n = log_step(log, n, NEW, p, g)
        if found[g, GROUP_LATE] > 0:
            dirty[k] = min(dirty[k], s)
            due[k] = ALWAYS
    return n


@entry
def stale_slices(keys: Any, runs: Runs, out: Any) -> Any:
    """Write the slices that must be folded again, and mark them as folded; return how many."""
    table, head, length = runs
    n = 0
    for j in range(len(keys)):
        k = keys[j]
        tail = head[k] + length[k]
        for p in range(head[k], tail):
            if table[p, SLICE_STALE] > 0:
                if n == len(out):
                    return -1
                out[n, STALE_KEY] = k
                out[n, STALE_PLACE] = p
                out[n, STALE_FIRST] = table[p, SLICE_FIRST]
                out[n, STALE_END] = table[p, SLICE_LAST] + 1
                n += 1
    for j in range(n):
        table[out[j, STALE_PLACE], SLICE_STALE] = 0
    return n


@entry
def last_before(keys: Any, runs: Runs, time: Any, stride: Any, out: Any) -> None:
    """Find for each key the start of its last slice that has a row before time[key * stride]."""
    table, head, length = runs
    for k in range(keys):
        p = head[k] + length[k] - 1
        while p >= head[k] and table[p, SLICE_FIRST] >= time[k * stride]:
            p -= 1
        if p >= head[k]:
            out[k] = table[p, SLICE_START]


@entry
def rank_rows(keys: Any, next_rank: Any, ranks: Any) -> None:
    """Number the rows of each key from next_rank[key] on, which moves forward."""
    for i in range(len(keys)):
        k = keys[i]
        ranks[i] = next_rank[k]
        next_rank[k] += 1


@entry
def first_fall(keys: Any, times: Any, last: Any) -> Any:
    """Return the first row that is before the last one of its key, or -1."""
    for i in range(len(keys)):
        k = keys[i]
        if times[i] < last[k]:
            return i
        last[k] = times[i]
    return -1


def starts_between(periods: Any, a: Any, b: Any) -> Any:
    """Whether a window starts in (a, b]."""
    found = False
    for d in range(len(periods)):
        every = periods[d, PERIOD_EVERY]
        origin = periods[d, PERIOD_ORIGIN]
        found = found or (a - origin) // every != (b - origin) // every
    return found


@entry
def closed_slices(lo: Any, hi: Any, ends: Any, table: Any, periods: Any, closed: Any) -> None:
    """Find for each window of slices at places [lo, hi) those that will not be joined with later ones.

    They are at [lo, closed): all up to the last start of any window that is not behind the end.
    """
    for k in range(len(lo)):
        p = hi[k]
        if not starts_between(periods, table[p - 1, SLICE_START], ends[k]):
            p -= 1
            while p > lo[k] and not starts_between(
                periods, table[p - 1, SLICE_START], table[p, SLICE_START]
            ):
                p -= 1
        closed[k] = p


@entry
def join_slices(keys: Any, runs: Runs, periods: Any, first: Any, log: Any, owners: Any) -> Any:
    """Join neighbouring slices between which no window starts, from keys[first] on.

    Return (the key to go on with, steps in the log); a key for which the log is too short is not begun.
    owners[n] is the key of step n.
    """
    table, head, length = runs
    n = 0
    for j in range(first, len(keys)):
        k = keys[j]
        p = head[k]
        tail = p + length[k]
        if n + 2 * length[k] > len(log):
            return j, n
        while p + 1 < tail:
            if starts_between(periods, table[p, SLICE_START], table[p + 1, SLICE_START]):
                p += 1
                continue
            owners[n] = k
            n = log_step(log, n, JOIN, p, p + 1)
            owners[n] = k
            n = log_step(log, n, CLOSE, p + 1, tail)
            table[p, SLICE_ROWS] += table[p + 1, SLICE_ROWS]
            table[p, SLICE_LATE] += table[p + 1, SLICE_LATE]
            tail -= 1
            for q in range(p + 1, tail):
                for c in range(table.shape[1]):
                    table[q, c] = table[q + 1, c]
        length[k] = tail - head[k]
    return len(keys), n
