"""One window due per advance: `Sliding(n, 1)`, what a window of a key takes as n grows.

Results are first compared with those of the plan that folds each window from its rows. Keys have a slice
more at each advance; the time is that of `advance`, per key and window, the median of many. All sizes of
an aggregate take turns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target
from muntin.query.operator import Operator

FIGURE = 10  # of the slicing paper: windows that overlap more and more
SIZES, QUICK_SIZES = (60, 600, 3600, 36_000), (60, 600)
KEYS = 20
TURNS, ADVANCES = 12, 10
LARGE, MANY = 36_000, 3600
MICROSECOND = 1e6
CHECKED = 40

OWN = mt.Aggregate("own", 0.0, float, lambda a, b: a if a > b else b, columns=("v",))
AGGREGATES = {
    "Max": mt.Max("v"),
    "Median": mt.Median("v"),
    "Median, 10 rows per slice": mt.Median("v"),
    "Quantile": mt.Quantile("v", q=0.9),
    "CountDistinct": mt.CountDistinct("v"),
    "CountDistinct, 10 rows per slice": mt.CountDistinct("v"),
    "ApproxQuantile": mt.ApproxQuantile("v", q=0.5),
    "own aggregate": OWN,
}
RATIOS = {"Max": {LARGE: Target(1.5, at_most=True)}} | {
    name: {MANY: Target(4, at_most=True)}
    for name in AGGREGATES
    if name.startswith(("Median", "Quantile", "CountDistinct"))
}


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""

    def job(name: str) -> tuple[str, Callable[[], Findings]]:
        return f"firing {name}", lambda: sizes(name, scale)

    return [job(name) for name in AGGREGATES]


@dataclass
class Firing:
    """An operator whose keys have windows of n slices, and get one slice more at each advance."""

    operator: Operator
    rows: int  # per slice and key
    now: int = 0

    def batch(self, slices: int) -> dict[str, np.ndarray]:
        """Return the rows of the next slices."""
        times = np.repeat(np.arange(self.now, self.now + slices), self.rows * KEYS)
        draw = np.random.default_rng(self.now)
        keys = np.tile(np.arange(KEYS), slices * self.rows)
        return {"t": times, "k": keys, "v": draw.random(len(times))}

    def fire(self, slices: int = 1) -> tuple[float, pa.Table]:
        """Take the next slices, and return the seconds of the advance, and the results."""
        self.operator.process(self.batch(slices))
        self.now += slices
        began = perf_counter()
        table = self.operator.advance(self.now)
        return perf_counter() - began, table


def firing(name: str, n: int, plan: str = "auto") -> Firing:
    """Return windows of n slices before the first row."""
    query = mt.Query(
        time="t", keys=("k",), windows={"w": mt.Sliding(n, 1)}, aggregates={"a": AGGREGATES[name]}
    )
    return Firing(query.operator(plan), 10 if "10 rows" in name else 1)


def check(name: str) -> None:
    """Raise unless results are those of a plan that keeps nothing."""
    ours, theirs = firing(name, 12), firing(name, 12, "naive")
    exact = "Approx" not in name
    for _ in range(CHECKED):
        a, b = ours.fire()[1], theirs.fire()[1]
        if exact and a.to_pylist() != b.to_pylist():
            raise AssertionError(f"{name}: windows that are kept differ from those that are folded")


def sizes(name: str, scale: Scale) -> Findings:
    """Yield microseconds per key and window for each size."""
    check(name)
    filled = {}
    for n in QUICK_SIZES if scale.quick else SIZES:
        filled[n] = firing(name, n)
        for _ in range(8):
            filled[n].fire(n // 8)
        filled[n].fire()
    took: dict[int, list[float]] = {n: [] for n in filled}
    for _ in range(TURNS):
        for n, one in filled.items():
            took[n] += [one.fire()[0] for _ in range(ADVANCES)]
    micros = {n: MICROSECOND * median(times) / KEYS for n, times in took.items()}
    for n, micro in micros.items():
        spent = filled[n].operator.counters.combines / filled[n].operator.counters.windows_reported
        yield Finding(
            FIGURE, f"{name}, one window due per advance", f"n = {n:,}, {spent:.1f} combines each",
            micro, "us", min(micros.values()) / micro, "of n = 60", micro / micros[60],
            RATIOS.get(name, {}).get(n),
        )  # fmt: skip
