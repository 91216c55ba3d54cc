"""Windows that are found in the rows of a key at each multiple of a time.

A window goes on from the one before, as those over slices do: each row is a slice of its own.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from muntin.journal import Journal
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.changes import Changes
from muntin.slicing.kept_windows import KeptWindows
from muntin.slicing.lane import Prepared, Report, Setting, lines, together
from muntin.slicing.lanes.row_lane import RowLane
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.loops.last_rows import Marks, RowKeys, Ticks
from muntin.slicing.partials import KEPT, WORST_CASE, Partials
from muntin.slicing.report_pieces import Expected
from muntin.slicing.tables import END, KEY
from muntin.windows import Ticking

FEW_LINES = 256
"""Windows that there is space for at first in the table into which loops write a report."""
SLIDES = np.array([[2, 1, 0]])
"""A window that shares rows with the next, as the periods of windows over slices say it."""


class TickLane(RowLane):
    """One window at every tick; a key that has rows is looked at when time passes."""

    BY_END: ClassVar[bool]
    """Whether a window that starts elsewhere after a late row is still the same one."""
    window: Ticking
    over: KeptWindows | None = None

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        remembers = setting.lateness.longest > 0
        changed = Changes(1, partials, remembers, by_end=self.BY_END)
        self._changed = changed if setting.changes else None
        self._by_life = setting.idle is not None  # changes are those of a key, from life to life
        self._out = lines(FEW_LINES)
        self._keep_windows()

    def _keep_windows(self) -> None:
        """Keep what windows leave for the next ones, if the plan says so; nothing is kept of any yet."""
        for kept in self.over.columns if self.over is not None else ():
            self.kept.runs.no_longer_beside(kept)
        keeps = bool(self.partials) and self.partials[0].store in (KEPT, WORST_CASE)
        self.over = KeptWindows(self.kept.runs, self.partials) if keeps else None

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

    def _inserted(self, prepared: Prepared, keys: Array, places: Array, journal: Journal) -> None:
        if self.over is not None:
            journal.call(self.over.forget, keys)
            self.over.inserted(prepared.rows.keys, places, prepared.kept)

    def _results(self, windows: Array, journal: Journal) -> list[tuple[Array, ...]]:
        if self.over is None or not self.over.serve(SLIDES, 1):
            return super()._results(windows, journal)
        results = self.over.query(windows, journal)
        self.over.leave(journal)
        return results

    def _marks(self, before: Array) -> Marks:
        """Return the times of keys, as loops take them."""
        final = self.lateness.past(self._time)
        return Marks(before, self._time, final, int(self._ordered))

    def _ticks(self) -> Ticks:
        """Return when windows are reported, as loops take it."""
        every, origin = self.window.every, self.window.origin % self.window.every
        return Ticks(every, origin, self._idle, self.lateness.longest, self._changes)

    def _row_keys(self) -> RowKeys:
        """Return what is known of each key's rows, as loops take it."""
        return RowKeys(self._fresh, self._due, self._first_rank, self._begins)

    def _gather(self, keys: Array, report: Callable[[Array], tuple[int, int]]) -> Array:
        """Return the lines that a loop writes of some keys into `_out`, made longer if they do not fit.

        `report` takes keys, and returns how many of them are done, and how many lines it wrote.
        """
        done, gathered = 0, [lines(0)]
        while done < len(keys):
            more, count = report(keys[done:])
            done += more
            gathered.append(self._out[:count].copy(order="F"))
            if done < len(keys):
                self._out = lines(4 * len(self._out))
        return together(gathered[1:] or gathered)

    def _drop(self, keys: Array, needless: Array, journal: Journal) -> None:
        """Forget the first rows of keys."""
        some = needless > 0
        self.kept.runs.drop_front(keys[some], needless[some], journal)
        self._first_rank[keys] += needless

    def add_aggregate(self, column: Partials) -> None:
        super().add_aggregate(column)
        self._keep_windows()
        if self._changed is not None:
            self._changed.add_aggregate(column)

    def remove_aggregate(self, i: int) -> None:
        super().remove_aggregate(i)
        self._keep_windows()
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
        places = self.kept.runs.keys
        super().keep_keys(alive)
        if not self._by_life:
            self.keep_known_keys(alive)
        if self.over is not None:
            self.over.keep_keys(np.append(alive, np.zeros(places - len(alive), np.bool_)))

    def give_back(self, journal: Journal) -> None:
        super().give_back(journal)
        if len(self._out) > 4 * FEW_LINES:
            self._out = lines(FEW_LINES)

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
