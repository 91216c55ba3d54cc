"""A bucket per window, into which each of its rows is copied (EDBT 2019, section 3.3: Window-ID).

What Spark and Flink do, kept for comparison: the cost of a row grows with the windows it belongs to.
"""

from dataclasses import replace

import numpy as np

from muntin.journal import Journal
from muntin.slicing.held_items import HeldItems
from muntin.slicing.lane import Prepared
from muntin.slicing.lanes.grid_lane import GridLane
from muntin.slicing.limits import NEVER, Array, less
from muntin.slicing.rows import Rows
from muntin.slicing.tables import END, HI, LO, SLICE_FIRST, START
from muntin.windows import ContextFreeWindow, Periodic


class BucketLane(GridLane):
    """The buckets of one kind of windows: a slice that starts at k * every is the whole window k.

    Window k is complete when its end has passed, which is when [k * every, (k + 1) * every) would be
    complete by a watermark that is (size - every) behind.
    """

    def _define(self, windows: dict[str, ContextFreeWindow]) -> None:
        super()._define(windows)
        (window,) = windows.values()
        assert isinstance(window, Periodic)
        self._window = window
        self._back = 0
        self._behind = window.size - window.every
        self._repeat([(window.every, window.every, window.origin % window.every)])

    def held(self, keys: Array, journal: Journal) -> HeldItems:
        del keys, journal
        raise ValueError("the plan 'buckets' has no lookups: choose another")

    def shares(self, kind: str) -> bool:
        del kind
        return False

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        journal.fields(self._edges)
        window = self._window
        past = self.lateness.past(self._after[rows.keys] if self._stride else self._after)
        last = (rows.times - window.origin) // window.every * window.every + window.origin
        counts = last + window.size > np.maximum(rows.times, past)
        rows = rows.take(np.nonzero(counts)[0])
        if len(rows) == 0:
            return counts, None
        rows = rows if self.kept is None else rows.in_order()
        copied = self._grouped(*self._copies(rows))
        if self.kept is None:
            return counts, copied
        return counts, replace(copied, rows=rows, kept=self.kept.lift(rows))

    def _copies(self, rows: Rows) -> tuple[Rows, Array]:
        """Return each row once per window that holds it and is not past, and the windows' starts."""
        window = self._window
        past = self.lateness.past(self._after[rows.keys] if self._stride else self._after)
        last = (rows.times - window.origin) // window.every * window.every + window.origin
        copies = -(-window.size // window.every)
        starts = (last[:, None] - window.every * np.arange(copies)).ravel()
        source = np.repeat(np.arange(len(rows)), copies)
        inside = starts + window.size > np.maximum(rows.times, past)[source]
        return rows.take(source[inside]), starts[inside]

    def _due(self, upto: Array, past: Array, final: Array, journal: Journal) -> Array:
        self._after = less(self._after, self._behind)
        before = [less(times, self._behind) for times in (upto, past, final)]
        windows = super()._due(before[0], before[1], before[2], journal)
        self._after = upto
        windows[:, END] = windows[:, START] + self._window.size
        windows[:, HI] = np.minimum(windows[:, HI], windows[:, LO] + 1)
        return windows

    def _first_rows(self) -> Array:
        """Return the same of all buckets: a late row may be in a later one only."""
        slices, first = self.slices, np.full(self.slices.keys, NEVER)
        owners = np.repeat(np.arange(slices.keys), slices.length)
        np.minimum.at(first, owners, slices.meta[slices.live(), SLICE_FIRST])
        return first
