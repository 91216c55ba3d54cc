"""FlatFIT: an index that remembers how far each aggregate already reaches.

Shein, Chrysanthis and Labrinidis (SSDBM 2017); for windows of any length as in VLDB Journal 2021,
section 7. Position p stores an aggregate of [p, next(p)). A query walks from the oldest position along
next, then writes what it learned back into every position it visited.
Invariant: the stored aggregate of p is v_p ⊗ .. ⊗ v_(next(p)-1), and p < next(p) <= E.
insert 0, evict 0, query amortised fewer than 3 per slide, at worst n - 1 combines; n partials and n
indices.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Card, Partial, empty_window, require
from muntin.aggregators.chunks import BITS, LOW
from muntin.aggregators.ring import RingAggregator


class FlatFit(RingAggregator):
    """Do nothing until asked, and remember the way.

    Runtime: insert and evict O(1), query amortised O(1), worst O(n).

    >>> from muntin import FlatFit, Max
    >>> window = FlatFit(Max())
    >>> window.bulk_insert([3, 2, 1])
    >>> window.evict()
    >>> window.query()
    2
    """

    __slots__ = ()

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="amortised O(1), worst n",
        space="n, and n indices",
        paper="SSDBM 2017; VLDBJ 2021, section 7",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._state: tuple[int, int] = self._empty_state()

    def insert(self, value: Any) -> None:
        v, chunks = self._lift(value), self._chunks
        f, e = self._state
        if not e & LOW:
            chunks.open(e >> BITS)
        chunks.table[e >> BITS & chunks.mask][e & LOW] = (v, e + 1)
        self._state = (f, e + 1)

    def evict(self) -> None:
        if self._state[0] == self._state[1]:
            raise empty_window()
        chunks, (f, e) = self._chunks, self._state
        chunks.table[f >> BITS & chunks.mask][f & LOW] = None
        self._state = (f + 1, e)
        if f & LOW == LOW:
            chunks.close(f + 1 >> BITS)

    def query(self) -> Any:
        f, e = self._state
        if f == e:
            return self._lower(self._identity)
        table, mask = self._chunks.table, self._chunks.mask
        visited = []
        p = f
        while True:
            agg, following = table[p >> BITS & mask][p & LOW]
            if following == e:
                break
            visited.append((p, agg))
            p = following
        for p, agg_p in reversed(visited):
            agg = self._combine(agg_p, agg)
            table[p >> BITS & mask][p & LOW] = (agg, e)
        return self._lower(agg)

    def _empty_state(self) -> tuple[int, int]:
        return (0, 0)

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        f = self._state[0]
        return self._save_ring(lambda element: (encode(element[0]), element[1] - f))

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        n = self._load_ring(state, lambda element: (decode(element[0]), element[1]))
        self._state = (0, n)

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._check_structure()
        f, e = self._state
        if values is not None:
            lifted = self._lifted(values)
            for i, (agg, following) in enumerate(self._between(f, e)):
                self._require_fold(f"agg({f + i})", agg, lifted[i : following - f])

    def _check_structure(self) -> None:
        self._check_chunks()
        f, e = self._state
        for i, (_, following) in enumerate(self._between(f, e)):
            require(f + i < following <= e, f"next({f + i}) is {following}, E is {e}")
