"""Skewness and kurtosis by pairwise updates of central moments (Pébay, SAND2008-6212).

A partial is (n, mean, rest of the mean, root, third, fourth). The mean is a sum of two floats. `root` is
the root of the sum of squared distances from the mean, and the sums of third and fourth powers are
divided by its third and fourth power. So they lie between -1 and 1 whatever the scale of the values is,
and no power overflows or vanishes.

Outside of compiled loops, whole numbers, decimals and fractions are summed exactly instead: their
partial is (n, sums of the first to fourth powers).
"""

import math
from fractions import Fraction
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.numbers import lost, rational, root
from muntin.aggregates.spread import FURTHEST, apart

Shape = tuple[float, float, float, float, float, float]
Sums = tuple[int, Any, Any, Any, Any]
Either = Shape | Sums


def Skew(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the skewness, corrected for bias as in pandas; null with fewer than 3 values.

    It is 0 if all values are equal. Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Skew())
    >>> window.bulk_insert([1, 2, 3, 10])
    >>> round(window.query(), 6)
    1.763633
    """
    return _shape("skew", 3, _skew, _skew_of_values, column, where)


def Kurt(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the excess kurtosis, corrected for bias as in pandas; null with fewer than 4 values.

    It is -3 if all values are equal, as in windows of pandas. Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Kurt())
    >>> window.bulk_insert([1, 2, 3, 10])
    >>> round(window.query(), 6)
    3.228
    """
    return _shape("kurt", 4, _kurt, _kurt_of_values, column, where)


def _shape(
    name: str, least: int, lower: Any, lower_values: Any, column: str | None, where: Where
) -> Aggregate:
    return built_in(
        name,
        "float",
        identity=(0, 0, 0, 0, 0),
        lift=_single,
        combine=_join,
        lower=lower,
        commutative=True,
        columns=named(column),
        where=where,
        kernel=Kernel(_single_number, _join_values, lower_values, doubled=True, least=least),
    )


def _single(value: Any) -> Either:
    x = rational("a moment", value)
    return _single_number((x, 0.0)) if isinstance(x, float) else (1, x, x * x, x**3, x**4)


def _single_number(value: tuple[float, float]) -> Shape:
    high, low = value
    mean = high + low
    return (1.0, mean, lost(high, low, mean), mean - mean, 0.0, 0.0)


def _as_floats(partial: Any) -> Shape:
    """Return a partial as _join_values has it, from exact sums if it has them."""
    if len(partial) == 6:
        return partial  # type: ignore[no-any-return]
    n, *sums = partial
    mean, second, third, fourth = (Fraction(power) / n for power in sums)
    fourth += mean * (-4 * third + mean * (6 * second - 3 * mean * mean))
    third += mean * (2 * mean * mean - 3 * second)
    second -= mean * mean
    high = float(mean)
    rest = float(mean - Fraction(high))
    if not second:
        return (float(n), high, rest, 0.0, 0.0, 0.0)
    of_third = math.copysign(root(third * third / second**3 / n), third)
    return (float(n), high, rest, root(second * n), of_third, float(fourth / second**2 / n))


def _join(a: Either, b: Either) -> Either:
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    if len(a) == 5 and len(b) == 5:
        return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4])
    joined: Shape = _join_values(_as_floats(a), _as_floats(b))
    return joined


def _join_values(a: Any, b: Any) -> Any:
    na, mean_a, rest_a, root_a, third_a, fourth_a = a
    nb, mean_b, rest_b, root_b, third_b, fourth_b = b
    n = na + nb
    share = nb / n
    delta = apart(mean_a, rest_a, mean_b, rest_b)
    step = delta * share
    mean = mean_a + step
    rest = rest_a + lost(mean_a, step, mean)
    weight = na * share
    spread = math.hypot(math.hypot(root_a, root_b), delta * math.sqrt(weight))
    if spread == 0.0:
        return (n, mean, rest, 0.0, 0.0, 0.0)
    if not spread <= FURTHEST:  # NaN or infinite values, or distances that no float holds
        return (n, mean, rest, spread, math.nan, math.nan)
    fa, fb, d = root_a / spread, root_b / spread, delta / spread
    sa, sb = fa * fa, fb * fb
    ca, cb = sa * fa * third_a, sb * fb * third_b
    third = ca + cb + d * (d * d * weight * (na - nb) + 3.0 * (na * sb - nb * sa)) / n
    fourth = sa * sa * fourth_a + sb * sb * fourth_b + 4.0 * d * (na * cb - nb * ca) / n
    fourth += d * d * (d * d * weight * (na * na - na * nb + nb * nb)) / (n * n)
    fourth += 6.0 * d * d * (na / n * (na / n) * sb + nb / n * (nb / n) * sa)
    return (n, mean, rest, spread, third, fourth)


def _skew(partial: Either) -> float | None:
    return None if partial[0] < 3 else _skew_of_values(_as_floats(partial), int(partial[0]))


def _skew_of_values(partial: Any, n: int) -> float:
    if n < 3:
        return math.nan
    third: float = partial[4]
    return third * math.sqrt(float(n) * (n - 1.0)) / (n - 2.0) * math.sqrt(n)


def _kurt(partial: Either) -> float | None:
    return None if partial[0] < 4 else _kurt_of_values(_as_floats(partial), int(partial[0]))


def _kurt_of_values(partial: Any, n: int) -> float:
    if n < 4:
        return math.nan
    if partial[3] == 0.0:
        return -3.0
    fourth: float = partial[5] * n
    return ((n + 1.0) * fourth - 3.0 * (n - 1.0)) * (n - 1.0) / ((n - 2.0) * (n - 3.0))
