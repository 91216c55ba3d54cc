"""Variance, standard deviation, standard error and z-score by Chan's pairwise update.

A partial is (n, mean, rest of the mean, sum of squared differences from the mean), never a sum of
squares, so nothing cancels when the mean is large. The mean is a sum of two floats, because the
difference of two means must be right also where they agree in their first 16 digits (moments in
nanoseconds do). There is no inverse: taking an outlier out by subtraction would leave its rounding
error behind.

Squares of values beyond 1e150, or of differences under 1e-135, are no floats. Then the partial has minus
the root of the sum of squares in its place.

Outside of compiled loops, whole numbers, decimals and fractions are summed exactly instead: their
partial is (n, sum, sum of squares, None).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.numbers import exact_number, lost, plus, root, squared

Moments = tuple[int, Any, Any, Any]
Scored = tuple[Moments, Any]
"""Moments and the newest value."""
FAR_APART = 1000.0
"""Means that differ by a thousandth need no more digits than a float has, and that is faster."""
SMALL, LARGE = 1e-270, 1e300
"""Between them a sum of squares has all its digits."""
FURTHEST = 1.7976931348623157e308
MOST_CANCELLED = 1e-4
"""How small a difference of shifted squares may be before it is computed by Chan's update instead."""


def Var(column: str | None = None, *, ddof: int = 1, where: Where = None) -> Aggregate:
    """Take the variance with n - ddof in the denominator; null with ddof values or fewer.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Var())
    >>> window.bulk_insert([1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16])
    >>> window.query()
    30.0
    """
    return replace(_spread("var", ddof, _variance, ""), columns=named(column), where=where)


def Std(column: str | None = None, *, ddof: int = 1, where: Where = None) -> Aggregate:
    """Take the standard deviation with n - ddof in the denominator; null with ddof values or fewer.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Std(ddof=0))
    >>> window.bulk_insert([2, 4, 4, 4, 5, 5, 7, 9])
    >>> window.query()
    2.0
    """
    return replace(_spread("std", ddof, _deviation, "sqrt"), columns=named(column), where=where)


def Sem(column: str | None = None, *, ddof: int = 1, where: Where = None) -> Aggregate:
    """Take the standard error of the mean, Std / sqrt(n); null with ddof values or fewer.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Sem())
    >>> window.bulk_insert([1, 3, 5, 7])
    >>> round(window.query(), 6)
    1.290994
    """
    made = _spread("sem", ddof, _deviation, "sqrt", of_mean=True)
    return replace(made, columns=named(column), where=where)


def Zscore(column: str | None = None, *, ddof: int = 0, where: Where = None) -> Aggregate:
    """Take how many standard deviations the newest value is above the mean of all.

    The deviation has n - ddof in its denominator; `ddof` is 0 as in SciPy's zscore. Equal values have
    none, and the result is NaN. Null with ddof values or fewer. Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Zscore())
    >>> window.bulk_insert([2, 4, 4, 4, 5, 5, 7, 9])
    >>> window.query()
    2.0
    """
    return replace(_zscore(ddof), columns=named(column), where=where)


@lru_cache(typed=True)  # kernels are known by their functions: the same ones each time
def _spread(
    name: str,
    ddof: int,
    finish: Callable[[float, int], float],
    finish_all: str,
    of_mean: bool = False,
) -> Aggregate:
    _check_ddof(name, ddof)

    def lower(partial: Moments) -> float | None:
        return lower_values(_as_floats(partial), partial[0]) if partial[0] > ddof else None

    def lower_values(partial: Moments, n: int) -> float:
        if n <= ddof:
            return math.nan
        result = finish(partial[3], n - ddof)
        return result / math.sqrt(n) if of_mean else result

    def lower_shifted(partial: tuple[float, float], n: int) -> float:
        total, squares = partial
        m2 = squares - total * total * (1.0 / n)  # reciprocals stay the same from window to window
        if m2 <= squares * MOST_CANCELLED or squares < SMALL or n <= ddof:
            return math.nan
        variance = m2 * (1.0 / (n - ddof))
        return variance * (1.0 / n) if of_mean else variance

    whole = Kernel(_single_whole, _chan_of_values, lower_values, halves=True, least=ddof + 1)
    return built_in(
        f"{name}(ddof={ddof})",
        "float",
        parameters={"ddof": ddof},
        identity=(0, 0.0, 0.0, 0.0),
        lift=_single,
        combine=_chan,
        lower=lower,
        commutative=True,
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


@lru_cache(typed=True)
def _zscore(ddof: int) -> Aggregate:
    _check_ddof("zscore", ddof)

    def lower(partial: Scored) -> float | None:
        moments, newest = partial
        if moments[0] <= ddof:
            return None
        exact = moments[3] is None and not isinstance(newest, float)
        _, mean, rest, m2 = _as_floats(moments)
        if exact:
            above = float(Fraction(newest) - Fraction(moments[1]) / moments[0])
        else:
            above = (float(newest) - mean) - rest
        return _in_deviations(above, m2, moments[0] - ddof)

    def lower_values(partial: Any, n: int) -> float:
        _, mean, rest, m2, newest, lowest = partial
        if n <= ddof:
            return math.nan
        return _in_deviations((newest - mean) + (lowest - rest), m2, n - ddof)

    return built_in(
        f"zscore(ddof={ddof})",
        "float",
        parameters={"ddof": ddof},
        identity=((0, 0.0, 0.0, 0.0), 0.0),
        lift=lambda value: (_single(value), exact_number(value)),
        combine=lambda a, b: (_chan(a[0], b[0]), b[1] if b[0][0] else a[1]),
        lower=lower,
        kernel=Kernel(_single_scored, _chan_scored, lower_values, doubled=True, least=ddof + 1),
    )


def _check_ddof(name: str, ddof: int) -> None:
    if ddof < 0:
        raise ValueError(f"{name}: ddof must be 0 or more, got {ddof}")


def _in_deviations(above: float, m2: float, n: int) -> float:
    deviation = _deviation(m2, n)
    return above / deviation if deviation != 0.0 else math.nan


def _single_scored(value: tuple[float, float]) -> tuple[float, ...]:
    high, low = value
    x = high + low
    rest = lost(high, low, x)
    return (1.0, x, rest, x - x, x, rest)


def _chan_scored(a: Any, b: Any) -> Any:
    joined = _chan_of_values((a[0], a[1], a[2], a[3]), (b[0], b[1], b[2], b[3]))
    return (joined[0], joined[1], joined[2], joined[3], b[4], b[5])


def _variance(m2: float, n: int) -> float:
    if m2 < 0.0:
        return m2 / n * m2
    return m2 / n


def _deviation(m2: float, n: int) -> float:
    if m2 < 0.0:
        return -m2 / math.sqrt(n)
    return math.sqrt(m2 / n)


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
    return (1.0, mean, lost(high, low, mean), 0.0)


def _as_floats(partial: Moments) -> Moments:
    """Return a partial as Chan's update has it, from exact sums if it has them."""
    n, total, squares, m2 = partial
    if m2 is not None or n == 0:
        return partial
    mean = Fraction(total) / n
    high = float(mean)
    m2 = Fraction(squares) - mean * Fraction(total)
    if m2 == 0 or SMALL < m2 < LARGE:
        return (n, high, float(mean - Fraction(high)), float(m2))
    return (n, high, float(mean - Fraction(high)), -root(m2))


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
    delta = apart(mean_a, rest_a, mean_b, rest_b)
    step = delta * share
    mean = mean_a + step
    rest = rest_a + lost(mean_a, step, mean)
    m2 = m2_a + m2_b + delta * delta * (na * share)
    if not (SMALL < m2 < LARGE and m2_a >= 0.0 and m2_b >= 0.0) and (delta or m2_a or m2_b):
        if abs(delta) > FURTHEST:
            mean, rest = mean_a * (1.0 - share) + mean_b * share, 0.0
        m2 = _far_squares(m2_a, m2_b, delta, math.sqrt(na * share))
    return (na + nb, mean, rest, m2)


def apart(mean_a: float, rest_a: float, mean_b: float, rest_b: float) -> float:
    """Return how much larger the second of two means is, of which each is the sum of two floats."""
    delta = mean_b - mean_a
    if abs(delta) * FAR_APART < abs(mean_a):
        delta += lost(mean_b, -mean_a, delta) + (rest_b - rest_a)
    return delta


def _far_squares(m2_a: float, m2_b: float, delta: float, weight: float) -> float:
    """Add sums of squares that may be too large or too small for a float, by their roots."""
    if m2_a != m2_a or m2_b != m2_b:
        return math.nan
    root_a = -m2_a if m2_a < 0.0 else math.sqrt(m2_a)
    root_b = -m2_b if m2_b < 0.0 else math.sqrt(m2_b)
    root = math.hypot(math.hypot(root_a, root_b), delta * weight)
    m2 = root * root
    return m2 if SMALL < m2 < LARGE else -root
