"""A table of chunks: the slots of a queue, none of which is ever copied.

VLDB Journal 2021, section 4, Definition 4: a double-ended queue of chunked arrays, whose pointers move,
read and write in worst-case O(1). Position p lies in table[p >> BITS & mask][p & LOW]. A chunk is made
when its first position is about to be written, and freed when its last position was left behind.
The table is a ring of references to chunks. Before it is full, the next table is filled beside it, a
few references per chunk that comes or goes, and takes its place when it is complete. In the same way the
table shrinks when little of it is used.
Invariant: the chunks [first, end) are held and no others; the next table lacks only those from `_moved`
to where the table ended when the next was begun.
No operation copies more than MOVED references, and what is held is O(what is in use).
"""

from typing import Any

from muntin.aggregators.aggregator import require

BITS = 6
SIZE = 1 << BITS
"""Slots in a chunk."""
LOW = SIZE - 1
"""p & LOW is the place of position p in its chunk."""
MOVED = 8
"""References that are copied, at most, when a chunk comes or goes."""
FEWEST = 4
"""References in the smallest table."""

Table = list[Any]
"""A list of chunks, which are lists; in compiled code an array per field of a partial."""
Saved = tuple[Table, int, int, int, list[Any]]


def empty_slots(n: int) -> list[Any]:
    """Return n slots without content, or n places for chunks."""
    return [None] * n


class Chunks:
    """The chunks of a queue, by consecutive numbers: they come at the end and go at the front."""

    __slots__ = ("_moved", "_next", "end", "first", "mask", "table")

    def __init__(self, first: int = 0) -> None:
        self.table: Table = empty_slots(FEWEST)
        self.mask = FEWEST - 1
        self.first = self.end = first
        self._next: Table | None = None
        self._moved = first

    def open(self, number: int, slots: int = SIZE) -> None:
        """Make the chunk with the number after the last, unless it is there.

        Whoever appends to a chunk has it made with as many slots as lie before the first. Runtime: O(1),
        at most MOVED references are copied.
        """
        if number < self.end:
            return
        while self.end - self.first > self.mask:  # only after a restart of the next table
            self._move()
        chunk = empty_slots(slots)
        self.table[number & self.mask] = chunk
        if self._next is not None:
            self._next[number & (len(self._next) - 1)] = chunk
        self.end = number + 1
        self._move()

    def close(self, number: int) -> None:
        """Free the chunks before this number. Runtime: O(1) per chunk that goes."""
        while self.first < min(number, self.end):
            self._forget(self.first)
            self.first += 1
            self._move()

    def cut(self, number: int) -> None:
        """Free the chunks from this number on. Runtime: O(1) per chunk that goes."""
        while self.end > max(number, self.first):
            self.end -= 1
            self._forget(self.end)
        self._moved = min(self._moved, self.end)

    def save(self, numbers: range) -> Saved:
        """Return what `put_back` needs to undo calls that free no other chunks than these."""
        chunks = [self.table[c & self.mask] for c in numbers]
        return self.table, self.first, self.end, numbers.start, chunks

    def put_back(self, saved: Saved) -> None:
        """Hold the chunks that were held when this was saved; the next table begins again."""
        came = self.end
        self.table, self.first, self.end, start, chunks = saved
        self.mask = len(self.table) - 1
        for c in range(self.end, min(came, self.first + len(self.table))):
            self.table[c & self.mask] = None
        for c, chunk in enumerate(chunks, start):
            self.table[c & self.mask] = chunk
        self._next = None

    def held(self) -> int:
        """Count the slots and references that are held."""
        tables = len(self.table) + len(self._next or ())
        return tables + sum(len(chunk) for chunk in self.table if chunk is not None)

    def check(self, start: int, end: int) -> None:
        """Raise InvariantError unless exactly the chunks of positions [start, end) are held.

        The chunks at which the positions start and end may be there too.
        """
        first, last = start >> BITS, (end - 1 >> BITS) + 1
        require(self.first == first or self.first == self.end, f"chunks begin at {self.first}")
        require(start == end or last <= self.end <= last + 1, f"chunks end at {self.end}")
        held = {c & self.mask for c in range(self.first, self.end)}
        for i, chunk in enumerate(self.table):
            require((chunk is not None) == (i in held), f"chunk {i} should not be as it is")

    def _forget(self, number: int) -> None:
        self.table[number & self.mask] = None
        if self._next is not None:
            self._next[number & (len(self._next) - 1)] = None

    def _move(self) -> None:
        """Copy a few references to the next table, if there should be one; take it when complete."""
        table, following = self.table, self._next
        if following is None:
            size = self._better_size()
            if size == len(table):
                return
            following = self._next = empty_slots(size)
            self._moved = self.first
        start = max(self._moved, self.first)
        self._moved = end = min(start + MOVED, self.end)
        mask, larger = self.mask, len(following) - 1
        for c in range(start, end):
            following[c & larger] = table[c & mask]
        if end == self.end:
            self.table, self.mask, self._next = following, larger, None

    def _better_size(self) -> int:
        """Return twice the size when three quarters are used, half when less than an eighth is."""
        size, used = len(self.table), self.end - self.first
        if 4 * used > 3 * size:
            return 2 * size
        return size // 2 if 8 * used < size and size > FEWEST else size
