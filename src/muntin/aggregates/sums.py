"""Sum-like aggregates: commutative, with an inverse.

A partial counts its values beside their sum, so that a window without values has no sum (null, as in
Spark) rather than zero, also after values were taken out again by the inverse. The inverse declines a
total that is NaN or infinite: what such a value has swallowed cannot be recovered by subtraction.
"""

import math
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, as_is, built_in, named

LARGEST_LOG = 709.78

Counted = tuple[int, Any]
Logs = tuple[int, int, int, float]


def Count(column: str | None = None) -> Aggregate:
    """Count the rows, or with a column the values that are not null.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Count())
    >>> window.bulk_insert([7, None, 9])
    >>> window.query()
    3
    """
    return built_in(
        "count",
        "count",
        identity=0,
        lift=_one,
        combine=_plus,
        inverse=_minus,
        commutative=True,
        nulls=column is None,
        columns=named(column),
        kernel=Kernel(_one, _plus, _number_of_values, inverse=_minus),
    )


def Sum(column: str | None = None) -> Aggregate:
    """Add up the values; null if there are none.

    Cost: O(1) per combine. Integers and decimals are exact. Algorithms that use the inverse keep the
    rounding errors of floats that have left; the others do not.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Sum())
    >>> window.bulk_insert([1, 2, 3])
    >>> window.query()
    6
    """
    return _sum_like("sum", _total, column, Kernel(as_is, _plus, _as_it_is, inverse=_minus))


def Mean(column: str | None = None) -> Aggregate:
    """Average the values; null if there are none.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Mean())
    >>> window.bulk_insert([1, 2, 6])
    >>> window.query()
    3.0
    """
    return _sum_like("mean", _mean, column, Kernel(as_is, _plus, _over_n, inverse=_minus))


def GeoMean(column: str | None = None) -> Aggregate:
    """Take the geometric mean, by logarithms, so that no product overflows.

    Zero among the values makes it 0, a negative value makes it NaN, no values make it null.
    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(GeoMean())
    >>> window.bulk_insert([1e300, 1e-300, 8.0])
    >>> round(window.query(), 9)
    2.0
    """
    return built_in(
        "geo_mean",
        "float",
        identity=(0, 0, 0, 0.0),
        lift=_logs,
        combine=_add_logs,
        lower=_geo_mean,
        inverse=_subtract_logs,
        commutative=True,
        columns=named(column),
        kernel=Kernel(_logs, _add_logs, _geo_mean_of_values),
    )


def _one(_value: Any) -> int:
    return 1


def _plus(a: Any, b: Any) -> Any:
    return a + b


def _minus(a: Any, b: Any) -> Any:
    return a - b


def _number_of_values(_total: Any, n: int) -> int:
    return n


def _as_it_is(total: Any, _n: int) -> Any:
    return total


def _over_n(total: Any, n: int) -> Any:
    return total / n


def _sum_like(name: str, lower: Any, column: str | None, kernel: Kernel) -> Aggregate:
    return built_in(
        name,
        name,
        identity=(0, 0),
        lift=_counted,
        combine=_add,
        lower=lower,
        inverse=_subtract,
        commutative=True,
        columns=named(column),
        kernel=kernel,
    )


def _counted(value: Any) -> Counted:
    return (1, value)


def _add(a: Counted, b: Counted) -> Counted:
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    return (a[0] + b[0], a[1] + b[1])


def _subtract(a: Counted, b: Counted) -> Counted:
    if b[0] == 0:
        return a
    if a[0] == b[0]:
        return (0, 0)
    rest = a[1] - b[1]
    return NotImplemented if _swallowed(rest) else (a[0] - b[0], rest)


def _swallowed(total: Any) -> bool:
    """Whether the total is NaN or infinite: of all numbers only these differ from themselves here."""
    difference = total - total
    return bool(difference != difference)


def _total(partial: Counted) -> Any:
    return partial[1] if partial[0] else None


def _mean(partial: Counted) -> Any:
    return partial[1] / partial[0] if partial[0] else None


def _logs(value: float) -> Logs:
    if value == 0:
        return (1, 1, 0, 0.0)
    if value < 0:
        return (1, 0, 1, 0.0)
    return (1, 0, 0, math.log(value))


def _add_logs(a: Logs, b: Logs) -> Logs:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3])


def _subtract_logs(a: Logs, b: Logs) -> Logs:
    rest = a[3] - b[3]
    return NotImplemented if _swallowed(rest) else (a[0] - b[0], a[1] - b[1], a[2] - b[2], rest)


def _geo_mean(partial: Logs) -> float | None:
    return _geo_mean_of_values(partial, partial[0]) if partial[0] else None


def _geo_mean_of_values(partial: Logs, n: int) -> float:
    _, zeros, negatives, logs = partial
    if negatives or logs != logs:
        return math.nan
    if zeros:
        return 0.0
    return math.exp(logs / n) if logs / n < LARGEST_LOG else math.inf
