"""Three pictures of the demo: delays and their corrections, rushes, and what both ways took."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from muntin.demo.current_results import Results, Row, moment
from muntin.demo.flights import airports
from muntin.demo.native import WINDOW, Seconds
from muntin.demo.stream_run import Run

STYLE: Any = {"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}
DOTS = 110
FIRST, NOW, SPARK = "#e08e2b", "#0b5fa5", "#7a7a7a"
RETRACTED: Any = {"facecolor": "none", "edgecolor": "#d1495b", "hatch": "////"}
START: Any = {"facecolor": "white", "edgecolor": "black", "hatch": "///"}
SHADES = colormaps["viridis_r"]
RUSH = "rush"
MINUTE, HOUR = 60_000_000, 3_600_000_000


def draw_delays(results: Results, path: Path) -> Path:
    """Draw the median delay of the last hour: what was said first, and what is true."""
    names, full = _airports(results), airports()
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 2.3 * len(names) + 0.9), layout="constrained")
        panels = figure.subplots(len(names), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for panel, airport in zip(panels, names, strict=True):
            _line(panel, _of(results.first.values(), airport), FIRST, "as first reported")
            _line(panel, _of(results.now.values(), airport), NOW, "after corrections")
            panel.set_title(f"{airport}, {full[airport]}", loc="left")
            panel.set_ylabel("minutes")
            panel.grid(axis="y", alpha=0.3)
        _clock(panels[-1], results)
        panels[0].legend(loc="upper right", frameon=False)
        figure.suptitle("Median delay of the departures scheduled in the last hour, every minute")
        figure.savefig(path, dpi=DOTS)
    return path


def draw_rushes(results: Results, path: Path) -> Path:
    """Draw each airport's rushes as bars from start to end, and below them those retracted."""
    names = _airports(results)
    kept = [row for row in results.now.values() if row["window"] == RUSH]
    gone = [row for known, row in results.first.items() if known not in results.now]
    shade = Normalize(0, max(row["median"] for row in kept))
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 0.9 * len(names) + 1.6), layout="constrained")
        panel = figure.subplots()
        colours = [SHADES(shade(row["median"])) for row in kept]
        _bars(panel, kept, names, 0.13, height=0.42, color=colours, edgecolor="black")
        _bars(panel, gone, names, -0.27, height=0.18, **RETRACTED)
        panel.set_yticks(range(len(names)), names, fontweight="bold")
        panel.invert_yaxis()
        _clock(panel, results)
        figure.colorbar(ScalarMappable(shade, SHADES), ax=panel, label="median delay, minutes")
        panel.set_title("Rushes: departures scheduled at most 15 minutes apart", loc="left")
        retracted = Patch(**RETRACTED, label="retracted")
        figure.legend(handles=[retracted], loc="outside upper right", frameon=False)
        figure.savefig(path, dpi=DOTS)
    return path


def draw_times(ours: Run, theirs: Run, finished: Seconds, path: Path) -> Path:
    """Draw what muntin and Spark took, on the stream and on finished data."""
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 2.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        labels = ["muntin,\n3 windows", "Spark,\n1 window"]
        first = [ours.seconds[0], theirs.seconds[0]]
        rest = [ours.total - first[0], theirs.total - first[1]]
        left.barh(labels, rest, color=[NOW, SPARK])
        left.barh(labels, first, left=rest, **START)
        left.set_title(f"The stream, {len(ours.seconds)} micro-batches", loc="left")
        start = Patch(**START)
        figure.legend([start], ["first micro-batch"], loc="outside lower left", frameon=False)
        right.barh(["muntin", "Spark"], [finished.ours, finished.theirs], color=[NOW, SPARK])
        right.set_title(f"Finished data, {finished.windows:,} windows", loc="left")
        _label(left, [ours.total, theirs.total])
        _label(right, [finished.ours, finished.theirs])
        figure.savefig(path, dpi=DOTS)
    return path


def _line(panel: Axes, rows: Iterable[Row], colour: str, label: str) -> None:
    """Draw medians over time, interrupted where there were no windows."""
    points = {row["end"]: row["median"] for row in rows if row["window"] == WINDOW}
    for end in [*points]:
        points.setdefault(end + MINUTE, np.nan)
    times = sorted(points)
    moments: Any = [moment(time) for time in times]
    medians = [points[time] for time in times]
    panel.plot(moments, medians, color=colour, label=label, linewidth=1.5)


def _bars(panel: Axes, rows: Sequence[Row], names: list[str], below: float, **look: Any) -> None:
    places = [names.index(row["airport"]) - below for row in rows]
    begins: Any = [moment(row["start"]) for row in rows]
    lengths: Any = [timedelta(microseconds=row["end"] - row["start"]) for row in rows]
    panel.barh(places, lengths, left=begins, **look)


def _label(panel: Axes, seconds: Sequence[float]) -> None:
    panel.set_xlabel("seconds")
    panel.set_xlim(0, 1.2 * max(seconds))
    panel.invert_yaxis()
    for place, length in enumerate(seconds):
        panel.text(length, place, f" {length:.1f} s", va="center")


def _clock(panel: Axes, results: Results) -> None:
    """Mark every six hours from the first result to the last."""
    ends = [row["end"] for row in results.now.values()]
    first, last = min(ends) // (6 * HOUR), max(ends) // (6 * HOUR) + 1
    times: Any = [moment(6 * HOUR * step) for step in range(first, last + 1)]
    panel.set_xticks(times, [f"{time:%H:%M}\n{time:%-d %b}" for time in times])
    panel.set_xlabel("time in New York")


def _of(rows: Iterable[Row], airport: str) -> list[Row]:
    return [row for row in rows if row["airport"] == airport]


def _airports(results: Results) -> list[str]:
    return sorted({row["airport"] for row in results.now.values()})
