"""DABA Lite: DABA in n + 2 partials, and with fewer combines.

VLDB Journal 2021, section 6. DABA reads no values where aggregates run to the left and only the last
aggregate where they run to the right; so one partial per element is enough, with two running ones:
aggRA of l_R and l_A together, aggB of l_B. Pointers F <= L <= R <= A <= B <= E as in DABA.
Invariant: [F, L) and l_A hold suffixes to B, l_L suffixes to R, l_R and l_B bare values; if L != R,
aggRA = v_R ⊗ .. ⊗ v_(B-1); aggB = v_B ⊗ .. ⊗ v_(E-1); sizes as in DABA.
At most 3 combines per insert, 2 per evict, 1 per query; on average 2, 1, 1.
Where we differ: nothing is combined with the identity.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Card, Combine, Partial, empty_window
from muntin.aggregators.chunks import BITS, LOW, Table
from muntin.aggregators.daba import check_sizes
from muntin.aggregators.ring import RingAggregator

State = tuple[int, int, int, int, int, int, Partial, Partial]


def insert(
    slots: Table, mask: int, state: State, v: Partial, combine: Combine, identity: Partial
) -> State:
    """Push a value onto the back and take one step of the reversal."""
    f, e, l, r, a, b, agg_ra, agg_b = state
    slots[e >> BITS & mask][e & LOW] = v
    agg_b = v if b == e else combine(agg_b, v)
    return fixup(slots, mask, (f, e + 1, l, r, a, b, agg_ra, agg_b), combine, identity)


def evict(slots: Table, mask: int, state: State, combine: Combine, identity: Partial) -> State:
    """Pop the front and take one step of the reversal."""
    f, e, l, r, a, b, agg_ra, agg_b = state
    state = fixup(slots, mask, (f + 1, e, l, r, a, b, agg_ra, agg_b), combine, identity)
    slots[f >> BITS & mask][f & LOW] = identity
    return state


def query(slots: Table, mask: int, state: State, combine: Combine) -> Partial:
    """Combine front and back."""
    f, e, _, _, _, b, _, agg_b = state
    if f == b:
        return agg_b
    front = slots[f >> BITS & mask][f & LOW]
    return front if b == e else combine(front, agg_b)


def fixup(slots: Table, mask: int, state: State, combine: Combine, identity: Partial) -> State:
    """Restore the invariants: singleton, flip, shift or shrink."""
    f, e, l, r, a, b, agg_ra, agg_b = state
    if f == b:  # singleton
        return f, e, e, e, e, e, identity, identity
    if l == b:  # flip
        l, a, b = f, e, e
        agg_ra, agg_b = agg_b, identity
    if l == r:  # shift
        return f, e, l + 1, r + 1, a + 1, b, agg_ra, agg_b
    # shrink
    front = combine(slots[l >> BITS & mask][l & LOW], agg_ra)
    if a != b:
        p, suffix = a - 1, slots[a >> BITS & mask][a & LOW]
        slots[p >> BITS & mask][p & LOW] = combine(slots[p >> BITS & mask][p & LOW], suffix)
    slots[l >> BITS & mask][l & LOW] = front
    return f, e, l + 1, r, a - 1, b, agg_ra, agg_b


def empty_state(identity: Partial) -> State:
    """Return the state of an empty window."""
    return (0, 0, 0, 0, 0, 0, identity, identity)


class DabaLite(RingAggregator):
    """The in-order window of choice when no operation may be slow.

    Runtime: every operation worst-case O(1).

    >>> from muntin import DabaLite, Max
    >>> window = DabaLite(Max())
    >>> window.bulk_insert([3, 2, 1])
    >>> window.evict()
    >>> window.query()
    2
    """

    __slots__ = ()

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="worst-case O(1): insert 3, evict 2, query 1",
        space="n + 2",
        paper="VLDBJ 2021, section 6",
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
        f = state[0]
        if f == state[1]:
            raise empty_window()
        self._state = evict(chunks.table, chunks.mask, state, self._combine, self._identity)
        if f & LOW == LOW:
            chunks.close(f + 1 >> BITS)

    def query(self) -> Any:
        chunks = self._chunks
        return self._lower(query(chunks.table, chunks.mask, self._state, self._combine))

    def _empty_state(self) -> State:
        return empty_state(self._identity)

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        f, _, l, r, a, b, agg_ra, agg_b = self._state
        return {
            **self._save_ring(encode),
            "pointers": [p - f for p in (l, r, a, b)],
            "agg_ra": encode(agg_ra),
            "agg_b": encode(agg_b),
        }

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        n = self._load_ring(state, decode)
        l, r, a, b = state["pointers"]
        self._state = (0, n, l, r, a, b, decode(state["agg_ra"]), decode(state["agg_b"]))

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._check_structure()
        f, e, l, r, a, b, agg_ra, agg_b = self._state
        self._require_fold("aggB", agg_b, self._between(b, e))
        if l != r:
            suffix_a = self._between(a, b)[:1]
            self._require_fold("aggRA", agg_ra, self._between(r, a) + suffix_a)
        if values is not None:
            lifted = self._lifted(values)
            for i, stored in enumerate(self._between(f, e)):
                p = f + i
                end = b if p < l or a <= p < b else (r if p < r else p + 1)
                self._require_fold(f"*(F+{i})", stored, lifted[i : end - f])

    def _check_structure(self) -> None:
        check_sizes(*self._state[:6])
        self._check_chunks()
