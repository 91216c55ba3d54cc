"""One window and one aggregate of what rolling is asked, checked before anything runs."""

from dataclasses import dataclass, replace
from functools import cached_property
from operator import index
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregates.conditions import refuse_conditions
from muntin.dataframes.column_types import ColumnType, in_units
from muntin.dataframes.columns import Array, Column
from muntin.dataframes.rolling_rows import RollingRows, one_row
from muntin.dataframes.rolling_sizes import Size, is_timed, read_size, scaled
from muntin.kernels.rolling_columns import Rows
from muntin.kernels.spans import Spans, group_time_spans, row_spans, time_spans
from muntin.windows.row_count import RowCount


@dataclass(frozen=True)
class Every:
    """Which results are wanted: every `step` rows of a group, or one per `ticks` of time."""

    step: int = 1
    ticks: int | None = None


@dataclass(frozen=True)
class Request:
    """A window and an aggregate over rows in the order of their groups, and how to answer."""

    aggregate: Aggregate
    columns: tuple[Column, ...]
    source: RollingRows
    size: Size
    every: Every
    min_periods: int
    closed: str
    center: bool

    def __len__(self) -> int:
        return self.source.rows

    @property
    def is_simple(self) -> bool:
        """Whether a window is the last rows, or the last time, up to each row."""
        groups = self.source.grouped is not None and self.times is None
        shifted = self.closed != "right" and not self.size.is_timed
        return self.size.is_length and not (self.center or groups or shifted or self.every.ticks)

    @cached_property
    def times(self) -> Array | None:
        """The rows' times, those of each group beyond those of the last; None if that cannot be."""
        if not self.size.is_timed:
            return None
        if self.source.grouped is None:
            return self.source.times
        return self.source.times_apart(self.size.length)

    def spans(self) -> Spans:
        """Return each row's window."""
        size, source = self.size, self.source
        if size.bounds is not None:
            return size.bounds
        if size.frame is not None:
            stamps = None
            if size.is_timed and source.stamps is not None:
                stamps = replace(source.stamps, values=source.times, valid=None)
            return size.frame.spans(source.groups, stamps)
        if not size.is_timed:
            groups = None if source.grouped is None else source.groups
            return row_spans(len(self), size.length, self.closed, self.center, groups)
        if self.times is not None:
            return time_spans(self.times, size.length, self.closed, self.center)
        return group_time_spans(source.groups, source.times, size.length, self.closed, self.center)

    @cached_property
    def chosen(self) -> Array | None:
        """The places of the rows that get a result; None if all do."""
        if self.every.step == 1:
            return None
        places = np.arange(len(self))
        first = self.source.first
        return np.flatnonzero((places if first is None else places - first) % self.every.step == 0)

    def rows(self) -> Rows:
        """Return the columns as kernels take them; the argument of ArgMin and ArgMax is a row number."""
        first = self.columns[0]
        valid = None if self.aggregate.counts_rows else first.valid
        columns = [first.values]
        if self.aggregate.picks:
            columns.append(np.arange(len(self)))
        else:
            for column in self.columns[1:]:
                columns.append(column.values)
                if column.valid is not None:
                    valid = column.valid if valid is None else valid & column.valid
        return Rows(tuple(columns), valid, ColumnType.of(first).form)

    @property
    def source_types(self) -> tuple[Any, ...]:
        """The Arrow types of the columns that parts of results come from, if there are several."""
        if self.source.kind == "numpy":
            return ()
        sources = self.aggregate.sources
        return tuple(ColumnType.of(self.columns[i]).as_arrow() for i in sources)

    @property
    def result_column(self) -> Column | None:
        """The column whose type results have, if they are values of one."""
        if self.aggregate.sources:
            return None
        return self.columns[-1 if self.aggregate.picks else 0]

    def name_of(self, window: int) -> str:
        """Say which window a result is of."""
        if self.every.ticks is not None:
            return f"window {window}"
        place = window if self.chosen is None else int(self.chosen[window])
        return f"the window of row {self.source.row_at(place)}"

    def inputs(self) -> list[Any]:
        """Return the rows as the interpreted aggregate takes them."""
        exact = self.aggregate.is_built_in
        objects = [column.objects(exact=exact) for column in self.columns]
        if len(objects) == 1:
            return objects[0]
        rows = zip(*objects, strict=True)
        if self.aggregate.nulls:
            return list(rows)
        return [None if any(x is None for x in row) else row for row in rows]


def of_one_row(request: Request) -> Request:
    """Return the request for one row in place of none, which shows the types of results."""
    columns = tuple(
        replace(column, values=np.ones(1, column.values.dtype), valid=None)
        if column.is_numeric
        else replace(column, values=np.full(1, None, object), valid=np.zeros(1, np.bool_))
        for column in request.columns
    )
    return replace(
        request,
        columns=columns,
        source=one_row(request.source),
        size=Size(1, False, 1),
        every=Every(),
        min_periods=0,
        closed="right",
        center=False,
    )


def check_aggregate(aggregate: Any) -> None:
    """Refuse what is no aggregate, or one that rolling cannot serve."""
    if not isinstance(aggregate, Aggregate):
        raise TypeError(f"rolling needs an aggregate such as Max(), got {aggregate!r}")
    refuse_conditions(aggregate, "rolling")


def request_of(
    source: RollingRows, size: Any, aggregate: Aggregate, every: Any, options: dict[str, Any]
) -> Request:
    """Return what is asked of rows, or say what is wrong with it."""
    closed, center = options["closed"], options["center"]
    columns = source.columns_of(aggregate)
    aggregate = in_units(aggregate, [ColumnType.of(column) for column in columns])
    read = read_size(size, source.stamps, source.rows, closed, center)
    if source.stamps is not None:
        source.times  # noqa: B018 (checks them, before anything runs)
    if read.bounds is not None and source.grouped is not None:
        raise ValueError("by is not for windows whose bounds are row numbers: leave by out")
    wanted = _every(every, read, source, options)
    return Request(
        aggregate=replace(aggregate, columns=()),
        columns=columns,
        source=source,
        size=read,
        every=wanted,
        min_periods=_least(options["min_periods"], read),
        closed=closed,
        center=center,
    )


def _least(min_periods: Any, size: Size) -> int:
    least = size.least if min_periods is None else index(min_periods)
    rows = size.is_length and not size.is_timed and not size.is_expanding
    if least < 0 or (rows and least > size.length):
        limit = f"between 0 and the size of {size.length}" if rows else "0 or more"
        raise ValueError(f"min_periods must be {limit}, got {least}")
    return least


def _every(every: Any, size: Size, source: RollingRows, options: dict[str, Any]) -> Every:
    """Return how many rows a step is, or how much time a tick is."""
    if every is None:
        return Every()
    if not is_timed(every, source.stamps):
        step = every.count if isinstance(every, RowCount) else index(every)
        if step < 1:
            raise ValueError(f"every must be 1 row or more, got {every}")
        return Every(step)
    if source.stamps is None:
        raise TypeError(f"every={every!r} needs the rows' times: give on=")
    ticks = scaled(every, source.stamps)
    if ticks <= 0:
        raise ValueError(f"every must be a positive duration, got {every!r}")
    if options["closed"] != "right":
        raise ValueError(f"closed is not for every={every!r}: windows are [tick - size, tick)")
    if options["center"] or not (size.is_expanding or (size.is_length and size.is_timed)):
        raise ValueError(
            f"every={every!r} gives the windows before each tick: the size must be a duration, or None"
        )
    return Every(ticks=ticks)
