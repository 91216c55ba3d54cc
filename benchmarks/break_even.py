"""Table 3 of VLDB 2015: from which window on FlatFAT is faster than folding the window anew.

Both slide by one value and give a result each time. The window is narrowed down to the nearest ten, as
in the paper: between a size at which FlatFAT is not (so many times) as fast, and one at which it is.
"""

import random
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from typing import Any

from rich.console import Console
from rich.progress import track

import muntin as mt
from benchmarks.drawing import Point
from benchmarks.measure import Scale, save, seconds_of
from benchmarks.objects import filled, rounds

STEP, LARGEST = 10, 10_240
TIMES = (1, 10)
SECONDS, QUICK_SECONDS = 0.03, 0.004
"""How long each side is timed at a size."""
TURNS = 3
INTEGERS: dict[str, Callable[[], mt.Aggregate]] = {
    "Count": mt.Count,
    "Sum": mt.Sum,
    "Max": mt.Max,
    "Mean": mt.Mean,
    "MinCount": mt.MinCount,
    "Std": mt.Std,
    "ArgMax": mt.ArgMax,
    "Collect": mt.Collect,
}
DOUBLES = ("Sum", "Max", "ArgMax")


def main(console: Console, scale: Scale) -> None:
    """Find the sizes and keep them."""
    cases = [(name, False) for name in INTEGERS] + [(name, True) for name in DOUBLES]
    points: list[Point] = []
    for name, doubles in track(cases, description="break even", console=console):
        who = f"{name} of doubles" if doubles else name
        for times in TIMES:
            size = smallest(name, doubles, times, scale)
            points.append({"figure": "Table 3", "panel": "", "who": who, "x": times, "y": size})
            console.print(f"{who}: {times} times as fast from {size or 'never'}")
    console.print(f"raw results: {save('break_even', points, scale)}")


def smallest(name: str, doubles: bool, times: int, scale: Scale) -> int | None:
    """Return the window, to the nearest ten, from which FlatFAT is so many times as fast, if any."""
    low, high = 0, STEP
    while not ahead(name, doubles, high, times, scale):
        low, high = high, 2 * high
        if high > LARGEST:
            return None
    while high - low > STEP:
        middle = (low + high) // 2 // STEP * STEP
        if ahead(name, doubles, middle, times, scale):
            high = middle
        else:
            low = middle
    return high


def ahead(name: str, doubles: bool, n: int, times: int, scale: Scale) -> bool:
    """Whether FlatFAT is so many times as fast as folding a window of n."""
    given = values(name, doubles, n)
    anew, tree = (filled(who, INTEGERS[name](), given) for who in ("Recalc", "FlatFat"))
    budget = QUICK_SECONDS if scale.quick else SECONDS
    return per_round(anew, given, budget) >= times * per_round(tree, given, budget)


def per_round(window: Any, given: list[Any], budget: float) -> float:
    """Return the seconds of a round, in the best of some turns that take this long together."""
    one = seconds_of(partial(rounds, window, given[:2])) / 2
    count = max(2, int(budget / TURNS / one))
    more = list(islice(cycle(given), count))
    return min(seconds_of(partial(rounds, window, more)) for _ in range(TURNS)) / count


def values(name: str, doubles: bool, n: int) -> list[Any]:
    """Return random values, or rows of two."""
    rng = random.Random(n)
    made = rng.random if doubles else partial(rng.randrange, 1 << 31)
    return [(made(), made()) if name == "ArgMax" else made() for _ in range(n)]
