"""Slices whose edges are the same for all keys: rows to groups, groups to slices.

Compiled by `loops.py`. A slice is a row of meta: 0 where it starts, 1 how many rows it has, 2 how many
of them came late since the last report, and where a plan needs it 3 and 4 the times of its first and
last row, 5 whether its partials must be folded anew. A group is the rows of one batch that share key and
slice: found[g] = key, start, rows, late rows, first and last time, number of its first row.
"""

from typing import Any

import numpy as np

from muntin.kernels.loops.instructions import U, entry
from muntin.slicing.loops.arena_moves import find, note, open_place


def first_end(size: Any, every: Any, origin: Any, after: Any) -> Any:
    """Return the first end after a time of windows that repeat."""
    shift = origin + size
    return (after - shift) // every * every + every + shift


@entry
def ordered_edges(steps: Any, offsets: Any, lo: Any, hi: Any, cells: Any, edges: Any) -> Any:
    """Write down the last edge up to lo and those in (lo, hi], in order and each once; return how many.

    Edges are k * step + offset. They are dealt into cells of the stretch, which are zeros at first and
    about as many as edges, so that next to nothing is left to be put in order.
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


@entry
def group_rows(
    keys: Any,
    starts: Any,
    measure: Any,
    times: Any,
    after: Any,
    stride: Any,
    secret: Any,
    table: Any,
    group: Any,
    found: Any,
) -> Any:
    """Give each row the number of its group; `table` is an empty hash table of a power of two slots.

    Where a row is looked for depends on a secret, so that nobody can choose times that all meet.
    """
    mask = len(table) - 1
    count = 0
    g = -1
    for i in range(len(keys)):
        k = keys[i]
        s = starts[i]
        if g < 0 or found[g, 1] != s or found[g, 0] != k:
            h = U(k) * secret[0] + U(s) * secret[1]
            h = (h ^ (h >> U(32))) * secret[2]
            slot = np.int64((h >> U(32)) & U(mask))
            g = table[slot] - 1
            while g >= 0 and (found[g, 0] != k or found[g, 1] != s):
                slot = (slot + 1) & mask
                g = table[slot] - 1
            if g < 0:
                g = count
                count += 1
                table[slot] = count
                found[g, 0] = k
                found[g, 1] = s
                found[g, 2] = 0
                found[g, 3] = 0
                found[g, 4] = times[i]
                found[g, 5] = times[i]
                found[g, 6] = i
        group[i] = g
        found[g, 2] += 1
        if measure[i] < after[k * stride]:
            found[g, 3] += 1
        found[g, 4] = min(found[g, 4], times[i])
        found[g, 5] = max(found[g, 5], times[i])
    return count


def next_due(windows: Any, start: Any) -> Any:
    """Return when a key with a new slice is due at the earliest; at once if it is much to find out."""
    if len(windows) == 0 or len(windows) > 4:
        return -9223372036854775808
    e = 9223372036854775807
    for d in range(len(windows)):
        e = min(e, first_end(windows[d, 0], windows[d, 1], windows[d, 2], start))
    return e


@entry
def place_groups(
    found: Any,
    order: Any,
    meta: Any,
    head: Any,
    length: Any,
    due: Any,
    dirty: Any,
    first: Any,
    last: Any,
    windows: Any,
    log: Any,
) -> Any:
    """Put each group into its slice, or a new one, and write down what was done.

    Groups are taken in the given order, or as they are if there is none.
    """
    n = 0
    timed = meta.shape[1] > 3
    for i in range(len(found)):
        g = order[i] if len(order) > 0 else i
        k = found[g, 0]
        s = found[g, 1]
        h = head[k]
        tail = h + length[k]
        p = tail - 1
        start = last[k]
        if p >= h and start > s:
            p = find(meta, h, p, s + 1) - 1
            start = meta[max(p, h), 0]
        if p >= h and start == s:
            log[n, 0] = 1
            if timed:
                if found[g, 4] < meta[p, 4]:
                    log[n, 0] = 2
                    if meta.shape[1] > 5:
                        meta[p, 5] = 1
                meta[p, 3] = min(meta[p, 3], found[g, 4])
                meta[p, 4] = max(meta[p, 4], found[g, 5])
            meta[p, 1] += found[g, 2]
            meta[p, 2] += found[g, 3]
        else:
            p += 1
            n = open_place(meta, p, tail, log, n)
            length[k] += 1
            if p == h:
                first[k] = s
            if p == tail:
                last[k] = s
            due[k] = min(due[k], next_due(windows, s))
            log[n, 0] = 0
            meta[p, 0] = s
            meta[p, 1] = found[g, 2]
            meta[p, 2] = found[g, 3]
            if timed:
                meta[p, 3] = found[g, 4]
                meta[p, 4] = found[g, 5]
                if meta.shape[1] > 5:
                    meta[p, 5] = 0
        log[n, 1] = p
        log[n, 2] = g
        n += 1
        if found[g, 3] > 0:
            dirty[k] = min(dirty[k], s)
            due[k] = -9223372036854775808
    return n


@entry
def stale_slices(keys: Any, meta: Any, head: Any, length: Any, out: Any) -> Any:
    """Write down (key, place, start, end) of the slices to fold anew, and mark them folded."""
    n = 0
    for j in range(len(keys)):
        k = keys[j]
        tail = head[k] + length[k]
        for p in range(head[k], tail):
            if meta[p, 5] > 0:
                if n == len(out):
                    return -1
                out[n, 0] = k
                out[n, 1] = p
                out[n, 2] = meta[p, 3]
                out[n, 3] = meta[p, 4] + 1
                n += 1
    for j in range(n):
        meta[out[j, 1], 5] = 0
    return n


@entry
def last_before(
    keys: Any, meta: Any, head: Any, length: Any, time: Any, stride: Any, out: Any
) -> None:
    """Find for each key the start of its last slice that has a row before a time."""
    for k in range(keys):
        p = head[k] + length[k] - 1
        while p >= head[k] and meta[p, 3] >= time[k * stride]:
            p -= 1
        if p >= head[k]:
            out[k] = meta[p, 0]


@entry
def rank_rows(keys: Any, next_rank: Any, ranks: Any) -> None:
    """Number each key's rows from next_rank[key] on, which is moved forward."""
    for i in range(len(keys)):
        k = keys[i]
        ranks[i] = next_rank[k]
        next_rank[k] += 1


@entry
def first_fall(keys: Any, times: Any, last: Any) -> Any:
    """Return the first row that is before its key's last one, -1 if there is none."""
    for i in range(len(keys)):
        k = keys[i]
        if times[i] < last[k]:
            return i
        last[k] = times[i]
    return -1


def starts_between(windows: Any, a: Any, b: Any) -> Any:
    """Whether a window starts in (a, b]."""
    found = False
    for d in range(len(windows)):
        every = windows[d, 1]
        origin = windows[d, 2]
        found = found or (a - origin) // every != (b - origin) // every
    return found


@entry
def join_slices(
    keys: Any, meta: Any, head: Any, length: Any, windows: Any, first: Any, log: Any
) -> Any:
    """Join neighbouring slices between which no window starts, and write down what was done.

    Returns (the key to go on with, steps); a key for which the log is too short is not begun.
    """
    n = 0
    for j in range(first, len(keys)):
        k = keys[j]
        p = head[k]
        tail = p + length[k]
        if n + 2 * length[k] > len(log):
            return j, n
        while p + 1 < tail:
            if starts_between(windows, meta[p, 0], meta[p + 1, 0]):
                p += 1
                continue
            n = note(log, n, 3, p, p + 1)
            n = note(log, n, 5, p + 1, tail)
            meta[p, 1] += meta[p + 1, 1]
            meta[p, 2] += meta[p + 1, 2]
            tail -= 1
            for q in range(p + 1, tail):
                for c in range(meta.shape[1]):
                    meta[q, c] = meta[q + 1, c]
        length[k] = tail - head[k]
    return len(keys), n
