"""Rows in the order of their groups: the rows of a group are neighbours, and as they came.

A group is the rows with equal values in the columns that `by` names, of any number and any type. Null
is a value like others, NaN equals NaN.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from muntin.dataframes.columns import Array, as_arrow_data, is_frame, kind_of, read
from muntin.dataframes.frame_kinds import column_of, has_column
from muntin.kernels.codegen.loop_source import load_loops
from muntin.kernels.loops import group_rows
from muntin.kernels.spans import Groups


@dataclass(frozen=True)
class GroupedRows:
    """Groups of rows; `order` has the row at each place, and `places` the place of each row.

    Both are None if rows came in the order of their groups. `keys` are the columns as they were given,
    by their names.
    """

    groups: Groups
    order: Array | None
    places: Array | None
    keys: dict[str, Any]

    def keys_of(self, groups: Array) -> dict[str, Any]:
        """Return the keys of groups, in the kind in which they were given."""
        firsts = self.groups.edges[:-1][groups]
        rows = firsts if self.order is None else self.order[firsts]
        return {name: _taken(column, rows) for name, column in self.keys.items()}


def group(values: Any, by: Any, rows: int) -> GroupedRows:
    """Return rows by the columns that `by` names, or is."""
    keys = _keys(values, by)
    for name, column in keys.items():
        if len(column) != rows:
            raise ValueError(f"{name} has {len(column)} rows, the values have {rows}")
    codes, count = _codes(keys, rows)
    changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    if len(changes) + 1 == count or not rows:  # neighbours already
        return GroupedRows(Groups(np.concatenate(([0], changes, [rows]))), None, None, keys)
    edges = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=count))))
    order, places = np.empty(rows, np.int64), np.empty(rows, np.int64)
    _loops().place_rows(codes, edges[:-1].copy(), order, places)
    return GroupedRows(Groups(edges), order, places, keys)


@cache
def _loops() -> ModuleType:
    return load_loops(group_rows)


def _keys(values: Any, by: Any) -> dict[str, Any]:
    """Return the columns that rows are grouped by, by their names."""
    if isinstance(by, str):
        return {by: _column(values, by)}
    by = as_arrow_data(by)
    if not isinstance(by, list | tuple):
        if not _is_column(by):
            raise TypeError(f"by is a column's name, a column, or a list of these, got {by!r}")
        return {_name_of(by, "by"): by}
    names = is_frame(values) and len(by) > 0 and all(isinstance(x, str) for x in by)
    if names and (len(by) != _rows_of(values) or all(has_column(values, x) for x in by)):
        return {name: _column(values, name) for name in by}
    if any(map(_is_column, by)):
        parts = [(f"by[{i}]", _column(values, x)) for i, x in enumerate(by)]
        return {_name_of(part, name): part for name, part in parts}
    return {"by": by}


def _column(values: Any, part: Any) -> Any:
    if not isinstance(part, str):
        return as_arrow_data(part)
    if not is_frame(values):
        raise TypeError(f"{part!r} names a column, but the values are no frame")
    try:
        return column_of(values, part)
    except KeyError as error:
        raise KeyError(f"by: {error.args[0]}") from None


def _rows_of(frame: Any) -> int:
    return len(next(iter(frame.values()))) if isinstance(frame, dict) else len(frame)


def _is_column(data: Any) -> bool:
    return hasattr(data, "__len__") and not isinstance(data, str | bytes | dict | tuple)


def _name_of(column: Any, otherwise: str) -> str:
    name = getattr(column, "name", None)
    return name if isinstance(name, str) and name else otherwise


def _codes(keys: dict[str, Any], rows: int) -> tuple[Array, int]:
    """Return a number for each row's group, and how many groups there are."""
    from muntin.dataframes.batches import arrow_column
    from muntin.slicing.key_table import KeyTable

    try:
        columns = [_numbered(arrow_column(column, name)) for name, column in keys.items()]
        table = KeyTable(tuple(keys))
        return table.number(columns, rows), len(table)
    except TypeError:  # Arrow has no type for them, such as tuples
        seen: dict[Any, int] = {}
        lists = [
            column if isinstance(column, list | tuple) else read(column, name).objects()
            for name, column in keys.items()
        ]
        if any(len({type(x) for x in column if x is not None}) > 1 for column in lists):
            raise  # 1 and True are equal, and not the same key
        codes = [seen.setdefault(key, len(seen)) for key in zip(*lists, strict=True)]
        return np.array(codes, np.int64), len(seen)


def _numbered(column: Any) -> Any:
    """Return a number for each row of a dictionary, equal where its values are; others as they are."""
    import pyarrow as pa

    from muntin.slicing.key_table import KeyTable

    if not isinstance(column, pa.DictionaryArray):
        return column
    values = column.dictionary
    numbers = KeyTable(("value",)).number([values], len(values))
    return pa.array(numbers).take(column.indices)


def _taken(column: Any, rows: Array) -> Any:
    """Return rows of a column, in its own kind."""
    take: dict[str, Callable[[], Any]] = {
        "pandas": lambda: column.take(rows),
        "polars": lambda: column[rows],
        "arrow": lambda: column.take(rows),
    }
    if kind_of(column) in take:
        return take[kind_of(column)]()
    if isinstance(column, np.ndarray):
        return column[rows]
    return [column[row] for row in rows.tolist()]
