"""Context-free windows over other measures than time: an advancing column, and the number of rows.

In a stream out of order a late row moves the ranks of all rows behind it. Rows are then kept, and count
slices are brought up to date once per report, those of all keys at once (`rank_slices.py`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from muntin.journal import Journal
from muntin.slicing.lane import NO_GROUPS, Joining, Prepared, Report, Setting, longer
from muntin.slicing.lanes.grid_lane import GridLane
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.partials import Partials
from muntin.slicing.rank_slices import MovedRows, RankSlices, RankSpans
from muntin.slicing.rows import KeptRows, Rows
from muntin.slicing.slice_lane import earliest, lifted
from muntin.slicing.tables import (
    END,
    KEY,
    KIND,
    LO,
    PLAIN_SLICE,
    ROW_MEASURE,
    ROW_NEW,
    ROW_TIME,
    SLICE_LATE,
    SLICE_ROWS,
    SLICE_START,
    START,
    TIMED_SLICE,
    UPDATE,
)
from muntin.windows import ContextFreeWindow


class MeasuredLane(GridLane):
    """Windows whose watermark is per key, because it is no time.

    A row counts if it is not later than the lateness allows. Of a window that was added to a running
    query, rows before the key's last row at that time do not count: `_begins` has that time. Keys that
    were first seen later have `_unknown`: ALWAYS if they surely had no rows before, a little more if
    they may have been forgotten.
    """

    IN_LIVES: ClassVar[bool] = True
    PER_KEY: ClassVar[tuple[str, ...]] = (*GridLane.PER_KEY, "_time", "_begins")

    def __init__(
        self,
        windows: dict[str, ContextFreeWindow],
        partials: list[Partials],
        *,
        lateness: Lateness,
        ordered: bool,
        width: int = PLAIN_SLICE,
        changes: bool = False,
        keeps_rows: bool = False,
    ) -> None:
        super().__init__(
            windows,
            partials,
            lateness=lateness,
            per_key=True,
            width=width,
            changes=changes,
            remembers=lateness.longest > 0,
            keeps_rows=keeps_rows,
        )
        self._begins = np.zeros(0, np.int64)
        self._unknown = ALWAYS
        self._ordered = ordered
        self._time = np.full(int(not ordered), ALWAYS)
        self._shared = set() if ordered else {"_time"}

    @classmethod
    def build(cls, windows: Mapping[str, Any], partials: list[Partials], setting: Setting) -> Self:
        return cls(
            dict(windows),
            partials,
            lateness=setting.lateness,
            ordered=setting.ordered,
            changes=setting.changes,
        )

    def shares(self, kind: str) -> bool:
        del kind  # another window begins at other rows
        return False

    def _furthest(self, latest: int) -> int:
        del latest
        last = int(self._last.max(initial=ALWAYS))
        return ALWAYS if last == ALWAYS else self._edges.behind(last) - 1

    def join_stream(self, joining: Joining) -> None:
        self._unknown = ALWAYS + 1 if joining.forgotten > ALWAYS else ALWAYS
        self._begins = joining.last.copy()

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "unknown": self._unknown}

    def load(self, plain: dict[str, Any]) -> None:
        self._unknown = int(plain["unknown"])
        super().load(plain)

    def alive(self) -> Array:
        return np.ones(self.keys, np.bool_)  # what a key has come to is never forgotten

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys)
        if self._ordered:
            self._time = longer(self._time, self.slices.keys, watermark)
        self._begins = longer(self._begins, self.slices.keys, self._unknown)

    def _reached(self, watermark: Array) -> Array:
        del watermark
        return self._last  # a measure is not complete behind what it has come to

    def _in_time(self, rows: Rows) -> Array:
        time = self._time[rows.keys] if self._ordered else self._time
        first = np.maximum(self.lateness.past(time), self._begins[rows.keys])
        counts: Array = rows.times >= first
        return counts

    def _pass(self, watermark: Array) -> None:
        self._time = np.maximum(watermark, self._time)


class DeltaLane(MeasuredLane):
    """Windows over a column that advances with time.

    Its watermark is what the column has come to in rows before the watermark.
    """

    PER_KEY: ClassVar[tuple[str, ...]] = (*MeasuredLane.PER_KEY, "_final", "_whole_from")

    def __init__(self, column: str, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.column = column
        if self.kept is not None:
            self.kept.measure = column
        self._final = np.zeros(0, np.int64)
        self._whole_from = np.zeros(0, np.int64)  # from which start windows have all their rows

    @classmethod
    def build(cls, windows: Mapping[str, Any], partials: list[Partials], setting: Setting) -> Self:
        column = next(iter(windows.values())).measure
        return cls(
            column,
            dict(windows),
            partials,
            lateness=setting.lateness,
            ordered=setting.ordered,
            changes=setting.changes,
            width=TIMED_SLICE,
            keeps_rows=setting.keeps_rows,
        )

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys, watermark)
        self._final = longer(self._final, self.slices.keys, ALWAYS)
        seen = NEVER if self._unknown > ALWAYS else ALWAYS
        self._whole_from = longer(self._whole_from, self.slices.keys, seen)

    def _keep_rows(self) -> None:
        super()._keep_rows()
        assert self.kept is not None
        self.kept.measure = self.column

    def join_stream(self, joining: Joining) -> None:
        """Begin after each key's last row, which may have come to what the first one begins with."""
        super().join_stream(joining)
        self._whole_from = np.where(joining.last > ALWAYS, NEVER, ALWAYS)

    def miss(self, keys: Array, times: Array, journal: Journal) -> None:
        super().miss(keys, times, journal)
        keys = np.unique(keys)
        journal.items(keys, self._whole_from)
        held = self._whole_from[keys]
        self._whole_from[keys] = np.where(held == ALWAYS, NEVER, held)

    def _items(self, rows: Rows) -> Array:
        return self._edges.starts(rows.extra[self.column])

    @property
    def extra(self) -> dict[Any, np.dtype[Any]]:
        return {self.column: np.dtype(np.int64)}

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        journal.fields(self._edges)
        measure = rows.extra[self.column]
        counts = self._in_time(rows) & (measure >= self._final[rows.keys])
        rows = rows.take(np.nonzero(counts)[0])
        if len(rows) == 0:
            return counts, None
        rows = rows if self.kept is None else rows.in_order()
        return counts, self._grouped(rows, rows.extra[self.column])

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        if (self._whole_from[prepared.rows.keys] == NEVER).any():
            rows = prepared.rows
            keys, least = earliest(rows.keys, rows.extra[self.column], self.slices.keys)
            new = self._whole_from[keys] == NEVER
            journal.items(keys, self._whole_from)
            self._whole_from[keys[new]] = least[new] + 1
        super().commit(prepared, journal)

    def _rows_within(
        self, kept: KeptRows, places: Array, lo: Array, hi: Array
    ) -> tuple[Array, Array, list[Partials | None]]:
        """Leave out rows of other slices: at one time there may be rows of several."""
        owner = np.repeat(np.arange(len(places)), hi - lo)
        at = np.arange(len(owner)) + np.repeat(hi - np.cumsum(hi - lo), hi - lo)
        measure = np.ascontiguousarray(kept.runs.meta[at, ROW_MEASURE])
        starts = self._edges.starts(measure) if len(at) else at
        mine = starts == self.slices.meta[places[owner], SLICE_START]
        count = np.bincount(owner[mine], minlength=len(places))
        if (count == 0).any():  # what was saved of rows is not of these slices
            raise ValueError(f"slices of {self.column!r} have no rows among those that are kept")
        behind = np.cumsum(count)
        gathered = [None if rows is None else rows.gathered(at[mine]) for rows in kept.partials]
        return behind - count, behind, gathered

    def advance(self, watermark: Array, journal: Journal) -> Report:
        self.refresh(journal)
        self._pass(watermark)
        upto, past = np.maximum(self._come_to(self._time), self._after), self._final
        self._final = np.maximum(self._come_to(self.lateness.past(self._time)), past)
        windows = self._due(upto, past, self._final, journal)
        report = self.changes(self.answer(windows, journal), self._final, journal)
        self.drop_kept(journal)
        return report

    def _whole(self, windows: Array) -> Array:
        windows = super()._whole(windows)
        return windows[windows[:, START] >= self._whole_from[windows[:, KEY]]]

    def _come_to(self, time: Array) -> Array:
        """Return for each key the start of its last slice that has a row before a time.

        In an ordered stream no row will come before those that are there.
        """
        time = np.full(len(time), NEVER) if self._ordered else time
        come_to = np.full(self.slices.keys, ALWAYS)
        runs, stride = self.slices.runs(), int(self._ordered)
        compiled_loops().last_before(self.keys, runs, time, stride, come_to)
        return come_to


class RankLane(MeasuredLane):
    """Windows over the number of rows, in a stream whose rows come in order: a row's rank is final."""

    PER_KEY: ClassVar[tuple[str, ...]] = (*MeasuredLane.PER_KEY, "_ranks")

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self._ranks = np.zeros(0, np.int64)

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys, watermark)
        self._ranks = longer(self._ranks, self.slices.keys, 0)

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        journal.fields(self._edges)
        counts = self._in_time(rows)
        rows = rows.take(np.nonzero(counts)[0])
        ranks, after = np.empty(len(rows), np.int64), self._ranks.copy()
        compiled_loops().rank_rows(rows.keys, after, ranks)
        covered = np.nonzero(self._last_ends(ranks) > ranks)[0]
        if len(covered) == 0:
            return counts, Prepared(rows, NO_GROUPS, [], [], after)
        return counts, replace(self._grouped(rows.take(covered), ranks[covered]), counted=after)

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        assert prepared.counted is not None
        self._ranks = prepared.counted
        if len(prepared.found):
            super().commit(prepared, journal)

    def advance(self, watermark: Array, journal: Journal) -> Report:
        self._pass(watermark)
        self.refresh(journal)
        windows = _counted(self._due(self._ranks.copy(), self._ranks, self._ranks, journal))
        return self.changes(self.answer(windows, journal), self._ranks, journal)


class CountLane(MeasuredLane):
    """Windows over the number of rows, in a stream out of order: rows are kept, ranks move."""

    PER_KEY: ClassVar[tuple[str, ...]] = (*MeasuredLane.PER_KEY, "_first_rank", "_moved_from")

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self.kept: KeptRows = KeptRows(self._rows_of(self.partials))
        self._first_rank = np.zeros(0, np.int64)
        self._moved_from = np.zeros(0, np.int64)

    def _rows_of(self, partials: list[Partials]) -> list[Partials | None]:
        return [lifted(column) for column in partials]

    def _keep_no_rows(self) -> None:
        """Ranks are found in kept rows, whatever the aggregates."""

    def _last_items(self) -> Array:
        return self.kept.runs.last()

    def _first_items(self, windows: Array) -> Array:
        rank = self.slices.meta[windows[:, LO], SLICE_START] - self._first_rank[windows[:, KEY]]
        first: Array = self.kept.runs.meta[self.kept.runs.head[windows[:, KEY]] + rank, ROW_TIME]
        return first

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys, watermark)
        self._first_rank = longer(self._first_rank, self.slices.keys, 0)
        self._moved_from = longer(self._moved_from, self.slices.keys, NEVER)

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        del journal
        counts = self._in_time(rows)
        rows = rows.take(np.nonzero(counts)[0]).in_order()
        if len(rows) == 0:
            return counts, None
        return counts, Prepared(rows, NO_GROUPS, [], self.kept.lift(rows))

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        keys, cut, _ = self.kept.insert(prepared.rows, prepared.kept, journal)
        journal.items(keys, self._moved_from, self.due)
        self._moved_from[keys] = np.minimum(self._moved_from[keys], self._first_rank[keys] + cut)
        self.due[keys] = ALWAYS

    def advance(self, watermark: Array, journal: Journal) -> Report:
        final_before = self.lateness.past(self._time)
        self._pass(watermark)
        journal.fields(self._edges)
        self._reslice(np.nonzero(self._moved_from < NEVER)[0], journal)
        self._moved_from = np.full_like(self._moved_from, NEVER)
        self.refresh(journal)
        upto = np.maximum(self._rows_before(self._time), self._after)
        past, final = map(self._rows_before, (final_before, self.lateness.past(self._time)))
        before = self._after
        windows = _counted(self._due(upto, past, final, journal))
        windows[windows[:, END] <= before[windows[:, KEY]], KIND] = UPDATE
        report = self.changes(self.answer(windows, journal), final, journal)
        self._drop_rows(final, journal)
        return report

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        begin, moved = self._first_rank, self._moved_from
        came = moved < NEVER
        rows = self.kept.runs.length[: len(begin)]
        if (came & ((moved < begin) | (moved >= begin + rows))).any():
            raise ValueError("rows whose number changed are not among those that are kept")

    def _rows_before(self, time: Array) -> Array:
        """Return the rank of each key's first row at or after a time."""
        keys = np.arange(self.slices.keys)
        times = (
            np.broadcast_to(time, len(keys)) if len(time) == 1 else longer(time, len(keys), ALWAYS)
        )
        rows = self.kept.runs
        found = self.kept.places(keys, np.ascontiguousarray(times))
        return self._first_rank + found - rows.head[: len(keys)]

    def _reslice(self, keys: Array, journal: Journal) -> None:
        """Bring the slices of some keys up to date, from those that hold the first changed ranks on."""
        if len(keys) == 0:
            return
        rows, first_rank = self.kept.runs, self._first_rank[keys]
        moved = MovedRows.of(keys, self._moved_from[keys], rows, first_rank)
        cut = RankSlices.of(moved, self._edges, self.slices, first_rank)
        since = cut.start[cut.first]
        journal.items(keys, self._first, self._last, self._dirty)
        journal.items(moved.place, rows.meta[:, ROW_NEW])
        self.slices.note(journal, keys, since)
        self.slices.reserve(np.repeat(keys, cut.more))
        self.slices.length[keys] += cut.more
        places = (self.slices.head[keys] + cut.known)[cut.owner] + cut.nth
        self.slices.meta[places, SLICE_START] = cut.start
        self.slices.meta[places, SLICE_ROWS] = cut.end - cut.start
        self.slices.meta[places, SLICE_LATE] = 1
        self._bound(keys)
        self._dirty[keys] = np.minimum(self._dirty[keys], since)
        appended, by = cut.appended(moved), cut.shifts(moved, rows)
        rows.meta[moved.place, ROW_NEW] = 0
        to_row = (rows.head[keys] - first_rank)[cut.owner]
        lo = np.where(appended, moved.first[cut.owner], cut.start) + to_row
        self._fold(RankSpans(places, lo, cut.end + to_row, by, appended))
        here = ~self.slices.moved[keys]
        head = self.slices.head[keys][here]
        tail = head + self.slices.length[keys][here]
        for column in self.partials:
            column.settle(places[cut.first][here], tail, head, tail)

    def _fold(self, spans: RankSpans) -> None:
        """Bring partials up to date with the rows of their slices."""
        slide = np.nonzero(spans.by)[0]
        for column, rows in zip(self.partials, self.kept.partials, strict=True):
            assert rows is not None
            again = ~spans.appended
            if column.kernels.exact_inverse and column.aggregate.commutative:
                places, lo, hi, by = (held[slide] for held in spans[:4])
                again[slide] = column.shift(rows, places, lo, hi, by)
            column.refold(rows, spans.lo[again], spans.hi[again], spans.places[again])
            column.extend(
                rows,
                spans.lo[spans.appended],
                spans.hi[spans.appended],
                spans.places[spans.appended],
            )

    def _drop_rows(self, final: Array, journal: Journal) -> None:
        """Forget rows before the first slice, but none behind which a late row may still come."""
        live = self.slices.length > 0
        rows = self.kept.runs
        first = self.slices.meta[np.where(live, self.slices.head, 0), SLICE_START]
        first = np.where(live, first, self._first_rank + rows.length[: len(live)])
        drop = np.maximum(np.minimum(first, final) - self._first_rank, 0)
        keys = np.nonzero(drop)[0]
        rows.drop_front(keys, drop[keys], journal)
        journal.items(keys, self._first_rank)
        self._first_rank[keys] += drop[keys]


def _counted(windows: Array) -> Array:
    """Return the windows that begin with a row; the first row has rank 0."""
    return windows[windows[:, START] >= 0]
