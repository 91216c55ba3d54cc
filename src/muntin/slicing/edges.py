"""Where slices begin: the edges of all context-free windows, merged.

Edges are enumerated for a stretch of the measure at once, some way ahead, and kept: the next edge of a
row is then one comparison away. Where a batch has few rows over a long stretch, each row's edge is
computed from the windows' periods instead.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from muntin.slicing.arena import whole
from muntin.slicing.irregular_windows import edge_after
from muntin.slicing.limits import ALWAYS, FAR, NEVER, Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.tables import KnownEdges
from muntin.windows import ContextFreeWindow, Periodic

AHEAD = 8
FEW_EDGES = 4096
COUNTLESS = 2**60


@dataclass(frozen=True)
class Lattice:
    """Edges at k * step + offset, for many steps and offsets."""

    steps: Array
    offsets: Array

    @classmethod
    def of(cls, windows: Sequence[Periodic]) -> "Lattice":
        """Return the starts and ends of the windows, each lattice once."""
        pairs = {(w.every, (w.origin + w.size) % w.every) for w in windows}
        return cls._at(pairs | {(w.every, w.origin % w.every) for w in windows})

    @classmethod
    def of_starts(cls, windows: Sequence[Periodic]) -> "Lattice":
        """Return the starts of the windows, each lattice once."""
        return cls._at({(w.every, w.origin % w.every) for w in windows})

    @classmethod
    def _at(cls, pairs: set[tuple[int, int]]) -> "Lattice":
        ordered = sorted(pairs)
        return cls(
            np.array([step for step, _ in ordered], np.int64),
            np.array([offset for _, offset in ordered], np.int64),
        )

    @cached_property
    def step(self) -> int:
        """The largest distance of which all distances between edges are multiples."""
        return math.gcd(*self.steps.tolist(), *np.diff(self.offsets).tolist())

    def count(self, lo: int, hi: int) -> int:
        """Return about how many edges lie in [lo, hi]; if they are too many to count, one of these."""
        if len(self.steps) == 0:
            return 0
        if float(np.sum((hi - lo) / self.steps)) > COUNTLESS:
            return COUNTLESS
        return int(np.sum((hi - lo) // self.steps + 2))

    def between(self, lo: int, hi: int) -> Array:
        """Return the last edge up to lo and those in (lo, hi], in order and each once."""
        if len(self.steps) == 0:
            return self.steps
        count = self.count(lo, hi)
        cells, edges = np.zeros(count, np.int64), np.empty(count, np.int64)
        arguments = (self.steps, self.offsets, lo, hi, cells, edges)
        return edges[: compiled_loops().ordered_edges(*arguments)]

    def floor(self, measure: Array) -> Array:
        """Return the last edge at or before each value."""
        edges = np.full(len(measure), ALWAYS)
        for step, offset in zip(self.steps, self.offsets, strict=True):
            np.maximum(edges, (measure - offset) // step * step + offset, out=edges)
        return edges


@dataclass(frozen=True)
class Known:
    """Edges of windows that do not repeat, each with the first edge behind it, in order.

    Such windows tell only their next edge. What lies between a known edge and the next is a slice; a row
    elsewhere begins one where it is. That makes at most one slice per row more than is needed.
    """

    edges: Array
    until: Array

    @classmethod
    def nothing(cls) -> "Known":
        """Return no edges."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def floor(self, measure: Array) -> Array:
        """Return where the slice of each value begins."""
        if len(self.edges) == 0:
            return measure
        edges, inside = self._edges_of(measure)
        return np.where(inside, edges, measure)

    def _edges_of(self, measure: Array) -> tuple[Array, Array]:
        """Return the last edge before each value, and whether the value is in the slice behind it."""
        at = np.maximum(np.searchsorted(self.edges, measure, side="right") - 1, 0)
        edges = self.edges[at]
        return edges, (edges <= measure) & (measure < self.until[at])

    def extended(self, windows: Sequence[ContextFreeWindow], measure: Array) -> "Known":
        """Return the edges with those that some values begin slices at."""
        new = np.sort(measure[~self._edges_of(measure)[1]] if len(self.edges) else measure)
        edges = dict(zip(self.edges.tolist(), self.until.tolist(), strict=True))
        i = 0
        while i < len(new):
            t = int(new[i])
            ends = [edge for w in windows if (edge := edge_after(w, t)) is not None]
            edges.setdefault(t, min(ends, default=NEVER))
            i = max(i + 1, int(np.searchsorted(new, edges[t])))
        if len(edges) == len(self.edges):
            return self
        ordered = sorted(edges.items())
        return Known(np.array([e for e, _ in ordered]), np.array([u for _, u in ordered]))


@dataclass(frozen=True)
class Past:
    """The edges by which the measure was cut up to some value, before windows were added or removed.

    If slices were joined where no window starts, only the starts are surely cut.
    """

    upto: int
    lattice: Lattice
    known: Known | None
    starts: Lattice | None = None

    def floor(self, measure: Array) -> Array:
        """Return the last edge at or before each value."""
        return _cut(self.lattice.floor(measure), self.known, measure)


class Edges:
    """The edges of a set of windows, which may be another set from some value on."""

    def __init__(self, windows: Sequence[ContextFreeWindow], past: Sequence[Past] = ()) -> None:
        self._lattice = Lattice.of([w for w in windows if isinstance(w, Periodic)])
        self._listed = [w for w in windows if not isinstance(w, Periodic)]
        self._past = list(past)
        self._known = Known.nothing() if self._listed else None
        self._cached = np.zeros(0, np.int64)
        self._from, self._to = 0, -1

    @property
    def step(self) -> int:
        """A distance of which all distances between slices are multiples; 0 if none is known."""
        return 0 if self._past or self._listed else self._lattice.step

    def turn(
        self, windows: Sequence[ContextFreeWindow], upto: int, starts: Lattice | None
    ) -> "Edges":
        """Return the edges of other windows, with those of this set for what is not behind `upto`.

        `starts` are where windows of this set start, if slices were joined elsewhere.
        """
        upto = max(upto, *(past.upto for past in self._past), ALWAYS)
        return Edges(windows, [*self._past, Past(upto, self._lattice, self._known, starts)])

    @property
    def turned(self) -> int:
        """The value up to which the measure was cut by edges of other windows."""
        return self._past[-1].upto if self._past else ALWAYS

    def had(self, values: Array, turned: int) -> Array:
        """Whether these values were edges before the turns that go no further, or are only since."""
        pasts = [past for past in self._past if past.upto <= turned]
        if not pasts:
            return np.ones(len(values), np.bool_)
        *earlier, last = pasts
        had: Array = _through(earlier, values, last.floor(values)) == values
        for past in pasts:
            if past.starts is not None:
                had &= (values > past.upto) | (past.starts.floor(values) == values)
        return had | (values > last.upto)

    def behind(self, start: int) -> int:
        """Return the first value behind the slice that starts somewhere."""
        edges = (start - self._lattice.offsets) // self._lattice.steps * self._lattice.steps
        ends = [*(edges + self._lattice.offsets + self._lattice.steps).tolist()]
        if self._known is not None:
            ends += self._known.until[self._known.edges == start].tolist()
        return min(ends, default=start + 1)

    def within(self, lo: int, hi: int) -> Array:
        """Return where the slices start that hold the whole numbers from lo to hi."""
        if self._past or self._known is not None:
            lo = int(self.starts(np.array([lo]))[0])
            return self.cuts(np.arange(lo, hi + 1))[0]
        return self.between(lo, hi)[:-1]

    def forget(self, before: int) -> None:
        """Forget edges before a value from which on slices are kept; the last of them is still one."""
        self._past = [past for past in self._past if past.upto >= before]
        if self._known is not None:
            needed = self._known.until > before
            self._known = Known(self._known.edges[needed], self._known.until[needed])

    def plain(self) -> Any:
        """Return the edges that could not be found again."""
        past = [
            (p.upto, _plain_lattice(p.lattice), _plain(p.known), _plain_lattice(p.starts))
            for p in self._past
        ]
        return [_plain(self._known), past]

    def load(self, plain: Any) -> None:
        """Take the edges that were saved."""
        known, past = plain
        if (known is None) != (self._known is None):
            raise ValueError("edges are listed only for windows that do not repeat")
        self._known = _known(known)
        self._past = [
            Past(
                int(upto),
                _lattice(*cut),
                _known(known),
                None if starts is None else _lattice(*starts),
            )
            for upto, cut, known, starts in past
        ]

    def starts(self, measure: Array) -> Array:
        """Return where the slice of each row begins."""
        return _through(self._past, measure, self._starts(measure))

    def _starts(self, measure: Array) -> Array:
        if self._known is not None:
            self._known = self._known.extended(self._listed, measure)
        lo, hi = int(measure.min()), int(measure.max())
        if len(self._lattice.steps) == 0 or self._too_many(lo, hi, len(measure)):
            return _cut(self._lattice.floor(measure), self._known, measure)
        starts = np.empty(len(measure), np.int64)
        edges = self.between(lo, hi)
        guide = np.empty(min(2 * len(edges), FEW_EDGES), np.int64)
        compiled_loops().slice_starts(measure, edges, guide, starts)
        return _cut(starts, self._known, measure)

    @property
    def known(self) -> KnownEdges | None:
        """The edges enumerated last; None if slices begin elsewhere too."""
        if self._listed or self._past:
            return None
        return KnownEdges(self._cached, self._from, self._to)

    def cuts(self, measure: Array) -> tuple[Array, Array]:
        """Return for values in order the starts of their slices and the first row of each slice."""
        lo, hi = int(measure[0]), int(measure[-1])
        turned = bool(self._past) and lo <= self._past[-1].upto + 1
        if self._known is not None or turned or self._too_many(lo, hi, len(measure)):
            starts = self.starts(measure)
            rows = np.append(0, np.nonzero(np.diff(starts))[0] + 1)
            return starts[rows], rows
        edges = self.between(lo, hi)[:-1]
        rows = np.empty(len(edges), np.int64)
        compiled_loops().cut_rows(measure, edges, rows)
        filled = np.append(rows[1:], len(measure)) > rows
        if self._past:
            edges = np.maximum(edges, self._past[-1].upto + 1)
        return edges[filled], rows[filled]

    def between(self, lo: int, hi: int) -> Array:
        """Return the edges in [lo, hi], with the last before lo and one that is never reached."""
        if lo < self._from or hi > self._to:
            self._from, self._to = lo, hi + self._ahead(hi - lo)
            self._cached = np.append(self._lattice.between(self._from, self._to), NEVER)
        first = int(np.searchsorted(self._cached, lo, side="right")) - 1
        last = int(np.searchsorted(self._cached, hi, side="right"))
        found = self._cached[first : last + 1].copy()
        found[-1] = NEVER
        return found

    def _ahead(self, stretch: int) -> int:
        """Return how far to look ahead: several times a batch, or for as many edges as are few."""
        density = float(np.sum(1 / self._lattice.steps)) if len(self._lattice.steps) else 1.0
        return min(max(AHEAD * stretch, int(FEW_EDGES / 4 / density)), FAR)

    def _too_many(self, lo: int, hi: int, rows: int) -> bool:
        return self._lattice.count(lo, hi) > max(FEW_EDGES, 4 * rows)


class EveryRow:
    """Slices of one moment each: the rows, as a tuple buffer or an aggregate tree has them."""

    step = 0
    known = None
    turned = ALWAYS

    def turn(
        self, windows: Sequence[ContextFreeWindow], upto: int, starts: Lattice | None
    ) -> "EveryRow":
        """Return the same: the windows make no difference."""
        del windows, upto, starts
        return self

    def behind(self, start: int) -> int:
        """Return the first value behind the slice that starts somewhere."""
        return start + 1

    def forget(self, before: int) -> None:
        """Forget edges before a value: there are none."""

    def had(self, values: Array, turned: int) -> Array:
        """Whether slices are cut at these values: at all of them."""
        del turned
        return np.ones(len(values), np.bool_)

    def plain(self) -> None:
        """Return what could not be found again: nothing."""

    def load(self, plain: None) -> None:
        """Take what was saved."""

    def starts(self, measure: Array) -> Array:
        """Return where the slice of each row begins: where the row is."""
        return measure

    def cuts(self, measure: Array) -> tuple[Array, Array]:
        """Return the different values, and the first row of each."""
        first = np.append(0, np.nonzero(np.diff(measure))[0] + 1)
        return measure[first], first


def _through(pasts: Sequence[Past], measure: Array, starts: Array) -> Array:
    """Return the starts of slices where values before a turn were cut as it was then."""
    for past in reversed(pasts):
        since = np.maximum(starts, past.upto + 1)
        starts = np.where(measure > past.upto, since, past.floor(measure))
    return starts


def _cut(starts: Array, known: Known | None, measure: Array) -> Array:
    """Return the starts of slices that are cut at known edges too."""
    return starts if known is None else np.maximum(starts, known.floor(measure))


def _known(saved: Any) -> Known | None:
    """Return listed edges that were saved, or raise ValueError."""
    if saved is None:
        return None
    edges, until = map(whole, saved)
    if len(edges) != len(until) or (np.diff(edges) <= 0).any() or (until <= edges).any():
        raise ValueError("each edge has one behind it, and they are in order")
    return Known(edges, until)


def _lattice(steps: Any, offsets: Any) -> Lattice:
    """Return a lattice that was saved, or raise ValueError."""
    lattice = Lattice(whole(steps), whole(offsets))
    if (
        len(lattice.steps) != len(lattice.offsets)
        or not ((lattice.steps > 0) & (lattice.steps <= FAR) & (abs(lattice.offsets) <= FAR)).all()
    ):
        raise ValueError("steps are above zero, and each has an offset")
    return lattice


def _plain(known: Known | None) -> Any:
    return None if known is None else [known.edges, known.until]


def _plain_lattice(lattice: Lattice | None) -> Any:
    return None if lattice is None else [lattice.steps, lattice.offsets]
