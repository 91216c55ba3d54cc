"""A level of a tree over the window: aggregates of 2^l neighbouring leaves, oldest first.

Leaves are numbered from the start of the stream; element i of level l stands for the leaves
[i 2^l, (i+1) 2^l), so its parent is element i // 2 of level l + 1 and its sibling is i ^ 1. A level
is a queue: elements are appended at the tail and dropped at the head.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from muntin.aggregators.aggregator import Partial


class Level:
    """Elements with fixed numbers in [head, tail).

    Runtime: access and append O(1); dropping any number moves the head and frees amortised O(1) each.
    """

    __slots__ = ("_base", "_elements", "head")

    def __init__(self, head: int, elements: list[Partial] | None = None) -> None:
        self.head = head
        self._base = head
        self._elements: list[Partial] = elements if elements is not None else []

    @property
    def tail(self) -> int:
        """The number that the next element will get."""
        return self._base + len(self._elements)

    def __len__(self) -> int:
        return self._base + len(self._elements) - self.head

    def __getitem__(self, i: int) -> Partial:
        return self._elements[i - self._base]

    def __iter__(self) -> Iterator[Partial]:
        return islice(self._elements, self.head - self._base, None)

    def __setitem__(self, i: int, partial: Partial) -> None:
        self._elements[i - self._base] = partial

    def append(self, partial: Partial) -> None:
        """Add an element at the tail."""
        self._elements.append(partial)

    def pop(self) -> None:
        """Take the last element back."""
        self._elements.pop()

    def drop_until(self, head: int) -> None:
        """Drop every element before the given number; the level must reach that far."""
        elements, dead = self._elements, head - self._base
        if 2 * dead >= len(elements):
            del elements[:dead]
            self._base = head
        else:
            gone = slice(self.head - self._base, dead)
            elements[gone] = [None] * (head - self.head)
        self.head = head

    def pair(self, i: int, combine: Callable[[Partial, Partial], Partial]) -> Partial:
        """Combine element i with its sibling; a sibling that is not there is left out."""
        left, right = i & ~1, i | 1
        if left < self.head:
            return self[right]
        if right >= self.tail:
            return self[left]
        return combine(self[left], self[right])

    def pairs(self) -> int:
        """Count the pairs of siblings that have at least one element."""
        return ((self.tail - 1) >> 1) - (self.head >> 1) + 1 if len(self) else 0

    def save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        """Return the level as plain data."""
        elements = self._elements[self.head - self._base :]
        return {"head": self.head, "elements": [encode(element) for element in elements]}

    @classmethod
    def load(cls, state: dict[str, Any], decode: Callable[[Any], Partial]) -> "Level":
        """Return the level that was saved."""
        if not isinstance(state["head"], int) or state["head"] < 0:
            raise ValueError(f"a level's head is a number of 0 or more, got {state['head']!r}")
        return cls(state["head"], [decode(element) for element in state["elements"]])


NewLevel = Callable[[int, int], Level]
"""Makes an empty level, given its number and that of its first element."""


def in_memory(number: int, head: int) -> Level:
    """Make a level whose elements are all in memory."""
    del number
    return Level(head)
