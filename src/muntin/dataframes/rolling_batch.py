"""Rolling windows over arrays and data frames: one result per row.

`rolling` reads what people have (NumPy, Arrow, pandas, Polars, lists), finds each row's window, lets the
fastest kernel that serves the aggregate run, and gives back the kind it was given. `rolling_plan` tells
which kernel that is, and why.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muntin.aggregators import ALGORITHMS
from muntin.dataframes.columns import Array
from muntin.dataframes.frame_kinds import unwrapped
from muntin.dataframes.rolling_frames import Asked, as_frame, read_asked
from muntin.dataframes.rolling_request import Request, check_aggregate, of_one_row, request_of
from muntin.dataframes.rolling_results import Answer, Labels, write
from muntin.dataframes.rolling_rows import RollingRows, read_rows
from muntin.dataframes.rolling_sizes import needs_times
from muntin.dataframes.rolling_ticks import with_ticks
from muntin.kernels import rolling_columns as kernels
from muntin.kernels.codegen.loop_source import STEPS
from muntin.kernels.order_statistics import roll_ranks
from muntin.kernels.spans import Spans, Ticks, in_chains, tick_spans

NO_ROWS = np.empty(0, np.int64)


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
    aggregate: Any,
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
    """Aggregate a window of rows or of time for each row.

    `size` is one of

    - a number of rows: the last so many, this one among them;
    - a duration, with `on` the rows' times, which never fall: the last so long;
    - a pair of bounds, (-10, 5) or ("-5 min", "1 min"), beside the row: both belong to the window, and
      None is the first or the last row;
    - None: all rows so far;
    - two arrays with a number for each row: window i has the rows [starts[i], ends[i]);
    - a dict of these by name, for several columns of results.

    If `on` is a column of whole numbers, plain numbers are in its unit, and `rows(n)` is a number of
    rows. `aggregate` is one aggregate, or a dict of them by name. With names the results are a frame of
    the kind that came in, with columns named <size>_<aggregate>, or by the one that has names.

    Windows with fewer than `min_periods` values (by default `size` rows if it is a number of rows, else
    1) have no result. `closed` says which ends belong to a window of one length, `center` puts the row
    in its middle. `by` keeps windows inside groups: one column, or a list of them. `every` gives one
    result per `every` rows of a group, or with a duration one per tick, as (ticks, results), or (keys,
    ticks, results) with `by`; with pandas they are the index. Several columns are a tuple of arrays, or
    a frame whose columns the aggregate names. Results go into the NumPy array `out` if one is given.
    Runtime: O(rows) for each aggregate, whatever the size; rows are put in the order of groups once.

    >>> import numpy as np
    >>> from muntin import Max, rolling
    >>> rolling(np.array([3, 1, 2, 5]), 2, Max(), min_periods=1)
    array([3, 3, 2, 5])
    >>> rolling([3, 1, 2, 5], "2 s", Max(), on=np.array([0, 1, 5, 6], "datetime64[s]"))
    array([3, 3, 2, 5])
    >>> rows = {"at": np.array([0, 1, 5, 6]), "price": np.array([3, 1, 2, 5])}
    >>> rolling(rows, {"so_far": None, "around": (-1, 1)}, {"peak": Max("price")})
    {'so_far_peak': array([3, 3, 3, 5]), 'around_peak': array([3, 3, 5, 5])}
    """
    options = {"min_periods": min_periods, "closed": closed, "center": center}
    asked = read_asked(size, aggregate, every)
    values, wrap = unwrapped(values)
    source = _rows(values, asked, on, by)
    requests = {n: request_of(source, s, a, every, options) for n, (s, a) in asked.columns.items()}
    plans = {name: _plan(request, algorithm, threads) for name, request in requests.items()}
    if asked.is_frame:
        if out is not None:
            raise TypeError("out takes the results of one aggregate: leave it out")
        answers = {name: _answer(requests[name], plan, None) for name, plan in plans.items()}
        first = next(iter(requests.values()))
        columns = {name: answer.written for name, answer in answers.items()}
        return wrap(as_frame(columns, next(iter(answers.values())).ticks, first))
    ((name, request),) = requests.items()
    if out is not None:
        _check_out(out, request)
    answer = _answer(request, plans[name], out)
    if request.every.ticks is not None:
        return with_ticks(answer.written, answer.ticks, request)
    if out is not None and answer.written is not out:
        out[:] = answer.written
    return wrap(answer.written) if out is None else out


def _rows(values: Any, asked: Asked, on: Any, by: Any) -> RollingRows:
    aggregates = [aggregate for _, aggregate in asked.columns.values()]
    for aggregate in aggregates:
        check_aggregate(aggregate)
    sizes = [size for size, _ in asked.columns.values()]
    timed = next((size for size in [*sizes, asked.every] if needs_times(size)), None)
    return read_rows(values, aggregates, on, by, timed)


def _check_out(out: Any, request: Request) -> None:
    rows = len(request)
    if not isinstance(out, np.ndarray) or out.shape != (rows,) or request.source.kind != "numpy":
        raise TypeError(f"out must be a NumPy array of {rows} results, as the values are")
    if any(np.may_share_memory(out, column.values) for column in request.columns):
        raise ValueError("out must not be the memory of the values, which are still read")
    if request.every.step > 1 or request.every.ticks:
        raise TypeError("out takes a result for every row: leave every out")


def rolling_plan(values: Any, size: Any, aggregate: Any, **options: Any) -> Any:
    """Return what rolling would do with the same arguments: a plan, or one for each column by name.

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
    given = {**defaults, **options}
    asked = read_asked(size, aggregate, given["every"])
    source = _rows(unwrapped(values)[0], asked, given.pop("on"), given.pop("by"))
    every = given.pop("every")
    plans = {
        name: _plan(request_of(source, s, a, every, given), algorithm, threads)
        for name, (s, a) in asked.columns.items()
    }
    return plans if asked.is_frame else next(iter(plans.values()))


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
    open_right = request.size.is_timed and request.closed in ("left", "neither")
    whole = request.is_simple and request.every.step == 1
    if algorithm in STEPS and whole and not open_right:
        return Plan(algorithm, True, "asked for", 1)
    if algorithm not in ("auto", "Sba"):
        return Plan(algorithm, False, f"{algorithm} has no compiled loop for this window", 1)
    rows = request.is_simple and not request.size.is_timed
    kind = "a chunk per window length" if rows else "a boundary where the front ends"
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


@dataclass(frozen=True)
class Written:
    """The results of one aggregate in the kind that came in, and the ticks that they are of, if any."""

    written: Any
    ticks: Ticks | None = None


def _answer(request: Request, plan: Plan, out: Array | None) -> Written:
    """Return the results; of whole numbers that compiled functions cannot hold, interpreted ones."""
    try:
        return _answered(request, plan, out)
    except OverflowError:
        if not plan.compiled or request.aggregate.kernel is not None:
            raise
    return _answered(request, replace(plan, algorithm="TwoStacksLite", compiled=False), out)


def _answered(request: Request, plan: Plan, out: Array | None) -> Written:
    source, column = request.source, request.result_column
    labels = Labels(source.kind, source.index, source.name, request.source_types)
    if request.every.ticks is not None and len(request):
        size = None if request.size.is_expanding else request.size.length
        ticks = tick_spans(source.groups, source.times, size, request.every.ticks)
        answer = _over_spans(request, plan, ticks.spans)
        return Written(write(answer, request.aggregate, column, replace(labels, index=None)), ticks)
    if not len(request):
        no_ticks = Ticks(NO_ROWS, NO_ROWS, Spans(NO_ROWS, NO_ROWS))
        one = of_one_row(request)
        written = _answered(one, _plan(one, "auto", None), None).written[:0]
        if source.index is not None and request.every.ticks is None:
            written.index = source.index
        return Written(written, None if request.every.ticks is None else no_ticks)
    chosen, order = request.chosen, source.order
    if plan.compiled and request.is_simple and plan.algorithm != "ranks":
        answer = _over_rows_or_times(request, plan, out)
        answer = answer if chosen is None else answer.take(chosen)
    else:
        spans = request.spans()
        answer = _over_any(request, plan, spans if chosen is None else spans.only(chosen))
    if order is not None and source.grouped is not None:
        places = source.grouped.places if chosen is None else np.argsort(order[chosen])
        answer = answer.take(places)
    if labels.index is not None and chosen is not None:
        rows = chosen if order is None else np.sort(order[chosen])
        labels = replace(labels, index=labels.index[rows])
    return Written(write(answer, request.aggregate, column, labels))


def _over_rows_or_times(request: Request, plan: Plan, out: Array | None) -> Answer:
    aggregate, rows = request.aggregate, request.rows()
    times, size, closed = request.times, request.size.length, request.closed
    if times is None and plan.algorithm in STEPS:
        results = kernels.roll_ring(aggregate, rows, size, plan.algorithm)
    elif times is None:
        results = kernels.roll_rows(aggregate, rows, size, plan.threads, out)
    elif plan.algorithm in STEPS:
        results = kernels.roll_ring_times(aggregate, rows, times, size, closed, plan.algorithm)
    else:
        results = kernels.roll_times(aggregate, rows, times, size, closed, plan.threads)
    return _shaped(request, results)


def _over_any(request: Request, plan: Plan, spans: Spans) -> Answer:
    """Aggregate windows that may begin or end before those of rows that came earlier."""
    if request.size.bounds is None:
        return _over_spans(request, plan, spans)
    chains = [chain for chain in in_chains(spans) if len(chain)]
    answers = [_over_spans(request, plan, spans.only(chain), chain) for chain in chains]
    arrays = [np.concatenate(parts) for parts in zip(*(a.arrays for a in answers), strict=True)]
    missing = np.concatenate([answer.mask() for answer in answers])
    return Answer(tuple(arrays), missing).take(np.argsort(np.concatenate(chains)))


def _over_spans(request: Request, plan: Plan, spans: Spans, windows: Array | None = None) -> Answer:
    """Aggregate spans, which are all windows that are asked for, or those with the given numbers."""
    least = max(request.min_periods, 1)
    if plan.algorithm == "ranks":
        column = request.columns[0]
        values, counts = roll_ranks(request.aggregate, column.values, column.valid, spans)
        return Answer((values,), counts < least)
    if plan.compiled:
        rolled = kernels.roll_spans(request.aggregate, request.rows(), spans, plan.threads)
        return _shaped(request, rolled, windows)
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


def _shaped(request: Request, results: kernels.Results, windows: Array | None = None) -> Answer:
    """Return results without those that do not fit; an empty window may have one, as a count has."""
    kernel = request.aggregate.kernel
    least = max(request.min_periods, 1 if kernel is None else kernel.least)
    answer = Answer(results.arrays, results.missing(least))
    if results.overflows:
        name_of = request.name_of if windows is None else _Numbered(request, windows)
        answer = answer.without_overflow(request.aggregate, name_of)
    nothing = request.aggregate.lower(request.aggregate.identity)
    if request.min_periods == 0 and nothing is not None and len(answer.arrays) == 1:
        answer.arrays[0][answer.missing] = nothing
        return replace(answer, missing=slice(0, 0))
    picked = request.aggregate.picks
    return _picked(request, answer) if picked else answer


@dataclass(frozen=True)
class _Numbered:
    """Says which window a result is of, where the results are those of some windows."""

    request: Request
    windows: Array

    def __call__(self, result: int) -> str:
        return self.request.name_of(int(self.windows[result]))


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
