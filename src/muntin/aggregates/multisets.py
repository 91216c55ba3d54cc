"""What a window holds, as multisets that change in place while the window slides.

A window over slices keeps one between reports (`kernels/loops/kept_windows.py`): the partials of slices
go in and come out again, and nothing is merged. Ranked values lie in order in short blocks, so that a
value is found, added or removed in O(log n + block), and one of a rank in O(n / block + block).
"""

import math
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import Any

BLOCK = 256
"""A block has at most twice as many different values."""
PACKED = {float: "d", int: "q"}
"""Types of values that lie side by side in memory, where a search does not fetch each from elsewhere."""


class DistinctValues:
    """In how many slices each value occurs."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        self._slices: dict[Any, int] = {}

    def add(self, partial: frozenset[Any]) -> None:
        """Add the values of a slice."""
        slices = self._slices
        for value in partial:
            slices[value] = slices.get(value, 0) + 1

    def remove(self, partial: frozenset[Any]) -> None:
        """Remove the values of a slice."""
        slices = self._slices
        for value in partial:
            count = slices[value]
            if count == 1:
                del slices[value]
            else:
                slices[value] = count - 1

    def result(self) -> int:
        """Return the number of different values."""
        return len(self._slices)


class RankedValues:
    """Values in order, with how often each occurs, and the statistic that is asked of them.

    `statistic` gets the number of values and a function that returns the value of a rank. NaN is only
    counted: it ranks above every number.
    """

    __slots__ = (
        "_blocks",
        "_counts",
        "_last",
        "_nans",
        "_packed",
        "_statistic",
        "_up_to",
        "_weights",
    )

    def __init__(self, statistic: Callable[[int, Callable[[int], Any]], Any]) -> None:
        self._statistic = statistic
        self._packed: type | None = None  # of the values, if all are of one of the types PACKED
        self._blocks: list[Any] = []  # different values in order, cut into blocks
        self._counts: list[list[int]] = []  # beside each: how often it occurs
        self._last: Any = []  # per block: its last value
        self._weights: list[int] = []  # per block: the number of values in it
        self._up_to: list[int] = []  # per block: the number of values up to its end, for a result
        self._nans = 0

    def add(self, partial: tuple[tuple[Any, ...], tuple[int, ...], int]) -> None:
        """Add the values of a slice."""
        values, counts, nans = partial
        self._nans += nans
        for value, count in zip(values, counts, strict=True):
            self._add(value, count)

    def remove(self, partial: tuple[tuple[Any, ...], tuple[int, ...], int]) -> None:
        """Remove the values of a slice."""
        values, counts, nans = partial
        self._nans -= nans
        for value, count in zip(values, counts, strict=True):
            self._remove(value, count)

    def result(self) -> Any:
        """Return the statistic of all values."""
        self._up_to = list(accumulate(self._weights))
        return self._statistic((self._up_to[-1] if self._up_to else 0) + self._nans, self._at)

    def _at(self, rank: int) -> Any:
        """Return the value of the given rank, counted from 1; NaN behind the last."""
        b = bisect_left(self._up_to, rank)
        if b == len(self._up_to):
            return float("nan")
        rank -= self._up_to[b] - self._weights[b]
        block = self._blocks[b]
        if len(block) == self._weights[b]:  # each occurs once
            return block[rank - 1]
        return block[bisect_left(list(accumulate(self._counts[b])), rank)]

    def _add(self, value: Any, count: int) -> None:
        if not self._blocks:
            self._begin(value, count)
            return
        if self._packed is not None and type(value) is not self._packed:
            self._unpack()
        b = min(bisect_left(self._last, value), len(self._last) - 1)
        block, counts = self._blocks[b], self._counts[b]
        i = bisect_left(block, value)
        if i < len(block) and block[i] == value:
            self._weights[b] += count
            counts[i] += count
            return
        try:
            block.insert(i, value)
        except OverflowError:  # a whole number of more than 64 bits
            self._unpack()
            block = self._blocks[b]
            block.insert(i, value)
        self._weights[b] += count
        counts.insert(i, count)
        self._last[b] = block[-1]
        if len(block) > 2 * BLOCK:
            self._put(b + 1, block[BLOCK:], counts[BLOCK:])
            del block[BLOCK:], counts[BLOCK:]
            self._last[b], self._weights[b] = block[-1], sum(counts)

    def _begin(self, value: Any, count: int) -> None:
        """Take the first value, whose type says how values are held."""
        code = PACKED.get(type(value))
        self._packed = type(value) if code else None
        self._last = array(code) if code else []
        try:
            self._put(0, array(code, [value]) if code else [value], [count])
        except OverflowError:
            self._unpack()
            self._put(0, [value], [count])

    def _unpack(self) -> None:
        """Hold values of any type from now on."""
        self._packed = None
        self._blocks, self._last = [list(block) for block in self._blocks], list(self._last)

    def _put(self, b: int, block: Any, counts: list[int]) -> None:
        """Put in a new block before block b."""
        self._blocks.insert(b, block)
        self._counts.insert(b, counts)
        self._last.insert(b, block[-1])
        self._weights.insert(b, sum(counts))

    def _remove(self, value: Any, count: int) -> None:
        b = bisect_left(self._last, value)
        block, counts = self._blocks[b], self._counts[b]
        i = bisect_left(block, value)
        self._weights[b] -= count
        counts[i] -= count
        if counts[i]:
            return
        del block[i], counts[i]
        if block:
            self._last[b] = block[-1]
        else:
            del self._blocks[b], self._counts[b], self._last[b], self._weights[b]


class CountedValues(ABC):
    """How often each value occurs; NaN is one value."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}

    def add(self, partial: tuple[tuple[Any, ...], tuple[int, ...], int]) -> None:
        """Add the values of a slice."""
        for value, count in _counted(partial):
            self._change(value, count)

    def remove(self, partial: tuple[tuple[Any, ...], tuple[int, ...], int]) -> None:
        """Remove the values of a slice."""
        for value, count in _counted(partial):
            self._change(value, -count)

    @abstractmethod
    def result(self) -> Any:
        """Return the statistic of all values."""

    @abstractmethod
    def _note(self, value: Any, before: int, after: int) -> None:
        """Note that a value occurs more or less often than before."""

    def _change(self, value: Any, by: int) -> None:
        before = self._counts.get(value, 0)
        after = before + by
        if after:
            self._counts[value] = after
        else:
            del self._counts[value]
        self._note(value, before, after)


class Frequencies(CountedValues):
    """How many values occur how often, and the statistic that is asked of that.

    `statistic` gets, per number of times, how many different values occur so often.
    """

    __slots__ = ("_often", "_statistic")

    def __init__(self, statistic: Callable[[dict[int, int]], Any]) -> None:
        super().__init__()
        self._statistic = statistic
        self._often: dict[int, int] = {}  # per number of times: how many values occur so often

    def result(self) -> Any:
        """Return the statistic of all values."""
        return self._statistic(self._often)

    def _note(self, value: Any, before: int, after: int) -> None:  # noqa: ARG002
        often = self._often
        if after:
            often[after] = often.get(after, 0) + 1
        if before:
            often[before] -= 1
            if not often[before]:
                del often[before]


class MostFrequent(CountedValues):
    """The most frequent value, the smallest of equals.

    A heap has an entry for each change. One that a later change made wrong goes when it is at the top,
    or when such entries are more than the values.
    """

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[int, bool, Any]] = []  # (minus how often, whether it is NaN, value)

    def result(self) -> Any:
        """Return the most frequent value, or None."""
        while self._heap:
            count, _, value = self._heap[0]
            if self._counts.get(value) == -count:
                return value
            heappop(self._heap)
        return None

    def _note(self, value: Any, before: int, after: int) -> None:  # noqa: ARG002
        if after:
            heappush(self._heap, (-after, value != value, value))
        if len(self._heap) > 2 * len(self._counts) + BLOCK:
            self._heap = [(-count, v != v, v) for v, count in self._counts.items()]
            heapify(self._heap)


def _counted(
    partial: tuple[tuple[Any, ...], tuple[int, ...], int],
) -> Iterator[tuple[Any, int]]:
    """Return the values of a slice with how often each occurs; NaN is one value."""
    values, counts, nans = partial
    yield from zip(values, counts, strict=True)
    if nans:
        yield math.nan, nans
