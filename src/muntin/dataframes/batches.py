"""A batch of rows, as people hand it to an operator: time, keys and values out of any kind of frame.

Rows stay in the order in which they came. Time is whole microseconds since 1970, or plain integers as
they are; keys are Arrow arrays, whose types are kept; values are columns as kernels take them. Numbers
and times in NumPy, Arrow and Polars are not copied; the arrays may be read-only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from muntin.aggregates.conditions import Condition
from muntin.dataframes.columns import NOT_OF_ARROW, Array, Column, is_frame, kind_of, read
from muntin.dataframes.python_objects import as_arrow_array
from muntin.dataframes.time_units import ATTOSECONDS, convert

NOT_A_TIME = np.iinfo(np.int64).min  # how NumPy writes a null among datetimes
NUMBERS, SIGNED = range(-(2**63), 2**64), range(-(2**63), 2**63)
"""Whole numbers that values may be, and those that Arrow takes for keys and times."""
FURTHEST_YEAR = 150_000
"""Times of later years do not fit, counted from 1970."""
FEW = 64
"""In a list of so few plain numbers, NumPy finds the type sooner than Arrow does."""
PLAIN = {int: np.dtype(np.int64), float: np.dtype(np.float64)}


@dataclass(frozen=True)
class Batch:
    """Rows in the order of their arrival.

    `time_type` is timestamp[us] with its time zone or int64; it is null if no row has told. `bad_times`
    rows were left out because their time is null, `bad_rows` because a value cannot be read. `origin`
    has the place of each row among those that came, if some were left out. `holds` says of which rows a
    condition is true.
    """

    rows: int
    times: Array
    time_type: pa.DataType
    keys: list[pa.Array]
    columns: dict[str, Column]
    holds: dict[Condition, Array] = field(default_factory=dict)
    bad_times: int = 0
    bad_rows: int = 0
    origin: Array | None = None

    def row_of(self, row: int) -> int:
        """Return the place of a row among those that came."""
        return row if self.origin is None else int(self.origin[row])

    def take(self, indices: Array) -> "Batch":
        """Return the rows at these indices."""
        places = pa.array(indices)
        return replace(
            self,
            rows=len(indices),
            times=self.times[indices],
            keys=[key.take(places) for key in self.keys],
            columns={name: column.take(indices) for name, column in self.columns.items()},
            holds={condition: held[indices] for condition, held in self.holds.items()},
            origin=indices if self.origin is None else self.origin[indices],
        )


def read_batch(
    data: Any,
    time: str,
    keys: tuple[str, ...],
    values: tuple[str, ...],
    conditions: tuple[Condition, ...] = (),
    *,
    on_bad_time: str = "error",
    on_bad_row: str = "error",
) -> Batch:
    """Read the named columns of a frame, or say what is wrong with it; costs O(rows) at most.

    A row is bad if its time is not a whole number of microseconds, or one of its values cannot be read:
    a number of more than 64 bits, a text that is not UTF-8. It is also bad if a condition has no answer,
    because a number calculated for it does not fit.

    >>> read_batch({"at": [3, 1], "watts": [0.5, 2.0]}, "at", (), ("watts",)).times
    array([3, 1])
    """
    for name, choice in (("on_bad_time", on_bad_time), ("on_bad_row", on_bad_row)):
        if choice not in ("error", "drop"):
            raise ValueError(f"{name} must be 'error' or 'drop', got {choice!r}")
    asked = tuple(dict.fromkeys(name for condition in conditions for name in condition.columns))
    try:
        columns = _named(data, tuple(dict.fromkeys((time, *keys, *values, *asked))))
    except KeyError as error:
        raise KeyError(error.args[0] + _hint(error.args[0], conditions)) from None
    bad = _BadRows(on_bad_row)
    times, time_type, valid = _times(columns[time], time, bad)
    rows = len(times)
    batch = Batch(
        rows,
        times,
        time_type,
        [_key(columns[name], name, bad) for name in keys],
        {name: _column(columns[name], name, bad) for name in values},
    )
    for name, column in columns.items():
        if len(column) != rows:
            raise ValueError(f"column {name!r} has {len(column)} rows, {time!r} has {rows}")
    if conditions:
        arrays = {name: _key(columns[name], name, bad) for name in asked}
        batch = replace(batch, holds={c: _holding(c, arrays, bad) for c in conditions})
    if valid is not None:
        if on_bad_time == "error":
            raise ValueError(
                f"the time of row {int(np.argmin(valid))} (column {time!r}) is null: fill it in, or "
                "leave such rows out with on_bad_time='drop'"
            )
        bad.places -= set(np.flatnonzero(~valid).tolist())
        kept = np.flatnonzero(valid)
        batch = replace(batch.take(kept), bad_times=rows - len(kept))
    return drop_bad_rows(batch, bad.among(batch)) if bad.places else batch


def read_keys(data: Any, keys: tuple[str, ...]) -> tuple[list[pa.Array], int]:
    """Return the columns of keys, as they are in batches, and their number of rows."""
    bad = _BadRows("error")
    columns = [_key(column, name, bad) for name, column in _named(data, keys).items()]
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"key columns have {sorted(lengths)} rows: give as many of each")
    return columns, lengths.pop() if lengths else 1


def drop_bad_rows(batch: Batch, bad: Array) -> Batch:
    """Return the rows that are not bad, and count those that are."""
    if not bad.any():
        return batch
    kept = np.flatnonzero(~bad)
    return replace(batch.take(kept), bad_rows=batch.bad_rows + batch.rows - len(kept))


class _BadRows:
    """Collects the rows of a batch that cannot be read, or raises the error of the first one."""

    def __init__(self, on_bad_row: str) -> None:
        self._on_bad_row = on_bad_row
        self.places: set[int] = set()

    def add(self, row: int, what: str) -> None:
        """Leave out a row, or raise ValueError with what is wrong with it."""
        if self._on_bad_row == "error":
            raise ValueError(f"{what}: correct it, or leave such rows out with on_bad_row='drop'")
        self.places.add(row)

    def among(self, batch: Batch) -> Array:
        """Return which rows of a batch are bad."""
        origin = np.arange(batch.rows) if batch.origin is None else batch.origin
        return np.isin(origin, list(self.places))


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
        return {name: _few(column) for name, column in _from_rows(data, names).items()}
    if not is_frame(data):
        raise TypeError(
            "a batch is an Arrow table or record batch, a pandas or Polars DataFrame, a dict of "
            f"arrays or a list of dicts, got {type(data).__module__}.{type(data).__qualname__}"
        )
    if isinstance(data, dict):
        for name in names:
            if name not in data:
                _complain(name, list(data))
        _check_flat(data, names)
        return {name: _few(_whole(data[name])) for name in names}
    there = list(data.schema.names if kind_of(data) == "arrow" else data.columns)
    for name in names:
        if there.count(name) != 1:
            _complain(name, there)
    return {name: _whole(data[name]) for name in names}


def _few(column: Any) -> Any:
    """Return a short list of whole numbers, or of floats, as NumPy has them; all else as it is."""
    if type(column) is not list or not 0 < len(column) <= FEW:
        return column
    types = set(map(type, column))
    dtype = PLAIN.get(types.pop())
    if dtype is None or types:
        return column
    try:
        return np.array(column, dtype)
    except OverflowError:
        return column


def _check_flat(columns: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        column = columns[name]
        if type(column) is list:
            continue
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


def _hint(missing: str, conditions: tuple[Condition, ...]) -> str:
    """Say what to do if the column that is missing is a condition in SQL."""
    for condition in conditions:
        text = condition.column
        if text and not text.isidentifier() and missing.startswith(f"no column {text!r} "):
            return "; SQL is for Spark, and here a condition is written like mt.col('price') > 100"
    return ""


def _whole(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def arrow_column(column: Any, name: str) -> pa.Array:
    """Return a column as an Arrow array, without string views: Arrow cannot take rows of them."""
    kind = kind_of(column)
    if kind == "polars":  # which writes the addresses of objects into Arrow
        column = column.to_list() if str(column.dtype) in NOT_OF_ARROW else column.to_arrow()
    if not isinstance(column, pa.Array):
        try:
            column = _whole(_converted(column, kind))
        except (ArithmeticError, TypeError, ValueError, NotImplementedError) as error:
            raise TypeError(f"column {name!r} is not of one type of Arrow's: {error}") from error
    return column.cast(pa.large_string()) if kinds.is_string_view(column.type) else column


def _converted(column: Any, kind: str) -> pa.Array:
    """Return a column of NumPy, pandas or Python's objects as Arrow has it."""
    if _dtype(column) is not None and _dtype(column) != np.dtype(object):
        return pa.array(column, from_pandas=kind == "pandas")
    return as_arrow_array(column, nan_is_null=kind == "pandas")


def _key(column: Any, name: str, bad: _BadRows) -> pa.Array:
    """Return a key column; rows whose value cannot be read are bad and null."""
    try:
        array = arrow_column(column, name)
    except TypeError:
        column = _without_bad(column, name, bad, SIGNED)
        array = arrow_column(column, name)
    return _readable(array, name, bad)


def _holding(condition: Condition, arrays: dict[str, pa.Array], bad: _BadRows) -> Array:
    """Return of which rows a condition is true; rows for which it has no answer are bad."""
    mine = {name: arrays[name] for name in condition.columns}
    rows = len(next(iter(mine.values())))
    held, stretches = np.empty(rows, np.bool_), [(0, rows)]
    while stretches:  # one, if there is an answer for all rows
        start, end = stretches.pop()
        some = {name: array[start:end] for name, array in mine.items()}
        try:
            held[start:end] = condition.evaluate(some).to_numpy(zero_copy_only=False)
        except ValueError as error:
            if end - start == 1:
                bad.add(start, f"row {start}: {error}")
            else:
                middle = (start + end) // 2
                stretches += [(middle, end), (start, middle)]
    return held


def _readable(array: pa.Array, name: str, bad: _BadRows) -> pa.Array:
    """Return an array whose texts are all UTF-8; other rows are bad and null."""
    if not _may_have_text(array.type) or _is_valid(array):
        return array
    whole = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
    there = [_is_readable(value) for value in whole]
    for row in np.flatnonzero(~np.array(there)).tolist():
        text = f" {whole[row].as_buffer().to_pybytes()!r}" if _is_text(whole.type) else ""
        bad.add(row, f"row {row} has the text{text} in column {name!r}, which is not UTF-8")
    places = [row if ok else None for row, ok in enumerate(there)]
    return whole.take(pa.array(places, pa.int64()))


def _is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (kinds.is_string, kinds.is_large_string))


def _may_have_text(kind: pa.DataType) -> bool:
    return _is_text(kind) or kinds.is_dictionary(kind) or kinds.is_nested(kind)


def _is_readable(value: pa.Scalar) -> bool:
    try:
        value.as_py()
    except UnicodeDecodeError:
        return False
    return True


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _without_bad(column: Any, name: str, bad: _BadRows, bounds: range) -> Any:
    """Return objects with None in the place of numbers out of bounds and texts that are not Unicode.

    Values may be large numbers only: then they stay objects.
    """
    if kind_of(column) == "arrow" or _is_plain(column):
        return column
    items = column.tolist() if isinstance(column, np.ndarray) else list(column)
    if bounds is NUMBERS and all(item is None or _is_large(item, bounds) for item in items):
        return items
    for row, item in enumerate(items):
        if _is_large(item, bounds):
            bad.add(row, f"row {row} has {item} in column {name!r}, which does not fit 64 bits")
            items[row] = None
        elif isinstance(item, str) and not _encodes(item):
            bad.add(
                row, f"row {row} has the text {item!r} in column {name!r}, which is not Unicode"
            )
            items[row] = None
    return items


def _is_large(item: Any, bounds: range) -> bool:
    return isinstance(item, int) and item not in bounds


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _column(column: Any, name: str, bad: _BadRows) -> Column:
    """Return a column of values; what has numbers and nulls in any form becomes numbers and a mask."""
    if type(column) is np.ndarray and column.dtype in PLAIN.values():
        return Column(np.ascontiguousarray(column), None, column.dtype)
    if not isinstance(column, pa.Array) and not _is_plain(column):
        column = _settled(column, name, bad)
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if isinstance(column, pa.Array):
        column = _readable(column, name, bad)
    return read(column, f"column {name!r}")


def _is_plain(column: Any) -> bool:
    """Whether NumPy's type of a column says what it holds; text may be no Unicode."""
    dtype = _dtype(column)
    return isinstance(dtype, np.dtype) and dtype.kind not in "OU"


def _settled(column: Any, name: str, bad: _BadRows) -> Any:
    """Return a column as Arrow has it, or as objects of several types or of one Arrow does not know."""
    try:
        array = arrow_column(column, name)
    except TypeError:
        column = _without_bad(column, name, bad, NUMBERS)
        try:
            array = arrow_column(column, name)
        except TypeError:
            return column
    guessed = (
        kinds.is_decimal(array.type) and kind_of(column) == "numpy"
    )  # digits of this batch only
    return column if guessed or kinds.is_nested(array.type) else array


def _dtype(column: Any) -> Any:
    return getattr(column, "dtype", None)


def _times(column: Any, name: str, bad: _BadRows) -> tuple[Array, pa.DataType, Array | None]:
    """Return the times, their type, and which of them are not null (all, if None)."""
    dtype = _dtype(column)
    if type(column) is np.ndarray and dtype == np.int64:
        return column, pa.int64(), None
    if isinstance(dtype, np.dtype) and dtype.kind == "M" and not np.ma.isMaskedArray(column):
        return _numpy_times(np.asarray(column), name, bad)
    try:
        array = arrow_column(column, name)
    except TypeError:
        array = arrow_column(_without_bad(column, name, bad, SIGNED), name)
    kind = array.type
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if valid is not None and bad.places:
        valid[list(bad.places)] = True  # they are left out as bad rows
        valid = None if valid.all() else valid
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
    ticks = (array.fill_null(0) if array.null_count else array).to_numpy()
    return _microseconds(ticks, unit, 1, name, bad), time_type, valid


def _numpy_times(
    column: Array, name: str, bad: _BadRows
) -> tuple[Array, pa.DataType, Array | None]:
    """Do for datetime64 what Arrow would, which copies them, and slowly."""
    unit, many = np.datetime_data(column.dtype)
    column = np.ascontiguousarray(column, column.dtype.newbyteorder("="))
    ticks = column.view(np.int64)
    if ticks.min(initial=0) == NOT_A_TIME:
        valid = ticks != NOT_A_TIME
        ticks = np.where(valid, ticks, 0)
    else:
        valid = None
    if unit in ("Y", "M"):
        furthest = FURTHEST_YEAR * (12 if unit == "M" else 1) // many
        _refuse_far((ticks > furthest) | (ticks < -furthest), ticks, column.dtype, name, bad)
        ticks = np.clip(ticks, -furthest, furthest).view(column.dtype)
        unit, many, ticks = "D", 1, ticks.astype("M8[D]").view(np.int64)
    ticks = _microseconds(ticks, unit, many, name, bad)
    return ticks, pa.timestamp("us"), valid


def _microseconds(ticks: Array, unit: str, many: int, name: str, bad: _BadRows) -> Array:
    """Return times in microseconds; a row whose time is not a whole number of them is bad."""
    factor = Fraction(ATTOSECONDS.get(unit, 10**12) * many, 10**12)
    if factor == 1 and ticks.dtype.kind == "i":
        return ticks.astype(np.int64, copy=False)
    times, broken, far = convert(ticks, factor)
    unit = unit if many == 1 else f"x {many} {unit}"
    for row in np.flatnonzero(broken).tolist():
        bad.add(
            row, f"the time of row {row} (column {name!r}) is {ticks[row]} {unit}, finer than 1 us"
        )
    _refuse_far(far, ticks, unit, name, bad)
    return times


def _refuse_far(far: Array, ticks: Array, unit: object, name: str, bad: _BadRows) -> None:
    for row in np.flatnonzero(far).tolist():
        bad.add(row, f"the time of row {row} (column {name!r}) is too far off: {ticks[row]} {unit}")
