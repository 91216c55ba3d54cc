"""Subtract-on-Evict: a running total, from which the inverse takes what leaves.

insert 1, evict 1 inverse, query 0 combines; n + 1 partials. Asks for an inverse. Where the inverse
declines (while a NaN or an infinity is in a float sum), what is left is folded. Rounding errors of
floats that have left stay in the total: integers and decimals are exact.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Card, Partial, empty_window
from muntin.aggregators.recalc import Recalc


class SubtractOnEvict(Recalc):
    """Keep a running total and subtract what is evicted.

    Runtime: every operation O(1).

    >>> from muntin import SubtractOnEvict, Sum
    >>> window = SubtractOnEvict(Sum())
    >>> window.bulk_insert([2, 3, 1])
    >>> window.evict()
    >>> window.query()
    4
    """

    __slots__ = ("_inverse", "_total")

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="inverse",
        time="worst-case O(1); evict n while NaN or infinite",
        space="n + 1",
        paper="baseline",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._inverse = aggregate.inverse
        self._total = self._identity

    @classmethod
    def missing(cls, aggregate: Aggregate) -> str:
        return "" if aggregate.invertible else "it has no inverse"

    def insert(self, value: Any) -> None:
        partial = self._lift(value)
        self._total = self._combine(self._total, partial) if self._partials else partial
        self._partials.append(partial)

    def evict(self) -> None:
        if not self._partials:
            raise empty_window()
        assert self._inverse is not None
        total = self._inverse(self._total, self._partials[0])
        if total is NotImplemented:
            total = self._fold(list(islice(self._partials, 1, None)))
        self._partials.popleft()
        self._total = total

    def query(self) -> Any:
        return self._lower(self._total)

    def _clear(self) -> None:
        super()._clear()
        self._total = self._identity

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        return {**super()._save(encode), "total": encode(self._total)}

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        super()._load(state, decode)
        self._total = decode(state["total"])

    def check(self, values: Sequence[Any] | None = None) -> None:
        super().check(values)
        self._require_fold("the total", self._total, self._partials)
