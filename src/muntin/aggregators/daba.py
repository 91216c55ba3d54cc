"""DABA, the De-Amortized Banker's Aggregator: worst-case constant time for any associative combine.

VLDB Journal 2021, section 5. Two-Stacks flips late and at once; DABA flips when front and back are
equally long and reverses the aggregation one step at a time. Pointers F <= L <= R <= A <= B <= E cut
the deque into sublists; every element has its value and an aggregate:
[F, L) from it to B, l_L [L, R) from it to R, l_R [R, A) from R to it, l_A [A, B) from it to B, l_B
[B, E) from B to it.
Invariant: the window is empty, or |l_L| + |l_R| + |l_A| + 1 = |l_F| - |l_B| and |l_L| = |l_R|.
At most 4 combines per insert, 3 per evict, 1 per query; on average 2.5, 1.5, 1; 2n partials.
The deque is the paper's chunked array, which is never copied (`chunks.py`).
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Card, Partial, empty_window, require
from muntin.aggregators.chunks import BITS, LOW
from muntin.aggregators.ring import RingAggregator

VAL, AGG = 0, 1


class Daba(RingAggregator):
    """A queue with its aggregate, each operation a bounded number of combines.

    Runtime: every operation worst-case O(1).

    >>> from muntin import Daba, Max
    >>> window = Daba(Max())
    >>> window.bulk_insert([3, 2, 1])
    >>> window.evict()
    >>> window.query()
    2
    """

    __slots__ = ()

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="associative",
        time="worst-case O(1): insert 4, evict 3, query 1",
        space="2n",
        paper="VLDBJ 2021, section 5",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._state: tuple[int, int, int, int, int, int] = self._empty_state()

    def insert(self, value: Any) -> None:
        v, chunks = self._lift(value), self._chunks
        f, e, l, r, a, b = self._state
        if not e & LOW:
            chunks.open(e >> BITS)
        agg = v if b == e else self._combine(self._agg(e - 1), v)
        chunks.table[e >> BITS & chunks.mask][e & LOW] = (v, agg)
        self._fixup(f, e + 1, l, r, a, b)

    def evict(self) -> None:
        if self._state[0] == self._state[1]:
            raise empty_window()
        f, e, l, r, a, b = self._state
        self._fixup(f + 1, e, l, r, a, b)
        chunks = self._chunks
        chunks.table[f >> BITS & chunks.mask][f & LOW] = None
        if f & LOW == LOW:
            chunks.close(f + 1 >> BITS)

    def query(self) -> Any:
        f, e, _, _, _, b = self._state
        if f == e:
            return self._lower(self._identity)
        front = self._agg(f)
        return self._lower(front if b == e else self._combine(front, self._agg(e - 1)))

    def _fixup(self, f: int, e: int, l: int, r: int, a: int, b: int) -> None:
        if f == b:  # singleton
            l = r = a = b = e
        else:
            if l == b:  # flip
                l, a, b = f, e, e
            if l == r:  # shift
                a, r, l = a + 1, r + 1, l + 1
            else:
                self._shrink(l, a, b)
                l, a = l + 1, a - 1
        self._state = (f, e, l, r, a, b)

    def _shrink(self, l: int, a: int, b: int) -> None:
        """Move the first of l_L to the front and the last of l_R to l_A."""
        combine, p = self._combine, a - 1
        table, mask = self._chunks.table, self._chunks.mask
        last_val, agg_r = table[p >> BITS & mask][p & LOW]
        first_val, agg_l = table[l >> BITS & mask][l & LOW]
        agg_l = combine(agg_l, agg_r)
        agg_a = last_val
        if a != b:
            suffix = self._agg(a)
            agg_l = combine(agg_l, suffix)
            agg_a = combine(last_val, suffix)
        table[l >> BITS & mask][l & LOW] = (first_val, agg_l)
        table[p >> BITS & mask][p & LOW] = (last_val, agg_a)

    def _agg(self, p: int) -> Partial:
        chunks = self._chunks
        return chunks.table[p >> BITS & chunks.mask][p & LOW][AGG]

    def _empty_state(self) -> tuple[int, int, int, int, int, int]:
        return (0, 0, 0, 0, 0, 0)

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        f, _, *pointers = self._state
        both = self._save_ring(lambda element: (encode(element[VAL]), encode(element[AGG])))
        return {**both, "pointers": [p - f for p in pointers]}

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        n = self._load_ring(state, lambda element: (decode(element[VAL]), decode(element[AGG])))
        l, r, a, b = state["pointers"]
        self._state = (0, n, l, r, a, b)

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._check_structure()
        f, e, l, r, a, b = self._state
        stored = self._between(f, e)
        vals = [element[VAL] for element in stored]
        for i, (_, agg) in enumerate(stored):
            p = f + i
            if p < l or a <= p < b:
                start, end = p, b
            elif p < r:
                start, end = p, r
            else:
                start, end = (r, p + 1) if p < a else (b, p + 1)
            self._require_fold(f"*(F+{i}).agg", agg, vals[start - f : end - f])
        self._check_values(vals, values)

    def _check_structure(self) -> None:
        check_sizes(*self._state)
        self._check_chunks()


def check_sizes(f: int, e: int, l: int, r: int, a: int, b: int) -> None:
    """Raise InvariantError unless DABA's pointers are in order and its size invariants hold."""
    pointers = f"F={f}, L={l}, R={r}, A={a}, B={b}, E={e}"
    require(f <= l <= r <= a <= b <= e, f"pointers out of order: {pointers}")
    if f != e:
        sizes = (r - l) + (a - r) + (b - a) + 1 == (b - f) - (e - b) and r - l == a - r
        require(sizes, f"the size invariants do not hold: {pointers}")
