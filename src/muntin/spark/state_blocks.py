"""An operator's state in blocks, so that only what has changed since the last time is written.

A block of slices (or of kept rows) has those of all keys in one stretch of time: rows arrive near the
end of time, so older blocks stay as they were, and go as a whole when no window needs them. A block of
keys has keys of neighbouring numbers. The rest, the head, is small. The idea is the Monoid Tree
Aggregator's (TPDS 2019): only the ends of a window move.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.query.lane_factory import IN_LIVES
from muntin.slicing.folded_rows import read, written
from muntin.slicing.limits import NEVER, Array
from muntin.slicing.tables import SLICE_START

HEAD = "head"
ITEMS_PER_BLOCK, BLOCKS = 8192, 32
"""What a block should have at least, and how many blocks there should be at most."""
ENOUGH = 4
"""Stretches are chosen again when there are this many times more blocks than needed, or fewer."""
KEYS_PER_BLOCK = 4096
ITEMS = ("slices", "kept")
"""What of a lane's state lies in time."""


def cut(state: dict[str, Any], stretches: dict[str, int]) -> dict[str, Any]:
    """Return the blocks of a state by name; `stretches` of time are remembered for the next cut."""
    rows, stream = state["keys"]
    blocks: dict[str, Any] = dict(_cut_keys(read(stream), rows))
    lanes = []
    for i, (kind, *named, saved) in enumerate(state["lanes"]):
        rest = dict(saved)
        for part in ITEMS:
            if saved.get(part) is not None:
                name = f"{part}/{i}"
                stretches[name] = _stretch(
                    saved[part]["meta"][:, SLICE_START], stretches.get(name, 1)
                )
                rest[part], pieces = _cut_items(saved[part], stretches[name])
                blocks |= {f"{name}/{number}": piece for number, piece in pieces}
        lanes.append((kind, *named, rest))
    return {**blocks, HEAD: {**state, "keys": rows, "lanes": lanes}}


def joined(blocks: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state that was cut into these blocks."""
    head = blocks[HEAD]
    groups: dict[str, list[Any]] = {}
    for name in sorted(blocks.keys() - {HEAD}, key=lambda name: int(name.rpartition("/")[2])):
        groups.setdefault(name.rpartition("/")[0], []).append(blocks[name])
    keys = _join_keys(groups["keys"])
    if head["keys"] != max(read(keys).num_rows, min(head["keys"], 1)):
        raise ValueError(f"{head['keys']} keys, of which {read(keys).num_rows} are there")
    lanes = []
    for i, (kind, *named, rest) in enumerate(head["lanes"]):
        saved = dict(rest)
        for part in ITEMS:
            if rest.get(part) is not None:
                pieces = groups.get(f"{part}/{i}", [])
                saved[part] = _join_items(rest[part], pieces, _numbers(head, kind))
        lanes.append((kind, *named, saved))
    return {**head, "keys": (head["keys"], keys), "lanes": lanes}


def _numbers(head: dict[str, Any], kind: str) -> int:
    """Return how many keys, or lives of keys, a kind of lane has."""
    in_lives = head["lives"] is not None and kind in IN_LIVES
    return len(head["lives"]["owner"]) if in_lives else int(head["keys"])


def _cut_keys(batch: pa.RecordBatch, rows: int) -> Iterator[tuple[str, bytes]]:
    for first in range(0, max(rows, 1), KEYS_PER_BLOCK):
        piece = batch.slice(first, KEYS_PER_BLOCK)
        yield f"keys/{first // KEYS_PER_BLOCK}", written(piece.columns, piece.schema.names)


def _join_keys(pieces: list[bytes]) -> bytes:
    batches = [read(piece) for piece in pieces]
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return written([pa.concat_arrays(column) for column in columns], batches[0].schema.names)


def _stretch(times: Array, held: int) -> int:
    """Return a length of time that cuts items into few blocks; one that still serves stays."""
    if len(times) == 0:
        return held
    span = int(times.max()) - int(times.min())
    wanted = min(max(len(times) // ITEMS_PER_BLOCK, 1), BLOCKS)
    serves = wanted <= ENOUGH * (span // held + 1) and span // held < ENOUGH * wanted
    return held if serves else 1 << (span // wanted).bit_length()


def _cut_items(items: dict[str, Any], stretch: int) -> tuple[Any, list[tuple[int, Any]]]:
    """Return what is left without any items, and the items of each stretch that has some."""
    lengths = items["lengths"]
    whole = {**items, "lengths": np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)}
    numbers = items["meta"][:, SLICE_START] // stretch
    first = int(numbers.min(initial=NEVER))
    few = (numbers - first).astype(np.uint16)  # which are sorted by their digits
    counts = np.bincount(few)
    parted = np.split(np.argsort(few, kind="stable"), np.cumsum(counts)[:-1])
    pieces = [(first + i, _picked(whole, parted[i])) for i in np.nonzero(counts)[0].tolist()]
    return {**_picked(whole, np.zeros(0, np.int64)), "keys": len(lengths)}, pieces


def _picked(items: dict[str, Any], which: Array) -> dict[str, Any]:
    columns = [[_column(c, which) for c in column] for column in items["columns"]]
    return {"lengths": items["lengths"][which], "meta": items["meta"][which], "columns": columns}


def _column(column: Any, which: Array) -> Any:
    return [column[i] for i in which.tolist()] if isinstance(column, list) else column[which]


def _join_items(left: dict[str, Any], pieces: list[Any], count: int) -> dict[str, Any]:
    """Return the items key by key again; in each key they are in the order of time."""
    pieces = [left, *pieces]
    keys = np.concatenate([piece["lengths"] for piece in pieces])
    if left["keys"] != count or (len(keys) and not 0 <= keys.min() <= keys.max() < count):
        raise ValueError(f"items of {left['keys']} keys, of which there are {count}")
    columns = [
        [_together([piece["columns"][i][j] for piece in pieces]) for j in range(len(column))]
        for i, column in enumerate(left["columns"])
    ]
    meta = np.concatenate([piece["meta"] for piece in pieces])
    items = _picked(
        {"lengths": keys, "meta": meta, "columns": columns}, np.argsort(keys, kind="stable")
    )
    return {**items, "lengths": np.bincount(keys, minlength=left["keys"])}


def _together(columns: list[Any]) -> Any:
    if isinstance(columns[0], list):
        return [item for column in columns for item in column]
    return np.concatenate(columns)
