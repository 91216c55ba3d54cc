"""Windows that repeat, over time, rows or an advancing column; and a single one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from muntin.aggregates.durations import is_duration, length_of
from muntin.windows.row_count import RowCount, refuse_rows
from muntin.windows.window import ContextFreeWindow

MEASURES = ("time", "count")
LONGEST = 2**60
FURTHEST = 2**61
"""Sizes and distances from 0 at most: a few of them together still fit into 64 bits."""


@dataclass(frozen=True, repr=False)
class Periodic(ContextFreeWindow):
    """Windows [k * every + origin, k * every + origin + size) for every whole k."""

    size: int
    every: int
    origin: int
    measure: str = "time"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def describe(self) -> str:
        unit = {"time": "", "count": " rows"}.get(self.measure, f" of {self.measure}")
        step = "" if self.every == self.size else f" every {self.every}{unit}"
        start = f" from {self.origin}" if self.origin else ""
        return f"{type(self).__name__} {self.size}{unit}{step}{start}"

    @property
    def longest(self) -> int:
        return self.size

    def next_edge(self, t: int) -> int:
        """Return the first start or end after t."""
        start = (t - self.origin) // self.every * self.every + self.every + self.origin
        return min(start, self.first_end(t))

    def first_end(self, after: int) -> int:
        """Return the first end after a time."""
        origin = self.origin + self.size
        return (after - origin) // self.every * self.every + self.every + origin

    def closed(self, after: int, upto: int) -> Iterator[tuple[int, int]]:
        """Return the windows with after < end <= upto."""
        end = self.first_end(after)
        while end <= upto:
            yield end - self.size, end
            end += self.every


class Tumbling(Periodic):
    """Windows that follow one another without gap or overlap.

    >>> list(Tumbling(10).closed(0, 30))
    [(0, 10), (10, 20), (20, 30)]
    >>> Tumbling("1 hour"), Tumbling(100, measure="count")
    (<Tumbling 1 h>, <Tumbling 100 rows>)
    """

    def __init__(self, size: Any, *, measure: str = "time", origin: Any = 0) -> None:
        _check_measure(measure)
        length = _length("size", size, measure)
        super().__init__(length, length, _origin(origin, measure), measure)


class Sliding(Periodic):
    """Windows of one size that start every so often; they overlap if `every` is under `size`.

    >>> list(Sliding(10, 5).closed(0, 20))
    [(-5, 5), (0, 10), (5, 15), (10, 20)]

    With `muntin.rows` one of the two may be a number of rows: `Sliding("10 min", every=rows(100))` is
    the last ten minutes after each hundredth row of a key; `Sliding(rows(100), every="1 min")` is LastN.
    """

    def __new__(cls, size: Any, every: Any, *, measure: str = "time", origin: Any = 0) -> Any:
        if cls is Sliding and (isinstance(size, RowCount) or isinstance(every, RowCount)):
            from muntin.windows.fired import sliding_by_rows

            return sliding_by_rows(size, every, measure, origin)
        return super().__new__(cls)

    def __getnewargs__(self) -> tuple[int, int]:
        return self.size, self.every

    def __init__(self, size: Any, every: Any, *, measure: str = "time", origin: Any = 0) -> None:
        _check_measure(measure)
        if measure == "time":
            check_alike(size=size, every=every)
        length, step = _length("size", size, measure), _length("every", every, measure)
        super().__init__(length, step, _origin(origin, measure), measure)


class Delta(Periodic):
    """Windows over a column that advances with time, such as kilometres or a sequence number.

    Sizes are whole numbers, but with `every=muntin.rows(10)`: then each tenth row of a key fires a
    window, of the rows up to it that it had not passed by `size` or more.

    >>> import muntin as mt
    >>> Delta("km", 100, 10), Delta("km", 5.0, every=mt.rows(10))
    (<Delta 100 of km every 10 of km>, <the last 5.0 of km after each 10 rows>)
    """

    def __new__(cls, column: str, size: Any, every: Any = None, *, origin: int = 0) -> Any:
        if not isinstance(column, str) or column in ("", *MEASURES):
            raise ValueError(f"Delta needs the name of a column, got {column!r}")
        if cls is Delta and isinstance(every, RowCount):
            from muntin.windows.fired import delta_by_rows

            return delta_by_rows(column, size, every, origin)
        return super().__new__(cls)

    def __getnewargs__(self) -> tuple[str, int, int]:
        return self.measure, self.size, self.every

    def __init__(
        self, column: str, size: int, every: int | None = None, *, origin: int = 0
    ) -> None:
        if isinstance(size, float):
            raise TypeError(
                f"size is a whole number of {column!r}, got {size!r}; of floats there are windows that "
                f"rows fire, such as Delta({column!r}, {size!r}, every=muntin.rows(1))"
            )
        length = _length("size", size, column)
        step = length if every is None else _length("every", every, column)
        super().__init__(length, step, _origin(origin, column), column)


@dataclass(frozen=True, repr=False)
class Fixed(ContextFreeWindow):
    """One window, [start, start + size).

    >>> Fixed(100, 50), list(Fixed(100, 50).closed(0, 1000))
    (<Fixed 100 to 150>, [(100, 150)])
    """

    start: int
    size: int

    def __init__(self, start: Any, size: Any) -> None:
        object.__setattr__(self, "start", _origin(start, "time"))
        if not (hasattr(start, "__index__") or is_duration(size)):
            raise TypeError(
                f"size={size!r} is a bare number beside the moment {start!r}: write a duration, such as "
                "'1 day'"
            )
        object.__setattr__(self, "size", _length("size", size, "time"))

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def describe(self) -> str:
        return f"Fixed {self.start} to {self.start + self.size}"

    @property
    def longest(self) -> int:
        return self.size

    def next_edge(self, t: int) -> int | None:
        """Return the start or the end, whichever is next."""
        return next((edge for edge in (self.start, self.start + self.size) if edge > t), None)

    def closed(self, after: int, upto: int) -> Iterator[tuple[int, int]]:
        """Return the window if it ends there."""
        if after < self.start + self.size <= upto:
            yield self.start, self.start + self.size


def check_alike(**lengths: Any) -> None:
    """Refuse a bare number beside a duration: it would be taken as microseconds."""
    bare = [name for name, length in lengths.items() if not is_duration(length)]
    if bare and len(bare) < len(lengths):
        given = ", ".join(f"{name}={length!r}" for name, length in lengths.items())
        raise TypeError(
            f"{given}: {bare[0]} is a bare number beside a duration; write both as durations, such as "
            "'10 s', or both as whole numbers, for times that are plain integers"
        )


def _check_measure(measure: str) -> None:
    if not isinstance(measure, str):
        raise TypeError(f"measure is 'time' or 'count', got {measure!r}")
    if measure not in MEASURES:
        raise ValueError(
            f"measure is 'time' or 'count', got {measure!r}; for a column there is Delta"
        )


def _length(name: str, value: Any, measure: str) -> int:
    """Return a size or step: a duration for time, else a whole number."""
    refuse_rows(name, value, measure)
    length = length_of(value) if measure == "time" else _whole(name, value, measure)
    if length <= 0:
        raise ValueError(f"a window's {name} must be above zero, got {value!r}")
    if length > LONGEST:
        raise ValueError(f"a window's {name} may be 2**60 at most, got {value!r}")
    return length


def _whole(name: str, value: Any, measure: str) -> int:
    if isinstance(value, bool) or is_duration(value):
        unit = "rows" if measure == "count" else f"{measure!r}"
        raise TypeError(f"{name} is a whole number of {unit}, got {value!r}")
    return int(value)


def _origin(value: Any, measure: str) -> int:
    """Return the origin: a time (datetime, text, integer), or a whole number."""
    origin = _whole("origin", value, measure) if measure != "time" else _moment(value)
    if abs(origin) > FURTHEST:
        raise ValueError(f"the origin or start of a window may be 2**61 at most, got {value!r}")
    return origin


def _moment(value: Any) -> int:
    """Return a time in microseconds; a whole number is taken as it is."""
    if isinstance(value, bool):
        raise TypeError(f"a time is needed, got {value!r}")
    if isinstance(value, int):
        return value
    import numpy as np

    if isinstance(value, np.integer):
        return int(value)
    try:
        given = np.datetime64(_without_zone(value))
        moment = given.astype("datetime64[us]")
    except (OverflowError, ValueError) as error:
        raise ValueError(
            f"{value!r} is not a time; write it like '2026-01-31 08:00', or give a datetime or integer"
        ) from error
    if np.isnat(given) or moment.astype(given.dtype) != given:  # NumPy wraps what does not fit
        raise ValueError(f"{value!r} is not a time that microseconds of 64 bits can tell")
    return int(moment.astype(np.int64))


def _without_zone(value: Any) -> Any:
    import datetime as dt

    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value
