"""Median and quantiles, exactly, from sorted run-length-encoded partials (EDBT 2019, section 5.4.1).

A partial is (different values in order, how often each occurs, how many NaN). NaN is kept apart
because it has no place in Python's order; it ranks above every number. As a multiset a partial has an
exact inverse.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any

from muntin.aggregates.aggregate import Aggregate, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.multisets import RankedValues
from muntin.aggregates.numbers import as_python, between
from muntin.aggregates.parameters import exact_share

Runs = tuple[tuple[Any, ...], tuple[int, ...], int]
NO_RUNS: Runs = ((), (), 0)
At = Callable[[int], Any]
"""The value of a rank, counted from 1."""
Statistic = Callable[[int, At], Any]
"""What is asked of a number of values."""


def Median(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the middle value, or the mean of the middle two.

    Cost: O(different values) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Median())
    >>> window.bulk_insert([9, 1, 2, 4])
    >>> window.query()
    3.0
    """
    return _ranked("median", "mean", _median, column, (Fraction(1, 2), True), where)


def Quantile(
    column: str | None = None,
    q: float = 0.5,
    *,
    interpolation: str = "nearest_rank",
    where: Where = None,
) -> Aggregate:
    """Take the q-quantile: the value of rank ceil(q n), or with "linear" between the nearest two.

    "linear" is what Spark's percentile and NumPy's quantile do. Cost: O(different values) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Quantile(q=0.9))
    >>> window.bulk_insert(range(1, 11))
    >>> window.query()
    9
    """
    share = exact_share("quantile", q)
    linear = _is_linear("quantile", interpolation)
    statistic = _linear(share) if linear else _nearest_rank(share)
    return _ranked(
        f"quantile({q}, {interpolation})",
        "mean" if linear else "value",
        statistic,
        column,
        (share, linear),
        where,
        {"q": q, "interpolation": interpolation},
    )


def Quantiles(
    column: str | None = None,
    q: Sequence[float] = (),
    *,
    interpolation: str = "nearest_rank",
    where: Where = None,
) -> Aggregate:
    """Take several quantiles, as Quantile takes one, into a list in the order of `q`.

    Cost: O(different values) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Quantiles(q=[0.1, 0.9]))
    >>> window.bulk_insert(range(1, 11))
    >>> window.query()
    [1, 9]
    """
    if not isinstance(q, list | tuple) or not q:
        raise TypeError(f"quantiles: q must be a list of numbers between 0 and 1, got {q!r}")
    shares = [exact_share("quantiles", one) for one in q]
    linear = _is_linear("quantiles", interpolation)
    asked = [_linear(share) if linear else _nearest_rank(share) for share in shares]

    def statistic(n: int, at: At) -> Any:
        return [one(n, at) for one in asked] if n else None

    return _ranked(
        f"quantiles({list(q)}, {interpolation})",
        "means" if linear else "values",
        statistic,
        column,
        None,
        where,
        {"q": tuple(q), "interpolation": interpolation},
    )


def _is_linear(name: str, interpolation: str) -> bool:
    if interpolation not in ("nearest_rank", "linear"):
        raise ValueError(
            f'{name}: interpolation must be "nearest_rank" or "linear", got {interpolation!r}'
        )
    return interpolation == "linear"


def _ranked(
    name: str,
    result: str,
    statistic: Statistic,
    column: str | None,
    rank: tuple[Fraction, bool] | None,
    where: Where,
    parameters: dict[str, Any] | None = None,
) -> Aggregate:
    return built_in(
        name,
        result,
        parameters=parameters or {},
        identity=NO_RUNS,
        lift=run_of,
        combine=merged,
        lower=_of_runs(statistic),
        inverse=removed,
        commutative=True,
        holistic=True,
        columns=named(column),
        where=where,
        rank=rank,
        gather=runs_of,
        multiset=partial(RankedValues, statistic),
    )


def run_of(value: Any) -> Runs:
    """Return one value as runs."""
    value = as_python(value)
    return ((value,), (1,), 0) if value == value else ((), (), 1)


def runs_of(values: list[Any]) -> Runs:
    """Return values as runs."""
    numbers = [value for value in values if value == value]
    counts = Counter(numbers)
    ordered = sorted(counts)
    return (tuple(ordered), tuple([counts[v] for v in ordered]), len(values) - len(numbers))


def merged(a: Runs, b: Runs) -> Runs:
    """Return the runs of all values."""
    return _multiset(a, b, 1)


def removed(total: Runs, part: Runs) -> Runs:
    """Return the runs without those of a part."""
    return _multiset(total, part, -1)


def _multiset(a: Runs, b: Runs, sign: int) -> Runs:
    counts = dict(zip(a[0], a[1], strict=True))
    for value, count in zip(b[0], b[1], strict=True):
        counts[value] = counts.get(value, 0) + sign * count
        if counts[value] == 0:
            del counts[value]
    values = sorted(counts)  # two sorted runs, which timsort merges in linear time
    return (tuple(values), tuple([counts[value] for value in values]), a[2] + sign * b[2])


def _size(partial: Runs) -> int:
    return sum(partial[1]) + partial[2]


def _at_rank(partial: Runs, rank: int) -> Any:
    """Return the value of the given rank, counted from 1."""
    values, counts, _ = partial
    run = bisect_left(list(accumulate(counts)), rank)
    return values[run] if run < len(values) else math.nan


def _median(n: int, at: At) -> Any:
    if n == 0:
        return None
    if n % 2:
        return at(n // 2 + 1)
    return between("median", at(n // 2), at(n // 2 + 1), Fraction(1, 2))


def _nearest_rank(share: Fraction) -> Statistic:
    def statistic(n: int, at: At) -> Any:
        return at(max(1, math.ceil(share * n))) if n else None

    return statistic


def _linear(share: Fraction) -> Statistic:
    def statistic(n: int, at: At) -> Any:
        if n == 0:
            return None
        position = share * (n - 1)
        below = math.floor(position)
        low = at(below + 1)
        if position == below:
            return low
        return between("quantile", low, at(below + 2), position - below)

    return statistic


def _of_runs(statistic: Statistic) -> Callable[[Runs], Any]:
    """Return the statistic as a function of a partial."""

    def lower(partial: Runs) -> Any:
        return statistic(_size(partial), lambda rank: _at_rank(partial, rank))

    return lower
