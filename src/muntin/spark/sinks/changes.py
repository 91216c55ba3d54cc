"""What a micro-batch of results changes in a table: every kind of table follows this description.

A row replaces the row of the same window that is there; a retraction deletes it; a row of kind
"dropped" is of no window and changes nothing. A window is known by its keys, its name and

    end_measure      if it has one: a window of rows or along a column, in a query with times too
    end              if its start is a number or null: of the last n rows, late rows move the start
    end and start    else

Of the rows of one micro-batch for the same window the last one counts: they come from one shard, hence
from one partition of Spark's, and toArrow gives partitions whole and in order. So a micro-batch that is
applied a second time leaves the same table. Cost: O(rows of the micro-batch).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from muntin.query.query import WINDOW_TIME
from muntin.query.result_table import KINDS
from muntin.query.window_time import DROPPED
from muntin.slicing.key_table import KeyTable
from muntin.slicing.limits import Array

WINDOW, END, START, MEASURE, KIND = "window", "end", "start", "end_measure", "kind"


@dataclass(frozen=True)
class Part:
    """Rows that are known by the same columns; `nulls` are those that are null in all of them."""

    columns: tuple[str, ...]
    nulls: tuple[str, ...]
    places: pa.Array


@dataclass(frozen=True)
class Changes:
    """The last row for each window, by what it is known, and whether it is to go."""

    rows: pa.Table
    known: pa.Table  # null where a bound does not count
    gone: pa.Array

    @property
    def stay(self) -> pa.Table:
        """The rows that the table is to have."""
        return self.rows.filter(pc.invert(self.gone))

    def parts(self) -> Iterator[Part]:
        """Yield the rows in parts; each is of those that are known by the same columns."""
        names = self.known.column_names
        masks = [_bits(pc.is_null(column)) << i for i, column in enumerate(self.known.columns)]
        patterns = np.sum(masks, axis=0, dtype=np.int64)
        uncounted = {END, START} if MEASURE in names else set()
        for pattern in np.unique(patterns):
            nulls = [name for i, name in enumerate(names) if pattern >> i & 1]
            by_measure = bool(uncounted) and MEASURE not in nulls
            yield Part(
                tuple(name for name in names if name not in nulls),
                tuple(name for name in nulls if not (by_measure and name in uncounted)),
                pa.array(np.flatnonzero(patterns == pattern)),
            )


class Table(Protocol):
    """A table of some kind that takes changes."""

    def apply(self, changes: Changes, query: str | None, batch_id: int) -> None:
        """Apply the changes of a micro-batch, unless those of this or a later one of the query are in.

        Without the id of a query, changes are applied each time.
        """


def identity(schema: pa.Schema, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns by which rows of results are known."""
    if MEASURE in schema.names:
        return (*keys, WINDOW, MEASURE, END, START)
    moves = START in schema.names and kinds.is_integer(schema.field(START).type)
    return (*keys, WINDOW, END) if moves else (*keys, WINDOW, END, START)


def changes(rows: pa.Table, keys: tuple[str, ...]) -> Changes:
    """Return what results change in a table of windows by keys, or say what is wrong with them.

    >>> rows = {"plug": ["tv", "tv"], "window": ["hour"] * 2, "start": [0, 0], "end": [9, 9]}
    >>> rows |= {"kind": ["result", "update"], "peak": [3, 5]}
    >>> changes(pa.table(rows), ("plug",)).stay.to_pylist()
    [{'plug': 'tv', 'window': 'hour', 'start': 0, 'end': 9, 'kind': 'update', 'peak': 5}]
    """
    rows = rows.drop_columns([n for n in (WINDOW_TIME,) if n in rows.column_names])
    names = identity(rows.schema, keys)
    for name in (*names, START, KIND):
        if name not in rows.column_names:
            there = ", ".join(map(repr, rows.column_names))
            raise ValueError(f"the rows have no column {name!r}: they have {there}")
    _check_kinds(rows[KIND])
    rows = rows.filter(pc.not_equal(rows[KIND], DROPPED))
    known = rows.select(names)
    if MEASURE in names:
        by_end = pc.is_null(rows[MEASURE])
        for name in (END, START):
            column = pc.if_else(by_end, rows[name], pa.scalar(None, rows[name].type))
            known = known.set_column(names.index(name), name, column)
    last = _last_of_each(known)
    rows, known = rows.take(last), known.take(last)
    return Changes(rows, known, pc.equal(rows[KIND], "retract"))


def _check_kinds(column: pa.ChunkedArray) -> None:
    for kind in pc.unique(column).to_pylist():
        if kind not in KINDS and kind != DROPPED:
            raise ValueError(f"the kind of a row is one of {', '.join(KINDS)}, got {kind!r}")


def _last_of_each(known: pa.Table) -> pa.Array:
    """Return the places of the last row of each window, in order."""
    table = KeyTable(tuple(known.column_names))
    columns = [column.combine_chunks() for column in known.columns]
    numbers = table.number(columns, known.num_rows)
    last = np.zeros(len(table) if known.num_rows else 0, np.int64)
    np.maximum.at(last, numbers, np.arange(known.num_rows))
    return pa.array(np.sort(last))


def check_columns(table: str, there: dict[str, str], wanted: dict[str, str]) -> None:
    """Refuse a table that has other columns than its rows."""
    differ = [
        f"{name!r} is {there.get(name, 'missing')} and should be {wanted.get(name, 'left out')}"
        for name in {**wanted, **there}
        if there.get(name) != wanted.get(name)
    ]
    if differ:
        raise ValueError(
            f"table {table!r} is not for these rows: {'; '.join(differ)}. Choose another name, or drop "
            "the table and start with a new checkpoint"
        )


def _bits(mask: pa.ChunkedArray) -> Array:
    bits: Array = mask.to_numpy().astype(np.int64)
    return bits
