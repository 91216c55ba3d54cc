"""A tuple buffer for windows of count, in NumPy: what EDBT 2019 compares slicing with in Figure 16.

No plan that can be forced has a tuple buffer for windows of count. This one has no keys: rows are kept
sorted by time, and each window that is full is added up from its own rows, with nothing shared.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

import muntin as mt
from benchmarks.streams import VALUE, Run


class TupleBuffer:
    """Sums of tumbling windows of count over rows that are kept in the order of time."""

    def __init__(self, query: mt.Query) -> None:
        self._sizes = {name: window.size for name, window in query.windows.items()}
        self._reported = dict.fromkeys(self._sizes, 0)
        self._lateness = query.allowed
        self._times, self._values = np.empty(0, np.int64), np.empty(0)
        self._gone = 0

    def process(self, batch: dict[str, np.ndarray]) -> pa.Table:
        """Insert rows into the buffer, behind those of equal time."""
        order = np.argsort(batch["t"], kind="stable")
        times = batch["t"][order]
        places = np.searchsorted(self._times, times, side="right")
        self._times = np.insert(self._times, places, times)
        self._values = np.insert(self._values, places, batch["v"][order])
        return self._table([])

    def advance(self, watermark: int) -> pa.Table:
        """Return the windows that are full of rows before the watermark, and forget what none needs."""
        final = self._gone + int(np.searchsorted(self._times, watermark))
        parts = [self._full(name, size, final) for name, size in self._sizes.items()]
        held = int(np.searchsorted(self._times, watermark - self._lateness))
        needless = min(held, min(self._reported.values()) - self._gone)
        self._times, self._values = self._times[needless:], self._values[needless:]
        self._gone += needless
        return self._table([part for part in parts if len(part[1])])

    def _full(self, name: str, size: int, final: int) -> tuple[str, np.ndarray, np.ndarray]:
        """Return the starts and sums of a window's instances that are full for the first time."""
        first = self._reported[name]
        starts = np.arange(first, final - size + 1, size)
        if len(starts) == 0:
            return name, starts, np.empty(0)
        self._reported[name] = end = int(starts[-1]) + size
        rows = self._values[first - self._gone : end - self._gone]
        return name, starts, np.add.reduceat(rows, starts - first)

    def _table(self, parts: list[tuple[str, np.ndarray, np.ndarray]]) -> pa.Table:
        names = [pa.array([name] * len(starts), pa.string()) for name, starts, _ in parts]
        starts = np.concatenate([np.empty(0, np.int64), *(part[1] for part in parts)])
        sizes = [np.full(len(part[1]), self._sizes[part[0]]) for part in parts]
        columns: dict[str, Any] = {
            "window": pa.chunked_array(names, pa.string()),
            "start": starts,
            "end": starts + np.concatenate([np.empty(0, np.int64), *sizes]),
            "kind": pa.array(["result"] * len(starts), pa.string()),
            VALUE: np.concatenate([np.empty(0), *(part[2] for part in parts)]),
        }
        return pa.table(columns)

    @property
    def counters(self) -> SimpleNamespace:
        """The bytes that rows take."""
        return SimpleNamespace(state_bytes=self._times.nbytes + self._values.nbytes)


@dataclass(frozen=True, eq=False)
class BufferRun(Run):
    """A query of count windows over a stream, by a tuple buffer."""

    def operator(self) -> Any:
        """Return an empty buffer."""
        return TupleBuffer(self.query)
