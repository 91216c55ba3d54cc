"""The few keys that a board follows: those that were active last.

Keys are numbered as an operator numbers them, whole batches at once, however many there are. Of these
at most `KEYS` are followed. A key that has no place takes that of the one idle for longest, unless all
that are followed have come in the same batch. To be looked at counts as being active.
"""

import itertools

import numpy as np
import pyarrow as pa

from muntin.slicing.key_table import KeyTable
from muntin.watch.series import Array

KEYS = 32
NUMBERED = 1 << 16
"""With more numbered keys than this, those that are not followed are forgotten."""
LONGEST_NAME = 80


class Followed:
    """The keys followed, each by an id that no other key ever gets."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names: dict[int, str] = {}
        self._table = KeyTable(names)
        self._ids = np.zeros(0, np.int64)
        self._active: dict[int, int] = {}
        self._batch = 0
        self._fresh = itertools.count()

    @property
    def recent(self) -> list[int]:
        """The ids of the keys, the most recently active first, and of equals the first that came."""
        return sorted(self.names, key=lambda key: (-self._active[key], key))

    def look_at(self, keys: list[int]) -> None:
        """Count keys as active, because someone looks at them."""
        for key in keys:
            self._active[key] = self._batch

    def number(self, columns: list[pa.Array], rows: int) -> tuple[Array, list[int]]:
        """Return the id of each row's key, -1 if it is not followed, and the ids that were given up."""
        self._batch += 1
        numbers = self._table.number(columns, rows)
        unknown = np.full(len(self._table) - len(self._ids), -1)
        self._ids = np.append(self._ids, unknown)
        came = np.unique(numbers)
        self.look_at([int(key) for key in self._ids[came] if key >= 0])
        given_up = self._follow(came[self._ids[came] < 0][:KEYS])
        ids = self._ids[numbers]
        if len(self._table) > NUMBERED:
            alive = self._ids >= 0
            self._table.keep(alive)
            self._ids = self._ids[alive]
        return ids, given_up

    def _follow(self, numbers: Array) -> list[int]:
        """Follow these keys as far as there are places, and return the ids of those given up."""
        idle = [key for key in reversed(self.recent) if self._active[key] < self._batch]
        free = KEYS - len(self.names)
        given_up = idle[: max(0, len(numbers) - free)]
        for key in given_up:
            self._ids[self._ids == key] = -1
            del self.names[key], self._active[key]
        chosen = numbers[: free + len(given_up)]
        for number, name in zip(chosen, self._named(chosen), strict=True):
            key = next(self._fresh)
            self._ids[number] = key
            self.names[key] = name
            self._active[key] = self._batch
        return given_up

    def _named(self, numbers: Array) -> list[str]:
        columns = [column.to_pylist() for column in self._table.columns(numbers)]
        if not columns:
            return [""] * len(numbers)
        return [_shortened(", ".join(map(_text, key))) for key in zip(*columns, strict=True)]


def _text(value: object) -> str:
    return "null" if value is None else str(value)


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
