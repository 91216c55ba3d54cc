"""Durations as people write them, as whole microseconds."""

import datetime as dt
import re
from fractions import Fraction
from typing import Any

MICROSECONDS: dict[str, int | Fraction] = {
    "ns": Fraction(1, 1000),
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
UNIT_NANOSECONDS = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
"""The units that moments come in, by NumPy's names for them."""
SPELLINGS = {
    "ns": "ns nanosecond nanoseconds",
    "us": "us µs microsecond microseconds",
    "ms": "ms millisecond milliseconds",
    "s": "s sec secs second seconds",
    "min": "min mins m minute minutes t",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "w": "w week weeks",
}
UNIT_OF = {word: unit for unit, words in SPELLINGS.items() for word in words.split()}
TERM = re.compile(r"\s*([-+]?\d+(?:\.\d+)?)\s*([a-zµ]+)\s*")


class Duration(int):
    """Whole microseconds that show themselves in the largest unit of which they are a whole number.

    >>> print(Duration(3_600_000_000), Duration(90_000_000), Duration(0))
    1 h 90 s 0 s
    """

    def __str__(self) -> str:
        units = reversed(MICROSECONDS.items())
        unit, size = next((u, size) for u, size in units if self % size == 0) if self else ("s", 1)
        return f"{self // size} {unit}"


def microseconds(duration: Any) -> int:
    """Return a duration in whole microseconds; ValueError if it is not a whole number of them.

    Text ("1 hour", "1h", "1 min 30 s"), datetime.timedelta and numpy.timedelta64 are durations; a whole
    number is taken as it is, for times that are plain integers.

    >>> microseconds("1 hour"), microseconds("1min 30s"), microseconds(250)
    (3600000000, 90000000, 250)
    """
    length = _length(duration)
    return length if isinstance(length, int) else _whole(duration, length, "microseconds")


def nanoseconds(duration: Any) -> int:
    """Return a duration in whole nanoseconds; a whole number is taken as microseconds.

    >>> nanoseconds("2 us"), nanoseconds("1900 ns")
    (2000, 1900)
    """
    return _whole(duration, Fraction(_length(duration)) * 1000, "nanoseconds")


def _whole(duration: Any, length: Fraction, unit: str) -> int:
    if length.denominator != 1:
        raise ValueError(f"{duration!r} is not a whole number of {unit}, which times here have")
    return int(length)


def _length(duration: Any) -> int | Fraction:
    """Return a duration in microseconds, exactly; a whole number as it is."""
    if isinstance(duration, bool):
        raise TypeError(f"a duration is needed, such as '1 hour', got {duration!r}")
    if isinstance(duration, dt.timedelta):
        finer = Fraction(getattr(duration, "nanoseconds", 0), 1000)  # pandas' durations have them
        return duration // dt.timedelta(microseconds=1) + finer
    if isinstance(duration, str):
        return _parsed(duration)
    if type(duration).__module__ == "numpy" and hasattr(duration, "astype"):
        return _from_numpy(duration)
    if isinstance(duration, int):
        return duration
    raise TypeError(f"a duration is needed, such as '1 hour' or a timedelta, got {duration!r}")


def length_of(duration: Any) -> int:
    """Return microseconds that show themselves as a duration, if they were given as one.

    >>> print(length_of("60 min"), length_of(60))
    1 h 60
    """
    length = microseconds(duration)
    return Duration(length) if is_duration(duration) else length


def is_duration(size: Any) -> bool:
    """Whether a window's size is a stretch of time and not a number of rows.

    >>> is_duration("1 hour"), is_duration(3)
    (True, False)
    """
    if type(size).__module__ == "numpy":
        return bool(size.dtype.kind == "m")
    return not isinstance(size, int)


def _parsed(text: str) -> Fraction:
    total, position = Fraction(0), 0
    lowered = text.lower()
    while position < len(lowered):
        term = TERM.match(lowered, position)
        if term is None or term[2] not in UNIT_OF:
            raise ValueError(
                f"{text!r} is not a duration; write it like '1 hour', '90 s' or '1h 30min' "
                f"(units: {', '.join(MICROSECONDS)})"
            )
        total += Fraction(term[1]) * MICROSECONDS[UNIT_OF[term[2]]]
        position = term.end()
    if not text.strip():
        raise ValueError("an empty text is not a duration; write it like '1 hour'")
    return total


def _from_numpy(duration: Any) -> int | Fraction:
    if duration.dtype.kind in "iu":
        return int(duration)
    if duration.dtype.kind == "m":
        fine = duration.astype("timedelta64[ns]")
        if fine.astype(duration.dtype) != duration:
            coarse = duration.astype("timedelta64[us]")
            if coarse.astype(duration.dtype) != duration:
                raise ValueError(f"{duration!r} is not a whole number of nanoseconds")
            return Fraction(int(coarse.astype("int64")))
        return Fraction(int(fine.astype("int64")), 1000)
    raise TypeError(f"a duration is needed, such as '1 hour' or a timedelta, got {duration!r}")


def nanoseconds_since_epoch(name: str, moment: Any) -> int:
    """Return a moment as nanoseconds since 1970, a whole number is microseconds; `name` is who asks.

    >>> nanoseconds_since_epoch("rate", dt.date(1970, 1, 2)), nanoseconds_since_epoch("rate", 5)
    (86400000000000, 5000)
    """
    if type(moment).__module__ == "numpy" and hasattr(moment, "dtype"):
        return _of_numpy(name, moment)
    if isinstance(moment, dt.datetime):
        if moment != moment:  # pandas' NaT
            raise TypeError(
                f"{name} does not take {moment!r} as a time: give None for what is missing"
            )
        epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC if moment.tzinfo else None)
        whole = (moment - epoch) // dt.timedelta(microseconds=1)
        return whole * 1000 + getattr(moment, "nanosecond", 0)
    if isinstance(moment, dt.date):
        return (moment - dt.date(1970, 1, 1)).days * UNIT_NANOSECONDS["D"]
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment * 1000
    raise TypeError(f"{name}: a time is a moment or a whole number, got {moment!r}")


def _of_numpy(name: str, moment: Any) -> int:
    if moment.dtype.kind in "iu":
        return int(moment) * 1000
    unit = moment.dtype.str[4:-1] if moment.dtype.kind == "M" else ""
    if unit not in UNIT_NANOSECONDS or moment != moment:
        raise TypeError(f"{name}: a time is a moment or a whole number, got {moment!r}")
    return int(moment.astype("int64")) * UNIT_NANOSECONDS[unit]
