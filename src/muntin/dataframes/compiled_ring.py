"""A rolling window on numbers between two arrays: a ring of slots for compiled step functions.

Whenever the ring must grow or shrink, its slots move to another ring, a few for each row that comes or
leaves, so that no push copies the whole window.
"""

from bisect import bisect_left
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregators.ring import written
from muntin.dataframes.columns import Array, Column
from muntin.journal import Journal
from muntin.kernels.codegen.build import POINTERS, Compiled, compiled
from muntin.kernels.codegen.layout import Layout

U = np.uint64
ALL = slice(None)
FEW_SLOTS = 1024
"""A ring with fewer slots is copied as a whole."""
MOVED = 32
"""Slots that move to the next ring for each row that comes or leaves."""
FREED = 8192
"""Slots of the ring before that are freed with a push, or more if many rows leave."""


class NextRing:
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


class CompiledRing:
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
        self._next: NextRing | None = None
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
            ring = NextRing(self._buffers(size), int(self._state[0]))
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

    def _copy_to(self, ring: NextRing, before: list[int]) -> None:
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
        """Make room for a number of rows at once, if there is none: they are few, or came at once."""
        if needed <= len(self._stamps):
            return
        f, e = int(self._state[0]), int(self._state[1])
        ring = NextRing(self._buffers(1 << (needed - 1).bit_length()), f)
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
    ) -> "CompiledRing":
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
