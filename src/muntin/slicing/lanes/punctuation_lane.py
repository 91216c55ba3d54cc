"""Windows between rows that open one: a slice is a window, from one such row to the next.

EDBT 2019, Figures 4 and 5: in a stream in order no rows are kept. Out of order a row that opens a window
may come late and split a slice, so rows are kept, as long as their windows may change.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from muntin.journal import Journal
from muntin.kernels.loops.slice_log import LOG_COLUMNS
from muntin.slicing.arena import span, whole
from muntin.slicing.lane import Joining, Prepared, Report, Setting, lines, longer
from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.loops.punctuated_slices import Changed, Cursors, OpeningRows
from muntin.slicing.loops.session_slices import Notes
from muntin.slicing.partials import Partials
from muntin.slicing.rows import KeptRows, Rows, opening
from muntin.slicing.slice_lane import SliceLane, earliest, lifted
from muntin.slicing.tables import (
    END,
    GONE_COLUMNS,
    GONE_FIRST,
    GONE_KEY,
    GONE_LAST,
    GROUP_COLUMNS,
    GROUP_KEY,
    GROUP_START,
    KEY,
    KIND,
    PUNCTUATED_CHANGED,
    PUNCTUATED_COLUMNS,
    PUNCTUATED_END,
    PUNCTUATED_OPENED,
    REPORT_COLUMNS,
    RETRACT,
    SLICE_LAST,
    SLICE_ROWS,
    SLICE_START,
    START,
)
from muntin.windows import Punctuation

NONE_GONE = np.empty((0, GONE_COLUMNS), np.int64)


class PunctuationLane(SliceLane):
    """The windows of one punctuation; which rows open one comes with the rows (`rows.opening`)."""

    IN_LIVES: ClassVar[bool] = True
    PER_KEY: ClassVar[tuple[str, ...]] = ("_after", "_begins")
    DERIVED: ClassVar[tuple[str, ...]] = (*SliceLane.DERIVED, "_since")

    def __init__(
        self, name: str, window: Punctuation, partials: list[Partials], setting: Setting
    ) -> None:
        super().__init__([name], partials, PUNCTUATED_COLUMNS, not setting.ordered)
        if not setting.ordered:
            self.kept = KeptRows(self._rows_of(partials))
        self.windows = {name: window}
        self.lateness = setting.lateness
        self._opens = opening(name)
        self._stride = int(setting.ordered)
        self._after = np.full(int(not setting.ordered), ALWAYS)
        self._shared = set() if setting.ordered else {"_after"}
        self._since = np.zeros(0, np.int64)
        self._begins = np.zeros(0, np.int64)  # the last time of a row that was not seen
        self._unknown = ALWAYS  # the same of keys that are new
        self._gone: list[Array] = []

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
        if self._stride:
            self._after = longer(self._after, self.slices.keys, watermark)

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
        found, group, space = prepared.found, 0, len(prepared.found)
        self._note_touched(found, journal)
        keys = self.slices.reserve(np.ascontiguousarray(found[:, GROUP_KEY]))
        while group < len(found):
            log = np.empty((3 * space, LOG_COLUMNS), np.int64)
            gone = np.empty((space, GONE_COLUMNS), np.int64)
            group, steps, lost = compiled_loops().place_punctuated(
                group, found, self.slices.runs(), Changed(self.due, self._since), Notes(log, gone)
            )
            self._gone.append(gone[:lost])
            self.follow(prepared, keys, log, steps)
        if self.kept is not None:
            self._stale.append(keys)  # a slice that was split
            self.kept.insert(prepared.rows, prepared.kept, journal)

    def _note_touched(self, found: Array, journal: Journal) -> None:
        """Note the slices that groups may extend or split, and all behind them."""
        keys, first = earliest(found[:, GROUP_KEY], found[:, GROUP_START], self.slices.keys)
        head = self.slices.head[keys]
        at = np.empty(len(keys), np.int64)
        tail = head + self.slices.length[keys]
        compiled_loops().find_all(self.slices.meta, head, tail, first, at)
        before = np.where(tail > head, np.maximum(at - 2, head), 0)  # the last two may be joined
        since = np.where(tail > head, self.slices.meta[before, SLICE_START], first)
        journal.items(keys, self.due, self._since)
        journal.length(self._gone, self._stale)
        self.slices.note(journal, keys, np.minimum(since, first))

    def _rows_within(
        self, kept: KeptRows, places: Array, lo: Array, hi: Array
    ) -> tuple[Array, Array, list[Partials | None]]:
        """Count the rows of slices that were split."""
        self.slices.meta[places, SLICE_ROWS] = hi - lo
        return super()._rows_within(kept, places, lo, hi)

    # The watermark advances

    def advance(self, watermark: Array, journal: Journal) -> Report:
        """Report the windows that are complete or have changed, and retract those that are no more."""
        self.refresh(journal)
        gone = np.concatenate([*self._gone, NONE_GONE])
        self._gone = []
        retracted = np.zeros((len(gone), REPORT_COLUMNS), np.int64)
        retracted[:, KEY], retracted[:, START] = gone[:, GONE_KEY], gone[:, GONE_FIRST]
        retracted[:, END], retracted[:, KIND] = gone[:, GONE_LAST], RETRACT
        windows = np.concatenate([retracted, self._due(watermark, journal)])
        report = self.answer(windows, journal)
        self.drop_kept(journal)
        return report

    def _due(self, watermark: Array, journal: Journal) -> Array:
        self._after = np.maximum(watermark, self._after)
        past = self.lateness.past(self._after)
        self._note_due(journal)
        key, gathered = 0, [lines(0)]
        while key < self.keys:
            key, count = compiled_loops().report_punctuated(
                (key, self.keys),
                self.slices.runs(),
                Changed(self.due, self._since),
                (self._after, past, self._stride),
                self._begins,
                self._out,
            )
            gathered.append(self._out[:count].copy(order="F"))
            if key < self.keys:
                self._out = lines(4 * len(self._out))
        return np.concatenate(gathered)

    def _note_due(self, journal: Journal) -> None:
        """Note what `report_punctuated` will change of the keys that are due."""
        slices = self.slices
        keys = np.nonzero(self.due[: self.keys] <= self._after[: max(self.keys, 1)])[0]
        head = slices.head[keys]
        tail, first = head + slices.length[keys], np.empty(len(keys), np.int64)
        compiled_loops().find_all(slices.meta, head, tail, self._since[keys], first)
        places = span(first, tail - first)
        journal.items(keys, slices.head, slices.length, self.due, self._since)
        journal.items(places, slices.meta[:, PUNCTUATED_CHANGED], slices.meta[:, PUNCTUATED_END])

    # Windows and keys come and go

    def remove(self, name: str, latest: int) -> None:
        raise NotImplementedError(f"{name!r} is the only window of its lane")

    def join_stream(self, joining: Joining) -> None:
        self._unknown = joining.forgotten
        self._begins = joining.last.copy()

    # State

    def plain(self) -> dict[str, Any]:
        gone = np.concatenate([*self._gone, NONE_GONE])
        return {**super().plain(), "gone": gone, "unknown": self._unknown}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        gone = whole(plain["gone"], GONE_COLUMNS)
        keys = gone[:, GONE_KEY]
        if len(gone) and not 0 <= keys.min() <= keys.max() < self.keys:
            raise ValueError(f"windows are gone of keys that are not among {self.keys}")
        self._gone = [gone]
        self._unknown = int(plain["unknown"])
        self._since[: self.keys] = ALWAYS

    def _check_slices(self, meta: Array) -> None:
        super()._check_slices(meta)
        opened, end = meta[:, PUNCTUATED_OPENED], meta[:, PUNCTUATED_END]
        if not ((opened == 0) | (opened == 1)).all():
            raise ValueError("a slice was opened by a row or was not")
        if not ((end == ALWAYS) | (end > meta[:, SLICE_START])).all():
            raise ValueError("a window ends behind its start")
