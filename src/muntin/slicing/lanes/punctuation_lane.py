"""Windows between rows that open one: a slice is a window, from one such row to the next.

EDBT 2019, Figures 4 and 5: in a stream in order no rows are kept. Out of order a row that opens a window
may come late and split a slice, so rows are kept, as long as their windows may change.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from muntin.journal import Journal
from muntin.slicing.arena import span
from muntin.slicing.held_items import HeldItems, Look
from muntin.slicing.lane import Joining, Prepared, Report, Setting, lines, longer
from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.loops.punctuated_slices import Changed, Cursors, OpeningRows
from muntin.slicing.partials import Partials
from muntin.slicing.rows import KeptRows, Rows, opening
from muntin.slicing.slice_lane import earliest, lifted
from muntin.slicing.tables import (
    GROUP_COLUMNS,
    GROUP_KEY,
    GROUP_START,
    PUNCTUATED_CHANGED,
    PUNCTUATED_COLUMNS,
    PUNCTUATED_END,
    PUNCTUATED_OPENED,
    SLICE_LAST,
    SLICE_ROWS,
    SLICE_START,
)
from muntin.slicing.window_slices import WindowSliceLane
from muntin.windows import Punctuation


class PunctuationLane(WindowSliceLane):
    """The windows of one punctuation; which rows open one comes with the rows (`rows.opening`)."""

    IN_LIVES: ClassVar[bool] = True
    PER_KEY: ClassVar[tuple[str, ...]] = (*WindowSliceLane.PER_KEY, "_begins")
    DERIVED: ClassVar[tuple[str, ...]] = (*WindowSliceLane.DERIVED, "_since")

    def __init__(
        self, name: str, window: Punctuation, partials: list[Partials], setting: Setting
    ) -> None:
        form = {"per_key": setting.ordered, "keeps_rows": not setting.ordered}
        super().__init__(name, window, partials, PUNCTUATED_COLUMNS, **form)
        if not setting.ordered:
            self.kept = KeptRows(self._rows_of(partials))
        self.lateness = setting.lateness
        self._opens = opening(name)
        self._since = np.zeros(0, np.int64)
        self._begins = np.zeros(0, np.int64)  # the last time of a row that was not seen
        self._unknown = ALWAYS  # the same of keys that are new
        self._forgets = setting.idle is None  # else a life that is forgotten does not go on

    @classmethod
    def build(cls, windows: Mapping[str, Any], partials: list[Partials], setting: Setting) -> Self:
        ((name, window),) = windows.items()
        return cls(name, window, partials, setting)

    def _rows_of(self, partials: list[Partials]) -> list[Partials | None]:
        return [lifted(column) for column in partials]

    def _keep_no_rows(self) -> None:
        """Keep rows all the same: one that opens a window may come late."""

    def _last_items(self) -> Array:
        """Return the last time of a row of each key: a late row may split the slice that has it."""
        return self.slices.last(SLICE_LAST)

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys, watermark)
        self._since = longer(self._since, self.slices.keys, NEVER)
        self._begins = longer(self._begins, self.slices.keys, self._unknown)

    # Rows come in

    @property
    def extra(self) -> dict[Any, np.dtype[Any]]:
        return {self._opens: np.dtype(np.bool_)}

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        """Return which rows count, and those grouped and folded."""
        del journal
        after = self._after[rows.keys] if self._stride else self._after
        counts = rows.times >= np.maximum(self.lateness.past(after), self._begins[rows.keys])
        rows = rows if counts.all() else rows.take(np.nonzero(counts)[0])
        if len(rows) == 0:
            return counts, None
        return counts, self._grouped(rows if self.kept is None else rows.in_order())

    def _grouped(self, rows: Rows) -> Prepared:
        last = np.full(self.keys, NEVER)
        if self.kept is None:
            last[rows.keys] = rows.times  # of several rows of a key the last one stays
        group = np.empty(len(rows), np.int64)
        found = np.empty((len(rows), GROUP_COLUMNS), np.int64)
        for adjacent in (self.kept is not None, True):
            rows = rows.in_order() if adjacent else rows
            count = compiled_loops().group_punctuated(
                OpeningRows(rows.keys, rows.times, rows.extra[self._opens]),
                self.slices.runs(),
                Cursors(np.full(self.keys, -1), np.full(self.keys, NEVER), last),
                adjacent,
                group,
                found,
            )
            if count >= 0:
                break
        return self.fold(rows, None if adjacent else group, found[:count])

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        """Put the groups into their slices, some of which they split."""
        found = prepared.found
        self._note_groups(found, journal)
        place = compiled_loops().place_punctuated
        keys = self._place(
            prepared,
            lambda group, notes: place(
                group, found, self.slices.runs(), Changed(self.due, self._since), notes
            ),
        )
        if self.kept is not None:
            self._stale.append(keys)  # a slice that was split
            self.kept.insert(prepared.rows, prepared.kept, journal)

    def _note_groups(self, found: Array, journal: Journal) -> None:
        """Note the slices that groups may extend or split, and all behind them."""
        keys, first = earliest(found[:, GROUP_KEY], found[:, GROUP_START], self.slices.keys)
        head = self.slices.head[keys]
        at = np.empty(len(keys), np.int64)
        tail = head + self.slices.length[keys]
        compiled_loops().find_all(self.slices.meta, head, tail, first, at)
        before = np.where(tail > head, np.maximum(at - 2, head), 0)  # the last two may be joined
        since = np.where(tail > head, self.slices.meta[before, SLICE_START], first)
        journal.items(keys, self._since)
        self._note_touched(keys, np.minimum(since, first), journal)

    def _rows_within(
        self, kept: KeptRows, places: Array, lo: Array, hi: Array
    ) -> tuple[Array, Array, list[Partials | None]]:
        """Count the rows of slices that were split."""
        self.slices.meta[places, SLICE_ROWS] = hi - lo
        return super()._rows_within(kept, places, lo, hi)

    # The watermark advances

    def held(self, keys: Array, journal: Journal) -> HeldItems:
        return replace(super().held(keys, journal), opens=PUNCTUATED_OPENED)

    def held_rows(self) -> None:
        """Return nothing: which of the kept rows open a window is not kept."""

    def lacks(self, name: str, look: Look) -> Array:
        del name
        after = self._after[look.keys * self._stride]
        there = look.items > 0
        places = np.where(there, self.slices.head[look.keys] + look.lo, 0)
        opened = there & (self.slices.meta[places, PUNCTUATED_OPENED] == 1)
        unseen = self._begins[look.keys] > ALWAYS
        lacking: Array = (unseen & ~opened) | (~there & (look.time <= after))
        return lacking

    def advance(self, watermark: Array, journal: Journal) -> Report:
        """Report the windows that are complete or have changed, and retract those that are no more."""
        self.refresh(journal)
        windows = self._with_retractions(self._due(watermark, journal), 0)
        report = self.answer(windows, journal)
        self.drop_kept(journal)
        return report

    def _due(self, watermark: Array, journal: Journal) -> Array:
        self._after = np.maximum(watermark, self._after)
        due, head = self._note_due(journal)
        if len(due) == 0:
            return lines(0)
        marks = (self._after, self.lateness.past(self._after), self._stride)
        changed, report = Changed(self.due, self._since), compiled_loops().report_punctuated
        windows = self._gather(
            lambda keys: report(keys, self.slices.runs(), changed, marks, self._begins, self._out)
        )
        self.slices.leave(head, self.slices.head[due] - head, journal)
        return windows

    def _note_due(self, journal: Journal) -> tuple[Array, Array]:
        """Note what `report_punctuated` will change of the keys that are due.

        Return these keys, and where their runs begin.
        """
        slices, keys = self.slices, self._due_keys()
        head = slices.head[keys]
        tail, first = head + slices.length[keys], np.empty(len(keys), np.int64)
        compiled_loops().find_all(slices.meta, head, tail, self._since[keys], first)
        places = span(first, tail - first)
        journal.items(keys, slices.head, slices.length, self.due, self._since)
        journal.items(places, slices.meta[:, PUNCTUATED_CHANGED], slices.meta[:, PUNCTUATED_END])
        return keys, head

    # Windows and keys come and go

    def join_stream(self, joining: Joining) -> None:
        self._unknown = joining.forgotten
        self._begins = joining.last.copy()

    def keep_keys(self, alive: Array) -> None:
        if self._forgets:  # a new key may be one of those
            gone = self._begins[: len(alive)][~alive]
            self._unknown = max(self._unknown, int(gone.max(initial=ALWAYS)))
        super().keep_keys(alive)

    # State

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "unknown": self._unknown}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        self._unknown = int(plain["unknown"])
        self._since[: self.keys] = ALWAYS

    def _check_slices(self, meta: Array) -> None:
        super()._check_slices(meta)
        opened, end = meta[:, PUNCTUATED_OPENED], meta[:, PUNCTUATED_END]
        if not ((opened == 0) | (opened == 1)).all():
            raise ValueError("a slice was opened by a row or was not")
        if not ((end == ALWAYS) | (end > meta[:, SLICE_START])).all():
            raise ValueError("a window ends behind its start")
