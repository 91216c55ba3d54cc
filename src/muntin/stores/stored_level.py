"""A level whose middle is in a store: memory holds its head, to be evicted, and its tail, just inserted.

TPDS 2019, section 4.1.5: tails, store and cache. Elements before `written` are in the store, in blocks;
those from `_base` on are in memory, always with the last two, which the next insert combines. The blocks
at the head are cached; the one behind is asked for when its neighbour is begun. Any other element is
fetched with its block when it is read.
Invariant: head <= written unless all that was written is gone, _base <= max(head, written).
Where we differ: a block at a time is cached and not a number of elements, as it is stored.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from muntin.aggregators.aggregator import Partial
from muntin.aggregators.levels import Level
from muntin.stores.store import StoreError
from muntin.stores.window_blocks import Blocks

AT_ONCE = 64  # blocks per get when a level is read from end to end


class StoredLevel(Level):
    """Elements with fixed numbers in [head, tail), most of them in a store."""

    __slots__ = (
        "_base", "_blocks", "_cache", "_coming", "_elements", "_first", "_number", "_size", "written",
    )  # fmt: skip

    def __init__(
        self, blocks: Blocks, number: int, head: int, elements: list[Partial] | None = None
    ) -> None:
        super().__init__(head)
        self._base = head
        self._elements: list[Partial] = []
        self.extend(elements or [])
        self._blocks = blocks
        self._number = number
        self._size = blocks.size(number)
        self._cache: dict[int, list[Partial]] = {}
        self._first = head // self._size  # the block that the head is in
        self._coming: tuple[int, Future[list[Partial]]] | None = None
        self.written = head

    @property
    def held(self) -> int:
        """How many elements are in memory."""
        return len(self._elements) + sum(map(len, self._cache.values()))

    def __getitem__(self, i: int) -> Partial:
        if i >= self._base:
            return self._elements[i - self._base]
        number = i // self._size
        block = self._cache.get(number)
        if block is None:
            block = self._fetched(number)
        # From its end: the first elements may have been gone when the block was written.
        return block[i % self._size - self._size]

    def __iter__(self) -> Iterator[Partial]:
        size, end = self._size, self._base
        stop = -(-end // size) if self.head < end else 0
        for start in range(self._first, stop, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, stop))
            blocks = self._blocks.read([(self._number, number) for number in numbers])
            for number, block in zip(numbers, blocks, strict=True):
                first, last = max(self.head, number * size), min(end, (number + 1) * size)
                yield from block[first - (number + 1) * size : last - (number + 1) * size or None]
        yield from self._elements

    def append(self, partial: Partial) -> None:
        self._elements.append(partial)
        self.tail += 1

    def extend(self, partials: list[Partial]) -> None:
        self._elements += partials
        self.tail += len(partials)

    def shorten(self, n: int) -> None:
        self.tail -= n
        del self._elements[self.tail - self._base :]

    def drop_until(self, head: int) -> None:
        self.head = head
        if head > self._base:
            del self._elements[: head - self._base]
            self._base = head
        first = head // self._size
        if first != self._first:
            self._first = first
            self._cache = {n: block for n, block in self._cache.items() if n >= first}
            if (first + 1) * self._size < self._base and first + 1 not in self._cache:
                self._coming = first + 1, self._blocks.read_soon((self._number, first + 1))

    def needs(self, i: int) -> int | None:
        """Return the block that element i would have to be fetched with, if it would."""
        number = i // self._size
        return number if self.head <= i < self._base and number not in self._cache else None

    def cache(self, number: int, block: list[Partial]) -> None:
        """Keep a block, those at the head, and no other."""
        self._cache = {n: kept for n, kept in self._cache.items() if 0 <= n - self._first <= 1}
        self._cache[number] = block

    def _fetched(self, number: int) -> list[Partial]:
        block = None
        if self._coming is not None and self._coming[0] == number:
            (_, coming), self._coming = self._coming, None
            if not coming.cancel():  # it was begun: not behind some long deletion
                with suppress(StoreError):  # the store may be back by now
                    block = coming.result()
        if block is None:
            [block] = self._blocks.read([(self._number, number)])
        self.cache(number, block)
        return block

    def full(self) -> dict[int, list[Partial]]:
        """Return the blocks that are full and not yet in the store, by their numbers."""
        size, tail = self._size, self.tail
        start = max(self.written, self.head)
        blocks = {}
        for number in range(start // size, tail // size):
            first = max(start, number * size) - self._base
            blocks[number] = self._elements[first : (number + 1) * size - self._base]
        return blocks

    def settled(self) -> tuple[int, int]:
        """Return `written` and the first number in memory as they are once full blocks are stored."""
        tail = self.tail
        written = max(self.written, tail // self._size * self._size)
        return written, max(min(written, tail - 2), self._base)

    def settle(self, blocks: dict[int, list[Partial]]) -> None:
        """Forget what is now in the store, except for blocks at the head."""
        self._cache |= {n: block for n, block in blocks.items() if 0 <= n - self._first <= 1}
        self.written, base = self.settled()
        del self._elements[: base - self._base]
        self._base = base

    def outline(self, encode: Callable[[list[Partial]], Any]) -> list[Any]:
        """Return as plain data what is not in blocks once full ones are."""
        written, base = self.settled()
        return [self.head, written, base, encode(self._elements[base - self._base :])]

    @classmethod
    def load_outline(
        cls, blocks: Blocks, number: int, outline: list[Any], decode: Callable[[Any], list[Partial]]
    ) -> "StoredLevel":
        """Return the level of an outline; its blocks stay where they are."""
        head, written, base, plain = outline
        level = cls(blocks, number, base, decode(plain))
        if not 0 <= head <= level.tail or not base <= max(head, written):
            raise ValueError(f"a level from {head} to {level.tail} of which {written} are written")
        level.head, level.written, level._first = head, written, head // level._size
        return level
