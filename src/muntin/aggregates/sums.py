"""Sum-like aggregates: commutative, with an inverse.

A partial counts its values beside their sum, so that a window without values has no sum (null, as in
Spark) rather than zero, also after values were taken out again by the inverse. The inverse declines a
total that is NaN or infinite: what such a value has swallowed cannot be recovered by subtraction.

Compiled sums of whole numbers are kept in two limbs, high * 2**32 + low with 0 <= low < 2**32, so that
no sum of fewer than 2**31 numbers of 64 bits wraps, and a result that does not fit is known.
"""

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, as_is, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.numbers import addend, mean, minus, plus, total

LARGEST_LOG = 709.782712893384  # of the largest float
LIMB = 2**32
LOW_BITS = 2**32 - 1
HALF_LIMB = 2**31
EXACT_IN_FLOAT = 2**53

Counted = tuple[int, Any, Any]
Limbs = tuple[int, int]
Logs = tuple[int, int, int, float]


def Count(column: str | None = None, *, where: Where = None) -> Aggregate:
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
        counts_rows=column is None,
        columns=named(column),
        where=where,
        kernel=Kernel(_one, _plus, _number_of_values, inverse=_minus),
    )


def Sum(column: str | None = None, *, overflow: str = "error", where: Where = None) -> Aggregate:
    """Add up the values; null if there are none.

    Whole numbers and decimals are exact. In arrays and tables a sum of whole numbers has 64 bits, and
    one of decimals ten digits more than its column: a sum that does not fit is an OverflowError, or
    null with overflow="null". Algorithms that use the inverse keep the rounding errors of floats that
    have left; the others do not. Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Sum())
    >>> window.bulk_insert([1, 2, 3])
    >>> window.query()
    6
    """
    whole = Kernel(
        as_is, _add_limbs, sum_of_limbs, inverse=_subtract_limbs, halves=True, overflows=True
    )
    kernel = Kernel(
        as_is,
        _plus,
        _as_it_is,
        inverse=_minus,
        signed=replace(whole, narrow=Kernel(as_is, _plus, _as_it_is)),
        unsigned=replace(whole, lower=unsigned_sum_of_limbs),
        times=replace(whole, lower=_sum_of_ticks),
    )
    return _sum_like("sum", _counted, _total, column, kernel, where, overflow=overflow)


def Mean(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Average the values; null if there are none.

    The mean of whole numbers is within one unit in the last place, that of moments and durations is
    rounded to their unit. Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Mean())
    >>> window.bulk_insert([1, 2, 6])
    >>> window.query()
    3.0
    """
    whole = Kernel(as_is, _add_limbs, _mean_of_limbs, inverse=_subtract_limbs, halves=True)
    kernel = Kernel(
        as_is,
        _plus,
        _over_n,
        inverse=_minus,
        signed=replace(whole, narrow=Kernel(as_is, _plus, _whole_over_n)),
        unsigned=whole,
        times=replace(whole, lower=_nearest_mean, overflows=True),
    )
    return _sum_like("mean", _counted_moment, _mean, column, kernel, where)


def GeoMean(column: str | None = None, *, where: Where = None) -> Aggregate:
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
        where=where,
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


def _whole_over_n(total: int, n: int) -> float:
    """Return the mean; of a sum that a float cannot hold, part by part."""
    if -EXACT_IN_FLOAT <= total <= EXACT_IN_FLOAT:
        return total / n
    quotient = total // n
    return quotient + (total - quotient * n) / n


def _sum_like(
    name: str,
    lift: Any,
    lower: Any,
    column: str | None,
    kernel: Kernel,
    where: Where,
    **facts: Any,
) -> Aggregate:
    return built_in(
        name,
        name,
        identity=(0, 0, None),
        lift=lift,
        combine=_add,
        lower=lower,
        inverse=_subtract,
        commutative=True,
        columns=named(column),
        where=where,
        kernel=kernel,
        **facts,
    )


def _counted(value: Any) -> Counted:
    kind = type(value)
    if kind is int or kind is float:
        return (1, value, None)
    return (1, *addend("sum", value))


def _counted_moment(value: Any) -> Counted:
    return (1, *addend("mean", value))


def _add(a: Counted, b: Counted) -> Counted:
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    x, y = a[1], b[1]
    if x.__class__ is y.__class__ and x.__class__ is not Decimal:
        return (a[0] + b[0], x + y, a[2])
    return (a[0] + b[0], plus(x, y), a[2])


def _subtract(a: Counted, b: Counted) -> Counted:
    if b[0] == 0:
        return a
    if a[0] == b[0]:
        return (0, 0, None)
    rest = minus(a[1], b[1])
    return NotImplemented if _swallowed(rest) else (a[0] - b[0], rest, a[2])


def _swallowed(total: Any) -> bool:
    """Whether the total is NaN or infinite: of all numbers only these differ from themselves here."""
    difference = minus(total, total)
    return bool(difference != difference)


def _total(partial: Counted) -> Any:
    return total(partial[1], partial[2]) if partial[0] else None


def _mean(partial: Counted) -> Any:
    return mean(partial[1], partial[2], partial[0]) if partial[0] else None


def _add_limbs(a: Limbs, b: Limbs) -> Limbs:
    low = a[1] + b[1]
    return (a[0] + b[0] + (low >> 32), low & LOW_BITS)


def _subtract_limbs(a: Limbs, b: Limbs) -> Limbs:
    low = a[1] - b[1]
    return (a[0] - b[0] + (low >> 32), low & LOW_BITS)


def sum_of_limbs(total: Limbs, _n: int) -> tuple[int, bool]:
    """Return the bits of a number with a sign, and whether it has more than 64."""
    return (total[0] << 32) | total[1], not -HALF_LIMB <= total[0] < HALF_LIMB


def unsigned_sum_of_limbs(total: Limbs, _n: int) -> tuple[int, bool]:
    """Return the bits of an unsigned number, and whether it has more than 64."""
    return (total[0] << 32) | total[1], not 0 <= total[0] < LIMB


def _sum_of_ticks(total: Limbs, _n: int) -> tuple[int, bool]:
    """As sum_of_limbs; the least number of 64 bits means that there is no time."""
    least = total[0] == -HALF_LIMB and total[1] == 0
    return (total[0] << 32) | total[1], least or not -HALF_LIMB <= total[0] < HALF_LIMB


def _mean_of_limbs(total: Limbs, n: int) -> float:
    high, low = total
    if high >= 0:
        return _quotient(high, low, n)
    return -_quotient(-high - 1, LIMB - low, n)


def _quotient(high: int, low: int, n: int) -> float:
    """Return (high * 2**32 + low) / n for parts that are not negative, so that nothing cancels."""
    if n >= HALF_LIMB:
        return (high * 4294967296.0 + low) / n
    quotient = high // n
    rest = (high - quotient * n) * LIMB + low
    units = rest // n
    return quotient * 4294967296.0 + (units + (rest - units * n) / n)


def _nearest_mean(total: Limbs, n: int) -> tuple[int, bool]:
    """Return the whole number nearest to the mean, the even one of two."""
    if n >= HALF_LIMB:
        return 0, True
    quotient = total[0] // n
    rest = (total[0] - quotient * n) * LIMB + total[1]
    units = rest // n
    twice = 2 * (rest - units * n)
    nearest = quotient * LIMB + units
    if twice > n or (twice == n and nearest & 1):
        return nearest + 1, False
    return nearest, False


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
    return math.exp(min(logs / n, LARGEST_LOG)) if logs < math.inf else math.inf
