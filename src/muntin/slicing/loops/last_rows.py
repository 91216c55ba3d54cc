"""The last n rows of each key at multiples of a time: windows that are due, or that late rows changed.

Rows that came since the last report are marked (ROW_NEW), and lie at or behind the earliest of them.
Nothing before it is looked at, but the one row at which a window begins. Cost: O(new rows, rows behind
a late one, windows), however many rows are kept.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import entry
from muntin.slicing.limits import ALWAYS, END_OF_TIME, NEVER
from muntin.slicing.loops.arena_moves import find
from muntin.slicing.tables import (
    END,
    HI,
    KEY,
    KIND,
    LO,
    RESULT,
    ROW_NEW,
    ROW_TIME,
    START,
    UPDATE,
    WINDOW,
    Runs,
)


class Ticks(NamedTuple):
    """When windows over rows are reported."""

    every: Any  # at multiples of this
    origin: Any  # after this
    idle: Any  # up to so long after the last row of a key
    longest: Any  # how long after its end a window may still change
    changes: Any  # whether only windows are reported that differ from the one before


class LastRows(NamedTuple):
    """Which windows of the last rows there are."""

    n: Any  # how many rows they have
    ends_after: Any  # windows that end later are reported


class RowKeys(NamedTuple):
    """What is known of each key's rows."""

    fresh: (
        Any  # the time of the earliest row that came since the last report; NEVER if there is none
    )
    due: Any  # the watermark at which the key is looked at again
    first_rank: Any  # the rank of the first row that is kept
    begins: Any  # rows before this time were not seen


class Marks(NamedTuple):
    """Times of all keys, or of each key, at [key * stride]."""

    after: Any  # the time up to which windows were reported
    upto: Any  # the time up to which they are complete
    final: Any  # the time up to which they do not change any more
    stride: Any


class KeyRows(NamedTuple):
    """The rows of one key: at places [head, tail), new ones only from `fresh` on."""

    head: Any
    tail: Any
    fresh: Any


def tick_upto(ticks: Ticks, t: Any) -> Any:
    """Return the last multiple of `every` that is not after t, or not after all times."""
    t = max(t, -END_OF_TIME)
    return (t - ticks.origin) // ticks.every * ticks.every + ticks.origin


def tick_after(ticks: Ticks, t: Any) -> Any:
    """Return the first multiple of `every` after t."""
    return tick_upto(ticks, t) + ticks.every


def last_tick(ticks: Ticks, t: Any) -> Any:
    """Return up to when windows are reported, if the last row came at t."""
    return END_OF_TIME if t > END_OF_TIME - ticks.idle else t + ticks.idle


def next_new(table: Any, p: Any, q: Any) -> Any:
    """Return the first place in [p, q) with a new row, or q."""
    while p < q and table[p, ROW_NEW] == 0:
        p += 1
    return p


def time_known(table: Any, rows: KeyRows, count: Any) -> Any:
    """Return the time of the n-th row that is not new; NEVER if there are fewer."""
    p = min(rows.fresh, rows.head + count - 1)
    count -= p - rows.head
    while p < rows.tail:
        count -= 1 - table[p, ROW_NEW]
        if count == 0:
            return table[p, ROW_TIME]
        p += 1
    return NEVER


def last_known(table: Any, rows: KeyRows) -> Any:
    """Return the time of the last row that is not new; ALWAYS if all are."""
    p = rows.tail - 1
    while p >= rows.head and table[p, ROW_NEW] == 1:
        p -= 1
    return table[p, ROW_TIME] if p >= rows.head else ALWAYS


def least_rows(keys: RowKeys, key: Any, n: Any) -> Any:
    """Return how many rows a window of a key must have to be whole."""
    return 1 if keys.begins[key] == ALWAYS else n


def write_last(out: Any, m: Any, key: Any, rows: KeyRows, keys: RowKeys, which: LastRows) -> Any:
    """Complete the line of a window of which END, HI and KIND are written; return how many there are."""
    if m == len(out):
        return m + 1
    n, ends_after = which
    lo = max(out[m, HI] - n, rows.head)
    whole = out[m, HI] == rows.head or out[m, HI] - lo >= least_rows(keys, key, n)
    if out[m, END] <= ends_after or not whole:
        return m
    out[m, KEY] = key
    out[m, WINDOW] = 0
    out[m, START] = keys.first_rank[key] + lo - rows.head
    out[m, LO] = lo
    return m + 1


def put_end(out: Any, m: Any, end: Any, hi: Any, kind: Any) -> None:
    """Begin the line of a window."""
    if m < len(out):
        out[m, END] = end
        out[m, HI] = hi
        out[m, KIND] = kind


def changed_last(
    table: Any, key: Any, rows: KeyRows, keys: RowKeys, which: LastRows, ticks: Ticks, upto: Any,
    out: Any, m: Any,
) -> Any:  # fmt: skip
    """Write the windows up to a time that have new rows; return how many lines there are."""
    first = time_known(table, rows, least_rows(keys, key, which.n))
    last = last_known(table, rows)
    known = END_OF_TIME if last == ALWAYS else last_tick(ticks, last)
    upto = min(upto, last_tick(ticks, table[rows.tail - 1, ROW_TIME]))
    end, hi, new = tick_after(ticks, keys.fresh[key]), rows.fresh, rows.head - 1
    while end <= upto and m <= len(out):
        while hi < rows.tail and table[hi, ROW_TIME] < end:
            if table[hi, ROW_NEW] == 1:
                new = hi
            hi += 1
        if new >= max(hi - which.n, rows.head):
            put_end(out, m, end, hi, UPDATE if first < end and end <= known else RESULT)
            m = write_last(out, m, key, rows, keys, which)
            end += ticks.every
            continue
        hi = next_new(table, hi, rows.tail)
        if hi == rows.tail:
            break
        end = tick_after(ticks, table[hi, ROW_TIME])
    return m


def due_last(
    table: Any, key: Any, rows: KeyRows, keys: RowKeys, which: LastRows, ticks: Ticks, after: Any,
    upto: Any, out: Any, m: Any,
) -> Any:  # fmt: skip
    """Write the windows that end after one time, up to another; return how many lines there are."""
    after = max(after, table[rows.head, ROW_TIME])
    upto = min(upto, last_tick(ticks, table[rows.tail - 1, ROW_TIME]))
    if after >= upto:
        return m
    end = tick_after(ticks, after)
    hi = find(table, rows.head, rows.tail, end)
    while end <= upto and m <= len(out):
        while hi < rows.tail and table[hi, ROW_TIME] < end:
            hi += 1
        put_end(out, m, end, hi, RESULT)
        m = write_last(out, m, key, rows, keys, which)
        end += ticks.every
    return m


def after_rows(
    table: Any, key: Any, rows: KeyRows, keys: RowKeys, which: LastRows, ticks: Ticks, bounds: Any,
    out: Any, m: Any,
) -> Any:  # fmt: skip
    """Write the windows whose ends are the first after some row; return how many lines there are.

    `bounds` are (after, upto): windows after one time are results, those before with new rows updates.
    """
    after, upto = bounds
    last = last_tick(ticks, table[rows.tail - 1, ROW_TIME])
    since = min(after, keys.fresh[key])
    hi = find(table, rows.head, rows.tail, tick_upto(ticks, since))
    while hi < rows.tail and m <= len(out):
        end = tick_after(ticks, table[hi, ROW_TIME])
        if end > min(upto, last):
            break
        while hi < rows.tail and table[hi, ROW_TIME] < end:
            hi += 1
        put_end(out, m, end, hi, UPDATE if end <= after else RESULT)
        m = write_last(out, m, key, rows, keys, which)
    life_ends = tick_after(ticks, last)
    if since < life_ends <= upto and m <= len(out):
        put_end(out, m, life_ends, rows.tail, UPDATE if life_ends <= after else RESULT)
        lines = m
        m = write_last(out, m, key, KeyRows(rows.tail, rows.tail, rows.tail), keys, which)
        if lines < m <= len(out):
            out[lines, START] += rows.tail - rows.head
    return m


def tick_after_row(table: Any, p: Any, tail: Any, ticks: Ticks, upto: Any) -> Any:
    """Return the first end after rows [p, tail) that is after a time; NEVER if there is none."""
    p = find(table, p, tail, tick_upto(ticks, upto))
    return tick_after(ticks, table[p, ROW_TIME]) if p < tail else NEVER


def next_last(table: Any, p: Any, tail: Any, which: LastRows, ticks: Ticks, upto: Any) -> Any:
    """Return when a key is looked at again, of which rows [p, tail) are kept."""
    due = tick_after(ticks, upto)
    if ticks.changes:
        last = last_tick(ticks, table[tail - 1, ROW_TIME])
        due = tick_after_row(table, p, tail, ticks, upto)
        due = due if due <= last else NEVER
        if upto < tick_after(ticks, last) <= END_OF_TIME:
            due = min(due, tick_after(ticks, last))
    elif due > last_tick(ticks, table[tail - 1, ROW_TIME]):
        due = NEVER
    if tail - p > which.n:
        due = min(due, table[p + which.n, ROW_TIME] + ticks.longest + 1)
    return due


@entry
def report_last_rows(
    visited: Any, runs: Runs, keys: RowKeys, which: LastRows, ticks: Ticks, marks: Marks,
    needless: Any, out: Any,
) -> Any:  # fmt: skip
    """Write the windows of some keys; return (how many keys are done, how many lines there are).

    needless[j] becomes the number of rows of key visited[j] that no window needs any more. A key whose
    windows do not fit is not begun.
    """
    table, head, length = runs
    m = 0
    for j in range(len(visited)):
        k = visited[j]
        needless[j] = 0
        tail = head[k] + length[k]
        if length[k] == 0:
            keys.due[k], keys.fresh[k] = NEVER, NEVER
            continue
        begun = m
        rows = KeyRows(head[k], tail, find(table, head[k], tail, keys.fresh[k]))
        after, upto = marks.after[k * marks.stride], marks.upto[k * marks.stride]
        if ticks.changes:
            m = after_rows(table, k, rows, keys, which, ticks, (after, upto), out, m)
        else:
            if keys.fresh[k] < after:
                m = changed_last(table, k, rows, keys, which, ticks, after, out, m)
            m = due_last(table, k, rows, keys, which, ticks, after, upto, out, m)
        if m > len(out):
            return j, begun
        for p in range(rows.fresh, tail):
            table[p, ROW_NEW] = 0
        past = find(table, head[k], tail, marks.final[k * marks.stride])
        needless[j] = max(past - head[k] - which.n, 0)
        keys.fresh[k] = NEVER
        keys.due[k] = next_last(table, head[k] + needless[j], tail, which, ticks, upto)
    return len(visited), m
