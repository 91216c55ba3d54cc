"""Sessions as slices: each slice is one session, extended and joined as rows come.

Compiled by `loops.py`. A session is a row of meta: 0 its first time, 1 its rows, 2 whether it changed
since it was reported, 3 and 4 its first and last time, 5 whether its partials must be folded anew, 6
whether it was reported. A group is the rows of a batch that one key's session surely shares: found[g] =
key, nothing, rows, nothing, first time, last time, number of its first row.
"""

from typing import Any

from muntin.kernels.loops.instructions import entry
from muntin.slicing.loops.arena_moves import note, open_place
from muntin.slicing.loops.grid_reports import write


@entry
def group_sessions(keys: Any, times: Any, gap: Any, current: Any, group: Any, found: Any) -> Any:
    """Give each row the number of its group; current[k] is -1 for every key before."""
    count = 0
    for i in range(len(keys)):
        k = keys[i]
        t = times[i]
        g = current[k]
        if g < 0 or t < found[g, 4] - gap or t > found[g, 5] + gap:
            g = count
            count += 1
            current[k] = g
            found[g, 0] = k
            found[g, 2] = 0
            found[g, 4] = t
            found[g, 5] = t
            found[g, 6] = i
        group[i] = g
        found[g, 2] += 1
        found[g, 4] = min(found[g, 4], t)
        found[g, 5] = max(found[g, 5], t)
    return count


def join_sessions(
    meta: Any,
    a: Any,
    p: Any,
    tail: Any,
    k: Any,
    g: Any,
    found: Any,
    log: Any,
    n: Any,
    gone: Any,
    lost: Any,
) -> Any:
    """Make one session of those at [a, p] and the group g; those reported with other bounds are gone."""
    first = min(found[g, 4], meta[a, 3])
    last = max(found[g, 5], meta[p, 4])
    same = a == p and first == meta[a, 3] and last == meta[a, 4]
    late = found[g, 4] < meta[a, 4] or (a < p and found[g, 5] >= meta[a + 1, 3])
    stale = 1 if late else meta[a, 5]
    rows = meta[a, 1] + found[g, 2]
    n = note(log, n, 2 if late else 1, a, g)
    for r in range(a, p + 1):
        if meta[r, 6] == 1 and not same:
            gone[lost, 0] = k
            gone[lost, 1] = meta[r, 3]
            gone[lost, 2] = meta[r, 4]
            lost += 1
        if r > a:
            rows += meta[r, 1]
            stale = max(stale, meta[r, 5])
            n = note(log, n, 3, a, a + 1)
            n = note(log, n, 5, a + 1, tail - (r - a - 1))
    for i in range(p + 1, tail):
        for c in range(7):
            meta[i - (p - a), c] = meta[i, c]
    meta[a, 0] = first
    meta[a, 1] = rows
    meta[a, 2] = 1
    meta[a, 3] = first
    meta[a, 4] = last
    meta[a, 5] = stale
    meta[a, 6] = 1 if same and meta[a, 6] == 1 else 0
    return n, lost


@entry
def place_sessions(
    first_group: Any,
    count: Any,
    found: Any,
    gap: Any,
    meta: Any,
    head: Any,
    length: Any,
    due: Any,
    log: Any,
    gone: Any,
) -> Any:
    """Put each group into the sessions it touches, which become one; write down what was done.

    gone[j] = (key, first, last) of a reported session that is no more. Returns (the group to go on
    with, steps in the log, sessions gone); a group that needs more space is not begun.
    """
    n = 0
    lost = 0
    for g in range(first_group, count):
        k = found[g, 0]
        first = found[g, 4]
        last = found[g, 5]
        h = head[k]
        tail = h + length[k]
        p = tail - 1
        while p >= h and meta[p, 0] > last + gap:
            p -= 1
        a = p + 1
        while a > h and meta[a - 1, 4] >= first - gap:
            a -= 1
        if n + 2 * (p - a) + 4 > len(log) or lost + p - a + 1 > len(gone):
            return g, n, lost
        due[k] = -9223372036854775808
        if a > p:
            n = open_place(meta, a, tail, log, n)
            length[k] += 1
            n = note(log, n, 0, a, g)
            for c in range(7):
                meta[a, c] = 0
            meta[a, 0] = first
            meta[a, 1] = found[g, 2]
            meta[a, 3] = first
            meta[a, 4] = last
        else:
            n, lost = join_sessions(meta, a, p, tail, k, g, found, log, n, gone, lost)
            length[k] -= p - a
    return count, n, lost


@entry
def report_sessions(
    first_key: Any,
    keys: Any,
    meta: Any,
    head: Any,
    length: Any,
    due: Any,
    gap: Any,
    upto: Any,
    lateness: Any,
    stride: Any,
    d: Any,
    out: Any,
) -> Any:
    """Write down the sessions that are due or have changed, and drop those no row can reach.

    Returns (the key to go on with, how many sessions); a key whose sessions do not fit is not begun.
    """
    n = 0
    for k in range(first_key, keys):
        u = upto[k * stride]
        if due[k] > u:
            continue
        h = head[k]
        tail = h + length[k]
        if n + tail - h > len(out):
            return k, n
        wake = 9223372036854775807
        for p in range(h, tail):
            end = meta[p, 4] + gap
            if meta[p, 6] == 1:
                if meta[p, 2] == 1:
                    write(out, n, k, d, meta[p, 3], end, p, p + 1, 1)
                    n += 1
            elif end < u:
                write(out, n, k, d, meta[p, 3], end, p, p + 1, 0)
                n += 1
                meta[p, 6] = 1
            else:
                wake = min(wake, end + 1)
            meta[p, 2] = 0
        while h < tail and meta[h, 6] == 1 and meta[h, 4] + 2 * gap + lateness <= u:
            h += 1
        length[k] = tail - h
        head[k] = h
        if h < tail and meta[h, 6] == 1:
            wake = min(wake, meta[h, 4] + 2 * gap + lateness)
        due[k] = wake
    return keys, n
