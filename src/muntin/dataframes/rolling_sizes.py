"""The size of rolling windows, read and checked: a length, a pair of bounds, or each row's bounds."""

from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from muntin.dataframes.columns import Array, Column, read
from muntin.dataframes.frames import Frame
from muntin.kernels.spans import CLOSED, Bound, Spans
from muntin.windows import is_duration, microseconds, nanoseconds
from muntin.windows.row_count import RowCount


@dataclass(frozen=True)
class Size:
    """The last `length` rows or so much time, or a frame, or the rows that `bounds` names.

    `least` is how many values a window needs for a result, unless the caller says.
    """

    length: int
    is_timed: bool
    least: int
    frame: Frame | None = None
    bounds: Spans | None = None
    is_expanding: bool = False

    @property
    def is_length(self) -> bool:
        """Whether it is the last rows or the last stretch of time up to each row."""
        return self.frame is None and self.bounds is None


def read_size(size: Any, stamps: Column | None, rows: int, closed: str, center: bool) -> Size:
    """Read a size; `stamps` are the times that durations are measured in, if there are any.

    A number is one of rows, or in the unit of times that are whole numbers themselves.
    """
    if closed not in CLOSED:
        raise ValueError(f"closed must be one of {', '.join(CLOSED)}, got {closed!r}")
    if isinstance(size, tuple | list):
        if center or closed != "right":
            what = "center" if center else "closed"
            raise ValueError(
                f"{what} is not for the bounds {_short(size)}: they say which rows belong to a window"
            )
        return _pair(size, stamps, rows)
    if size is None:
        if center:
            raise ValueError("center is not for size=None, a window that begins with the first row")
        return Size(max(rows, 1), False, 1, is_expanding=True)
    timed = is_timed(size, stamps)
    length = _length(_measured(size, stamps, timed), timed)
    return Size(length, timed, 1 if timed else length)


def is_timed(size: Any, stamps: Column | None) -> bool:
    """Whether a size is measured in time."""
    if isinstance(size, RowCount):
        return False
    return _is_duration(size) or (stamps is not None and stamps.dtype.kind in "iu")


def needs_times(size: Any) -> bool:
    """Whether a size says by itself that it is measured in time."""
    if isinstance(size, tuple | list):
        return len(size) == 2 and any(_is_duration(bound) for bound in size)
    return _is_duration(size)


def _is_duration(size: Any) -> bool:
    if size is None or isinstance(size, RowCount | float) or np.ndim(size):
        return False
    return is_duration(size)


def scaled(duration: Any, stamps: Column) -> int:
    """Return a duration in the unit of the times (microseconds for coarse ones)."""
    if stamps.dtype.kind in "mM" and np.datetime_data(stamps.dtype)[0] == "ns":
        return nanoseconds(duration)
    return microseconds(duration)


def _measured(size: Any, stamps: Column | None, timed: bool) -> Any:
    if isinstance(size, RowCount):
        return size.count
    if not timed:
        return size
    if stamps is None:
        raise TypeError(f"a window of {size!r} needs the rows' times: give on=")
    return scaled(size, stamps)


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


def _pair(size: Any, stamps: Column | None, rows: int) -> Size:
    if len(size) != 2:
        raise ValueError(f"a size is a pair of bounds such as (-10, 5), got {_short(size)}")
    if all(np.ndim(bound) == 1 for bound in size):
        return Size(0, False, 1, bounds=_row_bounds(size, rows))
    timed = any(is_timed(bound, stamps) for bound in size if bound is not None)
    low, high = [_bound(bound, size, stamps, timed) for bound in size]
    if low is not None and high is not None and low > high:
        raise ValueError(f"the window ends before it begins: {size!r}; give the lower bound first")
    return Size(0, timed, 1, frame=Frame(low, high, "range" if timed else "rows"))


def _bound(bound: Any, size: Any, stamps: Column | None, timed: bool) -> Bound:
    if bound is None:
        return None
    if timed and not is_timed(bound, stamps) and bound != 0:
        raise TypeError(f"the bounds {size!r} are neither both rows nor both durations")
    try:
        return index(_measured(bound, stamps, timed))
    except TypeError:
        if stamps is None and timed:
            raise
        raise TypeError(f"a bound is a number of rows or a duration, got {bound!r}") from None


def _row_bounds(size: Any, rows: int) -> Spans:
    """Return windows whose first rows, and the rows after their last, are given as numbers."""
    starts, ends = [
        _row_numbers(part, name) for part, name in zip(size, ("starts", "ends"), strict=True)
    ]
    for name, part in (("starts", starts), ("ends", ends)):
        if len(part) != rows:
            raise ValueError(f"{name} has {len(part)} windows, the values have {rows} rows")
        outside = np.flatnonzero((part < 0) | (part > rows))
        if len(outside):
            row = int(outside[0])
            raise ValueError(
                f"{name}[{row}] is {int(part[row])}: a row's number is from 0 to {rows}"
            )
    wrong = np.flatnonzero(starts > ends)
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"the window of row {row} ends before it begins: [{int(starts[row])}, {int(ends[row])})"
        )
    return Spans(starts, ends)


def _row_numbers(part: Any, name: str) -> Array:
    column = read(part, name)
    if column.dtype.kind not in "iu" and len(column.values):
        raise TypeError(f"{name} must be row numbers, which are whole, got {column.dtype}")
    if column.valid is not None:
        raise ValueError(f"{name}[{int(np.argmin(column.valid))}] is null")
    if column.values.dtype.kind == "u" and len(column.values) and int(column.values.max()) >= 2**63:
        raise ValueError(f"{name} has {int(column.values.max())}, which is no row's number")
    return column.values.astype(np.int64)


def _short(size: Any) -> str:
    text = repr(size)
    return text if len(text) <= 60 else f"{text[:57]}..."
