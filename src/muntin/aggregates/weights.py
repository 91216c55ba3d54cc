"""Means of two stretches, and how far apart two moments are: what weighted aggregates share.

A number or moment that must keep all its digits is two floats that add up to it, as in `spread`.
"""

from typing import Any

from muntin.aggregates.durations import nanoseconds_since_epoch
from muntin.aggregates.numbers import two_floats

Timed = tuple[tuple[float, float], tuple[float, float]]
"""A value and its time."""


def lift_timed(name: str, pair: Any) -> Timed | None:
    """Return a pair (value, time) as kernels take it, the time in nanoseconds; None if one is null."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"without column names an input is a pair (value, time), got {pair!r}")
    value, time = pair
    if value is None or time is None:
        return None
    return two_floats(name, value), two_floats(name, nanoseconds_since_epoch(name, time))


def joined_mean(mean_a: float, weight_a: float, mean_b: float, weight_b: float) -> float:
    """Return the mean of two stretches with weights.

    What is no number makes it none however little it weighs: weights of 0 were too small for floats.
    """
    share_a = weight_a / (weight_a + weight_b)
    share_b = weight_b / (weight_a + weight_b)
    if share_a <= 0.5:
        mean = mean_b + (mean_a - mean_b) * share_a
    else:
        mean = mean_a + (mean_b - mean_a) * share_b
    if mean - mean == 0.0:
        return mean
    if mean_a - mean_a == 0.0 and mean_b - mean_b == 0.0:  # their difference is no float
        return mean_a * share_a + mean_b * share_b
    return mean_a + mean_b  # NaN, or infinite


def ahead(high_a: float, low_a: float, high_b: float, low_b: float) -> float:
    """Return how much larger the second of two numbers is, of which each is two floats."""
    return (high_b - high_a) + (low_b - low_a)
