"""Reports of windows as one Arrow table.

Where all windows are of time, or all of rows and columns, `start` and `end` have what the windows are
measured in. Else these two are times, null for windows without, and `start_measure` and `end_measure`
have the numbers.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from muntin.dataframes.arrow_results import DoesNotFitError, same_bits
from muntin.dataframes.column_types import DURATION, NUMBER, family_of
from muntin.query.bound_aggregates import BoundAggregate
from muntin.query.query import COLUMNS, MEASURES, Query
from muntin.query.window_time import DROPPED
from muntin.slicing.key_table import KeyTable
from muntin.slicing.lane import Lane, Report, lines, together
from muntin.slicing.limits import Array
from muntin.slicing.tables import END, HI, KEY, KIND, LO, START, WINDOW
from muntin.windows import Fired, Window
from muntin.windows.window import NUMBERS, TIMES

KINDS = ("result", "update", "retract", "empty", "early")
FEW = 1024
"""So many repetitions of a name are kept, of which a short column is a part."""
BOUNDS = COLUMNS[1:3]


class Bounds(NamedTuple):
    """The bounds of some windows; None where they have none of a kind."""

    start: Array | None
    end: Array | None
    start_measure: Array | None
    end_measure: Array | None


def time_type(name: str) -> pa.DataType:
    """Return the type of a time column by its name: int64, null, or a timestamp with its zone."""
    if name in ("int64", "null"):
        return pa.int64() if name == "int64" else pa.null()
    zone = re.fullmatch(r"timestamp\[us(?:, tz=(.+))?\]", name)
    if zone is None:
        raise ValueError(f"{name!r} is not the type of a time column")
    return pa.timestamp("us", zone[1])


def write_table(
    query: Query,
    keys: KeyTable,
    feeds: list[BoundAggregate],
    times: pa.DataType,
    types: dict[str, pa.DataType],
    reports: list[tuple[Lane, Report]],
) -> tuple[pa.Table, dict[str, pa.DataType]]:
    """Return the keys, window, bounds, kind and a column per aggregate; and the results' types.

    `types` are those that results had before: they stay, unless values need a wider one.
    """
    names = [name for lane, _ in reports for name in lane.names]
    windows, numbers, valued = _lines(reports)
    time_type = pa.int64() if pa.types.is_null(times) else times
    columns: dict[str, pa.Array] = {}
    if query.keys:
        columns |= zip(query.keys, keys.columns(np.ascontiguousarray(windows[:, KEY])), strict=True)
    columns["window"] = _chosen(names, numbers)
    columns |= _bound_columns(query, windows, time_type, reports)
    columns["kind"] = _chosen(KINDS, windows[:, KIND])
    for i, name in enumerate(query.aggregates):
        try:
            columns[name] = _as_before(_results(feeds, i, reports, valued), types.get(name))
        except DoesNotFitError as error:
            row = error.row if valued is None else int(np.flatnonzero(valued)[error.row])
            raise _too_large(name, feeds[i], columns, row, error) from None
    table = pa.Table.from_arrays(list(columns.values()), names=list(columns))
    return table, {name: columns[name].type for name in query.aggregates}


def dropped_table(like: pa.Table, keys: Sequence[pa.Array], times: Array) -> pa.Table:
    """Return rows that no window took in the columns of results, with their keys and times."""
    names = like.schema.names
    known = dict(zip(names[: len(keys)], keys, strict=True))
    known["start"] = same_bits(times, like.schema.field("start").type)
    known["kind"] = _chosen([DROPPED], np.zeros(len(times), np.int64))
    columns = [
        known[f.name] if f.name in known else pa.nulls(len(times), f.type) for f in like.schema
    ]
    return pa.Table.from_arrays(columns, names=names)


def _lines(reports: list[tuple[Lane, Report]]) -> tuple[Array, Array, Array | None]:
    """Return the windows of all reports, their numbers among all windows, and which have values.

    If all have values, they are not said one by one.
    """
    if not reports:
        return lines(0), np.zeros(0, np.int64), None
    (_, first), *others = reports
    windows, valued = first.windows, first.valued
    if others:
        windows = together([report.windows for _, report in reports])
        valued = together([report.valued for _, report in reports])
    numbers = windows[:, WINDOW]
    if others:
        offsets = np.cumsum([0, *(len(lane.names) for lane, _ in reports)])
        numbers = numbers + np.repeat(offsets[:-1], [len(r.windows) for _, r in reports])
    return windows, numbers, None if np.count_nonzero(valued) == len(valued) else valued


def _bounds_of(window: Window, windows: Array) -> Bounds:
    """Return the bounds of a window of which a report has lines.

    Of one that rows fire these have the number of its first row, and the time behind its last one.
    """
    start, end = windows[:, START], windows[:, END]
    if window.bounds == TIMES:
        return Bounds(start, end, None, None)
    if window.bounds == NUMBERS:
        return Bounds(None, None, start, end)
    if not isinstance(window, Fired):
        return Bounds(None, end, start, None)
    last = start + windows[:, HI] - windows[:, LO]
    if window.measure != "time":
        return Bounds(None, None, start, last)
    return Bounds(end - window.size, end, start, last)


def _bound_columns(
    query: Query, windows: Array, times: pa.DataType, reports: list[tuple[Lane, Report]]
) -> dict[str, pa.Array]:
    """Return the columns of results by name; `windows` are those of all reports."""
    if not query.measured:
        kind = times if query.in_time else pa.int64()
        pairs = zip(BOUNDS, (START, END), strict=True)
        return {name: same_bits(windows[:, column], kind) for name, column in pairs}
    kinds = (times, times, pa.int64(), pa.int64())
    named = zip((*BOUNDS, *MEASURES), kinds, zip(*_each(reports), strict=True), strict=True)
    return {name: _bound_column(parts, kind, reports) for name, kind, parts in named}


def _each(reports: list[tuple[Lane, Report]]) -> Iterator[Bounds]:
    """Yield the bounds of each report; a lane has windows of one kind."""
    for lane, report in reports:
        yield _bounds_of(next(iter(lane.windows.values())), report.windows)
    yield Bounds(*lines(0).T[:4])


def _bound_column(
    parts: tuple[Array | None, ...], kind: pa.DataType, reports: list[tuple[Lane, Report]]
) -> pa.Array:
    """Return a bound of the windows of all reports, and then of none, as one column."""
    counts = [*(len(report.windows) for _, report in reports), 0]
    pairs = zip(parts, counts, strict=True)
    chunks = [pa.nulls(n, kind) if part is None else same_bits(part, kind) for part, n in pairs]
    return pa.concat_arrays(chunks)


def _too_large(
    name: str, feed: BoundAggregate, columns: dict[str, pa.Array], row: int, error: DoesNotFitError
) -> OverflowError:
    """Return the error of a result that does not fit its type: aggregate, key and window."""
    start, end = (_bound(columns, part, row) for part in BOUNDS)
    window, keys = columns["window"][row].as_py(), [*columns][: [*columns].index("window")]
    key = ", ".join(f"{column}={columns[column][row].as_py()!r}" for column in keys)
    null = ", or give it overflow='null'" if feed.aggregate.result == "sum" else ""
    return OverflowError(
        f"aggregate {name!r} ({feed.aggregate.name}) does not fit {error.kind} in window {window!r} "
        f"[{start}, {end})"
        f"{' of ' + key if key else ''}: convert its column to floats{null}"
    )


def _bound(columns: dict[str, pa.Array], part: str, row: int) -> Any:
    """Return a bound of a window, a time or else a number."""
    time = columns[part][row].as_py()
    return columns[f"{part}_measure"][row].as_py() if time is None else time


def _chosen(names: Sequence[str], which: Array) -> pa.Array:
    """Return a name for each number; mostly it is the same for all."""
    if len(which) == 0 or (len(which) > 1 and int(which.min()) != int(which.max())):
        return _all(tuple(names)).take(pa.array(which))
    name = names[which[0]]
    return _few(name).slice(0, len(which)) if len(which) <= FEW else pa.repeat(name, len(which))


@lru_cache(maxsize=64)
def _all(names: tuple[str, ...]) -> pa.Array:
    return pa.array(names, pa.string())


@lru_cache(maxsize=256)
def _few(name: str) -> pa.Array:
    return pa.repeat(name, FEW)


def _as_before(array: pa.Array, before: pa.DataType | None) -> pa.Array:
    """Return results in the type that they had before, if it holds them as they are."""
    if before is None or array.type == before or not _holds(before, array.type):
        return array
    try:
        return array.cast(before)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return array


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether values of a type may be written in another one, where Arrow finds that they fit."""
    if narrow == wide or kinds.is_null(narrow):
        return True
    if kinds.is_struct(wide) and kinds.is_struct(narrow):
        names = [[field.name for field in kind] for kind in (wide, narrow)]
        fields = zip(wide, narrow, strict=False)
        return names[0] == names[1] and all(_holds(a.type, b.type) for a, b in fields)
    if kinds.is_list(wide) and kinds.is_list(narrow):
        return _holds(wide.value_type, narrow.value_type)
    if kinds.is_floating(wide) and kinds.is_floating(narrow):
        return bool(wide.bit_width >= narrow.bit_width)
    if kinds.is_timestamp(wide) and kinds.is_timestamp(narrow):
        return bool(wide.tz == narrow.tz)
    if kinds.is_boolean(wide) or kinds.is_boolean(narrow):
        return False
    if kinds.is_decimal(wide):
        return bool(kinds.is_decimal(narrow) or kinds.is_integer(narrow))
    same = family_of(wide) == family_of(narrow) and family_of(wide) in (NUMBER, DURATION)
    return same or {str(wide), str(narrow)} == {"string", "large_string"}


def _results(
    feeds: list[BoundAggregate],
    i: int,
    reports: list[tuple[Lane, Report]],
    valued: Array | None,
) -> pa.Array:
    """Return the results of an aggregate; null where not all windows are `valued`."""
    if not reports:
        return feeds[i].results(feeds[i].kernels.outputs(0)) if feeds else pa.nulls(0)
    outs = _outs(feeds[i], *reports[0])
    if len(reports) > 1:
        parts = zip(*(_outs(feeds[i], lane, report) for lane, report in reports), strict=True)
        outs = tuple(together(part) for part in parts)
    array = feeds[i].results(outs)
    if valued is None:
        return array
    places = np.cumsum(valued) - 1
    return array.take(pa.array(places, mask=~valued))


def _outs(feed: BoundAggregate, lane: Lane, report: Report) -> tuple[Array, ...]:
    """Return what an aggregate's kernels gave for the windows of a lane, or nothing if it has none."""
    if feed.name in lane.aggregates:
        return report.results[lane.aggregates.index(feed.name)]
    return feed.nothing(int(np.count_nonzero(report.valued)))
