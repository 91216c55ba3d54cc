"""Runs of slices or rows side by side in one arena: the loops that make room in it.

They know nothing of aggregates. The items of run k are at places head[k] to head[k] + length[k] of the
arena, within the room that it has: places base[k] to base[k] + room[k].
"""

from typing import Any

from muntin.kernels.loops.instructions import entry
from muntin.kernels.loops.kept_windows import E, F
from muntin.kernels.loops.slice_log import ADD, LATE, LOG_OTHER, LOG_PLACE, LOG_STEP, NEW, OPEN
from muntin.slicing.tables import (
    MOVE_FROM,
    MOVE_ITEMS,
    MOVE_TO,
    ROW_PLACE,
    ROW_TIME,
    SLICE_START,
    Rooms,
    Runs,
)


def count_keys(items: Any, more: Any, keys: Any) -> Any:
    """Count the items per key in more[key], which was 0; write each key once and return how many."""
    count = 0
    for i in range(len(items)):
        k = items[i]
        if more[k] == 0:
            keys[count] = k
            count += 1
        more[k] += 1
    return count


def wider(need: Any, room: Any) -> Any:
    """Return the room for a run of `need` items that has come to the end of its room.

    A run that leaves a third of its room free can move down in it; else it gets twice its length.
    """
    return max(4, 2 * need) if 3 * need > 2 * room else room


@entry
def claim_room(
    items: Any, keys: Any, counted: Any, rooms: Rooms, top: Any, places: Any, moves: Any
) -> Any:
    """Give each run room behind its last for the items of its key; wider rooms are at the top.

    Return (how many keys, each written once; the arena's new top; how many runs move). If the arena has
    too few places, no room is given, and the number of moves is -1; the next call is told how many keys
    are `counted`. more[key] is 0 before and afterwards.
    """
    head, length, base, room, more, moved, drift = rooms
    if counted == 0:
        counted = count_keys(items, more, keys)
    wanted = top
    for j in range(counted):
        k = keys[j]
        need = length[k] + more[k]
        if head[k] + need > base[k] + room[k] and wider(need, room[k]) > room[k]:
            wanted += wider(need, room[k])
    if wanted > places:
        return counted, top, -1
    count = 0
    for j in range(counted):
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
            moves[count, MOVE_FROM] = head[k]
            moves[count, MOVE_TO] = base[k]
            moves[count, MOVE_ITEMS] = length[k]
            count += 1
        drift[k] += base[k] - head[k]
        head[k] = base[k]
    return counted, top, count


@entry
def widen_rooms(keys: Any, rooms: Rooms) -> None:
    """Widen the room of each run that has no room for more[key] items, wherever it will lie."""
    head, length, base, room, more, _, _ = rooms
    for j in range(len(keys)):
        k = keys[j]
        need = length[k] + more[k]
        if head[k] + need > base[k] + room[k]:
            room[k] = wider(need, room[k])


@entry
def move_runs(source: Any, target: Any, moves: Any) -> None:
    """Move blocks of items from one arena to another or within one, one block after the other.

    Within an arena a run moves down in its room or into an empty room, so a block is never overwritten
    before it has moved.
    """
    for j in range(len(moves)):
        a = moves[j, MOVE_FROM]
        b = moves[j, MOVE_TO]
        for i in range(moves[j, MOVE_ITEMS]):
            for c in range(source.shape[1]):
                target[b + i, c] = source[a + i, c]


@entry
def insert_rows(runs: Runs, keys: Any, new: Any, bounds: Any, cut: Any, moves: Any) -> Any:
    """Merge rows that are sorted by key and time into their runs, behind rows of equal time.

    `bounds` are (lo, hi): rows lo[j] to hi[j] of `new` belong to run keys[j], which has room for them.
    Return the number of moves, which are to be done at once. Column ROW_PLACE of `new` becomes the place
    of each row; cut[j] is the number of items that the run has before the first new row.
    """
    table, head, length = runs
    lo, hi = bounds
    width = table.shape[1]
    count = 0
    for j in range(len(keys)):
        k = keys[j]
        old = head[k] + length[k] - 1
        at = old + hi[j] - lo[j]
        i = hi[j] - 1
        while i >= lo[j]:
            t = new[i, ROW_TIME]
            while old >= head[k] and table[old, ROW_TIME] > t:
                moves[count, MOVE_FROM] = old
                moves[count, MOVE_TO] = at
                count += 1
                for c in range(width):
                    table[at, c] = table[old, c]
                old -= 1
                at -= 1
            for c in range(width):
                table[at, c] = new[i, c]
            new[i, ROW_PLACE] = at
            at -= 1
            i -= 1
        cut[j] = old + 1 - head[k]
        length[k] += hi[j] - lo[j]
    return count


def find(table: Any, lo: Any, hi: Any, t: Any) -> Any:
    """Return the first place in [lo, hi) whose start is not before t.

    Look at either end, then where t would be if starts were even, and around it in doubling steps.
    """
    for _ in range(2):
        if lo >= hi or table[lo, SLICE_START] >= t:
            return lo
        lo += 1
    a = lo
    if hi - lo > 8:
        if table[hi - 1, SLICE_START] < t:
            return hi
        first = table[lo, SLICE_START]
        share = float(t - first) / float(table[hi - 1, SLICE_START] - first + 1)
        a = max(lo, min(hi - 1, lo + int(share * (hi - lo))))
        step = 1
        while a > lo and table[a - 1, SLICE_START] >= t:
            hi = a
            a = max(lo, a - step)
            step *= 2
    step = 1
    while a < hi and table[a, SLICE_START] < t:
        lo = a + 1
        a += step
        step *= 2
    hi = min(a, hi)
    while lo < hi:
        middle = (lo + hi) // 2
        if table[middle, SLICE_START] < t:
            lo = middle + 1
        else:
            hi = middle
    return lo


@entry
def find_all(table: Any, lo: Any, hi: Any, t: Any, out: Any) -> None:
    """Find each t[j] among the places lo[j] to hi[j]."""
    for j in range(len(t)):
        out[j] = find(table, lo[j], hi[j], t[j])


@entry
def cut_runs(table: Any, head: Any, length: Any, keys: Any, since: Any, cut: Any) -> Any:
    """Find how many items of each run start before since[j]; return how many do not, in all runs."""
    items = 0
    for j in range(len(keys)):
        h = head[keys[j]]
        tail = h + length[keys[j]]
        cut[j] = find(table, h, tail, since[j]) - h
        items += tail - h - cut[j]
    return items


def log_step(log: Any, n: Any, step: Any, place: Any, other: Any) -> Any:
    """Write a step into the log that partials follow; return the number of steps."""
    log[n, LOG_STEP] = step
    log[n, LOG_PLACE] = place
    log[n, LOG_OTHER] = other
    return n + 1


def open_place(table: Any, p: Any, tail: Any, log: Any, n: Any) -> Any:
    """Move the slices at [p, tail) up by one place, and log that."""
    if p == tail:
        return n
    for q in range(tail, p, -1):
        for c in range(table.shape[1]):
            table[q, c] = table[q - 1, c]
    return log_step(log, n, OPEN, p, tail)


@entry
def slots_behind(marks: Any, kinds: Any, head: Any, drift: Any, chosen: Any, upto: Any) -> Any:
    """Find the slots whose windows [marks[slot, F], marks[slot, E]) have slices before their runs.

    Slot number // kinds is its key. Write each slot and the number of the first slice of its run; return
    how many.
    """
    n = 0
    for slot in range(len(marks)):
        first = head[slot // kinds] - drift[slot // kinds]
        if marks[slot, F] < first and marks[slot, F] < marks[slot, E]:
            chosen[n] = slot
            upto[n] = first
            n += 1
    return n


@entry
def note_reach(keys: Any, hi: Any, drift: Any, reach: Any) -> None:
    """Note in reach[key] the number behind the last slice of any window [.., hi) of a key."""
    for k in range(len(keys)):
        key = keys[k]
        reach[key] = max(reach[key], hi[k] - drift[key])


@entry
def disturbs(log: Any, steps: Any, keys: Any, drift: Any, reach: Any) -> Any:
    """Whether the log changes a slice of a window of which something is kept.

    keys[g] is the key of part g, reach[key] behind the last slice of its windows.
    """
    for j in range(steps):
        step = log[j, LOG_STEP]
        if step in (NEW, ADD, LATE):
            key = keys[log[j, LOG_OTHER]]
            if log[j, LOG_PLACE] - drift[key] < reach[key]:
                return True
    return False
