"""Windows that are found in the rows of a key: what punctuations, policies and the last n rows share.

Rows are kept (EDBT 2019, section 5.1), each lifted to a slice of its own, and windows are merged from
them by one shared scan. A subclass finds the windows of one key in its kept rows. Work per report is
O(rows of the windows concerned), key by key.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from muntin.journal import Journal
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.arena import span, whole
from muntin.slicing.held_items import HeldItems, Look
from muntin.slicing.lane import (
    NO_GROUPS,
    Joining,
    Lane,
    Prepared,
    Report,
    Setting,
    beginnings,
    longer,
)
from muntin.slicing.limits import ALWAYS, END_OF_TIME, FAR, NEVER, Array
from muntin.slicing.partials import Partials
from muntin.slicing.report_pieces import Expected
from muntin.slicing.rows import KeptRows, Rows, beginnings_of
from muntin.slicing.since import Since
from muntin.slicing.tables import (
    HI,
    KEY,
    LO,
    REPORT_COLUMNS,
    ROW_NEW,
    ROW_TIME,
)
from muntin.slicing.tick_ends import expected_ends

ROW = ("row",)
"""Under this, which is no name of a column, rows come as dicts for windows that look at them."""
Line = tuple[int, int, int, int, int, int, int]
"""A row of a report."""
NO_WINDOWS = np.zeros((0, REPORT_COLUMNS), np.int64)


class RowLane(Lane):
    """One window over kept rows.

    Of a window that was added to a running query, rows before the key's last row at that time do not
    count: `begins` has that time per key. Keys that were first seen later have `unknown`: ALWAYS if
    they surely had no rows before, a little more if they may have been forgotten.
    """

    IN_LIVES: ClassVar[bool] = True

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        self.names = [name]
        self.windows = {name: window}
        self.window = window
        self.partials = partials
        self.lateness = setting.lateness
        self.keys = 0
        held: list[Partials | None] = [*partials]
        self._needs_rows = self._looks_at_rows(window, setting)
        self.kept = KeptRows(held, ROW if self._needs_rows else None)
        self._changes = setting.changes
        self._ordered = setting.ordered
        self._idle = END_OF_TIME + FAR if setting.idle is None else setting.idle  # from any time
        self._time = np.full(int(not setting.ordered), ALWAYS)
        self._first_rank = np.zeros(0, np.int64)
        self._begins = np.zeros(0, np.int64)
        self._unknown = ALWAYS
        self._due = np.zeros(0, np.int64)  # the watermark at which a key is looked at again
        self.since = Since()
        # The time of the earliest new row of each key, NEVER if there is none.
        self._fresh = np.zeros(0, np.int64)

    @classmethod
    def build(cls, windows: Mapping[str, Any], partials: list[Partials], setting: Setting) -> Self:
        ((name, window),) = windows.items()
        return cls(name, window, partials, setting)

    # Windows and keys come and go

    def join_stream(self, joining: Joining) -> None:
        self._unknown = ALWAYS + 1 if joining.forgotten > ALWAYS else ALWAYS
        self._begins = joining.last.copy()

    def remove(self, name: str, latest: int) -> None:
        raise NotImplementedError(f"{name!r} is the only window of its lane")

    def add_aggregate(self, column: Partials) -> None:
        self.since.add(len(self.partials), self.kept.runs.last())
        self.partials = [*self.partials, column]
        self.kept.add_aggregate(column)

    def remove_aggregate(self, i: int) -> None:
        self.since.remove(i)
        self.partials = [*self.partials[:i], *self.partials[i + 1 :]]
        self.kept.remove_aggregate(i)

    @staticmethod
    def some_aggregates(plain: dict[str, Any], which: list[int]) -> dict[str, Any]:
        kept = KeptRows.some_aggregates(plain["kept"], which, plain["aggregates"])
        since = Since.some_aggregates(plain["since"], which)
        return {**plain, "kept": kept, "since": since, "aggregates": len(which)}

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        self.keys = keys
        self.kept.runs.grow_keys(keys)
        self._first_rank = longer(self._first_rank, self.kept.runs.keys, 0)
        self._begins = longer(self._begins, self.kept.runs.keys, self._unknown)
        self._due = longer(self._due, self.kept.runs.keys, NEVER)
        self._fresh = longer(self._fresh, self.kept.runs.keys, NEVER)
        if self._ordered:
            self._time = longer(self._time, self.kept.runs.keys, watermark)

    def alive(self) -> Array:
        """Return which keys have anything that must be kept: all, for windows are made of what came."""
        return np.ones(self.keys, np.bool_)

    def keep_keys(self, alive: Array) -> None:
        padded = np.append(alive, np.zeros(self.kept.runs.keys - len(alive), np.bool_))
        self.keys = int(np.count_nonzero(alive))
        for name in ("_first_rank", "_begins", "_due", "_fresh"):
            setattr(self, name, getattr(self, name)[padded])
        if self._ordered:
            self._time = self._time[padded]
        self.kept.runs.compact(padded)
        self.since.keep_keys(alive)
        number = np.cumsum(padded) - 1
        self._renumber({key: int(number[key]) for key in np.nonzero(padded)[0].tolist()})

    def _renumber(self, numbers: dict[int, int]) -> None:
        """Know keys by new numbers, and forget those that have none."""

    # Rows come in

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        """Return which rows count, and those lifted."""
        del journal
        time = self._time[rows.keys] if self._ordered else self._time
        counts = rows.times >= np.maximum(self.lateness.past(time), self._begins[rows.keys])
        rows = rows.take(np.nonzero(counts)[0]).in_order()
        if len(rows) == 0:
            return counts, None
        self._try(rows)
        return counts, Prepared(rows, NO_GROUPS, [], self.kept.lift(rows))

    @property
    def extra(self) -> dict[Any, np.dtype[Any]]:
        return {ROW: np.dtype(object)} if self._needs_rows else {}

    @staticmethod
    def _looks_at_rows(window: Any, setting: Setting) -> bool:
        """Whether the window looks at rows as dicts."""
        del window, setting
        return True

    def try_rows(self, rows: Rows) -> None:
        super().try_rows(rows)
        self._try(rows)

    def _try(self, rows: Rows) -> None:
        """Let a row that the window cannot take be refused with its batch."""

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        """Keep the rows."""
        rows = prepared.rows
        keys, _, places = self.kept.insert(rows, prepared.kept, journal)
        journal.items(keys, self._fresh)
        first = rows.times[beginnings_of(rows.keys)]
        self._fresh[keys] = np.minimum(self._fresh[keys], first)
        self._inserted(prepared, keys, places, journal)

    def _inserted(self, prepared: Prepared, keys: Array, places: Array, journal: Journal) -> None:
        """Note that rows of some keys were inserted at some places."""

    # The watermark advances

    def advance(self, watermark: Array, journal: Journal) -> Report:
        """Report the windows that are complete or have changed, and retract those that are no more."""
        before = self._time
        self._time = np.maximum(watermark, before)
        windows = self._found(before, journal)
        valued = windows[:, HI] > windows[:, LO]
        full = windows if valued.all() else windows[valued]
        report = Report(windows, self._results(full, journal))
        if len(self.since):
            self.since.hide(report, self.kept.runs.meta[full[:, LO], ROW_TIME])
        return report

    def _results(self, windows: Array, journal: Journal) -> list[tuple[Array, ...]]:
        """Return the results of windows that have rows, which come key by key."""
        del journal
        lo, hi = (np.ascontiguousarray(windows[:, c]) for c in (LO, HI))
        keys = beginnings(windows[:, KEY])
        runs = beginnings(windows[:, KEY], np.diff(lo) < 0)
        return [column.query(lo, hi, keys, runs) for column in self.partials]

    def held(self, keys: Array, journal: Journal) -> HeldItems:
        del keys, journal
        records = None if self.kept.extra is None else self.kept.extra.array
        return HeldItems(self.kept.runs, self.partials, ROW_TIME, records=records)

    def lacks(self, name: str, look: Look) -> Array:
        del name
        time = self._time[look.keys if self._ordered else np.zeros(len(look.keys), np.int64)]
        gone = (self._first_rank[look.keys] > 0) & (look.time < time)
        lacking: Array = self._may_reach_back(look) & (gone | self._unseen(look))
        return lacking

    def _may_reach_back(self, look: Look) -> Array:
        """Return which windows may have had rows before the first one that is kept."""
        reaches: Array = look.lo == 0
        return reaches

    def _unseen(self, look: Look) -> Array:
        """Return of which keys there may have been rows before the window was added."""
        unseen: Array = self._begins[look.keys] > ALWAYS
        return unseen

    def _found(self, before: Array, journal: Journal) -> Array:
        """Return the windows to report, key by key; they were reported up to `before`."""
        raise NotImplementedError(f"windows of {self.kind!r} are not found here")

    def _to_look_at(self) -> Array:
        """Return the keys that have new rows, or may have something to report or to forget."""
        due = self._due[: self.keys] <= (self._time[: self.keys] if self._ordered else self._time)
        return np.nonzero(due | (self._fresh[: self.keys] < NEVER))[0]

    def _note_reported(self, keys: Array, journal: Journal) -> None:
        """Note what a report changes of some keys: the new rows of each are new no more."""
        runs = self.kept.runs
        first = self.kept.places(keys, self._fresh[keys])
        new = span(first, runs.head[keys] + runs.length[keys] - first)
        journal.items(new, runs.meta[:, ROW_NEW])
        journal.items(keys, self._first_rank, self._due, self._fresh)

    def _rows(self, key: int) -> Array:
        """Return the kept rows of a key as dicts."""
        assert self.kept.extra is not None
        head = int(self.kept.runs.head[key])
        rows: Array = self.kept.extra.array[head : head + int(self.kept.runs.length[key])]
        return rows

    def _with_new(self) -> list[int]:
        keys: list[int] = np.nonzero(self._fresh[: self.keys] < NEVER)[0].tolist()
        return keys

    def _with_rows(self) -> list[int]:
        keys: list[int] = np.nonzero(self.kept.runs.length)[0].tolist()
        return keys

    def _expected_ticks(self, watermark: Array) -> Expected:
        """Return about how many windows will be due, if they are reported at each tick."""
        keys = np.array(self._with_rows(), np.int64)
        first = self.kept.runs.meta[self.kept.runs.head[keys], ROW_TIME]
        last = self.kept.runs.last()[keys]
        places = keys if self._ordered else np.zeros(len(keys), np.int64)
        after = np.maximum(first, self._time[places])
        ends = np.where(last > END_OF_TIME - self._idle, END_OF_TIME, last + self._idle)
        upto = np.maximum(after, np.minimum(watermark[places], ends))
        return expected_ends(self.names[0], self.window, after, upto)

    # State

    def parts(self) -> list[Any]:
        return [self, self.since, *self.kept.parts()]

    def retype(self, i: int, kernels: SliceKernels) -> None:
        self.partials[i].retype(kernels)

    def plain(self) -> dict[str, Any]:
        return {
            "kept": self.kept.plain(self.keys),
            "aggregates": len(self.partials),
            "since": self.since.plain(self.keys),
            "time": self._time[: self.keys] if self._ordered else self._time,
            "first_rank": self._first_rank[: self.keys],
            "fresh": [(key, int(self._fresh[key])) for key in self._with_new()],
            "begins": self._begins[: self.keys],
            "unknown": self._unknown,
        }

    def load(self, plain: dict[str, Any]) -> None:
        self.kept.load(plain["kept"])
        keys = len(plain["kept"]["lengths"])
        ranks = whole(plain["first_rank"], count=keys)
        if not ((ranks >= 0) & (ranks <= FAR)).all():
            raise ValueError("the rank of a key's first row is a number of rows")
        self._unknown = int(plain["unknown"])
        self.grow_keys(keys)
        self.since.load(plain["since"], len(self.partials), keys)
        time = whole(plain["time"], count=min(len(self._time), max(keys, 1)))
        self._time[: len(time)] = time
        self._first_rank[:keys] = ranks
        self._begins[:keys] = whole(plain["begins"], count=keys)
        self._due[:keys] = ALWAYS
        for key, moment in plain["fresh"]:
            if moment not in self._times_of(key):
                raise ValueError(f"no row of key {key} came at {moment}")
            self._fresh[key] = moment

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
        return len(self.kept)


def as_lines(windows: list[Line]) -> Array:
    """Return rows of a report as a table."""
    return np.array(windows, np.int64).reshape(-1, REPORT_COLUMNS)
