"""Slices between rows that open a window: rows to groups, groups to slices, slices to a report.

EDBT 2019, Figure 5: a slice starts at each row that opens a window. A row that opens one and comes late
splits a slice, whose parts are then folded again from kept rows. The first slice of a key starts at its
first row; an earlier row moves that start.

Rows of equal time are never parted. In a stream in order no rows are kept: there the rows of a key's
last moment are a slice of their own, in doubt, until a row of that time opens it or a later row comes
and joins it to the slice before.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import entry
from muntin.kernels.loops.slice_log import ADD, JOIN, LATE, NEW
from muntin.slicing.limits import ALWAYS, NEVER
from muntin.slicing.loops.arena_moves import find, log_step, open_place
from muntin.slicing.loops.grid_reports import next_drop
from muntin.slicing.loops.session_slices import Notes
from muntin.slicing.tables import (
    END,
    GONE_FIRST,
    GONE_KEY,
    GONE_LAST,
    GROUP_FIRST,
    GROUP_KEY,
    GROUP_LAST,
    GROUP_OPENED,
    GROUP_ROW,
    GROUP_ROWS,
    GROUP_START,
    HI,
    KEY,
    KIND,
    LO,
    PUNCTUATED_CHANGED,
    PUNCTUATED_END,
    PUNCTUATED_OPENED,
    RESULT,
    SLICE_FIRST,
    SLICE_LAST,
    SLICE_ROWS,
    SLICE_STALE,
    SLICE_START,
    START,
    UPDATE,
    WINDOW,
    Runs,
)


class OpeningRows(NamedTuple):
    """The rows of a batch, and which of them open a window."""

    keys: Any
    times: Any
    opens: Any


class Cursors(NamedTuple):
    """Where each key is in a batch."""

    group: Any  # its last group, -1 at first
    until: Any  # where the slice of that group ends; NEVER if no edge is known behind it
    last: Any  # in a stream in order, the time of its last row; else NEVER


class Changed(NamedTuple):
    """What is returned for each key."""

    due: Any  # when there is something to report
    since: Any  # the start of the first slice to look at then


def slice_of(table: Any, head: Any, tail: Any, t: Any) -> Any:
    """Return where the slice of a time starts and where it ends, as far as edges are known.

    A time before the first slice starts one. The start of a first slice that no row has opened is no
    edge then: the slice becomes a part of the new one.
    """
    p = find(table, head, tail, t + 1) - 1
    if p >= head:
        return table[p, SLICE_START], table[p + 1, SLICE_START] if p + 1 < tail else NEVER
    if p + 1 < tail and table[p + 1, PUNCTUATED_OPENED] == 0:
        p += 1
    return t, table[p + 1, SLICE_START] if p + 1 < tail else NEVER


def opens_at(rows: OpeningRows, i: Any, adjacent: Any) -> Any:
    """Whether row i opens a window, or one behind it of the same key and time does."""
    opened = rows.opens[i]
    j = i + 1
    while (
        adjacent
        and not opened
        and j < len(rows.keys)
        and rows.keys[j] == rows.keys[i]
        and rows.times[j] == rows.times[i]
    ):
        opened = rows.opens[j]
        j += 1
    return opened


@entry
def group_punctuated(
    rows: OpeningRows, runs: Runs, cursors: Cursors, adjacent: Any, group: Any, found: Any
) -> Any:
    """Find the groups of a batch and the group of each row; return the number of groups.

    The rows of each key are in the order of time, and if `adjacent`, side by side. If they are not, and
    a row opens a window after another row of the same time, return -1: both belong to that window.
    """
    table, head, length = runs
    count = 0
    for i in range(len(rows.keys)):
        k = rows.keys[i]
        t = rows.times[i]
        g = cursors.group[k]
        begins = g < 0 or t >= cursors.until[k]
        tied = not begins and found[g, GROUP_LAST] == t
        opened = opens_at(rows, i, adjacent and not tied)
        start = t
        if begins:
            start, cursors.until[k] = slice_of(table, head[k], head[k] + length[k], t)
        else:
            start = found[g, GROUP_START]
        if start < t and opened and tied:
            return -1
        if start < t and not tied and (opened or t == cursors.last[k]):
            start = t
            begins = True
        if begins:
            g = count
            count += 1
            cursors.group[k] = g
            found[g, GROUP_KEY] = k
            found[g, GROUP_START] = start
            found[g, GROUP_ROWS] = 0
            found[g, GROUP_OPENED] = 0
            found[g, GROUP_FIRST] = t
            found[g, GROUP_ROW] = i
        group[i] = g
        found[g, GROUP_ROWS] += 1
        found[g, GROUP_LAST] = t
        if opened and t == start:
            found[g, GROUP_OPENED] = 1
    return count


def note_replaced(gone: Any, lost: Any, key: Any, table: Any, p: Any) -> Any:
    """Note that the window at place p is no more, if it was reported; return how many there are."""
    if table[p, PUNCTUATED_END] == ALWAYS:
        return lost
    gone[lost, GONE_KEY] = key
    gone[lost, GONE_FIRST] = table[p, SLICE_START]
    gone[lost, GONE_LAST] = table[p, PUNCTUATED_END]
    table[p, PUNCTUATED_END] = ALWAYS
    return lost + 1


def add_group(table: Any, p: Any, found: Any, g: Any) -> Any:
    """Count a group into the slice at place p; return the step that partials have to follow."""
    late = found[g, GROUP_FIRST] < table[p, SLICE_LAST]
    if late:
        table[p, SLICE_STALE] = 1
    table[p, SLICE_START] = min(table[p, SLICE_START], found[g, GROUP_FIRST])
    table[p, SLICE_FIRST] = table[p, SLICE_START]
    table[p, SLICE_LAST] = max(table[p, SLICE_LAST], found[g, GROUP_LAST])
    table[p, SLICE_ROWS] += found[g, GROUP_ROWS]
    table[p, PUNCTUATED_CHANGED] = 1
    table[p, PUNCTUATED_OPENED] = max(table[p, PUNCTUATED_OPENED], found[g, GROUP_OPENED])
    return LATE if late else ADD


def opened_slice(table: Any, p: Any, found: Any, g: Any) -> None:
    """Write a slice that consists of a group."""
    table[p, SLICE_START] = found[g, GROUP_START]
    table[p, SLICE_ROWS] = found[g, GROUP_ROWS]
    table[p, PUNCTUATED_CHANGED] = 1
    table[p, SLICE_FIRST] = found[g, GROUP_START]
    table[p, SLICE_LAST] = found[g, GROUP_LAST]
    table[p, SLICE_STALE] = 0
    table[p, PUNCTUATED_END] = ALWAYS
    table[p, PUNCTUATED_OPENED] = found[g, GROUP_OPENED]


def cut_slice(table: Any, p: Any, found: Any, g: Any) -> None:
    """Part the slice at place p where the new slice at the place behind it starts.

    If the slice has rows behind that, both are folded again from kept rows, which also counts them.
    """
    start = found[g, GROUP_START]
    if table[p, SLICE_LAST] >= start:
        table[p + 1, SLICE_LAST] = max(table[p, SLICE_LAST], table[p + 1, SLICE_LAST])
        table[p, SLICE_LAST] = start - 1
        table[p, SLICE_STALE] = 1
        table[p + 1, SLICE_STALE] = 1
        table[p, PUNCTUATED_CHANGED] = 1


def in_doubt(table: Any, h: Any, tail: Any) -> Any:
    """Whether the last slice may still become a part of the one before (in a stream in order)."""
    return tail - h > 1 and table[tail - 1, PUNCTUATED_OPENED] == 0


def join_last(table: Any, p: Any, log: Any, n: Any) -> Any:
    """Join the slice at place p, the last of its run, to the one before; return the steps."""
    table[p - 1, SLICE_ROWS] += table[p, SLICE_ROWS]
    table[p - 1, SLICE_LAST] = table[p, SLICE_LAST]
    table[p - 1, PUNCTUATED_CHANGED] = 1
    return log_step(log, n, JOIN, p - 1, p)


@entry
def place_punctuated(
    first_group: Any, found: Any, runs: Runs, changed: Changed, notes: Notes
) -> Any:
    """Put each group from first_group on into its slice, or a new one, which may split another.

    Return (the group to go on with, steps in the log, windows gone); a group that needs more space is
    not begun.
    """
    table, head, length = runs
    n = 0
    lost = 0
    for g in range(first_group, len(found)):
        if n + 3 > len(notes.log) or lost == len(notes.gone):
            return g, n, lost
        k = found[g, GROUP_KEY]
        s = found[g, GROUP_START]
        h = head[k]
        tail = h + length[k]
        p = tail - 1
        if in_doubt(table, h, tail) and found[g, GROUP_FIRST] > table[p, SLICE_START]:
            if s == table[p, SLICE_START]:
                s = table[p - 1, SLICE_START]
            n = join_last(table, p, notes.log, n)
            length[k] -= 1
            tail -= 1
            p -= 1
        if p >= h and table[p, SLICE_START] > s:
            p = find(table, h, p, s + 1) - 1
        moves = p < h and h < tail and table[h, PUNCTUATED_OPENED] == 0
        if moves:
            p = h
            lost = note_replaced(notes.gone, lost, k, table, p)
        if p >= h and (moves or table[p, SLICE_START] == s):
            n = log_step(notes.log, n, add_group(table, p, found, g), p, g)
            if p + 1 < tail:
                changed.due[k] = ALWAYS
            elif found[g, GROUP_OPENED] == 1:
                changed.due[k] = min(changed.due[k], s)
        else:
            if p >= h:
                lost = note_replaced(notes.gone, lost, k, table, p)
            n = open_place(table, p + 1, tail, notes.log, n)
            length[k] += 1
            opened_slice(table, p + 1, found, g)
            n = log_step(notes.log, n, NEW, p + 1, g)
            if p >= h:
                cut_slice(table, p, found, g)
            if p + 1 < tail:
                changed.due[k] = ALWAYS
            else:
                changed.due[k] = min(changed.due[k], s)
        changed.since[k] = min(changed.since[k], table[max(p, h), SLICE_START])
    return len(found), n, lost


def write_window(out: Any, n: Any, key: Any, table: Any, p: Any) -> None:
    """Write the window at place p into a report; it ends where the next slice starts."""
    end = table[p + 1, SLICE_START]
    out[n, KEY] = key
    out[n, WINDOW] = 0
    out[n, START] = table[p, SLICE_START]
    out[n, END] = end
    out[n, LO] = p
    out[n, HI] = p + 1
    out[n, KIND] = RESULT if table[p, PUNCTUATED_END] == ALWAYS else UPDATE
    table[p, PUNCTUATED_END] = end
    table[p, PUNCTUATED_CHANGED] = 0


@entry
def report_punctuated(
    keys: Any, runs: Runs, changed: Changed, marks: Any, begins: Any, out: Any
) -> Any:
    """Report the windows that are due or changed, key by key, and drop those that are past.

    `keys` are (the first key, behind the last), `marks` are (the ends up to which windows are complete,
    those up to which they are past, stride). If rows of a key up to begins[key] were not seen, only
    windows are whole that a later row has opened. Return (the key to go on with, windows); a key whose
    windows do not fit is not begun.
    """
    table, head, length = runs
    upto, past, stride = marks
    n = 0
    for k in range(keys[0], keys[1]):
        u = upto[k * stride]
        if changed.due[k] > u:
            continue
        h = head[k]
        tail = h + length[k]
        first = find(table, h, tail, changed.since[k])
        if n + tail - first > len(out):
            return k, n
        wake = NEVER
        p = first
        if in_doubt(table, h, tail):
            tail -= 1
        while p + 1 < tail and table[p + 1, SLICE_START] <= u:
            new = table[p, PUNCTUATED_END] == ALWAYS or table[p, PUNCTUATED_CHANGED] == 1
            whole = table[p, PUNCTUATED_OPENED] == 1 and table[p, SLICE_START] > begins[k]
            if new and (whole or begins[k] == ALWAYS):
                write_window(out, n, k, table, p)
                n += 1
            p += 1
        changed.since[k] = table[p, SLICE_START] if p < tail else NEVER
        if p + 1 < tail:
            wake = table[p + 1, SLICE_START]
        while h + 1 < tail and table[h + 1, SLICE_START] <= past[k * stride]:
            h += 1
        length[k] -= h - head[k]
        head[k] = h
        if h + 1 < tail:
            wake = min(wake, next_drop(table[h + 1, SLICE_START], u, past[k * stride]))
        changed.due[k] = wake
    return keys[1], n
