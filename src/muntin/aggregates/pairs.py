"""Covariance and correlation of two columns by Chan's pairwise update.

A partial is (n, mean of x, its rest, mean of y, its rest, root of x, root of y, product). Means are sums
of two floats. A root is that of the sum of squared distances from the mean; `product` is the sum of the
products of both distances, divided by both roots, so between -1 and 1 whatever the scale of the values
is. It is 0 where a root is 0. A row counts if both values are there.

Outside of compiled loops, whole numbers, decimals and fractions are summed exactly instead: their
partial is (n, sum of x, of y, of x^2, of y^2, of x y).
"""

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.numbers import lost, rational, root, two_floats
from muntin.aggregates.spread import FURTHEST, apart

Pairs = tuple[float, float, float, float, float, float, float, float]
Sums = tuple[int, Any, Any, Any, Any, Any]
Either = Pairs | Sums
NO_PAIRS: Sums = (0, 0, 0, 0, 0, 0)


def Cov(
    x: str | None = None, y: str | None = None, *, ddof: int = 1, where: Where = None
) -> Aggregate:
    """Take the covariance with n - ddof in the denominator; null with ddof pairs or fewer.

    Without column names an input is a pair (x, y). Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Cov())
    >>> window.bulk_insert([(1e9 + 1, 2), (1e9 + 2, 4), (1e9 + 3, 9)])
    >>> round(window.query(), 9)
    3.5
    """
    return replace(_cov(ddof), columns=named(x, y), where=where)


def Corr(x: str | None = None, y: str | None = None, *, where: Where = None) -> Aggregate:
    """Take Pearson's correlation; null with fewer than 2 pairs, NaN if x or y does not vary.

    Without column names an input is a pair (x, y). Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Corr())
    >>> window.bulk_insert([(1, 2), (2, 4), (3, 9)])
    >>> round(window.query(), 6)
    0.970725
    """
    return built_in(
        "corr",
        "float",
        identity=NO_PAIRS,
        lift=lift_pair,
        combine=join_pairs,
        lower=_corr,
        commutative=True,
        columns=named(x, y),
        where=where,
        kernel=Kernel(pair_of, pairs_joined, _corr_of_values, doubled=True, least=2),
    )


@lru_cache(typed=True)  # kernels are known by their functions: the same ones each time
def _cov(ddof: int) -> Aggregate:
    if ddof < 0:
        raise ValueError(f"cov: ddof must be 0 or more, got {ddof}")

    def lower(partial: Either) -> float | None:
        n = int(partial[0])
        return lower_values(as_floats(partial), n) if n > ddof else None

    def lower_values(partial: Any, n: int) -> float:
        if n <= ddof:
            return math.nan
        covariance: float = partial[7] * partial[5] * (partial[6] / (n - ddof))
        return covariance

    return built_in(
        f"cov(ddof={ddof})",
        "float",
        parameters={"ddof": ddof},
        identity=NO_PAIRS,
        lift=lift_pair,
        combine=join_pairs,
        lower=lower,
        commutative=True,
        kernel=Kernel(pair_of, pairs_joined, lower_values, doubled=True, least=ddof + 1),
    )


def lift_pair(pair: Any) -> Either:
    """Return the partial of a pair (x, y); of none if one of them is null."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"without column names an input is a pair of numbers, got {pair!r}")
    if pair[0] is None or pair[1] is None:
        return NO_PAIRS
    x, y = (rational("a moment of pairs", value) for value in pair)
    if isinstance(x, float) or isinstance(y, float):
        return pair_of((two_floats("a moment", x), two_floats("a moment", y)))
    return (1, x, y, x * x, y * y, x * y)


def pair_of(pair: Any) -> Pairs:
    """Return the partial of a pair of numbers, each of them two floats."""
    (high_x, low_x), (high_y, low_y) = pair
    x, y = high_x + low_x, high_y + low_y
    nothing = (x - x) + (y - y)  # 0, or NaN for an infinity, which is at no distance
    return (1.0, x, lost(high_x, low_x, x), y, lost(high_y, low_y, y), x - x, y - y, nothing)


def as_floats(partial: Any) -> Pairs:
    """Return a partial as pairs_joined has it, from exact sums if it has them."""
    if len(partial) == 8:
        return partial  # type: ignore[no-any-return]
    n, *sums = partial
    x, y, xx, yy, xy = map(Fraction, sums)
    xx, yy, xy = xx - x * x / n, yy - y * y / n, xy - x * y / n
    high_x, high_y = float(x / n), float(y / n)
    rests = float(x / n - Fraction(high_x)), float(y / n - Fraction(high_y))
    product = math.copysign(root(xy * xy / (xx * yy)), xy) if xx and yy else 0.0
    return (float(n), high_x, rests[0], high_y, rests[1], root(xx), root(yy), product)


def join_pairs(a: Either, b: Either) -> Either:
    """Merge partials, of which each may be of no pairs."""
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    if len(a) == 6 and len(b) == 6:
        n, x, y = a[0] + b[0], a[1] + b[1], a[2] + b[2]
        return (n, x, y, a[3] + b[3], a[4] + b[4], a[5] + b[5])
    joined: Pairs = pairs_joined(as_floats(a), as_floats(b))
    return joined


def pairs_joined(a: Any, b: Any) -> Any:
    """Merge partials of pairs."""
    n = a[0] + b[0]
    share = b[0] / n
    delta_x, delta_y = apart(a[1], a[2], b[1], b[2]), apart(a[3], a[4], b[3], b[4])
    x, y = a[1] + delta_x * share, a[3] + delta_y * share
    rest_x = a[2] + lost(a[1], delta_x * share, x)
    rest_y = a[4] + lost(a[3], delta_y * share, y)
    weight = math.sqrt(a[0] * share)
    root_x = math.hypot(math.hypot(a[5], b[5]), delta_x * weight)
    root_y = math.hypot(math.hypot(a[6], b[6]), delta_y * weight)
    if not (root_x <= FURTHEST and root_y <= FURTHEST):  # NaN, or distances that no float holds
        product = math.nan
    elif root_x == 0.0 or root_y == 0.0:
        product = 0.0
    else:
        product = a[7] * (a[5] / root_x) * (a[6] / root_y)
        product += b[7] * (b[5] / root_x) * (b[6] / root_y)
        product += (delta_x * weight / root_x) * (delta_y * weight / root_y)
    return (n, x, rest_x, y, rest_y, root_x, root_y, product)


def _corr(partial: Either) -> float | None:
    return None if partial[0] < 2 else _corr_of_values(as_floats(partial), int(partial[0]))


def _corr_of_values(partial: Any, n: int) -> float:
    product: float = partial[7]
    if n < 2 or partial[5] == 0.0 or partial[6] == 0.0:
        return math.nan
    if product > 1.0:
        return 1.0
    return -1.0 if product < -1.0 else product
