"""The last n rows at each multiple of a time."""

from typing import Any, ClassVar

import numpy as np

from muntin.slicing.lane import Joining, Setting
from muntin.slicing.lanes.row_lane import NO_WINDOWS
from muntin.slicing.lanes.tick_lane import TickLane
from muntin.slicing.limits import ALWAYS, END_OF_TIME, NEVER, Array
from muntin.slicing.partials import Partials
from muntin.slicing.tables import (
    END,
    HI,
    KEY,
    KIND,
    LO,
    REPORT_COLUMNS,
    RESULT,
    ROW_NEW,
    ROW_TIME,
    START,
    UPDATE,
    WINDOW,
)
from muntin.slicing.tick_ends import all_ends, ends_after_rows
from muntin.windows import LastN


class LastRowsLane(TickLane):
    """The last n rows of each key, every so often; its start is the rank of the first of them.

    If rows came before the window was added, it is reported where n rows have come since.
    """

    NEEDS_ROWS: ClassVar[bool] = False
    BY_END: ClassVar[bool] = True
    window: LastN

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        self._ends_after = ALWAYS  # windows that end later are reported

    def join_stream(self, joining: Joining) -> None:
        super().join_stream(joining)
        self._ends_after = joining.latest

    def _find(
        self, key: int, meta: Array, after: int, upto: int, final: int
    ) -> tuple[Array, int, int]:
        times, new, window = meta[:, ROW_TIME], meta[:, ROW_NEW], self.window
        if len(times) == 0:
            return NO_WINDOWS.copy(), 0, NEVER
        needed = max(int(np.searchsorted(times, final)) - window.n, 0)
        fresh = self._fresh.get(key, NEVER)
        if self._changes:
            ends = self._changing_ends(times, upto)
            again = self._at(key, times, ends[(ends > fresh) & (ends <= after)])
            again[:, KIND] = UPDATE
            ends = ends[ends > after]
        else:
            ends = all_ends(
                window, max(after, int(times[0])), min(upto, int(times[-1]) + self._idle)
            )
            late = min(after, int(times[-1]) + self._idle)
            changed = all_ends(window, fresh, late) if fresh < after else times[:0]
            again = self._at(key, times, changed)
            rows_until = np.append(0, np.cumsum(new))
            again = again[rows_until[again[:, HI]] > rows_until[again[:, LO]]]
            before = times[new == 0]
            known = np.searchsorted(before, again[:, END]) >= self._least(key)
            last = int(before.max(initial=-END_OF_TIME))
            known &= again[:, END] <= min(last + self._idle, END_OF_TIME)
            again[known, KIND] = UPDATE
        found = np.concatenate([again, self._at(key, times, ends)])
        found = found[found[:, END] > self._ends_after]
        rows = found[:, HI] - found[:, LO]
        found = found[(rows >= self._least(key)) | (rows == 0)]
        return found, needed, self._next(times[needed:], upto)

    def _least(self, key: int) -> int:
        """Return how many of a key's rows a window must have to be whole."""
        return 1 if self._begins[key] == ALWAYS else self.window.n

    def _changing_ends(self, times: Array, upto: int) -> Array:
        """Return the ends up to a time at which the last n rows may be others, or are no more."""
        ends = ends_after_rows(self.window, times, min(upto, int(times[-1]) + self._idle))
        life_ends = self._life_ends(times)
        return np.append(ends, life_ends) if life_ends <= upto else ends

    def _next(self, times: Array, upto: int) -> int:
        """Return the next end at which there is something to report, or when a row can be forgotten."""
        due = self.window.first_end(upto)
        due = due if due <= int(times[-1]) + self._idle else NEVER
        if self._changes:
            ends = self._changing_ends(times, END_OF_TIME)
            due = int(ends[ends > upto].min(initial=NEVER))
        if len(times) > self.window.n:
            due = min(due, int(times[self.window.n]) + self.lateness.longest + 1)
        return due

    def _at(self, key: int, times: Array, ends: Array) -> Array:
        """Return the last n of a key's rows at each end."""
        found = np.empty((len(ends), REPORT_COLUMNS), np.int64)
        found[:, KEY], found[:, WINDOW], found[:, END], found[:, KIND] = key, 0, ends, RESULT
        found[:, HI] = np.searchsorted(times, ends)
        found[:, LO] = np.maximum(found[:, HI] - self.window.n, 0)
        over = ends > int(times[-1]) + self._idle
        found[over, LO] = found[over, HI]
        found[:, START] = self._first_rank[key] + found[:, LO]
        return found

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "ends_after": self._ends_after}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        self._ends_after = int(plain["ends_after"])
