"""Columns of people's data as NumPy arrays.

A column becomes numbers (float64, int64 or uint64; times as integers) with a mask of the rows that are
not null, or objects if it is not made of numbers. NaN is a value in NumPy, Arrow and Polars and a null
in pandas, as each of them has it.
"""

import sys
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from muntin.aggregates.sums import EXACT_IN_FLOAT

Array = np.ndarray[Any, Any]
PYTHON_UNITS = (("us", 1), ("ms", 1), ("s", 1), ("D", 1))
"""The units of moments and durations that Python's own are as fine as."""


NOT_OF_ARROW = ("Object", "Int128", "UInt128")
"""Types of Polars that Arrow has not."""


@dataclass(frozen=True)
class Column:
    """Values, which of them are not null (all, if None), and the types they came with.

    `dtype` is NumPy's type, `arrow` that of Arrow where it says more (a time zone, the digits of a
    decimal, text), `came_as` the type in the kind of frame that the column is of.
    """

    values: Array
    valid: Array | None
    dtype: np.dtype[Any]
    arrow: Any = None
    came_as: Any = field(default=None, compare=False)

    @property
    def is_numeric(self) -> bool:
        """Whether the values are numbers that kernels can work on."""
        return self.values.dtype.kind in "fiu"

    @property
    def has_values(self) -> bool:
        """Whether a value is not null."""
        return self.valid is None or bool(self.valid.any())

    def take(self, order: Any) -> "Column":
        """Return the column with its rows in another order."""
        valid = None if self.valid is None else self.valid.take(order)
        return replace(self, values=self.values.take(order), valid=valid)

    def objects(self, *, exact: bool = False) -> list[Any]:
        """Return the values as Python objects, null as None; moments are in UTC.

        With `exact`, moments and durations are NumPy's, which have their unit.
        """
        if self.dtype.kind in "mM":
            moments = self.values.view(self.dtype)
            objects = list(moments) if exact else _moments(moments)
        else:
            kind = self.dtype if self.dtype.kind == "b" else self.values.dtype
            objects = self.values.astype(kind).tolist()
        if self.valid is None:
            return objects
        return [x if ok else None for x, ok in zip(objects, self.valid.tolist(), strict=True)]


def _moments(values: Array) -> list[Any]:
    """Return Python's datetimes, dates and timedeltas, or NumPy's where Python has none so fine."""
    if np.datetime_data(values.dtype) not in PYTHON_UNITS:
        return list(values)
    objects: list[Any] = values.tolist()
    for i, moment in enumerate(objects):
        if isinstance(moment, int):
            raise ValueError(f"row {i} has {values[i]}, which is beyond the years 1 to 9999")
    return objects


def kind_of(data: Any) -> str:
    """Return "pandas", "polars", "arrow" or "numpy"."""
    module = type(data).__module__.split(".")[0]
    return {"pandas": "pandas", "polars": "polars", "pyarrow": "arrow"}.get(module, "numpy")


def as_arrow_data(data: Any) -> Any:
    """Return data that only Arrow can read as Arrow has them, and all other data as they are."""
    if type(data).__module__.split(".")[0] == "narwhals":
        data = data.to_native()
    known = kind_of(data) != "numpy" or isinstance(data, np.ndarray | list | tuple | dict)
    if known or not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
        return data
    import pyarrow as pa

    if hasattr(data, "__arrow_c_array__"):
        array = pa.array(data)
        return pa.RecordBatch.from_struct_array(array) if pa.types.is_struct(array.type) else array
    chunks = pa.chunked_array(data)
    if not pa.types.is_struct(chunks.type):
        return chunks
    batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in chunks.chunks]
    return pa.Table.from_batches(batches, pa.schema(list(chunks.type)))


def read(data: Any, name: str) -> Column:
    """Read one column; `name` is what an error calls it."""
    data = as_arrow_data(data)
    kind = kind_of(data)
    if kind == "pandas":
        return replace(_from_pandas(data, name), came_as=data.dtype)
    if kind == "polars":
        return replace(_from_polars(data, name), came_as=data.dtype)
    if kind == "arrow":
        return _from_arrow(data, name)
    if isinstance(data, np.ma.MaskedArray):
        return _from_numpy(data.filled(data.dtype.type(0)), ~np.ma.getmaskarray(data), name)
    return _from_numpy(_as_array(data), None, name)


def _as_array(data: Any) -> Array:
    if isinstance(data, np.ndarray):
        return data
    if not hasattr(data, "__len__"):
        raise TypeError(f"an array or a list is needed, got {data!r}")
    kinds = {type(x) for x in data}
    if (
        kinds <= {int, bool}
        or kinds <= {float, bool}
        or kinds <= {np.float64}
        or kinds <= {np.int64}
    ):
        array = np.asarray(data)
        if array.dtype.kind in ("fb" if {float, np.float64} & kinds else "ib"):
            return array
    if kinds <= {int, float, bool} and all(
        abs(x) <= EXACT_IN_FLOAT for x in data if type(x) is not float
    ):
        return np.asarray(data, np.float64)
    return _as_objects(data)


def _as_objects(items: Any) -> Array:
    """Return an array of objects, whatever they are; lists and tuples stay what they are."""
    return np.fromiter(items, object, len(items))


def _from_numpy(array: Array, valid: Array | None, name: str) -> Column:
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got an array of shape {array.shape}")
    kind = array.dtype.kind
    if kind in "mM":
        there = ~np.isnat(array)
        valid = there if valid is None else valid & there
        native = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        return Column(native.view(np.int64), None if valid.all() else valid, native.dtype)
    if kind == "f" and array.dtype.itemsize <= 8:
        return Column(np.ascontiguousarray(array, np.float64), valid, array.dtype)
    if kind in "ib" or (kind == "u" and array.dtype.itemsize < 8):
        return Column(np.ascontiguousarray(array, np.int64), valid, array.dtype)
    if kind == "u":
        return Column(np.ascontiguousarray(array, np.uint64), valid, array.dtype)
    if kind in "fc":
        raise TypeError(f"{name} has the type {array.dtype}, wider than a number of 64 bits")
    objects = array.astype(object)
    there = np.array([x is not None for x in objects.tolist()], np.bool_)
    valid = there if valid is None else valid & there
    return Column(objects, None if valid.all() else valid, np.dtype(object))


def _from_pandas(series: Any, name: str) -> Column:
    dtype = series.dtype
    if type(dtype).__name__ == "ArrowDtype":
        import pyarrow as pa

        return _from_arrow(pa.array(series), name)
    null = series.isna().to_numpy()
    valid = ~null if null.any() else None
    if getattr(dtype, "tz", None) is not None:
        import pyarrow as pa

        zone = pa.Array.from_pandas(series.iloc[:0]).type.tz
        plain = series.dt.tz_convert("UTC").dt.tz_localize(None)
        read = _from_numpy(plain.to_numpy(), valid, name)
        return replace(read, arrow=pa.timestamp(np.datetime_data(read.dtype)[0], zone))
    if not isinstance(dtype, np.dtype):
        numeric = getattr(dtype, "numpy_dtype", None)
        if numeric is None or numeric.kind not in "fiub":
            return _from_numpy(series.to_numpy(object), valid, name)
        return _from_numpy(series.to_numpy(numeric, na_value=numeric.type(0)), valid, name)
    return _from_numpy(series.to_numpy(), valid, name)


def _from_polars(series: Any, name: str) -> Column:
    if str(series.dtype) in NOT_OF_ARROW:
        return _from_numpy(_as_array(series.to_list()), None, name)
    return _from_arrow(series.to_arrow(), name)


def _from_arrow(data: Any, name: str) -> Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    array = data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    valid = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        array = pc.fill_null(array, 0) if valid is not None else array
    elif pa.types.is_boolean(kind):
        array = pc.fill_null(array, False) if valid is not None else array
    elif pa.types.is_date32(kind):  # Arrow would make objects of them
        array = array.view(pa.int32()).cast(pa.int64()).view(pa.duration("s"))
        days = array.fill_null(0).to_numpy().view("m8[D]").view("M8[D]")
        return replace(_from_numpy(days, valid, name), arrow=kind)
    elif pa.types.is_date64(kind):
        return replace(_from_arrow(array.cast(pa.timestamp("ms")), name), arrow=kind)
    if pa.types.is_nested(kind):
        return replace(_from_numpy(_as_objects(array.to_pylist()), valid, name), arrow=kind)
    read = _from_numpy(array.to_numpy(zero_copy_only=False), valid, name)
    plain = read.is_numeric and not (pa.types.is_timestamp(kind) and kind.tz)
    return replace(read, arrow=None if plain else _without_views(kind), came_as=kind)


def _without_views(kind: Any) -> Any:
    """Return a type of text or bytes for views of them, which many functions of Arrow do not take."""
    import pyarrow as pa

    return {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(
        kind, kind
    )


def is_frame(data: Any) -> bool:
    """Whether the data have named columns."""
    if isinstance(data, dict):
        return True
    kind = kind_of(data)
    module = sys.modules.get({"arrow": "pyarrow"}.get(kind, kind))
    frames = {"pandas": ("DataFrame",), "polars": ("DataFrame",), "arrow": ("Table", "RecordBatch")}
    return any(isinstance(data, getattr(module, frame)) for frame in frames.get(kind, ()))
