"""AMTA, the Amortized Monoid Tree Aggregator: constant time, and O(log n) for any bulk eviction.

TPDS 2019, section 4.2, Algorithms 3 to 7. A pair of siblings gets its parent only when the next pair
begins, so the last pair of every level is the root of a tree of its own: a forest whose leftmost tree
hangs under the top level. R0 is the aggregate of the leftmost tree, R1 of all others. The stack holds
what R0 becomes when the head of each level is gone, the nearest eviction on top.
Invariant 3: every pair but the last of its level has a parent, so the top level is one pair.
insert and evict amortised O(1) and at worst O(log n), query 1, bulk_evict O(log n) combines; below 2n
+ log2 n + 2 partials.
Where we differ: elements are numbered from the start of the stream, so that a bulk eviction finds the
new heads by arithmetic; stale ancestors of the oldest leaf are never read and need no repair.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Card, Partial, empty_window, require
from muntin.aggregators.levels import Level, MemoryLevel, NewLevel, in_memory
from muntin.aggregators.monoid_tree import MonoidTree


class Amta(MonoidTree):
    """A constant-time window that also forgets any number of values at once.

    Runtime: insert and evict amortised O(1), worst O(log n); bulk_evict O(log n); query O(1).

    >>> from muntin import Amta, Max
    >>> window = Amta(Max())
    >>> window.bulk_insert(range(1000, 0, -1))
    >>> window.bulk_evict(990)
    >>> window.query()
    10
    """

    __slots__ = ("_new_level", "_r0", "_r1", "_stack")

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="amortised O(1), worst and bulk eviction O(log n)",
        space="2n",
        paper="TPDS 2019, section 4.2",
    )

    def __init__(self, aggregate: Aggregate, new_level: NewLevel = in_memory) -> None:
        super().__init__(aggregate)
        self._new_level = new_level
        self._levels = [new_level(0, 0)]
        self._stack: list[Partial] = []
        self._r0 = self._r1 = self._identity

    def insert(self, value: Any) -> None:
        u = self._lift(value)
        levels, combine = self._levels, self._combine
        if not len(self):
            levels[0].append(u)
            self._r0 = u
            return
        r1 = combine(self._r1, u) if len(levels) > 1 else u
        carries = [u]
        for level in levels:
            if level.tail & 1:  # the last pair lacks its right element
                break
            carries.append(level.pair(level.tail - 1, combine))
        top = len(levels)
        if len(carries) > top:
            levels.append(self._new_level(top, (levels[-1].tail - 1) >> 1))
        for level, carry in zip(levels, carries, strict=False):
            level.append(carry)
        if len(carries) == top:  # the leftmost tree has grown
            self._recompute_or_undo(carries)
        else:
            self._r1 = r1

    def _recompute_or_undo(self, carries: list[Partial]) -> None:
        try:
            self._recompute(self._levels, self._levels[0].head)
        except BaseException:
            for level, _ in zip(self._levels, carries, strict=False):
                level.shorten(1)
            raise

    def bulk_insert(self, values: Iterable[Any]) -> None:
        values = list(values)
        if len(values) <= len(self._levels):  # cheaper than to compute R0 and R1 again
            super().bulk_insert(values)
            return
        levels = self._levels.copy()
        rows = [[self._lift(value) for value in values]]  # what each level is to get
        while rows[-1]:
            first, parents = self._parents(levels[len(rows) - 1], rows[-1])
            if parents and len(rows) == len(levels):
                levels.append(self._new_level(len(rows), first))
            rows.append(parents)
        for level, row in zip(levels, rows, strict=False):
            level.extend(row)
        try:
            self._recompute(levels, levels[0].head)
        except BaseException:
            for level, row in zip(levels, rows, strict=False):
                level.shorten(len(row))
            raise
        self._levels = levels

    def _parents(self, level: Level, row: list[Partial]) -> tuple[int, list[Partial]]:
        """Return the parents that pairs get when a row is added to a level, and the first's number."""
        start = max((level.tail - 1) & ~1, level.head)
        row = [level[i] for i in range(start, level.tail)] + row
        last = (start + len(row) - 1) & ~1  # the last pair is still without
        alone = row[:1] if start & 1 and start < last else []
        paired = row[len(alone) : max(last - start, 0)]
        return start >> 1, [*alone, *map(self._combine, paired[::2], paired[1::2])]

    def evict(self) -> None:
        if not len(self):
            raise empty_window()
        self._evict_singly(1)

    def bulk_evict(self, n: int) -> None:
        n = self._whole(n)
        if n <= len(self._levels):  # single evictions first, bulk after a factor of log n
            self._evict_singly(n)
            return
        oldest = self._levels[0].head + n
        remaining = self._levels.copy()
        while remaining and oldest >> len(remaining) - 1 >= remaining[-1].tail:
            remaining.pop()
        if len(remaining) < len(self._levels):  # the leftmost tree is gone
            self._recompute(remaining or self._levels[:1], oldest)
        else:
            self._stack, self._r0 = self._left(remaining, oldest)
        self._drop(oldest)

    def _evict_singly(self, n: int) -> None:
        """Evict n values one by one; only then anything is dropped."""
        held = self._stack.copy(), self._r0, self._r1
        levels, head = self._levels, self._levels[0].head
        try:
            for oldest in range(head + 1, head + n + 1):
                levels = self._evicted(levels, oldest)
        except BaseException:
            self._stack, self._r0, self._r1 = held
            raise
        self._drop(head + n)

    def _evicted(self, levels: list[Level], oldest: int) -> list[Level]:
        """Take the leaf before this one out of R0 and stack (Algorithms 6 and 7); return the levels."""
        stack, head = self._stack, oldest - 1
        new_heads: list[Partial] = []
        for level in levels:
            if not head & 1 and head + 1 < level.tail:
                break  # the pair keeps its right element, and so its parent
            if head + 2 < level.tail:
                new_heads.append(level[head + 2])
            head >>= 1
        if oldest >> (len(levels) - 1) >= levels[-1].tail:  # the leftmost tree is gone
            levels = levels[:-1] or levels
            self._recompute(levels, oldest)
            return levels
        pushed = stack[-2:-1]  # what is on top once R0 has taken the top
        for right in reversed(new_heads):
            pushed.append(self._combine(right, pushed[-1]) if pushed else right)
        self._r0 = stack.pop()
        stack[-1:] = pushed
        return levels

    def _drop(self, oldest: int) -> None:
        """Drop what is older, and the top levels that are then empty."""
        for l, level in enumerate(self._levels):
            head = min(oldest >> l, level.tail)
            if head == level.head:
                break
            level.drop_until(head)
        while len(self._levels) > 1 and not len(self._levels[-1]):
            self._levels.pop()

    def _total(self) -> Partial:
        return self._r0 if len(self._levels) == 1 else self._combine(self._r0, self._r1)

    def _recompute(self, levels: list[Level], oldest: int) -> None:
        """Compute stack, R0 and R1 of these levels from the oldest leaf on."""
        left, right = self._left(levels, oldest), self._right(levels)
        (self._stack, self._r0), self._r1 = left, right

    def _left(self, levels: list[Level], oldest: int) -> tuple[list[Partial], Partial]:
        """Return stack and R0 (Algorithm 4)."""
        combine = self._combine
        stack: list[Partial] = []
        for l in range(len(levels) - 1, -1, -1):
            level, head = levels[l], oldest >> l
            if not head & 1 and head + 1 < level.tail:
                right = level[head + 1]
                stack.append(combine(right, stack[-1]) if stack else right)
        leaves = levels[0]
        if oldest >= leaves.tail:
            return stack, self._identity
        return stack, combine(leaves[oldest], stack[-1]) if stack else leaves[oldest]

    def _right(self, levels: list[Level]) -> Partial:
        """Return R1 (Algorithm 5)."""
        combine = self._combine
        r1 = self._identity
        for l, level in enumerate(levels[:-1]):
            pair = level.pair(level.tail - 1, combine)
            r1 = combine(pair, r1) if l else pair
        return r1

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        return {
            "levels": [level.save(encode) for level in self._levels],
            "stack": [encode(partial) for partial in self._stack],
            "result": [encode(self._r0), encode(self._r1)],
        }

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        self._levels = [MemoryLevel.load(level, decode) for level in state["levels"]]
        self._stack = [decode(partial) for partial in state["stack"]]
        self._r0, self._r1 = [decode(partial) for partial in state["result"]]

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._check_structure()
        leaves = self._levels[0]
        for l, level in enumerate(self._levels):
            for i in range(level.head, level.tail):
                if i << l >= leaves.head:
                    covered = [leaves[p] for p in range(i << l, (i + 1) << l)]
                    self._require_fold(f"element {i} of level {l}", level[i], covered)
        self._check_result()
        self._check_values(leaves, values)

    def _check_structure(self) -> None:
        levels = self._levels
        for l, level in enumerate(levels):
            parents = len(levels[l + 1]) if l + 1 < len(levels) else 0
            require(parents == max(level.pairs() - 1, 0), f"level {l} has too many or few parents")
            require(level.head == levels[0].head >> l or not level, f"level {l} has a wrong head")
        require(len(self._stack) == len(self._stack_starts()), "the stack has a wrong height")

    def _stack_starts(self) -> list[int]:
        """Return from which leaf each element of the stack starts, its top first."""
        return [
            (level.head + 1) << l
            for l, level in enumerate(self._levels)
            if not level.head & 1 and level.head + 1 < level.tail
        ]

    def _check_result(self) -> None:
        leaves, top = self._levels[0], len(self._levels) - 1
        boundary = min(((self._levels[top].head | 1) + 1) << top, self._levels[top].tail << top)
        window = [leaves[p] for p in range(leaves.head, leaves.tail)]
        split = boundary - leaves.head
        self._require_fold("R0", self._r0, window[:split])
        if top:
            self._require_fold("R1", self._r1, window[split:])
        for stored, start in zip(reversed(self._stack), self._stack_starts(), strict=True):
            self._require_fold("a stack element", stored, window[start - leaves.head : split])
