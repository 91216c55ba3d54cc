"""All pictures of the documents by their names, and a picture as SVG."""

import io
from collections.abc import Callable
from functools import partial

import matplotlib as mpl
from matplotlib.figure import Figure

from scripts.pictures.draw import draw
from scripts.pictures.late import late
from scripts.pictures.scenes import SCENES, panels
from scripts.pictures.slices import slices
from scripts.pictures.streams import windows


def algorithm(name: str) -> Figure:
    """Draw the run of an algorithm."""
    return draw(panels(name), SCENES[name].meaning)


PICTURES: dict[str, Callable[[], Figure]] = {
    **{name: partial(algorithm, name) for name in SCENES},
    "windows": windows,
    "slices": slices,
    "late": late,
}


def as_svg(figure: Figure) -> str:
    """Return a picture as SVG, the same text for the same picture; letters are drawn as shapes."""
    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "muntin"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()
