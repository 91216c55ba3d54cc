"""The last n rows at each multiple of a time."""

from typing import Any, ClassVar

import numpy as np

from muntin.journal import Journal
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.changes import Changes
from muntin.slicing.lane import Report, Setting
from muntin.slicing.lanes.row_lane import NO_WINDOWS, RowLane
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.partials import Partials
from muntin.slicing.report_pieces import Expected
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


class LastRowsLane(RowLane):
    """The last n rows of each key, every so often; its start is the rank of the first of them.

    If rows came before the window was added, it is reported where n rows have come since.
    """

    NEEDS_ROWS: ClassVar[bool] = False
    window: LastN

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        remembers = setting.lateness.longest > 0
        self._changed = Changes(1, partials, remembers) if setting.changes else None

    def _visited(self) -> list[int]:
        return self._with_rows()

    def expected(self, watermark: Array) -> Expected:
        return super().expected(watermark) if self._changes else self._expected_ticks(watermark)

    def advance(self, watermark: Array, journal: Journal) -> Report:
        report = super().advance(watermark, journal)
        if self._changed is None:
            return report
        journal.fields(self._changed)
        self._changed.grow_keys(self.space)
        return self._changed.apply(report, self.lateness.past(self._time), journal)

    def _find(self, key: int, meta: Array, after: int, upto: int, final: int) -> tuple[Array, int]:
        times, new, window = meta[:, ROW_TIME], meta[:, ROW_NEW], self.window
        needed = max(int(np.searchsorted(times, final)) - window.n, 0)
        if len(times) == 0:
            return NO_WINDOWS.copy(), needed
        fresh = self._fresh.get(key, NEVER)
        if self._changes:
            ends = ends_after_rows(window, times, upto)
            again = self._at(key, times, ends[(ends > fresh) & (ends <= after)])
            again[:, KIND] = UPDATE
            ends = ends[ends > after]
        else:
            ends = all_ends(window, max(after, int(times[0])), upto)
            changed = all_ends(window, fresh, after) if fresh < after else times[:0]
            again = self._at(key, times, changed)
            rows_until = np.append(0, np.cumsum(new))
            again = again[rows_until[again[:, HI]] > rows_until[again[:, LO]]]
            known = np.searchsorted(times[new == 0], again[:, END]) > 0
            again[known, KIND] = UPDATE
        found = np.concatenate([again, self._at(key, times, ends)])
        if self._begins[key] > ALWAYS:
            found = found[found[:, HI] - found[:, LO] >= window.n]
        return found, needed

    def _at(self, key: int, times: Array, ends: Array) -> Array:
        """Return the last n of a key's rows at each end."""
        found = np.empty((len(ends), REPORT_COLUMNS), np.int64)
        found[:, KEY], found[:, WINDOW], found[:, END], found[:, KIND] = key, 0, ends, RESULT
        found[:, HI] = np.searchsorted(times, ends)
        found[:, LO] = np.maximum(found[:, HI] - self.window.n, 0)
        found[:, START] = self._first_rank[key] + found[:, LO]
        return found

    def add_aggregate(self, column: Partials) -> None:
        super().add_aggregate(column)
        if self._changed is not None:
            self._changed.add_aggregate(column.kernels)

    def remove_aggregate(self, i: int) -> None:
        super().remove_aggregate(i)
        if self._changed is not None:
            self._changed.remove_aggregate(i)

    @staticmethod
    def some_aggregates(plain: dict[str, Any], which: list[int]) -> dict[str, Any]:
        changed = plain["changed"]
        changed = None if changed is None else Changes.some_aggregates(changed, which)
        return {**RowLane.some_aggregates(plain, which), "changed": changed}

    def change_lateness(self, lateness: Lateness) -> None:
        super().change_lateness(lateness)
        if self._changed is not None and lateness.longest > 0 and not self._changed.remembers:
            self._changed.remember(self._time)

    def keep_keys(self, alive: Array) -> None:
        super().keep_keys(alive)
        if self._changed is not None:
            self._changed.keep_keys(alive)

    def parts(self) -> list[Any]:
        return [*super().parts(), *([] if self._changed is None else [self._changed])]

    def retype(self, i: int, kernels: SliceKernels) -> None:
        super().retype(i, kernels)
        if self._changed is not None:
            self._changed.retype(i, kernels)

    def plain(self) -> dict[str, Any]:
        changed = None if self._changed is None else self._changed.plain()
        return {**super().plain(), "changed": changed}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        if self._changed is not None:
            self._changed.load(plain["changed"])
