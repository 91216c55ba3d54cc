"""One window's blocks: partials in, sealed bytes in the store, partials out.

A block holds neighbouring elements of one level up to a multiple of its size, a power of two. It is
written once, when it is full. Leaves come in large blocks; the blocks of each level above are half as
large, down to a few elements, so that all levels have a new one about equally often.
What is sealed begins with whose it is: bytes that were altered or swapped are found out.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from muntin.aggregates import Aggregate, SnapshotError, seal, unseal
from muntin.aggregates.encoding import DAMAGE
from muntin.aggregators.aggregator import Partial
from muntin.stores.store import Key, Store, StoreError

SMALLEST = 16
ROWS = {tuple: "tuples", list: "lists"}
NUMBERS = "biufcmM"  # NumPy's kinds of which an array holds exactly what its elements are


class Blocks:
    """The blocks of one window in a store, and its record."""

    __slots__ = ("aggregate", "largest", "store", "window")

    def __init__(self, store: Store, window: str, aggregate: Aggregate, largest: int) -> None:
        self.store = store
        self.window = window
        self.aggregate = aggregate
        self.largest = largest

    def size(self, level: int) -> int:
        """Return how many elements a block of a level is for."""
        return max(self.largest >> level, min(self.largest, SMALLEST))

    def read(self, keys: Sequence[Key]) -> list[list[Partial]]:
        """Return the blocks' elements, or raise StoreError."""
        found = self.store.get(self.window, keys) if keys else []
        return [self._elements(key, message) for key, message in zip(keys, found, strict=True)]

    def read_soon(self, key: Key) -> Future[list[Partial]]:
        """Read a block in the background."""
        return self.store.soon(lambda: self.read([key])[0])

    def _elements(self, key: Key, message: bytes | None) -> list[Partial]:
        try:
            elements = self.from_plain(self.unsealed(key, message))
            if not 0 < len(elements) <= self.size(key[0]):
                raise ValueError(f"{len(elements)} elements")
        except DAMAGE as error:
            raise self.error(f"{_called(key)} cannot be read: {error}") from error
        return elements

    def sealed(self, key: Key, content: Any) -> bytes:
        """Return bytes that tell whether they were altered, or put in the place of others."""
        return seal([self.window, *key, content])

    def unsealed(self, key: Key, message: bytes | None) -> Any:
        """Return what was sealed for this key; ValueError if these bytes are not that."""
        if message is None:
            raise ValueError("it is missing")
        match unseal(message):
            case [str(window), int(level), int(number), content]:
                pass
            case _:
                raise SnapshotError("these bytes are not a block")
        if (window, level, number) != (self.window, *key):
            raise SnapshotError(f"it is {_called((level, number))} of window {window!r}")
        return content

    def to_plain(self, partials: list[Partial]) -> Any:
        """Return partials as plain data."""
        if self.aggregate.encode is not None:
            partials = [self.aggregate.to_plain(partial) for partial in partials]
        return columns(partials)

    def from_plain(self, plain: Any) -> list[Partial]:
        """Return the partials that to_plain was given."""
        partials = rows(plain)
        if self.aggregate.decode is not None:
            partials = [self.aggregate.from_plain(partial) for partial in partials]
        return partials

    def error(self, what: str) -> StoreError:
        """Return an error of this window."""
        return StoreError(self.store.tell(self.window, what))


def columns(values: list[Any]) -> Any:
    """Turn rows of one length into columns and NumPy's numbers into an array: quicker and smaller.

    >>> columns([(1, 2.5), (2, 3.5)])
    {'tuples': [[1, 2], [2.5, 3.5]]}
    """
    kinds = set(map(type, values))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind in ROWS and len(set(map(len, values))) == 1 and values[0]:
        return {ROWS[kind]: [columns(list(column)) for column in zip(*values, strict=True)]}
    if kind is not None and kind.__module__ == "numpy":
        import numpy as np

        if isinstance(values[0], np.generic):
            dtypes = {value.dtype for value in values}
            if len(dtypes) == 1 and values[0].dtype.kind in NUMBERS:
                return {"numbers": np.array(values)}
    return values


def rows(plain: Any) -> list[Any]:
    """Return what columns was given.

    >>> rows({"tuples": [[1, 2], [2.5, 3.5]]})
    [(1, 2.5), (2, 3.5)]
    """
    match plain:
        case list():
            return plain
        case {"tuples": [*parts]}:
            return list(zip(*map(rows, parts), strict=True))
        case {"lists": [*parts]}:
            return list(map(list, zip(*map(rows, parts), strict=True)))
        case {"numbers": numbers}:
            return list(numbers)
    raise ValueError(f"neither rows nor columns: {plain!r}")


def _called(key: Key) -> str:
    return f"block {key[1]} of level {key[0]}"
