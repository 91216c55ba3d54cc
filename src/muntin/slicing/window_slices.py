"""Lanes in which a slice is a window: what sessions and punctuations share.

A late row may join two such windows or split one. What was reported then and is no more is retracted.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from muntin.journal import Journal
from muntin.kernels.loops.slice_log import LOG_COLUMNS
from muntin.slicing.arena import whole
from muntin.slicing.lane import Prepared, lines, longer, together
from muntin.slicing.limits import ALWAYS, Array
from muntin.slicing.loops.session_slices import Notes
from muntin.slicing.partials import Partials
from muntin.slicing.slice_lane import SliceLane
from muntin.slicing.tables import (
    END,
    GONE_COLUMNS,
    GONE_FIRST,
    GONE_KEY,
    GONE_LAST,
    GROUP_KEY,
    KEY,
    KIND,
    RETRACT,
    START,
    UPDATE,
)

NONE_GONE = np.empty((0, GONE_COLUMNS), np.int64)
STEPS = 4
"""A group usually takes fewer steps of the log."""


class WindowSliceLane(SliceLane):
    """One window of a query, with a slice for each window that there is.

    Windows are complete up to `_after`: of all keys, or of each key in a stream in order.
    """

    PER_KEY: ClassVar[tuple[str, ...]] = ("_after",)

    def __init__(
        self,
        name: str,
        window: Any,
        partials: list[Partials],
        width: int,
        *,
        per_key: bool,
        keeps_rows: bool,
    ) -> None:
        super().__init__([name], partials, width, keeps_rows)
        self.windows = {name: window}
        self._stride = int(per_key)
        self._after = np.full(int(not per_key), ALWAYS)
        self._shared = set() if per_key else {"_after"}
        self._gone: list[Array] = []  # what was reported and is no more

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys, watermark)
        if self._stride:
            self._after = longer(self._after, self.slices.keys, watermark)

    def alive(self) -> Array:
        alive = super().alive()
        for gone in self._gone:
            alive[gone[:, GONE_KEY]] = True
        return alive

    def remove(self, name: str, latest: int) -> None:
        raise NotImplementedError(f"{name!r} is the only window of its lane")

    def _place(
        self, prepared: Prepared, place: Callable[[int, Notes], tuple[int, int, int]]
    ) -> Array:
        """Put the groups into slices, as many at a time as there is space for notes; return the keys.

        `place` goes on with a group and returns the next one, the steps of the log and what is gone.
        """
        found, group, space = prepared.found, 0, len(prepared.found)
        keys = self.slices.reserve(np.ascontiguousarray(found[:, GROUP_KEY]))
        while group < len(found):
            log = np.empty((STEPS * space, LOG_COLUMNS), np.int64)
            gone = np.empty((space, GONE_COLUMNS), np.int64)
            group, steps, lost = place(group, Notes(log, gone))
            if lost:
                self._gone.append(gone[:lost])
            self.follow(prepared, keys, log, steps)
            space *= 2
        return keys

    def _gather(self, report: Callable[[tuple[int, int]], tuple[int, int]]) -> Array:
        """Return the windows that a loop writes into `_out`, which is made longer where they do not fit.

        `report` takes (the first key, behind the last), and returns the key to go on with, and how many
        windows it wrote.
        """
        key, gathered = 0, [lines(0)]
        while key < self.keys:
            key, count = report((key, self.keys))
            gathered.append(self._out[:count].copy(order="F"))
            if key < self.keys:
                self._out = lines(4 * len(self._out))
        return together(gathered)

    def _with_retractions(self, windows: Array, behind: int) -> Array:
        """Return windows with those that are no more first; these end `behind` what was noted.

        A window that was no more, and is there again, was changed.
        """
        if not self._gone:
            return windows
        gone = np.concatenate(self._gone)
        self._gone = []
        retracted = lines(len(gone))
        retracted[:] = 0
        retracted[:, KEY], retracted[:, START] = gone[:, GONE_KEY], gone[:, GONE_FIRST]
        retracted[:, END], retracted[:, KIND] = gone[:, GONE_LAST] + behind, RETRACT
        bounds = np.concatenate([retracted, windows])[:, [KEY, START, END]]
        _, which, times = np.unique(bounds, axis=0, return_inverse=True, return_counts=True)
        again = times[which.reshape(-1)] > 1
        windows[again[len(gone) :], KIND] = UPDATE
        return np.concatenate([retracted[~again[: len(gone)]], windows])

    def _due_keys(self) -> Array:
        """Return the keys of which windows may be due."""
        (keys,) = (self.due[: self.keys] <= self._after[: max(self.keys, 1)]).nonzero()
        return keys

    def _note_touched(self, keys: Array, since: Array, journal: Journal) -> None:
        """Note the slices of some keys, each from a start on."""
        journal.items(keys, self.due)
        journal.length(self._gone, self._stale)
        self.slices.note(journal, keys, since)

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "gone": np.concatenate([*self._gone, NONE_GONE])}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        gone = whole(plain["gone"], GONE_COLUMNS)
        keys = gone[:, GONE_KEY]
        if len(gone) and not 0 <= keys.min() <= keys.max() < self.keys:
            raise ValueError(f"windows are gone of keys that are not among {self.keys}")
        self._gone = [gone] if len(gone) else []
