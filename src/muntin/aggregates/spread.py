"""Variance and standard deviation by Chan's pairwise update.

A partial is (n, mean, rest of the mean, sum of squared differences from the mean), never a sum of
squares, so nothing cancels when the mean is large. The mean is a sum of two floats, because the
difference of two means must be right also where they agree in their first 16 digits (moments in
nanoseconds do). There is no inverse: taking an outlier out by subtraction would leave its rounding
error behind.

Outside of compiled loops, whole numbers, decimals and fractions are summed exactly instead: their
partial is (n, sum, sum of squares, None).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, as_is, built_in, named
from muntin.aggregates.numbers import exact_number, plus, squared

Moments = tuple[int, Any, Any, Any]
FAR_APART = 1000.0
"""Means that differ by a thousandth need no more digits than a float has, and that is faster."""
MOST_CANCELLED = 1e-4
"""How small a difference of shifted squares may be before it is computed by Chan's update instead."""


def Var(column: str | None = None, *, ddof: int = 1) -> Aggregate:
    """Take the variance with n - ddof in the denominator; null with ddof values or fewer.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Var())
    >>> window.bulk_insert([1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16])
    >>> window.query()
    30.0
    """
    return _spread("var", column, ddof, as_is, "")


def Std(column: str | None = None, *, ddof: int = 1) -> Aggregate:
    """Take the standard deviation with n - ddof in the denominator; null with ddof values or fewer.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Std(ddof=0))
    >>> window.bulk_insert([2, 4, 4, 4, 5, 5, 7, 9])
    >>> window.query()
    2.0
    """
    return _spread("std", column, ddof, math.sqrt, "sqrt")


def _spread(
    name: str,
    column: str | None,
    ddof: int,
    finish: Callable[[float], float],
    finish_all: str,
) -> Aggregate:
    def lower(partial: Moments) -> float | None:
        return lower_values(_as_floats(partial), partial[0]) if partial[0] > ddof else None

    def lower_values(partial: Moments, n: int) -> float:
        return finish(partial[3] / (n - ddof)) if n > ddof else math.nan

    def lower_shifted(partial: tuple[float, float], n: int) -> float:
        total, squares = partial
        m2 = squares - total * total * (1.0 / n)  # reciprocals stay the same from window to window
        if m2 <= squares * MOST_CANCELLED or n <= ddof:
            return math.nan
        return m2 * (1.0 / (n - ddof))

    whole = Kernel(_single_whole, _chan_of_values, lower_values, halves=True, least=ddof + 1)
    if ddof < 0:
        raise ValueError(f"{name}: ddof must be 0 or more, got {ddof}")
    return built_in(
        f"{name}(ddof={ddof})",
        "float",
        parameters={"ddof": ddof},
        identity=(0, 0.0, 0.0, 0.0),
        lift=_single,
        combine=_chan,
        lower=lower,
        commutative=True,
        columns=named(column),
        kernel=Kernel(
            _single_number,
            _chan_of_values,
            lower_values,
            shifted=Kernel(_square, _add_squares, lower_shifted, finish=finish_all),
            least=ddof + 1,
            signed=whole,
            unsigned=whole,
        ),
    )


def _single(value: Any) -> Moments:
    number = exact_number(value)
    if isinstance(number, float):
        return (1, *_single_number(number)[1:])
    return (1, number, squared(number), None)


def _single_number(value: Any) -> tuple[float, float, float, float]:
    x = float(value)
    return (1.0, x, 0.0, x - x)  # 0, or NaN for an infinity, which is at no distance


def _single_whole(halves: tuple[int, int]) -> tuple[float, float, float, float]:
    high, low = halves[0] * 4294967296.0, float(halves[1])
    mean = high + low
    return (1.0, mean, _lost(high, low, mean), 0.0)


def _as_floats(partial: Moments) -> Moments:
    """Return a partial as Chan's update has it, from exact sums if it has them."""
    n, total, squares, m2 = partial
    if m2 is not None or n == 0:
        return partial
    mean = Fraction(total) / n
    high = float(mean)
    m2 = float(Fraction(squares) - mean * Fraction(total))
    return (n, high, float(mean - Fraction(high)), m2)


def _square(shifted: Any) -> tuple[float, float]:
    return (shifted, shifted * shifted)


def _add_squares(a: Any, b: Any) -> Any:
    return (a[0] + b[0], a[1] + b[1])


def _chan(a: Moments, b: Moments) -> Moments:
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    if a[3] is None and b[3] is None:
        return (a[0] + b[0], plus(a[1], b[1]), plus(a[2], b[2]), None)
    combined: Moments = _chan_of_values(_as_floats(a), _as_floats(b))
    return combined


def _chan_of_values(a: Any, b: Any) -> Any:
    na, mean_a, rest_a, m2_a = a
    nb, mean_b, rest_b, m2_b = b
    share = nb / (na + nb)
    delta = mean_b - mean_a
    if abs(delta) * FAR_APART < abs(mean_a):
        delta += _lost(mean_b, -mean_a, delta) + (rest_b - rest_a)
    step = delta * share
    mean = mean_a + step
    rest = rest_a + _lost(mean_a, step, mean)
    return (na + nb, mean, rest, m2_a + m2_b + delta * delta * (na * share))


def _lost(x: Any, y: Any, total: Any) -> Any:
    """Return what rounding took away from the sum of two floats (Knuth, TAOCP 2, 4.2.2)."""
    of_y = total - x
    return (x - (total - of_y)) + (y - of_y)
