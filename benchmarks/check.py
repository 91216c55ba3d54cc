"""Compare a new run with the results that are kept, by ratios, and say what got slower.

Times of two machines, or of a quiet and a busy one, cannot be compared; ratios within one run can. For
what is measured that is the ratio of a finding. For what is drawn it is a line's share of the mean of
all lines at the same x, and the median of its changes over x counts. A change below a tie is none.
"""

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks import measure
from benchmarks.claims.reading import TIE
from benchmarks.measure import Scale
from benchmarks.report import short

RATES = ("rows/s", "M rows/s")
THEIRS = "its/ours"
"""In the name of a ratio that grows when muntin gets faster."""
CHANCE = re.compile(r", [\d.,]+ combines each$")
Key = tuple[str, ...]
Row = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A ratio in the last run and in the new one; `slower` is above 1 if muntin lost."""

    name: Key
    before: float
    now: float
    slower: float


@dataclass(frozen=True)
class Comparison:
    """What two runs have in common, and what only one of them has."""

    changes: list[Change]
    new: list[Key]
    gone: list[Key]

    @property
    def lost(self) -> list[Change]:
        """What got slower by more than a tie, the worst first."""
        lost = [change for change in self.changes if change.slower > TIE]
        return sorted(lost, key=lambda change: -change.slower)

    @property
    def gained(self) -> list[Change]:
        """What got faster by more than a tie."""
        return [change for change in self.changes if change.slower < 1 / TIE]


def compare(last: list[Row], new: list[Row]) -> Comparison:
    """Compare the results of two runs of a benchmark.

    >>> def of(ratio):
    ...     return [{"figure": 1, "case": "max", "who": "pandas", "unit": "ms", "measured": 9.0,
    ...              "ratio": "its/ours", "value": ratio}]
    >>> [change.slower for change in compare(of(6.0), of(3.0)).lost]
    [2.0]
    >>> compare(of(6.0), of(5.0)).lost
    []
    """
    before, after = (ratios(rows) for rows in (last, new))
    shared = [name for name in before if name in after]
    changes = [Change(name, *changed(before[name], after[name])) for name in shared]
    return Comparison(
        changes,
        [name for name in after if name not in before],
        [name for name in before if name not in after],
    )


def ratios(rows: list[Row]) -> dict[Key, dict[Any, float]]:
    """Return ratios by their names and places; each is better the larger it is."""
    found: dict[Key, dict[Any, float]] = {}
    for row in (row for row in rows if row.get("ratio") and row["value"]):
        larger = THEIRS in row["ratio"] or row["unit"] in RATES
        ratio = THEIRS if THEIRS in row["ratio"] else row["ratio"]
        name = (row["case"], named(row["who"]), ratio)
        found[name] = {"": row["value"] if larger else 1 / row["value"]}
    return found | shares([row for row in rows if "panel" in row])


def named(who: str) -> str:
    """Return a name without what differs from run to run.

    >>> named("Spark, no codegen, stopped after 21 s"), named("n = 3,600, 2.1 combines each")
    ('Spark', 'n = 3,600')
    """
    return "Spark" if who.startswith("Spark,") else CHANCE.sub("", who)


def shares(points: list[Row]) -> dict[Key, dict[Any, float]]:
    """Return what each line has at each x, in multiples of the geometric mean of all lines."""
    together: dict[Key, list[Row]] = defaultdict(list)
    for point in points:
        if point["y"] and "more_is_better" in point:
            place = str(point["figure"]), point["panel"], str(point["x"])
            together[place].append(point)
    found: dict[Key, dict[Any, float]] = defaultdict(dict)
    for (figure, panel, x), group in together.items():
        mean = math.exp(fmean(math.log(point["y"]) for point in group))
        for point in group:
            share = point["y"] / mean
            name = (figure, panel, point["who"])
            found[name][x] = share if point["more_is_better"] else 1 / share
    return found


def changed(before: dict[Any, float], after: dict[Any, float]) -> tuple[float, float, float]:
    """Return the medians of two runs at the places of both, and how many times slower that is."""
    both = [x for x in before if x in after]
    if not both:
        return math.nan, math.nan, 1.0
    slower = median(before[x] / after[x] for x in both)
    return median(before[x] for x in both), median(after[x] for x in both), slower


def report(console: Console, names: list[str], scale: Scale) -> bool:
    """Print what got slower in each benchmark, and return whether nothing did."""
    fine = True
    for name in names:
        kept, new = (
            f / f"{name}.json" for f in (measure.kept_folder(scale), measure.folder(scale))
        )
        if not kept.exists():
            console.print(f"{name}: no result is kept to compare with; run it without --check")
            continue
        last, now = measure.load(kept), measure.load(new)
        found = compare(last["results"], now["results"])
        console.print(said(name, last, now, found))
        if found.lost:
            console.print(table(found.lost))
        fine = fine and not found.lost
    return fine


def said(name: str, last: Row, now: Row, found: Comparison) -> str:
    """Return one line about a comparison."""
    other = "" if last["machine"] == now["machine"] else ", measured on another machine"
    parts = [
        f"{name}: {len(found.changes)} ratios compared with those of {last['date']}{other}",
        f"{len(found.lost)} worse by more than {TIE} times",
        f"{len(found.gained)} better",
    ]
    parts += [f"{len(found.new)} new"] if found.new else []
    parts += [f"{len(found.gone)} gone"] if found.gone else []
    return "; ".join(parts)


def table(lost: list[Change]) -> Table:
    """Return a table of what got slower."""
    shown = Table(box=SIMPLE_HEAD)
    for heading in ("what", "last", "now", "times slower"):
        shown.add_column(heading, justify="left" if heading == "what" else "right")
    for change in lost:
        cells = (short(change.before), short(change.now), f"{change.slower:.2f}")
        shown.add_row(", ".join(part for part in change.name if part), *cells)
    return shown
