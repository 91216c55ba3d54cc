"""Slices and tiles as bytes: what a block of a published query holds.

    checksum (8 bytes) | number of slices (4) | a record per slice | partials that are objects, sealed

A record has the start and the time of the last row, and the fields of the partials that are numbers. The
checksum is over the block, the publication's token, the key and the name of the block, so that no block
can stand for another. Objects are plain data (`aggregates/encoding.py`): nothing is ever run.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from muntin.aggregates import SnapshotError, seal, unseal
from muntin.aggregates.encoding import DAMAGE
from muntin.dataframes.column_types import ColumnType
from muntin.query.bound_aggregates import BoundAggregate
from muntin.query.query import Query
from muntin.query.requirements import Requirements
from muntin.slicing.limits import Array
from muntin.slicing.partials import LAZY, Partials

FORMAT = 1
"""The version of what is written."""
CHECKSUM, COUNT = struct.Struct("<Q"), struct.Struct("<I")
Parts = list[tuple[Array, ...]]
"""The partials of each aggregate."""


class Slices(NamedTuple):
    """Slices, or tiles of them: where each starts, its last row, and its partials."""

    start: Array
    last: Array
    parts: Parts

    def take(self, which: Array) -> "Slices":
        """Return some of the slices, or all in another order."""
        parts = [tuple(array[which] for array in part) for part in self.parts]
        return Slices(self.start[which], self.last[which], parts)

    def behind(self, others: "Slices") -> "Slices":
        """Return others, and then these."""
        pairs = zip(others.parts, self.parts, strict=True)
        parts = [tuple(map(np.concatenate, zip(a, b, strict=True))) for a, b in pairs]
        joined = (np.concatenate([a, b]) for a, b in zip(others[:2], self[:2], strict=True))
        start, last = joined
        return Slices(start, last, parts)


def bound(query: Query, empty: pa.Table) -> tuple[pa.DataType, list[BoundAggregate]]:
    """Return the type of times, and what each aggregate takes, for rows of the types of a table."""
    batch = Requirements.of(query).read(empty, pa.null())
    types = {name: ColumnType.of(column) for name, column in batch.columns.items()}
    return batch.time_type, [BoundAggregate.of(n, a, types) for n, a in query.aggregates.items()]


@dataclass(frozen=True)
class Codec:
    """How the slices of some aggregates are written."""

    feeds: list[BoundAggregate]

    @property
    def record(self) -> np.dtype[Any]:
        """What is written of each slice."""
        fields = [("start", "<i8"), ("last", "<i8")]
        for i, feed in enumerate(self.feeds):
            if feed.kernels.columns is not None:
                named = enumerate(feed.kernels.fields)
                fields += [(f"{i}.{j}", kind.newbyteorder("<").str) for j, kind in named]
        return np.dtype(fields)

    @property
    def objects(self) -> list[int]:
        """The aggregates whose partials are objects."""
        return [i for i, feed in enumerate(self.feeds) if feed.kernels.columns is None]

    def partials(self) -> list[Partials]:
        """Return a place for the partials of each aggregate."""
        return [Partials(feed.aggregate, feed.kernels, LAZY) for feed in self.feeds]

    def write(self, slices: Slices, place: bytes) -> bytes:
        """Return slices as a block for one place."""
        records = np.empty(len(slices.start), self.record)
        records["start"], records["last"] = slices.start, slices.last
        for i, feed in enumerate(self.feeds):
            if feed.kernels.columns is not None:
                for j, array in enumerate(slices.parts[i]):
                    records[f"{i}.{j}"] = array
        columns = self.partials()
        plain = [columns[i].written(slices.parts[i]) for i in self.objects]
        body = COUNT.pack(len(records)) + records.tobytes() + (seal(plain) if plain else b"")
        return CHECKSUM.pack(_checksum(place, body)) + body

    def read(self, blocks: Sequence[tuple[bytes, bytes]]) -> tuple[Slices, Array]:
        """Return the slices of blocks, each given with its place, and how many each has."""
        record, counts, pieces = self.record, np.zeros(len(blocks), np.int64), []
        objects: list[list[Any]] = [[] for _ in self.objects]
        columns = self.partials()
        for b, (place, block) in enumerate(blocks):
            head = CHECKSUM.size + COUNT.size
            if len(block) < head or CHECKSUM.unpack_from(block)[0] != _checksum(
                place, block[CHECKSUM.size :]
            ):
                raise SnapshotError(f"block {place!r} is damaged, or is of another place")
            (counts[b],) = COUNT.unpack_from(block, CHECKSUM.size)
            end = head + int(counts[b]) * record.itemsize
            pieces.append(block[head:end])
            if not self.objects:
                continue
            try:
                for i, held, plain in zip(self.objects, objects, unseal(block[end:]), strict=True):
                    held.append(columns[i].read(plain, int(counts[b]))[0])
            except DAMAGE as error:
                raise SnapshotError(f"block {place!r} cannot be read: {error!r}") from error
        records = np.frombuffer(b"".join(pieces), record)
        parts: Parts = []
        for i, feed in enumerate(self.feeds):
            if feed.kernels.columns is not None:
                fields = range(len(feed.kernels.fields))
                parts.append(tuple(np.ascontiguousarray(records[f"{i}.{j}"]) for j in fields))
            else:
                held = objects[self.objects.index(i)]
                parts.append((np.concatenate([np.empty(0, object), *held]),))
        start, last = (np.ascontiguousarray(records[name]) for name in ("start", "last"))
        return Slices(start, last, parts), counts


def merged(codec: Codec, slices: Slices, first: Array, start: Array) -> Slices:
    """Merge runs of slices that begin at `first`, and let them start somewhere."""
    ends = np.append(first[1:], len(slices.start))[: len(first)]
    parts: Parts = []
    for column, part in zip(codec.partials(), slices.parts, strict=True):
        rows = Partials(column.aggregate, column.kernels, LAZY)
        rows.renew(len(slices.start))
        rows.put(np.arange(len(slices.start)), part)
        column.renew(len(first))
        if len(first):
            column.refold(rows, first, ends, np.arange(len(first)))
        parts.append(column.take(np.arange(len(first))))
    last = np.maximum.reduceat(slices.last, first) if len(first) else slices.last
    return Slices(start, last, parts)


def _checksum(place: bytes, body: bytes) -> int:
    return xxhash.xxh3_64_intdigest(place + b"\0" + body)
