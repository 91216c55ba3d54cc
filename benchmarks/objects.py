"""The object API: microseconds per evict + insert + query, and ratios to recalculating.

All algorithms slide over the same stream in one process. Results are compared before anything is timed.
"""

import random
import time

from rich.console import Console
from rich.progress import track
from rich.table import Table

import muntin as mt
from benchmarks.measure import Scale, save

SIZES = (16, 1024, 16384)
SLIDES = 20_000
REPEATS = 3


def main(console: Console, scale: Scale) -> None:
    table = Table("algorithm", *(f"n = {n}" for n in SIZES), title="microseconds per slide, Max")
    jobs = [(name, n) for name in mt.ALGORITHMS for n in SIZES]
    times = {}
    for name, n in track(jobs, description="sliding", console=console):
        algorithm = mt.ALGORITHMS[name]
        if not algorithm.missing(mt.Max()):
            times[name, n] = microseconds_per_slide(
                algorithm, n, SLIDES // 5 if scale.quick else SLIDES
            )
    for name in mt.ALGORITHMS:
        if (name, SIZES[0]) in times:
            table.add_row(name, *(cell(times, name, n) for n in SIZES))
    console.print(table)
    rows = [{"algorithm": name, "n": n, "microseconds": us} for (name, n), us in times.items()]
    console.print(f"raw results: {save('objects', rows)}")
    console.print("In brackets: how many times faster than Recalc in this run.")


def cell(times, name, n):
    return f"{times[name, n]:.2f} ({times['Recalc', n] / times[name, n]:.1f}x)"


def stream(n, slides):
    rng = random.Random(n)
    return [rng.random() for _ in range(n + slides)]


def filled(algorithm, n, values):
    options = {"range": n} if algorithm in (mt.Sba, mt.Pba) else {}
    window = algorithm(mt.Max(), **options)
    window.bulk_insert(values[:n])
    window.query()
    return window


def slide(window, values):
    for value in values:
        window.evict()
        window.insert(value)
        window.query()


def microseconds_per_slide(algorithm, n, slides):
    if algorithm is mt.Recalc:
        slides = max(50, 200_000 // n)
    values = stream(n, slides)
    window = filled(algorithm, n, values)
    for i, value in enumerate(values[n : n + 50]):
        slide(window, [value])
        assert window.query() == max(values[i + 1 : i + 1 + n])
    best = float("inf")
    for _ in range(REPEATS):
        window = filled(algorithm, n, values)
        began = time.perf_counter()
        slide(window, values[n:])
        best = min(best, time.perf_counter() - began)
    return 1e6 * best / slides
