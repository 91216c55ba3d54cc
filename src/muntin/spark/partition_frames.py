"""Frames over one partition's rows: Arrow batches in, the same rows with their results out.

Rows come with their place, a number by which Spark sorts fast: a few bits of a hash of the keys (the
bucket), then the order column, rounded. A chunk of rows is numbered by key and put into exact order, so
that a frame is a span of rows. Where an order has no such number, Spark has sorted by keys and order.

Invariant: rows of one place are used together; a row goes out once, when no row to come can be in its
frames, and is held after that only while it is in the frames of rows to come. So a partition takes
memory for a chunk and for the frames of the keys in one bucket, and time O(rows) whatever the frames.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates import Aggregate
from muntin.dataframes.batches import Batch
from muntin.dataframes.column_types import ColumnType
from muntin.dataframes.columns import Array, Column, read
from muntin.dataframes.frames import Frame
from muntin.kernels.spans import Groups, Spans
from muntin.query.bound_aggregates import BoundAggregate
from muntin.query.query import columns_of
from muntin.slicing.key_table import KeyTable
from muntin.spark.chunk_results import rolled
from muntin.spark.result_types import fitted

PLACE = "__muntin_place"
ORDER_BITS = 48
"""The bits of a place below those of the bucket."""
ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Asked:
    """What is computed, as it is sent to Spark's workers; `name` tells requests apart.

    `order` is the column of ranges and places, `least` the number of values below which a frame has no
    result. `results` has a field for each frame and aggregate, frame by frame.
    """

    name: str
    keys: tuple[str, ...] = field(compare=False)
    order: str = field(compare=False)
    frames: Mapping[str, Frame] = field(compare=False)
    aggregates: Mapping[str, Aggregate] = field(compare=False)
    least: int | None = field(compare=False)
    results: pa.Schema = field(compare=False)
    rows_at_once: int = field(default=ROWS_AT_ONCE, compare=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a partition's rows with their results."""
        partition = _Partition(_known(self))
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= max(self.rows_at_once, 2 * partition.rows):
                yield from partition.take(waiting, last=False)
                waiting, rows = [], 0
        yield from partition.take(waiting, last=True)


@lru_cache(maxsize=32)
def _known(asked: Asked) -> Asked:
    """Return what this process was sent first of a request, of which functions are compiled already."""
    return asked


class _Partition:
    """The rows that are not out yet, or that are in frames to come, in the order in which they came."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._held: list[pa.Table] = []
        self._done = np.zeros(0, np.bool_)

    @property
    def rows(self) -> int:
        """How many rows are held."""
        return len(self._done)

    def take(self, batches: list[pa.RecordBatch], last: bool) -> Iterator[pa.RecordBatch]:
        """Take rows that come after all others; yield those whose frames are complete."""
        tables = self._held + ([pa.Table.from_batches(batches)] if batches else [])
        if not any(table.num_rows for table in tables):
            return
        table = pa.concat_tables(tables)
        done = np.append(self._done, np.zeros(table.num_rows - self.rows, np.bool_))
        placed, opened = _in_place(table, last)
        self._held, self._done = [table.slice(placed)], done[placed:]
        if placed:
            chunk = _Chunk.of(table.slice(0, placed), opened, last, self._asked)
            yield from self._advance(chunk, chunk.in_order(done[:placed]))

    def _advance(self, chunk: "_Chunk", done: Array) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk that are ready and not done, and hold those that are needed."""
        frames, groups = self._asked.frames, chunk.groups
        spans = {name: frame.spans(groups, chunk.order) for name, frame in frames.items()}
        complete = [frame.is_complete(groups, spans[name]) for name, frame in frames.items()]
        ready = chunk.is_closed | np.logical_and.reduce(complete)
        firsts, lengths = groups.edges[:-1], np.diff(groups.edges)
        waiting = firsts + np.add.reduceat(ready.astype(np.int64), firsts)
        needed = [frame.first_needed(groups, spans[n], waiting) for n, frame in frames.items()]
        kept = np.arange(len(ready)) >= np.repeat(np.minimum.reduce([waiting, *needed]), lengths)
        kept &= ~chunk.is_closed
        self._held.insert(0, chunk.pick(kept))
        self._done = np.append(chunk.as_came(done | ready)[chunk.as_came(kept)], self._done)
        new = ready & ~done
        if new.any():
            spans = {name: windows.only(new) for name, windows in spans.items()}
            yield from self._results(chunk, spans, new)

    def _results(
        self, chunk: "_Chunk", spans: Mapping[str, Spans], ready: Array
    ) -> Iterator[pa.RecordBatch]:
        asked, places = self._asked, np.flatnonzero(ready)

        def name_of(span: int) -> str:
            return f"the frame of row {chunk.row(int(places[span]), asked)}"

        columns = [
            rolled(feed, chunk, spans[frame], asked.least, name_of)
            for frame in asked.frames
            for feed in _feeds(asked, chunk.table.schema)
        ]
        if chunk.by is not None:
            came = pa.array(np.argsort(chunk.by[ready]))
            columns = [column.take(came) for column in columns]
        results = fitted(pa.Table.from_arrays(columns, asked.results.names), asked.results)
        rows = chunk.pick(ready)
        rows = rows.drop_columns([PLACE]) if PLACE in rows.column_names else rows
        for result, column in zip(asked.results, results.columns, strict=True):
            rows = rows.append_column(result, column)
        yield from rows.to_batches()


@lru_cache(maxsize=32)
def _feeds(asked: Asked, schema: pa.Schema) -> list[BoundAggregate]:
    """Return what each aggregate takes of rows with these types."""
    empty = schema.empty_table()
    types = {
        column: ColumnType.of(read(empty[column], column))
        for aggregate in asked.aggregates.values()
        for column in columns_of(aggregate)
    }
    return [
        BoundAggregate.of(name, aggregate, types) for name, aggregate in asked.aggregates.items()
    ]


def _in_place(table: pa.Table, last: bool) -> tuple[int, int]:
    """Return how many rows no row to come can come before, and the first row of the last bucket."""
    rows = table.num_rows
    if PLACE not in table.column_names:
        return rows, 0
    places = table[PLACE].to_numpy()
    placed = rows if last else int(np.searchsorted(places, places[-1]))
    bucket = int(places[-1]) >> ORDER_BITS << ORDER_BITS
    return placed, int(np.searchsorted(places[:placed], bucket))


@dataclass(frozen=True)
class _Chunk:
    """Rows as they came, and what they are in exact order, key by key.

    `by` has for each row in order the one that it is as they came, if the two differ; `order` are the
    values of the order column. A row is closed if no row of its key is to come.
    """

    table: pa.Table
    by: Array | None
    groups: Groups
    order: Column | None
    is_closed: Array

    @classmethod
    def of(cls, table: pa.Table, opened: int, last: bool, asked: Asked) -> "_Chunk":
        """Number the rows by key and order them; rows of the last bucket begin with row `opened`."""
        rows, keys = table.num_rows, KeyTable(asked.keys)
        codes = keys.number([_whole(table[key]) for key in asked.keys], rows)
        is_ranged = any(frame.measure == "range" for frame in asked.frames.values())
        has_places = PLACE in table.column_names
        order = read(table[asked.order], asked.order) if is_ranged or has_places else None
        by = _by(codes, len(keys), order) if has_places and order is not None else None
        if by is not None and order is not None:
            order = order.take(by)
        if not has_places:  # only the last key's rows may go on
            opened = int(np.append(0, np.flatnonzero(codes[1:] != codes[:-1]) + 1)[-1])
        goes_on = np.zeros(len(keys), np.bool_)
        goes_on[codes[rows if last else opened :]] = True
        codes = codes if by is None else codes[by]
        return cls(table, by, Groups.of(codes), order, ~goes_on[codes])

    def in_order(self, rows: Array) -> Array:
        """Map per-row values from arrival order to sorted order."""
        return rows if self.by is None else rows[self.by]

    def as_came(self, rows: Array) -> Array:
        """Map per-row values from sorted order back to arrival order."""
        if self.by is None:
            return rows
        came = np.empty_like(rows)
        came[self.by] = rows
        return came

    def pick(self, chosen: Array) -> pa.Table:
        """Return the chosen rows, without a copy where they are neighbours."""
        places = np.flatnonzero(self.as_came(chosen))
        if not len(places) or places[-1] - places[0] + 1 == len(places):
            return self.table.slice(places[0] if len(places) else 0, len(places))
        return self.table.take(pa.array(places))

    def arrow(self, name: str) -> pa.Array:
        """Return a column in the order of rows."""
        column = _whole(self.table[name])
        return column if self.by is None else column.take(pa.array(self.by))

    def row(self, place: int, asked: Asked) -> dict[str, Any]:
        """Return the keys and the order of the row at a place in order."""
        row = place if self.by is None else int(self.by[place])
        return {name: self.table[name][row].as_py() for name in (*asked.keys, asked.order)}

    @cached_property
    def batch(self) -> Batch:
        """The rows in order, as aggregates take them."""
        rows = self.table.num_rows
        return Batch(rows, np.zeros(rows, np.int64), pa.int64(), [], _Columns(self))


class _Columns(dict[str, Column]):
    """Columns that are read when they are asked for."""

    def __init__(self, chunk: _Chunk) -> None:
        super().__init__()
        self._chunk = chunk

    def __missing__(self, name: str) -> Column:
        self[name] = read(self._chunk.arrow(name), f"column {name!r}")
        return self[name]


def _by(codes: Array, keys: int, order: Column) -> Array | None:
    """Return the rows key by key and in order, nulls first; None if they are so."""
    values, there = order.values, order.valid
    same = codes[1:] == codes[:-1]
    falls = values[1:] < values[:-1]
    if there is not None:
        falls = (falls & there[1:] & there[:-1]) | (there[:-1] & ~there[1:])
    if np.count_nonzero(same) == len(codes) - keys and not (falls & same).any():
        return None
    return np.lexsort((values, np.ones(len(codes), np.bool_) if there is None else there, codes))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
