"""Pictures of streams: windows of all kinds, and which rows are in them.

All is drawn from the results of queries, and from what their operators hold.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

import muntin as mt
from scripts.pictures.bars import PREFIX, SUFFIX
from scripts.pictures.draw import EDGES, FAINT, HELD, INK, SMALL, box

ROWS = {
    "t": [1, 2, 4, 7, 8, 15, 16, 19, 24, 26, 27, 33, 35, 38],
    "id": list("abcdefghijklmn"),
    "km": [1, 2, 3, 5, 6, 9, 10, 12, 16, 17, 18, 22, 23, 25],
    "litres": [4, 2, 5, 1, 3, 6, 2, 4, 1, 5, 2, 3, 4, 2],
    "stop": [i in (0, 3, 7, 11) for i in range(14)],
}
WINDOWS: dict[str, mt.ContextFreeWindow | mt.Session | mt.Punctuation | mt.LastN | mt.Policy] = {
    "Tumbling(10)": mt.Tumbling(10),
    "Sliding(10, 5)": mt.Sliding(10, 5),
    "Fixed(12, 15)": mt.Fixed(12, 15),
    "Session(4)": mt.Session(4),
    'Tumbling(4, measure="count")': mt.Tumbling(4, measure="count"),
    'Delta("km", 8)': mt.Delta("km", 8),
    'Punctuation("stop")': mt.Punctuation("stop"),
    "LastN(3, every=10)": mt.LastN(3, every=10),
    'Policy(sum_at_most(9, "litres"), every=10)': mt.Policy(
        mt.policies.sum_at_most(9, "litres"), every=10
    ),
}
LEFT, RIGHT, SHELF, BETWEEN, TOP = -6, 51, 1.15, 1.55, 2.6
HALF_OPEN = 0.4  # a row at the start is inside, one at the end is not
Span = tuple[float, float, list[int]]


def windows() -> Figure:
    """Draw, for every kind of window over one stream, which rows are in which window."""
    lanes = {name: _shelves(_spans(window)) for name, window in WINDOWS.items()}
    height = TOP + sum(SHELF * len(shelves) + BETWEEN for shelves in lanes.values())
    figure = Figure(figsize=(9.2, 0.225 * height))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(LEFT - 0.5, RIGHT + 0.5), ylim=(-height, 0))
    ax.axis("off")
    _stream(ax, height)
    y = -TOP
    for name, shelves in lanes.items():
        ax.text(LEFT, y - 0.75, name, size=SMALL, va="center", color=INK, family="monospace")
        y -= BETWEEN
        for shelf in shelves:
            for start, end, times in shelf:
                x, width = start - HALF_OPEN, end - start - 0.25
                box(ax, x, y - 0.95, width, 0.9, HELD[SUFFIX], EDGES[SUFFIX])
                ax.plot(times, [y - 0.5] * len(times), "o", ms=4, color=EDGES[SUFFIX], zorder=3)
            y -= SHELF
    return figure


def _stream(ax: Axes, height: float) -> None:
    for tick in range(-5, RIGHT, 5):
        ax.plot([tick, tick], [-1.9, -height], color="#e9ecef", lw=0.7, zorder=0)
        ax.text(tick, -1.5, str(tick), size=SMALL - 1, ha="center", va="center", color=FAINT)
    ax.text(LEFT, -0.6, "rows", size=SMALL, va="center", color=INK)
    ax.text(RIGHT, -0.6, "green: stop", size=SMALL, ha="right", va="center", color=EDGES[PREFIX])
    for t, name, stop in zip(ROWS["t"], ROWS["id"], ROWS["stop"], strict=True):
        face = EDGES[PREFIX] if stop else INK
        ax.plot([t], [-0.6], "o", ms=9, color=face)
        ax.text(t, -0.63, name, size=6.5, ha="center", va="center", color="white")


def _spans(window: mt.ContextFreeWindow) -> list[Span]:
    """Return from where to where each window reaches in time, and the times of its rows."""
    query = mt.Query(time="t", windows={"w": window}, aggregates={"times": mt.Collect("t")})
    spans = []
    for result in query.run(ROWS).to_pylist():
        times = result["times"]
        start, end = result["start"], result["end"]
        if window.measure != "time":  # start and end are numbers of rows, or of the column
            start, end = times[0], times[-1] + 1
        elif isinstance(window, mt.LastN | mt.Policy):
            start = times[0]
        spans.append((start, end, times))
    return spans


def _shelves(spans: list[Span]) -> list[list[Span]]:
    """Lay windows side by side, and those that overlap below one another."""
    shelves: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: s[:2]):
        free = [shelf for shelf in shelves if shelf[-1][1] <= span[0]]
        if free:
            free[0].append(span)
        else:
            shelves.append([span])
    return shelves
