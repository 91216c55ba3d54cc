"""The rows of a micro-batch into the blocks of their keys: read, merge, write.

The rows of some keys are folded into slices. The blocks that they touch, and those above them, are
read. Slices of one start are merged, the older first; a block that changed is a new tile of the block
above it, level by level. What has expired by the watermark leaves.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates import SnapshotError
from muntin.query.bound_aggregates import fit_columns, owned
from muntin.query.query import Query
from muntin.query.requirements import Requirements
from muntin.serving.blocks import Codec, Slices, bound, merged
from muntin.serving.layout import Layout, field
from muntin.serving.lookup import key_names, place_of
from muntin.slicing.key_table import KeyTable
from muntin.slicing.limits import Array
from muntin.slicing.partials import LAZY, Partials
from muntin.stores import StoreError
from muntin.stores.published import Head, KeyWrite, Published

LOW = "low"
"""The field of a key with the time before which its blocks were deleted."""
ROUNDED = 1 << 10
"""Redis orders keys by floats: how far a time may be rounded."""


@dataclass
class Written:
    """What came of the rows of a micro-batch."""

    rows: int = 0
    dropped: int = 0
    latest: int | None = None


@dataclass
class Block:
    """The slices or tiles of one key at one level, with the numbers of the keys they are of."""

    owner: Array
    slices: Slices


class Writer:
    """Writes micro-batches of rows into a publication."""

    def __init__(self, published: Published, query: Query, empty: pa.Table) -> None:
        self._published, self._query = published, query
        self._layout = Layout.of(query)
        self._needs = Requirements.of(query)
        self._time_type, self._feeds = bound(query, empty)
        self._codec = Codec(self._feeds)

    def write(self, head: Head, stamp: str, rows: pa.Table) -> Written:
        """Write the rows of some keys, all that there are in a micro-batch."""
        batch = self._needs.read(rows, self._time_type)
        batch = fit_columns(batch, self._feeds, self._query.on_bad_row)
        written = Written(batch.rows)
        if batch.rows == 0:
            return written
        written.latest = int(batch.times.max())
        keys = KeyTable(self._query.keys)
        numbers = keys.number(batch.keys, batch.rows)
        names = key_names(keys.columns(np.arange(len(keys))), len(keys))
        starts = self._layout.starts(owned(batch.times))
        kept = np.ones(batch.rows, np.bool_)
        past = None
        if head.watermark is not None:
            past = self._layout.past(self._query, head.watermark)
            kept = starts >= past
            written.dropped = int(np.count_nonzero(~kept))
        order = np.lexsort((batch.times, numbers))
        order = order[kept[order]]
        inputs = [tuple(a[order] for a in feed.inputs(batch)) for feed in self._feeds]
        new = self._folded(numbers[order], starts[order], batch.times[order], inputs)
        writes = self._merged(head, stamp, names, new, past)
        self._published.write(head, stamp, writes)
        return written

    def _folded(self, owner: Array, start: Array, times: Array, inputs: list[Any]) -> Block:
        """Fold rows that lie key by key and in the order of time."""
        first = _beginnings(owner, start)
        parts = [
            Partials(feed.aggregate, feed.kernels, LAZY).fold(mine, None, first)
            if len(first)
            else feed.kernels.buffer(0)
            for feed, mine in zip(self._feeds, inputs, strict=True)
        ]
        last = times[np.append(first[1:], len(times)) - 1] if len(first) else times
        return Block(owner[first], Slices(start[first], last, parts))

    def _merged(
        self, head: Head, stamp: str, names: list[str], new: Block, past: int | None
    ) -> list[KeyWrite]:
        """Merge new slices with what is stored, and return what is to be written of each key."""
        touched = [self._fields(new, level) for level in range(len(self._layout.widths))]
        keys = np.unique(new.owner).tolist()
        asked = {k: [f for fields in touched for f in fields.get(k, ())] for k in keys}
        now, found = self._published.read([(names[k], (LOW, *asked[k])) for k in keys])
        if now.token != head.token:
            raise StoreError(self._published.tell("it was begun again by another stream"))
        stamps = {k: held[0] or b"" for k, held in zip(keys, found, strict=True)}
        lows = {k: held[1] for k, held in zip(keys, found, strict=True)}
        stored = {
            k: dict(zip(asked[k], held[2:], strict=True))
            for k, held in zip(keys, found, strict=True)
        }
        fresh = np.array([stamps[k] != stamp.encode() for k in keys], np.bool_)
        todo = set(np.array(keys)[fresh].tolist()) if keys else set()
        mine = np.isin(new.owner, list(todo))
        new = Block(new.owner[mine], new.slices.take(mine))
        puts: dict[int, dict[str, bytes]] = {k: {} for k in todo}
        tiles = new
        for level, width in enumerate(self._layout.widths):
            old = self._stored(head, names, stored, todo, touched[level])
            held = self._level(old, tiles, level, past)
            first = _beginnings(held.owner, held.slices.start // width)
            self._put(head, names, held, first, (level, width), puts)
            numbers = held.slices.start[first] // width
            tiles = Block(
                held.owner[first], merged(self._codec, held.slices, first, numbers * width)
            )
        latest = np.full(len(names), np.iinfo(np.int64).min)
        np.maximum.at(latest, new.owner, new.slices.last)
        return [
            self._key_write(names[k], stamps[k], int(latest[k]), puts[k], lows[k], past)
            for k in sorted(todo)
        ]

    def _fields(self, new: Block, level: int) -> dict[int, list[str]]:
        """Return the blocks of a level that new slices touch, by key."""
        pairs = np.stack([new.owner, new.slices.start // self._layout.widths[level]], 1)
        found: dict[int, list[str]] = {}
        for key, number in np.unique(pairs, axis=0).tolist():
            found.setdefault(key, []).append(field(level, number))
        return found

    def _stored(
        self,
        head: Head,
        names: list[str],
        stored: dict[int, dict[str, Any]],
        todo: set[int],
        fields: dict[int, list[str]],
    ) -> Block:
        """Return what is stored in some blocks of one level."""
        owners, blocks = [], []
        for key in sorted(todo):
            for name in fields.get(key, ()):
                block = stored[key][name]
                if block is not None:
                    owners.append(key)
                    blocks.append((place_of(head.token, names[key], name), block))
        slices, counts = self._codec.read(blocks)
        return Block(np.repeat(np.array(owners, np.int64), counts), slices)

    def _level(self, old: Block, new: Block, level: int, past: int | None) -> Block:
        """Return what a level holds: slices of one start are merged, a new tile replaces the old one."""
        owner = np.concatenate([old.owner, new.owner])
        slices = new.slices.behind(old.slices)
        order = np.lexsort((slices.start, owner))
        owner, slices = owner[order], slices.take(order)
        if level == 0:
            if past is not None:
                kept = slices.start >= past
                owner, slices = owner[kept], slices.take(kept)
            first = _beginnings(owner, slices.start)
            return Block(owner[first], merged(self._codec, slices, first, slices.start[first]))
        first = _beginnings(owner, slices.start)
        final = np.append(first[1:], len(owner))[: len(first)] - 1
        return Block(owner[final], slices.take(final))

    def _put(
        self,
        head: Head,
        names: list[str],
        held: Block,
        first: Array,
        level: tuple[int, int],
        puts: dict[int, dict[str, bytes]],
    ) -> None:
        """Write the blocks of a level, which begin at `first`; `level` is its number and width."""
        ends = np.append(first[1:], len(held.owner))[: len(first)]
        for lo, hi in zip(first.tolist(), ends.tolist(), strict=True):
            key = int(held.owner[lo])
            name = field(level[0], int(held.slices.start[lo]) // level[1])
            block = held.slices.take(np.arange(lo, hi))
            puts[key][name] = self._codec.write(block, place_of(head.token, names[key], name))

    def _key_write(
        self,
        name: str,
        read: bytes,
        latest: int,
        puts: dict[str, bytes],
        low: Any,
        past: int | None,
    ) -> KeyWrite:
        """Return what is written of a key, and which of its blocks have expired."""
        gone: list[str] = []
        if past is not None:
            if low is not None:
                for level, width in enumerate(self._layout.widths):
                    numbers = range(_low(low) // width, past // width)
                    gone += [field(level, number) for number in numbers]
            puts[LOW] = str(past).encode()
        elif low is None and puts:
            lowest = min(int(n.split(":")[1]) for n in puts if n.startswith("0:"))
            puts[LOW] = str(lowest * self._layout.widths[0]).encode()
        return KeyWrite(name, read, latest + ROUNDED, puts, [n for n in gone if n not in puts])


def _low(text: bytes) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise SnapshotError(f"the first time of a key is {text!r}, and no number") from error


def _beginnings(owner: Array, value: Array) -> Array:
    """Return where another key or value begins."""
    if len(owner) == 0:
        return np.zeros(0, np.int64)
    other = (owner[1:] != owner[:-1]) | (value[1:] != value[:-1])
    return np.append(0, np.flatnonzero(other) + 1)
