"""The ends of windows that are reported at each multiple of a time."""

import numpy as np

from muntin.slicing.loops import Array
from muntin.windows import Ticking

MOST_TICKS = 2**24


def all_ends(window: Ticking, after: int, upto: int) -> Array:
    """Return the multiples of `every` after one time, up to another."""
    first = window.first_end(after)
    count = (upto - first) // window.every + 1
    if count > MOST_TICKS:
        raise ValueError(
            f"the last rows would be reported {count} times up to {upto}: advance the watermark in "
            "steps, or ask for emit='changes'"
        )
    return first + window.every * np.arange(max(count, 0))


def ends_after_rows(window: Ticking, times: Array, upto: int) -> Array:
    """Return the multiples of `every` that are the first after some row, up to a time."""
    ends = ((times - window.origin) // window.every + 1) * window.every + window.origin
    return np.unique(ends[ends <= upto])
