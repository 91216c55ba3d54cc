"""The charts of a page: one for each window name, with a line for each key that is shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muntin.watch.axes import x_axis, y_label
from muntin.watch.history import History
from muntin.watch.lines import Line, Stretch, points, steps
from muntin.watch.series import Reports
from muntin.windows import Periodic

LINES = 5
"""How many keys are shown if the user has not chosen any."""


@dataclass(frozen=True)
class View:
    """What a page shows: the width of charts in pixels, how many windows (0: all), and which keys.

    `chosen` says that only these keys are wanted; else active ones join them until there are a few.
    `aggregates` tells which one to draw for a window, by their names.
    """

    columns: int = 600
    last: int = 1000
    keys: tuple[int, ...] = ()
    chosen: bool = False
    aggregates: Mapping[str, str] = field(default_factory=dict)


def keys_to_show(history: History, view: View) -> list[int]:
    """Return the keys to show: those wanted that are still followed, and some that are active."""
    wanted = [key for key in view.keys if key in history.followed.names]
    if view.chosen:
        return wanted
    others = [key for key in history.followed.recent if key not in wanted]
    return wanted + others[: max(0, LINES - len(wanted))]


def sketch(
    history: History, view: View, keys: list[int]
) -> list[tuple[dict[str, Any], list[Line]]]:
    """Return each window's chart, and the lines that are still to be compressed into it."""
    return [_chart(history, view, keys, name) for name in history.query.windows]


def _chart(
    history: History, view: View, keys: list[int], name: str
) -> tuple[dict[str, Any], list[Line]]:
    held = {key: history.windows(name, key) for key in keys}
    there = {key: windows for key, windows in held.items() if windows is not None and len(windows)}
    stretch = _stretch(there, view, history.latest.get(name, 0))
    aggregate = _aggregate(history, view, name)
    query = history.query
    axis = x_axis(query, name, history.bounds, stretch.hi)
    chart = {
        "window": name,
        "description": query.windows[name].describe(),
        "x": axis | {"lo": stretch.lo, "hi": stretch.hi, "columns": stretch.columns},
        "aggregate": aggregate,
        "label": y_label(query.aggregates[aggregate]) if aggregate else None,
        "choices": [n for n in query.aggregates if history.numeric.get(n)],
        "undrawn": [n for n in query.aggregates if not history.numeric.get(n, True)],
        "steps": query.emit == "changes",
        "keys": list(there) if aggregate else [],
    }
    if not aggregate:
        return chart, []
    return chart, [_line(history, name, aggregate, windows, stretch) for windows in there.values()]


def _stretch(there: Mapping[int, Reports], view: View, hi: int) -> Stretch:
    """Return the range that is shown: it ends at the last end of all windows."""
    ends = [windows.ends[-view.last :] for windows in there.values()]
    if not ends:
        return Stretch(hi, hi, view.columns)
    different = np.unique(np.concatenate(ends))
    return Stretch(int(different[-view.last :][0]), hi, view.columns)


def _aggregate(history: History, view: View, name: str) -> str | None:
    """Return the aggregate that was chosen, else the first that is a number and not a mere count."""
    numeric = [n for n in history.query.aggregates if history.numeric.get(n)]
    chosen = view.aggregates.get(name)
    if chosen in numeric:
        return chosen
    telling = [n for n in numeric if history.query.aggregates[n].name != "count"]
    return next(iter([*telling, *numeric]), None)


def _line(history: History, name: str, aggregate: str, windows: Reports, stretch: Stretch) -> Line:
    fields = windows.values[:, history.columns[aggregate]]
    if history.query.emit == "changes":
        return steps(windows, fields, stretch)
    window = history.query.windows[name]
    every = window.every if isinstance(window, Periodic) else None
    return points(windows, fields, stretch, every)
