"""Runs of slices or rows side by side in one arena: the loops that make room in it.

Compiled by `loops.py`; they know nothing of aggregates. Run k has its items at places [head[k],
head[k] + length[k]) of the arena, inside the room [base[k], base[k] + room[k]) that is its own.
"""

from typing import Any

from muntin.kernels.loops.instructions import entry


@entry
def count_keys(items: Any, more: Any, keys: Any) -> Any:
    """Count the items per key in more[key], which was 0, and write the keys down; return how many."""
    count = 0
    for i in range(len(items)):
        k = items[i]
        if more[k] == 0:
            keys[count] = k
            count += 1
        more[k] += 1
    return count


def wider(need: Any, room: Any) -> Any:
    """Return the room of a run with so many items that is at its room's end.

    A run that leaves a third of its room free can move down in it; else it gets twice its length.
    """
    return max(4, 2 * need) if 3 * need > 2 * room else room


@entry
def claim_room(
    keys: Any,
    more: Any,
    base: Any,
    room: Any,
    head: Any,
    length: Any,
    moved: Any,
    top: Any,
    places: Any,
    moves: Any,
) -> Any:
    """Give each run room for more[key] items behind its last; return the arena's new top and the moves.

    Wider rooms are at the top. moves[j] is (from, to, items). more is 0 again after it. If the arena has
    too few places, nothing is done, and instead of moves -1 is returned.
    """
    wanted = top
    for j in range(len(keys)):
        k = keys[j]
        need = length[k] + more[k]
        if head[k] + need > base[k] + room[k] and wider(need, room[k]) > room[k]:
            wanted += wider(need, room[k])
    if wanted > places:
        return top, -1
    count = 0
    for j in range(len(keys)):
        k = keys[j]
        need = length[k] + more[k]
        more[k] = 0
        if head[k] + need <= base[k] + room[k]:
            continue
        size = wider(need, room[k])
        if size > room[k]:
            room[k] = size
            base[k] = top
            top += size
        moved[k] = True
        if length[k] > 0:
            moves[count, 0] = head[k]
            moves[count, 1] = base[k]
            moves[count, 2] = length[k]
            count += 1
        head[k] = base[k]
    return top, count


@entry
def widen_rooms(keys: Any, more: Any, head: Any, base: Any, length: Any, room: Any) -> None:
    """Let each run that has no room for more[key] items have a wider one, wherever it will lie."""
    for j in range(len(keys)):
        k = keys[j]
        need = length[k] + more[k]
        if head[k] + need > base[k] + room[k]:
            room[k] = wider(need, room[k])


@entry
def move_runs(source: Any, target: Any, moves: Any) -> None:
    """Move blocks (from, to, items) of an arena, one after the other, to another or within it.

    Within an arena a run moves down in its room or into a room that is empty: a block is never written
    over before it has moved.
    """
    for j in range(len(moves)):
        a = moves[j, 0]
        b = moves[j, 1]
        for i in range(moves[j, 2]):
            for c in range(source.shape[1]):
                target[b + i, c] = source[a + i, c]


@entry
def insert_rows(
    meta: Any, head: Any, length: Any, keys: Any, new: Any, lo: Any, hi: Any, cut: Any, moves: Any
) -> Any:
    """Merge rows that are sorted by (key, time) into their runs, behind rows of equal time.

    `new` holds the rows' meta data, the time first. Rows [lo[j], hi[j]) are of run keys[j], and there is
    room for them. place[i] is not returned but written over new[i, 1]; cut[j] is how many items the run
    has before the first row that went in. moves[m] is (from, to), all to be done at once.
    """
    width = meta.shape[1]
    count = 0
    for j in range(len(keys)):
        k = keys[j]
        old = head[k] + length[k] - 1
        at = old + hi[j] - lo[j]
        i = hi[j] - 1
        while i >= lo[j]:
            t = new[i, 0]
            while old >= head[k] and meta[old, 0] > t:
                moves[count, 0] = old
                moves[count, 1] = at
                count += 1
                for c in range(width):
                    meta[at, c] = meta[old, c]
                old -= 1
                at -= 1
            for c in range(width):
                meta[at, c] = new[i, c]
            new[i, 1] = at
            at -= 1
            i -= 1
        cut[j] = old + 1 - head[k]
        length[k] += hi[j] - lo[j]
    return count


def find(meta: Any, lo: Any, hi: Any, t: Any) -> Any:
    """Return the first place in [lo, hi) whose start is not before t.

    Looks at either end, then where t would be if starts were even, and around it in doubling steps.
    """
    for _ in range(2):
        if lo >= hi or meta[lo, 0] >= t:
            return lo
        lo += 1
    a = lo
    if hi - lo > 8:
        if meta[hi - 1, 0] < t:
            return hi
        first = meta[lo, 0]
        share = float(t - first) / float(meta[hi - 1, 0] - first + 1)
        a = max(lo, min(hi - 1, lo + int(share * (hi - lo))))
        step = 1
        while a > lo and meta[a - 1, 0] >= t:
            hi = a
            a = max(lo, a - step)
            step *= 2
    step = 1
    while a < hi and meta[a, 0] < t:
        lo = a + 1
        a += step
        step *= 2
    hi = min(a, hi)
    while lo < hi:
        middle = (lo + hi) // 2
        if meta[middle, 0] < t:
            lo = middle + 1
        else:
            hi = middle
    return lo


@entry
def find_all(meta: Any, lo: Any, hi: Any, t: Any, out: Any) -> None:
    """Find each t[j] among the places [lo[j], hi[j])."""
    for j in range(len(t)):
        out[j] = find(meta, lo[j], hi[j], t[j])


def note(log: Any, n: Any, step: Any, a: Any, b: Any) -> Any:
    """Write a step down for the partials to follow; return how many there are."""
    log[n, 0] = step
    log[n, 1] = a
    log[n, 2] = b
    return n + 1


def open_place(meta: Any, p: Any, tail: Any, log: Any, n: Any) -> Any:
    """Move the slices at [p, tail) up by one place, and write that down."""
    if p == tail:
        return n
    for q in range(tail, p, -1):
        for c in range(meta.shape[1]):
            meta[q, c] = meta[q - 1, c]
    return note(log, n, 4, p, tail)
