"""The object API, interpreted: how long single operations take.

VLDB Journal 2021, Figure 9: every operation's least time over several runs of the same values, so that
interrupts drop out and what an algorithm does at that operation stays. KDD 2021, Figure 7, Tables 2 and
3: the second thread of PBA is never at the same place twice, so whole runs are compared, and of each
algorithm the run with the smallest maximum counts. The garbage collector is off. Slices of a
MomentSketch are made before; what is timed is merging them, as in the paper.
"""

import gc
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import numpy as np
from rich.console import Console

import muntin as mt
from benchmarks.drawing import Picture, Points, make, point, tail
from benchmarks.measure import Scale
from benchmarks.objects import AGGREGATES, IN_ORDER, filled, values
from muntin.aggregators import Aggregator

N = 1 << 14
RUNS, QUICK_RUNS = 9, 3
PASSES, QUICK_PASSES = 4, 2
"""Rounds are so many times the window's length."""
SHOWN = ("Sum", "GeoMean", "Bloom")
COUNTED = (1 << 13, 1 << 14)
HOURS = (3600, 7200)
BOUNDARY = ("TwoStacks", "SlickDeque", "Sba", "Pba")
BINS = 256
SUMMARY = {
    "Min": np.min,
    "Max": np.max,
    "Avg": np.mean,
    "Std": np.std,
    "LQ": lambda ns: np.quantile(ns, 0.25),
    "Med": np.median,
    "HQ": lambda ns: np.quantile(ns, 0.75),
}
COUNT, TIME = "Max, {:,} values", "MomentSketch, {:,} slices"


def main(console: Console, scale: Scale) -> None:
    """Measure, keep and draw."""
    make(console, scale, "object_latency", PICTURES)


def distribution(scale: Scale) -> Points:
    """Yield the share of rounds that take at least so many microseconds."""
    for aggregate in SHOWN:
        for name in IN_ORDER:
            given = values(aggregate, N)
            runs = [spent(name, AGGREGATES[aggregate], given, scale) for _ in range(repeats(scale))]
            for share, ns in tail(np.min(runs, axis=0)):
                yield point(aggregate, name, share, ns / 1e3)


def repeats(scale: Scale) -> int:
    return QUICK_RUNS if scale.quick else RUNS


def spent(name: str, aggregate: mt.Aggregate, given: list[Any], scale: Scale) -> np.ndarray:
    """Return the nanoseconds of each round over a full window."""
    window = filled(name, aggregate, given)
    rounds = given * (QUICK_PASSES if scale.quick else PASSES)
    with collector_off():
        return np.diff(clocked(window, rounds))


@contextmanager
def collector_off() -> Iterator[None]:
    """Collect no garbage meanwhile."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def clocked(window: Aggregator, given: list[Any]) -> list[int]:
    """Slide by every value, and return the clock before and after each."""
    evict, insert, query = window.evict, window.insert, window.query
    clock = [perf_counter_ns()]
    for value in given:
        evict()
        insert(value)
        query()
        clock.append(perf_counter_ns())
    return clock


def sketch() -> mt.Aggregate:
    """Return a MomentSketch of slices that are there; nothing is read from the result."""
    return replace(mt.MomentSketch(k=10), lift=lambda s: s, lower=lambda s: s)


def slices(count: int) -> list[Any]:
    """Return sketches of one value each."""
    rng, lift = random.Random(count), mt.MomentSketch(k=10).lift
    return [lift(rng.random()) for _ in range(count)]


def instances(scale: Scale) -> Points:
    """Yield the slowest of the rounds around each, and the summaries of all."""
    cases = [(COUNT.format(n), mt.Max(), values("Max", n)) for n in COUNTED]
    cases += [(TIME.format(n), sketch(), slices(n)) for n in HOURS]
    for panel, aggregate, given in cases:
        for name in BOUNDARY:
            if mt.ALGORITHMS[name].missing(aggregate):
                continue
            runs = [spent(name, aggregate, given, scale) for _ in range(repeats(scale))]
            best = min(runs, key=np.max)
            for part in np.array_split(np.arange(len(best)), BINS):
                yield point(panel, name, int(part[0]), float(best[part].max()))
            for what, of in SUMMARY.items():
                yield point(f"{panel}, summary", name, what, float(of(best)))


PICTURES = (
    Picture(
        "Figure 9", "VLDB Journal 2021", "object_latency", f"Latency, n = {N:,}, interpreted",
        distribution, {name: f"rounds that take as long or longer: {name}" for name in SHOWN},
        "microseconds of evict + insert + query", kind="steps", columns=3,
    ),
    Picture(
        "Figure 7", "KDD 2021", "object_instances",
        f"Latency of the slowest in each of {BINS} stretches, interpreted", instances,
        {COUNT.format(n): f"window instance: {COUNT.format(n)}" for n in COUNTED}
        | {TIME.format(n): f"window instance: {TIME.format(n)}" for n in HOURS},
        "nanoseconds", xscale="linear", kind="dots",
    ),
)  # fmt: skip
