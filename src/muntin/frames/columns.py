"""Columns of people's data as NumPy arrays, and results in the kind that came in.

A column becomes numbers (float64, int64 or uint64; times as integers) with a mask of the rows that are
not null, or objects if it is not made of numbers. NaN is a value in NumPy, Arrow and Polars and a null
in pandas, as each of them has it.
"""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
EXACT_IN_FLOAT = 2**53


@dataclass(frozen=True)
class Column:
    """Values, which of them are not null (all, if None), and the NumPy type they came with."""

    values: Array
    valid: Array | None
    dtype: np.dtype[Any]

    @property
    def is_numeric(self) -> bool:
        """Whether the values are numbers that kernels can work on."""
        return self.values.dtype.kind in "fiu"

    def take(self, order: Any) -> "Column":
        """Return the column with its rows in another order."""
        valid = None if self.valid is None else self.valid[order]
        return Column(self.values[order], valid, self.dtype)

    def objects(self) -> list[Any]:
        """Return the values as Python objects, null as None."""
        values = self.values.view(self.dtype) if self.dtype.kind in "mM" else self.values
        objects: list[Any] = values.astype(
            self.dtype if self.dtype.kind == "b" else values.dtype
        ).tolist()
        if self.valid is None:
            return objects
        return [x if ok else None for x, ok in zip(objects, self.valid.tolist(), strict=True)]


def kind_of(data: Any) -> str:
    """Return "pandas", "polars", "arrow" or "numpy"."""
    module = type(data).__module__.split(".")[0]
    return {"pandas": "pandas", "polars": "polars", "pyarrow": "arrow"}.get(module, "numpy")


def read(data: Any, name: str) -> Column:
    """Read one column; `name` is what an error calls it."""
    kind = kind_of(data)
    if kind == "pandas":
        return _from_pandas(data)
    if kind == "polars":
        valid = None if not data.null_count() else data.is_not_null().to_numpy()
        filled = (
            data
            if valid is None
            else data.fill_null(strategy="zero")
            if data.dtype.is_numeric()
            else data
        )
        return _from_numpy(filled.to_numpy(), valid, name)
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
    if {type(x) for x in data} <= {int, float, bool, np.float64, np.int64}:
        return np.asarray(data)
    objects = np.empty(len(data), object)
    objects[:] = list(data)
    return objects


def _from_numpy(array: Array, valid: Array | None, name: str) -> Column:
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got an array of shape {array.shape}")
    kind = array.dtype.kind
    if kind in "mM":
        there = ~np.isnat(array)
        valid = there if valid is None else valid & there
        return Column(array.view(np.int64), None if valid.all() else valid, array.dtype)
    if kind == "f":
        return Column(np.ascontiguousarray(array, np.float64), valid, array.dtype)
    if kind in "ib" or (kind == "u" and array.dtype.itemsize < 8):
        return Column(np.ascontiguousarray(array, np.int64), valid, array.dtype)
    if kind == "u":
        return Column(np.ascontiguousarray(array), valid, array.dtype)
    objects = array.astype(object)
    there = np.array([x is not None for x in objects.tolist()], np.bool_)
    valid = there if valid is None else valid & there
    return Column(objects, None if valid.all() else valid, np.dtype(object))


def _from_pandas(series: Any) -> Column:
    null = series.isna().to_numpy()
    valid = ~null if null.any() else None
    dtype = series.dtype
    if getattr(dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        dtype = series.dtype
    if not isinstance(dtype, np.dtype):
        numeric = getattr(dtype, "numpy_dtype", None)
        if numeric is None or numeric.kind not in "fiub":
            return _from_numpy(series.to_numpy(object), valid, str(series.name))
        return _from_numpy(series.fillna(0).to_numpy(numeric), valid, str(series.name))
    return _from_numpy(series.to_numpy(), valid, str(series.name))


def _from_arrow(data: Any, name: str) -> Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    array = data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data
    valid = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        array = pc.fill_null(array, 0) if valid is not None else array
    elif pa.types.is_boolean(array.type):
        array = pc.fill_null(array, False) if valid is not None else array
    return _from_numpy(array.to_numpy(zero_copy_only=False), valid, name)


def write(kind: str, values: Array, missing: Any, index: Any = None, name: Any = None) -> Any:
    """Return results in the kind that came in; `missing` (a slice or a mask) selects the null ones."""
    none = missing.start >= missing.stop if isinstance(missing, slice) else not missing.any()
    if not none and values.dtype.kind == "O":
        values[missing] = None
    return _WRITERS[kind](values, None if none else missing, index, name)


def _write_numpy(values: Array, missing: Any, _index: Any, _name: Any) -> Array:
    if missing is not None:
        values = _as_floats(values, missing) if values.dtype.kind in "iu" else values
        nothing = {"f": np.nan, "m": np.timedelta64("NaT"), "M": np.datetime64("NaT")}
        values[missing] = nothing.get(values.dtype.kind)
    return values


def _mask(values: Array, missing: Any) -> Array:
    mask = np.zeros(len(values), np.bool_)
    mask[missing] = True
    return mask


def _largest(values: Array, missing: Any) -> int:
    return int(np.abs(values[~_mask(values, missing)]).max(initial=0))


def _as_floats(values: Array, missing: Any) -> Array:
    largest = _largest(values, missing)
    if largest > EXACT_IN_FLOAT:
        raise ValueError(
            f"some windows have no result and {largest} is not exact as a float: give min_periods=1, or "
            "pandas, Polars or Arrow data, which have nulls beside integers"
        )
    return values.astype(np.float64)


def _write_pandas(values: Array, missing: Any, index: Any, name: Any) -> Any:
    pandas = importlib.import_module("pandas")
    whole = missing is not None and values.dtype.kind in "iu"
    if whole and _largest(values, missing) > EXACT_IN_FLOAT:
        exact = pandas.Series(pandas.array(values, dtype="Int64"), index, name=name)
        return exact.mask(_mask(values, missing))
    return pandas.Series(_write_numpy(values, missing, None, None), index, name=name)


def _write_polars(values: Array, missing: Any, _index: Any, name: Any) -> Any:
    polars = importlib.import_module("polars")
    if values.dtype.kind == "O":
        return polars.Series(name or "", values.tolist(), strict=False)
    series = polars.Series(name or "", values)
    if missing is None:
        return series
    there = polars.lit(polars.Series(~_mask(values, missing)))
    return polars.select(polars.when(there).then(series)).to_series().alias(name or "")


def _write_arrow(values: Array, missing: Any, _index: Any, _name: Any) -> Any:
    pyarrow = importlib.import_module("pyarrow")
    if values.dtype.kind == "O":
        return pyarrow.array(values.tolist())
    return pyarrow.array(values, mask=None if missing is None else _mask(values, missing))


_WRITERS: dict[str, Callable[[Array, Any, Any, Any], Any]] = {
    "numpy": _write_numpy,
    "pandas": _write_pandas,
    "polars": _write_polars,
    "arrow": _write_arrow,
}


def is_frame(data: Any) -> bool:
    """Whether the data have named columns."""
    if isinstance(data, dict):
        return True
    kind = kind_of(data)
    module = sys.modules.get({"arrow": "pyarrow"}.get(kind, kind))
    frame = {"pandas": "DataFrame", "polars": "DataFrame", "arrow": "Table"}.get(kind)
    return frame is not None and isinstance(data, getattr(module, frame))
