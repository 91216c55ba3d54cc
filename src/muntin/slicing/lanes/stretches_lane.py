"""The last stretches between rows that open one: each that closes, with those before it.

Rows are kept, with whether they open a stretch. Where a stretch closes, a window of it and of those
before it is complete; so windows overlap, and a late row that opens a stretch moves those behind it.
"""

from typing import Any, ClassVar

import numpy as np

from muntin.journal import Journal
from muntin.slicing.arena import span, whole
from muntin.slicing.lane import NO_GROUPS, Prepared, Setting, longer
from muntin.slicing.lanes.assigned_lane import CHANGED, FINAL, AssignedLane
from muntin.slicing.lanes.assigned_windows import Found
from muntin.slicing.lanes.row_lane import RowLane
from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.partials import Partials
from muntin.slicing.rows import KeptRows, Rows, opening
from muntin.slicing.tables import ROW_MEASURE, ROW_TIME


class StretchesLane(AssignedLane):
    """A punctuation's windows of more than one stretch."""

    IN_LIVES: ClassVar[bool] = True

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        self._reaching = opening(name)
        self.kept = KeptRows([*partials])
        self.kept.measure = self._reaching
        self._final = np.zeros(0, np.int64)  # windows of each key that end up to it are forgotten

    @property
    def extra(self) -> dict[Any, np.dtype[Any]]:
        return {self._reaching: np.dtype(np.bool_)}

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys, watermark)
        self._final = longer(self._final, self.kept.runs.keys, ALWAYS)

    def alive(self) -> Array:
        return RowLane.alive(self)

    def keep_keys(self, alive: Array) -> None:
        padded = np.append(alive, np.zeros(self.kept.runs.keys - len(alive), np.bool_))
        self._final = self._final[padded]
        super().keep_keys(alive)

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        """Return which rows are not too late, and those lifted."""
        del journal
        time = self._time[rows.keys] if self._ordered else self._time
        counts: Array = rows.times >= self.lateness.past(time)
        rows = rows.take(np.nonzero(counts)[0]).in_order()
        if len(rows) == 0:
            return counts, None
        return counts, Prepared(rows, NO_GROUPS, [], self.kept.lift(rows))

    def _stretches(self, rows: Rows, first: Array) -> tuple[Array, Array, Array, Array]:
        closes = np.where(rows.extra[self._reaching], rows.times, NEVER)
        start, last = rows.times[first], np.maximum.reduceat(rows.times, first)
        runs, keys = self.kept.runs, rows.keys[first]
        newest = runs.meta[runs.head[keys] + np.maximum(runs.length[keys] - 1, 0), ROW_TIME]
        late = (runs.length[keys] > 0) & (start < newest)  # it may be the first row of all
        soon = np.where(late, ALWAYS, np.minimum.reduceat(closes, first))
        return start, soon, last, np.zeros(len(first), np.int64)

    def _edges(self, key: int) -> tuple[Array, Array]:
        """Return where stretches of a key begin, and the number of the first row of each."""
        runs = self.kept.runs
        meta = runs.meta[int(runs.head[key]) : int(runs.head[key] + runs.length[key])]
        times = meta[:, ROW_TIME]
        edges = np.unique(np.append(times[:1], times[meta[:, ROW_MEASURE] > 0]))
        return edges, np.searchsorted(times, edges)

    def _windows(self, key: int) -> Found:
        edges, first = self._edges(key)
        ends = np.arange(1, len(edges))
        ends = ends[edges[1:] > self._final[key]]
        starts = np.maximum(ends - self.window.last, 0)
        spans = list(zip(edges[starts].tolist(), edges[ends].tolist(), strict=True))
        rows = first[ends] - first[starts]
        return Found(spans, span(first[starts], rows), np.append(0, np.cumsum(rows)))

    def _drop(self, key: int, found: Found, journal: Journal) -> None:
        """Forget the windows of a key that are past, and the rows that no other has."""
        told, place = self._told.get(key, {}), np.array([key if self._ordered else 0])
        past = int(self.lateness.past(self._time[place])[0])
        edges, first = self._edges(key)
        final = int(np.searchsorted(edges, past, side="right"))
        if final:
            journal.items(np.array([key]), self._final)
            self._final[key] = edges[final - 1]
        for window in [w for w in told if w[1] <= self._final[key]]:
            del told[window]
        if not told:
            self._told.pop(key, None)
        needless = int(first[max(final - self.window.last, 0)]) if len(edges) else 0
        if needless:
            self.kept.runs.drop_front(np.array([key]), np.array([needless]), journal)
        late = self.lateness.longest
        looks = (
            window[1] + (late if told.get(window) in (FINAL, FINAL + CHANGED) else 0)
            for window in found.spans
            if window[1] > self._final[key]
        )
        self._due[key] = min(looks, default=NEVER)

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "final": self._final[: self.keys]}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        self._final[: self.keys] = whole(plain["final"], count=self.keys)
