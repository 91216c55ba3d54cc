"""Order statistics of sliding windows: a set of bits over ranks, and a pointer that follows the rank.

The rows of a block are sorted once; the window is then a set of bits, one per row in that order. A row
that enters or leaves sets or clears its bit, and the pointer to the wanted rank moves by a bit or two.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import U, entry, leading_zeros, trailing_zeros
from muntin.kernels.loops.loop_arguments import Spans

DIGITS = 6
DIGIT_BITS = 11
"""Six digits of eleven bits hold a key of 64 bits."""
DIGIT_VALUES = 1 << DIGIT_BITS


class RankBlock(NamedTuple):
    """A block of rows, sorted by value."""

    ordered: Any  # per rank: the value
    ranks: Any  # per row of the block: its rank
    valid: Any  # per row of the block: whether it is not null
    base: Any  # the number of the block's first row
    bits: Any  # words of 64 bits, one bit per rank, all zero: set while the row is in the window


class WantedRanks(NamedTuple):
    """Which rank is wanted of a window with n values."""

    below: Any  # per n: the number of values that rank below the wanted one
    weight: Any  # per n: the share of the way from the wanted value to the next, 0.0 for none


class RankResults(NamedTuple):
    """What a window gives."""

    values: Any  # per window: its order statistic; nothing is written if it has no values
    counts: Any  # per window: the number of its values


@entry
def sort_rows(
    keys: Any, rows: Any, spare_keys: Any, spare_rows: Any, counts: Any, ranks: Any
) -> Any:
    """Sort keys by their digits, the lowest first; row numbers in that order are then in `rows`.

    Return 1 if they are in `spare_rows` instead, else 0.
    ranks[i] becomes the place of row i in it. `counts` has a row of DIGIT_VALUES zeros per digit. Rows
    with equal keys stay in their order. Runtime: O(rows), fewer passes where digits are all the same.
    """
    n = len(keys)
    swapped = 0
    lowest = U(DIGIT_VALUES - 1)
    for i in range(n):
        rows[i] = i
        for digit in range(U(DIGITS)):
            counts[digit, (keys[i] >> (U(DIGIT_BITS) * digit)) & lowest] += 1
    for digit in range(U(DIGITS)):
        shift = U(DIGIT_BITS) * digit
        if counts[digit, (keys[0] >> shift) & lowest] == n:
            continue  # all keys have the same digit
        place = 0
        for d in range(DIGIT_VALUES):
            counts[digit, d], place = place, place + counts[digit, d]
        for i in range(n):
            d = (keys[i] >> shift) & lowest
            place = counts[digit, d]
            counts[digit, d] = place + 1
            spare_keys[place] = keys[i]
            spare_rows[place] = rows[i]
        keys, spare_keys = spare_keys, keys
        rows, spare_rows = spare_rows, rows
        swapped = 1 - swapped
    for place in range(n):
        ranks[rows[place]] = place
    return swapped


def following(bits: Any, p: Any) -> Any:
    """Return the first position from p on whose bit is set."""
    w = p >> U(6)
    word = bits[w] >> (p & U(63))
    if word != U(0):
        return p + trailing_zeros(word)
    w += U(1)
    while bits[w] == U(0):
        w += U(1)
    return (w << U(6)) + trailing_zeros(bits[w])


def preceding(bits: Any, p: Any) -> Any:
    """Return the last position before p whose bit is set."""
    q = p - U(1)
    w = q >> U(6)
    word = bits[w] << (U(63) - (q & U(63)))
    if word != U(0):
        return q - leading_zeros(word)
    w -= U(1)
    while bits[w] == U(0):
        w -= U(1)
    return (w << U(6)) + U(63) - leading_zeros(bits[w])


def between(low: Any, high: Any, weight: Any) -> Any:
    """Return low + weight * (high - low)."""
    if low == high:
        return low * 1.0
    step = high - low
    if step - step == 0.0:
        return low + weight * step
    return low * (1.0 - weight) + high * weight  # the difference is too large for a float


@entry
def roll_ranks(
    block: RankBlock, spans: Spans, lo: Any, hi: Any, wanted: WantedRanks, results: RankResults
) -> None:
    """Write the order statistics of the windows of `spans` with numbers [lo, hi) into `results`.

    The windows lie within the block, and neither their starts nor their ends fall.
    """
    ordered, ranks, valid, base, bits = block
    starts, ends = spans
    s = e = U(starts[lo])
    at = U(0)  # the pointer
    below = U(0)  # how many values of the window rank below the pointer
    n = U(0)
    for k in range(lo, hi):
        start, end = U(starts[k]), U(ends[k])
        while e < end:
            i = e - base
            if valid[i]:
                r = U(ranks[i])
                bits[r >> U(6)] |= U(1) << (r & U(63))
                below += U(r < at)
                n += U(1)
            e += U(1)
        while s < start:
            if s < e:
                i = s - base
                if valid[i]:
                    r = U(ranks[i])
                    bits[r >> U(6)] &= ~(U(1) << (r & U(63)))
                    below -= U(r < at)
                    n -= U(1)
            s += U(1)
        e = max(e, s)
        results.counts[k] = n
        if n > U(0):
            wanted_below = U(wanted.below[n])
            while below > wanted_below:
                at = preceding(bits, at)
                below -= U(1)
            at = following(bits, at)
            while below < wanted_below:
                at = following(bits, at + U(1))
                below += U(1)
            value, weight = ordered[at], wanted.weight[n]
            if weight > 0.0:
                after = ordered[following(bits, at + U(1))]
                results.values[k] = between(value, after, weight)
            else:
                results.values[k] = value
