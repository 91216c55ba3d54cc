"""SBA, the Sequential Boundary Aggregator: chunks of slices, added up from both sides.

KDD 2021, section 4, in one thread. Slices of `slide` values (saa) form chunks; csa is the running
aggregate of the current chunk, ca that of a complete one, lcs the aggregates from each slice to the end
of its chunk, which replace saa when the window's start enters the chunk. A window is
lcs[i] ⊗ ca ⊗ .. ⊗ ca ⊗ csa. With the chunk size of Theorems 1 and 2 it fully covers k = 1 chunk at most.
Invariant: lcs[i] = s_i ⊗ .. ⊗ s_(c-1), ca = s_0 ⊗ .. ⊗ s_(c-1), csa = all slices of the current chunk.
At most 3 merges per slide of whole slices: 1 into csa and 2 for the result (one more for the result when
the range is not a multiple of the slide), and c - 2 for a chunk's lcs; at most (3n + 13)/2 partials.
Without a range the boundary is drawn whenever the front chunk is used up, so that k = 1 for any window.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import Any, ClassVar, Self

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Aggregator, Card, Combine, Partial, empty_window, require


def count_chunk(range: int, slide: int) -> int:  # noqa: A002
    """Return the optimal number of slices in a chunk for a window of values (Theorem 1).

    >>> count_chunk(16, 1), count_chunk(10, 2), count_chunk(4, 2)
    (9, 4, 2)
    """
    slices, rest = divmod(range, slide)
    if slices <= slide + rest + 1:
        return slices
    return (slide * (slices + 1) + rest + 1) // (slide + 1)


def time_chunk(range: float, slide: float, combine_time: float) -> int:  # noqa: A002
    """Return the optimal number of slices in a chunk for a window of time (Theorem 2).

    All three are durations in one unit; combine_time is that of one combine. (The theorem's C is read as
    (range mod slide) + one combine: the time that the open slice adds.)

    >>> time_chunk(3600, 1, 1e-6), time_chunk(100, 1, 1)
    (3600, 67)
    """
    r, s, t = (Fraction(duration) for duration in (range, slide, combine_time))
    slices, rest = divmod(r, s)
    extra = rest + t if rest else 0
    if slices * t <= s + 2 * t + extra:
        return int(slices)
    return int((slices * (s + t) + s + 2 * t + extra) // (s + 2 * t))


def left_cumulative(saa: Iterable[Partial], combine: Combine) -> list[Partial]:
    """Return the lcs of a chunk's slices, the youngest first; the oldest is not merged: that is ca."""
    lcs = list(saa)[::-1]
    for i in range(1, len(lcs) - 1):
        lcs[i] = combine(lcs[i], lcs[i - 1])
    return lcs


@dataclass(slots=True)
class Chunk:
    """A complete chunk: its slices and their aggregate, and once the window enters it, its lcs."""

    slots: deque[Partial] | list[Partial]  # slices, oldest first; then the lcs, youngest first
    ca: Partial
    entered: bool = False
    lcs: tuple[Executor, Future[list[Partial]]] | None = None


class Sba(Aggregator):
    """A window that slides by whole slices, three merges at a time.

    `range` and `slide` count values; values leave with `evict` one by one, and a result is defined when
    whole slides have left. `chunk` overrides the optimal number of slices in a chunk.
    Runtime: query O(1), insert O(1), evict amortised O(1) and O(chunk) at a boundary.

    >>> from muntin import Sba, Max
    >>> window = Sba(Max(), range=4, slide=2)
    >>> window.bulk_insert([9, 2, 4, 3])
    >>> window.query()
    9
    >>> window.bulk_evict(2)
    >>> window.bulk_insert([1, 5])
    >>> window.query()
    5
    """

    __slots__ = (
        "_chunk_size",
        "_chunks",
        "_csa",
        "_given_up",
        "_open",
        "_open_values",
        "_range",
        "_saa",
        "_slices",
        "_slide",
    )

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="3 merges per slide (4 if ragged); O(n) at a boundary",
        space="(3n + 13) / 2",
        paper="KDD 2021, section 4",
    )

    def __init__(
        self,
        aggregate: Aggregate,
        range: int | None = None,  # noqa: A002
        slide: int = 1,
        chunk: int | None = None,
    ) -> None:
        super().__init__(aggregate)
        self._set_window(range, slide, chunk)

    @classmethod
    def timed(cls, aggregate: Aggregate, range: float, slide: float, combine_time: float) -> Self:  # noqa: A002
        """Return a window of time: what is inserted are its slices, one per slide.

        The chunk is that of Theorem 2; all three are durations in one unit.
        """
        chunk = time_chunk(range, slide, combine_time)
        return cls(aggregate, range=int(Fraction(range) // Fraction(slide)), chunk=chunk)

    def _set_window(self, range: int | None, slide: int, chunk: int | None) -> None:  # noqa: A002
        range, slide = None if range is None else index(range), index(slide)  # noqa: A001
        if slide < 1:
            raise ValueError(f"the slide must be 1 or more values, got {slide}")
        if range is not None and range < slide:
            raise ValueError(f"the range must be at least the slide of {slide}, got {range}")
        if chunk is not None and index(chunk) < 1:
            raise ValueError(f"a chunk has 1 or more slices, got {chunk}")
        self._range, self._slide = range, slide
        self._chunk_size = chunk or (None if range is None else count_chunk(range, slide))
        self._clear()

    def _clear(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._saa: deque[Partial] = deque()
        self._csa = self._open = self._identity
        self._open_values = 0
        self._slices = 0
        self._given_up = 0

    @property
    def chunk(self) -> int | None:
        """The number of slices in a chunk; None if boundaries follow the window."""
        return self._chunk_size

    def __len__(self) -> int:
        return self._slices * self._slide + self._open_values - self._given_up

    def insert(self, value: Any) -> None:
        s = self._lift(value)
        if self._open_values:
            s = self._combine(self._open, s)
        if self._open_values + 1 < self._slide:
            self._open = s
            self._open_values += 1
        else:
            self._close_slice(s)

    def _close_slice(self, s: Partial) -> None:
        self._csa = self._combine(self._csa, s) if self._saa else s
        self._saa.append(s)
        self._slices += 1
        self._open, self._open_values = self._identity, 0
        if len(self._saa) == self._chunk_size:
            self._draw_boundary()

    def _draw_boundary(self) -> None:
        chunk = Chunk(self._saa, self._csa)
        self._chunks.append(chunk)
        self._saa, self._csa = deque(), self._identity
        self._complete(chunk)

    def _complete(self, chunk: Chunk) -> None:
        """Take notice of a complete chunk; its lcs is computed when the window enters it."""

    def _lay_lcs(self, chunk: Chunk) -> None:
        """Replace the chunk's slices by its lcs."""
        chunk.slots = left_cumulative(chunk.slots, self._combine)

    def evict(self) -> None:
        if not len(self):
            raise empty_window()
        self._give_up(1)

    def bulk_evict(self, n: int) -> None:
        self._give_up(self._whole(n))

    def _give_up(self, values: int) -> None:
        """Count values as gone, and drop the slices that have gone whole."""
        if values == len(self):
            self._clear()
            return
        slices, rest = divmod(self._given_up + values, self._slide)
        self._drop_slices(slices)
        self._given_up = rest

    def _drop_slices(self, slices: int) -> None:
        while slices:
            if not self._chunks:
                self._draw_boundary()
            front = self._chunks[0]
            left = len(front.slots)
            if slices < left:
                if not front.entered:
                    self._lay_lcs(front)
                    front.entered = True
                assert isinstance(front.slots, list)
                del front.slots[-slices:]
                self._slices -= slices
                return
            self._chunks.popleft()
            self._slices -= left
            slices -= left

    def query(self) -> Any:
        if self._given_up:
            raise RuntimeError(
                f"the window slides by {self._slide} values and {self._given_up} of a slide were "
                f"evicted; evict {self._slide - self._given_up} more, then query"
            )
        parts = [chunk.slots[-1] if chunk.entered else chunk.ca for chunk in self._chunks]
        if self._saa:
            parts.append(self._csa)
        if self._open_values:
            parts.append(self._open)
        return self._lower(self._fold(parts))

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        return {
            "range": self._range,
            "slide": self._slide,
            "chunk": self._chunk_size,
            "chunks": [
                [[encode(s) for s in chunk.slots], encode(chunk.ca), chunk.entered]
                for chunk in self._chunks
            ],
            "saa": [encode(s) for s in self._saa],
            "csa": encode(self._csa),
            "open": [encode(self._open), self._open_values],
            "given_up": self._given_up,
        }

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        self._set_window(state["range"], state["slide"], state["chunk"])
        for slots, ca, entered in state["chunks"]:
            kind = list if entered else deque
            self._chunks.append(Chunk(kind(map(decode, slots)), decode(ca), entered))
            self._slices += len(slots)
        self._saa = deque(decode(s) for s in state["saa"])
        self._slices += len(self._saa)
        self._csa = decode(state["csa"])
        self._open, self._open_values = decode(state["open"][0]), state["open"][1]
        self._given_up = state["given_up"]

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._check_structure()
        self._require_fold("csa", self._csa, self._saa)
        for chunk in self._chunks:
            if not chunk.entered:
                self._require_fold("ca", chunk.ca, chunk.slots)
        if values is not None and not self._given_up:
            self._check_slices(self._lifted(values))

    def _check_structure(self) -> None:
        require(0 <= self._open_values < self._slide, f"{self._open_values} values in a slice")
        require(0 <= self._given_up < self._slide, f"{self._given_up} values of a slice given up")
        require(self._given_up <= 0 or len(self) > 0, "values of no slice given up")
        held = sum(len(chunk.slots) for chunk in self._chunks) + len(self._saa)
        require(held == self._slices, f"{held} slices are held, {self._slices} counted")
        for i, chunk in enumerate(self._chunks):
            require(bool(chunk.slots), "a chunk without slices was kept")
            require(not chunk.entered or i == 0, "only the front chunk can be entered")

    def _check_slices(self, lifted: list[Partial]) -> None:
        slide = self._slide
        for chunk in self._chunks:
            n = len(chunk.slots) * slide
            inside, lifted = lifted[:n], lifted[n:]
            slots = reversed(chunk.slots) if chunk.entered else chunk.slots
            for i, slot in enumerate(slots):
                end = n if chunk.entered else (i + 1) * slide
                self._require_fold(f"slot {i} of a chunk", slot, inside[i * slide : end])
        for i, s in enumerate(self._saa):
            self._require_fold(f"saa[{i}]", s, lifted[i * slide : (i + 1) * slide])
        self._require_fold("the open slice", self._open, lifted[len(self._saa) * slide :])
