"""Key columns to dense numbers 0, 1, 2, ... in the order in which keys first appear.

A key column is one or more leaves (a struct is its fields, and whether it is there), and every leaf
comes down to words of 64 bits or to texts of bytes, which a compiled table numbers
(`loops/key_hashing.py`). Several leaves are a chain: the number of the leaves so far and the code of
the next one make a word, which the next table numbers. The tables hold the values too; nothing else
is kept of a key. A batch costs O(its rows). Null is a key of its own, NaN equals NaN and -0.0 equals
0.0, as in Spark.
"""

from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from muntin.journal import Journal
from muntin.kernels.codegen.loop_source import load_loops
from muntin.kernels.spans import Array
from muntin.slicing.folded_rows import read, written
from muntin.slicing.hash_secret import SECRET
from muntin.slicing.loops import key_hashing

U = np.uint64
MIXING = ((U(30), U(0xBF58476D1CE4E5B9)), (U(27), U(0x94D049BB133111EB)), (U(31), U(1)))
"""Shifts and factors that let every bit of a word reach all others (SplitMix64, OOPSLA 2014)."""
FIRST_ROOM = 8
FEW_KEYS = 2**14
SPARSE, DENSE = 8, 2
"""Slots per key: of few keys as many as a near cache has, so that next to none of them meet."""
CODE_BITS = 32
NO_NULLS = np.empty(0, np.bool_)
WHOLE = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
TEXT = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
BYTES = (kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view, kinds.is_fixed_size_binary)
LONG_TEXT = (kinds.is_large_string, kinds.is_large_binary)
PLAIN_TEXT = (kinds.is_string, kinds.is_binary, *LONG_TEXT)
"""Texts that lie one behind the other, with ends of 64 or 32 bits."""
FAMILIES = (
    TEXT,
    BYTES,
    (kinds.is_integer,),
    (kinds.is_decimal,),
    (kinds.is_date,),
    (kinds.is_time,),
    (kinds.is_duration,),
    (lambda t: kinds.is_timestamp(t) and t.tz is None,),
    (lambda t: kinds.is_timestamp(t) and t.tz is not None,),
)
"""Types of one family are cast to the one that came first, unless a value would be lost."""


class KeyTable:
    """The keys seen so far, numbered densely in the order in which they first appeared.

    A key column keeps the type that it first came with; that of a dictionary is its values'.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._start([pa.null()] * len(names), [pa.nulls(0)] * len(names), 0)

    def __len__(self) -> int:
        return len(self._chain)

    def number(self, columns: list[pa.Array], rows: int) -> Array:
        """Return each row's key number, a new key getting the next one; if it raises, nothing changed.

        Without key columns, every row has key 0.
        """
        if not columns and not self.names:
            return self._chain.number([], rows)
        if any(len(column) != rows for column in columns):
            raise ValueError(f"key columns have {[len(c) for c in columns]} rows, not {rows}")
        named = zip(self.names, self._types, columns, strict=True)
        types = [_agreed(name, held, column.type) for name, held, column in named]
        leaves = self._leaves(types, columns)
        if types != self._types:  # a column had only nulls and shows its type now
            self._start(types, self.columns(np.arange(len(self))), len(self))
        return self._chain.number(leaves, rows)

    def note(self, journal: Journal) -> None:
        """Let the journal forget the keys, and types of columns, that come from now on."""
        journal.fields(self, self._chain)
        for table in self._chain.tables:
            journal.call(table.put_back, table.count)

    def columns(self, numbers: Array) -> list[pa.Array]:
        """Return the key columns of these keys."""
        leaves = self._chain.leaves(numbers)
        return [_joined(type_, leaves) for type_ in self._types]

    def hashes(self) -> Array:
        """Return a number of 64 bits for each key; equal keys have the same in every process."""
        return self._chain.hashes(len(self))

    def keep(self, alive: Array) -> None:
        """Forget the keys that are not alive; the others get new numbers in their order."""
        if len(alive) != len(self):
            raise ValueError(f"alive must tell of {len(self)} keys, got {len(alive)}")
        kept = np.flatnonzero(alive)
        self._start(self._types, self.columns(kept), len(kept))

    def plain(self) -> tuple[int, bytes]:
        """Return the keys as plain data: how many there are, and an Arrow stream of them."""
        columns = self.columns(np.arange(len(self)))
        return len(self), written(columns, self.names)

    @classmethod
    def from_plain(cls, names: tuple[str, ...], plain: Any) -> Self:
        """Return the table that plain() was called on, with the same numbers, or raise ValueError."""
        rows, stream = plain
        batch = read(stream)
        if tuple(batch.schema.names) != names:
            raise ValueError(f"these are keys by {batch.schema.names}, not by {list(names)}")
        table = cls(names)
        table.number(batch.columns, rows)
        if len(table) != rows:
            raise ValueError(f"{rows} keys were saved, and {len(table)} of them are different")
        return table

    def _start(self, types: list[pa.DataType], columns: list[pa.Array], rows: int) -> None:
        """Start again with these keys."""
        self._chain = _Chain(self._leaves(types, columns), rows)
        self._types = types

    def _leaves(self, types: list[pa.DataType], columns: list[pa.Array]) -> list[pa.Array]:
        leaves: list[pa.Array] = []
        for name, type_, column in zip(self.names, types, columns, strict=True):
            try:
                plain = column if column.type == type_ else column.cast(type_)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise TypeError(f"{_clash(name, type_, column.type)}: {error}") from error
            leaves += [_stored(leaf) for leaf in _parted(plain)]
        return leaves


def _agreed(name: str, held: pa.DataType, new: pa.DataType) -> pa.DataType:
    """Return the type of a key column that had one type and comes with another."""
    if held == new:
        return held
    if kinds.is_dictionary(new):
        return _agreed(name, held, new.value_type)
    if not _can_be_key(new):
        raise TypeError(f"key column {name!r} has the type {new}, which cannot be a key")
    if kinds.is_struct(new) and kinds.is_null(held):
        held = pa.struct([(field.name, pa.null()) for field in new])
    if kinds.is_struct(new) and kinds.is_struct(held) and _names(new) == _names(held):
        pairs = zip(_names(held), held, new, strict=True)
        return pa.struct([(n, _agreed(f"{name}.{n}", a.type, b.type)) for n, a, b in pairs])
    if kinds.is_null(held):
        return new
    wider = kinds.is_floating(held) and kinds.is_floating(new) and held.bit_width > new.bit_width
    if wider or kinds.is_null(new) or any(_is(held, f) and _is(new, f) for f in FAMILIES):
        return held
    raise TypeError(f"{_clash(name, held, new)}: cast one to the other")


def _clash(name: str, held: pa.DataType, new: pa.DataType) -> str:
    return f"key column {name!r} had the type {held} and now has {new}"


def _names(struct: pa.DataType) -> list[str]:
    return [field.name for field in struct]


def _can_be_key(type_: pa.DataType) -> bool:
    if kinds.is_struct(type_):
        return bool(type_.num_fields)
    storage = getattr(type_, "storage_type", type_)
    return not (kinds.is_nested(storage) or kinds.is_run_end_encoded(storage))


def _is(type_: pa.DataType, family: tuple[Any, ...]) -> bool:
    return any(test(type_) for test in family)


def _parted(column: pa.Array) -> list[pa.Array]:
    if not kinds.is_struct(column.type):
        return [column]
    return [column.is_valid(), *(leaf for field in column.flatten() for leaf in _parted(field))]


def _joined(type_: pa.DataType, leaves: Iterator[pa.Array]) -> pa.Array:
    leaf = next(leaves)
    if not kinds.is_struct(type_):
        return _restored(leaf, type_)
    fields = [_joined(field.type, leaves) for field in type_]
    missing = pc.invert(leaf.cast(pa.bool_()))
    return pa.StructArray.from_arrays(fields, fields=list(type_), mask=missing)


def _stored(leaf: pa.Array) -> pa.Array:
    """Return a leaf as int64, or as texts of bytes, equal where its values are equal."""
    type_ = leaf.type
    if kinds.is_null(type_) or kinds.is_boolean(type_):
        return leaf.cast(pa.int64())
    if kinds.is_floating(type_):
        values = leaf.cast(pa.float64()).fill_null(0).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
        values[np.isnan(values)] = np.nan
        return pa.array(values.view(np.int64), mask=~_valid(leaf) if leaf.null_count else None)
    if isinstance(type_, pa.BaseExtensionType):
        return _stored(leaf.storage)
    if _is(type_, PLAIN_TEXT):
        return leaf
    if _is(type_, TEXT + BYTES):
        return leaf.cast(pa.large_binary())
    if type_.bit_width > 64:
        return leaf.view(pa.binary(type_.bit_width // 8)).cast(pa.large_binary())
    return leaf.view(WHOLE[type_.bit_width]).cast(pa.int64())


def _restored(leaf: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return what _stored was given."""
    if kinds.is_null(type_):
        return pa.nulls(len(leaf))
    if kinds.is_floating(type_):
        return leaf.view(pa.float64()).cast(type_)
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, _restored(leaf, type_.storage_type))
    if kinds.is_boolean(type_) or _is(type_, TEXT + BYTES):
        return leaf.cast(type_, safe=False)  # whether a text is UTF-8 is not for us to check
    if type_.bit_width > 64:
        return leaf.cast(pa.binary(type_.bit_width // 8)).view(type_)
    return leaf.cast(WHOLE[type_.bit_width]).view(type_)


class _Chain:
    """The tables of the leaves, and of pairs (number of the leaves so far, code of the next one)."""

    def __init__(self, leaves: list[pa.Array], rows: int) -> None:
        self._codes = [_Texts() if _is(leaf.type, PLAIN_TEXT) else _Words() for leaf in leaves]
        self._pairs = [_Words() for _ in leaves[1:]]
        self._rows = 0
        self.number(leaves, rows)

    @property
    def tables(self) -> list["_Words"]:
        """All tables."""
        return [*self._codes, *self._pairs]

    def __len__(self) -> int:
        tables = self._codes[:1] + self._pairs
        return tables[-1].count if tables else min(self._rows, 1)

    def number(self, leaves: list[pa.Array], rows: int) -> Array:
        """Return the number of each row; without leaves, all have one key."""
        self._rows += rows
        if not leaves or not rows:
            return np.zeros(rows, np.int64)
        columns = zip(self._codes, leaves, strict=True)
        numbers, *codes = [table.number(rows, *table.parts(leaf)) for table, leaf in columns]
        for table, code in zip(self._pairs, codes, strict=True):
            numbers = table.number(rows, numbers << CODE_BITS | code, NO_NULLS)
        return numbers

    def leaves(self, numbers: Array) -> Iterator[pa.Array]:
        """Return the leaves of these numbers."""
        codes = self._codes_of(numbers)
        return (table.leaf(code) for table, code in zip(self._codes, codes, strict=True))

    def hashes(self, count: int) -> Array:
        """Return a hash of all leaves for each of the first numbers."""
        hashed = np.zeros(count, U)
        codes = self._codes_of(np.arange(count))
        for table, code in zip(self._codes, codes, strict=True):
            hashed += table.hashes()[code]
            for shift, factor in MIXING:
                hashed = (hashed ^ (hashed >> shift)) * factor
        return hashed

    def _codes_of(self, numbers: Array) -> list[Array]:
        """Return the code of each leaf, first to last."""
        codes = []
        for table in reversed(self._pairs):
            words = table.keys[numbers]
            codes.append(words & (2**CODE_BITS - 1))
            numbers = words >> CODE_BITS
        return [numbers, *reversed(codes)][: len(self._codes)]


class _Words:
    """Words to numbers; `keys` has them by number."""

    def __init__(self) -> None:
        self.count = 0
        self.keys = np.empty(FIRST_ROOM, np.int64)
        self.slots = np.full(SPARSE * FIRST_ROOM + 1, -1, np.int32)
        self._torn = False  # while keys are added, and after if that was interrupted

    def parts(self, leaf: pa.Array) -> tuple[Array, ...]:
        """Return the arrays that a leaf is made of, the last of them its validity."""
        words = leaf.fill_null(0) if leaf.null_count else leaf
        return words.to_numpy(), _valid(leaf)

    def number(self, rows: int, *parts: Array) -> Array:
        """Return the number of each row; if memory ends on the way, no key was added."""
        for part in parts[:-1]:
            part.flags.writeable = False  # as Arrow's are, so that one compiled loop serves all
        numbers = np.empty(rows, np.int64)
        row, before, self._torn = 0, self.count, True
        try:
            while row < rows:
                row, self.count = self._scan(row, numbers, parts)
                if row < rows:
                    self._grow(row, parts)
            self._torn = False
        except BaseException:
            self.put_back(before)
            raise
        return numbers

    def put_back(self, count: int) -> None:
        """Forget all but the first keys."""
        if self._torn or self.count != count:
            self._torn = True
            self._fill(self.slots, count)
            self._torn = False

    def _scan(self, row: int, numbers: Array, parts: tuple[Array, ...]) -> Any:
        table = key_hashing.Words(self.slots, self.keys, SECRET)
        return _loops().number_words(parts, U(row), table, U(self.count), numbers)

    def _grow(self, _row: int, _parts: tuple[Array, ...]) -> None:
        keys = _doubled(self.keys)
        slots = (SPARSE if len(keys) <= FEW_KEYS else DENSE) * len(keys)
        self._fill(np.empty(slots + 1, np.int32), self.count)
        self.keys = keys

    def _fill(self, slots: Array, count: int) -> None:
        null = int(self.slots[-1])
        slots.fill(-1)
        _loops().refill(slots, self.keys, U(count), null, SECRET)
        self.slots, self.count = slots, count

    def hashes(self) -> Array:
        """Return a word for each number, the same in every process."""
        return self.keys[: self.count].view(U)

    def leaf(self, codes: Array) -> pa.Array:
        """Return the values that have these numbers."""
        null = self.slots[-1]
        if len(codes) == 1 and codes[0] != null:
            return self._values().slice(codes[0], 1)
        return self._taken(codes, codes == null if null >= 0 else None)

    def _taken(self, codes: Array, missing: Array | None) -> pa.Array:
        return pa.array(self.keys[codes], mask=missing)

    def _values(self) -> pa.Array:
        return pa.array(self.keys[: self.count])


class _Texts(_Words):
    """Texts to numbers; `keys` has a word of each, and text n is texts[ends[n] : ends[n + 1]]."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = np.zeros(FIRST_ROOM + 1, np.int64)
        self.texts = np.empty(FIRST_ROOM, np.uint8)

    def parts(self, leaf: pa.Array) -> tuple[Array, ...]:
        _, offsets, data = leaf.buffers()
        size = 8 if _is(leaf.type, LONG_TEXT) else 4
        ends = np.frombuffer(offsets, f"i{size}", len(leaf) + 1, size * leaf.offset)
        return np.frombuffer(data or b"", np.uint8), ends.astype(np.int64, copy=False), _valid(leaf)

    def _scan(self, row: int, numbers: Array, parts: tuple[Array, ...]) -> Any:
        table = key_hashing.Texts(self.slots, self.keys, SECRET, self.ends, self.texts)
        column = key_hashing.TextColumn(*parts)
        return _loops().number_texts(column, U(row), table, U(self.count), numbers)

    def _grow(self, row: int, parts: tuple[Array, ...]) -> None:
        ends = parts[1]
        needed = self.ends[self.count] + ends[row + 1] - ends[row]
        while needed > len(self.texts):
            self.texts = _doubled(self.texts)
        if self.count == len(self.keys):
            self.ends = np.append(self.ends, np.empty(len(self.keys), np.int64))
            super()._grow(row, parts)

    def hashes(self) -> Array:
        hashed = np.empty(self.count, U)
        _loops().hash_texts(self.texts, self.ends, hashed)
        return hashed

    def _taken(self, codes: Array, missing: Array | None) -> pa.Array:
        return self._values().take(pa.array(codes, mask=missing))

    def _values(self) -> pa.Array:
        texts = self.texts[: self.ends[self.count]]  # what is behind them would get into snapshots
        buffers = [None, pa.py_buffer(self.ends), pa.py_buffer(texts)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), self.count, buffers)


def _valid(leaf: pa.Array) -> Array:
    valid: Array = leaf.is_valid().to_numpy(zero_copy_only=False) if leaf.null_count else NO_NULLS
    return valid


def _doubled(array: Array) -> Array:
    return np.append(array, np.empty_like(array))


@cache
def _loops() -> ModuleType:
    return load_loops(key_hashing)
