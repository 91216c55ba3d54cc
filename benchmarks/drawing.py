"""One look for all pictures: colours, marks, axes with units, and the legend below the data.

A picture is drawn from points alone. A point has a panel, who it is of, x and y, and is kept among the
results.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks import measure
from benchmarks.measure import Scale

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

Point = dict[str, Any]
Points = Iterator[Point]

STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.titlesize": 12,
}
BLUE, RED, GREEN, ORANGE, PURPLE = "#0b5fa5", "#d1495b", "#2a9d5c", "#e0a030", "#7b4fa3"
TEAL, BROWN, SKY, BLACK, GREY, LIGHT = (
    "#1f9bb0", "#8c5a3c", "#57a5e0", "#333333", "#7a7a7a", "#ababab",
)  # fmt: skip
LEGEND_COLUMNS = 6
LEVEL_NAMES = 6  # more names below bars are turned, to fit
DOTS_PER_INCH = 130


class Look(NamedTuple):
    """How a line is drawn; dashes are for what others do, and for what a paper improves on."""

    colour: str
    mark: str
    dashed: bool = False


LOOKS = {
    "lazy": Look(BLUE, "o"),
    "eager": Look(RED, "s"),
    "buckets": Look(BLACK, "D", True),
    "tuple buffer": Look(GREY, "v", True),
    "aggregate tree": Look(GREEN, "^", True),
    "Recalc": Look(LIGHT, "x", True),
    "SubtractOnEvict": Look(BLACK, "+"),
    "TwoStacks": Look(RED, "v", True),
    "TwoStacksLite": Look(RED, "s"),
    "Daba": Look(GREEN, "^", True),
    "DabaLite": Look(GREEN, "D"),
    "SlickDeque": Look(PURPLE, "P"),
    "FlatFit": Look(BROWN, "X"),
    "FlatFat": Look(TEAL, "h"),
    "BInt": Look(GREY, "<", True),
    "Sba": Look(BLUE, "o"),
    "Pba": Look(SKY, "d", True),
    "LogMta": Look(BLUE, "<", True),
    "Amta": Look(ORANGE, "p"),
    "Fiba": Look(BLACK, "*"),
    "Amta in RocksDB": Look(RED, "o"),
    "Amta in Redis": Look(PURPLE, "v"),
    "one window": Look(RED, "o"),
    "a line through it": Look(BLACK, "", True),
    "a window for each": Look(GREY, "x", True),
    "bottleneck": Look(BLACK, "v", True),
    "Polars": Look(GREY, "^", True),
    "pandas": Look(LIGHT, "x", True),
}


@dataclass(frozen=True)
class Picture:
    """A figure of a paper: its points, and per panel a label of the horizontal axis.

    Lines join the points of each who, `dots` do not; `bars` stand side by side at each x, and `steps`
    are a distribution.
    """

    figure: str
    paper: str
    name: str
    title: str
    points: Callable[[Scale], Points]
    panels: dict[str, str]
    ylabel: str
    xscale: str = "log2"
    yscale: str = "log"
    kind: str = "lines"
    columns: int = 2
    same_y: bool = True


def point(panel: str, who: str, x: Any, y: float) -> Point:
    """Return a point."""
    return {"panel": panel, "who": who, "x": x, "y": y}


def make(console: Console, scale: Scale, name: str, pictures: tuple[Picture, ...]) -> None:
    """Measure what the pictures need, keep it, and draw."""
    points: list[Point] = []
    for picture in track(pictures, description=name.replace("_", " "), console=console):
        more = "per second" in picture.ylabel
        mine = [
            {"figure": picture.figure, "more_is_better": more, **p} for p in picture.points(scale)
        ]
        points += mine
        console.print(f"drawn: {draw(picture, mine, scale)}")
    console.print(f"raw results: {measure.save(name, points, scale)}")


def draw(picture: Picture, points: list[Point], scale: Scale) -> Path:
    """Draw the panels of a figure."""
    columns = min(picture.columns, len(picture.panels))
    rows = math.ceil(len(picture.panels) / columns)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            rows, columns, figsize=(8 if columns == 1 else 11, 1 + 3.4 * rows), squeeze=False,
            sharey=picture.same_y, layout="constrained",
        )  # fmt: skip
        drawers = {"lines": lines, "dots": dots, "bars": bars, "steps": steps}
        for axes, (panel, xlabel) in zip(grid.flat, picture.panels.items(), strict=False):
            drawers[picture.kind](axes, [p for p in points if p["panel"] == panel])
            axes.set_xlabel(xlabel)
            scaled(axes, picture)
        for axes in grid[:, 0]:
            axes.set_ylabel(picture.ylabel)
        for axes in grid.flat[len(picture.panels) :]:
            axes.remove()
        legend(figure)
        figure.suptitle(f"{picture.title} ({picture.paper}, {picture.figure})")
        return written(figure, picture.name, scale)


def scaled(axes: Any, picture: Picture) -> None:
    """Give the axes their scales, ticks and grid."""
    axes.set_yscale(picture.yscale)
    if picture.yscale == "log":
        axes.yaxis.set_major_formatter(lambda y, _: number(y))
        low, high = axes.get_ylim()
        if high < 100 * low:  # few powers of ten, or none: name 2 and 5 of each
            axes.yaxis.set_minor_formatter(lambda y, _: number(y) if f"{y:e}"[0] in "25" else "")
        else:
            axes.yaxis.set_minor_formatter(NullFormatter())
    if picture.kind == "lines" and picture.xscale == "log2":
        axes.set_xscale("log", base=2)
    elif picture.kind == "lines":
        axes.set_xscale(picture.xscale)
    axes.grid(alpha=0.25)


def number(y: float) -> str:
    """Return a tick's label.

    >>> number(20_000.0), number(0.05)
    ('20,000', '0.05')
    """
    return f"{y:,.0f}" if y >= 1 else f"{y:g}"


def legend(figure: Any) -> None:
    """Name everyone that is drawn in any panel, once, below the data."""
    named: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        named |= {label: h for h, label in zip(handles, labels, strict=True) if label not in named}
    figure.legend(
        named.values(), named, loc="outside lower center", ncols=min(len(named), LEGEND_COLUMNS),
        frameon=False,
    )  # fmt: skip


def everyone(points: list[Point]) -> list[str]:
    """Return who has points, in their order."""
    return list(dict.fromkeys(p["who"] for p in points))


def styled(who: str) -> dict[str, Any]:
    """Return the look of a line and its name."""
    look = LOOKS[who]
    return {
        "color": look.colour,
        "label": who,
        "linewidth": 1.4 if look.dashed else 2,
        "linestyle": "--" if look.dashed else "-",
        "zorder": 3 if look.dashed else 2,  # of two lines in one place both are seen
    }


def lines(axes: Any, points: list[Point]) -> None:
    """Draw a line for each who."""
    for who in everyone(points):
        xs, ys = zip(*((p["x"], p["y"]) for p in points if p["who"] == who), strict=True)
        axes.plot(xs, ys, marker=LOOKS[who].mark, markersize=5, **styled(who))


def dots(axes: Any, points: list[Point]) -> None:
    """Draw the points of each who, without a line."""
    for who in everyone(points):
        xs, ys = zip(*((p["x"], p["y"]) for p in points if p["who"] == who), strict=True)
        look = LOOKS[who]
        axes.scatter(xs, ys, s=14, marker=look.mark, c=look.colour, linewidths=0.8, label=who)


def bars(axes: Any, points: list[Point]) -> None:
    """Draw bars side by side at each x."""
    names, who = list(dict.fromkeys(p["x"] for p in points)), everyone(points)
    width = 0.8 / len(who)
    for i, series in enumerate(who):
        heights = {p["x"]: p["y"] for p in points if p["who"] == series}
        places = [names.index(x) + (i - (len(who) - 1) / 2) * width for x in heights]
        axes.bar(places, heights.values(), 0.95 * width, color=LOOKS[series].colour, label=series)
    if len(names) <= LEVEL_NAMES:
        axes.set_xticks(range(len(names)), names)
    else:
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right")


SHARES = {
    1: "all", 1e-1: "1 in 10", 1e-2: "1 in 100", 1e-3: "1 in 1,000", 1e-4: "1 in 10,000",
}  # fmt: skip


def steps(axes: Any, points: list[Point]) -> None:
    """Draw which share of operations takes at least so long, the slowest on the right."""
    for who in everyone(points):
        xs, ys = zip(*((p["x"], p["y"]) for p in points if p["who"] == who), strict=True)
        axes.plot((*xs, xs[-1] / 2), (*ys, ys[-1]), drawstyle="steps-post", **styled(who))
    axes.set(xscale="log", xlim=(1, min(p["x"] for p in points) / 2))
    axes.set_xticks(list(SHARES), list(SHARES.values()), rotation=20)
    axes.xaxis.minorticks_off()


def tail(values: np.ndarray) -> Iterator[tuple[float, float]]:
    """Yield shares of the values, and the least of the largest that are this share.

    >>> list(tail(np.array([1.0, 5.0, 2.0, 9.0])))
    [(1.0, 1.0), (0.75, 2.0), (0.5, 5.0), (0.25, 9.0)]
    """
    ordered = np.sort(values)[::-1]
    for count in np.unique(np.geomspace(1, len(ordered), 60).astype(int))[::-1]:
        yield float(count / len(ordered)), float(ordered[count - 1])


def written(figure: Any, name: str, scale: Scale) -> Path:
    """Save a picture among the results."""
    path = measure.folder(scale) / f"{name}.png"
    figure.savefig(path, dpi=DOTS_PER_INCH)
    plt.close(figure)
    return path
