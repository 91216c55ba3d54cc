"""Figures 6 to 9 of TPDS 2019 from our own runs, one picture each.

Figure 6: insert + evict + query over the size of the window. Figure 7: bulk eviction + query over the
number of values that go.
Figure 8: memory over the size of the window, where the paper has the window that fits into a given heap.
Figure 9: several aggregates that share a window and its policy, beside a window for each: as in the
paper, so many times the window of one aggregate.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import numpy as np
from rich.console import Console

import muntin as mt
from benchmarks.drawing import Picture, Points, make, point
from benchmarks.measure import Scale, seconds_of
from benchmarks.stores import opened, peak_mb, slider, values
from muntin.aggregators import Aggregator
from muntin.stores import stored

IN_MEMORY = {"Recalc": mt.Recalc, "DabaLite": mt.DabaLite, "LogMta": mt.LogMta, "Amta": mt.Amta}
IN_STORES = {"Amta in RocksDB": "RocksDB", "Amta in Redis": "Redis"}
TOGETHER, THROUGH, APART = "one window", "a line through it", "a window for each"
SIZES, QUICK_SIZES = range(21), range(0, 17, 4)
NAIVE = 12  # the largest exponent for what folds the whole window
LINEAR_S = 3.0  # evictions that take longer are not repeated with more values
SLIDES, QUICK_SLIDES = 1 << 14, 1 << 11
WINDOW, QUICK_WINDOW = 20, 14
REPEATS = 4
MEMORY_SIZES, QUICK_MEMORY_SIZES = range(16, 24), range(14, 21, 3)
LARGEST = {"LogMta": 21, "Amta in RocksDB": 25, "Amta in Redis": 24}
HELD, QUICK_HELD = 1 << 15, 1 << 12
DIMENSIONS, QUICK_DIMENSIONS = (1, *range(5, 51, 5)), (1, 10, 20, 35, 50)


def main(console: Console, scale: Scale) -> None:
    """Measure, keep and draw."""
    make(console, scale, "store_plots", PICTURES)


def windows(stack: ExitStack) -> Iterator[tuple[str, Aggregator]]:
    """Yield empty windows, in memory and in stores."""
    for who, algorithm in IN_MEMORY.items():
        yield who, algorithm(mt.Max())
    for who, where in IN_STORES.items():
        yield who, stack.enter_context(stored(mt.Max(), stack.enter_context(opened(where)), "w"))


def latency(scale: Scale) -> Points:
    """Yield the mean microseconds of insert + evict + query for each size, in the best of some runs."""
    count = QUICK_SLIDES if scale.quick else SLIDES
    for exponent in QUICK_SIZES if scale.quick else SIZES:
        with ExitStack() as stack:
            for who, window in windows(stack):
                if who == "Recalc" and exponent > NAIVE:
                    continue
                window.bulk_insert(values(1 << exponent))
                slides = max(count >> exponent, 64) if who == "Recalc" else count
                slide = slider(window, slides)
                best = min(seconds_of(slide) for _ in range(REPEATS))
                yield point("", who, 1 << exponent, 1e6 / slides * best)


def bulk_eviction(scale: Scale) -> Points:
    """Yield the best microseconds of an eviction for each number of values that it evicts."""
    top = QUICK_WINDOW if scale.quick else WINDOW
    with ExitStack() as stack:
        for who, window in windows(stack):
            for exponent in range(0, top + 1, 2 if scale.quick else 1):
                evicted = min(1 << exponent, (1 << top) - 1)
                times = []
                for _ in range(REPEATS):
                    window.bulk_insert(values((1 << top) - len(window)))
                    times.append(seconds_of(partial(evict_and_query, window, evicted)))
                    if sum(times) > LINEAR_S:
                        break
                yield point("", who, evicted, 1e6 * min(times))


def evict_and_query(window: Aggregator, n: int) -> None:
    window.bulk_evict(n)
    window.query()


def memory(scale: Scale) -> Points:
    """Yield the megabytes above the empty process for each size."""
    sizes = QUICK_MEMORY_SIZES if scale.quick else MEMORY_SIZES
    for who in ("DabaLite", "LogMta", "Amta", *IN_STORES):
        largest = LARGEST.get(who, sizes[-1]) if not scale.quick else sizes[-1]
        for exponent in range(sizes[0], largest + 1, sizes.step):
            yield point("", who, 1 << exponent, peak_mb(IN_STORES.get(who, who), 1 << exponent))


def dimensions(scale: Scale) -> Points:
    """Yield the mean microseconds of an insertion under a policy and a query, for each k."""
    held = QUICK_HELD if scale.quick else HELD
    count = QUICK_SLIDES if scale.quick else SLIDES
    found = {}
    for k in QUICK_DIMENSIONS if scale.quick else DIMENSIONS:
        with opened("RocksDB") as store:
            window = mt.PolicyWindow(mt.Product(*[mt.Count()] * k), mt.policies.last(held), store)
            window.bulk_insert(values(held))
            insert = partial(insert_and_query, window, count)
            found[k] = 1e6 / count * min(seconds_of(insert) for _ in range(REPEATS))
            if window.query() != (held,) * k:
                raise AssertionError(f"{k} counts are {window.query()}, not {held}")
    slope, start = np.polyfit([*found], [*found.values()], 1)
    for k, microseconds in found.items():
        yield point("", TOGETHER, k, microseconds)
        yield point("", THROUGH, k, float(start + slope * k))
        yield point("", APART, k, k * found[1])


def insert_and_query(window: mt.PolicyWindow, count: int) -> None:
    for value in values(count):
        window.insert(value)
        window.query()


TPDS = partial(Picture, paper="TPDS 2019")
PICTURES = (
    TPDS(
        "Figure 6", name="store_latency", title="Windows of constant size", points=latency,
        panels={"": "values in the window"}, ylabel="microseconds of insert + evict + query",
    ),
    TPDS(
        "Figure 7", name="store_bulk_eviction", title="Bulk eviction", points=bulk_eviction,
        panels={"": "values evicted at once"}, ylabel="microseconds of evict + query",
    ),
    TPDS(
        "Figure 8", name="store_memory", title="Memory", points=memory,
        panels={"": "values in the window"}, ylabel="megabytes above the empty process",
    ),
    TPDS(
        "Figure 9", name="store_dimensions", title="Several aggregates in one window in RocksDB",
        points=dimensions, panels={"": "aggregates, under one policy"}, xscale="linear",
        yscale="linear", ylabel="microseconds of insert + evict + query",
    ),
)  # fmt: skip
