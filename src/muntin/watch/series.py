"""One key's windows of one name, each as it was last reported.

A window is known by its start and end, and one that ticks by its end alone: late rows may move its
start. Reports are only gathered as they come. They are settled when someone looks, or when they are
more than a quarter of what is held, so that a report costs O(1) amortised; sorting what is nearly
sorted takes linear time.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

Array = np.ndarray[Any, Any]

UNSETTLED = 1024
"""So many reports may always wait."""


@dataclass(frozen=True)
class Reports:
    """Reports of windows: bounds, whether the window is no more, and the numbers to draw."""

    starts: Array
    ends: Array
    gone: Array
    values: Array

    def __len__(self) -> int:
        return len(self.ends)

    def take(self, which: Any) -> Self:
        """Return some of the reports: a slice, a mask or places."""
        arrays = (self.starts, self.ends, self.gone, self.values)
        return type(self)(*(array[which] for array in arrays))


def nothing(fields: int) -> Reports:
    """Return an empty series of windows with this many numbers."""
    none = np.zeros(0, np.int64)
    return Reports(none, none, np.zeros(0, np.bool_), np.zeros((0, fields)))


class Series:
    """The windows of one name and key, in the order of their ends."""

    def __init__(self, fields: int, ticks: bool) -> None:
        self._held = nothing(fields)
        self._new: list[Reports] = []
        self._waiting = 0
        self._ticks = ticks

    def add(self, reports: Reports, most: int) -> None:
        """Take reports, in the order of arrival; of the windows the `most` last are kept."""
        self._new.append(reports)
        self._waiting += len(reports)
        if self._waiting > UNSETTLED + len(self._held) // 4:
            self.settle(most)

    def settle(self, most: int) -> Reports:
        """Return the last windows, at most this many."""
        if self._new:
            self._held = self._settled([self._held, *self._new])
            self._new, self._waiting = [], 0
        if len(self._held) > most:
            last = self._held.take(slice(-most, None))
            self._held = last.take(np.arange(most))  # a copy, so that the rest is freed
        return self._held

    def _settled(self, parts: list[Reports]) -> Reports:
        starts, ends, gone, values = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("starts", "ends", "gone", "values")
        )
        identity = (ends,) if self._ticks else (starts, ends)
        order = np.lexsort(identity)  # stable: of one window's reports the last one comes last
        differs = [np.diff(bound[order]) != 0 for bound in identity]
        is_last = np.append(np.logical_or.reduce(differs), True)
        kept = order[is_last & ~gone[order]]
        return Reports(starts, ends, gone, values).take(kept)
