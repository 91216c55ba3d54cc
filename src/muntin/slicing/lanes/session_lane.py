"""Session windows: each slice is a session, and a row may extend one or join two.

A session of a longer gap consists of sessions of a shorter one. So the lane of the shortest gap folds
the rows of a batch, and lanes of longer gaps put its groups into their sessions, if all the rows count.
Sessions of commutative aggregates need no rows (EDBT 2019, section 5.1): a session is never split.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from muntin.journal import Journal
from muntin.kernels.loops.slice_log import LOG_COLUMNS
from muntin.slicing.arena import span, whole
from muntin.slicing.lane import Joining, Prepared, Report, Setting, lines, longer, together
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, Array, less
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.loops.session_slices import Notes
from muntin.slicing.partials import Partials
from muntin.slicing.rows import Rows
from muntin.slicing.slice_lane import SliceLane, earliest
from muntin.slicing.tables import (
    END,
    GONE_COLUMNS,
    GONE_FIRST,
    GONE_KEY,
    GONE_LAST,
    GROUP_COLUMNS,
    GROUP_FIRST,
    GROUP_KEY,
    KEY,
    KIND,
    RETRACT,
    SESSION_CHANGED,
    SESSION_COLUMNS,
    SESSION_REPORTED,
    START,
)
from muntin.windows import Session

FEW_GROUPS = 8
"""Where a group has fewer rows, folding the rows takes no longer than going through the groups."""
NONE_GONE = np.empty((0, GONE_COLUMNS), np.int64)


class SessionLane(SliceLane):
    """The sessions of one gap; of those that were added later, only what `begins` by a time is whole."""

    PER_KEY: ClassVar[tuple[str, ...]] = ("_after",)

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
        super().__init__([name], partials, SESSION_COLUMNS, keeps_rows)
        self.windows = {name: window}
        self.gap = self.turn = window.gap
        self.lateness = lateness
        self._stride = int(per_key)
        self._after = np.full(int(not per_key), ALWAYS)
        self._shared = set() if per_key else {"_after"}
        self._gone: list[Array] = []
        self.begins = ALWAYS

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

    def join_stream(self, joining: Joining) -> None:
        self.begins = joining.latest + self.gap + 1  # no row before belongs to such a session

    def remove(self, name: str, latest: int) -> None:
        raise NotImplementedError(f"{name!r} is the only window of its lane")

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys, watermark)
        if self._stride:
            self._after = longer(self._after, self.slices.keys, watermark)

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

    def alive(self) -> Array:
        alive = super().alive()
        for gone in self._gone:
            alive[gone[:, GONE_KEY]] = True
        return alive

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        """Put the groups into the sessions they touch."""
        found, group, space = prepared.found, 0, len(prepared.found)
        self._note_touched(found, journal)
        keys = self.slices.reserve(np.ascontiguousarray(found[:, GROUP_KEY]))
        while group < len(found):
            log = np.empty((4 * space, LOG_COLUMNS), np.int64)
            gone = np.empty((space, GONE_COLUMNS), np.int64)
            group, steps, lost = compiled_loops().place_sessions(
                group, found, self.gap, self.slices.runs(), self.due, Notes(log, gone)
            )
            if lost:
                self._gone.append(gone[:lost])
            self.follow(prepared, keys, log, steps)
            space *= 2
        if self.kept is not None:
            self.kept.insert(prepared.rows, prepared.kept, journal)

    def _note_touched(self, found: Array, journal: Journal) -> None:
        """Note the sessions that groups may extend or join, and all behind them."""
        keys, first = earliest(found[:, GROUP_KEY], found[:, GROUP_FIRST], self.slices.keys)
        since = np.empty(len(keys), np.int64)
        compiled_loops().reached(self.slices.runs(), keys, first, self.gap, since)
        journal.items(keys, self.due)
        journal.length(self._gone, self._stale)
        self.slices.note(journal, keys, since)

    def advance(self, watermark: Array, journal: Journal) -> Report:
        """Report the sessions that are complete or have changed, and retract those that are no more."""
        self.refresh(journal)
        windows = self._due(watermark, journal)
        if self._gone:
            windows = np.concatenate([self._retracted(), windows])
        if self.begins > ALWAYS:
            windows = windows[windows[:, START] >= self.begins]
        report = self.answer(windows, journal)
        self.drop_kept(journal)
        return report

    def _retracted(self) -> Array:
        """Return the sessions that were reported and are no more, and forget them."""
        gone = np.concatenate(self._gone)
        self._gone = []
        retracted = lines(len(gone))
        retracted[:] = 0
        retracted[:, KEY], retracted[:, START] = gone[:, GONE_KEY], gone[:, GONE_FIRST]
        retracted[:, END] = gone[:, GONE_LAST] + self.gap
        retracted[:, KIND] = RETRACT
        return retracted

    def plain(self) -> dict[str, Any]:
        gone = np.concatenate([*self._gone, NONE_GONE])
        return {**super().plain(), "gone": gone, "begins": self.begins}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        gone = whole(plain["gone"], GONE_COLUMNS)
        keys = gone[:, GONE_KEY]
        if len(gone) and not 0 <= keys.min() <= keys.max() < self.keys:
            raise ValueError(f"sessions are gone of keys that are not among {self.keys}")
        self._gone = [gone]
        self.begins = int(plain["begins"])

    def _due(self, watermark: Array, journal: Journal) -> Array:
        self._after = np.maximum(watermark, self._after)
        due, head = self._note_due(journal)
        if len(due) == 0:
            return lines(0)
        upto = (self._after, self.lateness.past(self._after), self._stride)
        key, gathered = 0, []
        while key < self.keys:
            keys = (key, self.keys)
            key, count = compiled_loops().report_sessions(
                keys, self.slices.runs(), self.due, upto, self.gap, self._out
            )
            gathered.append(self._out[:count].copy(order="F"))
            if key < self.keys:
                self._out = lines(4 * len(self._out))
        self.slices.leave(head, self.slices.head[due] - head, journal)
        return together(gathered)

    def _note_due(self, journal: Journal) -> tuple[Array, Array]:
        """Note what `report_sessions` will change of the keys that are due.

        Return these keys, and where their runs begin.
        """
        slices = self.slices
        (keys,) = (self.due[: self.keys] <= self._after[: max(self.keys, 1)]).nonzero()
        if len(keys) == 0:
            return keys, slices.head[keys]
        places = span(slices.head[keys], slices.length[keys])
        journal.items(keys, slices.head, slices.length, self.due)
        journal.items(places, slices.meta[:, SESSION_CHANGED], slices.meta[:, SESSION_REPORTED])
        return keys, slices.head[keys]
