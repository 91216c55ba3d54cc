"""What rolling is asked, read into arrays and checked before anything runs."""

from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregates.conditions import refuse_conditions
from muntin.dataframes.column_types import ColumnType, check_takes
from muntin.dataframes.columns import Array, Column, is_frame, kind_of, read
from muntin.kernels.rolling_columns import Rows
from muntin.kernels.spans import CLOSED, Groups, Spans, group_time_spans, row_spans, time_spans
from muntin.windows import is_duration, microseconds, nanoseconds

UNITS = {"s": 1_000_000, "ms": 1_000}
LAST_TIME = 2**63 - 1


@dataclass(frozen=True)
class Request:
    """What was asked, in arrays: rows in the order of their groups, and how to answer.

    `groups` is there if times of different groups could not be moved apart.
    """

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
    stamps: Column | None = None
    groups: Groups | None = None

    def __len__(self) -> int:
        return len(self.columns[0].values)

    @property
    def is_simple(self) -> bool:
        """Whether a window is the last rows, or the last time, up to each row."""
        groups = self.first is not None and (self.times is None or self.groups is not None)
        shifted = self.closed != "right" and self.times is None
        return not (self.center or groups or shifted or self.ticks)

    def spans(self) -> Spans:
        """Return each row's window."""
        if self.times is None:
            return row_spans(len(self), self.size, self.closed, self.center, self.first)
        if self.groups is not None:
            return group_time_spans(self.groups, self.times, self.size, self.closed, self.center)
        return time_spans(self.times, self.size, self.closed, self.center)

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
        if self.kind == "numpy":
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
        if self.ticks is not None:
            return f"window {window}"
        row = window * self.step
        return f"the window of row {row if self.order is None else int(self.order[row])}"

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


def read_request(
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
    """Read what rolling was given, or say what is wrong with it."""
    if not isinstance(aggregate, Aggregate):
        raise TypeError(f"rolling needs an aggregate such as Max(), got {aggregate!r}")
    refuse_conditions(aggregate, "rolling")
    if closed not in CLOSED:
        raise ValueError(f"closed must be one of {', '.join(CLOSED)}, got {closed!r}")
    if every is not None and by is not None:
        raise ValueError("every and by cannot be combined here; roll over each group by itself")
    parts, kind, label, name = _columns(values, aggregate)
    columns = tuple(read(part, f"column {i}") for i, part in enumerate(parts))
    picked = len(aggregate.columns) or (1 if aggregate.kernel is None else 2)
    if aggregate.picks and len(columns) != picked:
        raise TypeError(
            f"{aggregate.name} takes {picked} columns: rolling((values, arguments), ...)"
        )
    for i, column in enumerate(columns[: 1 if aggregate.picks else None]):
        called = f"column {aggregate.columns[i]!r}" if aggregate.columns else "the values"
        check_takes(aggregate.name, aggregate, called, ColumnType.of(column))
    rows = len(columns[0].values)
    for i, column in enumerate(columns):
        _same_length(f"column {i}", len(column.values), rows)
    order, groups = _grouped(_named(values, by), rows)
    stamps = _stamps(values, size, on, kind, label)
    length = _length(size if stamps is None else scaled(size, stamps), stamps is not None)
    step, ticks = _every(every, stamps)
    times = None if stamps is None else _times(stamps, rows, order, groups)
    apart = None if times is None or groups is None else _apart(times, groups, length)
    return Request(
        aggregate=replace(aggregate, columns=()),
        columns=columns if order is None else tuple(column.take(order) for column in columns),
        size=length,
        times=times if apart is None else apart,
        ticks=ticks,
        step=step,
        first=None if groups is None else np.searchsorted(groups, groups),
        order=order,
        min_periods=_least(min_periods, length, stamps is not None),
        closed=closed,
        center=center,
        kind=kind,
        index=label,
        name=name,
        stamps=stamps,
        groups=None if times is None or groups is None or apart is not None else Groups.of(groups),
    )


def _grouped(by: Any, rows: int) -> tuple[Array | None, Array | None]:
    """Return the rows' order by group, and the groups in that order."""
    if by is None:
        return None, None
    codes = _codes(by, rows)
    order = np.argsort(codes, kind="stable")
    return order, codes[order]


def _stamps(values: Any, size: Any, on: Any, kind: str, label: Any) -> Column | None:
    """Return the column of times, if windows are measured in time."""
    if not is_duration(size) and on is None:
        return None
    if on is None and kind == "pandas" and hasattr(label, "to_series"):
        on = label.to_series()
    if on is None:
        raise TypeError(f"a window of {size!r} needs the rows' times: give on=")
    return read(_named(values, on), "on")


def _least(min_periods: int | None, length: int, timed: bool) -> int:
    least = min_periods if min_periods is not None else (1 if timed else length)
    if least < 0 or (not timed and least > length):
        raise ValueError(f"min_periods must be between 0 and the size of {length}, got {least}")
    return least


def _every(every: Any, stamps: Column | None) -> tuple[int, int | None]:
    """Return how many rows a step is, and how much time a tick is."""
    if every is None:
        return 1, None
    if stamps is None:
        if index(every) < 1:
            raise ValueError(f"every must be 1 row or more, got {every}")
        return index(every), None
    ticks = scaled(every, stamps)
    if ticks <= 0:
        raise ValueError(f"every must be a positive duration, got {every!r}")
    return 1, ticks


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


def scaled(duration: Any, stamps: Column) -> int:
    """Return a duration in the unit of the times (microseconds for coarse ones)."""
    if _unit(stamps.dtype) == "ns":
        return nanoseconds(duration)
    return microseconds(duration)


def _times(stamps: Column, rows: int, order: Array | None, groups: Array | None) -> Array:
    """Return the rows' times as integers, which never fall."""
    times = whole_times(stamps, rows)
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
    return times


def whole_times(stamps: Column, rows: int) -> Array:
    """Return times as whole numbers: nanoseconds if they came so, else microseconds or as they are."""
    _same_length("on", len(stamps.values), rows)
    if not stamps.is_numeric or stamps.values.dtype.kind == "f":
        raise TypeError(f"times are datetimes or whole numbers, got {stamps.dtype}")
    if stamps.valid is not None:
        raise ValueError(f"the time of row {int(np.argmin(stamps.valid))} is null")
    unit = _unit(stamps.dtype)
    if unit not in ("", "s", "ms", "us", "ns"):
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


def _apart(times: Array, groups: Array, size: int) -> Array | None:
    """Move each group's times beyond all before it, so that no window reaches into another group.

    None if there are not enough whole numbers for that.
    """
    groups = groups - groups.min(initial=0)
    low, high = int(times.min(initial=0)), int(times.max(initial=0))
    width = high - low + 2 * size + 2
    if width * (int(groups.max(initial=0)) + 1) >= 2**62:
        return None
    moved: Array = times - low + groups * width
    return moved
