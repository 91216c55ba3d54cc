"""Figures 8 to 13 and 16 of EDBT 2019 from our own runs, one picture each.

The paper's techniques are plans that can be forced. Plans are compared with each other before they are
timed, and each takes as many rows of the stream as it gets through in a fraction of a second. Windows
of count have slices under every plan, so that only lazy and eager ones differ there; their tuple buffer
is NumPy's.
"""

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

import muntin as mt
from benchmarks.drawing import Picture, Points, make, point
from benchmarks.measure import Scale, check_same, seconds_of
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
from benchmarks.tuple_buffer import BufferRun

PLANS = ("lazy", "eager", "buckets", "tuple buffer", "aggregate tree")
STORES = ("lazy", "eager")
BUFFER = "tuple buffer"
MEASURES = ("time", "count")
RATE = "million rows per second"
ROWS, QUICK_ROWS = 1 << 22, 1 << 20
# The first rows of a stream are for comparing results, and for guessing how long the others take.
CHECKED, QUICK_CHECKED = 1 << 15, 1 << 13
PACE_SECONDS = 0.3
WINDOWS, QUICK_WINDOWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), (1, 10, 100, 1000)
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


def main(console: Console, scale: Scale) -> None:
    """Measure, keep and draw."""
    make(console, scale, "slicing_plots", PICTURES)


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
    """Yield the points of Figure 10: a and b windows of time, c and d windows of count."""
    shapes = [("slices", slices, TUPLES, slices) for slices in some(STATE_SLICES, scale)]
    shapes += [("rows", rows, rows, SLICES) for rows in some(STATE_ROWS, scale)]
    for panel, x, rows, slices in shapes:
        for measure in MEASURES:
            runs = held_by_measure(measure, rows, slices)
            case = f"{rows} rows, {slices} slices of {measure}"
            check_plans(case, {who: head(run, scale) for who, run in runs.items()})
            for plan, run in runs.items():
                megabytes = run.play().counters.state_bytes / 1e6
                yield point(f"{panel}, {measure}", plan, x, megabytes)


def held_by_measure(measure: str, rows: int, slices: int) -> dict[str, Run]:
    """Return runs that end with so many rows and slices in the allowed lateness."""
    if measure == "time":
        return {plan: held(plan, rows, slices) for plan in PLANS}
    per_slice = max(1, rows // slices)
    windows = {f"{i}": mt.Tumbling(i * per_slice, measure="count") for i in range(1, 21)}
    asked = query(windows, lateness=slices * SECOND)
    return of_measures(asked, held("lazy", rows, slices).stream)


def of_measures(asked: mt.Query, rows: Stream) -> dict[str, Run]:
    """Return runs of windows of count."""
    return {plan: Run(asked, rows, plan) for plan in STORES} | {BUFFER: BufferRun(asked, rows)}


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
        for measure, plans in {"time": PLANS, "count": STORES}.items():
            asked = concurrent(20, measure=measure, aggregate=AGGREGATES[name])
            runs = of_plans(asked, stream(scale), scale, plans)
            yield from timed(measure, name, runs, scale)


def measures(scale: Scale) -> Points:
    """Yield the points of Figure 16."""
    for n in windows(scale):
        yield from timed("time", n, of_plans(concurrent(n), stream(scale), scale), scale)
        counted = of_measures(concurrent(n, measure="count"), stream(scale))
        check_plans(f"{n} of count", {who: head(run, scale) for who, run in counted.items()})
        yield from timed("count", n, counted, scale)


Slicing = partial(Picture, paper="EDBT 2019", ylabel=RATE, xscale="log")

PICTURES = (
    Slicing(
        "Figure 8", name="slicing_windows", title="Concurrent windows, in order", points=in_order,
        panels={"": "concurrent windows"},
    ),
    Slicing(
        "Figure 9", name="slicing_constrained", points=constrained,
        title="Concurrent windows and a session, 20 % of rows late",
        panels={"": "concurrent windows"},
    ),
    Slicing(
        "Figure 10", name="slicing_memory", title="State of 20 windows", points=state,
        panels={
            "slices, time": f"a: slices held, of {TUPLES:,} rows; windows of time",
            "rows, time": f"b: rows held, in {SLICES} slices; windows of time",
            "slices, count": f"c: slices held, of {TUPLES:,} rows; windows of count",
            "rows, count": f"d: rows held, in {SLICES} slices; windows of count",
        },
        ylabel="megabytes",
    ),
    Slicing(
        "Figure 11", name="slicing_latency", title="Final aggregation of one window", points=latency,
        panels={"Sum": "slices of a row each: sum", "Median": "slices of a row each: median"},
        ylabel="milliseconds of advance",
    ),
    Slicing(
        "Figure 12", name="slicing_disorder", title="Disorder, 20 windows and a session",
        points=disorder,
        panels={"share": "% of rows up to 2 s late", "delay": "delay up to s, of 20 % of rows"},
        xscale="linear",
    ),
    Slicing(
        "Figure 13", name="slicing_aggregates", title="Aggregates, 20 windows, 20 % of rows late",
        points=aggregates, panels={"time": "windows of time", "count": "windows of count"},
        kind="bars", columns=1,
    ),
    Slicing(
        "Figure 16", name="slicing_measures", title="Windows of time and of count, 20 % of rows late",
        points=measures,
        panels={"time": "concurrent windows of time", "count": "concurrent windows of count"},
    ),
)  # fmt: skip
