"""The windows of one key that its rows open, as far as they may still change.

Each window begins a context, which sees its rows in the order of time. So a late row changes edges only
up to the next one that is found again and has no new row: contexts from there on see what they saw.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.tables import RESULT, RETRACT, ROW_TIME, UPDATE
from muntin.windows import ContextAwareWindow

LOST = object()
"""In place of a context that has to see its rows again."""
CHUNK = 512
"""Rows that are taken out of arrays at once."""
News = tuple[int, int, int]
"""A window to report: (start, end, kind)."""


class KeyRows(NamedTuple):
    """The kept rows of one key, in the order of time and arrival, some of which are new."""

    table: Array
    rows: Array  # as dicts
    new: list[int]  # the times of the new ones, in order


@dataclass(slots=True)
class OpenedWindows:
    """Where the windows of a key start, what was reported of them, and the context of the open one.

    They are settled once a window has become final: from then on the first edge is one, and not only the
    first row that was seen.
    """

    edges: list[int] = field(default_factory=list)  # the last window is open
    context: Any = LOST  # of the last window
    seen: int = ALWAYS  # the time of the last row
    reported: int = ALWAYS  # windows that end by this time were reported
    before: list[int] | None = None  # the edges up to it, if rows came up to it since
    late: list[int] = field(default_factory=list)  # the times of these rows
    settled: bool = False

    # Rows come in

    def noted(self, first: int) -> tuple[Any, ...]:
        """Return what `forget_rows` needs to undo that rows came, the first of them at a time."""
        cut = bisect_right(self.edges, first)
        return cut, self.edges[cut:], self.seen, self.before, len(self.late)

    def forget_rows(
        self, cut: int, tail: list[int], seen: int, before: list[int] | None, late: int
    ) -> None:
        """Undo that rows came; a context that may have seen them has to begin again."""
        self.edges[cut:] = tail
        self.context, self.seen, self.before = LOST, seen, before
        del self.late[late:]

    def take(self, window: ContextAwareWindow, held: KeyRows) -> None:
        """Find the edges again where new rows came.

        Cost: a call of the window's function per row in order, and another one for a row that opens a
        window. After a late row, a call for each row of the windows that it may change.
        """
        new = held.new
        among = bisect_right(new, self.reported)
        if among and self.before is None:
            self.before = self.edges[: bisect_right(self.edges, self.reported)]
        self.late += new[:among]
        i = 0
        while i < len(new):
            if new[i] < self.seen or self.context is LOST:
                i = bisect_right(new, self._see_again(window, held, new[i]))
            else:
                lo = len(held.rows) - (len(new) - i)
                sight = see(window, held, lo, self.edges[-1], self.context, [])
                self.edges += sight.edges
                self.context = sight.context
                i = len(new)
        self.seen = max(self.seen, new[-1])

    def _see_again(self, window: ContextAwareWindow, held: KeyRows, time: int) -> int:
        """See again the window that holds a time, and what follows while it changes.

        Return the edge from which on nothing changes, or NEVER.
        """
        at = bisect_right(self.edges, time)
        start = self.edges[at - 1] if at else time
        lo = bisect_left(held.table[:, ROW_TIME], start)
        sight = see(window, held, lo, start, window.begin(), self.edges)
        found = sight.edges if at else [start, *sight.edges]
        self.edges[at : bisect_left(self.edges, sight.stop)] = found
        if sight.stop == NEVER:
            self.context = sight.context
        return sight.stop

    # The watermark advances

    def news(self, first: int, upto: int) -> list[News]:
        """Return what to report of windows from a first edge on, which are complete by a time."""
        if self.before is None:
            edges = self.edges
            lo, hi = max(bisect_right(edges, self.reported), first + 1), bisect_right(edges, upto)
            return [(edges[i - 1], edges[i], RESULT) for i in range(lo, hi)]
        late = sorted(self.late)
        was = dict(windows_around(self.before, late[0], first, self.reported))
        now = dict(windows_around(self.edges, late[0], first, upto))
        gone = [(start, end, RETRACT) for start, end in was.items() if now.get(start) != end]
        news: list[News] = []
        for start, end in now.items():
            if was.get(start) != end:
                news.append((start, end, RESULT))
            elif bisect_left(late, start) < bisect_left(late, end):
                news.append((start, end, UPDATE))
        return gone + news

    def told(self, final: int) -> tuple[Any, ...]:
        """Return what `unsettle` needs to undo `settle`."""
        forgotten = self.edges[: self._final(final)]
        return len(self.edges), forgotten, self.reported, self.before, self.late, self.settled

    def settle(self, upto: int, final: int) -> None:
        """Take windows as reported that end by one time, and forget those that end by another."""
        self.reported, self.before, self.late = max(self.reported, upto), None, []
        gone = self._final(final)
        self.settled = self.settled or gone > 0
        del self.edges[:gone]

    def unsettle(
        self,
        count: int,
        forgotten: list[int],
        reported: int,
        before: list[int] | None,
        late: list[int],
        settled: bool,
    ) -> None:
        """Undo `settle`, wherever it was stopped."""
        self.edges[:0] = forgotten[: count - len(self.edges)]
        self.reported, self.before, self.late, self.settled = reported, before, late, settled

    def _final(self, final: int) -> int:
        """Return how many windows end by a time."""
        return max(bisect_right(self.edges, final) - 1, 0)

    def due(self, longest: int) -> int:
        """Return when there is something to report or to forget; windows change so long at most."""
        if self.before is not None:
            return ALWAYS
        edges = self.edges
        if len(edges) < 2:
            return NEVER
        coming = max(bisect_right(edges, self.reported), 1)
        final = edges[1] + longest
        return min(edges[coming], final) if coming < len(edges) else final

    # State

    def plain(self) -> list[Any]:
        """Return it as plain data, without the context."""
        return [self.edges, self.reported, self.before, self.late, self.settled]

    @classmethod
    def load(cls, saved: Any, times: Array) -> Self:
        """Return what was saved of a key with rows at some times, or raise ValueError."""
        edges, reported, before, late, settled = saved
        known = [] if before is None else before
        if any(type(time) is not int for time in (*edges, *known, *late, reported)):
            raise TypeError("edges and times are whole numbers")
        if not edges or any(b <= a for part in (edges, known) for a, b in pairwise(part)):
            raise ValueError("there are edges, and they are in order")
        if not np.isin([*edges, *late], times).all():
            raise ValueError("edges and late rows lie at the times of rows")
        if (before is None) == bool(late):
            raise ValueError("edges were others before late rows came")
        last = int(times[-1])
        return cls(list(edges), LOST, last, reported, before, list(late), bool(settled))


class Sight(NamedTuple):
    """What was found when rows were shown to contexts."""

    edges: list[int]  # where windows open
    context: Any  # of the last of them
    stop: int  # the edge behind them from which on none changes; NEVER if there is none


def see(
    window: ContextAwareWindow, held: KeyRows, lo: int, start: int, context: Any, known: list[int]
) -> Sight:
    """Show rows from place `lo` on to the context of the window from `start`, and of those they open.

    Stop at an edge that was `known` and has no new row: the contexts from there on saw what they saw.
    """
    edges: list[int] = []
    opens, times, rows = window.opens, held.table[:, ROW_TIME], held.rows
    for first in range(lo, len(rows), CHUNK):
        piece = slice(first, first + CHUNK)
        for i, time, row in zip(
            range(first, len(rows)), times[piece].tolist(), rows[piece].tolist(), strict=False
        ):
            if not opens(context, time, row) or time == start:
                continue  # all rows at its start are in a window
            if holds(known, time) and not holds(held.new, time):
                return Sight(edges, context, time)
            edges.append(time)
            start, context = time, window.begin()
            tied = i
            while tied and times[tied - 1] == time:
                tied -= 1
            for beginning in rows[tied : i + 1]:
                opens(context, time, beginning)
    return Sight(edges, context, NEVER)


def holds(times: list[int], time: int) -> bool:
    """Whether a time is among some in order."""
    at = bisect_left(times, time)
    return at < len(times) and times[at] == time


def windows_around(edges: list[int], late: int, first: int, upto: int) -> Iterator[tuple[int, int]]:
    """Return the windows that a late row may change, from a first edge on, which end by a time."""
    lo = max(bisect_left(edges, late) - 1, first)
    return pairwise(edges[lo : bisect_right(edges, upto)])
