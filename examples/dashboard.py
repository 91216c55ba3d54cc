"""A dashboard: a line chart of a million points from four values per pixel column, without error.

    python examples/dashboard.py --picture dashboard.png

A screen that is 900 pixels wide has 900 places for a line to be at. Of all values that fall into one
of them, the line covers the stretch from the smallest to the largest, comes in at the first and goes
out at the last: these four are what M4 takes (Jugel et al., VLDB 2014), one window per pixel column.
The line through them is drawn as the line through all values is, without smoothing, and the pictures
are compared pixel by pixel. Beside them is a sample of as many values, as dashboards often draw.

A chart that moves needs the same: windows that slide instead of those that tumble.
"""

import argparse

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw
from rich.console import Console
from rich.table import Table

import muntin as mt

mpl.use("Agg")
import matplotlib.pyplot as plt

HEIGHT = 220
Line = tuple[np.ndarray, np.ndarray]


def generated(rows: int) -> np.ndarray:
    """Return a load that wanders, with a few peaks that a sample is likely to miss."""
    rng = np.random.default_rng(4)
    load = 300 + np.cumsum(rng.normal(0, 0.4, rows))
    load[rng.integers(0, rows, 12)] += rng.uniform(100, 500, 12)
    return load


def compressed(load: np.ndarray, width: int) -> Line:
    """Return columns and values of the line of M4: first, min, max and last of each column."""
    each = -(-len(load) // width)
    query = mt.Query(
        time="t",
        windows={"column": mt.Tumbling(each)},
        aggregates={"line": mt.M4("load")},
        ordered=True,
    )
    table = query.run({"t": np.arange(len(load)), "load": load})
    four = table["line"].combine_chunks()
    values = np.stack([four.field(name).to_numpy() for name in ("first", "min", "max", "last")], 1)
    return np.repeat(table["start"].to_numpy() // each, 4), values.ravel()


def drawn(line: Line, width: int, span: tuple[float, float]) -> np.ndarray:
    """Return which pixels are dark when a line is drawn between a lowest and a highest value."""
    columns, values = line
    rows = (span[1] - values) / (span[1] - span[0]) * HEIGHT
    image = Image.new("1", (width, HEIGHT))
    points = np.stack([columns, rows.astype(int).clip(0, HEIGHT - 1)], 1)
    ImageDraw.Draw(image).line(points.ravel().tolist(), fill=1)
    return np.asarray(image)


def main(rows: int = 1_000_000, width: int = 900, picture: str | None = None) -> dict[str, int]:
    """Print how many pixel columns differ from the whole line's, and return it by line."""
    console, load = Console(), generated(rows)
    each = -(-rows // width)
    all_rows = np.arange(rows)
    four = compressed(load, width)
    sample = all_rows[:: max(rows // len(four[0]), 1)]
    lines = {
        "all values": (all_rows // each, load),
        "M4": four,
        "a sample": (sample // each, load[sample]),
    }
    span = load.min(), load.max()
    images = {name: drawn(line, width, span) for name, line in lines.items()}
    wrong = {name: image != images["all values"] for name, image in images.items()}
    if picture:
        save(picture, lines, images, wrong)
        console.print(f"drawn: {picture}")
    table = Table("line", "points", "columns that differ", "pixels that differ", title="One chart")
    for name, (columns, _) in lines.items():
        differing = f"{wrong[name].any(0).sum():,} of {width:,}", f"{wrong[name].sum():,}"
        table.add_row(name, f"{len(columns):,}", *differing)
    console.print(table)
    return {name: int(wrong[name].any(0).sum()) for name in lines}


def save(
    path: str, lines: dict[str, Line], images: dict[str, np.ndarray], wrong: dict[str, np.ndarray]
) -> None:
    """Save the pictures one above the other, with the pixels that differ in red."""
    figure, panels = plt.subplots(3, figsize=(10, 8.4), layout="constrained", sharex=True)
    for axes, (name, image) in zip(panels, images.items(), strict=True):
        colours = np.where(image[:, :, None], (30, 60, 110), (255, 255, 255)).astype(np.uint8)
        colours[wrong[name]] = 214, 39, 40
        axes.imshow(colours, aspect="auto", interpolation="none")
        columns = int(wrong[name].any(0).sum())
        axes.set_title(
            f"{name}: {len(lines[name][0]):,} points, {columns:,} columns differ", loc="left"
        )
        axes.set_ylabel("pixel row")
    panels[-1].set_xlabel("pixel column (in red: dark in only one of this picture and the first)")
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="values in the line")
    parser.add_argument("--width", type=int, default=900, help="pixel columns")
    parser.add_argument("--picture", default="dashboard.png", help="where to save the comparison")
    main(**vars(parser.parse_args()))
