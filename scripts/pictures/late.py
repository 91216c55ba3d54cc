"""A picture of rows that come late: the order of arrival against the order of time."""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

import muntin as mt
from scripts.pictures.bars import PREFIX, STRETCH, SUFFIX
from scripts.pictures.draw import EDGES, FAINT, INK, READ, SMALL

TIMES = [2, 6, 9, 13, 11, 17, 21, 14, 19, 25, 8, 29, 33, 26, 38, 16, 41]
SIZE, DELAY, LATENESS = 10, 5, 12
FATES = {
    "in time": ("o", INK),
    "late, its window is still open": ("D", EDGES[STRETCH]),
    "late, its window is corrected": ("s", EDGES[SUFFIX]),
    "too late: dropped": ("X", READ),
}


@dataclass(frozen=True)
class Arrival:
    """A row as it came: what became of it, the watermark behind it, and what was reported."""

    time: int
    fate: str
    watermark: int
    results: list[str]


def arrivals() -> list[Arrival]:
    """Feed an operator row by row, and note what it does."""
    query = mt.Query(
        time="t",
        windows={"ten": mt.Tumbling(SIZE)},
        aggregates={"rows": mt.Count()},
        watermark=DELAY,
        lateness=LATENESS,
    )
    op, noted = query.operator(), []
    in_time, still_open, corrected, dropped = FATES
    for t in TIMES:
        before, watermark = op.counters, op.watermark
        op.process({"t": [t]})
        fate = in_time
        if op.counters.late > before.late:
            assert watermark is not None
            fate = still_open if t // SIZE * SIZE + SIZE > watermark else corrected
        if op.counters.dropped > before.dropped:
            fate = dropped
        told = [
            f"[{r['start']}, {r['end']}) {r['kind']}, {r['rows']} rows"
            for r in op.advance().to_pylist()
        ]
        assert op.watermark is not None
        noted.append(Arrival(t, fate, op.watermark, told))
    return noted


def late() -> Figure:
    """Draw rows as they come, the watermark behind them, and what becomes of each."""
    figure = Figure(figsize=(9.2, 4.7))
    ax = figure.add_axes((0.075, 0.115, 0.58, 0.87))
    noted = arrivals()
    for fate, (mark, colour) in FATES.items():
        places = [(a.time, i) for i, a in enumerate(noted) if a.fate == fate]
        ax.plot(*zip(*places, strict=True), mark, ms=8, color=colour, label=fate, zorder=3)
    lines = [a.watermark for a in noted], [i + 0.5 for i in range(len(noted))]
    behind = [watermark - LATENESS for watermark in lines[0]]
    green = EDGES[PREFIX]
    ax.step(*lines, where="post", color=green, lw=1.8, label="watermark")
    ax.step(behind, lines[1], where="post", color=green, lw=1.2, ls=":", label="less the lateness")
    for i, arrival in enumerate(noted):
        for text in arrival.results:
            ax.text(46, i + 0.5, text, size=SMALL, va="center", color=INK)
    _finish(ax)
    return figure


def _finish(ax: Axes) -> None:
    ax.set(
        xlim=(-14, 44), ylim=(len(TIMES), -0.8), xlabel="time of the row", ylabel="order of arrival"
    )
    ax.set_xticks(range(0, 50, SIZE), [str(end) for end in range(0, 50, SIZE)])
    ax.set_yticks(range(0, len(TIMES), 2))
    ax.grid(axis="x", color="#e3e7ea")
    ax.set_axisbelow(True)
    ax.tick_params(colors=INK, labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)
    for spine in ax.spines.values():
        spine.set_color(FAINT)
    ax.text(46, 0, "reported then", size=SMALL, va="center", color=INK, weight="bold")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 0.0), fontsize=SMALL, frameon=False)
