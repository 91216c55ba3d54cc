"""Rows that were folded into slices before they reach an operator.

On many machines rows are folded where they are, and only slices travel to the operator that holds their
keys. This is right wherever the order of rows does not matter and all edges are known without them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.slicing.limits import END_OF_TIME, FAR, Array

FIELDS = 5
KEY_OF, START_OF, ROWS, FIRST, LAST = range(FIELDS)
LOST_FIELDS = 2
LOST = 1  # behind KEY_OF
COUNTED = ("dropped", "bad_times", "bad_rows")
"""How many rows were left out, and why."""


@dataclass(frozen=True)
class FoldedRows:
    """Slices of some keys, each with the partials of its rows.

    `found` has a line for each: the number of its key among `keys`, its start, how many rows it has,
    their first and last time. `dropped` rows were in no window, `bad_times` had no time, and `bad_rows`
    a value that could not be read. `lost` has the keys of dropped rows, and the last time of each.
    """

    keys: list[pa.Array]
    found: Array
    parts: list[tuple[Array, ...]]
    lost: Array
    dropped: int = 0
    bad_times: int = 0
    bad_rows: int = 0

    def __len__(self) -> int:
        return len(self.found)

    @property
    def key_count(self) -> int:
        """How many keys there are; without key columns, one."""
        return len(self.keys[0]) if self.keys else 1

    @classmethod
    def together(cls, pieces: list["FoldedRows"], numbers: list[Array]) -> "FoldedRows":
        """Return several as one, their keys by the numbers that they are given; without key columns."""
        found = np.concatenate([piece.found for piece in pieces])
        owners = [
            given[piece.found[:, KEY_OF]] for piece, given in zip(pieces, numbers, strict=True)
        ]
        found[:, KEY_OF] = np.concatenate(owners)
        columns = zip(*(piece.parts for piece in pieces), strict=True)
        parts = [tuple(map(np.concatenate, zip(*column, strict=True))) for column in columns]
        lost = [piece.lost.copy() for piece in pieces]
        for mine, given in zip(lost, numbers, strict=True):
            mine[:, KEY_OF] = given[mine[:, KEY_OF]]
        counted = {name: sum(getattr(piece, name) for piece in pieces) for name in COUNTED}
        return cls([], found, parts, np.concatenate(lost), **counted)

    def parted(self, home: Array) -> Iterator[tuple[int, "FoldedRows"]]:
        """Yield the slices that go to each home; home[k] is that of key k.

        The first of them carries the counts of dropped rows.
        """
        told = {name: getattr(self, name) for name in COUNTED}
        homes = [home[table[:, KEY_OF]] for table in (self.found, self.lost)]
        for place in np.unique(np.concatenate(homes)).tolist() or [0]:
            which = np.nonzero(homes[0] == place)[0]
            found, lost = self.found[which], self.lost[homes[1] == place]
            there = np.zeros(len(home), np.bool_)
            there[np.append(found[:, KEY_OF], lost[:, KEY_OF])] = True
            for table in (found, lost):
                table[:, KEY_OF] = (np.cumsum(there) - 1)[table[:, KEY_OF]]
            keys = [key.filter(pa.array(there)) for key in self.keys]
            parts = [tuple(array[which] for array in column) for column in self.parts]
            yield place, FoldedRows(keys, found, parts, lost, **told)
            told = {}

    def plain(self, partials: Mapping[str, Any]) -> dict[str, Any]:
        """Return the cells as plain data; `partials`, by name, know how to write their own."""
        found = self.found.copy()
        found[:, [FIRST, LAST]] -= found[:, [START_OF]]  # small numbers take few bytes
        return {
            "keys": written(self.keys, [str(i) for i in range(len(self.keys))]),
            "found": found,
            "parts": {
                name: column.written(part)
                for (name, column), part in zip(partials.items(), self.parts, strict=True)
            },
            "lost": self.lost,
            **{name: getattr(self, name) for name in COUNTED},
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], partials: Mapping[str, Any]) -> "FoldedRows":
        """Return the cells that plain() described, with the partials of these aggregates."""
        found = np.array(plain["found"])
        if found.dtype != np.int64 or found.ndim != 2 or found.shape[1] != FIELDS:
            raise ValueError(f"slices are lines of {FIELDS} whole numbers, not {found.shape}")
        if not (np.abs(found[:, START_OF:].astype(np.float64)) <= END_OF_TIME).all():
            raise ValueError("slices lie too far away")
        found[:, [FIRST, LAST]] += found[:, [START_OF]]
        parts = [column.read(plain["parts"][n], len(found)) for n, column in partials.items()]
        counted = {name: plain[name] for name in COUNTED}
        if any(type(number) is not int or number < 0 for number in counted.values()):
            raise ValueError(f"numbers of rows are whole numbers, got {counted}")
        lost = np.array(plain["lost"])
        if lost.dtype != np.int64 or lost.ndim != 2 or lost.shape[1] != LOST_FIELDS:
            raise ValueError(
                f"lost rows are lines of {LOST_FIELDS} whole numbers, not {lost.shape}"
            )
        cells = cls(read(plain["keys"]).columns, found, parts, lost, **counted)
        cells._check()
        return cells

    def _check(self) -> None:
        """Refuse slices that no row could have made."""
        keys, rows, first, last = self.found[:, [KEY_OF, ROWS, FIRST, LAST]].T
        if not ((keys >= 0) & (keys < self.key_count) & (rows > 0)).all():
            raise ValueError(f"a slice has rows and one of {self.key_count} keys")
        if not (
            (self.lost[:, KEY_OF] >= 0)
            & (self.lost[:, KEY_OF] < self.key_count)
            & (np.abs(self.lost[:, LOST].astype(np.float64)) <= FAR)
        ).all():
            raise ValueError(f"lost rows have a time and one of {self.key_count} keys")
        if not ((self.found[:, START_OF] <= first) & (first <= last) & (last <= FAR)).all():
            raise ValueError("a slice has a first time and a last one that is not before it")


def written(columns: list[pa.Array], names: Sequence[str]) -> bytes:
    """Return columns of one length as an Arrow stream."""
    batch = pa.RecordBatch.from_arrays(columns, names=list(names))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def read(stream: bytes) -> pa.RecordBatch:
    """Return the columns of an Arrow stream, or raise ValueError."""
    try:
        batch = pa.ipc.open_stream(stream).read_next_batch()
        batch.validate(full=True)  # compiled loops trust the offsets of texts
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ValueError(f"the columns cannot be read: {error!r}") from error
    return batch
