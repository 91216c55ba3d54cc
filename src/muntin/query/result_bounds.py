"""The columns of results that say where windows start and end.

Where all windows are of time, or all of rows and columns, `start` and `end` have what the windows are
measured in. Else these two are times, null for windows without, and `start_measure` and `end_measure`
have the numbers.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from muntin.dataframes.arrow_results import same_bits
from muntin.query.query import COLUMNS, MEASURES, Query
from muntin.slicing.lane import Lane, Report, lines
from muntin.slicing.limits import Array
from muntin.slicing.tables import END, START
from muntin.windows import Window
from muntin.windows.window import NUMBERS, TIMES

BOUNDS = COLUMNS[1:3]


class Bounds(NamedTuple):
    """The bounds of some windows; None where they have none of a kind."""

    start: Array | None
    end: Array | None
    start_measure: Array | None
    end_measure: Array | None


def bounds_of(window: Window, windows: Array) -> Bounds:
    """Return the bounds of a window of which a report has lines."""
    start, end = windows[:, START], windows[:, END]
    if window.bounds == TIMES:
        return Bounds(start, end, None, None)
    if window.bounds == NUMBERS:
        return Bounds(None, None, start, end)
    return Bounds(None, end, start, None)


def bound_columns(
    query: Query, windows: Array, times: pa.DataType, reports: list[tuple[Lane, Report]]
) -> dict[str, pa.Array]:
    """Return the columns of results by name; `windows` are those of all reports."""
    if not query.measured:
        kind = times if query.in_time else pa.int64()
        pairs = zip(BOUNDS, (START, END), strict=True)
        return {name: same_bits(windows[:, column], kind) for name, column in pairs}
    kinds = (times, times, pa.int64(), pa.int64())
    named = zip((*BOUNDS, *MEASURES), kinds, zip(*_each(reports), strict=True), strict=True)
    return {name: _column(parts, kind, reports) for name, kind, parts in named}


def _each(reports: list[tuple[Lane, Report]]) -> Iterator[Bounds]:
    """Yield the bounds of each report; a lane has windows of one kind."""
    for lane, report in reports:
        yield bounds_of(next(iter(lane.windows.values())), report.windows)
    yield Bounds(*lines(0).T[:4])


def _column(
    parts: tuple[Array | None, ...], kind: pa.DataType, reports: list[tuple[Lane, Report]]
) -> pa.Array:
    """Return a bound of the windows of all reports, and then of none, as one column."""
    counts = [*(len(report.windows) for _, report in reports), 0]
    pairs = zip(parts, counts, strict=True)
    chunks = [pa.nulls(n, kind) if part is None else same_bits(part, kind) for part, n in pairs]
    return pa.concat_arrays(chunks)
