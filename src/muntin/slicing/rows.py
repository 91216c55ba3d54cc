"""Rows: those of a batch on their way in, and those that a plan has to keep.

Rows are kept in (time, arrival) order, key by key, and only where the decision tree of EDBT 2019,
Figure 4 asks for it (`query/plan.py`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muntin.journal import Journal
from muntin.slicing.arena import Arena
from muntin.slicing.held_bytes import Measure
from muntin.slicing.limits import Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.partials import Partials
from muntin.slicing.tables import ROW_COLUMNS, ROW_MEASURE, ROW_TIME

Inputs = tuple[Array, ...]


def opening(window: str) -> tuple[str, str]:
    """Return the name under which rows come with whether each of them opens a window."""
    return "opens", window


def advancing(column: str) -> tuple[str, str]:
    """Return the name under which rows come with a column as floats, in the bits of whole numbers."""
    return "advances", column


def reaching(window: str) -> tuple[str, str]:
    """Return the name under which rows come with the stretches of time for which they stand."""
    return "reaches", window


def looked_at(column: str) -> tuple[str, str]:
    """Return the name under which rows come with a column of numbers, if a policy looks at one."""
    return "looks", column


def object_array(items: Iterable[Any], count: int) -> Array:
    """Return an array of objects, whatever they are; tuples stay tuples."""
    return np.fromiter(items, object, count)


@dataclass(frozen=True)
class Rows:
    """Rows in arrival order: their keys and times, what each aggregate takes of them, other columns.

    What a lane has `folded` of all of them is there for other lanes that take the same.
    """

    keys: Array
    times: Array
    inputs: list[Inputs]
    extra: dict[Any, Array] = field(default_factory=dict)
    folded: dict[Any, Any] = field(default_factory=dict, compare=False)

    def __len__(self) -> int:
        return len(self.times)

    def take(self, which: Array) -> "Rows":
        """Return some of the rows, or all in another order."""
        return Rows(
            self.keys[which],
            self.times[which],
            [tuple(array[which] for array in inputs) for inputs in self.inputs],
            {name: array[which] for name, array in self.extra.items()},
        )

    def in_order(self) -> "Rows":
        """Return the rows by key, then time, then arrival."""
        if len(self) < 2:
            return self
        back = (self.keys[1:] < self.keys[:-1]) | (
            (self.keys[1:] == self.keys[:-1]) & (self.times[1:] < self.times[:-1])
        )
        if not back.any():
            return self
        if (self.times[1:] >= self.times[:-1]).all():
            narrow = self.keys.astype(np.min_scalar_type(int(self.keys.max())))
            return self.take(np.argsort(narrow, kind="stable"))  # by digits, if they are few
        return self.take(np.lexsort((self.times, self.keys)))


def beginnings_of(keys: Array) -> Array:
    """Return where each key begins among rows that lie key by key."""
    return np.append(0, np.nonzero(np.diff(keys))[0] + 1)


class Objects:
    """Something of the kept rows that is no partial, beside their arena."""

    def __init__(self) -> None:
        self.array = np.empty(0, object)

    def renew(self, places: int) -> None:
        """Make space for a number of places, with nothing at them."""
        self.array = np.empty(places, object)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The objects, at every place."""
        return (self.array,)

    def take(self, places: Array) -> tuple[Array, ...]:
        """Return the objects at some places."""
        return (self.array[places],)

    def put(self, places: Array, parts: tuple[Array, ...]) -> None:
        """Put objects at some places."""
        (self.array[places],) = parts

    def bytes(self, places: Array, count: int, measure: Measure) -> int:
        """Estimate the memory of the objects from those at some of the `count` places in use."""
        return self.array.nbytes + measure.objects(self.array[places].tolist(), count)


def _as_record(row: Any) -> dict[str, Any]:
    """Return a row that was saved as a dict."""
    if not isinstance(row, dict):
        raise TypeError("kept rows are dicts")
    return row


class KeptRows:
    """Rows of many keys in order, each lifted to a partial of the aggregates that ask for it.

    Each is a row of a table with the columns ROW_TIME, ROW_MEASURE and ROW_NEW. What rows come with
    under the name `extra` is kept, too; `read` takes one of these as it was saved.
    """

    def __init__(
        self,
        partials: list[Partials | None],
        extra: tuple[str, ...] | None = None,
        read: Callable[[Any], Any] = _as_record,
    ) -> None:
        self.runs = Arena(ROW_COLUMNS, ties=True)
        self.partials = partials
        self.extra = None if extra is None else Objects()
        self._extra_name, self._read = extra, read
        self.measure: str | tuple[str, str] | None = None
        for column in (*partials, self.extra):
            if column is not None:
                self.runs.beside(column)

    def __len__(self) -> int:
        return len(self.runs)

    def parts(self) -> list[Any]:
        """Return the objects that hold the rows."""
        return [self, self.runs, *(c for c in (*self.partials, self.extra) if c is not None)]

    def add_aggregate(self, column: Partials | None) -> None:
        """Keep the partials of another aggregate, of which the rows that are there have no values."""
        self.partials = [*self.partials, column]
        if column is not None:
            self.runs.beside(column)
            column.clear()

    def look_at_rows(self, name: tuple[str, ...], rows: list[Any]) -> None:
        """Keep rows as objects from now on, too, given those that are there."""
        self.measure, self._extra_name, self.extra = None, name, Objects()
        self.runs.beside(self.extra)
        self.extra.put(self.runs.live(), (object_array(rows, len(rows)),))

    def remove_aggregate(self, i: int) -> None:
        """Keep the partials of an aggregate no more."""
        column = self.partials[i]
        self.partials = [*self.partials[:i], *self.partials[i + 1 :]]
        if column is not None:
            self.runs.no_longer_beside(column)

    @staticmethod
    def some_aggregates(plain: dict[str, Any], which: list[int], aggregates: int) -> dict[str, Any]:
        """Return rows that were saved, with some of their aggregates."""
        columns = plain["columns"]
        return {**plain, "columns": [columns[i] for i in which] + columns[aggregates:]}

    def lift(self, rows: Rows) -> list[tuple[Array, ...] | None]:
        """Return the partials of rows; nothing is changed yet."""
        return [
            None if column is None else column.lift(inputs)
            for column, inputs in zip(self.partials, rows.inputs, strict=True)
        ]

    def insert(
        self, rows: Rows, parts: list[tuple[Array, ...] | None], journal: Journal
    ) -> tuple[Array, Array, Array]:
        """Take rows by key, time and arrival.

        Return the keys, their ranks of first change, and the place of each row.
        """
        first = beginnings_of(rows.keys)
        keys = rows.keys[first]
        self.runs.note(journal, keys, rows.times[first])
        new = np.ones((len(rows), ROW_COLUMNS), np.int64)
        new[:, ROW_TIME] = rows.times
        places, cut = self.runs.insert(keys, first, np.append(first[1:], len(rows)), new)
        if self.measure is not None:
            self.runs.meta[places, ROW_MEASURE] = rows.extra[self.measure]
        for column, part in zip(self.partials, parts, strict=True):
            if column is not None and part is not None:
                column.put(places, part)
        if self.extra is not None and self._extra_name is not None:
            self.extra.put(places, (rows.extra[self._extra_name],))
        return keys, cut, places

    def places(self, keys: Array, times: Array) -> Array:
        """Return the place of each key's first row at or after a time."""
        lo = self.runs.head[keys]
        found = np.empty(len(keys), np.int64)
        hi = lo + self.runs.length[keys]
        compiled_loops().find_all(self.runs.meta, lo, hi, times, found)
        return found

    def drop_before(self, times: Array, journal: Journal) -> None:
        """Forget the rows of each key before a time."""
        keys = np.nonzero(self.runs.length[: len(times)])[0]
        items = self.places(keys, times[keys]) - self.runs.head[keys]
        self.runs.drop_front(keys[items > 0], items[items > 0], journal)

    def plain(self, keys: int) -> dict[str, Any]:
        """Return the rows as plain data."""
        return self.runs.plain(keys, self._columns)

    def _columns(self, places: Array) -> list[list[Any]]:
        columns = [[] if c is None else c.plain(places) for c in self.partials]
        return columns if self.extra is None else [*columns, [self.extra.array[places].tolist()]]

    def load(self, plain: dict[str, Any]) -> None:
        """Take the rows that were saved."""
        places = self.runs.load(plain)
        columns = list(plain["columns"])
        if self.extra is not None:
            (extra,) = columns.pop()
            self.extra.array[places] = object_array(map(self._read, extra), len(places))
        for column, saved in zip(self.partials, columns, strict=True):
            if column is not None:
                column.load(saved, places)
