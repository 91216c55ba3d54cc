"""Columns of results beside the columns of a frame, in the frame's own kind."""

import importlib
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from muntin.dataframes.batches import column_names
from muntin.dataframes.columns import kind_of

NULLABLE = {
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
    pa.bool_(): "boolean",
}
"""The types in which pandas has nulls beside whole numbers."""


def with_columns(frame: Any, added: dict[str, pa.Array]) -> Any:
    """Return a frame of pandas or Polars, or an Arrow table of anything else, with more columns."""
    kind = kind_of(frame)
    if kind == "pandas":
        pandas = importlib.import_module("pandas")
        columns = {n: _series(pandas, array, frame.index, n) for n, array in added.items()}
        return pandas.concat([frame, pandas.DataFrame(columns, index=frame.index)], axis=1)
    if kind == "polars":
        polars = importlib.import_module("polars")
        return frame.with_columns([polars.Series(n, array) for n, array in added.items()])
    table = _table(frame)
    for name, array in added.items():
        table = table.append_column(name, array)
    return table


def refuse_names(frame: Any, names: list[str], what: str) -> None:
    """Refuse names of new columns that there are already."""
    there = {*column_names(frame)}
    for i, name in enumerate(names):
        if name in there or name in names[:i]:
            raise ValueError(
                f"there would be two columns {name!r}: rename that of {what}, a window or an aggregate"
            )


def _series(pandas: Any, array: pa.Array, index: Any, name: str) -> Any:
    """Return results as a series; whole numbers with nulls keep their type."""
    if array.null_count and array.type in NULLABLE:
        series = array.to_pandas(types_mapper=_nullable_types(pandas).get)
    elif kinds.is_null(array.type):
        series = pandas.Series([None] * len(array), dtype=object)
    else:
        series = array.to_pandas()
    series.index = index
    return series.rename(name)


def _nullable_types(pandas: Any) -> dict[pa.DataType, Any]:
    return {kind: pandas.api.types.pandas_dtype(name) for kind, name in NULLABLE.items()}


def _table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    return pa.Table.from_pylist(list(data)) if isinstance(data, list | tuple) else pa.table(data)
