"""Rows on their way to the shards that hold their keys, packed so that few rows travel through Spark.

Where the order of rows does not matter and all edges are known, rows are folded into slices first: what
travels does not depend on how many rows a key has. Else they travel as they are, in arrival order.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates import SnapshotError, seal, unseal
from muntin.aggregates.encoding import DAMAGE
from muntin.aggregates.identity import Identity
from muntin.query.operator import Operator
from muntin.query.query import Query, identity
from muntin.slicing.folded_rows import FoldedRows
from muntin.slicing.key_table import KeyTable
from muntin.slicing.limits import Array

CELLS, AS_ROWS, LEFT_OUT = b"C", b"R", b"L"
"""What a payload begins with: folded rows, rows as they are, or the number of rows that were dropped."""
MOST_FOLDERS = 8
"""Queries whose folders a process keeps: another one makes its own in some milliseconds."""
COPIES = 1 << 30
"""The bytes of working copies that a worker keeps, unless the setting says another number."""
U32 = 0xFFFFFFFF


@dataclass(frozen=True)
class Packing:
    """How the rows of one query are packed and unpacked.

    `empty` is a table of the rows' types with no rows. `name` tells queries apart in one process. The
    query's `identity` is made where the query is written, on the driver: workers compare what they were
    sent. With `trust_functions` users' functions are not compared. `plan` is how the query runs, and
    `copies` how many bytes of working copies a worker may keep.
    """

    name: str
    query: Query
    empty: pa.Table
    trust_functions: bool = False
    plan: str = "auto"
    copies: int = COPIES

    @cached_property
    def identity(self) -> Identity:
        """What the state must agree in with the query; once made, it is sent along."""
        return identity(self.query)

    @property
    def schema(self) -> pa.Schema:
        """The types of rows; their time is a time, not microseconds."""
        return self.empty.schema

    def operator(self, query: Query) -> Operator:
        """Return a new operator, which knows the types of all columns."""
        operator = query.operator(self.plan)
        operator.expect(self.empty)
        return operator

    def pack(self, rows: pa.Table, shards: int) -> Iterator[tuple[int, bytes]]:
        """Yield what goes to each shard; a hash of a row's keys says which it is."""
        if self.query.plan(self.plan).can_fold:
            folder = _FOLDERS.pop(self.name, None) or self.operator(self.query)
            cells, hashes = folder.fold(rows)
            _FOLDERS[self.name] = folder  # one that failed is not used again
            while len(_FOLDERS) > MOST_FOLDERS:
                _FOLDERS.popitem(last=False)
            for shard, mine in cells.parted(_home(hashes, shards)):
                yield shard, CELLS + seal(mine.plain(folder.partials))
            return
        keys = KeyTable(self.query.keys)
        numbers = keys.number([rows[n].combine_chunks() for n in self.query.keys], len(rows))
        home = _home(keys.hashes(), shards)[numbers]
        for shard in np.unique(home).tolist():
            mine = rows.filter(pa.array(home == shard)) if shards > 1 else rows
            yield shard, AS_ROWS + _stream(mine)

    def feed(self, operator: Operator, packed: list[bytes], *, now: bool = True) -> list[pa.Table]:
        """Give an operator what was packed, and return what it reports at once.

        If it was not packed `now`, it may be of a query with other columns.
        """
        known = (CELLS, AS_ROWS, LEFT_OUT)
        strange = [payload[:1] for payload in packed if payload[:1] not in known]
        if strange:
            raise SnapshotError(
                f"packed rows begin with one of {', '.join(map(repr, known))}, got {strange[0]!r}"
            )
        for payload in packed:
            if payload[:1] == LEFT_OUT:
                operator.leave_out(_number(payload[1:]))
        folded = [unseal(payload[1:]) for payload in packed if payload[:1] == CELLS]
        if folded:
            operator.merge([_cells(plain, operator) for plain in folded])
        rows = [self._rows(payload[1:], now) for payload in packed if payload[:1] == AS_ROWS]
        if not rows:
            return []
        table = pa.concat_tables(rows)
        if self.query.ordered:  # the order of rows that came by several ways
            table = table.take(_by_time(table[self.query.time]))
        return [operator.process(table)]

    def _rows(self, stream: bytes, now: bool) -> pa.Table:
        """Return rows that were packed as they are, of which every offset was verified."""
        try:
            table = pa.ipc.open_stream(stream).read_all()
            table.validate(full=True)
        except (pa.ArrowException, OSError, *DAMAGE) as error:
            raise SnapshotError(f"packed rows cannot be read: {error!r}") from error
        if now and not table.schema.equals(self.schema):
            raise SnapshotError(f"packed rows are of {table.schema}, not of {self.schema}")
        return table


def left_out(rows: int) -> bytes:
    """Return a payload that says how many rows were dropped before they were packed."""
    return LEFT_OUT + seal(rows)


def _number(sealed: bytes) -> int:
    match unseal(sealed):
        case int() as rows if rows >= 0:
            return rows
    raise SnapshotError("packed is a number of rows that is none")


def _cells(plain: Any, operator: Operator) -> FoldedRows:
    try:
        return FoldedRows.from_plain(plain, operator.partials)
    except DAMAGE as error:
        raise SnapshotError(f"packed slices cannot be read: {error!r}") from error


def _home(hashes: Array, shards: int) -> Array:
    """Return the shard of each hash; what a checkpoint has depends on it."""
    return (hashes % np.uint64(shards)).astype(np.int64)


_FOLDERS: OrderedDict[str, Operator] = OrderedDict()
"""The last operators that folded rows in this process, by the name of their packing."""


def _by_time(times: pa.ChunkedArray) -> Array:
    return np.argsort(times.to_numpy(), kind="stable")


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


@lru_cache
def grouping_keys(partitions: int) -> tuple[int, ...]:
    """Return for each partition a whole number that Spark puts into it, so that each has a shard."""
    keys: dict[int, int] = {}
    number = 0
    while len(keys) < partitions:
        keys.setdefault(spark_hash(number) % partitions, number)
        number += 1
    return tuple(keys[partition] for partition in range(partitions))


def spark_hash(number: int) -> int:
    """Return Spark's hash of an int: MurmurHash3 (x86, 32 bits, seed 42) of its four bytes."""
    k = number * 0xCC9E2D51 & U32
    k = _rotated(k, 15) * 0x1B873593 & U32
    h = (_rotated(42 ^ k, 13) * 5 + 0xE6546B64 & U32) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B & U32
    h = (h ^ h >> 13) * 0xC2B2AE35 & U32
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _rotated(x: int, by: int) -> int:
    return (x << by | x >> (32 - by)) & U32
