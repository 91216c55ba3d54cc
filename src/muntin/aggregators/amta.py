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

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Aggregator, Card, Partial, empty_window, require
from muntin.aggregators.levels import Level


class Amta(Aggregator):
    """A constant-time window that also forgets any number of values at once.

    Runtime: insert and evict amortised O(1), worst O(log n); bulk_evict O(log n); query O(1).

    >>> from muntin import Amta, Max
    >>> window = Amta(Max())
    >>> window.bulk_insert(range(1000, 0, -1))
    >>> window.bulk_evict(990)
    >>> window.query()
    10
    """

    __slots__ = ("_levels", "_r0", "_r1", "_stack")

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="amortised O(1), worst and bulk eviction O(log n)",
        space="2n",
        paper="TPDS 2019, section 4.2",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._levels = [Level(0)]
        self._stack: list[Partial] = []
        self._r0 = self._r1 = self._identity

    def __len__(self) -> int:
        return len(self._levels[0])

    def insert(self, value: Any) -> None:
        u = self._lift(value)
        levels, combine = self._levels, self._combine
        if not len(self):
            levels[0].append(u)
            self._r0 = u
            return
        self._r1 = combine(self._r1, u) if len(levels) > 1 else u
        carry = u
        for level in levels:
            tail = level.tail
            if tail & 1:  # the last pair lacks its right element
                level.append(carry)
                if level is levels[-1]:
                    self._compute_left_result()
                    self._compute_right_result()
                return
            pair = level.pair(tail - 1, combine)
            level.append(carry)
            carry = pair
        levels.append(Level((levels[-1].tail - 2) >> 1, [carry]))

    def evict(self) -> None:
        if not len(self):
            raise empty_window()
        levels, combine = self._levels, self._combine
        new_heads: list[Partial] = []
        for level in levels:
            head = level.head
            level.drop_until(head + 1)
            if not head & 1 and head + 1 < level.tail:
                break  # the pair keeps its right element, and so its parent
            if head + 2 < level.tail:
                new_heads.append(level[head + 2])
        if not len(levels[-1]):
            self._drop_leftmost_tree()
            return
        stack = self._stack
        self._r0 = stack.pop()
        for right in reversed(new_heads):
            stack.append(combine(right, stack[-1]) if stack else right)

    def bulk_evict(self, n: int) -> None:
        self._refuse_bulk(n)
        if n <= len(self._levels):
            super().bulk_evict(n)
            return
        oldest = self._levels[0].head + n
        for l, level in enumerate(self._levels):
            level.drop_until(min(oldest >> l, level.tail))
        while len(self._levels) > 1 and not len(self._levels[-1]):
            self._levels.pop()
        self._compute_left_result()
        self._compute_right_result()

    def query(self) -> Any:
        if len(self._levels) == 1:
            return self._lower(self._r0)
        return self._lower(self._combine(self._r0, self._r1))

    def _drop_leftmost_tree(self) -> None:
        if len(self._levels) > 1:
            self._levels.pop()
        self._compute_left_result()
        self._compute_right_result()

    def _compute_left_result(self) -> None:
        """Algorithm 4: fill the stack from the top level down, then R0."""
        stack, combine = self._stack, self._combine
        stack.clear()
        for level in reversed(self._levels):
            head = level.head
            if not head & 1 and head + 1 < level.tail:
                right = level[head + 1]
                stack.append(combine(right, stack[-1]) if stack else right)
        leaves = self._levels[0]
        if not len(leaves):
            self._r0 = self._identity
        else:
            oldest = leaves[leaves.head]
            self._r0 = combine(oldest, stack[-1]) if stack else oldest

    def _compute_right_result(self) -> None:
        """Algorithm 5: R1 from the last pairs of all levels below the top."""
        combine = self._combine
        self._r1 = self._identity
        for l, level in enumerate(self._levels[:-1]):
            pair = level.pair(level.tail - 1, combine)
            self._r1 = combine(pair, self._r1) if l else pair

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        return {
            "levels": [level.save(encode) for level in self._levels],
            "stack": [encode(partial) for partial in self._stack],
            "result": [encode(self._r0), encode(self._r1)],
        }

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        self._levels = [Level.load(level, decode) for level in state["levels"]]
        self._stack = [decode(partial) for partial in state["stack"]]
        self._r0, self._r1 = [decode(partial) for partial in state["result"]]

    def check(self, values: Sequence[Any] | None = None) -> None:
        levels, leaves = self._levels, self._levels[0]
        for l, level in enumerate(levels):
            parents = len(levels[l + 1]) if l + 1 < len(levels) else 0
            require(
                parents == max(level.pairs() - 1, 0), f"level {l} has a wrong number of parents"
            )
            require(
                level.head == leaves.head >> l or not len(leaves), f"level {l} has a wrong head"
            )
            for i in range(level.head, level.tail):
                if i << l >= leaves.head:
                    covered = [leaves[p] for p in range(i << l, (i + 1) << l)]
                    self._require_fold(f"element {i} of level {l}", level[i], covered)
        self._check_result()
        if values is not None:
            for p, v in enumerate(self._lifted(values), start=leaves.head):
                self._require_fold(f"leaf {p}", leaves[p], [v])

    def _check_result(self) -> None:
        leaves, top = self._levels[0], len(self._levels) - 1
        boundary = min(((self._levels[top].head | 1) + 1) << top, self._levels[top].tail << top)
        window = [leaves[p] for p in range(leaves.head, leaves.tail)]
        split = boundary - leaves.head
        self._require_fold("R0", self._r0, window[:split])
        if top:
            self._require_fold("R1", self._r1, window[split:])
        ends = [
            (level.head + 1) << l
            for l, level in enumerate(self._levels)
            if not level.head & 1 and level.head + 1 < level.tail
        ]
        require(len(self._stack) == len(ends), f"the stack has {len(self._stack)} of {len(ends)}")
        for stored, start in zip(reversed(self._stack), ends, strict=True):
            self._require_fold("a stack element", stored, window[start - leaves.head : split])
