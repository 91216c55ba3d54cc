"""What every final-aggregation algorithm has in common.

A sliding-window aggregator (SWAG) is a queue that knows the ordered product of its content. insert
adds at the young end, evict removes the oldest, query lowers the product of all. An algorithm is one
subclass in one file; it says on its card what it asks and what it costs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import index
from typing import Any, ClassVar, Self

from muntin.aggregates import Aggregate, SnapshotError, same_partial, seal, unseal
from muntin.aggregates.encoding import DAMAGE
from muntin.aggregates.identity import identity_of, refuse_other

Partial = Any
Combine = Callable[[Partial, Partial], Partial]


@dataclass(frozen=True, slots=True)
class Card:
    """An algorithm at a glance; costs are counted combines, n is the window's length."""

    ordering: str
    needs: str
    time: str
    space: str
    paper: str


class InvariantError(AssertionError):
    """A structure is not what its paper says it must be: a defect of muntin, or altered state."""


class Aggregator:
    """A window of lifted values whose aggregate is kept up to date."""

    __slots__ = ("_combine", "_identity", "_lift", "_lower", "aggregate")

    card: ClassVar[Card]

    def __init__(self, aggregate: Aggregate) -> None:
        if not isinstance(aggregate, Aggregate):
            raise TypeError(
                f"{type(self).__name__} needs an aggregate such as Max(), got {aggregate!r}"
            )
        missing = self.missing(aggregate)
        if missing:
            raise TypeError(
                f"{type(self).__name__} cannot serve {aggregate.name!r}: {missing}. "
                f"These would: {', '.join(serving(aggregate))}"
            )
        self.aggregate = aggregate
        self._lift: Callable[[Any], Partial] = aggregate.input_lift()
        self._combine = aggregate.combine
        self._lower = aggregate.lower
        self._identity = aggregate.identity

    @classmethod
    def missing(cls, aggregate: Aggregate) -> str:  # noqa: ARG003
        """Say which property the aggregate lacks for this algorithm; nothing if it can be served."""
        return ""

    def __len__(self) -> int:
        raise NotImplementedError

    def insert(self, value: Any) -> None:
        """Add a value at the young end."""
        raise NotImplementedError

    def evict(self) -> None:
        """Remove the oldest value; IndexError if there is none."""
        raise NotImplementedError

    def query(self) -> Any:
        """Return the aggregate of the whole window, lower(identity) if it is empty."""
        raise NotImplementedError

    def bulk_insert(self, values: Iterable[Any]) -> None:
        """Insert several values, the oldest first."""
        for value in values:
            self.insert(value)

    def bulk_evict(self, n: int) -> None:
        """Remove the n oldest values; IndexError, and nothing removed, if there are fewer.

        Removing all of them combines nothing.
        """
        n = self._whole(n)
        if n == len(self):
            self._clear()
            return
        for _ in range(n):
            self.evict()

    def _clear(self) -> None:
        """Remove all values. Runtime: O(1), and what it takes to free them."""
        raise NotImplementedError

    def _whole(self, n: int) -> int:
        """Return how many values to evict, as an int that is neither negative nor too large."""
        n = index(n)
        if n < 0:
            raise ValueError(f"cannot evict {n} values; give a number of 0 or more")
        if n > len(self):
            raise IndexError(f"cannot evict {n} values from a window of {len(self)}")
        return n

    def snapshot(self) -> bytes:
        """Return the window as bytes, with a format version and a checksum."""
        aggregate = self.aggregate
        return seal([type(self).__name__, identity_of(aggregate), self._save(aggregate.to_plain)])

    @classmethod
    def restore(
        cls, snapshot: bytes, aggregate: Aggregate, *, trust_functions: bool = False
    ) -> Self:
        """Return the window that was saved; SnapshotError if the bytes are not such a window.

        With `trust_functions` your own functions are not compared with those the window was saved with.
        """
        if not isinstance(aggregate, Aggregate):
            raise TypeError(f"restore needs an aggregate such as Max(), got {aggregate!r}")
        match unseal(snapshot):
            case [str(algorithm), str() | dict() as known, dict(state)]:
                pass
            case _:
                raise SnapshotError("the snapshot does not hold an aggregator")
        if algorithm != cls.__name__:
            raise SnapshotError(f"the snapshot is of a {algorithm}, not of a {cls.__name__}")
        if isinstance(known, str):
            raise SnapshotError(
                f"the state is not that of a {algorithm} as it is written now: an older muntin "
                "wrote it, which knew its aggregate by name only"
            )
        if known.get("name") != aggregate.name:
            name = known.get("name")
            raise SnapshotError(f"the snapshot is of aggregate {name!r}, not {aggregate.name!r}")
        wanted = identity_of(aggregate)
        refuse_other(wanted, known, "aggregate", trust_functions=trust_functions)
        window = cls(aggregate)
        try:
            window._load(state, aggregate.from_plain)
            window._check_structure()
        except DAMAGE as error:
            raise SnapshotError(
                f"the snapshot's state is not that of a {algorithm}: {error!r}"
            ) from error
        return window

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        raise NotImplementedError

    def check(self, values: Sequence[Any] | None = None) -> None:
        """Raise InvariantError unless the paper's invariants hold.

        What the structure itself can tell is always verified; with the window's values (oldest first),
        every stored partial is compared with the fold of the values it stands for.
        """
        raise NotImplementedError

    def _check_structure(self) -> None:
        """Raise InvariantError unless pointers and sizes fit together; nothing is combined."""
        raise NotImplementedError

    def _check_values(self, stored: Iterable[Partial], values: Sequence[Any] | None) -> None:
        """Compare the partials of single values with the values that check was given."""
        if values is not None:
            for i, (partial, v) in enumerate(zip(stored, self._lifted(values), strict=True)):
                self._require_fold(f"value {i}", partial, [v])

    def _fold(self, partials: Sequence[Partial]) -> Partial:
        return reduce(self._combine, partials) if partials else self._identity

    def _lifted(self, values: Sequence[Any]) -> list[Partial]:
        """Lift the values that `check` was given; their number must be the window's length."""
        require(len(values) == len(self), f"the window holds {len(self)} values, not {len(values)}")
        return [self._lift(value) for value in values]

    def _require_fold(self, what: str, stored: Partial, partials: Sequence[Partial]) -> None:
        expected = self._fold(partials)
        require(
            same_partial(self.aggregate, stored, expected),
            f"{what} is {stored!r}, not {expected!r}",
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}({self.aggregate.name}) of {len(self)} values>"


def require(condition: bool, message: str) -> None:
    """Raise InvariantError with the message unless the condition holds."""
    if not condition:
        raise InvariantError(message)


def serving(aggregate: Aggregate) -> list[str]:
    """Return the names of the algorithms that can serve the aggregate."""
    from muntin.aggregators import ALGORITHMS

    return [name for name, algorithm in ALGORITHMS.items() if not algorithm.missing(aggregate)]


def empty_window() -> IndexError:
    """Return the error of an eviction from an empty window."""
    return IndexError("evict from an empty window")
