"""A consumer of what is reported, who compares it with the definition."""

import math
from collections import defaultdict
from itertools import pairwise

from muntin.aggregates import close
from muntin.windows import Periodic, Ticking
from tests.test_query_properties import KEYS
from tests.window_oracle import by_end, by_window, read_rows

INEXACT = ("mean", "std")
"""Aggregates whose last bits depend on the order in which values were added up."""


class Consumer:
    """Keeps what is reported, as a user would, and compares it with the definition."""

    def __init__(self, oracle, emit):
        self.oracle, self.emit = oracle, emit
        self.held = {}

    def take(self, table, report):
        """Take a table that came; raise AssertionError if the definition has another."""
        rows = read_rows(table, KEYS)
        views = self.oracle.views
        strange = {window[1] for window, *_ in rows} - views.keys()
        assert not strange, f"reported are {strange}, which the query does not have"
        columns = {*self.oracle.parts}
        for window, _, values in rows:
            assert values.keys() - {"times"} == columns, (window, values.keys(), columns)
        rows = [(w, kind, values | {"start": w[2]}) for w, kind, values in rows]
        for name, view in views.items():
            mine = [row for row in rows if row[0][1] == name]
            if self.emit == "changes" and repeats(view.window):
                parted = view.in_lives and not isinstance(view.window, Ticking)
                mine = self._changes_in_lives(view, mine) if parted else mine
                self._take_changes(view, *by_window(mine))
            else:
                mine = self._in_lives(view, mine, report) if view.in_lives else mine
                self._take_windows(view, *by_window(mine), report)

    def _in_lives(self, view, rows, report):
        """Return rows with (key, life) in place of keys; of two lives, the older one is in front."""
        found = []
        for (key, *window), kind, values in rows:
            new = report.gone if kind == "retract" else report.may
            taken = {(known_as(view.window, w), k == "retract") for w, k, _ in found}
            lives = [w[0][1] for w in new if w[1] == view.name and w[0][0] == key]
            given = [
                life
                for life in lives
                if (known := known_as(view.window, ((key, life), *window))) in new
                and (known, kind == "retract") not in taken
            ]
            found.append((((key, min(given, default=-1)), *window), kind, values))
        return found

    def _changes_in_lives(self, view, rows):
        """Do the same for changes of windows of which each life has its own."""
        table, found = {w[:1] + w[2:] for w in view.table()}, []
        for (key, name, start, end), kind, values in rows:
            held = {w[0][1] for w in self.held if w[1] == name and w[0][0] == key}
            latest = max([*held, *(w[0][1] for w, *_ in found if w[0][0] == key)], default=0)
            taken = {(w[0][1], w[3]) for w in self.held if w[1] == name and w[0][0] == key}
            taken |= {(w[0][1], w[3]) for w, *_ in found if w[0][0] == key}
            first = defaultdict(lambda: math.inf)
            for (owner, life), _, ends in table:
                if owner == key:
                    first[life] = min(first[life], ends)
            if kind == "result":
                lives = [
                    life
                    for life in sorted(first)
                    if life >= latest
                    and ((key, life), start, end) in table
                    and (life, end) not in taken
                ]
                life = min(lives, default=-1)
            elif kind == "empty":
                life = max((n for n in first if n >= latest and first[n] <= end), default=-1)
            else:
                life = latest
            found.append((((key, life), name, start, end), kind, values))
        return found

    def forget(self, name):
        """Forget what was reported of a window that was removed: another may get its name."""
        self.held = {window: row for window, row in self.held.items() if window[1] != name}

    def _take_windows(self, view, results, retracted, report):
        known = {known_as(view.window, w): row for w, row in results.items()}
        gone = {known_as(view.window, w) for w in retracted}
        for window, (kind, values) in known.items():
            assert window in report.may, (
                f"{window} {kind} {values}: there is no such thing to report"
            )
            told = "update" if window in self.held else "result"
            assert kind == told, f"{window} came as {kind}, and is {told}"
            check_values(window, values, report.may[window])
        mine = {w for w in report.may if w[1] == view.name}
        missing = {w for w in mine if (w in report.must or w in self.held) and w not in known}
        assert not missing, f"missing: { {w: report.may[w] for w in missing} }"
        wanted = {w for w in report.gone if w[1] == view.name and w in self.held}
        assert gone == wanted, f"retracted {gone}, and not {wanted}"
        for window in gone:
            del self.held[window]
        self.held |= {window: values for window, (_, values) in known.items()}

    def _take_changes(self, view, results, retracted):
        for window in {(w[0], w[1], None, w[3]) for w in retracted}:
            assert window in self.held, f"{window} was retracted, and never reported"
            del self.held[window]
        for (key, name, _, end), (kind, values) in results.items():
            window = key, name, None, end
            if kind != "empty":
                told = "update" if window in self.held else "result"
                assert kind == told, f"{window} came as {kind}, and is {told}"
            self.held[window] = None if kind == "empty" else values
        runs = defaultdict(list)
        for (key, name, _, end), values in self.held.items():
            if name == view.name:
                runs[key].append((end, values))
        wanted = defaultdict(dict)
        for (key, _, _, end), told in view.expected().items():
            ticks_on = view.in_lives and isinstance(
                view.window, Ticking
            )  # from one life to the next
            wanted[key[0] if ticks_on else key][end] = told
        for key in runs.keys() | wanted.keys():
            self._check_runs(view, key, sorted(runs[key], key=lambda run: run[0]), wanted[key])

    def _check_runs(self, view, key, runs, wanted):
        """Carry each row forward until the next, and compare that with every window."""
        for end, (values, must) in wanted.items():
            run = max((run for run in runs if run[0] <= end), key=lambda run: run[0], default=None)
            if run is None:
                assert not must, f"missing: {key} {view.name} {end} {values}"
                continue
            assert run[1] is not None, f"{key} {view.name} {end} is said to be empty: {values}"
            columns = {c: values[c] for c in values if c in self.oracle.parts}
            check_values((key, view.name, end), run[1], columns)
        for (end, values), (following, _) in pairwise([*runs, (None, None)]):
            last = view.upto(key, max(wanted, default=end))
            last = last if following is None else min(last, following - 1)
            for other in ends_of(view.window, end, last):
                there = values is not None
                assert (other in wanted) == there, (
                    f"{key} {view.name} {other}: no rows, or unreported"
                )
        for (_, before), (end, after) in pairwise([(None, None), *runs]):
            same = self._is_unchanged(before, after)
            assert not same, f"{key} {view.name} {end} {after}: nothing has changed"

    def _is_unchanged(self, before, after):
        """Whether two runs surely have the same values of the same aggregates."""
        if before is None or after is None:
            return before is after
        parts = self.oracle.parts
        exact = not any(part.aggregate.name in INEXACT for part in parts.values())
        fixed = before.keys() == after.keys() == {*parts, "start"}
        fixed = fixed and all(part.since is None for part in parts.values())
        return fixed and exact and all(close(before[c], after[c], 0) for c in parts)


def repeats(window):
    """Whether only changes of a window are reported, if a query asks for changes."""
    return isinstance(window, Periodic | Ticking)


def known_as(window, reported):
    """Return what a reported window is known by."""
    key, name, start, end = reported
    return key, name, None if by_end(window) else start, end


def ends_of(window, first, last):
    """Return the ends of all windows from one on, whether they have rows or not."""
    if isinstance(window, Ticking):
        return range(first, last + 1, window.every)
    return [end for _, end in window.closed(first - 1, last)]


def check_values(window, values, wanted):
    for column, alternatives in wanted.items():
        found = values.get(column)
        assert any(close(found, value) for value in alternatives), (
            f"{window} {column} is {found!r}, and should be {' or '.join(map(repr, alternatives))}"
        )
