"""The rings of a rolling window, one for each key, and which rows of an array go to which."""

from typing import Any

import numpy as np

from muntin.dataframes.columns import Array
from muntin.dataframes.compiled_ring import CompiledRing
from muntin.dataframes.object_ring import ObjectRing
from muntin.journal import Journal

Ring = CompiledRing | ObjectRing


class Lane:
    """The window of one key: its ring, which its first rows make, and the time of its last row."""

    def __init__(self, ring: Ring | None = None, last: int | None = None) -> None:
        self.ring = ring
        self.last = last


class Lanes:
    """The windows of all keys; without key columns, of one."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.lanes: list[Lane] = [] if names else [Lane()]
        self._table: Any = None

    def parts(self, by: Any, rows: int, journal: Journal) -> list[tuple[Lane, Array | None]]:
        """Return the windows that rows belong to, with the places of their rows (all, if None)."""
        if not self.names:
            if by is not None:
                raise TypeError("by is for windows of keys: Rolling(..., by='name of the key')")
            return [(self.lanes[0], None)]
        columns = self._columns(by, rows)
        table = self._keys()
        table.note(journal)
        journal.length(self.lanes)
        codes = table.number(columns, rows)
        self.lanes.extend(Lane() for _ in range(len(table) - len(self.lanes)))
        order = np.argsort(codes, kind="stable")
        found, firsts = np.unique(codes[order], return_index=True)
        places = np.split(order, firsts[1:])
        return [(self.lanes[code], part) for code, part in zip(found.tolist(), places, strict=True)]

    def _columns(self, by: Any, rows: int) -> list[Any]:
        from muntin.dataframes.batches import arrow_column

        if by is None:
            raise TypeError(f"rows of keys need them: push(values, by={', '.join(self.names)})")
        given = [by] if len(self.names) == 1 and not _is_several(by) else list(by)
        if len(given) != len(self.names):
            raise ValueError(
                f"by has {len(given)} columns, and the keys are {', '.join(self.names)}"
            )
        columns = [arrow_column(part, name) for part, name in zip(given, self.names, strict=True)]
        for name, column in zip(self.names, columns, strict=True):
            if len(column) != rows:
                raise ValueError(f"key {name!r} has {len(column)} rows, the values have {rows}")
        return columns

    def _keys(self) -> Any:
        from muntin.slicing.key_table import KeyTable

        if self._table is None:
            self._table = KeyTable(self.names)
        return self._table

    def plain(self) -> Any:
        """Return the keys as plain data."""
        return list(self._keys().plain())

    def restore(self, plain: Any, lanes: list[Lane]) -> None:
        """Take the keys that plain() returned, and the window of each, or raise ValueError."""
        from muntin.slicing.key_table import KeyTable

        table = KeyTable.from_plain(self.names, plain)
        if len(table) != len(lanes):
            raise ValueError(f"{len(lanes)} windows of {len(table)} keys")
        self._table, self.lanes = table, lanes


def _is_several(by: Any) -> bool:
    """Whether keys were given as a list of columns."""
    several = isinstance(by, list | tuple) and len(by) == 1
    return several and hasattr(by[0], "__len__") and not isinstance(by[0], str | bytes)
