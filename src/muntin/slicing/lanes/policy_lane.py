"""What a policy leaves of a key's rows, at each end that is due.

TPDS 2019, section 4.1.4: the policy is enforced after each row, ready-made ones by rules in a loop
(`loops/policy_rules.py`), others on an AMTA of what they look at. What was left at an end is known by
its start and its number of rows, so that rows can be enforced again from the last end on that lies
before a late row. Of final ends the last is remembered, and the rows that were left at it are kept.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

import numpy as np

from muntin.aggregators import Amta
from muntin.journal import Journal
from muntin.slicing.arena import Arena
from muntin.slicing.held_items import HeldItems, Look
from muntin.slicing.lane import Prepared, Setting, lines
from muntin.slicing.lanes.row_lane import ROW
from muntin.slicing.lanes.tick_lane import TickLane
from muntin.slicing.limits import ALWAYS, END_OF_TIME, NEVER, Array
from muntin.slicing.loops.arena_moves import find
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.loops.last_rows import tick_after
from muntin.slicing.loops.left_rows import Needs, Walk, Ways, begin_walk, last_due, next_said
from muntin.slicing.loops.policy_rules import NO_ROW, PolicyRows
from muntin.slicing.partials import Partials
from muntin.slicing.policy_values import (
    FLOATS,
    FORMS,
    NOTHING,
    OBJECTS,
    Links,
    as_objects,
    column_of,
    form_of,
    looks_at_rows,
    rules_of,
)
from muntin.slicing.rows import Rows, looked_at, object_array
from muntin.slicing.tables import (
    LEFT_COLUMNS,
    LEFT_END,
    LEFT_ROWS,
    ROW_MEASURE,
    ROW_TIME,
    STANDS_AT,
    STANDS_COLUMNS,
    WALKED_COLUMNS,
)
from muntin.windows import Policy

FEW_ENDS, MANY_ENDS = 256, 64
"""Ends for which there is space at first in the table of what is left, and at most for each key."""


class PolicyLane(TickLane):
    """The rows that a policy has left, every so often."""

    BY_END: ClassVar[bool] = False

    window: Policy

    def __init__(self, name: str, window: Any, partials: list[Partials], setting: Setting) -> None:
        super().__init__(name, window, partials, setting)
        self._time_column = setting.time
        self._is_timed = window.policy.expired(None, setting.time) is not None
        # What was left at the ends that were reported.
        self._told = Arena(LEFT_COLUMNS, furthest=END_OF_TIME)
        self._walked = np.empty((FEW_ENDS, WALKED_COLUMNS), np.int64)
        self._rules = None if self._needs_rows else rules_of(window, setting.time)
        self._looks_at = None if self._rules is None else column_of(window)
        self._form = NOTHING if self._rules is not None else OBJECTS
        if self._looks_at is not None:
            self.kept.measure = looked_at(self._looks_at)
        self._links = Links()
        if self._rules is not None and self._rules.linked:
            self.kept.runs.beside(self._links)
        # How the policy stands behind the last end: numbers by rules, else a tree of what is left.
        self._stands = np.zeros((0, STANDS_COLUMNS), np.int64)
        self._trees: dict[int, Amta] = {}

    @staticmethod
    def _looks_at_rows(window: Any, setting: Setting) -> bool:
        return looks_at_rows(window, setting.time, setting.idle)

    # Keys come and go

    def grow_keys(self, keys: int, watermark: int = ALWAYS) -> None:
        super().grow_keys(keys, watermark)
        self._told.grow_keys(keys)
        more = self.kept.runs.keys - len(self._stands)
        if more > 0:
            unknown = np.full((more, STANDS_COLUMNS), NO_ROW)
            self._stands = np.append(self._stands, unknown, axis=0)

    def keep_keys(self, alive: Array) -> None:
        padded = np.append(alive, np.zeros(self.kept.runs.keys - len(alive), np.bool_))
        super().keep_keys(alive)
        self._told.compact(padded)
        self._stands = self._stands[padded]

    def _renumber(self, numbers: dict[int, int]) -> None:
        super()._renumber(numbers)
        self._trees = {numbers[k]: tree for k, tree in self._trees.items() if k in numbers}

    def alive(self) -> Array:
        """Return which keys have rows that are left, or windows that may still change."""
        alive: Array = (self.kept.runs.length + self._told.length)[: self.keys] > 0
        if self._changed is not None:
            alive |= self._changed.alive(self.keys, self.lateness.past(self._time))
        return alive

    # Rows come in

    def admit(self, rows: Rows, journal: Journal) -> tuple[Array | None, Prepared | None]:
        """Return which rows count, and those lifted."""
        if self._looks_at is not None:
            rows = replace(rows, extra=self._compared(rows, self._looks_at))
        return super().admit(rows, journal)

    def _compared(self, rows: Rows, column: str) -> dict[Any, Array]:
        """Return what the policy looks at: numbers, or from the first other value on, objects."""
        values = rows.extra.get(looked_at(column))
        if values is None:
            return {
                ROW: self._records([row[column] for row in rows.extra[ROW].tolist()], rows.times)
            }
        form = form_of(values)
        if self._form != OBJECTS and (form == self._form or NOTHING in (form, self._form)):
            return {looked_at(column): values}
        return {ROW: self._records(as_objects(values.view(np.int64), form), rows.times)}

    def _records(self, values: list[Any], times: Array) -> Array:
        """Return rows as dicts of what a ready-made policy looks at; times are numbers."""
        pairs = zip(values, times.tolist(), strict=True)
        rows = ({self._looks_at: x, self._time_column: t} for x, t in pairs)
        return object_array(rows, len(values))

    def _try(self, rows: Rows) -> None:
        if ROW in rows.extra:
            lift = self.window.policy.aggregate.input_lift()
            for row in rows.extra[ROW]:
                lift(row)

    def commit(self, prepared: Prepared, journal: Journal) -> None:
        """Keep the rows."""
        if self._looks_at is not None:
            name, rows = looked_at(self._looks_at), prepared.rows
            values = rows.extra.get(name)
            form = OBJECTS if values is None else form_of(values)
            if form not in (NOTHING, self._form):
                journal.fields(self, self.kept)
                self._take_form(form, journal)
            if values is not None:
                rows = replace(rows, extra={name: values.view(np.int64)})
            prepared = replace(prepared, rows=rows)
        super().commit(prepared, journal)

    def _take_form(self, form: str, journal: Journal) -> None:
        """Keep values in another form from now on."""
        if form == OBJECTS:
            kept = self.kept.runs.meta[self.kept.runs.live()]
            values = as_objects(np.ascontiguousarray(kept[:, ROW_MEASURE]), self._form)
            self.kept.look_at_rows(ROW, self._records(values, kept[:, ROW_TIME]).tolist())
            journal.call(self.kept.runs.no_longer_beside, self.kept.extra)
        self._form = form

    # The watermark advances

    def _found(self, before: Array, journal: Journal) -> Array:
        """Return the windows to report, and forget the rows that none needs any more."""
        keys = self._to_look_at()
        self._note_reported(keys, journal)
        self._told.note(journal, keys, np.full(len(keys), ALWAYS))
        journal.call(self._forget_standing, keys)
        ways = Ways(self._ticks(), self._marks(before), self._is_timed)
        walk = self._walk_by_trees(keys, ways) if self._form == OBJECTS else self._walk(keys, ways)
        needless, dropped, cut, since = np.empty((4, len(keys)), np.int64)
        known = np.empty((len(walk.lines), LEFT_COLUMNS), np.int64)
        needs, out = Needs(needless, dropped, cut, since, known), lines(2 * len(known))
        runs, told = self.kept.runs.runs(), self._told.runs()
        tell = compiled_loops().tell_left
        count = tell(keys, runs, self._row_keys(), told, ways, walk, needs, out)
        self._told.length[keys] = cut
        self._told.insert(keys, since, walk.stops, known)
        self._told.drop_front(keys, dropped, journal)
        self._drop(keys, needless, journal)
        for key in keys[self._told.length[keys] == 0].tolist() if self._trees else ():
            self._trees.pop(key, None)
        return out[:count]

    def held(self, keys: Array, journal: Journal) -> HeldItems:
        behind = self.kept.places(keys, self._settled_at(keys)) - self.kept.runs.head[keys]
        first = np.where(self._told.length[keys] > 0, self._told.head[keys], 0)
        left = np.where(behind > 0, self._told.meta[first, LEFT_ROWS], 0)
        compared = {}
        if self._looks_at is not None and self._form != OBJECTS:
            bits = np.ascontiguousarray(self.kept.runs.meta[:, ROW_MEASURE])
            compared = {self._looks_at: bits.view(np.float64) if self._form == FLOATS else bits}
        settled = np.stack([behind - left, behind], 1)
        return replace(super().held(keys, journal), settled=settled, compared=compared)

    def lacks(self, name: str, look: Look) -> Array:
        del name
        time = self._time[look.keys if self._ordered else np.zeros(len(look.keys), np.int64)]
        forgotten = (self._first_rank[look.keys] > 0) & (look.time < time)
        settled = self._settled_at(look.keys)
        lacking: Array = np.where(settled == ALWAYS, forgotten, look.time < settled)
        return lacking

    def _settled_at(self, keys: Array) -> Array:
        """Return the first end of which is known what was left, if rows are gone; or ALWAYS."""
        known = (self._told.length[keys] > 0) & (self._first_rank[keys] > 0)
        first = np.where(known, self._told.head[keys], 0)
        return np.where(known, self._told.meta[first, LEFT_END], ALWAYS)

    def _forget_standing(self, keys: Array) -> None:
        self._stands[keys, STANDS_AT] = NO_ROW
        for key in keys.tolist():
            self._trees.pop(key, None)

    def _walk(self, keys: Array, ways: Ways) -> Walk:
        """Enforce the policy by rules; return what is left of the rows of keys at ends."""
        assert self._rules is not None
        begins, stops = np.empty((2, len(keys)), np.int64)
        passed = (ways.marks.upto - np.maximum(ways.marks.after, -END_OF_TIME)).max(initial=0)
        space = len(keys) * (2 + min(int(passed) // self.window.every, MANY_ENDS))
        if space > len(self._walked):
            self._walked = np.empty((space, WALKED_COLUMNS), np.int64)
        runs, told, known = self.kept.runs.runs(), self._told.runs(), self._row_keys()
        floats = runs.table.view(np.float64), self._stands.view(np.float64)
        rows = PolicyRows(runs.table, floats[0], self._stands, floats[1], self._links.table)
        rules = self._rules._replace(floats=int(self._form == FLOATS))
        walk_on, done, pieces = compiled_loops().walk_by_rules, 0, [self._walked[:0]]
        while done < len(keys):
            here = Walk(begins[done:], stops[done:], self._walked)
            more, count = walk_on(keys[done:], runs, rows, known, told, rules, ways, here)
            stops[done : done + more] += sum(map(len, pieces))
            pieces.append(self._walked[:count].copy())
            done += more
            if done < len(keys):
                self._walked = np.empty((4 * len(self._walked), WALKED_COLUMNS), np.int64)
        return Walk(begins, stops, np.concatenate(pieces))

    def give_back(self, journal: Journal) -> None:
        super().give_back(journal)
        if len(self._walked) > 4 * FEW_ENDS:
            self._walked = np.empty((FEW_ENDS, WALKED_COLUMNS), np.int64)

    def _walk_by_trees(self, keys: Array, ways: Ways) -> Walk:
        """Enforce the policy on trees; return what is left of the rows of keys at ends.

        A tree is put back only behind the last end: if the policy raises, it is rebuilt the next time.
        """
        begins, stops, walked = [], [], []
        for key in keys.tolist():
            begin, found, tree = self._enforce(key, ways)
            self._trees[key] = tree
            begins.append(begin)
            walked += found
            stops.append(len(walked))
        table = np.array(walked, np.int64).reshape(-1, WALKED_COLUMNS)
        return Walk(np.array(begins, np.int64), np.array(stops, np.int64), table)

    def _enforce(self, key: int, ways: Ways) -> tuple[int, list[tuple[int, int, int]], Amta]:
        """Return the end behind which a key is enforced, what is left at the next ones, and a tree."""
        runs, told, ticks = self.kept.runs.runs(), self._told.runs(), ways.ticks
        head, tail = int(runs.head[key]), int(runs.head[key] + runs.length[key])
        begin, before, count = map(int, begin_walk(runs, told, key, int(self._fresh[key])))
        behind = int(told.head[key] + told.length[key])
        at, known = head + before, int(find(told.table, told.head[key], behind, begin + 1))
        tree = self._trees.pop(key, None)
        if tree is None or known < behind:
            tree = Amta(self.window.policy.aggregate)
            tree.bulk_insert(self._records_at(at - count, at))
        upto = int(ways.marks.upto[key * ways.marks.stride])
        last, found = int(last_due(runs, key, ticks, upto)), []
        end = int(tick_after(ticks, begin))
        while True:
            if len(tree) == 0 or (ticks.changes and not self._is_timed):
                end = max(end, int(next_said(runs, told, key, at, known, ways)))
            if end > last:
                break
            stop = int(find(runs.table, at, tail, end))
            some = stop > at or len(tree) > 0
            self._pass(tree, (at, stop), end)
            at = stop
            while known < behind and told.table[known, LEFT_END] <= end:
                some = some or told.table[known, LEFT_END] == end
                known += 1
            if some:
                found.append((end, at - len(tree) - head, at - head))
            end += ticks.every
        life_ends = (
            int(tick_after(ticks, last_due(runs, key, ticks, NEVER))) if head < tail else NEVER
        )
        if ticks.changes and begin < life_ends <= upto:
            found.append((life_ends, tail - head, tail - head))
        return begin, found, tree

    def _records_at(self, lo: int, hi: int) -> list[Any]:
        """Return the rows at places [lo, hi) as dicts."""
        assert self.kept.extra is not None
        records: list[Any] = self.kept.extra.array[lo:hi].tolist()
        return records

    def _pass(self, tree: Amta, places: tuple[int, int], end: int) -> None:
        """Enforce the policy on the rows at places [lo, hi) before an end, and then at that time."""
        holds = self.window.policy.on_partials()
        lo, hi = places
        for row in self._records_at(lo, hi):
            tree.insert(row)
            tree.evict_while(holds)
        if self._is_timed and len(tree):
            passed = end - int(self.kept.runs.meta[hi - 1, ROW_TIME])
            (last,) = self._records_at(hi - 1, hi)
            now = later(last[self._time_column], passed)
            tree.evict_while(self.window.policy.expired(now, self._time_column))

    # State

    def parts(self) -> list[Any]:
        return [*super().parts(), self._told]

    def plain(self) -> dict[str, Any]:
        """Return the lane's state as plain data; a tree sees its rows again."""
        left = self._told.plain(self.keys, lambda _places: [])
        return {**super().plain(), "left": left, "form": self._form}

    def load(self, plain: dict[str, Any]) -> None:
        form = plain["form"]
        if form not in FORMS or (self._looks_at is None and form != self._form):
            raise ValueError(f"a policy looks at {form!r}, not one of {FORMS}")
        if form != self._form:
            self._take_form(form, Journal())
        super().load(plain)
        left = plain["left"]
        if len(left["lengths"]) != self.keys:
            raise ValueError(f"{len(left['lengths'])} keys have something left, of {self.keys}")
        self._told.load(left)
        self._check_left()

    def _check_left(self) -> None:
        """Refuse what was left at ends, as it was saved, unless there are rows for it."""
        keys = np.repeat(np.arange(self._told.keys), self._told.length)
        ends, rows = self._told.meta[self._told.live()][:, [LEFT_END, LEFT_ROWS]].T
        before = self.kept.places(keys, np.ascontiguousarray(ends)) - self.kept.runs.head[keys]
        wrong = (rows < 0) | (rows > before)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(f"{rows[i]} rows were left at {ends[i]}, of {before[i]}")


def later(time: Any, microseconds: int) -> Any:
    """Return a time of the rows' time column that is so much later."""
    if isinstance(time, datetime):
        return time + timedelta(microseconds=microseconds)
    return time + microseconds
