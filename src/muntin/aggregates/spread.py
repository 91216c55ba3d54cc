"""Variance and standard deviation by Chan's pairwise update.

A partial is (n, mean, sum of squared differences from the mean), never a sum of squares, so nothing
cancels when the mean is large. For the same reason there is no inverse: taking an outlier out by
subtraction would leave its rounding error behind.
"""

import math
from collections.abc import Callable
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, as_is, built_in, named

Moments = tuple[int, float, float]
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
        return lower_values(partial, partial[0]) if partial[0] > ddof else None

    def lower_values(partial: Moments, n: int) -> float:
        return finish(partial[2] / (n - ddof)) if n > ddof else math.nan

    def lower_shifted(partial: tuple[float, float], n: int) -> float:
        total, squares = partial
        m2 = squares - total * total * (1.0 / n)  # reciprocals stay the same from window to window
        if m2 <= squares * MOST_CANCELLED or n <= ddof:
            return math.nan
        return m2 * (1.0 / (n - ddof))

    if ddof < 0:
        raise ValueError(f"{name}: ddof must be 0 or more, got {ddof}")
    return built_in(
        f"{name}(ddof={ddof})",
        "float",
        parameters={"ddof": ddof},
        identity=(0, 0.0, 0.0),
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
        ),
    )


def _single(value: Any) -> Moments:
    x = float(value)
    return (1, x, x - x)  # 0, or NaN for an infinity, whose distance from any mean is not defined


def _single_number(value: Any) -> tuple[float, float, float]:
    x = float(value)
    return (1.0, x, x - x)


def _square(shifted: Any) -> tuple[float, float]:
    return (shifted, shifted * shifted)


def _add_squares(a: Any, b: Any) -> Any:
    return (a[0] + b[0], a[1] + b[1])


def _chan(a: Moments, b: Moments) -> Moments:
    if a[0] == 0:
        return b
    return _chan_of_values(a, b) if b[0] else a


def _chan_of_values(a: Any, b: Any) -> Any:
    na, mean_a, m2_a = a
    nb, mean_b, m2_b = b
    share = nb / (na + nb)
    delta = mean_b - mean_a
    return (na + nb, mean_a + delta * share, m2_a + m2_b + delta * delta * (na * share))
