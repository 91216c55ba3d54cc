"""Rolling windows over arrays and data frames: one result per row.

`rolling` reads what people have (NumPy, Arrow, pandas, Polars, lists), finds each row's window, lets the
fastest kernel that serves the aggregate run, and gives back the kind it was given. `rolling_plan` tells
which kernel that is, and why.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregators import ALGORITHMS
from muntin.dataframes.columns import Array
from muntin.dataframes.rolling_request import Request, read_request
from muntin.dataframes.rolling_results import Answer, Labels, write, write_ticks
from muntin.kernels import rolling_columns as kernels
from muntin.kernels.codegen.loop_source import STEPS
from muntin.kernels.order_statistics import roll_ranks
from muntin.kernels.spans import Spans, tick_spans


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
    inside groups, `every` gives one result per `every` rows, or with a duration one per tick, as
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
    numeric = all(column.is_numeric for column in request.columns[: 1 if aggregate.picks else None])
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
    if aggregate.nulls and not (aggregate.counts_rows or aggregate.picks):
        return f"{aggregate.name!r} takes nulls along"
    if not numeric:
        return "the values are objects, not numbers"
    dtype = request.columns[0].dtype
    if dtype.kind in "mM" and aggregate.kernel is None:
        return f"{aggregate.name!r} of {dtype} is left to Python"
    return kernels.why_not_compiled(aggregate, request.rows())


def _answer(request: Request, plan: Plan, out: Array | None) -> Any:
    """Return the results; of whole numbers that compiled functions cannot hold, interpreted ones."""
    try:
        return _answered(request, plan, out)
    except OverflowError:
        if not plan.compiled or request.aggregate.kernel is not None:
            raise
    return _answered(request, replace(plan, algorithm="TwoStacksLite", compiled=False), out)


def _answered(request: Request, plan: Plan, out: Array | None) -> Any:
    labels = Labels(request.kind, request.index, request.name, request.source_types)
    column = request.result_column
    if not len(request):
        nothing = Answer((np.empty(0),), np.zeros(0, np.bool_))
        return write(nothing, replace(request.aggregate, result=""), None, labels)
    ticks = None
    if request.ticks is not None and request.times is not None:
        ticks, spans = tick_spans(request.times, request.size, request.ticks)
        answer = _over_spans(request, plan, spans)
    elif plan.compiled and request.is_simple and plan.algorithm != "ranks":
        answer = _over_rows_or_times(request, plan, out)
        answer = answer.every(request.step) if request.step > 1 else answer
    else:
        spans = request.spans()
        answer = _over_spans(
            request, plan, spans.every(request.step) if request.step > 1 else spans
        )
    if request.order is not None:
        answer = answer.put_back(request.order)
    if ticks is not None:
        return _ticked(request, ticks, answer)
    if labels.index is not None and request.step > 1:
        labels = replace(labels, index=labels.index[:: request.step])
    return write(answer, request.aggregate, column, labels)


def _over_rows_or_times(request: Request, plan: Plan, out: Array | None) -> Answer:
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


def _over_spans(request: Request, plan: Plan, spans: Spans) -> Answer:
    least = max(request.min_periods, 1)
    if plan.algorithm == "ranks":
        column = request.columns[0]
        values, counts = roll_ranks(request.aggregate, column.values, column.valid, spans)
        return Answer((values,), counts < least)
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


def _interpreted(request: Request, plan: Plan, spans: Spans) -> Answer:
    inputs = request.inputs()
    results = kernels.roll_objects(request.aggregate, inputs, spans, plan.algorithm)
    counts_rows = request.aggregate.counts_rows
    if request.aggregate.picks and len(request.columns) > 1:
        first = [row[0] for row in inputs]
    else:
        first = inputs
    there = np.array([counts_rows or x is not None for x in first], np.int64)
    sums = np.concatenate(([0], np.cumsum(there)))
    missing = sums[spans.ends] - sums[spans.starts] < request.min_periods
    missing |= np.array([result is None for result in results])
    values = np.empty(len(results), object)
    values[:] = results
    return Answer((values,), missing)


def _shaped(request: Request, results: kernels.Results) -> Answer:
    """Return results without those that do not fit; an empty window may have one, as a count has."""
    kernel = request.aggregate.kernel
    least = max(request.min_periods, 1 if kernel is None else kernel.least)
    answer = Answer(results.arrays, results.missing(least))
    if results.overflows:
        answer = answer.without_overflow(request.aggregate, request.name_of)
    nothing = request.aggregate.lower(request.aggregate.identity)
    if request.min_periods == 0 and nothing is not None and len(answer.arrays) == 1:
        answer.arrays[0][answer.missing] = nothing
        return replace(answer, missing=slice(0, 0))
    picked = request.aggregate.picks
    return _picked(request, answer) if picked else answer


def _picked(request: Request, answer: Answer) -> Answer:
    """Return the arguments of the rows that ArgMin or ArgMax have found."""
    rows, missing = np.clip(answer.arrays[0], 0, len(request) - 1), answer.mask()
    picked = [column.take(rows) for column in request.columns[1:]]
    if request.aggregate.sources:
        tuples = np.empty(len(rows), object)
        tuples[:] = list(zip(*(column.objects(exact=True) for column in picked), strict=True))
        return Answer((tuples,), missing)
    (chosen,) = picked
    missing = missing if chosen.valid is None else missing | ~chosen.valid
    return Answer((chosen.values,), missing)


def _ticked(request: Request, ticks: Array, answer: Answer) -> Any:
    """Return the results by tick: with pandas a series, else a pair (ticks, results)."""
    labels = Labels(request.kind, None, request.name, request.source_types)
    stamps = request.stamps
    assert stamps is not None
    ends = write_ticks(ticks, stamps, request.kind)
    if request.kind == "pandas":
        return write(answer, request.aggregate, request.result_column, replace(labels, index=ends))
    return ends, write(answer, request.aggregate, request.result_column, labels)
