"""Means and sums in which values count less the older they are: by rows, or by time.

By rows a partial is (mean, weight, decay, simple): the weighted mean, the sum of weights, the factor
by which the rows weaken what is older, and the mean in which the oldest row has all the weight that is
left.
By time it is (mean, weight, time): weights are those at the newest time, so that the order of rows does
not matter. Means are joined as means, which stays exact for large values with small differences.
"""

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.durations import nanoseconds
from muntin.aggregates.numbers import rational
from muntin.aggregates.parameters import real
from muntin.aggregates.weights import ahead, joined_mean, lift_timed

ByRows = tuple[float, float, float, float]
ByTime = tuple[float, float, float, float]
"""A mean or sum, its weight, and the newest time as two floats."""
MICROSECOND = 1000


def Ewm(
    column: str | None = None,
    *,
    alpha: float | None = None,
    span: float | None = None,
    adjust: bool = True,
    halflife: Any = None,
    time: str | None = None,
    where: Where = None,
) -> Aggregate:
    """Average the values of the window, exponentially weighted: the newest counts most.

    By rows, each older value counts 1 - alpha as much as the next; `span` stands for
    alpha = 2 / (span + 1). With `adjust=False` the oldest value of the window has all the weight that is
    left, as if the mean had begun there. By time, a value counts half as much a `halflife` before the
    newest, by the column `time`; without column names an input is then a pair (value, time).
    Nulls are skipped, as by pandas' ewm(ignore_na=True). Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Ewm(alpha=0.5))
    >>> window.bulk_insert([1, 2, 5])
    >>> window.query()
    3.5714285714285716
    """
    if sum(given is not None for given in (alpha, span, halflife)) != 1:
        raise TypeError("ewm: give one of alpha=, span= or halflife=")
    if halflife is not None:
        if not adjust:
            raise TypeError("ewm: adjust=False is for alpha= and span=, whose weights go by rows")
        made = _by_time("ewm", _length("ewm", halflife))
        return _of_columns(made, column, time, where)
    if time is not None:
        raise TypeError("ewm: time= goes with halflife=; alpha= and span= go by rows")
    if span is not None:
        alpha = 2.0 / (real("ewm", "span", span, least=1.0) + 1.0)
    assert alpha is not None
    share = real("ewm", "alpha", alpha, most=1.0)
    if share <= 0.0:
        raise ValueError(f"ewm: alpha must be larger than 0, got {alpha!r}")
    return _of_columns(_by_rows(share, bool(adjust)), column, None, where)


def DecayedSum(
    column: str | None = None, *, halflife: Any, time: str | None = None, where: Where = None
) -> Aggregate:
    """Add up the values, each of which counts half as much a `halflife` before the newest.

    Times are those of the column `time`; without column names an input is a pair (value, time).
    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(DecayedSum(halflife="1 min"))
    >>> minute = 60_000_000
    >>> window.bulk_insert([(8, 0), (4, minute), (1, 2 * minute)])
    >>> window.query()
    5.0
    """
    made = _by_time("decayed_sum", _length("decayed_sum", halflife))
    return _of_columns(made, column, time, where)


def _length(name: str, halflife: Any) -> int:
    length = nanoseconds(halflife)
    if length <= 0:
        raise ValueError(f"{name}: halflife must be longer than 0, got {halflife!r}")
    return length


def _of_columns(made: Aggregate, column: str | None, time: str | None, where: Where) -> Aggregate:
    columns = named(column) if made.timed is None else named(column, time)
    return replace(made, columns=columns, where=where)


@lru_cache
def _by_rows(alpha: float, adjust: bool) -> Aggregate:
    decay = 1.0 - alpha

    def lift_value(value: Any) -> ByRows:
        x = float(value)
        return (x, 1.0, decay, x)

    def combine_values(a: Any, b: Any) -> Any:
        if decay == 0.0:
            return b
        older = a[1] * b[2]
        mean = joined_mean(a[0], older, b[0], b[1])
        return (mean, older + b[1], a[2] * b[2], joined_mean(a[3], b[2], b[0], alpha * b[1]))

    def lower_values(partial: Any, _n: int) -> float:
        mean: float = partial[0] if adjust else partial[3]
        return mean

    def lift(value: Any) -> ByRows:
        return lift_value(rational("ewm", value))

    def combine(a: ByRows | None, b: ByRows | None) -> Any:
        if a is None or b is None:
            return a if b is None else b
        return combine_values(a, b)

    def lower(partial: ByRows | None) -> float | None:
        return None if partial is None else lower_values(partial, 1)

    return built_in(
        f"ewm(alpha={alpha:.6g}{'' if adjust else ', adjust=False'})",
        "float",
        parameters={"alpha": alpha, "adjust": adjust},
        identity=None,
        lift=lift,
        combine=combine,
        lower=lower,
        kernel=Kernel(lift_value, combine_values, lower_values),
    )


@lru_cache
def _by_time(name: str, halflife: int) -> Aggregate:
    exact = _kernel(name, halflife, 1)

    def lift(pair: Any) -> ByTime | None:
        timed = lift_timed(name, pair)
        return None if timed is None else exact.lift(timed)

    def combine(a: ByTime | None, b: ByTime | None) -> Any:
        if a is None or b is None:
            return a if b is None else b
        return exact.combine(a, b)

    def lower(partial: ByTime | None) -> float | None:
        return None if partial is None else exact.lower(partial, 1)

    return built_in(
        f"{name}(halflife={halflife} ns)",
        "float",
        parameters={"halflife": halflife},
        identity=None,
        lift=lift,
        combine=combine,
        lower=lower,
        commutative=True,
        kernel=_kernel(name, halflife, MICROSECOND),
        timed=partial(_kernel, name, halflife),
    )


@lru_cache
def _kernel(name: str, halflife: int, unit: int) -> Kernel:
    """Return the kernel for times in a unit of so many nanoseconds."""
    ticks = halflife / unit

    def combine_means(a: Any, b: Any) -> Any:
        later = ahead(a[2], a[3], b[2], b[3])
        if later >= 0.0:
            old = a[1] * 0.5 ** (later / ticks)
            return (joined_mean(a[0], old, b[0], b[1]), old + b[1], b[2], b[3])
        old = b[1] * 0.5 ** (-later / ticks)
        return (joined_mean(a[0], a[1], b[0], old), a[1] + old, a[2], a[3])

    def combine_sums(a: Any, b: Any) -> Any:
        later = ahead(a[2], a[3], b[2], b[3])
        if later >= 0.0:
            return (_weakened(a[0], 0.5 ** (later / ticks)) + b[0], 1.0, b[2], b[3])
        return (a[0] + _weakened(b[0], 0.5 ** (-later / ticks)), 1.0, a[2], a[3])

    return Kernel(_lift, combine_means if name == "ewm" else combine_sums, _first, doubled=True)


def _lift(pair: Any) -> ByTime:
    value, time = pair
    return (value[0] + value[1], 1.0, time[0], time[1])


def _weakened(total: float, factor: float) -> float:
    """Return a share of a sum; of an infinite one nothing can be taken away."""
    return total * factor if total - total == 0.0 else total


def _first(partial: Any, _n: int) -> float:
    return float(partial[0])
