"""Blocks of bytes in a map of Spark's state store, in a form that goes through Spark fast.

Spark hands bytes to Python as a text in which each byte over 127 takes two and is decoded by itself,
and moves values of some megabytes slowly. So a block is a text of ASCII, with seven bits in each
character, which makes it a seventh longer, and is cut into pieces; the last is shorter than all others.
"""

from itertools import count
from typing import Any

import numpy as np

from muntin.aggregates import SnapshotError

BLOCKS = "blocks"
"""The name of the map among what a shard keeps."""
PIECE = 1 << 18
STRIPES = 7
LOW = 0x7F


class StateMap:
    """Blocks by name, in a map of names to texts."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        """Return a block, or None if there is none."""
        pieces: list[str] = []
        for i in count():
            found = self._state.getValue((_piece_name(name, i),))
            if found is None:
                break
            pieces.append(found[0])
            if len(pieces[-1]) < PIECE:
                return eight_bits("".join(pieces))
        if not pieces:
            return None
        raise SnapshotError(f"block {name!r} ends after {len(pieces)} pieces in the state store")

    def put(self, name: str, block: bytes) -> None:
        """Keep a block."""
        coded = seven_bits(block)
        pieces = len(coded) // PIECE + 1
        for i in range(pieces):
            piece = coded[i * PIECE : (i + 1) * PIECE]
            self._state.updateValue((_piece_name(name, i),), (piece,))
        self._remove(name, pieces)

    def delete(self, name: str) -> None:
        """Forget a block."""
        self._remove(name, 0)

    def __contains__(self, name: object) -> bool:
        """Whether there is a block of this name."""
        return bool(self._state.containsKey((_piece_name(str(name), 0),)))

    def _remove(self, name: str, first: int) -> None:
        for i in count(first):
            key = (_piece_name(name, i),)
            if not self._state.containsKey(key):
                return
            self._state.removeKey(key)


def _piece_name(name: str, i: int | str) -> str:
    return f"{name}#{i}"


def of_name(pieces: Any, name: str) -> Any:
    """Return which of a column of pieces' names are of a block."""
    return pieces.startswith(_piece_name(name, ""))


def seven_bits(block: bytes) -> str:
    """Return a text: of seven stripes the lower bits, then a stripe of all their upper bits.

    The last character tells how many bytes were added to make the stripes equal.
    """
    length = -(-len(block) // STRIPES)
    added = STRIPES * length - len(block)
    stripes = np.frombuffer(block + bytes(added), np.uint8).reshape(STRIPES, length)
    upper = np.zeros(length, np.uint8)
    for i, stripe in enumerate(stripes):
        upper |= (stripe >> 7) << i
    return b"".join([(stripes & LOW).tobytes(), upper.tobytes(), bytes([added])]).decode("ascii")


def eight_bits(text: str) -> bytes:
    """Return what was given to `seven_bits`, or raise SnapshotError."""
    length, rest = divmod(len(text) - 1, STRIPES + 1)
    if not (text and text.isascii()) or rest or ord(text[-1]) >= STRIPES:
        raise SnapshotError(f"{len(text)} characters in the state store are not a block")
    coded = np.frombuffer(text.encode("ascii"), np.uint8, count=len(text) - 1)
    *lower, upper = coded.reshape(STRIPES + 1, length)
    stripes = [stripe | (upper >> i << 7) for i, stripe in enumerate(lower)]
    return np.concatenate(stripes).tobytes()[: STRIPES * length - ord(text[-1])]
