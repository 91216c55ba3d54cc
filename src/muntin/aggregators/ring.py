"""A growable ring of partials under pointers that only move to the right.

Position p lives in slot p & mask. The counters never wrap in Python, and slots are a power of two, so
that the same step functions run interpreted on a list and compiled on arrays. Growing copies the
slots and combines nothing; slots that were evicted are cleared.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Aggregator, Partial
from muntin.journal import Journal

Slots = list[Any]


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
    """An aggregator whose deque is a ring; `_state` is a tuple of pointers and running partials.

    By convention the state begins with F, the oldest position, and E, the one after the youngest.
    """

    __slots__ = ("_mask", "_slots", "_state")

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._slots: Slots = [None] * 8
        self._mask = 7
        self._state: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return int(self._state[1] - self._state[0])

    def note(self, journal: Journal, pointers: int, inserts: int, evicts: int) -> None:
        """Note what some insertions and evictions of a Lite algorithm may overwrite.

        Its state begins with that many pointers. Runtime: O(insertions + evictions).
        """
        positions = chain.from_iterable(written(self._state[:pointers], inserts, evicts))
        held = {p & self._mask: self._slots[p & self._mask] for p in positions}
        journal.call(self._put_back, self._slots, self._mask, self._state, held)

    def _put_back(self, slots: Slots, mask: int, state: Any, held: dict[int, Partial]) -> None:
        self._slots, self._mask, self._state = slots, mask, state
        for i, partial in held.items():
            slots[i] = partial

    def _grow(self) -> None:
        f, e = self._state[:2]
        self._place([self._slots[p & self._mask] for p in range(f, e)], f, 2 * len(self._slots))

    def _place(self, partials: Sequence[Partial], f: int, size: int) -> None:
        self._mask = size - 1
        self._slots = [None] * size
        for p, partial in enumerate(partials, start=f):
            self._slots[p & self._mask] = partial

    def _between(self, start: int, end: int) -> list[Partial]:
        """Return what the positions hold, oldest first."""
        return [self._slots[p & self._mask] for p in range(start, end)]

    def _save_ring(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        f, e = self._state[:2]
        return {"deque": [encode(partial) for partial in self._between(f, e)]}

    def _load_ring(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> int:
        """Place the saved partials from position 0 on and return how many there are."""
        partials = [decode(partial) for partial in state["deque"]]
        self._place(partials, 0, max(8, 1 << len(partials).bit_length()))
        return len(partials)
