"""What a paper claims, and what our points say to it.

A claim is read from the points of its figure: the reading is a sentence with our numbers, and whether
they agree. Why ours differ, where they do, is told by the claim.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.drawing import Point

TIE = 1.4
"""Times that differ by less are the same, on a machine that others use too."""
UNEXPLAINED = "We know of no reason: the machine may have been busy. Measure again, in full."
FIRST, LAST, LEAST = "first", "last", "least"


@dataclass(frozen=True)
class Found:
    """The points of a figure."""

    points: list[Point]

    def line(self, who: str, panel: str = "") -> dict[Any, float]:
        """Return y by x, in the order of measuring."""
        mine = [p for p in self.points if p["who"] == who and p.get("panel", "") == panel]
        if not mine:
            raise LookupError(f"there are no points of {who!r} in panel {panel!r}")
        return {p["x"]: p["y"] for p in mine}


@dataclass(frozen=True)
class Reading:
    """What our points say, and whether it is what the paper says."""

    ours: str
    agrees: bool


Read = Callable[[Found], Reading]


@dataclass(frozen=True)
class Claim:
    """A claim in our words, how it is read from our points, and why ours differ, should they."""

    says: str
    read: Read
    why: str = UNEXPLAINED


@dataclass(frozen=True)
class Section:
    """A figure or table: where it is in its paper, our points and picture of it, and what is claimed.

    `table` makes rows of cells of the points, the first row a heading.
    """

    where: str
    title: str
    source: str
    figure: str
    claims: tuple[Claim, ...]
    picture: str | None = None
    table: Callable[[Found], list[list[str]]] | None = None
    setting: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper, the sections that we have of it, and what we have not drawn and why."""

    key: str
    title: str
    published: str
    sections: tuple[Section, ...]
    left_out: str


def short(value: float) -> str:
    """Return some digits of a number.

    >>> short(0.01234), short(3.14159), short(12345.6)
    ('0.0123', '3.14', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def name(x: Any) -> str:
    """Return an x as it is said."""
    return x if isinstance(x, str) else short(x)


def times(
    a: str, b: str, least: float, *, panel: str = "", at: Any = LEAST, place: str = ""
) -> Read:
    """Read whether a has at least so many times b's y, at an x: the first, last, least so, or this.

    `place` says what is at that x, if its number does not.
    """

    def read(found: Found) -> Reading:
        ours, theirs = found.line(a, panel), found.line(b, panel)
        ratios = {x: ours[x] / theirs[x] for x in ours if x in theirs}
        xs = [*ratios]
        x = {FIRST: xs[0], LAST: xs[-1], LEAST: min(xs, key=ratios.__getitem__)}.get(at, at)
        or_more = "or more; the least is " if at == LEAST and len(xs) > 1 else ""
        said = f"{a} is {short(ratios[x])} times {b} {or_more}{place or f'at {name(x)}'}"
        return Reading(f"{said}{_of(panel)}", ratios[x] >= least)

    return read


def left(who: str, least: float = 0.0, most: float = np.inf, *, panel: str = "") -> Read:
    """Read whether the share of the first x's y that is left at the last x lies between two."""

    def read(found: Found) -> Reading:
        line = found.line(who, panel)
        (first, before), *_, (last, after) = line.items()
        said = f"{who} at {name(last)} is {short(after / before)} of what it is at {name(first)}"
        return Reading(f"{said}{_of(panel)}", least <= after / before <= most)

    return read


def level(who: str, most: float, *, panel: str = "") -> Read:
    """Read whether the largest y is at most so many times the smallest."""

    def read(found: Found) -> Reading:
        line = found.line(who, panel)
        low, high = min(line.values()), max(line.values())
        said = f"{who} lies between {short(low)} and {short(high)}, a factor of {short(high / low)}"
        return Reading(f"{said}{_of(panel)}", high / low <= most)

    return read


def power(who: str, least: float, most: float, *, panel: str = "") -> Read:
    """Read whether y grows as a power of x that lies between two."""

    def read(found: Found) -> Reading:
        line = found.line(who, panel)
        xs, ys = np.log([*line]), np.log([*line.values()])
        slope = float(np.polyfit(xs, ys, 1)[0])
        said = f"{who} grows as x to the power of {slope:.2f}"
        return Reading(f"{said}{_of(panel)}", least <= slope <= most)

    return read


def at_most(who: str, limit: float, unit: str, *, panel: str = "", at: Any = None) -> Read:
    """Read whether y is at most so much, at some x or at all."""

    def read(found: Found) -> Reading:
        line = found.line(who, panel)
        x = max(line, key=line.__getitem__) if at is None else at
        said = f"{who} has {short(line[x])} {unit} at {name(x)}"
        return Reading(f"{said}{_of(panel)}", line[x] <= limit)

    return read


def every(*reads: Read) -> Read:
    """Read several; all have to agree."""

    def read(found: Found) -> Reading:
        readings = [one(found) for one in reads]
        return Reading("; ".join(r.ours for r in readings), all(r.agrees for r in readings))

    return read


def _of(panel: str) -> str:
    return f" ({panel})" if panel else ""
