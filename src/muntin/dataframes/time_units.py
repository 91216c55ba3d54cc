"""Times and durations from one unit to another, exactly."""

from fractions import Fraction

import numpy as np

from muntin.dataframes.columns import Array

ATTOSECONDS = {
    "as": 1,
    "fs": 10**3,
    "ps": 10**6,
    "ns": 10**9,
    "us": 10**12,
    "ms": 10**15,
    "s": 10**18,
    "m": 60 * 10**18,
    "h": 3600 * 10**18,
    "D": 86_400 * 10**18,
    "W": 604_800 * 10**18,
}
"""The units of time that have one length."""


MOST = 2**63 - 1


def convert(ticks: Array, factor: Fraction) -> tuple[Array, Array, Array]:
    """Return whole numbers times a factor, which of them are not whole then, and which do not fit.

    Where they are not whole or do not fit, the result is 0.
    """
    if factor.denominator > MOST:
        whole, broken = np.zeros_like(ticks), ticks != 0
    else:
        whole, rest = np.divmod(ticks, ticks.dtype.type(factor.denominator))
        broken = rest != 0
    furthest = MOST // factor.numerator
    far = (whole > furthest) | (whole < -furthest if whole.dtype.kind == "i" else False)
    held = np.where(broken | far, 0, whole).astype(np.int64)
    return held * min(factor.numerator, MOST), broken, far & ~broken
