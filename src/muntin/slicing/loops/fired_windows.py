"""Windows that rows of a key fire: those that are due, and those that late rows changed.

The window of a row ends with it. It begins with the first row that is not too far before: of time, or
along a column. Rows are counted in (time, arrival) order, so a late row shifts the windows of all rows
behind it. Cost: O(new rows, rows behind a late one, rows that leave the windows).

Along a column a row counts with what the column had come to, the greatest value up to it. That takes the
place of its own value in the table, once, when the row is new: later rows may only raise it.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import entry
from muntin.slicing.limits import END_OF_TIME, NEVER
from muntin.slicing.loops.arena_moves import find
from muntin.slicing.loops.last_rows import KeyRows, Marks, RowKeys, next_new
from muntin.slicing.tables import (
    END,
    HI,
    KEY,
    KIND,
    LO,
    RESULT,
    ROW_MEASURE,
    ROW_NEW,
    ROW_TIME,
    START,
    UPDATE,
    WINDOW,
    Runs,
)


class Trigger(NamedTuple):
    """Which windows rows fire."""

    every: Any  # each so manyth row of a key fires one
    size: Any  # how long windows are in time; 0 if they are of a column
    reach: Any  # how far they reach along a column
    at_once: Any  # whether rows fire when they come: none will come before them
    longest: Any  # how long after its time a row may still get another number


def come_to(values: Any, rows: KeyRows) -> None:
    """Give new rows, and those behind them, what the column had come to."""
    for p in range(max(rows.fresh, rows.head + 1), rows.tail):
        values[p, ROW_MEASURE] = max(values[p, ROW_MEASURE], values[p - 1, ROW_MEASURE])


def first_within(table: Any, values: Any, lo: Any, p: Any, trigger: Trigger) -> Any:
    """Return the first row from lo on of the window that row p ends. Cost: O(rows left out)."""
    if trigger.size > 0:
        oldest = table[p, ROW_TIME] - trigger.size
        while table[lo, ROW_TIME] <= oldest:
            lo += 1
        return lo
    now = values[p, ROW_MEASURE]
    while now - values[lo, ROW_MEASURE] >= trigger.reach:
        lo += 1
    return lo


def lower_bound(table: Any, values: Any, rows: KeyRows, p: Any, trigger: Trigger) -> Any:
    """Return the first row of the window that row p ends. Cost: O(log rows)."""
    if trigger.size > 0:
        return find(table, rows.head, p, table[p, ROW_TIME] - trigger.size + 1)
    now, lo, hi = values[p, ROW_MEASURE], rows.head, p
    while lo < hi:
        middle = (lo + hi) // 2
        if now - values[middle, ROW_MEASURE] >= trigger.reach:
            lo = middle + 1
        else:
            hi = middle
    return lo


def fire(
    table: Any, values: Any, key: Any, rows: KeyRows, first_rank: Any, trigger: Trigger, times: Any,
    out: Any,
) -> Any:  # fmt: skip
    """Write the windows of a key from line times[2] on; return how many lines there are, or too many.

    `times` are (after, upto, lines): rows before one were reported, those before the other fire now.
    """
    after, upto, m = times
    reported = rows.tail if trigger.at_once else find(table, rows.head, rows.tail, after)
    stop = rows.tail if trigger.at_once else find(table, reported, rows.tail, upto)
    known = first_rank + reported - rows.head
    for p in range(rows.fresh, reported):
        known -= table[p, ROW_NEW]
    begin = min(rows.fresh, reported)
    rank = first_rank + begin - rows.head
    p = begin + trigger.every - 1 - rank % trigger.every
    if p >= stop:
        return m
    lo = lower_bound(table, values, rows, p, trigger)
    while p < stop:
        if m == len(out):
            return m + 1
        lo = first_within(table, values, lo, p, trigger)
        rank = first_rank + p - rows.head
        out[m, KEY] = key
        out[m, WINDOW] = 0
        out[m, START] = first_rank + lo - rows.head
        out[m, END] = table[p, ROW_TIME] + 1
        out[m, LO] = lo
        out[m, HI] = p + 1
        out[m, KIND] = UPDATE if rank < known else RESULT
        m += 1
        p += trigger.every
    return m


def needless_rows(table: Any, values: Any, rows: KeyRows, final: Any, trigger: Trigger) -> Any:
    """Return how many first rows no window needs any more, if no row comes before a time."""
    if trigger.size > 0:
        oldest = max(final, -END_OF_TIME) - trigger.size
        return find(table, rows.head, rows.tail, oldest + 1) - rows.head
    p = find(table, rows.head, rows.tail, final) - 1
    return max(lower_bound(table, values, rows, p, trigger) - rows.head, 0) if p > rows.head else 0


def next_fired(table: Any, first: Any, rows: KeyRows, bounds: Any, trigger: Trigger) -> Any:
    """Return when a key is looked at again, of which the rows from `first` on are kept.

    `bounds` are the times up to which rows have fired, and before which no row will come.
    """
    upto, final = bounds
    due, fires = NEVER, rows.tail
    if not trigger.at_once:
        fires = find(table, first, rows.tail, upto)
    if fires < rows.tail:
        due = table[fires, ROW_TIME] + 1
    leaves = first
    if trigger.size == 0:
        leaves = find(table, first, rows.tail, final)
    if leaves < rows.tail:
        goes = table[leaves, ROW_TIME] + trigger.longest
        due = min(due, goes + (trigger.size if trigger.size > 0 else 1))
    return due


@entry
def report_fired(
    visited: Any, runs: Runs, values: Any, keys: RowKeys, trigger: Trigger, marks: Marks,
    needless: Any, out: Any,
) -> Any:  # fmt: skip
    """Write the windows of some keys; return (how many keys are done, how many lines there are).

    `values` is the table of rows with floats in place of its numbers. needless[j] becomes the number of
    rows of key visited[j] that no window needs any more. A key whose windows do not fit is not begun.
    """
    table, head, length = runs
    m = 0
    for j in range(len(visited)):
        k = visited[j]
        needless[j] = 0
        if length[k] == 0:
            keys.due[k], keys.fresh[k] = NEVER, NEVER
            continue
        tail, at = head[k] + length[k], k * marks.stride
        fresh = next_new(table, find(table, head[k], tail, keys.fresh[k]), tail)
        rows = KeyRows(head[k], tail, fresh)
        if trigger.size == 0:
            come_to(values, rows)
        times = (marks.after[at], marks.upto[at], m)
        lines = fire(table, values, k, rows, keys.first_rank[k], trigger, times, out)
        if lines > len(out):
            return j, m
        m = lines
        for p in range(rows.fresh, tail):
            table[p, ROW_NEW] = 0
        needless[j] = needless_rows(table, values, rows, marks.final[at], trigger)
        keys.fresh[k] = NEVER
        bounds = (marks.upto[at], marks.final[at])
        keys.due[k] = next_fired(table, head[k] + needless[j], rows, bounds, trigger)
    return len(visited), m
