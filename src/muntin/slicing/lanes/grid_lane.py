"""Context-free windows: tumbling, sliding and other windows whose edges are the same for all keys.

The measure may be time, an advancing column, or in ordered streams the number of rows. The edges of all
windows together cut it into slices; a slice exists where a key has rows.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa

from muntin.journal import Journal
from muntin.kernels.loops.slice_log import LOG_COLUMNS
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.arena import span
from muntin.slicing.changes import Changes
from muntin.slicing.early_windows import FreshSlices, listed_windows, open_windows
from muntin.slicing.edges import Edges, EveryRow, Lattice
from muntin.slicing.folded_rows import FIRST, LAST, LOST, ROWS, START_OF, FoldedRows
from muntin.slicing.hash_secret import SECRET
from muntin.slicing.held_items import HeldItems, Look
from muntin.slicing.irregular_windows import ends_of_last, windows_after, windows_at, windows_with
from muntin.slicing.lane import (
    Joining,
    Prepared,
    Report,
    Setting,
    greatest,
    least,
    lines,
    longer,
    together,
)
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, FAR, NEVER, Array, less
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.loops.early_reports import Fresh
from muntin.slicing.loops.grid_slices import first_end
from muntin.slicing.partials import Partials
from muntin.slicing.report_pieces import COUNTLESS, NOT_MANY, Expected, refuse_countless
from muntin.slicing.rows import Rows
from muntin.slicing.slice_lane import SliceLane, earliest, in_turn, one_group
from muntin.slicing.tables import (
    END,
    GROUP_COLUMNS,
    GROUP_FIRST,
    GROUP_KEY,
    GROUP_LAST,
    GROUP_LATE,
    GROUP_ROW,
    GROUP_ROWS,
    GROUP_START,
    KEY,
    KIND,
    LISTED_COLUMNS,
    LO,
    PERIOD_COLUMNS,
    PERIOD_SIZE,
    PLAIN_SLICE,
    REFOLDED_SLICE,
    SLICE_FIRST,
    SLICE_LAST,
    SLICE_LATE,
    SLICE_START,
    START,
    TIMED_SLICE,
    UPDATE,
    WINDOW,
    BatchRows,
    Definitions,
    HashTable,
    KeyTimes,
    Watermarks,
)
from muntin.windows import ContextFreeWindow, Periodic, Sliding

LOCATOR = 4097
"""Space for the places of slices at even steps of a run."""
FEW_ROWS = 64
"""So few rows are grouped without a hash table."""
NO_STARTS = np.zeros(0, np.int64)
NONE_LISTED = np.zeros((0, LISTED_COLUMNS), np.int64)
CELL_COLUMNS = (GROUP_KEY, GROUP_START, GROUP_ROWS, GROUP_FIRST, GROUP_LAST)


class Whole(NamedTuple):
    """Which windows of those that were added are whole."""

    after: int  # they end later
    start: int  # they start at that or later
    turned: int = NEVER  # they start and end where slices were cut before edges turned up to there


class GridLane(SliceLane):
    """Slices between the edges of context-free windows over time.

    `lateness` is how long after its end a window still changes. With `per_key` each key has a watermark
    of its own. With `changes` only windows that differ from the one before are reported; it `remembers`
    them if late rows may change them again.
    """

    PER_KEY: ClassVar[tuple[str, ...]] = ("_after", "_dirty")
    DERIVED: ClassVar[tuple[str, ...]] = (*SliceLane.DERIVED, "_first", "_last")

    def __init__(
        self,
        windows: dict[str, ContextFreeWindow],
        partials: list[Partials],
        *,
        lateness: Lateness,
        per_key: bool = False,
        width: int = PLAIN_SLICE,
        changes: bool = False,
        remembers: bool = False,
        every_row: bool = False,
        keeps_rows: bool = False,
        idle: int | None = None,
    ) -> None:
        super().__init__([], partials, width, keeps_rows)
        self.lateness = lateness
        self._idle = idle  # windows that may change for longer than that are refused
        self._width = width  # of slices that are not folded again
        if self.kept is not None:
            self.slices.reshape(REFOLDED_SLICE)
        self._in_order = (
            per_key and width == PLAIN_SLICE and not (every_row or changes or keeps_rows)
        )
        self._came: list[Array] = []
        self._locator = np.empty(LOCATOR, np.int64)
        self._edges: Edges | EveryRow = EveryRow() if every_row else Edges([*windows.values()])
        self._emits_changes = changes
        self._define(windows)
        self._changed = Changes(len(self._periods), partials, remembers) if changes else None
        self._stride = int(per_key)
        self._after = np.full(int(not per_key), ALWAYS)
        self._shared = set() if per_key else {"_after"}
        self._dirty = np.zeros(0, np.int64)
        self._first, self._last = np.zeros((2, 0), np.int64)
        self._oldest = NEVER
        self._lost = ALWAYS
        self._added: dict[str, Whole] = {}
        self._blurred = False  # whether slices came folded whose cuts are not known here
        self._fresh: FreshSlices | None = None  # if there are early results

    @classmethod
    def build(cls, windows: Mapping[str, Any], partials: list[Partials], setting: Setting) -> Self:
        return cls(
            dict(windows),
            partials,
            lateness=setting.lateness,
            per_key=setting.ordered,
            keeps_rows=setting.keeps_rows,
            changes=setting.changes,
            remembers=setting.lateness.longest > 0,
            every_row=setting.every_row,
            idle=setting.idle,
        )

    def report_early(self, early: bool) -> None:
        if not early:
            self._fresh = None
        elif self._fresh is None:
            length = self.slices.length
            owners = np.repeat(np.arange(len(length)), length)
            self._fresh = FreshSlices(np.stack([owners, self.slices.starts()], 1))

    def _define(self, windows: dict[str, ContextFreeWindow]) -> None:
        periodic = {n: w for n, w in windows.items() if isinstance(w, Periodic)}
        listed = {n: w for n, w in windows.items() if n not in periodic}
        self.windows = {**periodic, **listed}
        self.names = list(self.windows)
        self._repeat([(w.size, w.every, w.origin % w.every) for w in periodic.values()])
        self._listed = list(enumerate(listed.values(), len(periodic)))
        covering = [w.size - w.every for w in periodic.values() if w.every <= w.size]
        covering += [0 for w in listed.values() if w.gapless]
        self._surely = max(covering) if covering else None
        self._back = max(map(_held_back, periodic.values()), default=0)
        starts = {(w.every, w.origin % w.every) for w in periodic.values()}
        ends = {(w.every, (w.origin + w.size) % w.every) for w in periodic.values()}
        self._joins = self._in_order and not listed and not ends <= starts

    def _repeat(self, periods: list[tuple[int, int, int]]) -> None:
        """Find windows that repeat by their (size, every, origin)."""
        self._periods = np.array(periods, np.int64).reshape(-1, PERIOD_COLUMNS)
        self._countless = [
            d for d, (size, every, _) in enumerate(periods) if size // every > COUNTLESS // 2**10
        ]
        more = int(self._emits_changes)  # the window before is compared with each
        self._reach = max((size + more * every for size, every, _ in periods), default=0)

    def shares(self, kind: str) -> bool:
        return kind == self.kind

    def add(self, name: str, window: ContextFreeWindow, latest: int) -> None:
        whole = ALWAYS if self._changed is None and not self._blurred else latest + 1
        after, start = int(self._after.max(initial=ALWAYS)), max(self._lost, whole)
        self._redefine({**self.windows, name: window}, latest)
        self._added[name] = Whole(after, start, self._edges.turned)

    def remove(self, name: str, latest: int) -> None:
        self._added.pop(name, None)
        self._redefine({n: w for n, w in self.windows.items() if n != name}, latest)

    def _redefine(self, windows: dict[str, ContextFreeWindow], latest: int) -> None:
        """Serve other windows; `latest` is the last time of a row. Slices stay as they were cut."""
        periodic = [w for w in self.windows.values() if isinstance(w, Periodic)]
        starts = Lattice.of_starts(periodic) if self._joins else None
        self._edges = self._edges.turn([*windows.values()], self._furthest(latest), starts)
        before = self.names[: len(self._periods)]
        self._define(windows)
        if self._changed is not None:
            numbers = {name: i for i, name in enumerate(before)}
            repeating = self.names[: len(self._periods)]
            self._changed.select([numbers.get(name) for name in repeating], self.slices.keys)
        self.due[self.slices.length > 0] = ALWAYS

    def _furthest(self, latest: int) -> int:
        """Return a value up to which slices were cut; `latest` is the last time of a row."""
        return latest

    def change_lateness(self, lateness: Lateness) -> None:
        super().change_lateness(lateness)
        if self._changed is not None and lateness.longest > 0 and not self._changed.remembers:
            self._changed.grow_keys(self.slices.keys)
            self._changed.remember(self._after)

    def add_aggregate(self, column: Partials) -> None:
        super().add_aggregate(column)
        if self._changed is not None:
            self._changed.add_aggregate(column)

    def remove_aggregate(self, i: int) -> None:
        super().remove_aggregate(i)
        if self._changed is not None:
            self._changed.remove_aggregate(i)

    def _keep_rows(self) -> None:
        super()._keep_rows()
        live, timed = self.slices.live(), self._width >= TIMED_SLICE
        self.slices.reshape(REFOLDED_SLICE)
        if not timed:  # when their rows came is not known, and no value depends on it
            starts = np.clip(self.slices.meta[live, SLICE_START], -FAR, FAR)
            self.slices.meta[live, SLICE_FIRST] = self.slices.meta[live, SLICE_LAST] = starts

    def _keep_no_rows(self) -> None:
        super()._keep_no_rows()
        self.slices.reshape(self._width)

    def join_stream(self, joining: Joining) -> None:
        self._lost = max(self._lost, joining.latest + 1)
        self._added = dict.fromkeys(self.names, Whole(ALWAYS, self._lost, ALWAYS))

    def alive(self) -> Array:
        alive = super().alive()
        if self._changed is not None:
            alive |= self._changed.alive(self.keys, self.lateness.past(self._after))
        return alive

    def keep_keys(self, alive: Array) -> None:
        super().keep_keys(alive)
        if self._fresh is not None:
            self._fresh.keep_keys(alive)
        if self._changed is not None:
            self._changed.keep_keys(alive)

    def parts(self) -> list[Any]:
        return [*super().parts(), *(p for p in (self._changed, self._fresh) if p is not None)]

    def _first_ends(self) -> list[tuple[int, int]]:
        """Return the first end of each window that was added, with its number, if it is to be known.

        Of changes only, that window is reported even if nothing enters or leaves where it ends.
        """
        if self._changed is None:
            return []
        numbers = {name: d for d, name in enumerate(self.names[: len(self._periods)])}
        added = [(numbers[n], since.start) for n, since in self._added.items() if n in numbers]
        ends = []
        for d, lost in added:
            size, every, origin = self._periods[d].tolist()
            ends.append((d, int(first_end(size, every, origin, lost - 1 + size))))
        return ends

    def _begun(self, windows: Array, after: Array) -> Array:
        """Let changes of windows that were added, and were reported, begin with their first end.

        A line of changes holds until the next: the last one before that end says what was so there.
        """
        for d, end in self._first_ends():
            mine = np.nonzero((windows[:, WINDOW] == d) & (windows[:, KIND] == UPDATE))[0]
            early = mine[windows[mine, END] < end]
            last = early[np.append(np.diff(windows[early, KEY]) != 0, True)[: len(early)]]
            there = windows[mine[windows[mine, END] == end], KEY]
            keys = windows[last, KEY]
            move = last[~np.isin(keys, there) & (end <= after[keys * self._stride])]
            windows[move, START], windows[move, END] = end - self._periods[d, PERIOD_SIZE], end
        order = np.lexsort((windows[:, END], windows[:, WINDOW], windows[:, KEY]))
        windows = windows[order]
        again = (np.diff(windows[:, [KEY, WINDOW, END]], axis=0) == 0).all(1)
        found: Array = windows[np.append(True, ~again)[: len(windows)]]
        return found

    def _whole(self, windows: Array) -> Array:
        """Leave out windows that were added and are not whole."""
        if not self._added:
            return windows
        whole = np.ones(len(windows), np.bool_)
        for name, since in self._added.items():
            mine = np.nonzero(windows[:, WINDOW] == self.names.index(name))[0]
            starts, ends = windows[mine, START], windows[mine, END]
            cut = self._edges.had(starts, since.turned) & self._edges.had(ends, since.turned)
            whole[mine] = cut & (starts >= since.start) & (ends > since.after)
        return windows[whole]

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys, watermark)
        self._dirty = longer(self._dirty, self.slices.keys, NEVER)
        self._first = longer(self._first, self.slices.keys, NEVER)
        self._last = longer(self._last, self.slices.keys, ALWAYS)
        if self._stride:
            self._after = longer(self._after, self.slices.keys, watermark)

    # Rows come in

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        """Return which rows count (None if all do), and those grouped and folded.

        It is noted how late rows are lost, and where slices begin; no slice is changed.
        """
        journal.fields(self._edges)
        counts = self._counting(rows, rows.times)
        if counts is not None:
            self._lost = max(self._lost, int(rows.times[~counts].max()) + 1)
            rows = rows.take(np.nonzero(counts)[0])
        if len(rows) == 0:
            return counts, None
        rows = rows if self.kept is None else rows.in_order()
        prepared = self._grouped(rows, rows.times)
        if self._listed and self._idle is not None:
            self._refuse_long(np.unique(prepared.found[:, GROUP_FIRST]), self._idle)
        return counts, prepared

    def _refuse_long(self, times: Array, idle: int) -> None:
        """Refuse rows in windows so long that they may span a time without rows."""
        longest = idle - self.lateness.longest
        for t in times.tolist():
            for d, window in self._listed:
                for start, end in windows_at(window, t):
                    if end - start <= longest:
                        continue
                    raise ValueError(
                        f"window {self.names[d]!r} [{start}, {end}) holds a row at {t} and is longer "
                        f"than idle less the lateness, {longest}: make idle longer, or run the window "
                        "in a query of its own"
                    )

    def cells(self, keys: list[pa.Array], rows: Rows, journal: Journal) -> FoldedRows:
        """Fold rows into slices, for another lane of the same windows to take in."""
        counts, prepared = self.admit(rows, journal)
        gone = rows.take(np.zeros(0, np.int64) if counts is None else np.nonzero(~counts)[0])
        lost = np.stack([gone.keys, gone.times], 1)
        if len(lost):
            owners, latest = earliest(gone.keys, -gone.times, self.slices.keys)
            lost = np.stack([owners, -latest], 1)
        if prepared is None:
            empty = np.zeros((0, len(CELL_COLUMNS)), np.int64)
            nothing = [column.kernels.buffer(0) for column in self.partials]
            return FoldedRows(keys, empty, nothing, lost, dropped=len(gone))
        found = prepared.found[:, CELL_COLUMNS]
        return FoldedRows(keys, found, prepared.parts, lost, dropped=len(gone))

    def admit_cells(self, keys: Array, cells: FoldedRows) -> tuple[Array | None, Prepared | None]:
        """Do for slices of these keys what `admit` does for rows; in a slice all rows count, or none."""
        first, last = (np.ascontiguousarray(cells.found[:, i]) for i in (FIRST, LAST))
        rows = Rows(keys, first, [])
        self._lost = max(self._lost, int(cells.lost[:, LOST].max(initial=ALWAYS)) + 1)
        self._blurred = self._blurred or bool(self._listed)
        counts = self._counting(rows, first)
        found = np.empty((len(cells), GROUP_COLUMNS), np.int64)
        found[:, GROUP_KEY], found[:, GROUP_START] = keys, cells.found[:, START_OF]
        found[:, GROUP_ROWS] = cells.found[:, ROWS]
        found[:, GROUP_LATE] = np.where(last < self._after[0], found[:, GROUP_ROWS], 0)
        found[:, GROUP_FIRST], found[:, GROUP_LAST], found[:, GROUP_ROW] = first, last, 0
        parts = cells.parts
        if counts is not None:
            self._lost = max(self._lost, int(last[~counts].max()) + 1)
            found, parts = found[counts], [tuple(a[counts] for a in column) for column in parts]
        return counts, Prepared(rows, found, parts, []) if len(found) else None

    def _counting(self, rows: Rows, measure: Array) -> Array | None:
        """Return which rows are in a window that is not past."""
        after = self._after[rows.keys] if self._stride else self._after
        if self._surely is None:
            doubtful = np.arange(len(rows))
        else:
            latest = less(self.lateness.past(after), self._surely)
            if len(measure) == 0 or least(measure) >= greatest(latest):
                return None
            doubtful = np.nonzero(measure < latest)[0]
        if len(doubtful) == 0:
            return None
        values = measure[doubtful]
        past = self.lateness.past(after[doubtful] if self._stride else after)
        counts = np.ones(len(rows), np.bool_)
        counts[doubtful] = self._last_ends(values) > np.maximum(past, values)
        return None if counts.all() else counts

    def _last_ends(self, measure: Array) -> Array:
        """Return the end of the last window that holds each value."""
        last = np.full(len(measure), ALWAYS)
        for size, every, origin in self._periods:
            end = (measure - origin) // every * every + origin + size
            np.maximum(last, np.where(end > measure, end, ALWAYS), out=last)
        for _, window in self._listed:
            np.maximum(last, ends_of_last(window, measure), out=last)
        return last

    def _grouped(self, rows: Rows, measure: Array) -> Prepared:
        """Group and fold rows that all count."""
        if self.keys == 1 and len(rows) > FEW_ROWS and never_falls(measure):
            starts, first = self._edges.cuts(measure)
            found = one_group(rows, starts, first, measure is rows.times)
            late = np.searchsorted(measure, self._after[0])
            found[:, GROUP_LATE] = np.clip(late - first, 0, found[:, GROUP_ROWS])
            return self.fold(rows, None, found)
        group = np.empty(len(rows), np.int64)
        found = np.empty((len(rows), GROUP_COLUMNS), np.int64)
        known = self._edges.known if len(rows) <= FEW_ROWS else None
        if known is not None:
            few = BatchRows(rows.keys, NO_STARTS, measure, rows.times)
            arguments = (few, self._after, self._stride, known, group, found)
            count = compiled_loops().group_few(*arguments)
            if count >= 0:
                return self.fold(rows, group, found[:count])
        starts = self._edges.starts(measure)
        slots = np.zeros(1 << (2 * len(rows) - 1).bit_length(), np.int32)
        count = compiled_loops().group_rows(
            BatchRows(rows.keys, starts, measure, rows.times),
            self._after,
            self._stride,
            HashTable(slots, SECRET),
            group,
            found,
        )
        return self.fold(rows, group, found[:count])

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        """Put the groups into their slices."""
        found = prepared.found
        touched, since = earliest(found[:, GROUP_KEY], found[:, GROUP_START], self.slices.keys)
        journal.items(touched, self.due, self._dirty, self._first, self._last)
        journal.length(self._came, self._stale)
        self.slices.note(journal, touched, since)
        if self.over is not None:
            journal.call(self.over.forget, touched)
        keys = self.slices.reserve(np.ascontiguousarray(found[:, GROUP_KEY]))
        log = np.empty((2 * len(found), LOG_COLUMNS), np.int64)
        steps = compiled_loops().place_groups(
            found, in_turn(found), self.slices.runs(), self._times(), self._periods, log
        )
        if self._listed:
            self.due[keys] = ALWAYS
        if self._joins:
            self._came.append(keys)
        if self._fresh is not None:
            self._fresh.note(found[:, [GROUP_KEY, GROUP_START]], journal)
        self.follow(prepared, keys, log, steps)
        if self.kept is not None:
            self.kept.insert(prepared.rows, prepared.kept, journal)
        self._oldest = min(self._oldest, least(found[:, GROUP_FIRST]))

    def plain(self) -> dict[str, Any]:
        changed = None if self._changed is None else self._changed.plain()
        more = {
            "edges": self._edges.plain(),
            "lost": self._lost,
            "oldest": self._oldest,
            "added": [(name, [*since]) for name, since in self._added.items()],
            "blurred": self._blurred,
            "fresh": None if self._fresh is None else self._fresh.slices,
        }
        return {**super().plain(), **more, "changed": changed}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        self._edges.load(plain["edges"])
        self._lost, self._oldest = int(plain["lost"]), int(plain["oldest"])
        self._blurred = bool(plain["blurred"])
        self._load_fresh(plain["fresh"])
        self._added = {name: Whole(*map(int, since)) for name, since in plain["added"]}
        if not self._added.keys() <= {*self.names}:
            raise ValueError(f"{[*self._added]} were added, and there are {self.names}")
        if self._changed is not None:
            self._changed.load(plain["changed"])
        self._bound(np.nonzero(self.slices.length)[0])

    def _load_fresh(self, fresh: Any) -> None:
        """Take the slices that had changed when a state was saved, if they were noted then."""
        early = self._fresh is not None
        self._fresh = None if fresh is None else FreshSlices.load(fresh, self.keys)
        self.report_early(early)

    def _bound(self, keys: Array) -> None:
        """Note where the first and the last slice of some keys begin."""
        head = self.slices.head[keys]
        self._first[keys] = self.slices.meta[head, SLICE_START]
        self._last[keys] = self.slices.meta[head + self.slices.length[keys] - 1, SLICE_START]

    def _sliding(self) -> tuple[Array, int]:
        return self._periods, len(self.names)

    def _times(self) -> KeyTimes:
        return KeyTimes(self.due, self._dirty, self._first, self._last)

    # The watermark advances

    def expected(self, watermark: Array) -> Expected:
        """Refuse windows of which a row is in more than can be reported."""
        if self._changed is None:
            for d in self._countless:
                self._refuse_countless(d, watermark)
        return NOT_MANY

    def _refuse_countless(self, d: int, watermark: Array) -> None:
        size, every, _ = self._periods[d].tolist()
        keys = np.nonzero(self.slices.length)[0]
        places = keys if self._stride else np.zeros(len(keys), np.int64)
        upto = np.minimum(self._reached(watermark)[places], self._last[keys] + size)
        after = np.maximum(self._after[places], self._first[keys])
        stretch = np.maximum(upto.astype(np.float64) - after, 0)
        refuse_countless(self.names[d], float(np.sum(stretch)) / every)

    def _reached(self, watermark: Array) -> Array:
        """Return how far windows are complete by a watermark, at most."""
        return watermark

    def advance(self, watermark: Array, journal: Journal) -> Report:
        """Report the windows that end by the watermark (of all keys, or of each) or have changed."""
        self.refresh(journal)
        upto = np.maximum(watermark, self._after)
        past, final = self.lateness.past(self._after), self.lateness.past(upto)
        windows = self._due(upto, past, final, journal)
        report = self.changes(self.answer(windows, journal), final, journal)
        self.drop_kept(journal)
        return report

    def early(self, journal: Journal) -> Report:
        """Report the windows that are not complete and hold slices that changed."""
        if self._fresh is None:
            return super().early(journal)
        self.refresh(journal)
        fresh = Fresh(self._fresh.taken(journal), self._after, self._stride)
        runs = self.slices.runs()
        windows = open_windows(fresh, self.names, self._periods, runs)
        if self._listed:
            windows = together([windows, listed_windows(fresh, self._listed, runs)])
            windows = windows[np.lexsort((windows[:, START], windows[:, WINDOW], windows[:, KEY]))]
        return self.answer(self._whole(windows), journal)

    def held(self, keys: Array, journal: Journal) -> HeldItems:
        journal.fields(self._edges)
        return super().held(keys, journal)

    def is_cut(self, time: int) -> bool:
        if self._joins or self._blurred:
            return False
        return int(self._edges.starts(np.array([time]))[0]) == time

    def lacks(self, name: str, look: Look) -> Array:
        assert look.begin is not None
        window, begin = self.windows[name], look.begin
        after = self._after[look.keys * self._stride]
        held = (look.time >= after) | (begin >= self._lost)
        if isinstance(window, Periodic):
            held |= begin > after - max(window.size, _held_back(window))
        if name in self._added:
            since = self._added[name]
            held &= begin >= since.start
            held &= bool(self._edges.had(np.array([begin]), since.turned)[0])
        lacking: Array = ~held
        return lacking

    def settle(self, journal: Journal) -> None:
        """Join slices that are parted where windows ended only: in order, no row will come there.

        EDBT 2019, section 5.3: in an in-order stream slices need to start only where windows start.
        """
        super().settle(journal)
        if not (self._joins and self._came):
            return
        keys = np.unique(np.concatenate(self._came))
        self._came = []
        self.slices.note(journal, keys, np.full(len(keys), ALWAYS))
        journal.items(keys, self._first, self._last)
        space = max(64, 2 * int(self.slices.length[keys].max(initial=0)))
        log, owners, first = np.empty((space, LOG_COLUMNS), np.int64), np.empty(space, np.int64), 0
        if self.over is not None:
            journal.call(self.over.forget, keys)
        while first < len(keys):
            arguments = (keys, self.slices.runs(), self._periods, first, log, owners)
            first, steps = compiled_loops().join_slices(*arguments)
            if self.over is not None:
                self.over.join(log[:steps], owners[:steps])
                continue
            for column in self.partials:
                column.replay(log, steps, column.kernels.buffer(0))
        self.slices.moved[keys] = True
        self._bound(keys)

    def _closed(self, windows: Array) -> Array:
        hi, closed = super()._closed(windows), np.empty(len(windows), np.int64)
        if not self._joins:
            return hi
        lo, ends = (np.ascontiguousarray(windows[:, c]) for c in (LO, END))
        compiled_loops().closed_slices(lo, hi, ends, self.slices.meta, self._periods, closed)
        return closed

    def retype(self, i: int, kernels: SliceKernels) -> None:
        super().retype(i, kernels)
        if self._changed is not None:
            self._changed.retype(i, kernels)

    def changes(self, report: Report, final: Array, journal: Journal) -> Report:
        """Leave out windows whose values have not changed, if that is asked for."""
        if self._changed is None:
            return report
        journal.fields(self._changed)
        self._changed.grow_keys(self.slices.keys)
        repeats = report.windows[:, WINDOW] < len(self._periods)
        if repeats.all():
            return self._changed.apply(report, final, journal)
        changed = self._changed.apply(report.pick(repeats), final, journal)
        return changed.joined(report.pick(~repeats))

    def _due(self, upto: Array, past: Array, final: Array, journal: Journal) -> Array:
        """Gather the windows that end by `upto`, or changed and end after `past`.

        `final` is the end up to which windows will not change any more; slices that no later window
        needs are dropped.
        """
        keep = less(final, self._reach - 1)
        if self._back > 0:
            keep = np.minimum(keep, less(upto, self._back - 1))
        for _, window in self._listed:
            keep = np.minimum(keep, self._first_needed(window, int(final.min(initial=NEVER))))
        listed = self._listed_windows(upto, past) if self._listed else NONE_LISTED
        first_ends, after = self._first_ends(), self._after
        due, head = self._note_due(upto, first_ends, journal)
        for d, end in first_ends:
            start = end - int(self._periods[d, PERIOD_SIZE])
            listed = np.append(listed, np.array([[d, start, end, 0]], np.int64), 0)
        marks = Watermarks(self._after, upto, past, keep, self._stride)
        step = self._edges.step if self._changed is None else 0
        windows = Definitions(self._periods, listed, step, self._changed is not None)
        gathered, dropped = [], 0
        key = 0 if len(due) else self.keys
        while key < self.keys:
            key, count, gone = compiled_loops().report_grid(
                (key, self.keys),
                self.slices.runs(),
                self._times(),
                marks,
                windows,
                (self._out, self._locator),
            )
            gathered.append(self._out[:count].copy(order="F"))
            dropped += gone
            if key < self.keys:
                self._out = lines(4 * len(self._out))
        if self._listed:
            self.due[self.slices.length > 0] = ALWAYS
        if dropped:
            self.slices.leave(head, self.slices.head[due] - head, journal)
            self._lost = max(self._lost, greatest(keep))
        self._after = upto
        found = together(gathered) if gathered else lines(0)
        found = self._begun(found, after) if first_ends else found
        found = self._whole(found)
        if self._edges.step == 0:
            journal.fields(self._edges)
            self._edges.forget(int(keep.min(initial=NEVER)))
        return found

    def _wake(self, end: int) -> None:
        """Look at the keys of which windows were not reported up to an end when they reach it."""
        keys = np.nonzero(self.slices.length[: self.keys])[0]
        waiting = keys[self._after[keys * self._stride] < end]
        self.due[waiting] = np.minimum(self.due[waiting], end)

    def _note_due(
        self, upto: Array, first_ends: list[tuple[int, int]], journal: Journal
    ) -> tuple[Array, Array]:
        """Note what `report_grid` will change: of keys that are due, and of their late slices.

        Return these keys, and where their runs begin.
        """
        if self._listed or first_ends:
            journal.items(slice(None), self.due)
        for _, end in first_ends:
            self._wake(end)
        (keys,) = (self.due[: self.keys] <= upto[: max(self.keys, 1)]).nonzero()
        slices = self.slices
        if len(keys) == 0:
            return keys, slices.head[keys]
        journal.items(keys, slices.head, slices.length, self.due, self._dirty, self._first)
        dirty = self._dirty[keys] < NEVER
        if np.count_nonzero(dirty):
            late = keys[dirty]
            head, first = slices.head[late], np.empty(len(late), np.int64)
            tail = head + slices.length[late]
            compiled_loops().find_all(slices.meta, head, tail, self._dirty[late], first)
            journal.items(span(first, tail - first), slices.meta[:, SLICE_LATE])
        return keys, slices.head[keys]

    def _first_needed(self, window: ContextFreeWindow, final: int) -> int:
        if final <= self._oldest:
            return self._oldest
        if final == NEVER:  # there are no keys
            return NEVER
        return next((start for start, _ in windows_after(window, final)), NEVER)

    def _listed_windows(self, upto: Array, past: Array) -> Array:
        """List the windows that do not repeat and have slices: those due, and those that may change."""
        lines: list[tuple[int, int, int, int]] = []
        starts = np.unique(self.slices.meta[self.slices.live(), SLICE_START]).tolist()
        after, latest = int(self._after.min(initial=NEVER)), int(self._after.max(initial=ALWAYS))
        low = int(past.min(initial=NEVER))
        for d, window in self._listed:
            held = windows_with(window, starts, min(low, after), int(upto.max(initial=ALWAYS)))
            lines += [(d, *bounds, 0) for bounds in held if bounds[1] > after]
            lines += [(d, *bounds, 1) for bounds in held if low < bounds[1] <= latest]
        return np.array(lines, np.int64).reshape(-1, LISTED_COLUMNS)


def _held_back(window: Periodic) -> int:
    """Return how far behind the watermark a lookup begins at most, if that is behind all windows."""
    is_sliding = isinstance(window, Sliding) and window.measure == "time"
    return window.size + window.every if is_sliding else 0


def never_falls(values: Array) -> bool:
    """Whether no value is below the one before."""
    return len(values) < 2 or bool((values[1:] >= values[:-1]).all())
