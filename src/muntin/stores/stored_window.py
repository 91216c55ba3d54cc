"""A window that lives in a store: AMTA with its levels there, and memory for O(log n) partials.

TPDS 2019, section 4.1.5. What is inserted stays in memory until it is committed: every full block and
one record, in one put. The record has what is not in blocks: heads and tails of levels, stack, R0 and
R1. So the store always holds the window as it was after some insertion or eviction, and a crash takes
it back to the last commit: `inserted` and `evicted` say where that is.
Commits come before the insertion (or eviction) that follows `buffer` others, and by flush and close.
Blocks before the heads are deleted in the background, after the commit that moved the heads.
Of a holistic aggregate, whose partials are as large as what they stand for, the store has the values
alone: all that is made of them stays in memory, and is made again when the window is opened.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from typing import Any, Self

from muntin.aggregates import Aggregate, SnapshotError, seal
from muntin.aggregates.encoding import DAMAGE
from muntin.aggregates.identity import Identity, identity_of, refuse_other
from muntin.aggregators import Amta
from muntin.aggregators.aggregator import Partial
from muntin.aggregators.levels import Level, MemoryLevel
from muntin.stores.store import RECORD, OtherWindowError, Store, StoreError
from muntin.stores.stored_level import StoredLevel
from muntin.stores.window_blocks import Blocks

FORMAT = 3
LONGEST_ID = 200


def stored(
    aggregate: Aggregate,
    store: Store,
    window_id: str,
    *,
    buffer: int = 512,
    trust_functions: bool = False,
) -> "StoredAmta":
    """Open the window of this id in a store, as it was last committed, or a new one.

    A crash loses what came after the last commit: at most `buffer` insertions. A window is written by
    one process at a time: WindowTakenError if another has it open. One that is no longer needed leaves
    the store when all of it is evicted, but for a record of some bytes. A window of another aggregate is
    refused; with `trust_functions` your own functions are not compared.
    Runtime: O(log n); of a holistic aggregate, whose window is in memory too, O(n).

    >>> from muntin import Max, MemoryStore
    >>> store = MemoryStore()
    >>> with stored(Max(), store, "readings") as window:
    ...     window.bulk_insert(range(10_000, 0, -1))
    ...     window.bulk_evict(9_990)
    >>> window = stored(Max(), store, "readings")
    >>> window.query(), window.inserted, window.evicted
    (10, 10000, 9990)
    """
    if not isinstance(store, Store):
        raise TypeError(f"a window is stored in a store such as RocksStore(path), got {store!r}")
    if not isinstance(window_id, str) or not 0 < len(window_id.encode()) <= LONGEST_ID:
        raise ValueError(f"a window's id is text of 1 to {LONGEST_ID} bytes, got {window_id!r}")
    if not isinstance(buffer, int) or buffer < 2:
        raise ValueError(f"a buffer is for 2 or more values, got {buffer!r}")
    window = StoredAmta(aggregate, store, window_id, buffer)
    store.claim(window_id)
    try:
        window._open(trust_functions)
    except BaseException:
        store.release(window_id)
        raise
    return window


class StoredAmta(Amta):
    """AMTA whose elements are in a store; made by `stored`.

    Runtime: as Amta; of every `buffer` operations one writes O(buffer) partials, those that came since,
    and every few hundred evictions wait for a block unless it was read ahead.
    """

    __slots__ = (
        "_blocks", "_buffer", "_cleaning", "_closed", "_committed", "_evictions_left",
        "_insertions_left", "_known", "_spans",
    )  # fmt: skip

    def __init__(self, aggregate: Aggregate, store: Store, window_id: str, buffer: int) -> None:
        self._blocks = Blocks(store, window_id, aggregate, 1 << buffer.bit_length() - 1)
        super().__init__(aggregate, self._new_stored_level)
        self._known: Identity = identity_of(aggregate)
        self._buffer = buffer
        self._closed = False
        self._insertions_left = self._evictions_left = 0
        self._committed = 0, 0
        self._spans: dict[int, tuple[int, int]] = {}  # which blocks of a level may be in the store
        self._cleaning: Future[dict[int, int]] | None = None

    def _new_stored_level(self, number: int, head: int) -> Level:
        if number and self.aggregate.holistic:
            return MemoryLevel(head)
        return StoredLevel(self._blocks, number, head)

    @property
    def inserted(self) -> int:
        """How many values were ever inserted: where in its source a stream goes on after a crash."""
        return self._levels[0].tail

    @property
    def evicted(self) -> int:
        """How many values were ever evicted."""
        return self._levels[0].head

    @property
    def held(self) -> int:
        """How many partials are in memory, in buffers and caches: O(log n) unless they are holistic."""
        stored = self._stored_levels
        others = sum(map(len, self._levels[len(stored) :]))
        return sum(level.held for level in stored) + others + len(self._stack) + 2

    def insert(self, value: Any) -> None:
        # If an eviction follows, as a policy's does, no commit comes between the two.
        if not self._insertions_left or self._evictions_left <= 0:
            self._make_room(value)
        super().insert(value)
        self._insertions_left -= 1

    def bulk_insert(self, values: Iterable[Any]) -> None:
        """Insert several values, the oldest first; `inserted` says how many, if the store fails."""
        values = iter(values)
        while batch := list(islice(values, self._insertions_left or self._buffer)):
            if not self._insertions_left:
                self._make_room(batch[0])
            super().bulk_insert(batch)
            self._insertions_left = self._buffer - (self.inserted - self._committed[1])

    def evict(self) -> None:
        if self._evictions_left <= 0:
            self._commit()
        super().evict()
        self._evictions_left -= 1

    def bulk_evict(self, n: int) -> None:
        n = self._whole(n)
        if self._evictions_left <= 0:
            self._commit()
        if n > len(self._levels):
            self._read_heads(self._levels[0].head + n)
        super().bulk_evict(n)
        self._evictions_left -= n

    def slide(self, value: Any, holds: Callable[[Partial, Partial], Any]) -> None:
        """Insert a value, then evict_while; if the store fails, neither."""
        held = len(self), len(self._levels), self._stack.copy(), self._r0, self._r1
        self.insert(value)
        try:
            self.evict_while(holds)
        except StoreError:
            self._take_back(*held)
            raise

    def _take_back(
        self, n: int, height: int, stack: list[Partial], r0: Partial, r1: Partial
    ) -> None:
        """Undo an insertion after which nothing was evicted or committed."""
        for level in self._levels:
            level.shorten(1)
            if not n or level.tail & 1:  # no carry went further
                break
        del self._levels[height:]
        self._stack, self._r0, self._r1 = stack, r0, r1
        self._insertions_left += 1

    def flush(self) -> None:
        """Commit the window as it is, and let the store write its files out (Store.sync)."""
        self._commit()
        self._blocks.store.sync()

    def close(self) -> None:
        """Commit the window and let others open it; if the store fails, it stays open."""
        if not self._closed:
            self._commit()
            with suppress(StoreError):  # what was not deleted will be when it is opened
                while self._cleaning is not None:
                    self._cleaning.result()
                    self._clean()
            self._let_go()

    def _let_go(self) -> None:
        self._closed = True
        self._insertions_left = self._evictions_left = 0
        self._blocks.store.release(self._blocks.window)

    def snapshot(self) -> bytes:
        """Return the whole window, read from the store, as the snapshot of an Amta."""
        aggregate = self.aggregate
        return seal([Amta.__name__, self._known, self._save(aggregate.to_plain)])

    @classmethod
    def restore(
        cls, snapshot: bytes, aggregate: Aggregate, *, trust_functions: bool = False
    ) -> Self:
        """Refuse: a stored window is opened, and its snapshot is that of an Amta in memory."""
        del snapshot, aggregate, trust_functions
        raise TypeError("open a stored window with stored(); its snapshot is read by Amta.restore")

    @property
    def _stored_levels(self) -> list[StoredLevel]:
        """The levels that are in the store: all, or of a holistic aggregate the lowest."""
        return [level for level in self._levels if isinstance(level, StoredLevel)]

    def _make_room(self, value: Any) -> None:
        """Commit, unless the value could not be: better now than when it cannot be taken back."""
        seal(self.aggregate.to_plain(self._lift(value)))
        self._commit()

    def _commit(self) -> None:
        """Put full blocks and the record; if that fails, nothing has changed."""
        if self._closed:
            raise ValueError(f"{self!r} was closed; open it again")
        state = self.evicted, self.inserted
        if state != self._committed:
            blocks, levels = self._blocks, self._stored_levels
            full = [level.full() for level in levels]
            spans = self._spans_with(full)
            items = {
                (l, number): blocks.sealed((l, number), blocks.to_plain(elements))
                for l, numbered in enumerate(full)
                for number, elements in numbered.items()
            }
            items[RECORD] = blocks.sealed(RECORD, self._record(spans))
            blocks.store.put(blocks.window, items)
            for level, numbered in zip(levels, full, strict=True):
                level.settle(numbered)
            self._committed, self._spans = state, spans
            self._clean()
        self._insertions_left = self._evictions_left = self._buffer

    def _spans_with(self, full: list[dict[int, list[Partial]]]) -> dict[int, tuple[int, int]]:
        spans = {l: (first, end) for l, (first, end) in self._spans.items() if first < end}
        for l, numbered in enumerate(full):
            if numbered:
                first, _ = spans.get(l, (min(numbered), 0))
                spans[l] = first, max(numbered) + 1
        return spans

    def _record(self, spans: dict[int, tuple[int, int]]) -> dict[str, Any]:
        encode, holistic = self._blocks.to_plain, self.aggregate.holistic
        return {
            "format": FORMAT,
            "aggregate": self._known,
            "block": self._blocks.largest,
            "levels": [level.outline(encode) for level in self._stored_levels],
            "results": [] if holistic else [encode(self._stack), encode([self._r0, self._r1])],
            "spans": [[l, first, end] for l, (first, end) in spans.items()],
        }

    def _open(self, trust_functions: bool) -> None:
        blocks = self._blocks
        [message] = blocks.store.get(blocks.window, [RECORD])
        if message is None:
            return
        try:
            self._load_record(blocks.unsealed(RECORD, message), trust_functions)
            self._check_structure()
        except OtherWindowError:
            raise
        except DAMAGE as error:
            raise blocks.error(f"its record cannot be read: {error}") from error
        self._committed = self.evicted, self.inserted
        self._clean()
        self._read_heads(self.evicted)

    def _load_record(self, record: dict[str, Any], trust_functions: bool) -> None:
        blocks, decode = self._blocks, self._blocks.from_plain
        if record["format"] != FORMAT:
            raise ValueError(f"format {record['format']} cannot be read here, only {FORMAT}")
        self._refuse_other(record["aggregate"], trust_functions)
        blocks.largest = record["block"]
        self._levels = [
            StoredLevel.load_outline(blocks, number, outline, decode)
            for number, outline in enumerate(record["levels"])
        ]
        self._spans = {l: (first, end) for l, first, end in record["spans"]}
        if self.aggregate.holistic:
            self._levels = self._rebuilt(self._levels[0])
            self._recompute(self._levels, self.evicted)
        else:
            stack, results = map(decode, record["results"])
            self._stack, (self._r0, self._r1) = stack, results

    def _rebuilt(self, leaves: Level) -> list[Level]:
        """Return the levels above the leaves, made of all of them. Cost: n combines."""
        levels, row = [leaves], list(leaves)
        below: Level = MemoryLevel(leaves.head)
        while row:
            first, row = self._parents(below, row)
            if row:
                below = MemoryLevel(first)
                levels.append(MemoryLevel(first, row))
        return levels

    def _refuse_other(self, known: Identity, trust_functions: bool) -> None:
        """Raise OtherWindowError if the window was left under another aggregate or policy."""
        try:
            if known["name"] != self.aggregate.name:
                name = known["name"]
                raise SnapshotError(f"it is of aggregate {name!r}, not {self.aggregate.name!r}")
            trust: dict[str, Any] = {"trust_functions": trust_functions}
            refuse_other(self._known, known, "aggregate or policy", **trust, place="window")
        except SnapshotError as error:
            message = self._blocks.store.tell(self._blocks.window, str(error))
            raise OtherWindowError(message) from error

    def _read_heads(self, oldest: int) -> None:
        """Read at once the blocks in which each level's head is when this is the oldest leaf."""
        levels = self._stored_levels
        wanted = [(l, level.needs(oldest >> l)) for l, level in enumerate(levels)]
        keys = [(l, number) for l, number in wanted if number is not None]
        for (l, number), block in zip(keys, self._blocks.read(keys), strict=True):
            levels[l].cache(number, block)

    def _clean(self) -> None:
        """Delete in the background what the record no longer refers to, if that is not going on."""
        if self._cleaning is not None:
            if not self._cleaning.done():
                return
            with suppress(StoreError):  # if it failed, it is tried again
                for l, end in self._cleaning.result().items():
                    self._spans[l] = end, self._spans[l][1]
        dead = {l: self._dead(l) for l in self._spans}
        dead = {l: (first, end) for l, (first, end) in dead.items() if first < end}
        self._cleaning = self._blocks.store.soon(self._delete, dead) if dead else None

    def _dead(self, l: int) -> tuple[int, int]:
        first, end = self._spans[l]
        if l < len(self._levels):
            end = min(end, self._levels[l].head // self._blocks.size(l))
        return first, end

    def _delete(self, dead: dict[int, tuple[int, int]]) -> dict[int, int]:
        for l, (first, end) in dead.items():
            self._blocks.store.delete_range(self._blocks.window, l, first, end)
        return {l: end for l, (_, end) in dead.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.close()
        finally:
            if not self._closed:
                self._let_go()

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self._blocks.window!r} in {self._blocks.store!r}>"
