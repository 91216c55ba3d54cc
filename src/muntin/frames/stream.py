"""A rolling window over a stream of arrays: what one array would give, whatever the cuts.

The window lives between the arrays as an algorithm's own ring: compiled for numbers, the object itself
for everything else. Rows may be null in any array, so partials carry the number of their values.
"""

from collections import deque
from dataclasses import replace
from typing import Any, Self

import numpy as np

from muntin.aggregates import Aggregate, SnapshotError, seal, unseal
from muntin.aggregates.encoding import DAMAGE
from muntin.aggregators import ALGORITHMS, Aggregator
from muntin.frames.columns import Array, Column, kind_of, read, write
from muntin.frames.request import scaled, whole_times
from muntin.kernels.build import STEPS, Compiled, NotCompilableError, compiled
from muntin.kernels.layout import Layout
from muntin.windows import is_duration, microseconds

U = np.uint64
POINTERS = {"TwoStacksLite": 3, "DabaLite": 6}
FURTHEST = 2**62
"""Times before 0 and sizes go no further, so that their difference fits into 64 bits."""


class Rolling:
    """The aggregate of the last rows, or of the last stretch of time, as arrays come in.

    `size` is a number of rows, or a duration: then each push gives the rows' times. Windows with fewer
    than `min_periods` values (by default `size` rows, or 1 with a duration) have no result.
    Runtime: O(rows pushed), whatever the size; with DabaLite no row takes long.

    >>> from muntin import Max, Rolling
    >>> window = Rolling(3, Max(), min_periods=1)
    >>> window.push([5, 1, 2]), window.push([1, 4])
    (array([5, 5, 5]), array([2, 4]))
    """

    def __init__(
        self,
        size: Any,
        aggregate: Aggregate,
        *,
        min_periods: int | None = None,
        algorithm: str = "DabaLite",
    ) -> None:
        if algorithm not in STEPS:
            raise ValueError(f"algorithm must be one of {', '.join(STEPS)}, got {algorithm!r}")
        self._timed = is_duration(size)
        self._size = microseconds(size)
        if not 0 < self._size <= FURTHEST:
            raise ValueError(f"a window's size must be positive and 2**62 at most, got {size!r}")
        self._least = min_periods if min_periods is not None else (1 if self._timed else self._size)
        self._algorithm = algorithm
        self._last: int | None = None
        self._reach: int | None = None  # the size in the unit of the times
        self.aggregate = aggregate
        self._ring: _Ring | _Objects | None = None

    def __len__(self) -> int:
        return 0 if self._ring is None else len(self._ring)

    def push(self, values: Any, on: Any = None) -> Any:
        """Take an array of rows and return a result for each of them."""
        column = read(values, "values")
        times = self._times(on, len(column.values))
        if self._ring is None:
            self._ring = self._start(column)
        self._ring.accept(column)
        if self.aggregate.nulls and self.aggregate.name == "count":
            column = replace(column, valid=None)
        results, counts = self._ring.push(column, times, self._reach or self._size)
        if times is not None and len(times):
            self._last = int(times[-1])
        return write(kind_of(values), results, counts < max(self._least, 1), _label(values), None)

    def _times(self, on: Any, rows: int) -> Array | None:
        if not self._timed:
            return None
        if on is None:
            raise TypeError("a window of time needs the rows' times: push(values, on=times)")
        stamps = read(on, "on")
        times = whole_times(stamps, rows)
        if self._reach is None:
            self._reach = self._scaled(stamps)
        if self._reach != self._scaled(stamps):
            raise TypeError(f"times came in another unit before; convert {stamps.dtype}")
        before = times[:1] if self._last is None else np.array([self._last])
        stamps_in_order = np.concatenate((before, times))
        falls = stamps_in_order[1:] < stamps_in_order[:-1]
        if falls.any():
            row = int(np.argmax(falls))
            raise ValueError(
                f"times must not fall: row {row} is at {times[row]}, before its predecessor"
            )
        if len(times) and int(times[0]) < -FURTHEST:
            raise ValueError(f"row 0 has time {int(times[0])}, which is before -2**62")
        return times

    def _scaled(self, stamps: Column) -> int:
        reach = scaled(self._size, stamps)
        if reach > FURTHEST:
            raise ValueError(f"a window of {reach} in the unit of the times is longer than 2**62")
        return reach

    def _start(self, column: Column) -> "_Ring | _Objects":
        if column.is_numeric and column.dtype.kind not in "mM" and self.aggregate.rank is None:
            try:
                return _Ring(self.aggregate, self._algorithm, column.values.dtype)
            except NotCompilableError:
                pass
        return _Objects(ALGORITHMS[self._algorithm](self.aggregate))

    def snapshot(self) -> bytes:
        """Return the window as bytes, with a format version and a checksum."""
        ring = None if self._ring is None else self._ring.save()
        return seal([*self._identity(), self._reach, self._last, ring])

    def _identity(self) -> list[Any]:
        """Return what a snapshot must agree in with the window that it is restored to."""
        return ["Rolling", self.aggregate.name, self._algorithm, self._size, self._timed]

    @classmethod
    def restore(cls, snapshot: bytes, size: Any, aggregate: Aggregate, **options: Any) -> Self:
        """Return the window that was saved; SnapshotError if the bytes are not such a window."""
        window = cls(size, aggregate, **options)
        content = unseal(snapshot)
        if not isinstance(content, list) or content[:-3] != window._identity():
            raise SnapshotError(f"the snapshot is not of Rolling({size!r}, {aggregate.name})")
        try:
            window._reach, window._last, ring = content[-3:]
            if ring is not None:
                kind = _Ring if "fields" in ring else _Objects
                window._ring = kind.load(ring, aggregate, window._algorithm)
        except DAMAGE as error:
            raise SnapshotError(
                f"the snapshot's state is not that of a window: {error!r}"
            ) from error
        return window


def _label(values: Any) -> Any:
    return values.index if kind_of(values) == "pandas" else None


class _Ring:
    """A compiled window: slots, stamps and state of the algorithm's step functions."""

    def __init__(self, aggregate: Aggregate, algorithm: str, dtype: np.dtype[Any]) -> None:
        self._kernels: Compiled = compiled(aggregate, Layout((dtype,), True, steps=algorithm))
        self._pointers = POINTERS[algorithm]
        self._dtype = dtype
        self._slots, self._stamps = self._kernels.buffer(16), np.empty(16, np.int64)
        nothing = (np.zeros(1, dtype), np.zeros(1, np.bool_))
        self._state = self._kernels.module.ring_start(nothing)

    def __len__(self) -> int:
        return int(self._state[1] - self._state[0])

    def accept(self, column: Column) -> None:
        """Refuse a column of another type, before anything is changed."""
        if not column.is_numeric or not np.can_cast(column.values.dtype, self._dtype):
            raise TypeError(f"the window holds {self._dtype} and cannot take {column.dtype}")

    def push(self, column: Column, times: Array | None, size: int) -> tuple[Array, Array]:
        values = column.values.astype(self._dtype)
        rows = len(values)
        valid = np.ones(rows, np.bool_) if column.valid is None else column.valid
        outs = self._kernels.outputs(rows)
        module, lo = self._kernels.module, 0
        if times is None:
            self._grow(min(size, len(self) + rows))
            arguments = (
                U(size),
                U(0),
                U(rows),
                self._slots,
                U(len(self._stamps) - 1),
                self._typed(),
            )
            self._state = module.ring_rows((values, valid), outs, *arguments)
        while times is not None and lo < rows:
            bounds = (np.int64(size), np.int64(1), U(lo), U(rows))
            ring = (self._slots, self._stamps, U(len(self._stamps) - 1), self._typed())
            lo, self._state = module.ring_times((values, valid), outs, times, *bounds, *ring)
            if lo < rows:
                self._grow(2 * len(self._stamps))
        if len(outs) == 2:
            return outs[1], outs[0]
        results = np.empty(rows, object)
        results[:] = list(zip(*(array.tolist() for array in outs[1:]), strict=True))
        return results, outs[0]

    def _typed(self) -> tuple[Any, ...]:
        """Return the state in the types that the kernels were compiled for."""
        k, fields = self._pointers, self._kernels.fields

        def partial(pair: Any) -> Any:
            n, x = pair
            if isinstance(x, tuple):
                return (np.int64(n), tuple(f.type(y) for f, y in zip(fields, x, strict=True)))
            return (np.int64(n), fields[0].type(x))

        return tuple(U(p) for p in self._state[:k]) + tuple(partial(p) for p in self._state[k:])

    def _grow(self, needed: int) -> None:
        size = len(self._stamps)
        if needed <= size:
            return
        larger = 1 << (needed - 1).bit_length()
        old = np.arange(self._state[0], self._state[1]).astype(np.int64)
        slots, stamps = self._kernels.buffer(larger), np.empty(larger, np.int64)
        for new, held in zip((*slots, stamps), (*self._slots, self._stamps), strict=True):
            new[old & (larger - 1)] = held[old & (size - 1)]
        self._slots, self._stamps = slots, stamps

    def save(self) -> dict[str, Any]:
        """Return the live part of the ring as plain data."""
        live = np.arange(self._state[0], self._state[1]).astype(np.int64) & (len(self._stamps) - 1)
        f, k = self._state[0], self._pointers
        return {
            "dtype": self._dtype.str,
            "fields": [slot[live] for slot in self._slots],
            "stamps": self._stamps[live],
            "pointers": [int(p - f) for p in self._state[:k]],
            "running": [list(_flat(p)) for p in self._state[k:]],
        }

    @classmethod
    def load(cls, state: dict[str, Any], aggregate: Aggregate, algorithm: str) -> "_Ring":
        """Return the ring that was saved."""
        ring = cls(aggregate, algorithm, np.dtype(state["dtype"]))
        n = len(state["stamps"])
        pointers = state["pointers"]
        if pointers[:2] != [0, n] or not all(0 <= p <= n for p in pointers):
            raise ValueError(f"pointers {pointers} of {n} rows")
        ring._grow(n)
        arrays = (*ring._slots, ring._stamps)
        for array, saved in zip(arrays, (*state["fields"], state["stamps"]), strict=True):
            array[:n] = saved
        scalar = not isinstance(ring._state[-1][1], tuple)
        running = tuple((n, *x) if scalar else (n, tuple(x)) for n, *x in state["running"])
        ring._state = (*pointers, *running)
        return ring


def _flat(partial: Any) -> tuple[Any, ...]:
    n, x = partial
    return (n, *x) if isinstance(x, tuple) else (n, x)


class _Objects:
    """An interpreted window: the aggregator, the rows' times, and which of them are not null."""

    def __init__(self, window: Aggregator) -> None:
        self._window = window
        self._held: deque[tuple[int, bool]] = deque()

    def __len__(self) -> int:
        return len(self._window)

    def accept(self, column: Column) -> None:
        """Take any column."""

    def push(self, column: Column, times: Array | None, size: int) -> tuple[Array, Array]:
        inputs = column.objects()
        stamps = [0] * len(inputs) if times is None else times.tolist()
        results, counts = np.empty(len(inputs), object), np.zeros(len(inputs), np.int64)
        present = sum(there for _, there in self._held)
        for i, (value, stamp) in enumerate(zip(inputs, stamps, strict=True)):
            self._window.insert(value)
            self._held.append((stamp, value is not None))
            present += value is not None
            while len(self._held) > size if times is None else self._held[0][0] <= stamp - size:
                self._window.evict()
                present -= self._held.popleft()[1]
            results[i], counts[i] = self._window.query(), present
        return results, counts

    def save(self) -> dict[str, Any]:
        """Return the window and the times as plain data."""
        return {"window": self._window.snapshot(), "held": list(self._held)}

    @classmethod
    def load(cls, state: dict[str, Any], aggregate: Aggregate, algorithm: str) -> "_Objects":
        """Return the window that was saved."""
        objects = cls(ALGORITHMS[algorithm].restore(state["window"], aggregate))
        objects._held = deque((int(stamp), bool(there)) for stamp, there in state["held"])
        if len(objects._held) != len(objects._window):
            raise ValueError(f"{len(objects._held)} times for {len(objects._window)} rows")
        return objects
