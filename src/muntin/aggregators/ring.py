"""A queue of partials under pointers that only move to the right.

Position p lies in slots[p >> BITS & mask][p & LOW], a slot of a chunk in a table of them (`chunks.py`).
The same step functions run interpreted on chunks and compiled on arrays, where position p is in slot
p & mask. No slot is copied; what is evicted is cleared, and a chunk is freed when all of it was.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Aggregator, Partial
from muntin.aggregators.chunks import BITS, LOW, Chunks, Saved
from muntin.journal import Journal


def written(pointers: Sequence[int], inserts: int, evicts: int) -> list[range]:
    """Return the positions that insertions and evictions of a Lite algorithm may write.

    `pointers` are F, E, B of Two-Stacks Lite, or F, E, L, R, A, B of DABA Lite. A flip of the former
    writes the whole front. DABA Lite takes a step of the reversal with each insertion and eviction: it
    writes at L, which moves up, and below A, which moves down; a flip moves L to F and A to E.
    """
    steps = inserts + evicts
    f, e, *others, b = pointers
    if not others:
        return [range(f, e + inserts if evicts > b - f else f + evicts), range(e, e + inserts)]
    l, _, a = others
    near = [range(l, l + steps), range(a - steps, a)]
    if l + steps < b and f + evicts < b:  # neither a flip, nor a single element
        return [*near, range(f, f + evicts), range(e, e + inserts)]
    return [*near, range(f, f + evicts + steps), range(e - steps, e + inserts + steps)]


class RingAggregator(Aggregator):
    """An aggregator whose deque is made of chunks; `_state` is a tuple of pointers and running partials.

    By convention the state begins with F, the oldest position, and E, the one after the youngest.
    """

    __slots__ = ("_chunks", "_state")

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._chunks = Chunks()
        self._state: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return int(self._state[1] - self._state[0])

    def _empty_state(self) -> tuple[Any, ...]:
        """Return the state of an empty window."""
        raise NotImplementedError

    def _clear(self) -> None:
        self._chunks, self._state = Chunks(), self._empty_state()

    def note(self, journal: Journal, pointers: int, inserts: int, evicts: int) -> None:
        """Note what some insertions and evictions of a Lite algorithm may overwrite.

        Its state begins with that many pointers. Runtime: O(insertions + evictions).
        """
        f, e = self._state[:2]
        positions = chain.from_iterable(written(self._state[:pointers], inserts, evicts))
        held = {p: self._slot(p) for p in positions if f <= p < e}
        freed = range(f >> BITS, min(f + evicts >> BITS, self._chunks.end))
        journal.call(self._put_back, self._chunks, self._chunks.save(freed), self._state, held)

    def _put_back(self, chunks: Chunks, saved: Saved, state: Any, held: dict[int, Partial]) -> None:
        chunks.put_back(saved)
        self._chunks, self._state = chunks, state
        self._write(held)

    def _write(self, held: dict[int, Partial]) -> None:
        """Write partials to their positions."""
        table, mask = self._chunks.table, self._chunks.mask
        for p, partial in held.items():
            table[p >> BITS & mask][p & LOW] = partial

    def _slot(self, p: int) -> Any:
        return self._chunks.table[p >> BITS & self._chunks.mask][p & LOW]

    def _between(self, start: int, end: int) -> list[Partial]:
        """Return what the positions hold, oldest first."""
        table, mask, held = self._chunks.table, self._chunks.mask, []
        while start < end:
            last = min(end - 1, start | LOW)
            held += table[start >> BITS & mask][start & LOW : (last & LOW) + 1]
            start = last + 1
        return held

    def _check_chunks(self) -> None:
        self._chunks.check(*self._state[:2])

    def _save_ring(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        f, e = self._state[:2]
        return {"deque": [encode(partial) for partial in self._between(f, e)]}

    def _load_ring(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> int:
        """Place the saved partials from position 0 on and return how many there are."""
        partials = dict(enumerate(map(decode, state["deque"])))
        for p in range(0, len(partials), LOW + 1):
            self._chunks.open(p >> BITS)
        self._write(partials)
        return len(partials)
