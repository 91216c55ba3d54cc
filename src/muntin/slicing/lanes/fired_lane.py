"""The last so much of time or of a column, after each so manyth row of a key."""

from typing import Any, ClassVar

import numpy as np

from muntin.journal import Journal
from muntin.slicing.arena import span
from muntin.slicing.held_items import Look
from muntin.slicing.lane import Setting, lines
from muntin.slicing.lanes.tick_lane import TickLane
from muntin.slicing.limits import Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.loops.fired_windows import Trigger
from muntin.slicing.partials import Partials
from muntin.slicing.report_pieces import NOT_MANY, Expected
from muntin.slicing.rows import advancing
from muntin.slicing.tables import ROW_MEASURE
from muntin.windows import Fired


class FiredLane(TickLane):
    """Windows that rows fire; a report has the number of a window's first row, and the time of its end.

    Rows are kept as long as one that may still come, or get another number, can have them in its window.
    """

    BY_END: ClassVar[bool] = True
    window: Fired  # type: ignore[assignment]

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        self._of_column = window.measure != "time"
        if self._of_column:
            self.kept.measure = advancing(window.measure)

    @staticmethod
    def _looks_at_rows(window: Any, setting: Setting) -> bool:
        del window, setting
        return False

    @property
    def extra(self) -> dict[Any, np.dtype[Any]]:
        return {advancing(self.window.measure): np.dtype(np.int64)} if self._of_column else {}

    def _unseen(self, look: Look) -> Array:
        assert look.begin is not None
        unseen: Array = self._begins[look.keys] >= look.begin
        return unseen

    def expected(self, watermark: Array) -> Expected:
        del watermark
        return NOT_MANY  # no more than there are rows

    def _found(self, before: Array, journal: Journal) -> Array:
        """Return the windows to report, and forget the rows that none needs any more."""
        keys = self._to_look_at()
        self._note_reported(keys, journal)
        rows, report = self.kept.runs, compiled_loops().report_fired
        due = int(rows.length[keys].sum()) // self.window.every
        if due > len(self._out):
            self._out = lines(due)
        needless, values = np.zeros(len(keys), np.int64), rows.meta.view(np.float64)
        runs, known, marks = rows.runs(), self._row_keys(), self._marks(before)
        trigger = self._trigger()
        found = self._gather(
            keys,
            lambda left: report(
                left, runs, values, known, trigger, marks, needless[-len(left) :], self._out
            ),
        )
        self._drop(keys, needless, journal)
        return found

    def _note_reported(self, keys: Array, journal: Journal) -> None:
        super()._note_reported(keys, journal)
        if self._of_column:
            runs = self.kept.runs
            first = self.kept.places(keys, self._fresh[keys])
            new = span(first, runs.head[keys] + runs.length[keys] - first)
            journal.items(new, runs.meta[:, ROW_MEASURE])

    def _trigger(self) -> Trigger:
        """Return which windows rows fire, as loops take it."""
        size = 0 if self._of_column else int(self.window.size)
        reach = float(self.window.size) if self._of_column else 0.0
        every, longest = self.window.every, self.lateness.longest
        return Trigger(every, size, reach, self._ordered, longest)
