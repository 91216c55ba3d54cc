"""Compiled loops: throughput over n per algorithm beside peers, and the distribution of latency.

They show what Figure 4 of KDD 2021 and Figure 10 of VLDB Journal 2021 (throughput), and their Figures 7
and 9 (latency), show of the algorithms that have a compiled loop. Results are compared before anything
is timed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from rich.console import Console

from benchmarks import latency
from benchmarks.drawing import Picture, Points, make, point, tail
from benchmarks.measure import Scale, best_times, check_same
from benchmarks.rolling import normal
from benchmarks.rolling_peers import COMPARISONS, Comparison, Data

DRAWN = ("max", "std")
EXPONENTS = range(2, 18)
ROWS = 1 << 21  # many times the largest window, so that it slides
ALGORITHMS = {"Sba": "auto", "TwoStacksLite": "TwoStacksLite", "DabaLite": "DabaLite"}
PEERS = ("bottleneck", "Polars", "pandas")


def main(console: Console, scale: Scale) -> None:
    """Measure, keep and draw."""
    make(console, scale, "plots", PICTURES)


def throughput(scale: Scale) -> Points:
    """Yield million rows a second of the algorithms and the peers at each n."""
    data = normal(ROWS // 2 if scale.quick else ROWS)
    for comparison in COMPARISONS:
        if comparison.name in DRAWN:
            for exponent in EXPONENTS[:: 3 if scale.quick else 1]:
                yield from rates(comparison, data, 2**exponent, scale)


def rates(comparison: Comparison, data: Data, n: int, scale: Scale) -> Points:
    """Yield the rates at one n."""
    calls: dict[str, Callable[[], Any]] = {
        label: partial(comparison.ours, data, n, algorithm=algorithm)
        for label, algorithm in ALGORITHMS.items()
    }
    calls |= {p.name: partial(p.run, data, n) for p in comparison.peers() if p.name in PEERS}
    expected = comparison.ours(data, n)
    for who, call in calls.items():
        check_same(f"{comparison.name}, n = {n}", who, expected, call())
    for who, seconds in best_times(calls, scale).items():
        yield point(comparison.name, who, n, len(data.array) / seconds / 1e6)


def distribution(scale: Scale) -> Points:
    """Yield the share of operations that take at least so many clock ticks."""
    for name in latency.ALGORITHMS:
        for share, ticks in tail(latency.operation_ticks(name, latency.repeats(scale))):
            yield point("", name, share, ticks)


PICTURES = (
    Picture(
        "Figures 4 and 10", "KDD and VLDB Journal 2021", "throughput",
        "Throughput over n, float64, one thread, compiled", throughput,
        {name: f"values in the window: {name}" for name in DRAWN}, "million rows per second",
    ),
    Picture(
        "Figures 7 and 9", "KDD and VLDB Journal 2021", "latency",
        f"Latency of Max, n = {latency.N:,}, compiled", distribution,
        {"": "operations that take as long or longer"},
        "clock ticks of evict + insert + query", kind="steps",
    ),
)  # fmt: skip
