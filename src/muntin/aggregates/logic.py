"""Whether all or any values are true, and the bits that all or any of them have."""

import datetime as dt
from typing import Any as Anything

from muntin.aggregates.aggregate import Aggregate, Kernel, as_is, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.numbers import NOT_ADDED, as_python


def All(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Whether all values are true; null if there are none.

    A number is true unless it is 0; NaN is true. Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(All())
    >>> window.bulk_insert([True, None, True])
    >>> window.query()
    True
    """
    return _of_truth("all", _both, _and_values, column, where)


def Any(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Whether any value is true; null if there are none.

    A number is true unless it is 0; NaN is true. Cost: O(1) per combine.

    >>> from muntin import Any, DabaLite
    >>> window = DabaLite(Any())
    >>> window.bulk_insert([False, None, True])
    >>> window.query()
    True
    """
    return _of_truth("any", _either, _or_values, column, where)


def BitAnd(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the bits that all whole numbers have; null if there are none.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(BitAnd())
    >>> window.bulk_insert([0b110, 0b011])
    >>> window.query()
    2
    """
    return _of_bits("bit_and", _and, _and_values, column, where)


def BitOr(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the bits that any whole number has; null if there are none.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(BitOr())
    >>> window.bulk_insert([0b110, 0b011])
    >>> window.query()
    7
    """
    return _of_bits("bit_or", _or, _or_values, column, where)


def _of_truth(
    name: str, combine: Anything, combine_values: Anything, column: str | None, where: Where
) -> Aggregate:
    return built_in(
        name,
        "truth",
        identity=None,
        lift=_truth,
        combine=combine,
        commutative=True,
        selective=True,
        columns=named(column),
        where=where,
        kernel=Kernel(_truth_of_number, combine_values, _as_truth),
    )


def _of_bits(
    name: str, combine: Anything, combine_values: Anything, column: str | None, where: Where
) -> Aggregate:
    return built_in(
        name,
        "bits",
        identity=None,
        lift=_whole,
        combine=combine,
        commutative=True,
        columns=named(column),
        where=where,
        kernel=Kernel(as_is, combine_values, _as_it_is),
    )


def _truth(value: Anything) -> bool:
    if isinstance(value, (*NOT_ADDED, dt.date, dt.timedelta)):
        raise TypeError(f"all and any take booleans and numbers, got {value!r}")
    return bool(value)


def _truth_of_number(value: Anything) -> int:
    return 1 if value != 0 else 0


def _as_truth(partial: int, _n: int) -> bool:
    return partial == 1


def _as_it_is(partial: int, _n: int) -> int:
    return partial


def _both(a: Anything, b: Anything) -> Anything:
    if a is None or b is None:
        return a if b is None else b
    return a and b


def _either(a: Anything, b: Anything) -> Anything:
    if a is None or b is None:
        return a if b is None else b
    return a or b


def _whole(value: Anything) -> int:
    value = as_python(value)
    if not isinstance(value, int):
        raise TypeError(f"bit_and and bit_or take whole numbers and booleans, got {value!r}")
    return value


def _and(a: Anything, b: Anything) -> Anything:
    if a is None or b is None:
        return a if b is None else b
    return a & b


def _and_values(a: Anything, b: Anything) -> Anything:
    return a & b


def _or(a: Anything, b: Anything) -> Anything:
    if a is None or b is None:
        return a if b is None else b
    return a | b


def _or_values(a: Anything, b: Anything) -> Anything:
    return a | b
