"""The few rows of a window whose value is largest or smallest.

Of equal values the first wins, which makes these aggregates depend on the order of the rows. NaN is
larger than any number. A row without a value is skipped; other columns may be null. A partial is the
rows in the order of the result, at most k.
"""

from typing import Any

from muntin.aggregates.aggregate import Aggregate, built_in
from muntin.aggregates.conditions import Where
from muntin.aggregates.parameters import MOST_KEPT, check_whole

Rows = tuple[tuple[Any, ...], ...]


def TopBy(k: int, value: str | None = None, *columns: str, where: Where = None) -> Aggregate:
    """List the k rows with the largest values, the largest first; the first of equals.

    A row is given as its `columns`: the value of one, or a struct of several; without columns as the
    value itself. Cost: O(k) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(TopBy(2, "watts", "plug"))
    >>> window.insert({"watts": 8, "plug": "lamp"})
    >>> window.insert({"watts": 90, "plug": "oven"})
    >>> window.insert({"watts": 40, "plug": "tv"})
    >>> window.query()
    ['oven', 'tv']
    """
    return _by("top_by", k, True, value, columns, where)


def BottomBy(k: int, value: str | None = None, *columns: str, where: Where = None) -> Aggregate:
    """List the k rows with the smallest values, the smallest first; the first of equals.

    A row is given as its `columns`: the value of one, or a struct of several; without columns as the
    value itself. Cost: O(k) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(BottomBy(2))
    >>> window.bulk_insert([5, 3, 9, 4])
    >>> window.query()
    [3, 4]
    """
    return _by("bottom_by", k, False, value, columns, where)


def _by(
    name: str, k: int, largest: bool, value: str | None, columns: tuple[str, ...], where: Where
) -> Aggregate:
    check_whole(name, "k", k, 1, MOST_KEPT)
    if len({*columns}) < len(columns) or (value is None and columns):
        raise TypeError(f"{name}: name the value and each column once, got {(value, *columns)!r}")

    def combine(a: Rows, b: Rows) -> Rows:
        if not a or not b:
            return a or b
        return tuple(sorted(a + b, key=_rank, reverse=largest)[:k])

    several = len(columns) > 1
    return built_in(
        f"{name}({k})",
        ("value",) * len(columns) if several else "values",
        parameters={"k": k},
        identity=(),
        lift=_row if columns else _alone,
        combine=combine,
        lower=_structs if several else _values,
        nulls=True,
        picks=True,
        columns=() if value is None else (value, *columns),
        where=where,
        results=columns if several else (),
        sources=tuple(range(1, len(columns) + 1)) if several else (),
        gives_rows=several,
    )


def _row(row: tuple[Any, ...] | None) -> Rows:
    return () if row is None or row[0] is None else (tuple(row),)


def _alone(value: Any) -> Rows:
    return () if value is None else ((value,),)


def _rank(row: tuple[Any, ...]) -> tuple[bool, Any]:
    return row[0] != row[0], row[0]


def _values(partial: Rows) -> list[Any]:
    return [row[-1] for row in partial]


def _structs(partial: Rows) -> list[Any]:
    return [row[1:] for row in partial]
