"""Max-like aggregates: no inverse, mostly selective.

Values are ordered as Spark orders them: NaN is larger than any number.
"""

import math
from fractions import Fraction
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, as_is, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.numbers import GREATEST, NOT_ADDED, as_python, minus

Pair = tuple[Any, Any]
LOW_BITS = 2**32 - 1


def Min(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the smallest value; NaN only if there is nothing else.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Min())
    >>> window.bulk_insert([3, None, 1, 2])
    >>> window.query()
    1
    """
    kernel = Kernel(as_is, smaller, _as_it_is, plain=_smaller_number)
    return _selective("min", _min, column, kernel, where)


def Max(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the largest value; NaN is larger than any number.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Max("watts"))
    >>> window.bulk_insert([{"watts": 3}, {"watts": 8}])
    >>> window.query()
    8
    """
    kernel = Kernel(as_is, larger, _as_it_is, plain=_larger_number)
    return _selective("max", _max, column, kernel, where)


def Range(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the largest less the smallest value.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Range())
    >>> window.bulk_insert([3, 8, 5])
    >>> window.query()
    5
    """
    whole = Kernel(_twice, _both_bounds, _range_of_whole_numbers, overflows=True)
    return _bounds_like("range", "difference", _range, _range_of_values, whole, column, where)


def RelativeVariation(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take (max - min) / max, the relative variation of the DEBS 2012 challenge; NaN if max is 0.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(RelativeVariation())
    >>> window.bulk_insert([6, 8, 7])
    >>> window.query()
    0.25
    """
    whole = Kernel(_twice, _both_bounds, _relative_variation_of_whole_numbers)
    return _bounds_like(
        "relative_variation",
        "float",
        _relative_variation,
        _relative_variation_of_values,
        whole,
        column,
        where,
    )


def MinCount(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the smallest value and how often it occurs.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(MinCount())
    >>> window.bulk_insert([4, 0, 5, 0])
    >>> window.query()
    (0, 2)
    """
    return _counting("min_count", _min_count, _smaller_count, column, where)


def MaxCount(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the largest value and how often it occurs.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(MaxCount())
    >>> window.bulk_insert([3, 4, 0, 4, 4])
    >>> window.query()
    (4, 3)
    """
    return _counting("max_count", _max_count, _larger_count, column, where)


def M4(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take (min, max, first, last), which draw a line chart without error (Jugel et al., VLDB 2014).

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(M4())
    >>> window.bulk_insert([5, 2, 9, 4])
    >>> window.query()
    (2, 9, 5, 4)
    """
    return built_in(
        "m4",
        ("value", "value", "value", "value"),
        identity=None,
        lift=_four,
        combine=_m4,
        columns=named(column),
        where=where,
        kernel=Kernel(_four, _join_four, _as_it_is),
        results=("min", "max", "first", "last"),
    )


def above(x: Any, y: Any) -> Any:
    """Whether x is larger than y, NaN being larger than any number."""
    return x > y or (x != x and y == y)


def _selective(
    name: str, combine: Any, column: str | None, kernel: Kernel, where: Where
) -> Aggregate:
    return built_in(
        name,
        "value",
        identity=None,
        lift=as_is,
        combine=combine,
        commutative=True,
        selective=True,
        columns=named(column),
        where=where,
        kernel=kernel,
    )


def _as_it_is(value: Any, _n: int) -> Any:
    return value


def _min(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return smaller(a, b)


def _max(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return larger(a, b)


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two values, the first of equals; NaN is larger than any number."""
    return b if b < a or (a != a and b == b) else a


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two values, the first of equals; NaN is larger than any number."""
    return b if b > a or (b != b and a == a) else a


def _smaller_number(a: Any, b: Any) -> Any:
    return b if b < a else a


def _larger_number(a: Any, b: Any) -> Any:
    return b if b > a else a


def _bounds_like(
    name: str,
    result: str,
    lower: Any,
    lower_values: Any,
    whole: Kernel,
    column: str | None,
    where: Where,
) -> Aggregate:
    return built_in(
        name,
        result,
        identity=(None, None),
        lift=_twice,
        combine=_bounds,
        lower=lower,
        commutative=True,
        columns=named(column),
        where=where,
        kernel=Kernel(
            _twice, _both_bounds, lower_values, signed=whole, unsigned=whole, times=whole
        ),
    )


def _twice(value: Any) -> Pair:
    return (value, value)


def _bounds(a: Pair, b: Pair) -> Pair:
    if a[0] is None or b[0] is None:
        return a if b[0] is None else b
    return _both_bounds(a, b)


def _both_bounds(a: Pair, b: Pair) -> Pair:
    return (smaller(a[0], b[0]), larger(a[1], b[1]))


def _range(partial: Pair) -> Any:
    least, greatest = partial
    return None if least is None else _difference(greatest, least)


def _difference(greatest: Any, least: Any) -> Any:
    """Return the difference of two values; NumPy's whole numbers would wrap."""
    if isinstance(greatest, NOT_ADDED):
        raise TypeError(f"range takes numbers, moments and durations, got {greatest!r}")
    return minus(as_python(greatest), as_python(least))


def _range_of_values(partial: Pair, _n: int) -> Any:
    return partial[1] - partial[0]


def _range_of_whole_numbers(partial: Pair, _n: int) -> tuple[Any, bool]:
    least, greatest = partial
    if least >= 0 or greatest <= least + GREATEST:
        return greatest - least, False
    return greatest, True


def _relative_variation(partial: Pair) -> float | None:
    least, greatest = partial
    if least is None:
        return None
    if greatest == 0 or greatest != greatest:
        return math.nan
    if isinstance(greatest, float) or isinstance(least, float):
        return _relative_variation_of_values(partial, 1)
    return float(Fraction(_difference(greatest, least)) / Fraction(as_python(greatest)))


def _relative_variation_of_values(partial: Pair, _n: int) -> float:
    least, greatest = partial
    if greatest == 0:
        return math.nan
    difference = greatest - least
    if difference == math.inf:  # of halves it is finite, if both values are
        return float((greatest / 2 - least / 2) / (greatest / 2))
    return float(difference / greatest)


def _relative_variation_of_whole_numbers(partial: Pair, _n: int) -> float:
    """Divide the difference of the halves, which cannot overflow and loses no digits that matter."""
    least, greatest = partial
    if greatest == 0:
        return math.nan
    high = float(greatest >> 32) - float(least >> 32)
    low = float(greatest & LOW_BITS) - float(least & LOW_BITS)
    return (high * 4294967296.0 + low) / float(greatest)


def _counting(
    name: str, combine: Any, combine_values: Any, column: str | None, where: Where
) -> Aggregate:
    return built_in(
        name,
        ("value", "count"),
        identity=None,
        lift=_once,
        combine=combine,
        commutative=True,
        columns=named(column),
        where=where,
        kernel=Kernel(_once, combine_values, _as_it_is),
        results=("value", "count"),
    )


def _once(value: Any) -> Pair:
    return (value, 1)


def _min_count(a: Pair | None, b: Pair | None) -> Pair | None:
    if a is None or b is None:
        return a if b is None else b
    return _smaller_count(a, b)


def _max_count(a: Pair | None, b: Pair | None) -> Pair | None:
    if a is None or b is None:
        return a if b is None else b
    return _larger_count(a, b)


def _smaller_count(a: Pair, b: Pair) -> Pair:
    if above(a[0], b[0]):
        return b
    return a if above(b[0], a[0]) else (a[0], a[1] + b[1])


def _larger_count(a: Pair, b: Pair) -> Pair:
    if above(a[0], b[0]):
        return a
    return b if above(b[0], a[0]) else (a[0], a[1] + b[1])


def _four(value: Any) -> tuple[Any, Any, Any, Any]:
    return (value, value, value, value)


def _m4(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return _join_four(a, b)


def _join_four(a: Any, b: Any) -> Any:
    return (smaller(a[0], b[0]), larger(a[1], b[1]), a[2], b[3])
