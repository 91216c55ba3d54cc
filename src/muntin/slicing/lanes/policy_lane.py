"""What a policy leaves of a key's rows, at each end that is due.

TPDS 2019, section 4.1.4: the policy is enforced after each row, on an AMTA of what it looks at. What was
left at an end is known by its start and its number of rows, so that rows can be enforced again from the
last end on that lies before a late row. Of ends that are final the last is remembered, and the rows that
were left at it are kept.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar

import numpy as np

from muntin.aggregators import Amta
from muntin.journal import Journal
from muntin.slicing.lane import Setting
from muntin.slicing.lanes.context_state import ContextState
from muntin.slicing.lanes.row_lane import ROW, as_lines
from muntin.slicing.lanes.tick_lane import TickLane
from muntin.slicing.limits import ALWAYS, END_OF_TIME, FAR, NEVER, Array
from muntin.slicing.partials import Partials
from muntin.slicing.rows import Rows
from muntin.slicing.tables import RESULT, RETRACT, ROW_NEW, ROW_TIME, UPDATE
from muntin.slicing.tick_ends import all_ends, ends_after_rows
from muntin.windows import Policy

Left = dict[int, tuple[int, int]]
"""Rows [lo, hi) by the end at which they were left."""
News = tuple[int, int, int, int, int]
"""A window to report: (start, end, lo, hi, kind)."""


class PolicyLane(TickLane):
    """The rows that a policy has left, every so often."""

    BY_END: ClassVar[bool] = False

    window: Policy

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        self._states: dict[int, ContextState] = {}
        self._column = setting.time
        self._is_timed = window.policy.expired(None, setting.time) is not None

    def _try(self, rows: Rows) -> None:
        lift = self.window.policy.aggregate.input_lift()
        for row in rows.extra[ROW]:
            lift(row)

    def _note_visited(self, visited: list[int], journal: Journal) -> None:
        super()._note_visited(visited, journal)
        journal.entries(self._states, visited, ContextState.without_context)

    def _renumber(self, numbers: dict[int, int]) -> None:
        super()._renumber(numbers)
        self._states = {numbers[k]: s for k, s in self._states.items() if k in numbers}

    def alive(self) -> Array:
        """Return which keys have rows that are left, or windows that may still change."""
        alive: Array = self.kept.runs.length[: self.keys] > 0
        if self._changed is not None:
            alive |= self._changed.alive(self.keys, self.lateness.past(self._time))
        alive[list(self._states)] = True
        return alive

    def _find(
        self, key: int, meta: Array, after: int, upto: int, final: int
    ) -> tuple[Array, int, int]:
        state = self._states.setdefault(key, ContextState())
        times = meta[:, ROW_TIME]
        left = self._enforce(key, state, times, upto)
        news = (
            self._all_of(state, left, times, after)
            if self._changes
            else self._news(state, left, times, meta[:, ROW_NEW])
        )
        lines = [(key, 0, *line) for line in news]
        needed = forget(state, times, final)
        due = self._next(state, times, upto, final)
        if needed == len(times) and due == NEVER:  # nothing is left, and that is final
            del self._states[key]
        return as_lines(lines), needed, due

    def _next(self, state: ContextState, times: Array, upto: int, final: int) -> int:
        """Return the next end at which there may be something to report, or to forget."""
        ends = sorted(state.reported)
        coming = times[np.searchsorted(times, ends[-1]) :] if ends else times
        changing = [end + self.lateness.longest for end in ends if end > final]
        due = min(changing, default=NEVER)
        if ends and state.reported[ends[-1]][1] and (self._is_timed or not self._changes):
            tick = self.window.first_end(upto)
            due = min(due, tick if tick <= int(times[-1]) + self._idle else NEVER)
        if self._changes and len(times) and self._life_ends(times) > upto:
            due = min(due, self._life_ends(times))
        if len(coming):
            soon = ends_after_rows(self.window, coming, END_OF_TIME)
            due = min(due, int(soon[soon > upto].min(initial=NEVER)))
        return due

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
        state.context, begin = None, reached
        if not len(tree):  # until the next row there is nothing to report
            reached = max(reached, int(times[hi])) if hi < len(times) else upto
        left: Left = {}
        last = int(times[-1]) if len(times) else ALWAYS
        ends = self._ends(times[hi:], reached, min(upto, max(last, -FAR) + self._idle))
        for end, stop in zip(ends.tolist(), np.searchsorted(times, ends).tolist(), strict=True):
            if not len(tree) and stop == hi and end not in known:
                continue
            self._pass(tree, rows[hi:stop], end, times[:stop], rows[:stop])
            hi = stop
            left[end] = hi - len(tree), hi
        state.context = tree
        if self._changes:
            for end in [end for end in known if end > begin and end not in left]:
                del known[end]
            if len(times) and begin < self._life_ends(times) <= upto:
                left[self._life_ends(times)] = len(times), len(times)
        return left

    def _ends(self, times: Array, reached: int, upto: int) -> Array:
        """Return the ends at which what is left may have changed, or all if all are reported."""
        if self._changes and not self._is_timed:
            return ends_after_rows(self.window, times, upto)
        return all_ends(self.window, reached, upto)

    def _pass(self, tree: Amta, rows: Array, end: int, times: Array, before: Array) -> None:
        """Enforce the policy on the rows before an end, and then at that time."""
        holds = self.window.policy.on_partials()
        for row in rows:
            tree.insert(row)
            tree.evict_while(holds)
        if self._is_timed and len(tree):
            now = _later(before[-1][self._column], end - int(times[-1]))
            tree.evict_while(self.window.policy.expired(now, self._column))

    def _all_of(self, state: ContextState, left: Left, times: Array, after: int) -> Iterator[News]:
        """Write down what is left and yield all of it, of which only changes will be reported."""
        for end, (lo, hi) in left.items():
            start = int(times[lo]) if lo < hi else end
            state.reported[end] = (start, hi - lo)
            yield start, end, lo, hi, UPDATE if end <= after else RESULT

    def _news(self, state: ContextState, left: Left, times: Array, new: Array) -> Iterator[News]:
        """Write down what is left and yield what of it is news."""
        known = state.reported
        for end, (lo, hi) in left.items():
            start, count = int(times[lo]) if lo < hi else end, hi - lo
            was, before = known.get(end, (end, 0))
            known[end] = (start, count)
            said = before > 0
            if said and (was != start or count == 0):
                yield was, end, 0, 0, RETRACT
                said = False
            if count and not (said and before == count and not new[lo:hi].any()):
                yield start, end, lo, hi, UPDATE if said else RESULT

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


def _later(time: Any, microseconds: int) -> Any:
    """Return a time of the rows' time column that is so much later."""
    if isinstance(time, datetime):
        return time + timedelta(microseconds=microseconds)
    return time + microseconds


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
