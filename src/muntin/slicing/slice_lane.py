"""A lane of slices: what grids and sessions share.

A batch goes in like this. The lane groups its rows by key and slice, and folds each group (`fold`). It
puts the groups into slices, which are rows of a table in an arena, without looking at an aggregate, and
logs each change. The partials of every aggregate then follow by replaying the log (`follow`).

When the watermark advances, slices whose rows came out of order are folded again from kept rows
(`refresh`). The lane finds the windows that are due as ranges of slices, and each aggregate merges them
(`answer`). Where slices begin, and which windows are due, the subclasses know.
"""

from typing import Any, ClassVar

import numpy as np

from muntin.journal import Journal
from muntin.kernels.loops.slice_log import ADD, LATE, LOG_OTHER, LOG_PLACE, LOG_STEP, NEW
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.arena import Arena, span, whole
from muntin.slicing.changes import Changes
from muntin.slicing.held_items import HeldItems
from muntin.slicing.kept_windows import KeptWindows
from muntin.slicing.lane import Lane, Prepared, Report, lines, longer, spans_of
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, FAR, NEVER, Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.partials import KEPT, LAZY, WORST_CASE, Partials
from muntin.slicing.rows import KeptRows, Rows
from muntin.slicing.since import Since
from muntin.slicing.tables import (
    EARLY,
    GROUP_COLUMNS,
    GROUP_FIRST,
    GROUP_KEY,
    GROUP_LAST,
    GROUP_LATE,
    GROUP_ROW,
    GROUP_ROWS,
    GROUP_START,
    HI,
    KIND,
    LO,
    ROW_TIME,
    SLICE_FIRST,
    SLICE_LAST,
    SLICE_LATE,
    SLICE_ROWS,
    SLICE_STALE,
    SLICE_START,
    STALE_COLUMNS,
    STALE_END,
    STALE_FIRST,
    STALE_KEY,
    STALE_PLACE,
    TIMED_SLICE,
)

FEW_LINES = 1024
"""Windows that there is space for in the table into which loops write a report."""
AS_THEY_ARE = np.zeros(0, np.int64)
MANY_GROUPS = 256
"""In fewer groups, sorting them costs more than it saves."""


class SliceLane(Lane):
    """Slices shared by some windows, with the partials of all aggregates beside them.

    With `keeps_rows` the rows of aggregates that are not commutative are kept in order, and slices
    whose rows came out of order are folded again before windows are merged of them.
    """

    PER_KEY: ClassVar[tuple[str, ...]] = ()
    """The arrays that have a number for each key, or one for all."""
    DERIVED: ClassVar[tuple[str, ...]] = ("due",)
    """Those that are derived from the slices when a state is loaded."""

    def __init__(
        self, names: list[str], partials: list[Partials], width: int, keeps_rows: bool
    ) -> None:
        self.names = names
        self.partials = partials
        self.keys = 0
        self.slices = Arena(width)
        self.due = np.zeros(0, np.int64)
        for column in partials:
            self.slices.beside(column)
        self.keeps_rows = keeps_rows  # whether rows are kept if an aggregate is not commutative
        ordered = any(not column.aggregate.commutative for column in partials)
        self.kept = KeptRows(self._rows_of(partials)) if keeps_rows and ordered else None
        self.since = Since()
        self._shared: set[str] = set()  # of PER_KEY, what is one number for all keys
        self.over: KeptWindows | None = None
        self._keep_windows()
        self._out = lines(FEW_LINES)
        self._stale: list[Array] = []

    def _rows_of(self, partials: list[Partials]) -> list[Partials | None]:
        return [None if column.aggregate.commutative else lifted(column) for column in partials]

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        """Make space for more keys, which begin at a watermark."""
        del watermark
        self.keys = keys
        self.slices.grow_keys(keys)
        if self.kept is not None:
            self.kept.runs.grow_keys(self.slices.keys)
        self.due = longer(self.due, self.slices.keys, NEVER)

    def parts(self) -> list[Any]:
        """Return the objects that the lane is made of, itself first."""
        held = [self, self.slices, self.since, *self.partials]
        return held if self.kept is None else [*held, *self.kept.parts()]

    def retype(self, i: int, kernels: SliceKernels) -> None:
        """Let an aggregate, of which only nulls came so far, work on another type."""
        self.partials[i].retype(kernels)
        rows = None if self.kept is None else self.kept.partials[i]
        if rows is not None:
            rows.retype(kernels)

    def add_aggregate(self, column: Partials) -> None:
        i, ordered = len(self.partials), column.aggregate.commutative
        self.since.add(i, self._last_items())
        self.partials = [*self.partials, column]
        self.slices.beside(column)
        column.clear()
        self._keep_windows()
        self.slices.moved[:] = True
        if self.kept is not None:
            self.kept.add_aggregate(self._rows_of([column])[0])
        elif self.keeps_rows and not ordered:
            self._keep_rows()

    def change_lateness(self, lateness: Lateness) -> None:
        super().change_lateness(lateness)
        self.due[self.slices.length > 0] = ALWAYS

    def remove_aggregate(self, i: int) -> None:
        column = self.partials[i]
        self.since.remove(i)
        self.partials = [*self.partials[:i], *self.partials[i + 1 :]]
        self.slices.no_longer_beside(column)
        self._keep_windows()
        if self.kept is not None:
            self.kept.remove_aggregate(i)
            if all(other.aggregate.commutative for other in self.partials):
                self._keep_no_rows()

    def _keep_windows(self) -> None:
        """Keep what windows leave for the next ones, if the plan says so; nothing is kept of any yet."""
        for kept in () if self.over is None else self.over.columns:
            self.slices.no_longer_beside(kept)
        keeps = bool(self.partials) and self.partials[0].store in (KEPT, WORST_CASE)
        self.over = KeptWindows(self.slices, self.partials) if keeps else None

    def _last_items(self) -> Array:
        """Return the last item of each key, as windows begin with items."""
        return self.slices.last()

    def _first_items(self, windows: Array) -> Array:
        """Return the first item of each window that has slices."""
        first: Array = self.slices.meta[windows[:, LO], SLICE_START]
        return first

    def _keep_rows(self) -> None:
        """Keep rows from now on; there are none of the slices that are there."""
        self.kept = KeptRows(self._rows_of(self.partials))
        self.kept.runs.grow_keys(self.slices.keys)

    def _keep_no_rows(self) -> None:
        """Keep rows no more."""
        self.kept, self._stale = None, []

    @staticmethod
    def some_aggregates(plain: dict[str, Any], which: list[int]) -> dict[str, Any]:
        count = len(plain["slices"]["columns"])
        kept, changed = plain["kept"], plain.get("changed")
        picked = {
            **plain,
            "slices": KeptRows.some_aggregates(plain["slices"], which, count),
            "kept": None if kept is None else KeptRows.some_aggregates(kept, which, count),
            "since": Since.some_aggregates(plain["since"], which),
        }
        if changed is not None:
            picked["changed"] = Changes.some_aggregates(changed, which)
        return picked

    def fold(self, rows: Rows, group: Array | None, found: Array) -> Prepared:
        """Fold the groups' rows; nothing is changed yet."""
        first = np.ascontiguousarray(found[:, GROUP_ROW])
        parts = [
            column.fold(inputs, group, first)
            for column, inputs in zip(self.partials, rows.inputs, strict=True)
        ]
        return Prepared(rows, found, parts, [] if self.kept is None else self.kept.lift(rows))

    def follow(self, prepared: Prepared, keys: Array, log: Array, steps: int) -> None:
        """Let the partials, and the trees above them, follow what was done to the slices."""
        owners = np.ascontiguousarray(prepared.found[:, GROUP_KEY])
        if self.over is not None and self.over.is_disturbed(log, steps, owners):
            self.over.replay(log, steps, owners, prepared.parts)
        else:
            for column, parts in zip(self.partials, prepared.parts, strict=True):
                column.replay(log, steps, parts)
        if self.kept is not None:
            late = log[:steps][log[:steps, LOG_STEP] == LATE]
            self._stale.append(prepared.found[late[:, LOG_OTHER], GROUP_KEY])
        if any(column.eager for column in self.partials):
            self._settle(prepared, keys, log[:steps])

    def _settle(self, prepared: Prepared, keys: Array, log: Array) -> None:
        keys = keys[~self.slices.moved[keys]]
        parts = log[np.isin(log[:, LOG_STEP], (NEW, ADD, LATE))]
        changed = np.full(self.slices.keys, NEVER)
        owners = prepared.found[parts[:, LOG_OTHER], GROUP_KEY]
        np.minimum.at(changed, owners, parts[:, LOG_PLACE])
        head = self.slices.head[keys]
        tail = head + self.slices.length[keys]
        for column in self.partials:
            column.settle(np.maximum(changed[keys], head), tail, head, tail)

    def refresh(self, journal: Journal) -> None:
        """Bring partials up to date before windows are merged of them.

        Slices whose rows did not come in order are folded again, once for all rows that came since, and
        trees above runs that have moved are rebuilt.
        """
        if self._stale and self.kept is not None:
            self._refold(self.kept, np.unique(np.concatenate(self._stale)), journal)
        self._stale = []
        if any(column.eager for column in self.partials):
            journal.call(self.slices.moved.fill, True)
            keys = np.nonzero(self.slices.moved & (self.slices.length > 0))[0]
            head = self.slices.head[keys]
            tail = head + self.slices.length[keys]
            for column in self.partials:
                column.settle(head, tail, head, tail)
            self.slices.moved[:] = False

    def _refold(self, kept: KeptRows, keys: Array, journal: Journal) -> None:
        held = span(self.slices.head[keys], self.slices.length[keys])
        out = np.empty((len(held), STALE_COLUMNS), np.int64)
        held = held[self.slices.meta[held, SLICE_STALE] > 0]
        journal.items(held, self.slices.meta[:, SLICE_STALE], self.slices.meta[:, SLICE_ROWS])
        for column, rows in zip(self.partials, kept.partials, strict=True):
            if rows is not None:
                journal.call(column.put, held, column.take(held))
        stale = out[: compiled_loops().stale_slices(keys, self.slices.runs(), out)]
        columns = (STALE_KEY, STALE_PLACE, STALE_FIRST, STALE_END)
        owner, places, first, end = (np.ascontiguousarray(stale[:, c]) for c in columns)
        bounds = kept.places(owner, first), kept.places(owner, end)
        lo, hi, rows_of = self._rows_within(kept, places, *bounds)
        here = ~self.slices.moved[owner]
        head = self.slices.head[owner][here]
        tail = head + self.slices.length[owner][here]
        for column, rows in zip(self.partials, rows_of, strict=True):
            if rows is not None:
                column.refold(rows, lo, hi, places)
                column.settle(places[here], places[here] + 1, head, tail)

    def _rows_within(
        self, kept: KeptRows, places: Array, lo: Array, hi: Array
    ) -> tuple[Array, Array, list[Partials | None]]:
        """Return where the rows of the slices at some places are, of those between their times."""
        del places
        return lo, hi, kept.partials

    def drop_kept(self, journal: Journal) -> None:
        """Forget the rows before each key's first slice."""
        if self.kept is not None:
            self.kept.drop_before(self._first_rows(), journal)

    def _first_rows(self) -> Array:
        """Return the time of the first row that is in a slice of each key, NEVER if there is none."""
        live = self.slices.length > 0
        first = self.slices.meta[np.where(live, self.slices.head, 0), SLICE_FIRST]
        return np.where(live, first, NEVER)

    def alive(self) -> Array:
        """Return which keys have anything that must be kept."""
        kept = 0 if self.kept is None else self.kept.runs.length[: self.keys]
        alive: Array = (self.slices.length[: self.keys] + kept) > 0
        return alive

    def keep_keys(self, alive: Array) -> None:
        """Forget the keys that are not alive; the others get new numbers."""
        self.keys = int(np.count_nonzero(alive))
        padded = np.append(alive, np.zeros(self.slices.keys - len(alive), np.bool_))
        for name in (*self.DERIVED, *self.PER_KEY):
            if name not in self._shared:
                setattr(self, name, getattr(self, name)[padded])
        self.slices.compact(padded)
        self.since.keep_keys(alive)
        if self.over is not None:
            self.over.keep_keys(padded)
        if self.kept is not None:
            self.kept.runs.compact(padded)

    def held(self, keys: Array, journal: Journal) -> HeldItems:
        del keys
        self.refresh(journal)
        is_timed = self.slices.meta.shape[1] >= TIMED_SLICE
        return HeldItems(self.slices, self.partials, SLICE_LAST if is_timed else None)

    def held_rows(self) -> HeldItems | None:
        if self.kept is None or len(self.since):
            return None
        columns = [column for column in self.kept.partials if column is not None]
        whole = len(columns) == len(self.partials)
        return HeldItems(self.kept.runs, columns, ROW_TIME) if whole else None

    def answer(self, windows: Array, journal: Journal) -> Report:
        """Merge the slices of each window."""
        if self.over is None and len(windows) == 0:
            return Report(windows, [column.kernels.outputs(0) for column in self.partials])
        valued = windows[:, HI] > windows[:, LO]
        full = windows if np.count_nonzero(valued) == len(valued) else windows[valued]
        # Early results are ahead of the windows that go on from one another.
        early = EARLY in full[:1, KIND]
        results = self._merged(full) if early else self._results(full, journal)
        report = Report(windows, results)
        if len(self.since):
            self.since.hide(report, self._first_items(full))
        return report

    def _results(self, windows: Array, journal: Journal) -> list[tuple[Array, ...]]:
        """Return the results of windows that have slices."""
        if self.over is not None and self.over.serve(*self._sliding()):
            results = self.over.query(windows, journal, self._closed(windows))
            self.over.leave(journal)
            return results
        return self._merged(windows)

    def _merged(self, windows: Array) -> list[tuple[Array, ...]]:
        """Return the results of windows, merged of their slices whatever was reported before."""
        spans = spans_of(windows)
        return [column.query(*spans) for column in self.partials]

    def _closed(self, windows: Array) -> Array:
        """Return the places behind the slices of each window that will not be joined with later ones."""
        return np.ascontiguousarray(windows[:, HI])

    def _sliding(self) -> tuple[Array, int]:
        """Return the windows that repeat, and the number of all definitions."""
        raise NotImplementedError(f"nothing is kept of windows of {self.kind!r}")

    def give_back(self, journal: Journal) -> None:
        super().give_back(journal)
        if len(self._out) > 4 * FEW_LINES:
            self._out = lines(FEW_LINES)

    def plain(self) -> dict[str, Any]:
        """Return the lane's state as plain data."""
        return {
            "slices": self.slices.plain(self.keys, lambda at: [c.plain(at) for c in self.partials]),
            "kept": None if self.kept is None else self.kept.plain(self.keys),
            "since": self.since.plain(self.keys),
            **{name: self._numbers(name) for name in self.PER_KEY},
        }

    def _numbers(self, name: str) -> Array:
        """Return the numbers of the keys there are, or that of all."""
        held: Array = getattr(self, name)
        return held if name in self._shared else held[: self.keys]

    def load(self, plain: dict[str, Any]) -> None:
        """Take a state that was saved into an empty lane."""
        keys = len(plain["slices"]["lengths"])
        width = self.slices.meta.shape[1]  # it was wider if aggregates needed rows that are no more
        slices = {**plain["slices"], "meta": plain["slices"]["meta"][:, :width]}
        places = self.slices.load(slices)
        self._check_slices(self.slices.meta[places])
        for column, saved in zip(self.partials, plain["slices"]["columns"], strict=True):
            column.load(saved, places)
        if self.kept is not None:
            self.kept.load(plain["kept"])
            if self.kept.runs.keys and len(plain["kept"]["lengths"]) != keys:
                raise ValueError(f"kept rows of {len(plain['kept']['lengths'])} keys, not {keys}")
        self.grow_keys(keys)
        for name in self.PER_KEY:
            held = getattr(self, name)
            saved = whole(plain[name], count=min(len(held), max(keys, 1)))
            held[: len(saved)] = saved
        self.since.load(plain["since"], len(self.partials), keys)
        self.due[:keys] = ALWAYS
        everyone = np.nonzero(self.slices.length)[0]
        self._stale = (
            [everyone] if self.kept is not None and self.slices.meta.shape[1] > SLICE_STALE else []
        )
        self.slices.moved[:] = True

    def _check_slices(self, meta: Array) -> None:
        """Refuse slices that were saved and cannot be."""
        rows, new = meta[:, SLICE_ROWS], meta[:, SLICE_LATE]
        if not ((rows >= 0) & (rows <= FAR) & (new >= 0) & (new <= FAR)).all():
            raise ValueError("a slice has a number of rows, and of new ones")
        if meta.shape[1] >= TIMED_SLICE:
            first, last = meta[:, SLICE_FIRST], meta[:, SLICE_LAST]
            if not ((first >= -FAR) & (first <= last) & (last <= FAR)).all():
                raise ValueError("a slice has a first time and a last one that is not before it")

    @property
    def space(self) -> int:
        return self.slices.keys

    @property
    def slice_count(self) -> int:
        return len(self.slices)

    @property
    def rows_kept(self) -> int:
        """How many rows are kept."""
        return 0 if self.kept is None else len(self.kept)


def in_turn(found: Array) -> Array:
    """Return the groups' order by key and time, if many of them are not in it; else nothing.

    Slices that come in order are put at the end of their run; others move those behind them.
    """
    if len(found) < MANY_GROUPS:
        return AS_THEY_ARE
    starts = np.ascontiguousarray(found[:, GROUP_START])
    if np.count_nonzero(starts < np.maximum.accumulate(starts)) * 8 < len(found):
        return AS_THEY_ARE
    return np.lexsort((found[:, GROUP_START], found[:, GROUP_KEY]))


def earliest(keys: Array, values: Array, space: int) -> tuple[Array, Array]:
    """Return the keys, each once and below `space`, and the least value of each."""
    if len(keys) == 1:
        return keys.copy(), values.copy()
    if 8 * len(keys) < space:
        found, at = np.unique(keys, return_inverse=True)
        least = np.full(len(found), NEVER)
        np.minimum.at(least, at, values)
        return found, least
    least = np.full(space, NEVER)
    np.minimum.at(least, keys, values)
    found = np.nonzero(least < NEVER)[0]
    return found, least[found]


def lifted(column: Partials) -> Partials:
    """Return a place for the partials of kept rows, one by one."""
    return Partials(column.aggregate, column.kernels, LAZY)


def one_group(rows: Rows, starts: Array, first: Array, timely: bool) -> Array:
    """Return groups for rows of one key in the order of their slices, and if `timely` of time."""
    found = np.empty((len(first), GROUP_COLUMNS), np.int64)
    ends = np.append(first[1:], len(rows))
    found[:, GROUP_KEY] = rows.keys[0]
    found[:, GROUP_START] = starts
    found[:, GROUP_ROWS] = ends - first
    found[:, GROUP_LATE] = 0
    firsts = rows.times[first] if timely else np.minimum.reduceat(rows.times, first)
    lasts = rows.times[ends - 1] if timely else np.maximum.reduceat(rows.times, first)
    found[:, GROUP_FIRST], found[:, GROUP_LAST], found[:, GROUP_ROW] = firsts, lasts, first
    return found
