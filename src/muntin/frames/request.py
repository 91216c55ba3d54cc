"""What rolling is asked, read into arrays and checked before anything runs."""

from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.frames.columns import Array, Column, is_frame, kind_of, read
from muntin.kernels.rolling import Rows
from muntin.kernels.spans import CLOSED, Spans, row_spans, time_spans
from muntin.windows import is_duration, microseconds

UNITS = {"s": 1_000_000, "ms": 1_000}


@dataclass(frozen=True)
class Request:
    """What was asked, in arrays: rows in the order of their groups, and how to answer."""

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
    tick_type: str = "int64"

    def __len__(self) -> int:
        return len(self.columns[0].values)

    @property
    def is_simple(self) -> bool:
        """Whether a window is the last rows, or the last time, up to each row."""
        groups = self.first is not None and self.times is None
        shifted = self.closed != "right" and self.times is None
        return not (self.center or groups or shifted or self.ticks)

    def spans(self) -> Spans:
        """Return each row's window."""
        if self.times is None:
            return row_spans(len(self), self.size, self.closed, self.center, self.first)
        return time_spans(self.times, self.size, self.closed, self.center)

    def rows(self) -> Rows:
        """Return the columns as kernels take them; the argument of ArgMin and ArgMax is a row number."""
        first = self.columns[0]
        valid = None if self.aggregate.nulls and self.aggregate.name == "count" else first.valid
        columns = [first.values]
        if is_arg(self.aggregate):
            columns.append(np.arange(len(self)))
        else:
            for column in self.columns[1:]:
                columns.append(column.values)
                if column.valid is not None:
                    valid = column.valid if valid is None else valid & column.valid
        return Rows(tuple(columns), valid)

    def inputs(self) -> list[Any]:
        """Return the rows as the interpreted aggregate takes them."""
        objects = [column.objects() for column in self.columns]
        return objects[0] if len(objects) == 1 else list(zip(*objects, strict=True))


def is_arg(aggregate: Aggregate) -> bool:
    """Whether the aggregate picks an argument, so that kernels can work on row numbers."""
    return aggregate.name in ("arg_min", "arg_max")


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
    if closed not in CLOSED:
        raise ValueError(f"closed must be one of {', '.join(CLOSED)}, got {closed!r}")
    if every is not None and by is not None:
        raise ValueError("every and by cannot be combined here; roll over each group by itself")
    parts, kind, label, name = _columns(values, aggregate)
    columns = tuple(read(part, f"column {i}") for i, part in enumerate(parts))
    if is_arg(aggregate) and len(columns) != 2:
        raise TypeError(f"{aggregate.name} takes two columns: rolling((values, arguments), ...)")
    rows = len(columns[0].values)
    for i, column in enumerate(columns):
        _same_length(f"column {i}", len(column.values), rows)
    order, groups = _grouped(_named(values, by), rows)
    stamps = _stamps(values, size, on, kind, label)
    length = _length(size if stamps is None else scaled(size, stamps), stamps is not None)
    step, ticks = _every(every, stamps)
    return Request(
        aggregate=replace(aggregate, columns=()),
        columns=columns if order is None else tuple(column.take(order) for column in columns),
        size=length,
        times=None if stamps is None else _times(stamps, length, rows, order, groups),
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
        tick_type="int64" if stamps is None else _tick_type(stamps),
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


def _tick_type(stamps: Column) -> str:
    unit = _unit(stamps.dtype)
    return f"datetime64[{'ns' if unit == 'ns' else 'us'}]" if unit else "int64"


def scaled(duration: Any, stamps: Column) -> int:
    """Return a duration in the unit of the times (microseconds for coarse ones)."""
    us = microseconds(duration)
    return us * 1000 if _unit(stamps.dtype) == "ns" else us


def _times(
    stamps: Column, size: int, rows: int, order: Array | None, groups: Array | None
) -> Array:
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
    if groups is not None:
        times = _apart(times, groups, size)
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
    factor = UNITS[unit] if unit in ("s", "ms") else 1
    furthest = np.iinfo(np.int64).max // factor
    if len(stamps.values) and (
        int(stamps.values.max()) > furthest or int(stamps.values.min()) < -furthest
    ):
        row = int(np.argmax((stamps.values > furthest) | (stamps.values < -furthest)))
        raise ValueError(f"the time of row {row}, {stamps.values[row]}, does not fit into 64 bits")
    times: Array = stamps.values.astype(np.int64, copy=False)
    return times * factor if factor > 1 else times


def _apart(times: Array, groups: Array, size: int) -> Array:
    """Move each group's times beyond all before it, so that no window reaches into another group."""
    groups = groups - groups.min(initial=0)
    low, high = int(times.min(initial=0)), int(times.max(initial=0))
    width = high - low + 2 * size + 2
    if width * (int(groups.max(initial=0)) + 1) >= 2**62:
        raise ValueError(
            "groups and times span too much for one pass; roll over each group by itself"
        )
    moved: Array = times - low + groups * width
    return moved
