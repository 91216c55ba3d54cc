"""How much a counter has risen, exactly for whole numbers and decimals.

A partial is (first, last, increase); of whole numbers in compiled loops each is two limbs, as in sums.
"""

from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.numbers import addend, lost, minus, plus
from muntin.aggregates.sums import LOW_BITS, sum_of_limbs, unsigned_sum_of_limbs

Risen = tuple[Any, Any, Any]


def Increase(
    column: str | None = None, *, overflow: str = "error", where: Where = None
) -> Aggregate:
    """Add up how much a counter rises from row to row; 0 of one row, null if there are none.

    A reading below the one before it means that the counter began again at 0, and counts as it is.
    Only rows of the window are seen: nothing is extrapolated. What does not fit 64 bits is an
    OverflowError, or null with overflow="null". Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Increase())
    >>> window.bulk_insert([100, 160, 20, 25])
    >>> window.query()
    85
    """
    signed = Kernel(_limbs, _join_limbs, _signed, halves=True, overflows=True)
    unsigned = Kernel(_limbs, _join_limbs, _unsigned, halves=True, overflows=True)
    return built_in(
        "increase",
        "increase",
        identity=None,
        lift=_lift,
        combine=_joined,
        lower=_increase,
        columns=named(column),
        where=where,
        overflow=overflow,
        kernel=Kernel(_reading, _join_readings, _risen, signed=signed, unsigned=unsigned),
    )


def _lift(value: Any) -> Risen:
    number, like = addend("increase", value)
    if like is not None or not hasattr(number, "real"):
        raise TypeError(f"increase takes numbers, got {value!r}")
    return (number, number, minus(number, number))


def _joined(a: Risen | None, b: Risen | None) -> Any:
    if a is None or b is None:
        return a if b is None else b
    step = minus(b[0], a[1])
    return (a[0], b[1], plus(plus(a[2], b[2]), b[0] if step < 0 else step))


def _increase(partial: Risen | None) -> Any:
    return None if partial is None else partial[2]


def _reading(value: Any) -> tuple[float, float, float, float]:
    x = float(value)
    return (x, x, x - x, 0.0)  # an increase of 0, or NaN for what is no number


def _join_readings(a: Any, b: Any) -> Any:
    """Add both increases and the step between them, each with what rounding took away from it."""
    step = b[0] - a[1]
    rest = a[3] + b[3] + lost(b[0], -a[1], step)
    if step < 0.0:
        step, rest = b[0], a[3] + b[3]
    both = a[2] + b[2]
    total = both + step
    return (a[0], b[1], total, rest + lost(a[2], b[2], both) + lost(both, step, total))


def _risen(partial: Any, _n: int) -> float:
    total, rest = partial[2], partial[3]
    return float(total + rest if rest == rest else total)


def _limbs(halves: Any) -> tuple[int, int, int, int, int, int]:
    return (halves[0], halves[1], halves[0], halves[1], 0, 0)


def _join_limbs(a: Any, b: Any) -> Any:
    high, low = b[0] - a[2], b[1] - a[3]
    if high < 0 or (high == 0 and low < 0):
        high, low = b[0], b[1]
    low = low + a[5] + b[5]
    return (a[0], a[1], b[2], b[3], high + a[4] + b[4] + (low >> 32), low & LOW_BITS)


def _signed(partial: Any, n: int) -> tuple[int, bool]:
    return sum_of_limbs((partial[4], partial[5]), n)


def _unsigned(partial: Any, n: int) -> tuple[int, bool]:
    return unsigned_sum_of_limbs((partial[4], partial[5]), n)
