"""Session windows: each slice is a session, and a row may extend one or join two.

A session of a longer gap consists of sessions of a shorter one. So the lane of the shortest gap folds
the rows of a batch, and lanes of longer gaps put its groups into their sessions, if all the rows count.
Sessions of commutative aggregates need no rows (EDBT 2019, section 5.1): a session is never split.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from muntin.journal import Journal
from muntin.slicing.arena import span
from muntin.slicing.early_windows import FreshSlices
from muntin.slicing.held_items import Look
from muntin.slicing.lane import Joining, Prepared, Report, Setting, lines
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, Array, less
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.partials import Partials
from muntin.slicing.rows import Rows
from muntin.slicing.slice_lane import earliest
from muntin.slicing.tables import (
    EARLY,
    END,
    FRESH_COLUMNS,
    FRESH_KEY,
    GONE_FIRST,
    GONE_KEY,
    GROUP_COLUMNS,
    GROUP_FIRST,
    GROUP_KEY,
    HI,
    KEY,
    KIND,
    LO,
    SESSION_CHANGED,
    SESSION_COLUMNS,
    SESSION_REPORTED,
    SLICE_FIRST,
    SLICE_LAST,
    START,
    WINDOW,
)
from muntin.slicing.window_slices import NONE_GONE, WindowSliceLane
from muntin.windows import Session

FEW_GROUPS = 8
"""Where a group has fewer rows, folding the rows takes no longer than going through the groups."""


class SessionLane(WindowSliceLane):
    """The sessions of one gap; of those that were added later, only what `begins` by a time is whole."""

    def __init__(
        self,
        name: str,
        window: Session,
        partials: list[Partials],
        *,
        lateness: Lateness,
        per_key: bool,
        keeps_rows: bool,
    ) -> None:
        form = {"per_key": per_key, "keeps_rows": keeps_rows}
        super().__init__(name, window, partials, SESSION_COLUMNS, **form)
        self.gap = self.turn = window.gap
        self.lateness = lateness
        self.begins = ALWAYS
        self._fresh: FreshSlices | None = None  # if there are early results

    @classmethod
    def build(cls, windows: Mapping[str, Any], partials: list[Partials], setting: Setting) -> Self:
        ((name, window),) = windows.items()
        return cls(
            name,
            window,
            partials,
            lateness=setting.lateness,
            per_key=setting.ordered,
            keeps_rows=setting.keeps_rows,
        )

    def report_early(self, early: bool) -> None:
        if not early:
            self._fresh = None
        elif self._fresh is None:
            self._fresh = FreshSlices(_of_keys(np.nonzero(self.slices.length)[0]))

    def join_stream(self, joining: Joining) -> None:
        self.begins = joining.latest + self.gap + 1  # no row before belongs to such a session

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        """Return which rows count (whose own session would not be past), and those folded."""
        del journal
        folded_as = self._folded_as(rows)
        _, gap, shared = rows.folded.get(folded_as, (rows, self.gap, None))
        if shared is not None and gap <= self.gap and self._takes(shared, len(rows)):
            return None, shared
        counts = self._counts(rows.keys, rows.times)
        all_count = bool(counts.all())
        taken = rows if all_count else rows.take(np.nonzero(counts)[0])
        if len(taken) == 0:
            return counts, None
        prepared = self._grouped(taken if self.kept is None else taken.in_order())
        if not all_count:
            return counts, prepared
        rows.folded[folded_as] = (rows, self.gap, prepared)
        return None, prepared

    def _folded_as(self, rows: Rows) -> tuple[object, ...]:
        """Return what is folded of rows, whatever the gap: the same arrays by the same kernels."""
        taken = (rows.keys, rows.times, *rows.inputs, *(column.kernels for column in self.partials))
        return ("sessions", self.kept is None, *map(id, taken))

    def _takes(self, shared: Prepared, rows: int) -> bool:
        """Whether groups of a shorter gap can be taken for the rows: they are few, and all count."""
        keys, first = shared.found[:, GROUP_KEY], shared.found[:, GROUP_FIRST]
        return FEW_GROUPS * len(keys) <= rows and bool(self._counts(keys, first).all())

    def _counts(self, keys: Array, times: Array) -> Array:
        """Return which rows count: those whose own session would not be past."""
        after = self._after[keys] if self._stride else self._after
        counts: Array = times > less(self.lateness.past(after), self.gap)
        return counts

    def _grouped(self, rows: Rows) -> Prepared:
        group = np.empty(len(rows), np.int64)
        found = np.empty((len(rows), GROUP_COLUMNS), np.int64)
        arguments = (rows.keys, rows.times, self.gap, np.full(self.keys, -1), group, found)
        count = compiled_loops().group_sessions(*arguments)
        return self.fold(rows, None if count == 1 else group, found[:count])

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        """Put the groups into the sessions they touch."""
        found = prepared.found
        keys, first = earliest(found[:, GROUP_KEY], found[:, GROUP_FIRST], self.slices.keys)
        since = np.empty(len(keys), np.int64)
        compiled_loops().reached(self.slices.runs(), keys, first, self.gap, since)
        self._note_touched(keys, since, journal)
        place = compiled_loops().place_sessions
        self._place(
            prepared,
            lambda group, notes: place(group, found, self.gap, self.slices.runs(), self.due, notes),
        )
        if self._fresh is not None:
            self._fresh.note(_of_keys(keys), journal)
        if self.kept is not None:
            self.kept.insert(prepared.rows, prepared.kept, journal)

    def lacks(self, name: str, look: Look) -> Array:
        del name
        after = self._after[look.keys * self._stride]
        there = look.items > 0
        held = np.where(there, look.first, look.time) >= self.begins
        lacking: Array = ~held | (~there & (look.time < after))
        return lacking

    def advance(self, watermark: Array, journal: Journal) -> Report:
        """Report the sessions that are complete or have changed, and retract those that are no more."""
        self.refresh(journal)
        windows = self._with_retractions(self._due(watermark, journal), self.gap)
        report = self.answer(self._whole(windows), journal)
        self.drop_kept(journal)
        return report

    def early(self, journal: Journal) -> Report:
        """Report the sessions that are not complete and changed, and retract those that have grown."""
        if self._fresh is None:
            return super().early(journal)
        self.refresh(journal)
        keys = self._fresh.taken(journal)[:, FRESH_KEY]
        places = span(self.slices.head[keys], self.slices.length[keys])
        owners, meta = np.repeat(keys, self.slices.length[keys]), self.slices.meta
        is_open = meta[places, SLICE_LAST] + self.gap >= self._after[owners * self._stride]
        fresh = is_open & (meta[places, SESSION_CHANGED] == 1)
        fresh &= meta[places, SESSION_REPORTED] != 1
        places = places[fresh]
        windows = lines(len(places))
        windows[:, KEY], windows[:, WINDOW], windows[:, KIND] = owners[fresh], 0, EARLY
        windows[:, START] = meta[places, SLICE_FIRST]
        windows[:, END] = meta[places, SLICE_LAST] + self.gap
        windows[:, LO], windows[:, HI] = places, places + 1
        journal.items(places, meta[:, SESSION_CHANGED], meta[:, SESSION_REPORTED])
        meta[places, SESSION_CHANGED], meta[places, SESSION_REPORTED] = 0, 2
        others, self._gone = self._joined_open()
        windows = self._whole(self._with_retractions(windows, self.gap))
        self._gone = others
        return self.answer(windows, journal)

    def _joined_open(self) -> tuple[list[Array], list[Array]]:
        """Part what is no more: what complete sessions took the place of, and what open ones did."""
        gone = np.concatenate([*self._gone, NONE_GONE])
        keys, first = gone[:, GONE_KEY], gone[:, GONE_FIRST] + 1
        head, places = self.slices.head[keys], np.empty(len(gone), np.int64)
        tail = head + self.slices.length[keys]
        compiled_loops().find_all(self.slices.meta, head, tail, first, places)
        ends = self.slices.meta[np.maximum(places - 1, 0), SLICE_LAST] + self.gap
        is_open = (places > head) & (ends >= self._after[keys * self._stride])
        return [gone[~is_open]], [gone[is_open]]

    def _whole(self, windows: Array) -> Array:
        """Leave out sessions of which rows were not seen."""
        return windows if self.begins == ALWAYS else windows[windows[:, START] >= self.begins]

    def parts(self) -> list[Any]:
        return [*super().parts(), *([] if self._fresh is None else [self._fresh])]

    def keep_keys(self, alive: Array) -> None:
        super().keep_keys(alive)
        if self._fresh is not None:
            self._fresh.keep_keys(alive)

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "begins": self.begins}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        self.begins = int(plain["begins"])
        early, self._fresh = self._fresh is not None, None
        self.report_early(early)

    def _due(self, watermark: Array, journal: Journal) -> Array:
        self._after = np.maximum(watermark, self._after)
        due, head = self._note_due(journal)
        if len(due) == 0:
            return lines(0)
        upto = (self._after, self.lateness.past(self._after), self._stride)
        report = compiled_loops().report_sessions
        windows = self._gather(
            lambda keys: report(keys, self.slices.runs(), self.due, upto, self.gap, self._out)
        )
        self.slices.leave(head, self.slices.head[due] - head, journal)
        return windows

    def _note_due(self, journal: Journal) -> tuple[Array, Array]:
        """Note what `report_sessions` will change of the keys that are due.

        Return these keys, and where their runs begin.
        """
        slices, keys = self.slices, self._due_keys()
        if len(keys) == 0:
            return keys, slices.head[keys]
        places = span(slices.head[keys], slices.length[keys])
        journal.items(keys, slices.head, slices.length, self.due)
        journal.items(places, slices.meta[:, SESSION_CHANGED], slices.meta[:, SESSION_REPORTED])
        return keys, slices.head[keys]


def _of_keys(keys: Array) -> Array:
    """Return what is noted of keys with sessions that changed: which sessions, their tables say."""
    slices = np.zeros((len(keys), FRESH_COLUMNS), np.int64)
    slices[:, FRESH_KEY] = keys
    return slices
