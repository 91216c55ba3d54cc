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
from muntin.aggregators.aggregator import Aggregator, Card, Partial, empty_window, require
from muntin.aggregators.subtract_on_evict import SubtractOnEvict


class MonotoneDeque(Aggregator):
    """The selective variant: positions and values, every one a winner against all that follow."""

    __slots__ = ("_deque", "_e", "_f")

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._f = self._e = 0
        self._deque: deque[tuple[int, Partial]] = deque()

    def __len__(self) -> int:
        return self._e - self._f

    def insert(self, value: Any) -> None:
        v, kept = self._lift(value), self._deque
        beaten = 0
        while beaten < len(kept):
            older = kept[-1 - beaten][1]
            winner = self._combine(older, v)
            if winner is older or (winner is not v and winner != v):
                break
            beaten += 1
        for _ in range(beaten):
            kept.pop()
        kept.append((self._e, v))
        self._e += 1

    def evict(self) -> None:
        if self._f == self._e:
            raise empty_window()
        if self._deque[0][0] == self._f:
            self._deque.popleft()
        self._f += 1

    def query(self) -> Any:
        return self._lower(self._deque[0][1] if self._deque else self._identity)

    def _clear(self) -> None:
        self._f, self._deque = self._e, deque()

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        kept = [(position - self._f, encode(v)) for position, v in self._deque]
        return {"n": len(self), "deque": kept}

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        self._f, self._e = 0, state["n"]
        self._deque = deque((position, decode(v)) for position, v in state["deque"])

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._check_structure()
        kept = list(self._deque)
        lifted = None if values is None else self._lifted(values)
        start = self._f
        for i, (position, v) in enumerate(kept):
            self._require_fold(f"the element at {position}", v, [later for _, later in kept[i:]])
            if lifted is not None:
                self._require_fold(f"the element at {position}", v, lifted[start - self._f :])
            start = position + 1

    def _check_structure(self) -> None:
        positions = [position for position, _ in self._deque]
        require(positions == sorted(set(positions)), f"positions out of order: {positions}")
        require(bool(positions) == (self._f < self._e), "the youngest value is always kept")
        if positions:
            require(self._f <= positions[0], f"position {positions[0]} was evicted")
            require(positions[-1] == self._e - 1, "the youngest value is always kept")


class SlickDeque(Aggregator):
    """A monotone deque for selective aggregates, a running total for invertible ones.

    Runtime: amortised O(1); selective insert worst O(n).

    >>> from muntin import SlickDeque, Max
    >>> window = SlickDeque(Max())
    >>> window.bulk_insert([3, 1, 2])
    >>> window.evict()
    >>> window.query()
    2
    """

    __slots__ = ("_variant",)

    card: ClassVar[Card] = Card(
        ordering="in order",
        needs="selective or inverse",
        time="amortised O(1): fewer than 2; worst n",
        space="at most n + 1",
        paper="EDBT 2018; KDD 2021, section 3",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        variant = MonotoneDeque if aggregate.selective else SubtractOnEvict
        self._variant: MonotoneDeque | SubtractOnEvict = variant(aggregate)

    @classmethod
    def missing(cls, aggregate: Aggregate) -> str:
        if aggregate.selective or aggregate.invertible:
            return ""
        return "it is neither selective nor has it an inverse"

    def __len__(self) -> int:
        return len(self._variant)

    def insert(self, value: Any) -> None:
        self._variant.insert(value)

    def evict(self) -> None:
        self._variant.evict()

    def query(self) -> Any:
        return self._variant.query()

    def _clear(self) -> None:
        self._variant._clear()

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        return self._variant._save(encode)

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        self._variant._load(state, decode)

    def check(self, values: Sequence[Any] | None = None) -> None:
        self._variant.check(values)

    def _check_structure(self) -> None:
        self._variant._check_structure()
