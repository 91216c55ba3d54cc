"""Two-Stacks: a queue made of two stacks, each element with the aggregate of all below it.

VLDB Journal 2021, section 3. The front stack F aggregates towards the younger end, so that evict only
pops; the back stack B towards the older end, so that insert only pushes. When F is empty, evict flips
B over onto F.
Invariant: F[i].agg = v_i ⊗ .. ⊗ v_(|F|-1), B[i].agg = v_|F| ⊗ .. ⊗ v_(|F|+i).
insert 1, evict amortised 1 and at worst n, query 1 combines; 2n partials.
A stack is one end of a deque, which is made of blocks and never copied.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Aggregator, Card, Partial, empty_window

Element = tuple[Partial, Partial]
VAL, AGG = 0, 1


class TwoStacks(Aggregator):
    """Push on one stack, pop from the other, flip when it runs empty.

    Runtime: insert and query O(1), evict amortised O(1), worst O(n).

    >>> from muntin import TwoStacks, Max
    >>> window = TwoStacks(Max())
    >>> window.bulk_insert([3, 2, 1])
    >>> window.evict()
    >>> window.query()
    2
    """

    __slots__ = ("_back", "_front")

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="amortised O(1), worst n",
        space="2n",
        paper="VLDBJ 2021, section 3",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._clear()

    def _clear(self) -> None:
        self._front: deque[Element] = deque()
        self._back: deque[Element] = deque()

    def __len__(self) -> int:
        return len(self._front) + len(self._back)

    def insert(self, value: Any) -> None:
        v, back = self._lift(value), self._back
        back.append((v, self._combine(back[-1][AGG], v) if back else v))

    def evict(self) -> None:
        if not self._front:
            if not self._back:
                raise empty_window()
            self._flip()
        self._front.pop()

    def query(self) -> Any:
        front, back = self._front, self._back
        if not front or not back:
            return self._lower((front or back)[-1][AGG] if front or back else self._identity)
        return self._lower(self._combine(front[-1][AGG], back[-1][AGG]))

    def _flip(self) -> None:
        front: deque[Element] = deque()
        for v, _ in reversed(self._back):
            front.append((v, self._combine(v, front[-1][AGG]) if front else v))
        self._front, self._back = front, deque()

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        return {
            "front": [(encode(val), encode(agg)) for val, agg in self._front],
            "back": [(encode(val), encode(agg)) for val, agg in self._back],
        }

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        self._front = deque((decode(val), decode(agg)) for val, agg in state["front"])
        self._back = deque((decode(val), decode(agg)) for val, agg in state["back"])

    def check(self, values: Sequence[Any] | None = None) -> None:
        stored = [val for val, _ in reversed(self._front)] + [val for val, _ in self._back]
        f = len(self._front)
        for i, (_, agg) in enumerate(reversed(self._front)):
            self._require_fold(f"F[{i}].agg", agg, stored[i:f])
        for i, (_, agg) in enumerate(self._back):
            self._require_fold(f"B[{i}].agg", agg, stored[f : f + i + 1])
        self._check_values(stored, values)

    def _check_structure(self) -> None:
        """Any two stacks will do."""
