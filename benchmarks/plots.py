"""Two pictures: throughput over n per algorithm, and the distribution of latency.

They show what the papers' Figures 4 and 7 (throughput) and 9 and 10 (latency) show.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks import latency
from benchmarks.measure import RESULTS, Scale, best_times, check_same, save
from benchmarks.peers import COMPARISONS, Comparison, Data
from benchmarks.rolling import normal

mpl.use("Agg")
import matplotlib.pyplot as plt

DRAWN = ("max", "std")
EXPONENTS = range(2, 21)
ROWS = 1 << 21
ALGORITHMS = {"Sba (default)": "auto", "TwoStacksLite": "TwoStacksLite", "DabaLite": "DabaLite"}
PEERS = ("bottleneck", "Polars", "pandas")
COLOURS = {
    "Sba (default)": "#0b5fa5",
    "TwoStacksLite": "#d1495b",
    "DabaLite": "#2a9d5c",
    "bottleneck": "#333333",
    "Polars": "#7a7a7a",
    "pandas": "#ababab",
}
TICKS = (25, 50, 100, 200, 400, 800)
SHARES = {1: "all", 1e-1: "1 in 10", 1e-2: "1 in 100", 1e-3: "1 in 1,000", 1e-4: "1 in 10,000"}
RAISED = {"TwoStacksLite": 8, "DabaLite": -40}
MARKS = dict(zip(COLOURS, "osDv^x", strict=True))
STYLE = {"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}


def main(console: Console, scale: Scale) -> None:
    """Measure what the pictures need, keep it, and draw."""
    plt.rcParams.update(STYLE)
    data = normal(ROWS // 2 if scale.quick else ROWS)
    exponents = EXPONENTS[:: 3 if scale.quick else 1]
    chosen = [c for c in COMPARISONS if c.name in DRAWN]
    cases = [(c, 2**e) for c in chosen for e in exponents]
    points = []
    for comparison, n in track(cases, description="throughput", console=console):
        points += throughput(comparison, data, n, scale)
    save("throughput", points)
    console.print(f"drawn: {draw_throughput(points, len(data.array))}")
    console.print(f"drawn: {draw_latency(scale)}")


def throughput(comparison: Comparison, data: Data, n: int, scale: Scale) -> list[dict[str, Any]]:
    """Return million rows a second of the algorithms and the peers at one n."""
    calls: dict[str, Callable[[], Any]] = {
        label: partial(comparison.ours, data, n, algorithm=algorithm)
        for label, algorithm in ALGORITHMS.items()
    }
    calls |= {p.name: partial(p.run, data, n) for p in comparison.peers() if p.name in PEERS}
    expected = comparison.ours(data, n)
    for who, call in calls.items():
        check_same(f"{comparison.name}, n = {n}", who, expected, call())
    rows = len(data.array)
    times = best_times(calls, scale)
    return [
        {
            "aggregate": comparison.name,
            "n": n,
            "who": who,
            "million_rows_per_second": rows / s / 1e6,
        }
        for who, s in times.items()
    ]


def draw_throughput(points: list[dict[str, Any]], rows: int) -> Path:
    """Draw a panel per aggregate, a line per algorithm or peer."""
    figure, panels = plt.subplots(1, len(DRAWN), figsize=(12, 5), sharey=True, layout="constrained")
    for panel, aggregate in zip(panels, DRAWN, strict=True):
        for who in COLOURS:
            line = [p for p in points if p["aggregate"] == aggregate and p["who"] == who]
            sizes, speeds = [p["n"] for p in line], [p["million_rows_per_second"] for p in line]
            ours = who in ALGORITHMS
            panel.plot(
                sizes, speeds, marker=MARKS[who], color=COLOURS[who], label=who, markersize=5,
                linewidth=2 if ours else 1.2, linestyle="-" if ours else "--",
            )  # fmt: skip
        panel.set(
            title=f"rolling {aggregate}", xlabel="window of n rows", xscale="log", yscale="log"
        )
        panel.set_xscale("log", base=2)
        panel.set_yticks(TICKS, [str(tick) for tick in TICKS])
        panel.minorticks_off()
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("million rows per second")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False
    )
    figure.suptitle(f"Throughput over n, {rows:,} float64, one thread")
    return written(figure, "throughput")


def draw_latency(scale: Scale) -> Path:
    """Draw how many ticks the slowest share of operations takes at least."""
    figure, panel = plt.subplots(figsize=(8, 5), layout="constrained")
    for name in latency.ALGORITHMS:
        spent = np.sort(latency.operation_ticks(name, latency.repeats(scale)))[::-1]
        share = np.arange(1, len(spent) + 1) / len(spent)
        panel.plot(share, spent, color=COLOURS[name], linewidth=2, drawstyle="steps-post")
        panel.annotate(
            f"{name}: worst {spent[0]:,} ticks", (share[0], spent[0]), xytext=(-8, RAISED[name]),
            textcoords="offset points", ha="right", color=COLOURS[name], weight="bold",
        )  # fmt: skip
    panel.set(
        xscale="log", yscale="log", xlim=(1, share[0] / 1.5), ylim=(10, 3e5),
        xlabel="share of operations that take as long or longer",
        ylabel="clock ticks of evict + insert + query",
        title=f"Latency of Max, n = {latency.N}: the slowest operations are on the right",
    )  # fmt: skip
    panel.set_xticks(list(SHARES), list(SHARES.values()))
    panel.minorticks_off()
    panel.grid(alpha=0.25)
    return written(figure, "latency")


def written(figure: Any, name: str) -> Path:
    """Save a picture among the results."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.png"
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path
