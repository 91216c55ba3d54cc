"""Open addressing: words, or texts of bytes, to dense numbers.

A table has 2^k slots that are probed one after another from a key's hash on, and a last one for null,
which is a key too. A slot holds a key's number, or -1; the key itself lies in another array, by number,
so that a slot takes four bytes and the slots of many keys stay in the processor's cache. Where a key is
looked up depends on a secret of the process (`hash_secret.py`), so that nobody can choose keys that
collide. A loop that has no room for another key returns how far it came, and the caller grows the table.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import U, entry, folded, leading_zeros


class Words(NamedTuple):
    """A table of keys that are words."""

    slots: Any
    keys: Any  # the word of each number
    secret: Any


class Texts(NamedTuple):
    """A table of keys that are texts: number n is texts[ends[n] : ends[n + 1]]."""

    slots: Any
    keys: Any  # the word by which each text is looked up
    secret: Any
    ends: Any
    texts: Any


class TextColumn(NamedTuple):
    """The texts of some rows: data[offsets[row] : offsets[row + 1]]; valid is empty without nulls."""

    data: Any
    offsets: Any
    valid: Any


def place_of(word: Any, shift: Any, secret: Any) -> Any:
    """Return where probing for a word starts: the upper bits of a product, which all its bits reach."""
    word = (word ^ secret[0]) * secret[1]
    return ((word ^ (word >> U(32))) * secret[2]) >> shift


def eight(data: Any, i: Any) -> Any:
    """Return data[i : i + 8] as one word; compiled, this is one load."""
    word = U(0)
    for k in range(U(8)):
        word |= U(data[i + k]) << (U(8) * k)
    return word


def word_of(data: Any, start: Any, end: Any, secret: Any) -> Any:
    """Return a word by which to look for data[start:end], which nobody knows without the secret.

    A difference in one step becomes one that depends on the secret, by the upper half of a product: the
    next bytes cannot be chosen to undo it. The length comes last, where no byte is added to it.
    """
    word = secret[0]
    length = end - start
    while start + U(8) <= end:
        word = folded(word ^ eight(data, start), secret[1])
        start += U(8)
    rest = U(0)
    while start < end:
        rest = rest << U(8) | U(data[start])
        start += U(1)
    word = folded(word ^ rest, secret[2])
    return folded(word ^ length, secret[3])


def hash_of(data: Any, start: Any, end: Any) -> Any:
    """Return a word that depends on every byte of data[start:end] and on its place.

    It is the same in every process, because it decides to which shard a key belongs.
    """
    word = end - start
    while start + U(8) <= end:
        word = (word ^ eight(data, start)) * U(0x9E3779B97F4A7C15)
        word ^= word >> U(32)
        start += U(8)
    while start < end:
        word = (word ^ U(data[start])) * U(0x100000001B3)
        start += U(1)
    return word


def same(data: Any, start: Any, end: Any, texts: Any, first: Any, last: Any) -> Any:
    """Whether data[start:end] and texts[first:last] are the same bytes."""
    if end - start != last - first:
        return False
    while start + U(8) <= end:
        if eight(data, start) != eight(texts, first):
            return False
        start += U(8)
        first += U(8)
    while start < end:
        if data[start] != texts[first]:
            return False
        start += U(1)
        first += U(1)
    return True


@entry
def hash_texts(texts: Any, ends: Any, out: Any) -> None:
    """Write down the hash of each of the first texts."""
    for n in range(len(out)):
        out[n] = hash_of(texts, U(ends[n]), U(ends[n + 1]))


@entry
def refill(slots: Any, keys: Any, count: Any, null: Any, secret: Any) -> None:
    """Put `count` keys into slots that are all empty; `null` is the number of null, or -1."""
    last = U(len(slots) - 1)
    mask = last - U(1)
    shift = leading_zeros(mask)
    for number in range(count):
        if number == null:
            slots[last] = number
        else:
            slot = place_of(U(keys[number]), shift, secret)
            while slots[slot] >= 0:
                slot = (slot + U(1)) & mask
            slots[slot] = number


@entry
def number_words(column: Any, row: Any, table: Words, count: Any, out: Any) -> Any:
    """Number the words from `row` on; return the row it came to, and the number of keys then.

    `column` is (words, valid); valid is empty if there are no nulls.
    """
    words, valid = column
    slots, keys, secret = table
    rows, room, nullable = U(len(out)), U(len(keys)), len(valid) > 0
    last = U(len(slots) - 1)
    mask = last - U(1)
    shift = leading_zeros(mask)
    while row < rows:
        word = words[row]
        if nullable and not valid[row]:
            slot = last
        else:
            slot = place_of(U(word), shift, secret)
            while slots[slot] >= 0 and keys[slots[slot]] != word:
                slot = (slot + U(1)) & mask
        if slots[slot] < 0:
            if count == room:
                break
            keys[count] = word
            slots[slot] = count
            count += U(1)
        out[row] = slots[slot]
        row += U(1)
    return row, count


@entry
def number_texts(column: TextColumn, row: Any, table: Texts, count: Any, out: Any) -> Any:
    """Number the texts of a column, as number_words does words."""
    data, offsets, valid = column
    slots, keys, secret, ends, texts = table
    rows, room, nullable = U(len(out)), U(len(keys)), len(valid) > 0
    last = U(len(slots) - 1)
    mask = last - U(1)
    shift = leading_zeros(mask)
    while row < rows:
        start, end = U(offsets[row]), U(offsets[row + U(1)])
        word = U(0)
        if nullable and not valid[row]:
            slot = last
            end = start
        else:
            word = word_of(data, start, end, secret)
            slot = place_of(word, shift, secret)
            while slots[slot] >= 0:
                n = U(slots[slot])
                if U(keys[n]) == word and same(
                    data, start, end, texts, U(ends[n]), U(ends[n + U(1)])
                ):
                    break
                slot = (slot + U(1)) & mask
        if slots[slot] < 0:
            first = U(ends[count])
            length = end - start
            if count == room or first + length > U(len(texts)):
                break
            for i in range(length):
                texts[first + i] = data[start + i]
            ends[count + U(1)] = first + length
            keys[count] = word
            slots[slot] = count
            count += U(1)
        out[row] = slots[slot]
        row += U(1)
    return row, count
