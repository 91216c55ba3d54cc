"""Slices to windows: which windows are due, and which slices each of them consists of.

A window that is due becomes a row of a report. A loop that has no space for another row returns -1 in
place of the number of rows, and the caller tries again with more space.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import entry
from muntin.slicing.limits import ALWAYS, NEVER
from muntin.slicing.loops.arena_moves import find
from muntin.slicing.loops.grid_slices import first_end
from muntin.slicing.tables import (
    END,
    HI,
    KEY,
    KIND,
    LISTED_END,
    LISTED_LATE,
    LISTED_START,
    LISTED_WINDOW,
    LO,
    PERIOD_EVERY,
    PERIOD_ORIGIN,
    PERIOD_SIZE,
    RESULT,
    SLICE_LATE,
    SLICE_ROWS,
    SLICE_START,
    START,
    UPDATE,
    WINDOW,
    Definitions,
    KeyTimes,
    Runs,
    Watermarks,
)

MANY_WINDOWS = 8
MANY_SLICES = 32
"""With more definitions and slices than these, filling a locator pays off."""


class Run(NamedTuple):
    """The slices of one key, at places head to tail of the table, and what is asked of them."""

    table: Any
    head: Any
    tail: Any
    key: Any
    after: Any  # the end up to which windows were reported
    upto: Any  # the end up to which windows are complete


class EvenRun(NamedTuple):
    """The slices of one key that has one at every step from first to last."""

    head: Any
    tail: Any
    first: Any
    last: Any
    step: Any
    key: Any
    after: Any
    upto: Any


class Period(NamedTuple):
    """A window that repeats, with the number of its definition."""

    window: Any
    size: Any
    every: Any
    origin: Any


class Locator(NamedTuple):
    """The first slice at or after even steps of the measure; with 0 steps per unit it is not filled."""

    places: Any
    per_unit: Any


def period_of(periods: Any, d: Any) -> Any:
    """Return a definition."""
    return Period(d, periods[d, PERIOD_SIZE], periods[d, PERIOD_EVERY], periods[d, PERIOD_ORIGIN])


def end_after(period: Period, t: Any) -> Any:
    """Return the first end of a window after a time."""
    return first_end(period.size, period.every, period.origin, t)


def reported_before(table: Any, lo: Any, hi: Any) -> Any:
    """Whether the slices had rows when their windows were last due."""
    found = False
    for p in range(lo, hi):
        found = found or table[p, SLICE_ROWS] > table[p, SLICE_LATE]
    return found


def write(out: Any, n: Any, key: Any, period: Period, end: Any, places: Any, kind: Any) -> None:
    """Write a window that repeats into a report; its slices are at places (lo, hi)."""
    lo, hi = places
    out[n, KEY] = key
    out[n, WINDOW] = period.window
    out[n, START] = end - period.size
    out[n, END] = end
    out[n, LO] = lo
    out[n, HI] = hi
    out[n, KIND] = kind


def fill_locator(run: Run, places: Any) -> Any:
    """Note for even steps of the measure the first slice that is not before; return the locator.

    Where many definitions look for slices in one run, each lookup then takes a step or two.
    """
    steps = len(places) - 1
    first = run.table[run.head, SLICE_START]
    per_unit = float(steps) / (float(run.table[run.tail - 1, SLICE_START] - first) + 1.0)
    p = run.head
    for j in range(steps + 1):
        while p < run.tail and float(run.table[p, SLICE_START] - first) * per_unit < float(j):
            p += 1
        places[j] = p
    return Locator(places, per_unit)


def locate(run: Run, t: Any, locator: Locator) -> Any:
    """Return the first place of a run whose start is not before t, from a note near it."""
    if t <= run.table[run.head, SLICE_START]:
        return run.head
    j = float(t - run.table[run.head, SLICE_START]) * locator.per_unit
    p = locator.places[min(int(j), len(locator.places) - 1)]
    while p < run.tail and run.table[p, SLICE_START] < t:
        p += 1
    while p > run.head and run.table[p - 1, SLICE_START] >= t:
        p -= 1
    return p


def every_end(run: Run, period: Period, out: Any, n: Any, locator: Locator) -> Any:
    """Report the windows with after < end <= upto that have slices."""
    table, h, tail, key, after, upto = run
    size, every = period.size, period.every
    e = end_after(period, max(after, table[h, SLICE_START]))
    lo = h
    hi = h
    last = e - size - 1
    while e <= upto:
        if e - size == last:  # it begins where the one before ended
            lo = hi
        elif locator.per_unit > 0.0:
            lo = locate(run, e - size, locator)
        else:
            lo = find(table, hi if every >= size else lo, tail, e - size)
        if lo == tail:
            break
        if table[lo, SLICE_START] >= e:
            e = end_after(period, table[lo, SLICE_START])
            continue
        guided = locator.per_unit > 0.0
        hi = locate(run, e, locator) if guided else find(table, max(lo, hi), tail, e)
        if n == len(out):
            return -1
        write(out, n, key, period, e, (lo, hi), RESULT)
        n += 1
        last = e
        e += every
    return n


def even_places(first: Any, t: Any, step: Any) -> Any:
    """Return how many of the slices at first, first + step, ... begin before t."""
    return 0 if t <= first else (t - first - 1) // step + 1


def even_ends(run: EvenRun, period: Period, out: Any, n: Any) -> Any:
    """Do what every_end does for a run that has a slice at every step: places are arithmetic."""
    e = end_after(period, max(run.after, run.first))
    while e <= run.upto and e - period.size <= run.last:
        if n == len(out):
            return -1
        lo = run.head + even_places(run.first, e - period.size, run.step)
        hi = run.tail if e > run.last else run.head + even_places(run.first, e, run.step)
        write(out, n, run.key, period, e, (lo, hi), RESULT)
        n += 1
        e += period.every
    return n


def report_even_key(run: EvenRun, periods: Any, out: Any, n: Any) -> Any:
    """Do what report_key does for a key that has a slice at every step and no late rows."""
    wake = NEVER
    for d in range(len(periods)):
        period = period_of(periods, d)
        n = even_ends(run, period, out, n)
        if n < 0:
            break
        if run.last + period.size > run.upto:
            wake = min(wake, end_after(period, max(run.upto, run.first)))
    return n, wake


def next_drop(first: Any, upto: Any, keep: Any) -> Any:
    """Return when the slice that starts at `first` can be dropped; ALWAYS if that is not known yet."""
    return ALWAYS if keep == ALWAYS else first + (upto - keep) + 1


def drop_even(run: EvenRun, keep: Any, runs: Runs, first: Any) -> Any:
    """Drop the slices of such a key before `keep`; return when there will be more to drop."""
    k = run.key
    dropped = min(runs.length[k], even_places(first[k], keep, run.step))
    runs.head[k] += dropped
    runs.length[k] -= dropped
    first[k] += dropped * run.step
    return next_drop(first[k], run.upto, keep) if runs.length[k] > 0 else NEVER


def next_change(run: Run, period: Period, lo: Any, hi: Any) -> Any:
    """Return the first end at which slice `hi` enters or slice `lo` leaves the window [lo, hi)."""
    e = NEVER
    if hi < run.tail:
        e = end_after(period, run.table[hi, SLICE_START])
    if lo < hi:
        e = min(e, end_after(period, run.table[lo, SLICE_START] + period.size))
    return e


def changed_ends(run: Run, period: Period, forced: Any, kind: Any, out: Any, n: Any) -> Any:
    """Report the windows with after < end <= upto at which a slice enters or leaves.

    If `forced`, the first of them is reported in any case. Return (windows, the first change after
    upto).
    """
    table, h, tail, key, after, upto = run
    size, every = period.size, period.every
    e = end_after(period, max(after, table[h, SLICE_START] - 1))
    lo = find(table, h, tail, e - every - size)
    hi = find(table, lo, tail, e - every)
    if not forced:
        e = next_change(run, period, lo, hi)
    while e <= upto and e < NEVER:
        lo = find(table, lo, tail, e - size)
        hi = find(table, max(lo, hi), tail, e)
        if n == len(out):
            return -1, e
        write(out, n, key, period, e, (lo, hi), kind)
        n += 1
        e = next_change(run, period, lo, hi)
    return n, e


def late_ends(run: Run, period: Period, p: Any, past: Any, out: Any, n: Any) -> Any:
    """Report the windows with past < end <= after that late rows changed, in slices from p on."""
    table, h, tail, key, after, _ = run
    last = past
    lo = h
    hi = h
    while p < tail and table[p, SLICE_START] < after:
        if table[p, SLICE_LATE] > 0:
            s = table[p, SLICE_START]
            e = end_after(period, max(s, last))
            while e <= after and e - period.size <= s:
                lo = find(table, lo, tail, e - period.size)
                hi = find(table, max(lo, hi), tail, e)
                if n == len(out):
                    return -1
                kind = UPDATE if reported_before(table, lo, hi) else RESULT
                write(out, n, key, period, e, (lo, hi), kind)
                n += 1
                last = e
                e += period.every
        p += 1
    return n


def some_late(table: Any, lo: Any, hi: Any) -> Any:
    """Whether some of the slices have rows that came late."""
    found = False
    for p in range(lo, hi):
        found = found or table[p, SLICE_LATE] > 0
    return found


def listed_ends(run: Run, listed: Any, out: Any, n: Any) -> Any:
    """Report the windows of a list that are due, or that late rows changed."""
    table, h, tail, key, after, upto = run
    for j in range(len(listed)):
        start = listed[j, LISTED_START]
        end = listed[j, LISTED_END]
        late = listed[j, LISTED_LATE] != 0
        if (end > after) if late else (end > upto or end <= after):
            continue
        lo = find(table, h, tail, start)
        hi = find(table, lo, tail, end)
        if lo == hi or (late and not some_late(table, lo, hi)):
            continue
        if n == len(out):
            return -1
        kind = UPDATE if late and reported_before(table, lo, hi) else RESULT
        write(out, n, key, Period(listed[j, LISTED_WINDOW], end - start, 0, 0), end, (lo, hi), kind)
        n += 1
    return n


def every_window(
    run: Run, late_from: Any, past: Any, windows: Definitions, out: Any, places: Any
) -> Any:
    """Report the windows of one key that are due, and those that late rows changed.

    `out` is (table, rows so far). Return (rows in all, when the key is due again).
    """
    table, n = out
    wake = NEVER
    locator = Locator(places, 0.0)
    if len(windows.periods) > MANY_WINDOWS and run.tail - run.head > MANY_SLICES:
        locator = fill_locator(run, places)
    for d in range(len(windows.periods)):
        period = period_of(windows.periods, d)
        if late_from < run.after:
            p = find(run.table, run.head, run.tail, late_from)
            n = late_ends(run, period, p, past, table, n)
        if n >= 0:
            n = every_end(run, period, table, n, locator)
        if n < 0:
            break
        if run.table[run.tail - 1, SLICE_START] + period.size > run.upto:
            first = run.table[run.head, SLICE_START]
            wake = min(wake, end_after(period, max(run.upto, first)))
    return n, wake


def changed_windows(run: Run, late_from: Any, past: Any, windows: Definitions, out: Any) -> Any:
    """Report the windows of one key at which a slice enters or leaves.

    `out` is (table, rows so far). Return (rows in all, when the key is due again, whether it is not yet
    known what late rows changed).
    """
    table, n = out
    wake = NEVER
    pending = False
    late = late_from < run.after
    before = Run(run.table, run.head, run.tail, run.key, max(past, late_from), run.after)
    for d in range(len(windows.periods)):
        period = period_of(windows.periods, d)
        if late:
            n, _ = changed_ends(before, period, True, UPDATE, table, n)
        if n >= 0:
            n, e = changed_ends(run, period, late, RESULT, table, n)
            wake = min(wake, e)
            pending = pending or (late and end_after(period, run.after) > run.upto)
        if n < 0:
            break
    return n, wake, pending


def report_key(
    run: Run, late_from: Any, past: Any, windows: Definitions, out: Any, places: Any
) -> Any:
    """Report the windows of one key that are due or changed, of all definitions.

    `out` is (table, rows so far). Return (rows in all, when the key is due again, whether it is not yet
    known what late rows changed).
    """
    pending = False
    if windows.changes:
        n, wake, pending = changed_windows(run, late_from, past, windows, out)
    else:
        n, wake = every_window(run, late_from, past, windows, out, places)
    if n >= 0 and len(windows.listed) > 0:
        n = listed_ends(run, windows.listed, out[0], n)
    return n, wake, pending


def forget_late(table: Any, h: Any, tail: Any, since: Any) -> None:
    """Note that all late rows of the slices from a start on were reported."""
    for p in range(find(table, h, tail, since), tail):
        table[p, SLICE_LATE] = 0


@entry
def report_grid(
    keys: Any, runs: Runs, times: KeyTimes, marks: Watermarks, windows: Definitions, space: Any
) -> Any:
    """Report the windows that are due, key by key, and drop slices that no window needs.

    `keys` are (the first key, behind the last); `space` is (the report, space for a locator). If there
    is a step, starts of slices differ by multiples of it, and a run that has one at each is known by its
    first and last: its slices are not looked at. Return (the key to go on with, windows); a key whose
    windows do not fit is not begun.
    """
    table, head, length = runs
    due, dirty, first, last = times
    out, places = space
    step = windows.step
    n = 0
    for k in range(keys[0], keys[1]):
        at = k * marks.stride
        upto = marks.upto[at]
        if due[k] > upto:
            continue
        h = head[k]
        tail = h + length[k]
        begin = n
        pending = False
        wake = NEVER
        even = step > 0 and h < tail and last[k] - first[k] == step * (tail - h - 1)
        if even and dirty[k] == NEVER:
            run = EvenRun(h, tail, first[k], last[k], step, k, marks.after[at], upto)
            n, wake = report_even_key(run, windows.periods, out, n)
            if n < 0:
                return k, begin
            due[k] = min(wake, drop_even(run, marks.keep[at], runs, first))
            continue
        if h < tail:
            asked = Run(table, h, tail, k, marks.after[at], upto)
            found = report_key(asked, dirty[k], marks.past[at], windows, (out, n), places)
            n, wake, pending = found
            if n < 0:
                return k, begin
        if dirty[k] != NEVER:
            forget_late(table, h, tail, dirty[k])
        if not pending:
            dirty[k] = NEVER
        kept = find(table, h, tail, marks.keep[at])
        length[k] -= kept - h
        head[k] = kept
        if kept < tail:
            first[k] = table[kept, SLICE_START]
            wake = min(wake, next_drop(first[k], upto, marks.keep[at]))
        due[k] = wake
    return keys[1], n
