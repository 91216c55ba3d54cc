"""Slices whose edges are the same for all keys: rows to groups, groups to slices, slices to windows.

Compiled by `loops.py`. A slice is a row of meta: 0 where it starts, 1 how many rows it has, 2 how many of
them came late since the last report, and where a plan needs it 3 and 4 the times of its first and last
row, 5 whether its partials must be folded anew. A group is the rows of one batch that share key and
slice: found[g] = key, start, rows, late rows, first and last time, number of its first row.
"""
# ruff: noqa: F821
# mypy: ignore-errors

from typing import Any


def first_end(size: Any, every: Any, origin: Any, after: Any) -> Any:
    """Return the first end after a time of windows that repeat."""
    shift = origin + size
    return (after - shift) // every * every + every + shift


def slice_starts(measure: Any, edges: Any, out: Any) -> None:
    """Find the edge at or before each row; the next edge is one comparison away."""
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
                a = 0
                b = last
                while a < b:
                    middle = (a + b + 1) // 2
                    if edges[middle] <= t:
                        a = middle
                    else:
                        b = middle - 1
                j = a
            lo = edges[j]
            hi = edges[j + 1]
        out[i] = lo


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


def group_rows(
    keys: Any,
    starts: Any,
    measure: Any,
    times: Any,
    after: Any,
    stride: Any,
    table: Any,
    group: Any,
    found: Any,
) -> Any:
    """Give each row the number of its group; `table` is an empty hash table of a power of two slots."""
    mask = len(table) - 1
    count = 0
    g = -1
    for i in range(len(keys)):
        k = keys[i]
        s = starts[i]
        if g < 0 or found[g, 1] != s or found[g, 0] != k:
            h = U(k) * U(0x9E3779B97F4A7C15) + U(s) * U(0xC2B2AE3D27D4EB4F)
            slot = np.int64((h ^ (h >> U(29))) & U(mask))
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


def place_groups(
    found: Any,
    count: Any,
    meta: Any,
    head: Any,
    length: Any,
    due: Any,
    dirty: Any,
    windows: Any,
    log: Any,
) -> Any:
    """Put each group into its slice, or a new one, and write down what was done."""
    n = 0
    timed = meta.shape[1] > 3
    for g in range(count):
        k = found[g, 0]
        s = found[g, 1]
        h = head[k]
        tail = h + length[k]
        p = tail - 1
        if p >= h and meta[p, 0] > s:
            p = find(meta, h, p, s + 1) - 1
        if p >= h and meta[p, 0] == s:
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
            if p < tail:
                log[n, 0] = 4
                log[n, 1] = p
                log[n, 2] = tail
                n += 1
                for i in range(tail, p, -1):
                    for c in range(meta.shape[1]):
                        meta[i, c] = meta[i - 1, c]
            length[k] += 1
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


def reported_before(meta: Any, lo: Any, hi: Any) -> Any:
    """Whether the slices had rows when their windows were last due."""
    for p in range(lo, hi):
        if meta[p, 1] > meta[p, 2]:
            return True
    return False


def write(
    out: Any, n: Any, k: Any, d: Any, start: Any, end: Any, lo: Any, hi: Any, kind: Any
) -> None:
    """Write down a window: key, definition, bounds, slices [lo, hi), 0 result 1 update 3 empty."""
    out[n, 0] = k
    out[n, 1] = d
    out[n, 2] = start
    out[n, 3] = end
    out[n, 4] = lo
    out[n, 5] = hi
    out[n, 6] = kind


def fill_locator(meta: Any, h: Any, tail: Any, locator: Any) -> Any:
    """Note for even steps of the measure the first slice that is not before; return steps per unit.

    Where many kinds of windows look for slices in one run, each look is then a step or two.
    """
    steps = len(locator) - 1
    first = meta[h, 0]
    per_unit = float(steps) / (float(meta[tail - 1, 0] - first) + 1.0)
    p = h
    for j in range(steps + 1):
        while p < tail and float(meta[p, 0] - first) * per_unit < float(j):
            p += 1
        locator[j] = p
    return per_unit


def locate(meta: Any, h: Any, tail: Any, t: Any, locator: Any, per_unit: Any) -> Any:
    """Return the first place in [h, tail) whose start is not before t, from a note near it."""
    if t <= meta[h, 0]:
        return h
    j = float(t - meta[h, 0]) * per_unit
    if j >= float(len(locator) - 1):
        p = locator[len(locator) - 1]
    else:
        p = locator[int(j)]
    while p < tail and meta[p, 0] < t:
        p += 1
    while p > h and meta[p - 1, 0] >= t:
        p -= 1
    return p


def every_end(
    meta: Any,
    h: Any,
    tail: Any,
    window: Any,
    after: Any,
    upto: Any,
    k: Any,
    d: Any,
    out: Any,
    n: Any,
    locator: Any,
    per_unit: Any,
) -> Any:
    """Write down the windows with after < end <= upto that have slices; -1 if they do not fit."""
    size, every, origin = window
    e = first_end(size, every, origin, max(after, meta[h, 0]))
    lo = h
    hi = h
    while e <= upto:
        if every >= size and hi > h and e - size <= meta[hi - 1, 0] + every:
            lo = find(meta, hi, tail, e - size)
        elif per_unit > 0.0:
            lo = locate(meta, h, tail, e - size, locator, per_unit)
        else:
            lo = find(meta, lo, tail, e - size)
        if lo == tail:
            break
        if meta[lo, 0] >= e:
            e = first_end(size, every, origin, meta[lo, 0])
            continue
        if per_unit > 0.0:
            hi = locate(meta, h, tail, e, locator, per_unit)
        else:
            hi = find(meta, max(lo, hi), tail, e)
        if n == len(out):
            return -1
        write(out, n, k, d, e - size, e, lo, hi, 0)
        n += 1
        e += every
    return n


def next_change(meta: Any, tail: Any, window: Any, lo: Any, hi: Any) -> Any:
    """Return the first end at which slice `hi` enters or slice `lo` leaves the window [lo, hi)."""
    size, every, origin = window
    e = 9223372036854775807
    if hi < tail:
        e = first_end(size, every, origin, meta[hi, 0])
    if lo < hi:
        e = min(e, first_end(size, every, origin, meta[lo, 0] + size))
    return e


def changed_ends(
    meta: Any,
    h: Any,
    tail: Any,
    window: Any,
    after: Any,
    upto: Any,
    k: Any,
    d: Any,
    out: Any,
    n: Any,
    forced: Any,
    kind: Any,
) -> Any:
    """Write down the windows with after < end <= upto at which a slice enters or leaves.

    If `forced`, the first of them is written down in any case. Returns (windows, the first change behind
    upto), (-1, ...) if they do not fit.
    """
    size, every, origin = window
    e = first_end(size, every, origin, max(after, meta[h, 0] - 1))
    lo = find(meta, h, tail, e - every - size)
    hi = find(meta, lo, tail, e - every)
    if not forced:
        e = next_change(meta, tail, window, lo, hi)
    while e <= upto:
        lo = find(meta, lo, tail, e - size)
        hi = find(meta, max(lo, hi), tail, e)
        if n == len(out):
            return -1, e
        write(out, n, k, d, e - size, e, lo, hi, kind)
        n += 1
        e = next_change(meta, tail, window, lo, hi)
    return n, e


def late_ends(
    meta: Any,
    p: Any,
    h: Any,
    tail: Any,
    window: Any,
    past: Any,
    upto: Any,
    k: Any,
    d: Any,
    out: Any,
    n: Any,
) -> Any:
    """Write down the windows with past < end <= upto that late rows have changed; -1 if no space."""
    size, every, origin = window
    last = past
    lo = h
    hi = h
    while p < tail and meta[p, 0] < upto:
        if meta[p, 2] > 0:
            s = meta[p, 0]
            e = first_end(size, every, origin, max(s, last))
            while e <= upto and e - size <= s:
                lo = find(meta, lo, tail, e - size)
                hi = find(meta, max(lo, hi), tail, e)
                if n == len(out):
                    return -1
                write(out, n, k, d, e - size, e, lo, hi, 1 if reported_before(meta, lo, hi) else 0)
                n += 1
                last = e
                e += every
        p += 1
    return n


def listed_ends(
    meta: Any, h: Any, tail: Any, listed: Any, after: Any, upto: Any, k: Any, out: Any, n: Any
) -> Any:
    """Write down the windows of a list (definition, start, end, late) that are due; -1 if no space."""
    for j in range(len(listed)):
        start = listed[j, 1]
        end = listed[j, 2]
        late = listed[j, 3]
        if (end > upto or end <= after) if late == 0 else (end > after):
            continue
        lo = find(meta, h, tail, start)
        hi = find(meta, lo, tail, end)
        if lo == hi:
            continue
        kind = 0
        if late:
            fresh = False
            for p in range(lo, hi):
                fresh = fresh or meta[p, 2] > 0
            if not fresh:
                continue
            kind = 1 if reported_before(meta, lo, hi) else 0
        if n == len(out):
            return -1
        write(out, n, k, listed[j, 0], start, end, lo, hi, kind)
        n += 1
    return n


def report_grid(
    first_key: Any,
    keys: Any,
    meta: Any,
    head: Any,
    length: Any,
    due: Any,
    dirty: Any,
    after: Any,
    upto: Any,
    past: Any,
    keep: Any,
    stride: Any,
    windows: Any,
    listed: Any,
    changes: Any,
    out: Any,
    locator: Any,
) -> Any:
    """Write down the windows that are due, key by key from first_key, and drop the slices none needs.

    past is the end up to which windows cannot change any more, keep the start from which slices are
    needed. Returns (the key to go on with, how many windows); a key whose windows do not fit is not begun.
    """
    n = 0
    for k in range(first_key, keys):
        u = upto[k * stride]
        if due[k] > u:
            continue
        h = head[k]
        tail = h + length[k]
        begin = n
        pending = False
        wake = 9223372036854775807
        if h < tail:
            a = after[k * stride]
            per_unit = 0.0
            if len(windows) > 8 and tail - h > 32:
                per_unit = fill_locator(meta, h, tail, locator)
            for d in range(len(windows)):
                window = (windows[d, 0], windows[d, 1], windows[d, 2])
                if changes:
                    late = dirty[k] < a
                    if late:
                        low = max(past[k * stride], dirty[k])
                        n, e = changed_ends(meta, h, tail, window, low, a, k, d, out, n, True, 1)
                    if n >= 0:
                        n, e = changed_ends(meta, h, tail, window, a, u, k, d, out, n, late, 0)
                        wake = min(wake, e)
                        if late and first_end(window[0], window[1], window[2], a) > u:
                            pending = True
                else:
                    if dirty[k] < a:
                        p = find(meta, h, tail, dirty[k])
                        n = late_ends(meta, p, h, tail, window, past[k * stride], a, k, d, out, n)
                    if n >= 0:
                        n = every_end(meta, h, tail, window, a, u, k, d, out, n, locator, per_unit)
                    if meta[tail - 1, 0] + window[0] > u:
                        e = first_end(window[0], window[1], window[2], max(u, meta[h, 0]))
                        wake = min(wake, e)
                if n < 0:
                    return k, begin
            if len(listed) > 0:
                n = listed_ends(meta, h, tail, listed, a, u, k, out, n)
                if n < 0:
                    return k, begin
        if dirty[k] != 9223372036854775807 and not pending:
            for p in range(find(meta, h, tail, dirty[k]), tail):
                meta[p, 2] = 0
            dirty[k] = 9223372036854775807
        kept = find(meta, h, tail, keep[k * stride])
        length[k] -= kept - h
        head[k] = kept
        if kept < tail:
            wake = min(wake, meta[kept, 0] + (u - keep[k * stride]) + 1)
        due[k] = wake
    return keys, n


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


def rank_rows(keys: Any, next_rank: Any, ranks: Any) -> None:
    """Number each key's rows from next_rank[key] on, which is moved forward."""
    for i in range(len(keys)):
        k = keys[i]
        ranks[i] = next_rank[k]
        next_rank[k] += 1


def first_fall(keys: Any, times: Any, last: Any) -> Any:
    """Return the first row that is before its key's last one, -1 if there is none."""
    for i in range(len(keys)):
        k = keys[i]
        if times[i] < last[k]:
            return i
        last[k] = times[i]
    return -1
