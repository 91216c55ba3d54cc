"""Windows whose edges depend on rows: punctuations, the last rows, policies, and one's own.

Results are first compared with those of the same windows found another way: policies by their functions
on a tree, punctuations by a predicate. A rate is that of a whole stream through `process` and `advance`;
a report's time is that of `advance` while ten rows come and ten leave, however many are held.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target
from benchmarks.streams import Run, Stream, check_plans, query, rates
from muntin import policies

FIGURE = 5  # of the slicing paper: punctuations split slices
KEYS = (1, 1000)
HELD = 100  # rows of a key, as most policies here leave
TICK = 50  # rows of a key between two reports
CHECKED = 1 << 15
SIZES, QUICK_SIZES = (1000, 10_000, 100_000), (1000, 10_000)
REPORTS, COMING = 300, 10
MICROSECOND = 1e6
READY_MADE = {
    "last": policies.last(HELD),
    "within": policies.within(HELD, "t"),
    "sum_at_most": policies.sum_at_most(HELD / 2, "v"),
    "within | until_max": policies.within(HELD, "t") | policies.until_max("v"),
}


class EveryHundred(mt.ContextAwareWindow):
    """A user's own: a window takes a hundred rows."""

    def begin(self) -> list[int]:
        """Return a context that has seen no row."""
        return [0]

    def opens(self, context: list[int], time: int, row: dict[str, Any]) -> bool:
        """Whether a hundred rows came before this one."""
        del time, row
        context[0] += 1
        return context[0] > HELD


def marked(row: dict[str, Any]) -> bool:
    """Whether a row opens a window."""
    return bool(row["mark"])


def by_function(name: str) -> mt.Policy:
    """Return a ready-made policy that is enforced by its function."""
    return mt.Policy(replace(READY_MADE[name], rules=()), TICK)


WINDOWS: dict[str, tuple[Any, Any]] = {
    "Punctuation by column": (mt.Punctuation("mark"), mt.Punctuation(marked)),
    "LastN": (mt.LastN(HELD, TICK), None),
    **{name: (mt.Policy(p, TICK), by_function(name)) for name, p in READY_MADE.items()},
    "own context-aware window": (EveryHundred(), None),
}
ASKED = {"LastN": None, "own context-aware window": Target(0.5)}
SLOW = {"own context-aware window": 8}


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    named = [(f"row edges, {keys} keys", partial(rows_a_second, keys, scale)) for keys in KEYS]
    return [*named, ("rows held", lambda: held(scale))]


@cache
def stream(rows: int, keys: int) -> Stream:
    """Return a stream in which keys take turns; every hundredth row of a key has a mark."""
    turns = np.arange(rows) // keys
    columns = {"t": turns, "k": np.arange(rows) % keys, "mark": turns % HELD == 0}
    return Stream({**columns, "v": np.random.default_rng(rows).random(rows)})


def run_of(window: Any, rows: int, keys: int) -> Run:
    """Return a run of one window."""
    return Run(query({"w": window}, keys=("k",)), stream(rows, keys))


def rows_a_second(keys: int, scale: Scale) -> Findings:
    """Yield rows a second of each window."""
    case = f"edges that depend on rows, keys: {keys:,}"
    for name, (ours, theirs) in WINDOWS.items():
        if theirs is not None:
            pair = {name: run_of(ours, CHECKED, keys), "another way": run_of(theirs, CHECKED, keys)}
            check_plans(case, pair)
    runs = {
        name: run_of(ours, scale.rows // SLOW.get(name, 1), keys)
        for name, (ours, _) in WINDOWS.items()
    }
    found = rates(runs, scale)
    fastest = max(found.values())
    for name, rate in found.items():
        target = ASKED.get(name, Target(10))
        yield Finding(
            FIGURE, case, name, rate, "M rows/s", rate / fastest, value=rate, target=target
        )


HOLDING: dict[str, Callable[[int], Any]] = {
    "LastN": lambda n: mt.LastN(n, COMING),
    "last": lambda n: mt.Policy(policies.last(n), COMING),
    "within": lambda n: mt.Policy(policies.within(n, "t"), COMING),
    "sum_at_most": lambda n: mt.Policy(policies.sum_at_most(n, "one"), COMING),
    "a function": lambda n: mt.Policy(replace(policies.last(n), rules=()), COMING),
}


def held(scale: Scale) -> Findings:
    """Yield microseconds per report of the largest of ten rows and all that are held."""
    case = f"{COMING} rows come and as many leave"
    for name, make in HOLDING.items():
        micros = {n: report(make(n), n) for n in (QUICK_SIZES if scale.quick else SIZES)}
        least = min(micros.values())
        for n, micro in micros.items():
            first = n == min(micros)
            yield Finding(
                FIGURE, case, f"{name}, {n:,} rows held", micro, "us", least / micro,
                "" if first else "of the fewest", None if first else micro / micros[min(micros)],
                None if first else Target(1.5, at_most=True),
            )  # fmt: skip


def report(window: Any, n: int) -> float:
    """Return the median microseconds of a report of a window that holds n rows."""
    asked = mt.Query(time="t", windows={"w": window}, aggregates={"a": mt.Max("v")})
    operator, draw = asked.operator(), np.random.default_rng(n)
    edges = [0, *range(n + COMING - n % COMING, n + REPORTS * COMING, COMING)]
    took = []
    for first, end in pairwise(edges):
        count = end - first
        batch = {"t": np.arange(first, end), "v": draw.random(count), "one": np.ones(count)}
        operator.process(batch)
        began = perf_counter()
        table = operator.advance(end)
        took.append(perf_counter() - began)
        assert table.num_rows
    return MICROSECOND * median(took[1:])
