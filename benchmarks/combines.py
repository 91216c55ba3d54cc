"""Combines per evict + insert + query, counted, beside what the algorithms' cards and papers claim.

Windows stay at n values and slide on for several lengths. Counts do not depend on the machine. Of PBA
only the caller's merges are counted; the second thread has the others.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from rich.console import Console
from tests.counting import counted

import muntin as mt
from benchmarks.drawing import Picture, Points, make, point
from benchmarks.measure import Scale
from benchmarks.objects import filled, values

EXPONENTS, QUICK_EXPONENTS = range(3, 15), range(3, 13, 3)
PASSES = 4
ALIKE = 64  # rounds of what folds the whole window each time
MEAN, WORST = "mean", "worst"
Bound = Callable[[int], float]


@dataclass(frozen=True)
class Claimed:
    """At most so many combines in a round of a window of n values: on average, and in the worst."""

    mean: Bound
    worst: Bound
    words: str


def log2(n: int) -> int:
    return math.ceil(math.log2(n))


CLAIMED = {
    "Recalc": Claimed(lambda n: n, lambda n: n, "n"),
    "SubtractOnEvict": Claimed(lambda _: 2, lambda _: 2, "2"),
    "TwoStacks": Claimed(lambda _: 3, lambda n: n + 2, "mean 3, worst n + 2"),
    "TwoStacksLite": Claimed(lambda _: 3, lambda n: n + 2, "mean 3, worst n + 2"),
    "Daba": Claimed(lambda _: 5, lambda _: 8, "mean 2.5 + 1.5 + 1, worst 4 + 3 + 1"),
    "DabaLite": Claimed(lambda _: 4, lambda _: 6, "mean 2 + 1 + 1, worst 3 + 2 + 1"),
    "SlickDeque": Claimed(lambda _: 2, lambda n: n, "mean below 2, worst n"),
    "FlatFit": Claimed(lambda _: 3, lambda n: n, "mean 3, worst n"),
    "FlatFat": Claimed(
        lambda n: 2 * (1 + log2(n)) + 2 * log2(n), lambda n: 2 * (1 + log2(n)) + 2 * log2(n),
        "2 changes of 1 + log2 n, and a query of 2 log2 n",
    ),
    "BInt": Claimed(lambda n: 1 + 2 * log2(n), lambda n: 3 * log2(n), "insert mean 1, query 2 log2 n"),
    "Sba": Claimed(lambda _: 4, lambda n: 3 + n / 2, "3, and n / 2 at a boundary"),
    "Pba": Claimed(lambda _: 3, lambda _: 3, "3"),
    "LogMta": Claimed(
        lambda n: 3 * (log2(n) + 1), lambda n: 3 * (log2(n) + 1), "an operation 1 + log2 n"
    ),
    "Amta": Claimed(lambda _: 4, lambda n: 3 * (log2(n) + 1), "mean 4, an operation 1 + log2 n"),
    "Fiba": Claimed(
        lambda _: 10, lambda n: 10 * (log2(n) + 1), "in order mean 10, worst 10 (1 + log2 n)"
    ),
}  # fmt: skip


def main(console: Console, scale: Scale) -> None:
    """Count, keep and draw."""
    make(console, scale, "combines", PICTURES)


def points(scale: Scale) -> Points:
    """Yield the mean and the worst number of combines in a round."""
    for name in mt.ALGORITHMS:
        for exponent in QUICK_EXPONENTS if scale.quick else EXPONENTS:
            mean, worst = per_round(name, 2**exponent)
            yield point(MEAN, name, 2**exponent, mean)
            yield point(WORST, name, 2**exponent, worst)


def per_round(name: str, n: int) -> tuple[float, int]:
    """Return the mean and the largest number of combines in a round."""
    served = mt.Sum() if mt.ALGORITHMS[name].missing(mt.Max()) else mt.Max()
    aggregate, counter = counted(served)
    here, counting = threading.get_ident(), aggregate.combine

    def combine(a: float, b: float) -> float:
        return (counting if threading.get_ident() == here else served.combine)(a, b)

    given = values("Max", (PASSES + 1) * n)
    window = filled(name, replace(aggregate, combine=combine), given[:n])

    def slide(value: float) -> None:
        window.evict()
        window.insert(value)
        window.query()

    for value in given[n : n + ALIKE] if name == "Recalc" else given[n:]:
        counter.during("round", slide, value)
    return counter.mean("round"), counter.worst["round"]


PICTURES = (
    Picture(
        "Theorems and cards", "all papers", "combines", "Combines of evict + insert + query, counted",
        points, {MEAN: "values in the window: mean", WORST: "values in the window: worst"}, "combines",
        same_y=False,
    ),
)  # fmt: skip
