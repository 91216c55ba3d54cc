"""Windows of days, weeks, months, quarters and years, as a time zone's calendar has them.

Starts are counted in days, in Mondays or in first days of months, each from the first one of 1970 on. An
edge is the first moment of its day in the zone: where clocks are changed a day has 23 or 25 hours, and
where midnight itself is left out, the day begins later.
"""

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from muntin.windows.window import ContextFreeWindow

DAY, WEEK, MONTH = "day", "week", "month"
UNITS = {
    "day": (1, DAY),
    "week": (1, WEEK),
    "month": (1, MONTH),
    "quarter": (3, MONTH),
    "year": (12, MONTH),
}
WRITTEN = re.compile(r"\s*([-+]?\d+)\s*([a-z]+?)s?\s*")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FIRST_DAY = dt.date(1970, 1, 1).toordinal()
FIRST_MONDAY = dt.date(1970, 1, 5).toordinal()
MICROSECOND = dt.timedelta(microseconds=1)
DAY_US = 86_400_000_000
SHORTEST = {DAY: 1, WEEK: 7, MONTH: 28}
LONGEST = {DAY: 1, WEEK: 7, MONTH: 31}
"""The days of each unit, at least and at most."""
MOST_DAYS = 3_660_000
EDGES = 1 << 12
"""Edges that are remembered, of all windows."""


@dataclass(frozen=True, repr=False)
class Calendar(ContextFreeWindow):
    """Windows that start at a day, Monday or first day of a month, and are some of these long.

    A month behind a day is the same day of the next month, or that month's last one. Times are moments:
    microseconds since 1970 in UTC.

    >>> Calendar("1 month", every="1 day", zone="Europe/Berlin")
    <Calendar 1 month every 1 day in Europe/Berlin>
    >>> [(end - start) // 3_600_000_000 for start, end in
    ...     Calendar("1 day", zone="Europe/Berlin").closed(1774609200000000, 1774868400000000)]
    [24, 24, 23]
    """

    size: tuple[int, str]
    every: tuple[int, str]
    zone: str

    def __init__(self, size: str, every: str | None = None, *, zone: str = "UTC") -> None:
        length = _span("size", size)
        object.__setattr__(self, "size", length)
        object.__setattr__(self, "every", length if every is None else _span("every", every))
        object.__setattr__(self, "zone", zone)
        _zone(zone)  # or an error

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def describe(self) -> str:
        step = "" if self.every == self.size else f" every {_text(self.every)}"
        return f"Calendar {_text(self.size)}{step} in {self.zone}"

    @property
    def gapless(self) -> bool:
        (size, unit), (every, of) = self.size, self.every
        return size * SHORTEST[unit] >= every * LONGEST[of] or (unit == of and size >= every)

    @property
    def longest(self) -> int:
        count, unit = self.size
        return (count * LONGEST[unit] + 1) * DAY_US  # a day that is left out makes another longer

    def next_edge(self, t: int) -> int:
        """Return the first start or end after t."""
        start = self._start(self._last_start(t) + 1)
        return min(start, self._end(self._first_end(t)))

    def closed(self, after: int, upto: int) -> Iterator[tuple[int, int]]:
        """Return the windows with after < end <= upto."""
        k = self._first_end(after)
        while self._end(k) <= upto:
            if self._start(k) < self._end(k):  # a zone may leave out a day
                yield self._start(k), self._end(k)
            k += 1

    def _start(self, k: int) -> int:
        return _beginning(_day(self.every, k), self.zone)

    def _end(self, k: int) -> int:
        return _beginning(_later(_day(self.every, k), self.size), self.zone)

    def _last_start(self, t: int) -> int:
        """Return the number of the last window that starts at t or before."""
        k = _number(self.every, _local_day(t, self.zone))
        while self._start(k) > t:
            k -= 1
        while self._start(k + 1) <= t:
            k += 1
        return k

    def _first_end(self, after: int) -> int:
        """Return the number of the first window that ends after a time."""
        count, unit = self.size
        day = _later(_local_day(after, self.zone), (-count, unit))
        k = _number(self.every, day)
        while self._end(k) > after:
            k -= 1
        while self._end(k) <= after:
            k += 1
        return k


def _span(name: str, given: Any) -> tuple[int, str]:
    """Return a number of days, weeks or months."""
    if not isinstance(given, str):
        raise TypeError(f"{name} is a text such as '1 month', got {given!r}")
    written = WRITTEN.fullmatch(given.lower())
    if written is None or written[2] not in UNITS:
        raise ValueError(
            f"{name}={given!r} is not a number of days, weeks, months, quarters or years, such as "
            "'1 month'; shorter windows are Tumbling and Sliding"
        )
    many, unit = UNITS[written[2]]
    count = int(written[1]) * many
    if count <= 0:
        raise ValueError(f"a window's {name} must be above zero, got {given!r}")
    if count * SHORTEST[unit] > MOST_DAYS:
        raise ValueError(f"a window's {name} must be below 10000 years, got {given!r}")
    return count, unit


def _text(span: tuple[int, str]) -> str:
    count, unit = span
    return f"{count} {unit}{'' if count == 1 else 's'}"


@lru_cache
def _zone(name: Any) -> ZoneInfo:
    if not isinstance(name, str):
        raise TypeError(f"zone is the name of a time zone, such as 'Europe/Berlin', got {name!r}")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"there is no time zone {name!r} here: write it like 'Europe/Berlin'"
        ) from error


def _local_day(t: int, zone: str) -> dt.date:
    try:
        return (EPOCH + t * MICROSECOND).astimezone(_zone(zone)).date()
    except OverflowError as error:
        raise ValueError(
            f"calendars are of the years 1 to 9999, and a time of {t} us is beyond"
        ) from error


def _day(every: tuple[int, str], k: int) -> dt.date:
    """Return the day at which window k starts."""
    count, unit = every
    if unit == MONTH:
        return _later(dt.date(1970, 1, 1), (k * count, MONTH))
    first, days = (FIRST_DAY, 1) if unit == DAY else (FIRST_MONDAY, 7)
    return _from_ordinal(first + k * count * days)


def _number(every: tuple[int, str], day: dt.date) -> int:
    """Return the number of the last window that starts at a day or before."""
    count, unit = every
    if unit == MONTH:
        return (12 * (day.year - 1970) + day.month - 1) // count
    first, days = (FIRST_DAY, 1) if unit == DAY else (FIRST_MONDAY, 7)
    return (day.toordinal() - first) // (count * days)


def _later(day: dt.date, span: tuple[int, str]) -> dt.date:
    """Return the day that is so much later; of a month that is too short, its last day."""
    count, unit = span
    if unit != MONTH:
        return _from_ordinal(day.toordinal() + count * (1 if unit == DAY else 7))
    year, month = divmod(12 * day.year + day.month - 1 + count, 12)
    if not 1 <= year < dt.MAXYEAR:
        raise _beyond(f"the year {year}")
    behind = dt.date(year + month // 11, (month + 1) % 12 + 1, 1)
    return dt.date(year, month + 1, min(day.day, (behind - dt.timedelta(1)).day))


def _from_ordinal(ordinal: int) -> dt.date:
    if not 1 <= ordinal <= dt.date.max.toordinal():
        raise _beyond(f"day {ordinal} of our time")
    return dt.date.fromordinal(ordinal)


def _beyond(what: str) -> ValueError:
    return ValueError(f"calendars are of the years 1 to 9999, and {what} is beyond")


@lru_cache(EDGES)
def _beginning(day: dt.date, zone: str) -> int:
    """Return the first moment of a day."""
    rules = _zone(zone)
    midnight = dt.datetime(day.year, day.month, day.day, tzinfo=rules)
    try:
        moment = midnight.astimezone(dt.UTC)
        if moment.astimezone(rules).replace(tzinfo=None) != midnight.replace(tzinfo=None):
            moment = _first_of(day, rules, midnight.replace(fold=1).astimezone(dt.UTC), moment)
    except OverflowError as error:
        raise _beyond(f"{day}") from error
    return (moment - EPOCH) // MICROSECOND


def _first_of(
    day: dt.date, rules: ZoneInfo, before: dt.datetime, behind: dt.datetime
) -> dt.datetime:
    """Return the first moment of a day without midnight, between two moments, to the second."""
    low, high = 0, int((behind - before).total_seconds())
    while low < high:
        middle = (low + high) // 2
        if (before + dt.timedelta(seconds=middle)).astimezone(rules).date() >= day:
            high = middle
        else:
            low = middle + 1
    return before + dt.timedelta(seconds=low)
