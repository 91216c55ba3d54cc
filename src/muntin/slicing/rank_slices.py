"""Slices of rows by their number, where rows came between others and moved all behind them.

Of all keys at once: where slices lie now, and what of their partials can be kept. If rows came only
behind those of a slice, they are added to it. If only the rows of a slice moved, the inverse takes those
away that left it, and adds those that entered (EDBT 2019, Figure 6). Else the slice is folded again.
"""

from typing import NamedTuple

import numpy as np

from muntin.slicing.arena import Arena, span
from muntin.slicing.edges import Edges, EveryRow
from muntin.slicing.limits import Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.tables import ROW_NEW, SLICE_ROWS, SLICE_START


class MovedRows(NamedTuple):
    """The kept rows of some keys, each from the first on that came or has another number."""

    keys: Array
    first: Array  # the number of that row
    offset: Array  # where its key begins among the rows of all keys, and where the last one ends
    rank: Array  # of each row, its number
    place: Array  # of each row, its place in the arena

    @classmethod
    def of(cls, keys: Array, first: Array, rows: Arena, first_rank: Array) -> "MovedRows":
        """Return the rows of some keys from a number on; `first_rank` is that of the first row kept."""
        behind = first - first_rank
        count = rows.length[keys] - behind
        offset = np.append(0, np.cumsum(count))
        return cls(keys, first, offset, span(first, count), span(rows.head[keys] + behind, count))

    def new_before(self, rows: Arena) -> Array:
        """Return how many rows of all keys came since the last report, before each row and in all."""
        return np.append(0, np.cumsum(rows.meta[self.place, ROW_NEW]))


class RankSlices(NamedTuple):
    """The slices that hold these rows, and those of the same keys that there were."""

    owner: Array  # of each slice, which of the keys it belongs to
    nth: Array  # of each slice, the how manyth it is of its key
    start: Array
    end: Array
    known: Array  # of each key, how many slices there are before them
    more: Array  # of each key, how many more there are now
    old_rows: Array  # how many rows each slice had; 0 if there was none

    @classmethod
    def of(
        cls, moved: MovedRows, edges: Edges | EveryRow, slices: Arena, first_rank: Array
    ) -> "RankSlices":
        """Cut rows into slices; the first slice of a key may begin before its first row."""
        begins = moved.offset[:-1]
        key = np.repeat(np.arange(len(moved.keys)), np.diff(moved.offset))
        starts = np.maximum(edges.starts(moved.rank), first_rank[key])
        cut = np.append(True, (starts[1:] != starts[:-1]) | (key[1:] != key[:-1]))
        (at,) = cut.nonzero()
        owner, start = key[at], starts[at]
        end = np.append(moved.rank[at[1:] - 1], moved.rank[-1]) + 1
        count = np.bincount(owner, minlength=len(begins))
        nth = np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)
        head, tail = slices.head[moved.keys], (slices.head + slices.length)[moved.keys]
        place = np.empty(len(begins), np.int64)
        compiled_loops().find_all(slices.meta, head, tail, starts[begins], place)
        held = tail - place
        there = (held > 0) & (
            slices.meta[np.minimum(place, slices.places - 1), SLICE_START] == starts[begins]
        )
        old = there[owner] & (nth < held[owner])
        at_old = np.where(old, place[owner] + nth, 0)
        old_rows = np.where(old, slices.meta[at_old, SLICE_ROWS], 0)
        return cls(owner, nth, start, end, place - head, np.maximum(count - held, 0), old_rows)

    @property
    def first(self) -> Array:
        """Which slices are the first of their key."""
        first: Array = self.nth == 0
        return first

    def appended(self, moved: MovedRows) -> Array:
        """Return which slices have the rows they had, and others behind them."""
        rows = moved.first[self.owner] - self.start
        appended: Array = self.first & (self.old_rows > 0) & (self.old_rows == rows)
        return appended

    def shifts(self, moved: MovedRows, rows: Arena) -> Array:
        """Return how far the rows of each slice moved, 0 where it is not a matter of moving them.

        A slice was only moved if no new row is in it, nor among the rows that it lost, and it is worth
        the while only if fewer than half of its rows left it.
        """
        new, offset = moved.new_before(rows), moved.offset[self.owner]
        first = moved.first[self.owner]
        rows_of_key = moved.offset[self.owner + 1] - offset
        by = new[offset + np.maximum(self.start - first, 0)] - new[offset]
        behind = self.end - first + by
        fits = (2 * by < self.end - self.start) & (behind <= rows_of_key)
        untouched = new[offset + np.minimum(behind, rows_of_key)] - new[offset] == by
        full = self.old_rows == self.end - self.start
        return np.where(full & untouched & fits, by, 0)


class RankSpans(NamedTuple):
    """What is to be done to the partials of slices."""

    places: Array  # of the slices
    lo: Array  # where the kept rows begin that are to be folded, or to be added
    hi: Array  # where they end
    by: Array  # how far the rows of a slice moved, 0 where it is not a matter of moving them
    appended: Array  # whether rows came only behind those of a slice, and are to be added
