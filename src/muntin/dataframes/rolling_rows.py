"""The rows that rolling is given: their columns and times, read once, in the order of their groups."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.dataframes.column_types import ColumnType, check_types
from muntin.dataframes.columns import Array, Column, is_frame, kind_of, read
from muntin.dataframes.frame_kinds import column_of
from muntin.dataframes.grouped_rows import GroupedRows, group
from muntin.kernels.spans import Groups

UNITS = {"D": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000}
LAST_TIME = 2**63 - 1


@dataclass
class RollingRows:
    """What windows are rolled over, for any number of sizes and aggregates.

    `kind`, `index` and `name` are those of the values; `stamps` are the rows' times as they came, if
    there are any.
    """

    values: Any
    rows: int
    kind: str
    index: Any
    name: Any
    grouped: GroupedRows | None
    stamps: Column | None
    on_name: str
    _columns: dict[str, Column] = field(default_factory=dict)

    @property
    def order(self) -> Array | None:
        """The row at each place in the order of groups; None if rows came in that order."""
        return None if self.grouped is None else self.grouped.order

    def row_at(self, place: int) -> int:
        """Return the row at a place in the order of groups."""
        return place if self.order is None else int(self.order[place])

    @cached_property
    def groups(self) -> Groups:
        """The groups of rows, which is one if none are asked for."""
        return Groups(np.array([0, self.rows])) if self.grouped is None else self.grouped.groups

    @cached_property
    def first(self) -> Array | None:
        """The first row of each row's group, if there are groups."""
        return None if self.grouped is None else self.groups.first

    @cached_property
    def times(self) -> Array:
        """The rows' times in the order of groups, as integers, which never fall within a group."""
        assert self.stamps is not None
        times = whole_times(self.stamps, self.rows)
        if self.order is not None:
            times = times[self.order]
        falls = times[1:] < times[:-1]
        edges = self.groups.edges[1:-1]
        falls[edges[(edges > 0) & (edges < self.rows)] - 1] = False
        if falls.any():
            at = int(np.argmax(falls)) + 1
            raise ValueError(
                f"times must not fall: row {self.row_at(at)} is at {times[at]}, after {times[at - 1]}; "
                "sort the rows by time"
            )
        return times

    def times_apart(self, size: int) -> Array | None:
        """Move each group's times beyond all before it, so that no window reaches into another group.

        None if there are not enough whole numbers for that.
        """
        times, edges = self.times, self.groups.edges
        if not len(times):
            return times
        low, high = int(times.min()), int(times.max())
        width = high - low + 2 * size + 2
        if width * (len(edges) - 1) >= 2**62:
            return None
        moved: Array = times - low + np.repeat(np.arange(len(edges) - 1) * width, np.diff(edges))
        return moved

    def columns_of(self, aggregate: Aggregate) -> tuple[Column, ...]:
        """Return the columns that an aggregate takes, in the order of groups."""
        parts = self._parts(aggregate)
        columns = tuple(self._column(name, part) for name, part in parts)
        picked = len(aggregate.columns) or (1 if aggregate.kernel is None else 2)
        if aggregate.picks and len(columns) != picked:
            raise TypeError(
                f"{aggregate.name} takes {picked} columns: rolling((values, arguments), ...)"
            )
        called = [f"column {name!r}" for name in aggregate.columns] or ["the values"] * len(columns)
        pairs = zip(called, map(ColumnType.of, columns), strict=False)
        check_types(aggregate.name, aggregate, list(pairs))
        return columns

    def _parts(self, aggregate: Aggregate) -> list[tuple[str, Any]]:
        if not is_frame(self.values):
            several = isinstance(self.values, tuple)
            parts = self.values if several else (self.values,)
            return [(f"column {i}", part) for i, part in enumerate(parts)]
        if aggregate.columns:
            return [(f"column {n!r}", column_of(self.values, n)) for n in aggregate.columns]
        if aggregate.counts_rows:
            return [("rows", np.zeros(self.rows, np.int64))]
        if aggregate.parts:
            raise TypeError(
                f"{aggregate.name} over a frame: give its parts as a dict of aggregates"
            )
        raise TypeError(f"{aggregate.name} over a frame must name its columns, as in Max('watts')")

    def _column(self, name: str, part: Any) -> Column:
        if name not in self._columns:
            column = read(part, name)
            same_length(name, len(column.values), self.rows)
            self._columns[name] = column if self.order is None else column.take(self.order)
        return self._columns[name]


def one_row(source: RollingRows) -> RollingRows:
    """Return one row in place of none, which shows the types of results."""
    return RollingRows((None,), 1, source.kind, None, source.name, None, None, source.on_name)


def read_rows(
    values: Any, aggregates: list[Aggregate], on: Any, by: Any, timed: Any
) -> RollingRows:
    """Read what rolling was given; `timed` is a size that needs times, if one does."""
    kind, first = kind_of(values), values
    if is_frame(values):
        named = next((a.columns[0] for a in aggregates if a.columns), None)
        first = values if named is None else column_of(values, named)
        kind = kind_of(first) if isinstance(values, dict) else kind
    elif isinstance(values, tuple) and values and not np.isscalar(values[0]):
        first = values[0]
        kind = kind_of(first)
    elif isinstance(values, tuple):
        values = (values,)
    rows = _length_of(first)
    index = getattr(first, "index", None) if kind == "pandas" else None
    if on is None and timed is not None and index is not None:
        on = index.to_series()
    if on is None and timed is not None:
        raise TypeError(f"a window of {timed!r} needs the rows' times: give on=")
    stamps = None if on is None else read(_named(values, on), "on")
    if stamps is not None:
        same_length("on", len(stamps.values), rows)
    on_name = on if isinstance(on, str) else getattr(on, "name", None)
    return RollingRows(
        values=values,
        rows=rows,
        kind=kind,
        index=index,
        name=getattr(first, "name", None),
        grouped=None if by is None else group(values, by, rows),
        stamps=stamps,
        on_name=on_name if isinstance(on_name, str) else "tick",
    )


def _length_of(first: Any) -> int:
    if isinstance(first, dict):
        return len(next(iter(first.values()))) if first else 0
    if not hasattr(first, "__len__"):
        raise TypeError(f"an array, a list or a frame is needed, got {first!r}")
    return first.num_rows if hasattr(first, "num_rows") else len(first)


def _named(values: Any, column: Any) -> Any:
    """Return a column that was given by its name or as it is."""
    if isinstance(column, str):
        if not is_frame(values):
            raise TypeError(f"{column!r} names a column, but the values are no frame")
        return column_of(values, column)
    return column


def same_length(what: str, length: int, rows: int) -> None:
    """Refuse a column that is longer or shorter than others."""
    if length != rows:
        raise ValueError(f"{what} has {length} rows, the values have {rows}")


def whole_times(stamps: Column, rows: int) -> Array:
    """Return times as whole numbers: nanoseconds if they came so, else microseconds or as they are."""
    same_length("on", len(stamps.values), rows)
    if not stamps.is_numeric or stamps.values.dtype.kind == "f":
        raise TypeError(f"times are datetimes or whole numbers, got {stamps.dtype}")
    if stamps.valid is not None:
        raise ValueError(f"the time of row {int(np.argmin(stamps.valid))} is null")
    unit = np.datetime_data(stamps.dtype)[0] if stamps.dtype.kind in "mM" else ""
    if unit not in ("", *UNITS, "us", "ns"):
        raise TypeError(f"times in units of {unit} are too coarse; convert them to datetime64[us]")
    factor = UNITS.get(unit, 1)
    furthest = LAST_TIME // factor
    far = np.flatnonzero((stamps.values > furthest) | (stamps.values < -furthest))
    if len(far):
        row = int(far[0])
        raise ValueError(f"the time of row {row} is too far off: {int(stamps.values[row])} {unit}")
    return stamps.values.astype(np.int64, copy=False) * factor if factor > 1 else _signed(stamps)


def _signed(stamps: Column) -> Array:
    return stamps.values.astype(np.int64, copy=False)
