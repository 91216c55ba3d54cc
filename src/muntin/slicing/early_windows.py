"""Early results: the windows that are not complete and hold slices that changed.

A lane notes the slices that a batch changes as (key, start). When early results are due, these are the
windows to report: each that holds one of them and ends later than what is complete.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from muntin.journal import Journal
from muntin.slicing.arena import whole
from muntin.slicing.irregular_windows import windows_with
from muntin.slicing.limits import END_OF_TIME, Array
from muntin.slicing.report_pieces import refuse_countless
from muntin.slicing.tables import (
    PERIOD_EVERY,
    PERIOD_ORIGIN,
    PERIOD_SIZE,
)
from muntin.windows import ContextFreeWindow

FRESH_KEY = 0
FRESH_START = 1
FRESH_COLUMNS = 2
"""A slice that changed: the number of its key, and where it begins."""
OPEN_KEY = 0
OPEN_WINDOW = 1
OPEN_START = 2
OPEN_END = 3
OPEN_COLUMNS = 4
"""A window that is not complete: the numbers of its key and definition, and its bounds."""
NOTHING_FRESH = np.zeros((0, FRESH_COLUMNS), np.int64)


class FreshSlices:
    """The slices of a lane that changed since early results, as (key, start).

    They are held in pieces, each more than twice as long as the next: a slice that is noted takes
    part in O(log n) merges.
    """

    def __init__(self, slices: Array) -> None:
        self._pieces = [slices]

    def note(self, slices: Array, journal: Journal) -> None:
        """Note slices that changed."""
        journal.fields(self)
        pieces = [*self._pieces, slices]
        while len(pieces) > 1 and len(pieces[-2]) <= 2 * len(pieces[-1]):
            pieces[-2:] = [_distinct(pieces[-2:])]
        self._pieces = pieces

    @property
    def slices(self) -> Array:
        """Each slice once, in the order of keys and starts."""
        return _distinct(self._pieces)

    def taken(self, journal: Journal) -> Array:
        """Return each slice once, and begin again without any."""
        journal.fields(self)
        slices, self._pieces = self.slices, []
        return slices

    def keep_keys(self, alive: Array) -> None:
        """Drop the slices of keys that are not alive; the others get new numbers."""
        slices, numbers = self.slices, np.cumsum(alive) - 1
        slices = slices[alive[slices[:, FRESH_KEY]]]
        slices[:, FRESH_KEY] = numbers[slices[:, FRESH_KEY]]
        self._pieces = [slices]

    @classmethod
    def load(cls, plain: Any, keys: int) -> "FreshSlices":
        """Return slices that were saved, of this number of keys."""
        slices = whole(plain, FRESH_COLUMNS)
        owners = slices[:, FRESH_KEY]
        if len(owners) and not 0 <= owners.min() <= owners.max() < keys:
            raise ValueError(f"slices changed of keys that are not among {keys}")
        return cls(slices)


def _distinct(pieces: list[Array]) -> Array:
    """Return the slices of some pieces in order; in one piece each is there once."""
    slices = pieces[0] if len(pieces) == 1 else np.concatenate([NOTHING_FRESH, *pieces])
    slices = slices[np.lexsort((slices[:, FRESH_START], slices[:, FRESH_KEY]))]
    if len(pieces) > 1 and len(slices):
        keys, starts = slices[:, FRESH_KEY], slices[:, FRESH_START]
        first = np.ones(len(slices), np.bool_)
        first[1:] = (keys[1:] != keys[:-1]) | (starts[1:] != starts[:-1])
        slices = slices[first]
    return slices


def open_windows(
    slices: Array,
    after: Array,
    names: list[str],
    periods: Array,
    listed: Iterable[tuple[int, ContextFreeWindow]],
) -> Array:
    """Return the windows that hold one of some slices and end after `after` (for each slice).

    Each slice is there once, in order; the windows come in the order of keys, definitions and starts.
    """
    pieces = [_repeating(slices, after, names[d], d, period) for d, period in enumerate(periods)]
    pieces += [_listed(slices, after, d, window) for d, window in listed]
    if len(pieces) == 1:
        return pieces[0]
    windows = np.concatenate(pieces)
    order = (windows[:, OPEN_START], windows[:, OPEN_WINDOW], windows[:, OPEN_KEY])
    found: Array = windows[np.lexsort(order)]
    return found


def _repeating(slices: Array, after: Array, name: str, d: int, period: Array) -> Array:
    """Return the open windows of one definition that repeats, each once."""
    size, every, origin = (int(period[c]) for c in (PERIOD_SIZE, PERIOD_EVERY, PERIOD_ORIGIN))
    keys, starts = slices[:, FRESH_KEY], slices[:, FRESH_START]
    last = (starts - origin) // every
    first = (np.maximum(starts, after) - origin - size) // every + 1
    # The windows of a slice that hold the one before it, too, are there already.
    follows = np.append(False, keys[1:] == keys[:-1])[: len(keys)]
    before = np.append(0, last[:-1])[: len(keys)]
    first = np.where(follows, np.maximum(first, before + 1), first)
    count = np.maximum(last - first + 1, 0)
    refuse_countless(name, float(count.sum(dtype=np.float64)))
    number = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    windows = np.empty((len(number), OPEN_COLUMNS), np.int64)
    windows[:, OPEN_KEY], windows[:, OPEN_WINDOW] = np.repeat(keys, count), d
    windows[:, OPEN_START] = (np.repeat(first, count) + number) * every + origin
    windows[:, OPEN_END] = windows[:, OPEN_START] + size
    return windows


def _listed(slices: Array, after: Array, d: int, window: ContextFreeWindow) -> Array:
    """Return the open windows of one definition that does not repeat."""
    if len(slices) == 0:
        return np.zeros((0, OPEN_COLUMNS), np.int64)
    keys, starts = slices[:, FRESH_KEY], slices[:, FRESH_START]
    windows = windows_with(window, np.unique(starts).tolist(), int(after.min()), END_OF_TIME)
    lines = [
        (key, d, start, end)
        for start, end in windows
        for key in np.unique(keys[(start <= starts) & (starts < end) & (after < end)]).tolist()
    ]
    return np.array(lines, np.int64).reshape(-1, OPEN_COLUMNS)
