"""Aggregates of readings: the mean over time, and how fast a counter rises.

They see the rows of the window and nothing else: no value is carried into it, and nothing is
extrapolated to its edges. They depend on the order of rows, in which times must not fall.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.weights import ahead, joined_mean, lift_timed

Held = tuple[float, ...]
"""First and last time (two floats each), last value, mean until the last time, and how long that is."""
Risen = tuple[float, ...]
"""First value, last value, first time, last time (two floats each), the increase, or NaN."""
MICROSECOND, SECOND = 1000, 1e9


def TimeWeightedMean(
    column: str | None = None, *, time: str | None = None, where: Where = None
) -> Aggregate:
    """Average the values over time: each counts for as long as it holds, until the next row.

    The last row says only how long the one before it holds. Null with fewer than 2 rows; NaN if no time
    passes, or times fall. Without column names an input is a pair (value, time).
    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(TimeWeightedMean())
    >>> window.bulk_insert([(10, 0), (40, 3), (70, 4)])
    >>> window.query()
    17.5
    """
    return replace(_timed("time_weighted_mean"), columns=named(column, time), where=where)


def Rate(column: str | None = None, *, time: str | None = None, where: Where = None) -> Aggregate:
    """Take how much a counter rises per second, from the first row of the window to the last.

    A reading below the one before it means that the counter began again at 0. Null with fewer than
    2 rows; NaN if no time passes, or times fall. Without column names an input is a pair (value, time).
    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Rate())
    >>> second = 1_000_000
    >>> window.bulk_insert([(100, 0), (160, 2 * second), (20, 4 * second)])
    >>> window.query()
    20.0
    """
    return replace(_timed("rate"), columns=named(column, time), where=where)


@lru_cache
def _timed(name: str) -> Aggregate:
    make = {"rate": _rate_kernel, "time_weighted_mean": _mean_kernel}[name]
    exact = make(1)

    def lift(pair: Any) -> Any:
        timed = lift_timed(name, pair)
        return (0, ()) if timed is None else (1, exact.lift(timed))

    def combine(a: Any, b: Any) -> Any:
        if not a[0] or not b[0]:
            return a if a[0] else b
        return (a[0] + b[0], exact.combine(a[1], b[1]))

    def lower(partial: Any) -> float | None:
        return exact.lower(partial[1], partial[0]) if partial[0] > 1 else None

    return built_in(
        name,
        "float",
        identity=(0, ()),
        lift=lift,
        combine=combine,
        lower=lower,
        kernel=make(MICROSECOND),
        timed=make,
    )


@lru_cache
def _mean_kernel(_unit: int) -> Kernel:
    """Return the kernel for times in any unit."""
    return Kernel(_lift_held, _join_held, _mean_held, doubled=True, least=2)


@lru_cache
def _rate_kernel(unit: int) -> Kernel:
    """Return the kernel for times in a unit of so many nanoseconds."""
    per_second = SECOND / unit

    def lower(partial: Any, _n: int) -> float:
        first, first_low, last, last_low = partial[4], partial[5], partial[6], partial[7]
        passed = ahead(first, first_low, last, last_low)
        return float(partial[8]) / (passed / per_second) if passed > 0.0 else math.nan

    return Kernel(_lift_risen, _join_risen, lower, doubled=True, least=2)


def _lift_held(pair: Any) -> Held:
    value, time = pair
    x = value[0] + value[1]
    return (time[0], time[1], time[0], time[1], x, x, 0.0)


def _join_held(a: Any, b: Any) -> Any:
    gap = ahead(a[2], a[3], b[0], b[1])
    if not gap >= 0.0:
        return (a[0], a[1], b[2], b[3], b[4], math.nan, math.nan)
    held = a[6] + gap
    mean = _mean_of_both(_mean_of_both(a[5], a[6], a[4], gap), held, b[5], b[6])
    return (a[0], a[1], b[2], b[3], b[4], mean, held + b[6])


def _mean_of_both(mean_a: float, held_a: float, mean_b: float, held_b: float) -> float:
    """Join two means; one that holds for no time does not count."""
    if held_b == 0.0:
        return mean_a
    return mean_b if held_a == 0.0 else joined_mean(mean_a, held_a, mean_b, held_b)


def _mean_held(partial: Any, _n: int) -> float:
    return float(partial[5]) if partial[6] > 0.0 else math.nan


def _lift_risen(pair: Any) -> Risen:
    (high, low), (begin, finer) = pair
    nothing = (high + low) - (high + low)  # 0, or NaN for what is no number
    return (high, low, high, low, begin, finer, begin, finer, nothing)


def _join_risen(a: Any, b: Any) -> Any:
    risen = ahead(a[2], a[3], b[0], b[1])
    if risen < 0.0:
        risen = b[0] + b[1]
    if not ahead(a[6], a[7], b[4], b[5]) >= 0.0:
        risen = math.nan
    return (a[0], a[1], b[2], b[3], a[4], a[5], b[6], b[7], a[8] + risen + b[8])
