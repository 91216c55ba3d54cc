"""Figures 6 to 8 of TPDS 2019 from our own runs, one picture each.

Figure 6: insert + evict + query over the size of the window. Figure 7: bulk eviction + query over the
number of values that go.
Figure 8: memory over the size of the window, where the paper has the window that fits into a given heap.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.console import Console
from rich.progress import track

import muntin as mt
from benchmarks.measure import Scale, save, seconds_of
from benchmarks.plots import STYLE, written
from benchmarks.stores import opened, peak_mb, slider, values
from muntin.aggregators import Aggregator
from muntin.stores import stored

mpl.use("Agg")
import matplotlib.pyplot as plt

Point = dict[str, Any]
Points = Iterator[Point]

IN_MEMORY = {"Recalc": mt.Recalc, "DabaLite": mt.DabaLite, "LogMta": mt.LogMta, "Amta": mt.Amta}
IN_STORES = {"Amta in RocksDB": "RocksDB", "Amta in Redis": "Redis"}
COLOURS = {
    "Recalc": "#ababab",
    "DabaLite": "#333333",
    "LogMta": "#2a9d5c",
    "Amta": "#0b5fa5",
    "Amta in RocksDB": "#d1495b",
    "Amta in Redis": "#e0a030",
}
MARKS = dict(zip(COLOURS, "xsD^ov", strict=True))
SIZES, QUICK_SIZES = range(21), range(0, 17, 4)
NAIVE = 12  # the largest exponent for what folds the whole window
LINEAR_S = 3.0  # evictions that take longer are not repeated with more values
SLIDES, QUICK_SLIDES = 1 << 14, 1 << 11
WINDOW, QUICK_WINDOW = 20, 14
REPEATS = 4
MEMORY_SIZES, QUICK_MEMORY_SIZES = range(16, 24), range(14, 18, 2)
LARGEST = {"LogMta": 21, "Amta in RocksDB": 25, "Amta in Redis": 24}


@dataclass(frozen=True)
class Picture:
    """A figure: its points and its axes."""

    number: int
    name: str
    title: str
    points: Callable[[Scale], Points]
    xlabel: str
    ylabel: str


def main(console: Console, scale: Scale) -> None:
    """Measure what the pictures need, keep it, and draw."""
    plt.rcParams.update(STYLE)
    points: list[Point] = []
    for picture in track(PICTURES, description="store plots", console=console):
        mine = [{"figure": picture.number, **point} for point in picture.points(scale)]
        points += mine
        console.print(f"drawn: {draw(picture, mine)}")
    console.print(f"raw results: {save('store_plots', points)}")


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
                yield point(who, 1 << exponent, 1e6 / slides * best)


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
                yield point(who, evicted, 1e6 * min(times))


def evict_and_query(window: Aggregator, n: int) -> None:
    window.bulk_evict(n)
    window.query()


def memory(scale: Scale) -> Points:
    """Yield the megabytes above the empty process for each size."""
    sizes = QUICK_MEMORY_SIZES if scale.quick else MEMORY_SIZES
    for who in ("DabaLite", "LogMta", "Amta", *IN_STORES):
        largest = LARGEST.get(who, sizes[-1]) if not scale.quick else sizes[-1]
        for exponent in range(sizes[0], largest + 1, sizes.step):
            yield point(who, 1 << exponent, peak_mb(IN_STORES.get(who, who), 1 << exponent))


def point(who: str, x: float, y: float) -> Point:
    return {"who": who, "x": x, "y": y}


PICTURES = (
    Picture(
        6, "store_latency", "Windows of constant size", latency, "values in the window",
        "microseconds of insert + evict + query",
    ),
    Picture(
        7, "store_bulk_eviction", "Bulk eviction", bulk_eviction, "values evicted at once",
        "microseconds of evict + query",
    ),
    Picture(
        8, "store_memory", "Memory", memory, "values in the window",
        "megabytes above the empty process",
    ),
)  # fmt: skip


def draw(picture: Picture, points: list[Point]) -> Path:
    """Draw a line for each who."""
    figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
    for who in dict.fromkeys(p["who"] for p in points):
        xs, ys = zip(*((p["x"], p["y"]) for p in points if p["who"] == who), strict=True)
        ours = who.startswith("Amta")
        axes.plot(
            xs, ys, marker=MARKS[who], color=COLOURS[who], label=who, markersize=5,
            linewidth=2 if ours else 1.2, linestyle="-" if ours else "--",
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.set(xlabel=picture.xlabel, ylabel=picture.ylabel)
    axes.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=6, frameon=False)
    figure.suptitle(f"{picture.title} (TPDS 2019, Figure {picture.number})")
    return written(figure, picture.name)
