"""The object API, interpreted: throughput over n for every algorithm, and a table of microseconds.

VLDB Journal 2021, Figure 10; KDD 2021, Figure 4; VLDB 2015, Figures 7 and 11. A round is evict + insert
+ query on a window that stays at n values. All algorithms slide over the same values in one process,
for whole multiples of n rounds, so that what comes once in n rounds is counted as often as it is due.
Results are compared with a fold of the window before anything is timed.
"""

import math
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, reduce
from itertools import cycle, islice
from typing import Any

from rich.console import Console
from rich.table import Table

import muntin as mt
from benchmarks.drawing import Picture, Points, make, point
from benchmarks.measure import Scale
from muntin.aggregators import Aggregator

ROUNDS, QUICK_ROUNDS = 20_000, 4_000
REPEATS = 3
SIZES = (16, 1024, 16384)
EXPONENTS, QUICK_EXPONENTS = range(2, 21, 2), (4, 7, 10, 14)
# What keeps n partials of a kilobyte, or folds the whole window, stops earlier.
LARGEST = {"Bloom": 16, "Recalc": 14}
DISTINCT = 1 << 12
PLAIN = {
    "Max": mt.Max(),
    "Sum": mt.Sum(),
    "Std": mt.Std(),
    "GeoMean": mt.GeoMean(),
}
# Hashing a value is the same for all: the filters of single values are made before.
BLOOM = replace(mt.Bloom(), lift=lambda bits: bits)
AGGREGATES = PLAIN | {"Bloom": BLOOM}
IN_ORDER = ("TwoStacks", "TwoStacksLite", "Daba", "DabaLite", "FlatFit", "Fiba")
BOUNDARY = ("Recalc", "TwoStacks", "SlickDeque", "Sba", "Pba")
TREES = ("FlatFat", "BInt")


def main(console: Console, scale: Scale) -> None:
    """Draw the figures, and print the time of every algorithm."""
    make(console, scale, "objects", PICTURES)
    table = Table("algorithm", *(f"n = {n}" for n in SIZES), title="microseconds per round, Max")
    recalc = {n: microseconds("Recalc", "Max", n, scale) for n in SIZES}
    for name, algorithm in mt.ALGORITHMS.items():
        if not algorithm.missing(PLAIN["Max"]):
            times = {n: microseconds(name, "Max", n, scale) for n in SIZES}
            cells = (f"{times[n]:.2f} ({recalc[n] / times[n]:.1f}x)" for n in SIZES)
            table.add_row(name, *cells)
    console.print(table)
    console.print("In brackets: how many times faster than Recalc in this run.")


def rate(spent_us: float) -> float:
    return 1 / spent_us


def cost(spent_us: float) -> float:
    return spent_us


def over_n(
    shown: Callable[[float], float], algorithms: tuple[str, ...], aggregates: tuple[str, ...]
) -> Callable[[Scale], Points]:
    """Return what yields the rate or the cost of algorithms for each n, a panel per aggregate."""

    def points(scale: Scale) -> Points:
        for aggregate in aggregates:
            for exponent in QUICK_EXPONENTS if scale.quick else EXPONENTS:
                for name in algorithms:
                    if exponent <= min(LARGEST.get(name, 99), LARGEST.get(aggregate, 99)):
                        spent = microseconds(name, aggregate, 2**exponent, scale)
                        yield point(aggregate, name, 2**exponent, shown(spent))

    return points


@cache
def values(aggregate: str, count: int) -> list[Any]:
    """Return values for an aggregate; they repeat, so that filters of bits need little memory."""
    rng = random.Random(count)
    if aggregate != "Bloom":
        return [rng.random() for _ in range(count)]
    made = mt.Bloom().lift
    return list(islice(cycle([made(rng.random()) for _ in range(DISTINCT)]), count))


def filled(name: str, aggregate: mt.Aggregate, given: list[Any]) -> Aggregator:
    """Return a window of these values."""
    options = {"range": len(given)} if name in ("Sba", "Pba") else {}
    window = mt.ALGORITHMS[name](aggregate, **options)
    window.bulk_insert(given)
    window.query()
    return window


def rounds(window: Aggregator, given: list[Any]) -> None:
    """Slide by every value."""
    evict, insert, query = window.evict, window.insert, window.query
    for value in given:
        evict()
        insert(value)
        query()


@cache
def microseconds(name: str, aggregate: str, n: int, scale: Scale) -> float:
    """Return the mean time of a round in the best of some runs."""
    least = QUICK_ROUNDS if scale.quick else ROUNDS
    count = max(50, 200_000 // n) if name == "Recalc" else n * math.ceil(least / n)
    given = values(aggregate, max(n, count))
    window = filled(name, AGGREGATES[aggregate], given[:n])
    rounds(window, given[:count])
    check(window, AGGREGATES[aggregate], (given[:n] + given[:count])[-n:])
    best = math.inf
    for _ in range(REPEATS):
        began = time.perf_counter()
        rounds(window, given[:count])
        best = min(best, time.perf_counter() - began)
    return 1e6 * best / count


def check(window: Aggregator, aggregate: mt.Aggregate, held: list[Any]) -> None:
    """Raise unless a window's result is that of the values it holds."""
    expected = aggregate.lower(reduce(aggregate.combine, map(aggregate.lift, held)))
    found = window.query()
    same = math.isclose(found, expected) if isinstance(found, float) else found == expected
    if not same:
        raise AssertionError(f"{window} gives {found}, and {expected} is right")


PICTURES = (
    Picture(
        "Figure 10", "VLDB Journal 2021", "objects_in_order", "Windows of constant size, interpreted",
        over_n(rate, IN_ORDER, ("Sum", "GeoMean", "Bloom")),
        {name: f"values in the window: {name}" for name in ("Sum", "GeoMean", "Bloom")},
        "million rounds per second", columns=3,
    ),
    Picture(
        "Figure 4", "KDD 2021", "objects_boundary", "Maximum of a window, interpreted",
        over_n(rate, BOUNDARY, ("Max",)), {"Max": "values in the window"},
        "million rounds per second",
    ),
    Picture(
        "Figures 7 and 11", "VLDB 2015", "objects_trees", "FlatFAT and B-Int, interpreted",
        over_n(cost, TREES, ("Max", "Std")),
        {name: f"values in the window: {name}" for name in ("Max", "Std")},
        "microseconds of evict + insert + query", yscale="linear",
    ),
)  # fmt: skip
