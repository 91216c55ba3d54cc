"""Order statistics of sliding windows: a set of bits over ranks, and a pointer that follows the rank.

The rows of a block are sorted once; the window is then a set of bits, one per row in that order. A row
that comes or goes sets or clears its bit, and the pointer to the wanted rank moves by a bit or two.
Written out into a generated module, as `drivers.py` is.
"""

from typing import Any

from muntin.kernels.loops.instructions import U, entry, leading_zeros, trailing_zeros


@entry
def sort_rows(
    keys: Any, rows: Any, spare_keys: Any, spare_rows: Any, counts: Any, ranks: Any
) -> Any:
    """Sort keys by their digits of eleven bits, the lowest first; return the rows in that order.

    ranks[i] becomes the place of row i in it. counts has a row for each of six digits, of zeros. Rows
    with equal keys stay in their order. Runtime: O(rows), fewer passes where digits are all the same.
    """
    n = len(keys)
    for i in range(n):
        rows[i] = i
        for digit in range(U(6)):
            counts[digit, (keys[i] >> (U(11) * digit)) & U(2047)] += 1
    for digit in range(U(6)):
        shift = U(11) * digit
        if counts[digit, (keys[0] >> shift) & U(2047)] == n:
            continue  # it is the same in all keys
        place = 0
        for d in range(2048):
            counts[digit, d], place = place, place + counts[digit, d]
        for i in range(n):
            d = (keys[i] >> shift) & U(2047)
            place = counts[digit, d]
            counts[digit, d] = place + 1
            spare_keys[place] = keys[i]
            spare_rows[place] = rows[i]
        keys, spare_keys = spare_keys, keys
        rows, spare_rows = spare_rows, rows
    for place in range(n):
        ranks[rows[place]] = place
    return rows


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
    """Return what lies a share of the way from one value to another."""
    if low == high:
        return low * 1.0
    step = high - low
    if step - step == 0.0:
        return low + weight * step
    return low * (1.0 - weight) + high * weight  # the difference is too large for a float


@entry
def roll_ranks(
    ordered: Any,
    ranks: Any,
    valid: Any,
    base: Any,
    starts: Any,
    ends: Any,
    lo: Any,
    hi: Any,
    bits: Any,
    below_of: Any,
    weight_of: Any,
    outs: Any,
    counts: Any,
) -> None:
    """Emit the order statistic of the windows [starts[k], ends[k]) for k in [lo, hi).

    Row base + i has rank ranks[i], and ordered[rank] is its value. Of a window with n values the one
    with below_of[n] values below it is wanted, and weight_of[n] of the way to the next one.
    """
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
        counts[k] = n
        if n > U(0):
            wanted = U(below_of[n])
            while below > wanted:
                at = preceding(bits, at)
                below -= U(1)
            at = following(bits, at)
            while below < wanted:
                at = following(bits, at + U(1))
                below += U(1)
            if weight_of[n] > 0.0:
                outs[k] = between(ordered[at], ordered[following(bits, at + U(1))], weight_of[n])
            else:
                outs[k] = ordered[at]
