"""The ends of windows that are reported at each multiple of a time."""

import numpy as np

from muntin.slicing.limits import Array
from muntin.windows import Ticking


def all_ends(window: Ticking, after: int, upto: int) -> Array:
    """Return the multiples of `every` after one time, up to another."""
    first = window.first_end(after)
    count = (upto - first) // window.every + 1
    return first + window.every * np.arange(max(count, 0))


def ends_after_rows(window: Ticking, times: Array, upto: int) -> Array:
    """Return the multiples of `every` that are the first after some row, up to a time."""
    origin = window.origin % window.every
    ends = ((times - origin) // window.every + 1) * window.every + origin
    return np.unique(ends[ends <= upto])
