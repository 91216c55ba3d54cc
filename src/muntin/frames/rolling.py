"""Rolling windows over arrays and data frames: one result per row.

`rolling` reads what people have (NumPy, Arrow, pandas, Polars, lists), finds each row's window, lets the
fastest kernel that serves the aggregate run, and gives back the kind it was given. `rolling_plan` tells
which kernel that is, and why.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregators import ALGORITHMS
from muntin.frames.columns import Array, Column, write
from muntin.frames.request import Request, is_arg, read_request
from muntin.kernels import rolling as kernels
from muntin.kernels.build import STEPS
from muntin.kernels.ranks import roll_ranks
from muntin.kernels.spans import Spans, tick_spans

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
    out: Array | None = None,
) -> Any:
    """Aggregate a window of rows or of time behind each row.

    `size` is a number of rows, or a duration with `on` the rows' times, which never fall. Windows with
    fewer than `min_periods` values (by default `size` rows, or 1 with a duration) have no result.
    `closed` says which ends belong to a window, `center` puts the row in its middle, `by` keeps windows
    inside groups, `every` gives only every so many rows, or with a duration one result per tick, as
    (ticks, results), with pandas as a series by tick. Several columns are a tuple of arrays, or a frame
    whose columns the aggregate names. Results go into the NumPy array `out` if one is given.
    Runtime: O(rows), whatever the size.

    >>> import numpy as np
    >>> from muntin import Max, rolling
    >>> rolling(np.array([3, 1, 2, 5]), 2, Max(), min_periods=1)
    array([3, 3, 2, 5])
    >>> rolling([3, 1, 2, 5], "2 s", Max(), on=np.array([0, 1, 5, 6], "datetime64[s]"))
    array([3, 3, 2, 5])
    """
    request = read_request(values, size, aggregate, on, every, by, min_periods, closed, center)
    plan = _plan(request, algorithm, threads)
    if out is None:
        return _answer(request, plan, None)
    if not isinstance(out, np.ndarray) or out.shape != (len(request),) or request.kind != "numpy":
        raise TypeError(f"out must be a NumPy array of {len(request)} results, as the values are")
    if any(np.may_share_memory(out, column.values) for column in request.columns):
        raise ValueError("out must not be the memory of the values, which are still read")
    if request.step > 1 or request.ticks:
        raise TypeError("out takes a result for every row: leave every out")
    result = _answer(request, plan, out)
    if result is not out:
        out[:] = result
    return out


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
    return _plan(
        read_request(values, size, aggregate, **{**defaults, **options}), algorithm, threads
    )


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
        column.is_numeric for column in request.columns[: 1 if is_arg(aggregate) else None]
    )
    times = request.columns[0].dtype.kind in "mM"
    if aggregate.rank is not None and numeric and not times and algorithm == "auto":
        return Plan("ranks", True, "an order statistic: rows sorted in blocks, a bit per row", 1)
    why = _why_interpreted(request, numeric)
    if why:
        return Plan("TwoStacksLite" if algorithm == "auto" else algorithm, False, why, 1)
    open_right = request.times is not None and request.closed in ("left", "neither")
    if algorithm in STEPS and request.is_simple and request.step == 1 and not open_right:
        return Plan(algorithm, True, "asked for", 1)
    if algorithm not in ("auto", "Sba"):
        return Plan(algorithm, False, f"{algorithm} has no compiled loop for this window", 1)
    kind = (
        "a chunk per window length" if request.times is None else "a boundary where the front ends"
    )
    return Plan("Sba", True, f"associative, the whole array at hand: {kind}", workers)


def _why_interpreted(request: Request, numeric: bool) -> str:
    aggregate = request.aggregate
    if aggregate.nulls and aggregate.name != "count" and not is_arg(aggregate):
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


def _answer(request: Request, plan: Plan, out: Array | None) -> Any:
    if not len(request):
        return write(request.kind, np.empty(0), np.zeros(0, np.bool_), request.index, request.name)
    ticks = None
    if request.ticks is not None and request.times is not None:
        ticks, spans = tick_spans(request.times, request.size, request.ticks)
        values, missing = _over_spans(request, plan, spans)
    elif plan.compiled and request.is_simple and plan.algorithm != "ranks":
        values, missing = _over_rows_or_times(request, plan, out)
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


def _over_rows_or_times(request: Request, plan: Plan, out: Array | None) -> tuple[Array, Any]:
    aggregate, rows = request.aggregate, request.rows()
    times, size, closed = request.times, request.size, request.closed
    if times is None and plan.algorithm in STEPS:
        results = kernels.roll_ring(aggregate, rows, size, plan.algorithm)
    elif times is None:
        results = kernels.roll_rows(aggregate, rows, size, plan.threads, out)
    elif plan.algorithm in STEPS:
        results = kernels.roll_ring_times(aggregate, rows, times, size, closed, plan.algorithm)
    else:
        results = kernels.roll_times(aggregate, rows, times, size, closed, plan.threads)
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
    if is_arg(aggregate):
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
