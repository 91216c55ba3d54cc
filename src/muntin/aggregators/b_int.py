"""B-Int: base intervals at every power of two, put together for any window.

Arasu and Widom (VLDB 2004), which VLDB 2015 compares with. Level l holds the aggregates of complete
intervals [i 2^l, (i+1) 2^l) that lie in the window. An interval is made when its second half is
complete; a query covers the window with intervals that grow from the old end and shrink towards the
young end.
Invariant: an interval is stored if and only if it is complete and wholly inside the window.
insert amortised 1 and at worst log2 n, evict 0, query at most 2 log2 n combines; below 2n partials.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Aggregator, Card, Partial, empty_window, require
from muntin.aggregators.levels import MemoryLevel


class BInt(Aggregator):
    """Base intervals: cheap to keep, and any window is a few of them.

    Runtime: insert amortised O(1), evict amortised O(1), query O(log n).

    >>> from muntin import BInt, Max
    >>> window = BInt(Max())
    >>> window.bulk_insert([3, 2, 1])
    >>> window.evict()
    >>> window.query()
    2
    """

    __slots__ = ("_levels",)

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="insert amortised O(1), query O(log n)",
        space="2n",
        paper="Arasu and Widom, VLDB 2004",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._levels = [MemoryLevel(0)]

    def __len__(self) -> int:
        return len(self._levels[0])

    def insert(self, value: Any) -> None:
        levels = self._levels
        complete = [self._lift(value)]
        number = levels[0].tail
        for level in levels:
            if not number & 1 or number - 1 < level.head:
                break
            complete.append(self._combine(level[number - 1], complete[-1]))
            number >>= 1
        if len(complete) > len(levels):
            levels.append(MemoryLevel(number))
        for level, interval in zip(levels, complete, strict=False):
            level.append(interval)

    def evict(self) -> None:
        if not len(self):
            raise empty_window()
        self._drop(1)

    def bulk_evict(self, n: int) -> None:
        self._drop(self._whole(n))

    def _drop(self, n: int) -> None:
        levels = self._levels
        f = levels[0].head + n
        for l, level in enumerate(levels):
            first = -(-f >> l)  # the first interval that begins at f or later
            if first <= level.head:
                break
            if first >= level.tail and l:
                del levels[l:]
                break
            level.drop_until(first)

    def query(self) -> Any:
        levels, leaves = self._levels, self._levels[0]
        p, e = leaves.head, leaves.tail
        cover: list[Partial] = []
        l = 0
        while p < e:  # intervals grow while p is no multiple of the next length, then shrink
            while l + 1 < len(levels) and not p & ((2 << l) - 1) and p + (2 << l) <= e:
                l += 1
            while p + (1 << l) > e:
                l -= 1
            cover.append(levels[l][p >> l])
            p += 1 << l
        return self._lower(self._fold(cover))

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        return {"levels": [level.save(encode) for level in self._levels]}

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        self._levels = [MemoryLevel.load(level, decode) for level in state["levels"]]

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._check_structure()
        leaves = self._levels[0]
        for l, level in enumerate(self._levels):
            for i in range(level.head, level.tail):
                covered = [leaves[p] for p in range(i << l, (i + 1) << l)]
                self._require_fold(f"interval {i} of level {l}", level[i], covered)
        self._check_values(leaves, values)

    def _check_structure(self) -> None:
        f, e, height = self._levels[0].head, self._levels[0].tail, len(self._levels)
        require(-(-f >> height) >= e >> height, "a level is missing")
        for l, level in enumerate(self._levels):
            require(len(level) > 0 or l == 0, f"level {l} is empty")
            require(level.head == -(-f >> l), f"level {l} begins at {level.head}")
            require(level.tail == e >> l, f"level {l} ends at {level.tail}")
