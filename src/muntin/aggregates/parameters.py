"""Parameters of aggregates, refused with their name and value where they make no sense."""

import math
from fractions import Fraction
from typing import Any

MOST_KEPT = 10**9
"""No aggregate keeps more rows than that when it is asked for some."""


def check_whole(name: str, parameter: str, value: Any, least: int, greatest: int) -> None:
    """Raise ValueError unless the value is a whole number in [least, greatest]."""
    if type(value) is not int or not least <= value <= greatest:
        raise ValueError(
            f"{name}: {parameter} must be a whole number from {least} to {greatest}, got {value!r}"
        )


def real(
    name: str, parameter: str, value: Any, least: float = -math.inf, most: float = math.inf
) -> float:
    """Return a number in [least, most] as a float, or raise ValueError."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        bounds = f"at least {least}" if most == math.inf else f"at most {most}"
        raise ValueError(f"{name}: {parameter} must be a number, {bounds}, got {value!r}")
    return float(value)


def check_open(name: str, parameter: str, value: Any) -> None:
    """Raise ValueError unless the value lies between 0 and 1."""
    if not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError(f"{name}: {parameter} must lie between 0 and 1, got {value!r}")


def exact_share(name: str, q: Any) -> Fraction:
    """Return q as the decimal that was written: 0.55 of 100 is rank 55, not 56."""
    if not isinstance(q, int | float) or not 0 <= q <= 1:
        raise ValueError(f"{name}: q must be between 0 and 1, got {q!r}")
    return Fraction(repr(float(q)))
