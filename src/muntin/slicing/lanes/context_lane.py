"""Windows whose edges depend on rows: punctuations, and users' own.

A late row may move, add or remove edges behind it: what was reported and is no more is retracted.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import Any

import numpy as np

from muntin.journal import Journal
from muntin.slicing.lane import Setting
from muntin.slicing.lanes.context_state import ContextState, check_edges
from muntin.slicing.lanes.row_lane import ROW, Line, RowLane, as_lines
from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.partials import Partials
from muntin.slicing.rows import Rows
from muntin.slicing.tables import RESULT, RETRACT, ROW_NEW, ROW_TIME, UPDATE
from muntin.windows import ContextAwareWindow, Punctuation


class ContextLane(RowLane):
    """A window between rows that open one."""

    window: ContextAwareWindow

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        self._states: dict[int, ContextState] = {}

    def _try(self, rows: Rows) -> None:
        for time, row in zip(rows.times.tolist(), rows.extra[ROW], strict=True):
            self.window.opens(self.window.begin(), time, row)

    def _note_visited(self, visited: list[int], journal: Journal) -> None:
        super()._note_visited(visited, journal)
        journal.entries(self._states, visited, ContextState.without_context)

    def _renumber(self, numbers: dict[int, int]) -> None:
        super()._renumber(numbers)
        self._states = {numbers[k]: s for k, s in self._states.items() if k in numbers}

    def _find(
        self, key: int, meta: Array, after: int, upto: int, final: int
    ) -> tuple[Array, int, int]:
        del after
        state = self._states.setdefault(key, ContextState())
        lines = self._changed_windows(key, state, meta, upto)
        state.forget(final)
        start = state.edges[0] if state.edges else NEVER
        pending = [e for s, e in pairwise(state.edges) if s not in state.reported]
        pending += [state.edges[1] + self.lateness.longest] if len(state.edges) > 1 else []
        needed = int(np.searchsorted(meta[:, ROW_TIME], start))
        return as_lines(lines), needed, min(pending, default=NEVER)

    def _changed_windows(self, key: int, state: ContextState, meta: Array, upto: int) -> list[Line]:
        """Return the windows between edges that are complete, changed or gone."""
        fresh = self._fresh.get(key, NEVER)
        since = self._find_edges(key, state, meta[:, ROW_TIME], fresh) if fresh < NEVER else NEVER
        edges = state.edges if self._begins_whole(key, state, meta) else state.edges[1:]
        complete = {start: end for start, end in pairwise(edges) if end <= upto}
        lines: list[Line] = []
        for start, end in list(state.reported.items()):
            if start >= since and complete.get(start) != end:
                lines.append((key, 0, start, end, 0, 0, RETRACT))
                del state.reported[start]
        for start, end in complete.items():
            lo, hi = np.searchsorted(meta[:, ROW_TIME], [start, end]).tolist()
            known = start in state.reported
            if not known or meta[lo:hi, ROW_NEW].any():
                lines.append((key, 0, start, end, lo, hi, UPDATE if known else RESULT))
                state.reported[start] = end
        return lines

    def _begins_whole(self, key: int, state: ContextState, meta: Array) -> bool:
        """Whether the first edge is one, though rows may have come before that were not kept."""
        begins = int(self._begins[key])
        if state.settled or begins == ALWAYS or not state.edges:
            return True
        if not isinstance(self.window, Punctuation) or state.edges[0] <= begins:
            return False
        lo, hi = np.searchsorted(meta[:, ROW_TIME], [state.edges[0], state.edges[0] + 1]).tolist()
        return any(self.window.opens(None, state.edges[0], row) for row in self._rows(key)[lo:hi])

    def _find_edges(self, key: int, state: ContextState, times: Array, fresh: int) -> int:
        """Find the edges again, from the window that holds the first new row; return its start."""
        rows = self._rows(key)
        if fresh <= state.seen or not state.edges:
            at = max(bisect_right(state.edges, fresh) - 1, 0)
            start = min(state.edges[at], fresh) if state.edges else fresh
            del state.edges[at:]
            since = start
            state.edges.append(start)
            state.context = self.window.begin()
            lo = self._show_first(state, times, rows, int(np.searchsorted(times, start)))
        else:
            since = state.edges[-1]
            lo = int(np.searchsorted(times, state.seen, side="right"))
        while lo < len(times):
            time = int(times[lo])
            hi = int(np.searchsorted(times, time, side="right"))
            answers = [self.window.opens(state.context, time, row) for row in rows[lo:hi]]
            if any(answers):
                state.edges.append(time)
                state.context = self.window.begin()
                self._show_first(state, times, rows, lo)
            lo = hi
            state.seen = time
        return since

    def _show_first(self, state: ContextState, times: Array, rows: Array, lo: int) -> int:
        """Show a new window's context the rows at its start; return the first row behind them."""
        time = int(times[lo])
        hi = int(np.searchsorted(times, time, side="right"))
        for row in rows[lo:hi]:
            self.window.opens(state.context, time, row)
        state.seen = time
        return hi

    def plain(self) -> dict[str, Any]:
        """Return the lane's state as plain data; a context sees its rows again."""
        states = [
            (key, state.edges, list(state.reported.items()), state.settled)
            for key, state in self._states.items()
        ]
        return {**super().plain(), "states": states}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        for key, edges, reported, settled in plain["states"]:
            state = ContextState(list(edges), dict(reported), settled=bool(settled))
            check_edges(state, self._times_of(key))
            self._states[key] = state.without_context()
