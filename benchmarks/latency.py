"""Figure 6: the worst operation, by counted combines and by a clock inside the compiled loop.

An operation is evict + insert + query. Each row's ticks are the least of several runs over the same
values, so that interrupts drop out and what the algorithm itself does at that row stays.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from tests.counting import counted

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target
from muntin.kernels.latency import ticks

N = 2**14
SLIDES = 4 * N
ALGORITHMS = ("TwoStacksLite", "DabaLite")
QUANTILES = {"median": 0.5, "99.9 %": 0.999, "worst": 1.0}


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    return [("combines", worst_combines), ("clock", lambda: worst_ticks(scale))]


def worst_combines() -> Findings:
    """Yield the largest number of combines in any operation."""
    for name in ALGORITHMS:
        aggregate, counter = counted(mt.Max())
        window = mt.ALGORITHMS[name](aggregate)
        window.bulk_insert(range(N))

        def slide(value: int, window: mt.Aggregator = window) -> None:
            window.evict()
            window.insert(value)
            window.query()

        for value in range(SLIDES):
            counter.during("slide", slide, value)
        worst = counter.worst["slide"]
        target = Target(6, at_most=True) if name == "DabaLite" else None
        yield Finding(
            6, f"most combines of an operation, n = {N}", name, worst, "combines",
            value=worst, target=target,
        )  # fmt: skip


def worst_ticks(scale: Scale) -> Findings:
    """Yield median, tail and worst ticks, and Two-Stacks Lite's in multiples of DABA Lite's."""
    spent = {name: operation_ticks(name, repeats(scale)) for name in ALGORITHMS}
    for what, q in QUANTILES.items():
        times = {name: float(np.quantile(spent[name], q)) for name in ALGORITHMS}
        for name, time in times.items():
            asked = name == "TwoStacksLite"
            yield Finding(
                6, f"operation by the clock, {what}, n = {N}", name, time, "ticks",
                speed=min(times.values()) / time,
                ratio="its/DabaLite" if asked else "",
                value=time / times["DabaLite"] if asked else None,
                target=Target(50) if asked and q == 1.0 else None,
            )  # fmt: skip


def repeats(scale: Scale) -> int:
    return 5 if scale.quick else 25


@cache
def operation_ticks(algorithm: str, runs: int) -> np.ndarray:
    """Return the least ticks of every row over the repeats, once the window is full."""
    values = np.random.default_rng(N).normal(size=N + SLIDES)
    return np.min([ticks(algorithm, mt.Max(), values, N) for _ in range(runs)], axis=0)[N:]
