"""Figure 6: the worst operation, by counted combines and by a clock inside the compiled loop.

An operation is evict + insert + query. Each row's ticks are the least of several runs over the same
values, so that interrupts drop out and what the algorithm itself does at that row stays.
A window that grows: the worst push of 1024 rows while it comes to 2^22, beside a ring that copies itself
when it is full, as rings did before. A push's time is the least of several runs, and of the processor.
"""

from collections.abc import Callable
from functools import cache
from time import process_time

import numpy as np
from tests.counting import counted

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target
from benchmarks.ticks import ticks

N = 2**14
SLIDES = 4 * N
ALGORITHMS = ("TwoStacksLite", "DabaLite")
GROWN, AT_ONCE = 2**22, 2**10
QUANTILES = {"median": 0.5, "99.9 %": 0.999, "worst": 1.0}


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    return [
        ("combines", worst_combines),
        ("clock", lambda: worst_ticks(scale)),
        ("growing", lambda: worst_push(scale)),
    ]


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


def worst_push(scale: Scale) -> Findings:
    """Yield the worst push while a window grows, and how much longer a copy of the ring takes."""
    runs = 3 if scale.quick else 9
    copying = min(copy_seconds() for _ in range(runs))
    case = f"worst push of {AT_ONCE} rows, growing to {GROWN}"
    yield Finding(6, case, "a ring that copies itself", copying * 1e6, "µs")
    for name in ALGORITHMS:
        worst = float(np.min([push_seconds(name) for _ in range(runs)], axis=0).max())
        yield Finding(
            6, case, name, worst * 1e6, "µs", ratio="copying/its", value=copying / worst,
            target=Target(20),
        )  # fmt: skip


def push_seconds(algorithm: str) -> np.ndarray:
    """Return how long each push takes while a window of time grows."""
    window = mt.Rolling("1 day", mt.Max(), algorithm=algorithm)
    values, times = np.random.default_rng(N).normal(size=GROWN), np.arange(GROWN)
    window.push(values[:1], on=times[:1])
    spent = []
    for start in range(1, GROWN, AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        began = process_time()
        window.push(values[rows], on=times[rows])
        spent.append(process_time() - began)
    return np.array(spent)


def copy_seconds() -> float:
    """Return how long it takes to copy a full ring to one of twice its slots, from place to place."""
    half = GROWN // 2
    ring = [full_ring(kind) for kind in (np.int64, np.float64, np.int64)]  # partials and stamps
    began = process_time()
    old = np.arange(half // 2, half // 2 + half)
    for held in ring:
        larger = np.zeros(GROWN, held.dtype)
        larger[old & (GROWN - 1)] = held[old & (half - 1)]
    return process_time() - began


@cache
def full_ring(kind: type) -> np.ndarray:
    """Return an array of half the slots."""
    return np.ones(GROWN // 2, kind)
