"""How often values occur: the most frequent one, the entropy of a window, and the rank of its newest.

A partial is the runs of `quantiles`: the different values in order, how often each occurs, and how many
are NaN, which is one value and larger than any number. For the rank it has the newest value beside it.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Multiset, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.multisets import Frequencies, MostFrequent
from muntin.aggregates.numbers import as_python
from muntin.aggregates.quantiles import NO_RUNS, Runs, merged, removed, run_of, runs_of

Newest = tuple[Runs, Any]
"""The runs of all values, and the newest value."""
METHODS = ("average", "min", "max", "dense")


def Mode(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the most frequent value, the smallest of equally frequent ones, as SciPy's mode does.

    Cost: O(different values) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Mode())
    >>> window.bulk_insert(["b", "a", "c", "b", "a"])
    >>> window.query()
    'a'
    """
    return _frequency("mode", "value", _mode, MostFrequent, column, where)


def Entropy(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take Shannon's entropy of how often each value occurs, in nats, as SciPy's entropy does.

    It is 0 if all values are equal, and the logarithm of their number if all differ. Divide it by
    log(2) for bits. Cost: O(different values) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Entropy())
    >>> window.bulk_insert(["a", "b", "a", "b"])
    >>> round(window.query(), 6)
    0.693147
    """
    return _frequency("entropy", "statistic", _entropy, _frequencies, column, where)


def Rank(column: str | None = None, *, method: str = "average", where: Where = None) -> Aggregate:
    """Take the rank of the newest value among all, counted from 1 at the smallest.

    Equal values share ranks: their mean with "average", the smallest or largest with "min" or "max".
    With "dense" the next larger value has the next rank. It is a float, as in pandas.
    Cost: O(different values) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Rank())
    >>> window.bulk_insert([30, 10, 20, 40, 20])
    >>> window.query()
    2.5
    """
    if method not in METHODS:
        raise ValueError(f"rank: method must be one of {', '.join(METHODS)}, got {method!r}")

    def lower(partial: Newest) -> float | None:
        return None if partial[1] is None else _rank(partial, method)

    return built_in(
        f"rank({method})",
        "statistic",
        parameters={"method": method},
        identity=(NO_RUNS, None),
        lift=_newest,
        combine=_newer,
        lower=lower,
        holistic=True,
        columns=named(column),
        where=where,
        gather=_newest_of,
    )


def _frequency(
    name: str,
    result: str,
    lower: Callable[[Runs], Any],
    multiset: Callable[[], Multiset],
    column: str | None,
    where: Where,
) -> Aggregate:
    def lift(value: Any) -> Runs:
        return run_of(comparable(name, value))

    def gather(values: list[Any]) -> Runs:
        return runs_of([comparable(name, value) for value in values])

    return built_in(
        name,
        result,
        identity=NO_RUNS,
        lift=lift,
        combine=merged,
        lower=lower,
        inverse=removed,
        commutative=True,
        holistic=True,
        columns=named(column),
        where=where,
        gather=gather,
        multiset=multiset,
    )


def comparable(name: str, value: Any) -> Any:
    """Return a value that has an order, of NumPy's the Python number; refuse lists and dicts."""
    if isinstance(value, list | tuple | dict | set | frozenset | bytearray):
        raise TypeError(f"{name} takes numbers, text and times, got {value!r}")
    return as_python(value)


def _mode(partial: Runs) -> Any:
    values, counts, nans = partial
    most = max(counts, default=0)
    if nans > most:
        return math.nan
    return values[counts.index(most)] if most else None


def _entropy(partial: Runs) -> float | None:
    counts = Counter(partial[1])
    if partial[2]:
        counts[partial[2]] += 1
    return _of_frequencies(counts)


def _frequencies() -> Frequencies:
    return Frequencies(_of_frequencies)


def _of_frequencies(values: dict[int, int]) -> float | None:
    """Return the entropy, given how many values occur how often."""
    n = sum(count * many for count, many in values.items())
    if not n:
        return None
    return math.fsum(many * (count / n) * math.log(n / count) for count, many in values.items())


def _newest(value: Any) -> Newest:
    value = comparable("rank", value)
    return run_of(value), value


def _newest_of(values: list[Any]) -> Newest:
    values = [comparable("rank", value) for value in values]
    return runs_of(values), values[-1] if values else None


def _newer(a: Newest, b: Newest) -> Newest:
    if a[1] is None or b[1] is None:
        return a if b[1] is None else b
    return merged(a[0], b[0]), b[1]


def _rank(partial: Newest, method: str) -> float:
    (values, counts, nans), newest = partial
    if newest == newest:
        smaller = bisect_left(values, newest)
        below, equal = sum(counts[:smaller]), counts[smaller]
    else:
        smaller = len(values)
        below, equal = sum(counts), nans
    if method == "dense":
        return float(smaller + 1)
    return below + {"average": (equal + 1) / 2, "min": 1.0, "max": float(equal)}[method]
