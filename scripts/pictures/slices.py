"""Pictures of slices: what windows share, and what a late row changes."""

from collections.abc import Iterator
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

import muntin as mt
from muntin.query.operator import Operator
from scripts.pictures.bars import PREFIX, STRETCH
from scripts.pictures.draw import EDGES, FAINT, HELD, INK, MADE, SMALL, TITLE, box

WINDOWS = {"Tumbling(8)": mt.Tumbling(8), "Sliding(15, 5)": mt.Sliding(15, 5)}
BATCHES = [
    ("after 10 rows, the watermark at 25", 25, {"t": [1, 3, 6, 9, 11, 14, 17, 19, 22, 26]}),
    ("a late row at 12, the watermark at 26", 26, {"t": [12]}),
]
WATTS = dict(zip(BATCHES[0][2]["t"] + [12], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 7], strict=True))
LEFT, RIGHT, PART = -9, 32, 11.0


def slices() -> Figure:
    """Draw rows, slices and windows, and the same after a row came late."""
    query = mt.Query(time="t", windows=WINDOWS, aggregates={"watts": mt.Sum("watts")}, lateness=30)
    op = query.operator()
    figure = Figure(figsize=(9.2, 0.235 * PART * len(BATCHES)))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(LEFT, RIGHT), ylim=(-PART * len(BATCHES), 0))
    ax.axis("off")
    rows: list[int] = []
    held: dict[int, int] = {}
    told: dict[tuple[str, int], int] = {}
    for part, (title, watermark, batch) in enumerate(BATCHES):
        op.process({**batch, "watts": [WATTS[t] for t in batch["t"]]})
        results = op.advance(watermark).to_pylist()
        y = -PART * part
        ax.text(LEFT + 0.3, y - 0.8, title, size=TITLE, weight="bold", va="center", color=INK)
        rows += batch["t"]
        _rows(ax, y - 2.2, rows, batch["t"])
        held = _slices(ax, y - 4.6, op, held)
        told = _windows(ax, y - 5.4, results, told)
    return figure


def _rows(ax: Axes, y: float, rows: list[int], new: list[int]) -> None:
    ax.text(LEFT + 0.3, y, "rows", size=SMALL, va="center", color=INK)
    for t in rows:
        ax.plot([t + 0.5], [y], "o", ms=11, color=INK if t in new else FAINT)
        ax.text(t + 0.5, y - 0.03, str(WATTS[t]), size=7.5, ha="center", va="center", color="white")
        ax.text(t + 0.5, y - 0.95, str(t), size=6.5, ha="center", va="center", color=FAINT)


def slice_sums(op: Operator) -> Iterator[tuple[int, int, int]]:
    """Yield the slices that an operator holds: start, end and sum."""
    lane: Any = op._state.lanes[0]
    places = lane.slices.live()
    sums = lane.partials[0].take(places)[-1]
    for start, watts in zip(lane.slices.meta[places, 0].tolist(), sums.tolist(), strict=True):
        yield start, min(window.next_edge(start) for window in WINDOWS.values()), int(watts)


def _slices(ax: Axes, y: float, op: Operator, held: dict[int, int]) -> dict[int, int]:
    ax.text(LEFT + 0.3, y + 0.5, "slices, held", size=SMALL, va="center", color=INK)
    now = {}
    for start, end, watts in slice_sums(op):
        face = (HELD if held.get(start) == watts else MADE)[STRETCH]
        _box_of(ax, start, end, y, str(watts), face, EDGES[STRETCH])
        now[start] = watts
    return now


def _windows(
    ax: Axes, y: float, results: list[dict[str, Any]], told: dict[tuple[str, int], int]
) -> dict[tuple[str, int], int]:
    new = {(r["window"], r["start"]): r["watts"] for r in results}
    known = {**told, **new}
    for name, window in WINDOWS.items():
        overlap = -(-window.size // window.every)
        ax.text(LEFT + 0.3, y - 0.5, name, size=SMALL, va="center", color=INK, family="monospace")
        for (of, start), watts in known.items():
            if of == name and start >= 0:  # those before have few rows
                row = y - 1.0 - 1.05 * (start // window.every % overlap)
                colours = MADE if (of, start) in new else HELD
                _box_of(
                    ax, start, start + window.size, row, str(watts), colours[PREFIX], EDGES[PREFIX]
                )
        y -= 1.05 * overlap + 0.25
    return known


def _box_of(ax: Axes, start: float, end: float, y: float, text: str, face: str, edge: str) -> None:
    box(ax, start + 0.1, y + 0.05, end - start - 0.2, 0.9, face, edge)
    ax.text((start + end) / 2, y + 0.48, text, size=SMALL, ha="center", va="center", color=INK)
