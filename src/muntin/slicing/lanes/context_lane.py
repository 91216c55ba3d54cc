"""Users' own windows whose edges depend on rows, by a context that remembers rows.

Edges are found when rows come, so that a function which fails refuses its batch. A late row may move,
add or remove edges behind it: what was reported and is no more is retracted.
"""

from typing import Any

import numpy as np

from muntin.journal import Journal
from muntin.slicing.lane import Prepared, Report, Setting, spans_of
from muntin.slicing.lanes.opened_windows import KeyRows, OpenedWindows
from muntin.slicing.lanes.row_lane import ROW, Line, RowLane, as_lines
from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.partials import Partials
from muntin.slicing.rows import Rows
from muntin.slicing.tables import END, HI, KEY, KIND, LO, RETRACT, ROW_TIME, START
from muntin.windows import ContextAwareWindow

Noted = list[tuple[OpenedWindows, tuple[Any, ...]]]
"""Windows of keys, with what it takes to undo a change of them."""


class ContextLane(RowLane):
    """A window between rows that open one."""

    window: ContextAwareWindow

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        self._opened: dict[int, OpenedWindows] = {}

    def _renumber(self, numbers: dict[int, int]) -> None:
        super()._renumber(numbers)
        self._opened = {numbers[k]: o for k, o in self._opened.items() if k in numbers}

    # Rows come in

    def try_rows(self, rows: Rows) -> None:
        """Let a row that no context can take be refused now; it will be shown to its own one later."""
        super().try_rows(rows)
        for time, row in zip(rows.times.tolist(), rows.extra[ROW].tolist(), strict=True):
            self.window.opens(self.window.begin(), time, row)

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        """Keep the rows, and show them to the contexts of their windows."""
        rows, runs = prepared.rows, self.kept.runs
        keys, *_ = self.kept.insert(rows, prepared.kept, journal)
        journal.items(keys, self._due)
        journal.entries(self._opened, [k for k in keys.tolist() if k not in self._opened])
        noted: Noted = []
        journal.call(_forget_rows, noted)
        assert self.kept.extra is not None
        times, ends = rows.times.tolist(), np.searchsorted(rows.keys, keys, side="right").tolist()
        head, tail = runs.head[keys].tolist(), (runs.head + runs.length)[keys].tolist()
        due, begin = [], 0
        for key, lo, hi, end in zip(keys.tolist(), head, tail, ends, strict=True):
            opened = self._opened.setdefault(key, OpenedWindows())
            new = times[begin:end]
            noted.append((opened, opened.noted(new[0])))
            opened.take(self.window, KeyRows(runs.meta[lo:hi], self.kept.extra.array[lo:hi], new))
            due.append(opened.due(self.lateness.longest))
            begin = end
        self._due[keys] = due

    # The watermark advances

    def advance(self, watermark: Array, journal: Journal) -> Report:
        """Report the windows that are complete or have changed, and retract those that are no more."""
        self._time = np.maximum(watermark, self._time)
        keys = np.nonzero(self._due[: self.keys] <= self._time[: max(self.keys, 1)])[0]
        noted: Noted = []
        journal.call(_unsettle, noted)
        journal.items(keys, self._due, self._first_rank)
        windows = self._news(keys, noted)
        told = np.nonzero(windows[:, KIND] != RETRACT)[0]
        for bound, place in ((START, LO), (END, HI)):
            owner, times = (np.ascontiguousarray(windows[told, c]) for c in (KEY, bound))
            windows[told, place] = self.kept.places(owner, times)
        spans = spans_of(windows[told])
        report = Report(windows, [column.query(*spans) for column in self.partials])
        if len(self.since):
            self.since.hide(report, self.kept.runs.meta[spans[0], ROW_TIME])
        self._drop_rows(keys, journal)
        return report

    def _news(self, keys: Array, noted: Noted) -> Array:
        """Return the windows of some keys that are to be reported, and forget those that are final."""
        places = keys if self._ordered else np.zeros(len(keys), np.int64)
        final = self.lateness.past(self._time)
        lines: list[Line] = []
        due = []
        for key, upto, past, begins in zip(
            keys.tolist(),
            self._time[places].tolist(),
            final[places].tolist(),
            self._begins[keys].tolist(),
            strict=True,
        ):
            opened = self._opened[key]
            # Rows may have come before the first one that was seen: it did not surely open a window.
            first = int(not opened.settled and begins > ALWAYS)
            lines += [(key, 0, s, e, 0, 0, kind) for s, e, kind in opened.news(first, upto)]
            noted.append((opened, opened.told(past)))
            opened.settle(upto, past)
            due.append(opened.due(self.lateness.longest))
        self._due[keys] = due
        return as_lines(lines)

    def _drop_rows(self, keys: Array, journal: Journal) -> None:
        """Forget the rows before the first window of each of some keys."""
        first = np.array([self._opened[key].edges[0] for key in keys.tolist()], np.int64)
        rows = self.kept.places(keys, first) - self.kept.runs.head[keys]
        gone = rows > 0
        self.kept.runs.drop_front(keys[gone], rows[gone], journal)
        self._first_rank[keys] += rows

    # State

    def plain(self) -> dict[str, Any]:
        """Return the lane's state as plain data; a context sees its rows again."""
        opened = [(key, opened.plain()) for key, opened in self._opened.items()]
        return {**super().plain(), "opened": opened}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        self._due[:] = NEVER
        for key, saved in plain["opened"]:
            times = self._times_of(key)
            self._opened[key] = OpenedWindows.load(saved, times)
            self._due[key] = ALWAYS
        if {*self._opened} != {*self._with_rows()}:
            raise ValueError("keys have windows where they have rows")


def _forget_rows(noted: Noted) -> None:
    for opened, held in noted:
        opened.forget_rows(*held)


def _unsettle(noted: Noted) -> None:
    for opened, held in noted:
        opened.unsettle(*held)
