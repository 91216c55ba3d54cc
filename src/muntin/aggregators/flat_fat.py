"""FlatFAT: a binary tree of aggregates in one flat array, under a circular buffer of leaves.

VLDB 2015, sections 4 and 5, Algorithms 1 to 3. Node v has children 2v and 2v + 1, the root is 1, leaf
slot i is node capacity + i. Changes are collected and applied at the next query, level by level, so
that m changed leaves cost at most m (1 + ceil(log2(n/m))) combines.
Invariant: T(v) = T(2v) ⊗ T(2v + 1), an empty slot being left out.
When the young end has wrapped in front of the old end (the inverted buffer), the window is
suffix(F) ⊗ prefix(B). Values may be removed from the middle, which leaves holes; a full buffer with at
most three quarters in use is compacted, otherwise doubled; with less than a quarter in use it is halved.
A second tree counts the holes below each node, so that a position is found in O(log n), and all holes at
an end of the window are passed in O(log n). It is made at the first hole.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import index
from typing import Any, ClassVar

from muntin.aggregates import Aggregate, same_partial
from muntin.aggregators.aggregator import Aggregator, Card, Partial, empty_window, require

SMALLEST = 8


class Empty:
    """The mark of a slot without a value; combining skips it."""

    def __repr__(self) -> str:
        return "-"


EMPTY = Empty()


class FlatFat(Aggregator):
    """A window that can also be read, changed and thinned out anywhere.

    Positions count from the oldest value, 0, as in a list; ranges are half-open. `insert` returns a
    handle of the value, by which it can be removed wherever it is then. The array has room for
    `capacity` values from the start and never shrinks below that.
    Runtime: insert and evict amortised O(1) until the next query; remove O(log n); m changes
    O(m + m log(n/m)); query O(log n).

    >>> from muntin import FlatFat, Collect
    >>> window = FlatFat(Collect())
    >>> window.bulk_insert("abcdef")
    >>> window.remove(2)
    >>> window.update({0: "A", 4: "F"})
    >>> window.query(), window.prefix(2), window.suffix(3), window.range_query(1, 4)
    (['A', 'b', 'd', 'e', 'F'], ['A', 'b'], ['e', 'F'], ['b', 'd', 'e'])
    >>> order = window.insert("g")
    >>> window.bulk_evict(3)
    >>> window.remove(handle=order)
    >>> window.query()
    ['e', 'F']
    """

    __slots__ = (
        "_back", "_capacity", "_changed", "_front", "_handles", "_holes", "_inserted", "_smallest",
        "_tree", "_vacant",
    )  # fmt: skip

    card: ClassVar[Card] = Card(
        ordering="in order; removal anywhere",
        needs="associative",
        time="m changes m(1 + ceil(log2(n/m))), query O(log n)",
        space="2n to 8n",
        paper="VLDB 2015, sections 4 and 5",
    )

    def __init__(self, aggregate: Aggregate, capacity: int = SMALLEST) -> None:
        super().__init__(aggregate)
        if index(capacity) < 1:
            raise ValueError(f"a capacity is 1 or more values, got {capacity}")
        self._smallest = max(SMALLEST, 1 << (index(capacity) - 1).bit_length())
        self._inserted = 0  # the handle of the next value
        self._clear()

    def _clear(self) -> None:
        self._build([], [], self._smallest)

    def __len__(self) -> int:
        return self._back - self._front - self._vacant

    @property
    def capacity(self) -> int:
        """The number of slots, a power of two."""
        return self._capacity

    def insert(self, value: Any) -> int:  # type: ignore[override]
        """Add a value at the young end and return its handle, which no other value will have."""
        v = self._lift(value)
        if self._back - self._front == self._capacity:
            roomy = 4 * len(self) <= 3 * self._capacity
            self._resize(self._capacity if roomy else 2 * self._capacity)
        slot = self._back & (self._capacity - 1)
        if self._holes and self._holes[self._capacity + slot]:
            self._count_hole(slot, -1)  # from when the window was here before
        self._write(self._back, v)
        self._handles[slot] = handle = self._inserted
        self._back += 1
        self._inserted += 1
        return handle

    def evict(self) -> None:
        if not len(self):
            raise empty_window()
        self._remove(self._front)

    def remove(self, position: int | None = None, *, handle: int | None = None) -> None:
        """Remove the value at a position, or the one with a handle, wherever it is.

        KeyError if the value with the handle has left. Runtime: O(log n) now, O(log n) combines at the
        next query.
        """
        if (position is None) == (handle is None):
            raise TypeError("remove takes either a position or a handle")
        self._remove(self._with_handle(handle) if position is None else self._at(position))

    def update(self, changes: Mapping[int, Any] | Iterable[tuple[int, Any]]) -> None:
        """Replace the values at the given positions.

        Runtime: m changes cost O(m + m log(n/m)) combines at the next query.
        """
        places = [(self._at(i), self._lift(value)) for i, value in dict(changes).items()]
        for p, v in places:
            self._write(p, v)

    def query(self) -> Any:
        self._apply_changes()
        if self.aggregate.commutative or not self._inverted(self._front, self._back):
            return self._lower(self._or_identity(self._tree[1]))
        return self._lower(self._aggregate(self._front, self._back))

    def prefix(self, end: int) -> Any:
        """Return the aggregate of the values before position `end`. Runtime: O(log n)."""
        return self.range_query(0, end)

    def suffix(self, start: int) -> Any:
        """Return the aggregate of the values from position `start` on. Runtime: O(log n)."""
        return self.range_query(start, len(self))

    def range_query(self, start: int, end: int) -> Any:
        """Return the aggregate of the values in positions [start, end). Runtime: O(log n)."""
        if not 0 <= start <= end <= len(self):
            raise IndexError(f"no range [{start}, {end}) in a window of {len(self)}")
        self._apply_changes()
        if start == end:
            return self._lower(self._identity)
        return self._lower(self._aggregate(self._at(start), self._at(end - 1) + 1))

    def _resize(self, capacity: int) -> None:
        live = [(v, self._handles[i]) for i, v in self._live()]
        self._build([v for v, _ in live], [handle for _, handle in live], capacity)

    def _build(self, leaves: list[Partial], handles: list[int], capacity: int) -> None:
        """Lay the leaves into a new array from slot 0 on: resize and compact in one (Algorithm 1)."""
        self._capacity = capacity
        self._front, self._back = 0, len(leaves)
        self._vacant = 0  # how many holes there are in the window
        # How many there are below each node, once there was one. Those that the window has left behind
        # are counted until their slot is used again.
        self._holes: list[int] = []
        empty = capacity - len(leaves)
        self._tree: list[Any] = [EMPTY] * capacity + leaves + [EMPTY] * empty
        self._handles = array("q", handles + [0] * empty)
        self._changed = set(range(capacity, capacity + len(leaves)))

    def _write(self, p: int, v: Any) -> None:
        leaf = self._capacity + (p & (self._capacity - 1))
        self._tree[leaf] = v
        self._changed.add(leaf)

    def _remove(self, p: int) -> None:
        self._write(p, EMPTY)
        if p == self._front:
            self._front += 1
        elif p == self._back - 1:
            self._back -= 1
        else:
            self._count_hole(p & (self._capacity - 1), 1)
            self._vacant += 1
        if self._vacant:
            self._pass_holes()
        if 4 * len(self) < self._capacity and self._capacity > self._smallest:
            self._resize(self._capacity // 2)

    def _pass_holes(self) -> None:
        """Let the window begin and end with a value, however many holes were there."""
        n, front, back = len(self), self._front, self._back
        if n and self._is_hole(front):
            front = self._at(0)
        if n and self._is_hole(back - 1):
            back = self._at(n - 1) + 1
        self._front, self._back = (front, back) if n else (back, back)
        self._vacant = self._back - self._front - n

    def _is_hole(self, p: int) -> bool:
        return self._tree[self._capacity + (p & (self._capacity - 1))] is EMPTY

    def _count_hole(self, slot: int, more: int) -> None:
        self._holes = holes = self._holes or [0] * (2 * self._capacity)
        v = self._capacity + slot
        while v:
            holes[v] += more
            v >>= 1

    def _at(self, position: int) -> int:
        """Return where in the stream the position is: past the holes before it."""
        if not 0 <= position < len(self):
            raise IndexError(f"no position {position} in a window of {len(self)}")
        if not self._vacant:
            return self._front + position
        mask = self._capacity - 1
        first = self._front & mask
        # Slots that are no holes are counted from slot 0 on, and around the end of the buffer.
        rank = (first - self._holes_before(first) + position) % (self._capacity - self._holes[1])
        return self._front + ((self._filled_slot(rank) - first) & mask)

    def _holes_before(self, slot: int) -> int:
        v, before = self._capacity + slot, 0
        while v > 1:
            before += self._holes[v - 1] if v & 1 else 0
            v >>= 1
        return before

    def _filled_slot(self, rank: int) -> int:
        """Return the slot with `rank` filled slots before it."""
        v, half = 1, self._capacity >> 1
        while half:
            filled = half - self._holes[2 * v]
            v = 2 * v
            if rank >= filled:
                rank, v = rank - filled, v + 1
            half >>= 1
        return v - self._capacity

    def _with_handle(self, handle: Any) -> int:
        """Return where in the stream the value with a handle is; handles rise along the stream."""
        handles, mask = self._handles, self._capacity - 1
        window = range(self._front, self._back)
        k = bisect_left(window, index(handle), key=lambda p: handles[p & mask])
        if k < len(window) and handles[window[k] & mask] == handle and not self._is_hole(window[k]):
            return window[k]
        raise KeyError(f"no value with handle {handle} is in the window")

    def _live(self) -> list[tuple[int, Partial]]:
        """Return the slots in use and their values, oldest first."""
        capacity, mask, tree = self._capacity, self._capacity - 1, self._tree
        slots = [(p & mask, tree[capacity + (p & mask)]) for p in range(self._front, self._back)]
        return [(i, v) for i, v in slots if v is not EMPTY]

    def _apply_changes(self) -> None:
        """Renew every ancestor of a changed leaf once, level by level (Algorithm 2)."""
        tree, nodes = self._tree, self._changed
        while nodes:
            nodes = {v >> 1 for v in nodes}
            nodes.discard(0)
            for v in nodes:
                tree[v] = self._join(tree[2 * v], tree[2 * v + 1])
        self._changed = set()

    def _join(self, a: Any, b: Any) -> Any:
        if a is EMPTY or b is EMPTY:
            return a if b is EMPTY else b
        return self._combine(a, b)

    def _inverted(self, start: int, end: int) -> bool:
        return (start & (self._capacity - 1)) + (end - start) > self._capacity

    def _aggregate(self, start: int, end: int) -> Partial:
        mask = self._capacity - 1
        if not self._inverted(start, end):
            return self._or_identity(self._slots(start & mask, (start & mask) + end - start))
        suffix = self._slots(start & mask, self._capacity)
        return self._or_identity(self._join(suffix, self._slots(0, end & mask)))

    def _slots(self, start: int, end: int) -> Any:
        """Aggregate the slots [start, end), climbing from both ends (Algorithm 3 on either side)."""
        tree, left, right = self._tree, EMPTY, EMPTY
        start, end = start + self._capacity, end + self._capacity
        while start < end:
            if start & 1:
                left = self._join(left, tree[start])
                start += 1
            if end & 1:
                end -= 1
                right = self._join(tree[end], right)
            start, end = start >> 1, end >> 1
        return self._join(left, right)

    def _or_identity(self, partial: Any) -> Partial:
        return self._identity if partial is EMPTY else partial

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        live = self._live()
        return {
            "capacity": self._capacity,
            "leaves": [encode(v) for _, v in live],
            "smallest": self._smallest,
            "inserted": self._inserted,
            "runs": _runs([self._handles[i] for i, _ in live]),
        }

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        leaves, capacity = [decode(v) for v in state["leaves"]], state["capacity"]
        self._smallest = smallest = state.get("smallest", SMALLEST)
        if not len(leaves) <= capacity <= max(smallest, 4 * len(leaves)):
            raise ValueError(f"a capacity of {capacity} for {len(leaves)} values")
        self._inserted = state.get("inserted", len(leaves))
        runs = state.get("runs", [(0, len(leaves))])
        if sum(n for _, n in runs) != len(leaves):
            raise ValueError(f"handles {runs} for {len(leaves)} values")
        handles = [first + k for first, n in runs for k in range(n)]
        self._build(leaves, handles, capacity)

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._check_structure()
        self._apply_changes()
        tree = self._tree
        for v in range(1, self._capacity):
            expected = self._join(tree[2 * v], tree[2 * v + 1])
            same = (
                same_partial(self.aggregate, tree[v], expected) if expected is not EMPTY else None
            )
            require(tree[v] is expected or bool(same), f"node {v} is {tree[v]!r}, not {expected!r}")
        self._check_values([v for _, v in self._live()], values)

    def _check_structure(self) -> None:
        capacity, tree = self._capacity, self._tree
        smallest, mask = self._smallest, capacity - 1
        require(capacity >= smallest and capacity & mask == 0, f"capacity {capacity}")
        require(smallest >= SMALLEST and smallest & (smallest - 1) == 0, f"smallest {smallest}")
        require(len(tree) == 2 * capacity, f"{len(tree)} nodes for {capacity} slots")
        require(capacity == smallest or 4 * len(self) >= capacity, "the array should have shrunk")
        slots = [p & mask for p in range(self._front, self._back)]
        for i in set(range(capacity)).difference(slots):
            require(tree[capacity + i] is EMPTY, f"slot {i} is outside of the window")
        handles = [-1, *(self._handles[i] for i in slots), self._inserted]
        require(handles == sorted(set(handles)), f"handles out of order: {handles}")
        self._check_holes(slots)

    def _check_holes(self, slots: list[int]) -> None:
        capacity, holes = self._capacity, self._holes or [0] * (2 * self._capacity)
        empty = [i for i in slots if self._tree[capacity + i] is EMPTY]
        require(self._vacant == len(empty), f"{len(empty)} holes, of which {self._vacant} known")
        require(not {*slots[:1], *slots[-1:]} & {*empty}, "the window begins or ends with a hole")
        for i in slots:
            require(
                holes[capacity + i] == (i in empty), f"slot {i} is no hole, or not known as one"
            )
        for v in range(1, capacity):
            require(holes[v] == holes[2 * v] + holes[2 * v + 1], f"node {v} counts other holes")


def _runs(handles: list[int]) -> list[tuple[int, int]]:
    """Return runs of consecutive handles as (first, number of handles)."""
    found = []
    for _, run in groupby(enumerate(handles), key=lambda pair: pair[1] - pair[0]):
        members = list(run)
        found.append((members[0][1], len(members)))
    return found
