"""Slices to windows: which windows are due, and which slices each of them is merged of.

Compiled by `loops.py`; slices are as in `grid_loops.py`. A window is written down as a row of out: key,
definition, start, end, slices [lo, hi), and what it is (0 result, 1 update or looked at again).
"""

from typing import Any

from muntin.kernels.loops.instructions import entry
from muntin.slicing.loops.arena_moves import find
from muntin.slicing.loops.grid_slices import first_end


def reported_before(meta: Any, lo: Any, hi: Any) -> Any:
    """Whether the slices had rows when their windows were last due."""
    found = False
    for p in range(lo, hi):
        found = found or meta[p, 1] > meta[p, 2]
    return found


def write(
    out: Any, n: Any, k: Any, d: Any, start: Any, end: Any, lo: Any, hi: Any, kind: Any
) -> None:
    """Write down a window."""
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
    p = locator[min(int(j), len(locator) - 1)]
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
    last = e - size - 1
    while e <= upto:
        if e - size == last:  # it begins where the one before ended
            lo = hi
        elif per_unit > 0.0:
            lo = locate(meta, h, tail, e - size, locator, per_unit)
        else:
            lo = find(meta, hi if every >= size else lo, tail, e - size)
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
        last = e
        e += every
    return n


def even_places(first: Any, t: Any, step: Any) -> Any:
    """Return how many of the slices at first, first + step, ... begin before t."""
    return 0 if t <= first else (t - first - 1) // step + 1


def even_ends(
    h: Any,
    tail: Any,
    first: Any,
    last: Any,
    step: Any,
    window: Any,
    after: Any,
    upto: Any,
    k: Any,
    d: Any,
    out: Any,
    n: Any,
) -> Any:
    """Do what every_end does for a run that has a slice at every step: where it is, is arithmetic."""
    size, every, origin = window
    e = first_end(size, every, origin, max(after, first))
    while e <= upto and e - size <= last:
        if n == len(out):
            return -1
        lo = h + even_places(first, e - size, step)
        hi = tail if e > last else h + even_places(first, e, step)
        write(out, n, k, d, e - size, e, lo, hi, 0)
        n += 1
        e += every
    return n


def report_even_key(
    h: Any,
    tail: Any,
    first: Any,
    last: Any,
    step: Any,
    k: Any,
    after: Any,
    upto: Any,
    windows: Any,
    out: Any,
    n: Any,
) -> Any:
    """Do what report_key does for a key that has a slice at every step and no late rows."""
    wake = 9223372036854775807
    for d in range(len(windows)):
        window = (windows[d, 0], windows[d, 1], windows[d, 2])
        n = even_ends(h, tail, first, last, step, window, after, upto, k, d, out, n)
        if n < 0:
            break
        if last + window[0] > upto:
            wake = min(wake, first_end(*window, max(upto, first)))
    return n, wake


def drop_even(k: Any, step: Any, upto: Any, keep: Any, head: Any, length: Any, first: Any) -> Any:
    """Drop the slices of such a key before `keep`; return when there will be more to drop."""
    dropped = min(length[k], even_places(first[k], keep, step))
    head[k] += dropped
    length[k] -= dropped
    first[k] += dropped * step
    return first[k] + (upto - keep) + 1 if length[k] > 0 else 9223372036854775807


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
    while e <= upto and e < 9223372036854775807:
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


def report_key(
    meta: Any,
    h: Any,
    tail: Any,
    k: Any,
    late_from: Any,
    after: Any,
    upto: Any,
    past: Any,
    windows: Any,
    changes: Any,
    out: Any,
    n: Any,
    locator: Any,
) -> Any:
    """Write down one key's windows that are due or changed.

    Returns (windows in all, -1 if they do not fit; when the key is due again; whether a change by late
    rows cannot be told yet).
    """
    wake = 9223372036854775807
    pending = False
    late = late_from < after
    per_unit = 0.0
    if len(windows) > 8 and tail - h > 32:
        per_unit = fill_locator(meta, h, tail, locator)
    for d in range(len(windows)):
        size, every, origin = windows[d, 0], windows[d, 1], windows[d, 2]
        window = (size, every, origin)
        if changes:
            if late:
                low = max(past, late_from)
                n, e = changed_ends(meta, h, tail, window, low, after, k, d, out, n, True, 1)
            if n >= 0:
                n, e = changed_ends(meta, h, tail, window, after, upto, k, d, out, n, late, 0)
                wake = min(wake, e)
                pending = pending or (late and first_end(size, every, origin, after) > upto)
        else:
            if late:
                p = find(meta, h, tail, late_from)
                n = late_ends(meta, p, h, tail, window, past, after, k, d, out, n)
            if n >= 0:
                n = every_end(meta, h, tail, window, after, upto, k, d, out, n, locator, per_unit)
            if meta[tail - 1, 0] + size > upto:
                wake = min(wake, first_end(size, every, origin, max(upto, meta[h, 0])))
        if n < 0:
            break
    return n, wake, pending


@entry
def report_grid(
    first_key: Any,
    keys: Any,
    meta: Any,
    head: Any,
    length: Any,
    due: Any,
    dirty: Any,
    first: Any,
    last: Any,
    after: Any,
    upto: Any,
    past: Any,
    keep: Any,
    stride: Any,
    windows: Any,
    step: Any,
    listed: Any,
    changes: Any,
    out: Any,
    locator: Any,
) -> Any:
    """Write down the windows that are due, key by key from first_key, and drop slices none needs.

    past is the end up to which windows cannot change any more, keep the start from which slices are
    needed. If there is a step, starts of slices differ by multiples of it, and a run that has one at
    each is known by its first and last: its slices are not looked at. Returns (the key to go on with,
    windows); a key whose windows do not fit is not begun.
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
        a = after[k * stride]
        even = step > 0 and h < tail and last[k] - first[k] == step * (tail - h - 1)
        if even and dirty[k] == 9223372036854775807:
            bounds = (first[k], last[k], step, k, a, u)
            n, wake = report_even_key(h, tail, *bounds, windows, out, n)
            if n < 0:
                return k, begin
            due[k] = min(wake, drop_even(k, step, u, keep[k * stride], head, length, first))
            continue
        if h < tail:
            times = (dirty[k], a, u, past[k * stride])
            n, wake, pending = report_key(
                meta, h, tail, k, *times, windows, changes, out, n, locator
            )
            if n >= 0 and len(listed) > 0:
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
            first[k] = meta[kept, 0]
            wake = min(wake, first[k] + (u - keep[k * stride]) + 1)
        due[k] = wake
    return keys, n
