"""Recalculate: keep the values, fold them at every query.

The baseline that the papers compare with, and the definition of what all others must return.
insert 0, evict 0, query n - 1 combines; n partials.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Aggregator, Card, Partial, empty_window


class Recalc(Aggregator):
    """Fold the whole window at every query.

    Runtime: insert and evict O(1), query O(n).

    >>> from muntin import Recalc, Max
    >>> window = Recalc(Max())
    >>> window.bulk_insert([2, 3, 1])
    >>> window.query()
    3
    """

    __slots__ = ("_partials",)

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="query n",
        space="n",
        paper="baseline",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._partials: deque[Partial] = deque()

    def __len__(self) -> int:
        return len(self._partials)

    def insert(self, value: Any) -> None:
        self._partials.append(self._lift(value))

    def evict(self) -> None:
        if not self._partials:
            raise empty_window()
        self._partials.popleft()

    def query(self) -> Any:
        return self._lower(self._fold(self._partials))

    def _clear(self) -> None:
        self._partials = deque()

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        return {"partials": [encode(partial) for partial in self._partials]}

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        self._partials = deque(decode(partial) for partial in state["partials"])

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._check_structure()
        self._check_values(self._partials, values)

    def _check_structure(self) -> None:
        """Any list of partials will do."""
