"""Rolling windows over NumPy columns: choose the kernel, cut the rows among threads, run it.

Here rows are numbers in columns of one length, times are integers, and missing results are a mask.
`muntin.dataframes` converts from and to data frames, nulls and durations.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregates.numbers import GREATEST
from muntin.aggregates.sums import EXACT_IN_FLOAT
from muntin.aggregators import ALGORITHMS, TwoStacksLite
from muntin.kernels.codegen.build import Compiled, NotCompilableError, compiled
from muntin.kernels.codegen.layout import Layout
from muntin.kernels.loops.roll_spans import TimeFrame
from muntin.kernels.spans import Array, Spans, time_spans, within_reach

U = np.uint64
ROWS_PER_THREAD = 1 << 19
SHIFTED_BLOCK = 1 << 16
SHIFT_SAMPLE = 1000
SHORTEST_SUFFIXES = 1 << 12
"""Rows that the suffixes of a window of time hold at first; they double when it is longer."""


@dataclass(frozen=True)
class Rows:
    """The columns that an aggregate takes, and which rows are not null (all, if None).

    `form` is "times" if the first column has moments or durations.
    """

    columns: tuple[Array, ...]
    valid: Array | None
    form: str = ""

    def __len__(self) -> int:
        return len(self.columns[0])

    def layout(self, form: str = "", steps: str = "") -> Layout:
        """Return the layout of the rows, for which kernels are compiled."""
        dtypes = tuple(column.dtype for column in self.columns)
        return Layout(dtypes, self.valid is not None, form or self.form, steps)

    def values(self) -> tuple[Array, ...]:
        """Return the arrays that kernels read."""
        return self.columns if self.valid is None else (*self.columns, self.valid)


@dataclass(frozen=True)
class Results:
    """A result per window, in one array or several.

    missing(k) selects the windows with fewer than k values. If an aggregate `overflows`, the last array
    says which results do not fit.
    """

    arrays: tuple[Array, ...]
    missing: Callable[[int], Any]
    overflows: bool = False


def _fewer(counts: Array) -> Callable[[int], Any]:
    return lambda least: counts < least


def roll_rows(
    aggregate: Aggregate, rows: Rows, n: int, threads: int, out: Array | None = None
) -> Results:
    """Aggregate the last n rows, for every row, into `out` if it can hold the results."""
    n = min(n, len(rows))
    kernel = aggregate.kernel
    if kernel is not None and kernel.shifted and rows.valid is None and n > 1 and _is_exact(rows):
        results = _roll_shifted(aggregate, rows, n, threads, out)
        if results is not None:
            return results
    exact, plain = _exact_form(aggregate, rows, n), _plain_form(aggregate, rows)
    outs, values, size = exact.outputs(len(rows), out), rows.values(), len(rows)

    def segment(lo: int, hi: int) -> None:
        for kernels in (plain, exact) if plain else (exact,):
            if not kernels.module.roll_rows(values, outs, U(n), U(lo), U(hi), kernels.stretches(n)):
                break

    _run(segment, _period_cuts(size, n, threads), threads)
    return _ramp(exact, outs, rows, n)


def _period_cuts(size: int, n: int, parts: int) -> list[int]:
    """Cut the rows between periods: blocks, and so results, are the same for any number of parts."""
    period = max(n - 1, 1)
    periods = max(1, size // period)
    parts = min(parts, periods)
    return [periods * part // parts * period for part in range(parts)] + [size]


def _roll_shifted(
    aggregate: Aggregate, rows: Rows, n: int, threads: int, out: Array | None
) -> Results | None:
    """Run the shifted form with one shift per block; return None if a block lost digits."""
    kernel = aggregate.kernel
    assert kernel is not None
    kernels = compiled(aggregate, Layout((np.dtype(np.float64),), False, "shifted"))
    (column,), size = rows.columns, len(rows)
    outs = kernels.outputs(size, out)
    lost: list[bool] = []

    def block(lo: int, hi: int) -> None:
        if lost:
            return
        with np.errstate(all="ignore"):  # an infinity gives NaN, and the caller runs the exact form
            shift = np.mean(column[max(0, lo - n) : hi : 1 + n // SHIFT_SAMPLE][:SHIFT_SAMPLE])
        values = (column, np.array([shift], np.float64))
        kernels.module.roll_rows(values, outs, U(n), U(lo), U(hi), kernels.stretches(n))
        written = outs[0][max(lo, 1) : hi]
        if np.isnan(np.min(written, initial=0.0)):
            lost.append(True)

    parts = max(
        1, size // max(8 * n, SHIFTED_BLOCK)
    )  # the same parts, and so results, for any threads
    _run(block, _period_cuts(size, n, parts), threads)
    if lost:
        return None
    outs[0][0] = kernel.lower(kernel.lift(column[0]), 1)
    return _ramp(kernels, outs, rows, n)


def _ramp(kernels: Compiled, outs: tuple[Array, ...], rows: Rows, n: int) -> Results:
    """Return the results of windows of n rows; the first n - 1 windows have fewer rows."""
    if rows.valid is not None:
        return _counted(kernels, outs)
    full = len(rows)
    return Results(
        outs, lambda least: slice(0, least - 1 if least <= n else full), kernels.overflows
    )


def _counted(kernels: Compiled, outs: tuple[Array, ...]) -> Results:
    """Return the results of windows whose values were counted."""
    return Results(outs[1:], _fewer(outs[0]), kernels.overflows)


def roll_times(
    aggregate: Aggregate, rows: Rows, times: Array, size: int, closed: str, threads: int
) -> Results:
    """Aggregate the rows of the last `size` of time, for every row."""
    times, size = within_reach(times, size)
    kernels = _kernels(aggregate, rows, len(rows))
    outs, values = kernels.outputs(len(rows)), rows.values()
    past = np.int64(closed in ("right", "neither"))
    now = np.int64(closed in ("right", "both"))
    frame = TimeFrame(times, np.int64(size), past, now)

    def segment(lo: int, hi: int) -> None:
        slots = SHORTEST_SUFFIXES
        while lo < hi:
            suffixes = kernels.suffixes(slots)
            lo = int(kernels.module.roll_times(values, outs, frame, U(lo), U(hi), suffixes))
            slots *= 2

    _run(segment, _even_cuts(len(rows), threads), threads)
    if rows.valid is not None:
        return _counted(kernels, outs)

    def missing(least: int) -> Any:
        if least == 1 and now:
            return slice(0, 0)  # a row's window holds at least the row
        if now:
            few = np.ones(len(times), np.bool_)
            few[least - 1 :] = times[: 1 - least] < times[least - 1 :] - size + past
            return few
        spans = time_spans(times, size, closed, center=False)
        return spans.ends - spans.starts < least

    return Results(outs, missing, kernels.overflows)


def roll_spans(aggregate: Aggregate, rows: Rows, spans: Spans, threads: int) -> Results:
    """Aggregate the rows of each span."""
    kernels = _kernels(aggregate, rows, spans.longest())
    outs, values = kernels.outputs(len(spans.starts)), rows.values()
    slots = _power_of_two(spans.longest())

    def segment(lo: int, hi: int) -> None:
        suffixes = kernels.suffixes(slots)
        kernels.module.roll_spans(values, outs, spans, U(lo), U(hi), suffixes)

    _run(segment, _even_cuts(len(spans.starts), threads), threads)
    if rows.valid is None:
        return Results(outs, _fewer(spans.ends - spans.starts), kernels.overflows)
    return _counted(kernels, outs)


def roll_ring(aggregate: Aggregate, rows: Rows, n: int, algorithm: str) -> Results:
    """Aggregate the last n rows with the step functions of one algorithm."""
    n = min(n, len(rows))
    kernels = compiled(aggregate, rows.layout(steps=algorithm))
    outs, values = kernels.outputs(len(rows)), rows.values()
    slots = _power_of_two(min(n, len(rows)))
    state = kernels.start(values, algorithm)
    kernels.module.ring_rows(
        values, outs, U(n), U(0), U(len(rows)), kernels.buffer(slots), U(slots - 1), state
    )
    return _ramp(kernels, outs, rows, n)


def roll_ring_times(
    aggregate: Aggregate, rows: Rows, times: Array, size: int, closed: str, algorithm: str
) -> Results:
    """Aggregate the last `size` of time, closed on the right, with an algorithm's step functions."""
    times, size = within_reach(times, size)
    kernels = compiled(aggregate, rows.layout(steps=algorithm))
    outs, values = kernels.outputs(len(rows)), rows.values()
    spans = time_spans(times, size, closed, center=False)
    slots = _power_of_two(spans.longest())
    window = (np.int64(size), np.int64(closed == "right"), U(0), U(len(rows)))
    ring = (kernels.buffer(slots), np.empty(slots, np.int64), U(slots - 1))
    kernels.module.ring_times(values, outs, times, *window, *ring, kernels.start(values, algorithm))
    if rows.valid is None:
        return Results(outs, _fewer(spans.ends - spans.starts), kernels.overflows)
    return _counted(kernels, outs)


def roll_objects(
    aggregate: Aggregate, inputs: list[Any], spans: Spans, algorithm: str = TwoStacksLite.__name__
) -> list[Any]:
    """Aggregate the inputs of each span, interpreted: for partials that are not numbers."""
    window = ALGORITHMS[algorithm](aggregate)
    results = []
    s = e = 0
    for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True):
        if start >= e:
            window.bulk_evict(len(window))
            s = e = start
        window.bulk_insert(inputs[e:end])
        e = max(e, end)
        window.bulk_evict(start - s)
        s = start
        results.append(window.query())
    return results


def _kernels(aggregate: Aggregate, rows: Rows, longest: int) -> Compiled:
    plain = _plain_form(aggregate, rows)
    if plain is not None and not _has_nan(rows.columns[0]):
        return plain
    return _exact_form(aggregate, rows, longest)


def _exact_form(aggregate: Aggregate, rows: Rows, longest: int) -> Compiled:
    """Return the kernels that are right for windows of up to `longest` rows."""
    kernel, column = aggregate.kernel, rows.columns[0]
    signed = None if kernel is None or rows.form else kernel.signed
    if signed is None or signed.narrow is None or column.dtype != np.int64:
        return compiled(aggregate, rows.layout())
    stays_narrow = _largest(column) * longest <= GREATEST
    return compiled(aggregate, rows.layout("narrow" if stays_narrow else ""))


def _largest(column: Array) -> int:
    """Return the largest magnitude among whole numbers."""
    return max(abs(int(column.min(initial=0))), abs(int(column.max(initial=0))))


def _is_exact(rows: Rows) -> bool:
    """Whether floats hold all values of the first column."""
    column = rows.columns[0]
    return column.dtype.kind == "f" or _largest(column) <= EXACT_IN_FLOAT


def _plain_form(aggregate: Aggregate, rows: Rows) -> Compiled | None:
    """Return the kernels that are right for rows without NaN, if the aggregate has such a form."""
    kernel = aggregate.kernel
    if kernel is None or kernel.plain is None:
        return None
    return compiled(aggregate, rows.layout("plain"))


def _has_nan(column: Array) -> bool:
    """Whether the column has a NaN; np.max propagates it at the speed of memory."""
    return column.dtype.kind == "f" and len(column) > 0 and bool(np.isnan(np.max(column)))


def _power_of_two(n: int) -> int:
    return max(2, 1 << (max(n, 1) - 1).bit_length())


def _even_cuts(size: int, parts: int) -> list[int]:
    return [size * part // parts for part in range(parts)] + [size]


def _run(segment: Callable[[int, int], None], cuts: list[int], threads: int) -> None:
    segments = [(lo, hi) for lo, hi in pairwise(cuts) if lo < hi]
    if threads == 1:
        for lo, hi in segments:
            segment(lo, hi)
        return
    list(_pool().map(lambda bounds: segment(*bounds), segments))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="muntin-rolling")


if hasattr(os, "register_at_fork"):  # a forked child has no threads of its parent
    os.register_at_fork(after_in_child=_pool.cache_clear)


def threads_for(rows: int, threads: int | None) -> int:
    """Return `threads`, or a number of threads that suits the number of rows."""
    if threads is None:
        wanted = rows // ROWS_PER_THREAD
        return (
            1 if wanted < 2 else min(os.cpu_count() or 1, wanted)
        )  # few rows do not ask the system
    if threads < 1:
        raise ValueError(f"threads must be 1 or more, got {threads}")
    return threads


def why_not_compiled(aggregate: Aggregate, rows: Rows) -> str:
    """Return the reason why the aggregate does not compile for these rows; empty if it does."""
    try:
        compiled(aggregate, rows.layout())
    except NotCompilableError as reason:
        return str(reason)
    return ""
