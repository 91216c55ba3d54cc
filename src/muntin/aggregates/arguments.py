"""Rows that are chosen by a value: other columns of the row whose value is largest or smallest.

Of equal values the first wins, which makes these aggregates depend on the order of the rows. NaN is
larger than any number. A row without a value is skipped; other columns may be null.
"""

from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, as_is, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.extremes import above

Row = tuple[Any, ...]


def ArgMin(
    column: str | None = None, argument: str | None = None, *more: str, where: Where = None
) -> Aggregate:
    """Take the argument of the row whose value is smallest, the first of equals.

    Several arguments give a struct with a field for each. Without column names an input is a pair
    (value, argument). Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(ArgMin())
    >>> window.bulk_insert([(3, "a"), (1, "b"), (1, "c")])
    >>> window.query()
    'b'
    """
    return _arg("arg_min", _arg_min, _smaller_row, named(column, argument), more, where)


def ArgMax(
    column: str | None = None, argument: str | None = None, *more: str, where: Where = None
) -> Aggregate:
    """Take the argument of the row whose value is largest, the first of equals.

    Several arguments give a struct with a field for each. Without column names an input is a pair
    (value, argument). Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(ArgMax("watts", "plug", "room"))
    >>> window.insert({"watts": 8, "plug": "tv", "room": 1})
    >>> window.insert({"watts": 8, "plug": "lamp", "room": 2})
    >>> window.query()
    ('tv', 1)
    """
    return _arg("arg_max", _arg_max, _larger_row, named(column, argument), more, where)


def _arg(
    name: str,
    combine: Any,
    combine_values: Any,
    columns: tuple[str, ...],
    more: tuple[str, ...],
    where: Where,
) -> Aggregate:
    arguments = columns[1:] + more
    several = len(arguments) > 1
    if (several and not columns) or len({*arguments}) < len(arguments):
        raise TypeError(f"{name}: name the value and each argument once, got {(*columns, *more)!r}")
    return built_in(
        name,
        ("value",) * len(arguments) if several else "value",
        identity=None,
        lift=_row if several else _pair,
        combine=combine,
        lower=_arguments if several else _argument,
        selective=True,
        nulls=True,
        picks=True,
        columns=columns + more,
        where=where,
        kernel=Kernel(as_is, combine_values, _argument_of_values),
        results=arguments if several else (),
        sources=tuple(range(1, len(arguments) + 1)) if several else (),
    )


def _pair(pair: Row | None) -> Row | None:
    """Skip a row by its value alone: the argument may be null."""
    if pair is None:
        return None
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"without column names an input is a pair (value, argument), got {pair!r}")
    return None if pair[0] is None else (pair[0], pair[1])


def _row(row: Row | None) -> Row | None:
    return None if row is None or row[0] is None else tuple(row)


def _argument(partial: Row | None) -> Any:
    return None if partial is None else partial[1]


def _arguments(partial: Row | None) -> Row | None:
    return None if partial is None else partial[1:]


def _argument_of_values(partial: Any, _n: int) -> Any:
    return partial[1]


def _arg_min(a: Row | None, b: Row | None) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return _smaller_row(a, b)


def _arg_max(a: Row | None, b: Row | None) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return _larger_row(a, b)


def _smaller_row(a: Any, b: Any) -> Any:
    return b if above(a[0], b[0]) else a


def _larger_row(a: Any, b: Any) -> Any:
    return b if above(b[0], a[0]) else a
