"""FlatFAT: a binary tree of aggregates in one flat array, under a circular buffer of leaves.

VLDB 2015, sections 4 and 5, Algorithms 1 to 3. Node v has children 2v and 2v + 1, the root is 1, leaf
slot i is node capacity + i. Changes are collected and applied at the next query, level by level, so
that m changed leaves cost at most m (1 + ceil(log2(n/m))) combines.
Invariant: T(v) = T(2v) ⊗ T(2v + 1), an empty slot being left out.
When the young end has wrapped in front of the old end (the inverted buffer), the window is
suffix(F) ⊗ prefix(B). Values may be removed from the middle, which leaves holes; a full buffer with at
most three quarters in use is compacted, otherwise doubled; with less than a quarter in use it is halved.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
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

    Positions count from the oldest value, 0, as in a list; ranges are half-open.
    Runtime: insert and evict O(1) until the next query; m changes O(m + m log(n/m)); query O(log n).

    >>> from muntin import FlatFat, Collect
    >>> window = FlatFat(Collect())
    >>> window.bulk_insert("abcdef")
    >>> window.remove(2)
    >>> window.update({0: "A", 4: "F"})
    >>> window.query(), window.prefix(2), window.suffix(3), window.range_query(1, 4)
    (['A', 'b', 'd', 'e', 'F'], ['A', 'b'], ['e', 'F'], ['b', 'd', 'e'])
    """

    __slots__ = ("_back", "_capacity", "_changed", "_front", "_holes", "_tree")

    card: ClassVar[Card] = Card(
        ordering="in order; removal anywhere",
        needs="associative",
        time="m changes m(1 + ceil(log2(n/m))), query O(log n)",
        space="2n to 8n",
        paper="VLDB 2015, sections 4 and 5",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._build([], SMALLEST)

    def __len__(self) -> int:
        return self._back - self._front - len(self._holes)

    @property
    def capacity(self) -> int:
        """The number of slots, a power of two."""
        return self._capacity

    def insert(self, value: Any) -> None:
        v = self._lift(value)
        if self._back - self._front == self._capacity:
            roomy = 4 * len(self) <= 3 * self._capacity
            self._build(self._live(), self._capacity if roomy else 2 * self._capacity)
        self._write(self._back, v)
        self._back += 1

    def evict(self) -> None:
        if not len(self):
            raise empty_window()
        self._remove(self._front)

    def remove(self, position: int) -> None:
        """Remove the value at a position, wherever it is.

        Runtime: O(log holes) now, O(log n) combines at the next query.
        """
        self._remove(self._at(position))

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

    def _build(self, leaves: list[Partial], capacity: int) -> None:
        """Lay the leaves into a new array from slot 0 on: resize and compact in one (Algorithm 1)."""
        self._capacity = capacity
        self._front, self._back = 0, len(leaves)
        self._holes: list[int] = []
        empty = capacity - len(leaves)
        self._tree: list[Any] = [EMPTY] * capacity + leaves + [EMPTY] * empty
        self._changed = set(range(capacity, capacity + len(leaves)))

    def _write(self, p: int, v: Any) -> None:
        leaf = self._capacity + (p & (self._capacity - 1))
        self._tree[leaf] = v
        self._changed.add(leaf)

    def _remove(self, p: int) -> None:
        self._write(p, EMPTY)
        insort(self._holes, p)
        while self._holes and self._holes[0] == self._front:
            self._holes.pop(0)
            self._front += 1
        while self._holes and self._holes[-1] == self._back - 1:
            self._holes.pop()
            self._back -= 1
        if 4 * len(self) < self._capacity and self._capacity > SMALLEST:
            self._build(self._live(), self._capacity // 2)

    def _at(self, position: int) -> int:
        """Return where in the stream the position is: past the holes before it."""
        if not 0 <= position < len(self):
            raise IndexError(f"no position {position} in a window of {len(self)}")
        holes, offset = self._holes, self._front + position
        if not holes:
            return offset
        passed = bisect_right(range(len(holes)), offset, key=lambda k: holes[k] - k)
        return offset + passed

    def _live(self) -> list[Partial]:
        capacity, tree = self._capacity, self._tree
        slots = [tree[capacity + (p & (capacity - 1))] for p in range(self._front, self._back)]
        return [v for v in slots if v is not EMPTY]

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
        return {"capacity": self._capacity, "leaves": [encode(v) for v in self._live()]}

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        leaves, capacity = [decode(v) for v in state["leaves"]], state["capacity"]
        if not len(leaves) <= capacity <= max(SMALLEST, 4 * len(leaves)):
            raise ValueError(f"a capacity of {capacity} for {len(leaves)} values")
        self._build(leaves, capacity)

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
        self._check_values(self._live(), values)

    def _check_structure(self) -> None:
        capacity, tree = self._capacity, self._tree
        require(capacity >= SMALLEST and capacity & (capacity - 1) == 0, f"capacity {capacity}")
        require(len(tree) == 2 * capacity, f"{len(tree)} nodes for {capacity} slots")
        require(capacity == SMALLEST or 4 * len(self) >= capacity, "the array should have shrunk")
        require(self._holes == sorted(set(self._holes)), f"holes out of order: {self._holes}")
        holes = {capacity + (p & (capacity - 1)) for p in self._holes}
        window = range(self._front, self._back)
        used = {capacity + (p & (capacity - 1)) for p in window} - holes
        for leaf in range(capacity, 2 * capacity):
            require((tree[leaf] is not EMPTY) == (leaf in used), f"slot {leaf - capacity} is wrong")
