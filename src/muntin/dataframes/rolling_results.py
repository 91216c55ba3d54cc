"""Results of rolling windows in the kind of data that came in, and in the type that they should have."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregates.sums import EXACT_IN_FLOAT
from muntin.dataframes.arrow_results import (
    DoesNotFitError,
    as_numpy,
    objects_as_arrow,
    part_type,
    products_as_arrow,
    results_as_arrow,
)
from muntin.dataframes.column_types import ColumnType, arrow_result, numpy_result
from muntin.dataframes.columns import NOT_OF_ARROW, Array, Column


@dataclass(frozen=True)
class Answer:
    """Results as kernels give them (moments as whole numbers), and which of them are missing.

    There is an array for each part of a result, or one array of objects.
    """

    arrays: tuple[Array, ...]
    missing: Any  # a mask, or a slice

    @property
    def none_missing(self) -> bool:
        """Whether every window has a result."""
        if isinstance(self.missing, slice):
            return bool(self.missing.start >= self.missing.stop)
        return not self.missing.any()

    def mask(self) -> Array:
        """Return which results are missing, as a mask."""
        mask = np.zeros(len(self.arrays[0]), np.bool_)
        mask[self.missing] = True
        return mask

    def take(self, places: Any) -> "Answer":
        """Return the results at some places, in that order."""
        missing = slice(0, 0) if self.none_missing else self.mask().take(places)
        return Answer(tuple(array.take(places) for array in self.arrays), missing)

    def without_overflow(self, aggregate: Aggregate, name_of: Callable[[int], str]) -> "Answer":
        """Take off the last array, which says what does not fit: an error, or a missing result."""
        *arrays, misfits = self.arrays
        bad = misfits & ~self.mask()
        if not bad.any():
            return replace(self, arrays=tuple(arrays))
        if aggregate.overflow == "error":
            raise too_large(aggregate, name_of(int(np.argmax(bad))))
        return Answer(tuple(arrays), self.mask() | bad)


def too_large(aggregate: Aggregate, window: str, kind: object = "64 bits") -> OverflowError:
    """Return the error of a result that does not fit its type."""
    return OverflowError(
        f"{aggregate.name} of {window} does not fit {kind}: convert the values to floats"
        + (
            f", or give {aggregate.name}(overflow='null')"
            if aggregate.result in ("sum", "product", "increase")
            else ""
        )
    )


@dataclass(frozen=True)
class Labels:
    """What results are written as: the kind of data, the index and the name of a series.

    `sources` are the Arrow types of the columns that parts of a result come from, if they say which.
    """

    kind: str
    index: Any = None
    name: Any = None
    sources: tuple[Any, ...] = ()


def write(answer: Answer, aggregate: Aggregate, column: Column | None, labels: Labels) -> Any:
    """Return results in the kind that came in; `column` is the one whose type they may have."""
    rules = aggregate.result if isinstance(aggregate.result, tuple) else (aggregate.result,)
    return _WRITERS[labels.kind](answer, rules, aggregate, column, labels)


Rules = tuple[str, ...]


def _write_numpy(
    answer: Answer, rules: Rules, aggregate: Aggregate, column: Column | None, _labels: Labels
) -> Array:
    if len(answer.arrays) > 1:
        return _tuples(answer, rules, column)
    (values,) = answer.arrays
    dtype = None if column is None else numpy_result(rules[0], column.dtype)
    if values.dtype.kind == "O":
        return _from_objects(answer, dtype, aggregate, column)
    values = as_numpy(values, dtype)
    if answer.none_missing:
        return values
    if values.dtype.kind == "b":
        values = values.astype(object)
    if values.dtype.kind in "iu":
        values = _as_floats(values, answer)
    nothing = {"f": np.nan, "m": np.timedelta64("NaT"), "M": np.datetime64("NaT")}
    values[answer.missing] = nothing.get(values.dtype.kind)
    return values


def _from_objects(
    answer: Answer, dtype: np.dtype[Any] | None, aggregate: Aggregate, column: Column | None
) -> Array:
    """Return objects in NumPy's type for them, where all have one and none loses anything."""
    (values,) = answer.arrays
    mask = answer.mask()
    values = values.copy()
    values[mask] = None
    if dtype is not None and dtype.kind in "mM":
        return np.array([np.datetime64("NaT") if x is None else x for x in values], dtype)
    there = values[~mask].tolist()
    kinds = {type(x) for x in there}
    if dtype is not None and dtype.kind in "bf" and kinds and not mask.any():
        return np.array(there, dtype)
    if kinds == {int}:
        if dtype is not None and dtype.kind in "iu":
            return _wider(values, mask, dtype, aggregate)
        if all(-(2**63) <= x < 2**63 for x in there):
            numbers = np.zeros(len(values), np.int64)
            numbers[~mask] = there
            return numbers if not mask.any() else _with_nan(numbers, answer)
        if column is not None and column.is_numeric:
            return _wider(values, mask, dtype, aggregate)
    if (
        kinds
        and kinds <= {int, float}
        and all(abs(x) <= EXACT_IN_FLOAT for x in there if type(x) is int)
    ):
        numbers = np.full(len(values), np.nan)
        numbers[~mask] = there
        return numbers
    return values


def _with_nan(numbers: Array, answer: Answer) -> Array:
    floats = _as_floats(numbers, answer)
    floats[answer.missing] = np.nan
    return floats


def _wider(values: Array, mask: Array, dtype: np.dtype[Any] | None, aggregate: Aggregate) -> Array:
    """Return whole numbers of which some do not fit 64 bits with a sign."""
    limits = np.iinfo(dtype if dtype is not None and dtype.kind in "iu" else np.int64)
    bad = np.array([x is not None and not limits.min <= x <= limits.max for x in values])
    if bad.any() and aggregate.overflow == "error":
        raise too_large(aggregate, f"window {int(np.argmax(bad))}")
    numbers = np.zeros(len(values), limits.dtype)
    numbers[~(mask | bad)] = values[~(mask | bad)].tolist()
    answer = Answer((numbers,), mask | bad)
    return numbers if answer.none_missing else _with_nan(numbers, answer)


def _tuples(answer: Answer, rules: Rules, column: Column | None) -> Array:
    """Return results of several parts as tuples."""
    parts = []
    for rule, array in zip((*rules, *[""] * len(answer.arrays)), answer.arrays, strict=False):
        dtype = None if column is None else numpy_result(rule, column.dtype)
        typed = as_numpy(array, dtype)
        is_value = column is not None and rule == "value" and typed.dtype.kind in "mM"
        raw = typed.view(np.int64) if is_value else typed
        parts.append(
            replace(column, values=raw, valid=None).objects()
            if is_value and column is not None
            else typed.tolist()
        )
    values = np.empty(len(answer.arrays[0]), object)
    values[:] = list(zip(*parts, strict=True))
    values[answer.missing] = None
    return values


def _largest(values: Array, answer: Answer) -> int:
    there = values[~answer.mask()]
    return max(abs(int(there.max(initial=0))), abs(int(there.min(initial=0))))


def _as_floats(values: Array, answer: Answer) -> Array:
    largest = _largest(values, answer)
    if largest > EXACT_IN_FLOAT:
        raise ValueError(
            f"some windows have no result and {largest} is not exact as a float: give min_periods=1, or "
            "pandas, Polars or Arrow data, which have nulls beside integers"
        )
    return values.astype(np.float64)


def _write_pandas(
    answer: Answer, rules: Rules, aggregate: Aggregate, column: Column | None, labels: Labels
) -> Any:
    pandas = importlib.import_module("pandas")
    came_as = None if column is None else column.came_as
    if type(came_as).__name__ == "ArrowDtype":
        values = pandas.arrays.ArrowExtensionArray(_arrow(answer, rules, aggregate, column, labels))
    elif column is None or len(answer.arrays) > 1:
        values = _write_numpy(answer, rules, aggregate, column, labels)
    else:
        values = _nullable(pandas, answer, rules, column)
        if values is None:
            values = _write_numpy(answer, rules, aggregate, column, labels)
    series = pandas.Series(values, labels.index, name=labels.name)
    zone = getattr(came_as, "tz", None)
    if zone is None or series.dtype.kind != "M":
        return series
    return series.dt.tz_localize("UTC").dt.tz_convert(zone)


def _nullable(pandas: Any, answer: Answer, rules: Rules, column: Column) -> Any:
    """Return results in a type of pandas' own that has nulls, if the column came in such a type.

    Whole numbers that a float cannot hold have such a type too where some results are missing.
    """
    (values,) = answer.arrays
    if values.dtype.kind not in "fiub":
        return None
    typed = as_numpy(values, numpy_result(rules[0], column.dtype))
    names = {"f": "Float64", "i": "Int64", "u": "UInt64", "b": "boolean"}
    came_as, kind = column.came_as, names.get(typed.dtype.kind)
    numeric = getattr(came_as, "numpy_dtype", None)
    if numeric is None or numeric.kind not in "fiub" or isinstance(came_as, np.dtype):
        exact = typed.dtype.kind not in "iu" or _largest(typed, answer) <= EXACT_IN_FLOAT
        if answer.none_missing or exact:
            return None
    elif rules[0] == "value":
        kind = came_as
    array = pandas.array(typed, dtype=kind)
    array[answer.mask()] = pandas.NA
    return array


def _write_polars(
    answer: Answer, rules: Rules, aggregate: Aggregate, column: Column | None, labels: Labels
) -> Any:
    polars = importlib.import_module("polars")
    if column is not None and str(column.came_as) in NOT_OF_ARROW:
        values = _write_numpy(answer, rules, aggregate, column, labels)
        return polars.Series(labels.name or "", values.tolist(), strict=False)
    series = polars.Series(labels.name or "", _arrow(answer, rules, aggregate, column, labels))
    same = column is not None and rules == ("value",) and column.came_as is not None
    return series.cast(column.came_as) if same and column is not None else series


def _write_arrow(
    answer: Answer, rules: Rules, aggregate: Aggregate, column: Column | None, labels: Labels
) -> Any:
    return _arrow(answer, rules, aggregate, column, labels)


def _arrow(
    answer: Answer, rules: Rules, aggregate: Aggregate, column: Column | None, labels: Labels
) -> Any:
    """Return results as an Arrow array; those of several parts are lists if all have one type."""
    pyarrow = importlib.import_module("pyarrow")
    source = None if column is None else ColumnType.of(column).as_arrow()
    mask = None if answer.none_missing else answer.mask()
    if answer.arrays[0].dtype.kind == "O":
        parts = _objects(answer, rules, aggregate, labels.sources or (source,) * len(rules))
    else:
        pairs = zip((*rules, *[""] * len(answer.arrays)), answer.arrays, strict=False)
        parts = [results_as_arrow(rule, array, mask, source) for rule, array in pairs]
    if len(parts) == 1:
        return parts[0]
    null = None if mask is None else pyarrow.array(mask)
    if len({part.type for part in parts}) == 1:
        flat = pyarrow.concat_arrays(parts)
        places = np.arange(len(flat)).reshape(len(parts), -1).T.ravel()
        offsets = np.arange(0, len(flat) + 1, len(parts), dtype=np.int32)
        return pyarrow.ListArray.from_arrays(offsets, flat.take(places), mask=null)
    names = aggregate.results or tuple(f"_{i + 1}" for i in range(len(parts)))
    return pyarrow.StructArray.from_arrays(parts, list(names), mask=null)


def _objects(
    answer: Answer, rules: Rules, aggregate: Aggregate, sources: tuple[Any, ...]
) -> list[Any]:
    """Return results that are objects as Arrow arrays, one for each part."""
    items = answer.arrays[0].tolist()
    for i in np.flatnonzero(answer.mask()).tolist():
        items[i] = None
    parts = [items]
    if aggregate.parts:
        kinds = [part_type(part, sources[0]) for part in aggregate.parts]
        return [_checked(aggregate, lambda: products_as_arrow(items, aggregate, kinds))]
    kinds = [arrow_result(rule, source) for rule, source in zip(rules, sources, strict=True)]
    if aggregate.gives_rows and len(rules) > 1:
        named = list(zip(aggregate.results, kinds, strict=True))
        pyarrow = importlib.import_module("pyarrow")
        kinds = [pyarrow.list_(pyarrow.struct(named))]
        parts = [
            [x and [dict(zip(aggregate.results, row, strict=True)) for row in x] for x in items]
        ]
    elif len(rules) > 1:
        parts = [[x if x is None else x[i] for x in items] for i in range(len(rules))]
    overflow = aggregate.overflow
    arrays: list[Any] = _checked(
        aggregate,
        lambda: [objects_as_arrow(p, k, overflow) for k, p in zip(kinds, parts, strict=True)],
    )
    return arrays


def _checked(aggregate: Aggregate, written: Callable[[], Any]) -> Any:
    """Return what is written, or name the window whose result does not fit."""
    try:
        return written()
    except DoesNotFitError as error:
        raise too_large(aggregate, f"window {error.row}", error.kind) from error


def write_ticks(ticks: Array, stamps: Column, kind: str) -> Any:
    """Return the ends of windows in the type of the times, or in microseconds if that is too coarse."""
    if stamps.dtype.kind != "M":
        return ticks
    unit = np.datetime_data(stamps.dtype)[0]
    fine = ticks.view("M8[ns]" if unit == "ns" else "M8[us]")
    coarse = fine.astype(stamps.dtype)
    ends = coarse if (coarse == fine).all() else fine
    zone = getattr(stamps.arrow, "tz", None)
    if kind == "pandas":
        pandas = importlib.import_module("pandas")
        index = pandas.DatetimeIndex(ends)
        return index if zone is None else index.tz_localize("UTC").tz_convert(zone)
    if zone is None:
        return ends
    pyarrow = importlib.import_module("pyarrow")
    array = pyarrow.array(ends)
    typed = array.cast(pyarrow.timestamp(array.type.unit, zone))
    return importlib.import_module("polars").Series(typed) if kind == "polars" else typed


_WRITERS: dict[str, Callable[..., Any]] = {
    "numpy": _write_numpy,
    "pandas": _write_pandas,
    "polars": _write_polars,
    "arrow": _write_arrow,
}
