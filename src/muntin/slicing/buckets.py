"""A bucket per window, into which each of its rows is copied (EDBT 2019, section 3.3: Window-ID).

What Spark and Flink do, kept for comparison: the cost of a row grows with the windows it belongs to.
"""

import numpy as np

from muntin.slicing.grid import GridLane, less
from muntin.slicing.lane import END, HI, LO, START, Prepared
from muntin.slicing.loops import Array
from muntin.slicing.rows import Rows
from muntin.windows import Periodic


class BucketLane(GridLane):
    """The buckets of one kind of windows: a slice that starts at k * every is the whole window k.

    Window k is complete when its end has passed, which is when [k * every, (k + 1) * every) would be
    complete by a watermark that is (size - every) behind.
    """

    def __init__(self, windows: dict[str, Periodic], *arguments: object, **options: object) -> None:
        super().__init__(windows, *arguments, **options)  # type: ignore[arg-type]
        (window,) = windows.values()
        self._window = window
        self._behind = window.size - window.every
        self._periods = np.array([[window.every, window.every, window.origin]])

    def admit(self, rows: Rows) -> tuple[Array | None, Prepared | None]:
        window = self._window
        after = self._after[rows.keys] if self._stride else self._after
        past = less(after, self.lateness)
        last = (rows.times - window.origin) // window.every * window.every + window.origin
        copies = -(-window.size // window.every)
        starts = (last[:, None] - window.every * np.arange(copies)[::-1]).ravel()
        source = np.repeat(np.arange(len(rows)), copies)
        ends = starts + window.size
        inside = (ends > rows.times[source]) & (ends > np.broadcast_to(past, len(rows))[source])
        counts = np.zeros(len(rows), np.bool_)
        counts[source[inside]] = True
        source = source[inside]
        if len(source) == 0:
            return counts, None
        copied = rows.take(source)
        if self.kept is not None:
            order = np.lexsort((copied.times, starts[inside], copied.keys))
            return counts, self._grouped(copied.take(order), starts[inside][order])
        return counts, self._grouped(copied, starts[inside])

    def _due(self, upto: Array, past: Array, final: Array) -> Array:
        after = self._after
        self._after = less(after, self._behind)
        windows = super()._due(
            less(upto, self._behind), less(past, self._behind), less(final, self._behind)
        )
        self._after = upto
        windows[:, END] = windows[:, START] + self._window.size
        windows[:, HI] = windows[:, LO] + 1
        return windows
