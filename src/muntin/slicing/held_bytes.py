"""How many bytes a state holds: arrays exactly, Python's objects by a sample.

An object is what `sys.getsizeof` says, and what it refers to, each thing once. Of a container with more
than a few items, some that are evenly spread stand for all of them: an estimate that is near the truth
unless a few items are much larger than the others. Cost: O(arrays), however much is held.
Functions, modules and what describes a query belong to no state and count nothing.
"""

import sys
from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.limits import Array
from muntin.windows import Window

FEW = 24
"""Of a container with no more items, all are measured."""
MANY, SOME = 48, 8
"""How many items are measured of a container that belongs to the state, and of one inside an item."""
NOTHING = (
    type, FunctionType, BuiltinFunctionType, MethodType, ModuleType, Aggregate, SliceKernels, Window,
)  # fmt: skip
SMALL_INTS = range(-5, 257)
"""Whole numbers that Python has only once."""


class Measure:
    """The bytes of things that belong together, of which each is counted once."""

    def __init__(self, others: Collection[Any] = ()) -> None:
        self._seen = {id(other) for other in others}

    def fields(self, thing: Any) -> int:
        """Return the bytes of what an object's attributes refer to."""
        return int(sum(self._bytes(value, MANY) for value in vars(thing).values()))

    def objects(self, items: list[Any], count: int) -> int:
        """Return the bytes of a number of objects, of which some are given."""
        return int(self._mean(items, SOME) * count)

    def _bytes(self, thing: Any, most: int) -> float:
        if thing is None or isinstance(thing, NOTHING) or id(thing) in self._seen:
            return 0
        if type(thing) is bool or (type(thing) is int and thing in SMALL_INTS):
            return 0
        self._seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            return self._array(thing, most)
        size: float = sys.getsizeof(thing)
        if isinstance(thing, dict):
            size += self._items(thing.keys(), most) + self._items(thing.values(), most)
        elif isinstance(thing, list | tuple | set | frozenset | deque):
            size += self._items(thing, most)
        return size + sum(self._bytes(value, most) for value in _attributes(thing))

    def _array(self, array: Array, most: int) -> float:
        size = array.nbytes + sys.getsizeof(array) - (array.nbytes if array.base is None else 0)
        return size + (self._items(array.ravel(), most) if array.dtype == object else 0)

    def _items(self, items: Any, most: int) -> float:
        """Return the bytes of a container's items, without its own."""
        count = len(items)
        if count <= FEW:
            return sum(self._bytes(item, SOME) for item in items)
        return self._mean(list(islice(items, 0, None, -(-count // most))), SOME) * count

    def _mean(self, items: list[Any], most: int) -> float:
        return sum(self._bytes(item, most) for item in items) / max(len(items), 1)


def sampled(count: int) -> Array:
    """Return some of the first whole numbers, evenly spread."""
    return np.arange(count) if count <= MANY else np.linspace(0, count - 1, MANY).astype(np.int64)


def _attributes(thing: Any) -> Iterator[Any]:
    if hasattr(thing, "__dict__"):
        yield vars(thing)
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                yield getattr(thing, name, None)
