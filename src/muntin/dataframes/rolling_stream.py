"""A rolling window over a stream of arrays: what one array would give, whatever the cuts.

The window lives between the arrays as an algorithm's own ring: compiled for numbers, the object itself
for everything else. Rows may be null in any array, so partials carry the number of their values.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, takewhile
from typing import Any, Self

import numpy as np

from muntin.aggregates import Aggregate, SnapshotError, seal, unseal
from muntin.aggregates.encoding import DAMAGE
from muntin.aggregates.identity import Identity, differences, identity_of
from muntin.aggregators import ALGORITHMS
from muntin.aggregators.ring import RingAggregator, written
from muntin.dataframes.column_fitting import fit
from muntin.dataframes.column_types import ColumnType, check_takes
from muntin.dataframes.columns import Array, Column, kind_of, read
from muntin.dataframes.rolling_request import scaled, whole_times
from muntin.dataframes.rolling_results import Answer, Labels, write
from muntin.journal import Calls, Journal
from muntin.kernels.codegen.build import POINTERS, Compiled, NotCompilableError, compiled
from muntin.kernels.codegen.layout import Layout
from muntin.kernels.codegen.loop_source import STEPS
from muntin.windows import is_duration, microseconds

U = np.uint64
ALL = slice(None)
FEW_SLOTS = 1024
"""A ring of so many is copied as a whole."""
MOVED = 32
"""Slots that move to the next ring for each row that comes or leaves."""
FREED = 8192
"""Slots of the ring before that are freed with a push, or more if many rows leave."""
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
        self._type: ColumnType | None = None
        self._calls = Calls("a rolling window")

    def __len__(self) -> int:
        return 0 if self._ring is None else len(self._ring)

    def push(self, values: Any, on: Any = None) -> Any:
        """Take an array of rows and return a result for each of them; all are taken, or none."""
        with self._calls as journal:
            journal.fields(self)
            column = self._typed(read(values, "values"))
            times = self._times(on, len(column.values))
            if self._ring is None:
                self._ring = self._start(column)
            self._type = self._type or ColumnType.known(column)
            column = replace(column, valid=None) if self.aggregate.counts_rows else column
            arrays, counts = self._ring.push(column, times, self._reach or self._size, journal)
            if times is not None and len(times):
                self._last = int(times[-1])
            answer = self._answer(arrays, counts)
            labels = Labels(kind_of(values), getattr(values, "index", None))
            results = write(answer, self.aggregate, column, labels)
            self._ring.settle(journal)
            return results

    def _answer(self, arrays: tuple[Array, ...], counts: Array) -> Answer:
        """Return results without those of too few values, and those that do not fit."""
        assert self._ring is not None
        kernel = self.aggregate.kernel
        answer = Answer(arrays, counts < max(self._least, 1 if kernel is None else kernel.least))
        if self._ring.overflows:
            return answer.without_overflow(self.aggregate, "row {} of this array".format)
        return answer

    def _typed(self, column: Column) -> Column:
        """Return the column in the type that earlier arrays had, or say which row does not fit it."""
        if self._type is None:
            check_takes(self.aggregate.name, self.aggregate, "the column", ColumnType.of(column))
            return column
        try:
            fitted, bad = fit(column, self._type)
        except TypeError as error:
            raise TypeError(f"the window cannot take these values: {error}") from None
        if bad is not None:
            row = int(np.argmax(bad))
            raise TypeError(
                f"the window holds {self._type} and cannot take {column.dtype}: row {row} has "
                f"{column.objects()[row]!r}, which does not fit"
            )
        return replace(fitted, came_as=column.came_as)

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
        times = column.dtype.kind in "mM" and self.aggregate.kernel is None
        nulls = self.aggregate.nulls and not self.aggregate.counts_rows
        if column.is_numeric and not (times or nulls) and self.aggregate.rank is None:
            try:
                form = ColumnType.of(column).form
                return _Ring(self.aggregate, self._algorithm, column.values.dtype, form)
            except NotCompilableError:
                pass
        return _Objects(_ring_of(self._algorithm)(self.aggregate), POINTERS[self._algorithm])

    def snapshot(self) -> bytes:
        """Return the window as bytes, with a format version and a checksum."""
        with self._calls:
            ring = None if self._ring is None else self._ring.save()
            kind = None if self._type is None else self._type.plain()
            return seal([self._identity(), self._reach, self._last, kind, ring])

    def _identity(self) -> Identity:
        """Return what a snapshot must agree in with the window that it is restored to."""
        return {
            "window": "Rolling",
            "algorithm": self._algorithm,
            "size": int(self._size),
            "is a duration": self._timed,
            "aggregate": identity_of(self.aggregate),
        }

    @classmethod
    def restore(
        cls,
        snapshot: bytes,
        size: Any,
        aggregate: Aggregate,
        *,
        trust_functions: bool = False,
        **options: Any,
    ) -> Self:
        """Return the window that was saved; SnapshotError if the bytes are not such a window.

        With `trust_functions` your own functions are not compared with those the window was saved with.
        """
        window = cls(size, aggregate, **options)
        match unseal(snapshot):
            case [dict(known), reach, last, kind, ring] if known.get("window") == "Rolling":
                found = differences(window._identity(), known, "snapshot", trust_functions)
            case _:
                found = ["it is of something else"]
        if found:
            raise SnapshotError(
                f"the snapshot is not of Rolling({size!r}, {aggregate.name}): {'; '.join(found)}"
            )
        try:
            window._reach, window._last = reach, last
            window._type = None if kind is None else ColumnType.from_plain(kind)
            if ring is not None:
                held = _Ring if "fields" in ring else _Objects
                window._ring = held.load(ring, aggregate, window._algorithm, trust_functions)
        except DAMAGE as error:
            raise SnapshotError(
                f"the snapshot's state is not that of a window: {error!r}"
            ) from error
        return window


def _ring_of(algorithm: str) -> type[RingAggregator]:
    kind = ALGORITHMS[algorithm]
    assert issubclass(kind, RingAggregator)
    return kind


class _NextRing:
    """The ring that will take the place of another, to which slots are copied a few at a time.

    It has the positions [start, moved) as they were when the window's pointers were `seen`.
    """

    def __init__(self, arrays: tuple[Array, ...], start: int) -> None:
        self.arrays = arrays
        self.start = self.moved = start
        self.seen: list[int] | None = None

    def __len__(self) -> int:
        return len(self.arrays[0])

    def copy(self, held: tuple[Array, ...], start: int, end: int) -> None:
        """Copy what the arrays of the other ring hold at positions [start, end)."""
        mine, its = len(self) - 1, len(held[0]) - 1
        while start < end:
            n = min(end, (start | min(mine, its)) + 1) - start
            i, j = start & mine, start & its
            for new, old in zip(self.arrays, held, strict=True):
                new[i : i + n] = old[j : j + n]
            start += n


class _Ring:
    """A compiled window: slots, stamps and state of the algorithm's step functions.

    Slots are a power of two, and position p is in slot p & (slots - 1). Before they are all in use, they
    are copied to a ring of twice as many, and after most were left, to a smaller one: MOVED of them for
    each row that comes or leaves, so that no row waits for a copy of the window.
    """

    def __init__(
        self, aggregate: Aggregate, algorithm: str, dtype: np.dtype[Any], form: str
    ) -> None:
        layout = Layout((dtype,), True, form, steps=algorithm)
        self._kernels: Compiled = compiled(aggregate, layout)
        self._form = form
        self._algorithm, self._pointers = algorithm, POINTERS[algorithm]
        self._dtype = dtype
        self._empty()

    def _empty(self) -> None:
        """Hold nothing. Runtime: O(1)."""
        *slots, self._stamps = self._buffers(16)
        self._slots = tuple(slots)
        nothing = (np.zeros(1, self._dtype), np.zeros(1, np.bool_))
        self._state = self._kernels.start(nothing, self._algorithm)
        self._next: _NextRing | None = None
        self._last: tuple[Array, ...] = ()  # what is not yet freed of the ring before
        self._before = self._state  # the state before the rows of a push
        self._rows = 0  # how many they are
        self._most: int | None = None  # the rows that a window has at most, if that is known

    def __len__(self) -> int:
        return int(self._state[1] - self._state[0])

    @property
    def overflows(self) -> bool:
        """Whether the last array of results says which of them do not fit."""
        return self._kernels.overflows

    def push(
        self, column: Column, times: Array | None, size: int, journal: Journal
    ) -> tuple[tuple[Array, ...], Array]:
        """Return the results of each row, and how many values are in its window."""
        values = np.array(column.values)  # kernels are compiled for arrays that may be written
        rows = len(values)
        valid = np.ones(rows, np.bool_) if column.valid is None else column.valid
        outs = self._kernels.outputs(rows)
        module, lo = self._kernels.module, 0
        journal.fields(self)
        if times is not None and rows and self._all_leave(int(times[0]) - size):
            self._empty()
        self._note(rows, times, size, journal)
        self._before, self._rows = self._state, rows
        self._most = size if times is None else None
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
        return outs[1:], outs[0]

    def _note(self, rows: int, times: Array | None, size: int, journal: Journal) -> None:
        """Note what rows will overwrite; if the ring grows, it is not written any more.

        Results that are floating-point numbers always fit: no error can follow, and where it would
        take time, nothing is noted for an interrupt.
        """
        arrays = self._slots if times is None else self._arrays()
        slots = len(self._stamps)
        if slots <= FEW_SLOTS:
            journal.call(_put_stretches, [(a, ALL, a.copy()) for a in arrays])
            return
        if self._dtype.kind == "f":
            journal.no_return()
            return
        f, e, *_ = pointers = self._numbers(self._state)
        evicts = e - f + rows - size
        if times is not None and rows:
            first = int(times[-1]) - size + 1
            held = bisect_left(range(f, e), first, key=lambda p: self._stamps[p & (slots - 1)])
            evicts = held + int(np.searchsorted(times, first))
        stretches = [
            s for p in written(pointers, rows, max(evicts, 0)) for s in _stretches(p, slots)
        ]
        journal.call(_put_stretches, [(a, s, a[s].copy()) for s in stretches for a in arrays])

    def _all_leave(self, time: int) -> bool:
        """Whether many rows are held, and none is younger than a time."""
        last = (int(self._state[1]) - 1) & (len(self._stamps) - 1)
        return len(self) > FEW_SLOTS and int(self._stamps[last]) <= time

    def settle(self, journal: Journal) -> None:  # noqa: ARG002
        """Copy some slots to the next ring, if there should be one, and take it when all are there.

        Runtime: O(rows that came and left).
        """
        if len(self._stamps) < FEW_SLOTS:
            return
        free, n = self._free(), len(self)
        before, ring = self._numbers(self._before), self._next
        if ring is None or ring.seen != before or 16 * n > 15 * len(ring):
            size = self._better_size(n)
            self._next = None
            if size == len(self._stamps):
                return
            ring = _NextRing(self._buffers(size), int(self._state[0]))
        self._copy_to(ring, before)
        done = ring.moved == int(self._state[1])
        self._next = None if done else ring
        if done:
            # What is freed with this call is dropped: the call may still be undone.
            self._last = self._arrays() if len(self._stamps) > free else ()
            *slots, self._stamps = ring.arrays
            self._slots = tuple(slots)

    def _free(self) -> int:
        """Free some of the ring before, as many take long; return how many more slots may be freed."""
        evicts = int(self._state[0]) - int(self._before[0])
        most = max(FREED, 2 * MOVED * (self._rows + evicts))
        held = len(self._last[0]) if self._last else 0
        for array in self._last:
            array.resize(max(held - most, 0), refcheck=False)
        self._last = self._last if held > most else ()
        return max(most - held, 0)

    def _better_size(self, n: int) -> int:
        """Return twice the slots when nearly all are in use, fewer when less than an eighth is."""
        slots = len(self._stamps)
        if 16 * n > 15 * slots and slots < (self._most or 2 * slots):
            return 2 * slots
        return max(FEW_SLOTS, 1 << (4 * n).bit_length()) if 8 * n < slots > FEW_SLOTS else slots

    def _copy_to(self, ring: _NextRing, before: list[int]) -> None:
        """Copy what the rows of a push wrote, and then some slots more."""
        now, held = self._numbers(self._state), self._arrays()
        (f, e), evicts = now[:2], now[0] - before[0]
        ring.seen = None  # until all is copied
        for p in written(before, self._rows, evicts):
            ring.copy(held, max(p.start, ring.start, f), min(p.stop, ring.moved, e))
        start = max(ring.moved, f)
        ring.moved = min(start + MOVED * (self._rows + evicts), e)
        ring.copy(held, start, ring.moved)
        ring.seen = now

    def _numbers(self, state: tuple[Any, ...]) -> list[int]:
        """Return the pointers of a state."""
        return [int(p) for p in state[: self._pointers]]

    def _arrays(self) -> tuple[Array, ...]:
        return (*self._slots, self._stamps)

    def _buffers(self, size: int) -> tuple[Array, ...]:
        """Return slots and stamps; stamps that are never written are the same in all snapshots."""
        return (*self._kernels.buffer(size), np.zeros(size, np.int64))

    def _typed(self) -> tuple[Any, ...]:
        """Return the state in the types that the kernels were compiled for."""
        return self._kernels.typed(self._state, self._algorithm)

    def _grow(self, needed: int) -> None:
        """Make room for so many rows at once, if there is none: so many are few, or came at once."""
        if needed <= len(self._stamps):
            return
        f, e = int(self._state[0]), int(self._state[1])
        ring = _NextRing(self._buffers(1 << (needed - 1).bit_length()), f)
        ring.copy(self._arrays(), f, e)
        *slots, self._stamps = ring.arrays
        self._slots, self._next = tuple(slots), None

    def save(self) -> dict[str, Any]:
        """Return the live part of the ring as plain data."""
        live = np.arange(self._state[0], self._state[1]).astype(np.int64) & (len(self._stamps) - 1)
        f, k = self._state[0], self._pointers
        return {
            "dtype": self._dtype.str,
            "form": self._form,
            "fields": [slot[live] for slot in self._slots],
            "stamps": self._stamps[live],
            "pointers": [int(p - f) for p in self._state[:k]],
            "running": [list(_flat(p)) for p in self._state[k:]],
        }

    @classmethod
    def load(
        cls, state: dict[str, Any], aggregate: Aggregate, algorithm: str, _trust: bool
    ) -> "_Ring":
        """Return the ring that was saved."""
        ring = cls(aggregate, algorithm, np.dtype(state["dtype"]), state["form"])
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


def _stretches(positions: range, slots: int) -> list[slice]:
    """Return where positions of a ring lie in its arrays."""
    if len(positions) >= slots:
        return [ALL]
    first = positions.start & (slots - 1)
    end = first + len(positions)
    return [slice(first, end)] if end <= slots else [slice(first, slots), slice(0, end - slots)]


def _put_stretches(held: list[tuple[Array, slice, Array]]) -> None:
    for array, stretch, items in held:
        array[stretch] = items


def _flat(partial: Any) -> tuple[Any, ...]:
    n, x = partial
    return (n, *x) if isinstance(x, tuple) else (n, x)


class _Objects:
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
    ) -> "_Objects":
        """Return the window that was saved."""
        window = _ring_of(algorithm).restore(state["window"], aggregate, trust_functions=trust)
        objects = cls(window, POINTERS[algorithm])
        objects._held = deque((int(stamp), bool(there)) for stamp, there in state["held"])
        objects._present = sum(there for _, there in objects._held)
        if len(objects._held) != len(objects._window):
            raise ValueError(f"{len(objects._held)} times for {len(objects._window)} rows")
        return objects
