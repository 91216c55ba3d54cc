"""Least squares: of one column on another compiled, on several columns interpreted.

On one column it is what `pairs` computes. On several a partial is (n, means, products): the means of all
columns, each a sum of two floats, and the sums of products of their distances from the means, by Chan's
update. lower solves the normal equations of columns that are scaled to the same spread.
"""

import math
from collections.abc import Sequence
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.numbers import lost, two_floats
from muntin.aggregates.pairs import (
    NO_PAIRS,
    Either,
    as_floats,
    join_pairs,
    lift_pair,
    pair_of,
    pairs_joined,
)
from muntin.aggregates.spread import apart

Means = tuple[tuple[float, float], ...]
Table = tuple[tuple[float, ...], ...]
Fit = tuple[int, Means, Table]
NO_ROWS: Fit = (0, (), ())
COLLINEAR = 1e-10
"""A column of which the others leave a smaller share of its spread is a combination of them."""


def Regression(y: str | None = None, *x: str, where: Where = None) -> Aggregate:
    """Fit y by least squares: slope, intercept and r2 of a column x, or a slope for each of several.

    With several columns the slopes are called slope_ and the column's name. A row counts if all its
    values are there. Null with fewer rows than there are numbers to find; NaN if x does not vary or
    columns are combinations of others; r2 is 0 if y does not vary, as SciPy's linregress has it.
    Without column names an input is a pair (y, x). Cost: O(columns^2) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Regression("price", "size"))
    >>> window.bulk_insert([{"price": 7, "size": 1}, {"price": 9, "size": 2}, {"price": 11, "size": 3}])
    >>> window.query()
    (2.0, 5.0, 1.0)
    """
    if y is not None and not x:
        raise TypeError(f"regression: name y and one or more columns x, got only {y!r}")
    if len(x) > 1:
        return _on_several(named(y, *x), where)
    return built_in(
        "regression",
        ("float", "float", "float"),
        identity=NO_PAIRS,
        lift=_lift_swapped,
        combine=join_pairs,
        lower=_line,
        commutative=True,
        columns=named(y, *x),
        where=where,
        kernel=Kernel(_swapped, pairs_joined, _line_of_values, doubled=True, least=2),
        results=("slope", "intercept", "r2"),
    )


def _lift_swapped(pair: Any) -> Either:
    """Lift a pair (y, x)."""
    return lift_pair(pair[::-1] if isinstance(pair, tuple | list) else pair)


def _swapped(pair: Any) -> Any:
    return pair_of((pair[1], pair[0]))


def _line(partial: Either) -> tuple[float, float, float] | None:
    return None if partial[0] < 2 else _line_of_values(as_floats(partial), int(partial[0]))


def _line_of_values(partial: Any, n: int) -> tuple[float, float, float]:
    _, x, rest_x, y, rest_y, root_x, root_y, product = partial
    if n < 2 or root_x == 0.0:
        return math.nan, math.nan, math.nan
    slope = product * (root_y / root_x)
    r2 = min(product * product, 1.0) if product == product else math.nan
    return slope, (y - slope * x) + (rest_y - slope * rest_x), r2


def _on_several(columns: tuple[str, ...], where: Where) -> Aggregate:
    slopes = tuple(f"slope_{column}" for column in columns[1:])
    return built_in(
        f"regression({len(slopes)})",
        ("float",) * (len(slopes) + 2),
        identity=NO_ROWS,
        lift=_lift_row,
        combine=_join,
        lower=_plane,
        commutative=True,
        columns=columns,
        where=where,
        encode=tuple,
        decode=_decode,
        results=(*slopes, "intercept", "r2"),
    )


def _lift_row(row: Sequence[Any]) -> Fit:
    means = []
    for value in row:
        high, low = two_floats("regression", value)
        means.append((high + low, lost(high, low, high + low)))
    products = tuple(
        tuple([(a - a) + (b - b) for b, _ in means]) for a, _ in means
    )  # 0, or NaN for an infinity, which is at no distance
    return (1, tuple(means), products)


def _decode(plain: Any) -> Fit:
    n, means, products = plain
    return (n, tuple(map(tuple, means)), tuple(map(tuple, products)))


def _join(a: Fit, b: Fit) -> Fit:
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    n = a[0] + b[0]
    share = b[0] / n
    deltas, means = [], []
    for (mean_a, rest_a), (mean_b, rest_b) in zip(a[1], b[1], strict=True):
        delta = apart(mean_a, rest_a, mean_b, rest_b)
        mean = mean_a + delta * share
        deltas.append(delta)
        means.append((mean, rest_a + lost(mean_a, delta * share, mean)))
    weight = a[0] * share
    products = tuple(
        tuple([p + q + s * t * weight for p, q, t in zip(of_a, of_b, deltas, strict=True)])
        for of_a, of_b, s in zip(a[2], b[2], deltas, strict=True)
    )
    return (n, tuple(means), products)


def _plane(partial: Fit) -> tuple[float, ...] | None:
    n, means, products = partial
    if n < max(len(means), 2):
        return None
    size = len(means) - 1
    scales = [math.sqrt(products[i][i]) for i in range(size + 1)]
    if not all(scale > 0.0 for scale in scales[1:]):
        return (math.nan,) * (size + 2)
    rows = [
        [products[i][j] / scales[i] / scales[j] for j in range(1, size + 1)]
        + [products[i][0] / scales[i]]
        for i in range(1, size + 1)
    ]
    scaled = _solved(rows)
    if scaled is None:
        return (math.nan,) * (size + 2)
    slopes = [x / scale for x, scale in zip(scaled, scales[1:], strict=True)]
    pairs = list(zip(slopes, means[1:], strict=True))
    intercept = math.fsum([*means[0], *(-s * part for s, mean in pairs for part in mean)])
    explained = math.fsum(s * products[i][0] for i, s in enumerate(slopes, 1))
    r2 = explained / products[0][0] if products[0][0] else 0.0
    return (*slopes, intercept, min(r2, 1.0) if r2 == r2 else r2)


def _solved(rows: list[list[float]]) -> list[float] | None:
    """Solve linear equations by elimination; None if a column is a combination of others."""
    size = len(rows)
    for i in range(size):
        best = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[best] = rows[best], rows[i]
        if not abs(rows[i][i]) > COLLINEAR:
            return None
        for row in rows[i + 1 :]:
            factor = row[i] / rows[i][i]
            for j in range(i, size + 1):
                row[j] -= factor * rows[i][j]
    found = [0.0] * size
    for i in reversed(range(size)):
        known = math.fsum(rows[i][j] * found[j] for j in range(i + 1, size))
        found[i] = (rows[i][size] - known) / rows[i][i]
    return found
