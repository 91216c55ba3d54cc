"""Windows that are found in the rows of a key at each multiple of a time."""

from typing import Any, ClassVar

import numpy as np

from muntin.journal import Journal
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.changes import Changes
from muntin.slicing.lane import Report, Setting
from muntin.slicing.lanes.row_lane import RowLane
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.partials import Partials
from muntin.slicing.report_pieces import Expected
from muntin.slicing.tables import END, KEY
from muntin.windows import Ticking


class TickLane(RowLane):
    """One window at every tick; a key that has rows is looked at when time passes."""

    BY_END: ClassVar[bool]
    """Whether a window that starts elsewhere after a late row is still the same one."""
    window: Ticking

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        remembers = setting.lateness.longest > 0
        changed = Changes(1, partials, remembers, by_end=self.BY_END)
        self._changed = changed if setting.changes else None
        self._by_life = setting.idle is not None  # changes are those of a key, from life to life

    def expected(self, watermark: Array) -> Expected:
        return super().expected(watermark) if self._changes else self._expected_ticks(watermark)

    def advance(self, watermark: Array, journal: Journal) -> Report:
        report = super().advance(watermark, journal)
        return report if self._by_life else self.of_keys(report, self.space, self._time, journal)

    def of_keys(self, report: Report, keys: int, watermark: Array, journal: Journal) -> Report:
        if self._changed is None:
            return report
        if self._by_life:  # where the next life has a window, the one before does not end
            same = (np.diff(report.windows[:, [KEY, END]], axis=0) == 0).all(1)
            report = report.pick(~np.append(same, False)[: len(report.windows)])
        journal.fields(self._changed)
        self._changed.grow_keys(keys)
        return self._changed.apply(report, self.lateness.past(watermark), journal)

    def _life_ends(self, times: Array) -> int:
        """Return the first end behind the life of a key's rows, which has no window any more."""
        return self.window.first_end(int(times[-1]) + self._idle)

    def unsaid(self) -> Array:
        return (self._due[: self.keys] < NEVER) & self._changes

    def known_keys(self, keys: int, past: int) -> Array:
        if self._changed is None:
            return super().known_keys(keys, past)
        return self._changed.alive(keys, np.array([past]))

    def keep_known_keys(self, alive: Array) -> None:
        if self._changed is not None:
            self._changed.keep_keys(alive)

    def add_aggregate(self, column: Partials) -> None:
        super().add_aggregate(column)
        if self._changed is not None:
            self._changed.add_aggregate(column)

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
        latest = self._time.max(initial=ALWAYS)
        if self._changed is not None and lateness.longest > 0 and not self._changed.remembers:
            self._changed.remember(np.array([latest]) if self._by_life else self._time)

    def keep_keys(self, alive: Array) -> None:
        super().keep_keys(alive)
        if not self._by_life:
            self.keep_known_keys(alive)

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
