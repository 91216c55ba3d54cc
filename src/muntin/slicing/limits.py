"""How far times and measures may reach, so that arithmetic on 64 bits never overflows."""

import numpy as np

from muntin.slicing.tables import Array
from muntin.windows.periodic import FURTHEST

__all__ = ["ALWAYS", "END_OF_TIME", "FAR", "NEVER", "Array", "less"]

NEVER = 2**63 - 1
"""Later than any time: the time at which something that will not happen is due."""
ALWAYS = -(2**63)
"""Earlier than any time: the time of something that is due at once."""
FAR = FURTHEST
"""Times and measures stay within this distance of 0, so that sums of a few sizes do not overflow."""
END_OF_TIME = 2 * FAR
"""No window that holds a time ends later, and no watermark is later."""


def less(values: Array, amount: int) -> Array:
    """Subtract, with the earliest time there is as the floor."""
    if amount == 0:
        return values
    floor = ALWAYS + max(amount, 0)
    if len(values) == 1:
        return np.array([max(int(values[0]), floor) - amount], np.int64)
    floored: Array = np.maximum(values, floor)
    floored -= amount
    return floored
