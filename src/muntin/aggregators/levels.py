"""A level of a tree over the window: aggregates of 2^l neighbouring leaves, oldest first.

Leaves are numbered from the start of the stream; element i of level l stands for the leaves
[i 2^l, (i+1) 2^l), so its parent is element i // 2 of level l + 1 and its sibling is i ^ 1. A level
is a queue: elements are appended at the tail and dropped at the head (TPDS 2019, section 4.1.4). In
memory it is made of chunks (`chunks.py`): no element is copied, and what is dropped is freed at once.
"""

from collections.abc import Callable, Iterator
from typing import Any, Self

from muntin.aggregators.aggregator import Combine, Partial
from muntin.aggregators.chunks import BITS, LOW, SIZE, Chunks


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
    """A level in memory, in chunks.

    Runtime: access and append O(1); dropping O(1) for each chunk of elements that goes.
    """

    __slots__ = ("_chunks",)

    def __init__(self, head: int, elements: list[Partial] | None = None) -> None:
        super().__init__(head)
        self._chunks = Chunks(head >> BITS)
        self._chunks.open(head >> BITS, head & LOW)
        self.extend(elements or [])

    def __getitem__(self, i: int) -> Partial:
        chunks = self._chunks
        return chunks.table[i >> BITS & chunks.mask][i & LOW]

    def __setitem__(self, i: int, partial: Partial) -> None:
        chunks = self._chunks
        chunks.table[i >> BITS & chunks.mask][i & LOW] = partial

    def append(self, partial: Partial) -> None:
        chunks, i = self._chunks, self.tail
        if not i & LOW:
            chunks.open(i >> BITS, 0)
        chunks.table[i >> BITS & chunks.mask].append(partial)
        self.tail = i + 1

    def extend(self, partials: list[Partial]) -> None:
        chunks, start = self._chunks, 0
        while start < len(partials):
            number, place = self.tail >> BITS, self.tail & LOW
            chunks.open(number, 0)
            some = partials[start : start + SIZE - place]
            chunks.table[number & chunks.mask] += some
            self.tail += len(some)
            start += len(some)

    def shorten(self, n: int) -> None:
        self.tail -= n
        number, chunks = self.tail >> BITS, self._chunks
        chunks.cut(number + 1)
        if number < chunks.end:
            del chunks.table[number & chunks.mask][self.tail & LOW :]

    def drop_until(self, head: int) -> None:
        start, self.head = max(self.head, head & ~LOW), head
        chunks = self._chunks
        chunks.close(head >> BITS)
        if head & LOW:
            places = slice(start & LOW, head & LOW)
            chunks.table[head >> BITS & chunks.mask][places] = [None] * (head - start)

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
