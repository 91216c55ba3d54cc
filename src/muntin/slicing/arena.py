"""An arena of runs, one per key: items in order, side by side, with room to grow.

Items are slices or kept rows. What is known of an item without any aggregate is a row of `meta`; what
aggregates hold (partials, values) are columns beside it that move when items move. A batch costs
O(items it adds), amortised: a run that is full moves, and its room doubles; when the arena is full, all
runs move to a new one and leave no gaps.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from muntin.journal import Journal, TornError
from muntin.slicing.held_bytes import Measure, sampled
from muntin.slicing.limits import ALWAYS, END_OF_TIME, FAR, Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.tables import (
    MOVE_COLUMNS,
    MOVE_FROM,
    MOVE_ITEMS,
    MOVE_TO,
    ROW_PLACE,
    SLICE_START,
    Rooms,
    Runs,
)

FIRST_PLACES = 64
LOOSE = 4096
"""An arena of fewer places is not worth the work of making it smaller."""
NO_PLACES = np.zeros(0, np.int64)
PER_KEY = ("head", "length", "moved", "drift", "_base", "_room", "_more")


class Beside(Protocol):
    """Columns beside an arena's items."""

    def renew(self, places: int) -> None:
        """Make space for a number of places, with nothing at them."""

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What there is, at every place from 0 on."""

    def take(self, places: Array) -> tuple[Array, ...]:
        """Return what is at some places."""

    def put(self, places: Array, parts: tuple[Array, ...]) -> None:
        """Put that at some places."""

    def bytes(self, places: Array, count: int, measure: Measure) -> int:
        """Estimate the memory of all columns from some of the `count` places in use."""


class Arena:
    """Items of many keys in one arena: a table of `width` columns, and what lies beside it."""

    def __init__(self, width: int, *, ties: bool = False, furthest: int = FAR) -> None:
        self._ties = ties  # whether items of one key may have the same start, as rows do
        self._furthest = furthest  # no item that was saved starts later
        self.meta = np.zeros((FIRST_PLACES, width), np.int64)
        self.head = np.zeros(0, np.int64)
        self.length = np.zeros(0, np.int64)
        self._base = np.zeros(0, np.int64)
        self._room = np.zeros(0, np.int64)
        self._more = np.zeros(0, np.int64)
        self.moved = np.zeros(0, np.bool_)
        self.drift = np.zeros(0, np.int64)  # an item at place p is number p - drift of its run
        self._top = 0
        self.columns: list[Beside] = []  # what lies beside the items
        self._left: list[Array] = []  # places at which there may be objects that nobody needs
        self._torn = False  # while items move, and ever after if that was interrupted

    def __len__(self) -> int:
        return int(self.length.sum())

    @property
    def keys(self) -> int:
        """The number of keys there is space for."""
        return len(self.head)

    @property
    def places(self) -> int:
        """The number of places in the arena."""
        return len(self.meta)

    def beside(self, columns: Beside) -> None:
        """Keep columns beside the items from now on."""
        columns.renew(self.places)
        self.columns.append(columns)

    def no_longer_beside(self, columns: Beside) -> None:
        """Keep columns beside the items no more."""
        self.columns = [other for other in self.columns if other is not columns]

    def reshape(self, width: int) -> None:
        """Let the table have other columns at its end, zeros where they are new."""
        meta = np.zeros((self.places, width), np.int64)
        both = min(width, self.meta.shape[1])
        meta[:, :both] = self.meta[:, :both]
        self.meta = meta

    def last(self, column: int = SLICE_START) -> Array:
        """Return a column of the last item of each key, ALWAYS if it has none."""
        last = np.full(self.keys, ALWAYS)
        keys = np.nonzero(self.length)[0]
        last[keys] = self.meta[self.head[keys] + self.length[keys] - 1, column]
        return last

    def grow_keys(self, keys: int) -> None:
        """Make space for more keys; each begins with an empty run."""
        size = max(keys, 2 * self.keys) if keys > self.keys else self.keys
        for name in PER_KEY:  # those that an interrupt left short grow, too
            held = getattr(self, name)
            if len(held) < size:
                setattr(self, name, np.append(held, np.zeros(size - len(held), held.dtype)))

    def reserve(self, items: Array) -> Array:
        """Make room for more items, given their keys; return the keys, each once."""
        self._torn = True
        keys = np.empty(len(items), np.int64)
        moves = np.empty((len(items), MOVE_COLUMNS), np.int64)
        counted, top, count = self._claim(items, keys, 0, moves)
        if count < 0:
            compiled_loops().widen_rooms(keys[:counted], self._rooms())
            self._lay_out()
            _, top, count = self._claim(items, keys, counted, moves)
        self._top = top
        if count:
            for array in self._arrays():
                _move_runs(array, array, moves[:count])
        self._torn = False
        return keys[:counted]

    def _claim(self, items: Array, keys: Array, counted: int, moves: Array) -> tuple[int, ...]:
        claimed: tuple[int, ...] = compiled_loops().claim_room(
            items, keys, counted, self._rooms(), self._top, self.places, moves
        )
        return claimed

    def _rooms(self) -> Rooms:
        held = (self.head, self.length, self._base, self._room, self._more)
        return Rooms(*held, self.moved, self.drift)

    def runs(self) -> Runs:
        """Return the table and the runs in it, as loops take them."""
        return Runs(self.meta, self.head, self.length)

    def compact(self, alive: Array) -> None:
        """Forget the keys that are not alive, and close the gaps that they and moved runs have left."""
        for name in PER_KEY:
            setattr(self, name, getattr(self, name)[alive])
        self._lay_out()

    def _lay_out(self) -> None:
        """Move all runs to a new arena, one behind the other, with places left for more rooms."""
        self._room = np.where((self.length > 0) | (self._more > 0), self._room, 0)
        base = np.cumsum(self._room) - self._room
        moves = np.stack([self.head, base, self.length], 1)[self.length > 0]
        self._top = int(self._room.sum())
        places = max(FIRST_PLACES, 1 << (self._top + self._top // 4).bit_length())
        held = self._arrays()
        self.meta = np.empty((places, self.meta.shape[1]), np.int64)
        for columns in self.columns:
            columns.renew(places)
        for old, new in zip(held, self._arrays(), strict=True):
            _move_runs(old, new, moves)
        self.drift += base - self.head
        self._base, self.head = base, base.copy()
        self.moved[:] = True

    def note(self, journal: Journal, keys: Array, since: Array) -> None:
        """Note the items of some keys, each from the first on that does not start before a value.

        Wherever the runs lie by then, they are put back there.
        """
        cut = np.empty(len(keys), np.int64)
        runs = (self.meta, self.head, self.length)
        items = compiled_loops().cut_runs(*runs, keys, since, cut)
        length = self.length[keys]
        places = span(self.head[keys] + cut, length - cut) if items else NO_PLACES
        held = [columns.take(places) for columns in self.columns] if items else []
        meta = self.meta[places] if items else None
        journal.call(self._put_back, keys, cut, length, meta, held)

    def _put_back(
        self,
        keys: Array,
        cut: Array,
        length: Array,
        meta: Array | None,
        held: list[tuple[Array, ...]],
    ) -> None:
        if self._torn:
            raise TornError
        self.length[keys] = length
        self.moved[keys] = True
        if meta is None:
            return
        places = span(self.head[keys] + cut, length - cut)
        self.meta[places] = meta
        for columns, parts in zip(self.columns, held, strict=True):
            columns.put(places, parts)

    def drop_front(self, keys: Array, items: Array, journal: Journal) -> None:
        """Forget the first items of each key."""
        journal.items(keys, self.head, self.length)
        self.leave(self.head[keys], items, journal)
        self.head[keys] += items
        self.length[keys] -= items

    def leave(self, first: Array, items: Array, journal: Journal) -> None:
        """Say which items were dropped; what a report still reads of them is there until `release`."""
        if any(array.dtype == object for array in self._arrays()):
            journal.length(self._left)
            self._left.append(span(first, items))

    def release(self, journal: Journal) -> None:
        """Let the objects of items go that were dropped."""
        if not self._left:
            return
        places = np.concatenate(self._left)
        journal.fields(self)
        self._left = []
        for array in self._arrays():
            if array.dtype == object:
                journal.items(places, array)
                array[places] = None

    @property
    def is_loose(self) -> bool:
        """Whether far fewer places are in use than there are."""
        return self.places > LOOSE and 16 * (len(self) + self.keys) < self.places

    def tighten(self) -> None:
        """Move all runs to an arena of which they use a good part."""
        self._room = np.minimum(self._room, 2 * self.length + 2)
        self._lay_out()

    def bytes(self, measure: Measure) -> int:
        """Return the memory of the items and of all beside them; of objects, about that."""
        last = np.cumsum(self.length)
        count = int(last[-1]) if len(last) else 0
        items = sampled(count)
        owner = np.searchsorted(last, items, side="right")
        places = self.head[owner] + items - (last - self.length)[owner]
        return measure.fields(self) + sum(c.bytes(places, count, measure) for c in self.columns)

    def insert(self, keys: Array, lo: Array, hi: Array, new: Array) -> tuple[Array, Array]:
        """Merge items [lo, hi) of each key in order; return their places and each key's first change."""
        self.reserve(np.repeat(keys, hi - lo))
        moves = np.empty((len(self) + 1, MOVE_COLUMNS), np.int64)
        cut = np.empty(len(keys), np.int64)
        placed = new.copy()
        count = compiled_loops().insert_rows(self.runs(), keys, placed, (lo, hi), cut, moves)
        if count:
            source, target = moves[:count, MOVE_FROM], moves[:count, MOVE_TO]
            for array in self._arrays()[1:]:
                array[target] = array[source]
        return placed[:, ROW_PLACE], cut

    def _arrays(self) -> list[Array]:
        """Return all that there is of items, `meta` first."""
        return [self.meta, *(array for columns in self.columns for array in columns.arrays)]

    def live(self) -> Array:
        """Return the places of all items, key by key."""
        keys = np.nonzero(self.length)[0]
        return span(self.head[keys], self.length[keys])

    def starts(self) -> Array:
        """Return what the items are ordered by, key by key."""
        starts: Array = self.meta[self.live(), SLICE_START]
        return starts

    def plain(self, keys: int, columns: Callable[[Array], list[list[Any]]]) -> dict[str, Any]:
        """Return the items of the first keys as plain data, with the columns beside their places."""
        places = self.live()
        lengths = self.length[:keys].copy()
        return {"lengths": lengths, "meta": self.meta[places], "columns": columns(places)}

    def load(self, plain: dict[str, Any]) -> Array:
        """Take saved items into an empty arena, and return their places."""
        lengths, meta = whole(plain["lengths"]), whole(plain["meta"], self.meta.shape[1])
        if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= len(meta):
            raise ValueError(f"runs of {lengths.min()} to {lengths.max()} items")
        if int(lengths.sum()) != len(meta):
            raise ValueError(f"{len(meta)} items for runs of {lengths.sum()}")
        self._check_order(lengths, meta[:, SLICE_START])
        self.grow_keys(len(lengths))
        keys = np.nonzero(lengths)[0]
        self.reserve(np.repeat(keys, lengths[keys]))
        self.length[keys] = lengths[keys]
        places = self.live()
        self.meta[places] = meta
        return places

    def _check_order(self, lengths: Array, starts: Array) -> None:
        """Refuse items that are not in the order of their starts, key by key, or lie too far away."""
        if len(starts) and not -END_OF_TIME <= starts.min() <= starts.max() <= self._furthest:
            raise ValueError(f"items from {starts.min()} to {starts.max()}")
        owner = np.repeat(np.arange(len(lengths)), lengths)
        least = 0 if self._ties else 1
        if ((np.diff(starts) < least) & (np.diff(owner) == 0)).any():
            raise ValueError("items are not in order")


def whole(array: Any, columns: int | None = None, count: int | None = None) -> Array:
    """Return an array of whole numbers that was saved, or say that it is not one of that shape."""
    shape = getattr(array, "shape", None)
    wanted = (len(array) if count is None else count, *(() if columns is None else (columns,)))
    if shape != wanted or array.dtype != np.int64:
        raise ValueError(f"whole numbers of shape {wanted} are needed, not {array!r}")
    found: Array = np.ascontiguousarray(array)
    return found


def _move_runs(old: Array, new: Array, moves: Array) -> None:
    """Move blocks (from, to, items) of numbers, or of objects."""
    if old.dtype == object:
        items = moves[:, MOVE_ITEMS]
        source = span(moves[:, MOVE_FROM], items)
        held = old[source]
        old[source] = None
        new[span(moves[:, MOVE_TO], items)] = held
    else:
        words = (array.view(f"i{array.itemsize}").reshape(len(array), -1) for array in (old, new))
        compiled_loops().move_runs(*words, moves)


def span(first: Array, items: Array) -> Array:
    """Return the places of runs that begin at `first`, one by one."""
    if len(items) == 1:
        return np.arange(first[0], first[0] + items[0])
    offsets = np.arange(int(items.sum())) - np.repeat(np.cumsum(items) - items, items)
    places: Array = np.repeat(first, items) + offsets
    return places
