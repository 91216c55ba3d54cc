"""Log MTA, the Monoid Tree Aggregator: a tree of levels that evicts any number in O(log n).

TPDS 2019, section 4.1, Algorithms 1 and 2. Level 0 holds the window, every level above the aggregates
of the pairs of siblings below it. An insert renews the rightmost branch; an eviction drops elements at
the head of each level and renews the leftmost branch, however many leaves went.
Invariant 1: only the first pair may lack its left and only the last its right element. Invariant 2: no
pair is empty. Every element is the fold of its leaves that are in the window.
insert and evict at most ceil(log2 n) + 1 combines, bulk_evict the same, query at most 1; below 2n
partials.
Where we differ: elements are numbered from the start of the stream, and the root is the lowest level
with at most two elements, so that the height follows the window when it shrinks.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Card, Partial, empty_window, require
from muntin.aggregators.levels import Level, MemoryLevel
from muntin.aggregators.monoid_tree import MonoidTree


class LogMta(MonoidTree):
    """A window that can forget a million values as cheaply as one.

    Runtime: every operation O(log n), bulk_evict too; query O(1).

    >>> from muntin import LogMta, Max
    >>> window = LogMta(Max())
    >>> window.bulk_insert(range(1000, 0, -1))
    >>> window.bulk_evict(990)
    >>> window.query()
    10
    """

    __slots__ = ()

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="worst-case O(log n), bulk eviction too",
        space="2n",
        paper="TPDS 2019, section 4.1",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._levels = [MemoryLevel(0)]

    def insert(self, value: Any) -> None:
        levels = self._levels
        number = levels[0].tail
        branch = [self._lift(value)]  # the new rightmost branch, whole before anything is written
        for level in levels[:-1]:
            branch.append(self._parent(level, number, branch[-1]))
            number >>= 1
        root = levels[-1]
        if len(root) == 2 and number == root.tail:  # three elements are two pairs
            branch.append(self._parent(root, number, branch[-1]))
            levels.append(MemoryLevel(root.head >> 1, [root.pair(root.head, self._combine)]))
        number = levels[0].tail
        for level, element in zip(levels, branch, strict=True):
            if number == level.tail:
                level.append(element)
            else:
                level[number] = element
            number >>= 1

    def _parent(self, level: Level, number: int, element: Partial) -> Partial:
        """Return the parent of a last element that is not yet in its level."""
        left = number & 1 and number - 1 >= level.head
        return self._combine(level[number - 1], element) if left else element

    def evict(self) -> None:
        if not len(self):
            raise empty_window()
        self._evict(1)

    def bulk_evict(self, n: int) -> None:
        n = self._whole(n)
        if n:
            self._evict(n)

    def _evict(self, n: int) -> None:
        levels = self._levels
        oldest = levels[0].head + n
        heads = [min(oldest >> l, level.tail) for l, level in enumerate(levels)]
        root = next(l for l, level in enumerate(levels) if level.tail - heads[l] <= 2)
        branch: list[Partial] = []  # the new leftmost branch, whole before anything is dropped
        for level, head in zip(levels[:root], heads, strict=False):
            element = branch[-1] if branch else level[head]
            sibling = not head & 1 and head + 1 < level.tail
            branch.append(self._combine(element, level[head + 1]) if sibling else element)
        while len(levels) > root + 1:
            levels.pop()
        for level, head in zip(levels, heads, strict=False):
            level.drop_until(head)
        for level, element in zip(levels[1:], branch, strict=True):
            level[level.head] = element

    def _total(self) -> Partial:
        root = self._levels[-1]
        if not len(root):
            return self._identity
        if len(root) == 1:
            return root[root.head]
        return self._combine(root[root.head], root[root.head + 1])

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        return {"levels": [level.save(encode) for level in self._levels]}

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        self._levels = [MemoryLevel.load(level, decode) for level in state["levels"]]

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._check_structure()
        leaves = self._levels[0]
        for l, level in enumerate(self._levels):
            for i in range(level.head, level.tail):
                start, end = max(i << l, leaves.head), min((i + 1) << l, leaves.tail)
                covered = [leaves[p] for p in range(start, end)]
                self._require_fold(f"element {i} of level {l}", level[i], covered)
        self._check_values(leaves, values)

    def _check_structure(self) -> None:
        levels = self._levels
        require(len(levels[-1]) <= 2, "the root level has more than two elements")
        for l, level in enumerate(levels):
            require(level.head == levels[0].head >> l or not level, f"level {l} has a wrong head")
            require(l == 0 or len(level) == levels[l - 1].pairs(), f"level {l} lacks a parent")
            require(l == len(levels) - 1 or len(level) > 2, f"level {l} could be the root")
