"""What a policy leaves of a key's rows, at each end that is due.

TPDS 2019, section 4.1.4: the policy is enforced after each row, on an AMTA of what it looks at. What was
left at an end is known by its start and its number of rows, so that rows can be enforced again from the
last end on that lies before a late row. Of ends that are final the last is remembered, and the rows that
were left at it are kept.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from muntin.aggregators import Amta
from muntin.journal import Journal
from muntin.slicing.lane import Setting
from muntin.slicing.lanes.context_state import ContextState
from muntin.slicing.lanes.row_lane import ROW, RowLane, as_lines
from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.partials import Partials
from muntin.slicing.report_pieces import Expected
from muntin.slicing.rows import Rows
from muntin.slicing.tables import EMPTY, RESULT, RETRACT, ROW_NEW, ROW_TIME, UPDATE
from muntin.slicing.tick_ends import all_ends, ends_after_rows
from muntin.windows import Policy

Left = dict[int, tuple[int, int]]
"""Rows [lo, hi) by the end at which they were left."""


class PolicyLane(RowLane):
    """The rows that a policy has left, every so often."""

    window: Policy

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        self._states: dict[int, ContextState] = {}

    def _try(self, rows: Rows) -> None:
        lift = self.window.policy.aggregate.input_lift()
        for row in rows.extra[ROW]:
            lift(row)

    def _visited(self) -> list[int]:
        return self._with_rows()

    def expected(self, watermark: Array) -> Expected:
        return super().expected(watermark) if self._changes else self._expected_ticks(watermark)

    def _note_visited(self, visited: list[int], journal: Journal) -> None:
        super()._note_visited(visited, journal)
        journal.entries(self._states, visited, ContextState.without_context)

    def _renumber(self, numbers: dict[int, int]) -> None:
        super()._renumber(numbers)
        self._states = {numbers[k]: s for k, s in self._states.items() if k in numbers}

    def _find(self, key: int, meta: Array, after: int, upto: int, final: int) -> tuple[Array, int]:
        del after
        state = self._states.setdefault(key, ContextState())
        times = meta[:, ROW_TIME]
        left = self._enforce(key, state, times, upto)
        lines = [(key, 0, *line) for line in self._news(state, left, times, meta[:, ROW_NEW])]
        return as_lines(lines), forget(state, times, final)

    def _enforce(self, key: int, state: ContextState, times: Array, upto: int) -> Left:
        """Enforce the policy on a key's rows; return what is left at each end.

        The tree is put back only at the end: if the policy raises, it is rebuilt the next time.
        """
        rows, fresh = self._rows(key), self._fresh.get(key, NEVER)
        known, tree = state.reported, state.context
        reached = max(known, default=ALWAYS)
        if tree is None or fresh < reached:
            reached = max((end for end in known if end <= fresh), default=ALWAYS)
            hi = int(np.searchsorted(times, reached))
            tree = Amta(self.window.policy.aggregate)
            tree.bulk_insert(rows[hi - known[reached][1] : hi] if reached in known else ())
        else:
            hi = int(np.searchsorted(times, reached))
        state.context = None
        if not len(tree):  # until the next row there is nothing to report
            reached = max(reached, int(times[hi])) if hi < len(times) else upto
        after_rows = self._changes
        ends = (
            ends_after_rows(self.window, times[hi:], upto)
            if after_rows
            else all_ends(self.window, reached, upto)
        )
        holds = self.window.policy.on_partials()
        left: Left = {}
        for end, stop in zip(ends.tolist(), np.searchsorted(times, ends).tolist(), strict=True):
            for row in rows[hi:stop]:
                tree.insert(row)
                tree.evict_while(holds)
            hi = stop
            left[end] = hi - len(tree), hi
        state.context = tree
        return left

    def _news(
        self, state: ContextState, left: Left, times: Array, new: Array
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """Write down what is left and yield what of it is news: (start, end, lo, hi, kind)."""
        known = state.reported
        for end, (lo, hi) in left.items():
            start, count = int(times[lo]) if lo < hi else end, hi - lo
            was, before = known.get(end, (end, 0))
            said = end in known and (self._changes or before > 0)
            known[end] = (start, count)
            if said and (was != start or not (self._changes or count)):
                yield was, end, 0, 0, RETRACT
                said = False
            if said and before == count and not new[lo:hi].any():
                continue
            if count:
                yield start, end, lo, hi, UPDATE if said else RESULT
            elif self._changes:
                yield start, end, 0, 0, EMPTY

    def plain(self) -> dict[str, Any]:
        """Return the lane's state as plain data; a tree sees its rows again."""
        states = [(key, list(state.reported.items())) for key, state in self._states.items()]
        return {**super().plain(), "states": states}

    def load(self, plain: dict[str, Any]) -> None:
        super().load(plain)
        for key, reported in plain["states"]:
            state = ContextState(reported=dict(reported))
            check_left(state, self._times_of(key))
            self._states[key] = state.without_context()


def forget(state: ContextState, times: Array, final: int) -> int:
    """Forget ends before the last that is final; return the first row that is still needed."""
    known = state.reported
    base = max((end for end in known if end <= final), default=None)
    if base is None:
        return 0
    state.reported = {end: content for end, content in known.items() if end >= base}
    return int(np.searchsorted(times, base)) - int(known[base][1])


def check_left(state: ContextState, times: Array) -> None:
    """Refuse what was left at ends, as it was saved, unless there are rows for it."""
    for end, (start, count) in state.reported.items():
        if any(type(number) is not int for number in (end, start, count)):
            raise TypeError("ends, starts and numbers of rows are whole numbers")
        if not 0 <= count <= int(np.searchsorted(times, end)):
            raise ValueError(f"{count} rows were left at {end}, of {len(times)}")
