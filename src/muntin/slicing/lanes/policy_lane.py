"""What a policy leaves of a key's rows, at each end that is due.

TPDS 2019, section 4.1.4: the policy is enforced after each row, on an AMTA of what it looks at. What was
left at an end is known by its start and its number of rows, so that rows can be enforced again from the
last end on that lies before a late row. Of ends that are final the last is remembered, and the rows that
were left at it are kept.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

import numpy as np

from muntin.aggregators import Amta
from muntin.journal import Journal
from muntin.slicing.held_items import HeldItems, Look
from muntin.slicing.lane import Setting
from muntin.slicing.lanes.context_state import ContextState
from muntin.slicing.lanes.row_lane import ROW, as_lines
from muntin.slicing.lanes.tick_lane import TickLane
from muntin.slicing.limits import ALWAYS, FAR, NEVER, Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.loops.policy_rules import Rules
from muntin.slicing.partials import Partials
from muntin.slicing.rows import Rows
from muntin.slicing.tables import RESULT, RETRACT, ROW_NEW, ROW_TIME, UPDATE
from muntin.slicing.tick_ends import all_ends, ends_after_rows
from muntin.windows import Policy

Left = dict[int, tuple[int, int]]
"""Rows [lo, hi) by the end at which they were left."""
KINDS = Rules._fields
"""The kinds of rules that loops know."""
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
        self._rules = rules_of(window, setting.time)

    @staticmethod
    def _looks_at_rows(window: Any, setting: Setting) -> bool:
        return rules_of(window, setting.time) is None

    def _try(self, rows: Rows) -> None:
        if self._rules is not None:
            return
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

    def held(self, keys: Array, journal: Journal) -> HeldItems:
        ends = np.array([self._settled_at(key) for key in keys.tolist()], np.int64)
        rows = self.kept.places(keys, ends) - self.kept.runs.head[keys]
        return replace(super().held(keys, journal), settled=rows)

    def lacks(self, name: str, look: Look) -> Array:
        del name
        time = self._time[look.keys if self._ordered else np.zeros(len(look.keys), np.int64)]
        forgotten = (self._first_rank[look.keys] > 0) & (look.time < time)
        settled = np.array([self._settled_at(key) for key in look.keys.tolist()], np.int64)
        lacking: Array = np.where(settled == ALWAYS, forgotten, look.time < settled)
        return lacking

    def _settled_at(self, key: int) -> int:
        """Return an end at which all kept rows before it were left, and are known to be; or ALWAYS."""
        state = self._states.get(key)
        dropped = self._first_rank[key] > 0
        return min(state.reported, default=ALWAYS) if state is not None and dropped else ALWAYS

    def _find(
        self, key: int, meta: Array, after: int, upto: int, final: int
    ) -> tuple[Array, int, int]:
        state = self._states.setdefault(key, ContextState())
        times = meta[:, ROW_TIME]
        left = self._enforce(key, state, times, upto)
        news = (
            self._all_of(state, left, times, after)
            if self._changes
            else self._news(state, left, meta, self._first_new(key))
        )
        lines = [(key, 0, *line) for line in news]
        needed = self._forget(key, state, final)
        due = self._next(key, state, times, upto, final)
        if needed == len(times) and due == NEVER:  # nothing is left, and that is final
            del self._states[key]
        return as_lines(lines), needed, due

    def _forget(self, key: int, state: ContextState, final: int) -> int:
        """Forget ends before the last that is final; return the first row that is still needed."""
        known = state.reported
        base = max((end for end in known if end <= final), default=None)
        if base is None:
            return 0
        state.reported = {end: content for end, content in known.items() if end >= base}
        return self._rows_before(key, base) - int(known[base][1])

    def _next(self, key: int, state: ContextState, times: Array, upto: int, final: int) -> int:
        """Return the next end at which there may be something to report, or to forget."""
        ends = sorted(state.reported)
        changing = [end + self.lateness.longest for end in ends if end > final]
        due, tick = min(changing, default=NEVER), self.window.first_end(upto)
        if ends and state.reported[ends[-1]][1] and (self._is_timed or not self._changes):
            due = min(due, tick if tick <= int(times[-1]) + self._idle else NEVER)
        if self._changes and len(times) and self._life_ends(times) > upto:
            due = min(due, self._life_ends(times))
        since = max(tick - self.window.every, ends[-1] if ends else ALWAYS)
        coming = self._rows_before(key, since)
        if coming < len(times):
            due = min(due, self.window.first_end(int(times[coming])))
        return due

    def _enforce(self, key: int, state: ContextState, times: Array, upto: int) -> Left:
        """Enforce the policy on a key's rows; return what is left at each end.

        The tree is put back only at the end: if the policy raises, it is rebuilt the next time.
        """
        fresh, known, context = int(self._fresh[key]), state.reported, state.context
        reached = max(known, default=ALWAYS)
        if context is None or fresh < reached:
            reached = max((end for end in known if end <= fresh), default=ALWAYS)
            hi = self._rows_before(key, reached)
            context = self._begin(key, hi - known[reached][1] if reached in known else hi, hi)
        else:
            hi = self._rows_before(key, reached)
        state.context, count, begin = None, len(context), reached
        if not count:  # until the next row there is nothing to report
            reached = max(reached, int(times[hi])) if hi < len(times) else upto
        last, coming = int(times[-1]) if len(times) else ALWAYS, np.ascontiguousarray(times[hi:])
        ends = self._ends(coming, reached, min(upto, max(last, -FAR) + self._idle))
        stops = np.searchsorted(coming, ends) + hi
        first = self._left_at(key, context, hi, ends, stops)
        left: Left = {}
        for end, lo, stop in zip(ends.tolist(), first.tolist(), stops.tolist(), strict=True):
            if count or stop > hi or end in known:
                left[end] = lo, stop
            hi, count = stop, stop - lo
        state.context = context if self._rules is None else range(count)
        if self._changes:
            for end in [end for end in known if end > begin and end not in left]:
                del known[end]
            if len(times) and begin < self._life_ends(times) <= upto:
                left[self._life_ends(times)] = len(times), len(times)
        return left

    def _begin(self, key: int, lo: int, hi: int) -> Any:
        """Return the context of a key of whose rows [lo, hi) are left."""
        if self._rules is not None:
            return range(hi - lo)
        tree = Amta(self.window.policy.aggregate)
        tree.bulk_insert(self._rows(key)[lo:hi])
        return tree

    def _ends(self, times: Array, reached: int, upto: int) -> Array:
        """Return the ends at which what is left may have changed, or all if all are reported."""
        if self._changes and not self._is_timed:
            return ends_after_rows(self.window, times, upto)
        return all_ends(self.window, reached, upto)

    def _left_at(self, key: int, context: Any, hi: int, ends: Array, stops: Array) -> Array:
        """Enforce the policy on the rows from `hi` on; return the first row that is left at each end."""
        left = np.empty(len(ends), np.int64)
        if self._rules is None:
            for j, (end, stop) in enumerate(zip(ends.tolist(), stops.tolist(), strict=True)):
                self._pass(context, key, (hi, stop), end)
                left[j], hi = stop - len(context), stop
            return left
        head = int(self.kept.runs.head[key])
        bounds, meta = (head + hi - len(context), head + hi), self.kept.runs.meta
        enforce = compiled_loops().left_by_rules
        enforce(meta, bounds, ends, stops + head, self._rules, self._is_timed, left)
        return left - head

    def _pass(self, tree: Amta, key: int, rows: tuple[int, int], end: int) -> None:
        """Enforce the policy on the rows before an end, and then at that time."""
        holds, kept = self.window.policy.on_partials(), self._rows(key)
        lo, hi = rows
        for row in kept[lo:hi]:
            tree.insert(row)
            tree.evict_while(holds)
        if self._is_timed and len(tree):
            place = int(self.kept.runs.head[key]) + hi - 1
            passed = end - int(self.kept.runs.meta[place, ROW_TIME])
            now = later(kept[hi - 1][self._column], passed)
            tree.evict_while(self.window.policy.expired(now, self._column))

    def _all_of(self, state: ContextState, left: Left, times: Array, after: int) -> Iterator[News]:
        """Write down what is left and yield all of it, of which only changes will be reported."""
        for end, (lo, hi) in left.items():
            start = int(times[lo]) if lo < hi else end
            state.reported[end] = (start, hi - lo)
            yield start, end, lo, hi, UPDATE if end <= after else RESULT

    def _news(self, state: ContextState, left: Left, meta: Array, fresh: int) -> Iterator[News]:
        """Write down what is left and yield what of it is news; new rows are at `fresh` or behind it."""
        known, times, new = state.reported, meta[:, ROW_TIME], meta[:, ROW_NEW]
        for end, (lo, hi) in left.items():
            start, count = int(times[lo]) if lo < hi else end, hi - lo
            was, before = known.get(end, (end, 0))
            known[end] = (start, count)
            said = before > 0
            if said and (was != start or count == 0):
                yield was, end, 0, 0, RETRACT
                said = False
            if count and not (said and before == count and not new[max(lo, fresh) : hi].any()):
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


def later(time: Any, microseconds: int) -> Any:
    """Return a time of the rows' time column that is so much later."""
    if isinstance(time, datetime):
        return time + timedelta(microseconds=microseconds)
    return time + microseconds


def rules_of(window: Policy, time: str) -> Rules | None:
    """Return a policy as rules for loops, if it compares rows; `time` is the column of their times."""
    rules = window.rules(time)
    if not rules:
        return None
    least = {kind: min((r.limit for r in rules if r.kind == kind), default=NEVER) for kind in KINDS}
    return Rules(**least)


def check_left(state: ContextState, times: Array) -> None:
    """Refuse what was left at ends, as it was saved, unless there are rows for it."""
    for end, (start, count) in state.reported.items():
        if any(type(number) is not int for number in (end, start, count)):
            raise TypeError("ends, starts and numbers of rows are whole numbers")
        if not 0 <= count <= int(np.searchsorted(times, end)):
            raise ValueError(f"{count} rows were left at {end}, of {len(times)}")
