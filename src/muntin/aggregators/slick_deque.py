"""SlickDeque: keep only the values that can still become the answer.

Shein, Chrysanthis and Labrinidis (EDBT 2018), as the KDD 2021 paper compares with it. For a selective
combine a value is dropped as soon as a younger one wins against it: the deque's head is the answer.
For an invertible one it is a running total, as Subtract-on-Evict.
Invariant: in the deque every element wins against all that follow it.
Selective: insert fewer than 2 amortised, at worst n; evict 0; query 0 combines; at most n partials.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Card, Partial, empty_window, require
from muntin.aggregators.subtract_on_evict import SubtractOnEvict


class SlickDeque(SubtractOnEvict):
    """A monotone deque for selective aggregates, a running total for invertible ones.

    Runtime: amortised O(1); selective insert worst O(n).

    >>> from muntin import SlickDeque, Max
    >>> window = SlickDeque(Max())
    >>> window.bulk_insert([3, 1, 2])
    >>> window.evict()
    >>> window.query()
    2
    """

    __slots__ = ("_deque", "_e", "_f", "_selective")

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="selective or inverse",
        time="amortised O(1): fewer than 2; worst n",
        space="at most n",
        paper="EDBT 2018; KDD 2021, section 3",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._selective = aggregate.selective
        self._f = self._e = 0
        self._deque: deque[tuple[int, Partial]] = deque()

    @classmethod
    def missing(cls, aggregate: Aggregate) -> str:
        if aggregate.selective or aggregate.invertible:
            return ""
        return "it is neither selective nor has it an inverse"

    def __len__(self) -> int:
        return self._e - self._f if self._selective else super().__len__()

    def insert(self, value: Any) -> None:
        if not self._selective:
            return super().insert(value)
        v, kept, combine = self._lift(value), self._deque, self._combine
        while kept:
            older = kept[-1][1]
            winner = combine(older, v)
            if winner is older or (winner is not v and winner != v):
                break
            kept.pop()
        kept.append((self._e, v))
        self._e += 1
        return None

    def evict(self) -> None:
        if not self._selective:
            return super().evict()
        if not len(self):
            raise empty_window()
        if self._deque[0][0] == self._f:
            self._deque.popleft()
        self._f += 1
        return None

    def query(self) -> Any:
        if not self._selective:
            return super().query()
        return self._lower(self._deque[0][1] if self._deque else self._identity)

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        if not self._selective:
            return super()._save(encode)
        kept = [(position - self._f, encode(v)) for position, v in self._deque]
        return {"n": len(self), "deque": kept}

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        if not self._selective:
            return super()._load(state, decode)
        self._f, self._e = 0, state["n"]
        self._deque = deque((position, decode(v)) for position, v in state["deque"])
        return None

    def check(self, values: Sequence[Any] | None = None) -> None:
        if not self._selective:
            return super().check(values)
        kept = list(self._deque)
        positions = [position for position, _ in kept]
        require(positions == sorted(set(positions)), f"positions out of order: {positions}")
        require(bool(kept) == bool(len(self)), "the youngest value is always kept")
        if kept:
            require(self._f <= positions[0], f"position {positions[0]} was evicted")
            require(positions[-1] == self._e - 1, "the youngest value is always kept")
        for i, (position, v) in enumerate(kept):
            self._require_fold(f"the element at {position}", v, [later for _, later in kept[i:]])
            if values is not None:
                start = positions[i - 1] + 1 if i else self._f
                self._require_fold(
                    f"the element at {position}", v, self._lifted(values)[start - self._f :]
                )
        return None
