"""Windows whose edges depend on rows: punctuations, users' own, and the rows left every so often.

Rows are kept (EDBT 2019, section 5.1), lifted: a slice of one row each, from which windows are merged by
one shared scan. A late row may move, add or remove edges behind it: what was reported and is no more is
retracted. Work per report is O(rows of the windows concerned), key by key.
"""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np

from muntin.journal import Journal
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.arena import span, whole
from muntin.slicing.lane import NO_GROUPS, Lane, Prepared, Report, Setting, beginnings, longer
from muntin.slicing.lanes.context_state import ContextState, check_book
from muntin.slicing.lanes.grid_lane import less
from muntin.slicing.lanes.policy_ends import check_left, enforce, forget, tell
from muntin.slicing.limits import ALWAYS, FAR, NEVER, Array
from muntin.slicing.partials import Partials
from muntin.slicing.report_pieces import NOT_MANY, Expected, refuse_countless
from muntin.slicing.rows import KeptRows, Rows
from muntin.slicing.tables import (
    END,
    HI,
    KEY,
    KIND,
    LO,
    REPORT_COLUMNS,
    RESULT,
    RETRACT,
    ROW_NEW,
    ROW_TIME,
    START,
    UPDATE,
    WINDOW,
)
from muntin.slicing.tick_ends import all_ends, ends_after_rows
from muntin.windows import ContextAwareWindow, LastN, Policy, Ticking

ROW = "row"
Line = tuple[int, int, int, int, int, int, int]
NOTHING = np.zeros((0, REPORT_COLUMNS), np.int64)


class ContextLane(Lane):
    """Windows over kept rows, found key by key.

    With `whole_only`, because rows came before that were not kept, windows of which a part may be gone
    are not reported.
    """

    def __init__(
        self,
        windows: dict[str, Ticking | ContextAwareWindow],
        partials: list[Partials],
        *,
        lateness: int,
        ordered: bool,
        changes: bool,
    ) -> None:
        self.names = list(windows)
        self.windows = dict(windows)
        self.partials = partials
        self.lateness = lateness
        self.keys = 0
        needs_rows = any(not isinstance(w, LastN) for w in windows.values())
        held: list[Partials | None] = [*partials]
        self.kept = KeptRows(held, ROW if needs_rows else None)
        self._changes = changes
        self.whole_only = False
        self._ticks = any(isinstance(w, Ticking) for w in windows.values())
        self._ordered = ordered
        self._time = np.full(int(not ordered), ALWAYS)
        self._first_rank = np.zeros(0, np.int64)
        self._books: list[dict[int, ContextState]] = [{} for _ in windows]
        self._fresh: dict[int, int] = {}
        self._due: dict[int, int] = {}

    @classmethod
    def build(cls, windows: Mapping[str, Any], partials: list[Partials], setting: Setting) -> Self:
        return cls(
            dict(windows),
            partials,
            lateness=setting.lateness,
            ordered=setting.ordered,
            changes=setting.changes,
        )

    def join_stream(self, latest: int) -> None:
        del latest
        for name, window in self.windows.items():
            if isinstance(window, Policy):
                raise ValueError(
                    f"window {name!r} holds what its policy left of all rows, and rows that came before "
                    "it was added were not kept for it: give such a window with the query"
                )
        self.whole_only = True

    def remove(self, name: str, latest: int) -> None:
        del latest
        del self._books[self.names.index(name)]
        del self.windows[name]
        self.names.remove(name)
        self._ticks = any(isinstance(w, Ticking) for w in self.windows.values())

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        """Make space for more keys, which begin at a watermark."""
        self.keys = keys
        self.kept.runs.grow_keys(keys)
        self._first_rank = longer(self._first_rank, self.kept.runs.keys, 0)
        if self._ordered:
            self._time = longer(self._time, self.kept.runs.keys, watermark)

    def parts(self) -> list[Any]:
        """Return the objects that the lane is made of, itself first."""
        return [self, *self.kept.parts()]

    def retype(self, i: int, kernels: SliceKernels) -> None:
        """Let an aggregate, of which only nulls came so far, work on another type."""
        self.partials[i].retype(kernels)

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        """Return which rows count, and those lifted."""
        del journal
        time = self._time[rows.keys] if self._ordered else self._time
        counts = rows.times >= less(time, self.lateness)
        rows = rows.take(np.nonzero(counts)[0]).in_order()
        if len(rows) == 0:
            return counts, None
        for window in self.windows.values():
            self._try(window, rows)
        return counts, Prepared(rows, NO_GROUPS, [], self.kept.lift(rows))

    @staticmethod
    def _try(window: Ticking | ContextAwareWindow, rows: Rows) -> None:
        """Let a row that a window cannot take be refused with its batch."""
        if isinstance(window, ContextAwareWindow):
            for time, row in zip(rows.times.tolist(), rows.extra[ROW], strict=True):
                window.opens(window.begin(), time, row)
        elif isinstance(window, Policy):
            lift = window.policy.aggregate.input_lift()
            for row in rows.extra[ROW]:
                lift(row)

    def alive(self) -> Array:
        """Return which keys have anything that must be kept: all, for a key's first row is its edge."""
        return np.ones(self.keys, np.bool_)

    def keep_keys(self, alive: Array) -> None:
        """Forget the keys that are not alive; here there are none."""
        assert alive.all()

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        """Keep the rows."""
        rows = prepared.rows
        keys, _ = self.kept.insert(rows, prepared.kept, journal)
        journal.entries(self._fresh, keys.tolist())
        first = np.append(0, np.nonzero(np.diff(rows.keys))[0] + 1)
        for key, time in zip(keys.tolist(), rows.times[first].tolist(), strict=True):
            self._fresh[key] = min(time, self._fresh.get(key, NEVER))

    def advance(self, watermark: Array, journal: Journal) -> Report:
        """Report the windows that are complete or have changed, and retract those that are no more."""
        before = self._time
        self._time = np.maximum(watermark, before)
        found = [NOTHING]
        visited = self._visited()
        self._note_visited(visited, journal)
        for key in visited:
            place = key if self._ordered else 0
            found += self._report(key, int(before[place]), int(self._time[place]), journal)
        self._fresh = {}
        windows = np.concatenate(found)
        valued = windows[:, HI] > windows[:, LO]
        lo, hi = (np.ascontiguousarray(windows[valued, c]) for c in (LO, HI))
        keys = beginnings(windows[valued, KEY])
        runs = beginnings(windows[valued, KEY], np.diff(lo) < 0)
        return Report(windows, [column.query(lo, hi, keys, runs) for column in self.partials])

    def expected(self, watermark: Array) -> Expected:
        """Return about how many windows will be due by a watermark, and between which times they end."""
        keys = np.nonzero(self.kept.runs.length)[0]
        ticking = {n: w.every for n, w in self.windows.items() if isinstance(w, Ticking)}
        if self._changes or not ticking or len(keys) == 0:
            return NOT_MANY
        first = self.kept.runs.meta[self.kept.runs.head[keys], ROW_TIME]
        places = keys if self._ordered else np.zeros(len(keys), np.int64)
        after = np.maximum(first, self._time[places])
        upto = np.maximum(after, watermark[places])
        stretch = float(np.sum(upto.astype(np.float64) - after))
        for name, every in ticking.items():
            refuse_countless(name, stretch / every)
        count = sum(stretch / every for every in ticking.values())
        return Expected(int(count), int(after.min()), int(upto.max()))

    def _visited(self) -> list[int]:
        if self._ticks:
            return np.nonzero(self.kept.runs.length)[0].tolist()
        time = self._time
        due = [k for k, t in self._due.items() if t <= int(time[k if self._ordered else 0])]
        return sorted({*due, *self._fresh})

    def _note_visited(self, visited: list[int], journal: Journal) -> None:
        """Note what a report will change of some keys; contexts are told their rows again."""
        runs, keys = self.kept.runs, np.array(visited, np.int64)
        journal.items(span(runs.head[keys], runs.length[keys]), runs.meta[:, ROW_NEW])
        journal.items(keys, self._first_rank)
        journal.entries(self._due, visited)
        for books in self._books:
            journal.entries(books, visited, ContextState.without_context)

    def _report(self, key: int, after: int, upto: int, journal: Journal) -> list[Array]:
        """Return the windows of one key to report, and forget the rows that none needs any more."""
        runs = self.kept.runs
        head, count = int(runs.head[key]), int(runs.length[key])
        meta = runs.meta[head : head + count]
        final = ALWAYS if upto < ALWAYS + self.lateness else upto - self.lateness
        found: list[Array] = []
        needed, due = count, NEVER
        for d, window in enumerate(self.windows.values()):
            if isinstance(window, LastN):
                times, new = meta[:, ROW_TIME], meta[:, ROW_NEW]
                found.append(self._last_rows(key, d, window, times, new, after, upto))
                before_final = int(np.searchsorted(times, final))
                needed = min(needed, max(before_final - window.n, 0))
            elif isinstance(window, Policy):
                found.append(_lines(self._left(key, d, window, meta, upto)))
                needed = min(needed, forget(self._books[d][key], meta[:, ROW_TIME], final))
            else:
                assert isinstance(window, ContextAwareWindow)
                found.append(_lines(self._contexts(key, d, window, meta, upto)))
                book = self._books[d][key]
                book.forget(final)
                start = book.edges[0] if book.edges else NEVER
                needed = min(needed, int(np.searchsorted(meta[:, ROW_TIME], start)))
                due = min(
                    due, *(e for s, e in pairwise(book.edges) if s not in book.reported), NEVER
                )
        self._due[key] = due
        meta[:, ROW_NEW] = 0
        runs.drop_front(np.array([key]), np.array([needed]), journal)
        self._first_rank[key] += needed
        return found

    def _last_rows(
        self, key: int, d: int, window: LastN, times: Array, new: Array, after: int, upto: int
    ) -> Array:
        """Return the last n rows at each end that is due, or whose rows have changed."""
        head = int(self.kept.runs.head[key])
        if len(times) == 0:
            return NOTHING
        fresh, known = self._fresh.get(key, NEVER), times[new == 0]
        if self._changes:
            ends = ends_after_rows(window, times, upto)
            again = ends[(ends > fresh) & (ends <= after)]
            ends, before = ends[ends > after], ends_after_rows(window, known, after)
        else:
            ends = all_ends(window, max(after, int(times[0])), upto)
            again = all_ends(window, fresh, after) if fresh < after else times[:0]
            before = again[np.searchsorted(known, again) > 0]
        found = self._at(key, d, window, times, again)
        total = np.append(0, np.cumsum(new))
        found = found[total[found[:, HI]] > total[found[:, LO]]]
        found[np.isin(found[:, END], before), KIND] = UPDATE
        found = np.concatenate([found, self._at(key, d, window, times, ends)])
        if self.whole_only:
            found = found[found[:, HI] - found[:, LO] >= window.n]
        found[:, [LO, HI]] += head
        return found

    def _at(self, key: int, d: int, window: LastN, times: Array, ends: Array) -> Array:
        """Return the last n of a key's rows at each end, as rows of its run."""
        found = np.empty((len(ends), REPORT_COLUMNS), np.int64)
        found[:, KEY], found[:, WINDOW], found[:, END], found[:, KIND] = key, d, ends, RESULT
        found[:, HI] = np.searchsorted(times, ends)
        found[:, LO] = np.maximum(found[:, HI] - window.n, 0)
        found[:, START] = self._first_rank[key] + found[:, LO]
        return found

    def _left(self, key: int, d: int, window: Policy, meta: Array, upto: int) -> list[Line]:
        """Return what the policy has left at each end that is due, or where that has changed."""
        book = self._books[d].setdefault(key, ContextState())
        fresh, changes = self._fresh.get(key, NEVER), self._changes
        head, times = int(self.kept.runs.head[key]), meta[:, ROW_TIME]
        rows = self._rows(head, len(times))
        left = enforce(book, window, times, rows, upto, fresh=fresh, changes=changes)
        return [
            (key, d, start, end, head + lo, head + hi, kind)
            for start, end, lo, hi, kind in tell(
                book, left, times, meta[:, ROW_NEW], changes=changes
            )
        ]

    def _rows(self, head: int, count: int) -> Array:
        """Return the first kept rows of a run as dicts."""
        assert self.kept.extra is not None
        rows: Array = self.kept.extra.array[head : head + count]
        return rows

    def _contexts(
        self, key: int, d: int, window: ContextAwareWindow, meta: Array, upto: int
    ) -> list[Line]:
        """Return the windows between edges that are complete, changed or gone."""
        book = self._books[d].setdefault(key, ContextState())
        fresh = self._fresh.get(key, NEVER)
        since = self._edges(book, window, key, meta, fresh) if fresh < NEVER else NEVER
        head = int(self.kept.runs.head[key])
        edges = book.edges[1:] if self.whole_only and not book.settled else book.edges
        complete = {start: end for start, end in pairwise(edges) if end <= upto}
        lines: list[Line] = []
        for start, end in list(book.reported.items()):
            if start >= since and complete.get(start) != end:
                lines.append((key, d, start, end, 0, 0, RETRACT))
                del book.reported[start]
        for start, end in complete.items():
            lo, hi = np.searchsorted(meta[:, ROW_TIME], [start, end]).tolist()
            known = start in book.reported
            if not known or meta[lo:hi, ROW_NEW].any():
                kind = UPDATE if known else RESULT
                lines.append((key, d, start, end, head + lo, head + hi, kind))
                book.reported[start] = end
        return lines

    def _edges(
        self, book: ContextState, window: ContextAwareWindow, key: int, meta: Array, fresh: int
    ) -> int:
        """Find the edges again, from the window that holds the first new row; return its start."""
        times = meta[:, ROW_TIME]
        rows = self._rows(int(self.kept.runs.head[key]), len(times))
        if fresh <= book.told or not book.edges:
            at = max(bisect_right(book.edges, fresh) - 1, 0)
            start = min(book.edges[at], fresh) if book.edges else fresh
            del book.edges[at:]
            since = start
            book.edges.append(start)
            book.context = window.begin()
            lo = self._tell(book, window, times, rows, int(np.searchsorted(times, start)))
        else:
            since = book.edges[-1]
            lo = int(np.searchsorted(times, book.told, side="right"))
        while lo < len(times):
            time = int(times[lo])
            hi = int(np.searchsorted(times, time, side="right"))
            answers = [window.opens(book.context, time, row) for row in rows[lo:hi]]
            if any(answers):
                book.edges.append(time)
                book.context = window.begin()
                self._tell(book, window, times, rows, lo)
            lo = hi
            book.told = time
        return since

    @staticmethod
    def _tell(
        book: ContextState, window: ContextAwareWindow, times: Array, rows: Array, lo: int
    ) -> int:
        """Tell a new window's context of the rows at its start; return the first row behind them."""
        time = int(times[lo])
        hi = int(np.searchsorted(times, time, side="right"))
        for row in rows[lo:hi]:
            window.opens(book.context, time, row)
        book.told = time
        return hi

    def plain(self) -> dict[str, Any]:
        """Return the lane's state as plain data; a context sees its rows again."""
        books = [
            [
                (key, book.edges, list(book.reported.items()), book.settled)
                for key, book in held.items()
            ]
            for held in self._books
        ]
        return {
            "kept": self.kept.plain(self.keys),
            "time": self._time[: self.keys] if self._ordered else self._time,
            "first_rank": self._first_rank[: self.keys],
            "fresh": list(self._fresh.items()),
            "books": books,
            "whole_only": self.whole_only,
        }

    def load(self, plain: dict[str, Any]) -> None:
        """Take a state that was saved into an empty lane."""
        self.kept.load(plain["kept"])
        keys = len(plain["kept"]["lengths"])
        ranks = whole(plain["first_rank"], count=keys)
        if not ((ranks >= 0) & (ranks <= FAR)).all():
            raise ValueError("the rank of a key's first row is a number of rows")
        self.grow_keys(keys)
        time = whole(plain["time"], count=min(len(self._time), max(keys, 1)))
        self._time[: len(time)] = time
        self._first_rank[:keys] = ranks
        self._fresh = {int(key): int(time) for key, time in plain["fresh"]}
        for key, moment in self._fresh.items():
            if moment not in self._times_of(key):
                raise ValueError(f"no row of key {key} came at {moment}")
        self.whole_only = bool(plain["whole_only"])
        pairs = zip(self.windows.values(), self._books, plain["books"], strict=True)
        for window, held, saved in pairs:
            for key, edges, reported, settled in saved:
                book = ContextState(
                    list(edges), dict(reported), settled=bool(settled)
                ).without_context()
                check = check_left if isinstance(window, Policy) else check_book
                check(book, self._times_of(key))
                held[key] = book
                self._due[key] = ALWAYS

    def _times_of(self, key: int) -> Array:
        """Return the times of a key's rows, or raise ValueError if there is no such key."""
        if type(key) is not int or not 0 <= key < self.keys:
            raise ValueError(f"{key!r} is not one of {self.keys} keys")
        runs = self.kept.runs
        times: Array = runs.meta[runs.head[key] : runs.head[key] + runs.length[key], ROW_TIME]
        return times

    @property
    def space(self) -> int:
        return self.kept.runs.keys

    @property
    def rows_kept(self) -> int:
        """How many rows are kept."""
        return len(self.kept)

    @property
    def bytes(self) -> int:
        """The memory of the kept rows; of objects, that of their references."""
        return self.kept.bytes


def _lines(windows: list[Line]) -> Array:
    return np.array(windows, np.int64).reshape(-1, REPORT_COLUMNS)
