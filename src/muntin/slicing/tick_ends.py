"""The ends of windows that are reported at each multiple of a time."""

import numpy as np

from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.report_pieces import Expected, refuse_countless
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


def expected_ends(name: str, window: Ticking, after: Array, upto: Array) -> Expected:
    """Return about how many windows end in stretches of time, one per key, and between which times."""
    stretch = float(np.sum(upto.astype(np.float64) - after))
    refuse_countless(name, stretch / window.every)
    first, last = int(after.min(initial=NEVER)), int(upto.max(initial=ALWAYS))
    return Expected(int(stretch / window.every), first, last)
