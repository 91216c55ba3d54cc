"""Keys and times that someone has chosen so that they meet in a hash table without a secret.

What is counted are the slots that are looked at, in the loops as plain Python; no clock.
"""

import numpy as np
import pyarrow as pa
import pytest

from muntin.slicing import hash_secret as secret
from muntin.slicing.key_table import KeyTable
from muntin.slicing.loops import grid_slices, key_hashing
from muntin.slicing.tables import GROUP_COLUMNS, BatchRows, HashTable

KEYS = 2000
SLOTS = 4096
GOLDEN = 0x9E3779B97F4A7C15
SPREAD = 0xC2B2AE3D27D4EB4F
U = np.uint64


class Counted:
    """An array that counts how often it is read."""

    def __init__(self, array):
        self.array, self.reads = array, 0

    def __len__(self):
        return len(self.array)

    def __getitem__(self, i):
        self.reads += 1
        return self.array[i]

    def __setitem__(self, i, value):
        self.array[i] = value


def unshifted(word, shift):
    """Return x of which x ^ (x >> shift) is this word."""
    found = word
    for _ in range(64 // shift):
        found = word ^ (found >> shift)
    return found


def words_that_met():
    """Return words of which the upper bits of a product with the golden ratio were the same."""
    factor = pow(GOLDEN, -1, 2**64)
    return [unshifted(low * factor % 2**64, 32) for low in range(KEYS)]


def texts_that_met():
    """Return texts of two blocks: the second undoes what the first has done to the old hash."""
    texts = []
    for block in range(KEYS):
        word = (16 ^ block) * GOLDEN % 2**64
        texts.append(block.to_bytes(8, "little") + (word ^ word >> 32).to_bytes(8, "little"))
    return texts


def texts_that_meet_under_any_factor():
    """Return texts that a product with an unknown odd factor and a shift by 32 cannot part.

    The highest bit of a word stays the highest bit of its product, whatever the factor; the next block
    takes back what the shift makes of it.
    """
    high, both = 2**63, 2**63 | 2**31
    texts = []
    for choice in range(2**10):
        blocks = []
        for bit in range(10):
            chosen = choice >> bit & 1
            blocks += [high * chosen, both * chosen]
        texts.append(b"".join(block.to_bytes(8, "little") for block in blocks))
    return texts


def looked_at(loop, *parts, keys):
    """Number all keys and return how many slots were looked at."""
    slots = Counted(np.full(SLOTS + 1, -1, np.int32))
    out = np.empty(keys, np.int64)
    with np.errstate(over="ignore"):
        row, count = loop(*parts, slots, keys, out)
    assert (int(row), int(count)) == (keys, keys)
    assert out.tolist() == list(range(keys))
    return slots.reads


@pytest.mark.parametrize("seed", range(3))
def test_chosen_words_do_not_meet(seed):
    key = drawn(seed)
    words = np.array(words_that_met(), np.uint64).view(np.int64)

    def number(words, slots, keys, out):
        held = np.empty(keys, np.int64)
        table = key_hashing.Words(slots, held, key)
        return key_hashing.number_words((words, []), U(0), table, U(0), out)

    assert looked_at(number, words, keys=KEYS) < 12 * KEYS
    old = {((w ^ w >> 32) * GOLDEN % 2**64) >> 52 for w in words_that_met()}
    assert old == {0}  # they did meet


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("chosen", [texts_that_met, texts_that_meet_under_any_factor])
def test_chosen_texts_do_not_meet(chosen, seed):
    key = drawn(seed)
    texts = chosen()
    data = np.frombuffer(b"".join(texts), np.uint8)
    ends = np.append(0, np.cumsum([len(text) for text in texts]))

    def number(slots, keys, out):
        held = np.zeros(keys + 1, np.int64), np.empty_like(data)
        table = key_hashing.Texts(slots, np.empty(keys, np.uint64), key, *held)
        column = key_hashing.TextColumn(data, ends, [])
        return key_hashing.number_texts(column, U(0), table, U(0), out)

    assert looked_at(number, keys=len(texts)) < 16 * len(texts)


@pytest.mark.parametrize("seed", range(3))
def test_chosen_times_do_not_meet(seed):
    key = drawn(seed)
    factor = pow(SPREAD, -1, 2**64)
    words = [unshifted(high << 40, 29) * factor % 2**64 for high in range(KEYS)]
    starts = np.array(words, np.uint64).view(np.int64)
    table = Counted(np.zeros(SLOTS, np.int32))
    group, found = np.empty(KEYS, np.int64), np.empty((KEYS, GROUP_COLUMNS), np.int64)
    after, keys = np.array([-(2**63)]), np.zeros(KEYS, np.int64)
    with np.errstate(over="ignore"):
        rows, hashing = BatchRows(keys, starts, starts, starts), HashTable(table, key)
        count = grid_slices.group_rows(rows, after, 0, hashing, group, found)
    assert count == KEYS
    assert group.tolist() == list(range(KEYS))
    assert table.reads < 6 * KEYS


def drawn(seed):
    return np.random.default_rng(seed).integers(0, 2**64, secret.WORDS, np.uint64) | U(1)


def test_the_secret_is_drawn_and_changes_neither_numbers_nor_hashes(monkeypatch):
    assert (secret.drawn() != secret.drawn()).any()
    texts = [f"plug {i % 700}" for i in range(3000)]
    columns = [pa.array(texts), pa.array([i % 11 for i in range(3000)])]
    found = []
    for seed in range(2):
        monkeypatch.setattr("muntin.slicing.key_table.SECRET", drawn(seed))
        table = KeyTable(("text", "number"))
        numbers = table.number(columns, 3000)
        found.append((numbers.tolist(), table.hashes().tolist()))
    assert found[0] == found[1]


def test_texts_that_differ_in_little_have_different_words():
    word_of = key_hashing.word_of
    texts = [b"", b"\0", b"\0\0", b"\0" * 8, b"\0" * 9, b"\0" * 16, b"\1", b"\1\0", b"\0\1"]
    texts += [bytes([i]) * n for i in range(1, 9) for n in range(1, 24)]
    texts = sorted({*texts})
    with np.errstate(over="ignore"):
        words = {int(word_of(np.frombuffer(t, np.uint8), U(0), U(len(t)), drawn(1))) for t in texts}
    assert len(words) == len(texts)
