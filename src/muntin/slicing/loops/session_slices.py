"""Sessions as slices: each slice is one session, extended and joined as rows come."""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import entry
from muntin.kernels.loops.slice_log import ADD, CLOSE, JOIN, LATE, NEW
from muntin.slicing.limits import ALWAYS, NEVER
from muntin.slicing.loops.arena_moves import find, log_step, open_place
from muntin.slicing.loops.grid_reports import next_drop
from muntin.slicing.tables import (
    END,
    GONE_FIRST,
    GONE_KEY,
    GONE_LAST,
    GROUP_FIRST,
    GROUP_KEY,
    GROUP_LAST,
    GROUP_ROW,
    GROUP_ROWS,
    HI,
    KEY,
    KIND,
    LO,
    RESULT,
    SESSION_CHANGED,
    SESSION_REPORTED,
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


class Touched(NamedTuple):
    """The sessions of one key that a group touches, at places first to last, in a run up to tail."""

    first: Any
    last: Any
    tail: Any


class Notes(NamedTuple):
    """What was done: the log that partials follow, and what was reported and is no more."""

    log: Any
    gone: Any


@entry
def group_sessions(keys: Any, times: Any, gap: Any, current: Any, group: Any, found: Any) -> Any:
    """Find the groups of a batch and the group of each row; return the number of groups.

    current[key] is the last group of a key, -1 at first.
    """
    count = 0
    for i in range(len(keys)):
        k = keys[i]
        t = times[i]
        g = current[k]
        if g < 0 or t < found[g, GROUP_FIRST] - gap or t > found[g, GROUP_LAST] + gap:
            g = count
            count += 1
            current[k] = g
            found[g, GROUP_KEY] = k
            found[g, GROUP_ROWS] = 0
            found[g, GROUP_FIRST] = t
            found[g, GROUP_LAST] = t
            found[g, GROUP_ROW] = i
        group[i] = g
        found[g, GROUP_ROWS] += 1
        found[g, GROUP_FIRST] = min(found[g, GROUP_FIRST], t)
        found[g, GROUP_LAST] = max(found[g, GROUP_LAST], t)
    return count


def note_gone(gone: Any, lost: Any, key: Any, table: Any, p: Any) -> Any:
    """Note that the reported session at place p is no more; return how many there are."""
    gone[lost, GONE_KEY] = key
    gone[lost, GONE_FIRST] = table[p, SLICE_FIRST]
    gone[lost, GONE_LAST] = table[p, SLICE_LAST]
    return lost + 1


def join_sessions(
    table: Any, touched: Touched, found: Any, g: Any, notes: Notes, counts: Any
) -> Any:
    """Make one session of those that group g touches; those reported with other bounds are gone.

    `counts` are (steps in the log, sessions gone); return them after it.
    """
    a, p, tail = touched
    n, lost = counts
    first = min(found[g, GROUP_FIRST], table[a, SLICE_FIRST])
    last = max(found[g, GROUP_LAST], table[p, SLICE_LAST])
    same = a == p and first == table[a, SLICE_FIRST] and last == table[a, SLICE_LAST]
    late = found[g, GROUP_FIRST] < table[a, SLICE_LAST]
    late = late or (a < p and found[g, GROUP_LAST] >= table[a + 1, SLICE_FIRST])
    stale = 1 if late else table[a, SLICE_STALE]
    rows = table[a, SLICE_ROWS] + found[g, GROUP_ROWS]
    n = log_step(notes.log, n, LATE if late else ADD, a, g)
    for r in range(a, p + 1):
        if table[r, SESSION_REPORTED] > 0 and not same:
            lost = note_gone(notes.gone, lost, found[g, GROUP_KEY], table, r)
        if r > a:
            rows += table[r, SLICE_ROWS]
            stale = max(stale, table[r, SLICE_STALE])
            n = log_step(notes.log, n, JOIN, a, a + 1)
            n = log_step(notes.log, n, CLOSE, a + 1, tail - (r - a - 1))
    for i in range(p + 1, tail):
        for c in range(table.shape[1]):
            table[i - (p - a), c] = table[i, c]
    table[a, SLICE_START] = first
    table[a, SLICE_ROWS] = rows
    table[a, SESSION_CHANGED] = 1
    table[a, SLICE_FIRST] = first
    table[a, SLICE_LAST] = last
    table[a, SLICE_STALE] = stale
    table[a, SESSION_REPORTED] = table[a, SESSION_REPORTED] if same else 0
    return n, lost


@entry
def reached(runs: Runs, keys: Any, first: Any, gap: Any, since: Any) -> None:
    """Find where the first session begins that a row at first[j] or later may change, and if any does.

    It is the last one that begins more than a gap before; without one, it is the row's time.
    """
    table, head, length = runs
    for j in range(len(keys)):
        h = head[keys[j]]
        tail = h + length[keys[j]]
        since[j] = first[j]
        if tail > h:
            p = find(table, h, tail, first[j] - gap)
            since[j] = table[max(p - 1, h), SLICE_START]


def new_session(table: Any, p: Any, found: Any, g: Any) -> None:
    """Write a session that consists of a group."""
    for c in range(table.shape[1]):
        table[p, c] = 0
    table[p, SLICE_START] = found[g, GROUP_FIRST]
    table[p, SLICE_ROWS] = found[g, GROUP_ROWS]
    table[p, SESSION_CHANGED] = 1
    table[p, SLICE_FIRST] = found[g, GROUP_FIRST]
    table[p, SLICE_LAST] = found[g, GROUP_LAST]


@entry
def place_sessions(
    first_group: Any, found: Any, gap: Any, runs: Runs, due: Any, notes: Notes
) -> Any:
    """Put each group from first_group on into the sessions that it touches, which become one.

    Return (the group to go on with, steps in the log, sessions gone); a group that needs more space is
    not begun.
    """
    table, head, length = runs
    n = 0
    lost = 0
    for g in range(first_group, len(found)):
        k = found[g, GROUP_KEY]
        h = head[k]
        tail = h + length[k]
        p = tail - 1
        while p >= h and table[p, SLICE_START] > found[g, GROUP_LAST] + gap:
            p -= 1
        a = p + 1
        while a > h and table[a - 1, SLICE_LAST] >= found[g, GROUP_FIRST] - gap:
            a -= 1
        if n + 2 * (p - a) + 4 > len(notes.log) or lost + p - a + 1 > len(notes.gone):
            return g, n, lost
        due[k] = ALWAYS
        if a > p:
            n = open_place(table, a, tail, notes.log, n)
            length[k] += 1
            n = log_step(notes.log, n, NEW, a, g)
            new_session(table, a, found, g)
        else:
            n, lost = join_sessions(table, Touched(a, p, tail), found, g, notes, (n, lost))
            length[k] -= p - a
    return len(found), n, lost


def write_session(out: Any, n: Any, key: Any, table: Any, p: Any, end: Any) -> None:
    """Write the session at place p into a report."""
    out[n, KEY] = key
    out[n, WINDOW] = 0
    out[n, START] = table[p, SLICE_FIRST]
    out[n, END] = end
    out[n, LO] = p
    out[n, HI] = p + 1
    out[n, KIND] = UPDATE if table[p, SESSION_REPORTED] == 1 else RESULT


def report_session_run(table: Any, places: Any, key: Any, gap: Any, upto: Any, out: Any) -> Any:
    """Report the sessions of one key that are due or changed.

    `places` are (head, tail) of its run, `out` is (table, rows so far). Return (rows in all, when the
    next session will be complete).
    """
    report, n = out
    wake = NEVER
    for p in range(places[0], places[1]):
        end = table[p, SLICE_LAST] + gap
        if table[p, SESSION_REPORTED] == 1:
            if table[p, SESSION_CHANGED] == 1:
                write_session(report, n, key, table, p, end)
                n += 1
            table[p, SESSION_CHANGED] = 0
        elif end < upto:
            write_session(report, n, key, table, p, end)
            n += 1
            table[p, SESSION_REPORTED] = 1
            table[p, SESSION_CHANGED] = 0
        else:
            wake = min(wake, end + 1)
    return n, wake


@entry
def report_sessions(keys: Any, runs: Runs, due: Any, upto: Any, gap: Any, out: Any) -> Any:
    """Report the sessions that are due or changed, key by key, and drop those that no row can reach.

    `keys` are (the first key, behind the last), `upto` are watermarks, the ends up to which
    nothing changes any more, and their stride. Return (the key to go on with, sessions); a key whose
    sessions do not fit is not begun.
    """
    table, head, length = runs
    watermarks, past, stride = upto
    n = 0
    for k in range(keys[0], keys[1]):
        u = watermarks[k * stride]
        if due[k] > u:
            continue
        h = head[k]
        tail = h + length[k]
        if n + tail - h > len(out):
            return k, n
        n, wake = report_session_run(table, (h, tail), k, gap, u, (out, n))
        final, reach = past[k * stride], 2 * gap
        while (
            h < tail and table[h, SESSION_REPORTED] == 1 and table[h, SLICE_LAST] + reach <= final
        ):
            h += 1
        length[k] = tail - h
        head[k] = h
        if h < tail and table[h, SESSION_REPORTED] == 1:
            wake = min(wake, next_drop(table[h, SLICE_LAST] + reach - 1, u, final))
        due[k] = wake
    return keys[1], n
