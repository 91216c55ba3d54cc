"""Slices that changed to the windows that hold one of them and are not complete."""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import entry
from muntin.slicing.loops.arena_moves import find
from muntin.slicing.tables import (
    EARLY,
    END,
    FRESH_KEY,
    FRESH_START,
    HI,
    KEY,
    KIND,
    LO,
    PERIOD_EVERY,
    PERIOD_ORIGIN,
    PERIOD_SIZE,
    START,
    WINDOW,
    Runs,
)


class Fresh(NamedTuple):
    """Slices that changed, each once, in the order of keys and starts.

    Windows that end by `after` are complete: that of all keys, or with a stride of 1 that of each.
    """

    slices: Any
    after: Any
    stride: Any


def first_open(fresh: Fresh, i: Any, period: Any) -> Any:
    """Return the number of the first window that is open and holds slice i, but not the one before."""
    key, start = fresh.slices[i, FRESH_KEY], fresh.slices[i, FRESH_START]
    size, every, origin = period[PERIOD_SIZE], period[PERIOD_EVERY], period[PERIOD_ORIGIN]
    number = (max(start, fresh.after[key * fresh.stride]) - origin - size) // every + 1
    if i > 0 and fresh.slices[i - 1, FRESH_KEY] == key:
        number = max(number, (fresh.slices[i - 1, FRESH_START] - origin) // every + 1)
    return number


@entry
def count_open(fresh: Fresh, period: Any) -> Any:
    """Return how many open windows of one definition hold a slice, as a float: it may be very many."""
    count = 0.0
    for i in range(len(fresh.slices)):
        start = fresh.slices[i, FRESH_START]
        last = (start - period[PERIOD_ORIGIN]) // period[PERIOD_EVERY]
        count += max(last - first_open(fresh, i, period) + 1, 0)
    return count


@entry
def report_open(fresh: Fresh, periods: Any, runs: Runs, lines: Any) -> Any:
    """Write the open windows by key, definition and start, with their slices; return their number."""
    slices, count, begin = fresh.slices, 0, 0
    while begin < len(slices):
        key, behind = slices[begin, FRESH_KEY], begin + 1
        while behind < len(slices) and slices[behind, FRESH_KEY] == key:
            behind += 1
        head, tail = runs.head[key], runs.head[key] + runs.length[key]
        for d in range(len(periods)):
            every, origin = periods[d, PERIOD_EVERY], periods[d, PERIOD_ORIGIN]
            for i in range(begin, behind):
                last = (slices[i, FRESH_START] - origin) // every
                for number in range(first_open(fresh, i, periods[d]), last + 1):
                    start = number * every + origin
                    end = start + periods[d, PERIOD_SIZE]
                    lo = find(runs.table, head, tail, start)
                    lines[count, KEY], lines[count, WINDOW], lines[count, KIND] = key, d, EARLY
                    lines[count, START], lines[count, END] = start, end
                    lines[count, LO], lines[count, HI] = lo, find(runs.table, lo, tail, end)
                    count += 1
        begin = behind
    return count
