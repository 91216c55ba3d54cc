"""A batch of rows, as people hand it to an operator: time, keys and values out of any kind of frame.

Rows stay in the order in which they came. Time is whole microseconds since 1970, or plain integers as
they are; keys are Arrow arrays, whose types are kept; values are columns as kernels take them. Numbers
and times in NumPy, Arrow and Polars are not copied; the arrays may be read-only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from muntin.frames.columns import Array, Column, is_frame, kind_of, read

NOT_A_TIME = np.iinfo(np.int64).min  # how NumPy writes a null among datetimes
LAST_TIME = np.iinfo(np.int64).max
MICROSECONDS = {"D": 86_400_000_000, "s": 1_000_000, "ms": 1_000}
READ_AS = {
    **dict.fromkeys(("Y", "M", "W"), "D"),
    **dict.fromkeys(("h", "m", "generic"), "s"),
    **dict.fromkeys(("ps", "fs", "as"), "ns"),
}


@dataclass(frozen=True)
class Batch:
    """Rows in the order of their arrival.

    `time_type` is timestamp[us] with its time zone or int64; it is null if no row has told. `bad_times`
    is how many rows were left out because their time is null.
    """

    rows: int
    times: Array
    time_type: pa.DataType
    keys: list[pa.Array]
    columns: dict[str, Column]
    bad_times: int = 0

    def take(self, indices: Array) -> "Batch":
        """Return the rows at these indices."""
        places = pa.array(indices)
        return replace(
            self,
            rows=len(indices),
            times=self.times[indices],
            keys=[key.take(places) for key in self.keys],
            columns={name: column.take(indices) for name, column in self.columns.items()},
        )


def read_batch(
    data: Any,
    time: str,
    keys: tuple[str, ...],
    values: tuple[str, ...],
    *,
    on_bad_time: str = "error",
) -> Batch:
    """Read the named columns of a frame, or say what is wrong with it; costs O(rows) at most.

    >>> read_batch({"at": [3, 1], "watts": [0.5, 2.0]}, "at", (), ("watts",)).times
    array([3, 1])
    """
    if on_bad_time not in ("error", "drop"):
        raise ValueError(f"on_bad_time must be 'error' or 'drop', got {on_bad_time!r}")
    columns = _named(data, (time, *keys, *values))
    times, time_type, valid = _times(columns[time], time)
    rows = len(times)
    batch = Batch(
        rows,
        times,
        time_type,
        [_arrow(columns[name], name) for name in keys],
        {name: _column(columns[name], name) for name in values},
    )
    for name, column in columns.items():
        if len(column) != rows:
            raise ValueError(f"column {name!r} has {len(column)} rows, {time!r} has {rows}")
    if valid is None:
        return batch
    if on_bad_time == "error":
        raise ValueError(
            f"the time of row {int(np.argmin(valid))} (column {time!r}) is null: fill it in, or "
            "leave such rows out with on_bad_time='drop'"
        )
    kept = np.flatnonzero(valid)
    return replace(batch.take(kept), bad_times=rows - len(kept))


def column_names(data: Any) -> list[str]:
    """Return the names of the columns that a batch has."""
    if isinstance(data, list | tuple):
        return list(dict.fromkeys(name for row in data if isinstance(row, Mapping) for name in row))
    if isinstance(data, dict):
        return list(data)
    return list(data.schema.names if kind_of(data) == "arrow" else data.columns)


def _named(data: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the columns of these names, Arrow's in one piece."""
    if isinstance(data, list | tuple):
        return _from_rows(data, names)
    if not (is_frame(data) or isinstance(data, pa.RecordBatch)):
        raise TypeError(
            "a batch is an Arrow table or record batch, a pandas or Polars DataFrame, a dict of "
            f"arrays or a list of dicts, got {type(data).__module__}.{type(data).__qualname__}"
        )
    if isinstance(data, dict):
        there = list(data)
    else:
        there = list(data.schema.names if kind_of(data) == "arrow" else data.columns)
    for name in names:
        if there.count(name) != 1:
            _complain(name, there)
    if isinstance(data, dict):
        _check_flat(data, names)
    return {name: _whole(data[name]) for name in names}


def _check_flat(columns: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        column = columns[name]
        sized = hasattr(column, "__len__") and not isinstance(column, str | bytes | Mapping)
        if not sized or getattr(column, "ndim", 1) != 1:
            raise TypeError(f"column {name!r} must be a flat array or a list, got {column!r}")


def _from_rows(rows: Any, names: tuple[str, ...]) -> dict[str, Any]:
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"a list of rows has a dict for each, but row {i} is {row!r}")
    for name in names:
        if rows and not any(name in row for row in rows):
            _complain(name, list(dict.fromkeys(key for row in rows for key in row)))
    return {name: [row.get(name) for row in rows] for name in names}


def _complain(name: str, there: list[Any]) -> NoReturn:
    if name in there:
        raise ValueError(f"there are {there.count(name)} columns {name!r}: rename all but one")
    names = ", ".join(map(repr, there)) or "no columns"
    raise KeyError(f"no column {name!r} in the batch: there are {names}")


def _whole(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def _arrow(column: Any, name: str) -> pa.Array:
    """Return a column as an Arrow array, without string views: Arrow cannot take rows of them."""
    kind = kind_of(column)
    if kind == "polars":  # which writes the addresses of objects into Arrow
        column = column.to_list() if str(column.dtype) == "Object" else column.to_arrow()
    if not isinstance(column, pa.Array):
        try:
            column = _whole(pa.array(column, from_pandas=kind == "pandas"))
        except (ArithmeticError, TypeError, ValueError, NotImplementedError) as error:
            raise TypeError(f"column {name!r} is not of one type of Arrow's: {error}") from error
    return column.cast(pa.large_string()) if kinds.is_string_view(column.type) else column


def _column(column: Any, name: str) -> Column:
    """Return a column of values; what has numbers and nulls in any form becomes numbers and a mask."""
    if not isinstance(column, pa.Array) and not isinstance(_dtype(column), np.dtype):
        try:
            array = _arrow(column, name)
        except TypeError:
            array = pa.nulls(0)  # objects of several types, or of a type that Arrow does not know
        column = array if kinds.is_primitive(array.type) else column
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    return read(column, f"column {name!r}")


def _dtype(column: Any) -> Any:
    return getattr(column, "dtype", None)


def _times(column: Any, name: str) -> tuple[Array, pa.DataType, Array | None]:
    """Return the times, their type, and which of them are not null (all, if None)."""
    dtype = _dtype(column)
    if isinstance(dtype, np.dtype) and dtype.kind == "M" and not np.ma.isMaskedArray(column):
        return _numpy_times(np.asarray(column), name)
    array = _arrow(column, name)
    kind = array.type
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if kinds.is_null(kind):
        return np.zeros(len(array), np.int64), kind, valid
    if kinds.is_timestamp(kind):
        unit, time_type = kind.unit, pa.timestamp("us", kind.tz)
        array = array.view(pa.int64())
    elif kinds.is_date(kind):
        unit, time_type = ("D" if kinds.is_date32(kind) else "ms"), pa.timestamp("us")
        array = array.view(pa.int32() if unit == "D" else pa.int64())
    elif kinds.is_integer(kind):
        unit, time_type = "us", pa.int64()
    else:
        raise TypeError(
            f"the time column {name!r} has the type {kind}: times are datetimes, dates or whole "
            "numbers; convert it first, for instance with pandas.to_datetime"
        )
    ticks = (array.fill_null(0) if valid is not None else array).to_numpy()
    return _microseconds(ticks, unit, name), time_type, valid


def _numpy_times(column: Array, name: str) -> tuple[Array, pa.DataType, Array | None]:
    """Do for datetime64 what Arrow would, which copies them, and slowly."""
    unit = np.datetime_data(column.dtype)[0]
    unit = READ_AS.get(unit, unit)
    ticks = np.ascontiguousarray(column, f"datetime64[{unit}]").view(np.int64)
    if ticks.min(initial=0) != NOT_A_TIME:
        return _microseconds(ticks, unit, name), pa.timestamp("us"), None
    valid = ticks != NOT_A_TIME
    return _microseconds(np.where(valid, ticks, 0), unit, name), pa.timestamp("us"), valid


def _microseconds(ticks: Array, unit: str, name: str) -> Array:
    """Return times in microseconds; what is finer is floored."""
    if unit == "ns":
        return ticks // 1000
    factor = MICROSECONDS.get(unit, 1)
    if factor == 1 and ticks.dtype.kind == "i":
        return ticks.astype(np.int64, copy=False)
    furthest = LAST_TIME // factor
    far = (ticks > furthest) | (ticks < -furthest)
    if far.any():
        row = int(np.argmax(far))
        raise ValueError(f"the time of row {row} (column {name!r}) is too far off: {ticks[row]}")
    return ticks.astype(np.int64) * factor
