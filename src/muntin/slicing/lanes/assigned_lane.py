"""Windows made of what rows say: sessions with their gap in a column or a longest length, and `assign`.

Rows are kept, with the stretches of time for which they stand; where a late row comes, windows are found
again in the rows of its key, and compared with those that were reported. In a stream that is in order
a key is looked at when one of its windows may be complete.

Windows that merge can be joined by a late row whose own stretch is not past. So they are kept for as
long as the longest stretch of the key so far reaches back; a longer one joins nothing from before that.
"""

from itertools import takewhile
from typing import Any, ClassVar, NamedTuple

import numpy as np

from muntin.journal import Journal
from muntin.slicing.arena import whole
from muntin.slicing.lane import NO_GROUPS, Joining, Prepared, Report, Setting, lines, longer
from muntin.slicing.lanes.assigned_windows import (
    Found,
    Span,
    assigned,
    read_spans,
    sessions,
    without,
)
from muntin.slicing.lanes.row_lane import Line, RowLane, as_lines
from muntin.slicing.limits import ALWAYS, FAR, NEVER, Array
from muntin.slicing.partials import Partials
from muntin.slicing.rows import KeptRows, Rows, beginnings_of, object_array, reaching
from muntin.slicing.tables import (
    EARLY,
    HI,
    LO,
    RESULT,
    RETRACT,
    ROW_MEASURE,
    ROW_NEW,
    ROW_TIME,
    UPDATE,
)
from muntin.windows import SessionOfRows

CHANGED = 2
"""Added to the kind with which a window was reported, if it changed since."""
FINAL, OPEN = 0, 1
"""Kinds with which a window was reported: as complete, or early."""
KNOWN = (FINAL, OPEN, FINAL + CHANGED, OPEN + CHANGED)
Told = dict[Span, int]
"""The windows of a key that were reported, and how."""


class News(NamedTuple):
    """What is to be said of a key: which of its windows and how, and which are no more."""

    key: int
    found: Found
    kinds: list[tuple[int, int]]
    gone: list[Span]


class AssignedLane(RowLane):
    """One window that is made of the stretches for which rows stand."""

    IN_LIVES: ClassVar[bool] = False

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        self._session = isinstance(window, SessionOfRows)
        self._merging = bool(self._session or window.merging)
        self._reaching = reaching(name)
        held: list[Partials | None] = [*partials]
        if self._session:
            self.kept = KeptRows(held)
            self.kept.measure = self._reaching
        else:
            self.kept = KeptRows(held, self._reaching, read_spans)
        self._told: dict[int, Told] = {}
        self._reach = np.zeros(0, np.int64)  # the longest stretch of each key so far
        self._last_end = ALWAYS  # of all stretches
        self._early: frozenset[int] | None = None  # keys that changed since early results

    @staticmethod
    def _looks_at_rows(window: Any, setting: Setting) -> bool:
        del window, setting
        return False

    @property
    def extra(self) -> dict[Any, np.dtype[Any]]:
        return {self._reaching: np.dtype(np.int64 if self._session else object)}

    # Keys come and go

    def join_stream(self, joining: Joining) -> None:
        del joining
        raise ValueError(
            f"window {self.names[0]!r} cannot be added to a stream of which rows have come: they may "
            "reach into its windows, and nobody knows how far; start a query of its own"
        )

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys, watermark)
        self._reach = longer(self._reach, self.kept.runs.keys, 0)

    def alive(self) -> Array:
        alive: Array = self.kept.runs.length[: self.keys] > 0
        return alive

    def keep_keys(self, alive: Array) -> None:
        padded = np.append(alive, np.zeros(self.kept.runs.keys - len(alive), np.bool_))
        self._reach = self._reach[padded]
        super().keep_keys(alive)

    def _renumber(self, numbers: dict[int, int]) -> None:
        self._told = {numbers[k]: told for k, told in self._told.items() if k in numbers}
        if self._early is not None:
            self._early = frozenset(numbers[k] for k in self._early if k in numbers)

    # Rows come in

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        """Return which rows stand for anything that is not past, and those lifted."""
        del journal
        time = self._time[rows.keys] if self._ordered else self._time
        past = np.broadcast_to(self.lateness.past(time), len(rows))
        reach = rows.extra[self._reaching]
        if self._session:
            counts: Array = reach > past
        else:
            pairs = zip(reach, past.tolist(), strict=True)
            left = [tuple(s for s in spans if s[1] > final) for spans, final in pairs]
            counts = np.fromiter(map(bool, left), np.bool_, len(rows))
            reach = object_array(left, len(rows))
        kept = Rows(rows.keys, rows.times, rows.inputs, {self._reaching: reach})
        kept = kept.take(np.nonzero(counts)[0]).in_order()
        if len(kept) == 0:
            return counts, None
        return counts, Prepared(kept, NO_GROUPS, [], self.kept.lift(kept))

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        """Keep the rows; where they may change what was reported, look at their key again."""
        rows = prepared.rows
        first = beginnings_of(rows.keys)
        keys = rows.keys[first]
        start, soon, last, length = self._stretches(rows, first)
        self._forget(keys[(length > self._reach[keys]) & (self._reach[keys] > 0)], journal)
        super().commit(prepared, journal)
        journal.items(keys, self._due, self._reach)
        self._reach[keys] = np.maximum(self._reach[keys], length)
        self._last_end = max(self._last_end, int(last.max()))
        due = np.minimum(self._due[keys], soon + self._merging)
        for i, key in enumerate(keys.tolist()):
            told = self._told.get(key)
            if told and start[i] <= max(end for _, end in told):
                due[i] = ALWAYS
        self._due[keys] = due
        if self._early is not None:
            self._early = self._early.union(keys.tolist())

    def _stretches(self, rows: Rows, first: Array) -> tuple[Array, Array, Array, Array]:
        """Return of each key's rows the first start, the first and last end, and the longest stretch."""
        reach = rows.extra[self._reaching]
        if self._session:
            bounds = (rows.times, reach, reach, reach - rows.times)
        else:
            made = [
                (
                    spans[0][0],
                    min(end for _, end in spans),
                    max(end for _, end in spans),
                    max(end - start for start, end in spans),
                )
                for spans in reach
            ]
            bounds = tuple(np.array(made, np.int64).T)
        folds = (np.minimum, np.minimum, np.maximum, np.maximum)
        start, soon, last, length = (
            fold.reduceat(bound, first) for fold, bound in zip(folds, bounds, strict=True)
        )
        return start, soon, last, length

    # The watermark advances

    @property
    def last_end(self) -> int:
        """A watermark by which all windows are complete."""
        return max(self._last_end, ALWAYS + 1) + int(self._merging)

    def advance(self, watermark: Array, journal: Journal) -> Report:
        """Report the windows that are complete or have changed, and retract those that are no more."""
        self._time = np.maximum(watermark, self._time)
        keys = np.nonzero(self._due[: self.keys] <= self._time[: max(self.keys, 1)])[0]
        self._note_keys(keys, journal)
        pieces = [self._news(key) for key in keys.tolist()]
        report = self._reported(pieces)
        for news in pieces:
            self._drop(news.key, news.found, journal)
        return report

    def report_early(self, early: bool) -> None:
        if not early:
            self._early = None
        elif self._early is None:
            self._early = frozenset(self._with_rows())

    def early(self, journal: Journal) -> Report:
        """Report the windows that are not complete and changed, and retract those that have grown."""
        if self._early is None:
            return super().early(journal)
        keys = np.array(sorted(self._early), np.int64)
        self._early = frozenset()
        self._note_keys(keys, journal)
        return self._reported([self._early_news(key) for key in keys.tolist()])

    def _note_keys(self, keys: Array, journal: Journal) -> None:
        """Note what looking at some keys will change."""
        self._note_reported(keys, journal)
        journal.entries(self._told, keys.tolist(), copied=dict)

    def _windows(self, key: int) -> Found:
        """Return the windows of a key."""
        runs = self.kept.runs
        rows = slice(int(runs.head[key]), int(runs.head[key] + runs.length[key]))
        if self._session:
            meta = runs.meta[rows]
            return sessions(meta[:, ROW_TIME], meta[:, ROW_MEASURE], self.window.longest)
        assert self.kept.extra is not None
        return assigned(self.kept.extra.array[rows].tolist(), self._merging)

    def _seen(self, key: int) -> tuple[Found, Told]:
        """Return a key's windows, and how they were reported; new rows have changed them."""
        found, told = self._windows(key), self._told.get(key, {})
        head, count = int(self.kept.runs.head[key]), int(self.kept.runs.length[key])
        new = self.kept.runs.meta[head : head + count, ROW_NEW]
        for window, changed in zip(found.spans, found.any_of(new > 0), strict=True):
            if changed and told.get(window, CHANGED) < CHANGED:
                told[window] += CHANGED
        new[:] = 0
        self._fresh[key] = NEVER
        return found, told

    def _is_open(self, key: int, end: int) -> bool:
        upto = int(self._time[key if self._ordered else 0])
        return end >= upto if self._merging else end > upto

    def _news(self, key: int) -> News:
        """Return a key's windows, which of them to report and how, and those that are gone."""
        found, told = self._seen(key)
        here, news = set(found.spans), []
        gone = [window for window in told if window not in here]
        for window in gone:
            del told[window]
        for i, window in enumerate(found.spans):
            known = told.get(window)
            if known != FINAL and not self._is_open(key, window[1]):
                news.append((i, UPDATE if known == FINAL + CHANGED else RESULT))
                told[window] = FINAL
        return self._noted(News(key, found, news, gone), told)

    def _early_news(self, key: int) -> News:
        """Return what `_news` does, of the windows that are not complete."""
        found, told = self._seen(key)
        here, news = set(found.spans), []
        still_open = [window for window in found.spans if self._is_open(key, window[1])]
        gone = [
            (start, end)
            for (start, end), known in told.items()
            if (start, end) not in here
            and (
                known % CHANGED == OPEN
                or any(first <= start and end <= last for first, last in still_open)
            )
        ]
        for window in gone:
            del told[window]
        for i, window in enumerate(found.spans):
            if told.get(window) in (None, OPEN + CHANGED) and self._is_open(key, window[1]):
                news.append((i, EARLY))
                told[window] = OPEN
        return self._noted(News(key, found, news, gone), told)

    def _noted(self, news: News, told: Told) -> News:
        """Note how a key's windows were reported, if any was."""
        if told:
            self._told[news.key] = told
        else:
            self._told.pop(news.key, None)
        return news

    def _reported(self, pieces: list[News]) -> Report:
        """Return a report of windows of several keys, with the values of those that are there."""
        table: list[Line] = []
        places = [np.zeros(0, np.int64)]
        at = 0
        for key, found, news, gone in pieces:
            table += [(key, 0, start, end, 0, 0, RETRACT) for start, end in gone]
            for i, kind in news:
                mine = found.rows_of(i) + int(self.kept.runs.head[key])
                table.append((key, 0, *found.spans[i], at, at + len(mine), kind))
                places.append(mine)
                at += len(mine)
        if not table:
            return Report(lines(0), [])
        windows, rows = as_lines(table), np.concatenate(places)
        report = Report(windows, self._values(windows, rows))
        if len(self.since):
            valued = windows[report.valued]
            self.since.hide(report, self.kept.runs.meta[rows[valued[:, LO]], ROW_TIME])
        return report

    def _values(self, windows: Array, rows: Array) -> list[tuple[Array, ...]]:
        """Return the results of windows over rows at some places, which are in [LO, HI) of these."""
        valued = windows[windows[:, HI] > windows[:, LO]]
        lo, hi = (np.ascontiguousarray(valued[:, c]) for c in (LO, HI))
        each, results = np.arange(len(valued) + 1), []
        for column in self.partials:
            held = column.gathered(rows)
            results.append(held.query(lo, hi, each, each))
            column.combines += held.combines
        return results

    # What is past is forgotten

    def _forget(self, keys: Array, journal: Journal) -> None:
        """Forget the windows of some keys that no row so far could have joined any more."""
        if len(keys) == 0:
            return
        journal.items(keys, self._due)
        journal.entries(self._told, keys.tolist(), copied=dict)
        for key in keys.tolist():
            due = self._due[key]  # late rows may have come
            self._drop(key, self._windows(key), journal)
            self._due[key] = min(due, self._due[key])
        self.kept.runs.release(journal)  # before other rows come to their places

    def _drop(self, key: int, found: Found, journal: Journal) -> None:
        """Forget the windows of a key that are past, and say when to look at it again."""
        told = self._told.get(key, {})
        place = np.array([key if self._ordered else 0])
        past = int(self.lateness.past(self._time[place])[0])
        reach = int(self._reach[key]) if self._merging else 0
        final = max(past, ALWAYS + reach) - reach
        past_ones = (told.get(w) == FINAL and w[1] <= final for w in found.spans)
        if self._session:  # their rows follow each other
            gone = list(range(sum(1 for _ in takewhile(bool, past_ones))))
        else:
            gone = [i for i, is_past in enumerate(past_ones) if is_past]
        if gone:
            self._drop_windows(key, found, gone, journal)
        for i in gone:
            del told[found.spans[i]]
        if not told:
            self._told.pop(key, None)
        late = reach + self.lateness.longest
        dropped = {*gone}
        looks = (
            window[1] + (late if told.get(window) in (FINAL, FINAL + CHANGED) else self._merging)
            for i, window in enumerate(found.spans)
            if i not in dropped
        )
        self._due[key] = min(looks, default=NEVER)

    def _drop_windows(self, key: int, found: Found, gone: list[int], journal: Journal) -> None:
        """Forget some windows of a key, and the rows that are in no other."""
        runs, extra = self.kept.runs, self.kept.extra
        head, count = int(runs.head[key]), int(runs.length[key])
        left = np.ones(count, np.bool_)
        rows = np.unique(np.concatenate([found.rows_of(i) for i in gone]))
        if extra is None:
            left[rows] = False
        else:
            spans = [found.spans[i] for i in gone]
            journal.items(head + rows, extra.array)
            for row in (head + rows).tolist():
                extra.array[row] = without(extra.array[row], spans, self._merging)
            left[:] = [bool(held) for held in extra.array[head : head + count].tolist()]
        front = int(np.argmax(left)) if left.any() else count
        if front:
            runs.drop_front(np.array([key]), np.array([front]), journal)
        if 2 * np.count_nonzero(left) < count - front:
            self._close_gaps(key, left[front:], journal)

    def _close_gaps(self, key: int, left: Array, journal: Journal) -> None:
        """Keep only the rows of a key that are left."""
        runs, extra = self.kept.runs, self.kept.extra
        assert extra is not None
        places = int(runs.head[key]) + np.flatnonzero(left)
        held = {self._reaching: extra.array[places]}
        rows = Rows(np.full(len(places), key), runs.meta[places, ROW_TIME], [], held)
        parts = [
            column.take(places) if column is not None else None for column in self.kept.partials
        ]
        runs.drop_front(np.array([key]), np.array([len(left)]), journal)
        runs.release(journal)
        _, _, placed = self.kept.insert(rows, parts, journal)
        runs.meta[placed, ROW_NEW] = 0

    # State

    def plain(self) -> dict[str, Any]:
        told = [
            (key, [[*window, known] for window, known in sorted(told.items())])
            for key, told in sorted(self._told.items())
        ]
        reach = self._reach[: self.keys]
        return {**super().plain(), "told": told, "reach": reach, "last_end": self._last_end}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        self._reach[: self.keys] = whole(plain["reach"], count=self.keys)
        self._last_end = int(plain["last_end"])
        if not (self._reach >= 0).all() or self._last_end > FAR:
            raise ValueError("stretches of time end behind their start, and are not too far away")
        for key, windows in plain["told"]:
            if not len(self._times_of(key)):
                raise ValueError(f"windows were reported of key {key}, which has no rows")
            self._told[key] = {(start, end): known for start, end, known in windows}
            for window, known in self._told[key].items():
                if any(type(n) is not int for n in (*window, known)) or known not in KNOWN:
                    raise TypeError("windows that were reported have bounds, and how that was")
        early, self._early = self._early is not None, None
        self.report_early(early)
