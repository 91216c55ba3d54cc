"""A rolling window over a stream of arrays: what one array would give, whatever the cuts.

The window lives between the arrays as an algorithm's own ring: compiled for numbers, the object itself
for everything else. Rows may be null in any array, so partials carry the number of their values.
"""

from collections.abc import Sequence
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
from muntin.dataframes.keyed_rings import Lane, Lanes
from muntin.dataframes.object_ring import ObjectRing, ring_of
from muntin.dataframes.rolling_results import Answer, Labels, write
from muntin.dataframes.rolling_rows import whole_times
from muntin.dataframes.rolling_sizes import scaled
from muntin.journal import Calls, Journal
from muntin.kernels.codegen.build import POINTERS, NotCompilableError
from muntin.kernels.codegen.loop_source import STEPS
from muntin.windows import is_duration, microseconds

FURTHEST = 2**62
"""Times before 0 and sizes go no further, so that their difference fits into 64 bits."""


class Rolling:
    """The aggregate of the last rows, or of the last stretch of time, as arrays come in.

    `size` is a number of rows, or a duration: then each push gives the rows' times. Windows with fewer
    than `min_periods` values (by default `size` rows, or 1 with a duration) have no result. `by` names
    the columns of keys: every key has a window of its own, and each push gives the rows' keys. The rows
    of a key come in the order of their times.
    Runtime: O(rows pushed), whatever the size, and O(1) for each key among them; with DabaLite no row
    takes long. A window for each key is held.

    >>> from muntin import Max, Rolling
    >>> window = Rolling(3, Max(), min_periods=1)
    >>> window.push([5, 1, 2]), window.push([1, 4])
    (array([5, 5, 5]), array([2, 4]))
    >>> window = Rolling(2, Max(), min_periods=1, by="plug")
    >>> window.push([5, 1, 2], by=["tv", "tv", "lamp"]), window.push([1, 4], by=["tv", "lamp"])
    (array([5, 5, 2]), array([1, 4]))
    """

    def __init__(
        self,
        size: Any,
        aggregate: Aggregate,
        *,
        min_periods: int | None = None,
        algorithm: str = "DabaLite",
        by: str | Sequence[str] = (),
    ) -> None:
        if algorithm not in STEPS:
            raise ValueError(f"algorithm must be one of {', '.join(STEPS)}, got {algorithm!r}")
        self._timed = is_duration(size)
        self._size = microseconds(size)
        if not 0 < self._size <= FURTHEST:
            raise ValueError(f"a window's size must be positive and 2**62 at most, got {size!r}")
        self._least = min_periods if min_periods is not None else (1 if self._timed else self._size)
        self._algorithm = algorithm
        self._lanes = Lanes((by,) if isinstance(by, str) else tuple(by))
        self._reach: int | None = None  # the size in the unit of the times
        refuse_conditions(aggregate, "Rolling")
        self.aggregate = aggregate
        self._type: ColumnType | None = None
        self._calls = Calls("a rolling window")

    def __len__(self) -> int:
        return sum(0 if lane.ring is None else len(lane.ring) for lane in self._lanes.lanes)

    @property
    def _ring(self) -> CompiledRing | ObjectRing | None:
        """The ring of the first key, or of all rows if there are no keys."""
        return self._lanes.lanes[0].ring

    @property
    def _last(self) -> int | None:
        """The time of the last row of the first key."""
        return self._lanes.lanes[0].last

    def push(self, values: Any, on: Any = None, by: Any = None) -> Any:
        """Take an array of rows and return a result for each of them; all are taken, or none.

        `on` has the rows' times, `by` their keys: a column, or a list of one for each name.
        """
        with self._calls as journal:
            journal.fields(self)
            column = self._typed(read(values, "values"))
            times = self._times(on, len(column.values))
            parts = self._lanes.parts(by, len(column.values), journal)
            for lane, places in parts:
                journal.fields(lane)
                if times is not None:
                    lane.last = _check_order(times, places, lane.last)
            self._type = self._type or ColumnType.known(column)
            column = replace(column, valid=None) if self.aggregate.counts_rows else column
            answer = self._answer(column, times, parts, journal)
            labels = Labels(kind_of(values), getattr(values, "index", None))
            results = write(answer, self.aggregate, column, labels)
            for lane, _ in parts:
                if lane.ring is not None:
                    lane.ring.settle(journal)
            return results

    def _answer(
        self,
        column: Column,
        times: Array | None,
        parts: list[tuple[Lane, Array | None]],
        journal: Journal,
    ) -> Answer:
        """Return results without those of too few values, and those that do not fit."""
        size, kernel = self._reach or self._size, self.aggregate.kernel
        overflows, found = False, []
        for lane, places in parts:
            lane.ring = ring = lane.ring or self._start(column)
            mine = column if places is None else column.take(places)
            stamps = times if places is None or times is None else times[places]
            found.append(ring.push(mine, stamps, size, journal))
            overflows = ring.overflows
        if not found:  # no rows of any key
            return Answer((np.empty(0),), np.zeros(0, np.bool_))
        arrays, counts = found[0]
        if parts[0][1] is not None:
            back = np.argsort(np.concatenate([places for _, places in parts]))
            columns = zip(*(arrays for arrays, _ in found), strict=True)
            arrays = tuple(np.concatenate(pieces)[back] for pieces in columns)
            counts = np.concatenate([counts for _, counts in found])[back]
        answer = Answer(arrays, counts < max(self._least, 1 if kernel is None else kernel.least))
        if overflows:
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
        if len(times) and int(times.min()) < -FURTHEST:
            row = int(np.argmin(times))
            raise ValueError(f"row {row} has time {int(times[row])}, which is before -2**62")
        return times

    def _scaled(self, stamps: Column) -> int:
        reach = scaled(self._size, stamps)
        if reach > FURTHEST:
            raise ValueError(f"a window of {reach} in the unit of the times is longer than 2**62")
        return reach

    def _start(self, column: Column) -> "CompiledRing | ObjectRing":
        times = column.dtype.kind in "mM" and self.aggregate.kernel is None
        nulls = self.aggregate.nulls and not self.aggregate.counts_rows
        nulls |= isinstance(
            self._lanes.lanes[0].ring, ObjectRing
        )  # all keys have one kind of window
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
            lanes = self._lanes.lanes
            rings = [None if lane.ring is None else lane.ring.save() for lane in lanes]
            lasts = [lane.last for lane in lanes]
            kind = None if self._type is None else self._type.plain()
            if not self._lanes.names:
                return seal([self._identity(), self._reach, lasts[0], kind, rings[0]])
            keys = self._lanes.plain()
            return seal(
                [self._identity(), self._reach, lasts, kind, {"keys": keys, "rings": rings}]
            )

    def _identity(self) -> Identity:
        """Return what a snapshot must agree in with the window that it is restored to."""
        keys = {"by": list(self._lanes.names)} if self._lanes.names else {}
        return {
            **keys,
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
            window._reach = reach
            window._type = None if kind is None else ColumnType.from_plain(kind)
            if window._lanes.names:
                pairs = zip(ring["rings"], last, strict=True)
                lanes = [window._lane(saved, time, trust_functions) for saved, time in pairs]
                window._lanes.restore(ring["keys"], lanes)
            else:
                window._lanes.lanes = [window._lane(ring, last, trust_functions)]
        except DAMAGE as error:
            raise SnapshotError(
                f"the snapshot's state is not that of a window: {error!r}"
            ) from error
        return window

    def _lane(self, ring: Any, last: int | None, trust: bool) -> Lane:
        """Return a key's window that was saved."""
        if ring is None:
            return Lane(None, last)
        held = CompiledRing if "fields" in ring else ObjectRing
        return Lane(held.load(ring, self.aggregate, self._algorithm, trust), last)


def _check_order(times: Array, places: Array | None, last: int | None) -> int | None:
    """Return the time of the last row of a key, or say which row comes before its predecessor."""
    mine = times if places is None else times[places]
    before = mine[:1] if last is None else np.array([last])
    stamps_in_order = np.concatenate((before, mine))
    falls = stamps_in_order[1:] < stamps_in_order[:-1]
    if falls.any():
        at = int(np.argmax(falls))
        row = at if places is None else int(places[at])
        raise ValueError(f"times must not fall: row {row} is at {mine[at]}, before its predecessor")
    return int(mine[-1]) if len(mine) else last
