"""A Bloom filter as one integer: combine is a bitwise or.

Bloom (CACM 1970); bits and hashes by the usual formulas, positions by double hashing.
"""

import math
from dataclasses import dataclass, field
from operator import or_
from typing import Any

from muntin.aggregates.aggregate import Aggregate, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.hashing import digest
from muntin.aggregates.parameters import check_open, check_whole


def Bloom(
    column: str | None = None, *, expected: int = 1000, error: float = 0.01, where: Where = None
) -> Aggregate:
    """Remember which values occurred, wrong about absent ones at the rate of error.

    The rate holds for up to `expected` different values. Cost: O(expected) bits per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Bloom())
    >>> window.bulk_insert(["ada", "bob"])
    >>> "ada" in window.query(), "eve" in window.query()
    (True, False)
    """
    check_whole("bloom", "expected", expected, 1, 2**32)
    check_open("bloom", "error", error)
    size = math.ceil(-expected * math.log(error) / math.log(2) ** 2)
    hashes = max(1, round(size / expected * math.log(2)))
    return built_in(
        f"bloom(expected={expected}, error={error})",
        "object",
        parameters={"expected": expected, "error": error},
        identity=0,
        lift=lambda value: _mask(value, size, hashes),
        combine=or_,
        lower=lambda bits: BloomFilter(bits, size, hashes),
        commutative=True,
        columns=named(column),
        where=where,
    )


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A set of values as bits: `in` never misses a value, and rarely finds one that was not there.

    Cost: O(hashes) per question.

    >>> seen = BloomFilter(bits=0, size=64, hashes=3)
    >>> "a" in seen, seen.estimate()
    (False, 0.0)
    """

    bits: int = field(repr=False)
    size: int
    hashes: int

    def __contains__(self, value: object) -> bool:
        mask = _mask(value, self.size, self.hashes)
        return self.bits & mask == mask

    def estimate(self) -> float:
        """Estimate how many different values are in it; infinity if every bit is set."""
        empty = 1.0 - self.bits.bit_count() / self.size
        return math.log(1.0 / empty) * self.size / self.hashes if empty else math.inf


def _mask(value: Any, size: int, hashes: int) -> int:
    hashed = digest(value)
    start, stride = int.from_bytes(hashed[:8]), int.from_bytes(hashed[8:])
    mask = 0
    for i in range(hashes):
        mask |= 1 << (start + i * stride) % size
    return mask
