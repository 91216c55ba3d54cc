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
from itertools import pairwise
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Aggregator, Card, Partial, empty_window, require
from muntin.aggregators.levels import Level


class LogMta(Aggregator):
    """A window that can forget a million values as cheaply as one.

    Runtime: every operation O(log n), bulk_evict too; query O(1).

    >>> from muntin import LogMta, Max
    >>> window = LogMta(Max())
    >>> window.bulk_insert(range(1000, 0, -1))
    >>> window.bulk_evict(990)
    >>> window.query()
    10
    """

    __slots__ = ("_levels",)

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="worst-case O(log n), bulk eviction too",
        space="2n",
        paper="TPDS 2019, section 4.1",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._levels = [Level(0)]

    def __len__(self) -> int:
        return len(self._levels[0])

    def insert(self, value: Any) -> None:
        levels, combine = self._levels, self._combine
        levels[0].append(self._lift(value))
        for level, parents in pairwise(levels):
            last = level.tail - 1
            parent = level.pair(last, combine)
            if parents.tail == last >> 1:
                parents.append(parent)
            else:
                parents[last >> 1] = parent
        root = levels[-1]
        if len(root) > 2:  # three elements are two pairs
            first, last = root.head, root.tail - 1
            pairs = [root.pair(first, combine), root.pair(last, combine)]
            levels.append(Level(first >> 1, pairs))

    def evict(self) -> None:
        if not len(self):
            raise empty_window()
        self._evict(1)

    def bulk_evict(self, n: int) -> None:
        self._refuse_bulk(n)
        if n:
            self._evict(n)

    def _evict(self, n: int) -> None:
        levels = self._levels
        oldest = levels[0].head + n
        for l, level in enumerate(levels):
            level.drop_until(min(oldest >> l, level.tail))
            if len(level) <= 2:
                del levels[l + 1 :]
                break
        for level, parents in pairwise(levels):
            parents[parents.head] = level.pair(level.head, self._combine)

    def query(self) -> Any:
        root = self._levels[-1]
        if not len(root):
            return self._lower(self._identity)
        if len(root) == 1:
            return self._lower(root[root.head])
        return self._lower(self._combine(root[root.head], root[root.head + 1]))

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        return {"levels": [level.save(encode) for level in self._levels]}

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        self._levels = [Level.load(level, decode) for level in state["levels"]]

    def check(self, values: Sequence[Any] | None = None) -> None:
        levels = self._levels
        leaves = levels[0]
        require(len(levels[-1]) <= 2, "the root level has more than two elements")
        for l, level in enumerate(levels):
            require(l == 0 or len(level) == levels[l - 1].pairs(), f"level {l} lacks a parent")
            require(l == len(levels) - 1 or len(level) > 2, f"level {l} could be the root")
            for i in range(level.head, level.tail):
                start, end = max(i << l, leaves.head), min((i + 1) << l, leaves.tail)
                require(start < end, f"element {i} of level {l} has no leaf")
                covered = [leaves[p] for p in range(start, end)]
                self._require_fold(f"element {i} of level {l}", level[i], covered)
        if values is not None:
            for p, v in enumerate(self._lifted(values), start=leaves.head):
                self._require_fold(f"leaf {p}", leaves[p], [v])
