"""Only windows whose values differ from those of the window before: `emit="changes"`.

Lanes gather the windows at whose ends a slice enters or leaves; between them nothing can change. Here those
are left out whose values are the same all the same. What was reported is remembered: of each key and
window the last, and while late rows may still change it, all of it. A late row then gives updates, new
results where a change is new, and retractions where there is none any more.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.slicing.lane import EMPTY, END, KEY, KIND, RESULT, RETRACT, START, UPDATE, WINDOW, Report
from muntin.slicing.loops import ALWAYS, NEVER, Array
from muntin.slicing.partials import Partials

Values = tuple[Any, ...] | None


@dataclass(frozen=True)
class Entry:
    """A window that was reported, with its values as the kernels gave them; None if it was empty."""

    start: int
    end: int
    values: Values


class Changes:
    """What was last reported of each key and window."""

    def __init__(self, windows: int, partials: list[Partials], remembers: bool) -> None:
        self._windows = windows
        self._outputs = [column.kernels for column in partials]
        self._known = np.zeros(0, np.bool_)
        self._last = [kernels.outputs(0) for kernels in self._outputs]
        self._remembers = remembers
        self._log: dict[int, list[Entry]] = {}

    def grow_keys(self, keys: int) -> None:
        """Make space for more keys."""
        more = keys * self._windows - len(self._known)
        if more > 0:
            self._known = np.append(self._known, np.zeros(more, np.bool_))
            self._last = [
                tuple(np.append(h, n) for h, n in zip(held, kernels.outputs(more), strict=True))
                for held, kernels in zip(self._last, self._outputs, strict=True)
            ]

    def apply(self, report: Report, final: Array) -> Report:
        """Leave out what has not changed; windows that end by `final` (of all, or each key) are fixed."""
        lines = report.windows
        if len(lines) == 0:
            return report
        slots = lines[:, KEY] * self._windows + lines[:, WINDOW]
        valued, places = report.valued, np.cumsum(report.valued) - 1
        full = [tuple(a[places] if len(a) else _blank(a, len(lines)) for a in outs) for outs in report.results]
        again = np.nonzero(lines[:, KIND] == UPDATE)[0]
        for slot in dict.fromkeys(slots[again].tolist()):
            first = int(lines[again[slots[again] == slot][0], END])
            self._set(slot, self._before(slot, first))
        changed = self._differ(slots, valued, full)
        retracted = self._revise(lines, slots, changed, valued, full) if len(again) else []
        lines[:, KIND] = np.where(valued, np.where(lines[:, KIND] == UPDATE, UPDATE, RESULT), EMPTY)
        if self._remembers:
            self._remember(lines, slots, changed, valued, full, final)
        kept = [tuple(a[changed[valued]] for a in outs) for outs in report.results]
        return Report(np.concatenate([_retractions(retracted), lines[changed]]), kept)
