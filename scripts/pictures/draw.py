"""Draws panels: values along the bottom, stored partials as bars above them.

One visual language for all pictures: a bar is one stored partial and covers the values it stands for.
Its colour tells how it runs; a strong colour says that the step has made it, a red outline that the
query reads it.
"""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from scripts.pictures.bars import PREFIX, STRETCH, SUFFIX, VALUE, Bar, Panel

CELL = 0.27  # inches
NARROWEST = 29  # cells, so that the legend has room
INK, FAINT, READ = "#1f2933", "#aab3bb", "#d1495b"
EDGES = {VALUE: "#7d8791", SUFFIX: "#0b5fa5", PREFIX: "#2a9d5c", STRETCH: "#6b4fa0"}
MADE = {VALUE: "#c3cad1", SUFFIX: "#86bbe6", PREFIX: "#8fd3ac", STRETCH: "#bbaae2"}
HELD = {VALUE: "#f1f3f5", SUFFIX: "#e3eff9", PREFIX: "#e4f5eb", STRETCH: "#eeeaf8"}
MEANING = {
    VALUE: "as it came",
    SUFFIX: "up to a boundary",
    PREFIX: "from a boundary on",
    STRETCH: "a whole stretch",
}
MARGIN, LABEL_ROOM, GAP, ABOVE, BELOW, LEGEND = 0.6, 2.2, 1.3, 2.4, 3.0, 1.0
LETTER, SMALL, TITLE = 9.5, 8.5, 10.5  # points


def draw(panels: Sequence[Panel], meaning: Mapping[str, str]) -> Figure:
    """Return the picture of a run; `meaning` says of a kind what it is there, in a few words."""
    widths = [_width(panel) for panel in panels]
    rows = max(panel.state.rows for panel in panels)
    used = sum(widths) + GAP * (len(panels) - 1)
    width = max(used + 2 * MARGIN, NARROWEST)
    lines = _legend_lines(panels, {**MEANING, **meaning}, width)
    below = BELOW + LEGEND * len(lines)
    figure = Figure(figsize=(width * CELL, (ABOVE + rows + below) * CELL))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(-below, rows + ABOVE))
    ax.axis("off")
    x = (width - used) / 2
    for panel, room in zip(panels, widths, strict=True):
        _panel(ax, panel, x, rows)
        x += room + GAP
    _legend(ax, lines, width)
    return figure


def _width(panel: Panel) -> float:
    return len(panel.columns) + (LABEL_ROOM if panel.state.labels else 0)


def _panel(ax: Axes, panel: Panel, x: float, rows: int) -> None:
    left = x + (LABEL_ROOM if panel.state.labels else 0) - panel.columns[0][0]
    start, end = left + panel.columns[0][0], left + panel.columns[-1][0] + 1
    middle = (start + end) / 2
    ax.text(
        middle,
        rows + 1.75,
        panel.title,
        size=TITLE,
        ha="center",
        va="center",
        weight="bold",
        color=INK,
    )
    ax.text(middle, rows + 0.8, panel.cost, size=SMALL, ha="center", va="center", color=INK)
    for column, letter in panel.columns:
        there = bool(letter) and letter in panel.content
        ax.text(
            left + column + 0.5, -0.55, letter, size=LETTER, ha="center", va="center",
            color=INK if there else FAINT, weight="bold" if there else "normal",
        )  # fmt: skip
    ax.plot([start, end], [-0.08, -0.08], color=INK, lw=0.8, solid_capstyle="butt")
    read = _read(panel)
    for bar in panel.state.bars:
        _bar(ax, bar, left, panel, bar in read)
    for row, label in panel.state.labels.items():
        y = panel.state.rows - row - 0.5
        ax.text(start - 0.25, y, label, size=SMALL, ha="right", va="center", color=INK)
    _pointers(ax, panel, left)
    parts = " ⊗ ".join(panel.read)
    ax.text(
        middle, -2.35, f"query: {parts}", size=SMALL + 0.5, ha="center", va="center", color=READ
    )


def _read(panel: Panel) -> set[Bar]:
    """Return the bars that the query reads: for each part one, an aggregate rather than a value."""
    found = set()
    for part in panel.read:
        found.add(next(bar for bar in panel.state.bars if bar.text == part))
    return found


def _bar(ax: Axes, bar: Bar, left: float, panel: Panel, read: bool) -> None:
    columns = [column for column, _ in bar.cells]
    inset = 0.2 if bar.kind == VALUE else 0.1
    y = panel.state.rows - bar.row - 1
    x, width = left + min(columns) + 0.06, max(columns) + 1 - min(columns) - 0.12
    face = (MADE if bar in panel.made else HELD)[bar.kind]
    style = "--" if bar.beside else "-"
    edge = READ if read else EDGES[bar.kind]
    drawn = box(ax, x, y + inset, width, 1 - 2 * inset, face, edge, style)
    drawn.set_zorder(4 if bar.kind == VALUE else 3 if read else 2)
    covered = {column for other in panel.state.bars for column, _ in other.cells
               if other.row == bar.row and other.kind != VALUE}  # fmt: skip
    for column, letter in bar.cells:
        if bar.kind == VALUE and column in covered:
            continue  # the aggregate beside the value has the letter
        color = INK if letter in panel.content else FAINT
        place = left + column + 0.5, y + 0.48
        ax.text(*place, letter, size=LETTER, ha="center", va="center", color=color, zorder=5)


def _pointers(ax: Axes, panel: Panel, left: float) -> None:
    at: dict[int, list[str]] = {}
    for name, column in panel.state.pointers:
        at.setdefault(column, []).append(name)
    for column, names in at.items():
        x = left + column
        ax.plot([x, x], [-0.08, -1.05], color=INK, lw=0.8)
        aside = 0.12 if len(names[0]) > 2 else 0.0
        side = "left" if aside else "center"
        if aside and column > panel.columns[-1][0]:  # a long name at the right end
            aside, side = -aside, "right"
        text = " ".join(names)
        ax.text(x + aside, -1.4, text, size=SMALL, color=INK, ha=side, va="center")


Entry = tuple[str, str, str, str]


def _legend_lines(
    panels: Sequence[Panel], meaning: Mapping[str, str], width: float
) -> list[list[Entry]]:
    """Return face, edge, line and text of what the colours mean, in as many lines as they need."""
    bars = [bar for panel in panels for bar in panel.state.bars]
    kinds = [kind for kind in meaning if any(bar.kind == kind for bar in bars)]
    entries = [(HELD[kind], EDGES[kind], "-", meaning[kind]) for kind in kinds]
    entries.append(
        (MADE[bars[0].kind], EDGES[bars[0].kind], "-", "strong colour: made in this step")
    )
    if any(bar.beside for bar in bars):
        entries.append((HELD[SUFFIX], EDGES[SUFFIX], "--", "made by the second thread"))
    entries.append(("white", READ, "-", "read by the query"))
    if sum(map(_length, entries)) <= width:
        return [entries]
    return [entries[: len(kinds)], entries[len(kinds) :]]


def _length(entry: Entry) -> float:
    return 1.6 + 0.235 * len(entry[3])


def _legend(ax: Axes, lines: Sequence[Sequence[Entry]], width: float) -> None:
    for number, entries in enumerate(lines):
        x, y = (width - sum(map(_length, entries))) / 2, -BELOW - 0.3 - LEGEND * number
        for face, edge, style, text in entries:
            box(ax, x, y - 0.25, 0.8, 0.5, face, edge, style)
            ax.text(x + 0.98, y, text, size=SMALL - 0.5, va="center", color=INK)
            x += _length((face, edge, style, text))


def box(
    ax: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    face: str,
    edge: str,
    style: str = "-",
) -> FancyBboxPatch:
    """Add a rectangle with round corners, as every picture has them."""
    drawn = FancyBboxPatch(
        (x, y),
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.16",
        facecolor=face,
        edgecolor=edge,
        linestyle=style,
        linewidth=2.0 if edge == READ else 0.8,
    )
    ax.add_patch(drawn)
    return drawn
