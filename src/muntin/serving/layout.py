"""Which stretch of time each block of a published query holds, level by level.

A slice is known by its start. A block of level 0 holds the slices that start in one stretch of time. A
block of level j has a tile for each block of level j - 1 in it: that block's slices merged, as the
levels of MTA hold chunks (TPDS 2019). What a window holds from b up to t is then, at each level, the
end of one block and the beginning of another: O(log n) blocks, whose names follow from b and t.

    level 1   |      tiles of      |      tiles of      |      tiles of      |
    level 0   | b ->  |    |    |       |     |     |     |    |  -> t |
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.query.at_time import refuse_timeless, since
from muntin.query.query import Query
from muntin.slicing.edges import Edges
from muntin.slicing.limits import Array
from muntin.windows import ContextFreeWindow, Cumulate, Fired, Periodic, Window

FAN = 16
"""Tiles in a block, about: a lookup reads two blocks per level, and a write one."""


@dataclass(frozen=True)
class Layout:
    """Where slices begin, and how wide the stretches of blocks are."""

    edges: Edges | None  # None if each moment that has rows is a slice
    widths: tuple[int, ...]  # of a block of each level
    longest: int  # the rows of a window begin at most so long before the time of a lookup

    @classmethod
    def of(cls, query: Query) -> "Layout":
        """Choose a layout for a query, or refuse windows that are found in rows."""
        refuse_timeless(query)
        for name, window in query.windows.items():
            if since(window, np.zeros(1, np.int64)) is None or _longest(window) is None:
                raise ValueError(
                    f"window {name!r} ({window.describe()}) cannot be published: slices of time do not "
                    "tell where it begins; use lookup of an operator, or a window of time"
                )
        windows = [*query.windows.values()]
        fired = any(isinstance(window, Fired) for window in windows)
        ordered = any(not aggregate.commutative for aggregate in query.aggregates.values())
        grids = [w for w in windows if isinstance(w, ContextFreeWindow)]
        longest = max(_longest(window) or 0 for window in windows)
        widths = [max(min(map(_finest, windows)) * FAN, 1)]
        while widths[-1] < longest:
            widths.append(widths[-1] * FAN)
        return cls(None if fired or ordered else Edges(grids), tuple(widths), longest)

    def starts(self, times: Array) -> Array:
        """Return where the slice of each row begins."""
        return times if self.edges is None or len(times) == 0 else self.edges.starts(times)

    def fields(self, begin: int, time: int) -> dict[str, tuple[int, int]]:
        """Return the blocks that a window from `begin` up to `time` reads: level and number by name."""
        found: dict[str, tuple[int, int]] = {}
        for level, width in enumerate(self.widths):
            first, last = begin // width, time // width
            found |= {field(level, number): (level, number) for number in (first, last)}
            if first == last:
                break
        return found

    def needed(self, tiles: Array, begin: int, time: int) -> Array:
        """Return which tiles, as (level, start), make up a window; they overlap in no row."""
        level, start = tiles
        chosen = np.zeros(len(level), np.bool_)
        for j, width in enumerate(self.widths):
            mine, block = level == j, start // width
            ends = (block == begin // width) | (block == time // width)
            if j == 0:
                chosen |= mine & ends & (start >= begin) & (start < time)
            else:
                below = start // self.widths[j - 1]
                first, last = begin // self.widths[j - 1], time // self.widths[j - 1]
                chosen |= mine & ends & (below > first) & (below < last)
            if begin // width == time // width:
                break
        return chosen

    def past(self, query: Query, watermark: int) -> int:
        """Return the time before which no slice is needed at a watermark, or at a later time."""
        now = np.array([watermark])
        begins = [since(window, now) for window in query.windows.values()]
        return min(int(begin[0]) for begin in begins if begin is not None)


def field(level: int, number: int) -> str:
    """Return the name of a block."""
    return f"{level}:{number}"


def _longest(window: Window) -> int | None:
    """Return how far before a time a window may begin; None if that is not known."""
    if isinstance(window, Fired):
        return int(window.size)
    longest: Any = getattr(window, "longest", None)
    if longest is None:
        return None
    return int(longest) + (window.every if isinstance(window, Periodic) else 0)


def _finest(window: Window) -> int:
    """Return about how long slices are for a window."""
    if isinstance(window, Periodic):
        return window.every
    if isinstance(window, Cumulate):
        return window.step
    return max((_longest(window) or 1) // (FAN * FAN), 1)
