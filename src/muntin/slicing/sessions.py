"""Session windows: each slice is a session, and a row may extend one or join two.

Sessions of commutative aggregates need no rows (EDBT 2019, section 5.1): a session is never split.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from muntin.slicing.lane import GROUP_FIELDS, RETRACT, START, Lane, Prepared, Report, lines, longer
from muntin.slicing.loops import ALWAYS, Array, compiled_loops
from muntin.slicing.partials import Partials
from muntin.slicing.rows import Rows
from muntin.slicing.runs import whole
from muntin.windows import Session

WIDTH = 7


class SessionLane(Lane):
    """The sessions of one gap; of those that were added later, only what `begins` by a time is whole."""

    PER_KEY: ClassVar[tuple[str, ...]] = ("_after",)

    def __init__(
        self,
        name: str,
        window: Session,
        partials: list[Partials],
        *,
        lateness: int,
        per_key: bool,
        keeps_rows: bool,
    ) -> None:
        super().__init__([name], partials, WIDTH, keeps_rows)
        self.windows = {name: window}
        self.gap = window.gap
        self.lateness = lateness
        self._stride = int(per_key)
        self._after = np.full(int(not per_key), ALWAYS)
        self._gone: list[Array] = []
        self.begins = ALWAYS

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys, watermark)
        if self._stride:
            self._after = longer(self._after, self.slices.keys, watermark)

    def admit(self, rows: Rows) -> tuple[Array | None, Prepared | None]:
        """Return which rows count (whose own session would not be past), and those folded."""
        after = self._after[rows.keys] if self._stride else self._after
        counts = rows.times > np.maximum(after, ALWAYS + self.gap + self.lateness) - (
            self.gap + self.lateness
        )
        rows = rows if counts.all() else rows.take(np.nonzero(counts)[0])
        if len(rows) == 0:
            return counts, None
        return counts, self._grouped(rows if self.kept is None else rows.in_order())

    def _grouped(self, rows: Rows) -> Prepared:
        group = np.empty(len(rows), np.int64)
        found = np.empty((len(rows), GROUP_FIELDS), np.int64)
        arguments = (rows.keys, rows.times, self.gap, np.full(self.keys, -1), group, found)
        count = compiled_loops().group_sessions(*arguments)
        return self.fold(rows, None if count == 1 else group, found[:count])

    def undo(self, keys: Array) -> Callable[[], None]:
        restore, gone = super().undo(keys), len(self._gone)

        def also() -> None:
            restore()
            del self._gone[gone:]

        return also

    def hold(self) -> Callable[[], None]:
        restore, gone = super().hold(), list(self._gone)

        def also() -> None:
            restore()
            self._gone = gone

        return also

    def alive(self) -> Array:
        alive = super().alive()
        for gone in self._gone:
            alive[gone[:, 0]] = True
        return alive

    def commit(self, prepared: Prepared) -> None:
        """Put the groups into the sessions they touch."""
        found, group, space = prepared.found, 0, len(prepared.found)
        keys = self.slices.reserve(np.ascontiguousarray(found[:, 0]))
        state = (self.slices.meta, self.slices.head, self.slices.length, self.due)
        while group < len(found):
            log, gone = np.empty((4 * space, 3), np.int64), np.empty((space, 3), np.int64)
            arguments = (group, len(found), found, self.gap, *state, log, gone)
            group, steps, lost = compiled_loops().place_sessions(*arguments)
            self._gone.append(gone[:lost])
            self.follow(prepared, keys, log, steps)
            space *= 2
        if self.kept is not None:
            self.kept.insert(prepared.rows, prepared.kept)

    def advance(self, watermark: Array) -> Report:
        """Report the sessions that are complete or have changed, and retract those that are no more."""
        self.refresh()
        gone = np.concatenate([*self._gone, np.empty((0, 3), np.int64)])
        self._gone = []
        retracted = np.zeros((len(gone), 7), np.int64)
        retracted[:, 0], retracted[:, 2] = gone[:, 0], gone[:, 1]
        retracted[:, 3] = gone[:, 2] + self.gap
        retracted[:, 6] = RETRACT
        windows = np.concatenate([retracted, self._due(watermark)])
        report = self.answer(windows[windows[:, START] >= self.begins])
        self.drop_kept()
        return report

    def plain(self) -> dict[str, Any]:
        gone = np.concatenate([*self._gone, np.empty((0, 3), np.int64)])
        return {**super().plain(), "gone": gone, "begins": self.begins}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        gone = whole(plain["gone"], 3)
        if len(gone) and not 0 <= gone[:, 0].min() <= gone[:, 0].max() < self.keys:
            raise ValueError(f"sessions are gone of keys that are not among {self.keys}")
        self._gone = [gone]
        self.begins = int(plain["begins"])

    def _due(self, watermark: Array) -> Array:
        self._after = np.maximum(watermark, self._after)
        state = (self.slices.meta, self.slices.head, self.slices.length, self.due)
        bounds = (self.gap, self._after, self.lateness, self._stride)
        key, gathered = 0, [lines(0)]
        while key < self.keys:
            arguments = (key, self.keys, *state, *bounds, 0, self._out)
            key, count = compiled_loops().report_sessions(*arguments)
            gathered.append(self._out[:count].copy(order="F"))
            if key < self.keys:
                self._out = lines(4 * len(self._out))
        return np.concatenate(gathered)
