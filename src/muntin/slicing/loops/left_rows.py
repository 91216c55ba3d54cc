"""Windows of what a policy leaves: found at each end that is due, and compared with what was reported.

What was left at an end is known by its start and its number of rows (LEFT_END and so on), so that rows
can be enforced again from the last end on that lies before a late row. Cost: O(new rows, rows behind a
late one, windows), however many rows are kept; after a late row, also the rows that are left before it.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import entry
from muntin.slicing.limits import ALWAYS, END_OF_TIME, NEVER
from muntin.slicing.loops.arena_moves import find
from muntin.slicing.loops.last_rows import Marks, RowKeys, Ticks, last_tick, tick_after
from muntin.slicing.loops.policy_rules import (
    NO_ROW,
    PolicyRows,
    Rules,
    expire_by_rules,
    leave_in_turn,
    stand_again,
)
from muntin.slicing.tables import (
    END,
    HI,
    KEY,
    KIND,
    LEFT_END,
    LEFT_ROWS,
    LEFT_START,
    LO,
    RESULT,
    RETRACT,
    ROW_NEW,
    ROW_TIME,
    STANDS_AT,
    START,
    UPDATE,
    WALKED_END,
    WALKED_HI,
    WALKED_LO,
    WINDOW,
    Runs,
)


class Walk(NamedTuple):
    """What is left of some keys' rows at ends: the j-th key that is visited has lines up to stops[j]."""

    begins: (
        Any  # the end that was reported and behind which the walk begins; ALWAYS if there is none
    )
    stops: Any
    lines: Any  # WALKED_END and so on


class Ways(NamedTuple):
    """When windows are found."""

    ticks: Ticks
    marks: Marks
    timed: Any  # whether the policy is one of time


class Needs(NamedTuple):
    """What is still needed after a report, per key that was visited."""

    needless: Any  # how many of its first rows are not
    dropped: Any  # how many of the ends before the walk are not
    cut: Any  # how many there are
    since: Any  # the first line of the walk that is
    known: Any  # per line of the walk: LEFT_END and so on


def begin_walk(runs: Runs, told: Runs, k: Any, fresh: Any) -> Any:
    """Return (the last end that was reported up to a time, the rows before it, how many were left)."""
    table, head, length = told
    tail = head[k] + length[k]
    at = tail - 1 if fresh == NEVER else find(table, head[k], tail, fresh + 1) - 1
    if at < head[k]:
        return ALWAYS, 0, 0
    end = table[at, LEFT_END]
    return end, rows_before(runs, k, end), table[at, LEFT_ROWS]


def rows_before(runs: Runs, k: Any, t: Any) -> Any:
    """Return how many rows of a key lie before a time."""
    first = runs.head[k]
    return find(runs.table, first, first + runs.length[k], t) - first


def last_due(runs: Runs, k: Any, ticks: Ticks, upto: Any) -> Any:
    """Return up to when windows of a key are due, by a time."""
    last = runs.head[k] + runs.length[k] - 1
    return upto if runs.length[k] == 0 else min(upto, last_tick(ticks, runs.table[last, ROW_TIME]))


def next_said(runs: Runs, told: Runs, k: Any, at: Any, known: Any, ways: Ways) -> Any:
    """Return the next end at which there may be something to say if nothing is left; NEVER if none.

    `at` is the place of the next row, `known` that of the next end that was reported.
    """
    coming = NEVER
    if at < runs.head[k] + runs.length[k]:
        coming = tick_after(ways.ticks, runs.table[at, ROW_TIME])
    if known < told.head[k] + told.length[k] and (ways.timed or not ways.ticks.changes):
        coming = min(coming, told.table[known, LEFT_END])
    return coming


@entry
def walk_by_rules(
    visited: Any, runs: Runs, rows: PolicyRows, keys: RowKeys, told: Runs, rules: Rules, ways: Ways,
    walk: Walk,
) -> Any:  # fmt: skip
    """Enforce rules on the rows of keys; return (how many keys are done, how many lines there are).

    A key whose lines do not fit is not begun.
    """
    ticks, marks, timed = ways
    table, lines, m = runs.table, walk.lines, 0
    for j in range(len(visited)):
        k = visited[j]
        first, tail = runs.head[k], runs.head[k] + runs.length[k]
        origin, begun = first - keys.first_rank[k], m
        begin, before, count = begin_walk(runs, told, k, keys.fresh[k])
        at = first + before
        lo = at - count
        known = find(told.table, told.head[k], told.head[k] + told.length[k], begin + 1)
        if rows.stands[k, STANDS_AT] != at - origin or known < told.head[k] + told.length[k]:
            stand_again(rows, k, origin, lo, at, rules)
        upto = marks.upto[k * marks.stride]
        last = last_due(runs, k, ticks, upto)
        end = tick_after(ticks, begin)
        while m < len(lines):
            if lo == at or (ticks.changes and not timed):
                end = max(end, next_said(runs, told, k, at, known, ways))
            if end > last:
                break
            came, lines[m, WALKED_LO] = at, lo
            at = find(table, at, tail, end)
            lo = leave_in_turn(rows, k, origin, lo, came, at, rules)
            some = came < at or lines[m, WALKED_LO] < came
            if timed:
                lo = expire_by_rules(rows, k, lo, at, end, rules)
            while known < told.head[k] + told.length[k] and told.table[known, LEFT_END] <= end:
                some = some or told.table[known, LEFT_END] == end
                known += 1
            if some:
                lines[m, WALKED_END], lines[m, WALKED_LO] = end, lo - first
                lines[m, WALKED_HI] = at - first
                m += 1
            end += ticks.every
        life_ends = NEVER
        if tail > first:
            life_ends = tick_after(ticks, last_tick(ticks, table[tail - 1, ROW_TIME]))
        if m < len(lines) and ticks.changes and begin < life_ends <= upto:
            lines[m, WALKED_END], lines[m, WALKED_LO] = life_ends, tail - first
            lines[m, WALKED_HI] = tail - first
            m += 1
        if m == len(lines):
            rows.stands[k, STANDS_AT] = NO_ROW
            return j, begun
        rows.stands[k, STANDS_AT] = at - origin
        walk.begins[j], walk.stops[j] = begin, m
    return len(visited), m


@entry
def tell_left(
    visited: Any, runs: Runs, keys: RowKeys, told: Runs, ways: Ways, walk: Walk, needs: Needs,
    out: Any,
) -> Any:  # fmt: skip
    """Write the windows to report of what is left, and what is still needed; return how many there are.

    `out` has space for two windows per line of the walk.
    """
    table, m, line = runs.table, 0, 0
    for j in range(len(visited)):
        k = visited[j]
        first, tail = runs.head[k], runs.head[k] + runs.length[k]
        fresh = find(table, first, tail, keys.fresh[k])
        known = find(told.table, told.head[k], told.head[k] + told.length[k], walk.begins[j] + 1)
        needs.cut[j] = known - told.head[k]
        new, came = (
            NO_ROW,
            fresh,
        )  # the last new row before an end, and the row from which it is sought
        for n in range(line, walk.stops[j]):
            end, hi = walk.lines[n, WALKED_END], first + walk.lines[n, WALKED_HI]
            while came < hi:
                if table[came, ROW_NEW] == 1:
                    new = came
                came += 1
            while known < told.head[k] + told.length[k] and told.table[known, LEFT_END] < end:
                known += 1
            m = tell_end(k, runs, told, known, new, ways, walk, n, needs, out, m)
        for p in range(fresh, tail):
            table[p, ROW_NEW] = 0
        keys.fresh[k] = NEVER
        need_on(j, k, runs, keys, told, ways, walk, line, needs)
        line = walk.stops[j]
    return m


def tell_end(
    k: Any, runs: Runs, told: Runs, known: Any, new: Any, ways: Ways, walk: Walk, n: Any,
    needs: Needs, out: Any, m: Any,
) -> Any:  # fmt: skip
    """Write what is to be reported of line n of a walk; return how many windows there are.

    `known` is the place of the first end that was reported and is not before it, `new` that of the last
    new row.
    """
    first, end = runs.head[k], walk.lines[n, WALKED_END]
    lo, hi = first + walk.lines[n, WALKED_LO], first + walk.lines[n, WALKED_HI]
    start = runs.table[lo, ROW_TIME] if lo < hi else end
    needs.known[n, LEFT_END], needs.known[n, LEFT_START] = end, start
    needs.known[n, LEFT_ROWS] = hi - lo
    if ways.ticks.changes:
        after = ways.marks.after[k * ways.marks.stride]
        return write_left(out, m, k, (start, end, lo, hi, UPDATE if end <= after else RESULT))
    said, before, was = False, 0, end
    if known < told.head[k] + told.length[k] and told.table[known, LEFT_END] == end:
        was, before = told.table[known, LEFT_START], told.table[known, LEFT_ROWS]
        said = before > 0
    if said and (was != start or lo == hi):
        m = write_left(out, m, k, (was, end, first, first, RETRACT))
        said = False
    if lo == hi or (said and before == hi - lo and new < lo):
        return m
    return write_left(out, m, k, (start, end, lo, hi, UPDATE if said else RESULT))


def write_left(out: Any, m: Any, key: Any, line: Any) -> Any:
    """Write (start, end, lo, hi, kind) of a window of a key; return how many there are."""
    start, end, lo, hi, kind = line
    out[m, KEY], out[m, WINDOW] = key, 0
    out[m, START], out[m, END] = start, end
    out[m, LO], out[m, HI] = lo, hi
    out[m, KIND] = kind
    return m + 1


def need_on(
    j: Any, k: Any, runs: Runs, keys: RowKeys, told: Runs, ways: Ways, walk: Walk, line: Any,
    needs: Needs,
) -> None:  # fmt: skip
    """Find what is still needed of key k, of which the walk has lines from `line` on."""
    final, stop = ways.marks.final[k * ways.marks.stride], walk.stops[j]
    base = stop - 1
    while base >= line and walk.lines[base, WALKED_END] > final:
        base -= 1
    needs.needless[j], needs.dropped[j], needs.since[j] = 0, 0, line
    if base >= line:
        needs.needless[j] = walk.lines[base, WALKED_LO]
        needs.dropped[j], needs.since[j] = needs.cut[j], base
    else:
        at = find(told.table, told.head[k], told.head[k] + needs.cut[j], final + 1) - 1
        if at >= told.head[k]:
            end = told.table[at, LEFT_END]
            needs.needless[j] = rows_before(runs, k, end) - told.table[at, LEFT_ROWS]
            needs.dropped[j] = at - told.head[k]
    due = next_left(j, k, runs, told, ways, walk, needs)
    if needs.needless[j] == runs.length[k] and due == NEVER:  # nothing is left, and that is final
        needs.dropped[j], needs.since[j] = needs.cut[j], stop
    keys.due[k] = due


def next_left(j: Any, k: Any, runs: Runs, told: Runs, ways: Ways, walk: Walk, needs: Needs) -> Any:
    """Return when there may be something to report of a key, or to forget."""
    ticks, marks = ways.ticks, ways.marks
    place, due = k * marks.stride, NEVER
    upto, final, since = marks.upto[place], marks.final[place], needs.since[j]
    last, count = ALWAYS, 0  # the last end that was reported, and what was left
    if since < walk.stops[j]:
        last = walk.lines[walk.stops[j] - 1, WALKED_END]
        count = needs.known[walk.stops[j] - 1, LEFT_ROWS]
    elif needs.dropped[j] < needs.cut[j]:
        at = told.head[k] + needs.cut[j] - 1
        last, count = told.table[at, LEFT_END], told.table[at, LEFT_ROWS]
    changing = first_after(told.table, told.head[k], told.head[k] + needs.cut[j], final)
    if changing == NEVER:
        changing = first_after(walk.lines, since, walk.stops[j], final)
    if changing < NEVER:
        due = changing + ticks.longest
    tick, tail = tick_after(ticks, upto), runs.head[k] + runs.length[k]
    if runs.length[k] > 0:
        until = last_tick(ticks, runs.table[tail - 1, ROW_TIME])
        if count > 0 and (ways.timed or not ticks.changes) and tick <= until:
            due = min(due, tick)
        if ticks.changes and upto < tick_after(ticks, until) <= END_OF_TIME:
            due = min(due, tick_after(ticks, until))
    coming = runs.head[k] + rows_before(runs, k, max(tick - ticks.every, last))
    if coming < tail:
        due = min(due, tick_after(ticks, runs.table[coming, ROW_TIME]))
    return due


def first_after(table: Any, lo: Any, hi: Any, t: Any) -> Any:
    """Return the first end in [lo, hi) that is after a time; NEVER if there is none."""
    at = find(table, lo, hi, t + 1)
    return table[at, LEFT_END] if at < hi else NEVER
