"""A rolling window over a stream of arrays: what one array would give, whatever the cuts.

The window lives between the arrays as an algorithm's own ring: compiled for numbers, the object itself
for everything else. Rows may be null in any array, so partials carry the number of their values.
"""

from dataclasses import replace
from typing import Any, Self

import numpy as np

from muntin.aggregates import Aggregate, SnapshotError, seal, unseal
from muntin.aggregates.conditions import refuse_conditions
from muntin.aggregates.encoding import DAMAGE
from muntin.aggregates.identity import Identity, differences, identity_of
from muntin.dataframes.column_fitting import fit
from muntin.dataframes.column_types import ColumnType, check_takes
from muntin.dataframes.columns import Array, Column, kind_of, read
from muntin.dataframes.compiled_ring import CompiledRing
from muntin.dataframes.object_ring import ObjectRing, ring_of
from muntin.dataframes.rolling_results import Answer, Labels, write
from muntin.dataframes.rolling_rows import whole_times
from muntin.dataframes.rolling_sizes import scaled
from muntin.journal import Calls
from muntin.kernels.codegen.build import POINTERS, NotCompilableError
from muntin.kernels.codegen.loop_source import STEPS
from muntin.windows import is_duration, microseconds

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
        refuse_conditions(aggregate, "Rolling")
        self.aggregate = aggregate
        self._ring: CompiledRing | ObjectRing | None = None
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

    def _start(self, column: Column) -> "CompiledRing | ObjectRing":
        times = column.dtype.kind in "mM" and self.aggregate.kernel is None
        nulls = self.aggregate.nulls and not self.aggregate.counts_rows
        if column.is_numeric and not (times or nulls) and self.aggregate.rank is None:
            try:
                form = ColumnType.of(column).form
                return CompiledRing(self.aggregate, self._algorithm, column.values.dtype, form)
            except NotCompilableError:
                pass
        return ObjectRing(ring_of(self._algorithm)(self.aggregate), POINTERS[self._algorithm])

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
                held = CompiledRing if "fields" in ring else ObjectRing
                window._ring = held.load(ring, aggregate, window._algorithm, trust_functions)
        except DAMAGE as error:
            raise SnapshotError(
                f"the snapshot's state is not that of a window: {error!r}"
            ) from error
        return window
