"""The last n rows at each multiple of a time."""

from typing import Any, ClassVar

import numpy as np

from muntin.journal import Journal
from muntin.slicing.held_items import Look
from muntin.slicing.lane import Joining, Setting
from muntin.slicing.lanes.tick_lane import TickLane
from muntin.slicing.limits import ALWAYS, Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.loops.last_rows import LastRows
from muntin.slicing.partials import Partials
from muntin.windows import LastN


class LastRowsLane(TickLane):
    """The last n rows of each key, every so often; its start is the rank of the first of them.

    If rows came before the window was added, it is reported where n rows have come since.
    """

    BY_END: ClassVar[bool] = True
    window: LastN

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        self._ends_after = ALWAYS  # windows that end later are reported

    @staticmethod
    def _looks_at_rows(window: Any, setting: Setting) -> bool:
        del window, setting
        return False

    def join_stream(self, joining: Joining) -> None:
        super().join_stream(joining)
        self._ends_after = joining.latest

    def _may_reach_back(self, look: Look) -> Array:
        reaches: Array = look.items < self.window.n
        return reaches

    def _found(self, before: Array, journal: Journal) -> Array:
        """Return the windows to report, and forget the rows that none needs any more."""
        keys = self._to_look_at()
        self._note_reported(keys, journal)
        needless, report = np.zeros(len(keys), np.int64), compiled_loops().report_last_rows
        runs, known, marks = self.kept.runs.runs(), self._row_keys(), self._marks(before)
        which, ticks = LastRows(self.window.n, self._ends_after), self._ticks()
        found = self._gather(
            keys,
            lambda left: report(
                left, runs, known, which, ticks, marks, needless[-len(left) :], self._out
            ),
        )
        self._drop(keys, needless, journal)
        return found

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "ends_after": self._ends_after}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        self._ends_after = int(plain["ends_after"])
