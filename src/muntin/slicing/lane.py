"""A lane: the windows of one query that share work, because the same rows count for them.

`Lane` is what an operator asks of every lane. How a row becomes a result:

    process    admit: which rows count, grouped and folded; no slice is changed
               commit: put them into slices, or keep them
    advance    advance: the windows that are complete, and those that late rows changed, as a Report
               settle: tidy up, when the report was written

Each kind of lane is a class in `slicing/lanes`, registered by its name in `query/lane_factory.py`. A
window says which kind serves it (`Window.lane`). Whatever a call changes, it first notes in the call's
journal, so that a call that fails is undone.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from muntin.journal import Journal
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.arena import Arena
from muntin.slicing.held_bytes import Measure
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, Array
from muntin.slicing.partials import Partials
from muntin.slicing.report_pieces import NOT_MANY, Expected
from muntin.slicing.rows import Rows
from muntin.slicing.tables import GROUP_COLUMNS, HI, KEY, LO, REPORT_COLUMNS, START, WINDOW

if TYPE_CHECKING:
    from muntin.slicing.held_items import HeldItems, Look
    from muntin.slicing.since import Since

ALONE = np.array([0, 1])
"""Where one window begins and ends among all."""
NO_GROUPS = np.zeros((0, GROUP_COLUMNS), np.int64)


@dataclass(frozen=True)
class Report:
    """Windows to report: a row of `windows` each (key, window, start, end, lo, hi, kind), and results.

    results[a] are the arrays that aggregate a's kernels gave for the windows that have slices, in their
    order; the others (retracted or empty) have no values.
    """

    windows: Array
    results: list[tuple[Array, ...]]

    @property
    def valued(self) -> Array:
        """Which windows have values."""
        valued: Array = self.windows[:, HI] > self.windows[:, LO]
        return valued

    def pick(self, which: Array) -> "Report":
        """Return some of the windows."""
        mine = which[self.valued]
        results = [tuple(array[mine] for array in outs) for outs in self.results]
        return Report(self.windows[which], results)

    def by_key(self, keys: Array) -> "Report":
        """Return the report with other keys, the windows of each of which are brought together."""
        order, place = np.argsort(keys, kind="stable"), np.cumsum(self.valued) - 1
        windows = self.windows[order]
        windows[:, KEY] = keys[order]
        at = place[order][self.valued[order]]
        return Report(windows, [tuple(array[at] for array in outs) for outs in self.results])

    def joined(self, other: "Report") -> "Report":
        """Return both reports as one."""
        pairs = zip(self.results, other.results, strict=True)
        results = [tuple(map(np.concatenate, zip(a, b, strict=True))) for a, b in pairs]
        return Report(np.concatenate([self.windows, other.windows]), results)


@dataclass(frozen=True)
class Prepared:
    """A batch that was grouped and folded; no slice is changed before it is committed."""

    rows: Rows
    found: Array
    parts: list[tuple[Array, ...]]
    kept: list[tuple[Array, ...] | None]
    counted: Array | None = None


@dataclass(frozen=True)
class Setting:
    """What a query and its plan ask of a lane."""

    lateness: Lateness  # how long after its end a window still changes
    ordered: bool  # whether rows of a key come in order of time: each is a watermark for its key
    changes: bool  # whether only windows that differ from the one before are reported
    keeps_rows: bool  # whether rows are kept for aggregates that are not commutative
    every_row: bool  # whether each moment that has rows is a slice, to compare plans
    time: str  # the column of the rows' times
    idle: int | None  # how long after its last row a key's life ends


@dataclass(frozen=True)
class Joining:
    """What is known of a stream when windows are added to it."""

    latest: int  # no row came at a later time, and no watermark
    last: Array  # the last time of a row, of each key
    forgotten: int  # keys whose last row was not later may have been forgotten


class Lane(ABC):
    """Some windows of a query over a stream of many keys."""

    IN_LIVES: ClassVar[bool] = False
    """Whether windows are found in the rows of a key's life, which is then taken for a key."""

    kind: str = ""  # the name under which the class is registered
    store: str = ""  # what its partials are held in
    names: list[str]  # the windows, in the order of their numbers in a report
    windows: dict[str, Any]
    partials: list[Partials]  # one per aggregate
    aggregates: list[str]  # their names
    lateness: Lateness
    keys: int = 0  # the number of keys
    turn: int = 0  # lanes fold the rows of a batch in the order of these numbers
    since: "Since"  # since when aggregates that were added have values
    _begins: Array  # per key, the time up to which rows may not count for windows found in rows

    @classmethod
    @abstractmethod
    def build(cls, windows: Mapping[str, Any], partials: list[Partials], setting: Setting) -> Self:
        """Return an empty lane for some windows."""

    # Rows come in

    @abstractmethod
    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        """Make space for more keys, which begin at a watermark."""

    @property
    def extra(self) -> dict[Any, np.dtype[Any]]:
        """What rows bring besides times and inputs, by name, and its type."""
        return {}

    def try_rows(self, rows: Rows) -> None:
        """Let rows that cannot be taken be refused now, because they will come later."""
        for column, inputs in zip(self.partials, rows.inputs, strict=True):
            if column.kernels.columns is None:
                column.lift(inputs)

    @abstractmethod
    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        """Return which rows count (None if all do), and those grouped and folded (None if none does).

        Edges may be extended, and what was lost may be noted; no slice is changed.
        """

    @abstractmethod
    def commit(self, prepared: Prepared, journal: Journal) -> None:
        """Put rows that were admitted into slices, or keep them."""

    def miss(self, keys: Array, times: Array, journal: Journal) -> None:
        """Note that rows came to keys from before the window was added, which do not count for it."""
        journal.items(np.unique(keys), self._begins)
        np.maximum.at(self._begins, keys, times)

    def lack(self, i: int, rows: Rows, journal: Journal) -> None:
        """Note that rows came from before aggregate i was added."""
        journal.fields(self.since)
        self.since.note(i, rows.keys, self._items(rows))

    def _items(self, rows: Rows) -> Array:
        """Return the items that rows are in, as `since` knows items."""
        return rows.times

    # The watermark advances

    def expected(self, watermark: Array) -> Expected:
        """Return about how many windows are due, where they may be very many for what is held."""
        del watermark
        return NOT_MANY

    @abstractmethod
    def advance(self, watermark: Array, journal: Journal) -> Report:
        """Report the windows that end by the watermark (of all keys, or of each) or have changed."""

    @property
    def last_end(self) -> int:
        """A watermark by which windows are complete of which only rows say the ends."""
        return ALWAYS

    def of_keys(self, report: Report, keys: int, watermark: Array, journal: Journal) -> Report:
        """Return what is to be said of keys, given a report with keys in place of their lives.

        `watermark` is that of all keys, or of each.
        """
        del keys, watermark, journal
        return report

    def report_early(self, early: bool) -> None:
        """Note from now on what `early` will report, or no more."""
        del early

    def early(self, journal: Journal) -> Report:
        """Report windows that are not complete and changed since they were reported, of some kinds."""
        del journal
        return Report(lines(0), [])

    # Windows are looked at

    def held(self, keys: Array, journal: Journal) -> "HeldItems":
        """Return what is held, with partials that are up to date; `keys` will be asked for."""
        del keys, journal
        raise NotImplementedError(f"a lane of kind {self.kind!r} cannot be looked at")

    def held_rows(self) -> "HeldItems | None":
        """Return the rows that are kept beside slices, if they have the partials of all aggregates."""
        return None

    def is_cut(self, time: int) -> bool:
        """Whether no slice holds rows from both sides of a time."""
        del time
        return False

    def lacks(self, name: str, look: "Look") -> Array:
        """Return of which keys the lane does not have all that a window needs."""
        raise NotImplementedError(f"a lane of kind {self.kind!r} cannot be looked at")

    def settle(self, journal: Journal) -> None:
        """Tidy up after a report was written."""
        for part in self.parts():
            if isinstance(part, Arena):
                part.release(journal)

    # Windows and keys come and go

    def shares(self, kind: str) -> bool:
        """Whether windows that are served by this kind of lane can be added here."""
        del kind
        return False

    def add(self, name: str, window: Any, latest: int) -> None:
        """Serve another window; `latest` is the last time of a row."""
        raise NotImplementedError(f"a lane of kind {self.kind!r} takes no other windows")

    @abstractmethod
    def remove(self, name: str, latest: int) -> None:
        """Serve a window no more; there are others."""

    @abstractmethod
    def join_stream(self, joining: Joining) -> None:
        """Begin in a stream of which earlier rows were not seen: report only whole windows."""

    @abstractmethod
    def add_aggregate(self, column: Partials) -> None:
        """Hold another aggregate; it has no value in windows that hold anything from before."""

    @abstractmethod
    def remove_aggregate(self, i: int) -> None:
        """Hold the partials of aggregate i no more, and free what only it needed."""

    @staticmethod
    @abstractmethod
    def some_aggregates(plain: dict[str, Any], which: list[int]) -> dict[str, Any]:
        """Return a lane's state that was saved, with some of its aggregates."""

    def change_lateness(self, lateness: Lateness) -> None:
        """Let windows change longer or shorter after their end."""
        self.lateness = lateness

    @abstractmethod
    def alive(self) -> Array:
        """Return which keys have anything that must be kept."""

    def unsaid(self) -> Array:
        """Return which lives of keys have an end that must still be reported."""
        return np.zeros(self.keys, np.bool_)

    def known_keys(self, keys: int, past: int) -> Array:
        """Return of which keys, and not their lives, anything must be kept.

        Windows that end by `past` do not change any more.
        """
        del past
        return np.zeros(keys, np.bool_)

    def keep_known_keys(self, alive: Array) -> None:
        """Forget what is known of keys, and not of their lives, unless they are alive."""
        del alive

    @abstractmethod
    def keep_keys(self, alive: Array) -> None:
        """Forget the keys that are not alive; the others get new numbers."""

    # State

    @abstractmethod
    def retype(self, i: int, kernels: SliceKernels) -> None:
        """Let aggregate i, of which only nulls came so far, work on another type."""

    @abstractmethod
    def parts(self) -> list[Any]:
        """Return the objects that the lane is made of, itself first."""

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """Return the lane's state as plain data."""

    @abstractmethod
    def load(self, plain: dict[str, Any]) -> None:
        """Take a state that was saved into an empty lane."""

    @property
    @abstractmethod
    def space(self) -> int:
        """The number of keys there is space for."""

    @property
    def slice_count(self) -> int:
        """The number of slices held."""
        return 0

    @property
    @abstractmethod
    def rows_kept(self) -> int:
        """The number of kept rows."""

    @property
    def bytes(self) -> int:
        """The memory of all that the lane is made of; of objects, about that (`held_bytes.py`)."""
        parts = self.parts()
        arenas = [part for part in parts if isinstance(part, Arena)]
        beside = [column for arena in arenas for column in arena.columns]
        measure = Measure([*parts, *beside])
        others = [part for part in parts if part not in arenas and part not in beside]
        return sum(arena.bytes(measure) for arena in arenas) + sum(map(measure.fields, others))

    def give_back(self, journal: Journal) -> None:
        """Let memory go that is many times what is in use. Cost: amortised O(1) for what was dropped."""
        arenas = [part for part in self.parts() if isinstance(part, Arena) and part.is_loose]
        if arenas:
            journal.no_return()
        for arena in arenas:
            arena.tighten()


def lines(count: int) -> Array:
    """Return a table for `count` windows, in which each column lies in one piece."""
    return np.empty((count, REPORT_COLUMNS), np.int64, order="F")


def together(pieces: Sequence[Array]) -> Array:
    """Return pieces of windows as one."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def beginnings(values: Array, also: Any = False) -> Array:
    """Return where another value begins, and where the last one ends."""
    (found,) = ((values[1:] != values[:-1]) | also).nonzero()
    bounds = np.empty(len(found) + 2, np.int64)
    bounds[0], bounds[1:-1], bounds[-1] = 0, found + 1, len(values)
    return bounds


def least(values: Array) -> int:
    """Return the least value; of one value without NumPy's reduction, which takes longer than a row."""
    return int(values[0]) if len(values) == 1 else int(values.min())


def greatest(values: Array) -> int:
    """Return the greatest value."""
    return int(values[0]) if len(values) == 1 else int(values.max())


def spans_of(windows: Array) -> tuple[Array, Array, Array, Array]:
    """Return the slices [lo, hi) of windows, and where their keys and runs begin and the last ends.

    In a run, windows of one key and definition, neither lo nor hi falls.
    """
    lo, hi = np.ascontiguousarray(windows[:, LO]), np.ascontiguousarray(windows[:, HI])
    if len(windows) == 1:
        return lo, hi, ALONE, ALONE
    falls = (np.diff(windows[:, WINDOW]) != 0) | (np.diff(windows[:, START]) < 0)
    return lo, hi, beginnings(windows[:, KEY]), beginnings(windows[:, KEY], falls)


def longer(array: Array, size: int, fill: Any) -> Array:
    """Return the array with at least `size` items, new ones filled."""
    if len(array) >= size:
        return array
    return np.append(array, np.full(size - len(array), fill, array.dtype))
