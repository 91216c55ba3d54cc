"""Values that are added up: which may be, and how nothing is rounded, wrapped or cut off.

Python's integers and fractions are exact by themselves. Decimals are added in a context of their own,
because Python's default one rounds to 28 digits. NumPy's scalars wrap and become the Python numbers
that they stand for. Moments cannot be added: they become a distance from an origin, and `like`, the
value that tells what to make of it again.
"""

import datetime as dt
import decimal
from fractions import Fraction
from typing import Any

EXACT = decimal.Context(
    prec=1_000_000,
    Emax=decimal.MAX_EMAX,
    Emin=decimal.MIN_EMIN,
    traps=[decimal.Inexact, decimal.Overflow],
)
"""Decimals are added in it: a sum that would be rounded is an error."""
QUOTIENT = decimal.Context(prec=64, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])
"""Means of decimals are taken in it, with more digits than any column of decimals has."""
NOT_ADDED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, dt.time)
FIRST_DAY = dt.date(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
LEAST, GREATEST = -(2**63), 2**63 - 1
"""The whole numbers that 64 bits hold."""

Addend = tuple[Any, Any]


def addend(name: str, value: Any) -> Addend:
    """Return the number or duration to add for a value, and `like`, None if it is that already."""
    kind = type(value)
    if kind is int or kind is float:
        return value, None
    if kind is bool:
        return int(value), None
    if kind.__module__ == "numpy":
        return _of_numpy(name, value)
    if isinstance(value, NOT_ADDED):
        raise TypeError(f"{name} takes numbers and durations, got {value!r}{_instead(value)}")
    if isinstance(value, dt.date):
        return _since_epoch(name, value)
    return value, None


def _instead(value: Any) -> str:
    return ": Concat joins text and lists" if isinstance(value, str | bytes | list | tuple) else ""


def _of_numpy(name: str, value: Any) -> Addend:
    kind = value.dtype.kind if hasattr(value, "dtype") and not value.shape else ""
    if kind == "M" and name != "mean":
        raise TypeError(f"{name} takes numbers and durations, got {value!r}")
    if kind in ("m", "M"):
        if value != value:
            raise TypeError(f"{name} does not take {value!r}: give None for what is missing")
        return int(value.astype("int64")), value
    if not kind:
        raise TypeError(f"{name} takes numbers and durations, got {value!r}")
    number = value.item()
    return (number, None) if type(number).__module__ == "numpy" else addend(name, number)


def _since_epoch(name: str, value: dt.date) -> Addend:
    if name != "mean":
        raise TypeError(f"{name} takes numbers and durations, got {value!r}")
    if isinstance(value, dt.datetime):
        return value - _epoch(value), value
    return (value - FIRST_DAY).days, value


def _epoch(like: dt.datetime) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC if like.tzinfo else None)


def plus(a: Any, b: Any) -> Any:
    """Return the sum, exact unless it is of floats."""
    if a.__class__ is decimal.Decimal or b.__class__ is decimal.Decimal:
        return _in_context(EXACT.add, a, b)
    return a + b


def minus(a: Any, b: Any) -> Any:
    """Return the difference, exact unless it is of floats."""
    if a.__class__ is decimal.Decimal or b.__class__ is decimal.Decimal:
        return _in_context(EXACT.subtract, a, b)
    return a - b


def squared(a: Any) -> Any:
    """Return the square, exact unless it is of a float."""
    if a.__class__ is decimal.Decimal:
        return _in_context(EXACT.multiply, a, a)
    return a * a


def _in_context(operation: Any, a: Any, b: Any) -> Any:
    try:
        return operation(a, b)
    except (decimal.Inexact, decimal.Overflow) as error:
        raise OverflowError(f"{a!r} and {b!r} have too many digits between them") from error


def total(amount: Any, like: Any) -> Any:
    """Return a sum as what was added: NumPy's durations again, or the number."""
    if like is None:
        return amount
    return _numpy_like(amount, like)


def mean(amount: Any, like: Any, n: int) -> Any:
    """Return the mean of n values that add up to an amount, in the type of the values."""
    if like is None:
        if isinstance(amount, decimal.Decimal):
            return QUOTIENT.divide(amount, n)
        return amount / n
    if isinstance(like, dt.datetime):
        moment = _epoch(like) + amount / n
        return moment.astimezone(like.tzinfo) if like.tzinfo else moment
    nearest = round(Fraction(amount, n))
    if isinstance(like, dt.date):
        return FIRST_DAY + dt.timedelta(nearest)
    return _numpy_like(nearest, like)


def between(name: str, low: Any, high: Any, weight: Fraction) -> Any:
    """Return the value that lies a share of the way from one value to another, in their type."""
    if isinstance(low, NOT_ADDED):
        raise TypeError(f"{name} takes numbers, moments and durations, got {low!r}")
    if isinstance(low, float) or isinstance(high, float):
        return _between_floats(float(low), float(high), float(weight))
    (start, like), (end, _) = addend("mean", low), addend("mean", high)
    if isinstance(start, float) or isinstance(end, float):
        return _between_floats(float(start), float(end), float(weight))
    if isinstance(start, dt.timedelta):
        start, end = start // MICROSECOND, end // MICROSECOND
        return mean(round(start + (end - start) * weight) * MICROSECOND, like, 1)
    way = Fraction(start) + (Fraction(end) - Fraction(start)) * weight
    if isinstance(start, decimal.Decimal):
        return QUOTIENT.divide(decimal.Decimal(way.numerator), decimal.Decimal(way.denominator))
    if like is None:
        return way if isinstance(start, Fraction) else float(way)
    return mean(round(way), like, 1)


def _between_floats(low: float, high: float, weight: float) -> float:
    if low == high:
        return low
    if (low < 0.0) != (high < 0.0):  # their difference may be too large for a float
        return low * (1.0 - weight) + high * weight
    return low + (high - low) * weight


def _numpy_like(amount: int, like: Any) -> Any:
    if not LEAST < amount <= GREATEST:
        raise OverflowError(f"{amount} does not fit {like.dtype}, which has 64 bits")
    return like.dtype.type(amount, like.dtype.str[4:-1] or "generic")


def as_python(value: Any) -> Any:
    """Return the Python number that a scalar of NumPy's stands for, and anything else as it is."""
    if type(value).__module__ == "numpy" and value.dtype.kind in "fiub":
        return value.item()
    return value


def exact_number(value: Any) -> Any:
    """Return a whole number, decimal or fraction as it is, anything else as a float."""
    value = as_python(value)
    if isinstance(value, int | Fraction):
        return value
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return value
    return float(value)


def two_floats(name: str, value: Any) -> tuple[float, float]:
    """Return a number as two floats that add up to it, short of the 32nd digit."""
    number = rational(name, value)
    high = float(number)
    return high, 0.0 if isinstance(number, float) else float(Fraction(number) - Fraction(high))


def rational(name: str, value: Any) -> Any:
    """Return a number as an int or a fraction, or as a float if it is none of these."""
    if isinstance(value, NOT_ADDED):
        raise TypeError(f"{name} takes numbers, got {value!r}")
    number = exact_number(value)
    return Fraction(number) if isinstance(number, decimal.Decimal) else number


def root(square: Fraction) -> float:
    """Return the root of a fraction, which may be too large or too small for a float itself."""
    quotient = QUOTIENT.divide(
        decimal.Decimal(square.numerator), decimal.Decimal(square.denominator)
    )
    return float(quotient.sqrt(QUOTIENT))


def lost(x: Any, y: Any, total: Any) -> Any:
    """Return what rounding took away from the sum of two floats (Knuth, TAOCP 2, 4.2.2)."""
    of_y = total - x
    return (x - (total - of_y)) + (y - of_y)
