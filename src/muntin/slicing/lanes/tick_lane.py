"""Windows that are found in the rows of a key at each multiple of a time."""

from typing import Any, ClassVar

from muntin.journal import Journal
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.changes import Changes
from muntin.slicing.lane import Report, Setting
from muntin.slicing.lanes.row_lane import RowLane
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import Array
from muntin.slicing.partials import Partials
from muntin.slicing.report_pieces import Expected
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

    def expected(self, watermark: Array) -> Expected:
        return super().expected(watermark) if self._changes else self._expected_ticks(watermark)

    def advance(self, watermark: Array, journal: Journal) -> Report:
        report = super().advance(watermark, journal)
        if self._changed is None:
            return report
        journal.fields(self._changed)
        self._changed.grow_keys(self.space)
        return self._changed.apply(report, self.lateness.past(self._time), journal)

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
