"""Where each row's window begins and ends, as row numbers that never fall.

A window of n rows is (i - n, i] and a window of time (t - size, t], both closed on the right unless told
otherwise; a row never looks past itself unless the window is centred. With groups, rows are taken group
by group, and windows stay inside their group.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Side = Literal["left", "right"]
CLOSED = ("right", "left", "both", "neither")


@dataclass(frozen=True)
class Spans:
    """Windows [starts[k], ends[k]) over rows."""

    starts: Array
    ends: Array

    def longest(self) -> int:
        """Return the number of rows in the longest window."""
        return int(np.max(self.ends - self.starts, initial=0))

    def every(self, step: int) -> "Spans":
        """Keep every step-th window, from the first on."""
        return Spans(self.starts[::step].copy(), self.ends[::step].copy())


def row_spans(rows: int, n: int, closed: str, center: bool, first: Array | None) -> Spans:
    """Return the windows of n rows; first[i] is the first row of row i's group."""
    ends = np.arange(1, rows + 1)
    if center:
        ends += (n - 1) // 2
    starts = ends - n
    starts -= closed in ("left", "both")
    ends -= closed in ("left", "neither")
    if first is None:
        return Spans(np.clip(starts, 0, rows), np.clip(ends, 0, rows))
    last = np.append(first[1:][first[1:] != first[:-1]], rows)
    after = np.repeat(last, np.diff(np.append(np.unique(first), rows)))
    return Spans(np.clip(starts, first, after), np.clip(ends, first, after))


def time_spans(times: Array, size: int, closed: str, center: bool) -> Spans:
    """Return the windows of time around each row's time."""
    left: Side = "left" if closed in ("left", "both") else "right"
    right: Side = "right" if closed in ("right", "both") else "left"
    half = size // 2
    before, after = (half, half) if center else (size, 0)
    starts = np.searchsorted(times, times - before, side=left)
    ends = np.searchsorted(times, times + after, side=right)
    if not center:
        ends = np.minimum(ends, np.arange(1, len(times) + 1))
    return Spans(starts, np.maximum(starts, ends))


def tick_spans(times: Array, size: int, every: int) -> tuple[Array, Spans]:
    """Return the multiples of `every` from the first row to after the last, and [tick - size, tick)."""
    first = (int(times[0]) // every + 1) * every
    last = (int(times[-1]) // every + 1) * every
    ticks = np.arange(first, last + 1, every, dtype=np.int64)
    return ticks, Spans(np.searchsorted(times, ticks - size), np.searchsorted(times, ticks))
