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
from muntin.slicing.lane import lines
from muntin.slicing.limits import END_OF_TIME, Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.loops.early_reports import Fresh
from muntin.slicing.report_pieces import refuse_countless
from muntin.slicing.tables import (
    EARLY,
    END,
    FRESH_COLUMNS,
    FRESH_KEY,
    FRESH_START,
    HI,
    KEY,
    KIND,
    LO,
    START,
    WINDOW,
    Runs,
)
from muntin.windows import ContextFreeWindow

SPARSE = 8
"""Among so many times as many numbers, looking through all of them costs more than sorting."""
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
    """Return the slices of some pieces in order, each once."""
    slices = pieces[0] if len(pieces) == 1 else np.concatenate([NOTHING_FRESH, *pieces])
    if len(slices) == 0:
        return slices
    keys, starts = slices[:, FRESH_KEY], slices[:, FRESH_START]
    if (starts == starts[0]).all():
        found = _distinct_keys(keys)
        same = np.empty((len(found), FRESH_COLUMNS), np.int64)
        same[:, FRESH_KEY], same[:, FRESH_START] = found, starts[0]
        return same
    slices = slices.take(np.lexsort((starts, keys)), 0)
    keys, starts = slices[:, FRESH_KEY], slices[:, FRESH_START]
    first = np.ones(len(slices), np.bool_)
    first[1:] = (keys[1:] != keys[:-1]) | (starts[1:] != starts[:-1])
    return slices[first]


def _distinct_keys(keys: Array) -> Array:
    """Return the numbers of keys in order, each once."""
    space = int(keys.max()) + 1
    if SPARSE * len(keys) < space:
        return np.unique(keys)
    there = np.zeros(space, np.bool_)
    there[keys] = True
    found: Array = np.flatnonzero(there)
    return found


def open_windows(fresh: Fresh, names: list[str], periods: Array, runs: Runs) -> Array:
    """Return a report of the open windows of definitions that repeat, each once."""
    count = 0.0
    for name, period in zip(names, periods, strict=False):
        found = compiled_loops().count_open(fresh, period)
        refuse_countless(name, found)
        count += found
    windows = lines(int(count))
    compiled_loops().report_open(fresh, periods, runs, windows)
    return windows


def listed_windows(
    fresh: Fresh, listed: Iterable[tuple[int, ContextFreeWindow]], runs: Runs
) -> Array:
    """Return a report of the open windows of definitions that do not repeat."""
    found = [line for d, window in listed for line in _listed(fresh, d, window)]
    windows = lines(len(found))
    windows[:, [KEY, WINDOW, START, END]] = np.array(found, np.int64).reshape(-1, 4)
    keys = np.ascontiguousarray(windows[:, KEY])
    head, tail = runs.head[keys], runs.head[keys] + runs.length[keys]
    for bound, column in ((START, LO), (END, HI)):
        places, at = np.empty(len(keys), np.int64), np.ascontiguousarray(windows[:, bound])
        compiled_loops().find_all(runs.table, head, tail, at, places)
        windows[:, column] = places
    windows[:, KIND] = EARLY
    return windows


def _listed(fresh: Fresh, d: int, window: ContextFreeWindow) -> list[tuple[int, int, int, int]]:
    """Return (key, definition, start, end) of the open windows of one definition."""
    keys, starts = fresh.slices[:, FRESH_KEY], fresh.slices[:, FRESH_START]
    if len(keys) == 0:
        return []
    after = fresh.after[keys * fresh.stride]
    windows = windows_with(window, np.unique(starts).tolist(), int(after.min()), END_OF_TIME)
    return [
        (key, d, start, end)
        for start, end in windows
        for key in np.unique(keys[(start <= starts) & (starts < end) & (after < end)]).tolist()
    ]
