"""Figures 8 to 13 and 16 of EDBT 2019 from our own runs, one picture each.

The paper's techniques are plans that can be forced. Plans are compared with each other before they are
timed, and each takes as many rows of the stream as it gets through in a fraction of a second.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.progress import track

import muntin as mt
from benchmarks.measure import Scale, check_same, save, seconds_of
from benchmarks.plots import STYLE, written
from benchmarks.slicing import held
from benchmarks.streams import (
    LATE,
    SECOND,
    VALUE,
    Run,
    Stream,
    check_plans,
    concurrent,
    football,
    query,
    rates,
)

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogFormatter

Point = dict[str, Any]
Points = Iterator[Point]

COLOURS = {
    "lazy": "#0b5fa5",
    "eager": "#d1495b",
    "buckets": "#333333",
    "tuple buffer": "#7a7a7a",
    "aggregate tree": "#2a9d5c",
    "time": "#0b5fa5",
    "count": "#d1495b",
}
MARKS = dict(zip(COLOURS, "osDv^os", strict=True))
PLANS = ("lazy", "eager", "buckets", "tuple buffer", "aggregate tree")
STORES = ("lazy", "eager")
MEASURES = ("time", "count")
RATE = "million rows per second"
ROWS, QUICK_ROWS = 1 << 22, 1 << 18
# The first rows of a stream are for comparing results, and for guessing how long the others take.
CHECKED, QUICK_CHECKED = 1 << 15, 1 << 13
PACE_SECONDS = 0.3
WINDOWS, QUICK_WINDOWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), (1, 10, 100)
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
DELAYS_S = (0.25, 1, 2, 4, 8)
ENTRIES = {"Sum": (10, 100, 1000, 10_000, 100_000), "Median": (10, 100, 1000, 10_000)}
STATE_ROWS = (1000, 10_000, 100_000, 1_000_000)
STATE_SLICES = (10, 100, 1000, 10_000)
SLICES, TUPLES = 500, 50_000
TURNS, SLOW_SECONDS = 5, 1.0
AGGREGATES = {
    "Sum": mt.Sum("v"),
    "Sum without inverse": replace(
        mt.Sum("v"), inverse=None, kernel=replace(mt.Sum().kernel, inverse=None)
    ),
    "Count": mt.Count(),
    "Mean": mt.Mean("v"),
    "GeoMean": mt.GeoMean("v"),
    "Std": mt.Std("v"),
    "Min": mt.Min("v"),
    "Max": mt.Max("v"),
    "MinCount": mt.MinCount("v"),
    "MaxCount": mt.MaxCount("v"),
    "ArgMin": mt.ArgMin("v", "t"),
    "ArgMax": mt.ArgMax("v", "t"),
    "Median": mt.Median("v"),
    "90th percentile": mt.Quantile("v", 0.9),
}
QUICK_AGGREGATES = ("Sum", "Sum without inverse", "Max", "Median")


@dataclass(frozen=True)
class Picture:
    """A figure: its points, and per panel a label of the horizontal axis."""

    number: int
    name: str
    title: str
    points: Callable[[Scale], Points]
    panels: dict[str, str]
    ylabel: str = RATE
    xscale: str = "log"
    bars: bool = False


def main(console: Console, scale: Scale) -> None:
    """Measure what the pictures need, keep it, and draw."""
    plt.rcParams.update(STYLE)
    points: list[Point] = []
    for picture in track(PICTURES, description="slicing plots", console=console):
        mine = [{"figure": picture.number, **point} for point in picture.points(scale)]
        points += mine
        console.print(f"drawn: {draw(picture, mine)}")
    console.print(f"raw results: {save('slicing_plots', points)}")


def some(values: tuple[Any, ...], scale: Scale) -> tuple[Any, ...]:
    return values[::2] if scale.quick else values


def windows(scale: Scale) -> tuple[int, ...]:
    return QUICK_WINDOWS if scale.quick else WINDOWS


def stream(scale: Scale, late: float = LATE, **options: Any) -> Stream:
    return football(QUICK_ROWS if scale.quick else ROWS, late, **options)


def timed(panel: str, x: Any, runs: dict[str, Run], scale: Scale) -> Points:
    """Yield the rates of runs, each over as many rows as it has time for."""
    paced = {who: fitting(run, scale) for who, run in runs.items()}
    for who, rate in rates(paced, scale).items():
        yield point(panel, who, x, rate)


def point(panel: str, who: str, x: Any, y: float) -> Point:
    return {"panel": panel, "who": who, "x": x, "y": y}


def head(run: Run, scale: Scale) -> Run:
    return run.head(QUICK_CHECKED if scale.quick else CHECKED)


def fitting(run: Run, scale: Scale) -> Run:
    """Return the run over rows that take a fraction of a second."""
    first = head(run, scale)
    rows = len(first.stream) * PACE_SECONDS * scale.patience / seconds_of(first.play)
    return run.head(max(int(rows), len(first.stream)))


def of_plans(asked: mt.Query, rows: Stream, scale: Scale, plans: Any = PLANS) -> dict[str, Run]:
    """Return a run under each plan, after their results were compared."""
    runs = {plan: Run(asked, rows, plan) for plan in plans}
    check_plans(repr(asked.windows), {plan: head(run, scale) for plan, run in runs.items()})
    return runs


def in_order(scale: Scale) -> Points:
    """Yield the points of Figure 8."""
    for n in windows(scale):
        runs = of_plans(concurrent(n), stream(scale, 0), scale)
        yield from timed("", n, runs, scale)


def constrained(scale: Scale) -> Points:
    """Yield the points of Figure 9."""
    for n in windows(scale):
        runs = of_plans(concurrent(n, session=True), stream(scale, pauses=True), scale)
        yield from timed("", n, runs, scale)


def state(scale: Scale) -> Points:
    """Yield the points of Figures 10a and 10b."""
    shapes = [("rows", rows, rows, SLICES) for rows in some(STATE_ROWS, scale)]
    shapes += [("slices", slices, TUPLES, slices) for slices in some(STATE_SLICES, scale)]
    for panel, x, rows, slices in shapes:
        runs = {plan: held(plan, rows, slices) for plan in PLANS}
        check_plans(
            f"{rows} rows, {slices} slices", {who: head(r, scale) for who, r in runs.items()}
        )
        for plan, run in runs.items():
            yield point(panel, plan, x, run.play().counters.state_bytes / 1e6)


def latency(scale: Scale) -> Points:
    """Yield the points of Figures 11a and 11c."""
    for name, sizes in ENTRIES.items():
        for n in some(sizes, scale):
            for plan in PLANS:
                yield point(name, plan, n, 1e3 * last_step(plan, name, n))


def last_step(plan: str, name: str, n: int) -> float:
    """Return the seconds of the `advance` by which a window of n slices, a row each, is complete."""
    both = {"slice": mt.Tumbling(1), "whole": mt.Tumbling(n)}
    operator = query(both, AGGREGATES[name]).operator(plan)
    values = football(n).columns["v"]
    expected = getattr(np, name.lower())(values)
    best = float("inf")
    for end in range(n, (TURNS + 1) * n, n):
        operator.process({"t": np.arange(end - n, end), "v": values})
        operator.advance(end - 1)
        began = time.perf_counter()
        table = operator.advance(end)
        best = min(best, time.perf_counter() - began)
        whole = [row[VALUE] for row in table.to_pylist() if row["window"] == "whole"]
        check_same(f"{name} of {n} slices", plan, whole, [expected])
        if best > SLOW_SECONDS:
            break
    return best


def disorder(scale: Scale) -> Points:
    """Yield the points of Figures 12a and 12b."""
    asked = concurrent(20, session=True)
    for share in some(SHARES, scale):
        runs = of_plans(asked, stream(scale, share, pauses=True), scale)
        yield from timed("share", 100 * share, runs, scale)
    for delay_s in some(DELAYS_S, scale):
        rows = stream(scale, pauses=True, delay=int(delay_s * SECOND))
        yield from timed("delay", delay_s, of_plans(asked, rows, scale), scale)


def aggregates(scale: Scale) -> Points:
    """Yield the points of Figure 13."""
    for name in QUICK_AGGREGATES if scale.quick else AGGREGATES:
        for measure in MEASURES:
            asked = concurrent(20, measure=measure, aggregate=AGGREGATES[name])
            runs = of_plans(asked, stream(scale), scale, STORES)
            yield from timed("", name, {measure: runs["lazy"]}, scale)


def measures(scale: Scale) -> Points:
    """Yield the points of Figure 16."""
    for n in windows(scale):
        for measure in MEASURES:
            runs = of_plans(concurrent(n, measure=measure), stream(scale), scale, STORES)
            yield from timed("", n, {measure: runs["lazy"]}, scale)


PICTURES = (
    Picture(8, "slicing_windows", "Concurrent windows, in order", in_order, {"": "windows"}),
    Picture(
        9, "slicing_constrained", "Concurrent windows and a session, 20 % of rows late",
        constrained, {"": "windows"},
    ),
    Picture(
        10, "slicing_memory", "State of 20 windows", state,
        {"rows": f"rows, with {SLICES} slices held", "slices": f"slices held, of {TUPLES:,} rows"},
        "megabytes",
    ),
    Picture(
        11, "slicing_latency", "Final aggregation of one window", latency,
        {"Sum": "slices of a row each: sum", "Median": "slices of a row each: median"},
        "milliseconds of advance",
    ),
    Picture(
        12, "slicing_disorder", "Disorder, 20 windows and a session", disorder,
        {"share": "% of rows up to 2 s late", "delay": "delay up to s, of 20 % of rows"},
        xscale="linear",
    ),
    Picture(
        13, "slicing_aggregates", "Aggregates, 20 windows of time or count, 20 % of rows late",
        aggregates, {"": ""}, bars=True,
    ),
    Picture(
        16, "slicing_measures", "Windows of time and of count, 20 % of rows late", measures,
        {"": "windows"},
    ),
)  # fmt: skip


def draw(picture: Picture, points: list[Point]) -> Path:
    """Draw the panels of a figure."""
    count = len(picture.panels)
    figure, panels = plt.subplots(
        1, count, figsize=(5 + 4 * count, 5), sharey=True, squeeze=False, layout="constrained"
    )
    for axes, (name, xlabel) in zip(panels[0], picture.panels.items(), strict=True):
        mine = [p for p in points if p["panel"] == name]
        (draw_bars if picture.bars else draw_lines)(axes, mine)
        axes.set(xlabel=xlabel, yscale="log")
        if not picture.bars:
            axes.set_xscale(picture.xscale)
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axes.yaxis.set_minor_formatter(LogFormatter())
        axes.grid(alpha=0.25)
    panels[0][0].set_ylabel(picture.ylabel)
    handles = panels[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(f"{picture.title} (EDBT 2019, Figure {picture.number})")
    return written(figure, picture.name)


def draw_lines(axes: Any, points: list[Point]) -> None:
    """Draw a line for each who."""
    for who in dict.fromkeys(p["who"] for p in points):
        xs, ys = zip(*((p["x"], p["y"]) for p in points if p["who"] == who), strict=True)
        ours = who in (*STORES, *MEASURES)
        axes.plot(
            xs, ys, marker=MARKS[who], color=COLOURS[who], label=who, markersize=5,
            linewidth=2 if ours else 1.2, linestyle="-" if ours else "--",
        )  # fmt: skip


def draw_bars(axes: Any, points: list[Point]) -> None:
    """Draw bars side by side at each x."""
    names = list(dict.fromkeys(p["x"] for p in points))
    who = list(dict.fromkeys(p["who"] for p in points))
    for i, series in enumerate(who):
        heights = [p["y"] for p in points if p["who"] == series]
        places = np.arange(len(names)) + (i - (len(who) - 1) / 2) * 0.4
        axes.bar(places, heights, 0.38, color=COLOURS[series], label=series)
    axes.set_xticks(range(len(names)), names, rotation=35, ha="right")
