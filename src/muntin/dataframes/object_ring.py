"""A rolling window on objects between two arrays: an aggregator, and the times of its rows."""

from collections import deque
from collections.abc import Iterator
from itertools import chain, takewhile
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregators import ALGORITHMS
from muntin.aggregators.ring import RingAggregator
from muntin.dataframes.columns import Array, Column
from muntin.journal import Journal
from muntin.kernels.codegen.build import POINTERS


def ring_of(algorithm: str) -> type[RingAggregator]:
    """Return the class of an algorithm whose partials are in a ring."""
    kind = ALGORITHMS[algorithm]
    assert issubclass(kind, RingAggregator)
    return kind


class ObjectRing:
    """An interpreted window: the aggregator, the rows' times, and which of them are not null."""

    def __init__(self, window: RingAggregator, pointers: int) -> None:
        self._window = window
        self._pointers = pointers
        self._held: deque[tuple[int, bool]] = deque()
        self._present = 0  # how many of them are not null
        self._came: list[tuple[int, bool]] = []
        self._gone = 0

    def __len__(self) -> int:
        return len(self._window)

    overflows = False

    def push(
        self, column: Column, times: Array | None, size: int, journal: Journal
    ) -> tuple[tuple[Array, ...], Array]:
        """Return the results of each row, and how many values are in its window."""
        inputs = column.objects(exact=self._window.aggregate.is_built_in)
        stamps = [0] * len(inputs) if times is None else times.tolist()
        all_count = self._window.aggregate.counts_rows
        came = [
            (stamp, all_count or x is not None) for stamp, x in zip(stamps, inputs, strict=True)
        ]
        results, counts = np.empty(len(inputs), object), np.zeros(len(inputs), np.int64)
        leaving = [row for row, _ in self._leaving(came, times is not None, size)]
        journal.fields(self)
        self._window.note(journal, self._pointers, len(inputs), len(leaving))
        present, gone = self._present, 0
        for i, (value, (stamp, there)) in enumerate(zip(inputs, came, strict=True)):
            self._window.insert(value)
            present += there
            while gone < len(leaving) and (
                len(self._window) > size if times is None else leaving[gone][0] <= stamp - size
            ):
                self._window.evict()
                present -= leaving[gone][1]
                gone += 1
            results[i], counts[i] = self._window.query(), present
        self._came, self._gone, self._present = came, gone, present
        missing = np.array([result is None for result in results], np.bool_)
        return (results,), np.where(missing, 0, counts)

    def _leaving(
        self, came: list[tuple[int, bool]], timed: bool, size: int
    ) -> Iterator[tuple[tuple[int, bool], int]]:
        """Return the rows that will have left when all have come, oldest first."""
        rows = zip(chain(self._held, came), range(len(self._held) + len(came)), strict=True)
        if timed:
            last = came[-1][0] if came else 0
            return takewhile(lambda row: row[0][0] <= last - size, rows)
        more = len(self._held) + len(came) - size
        return takewhile(lambda row: row[1] < more, rows)

    def settle(self, journal: Journal) -> None:
        """Put the rows that came behind those that are held, and drop those that left."""
        journal.no_return()
        self._held.extend(self._came)
        for _ in range(self._gone):
            self._held.popleft()
        self._came, self._gone = [], 0

    def save(self) -> dict[str, Any]:
        """Return the window and the times as plain data."""
        return {"window": self._window.snapshot(), "held": list(self._held)}

    @classmethod
    def load(
        cls, state: dict[str, Any], aggregate: Aggregate, algorithm: str, trust: bool
    ) -> "ObjectRing":
        """Return the window that was saved."""
        window = ring_of(algorithm).restore(state["window"], aggregate, trust_functions=trust)
        objects = cls(window, POINTERS[algorithm])
        objects._held = deque((int(stamp), bool(there)) for stamp, there in state["held"])
        objects._present = sum(there for _, there in objects._held)
        if len(objects._held) != len(objects._window):
            raise ValueError(f"{len(objects._held)} times for {len(objects._window)} rows")
        return objects
