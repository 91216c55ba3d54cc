"""A shard: the operator that holds some of the keys, and its state in a store of blocks.

The store has the truth; the operator is a working copy. A micro-batch is written as it came into a
log, so that what is written does not depend on how much is held. When the log is twice as long as the
state, that is cut into blocks, and those that have changed are written (`blocks.py`). A copy that is
behind, because another process had the shard in between, catches up from the log; a new one is read from
blocks and log.

What is read must be what was written last. Each block and log entry says in its sealed content of which
shard it is and under which name it was put, and the header has its checksum. A header of an earlier
micro-batch is found out by the log entry behind it, or by the version of blocks that were written since.
"""

import uuid
from collections import OrderedDict
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
import xxhash

from muntin.aggregates import SnapshotError, seal, unseal
from muntin.aggregates.encoding import DAMAGE
from muntin.aggregates.identity import Identity
from muntin.query.changing import left_of
from muntin.query.operator import Operator
from muntin.query.operator_state import Counters
from muntin.query.query import LeftOfQuery, Query
from muntin.spark.packing import COPIES, Packing
from muntin.spark.state_blocks import HEAD, cut, joined

FORMAT = 6
HEADER = "header"
COLUMNS = "columns"
"""The fact that has the names and types of the rows' columns."""
BASE = "base"
"""A small block that tells of which micro-batch the blocks are, so that it can be read every time."""
SHORT_LOG = 1 << 16
LONG_LOG = 64
LOG_SHARE = 2
"""The log may have twice the bytes of the state before the blocks are written again."""
ITEM_BYTES = 32
"""About what a slice or a kept row takes, at the least; blocks tell it exactly when there are some."""
NOTHING = -LONG_LOG
"""The version of blocks that are of no use any more."""


class Store(Protocol):
    """Where blocks are kept by name; all that is put within a micro-batch is kept, or nothing."""

    def get(self, name: str) -> bytes | None:
        """Return a block, or None if there is none."""

    def put(self, name: str, block: bytes) -> None:
        """Keep a block."""

    def delete(self, name: str) -> None:
        """Forget a block."""

    def __contains__(self, name: object) -> bool:
        """Whether there is a block of this name."""


@dataclass(frozen=True)
class Done:
    """What one micro-batch did to a shard: results if there are any, what was counted, bytes."""

    results: pa.Table | None
    counters: Counters
    written: int
    stored: int


@dataclass
class Header:
    """What the store has of a shard: the blocks with their checksums, and the log behind them.

    `version` counts micro-batches and `token` is new for each, so that a copy that was made of a
    micro-batch that failed is known. An entry of the log is (version, token, bytes, checksum); those up
    to `base` are in the blocks too, and only serve copies that are a little behind.
    """

    query: Identity
    facts: dict[str, Any]
    stream: str = field(default_factory=lambda: uuid.uuid4().hex)
    version: int = 0
    token: str = ""
    base: int = 0
    blocks: dict[str, tuple[str, int]] = field(default_factory=dict)
    stretches: dict[str, int] = field(default_factory=dict)
    log: list[tuple[int, str, int, str]] = field(default_factory=list)

    @classmethod
    def read(cls, block: bytes) -> "Header":
        """Return the header that was written, or say what is wrong with it."""
        content = unseal(block)
        written = content.pop("format", None) if isinstance(content, dict) else None
        if written != FORMAT:
            raise SnapshotError(
                f"the state was written in format {written!r}, and {FORMAT} is read here: an older or "
                "newer muntin wrote the checkpoint"
            )
        try:
            header = cls(**content)
            header._check()
        except DAMAGE as error:
            raise SnapshotError(f"the header cannot be read: {error!r}") from error
        return header

    def _check(self) -> None:
        """Raise unless all micro-batches since the blocks are in the log, in order."""
        versions = [version for version, _, _, _ in self.log]
        since = range(self.version - len(versions) + 1, self.version + 1)
        if versions != list(since) or self.version - len(versions) > self.base:
            raise ValueError(f"a log of {versions} for version {self.version}, blocks {self.base}")
        if not 0 <= self.base <= self.version or (self.base > 0) != bool(self.blocks):
            raise ValueError(f"{len(self.blocks)} blocks of version {self.base}")
        sizes = [size for _, size in self.blocks.values()] + [size for _, _, size, _ in self.log]
        numbers = [*sizes, *self.stretches.values()]
        if any(type(n) is not int or n < 0 for n in numbers) or 0 in self.stretches.values():
            raise ValueError("bytes and stretches are whole numbers above zero")
        texts = [self.stream, self.token, *self.blocks, *(token for _, token, _, _ in self.log)]
        if not all(isinstance(text, str) for text in texts) or not isinstance(self.facts, dict):
            raise TypeError("names and tokens are texts")

    def write(self) -> bytes:
        """Return the header as a block."""
        return seal({"format": FORMAT, **asdict(self)})

    @property
    def block_bytes(self) -> int:
        """The bytes of all blocks."""
        return sum(size for _, size in self.blocks.values())

    @property
    def log_bytes(self) -> int:
        """The bytes of the log that are not in blocks yet."""
        return sum(size for version, _, size, _ in self.log if version > self.base)


@dataclass
class Copy:
    """An operator as it was after a micro-batch, with the functions and choices of one packing."""

    version: int
    token: str
    operator: Operator
    packing: str
    bytes: int = 0  # of its state


class Copies:
    """The working copies that this process has, the oldest of them forgotten when they are too large."""

    def __init__(self, most: int = COPIES) -> None:
        self.most = most
        self._held: OrderedDict[str, Copy] = OrderedDict()

    def pop(self, stream: str) -> Copy | None:
        """Take the copy of a shard out."""
        return self._held.pop(stream, None)

    def put(self, stream: str, copy: Copy) -> None:
        """Keep a copy for the next micro-batch."""
        self._held[stream] = copy
        total = 0
        for name in reversed(list(self._held)):
            total += self._held[name].bytes
            if total > self.most and name != stream:
                del self._held[name]


class Shard:
    """Some of a query's keys: `take` micro-batches as they were packed, and have them kept in a store.

    `facts` must stay the same as long as the store lives, except for columns that come or go. Windows
    and aggregates of the query may come and go, and the lateness may change: what the store has is
    replayed under the query that it was written under, and then changed. A shard without a header is a
    new one, unless it `begun` before: then its state is missing.
    """

    def __init__(
        self,
        packing: Packing,
        store: Store,
        facts: dict[str, Any],
        copies: Copies,
        *,
        begun: bool = False,
    ) -> None:
        self._packing = packing
        self._query = packing.query
        self._store = store
        self._facts = facts
        self._copies = copies
        self._begun = begun
        self._written = 0

    def begin(self) -> None:
        """Write the header of a new shard, so that it is known from now on which query it is of."""
        if self._store.get(HEADER) is None:
            self._put(HEADER, self._new().write())

    def _new(self) -> Header:
        if self._begun or "log/1" in self._store:
            raise SnapshotError(
                "a shard has no header in the state store. Every shard got one in the first "
                "micro-batch, so the state was lost, or it was cut into other partitions: continue "
                "with the checkpoint as it was, or begin with a new one"
            )
        return Header(self._packing.identity, self._facts)

    def take(self, packed: list[bytes], watermark: int | None) -> Done:
        """Take a micro-batch and move the watermark, and return what is to be reported."""
        header, operator = self._opened()
        before = operator.done
        results = self._apply(operator, packed, watermark)
        now = operator.counters
        header.version += 1
        header.token = uuid.uuid4().hex
        self._save(header, operator, packed, watermark, now)
        made = Copy(header.version, header.token, operator, self._packing.name, now.state_bytes)
        self._copies.put(header.stream, made)
        stored = header.block_bytes + header.log_bytes
        return Done(results, _since(before, now), self._written, stored)

    def _apply(
        self, operator: Operator, packed: list[bytes], watermark: int | None, *, now: bool = True
    ) -> pa.Table | None:
        tables = self._packing.feed(operator, packed, now=now)
        tables.append(operator.early() if watermark is None else operator.advance(watermark))
        filled = [table for table in tables if table.num_rows]
        return pa.concat_tables(filled, promote_options="permissive") if filled else None

    # From the store

    def _opened(self) -> tuple[Header, Operator]:
        """Return the shard as it is in the store, from a copy if there is one that serves."""
        block = self._store.get(HEADER)
        if block is None:
            return self._new(), self._packing.operator(self._query)
        header = Header.read(block)
        left = self._left_of(header.query)
        other = _other_facts(header.facts, self._facts)
        if other:
            raise SnapshotError(f"the checkpoint cannot serve this query: {other}")
        if self._is_behind(header):
            raise SnapshotError(
                f"the header is that of micro-batch {header.version}, and not the last one written"
            )
        copy = self._copies.pop(header.stream)
        known = {version: token for version, token, _, _ in header.log} | {
            header.version: header.token
        }
        serves = copy is not None and known.get(copy.version) == copy.token
        if copy is None or not serves or copy.packing != self._packing.name:
            copy = Copy(header.base, "", self._read(header, left), self._packing.name)
        for version, _, _, checksum in header.log:
            if version > copy.version:
                packed, watermark, early = self._entry(header, f"log/{version}", checksum)
                same = header.query == self._packing.identity
                copy.operator.report_early(early)
                self._apply(copy.operator, packed, watermark, now=same)
        copy.operator.report_early(self._query.early_every)
        return header, self._changed(header, copy.operator)

    def _is_behind(self, header: Header) -> bool:
        """Whether a later micro-batch wrote into the log, or wrote blocks and forgot the log."""
        if f"log/{header.version + 1}" in self._store:
            return True
        if not header.blocks:
            return BASE in self._store
        return bool(self._block(header, BASE) != header.base)

    def _left_of(self, saved: Identity) -> Query:
        """Return the part of the state's query that this query still has, or refuse another query."""
        return left_of(
            self._query,
            self._packing.identity,
            saved,
            None,
            trust_functions=self._packing.trust_functions,
            place="checkpoint",
        )

    def _read(self, header: Header, left: Query) -> Operator:
        """Read the operator from its blocks, under the part of its query that is still there."""
        if not header.blocks:
            return self._packing.operator(left)
        named = header.blocks.items()
        blocks = {n: self._block(header, f"block/{n}", checksum) for n, (checksum, _) in named}
        try:
            version, blocks[HEAD] = blocks[HEAD]
            state = joined(blocks)
        except DAMAGE as error:
            raise SnapshotError(f"the blocks are not those of a state: {error!r}") from error
        if version != header.base:
            raise SnapshotError(f"blocks of micro-batch {version!r}, not of {header.base}")
        return Operator.from_plain(
            self._query,
            state,
            self._packing.identity,
            trust_functions=self._packing.trust_functions,
            plan=self._packing.plan,
            place="checkpoint",
        )

    def _entry(
        self, header: Header, name: str, checksum: str
    ) -> tuple[list[bytes], int | None, int | None]:
        """Return what was packed, the watermark, and when early results were reported then."""
        match self._block(header, name, checksum):
            case ([*packed], int() | None as watermark, int() | None as early) if all(
                isinstance(payload, bytes) for payload in packed
            ):
                return packed, watermark, early
        raise SnapshotError(f"{name!r} in the state store is not a micro-batch")

    def _block(self, header: Header, name: str, checksum: str = "") -> Any:
        """Return what was put under a name; SnapshotError if it is not that, or not the last."""
        block = self._store.get(name)
        if block is None:
            raise SnapshotError(f"{name!r} is missing from the state store")
        if checksum and xxhash.xxh3_128_hexdigest(block) != checksum:
            raise SnapshotError(f"{name!r} in the state store is not what was written last")
        match unseal(block):
            case [header.stream, str(held), content] if held == name:
                return content
        raise SnapshotError(f"{name!r} in the state store is a block of another name or shard")

    def _changed(self, header: Header, operator: Operator) -> Operator:
        """Let the operator go on under the query of now."""
        if isinstance(operator.query, LeftOfQuery):
            operator.become(self._query)
            operator.expect(self._packing.empty)
        if header.query != self._packing.identity:
            header.query, header.facts = self._packing.identity, self._facts
            header.base = NOTHING
            self._forget(header, len(header.log))  # it would be replayed under another query
        return operator

    # To the store

    def _save(
        self,
        header: Header,
        operator: Operator,
        packed: list[bytes],
        watermark: int | None,
        now: Counters,
    ) -> None:
        size = sum(map(len, packed))
        held = max(header.block_bytes, ITEM_BYTES * (now.slices + now.rows_kept))
        enough = max(SHORT_LOG, LOG_SHARE * held)
        behind = header.version - header.base
        long = size and header.log_bytes + size > enough  # there is time for it when rows come
        if long or behind >= LONG_LOG or header.base == NOTHING:
            self._write_blocks(header, operator)
        if header.base < header.version or size < header.block_bytes:
            name, entry = f"log/{header.version}", (packed, watermark, self._query.early_every)
            checksum, size = self._put(name, _bound(header, name, entry))
            header.log.append((header.version, header.token, size, checksum))
        else:  # a log with a gap is of no use
            self._forget(header, len(header.log))
        self._put(HEADER, header.write())

    def _write_blocks(self, header: Header, operator: Operator) -> None:
        """Write the blocks that have changed, and forget most of the log."""
        blocks = cut(operator.plain(header.query), header.stretches)
        blocks[HEAD] = (header.version, blocks[HEAD])
        before, header.blocks = header.blocks, {}
        for name, content in blocks.items():
            block = _bound(header, f"block/{name}", content)
            header.blocks[name] = (xxhash.xxh3_128_hexdigest(block), len(block))
            if header.blocks[name] != before.get(name):
                self._put(f"block/{name}", block)
        for name in before.keys() - header.blocks.keys():
            self._store.delete(f"block/{name}")
        header.base = header.version
        self._put(BASE, _bound(header, BASE, header.base))
        self._shorten(header)

    def _shorten(self, header: Header) -> None:
        """Keep the end of the log, for copies that are a little behind."""
        kept = total = 0
        for _, _, size, _ in reversed(header.log[-LONG_LOG:]):
            total += size
            kept += total <= header.block_bytes
        self._forget(header, len(header.log) - kept)

    def _forget(self, header: Header, entries: int) -> None:
        for version, _, _, _ in header.log[:entries]:
            self._store.delete(f"log/{version}")
        header.log = header.log[entries:]

    def _put(self, name: str, block: bytes) -> tuple[str, int]:
        """Put a block, and return its checksum and bytes."""
        self._written += len(block)
        self._store.put(name, block)
        return xxhash.xxh3_128_hexdigest(block), len(block)


def _bound(header: Header, name: str, content: Any) -> bytes:
    """Return sealed content that says of which shard it is, and under which name it is kept."""
    return seal([header.stream, name, content])


def _other_facts(saved: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Say what differs; of columns, those that both have."""
    before, now = (dict(facts.get(COLUMNS, ())) for facts in (saved, wanted))
    pairs = {f"column {name!r}": (before[name], now[name]) for name in before if name in now}
    others = [name for name in {**saved, **wanted} if name != COLUMNS]
    pairs |= {name: (saved.get(name), wanted.get(name)) for name in others}
    different = [f"{name} was {a!r} and is {b!r}" for name, (a, b) in pairs.items() if a != b]
    return "; ".join(different)


def _since(before: Counters, now: Counters) -> Counters:
    """Return what was counted since; what is held is what is held now."""
    done = ("rows", "late", "dropped", "bad_times", "bad_rows", "windows_reported", "combines")
    return replace(now, **{name: getattr(now, name) - getattr(before, name) for name in done})
