"""Lookups in a published query, from any process: two blocks per level and key, in one exchange."""

import weakref
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates import SnapshotError, unseal
from muntin.aggregates.encoding import DAMAGE
from muntin.aggregates.identity import Identity, refuse_other
from muntin.dataframes.arrow_results import DoesNotFitError
from muntin.dataframes.batches import read_keys
from muntin.query.as_of import columns_of, queried, too_large
from muntin.query.at_time import Spans, refuse_far, since, time_of
from muntin.query.query import Query, identity
from muntin.serving.blocks import FORMAT, Codec, Slices, bound
from muntin.serving.layout import Layout
from muntin.slicing.limits import Array
from muntin.stores import RedisStore, StoreError
from muntin.stores.published import Head, Published

PARTS = ("time", "keys", "windows", "aggregates")
"""What of a query's identity a publication is bound to."""
ANOTHER = "it is another one by now: make a new Lookup"


class Lookup:
    """What the windows of a published query hold at a time, from slices in Redis.

    `muntin.spark.publish` writes them. A lookup gives what `as_of` gives over the rows published, or an
    error. Cost: O(log n) tiles per key and window, in one exchange with the server.

    - `store`: the RedisStore that the query is published in.
    - `query`: the query that was published; another one is refused.
    - `name`: the name under which it was published.
    - `trust_functions`: take your own functions as those that were published.
    """

    def __init__(
        self, store: RedisStore, query: Query, name: str = "query", *, trust_functions: bool = False
    ) -> None:
        self.query = query
        self._published = Published(store.address, name)
        self._close = weakref.finalize(self, self._published.close)
        self._layout = Layout.of(query)
        head = self._published.head()
        if head is None:
            raise StoreError(self._published.tell("nothing is published under this name yet"))
        self._token, self._about = head.token, head.about
        schema = read_about(head.about, published_as(query), trust_functions=trust_functions)
        self._types, self._keys = bound(query, schema.empty_table()), schema
        self._feeds = self._types[1]
        self._codec = Codec(self._feeds)

    def get(self, keys: Any = None, at: Any = None) -> pa.Table:
        """Return a row per key asked, with a column `{window}_{aggregate}` for each.

        - `keys`: a batch with the columns of the query's keys; nothing if it has none.
        - `at`: a time; rows before it count. It may not be before what has expired, nor within a slice
          that has rows at it or behind it.
        """
        time = time_of(at, "the time of a lookup")
        refuse_far(np.array([time]), "lookup")
        columns, rows = read_keys({} if keys is None else keys, self.query.keys)
        columns = [self._as_published(c, n) for c, n in zip(columns, self.query.keys, strict=True)]
        names = key_names(columns, rows)
        numbers = {name: i for i, name in enumerate(dict.fromkeys(names))}
        begins = begins_at(self.query, time)
        blocks: dict[str, tuple[int, int]] = {}
        for begin in begins.values():
            blocks |= self._layout.fields(begin, time)
        asked = [(name, list(blocks)) for name in numbers]
        head, found = self._published.read(asked)
        self._check(head, begins, time)
        owner, level, slices = self._slices(asked, [held[1:] for held in found], blocks)
        place = pa.array([numbers[name] for name in names], pa.int64())
        arrays = []
        for window, begin in begins.items():
            chosen = self._layout.needed(np.stack([level, slices.start]), begin, time)
            split = chosen & (slices.last >= time)
            if split.any():
                raise ValueError(
                    f"window {window!r} at {time} ends within a slice of key "
                    f"{[*numbers][int(owner[split][0])]}, which has rows behind it: ask for a later "
                    "time, or for one at which windows begin or end"
                )
            arrays += self._merged(window, slices, owner, np.flatnonzero(chosen), [*numbers], place)
        titles = [f"{window}_{name}" for window, name in columns_of(self.query)]
        return pa.Table.from_arrays([*columns, *arrays], names=[*self.query.keys, *titles])

    @property
    def key_types(self) -> dict[str, pa.DataType]:
        """The types of the keys, as they were published."""
        return {name: self._keys.field(name).type for name in self.query.keys}

    @property
    def time_type(self) -> pa.DataType:
        """The type of the times, as they were published."""
        return self._types[0]

    def watermark(self) -> int | None:
        """Return the watermark of what is published, if it has one; StoreError if it cannot be read."""
        head = self._published.head()
        if head is None or (head.token, head.about) != (self._token, self._about):
            raise StoreError(self._published.tell(ANOTHER))
        return head.watermark

    def _as_published(self, column: pa.Array, name: str) -> pa.Array:
        wanted = self._keys.field(name).type
        try:
            return column.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TypeError(f"key {name!r} was published as {wanted}: {error}") from error

    def _check(self, head: Head, begins: dict[str, int], time: int) -> None:
        """Refuse a publication that is another one by now, and what has expired."""
        if (head.token, head.about) != (self._token, self._about):
            raise StoreError(self._published.tell(ANOTHER))
        if head.watermark is None:
            return
        past = self._layout.past(self.query, head.watermark)
        for window, begin in begins.items():
            if begin < past:
                raise ValueError(
                    f"window {window!r} at {time} needs rows from {begin} on, and those before {past} "
                    "have expired: ask for a later time"
                )

    def _slices(
        self, asked: list[tuple[str, list[str]]], found: list[list[Any]], blocks: dict[str, Any]
    ) -> tuple[Array, Array, Slices]:
        """Return the slices and tiles that were read, with the number of the key and level of each."""
        owners, levels, held = [], [], []
        for number, ((key, fields), contents) in enumerate(zip(asked, found, strict=True)):
            for field, block in zip(fields, contents, strict=True):
                if block is not None:
                    owners.append(number)
                    levels.append(blocks[field][0])
                    held.append((place_of(self._token, key, field), block))
        slices, counts = self._codec.read(held)
        owner = np.repeat(np.array(owners, np.int64), counts)
        return owner, np.repeat(np.array(levels, np.int64), counts), slices

    def _merged(
        self, window: str, slices: Slices, owner: Array, which: Array, names: list[str], place: Any
    ) -> list[pa.Array]:
        """Return what the aggregates of a window give for each key asked."""
        which = which[np.lexsort((slices.start[which], owner[which]))]
        bounds = np.searchsorted(owner[which], np.arange(len(names) + 1))
        spans = Spans(bounds[:-1].copy(), bounds[1:].copy())
        arrays = []
        for feed, column, part in zip(
            self._feeds, self._codec.partials(), slices.parts, strict=True
        ):
            if feed.name not in self.query.aggregates_of(window):
                continue
            column.renew(len(which))
            column.put(np.arange(len(which)), tuple(array[which] for array in part))
            outs = queried(column, spans, spans.hi > spans.lo, alone=True)
            try:
                arrays.append(feed.results(outs).take(place))
            except DoesNotFitError as error:
                raise too_large(feed, window, f"key {names[error.row]}", error) from None
        return arrays

    def close(self) -> None:
        """Close the connection; without this it is closed when nobody has the lookup any more."""
        self._close()


def published_as(query: Query) -> Identity:
    """Return what a publication must agree in with a query."""
    known = identity(query)
    return {name: known[name] for name in PARTS}


def read_about(about: bytes, wanted: Identity, *, trust_functions: bool) -> pa.Schema:
    """Return the types of the rows that were published, if they are of this query."""
    try:
        content = unseal(about)
        written, saved, schema = content["format"], content["query"], content["schema"]
    except DAMAGE as error:
        raise SnapshotError(f"what is published is damaged: {error!r}") from error
    if written != FORMAT:
        raise SnapshotError(
            f"it was published in format {written!r}, and {FORMAT} is read here: publish it again"
        )
    refuse_other(wanted, saved, "query", trust_functions=trust_functions, place="publication")
    return pa.ipc.read_schema(pa.BufferReader(schema))


def begins_at(query: Query, time: int) -> dict[str, int]:
    """Return when the rows of each window begin, at a time."""
    now = np.array([time])
    found = {name: since(window, now) for name, window in query.windows.items()}
    return {name: int(begin[0]) for name, begin in found.items() if begin is not None}


def key_names(columns: list[pa.Array], rows: int) -> list[str]:
    """Return a text for each key, which no other key of these types has."""
    lists = [[_plain(value) for value in column.to_pylist()] for column in columns]
    return [repr(key) for key in zip(*lists, strict=True)] if lists else ["()"] * rows


def _plain(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and value == 0 else value


def place_of(token: bytes, key: str, field: str) -> bytes:
    """Return what the checksum of a block is bound to."""
    return b"\0".join([token, key.encode(), field.encode()])
