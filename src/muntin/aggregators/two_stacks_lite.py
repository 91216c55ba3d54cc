"""Two-Stacks Lite: one deque with a boundary in place of two stacks.

VLDB Journal 2021, section 4. Pointers: F is the oldest position, B where the back begins, E one past
the youngest. The front [F, B) holds suffix aggregates, the back [B, E) bare values, aggB their
aggregate. evict on an empty front flips: it turns the whole back into a front, from the right.
Invariant: *(F+i) = v_i ⊗ .. ⊗ v_(B-F-1) in the front, *(F+i) = v_i in the back, and
aggB = *B ⊗ .. ⊗ *(E-1).
insert 1, evict amortised 1 and at worst n, query 1 combines; n + 1 partials.
Where we differ: nothing is combined with the identity.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Card, Combine, Partial, empty_window, require
from muntin.aggregators.chunks import BITS, LOW, Table
from muntin.aggregators.ring import RingAggregator

State = tuple[int, int, int, Partial]


def insert(
    slots: Table,
    mask: int,
    state: State,
    v: Partial,
    combine: Combine,
    identity: Partial,  # noqa: ARG001
) -> State:
    """Push a value onto the back."""
    f, e, b, agg_b = state
    slots[e >> BITS & mask][e & LOW] = v
    return f, e + 1, b, v if b == e else combine(agg_b, v)


def evict(slots: Table, mask: int, state: State, combine: Combine, identity: Partial) -> State:
    """Pop the front, after a flip if it is empty."""
    f, e, b, agg_b = state
    if f == b:  # flip
        i = e - 1
        while i != f:
            suffix = slots[i >> BITS & mask][i & LOW]
            i -= 1
            slots[i >> BITS & mask][i & LOW] = combine(slots[i >> BITS & mask][i & LOW], suffix)
        b = e
        agg_b = identity
    slots[f >> BITS & mask][f & LOW] = identity
    return f + 1, e, b, agg_b


def query(slots: Table, mask: int, state: State, combine: Combine) -> Partial:
    """Combine front and back."""
    f, e, b, agg_b = state
    if f == b:
        return agg_b
    front = slots[f >> BITS & mask][f & LOW]
    return front if b == e else combine(front, agg_b)


def empty_state(identity: Partial) -> State:
    """Return the state of an empty window."""
    return (0, 0, 0, identity)


class TwoStacksLite(RingAggregator):
    """Two-Stacks in half of the space.

    Runtime: insert and query O(1), evict amortised O(1), worst O(n).

    >>> from muntin import TwoStacksLite, Max
    >>> window = TwoStacksLite(Max())
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
        space="n + 1",
        paper="VLDBJ 2021, section 4",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._state: State = self._empty_state()

    def insert(self, value: Any) -> None:
        v, chunks, state = self._lift(value), self._chunks, self._state
        if not state[1] & LOW:
            chunks.open(state[1] >> BITS)
        self._state = insert(chunks.table, chunks.mask, state, v, self._combine, self._identity)

    def evict(self) -> None:
        chunks, state = self._chunks, self._state
        f, e, b, _ = state
        if f == e:
            raise empty_window()
        held = self._between(f, e) if f == b else []  # a flip may fail half-way
        try:
            self._state = evict(chunks.table, chunks.mask, state, self._combine, self._identity)
        except BaseException:
            self._write(dict(enumerate(held, f)))
            raise
        if f & LOW == LOW:
            chunks.close(f + 1 >> BITS)

    def query(self) -> Any:
        chunks = self._chunks
        return self._lower(query(chunks.table, chunks.mask, self._state, self._combine))

    def _empty_state(self) -> State:
        return empty_state(self._identity)

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        f, _, b, agg_b = self._state
        return {**self._save_ring(encode), "b": b - f, "agg_b": encode(agg_b)}

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        n = self._load_ring(state, decode)
        self._state = (0, n, state["b"], decode(state["agg_b"]))

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._check_structure()
        f, e, b, agg_b = self._state
        self._require_fold("aggB", agg_b, self._between(b, e))
        if values is not None:
            lifted = self._lifted(values)
            for i, stored in enumerate(self._between(f, e)):
                end = b - f if i < b - f else i + 1
                self._require_fold(f"*(F+{i})", stored, lifted[i:end])

    def _check_structure(self) -> None:
        f, e, b, _ = self._state
        require(f <= b <= e, f"pointers out of order: F={f}, B={b}, E={e}")
        self._check_chunks()
