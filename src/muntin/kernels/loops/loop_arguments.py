"""Named tuples that several loop files take as arguments.

Python fills them and passes them to an entry, which Numba compiles for the types of their fields. Numba
unboxes each array of a named tuple at each call (about 0.15 us, against 0.05 us for an argument), so a
loop that takes one works on many rows.
"""

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Spans(NamedTuple):
    """Windows [starts[k], ends[k]) over rows."""

    starts: Array  # per window: its first row
    ends: Array  # per window: the row after its last

    def longest(self) -> int:
        """Return the number of rows in the longest window."""
        return int(np.max(self.ends - self.starts, initial=0))

    def every(self, step: int) -> "Spans":
        """Return every step-th window, beginning with the first."""
        return Spans(self.starts[::step].copy(), self.ends[::step].copy())

    def only(self, chosen: Array) -> "Spans":
        """Return the chosen windows."""
        return Spans(self.starts[chosen], self.ends[chosen])


class Suffixes(NamedTuple):
    """The front of a window: the aggregates from each of its rows to the boundary."""

    partials: Any  # one array per field; the partial of row i is at i & mask
    mask: Any  # the length of the arrays, a power of two, less one
