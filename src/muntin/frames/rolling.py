"""Rolling windows over arrays and data frames: one result per row.

`rolling` reads what people have (NumPy, Arrow, pandas, Polars, lists), finds each row's window, lets the
fastest kernel that serves the aggregate run, and gives back the kind it was given. `rolling_plan` tells
which kernel that is, and why.
"""

import warnings
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregators import ALGORITHMS
from muntin.frames.columns import Array, Column, is_frame, kind_of, read, write
from muntin.kernels import rolling as kernels
from muntin.kernels.build import STEPS, NotCompilableError
from muntin.kernels.ranks import roll_ranks
from muntin.kernels.spans import CLOSED, Spans, row_spans, tick_spans, time_spans
from muntin.windows import is_duration, microseconds

UNITS = {"s": 1_000_000, "ms": 1_000}
SAME_TYPE = ("min", "max", "first", "last")


class InterpretedWarning(UserWarning):
    """An aggregate could not be compiled and runs interpreted, some hundred times slower."""


@dataclass(frozen=True)
class Plan:
    """Which kernel runs, and why."""

    algorithm: str
    compiled: bool
    reason: str
    threads: int

    def __str__(self) -> str:
        how = "compiled" if self.compiled else "interpreted"
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"{self.algorithm}, {how}{threads}: {self.reason}"


def rolling(
    values: Any,
    size: Any,
    aggregate: Aggregate,
    *,
    on: Any = None,
    every: Any = None,
    by: Any = None,
    min_periods: int | None = None,
    closed: str = "right",
    center: bool = False,
    algorithm: str = "auto",
    threads: int | None = None,
) -> Any:
    """Aggregate a window of rows or of time behind each row.

    `size` is a number of rows, or a duration with `on` the rows' times, which never fall. Windows with
    fewer than `min_periods` values (by default `size` rows, or 1 with a duration) have no result.
    `closed` says which ends belong to a window, `center` puts the row in its middle, `by` keeps windows
    inside groups, `every` gives only every so many rows, or with a duration one result per tick, as
    (ticks, results), with pandas as a series by tick. Several columns are a tuple of arrays, or a frame
    whose columns the aggregate names.
    Runtime: O(rows), whatever the size.

    >>> import numpy as np
    >>> from muntin import Max, rolling
    >>> rolling(np.array([3, 1, 2, 5]), 2, Max(), min_periods=1)
    array([3, 3, 2, 5])
    >>> rolling([3, 1, 2, 5], "2 s", Max(), on=np.array([0, 1, 5, 6], "datetime64[s]"))
    array([3, 3, 2, 5])
    """
    request = _read(values, size, aggregate, on, every, by, min_periods, closed, center)
    plan = _plan(request, algorithm, threads)
    return _answer(request, plan)


def rolling_plan(values: Any, size: Any, aggregate: Aggregate, **options: Any) -> Plan:
    """Return what rolling would do with the same arguments.

    >>> from muntin import Collect, rolling_plan
    >>> print(rolling_plan([1, 2, 3], 2, Collect()))
    TwoStacksLite, interpreted: 'collect' works on objects, not on numbers
    """
    algorithm, threads = options.pop("algorithm", "auto"), options.pop("threads", None)
    defaults = {
        "on": None,
        "every": None,
        "by": None,
        "min_periods": None,
        "closed": "right",
        "center": False,
    }
    unknown = set(options) - set(defaults)
    if unknown:
        raise TypeError(f"rolling_plan does not take {', '.join(sorted(unknown))}")
    return _plan(_read(values, size, aggregate, **{**defaults, **options}), algorithm, threads)


@dataclass(frozen=True)
class Request:
    """What was asked, in arrays: rows in the order of their groups, and how to answer."""

    aggregate: Aggregate
    columns: tuple[Column, ...]
    size: int
    times: Array | None
    ticks: int | None
    step: int
    first: Array | None
    order: Array | None
    min_periods: int
    closed: str
    center: bool
    kind: str
    index: Any
    name: Any
    tick_type: str = "int64"

    def __len__(self) -> int:
        return len(self.columns[0].values)

    @property
    def is_simple(self) -> bool:
        """Whether a window is the last rows, or the last time, up to each row."""
        groups = self.first is not None and self.times is None
        shifted = self.closed != "right" and self.times is None
        return not (self.center or groups or shifted or self.ticks)

    def spans(self) -> Spans:
        """Return each row's window."""
        if self.times is None:
            return row_spans(len(self), self.size, self.closed, self.center, self.first)
        return time_spans(self.times, self.size, self.closed, self.center)

    def rows(self) -> kernels.Rows:
        """Return the columns as kernels take them; the argument of ArgMin and ArgMax is a row number."""
        first = self.columns[0]
        valid = None if self.aggregate.nulls and self.aggregate.name == "count" else first.valid
        columns = [first.values]
        if _is_arg(self.aggregate):
            columns.append(np.arange(len(self)))
        else:
            for column in self.columns[1:]:
                columns.append(column.values)
                if column.valid is not None:
                    valid = column.valid if valid is None else valid & column.valid
        return kernels.Rows(tuple(columns), valid)

    def inputs(self) -> list[Any]:
        """Return the rows as the interpreted aggregate takes them."""
        objects = [column.objects() for column in self.columns]
        return objects[0] if len(objects) == 1 else list(zip(*objects, strict=True))


def _is_arg(aggregate: Aggregate) -> bool:
    return aggregate.name in ("arg_min", "arg_max")


def _read(
    values: Any,
    size: Any,
    aggregate: Aggregate,
    on: Any,
    every: Any,
    by: Any,
    min_periods: int | None,
    closed: str,
    center: bool,
) -> Request:
    if not isinstance(aggregate, Aggregate):
        raise TypeError(f"rolling needs an aggregate such as Max(), got {aggregate!r}")
    if closed not in CLOSED:
        raise ValueError(f"closed must be one of {', '.join(CLOSED)}, got {closed!r}")
    parts, kind, label, name = _columns(values, aggregate)
    columns = tuple(read(part, f"column {i}") for i, part in enumerate(parts))
    rows = len(columns[0].values)
    for i, column in enumerate(columns):
        _same_length(f"column {i}", len(column.values), rows)
    timed = is_duration(size) or on is not None
    if timed and on is None and kind == "pandas" and hasattr(label, "to_series"):
        on = label.to_series()
    if timed and on is None:
        raise TypeError(f"a window of {size!r} needs the rows' times: give on=")
    groups, order, first = None, None, None
    if by is not None:
        groups = _codes(_named(values, by), rows)
        order = np.argsort(groups, kind="stable")
        groups = groups[order]
        first = np.searchsorted(groups, groups)
        columns = tuple(column.take(order) for column in columns)
    times, stamps = None, None
    if timed:
        stamps = read(_named(values, on), "on")
        size = _scaled(size, stamps)
        times = _times(stamps, size, rows, order, groups)
    length = _length(size, timed)
    least = min_periods if min_periods is not None else (1 if timed else length)
    if least < 0 or (not timed and least > length):
        raise ValueError(f"min_periods must be between 0 and the size of {length}, got {least}")
    if every is not None and by is not None:
        raise ValueError("every and by cannot be combined here; a Query has windows per key")
    step, ticks = 1, None
    if every is not None and timed:
        assert stamps is not None
        ticks = _scaled(every, stamps)
        if ticks <= 0:
            raise ValueError(f"every must be a positive duration, got {every!r}")
    elif every is not None:
        step = index(every)
        if step < 1:
            raise ValueError(f"every must be 1 row or more, got {every}")
    columns = tuple(columns)
    return Request(
        replace(aggregate, columns=()), columns, length, times, ticks, step, first, order, least, closed,
        center, kind, label, name, "int64" if stamps is None else _tick_type(stamps),
    )  # fmt: skip


def _columns(values: Any, aggregate: Aggregate) -> tuple[list[Any], str, Any, Any]:
    """Return the columns that the aggregate takes, the kind of data, and a pandas index and name."""
    kind = kind_of(values)
    if is_frame(values):
        if not aggregate.columns:
            raise TypeError(
                f"{aggregate.name} over a frame must name its columns, as in Max('watts')"
            )
        try:
            parts = [values[column] for column in aggregate.columns]
        except (KeyError, IndexError) as error:
            raise KeyError(f"no column {error} in the frame") from error
        kind = kind_of(parts[0]) if isinstance(values, dict) else kind
    elif isinstance(values, tuple) and values and not np.isscalar(values[0]):
        parts = list(values)
        kind = kind_of(parts[0])
    else:
        parts = [values]
    return parts, kind, getattr(parts[0], "index", None), getattr(parts[0], "name", None)


def _named(values: Any, column: Any) -> Any:
    """Return a column that was given by its name or as it is."""
    if isinstance(column, str):
        if not is_frame(values):
            raise TypeError(f"{column!r} names a column, but the values are no frame")
        return values[column]
    return column


def _same_length(what: str, length: int, rows: int) -> None:
    if length != rows:
        raise ValueError(f"{what} has {length} rows, the values have {rows}")


def _length(size: Any, timed: bool) -> int:
    try:
        length = index(size)
    except TypeError:
        raise TypeError(
            f"a window's size is a number of rows or a duration, got {size!r}"
        ) from None
    if length <= 0:
        what = "duration" if timed else "number of rows"
        raise ValueError(f"a window's size must be a positive {what}, got {size!r}")
    return length


def _codes(by: Any, rows: int) -> Array:
    column = read(by, "by")
    _same_length("by", len(column.values), rows)
    if column.values.dtype.kind == "O":
        seen: dict[Any, int] = {}
        return np.array([seen.setdefault(x, len(seen)) for x in column.objects()], np.int64)
    values = column.values
    codes = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return codes if column.valid is None else np.where(column.valid, codes, -1)


def _unit(dtype: np.dtype[Any]) -> str:
    return np.datetime_data(dtype)[0] if dtype.kind in "mM" else ""


def _tick_type(stamps: Column) -> str:
    unit = _unit(stamps.dtype)
    return f"datetime64[{'ns' if unit == 'ns' else 'us'}]" if unit else "int64"


def _scaled(duration: Any, stamps: Column) -> int:
    """Return a duration in the unit of the times (microseconds for coarse ones)."""
    us = microseconds(duration)
    return us * 1000 if _unit(stamps.dtype) == "ns" else us


def _times(
    stamps: Column, size: int, rows: int, order: Array | None, groups: Array | None
) -> Array:
    """Return the rows' times as integers, which never fall."""
    _same_length("on", len(stamps.values), rows)
    if not stamps.is_numeric or stamps.values.dtype.kind == "f":
        raise TypeError(f"times are datetimes or whole numbers, got {stamps.dtype}")
    if stamps.valid is not None:
        raise ValueError(f"the time of row {int(np.argmin(stamps.valid))} is null")
    unit = _unit(stamps.dtype)
    if unit not in ("", "s", "ms", "us", "ns"):
        raise TypeError(f"times in units of {unit} are too coarse; convert them to datetime64[us]")
    times = stamps.values if stamps.values.dtype == np.int64 else stamps.values.astype(np.int64)
    if unit in ("s", "ms"):
        times = times * UNITS[unit]
    if order is not None:
        times = times[order]
    falls = times[1:] < times[:-1]
    if groups is not None:
        falls &= groups[1:] == groups[:-1]
    if falls.any():
        at = int(np.argmax(falls)) + 1
        row = at if order is None else int(order[at])
        raise ValueError(
            f"times must not fall: row {row} is at {times[at]}, after {times[at - 1]}; "
            "sort the rows by time"
        )
    if groups is not None:
        times = _apart(times, groups, size)
    return times


def _apart(times: Array, groups: Array, size: int) -> Array:
    """Move each group's times beyond all before it, so that no window reaches into another group."""
    groups = groups - groups.min(initial=0)
    low, high = int(times.min(initial=0)), int(times.max(initial=0))
    width = high - low + 2 * size + 2
    if width * (int(groups.max(initial=0)) + 1) >= 2**62:
        raise ValueError(
            "groups and times span too much for one pass; roll over each group by itself"
        )
    moved: Array = times - low + groups * width
    return moved


def _plan(request: Request, algorithm: str, threads: int | None) -> Plan:
    aggregate = request.aggregate
    workers = kernels.threads_for(len(request), threads)
    if algorithm != "auto" and algorithm not in ALGORITHMS:
        raise ValueError(
            f"algorithm must be auto or one of {', '.join(ALGORITHMS)}, got {algorithm!r}"
        )
    if algorithm != "auto" and ALGORITHMS[algorithm].missing(aggregate):
        ALGORITHMS[algorithm](aggregate)  # refuses, and says what would serve
    numeric = all(
        column.is_numeric for column in request.columns[: 1 if _is_arg(aggregate) else None]
    )
    if aggregate.rank is not None and numeric and algorithm == "auto":
        return Plan("ranks", True, "an order statistic: rows sorted in blocks, a bit per row", 1)
    why = _why_interpreted(request, numeric)
    if why:
        return Plan("TwoStacksLite" if algorithm == "auto" else algorithm, False, why, 1)
    if algorithm in STEPS and request.is_simple and request.times is None and request.step == 1:
        return Plan(algorithm, True, "asked for", 1)
    if algorithm not in ("auto", "Sba"):
        return Plan(algorithm, False, f"{algorithm} has no compiled loop for this window", 1)
    kind = (
        "a chunk per window length" if request.times is None else "a boundary where the front ends"
    )
    return Plan("Sba", True, f"associative, the whole array at hand: {kind}", workers)


def _why_interpreted(request: Request, numeric: bool) -> str:
    aggregate = request.aggregate
    if aggregate.nulls and aggregate.name != "count" and not _is_arg(aggregate):
        return f"{aggregate.name!r} takes nulls along"
    if not numeric:
        return "the values are objects, not numbers"
    dtype = request.columns[0].dtype
    if dtype.kind in "mM" and not _keeps_times(aggregate.name, dtype):
        return f"{aggregate.name!r} of {dtype} is left to Python"
    return kernels.why_not_compiled(aggregate, request.rows())


def _keeps_times(name: str, dtype: np.dtype[Any]) -> bool:
    return name in (*SAME_TYPE, "count", "arg_min", "arg_max") or (
        name == "sum" and dtype.kind == "m"
    )


def _answer(request: Request, plan: Plan) -> Any:
    if not len(request):
        return write(request.kind, np.empty(0), np.zeros(0, np.bool_), request.index, request.name)
    ticks = None
    if request.ticks is not None and request.times is not None:
        ticks, spans = tick_spans(request.times, request.size, request.ticks)
        values, missing = _over_spans(request, plan, spans)
    elif plan.compiled and request.is_simple and plan.algorithm != "ranks":
        values, missing = _over_rows_or_times(request, plan)
        if request.step > 1:
            mask = np.zeros(len(values), np.bool_)
            mask[missing] = True
            values, missing = values[:: request.step], mask[:: request.step]
    else:
        spans = request.spans()
        values, missing = _over_spans(
            request, plan, spans.every(request.step) if request.step > 1 else spans
        )
    label = request.index
    if request.order is not None:
        values, missing = _unsorted(values, missing, request.order)
    if ticks is not None:
        return _ticked(request, ticks, values, missing)
    label = label[:: request.step] if label is not None and request.step > 1 else label
    return write(request.kind, values, missing, label, request.name)


def _over_rows_or_times(request: Request, plan: Plan) -> tuple[Array, Any]:
    aggregate, rows = request.aggregate, request.rows()
    if plan.algorithm in STEPS:
        results = kernels.roll_ring(aggregate, rows, request.size, plan.algorithm)
    elif request.times is None:
        results = kernels.roll_rows(aggregate, rows, request.size, plan.threads)
    else:
        results = kernels.roll_times(
            aggregate, rows, request.times, request.size, request.closed, plan.threads
        )
    return _shaped(request, results)


def _over_spans(request: Request, plan: Plan, spans: Spans) -> tuple[Array, Any]:
    least = max(request.min_periods, 1)
    if plan.algorithm == "ranks":
        column = request.columns[0]
        values, counts = roll_ranks(request.aggregate, column.values, column.valid, spans)
        return _typed(request, values), counts < least
    if plan.compiled:
        return _shaped(
            request, kernels.roll_spans(request.aggregate, request.rows(), spans, plan.threads)
        )
    if request.aggregate.kernel is None and not request.aggregate.holistic and len(request) > 1000:
        warnings.warn(
            f"{request.aggregate.name}: interpreted, because {plan.reason}",
            InterpretedWarning,
            stacklevel=4,
        )
    return _interpreted(request, plan, spans)


def _interpreted(request: Request, plan: Plan, spans: Spans) -> tuple[Array, Any]:
    inputs = request.inputs()
    results = kernels.roll_objects(request.aggregate, inputs, spans, plan.algorithm)
    there = np.array([x is not None for x in inputs], np.int64)
    sums = np.concatenate(([0], np.cumsum(there)))
    missing = sums[spans.ends] - sums[spans.starts] < request.min_periods
    missing |= np.array([result is None for result in results])
    values = np.empty(len(results), object)
    values[:] = results
    kinds = {type(result) for result in values[~missing]}
    if kinds and kinds <= {int, float}:
        values[missing] = 0
        return values.astype(np.int64 if kinds == {int} else np.float64), missing
    values[missing] = None
    return values, missing


def _shaped(request: Request, results: kernels.Results) -> tuple[Array, Any]:
    """Return one array of results, and which of them are missing."""
    missing = results.missing(max(request.min_periods, 1))
    if request.min_periods == 0 and request.aggregate.name == "count":
        results.arrays[0][missing] = 0
        missing = slice(0, 0)
    if len(results.arrays) == 1:
        return _typed(request, results.arrays[0]), missing
    values = np.empty(len(results.arrays[0]), object)
    values[:] = list(zip(*(array.tolist() for array in results.arrays), strict=True))
    values[missing] = None
    return values, missing


def _typed(request: Request, values: Array) -> Array:
    """Give results the type of the values where they are values."""
    aggregate, column = request.aggregate, request.columns[0]
    if _is_arg(aggregate):
        return _arguments(request.columns[1].take(np.clip(values, 0, len(request) - 1)))
    if column.dtype.kind in "mM" and aggregate.name != "count":
        return values.view(column.dtype)
    if aggregate.name in SAME_TYPE and column.dtype != values.dtype:
        return values.astype(column.dtype)
    return values


def _arguments(column: Column) -> Array:
    """Return the arguments of ArgMin or ArgMax in the type they came with."""
    if column.dtype.kind in "mM":
        return column.values.view(column.dtype)
    if column.dtype.kind in "fiub" and column.valid is None:
        values: Array = column.values.astype(column.dtype)
        return values
    arguments = np.empty(len(column.values), object)
    arguments[:] = column.objects()
    return arguments


def _unsorted(values: Array, missing: Any, order: Array) -> tuple[Array, Array]:
    mask = np.zeros(len(values), np.bool_)
    mask[missing] = True
    back_values, back_mask = np.empty_like(values), np.empty_like(mask)
    back_values[order], back_mask[order] = values, mask
    return back_values, back_mask


def _ticked(request: Request, ticks: Array, values: Array, missing: Any) -> Any:
    ends = ticks.view(request.tick_type)
    if request.kind == "pandas":
        return write("pandas", values, missing, ends, request.name)
    return ends, write(request.kind, values, missing)


__all__ = ["InterpretedWarning", "NotCompilableError", "Plan", "rolling", "rolling_plan"]
