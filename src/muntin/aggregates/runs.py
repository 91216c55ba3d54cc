"""The longest increasing run, which spans slices: the aggregate of TPDS 2019, experiment 3.

A partial knows the run it begins with and the run it ends with, so that two neighbours can tell
whether the end of one continues into the beginning of the other.
"""

from typing import Any, NamedTuple

from muntin.aggregates.aggregate import Aggregate, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.extremes import above


class Runs(NamedTuple):
    """Values of a stretch seen as increasing runs; `start` counts from the stretch's first value."""

    n: int
    first: Any
    last: Any
    prefix: int
    suffix: int
    longest: int
    start: int


def LongestRun(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the length of the longest strictly increasing run of neighbouring values.

    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(LongestRun())
    >>> window.bulk_insert([5, 1, 2, 7, 3])
    >>> window.query()
    3
    """
    return built_in(
        "longest_run",
        "count",
        identity=None,
        lift=_one,
        combine=_join,
        lower=_length,
        columns=named(column),
        where=where,
        encode=tuple,
        decode=_decode,
    )


def _one(value: Any) -> Runs:
    return Runs(1, value, value, 1, 1, 1, 0)


def _join(a: Runs | None, b: Runs | None) -> Runs | None:
    if a is None or b is None:
        return a if b is None else b
    joined = above(b.first, a.last)
    longest, start = a.longest, a.start
    if joined and a.suffix + b.prefix > longest:
        longest, start = a.suffix + b.prefix, a.n - a.suffix
    if b.longest > longest:
        longest, start = b.longest, a.n + b.start
    return Runs(
        n=a.n + b.n,
        first=a.first,
        last=b.last,
        prefix=a.n + b.prefix if joined and a.prefix == a.n else a.prefix,
        suffix=a.suffix + b.n if joined and b.suffix == b.n else b.suffix,
        longest=longest,
        start=start,
    )


def _length(partial: Runs | None) -> int:
    return 0 if partial is None else partial.longest


def _decode(plain: Any) -> Runs:
    return Runs(*plain)
