"""Aggregates that keep values and their order, or their set.

First and Last are selective; the others are holistic: a partial grows with the values it stands for.
First, Last and Collect take nulls along when asked (`nulls=True`); everything else skips them.
"""

import math
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, as_is, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.multisets import DistinctValues
from muntin.aggregates.parameters import MOST_KEPT, check_whole

Values = tuple[Any, ...]


def First(column: str | None = None, *, nulls: bool = False, where: Where = None) -> Aggregate:
    """Take the oldest value.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(First())
    >>> window.bulk_insert([None, 2, 3])
    >>> window.query()
    2
    """
    return _end("first", _first, _older, column, nulls, where)


def Last(column: str | None = None, *, nulls: bool = False, where: Where = None) -> Aggregate:
    """Take the youngest value.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Last())
    >>> window.bulk_insert([1, 2, None])
    >>> window.query()
    2
    """
    return _end("last", _last, _younger, column, nulls, where)


def FirstK(k: int, column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the k oldest values into a list, oldest first.

    Cost: O(k) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(FirstK(2))
    >>> window.bulk_insert([3, None, 1, 2])
    >>> window.query()
    [3, 1]
    """

    def combine(a: Values, b: Values) -> Values:
        return a if len(a) == k else (a + b)[:k]

    return _few("first_k", k, combine, column, where)


def LastK(k: int, column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the k youngest values into a list, oldest first.

    Cost: O(k) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(LastK(2))
    >>> window.bulk_insert([3, None, 1, 2])
    >>> window.query()
    [1, 2]
    """

    def combine(a: Values, b: Values) -> Values:
        return b if len(b) == k else (a + b)[-k:]

    return _few("last_k", k, combine, column, where)


def Collect(column: str | None = None, *, nulls: bool = False, where: Where = None) -> Aggregate:
    """Collect the values into a list, oldest first.

    Cost: O(values) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Collect())
    >>> window.bulk_insert([3, 1, 2])
    >>> window.query()
    [3, 1, 2]
    """
    return built_in(
        "collect",
        "values",
        parameters={"nulls": nulls},
        identity=(),
        lift=_single,
        combine=_chain,
        lower=list,
        holistic=True,
        nulls=nulls,
        columns=named(column),
        where=where,
        gather=tuple,
    )


def CollectDistinct(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Collect the different values into a list, in the order of their first appearance.

    Cost: O(values) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(CollectDistinct())
    >>> window.bulk_insert(["b", "a", "b"])
    >>> window.query()
    ['b', 'a']
    """
    return built_in(
        "collect_distinct",
        "values",
        identity=(),
        lift=_single_distinct,
        combine=_chain_distinct,
        lower=list,
        holistic=True,
        columns=named(column),
        where=where,
        encode=list,
        decode=_distinct,
    )


def CountDistinct(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Count the different values, exactly.

    Cost: O(different values) per combine. ApproxDistinct needs constant space.

    >>> from muntin import DabaLite
    >>> window = DabaLite(CountDistinct())
    >>> window.bulk_insert(["b", "a", "b"])
    >>> window.query()
    2
    """
    return built_in(
        "count_distinct",
        "count",
        identity=frozenset(),
        lift=_set_of_one,
        combine=_union,
        lower=len,
        commutative=True,
        holistic=True,
        columns=named(column),
        where=where,
        encode=as_is,
        decode=_set_of_distinct,
        multiset=DistinctValues,
    )


def Concat(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Join text to one text and lists to one list, oldest first; other values join as lists of one.

    Cost: O(length) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Concat())
    >>> window.bulk_insert(["win", "dow"])
    >>> window.query()
    'window'
    """
    return built_in(
        "concat",
        identity=None,
        lift=_joinable,
        combine=_join,
        lower=_joined,
        holistic=True,
        columns=named(column),
        where=where,
    )


def _end(
    name: str,
    combine: Any,
    combine_values: Any,
    column: str | None,
    nulls: bool,
    where: Where,
) -> Aggregate:
    """Make First or Last; a partial is () or (value,), because a value may itself be null."""
    return built_in(
        name,
        "value",
        parameters={"nulls": nulls},
        identity=(),
        lift=_single,
        combine=combine,
        lower=_only,
        selective=True,
        nulls=nulls,
        columns=named(column),
        where=where,
        kernel=Kernel(as_is, combine_values, _value),
    )


def _few(name: str, k: int, combine: Any, column: str | None, where: Where) -> Aggregate:
    check_whole(name, "k", k, 1, MOST_KEPT)
    return built_in(
        f"{name}({k})",
        "values",
        parameters={"k": k},
        identity=(),
        lift=_single,
        combine=combine,
        lower=list,
        columns=named(column),
        where=where,
    )


def _single(value: Any) -> Values:
    return (value,)


def _only(partial: Values) -> Any:
    return partial[0] if partial else None


def _first(a: Values, b: Values) -> Values:
    return a or b


def _last(a: Values, b: Values) -> Values:
    return b or a


def _older(a: Any, _b: Any) -> Any:
    return a


def _younger(_a: Any, b: Any) -> Any:
    return b


def _value(value: Any, _n: int) -> Any:
    return value


def _chain(a: Values, b: Values) -> Values:
    return a + b


def _one_nan(value: Any) -> Any:
    """Return the one NaN for any NaN, so that NaN equals NaN in a set, as in Spark."""
    return value if value == value else math.nan


def _single_distinct(value: Any) -> Values:
    return (_one_nan(value),)


def _chain_distinct(a: Values, b: Values) -> Values:
    return tuple(dict.fromkeys(a + b))


def _set_of_one(value: Any) -> frozenset[Any]:
    return frozenset((_one_nan(value),))


def _union(a: frozenset[Any], b: frozenset[Any]) -> frozenset[Any]:
    return a | b if b else a


def _distinct(values: Any) -> Values:
    return tuple(_one_nan(value) for value in values)


def _set_of_distinct(values: Any) -> frozenset[Any]:
    return frozenset(_distinct(values))


def _joinable(value: Any) -> Any:
    if isinstance(value, str | bytes | tuple):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


def _joined(partial: Any) -> Any:
    return list(partial) if isinstance(partial, tuple) else partial


def _join(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a if b is None else b
    if type(a) is not type(b):
        raise TypeError(f"concat joins values of one kind; got {a!r} and {b!r}")
    return a + b
