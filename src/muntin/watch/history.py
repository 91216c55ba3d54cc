"""The windows that a board holds: the last ones of a few keys, as they were last reported.

At most `HELD` windows are held, shared evenly by the series of all window names and keys.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from muntin.query.query import Query
from muntin.query.result_table import KINDS
from muntin.watch.followed_keys import Followed
from muntin.watch.lines import FIELDS
from muntin.watch.series import Array, Reports, Series
from muntin.windows import Ticking

HELD = 1 << 20
RETRACT = KINDS.index("retract")


@dataclass(frozen=True)
class Results:
    """A table of results as a history takes it: a window's name as a number, a kind as another."""

    windows: Array
    kinds: Array
    keys: list[pa.Array]
    reports: Reports

    @classmethod
    def of(cls, query: Query, table: pa.Table) -> "Results":
        """Read a table, or say what is wrong with it."""
        for name in (*query.keys, *query.result_columns, *query.aggregates):
            if name not in table.column_names:
                raise ValueError(
                    f"the results have no column {name!r}, only {', '.join(table.column_names)}: "
                    "make the board with the query that gives them"
                )
        kind = _numbered("kind", table["kind"], pa.array(KINDS))
        values = [numbers(table[name], width(query, name)) for name in query.aggregates]
        bounds = _bounds(table, "start"), _bounds(table, "end")
        return cls(
            _numbered("window", table["window"], pa.array(query.windows)),
            kind,
            [table[name].combine_chunks() for name in query.keys],
            Reports(*bounds, kind == RETRACT, np.concatenate(values, axis=1)),
        )


class History:
    """What is held of a query's results; an aggregate's numbers are columns[name] of a series."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.followed = Followed(query.keys)
        self.bounds: pa.DataType = pa.null()
        self.latest: dict[str, int] = {}
        self.numeric: dict[str, bool] = {}
        ends = np.cumsum([width(query, name) for name in query.aggregates]).tolist()
        starts = [0, *ends[:-1]]
        self.columns = {
            name: slice(lo, hi) for name, lo, hi in zip(query.aggregates, starts, ends, strict=True)
        }
        self._series: dict[tuple[str, int], Series] = {}

    def take(self, table: pa.Table) -> dict[str, int]:
        """Take results, and return how many there are of each kind. Cost: O(rows)."""
        results = Results.of(self.query, table)
        ids, given_up = self.followed.number(results.keys, table.num_rows)
        for place in [place for place in self._series if place[1] in given_up]:
            del self._series[place]
        self.bounds = table.schema.field("end").type
        for name in self.query.aggregates:
            kind = table.schema.field(name).type
            if not kinds.is_null(kind):
                self.numeric[name] = is_numeric(kind, width(self.query, name))
        self._keep(results, ids)
        counts = np.bincount(results.kinds, minlength=len(KINDS)).tolist()
        return dict(zip(KINDS, counts, strict=True))

    def windows(self, name: str, key: int) -> Reports | None:
        """Return the windows of a name and key by their ends; None if there never was one."""
        series = self._series.get((name, key))
        return None if series is None else series.settle(self._most)

    @property
    def _most(self) -> int:
        return HELD // max(len(self._series), 1)

    def _keep(self, results: Results, ids: Array) -> None:
        """Give each series its reports."""
        names = list(self.query.windows)
        order = np.lexsort((ids, results.windows))  # stable: reports of a window stay in order
        order = order[ids[order] >= 0]
        pairs = np.stack([results.windows[order], ids[order]], axis=1)
        cuts = np.flatnonzero((pairs[1:] != pairs[:-1]).any(axis=1)) + 1
        for part in np.split(order, cuts) if len(order) else []:
            name, key = names[results.windows[part[0]]], int(ids[part[0]])
            reports = results.reports.take(part)
            if (name, key) not in self._series:
                ticks = isinstance(self.query.windows[name], Ticking)
                self._series[name, key] = Series(reports.values.shape[1], ticks)
            self._series[name, key].add(reports, self._most)
            latest = int(reports.ends.max())
            self.latest[name] = max(self.latest.get(name, latest), latest)


def width(query: Query, name: str) -> int:
    """Return how many numbers are drawn of an aggregate's result: four of M4's, else one."""
    return len(FIELDS) if query.aggregates[name].name == "m4" else 1


def is_numeric(kind: pa.DataType, width: int) -> bool:
    """Whether results of a type can be drawn."""
    if width > 1:
        return kinds.is_struct(kind) and all(is_numeric(field.type, 1) for field in kind)
    return any(test(kind) for test in (kinds.is_integer, kinds.is_floating, kinds.is_decimal))


def numbers(column: pa.ChunkedArray, width: int) -> Array:
    """Return what is drawn of an aggregate, a row per window; NaN where there is nothing."""
    if not is_numeric(column.type, width):
        return np.full((len(column), width), np.nan)
    parts = [column] if width == 1 else [pc.struct_field(column, part) for part in FIELDS]
    return np.stack([part.cast(pa.float64(), safe=False).to_numpy() for part in parts], axis=1)


def _bounds(table: pa.Table, name: str) -> Array:
    """Return bounds as whole numbers, times as microseconds since 1970; else what windows measure."""
    column, measure = table[name], f"{name}_measure"
    if kinds.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    column = column.cast(pa.int64())
    if measure in table.column_names:
        column = pc.coalesce(column, table[measure])
    numbers: Array = column.to_numpy()
    return numbers


def _numbered(what: str, column: pa.ChunkedArray, names: pa.Array) -> Any:
    """Return for each row which of the names it has."""
    places = pc.index_in(column, value_set=names.cast(column.type))
    if places.null_count:
        unknown = column.filter(places.is_null())[0].as_py()
        raise ValueError(
            f"the {what} of a result is one of {', '.join(names.to_pylist())}, got {unknown!r}"
        )
    return places.to_numpy()
