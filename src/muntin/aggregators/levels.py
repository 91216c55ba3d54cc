"""A level of a tree over the window: aggregates of 2^l neighbouring leaves, oldest first.

Leaves are numbered from the start of the stream; element i of level l stands for the leaves
[i 2^l, (i+1) 2^l), so its parent is element i // 2 of level l + 1 and its sibling is i ^ 1. A level
is a queue: elements are appended at the tail and dropped at the head. To drop costs the same however
many go (TPDS 2019, section 4.1.4): what a bulk eviction drops is freed by the insertions that follow,
four elements for each.
"""

from collections.abc import Callable, Iterator
from typing import Any, Self

from muntin.aggregators.aggregator import Combine, Partial

FREED_PER_INSERTION = 4
FREED_AT_ONCE = 32


class Level:
    """Elements with fixed numbers in [head, tail); where they are is for a subclass to say."""

    __slots__ = ("head", "tail")

    def __init__(self, head: int) -> None:
        self.head = head
        self.tail = head  # the number that the next element will get

    def __len__(self) -> int:
        return self.tail - self.head

    def __getitem__(self, i: int) -> Partial:
        raise NotImplementedError

    def __setitem__(self, i: int, partial: Partial) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Partial]:
        return (self[i] for i in range(self.head, self.tail))

    def append(self, partial: Partial) -> None:
        """Add an element at the tail."""
        raise NotImplementedError

    def extend(self, partials: list[Partial]) -> None:
        """Add several elements at the tail."""
        raise NotImplementedError

    def shorten(self, n: int) -> None:
        """Take the last n elements back."""
        raise NotImplementedError

    def drop_until(self, head: int) -> None:
        """Drop every element before the given number; the level must reach that far."""
        raise NotImplementedError

    def bury(self, level: "Level") -> None:
        """Take over what a level held that is no longer used, if that should not be freed at once."""

    def pair(self, i: int, combine: Combine) -> Partial:
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
        return {"head": self.head, "elements": [encode(element) for element in self]}


class MemoryLevel(Level):
    """A level in memory.

    Runtime: access O(1), append amortised O(1), dropping any number O(1).
    """

    __slots__ = ("_base", "_buried", "_elements", "_freed")

    def __init__(self, head: int, elements: list[Partial] | None = None) -> None:
        super().__init__(head)
        self._base = head
        self._freed = head  # elements before this number are not referred to any more
        self._buried: list[list[Partial]] = []
        self._elements: list[Partial] = []
        self.extend(elements or [])

    def __getitem__(self, i: int) -> Partial:
        return self._elements[i - self._base]

    def __setitem__(self, i: int, partial: Partial) -> None:
        self._elements[i - self._base] = partial

    def append(self, partial: Partial) -> None:
        self._elements.append(partial)
        self.tail += 1
        if self._freed < self.head or self._buried:
            self._free(FREED_PER_INSERTION)

    def extend(self, partials: list[Partial]) -> None:
        self._elements += partials
        self.tail += len(partials)
        self._free(FREED_PER_INSERTION * len(partials))

    def shorten(self, n: int) -> None:
        self.tail -= n
        del self._elements[self.tail - self._base :]

    def drop_until(self, head: int) -> None:
        self.head = head
        if head - self._freed <= FREED_AT_ONCE:
            self._free(FREED_AT_ONCE)

    def _free(self, n: int) -> None:
        """Forget up to n elements that were dropped."""
        elements, base, start = self._elements, self._base, self._freed
        self._freed = end = min(self.head, start + n)
        if 2 * (end - base) >= len(elements):
            del elements[: end - base]
            self._base = end
        else:
            elements[start - base : end - base] = [None] * (end - start)
        if self._buried and n:
            del self._buried[-1][-n:]
            if not self._buried[-1]:
                self._buried.pop()

    def bury(self, level: Level) -> None:
        if isinstance(level, MemoryLevel) and level._elements:
            self._buried.append(level._elements)

    @classmethod
    def load(cls, state: dict[str, Any], decode: Callable[[Any], Partial]) -> Self:
        """Return the level that was saved."""
        if not isinstance(state["head"], int) or state["head"] < 0:
            raise ValueError(f"a level's head is a number of 0 or more, got {state['head']!r}")
        return cls(state["head"], [decode(element) for element in state["elements"]])


NewLevel = Callable[[int, int], Level]
"""Makes an empty level, given its number and that of its first element."""


def in_memory(number: int, head: int) -> Level:
    """Make a level whose elements are all in memory."""
    del number
    return MemoryLevel(head)
