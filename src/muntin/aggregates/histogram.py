"""How many values lie between given edges, exactly for numbers of any type."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from muntin.aggregates.aggregate import Aggregate, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.numbers import rational

Counts = tuple[int, ...]


def Histogram(
    column: str | None = None, edges: Sequence[Any] = (), *, where: Where = None
) -> Aggregate:
    """Count the values between neighbouring edges into a list: the left edge belongs to a bin.

    The last bin has its right edge too, as in NumPy's histogram. Values outside of all bins, and NaN,
    are not counted. Cost: O(bins) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Histogram(edges=[0, 10, 20]))
    >>> window.bulk_insert([3, 10, 12, 20, 25])
    >>> window.query()
    [1, 3]
    """
    held = _increasing(edges)
    bins = len(held) - 1
    nothing = (0,) * bins
    ones = [(*nothing[:i], 1, *nothing[i + 1 :]) for i in range(bins)]

    def lift(value: Any) -> Counts:
        number = rational("histogram", value)
        if not held[0] <= number <= held[-1]:
            return nothing
        return ones[min(bisect_right(held, number), bins) - 1]

    return built_in(
        f"histogram({bins} bins)",
        "counts",
        parameters={"edges": tuple(edges)},
        identity=nothing,
        lift=lift,
        combine=_plus,
        lower=list,
        inverse=_minus,
        commutative=True,
        columns=named(column),
        where=where,
        gather=_gathered(held, nothing),
    )


def _increasing(edges: Any) -> list[Any]:
    """Return edges as numbers that compare exactly, or refuse them."""
    if not isinstance(edges, list | tuple) or len(edges) < 2:
        raise TypeError(f"histogram: edges must be a list of two or more numbers, got {edges!r}")
    held = [rational("histogram", edge) for edge in edges]
    for i in range(len(held) - 1):
        if not held[i] < held[i + 1]:
            raise ValueError(
                f"histogram: each edge must be larger than the one before, got {edges[i + 1]!r} "
                f"after {edges[i]!r}"
            )
    return held


def _plus(a: Counts, b: Counts) -> Counts:
    return tuple([x + y for x, y in zip(a, b, strict=True)])


def _minus(total: Counts, part: Counts) -> Counts:
    return tuple([x - y for x, y in zip(total, part, strict=True)])


def _gathered(held: list[Any], nothing: Counts) -> Callable[[list[Any]], Counts]:
    """Return how many values are counted at once."""
    bins = len(nothing)

    def gather(values: list[Any]) -> Counts:
        counts = [*nothing]
        for value in values:
            number = rational("histogram", value)
            if held[0] <= number <= held[-1]:
                counts[min(bisect_right(held, number), bins) - 1] += 1
        return tuple(counts)

    return gather
