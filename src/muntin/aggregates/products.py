"""Products of values, exact for whole numbers and without an overflow on the way.

A partial on objects is (n, zeros, factor, exponent): how many values there are and how many of them are
zero, and the product of the others. Of exact values it is the factor, and the exponent is None. Of
floats it is factor * 2**exponent with a factor near 1. Compiled products of whole numbers have the
magnitude in two limbs, high * 2**32 + low, and know its sign apart, so that only the result may be too
large and not a product on the way.
"""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.numbers import EXACT, NOT_ADDED, as_python

Factors = tuple[int, int, Any, Any]
Limbs = tuple[int, int, int, int, int]
LOW_BITS, LIMB, HALF_LIMB = 2**32 - 1, 2**32, 2**31
LARGEST_EXPONENT, LEAST_EXPONENT = 1025, -1080
SURE_BITS = 64
NOT_MULTIPLIED = (*NOT_ADDED, dt.date, dt.timedelta)


def Prod(column: str | None = None, *, overflow: str = "error", where: Where = None) -> Aggregate:
    """Multiply the values; null if there are none.

    Whole numbers are exact. In arrays and tables a product of whole numbers has 64 bits: one that does
    not fit is an OverflowError, or null with overflow="null". Products of floats neither overflow nor
    vanish on the way. Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Prod())
    >>> window.bulk_insert([2, 3, -4])
    >>> window.query()
    -24
    """
    signed = Kernel(_limbs, _times_limbs, _signed, halves=True, overflows=True)
    unsigned = Kernel(_limbs, _times_limbs, _unsigned, halves=True, overflows=True)
    return built_in(
        "prod",
        "product",
        identity=(0, 0, 1, None),
        lift=_factor,
        combine=_times,
        lower=_product,
        inverse=_without,
        commutative=True,
        columns=named(column),
        where=where,
        overflow=overflow,
        kernel=Kernel(_scaled, _times_scaled, _unscaled, signed=signed, unsigned=unsigned),
    )


def _factor(value: Any) -> Factors:
    value = as_python(value)
    if isinstance(value, NOT_MULTIPLIED) or type(value).__module__ == "numpy":
        raise TypeError(f"prod takes numbers, got {value!r}")
    if isinstance(value, float) or (isinstance(value, Decimal) and not value.is_finite()):
        return (1, int(value == 0), *math.frexp(value))
    return (1, 1, 1, None) if value == 0 else (1, 0, +value, None)


def _times(a: Factors, b: Factors) -> Factors:
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    n, zeros = a[0] + b[0], a[1] + b[1]
    if a[3] is not None or b[3] is not None:
        return (n, zeros, *_times_scaled(_as_scaled(a), _as_scaled(b)))
    x, y = a[2], b[2]
    if isinstance(x, Decimal) and isinstance(y, Decimal):
        return (n, zeros, EXACT.multiply(x, y), None)
    if isinstance(x, Decimal) or isinstance(y, Decimal):
        x, y = Fraction(x), Fraction(y)
    return (n, zeros, x * y, None)


def _as_scaled(partial: Factors) -> tuple[float, int]:
    """Return the factor and the exponent of a product, from an exact one if it is that."""
    _, zeros, factor, exponent = partial
    if exponent is not None:
        return factor, exponent
    if zeros:
        return 0.0, 0
    exact = Fraction(factor)
    shift = exact.numerator.bit_length() - exact.denominator.bit_length()
    near_one = exact / Fraction(2) ** shift
    return float(near_one), shift


def _without(total: Factors, part: Factors) -> Factors:
    if part[0] == 0:
        return total
    if total[0] == part[0]:
        return (0, 0, 1, None)
    if not (isinstance(total[2], int) and isinstance(part[2], int)):
        return NotImplemented  # type: ignore[no-any-return]
    return (total[0] - part[0], total[1] - part[1], total[2] // part[2], None)


def _product(partial: Factors) -> Any:
    n, zeros, factor, exponent = partial
    if n == 0:
        return None
    if exponent is not None:
        return _unscaled((factor, exponent), n)
    return 0 if zeros else factor


def _scaled(value: Any) -> tuple[float, int]:
    factor, exponent = math.frexp(value)
    return (factor, exponent + 0)


def _times_scaled(a: Any, b: Any) -> Any:
    factor, exponent = math.frexp(a[0] * b[0])
    return (factor, a[1] + b[1] + exponent)


def _unscaled(partial: Any, _n: int) -> float:
    factor, exponent = partial
    if factor == 0.0 or factor != factor or factor - factor != 0.0:
        return float(factor)
    if exponent >= LARGEST_EXPONENT:
        return math.inf if factor > 0.0 else -math.inf
    return math.ldexp(factor, max(exponent, LEAST_EXPONENT))


def _limbs(value: tuple[int, int]) -> Limbs:
    """Return (zeros, whether it is negative, high, low, whether it is too large) of a number."""
    high, low = value
    if high == 0 and low == 0:
        return (1, 0, 0, 1, 0)
    if high >= 0:
        return (0, 0, high, low, 0)
    if low == 0:
        return (0, 1, -high, low, 0)
    return (0, 1, -high - 1, LIMB - low, 0)


def _times_limbs(a: Any, b: Any) -> Any:
    zeros, negative = a[0] + b[0], a[1] ^ b[1]
    if a[4] or b[4] or (a[2] and b[2]):
        return (zeros, negative, 0, 1, 1)
    part = a[3] * (b[3] & 0xFFFF)
    rest = a[3] * (b[3] >> 16)
    low = part + ((rest & 0xFFFF) << 16)
    carry = (rest >> 16) + (low >> 32)
    if float(a[2]) * b[3] + float(a[3]) * b[2] + carry >= 4294967296.0:
        return (zeros, negative, 0, 1, 1)
    return (zeros, negative, a[2] * b[3] + a[3] * b[2] + carry, low & LOW_BITS, 0)


def _signed(partial: Any, _n: int) -> tuple[int, bool]:
    zeros, negative, high, low, large = partial
    if zeros:
        return 0, False
    fits = high < HALF_LIMB or (negative == 1 and high == HALF_LIMB and low == 0)
    return (-high << 32) - low if negative else (high << 32) | low, large == 1 or not fits


def _unsigned(partial: Any, _n: int) -> tuple[int, bool]:
    """Return the bits of an unsigned number, and whether it has more than 64."""
    zeros, _, high, low, large = partial
    if zeros:
        return 0, False
    return (high << 32) | low, large == 1
