"""What a query means at a time t: the rows of each window, as if the stream had been stopped there.

`as_of`, `Operator.lookup` and `Lookup` all ask here. Each has items in the order of time, rows or
slices, and asks for the items [lo, hi) that a window holds at t. Rows at t or later do not count; with
`include_equal` rows at t do.

- `Sliding` is exact at its head and lies on an edge at its tail: [floor((t - size) / every) every, t).
  With `every=rows(1)` it is exact at both: (t - size, t).
- Other windows of time are the open one so far; if several are open, the first to end.
- A session is open until `gap` after its last row, a punctuation's window until the next one opens.
- `LastN` has the last n rows, `Policy` what is left at t.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.aggregators import Amta
from muntin.query.query import Query
from muntin.slicing.irregular_windows import windows_after
from muntin.slicing.lanes.policy_lane import later
from muntin.slicing.limits import END_OF_TIME, FAR, NEVER, Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.loops.policy_rules import PolicyRows, Rules
from muntin.slicing.policy_values import FLOATS, column_of, form_of, looks_at_rows, rules_of
from muntin.slicing.tables import LINK_COLUMNS, ROW_COLUMNS, ROW_MEASURE, ROW_TIME, STANDS_COLUMNS
from muntin.windows import (
    ContextAwareWindow,
    ContextFreeWindow,
    Fired,
    Fixed,
    LastN,
    Periodic,
    Policy,
    Session,
    SessionOfRows,
    Sliding,
    Window,
)
from muntin.windows.window import PUNCTUATION


class Spans(NamedTuple):
    """The items [lo, hi) of a window at each moment."""

    lo: Array
    hi: Array


@dataclass(frozen=True)
class Moments:
    """Keys, by their numbers, and times to look at them. Those of a key are in the order of time."""

    keys: Array
    times: Array
    include_equal: bool = False

    @property
    def ends(self) -> Array:
        """The times before which rows count."""
        return self.times + int(self.include_equal)

    def take(self, which: Array) -> "Moments":
        """Return some of the moments."""
        return Moments(self.keys[which], self.times[which], self.include_equal)


@dataclass(frozen=True)
class Items:
    """Rows or slices: those of key k are items heads[k] to heads[k + 1], in the order of time.

    `table` has the time at which an item starts in its first column. `opens` says for each punctuation
    which items it opens a window at, `records` are the rows as dicts, if a policy looks at them, and
    `compared` the numbers that ready-made ones look at.
    """

    table: Array
    last: Array  # the time of each item's last row
    heads: Array
    opens: dict[str, Array] = field(default_factory=dict)
    records: Array | None = None
    compared: dict[str, Array] = field(default_factory=dict)
    settled: Array | None = None  # of each key, its first items (from, to) that a policy has left

    def before(self, keys: Array, times: Array) -> Array:
        """Return the place of each key's first item that does not start before a time."""
        found = np.empty(len(keys), np.int64)
        lo, hi = self.heads[keys], self.heads[keys + 1]
        compiled_loops().find_all(self.table, lo, hi, np.ascontiguousarray(times), found)
        return found

    def begun(self, begins: Array) -> Array:
        """Return for each item the last one up to it that begins something, or its key's first."""
        places = np.zeros(len(self.last), np.int64)
        places[self.heads[:-1][np.diff(self.heads) > 0]] = 1
        found: Array = np.maximum.accumulate(
            np.where(begins | (places > 0), np.arange(len(places)), 0)
        )
        return found

    def apart(self, gap: int) -> Array:
        """Return which items begin more than `gap` after the last row of the item before."""
        apart = np.ones(len(self.last), np.bool_)
        apart[1:] = self.table[1:, 0] - self.last[:-1] > gap
        return apart


def refuse_timeless(query: Query) -> None:
    """Refuse a query with windows that hold nothing in particular at a time."""
    for name, window in query.windows.items():
        why = _why_not(window, name, query)
        if why:
            raise ValueError(
                f"window {name!r} ({window.describe()}) says nothing about a time: {why}"
            )


def _why_not(window: Window, name: str, query: Query) -> str:
    """Return why nothing can be said about a window at a time; nothing if it can."""
    if window.measure == "count":
        return "its rows are known by their numbers; take LastN for the last n rows"
    if window.measure != "time":
        return f"it is measured in {window.measure!r}; take windows of time"
    if isinstance(window, Fixed):
        return "it is one window; filter the rows by their times instead"
    if isinstance(window, Fired) and window.every != 1:
        return "it is asked for by some rows only; take every=muntin.rows(1)"
    if isinstance(window, Sliding) and window.every > window.size:
        return "there are times between its windows; take a step that is not above the size"
    if isinstance(window, SessionOfRows) or getattr(window, "assigns", False):
        return "rows say where its windows end, and others may join them; take Session with one gap"
    if getattr(window, "last", 1) > 1:
        return "it has stretches that are closed; take Punctuation without last"
    if (
        isinstance(window, ContextAwareWindow)
        and window.lane(name, query.ordered)[0] != PUNCTUATION
    ):
        return "what it remembers is known only at its rows; take one that remembers nothing"
    return ""


def since(window: Window, times: Array) -> Array | None:
    """Return when the rows of a window of time begin, at each time; None if rows decide that."""
    if isinstance(window, Fired):
        return times - int(window.size) + 1
    if isinstance(window, Periodic):
        back = window.size if isinstance(window, Sliding) else 0
        latest = times - back - window.origin
        return latest // window.every * window.every + window.origin
    return _open_since(window, times) if isinstance(window, ContextFreeWindow) else None


def _open_since(window: ContextFreeWindow, times: Array) -> Array:
    """Return when the open window began, or where none is open, a time at which it is empty."""
    different, place = np.unique(times, return_inverse=True)
    starts, i = np.empty(len(different), np.int64), 0
    while i < len(different):
        start, end = next(iter(windows_after(window, int(different[i]))), (NEVER, NEVER))
        behind = max(i + 1, int(np.searchsorted(different, end)))
        starts[i:behind] = start
        i = behind
    found: Array = starts[place]
    return found


def spans(name: str, window: Window, items: Items, moments: Moments, query: Query) -> Spans:
    """Return the items that a window holds at each moment; lo and hi never fall within a key."""
    hi = items.before(moments.keys, moments.ends)
    begins = since(window, moments.times)
    if begins is not None:
        lo = items.before(moments.keys, begins)
        return Spans(np.minimum(lo, hi), hi)
    if len(items.last) == 0:
        return Spans(hi, hi)
    if isinstance(window, Session):
        first = items.begun(items.apart(window.gap))
        return _while_open(items, first, hi, moments, window.gap)
    idle = NEVER if query.limit is None else query.limit
    lives = items.begun(items.apart(idle) if query.limit is not None else np.zeros(1, np.bool_))
    if isinstance(window, LastN):
        first = np.maximum(lives, np.arange(len(lives)) + 1 - window.n)
    elif isinstance(window, Policy):
        return _left(
            window, items, lives, _while_open(items, lives, hi, moments, idle), moments, query
        )
    else:
        first = np.maximum(lives, items.begun(_openings(items, items.opens[name])))
    return _while_open(items, first, hi, moments, idle)


def _while_open(items: Items, first: Array, hi: Array, moments: Moments, gap: int) -> Spans:
    """Return items from first[i] to the last one i before hi, if that is not more than a gap ago."""
    last = np.maximum(hi - 1, 0)
    there = hi > items.heads[moments.keys]
    if gap != NEVER:
        there &= moments.times - items.last[last] <= gap
    return Spans(np.where(there, first[last], hi), hi)


def _openings(items: Items, opens: Array) -> Array:
    """Return the items at which windows open: the first of those of a time of which one opens it."""
    starts = items.table[:, 0]
    first = items.begun(np.append(True, starts[1:] != starts[:-1]))
    found = np.zeros(len(starts), np.bool_)
    found[first[opens]] = True
    return found


def _left(
    window: Policy, items: Items, lives: Array, held: Spans, moments: Moments, query: Query
) -> Spans:
    """Return what a policy leaves at each moment, of rows that are not of a life before."""
    lo, hi = held
    rules, timed = _rules(window, items, query), _is_timed(window, query)
    for begin, end in _stretches(lives, held):
        ends, stops, first = moments.times[begin:end], hi[begin:end], int(lo[begin])
        rows = (first, first)
        if items.settled is not None:
            rows = (
                first + items.settled[moments.keys[begin], 0],
                first + items.settled[moments.keys[begin], 1],
            )
        if rules is not None:
            left = np.empty(end - begin, np.int64)
            enforce = compiled_loops().left_by_rules
            enforce(*rules, rows, ends, stops, timed, left)
        else:
            assert items.records is not None
            left = _left_by_function(window, items, rows, (ends, stops), query)
        lo[begin:end] = left
    return Spans(lo, hi)


def _rules(window: Policy, items: Items, query: Query) -> tuple[Rules, PolicyRows] | None:
    """Return a policy as rules, and the rows as they look at them; nothing if it is none."""
    rules = rules_of(window, query.time)
    if rules is None or looks_at_rows(window, query.time, query.limit):
        return None
    column = column_of(window)
    table = np.zeros((len(items.table), ROW_COLUMNS), np.int64)
    table[:, ROW_TIME] = items.table[:, 0]
    if column is not None:
        values = items.compared.get(column)
        if values is None:
            return None
        table[:, ROW_MEASURE] = values.view(np.int64)
        rules = rules._replace(floats=int(form_of(values) == FLOATS))
    stands = np.zeros((1, STANDS_COLUMNS), np.int64)
    links = np.zeros((len(table) if rules.linked else 0, LINK_COLUMNS), np.int64)
    numbers = table.view(np.float64), stands, stands.view(np.float64)
    return rules, PolicyRows(table, *numbers, links)


def _is_timed(window: Policy, query: Query) -> bool:
    return window.policy.expired(None, query.time) is not None


def _stretches(lives: Array, held: Spans) -> list[tuple[int, int]]:
    """Return the stretches of moments that look at rows of one life of a key."""
    there = np.flatnonzero(held.hi > held.lo)
    if len(there) == 0:
        return []
    owner = lives[held.hi[there] - 1]
    cuts = np.flatnonzero((np.diff(owner) != 0) | (np.diff(there) != 1)) + 1
    first = there[np.append(0, cuts)]
    return list(
        zip(first.tolist(), (np.append(there[cuts - 1], there[-1]) + 1).tolist(), strict=True)
    )


def _left_by_function(
    window: Policy, items: Items, rows: tuple[int, int], asked: tuple[Array, Array], query: Query
) -> Array:
    """Return the first row that a policy leaves at each moment, of `rows` and those behind them.

    It has left `rows`, and is enforced after each row behind them and at each multiple of its step. What
    has expired by a moment leaves only for that moment: no result depends on other moments.
    """
    policy, records, times = window.policy, items.records, items.table[:, 0]
    assert records is not None
    tree, holds = Amta(policy.aggregate), policy.on_partials()
    expire = _expiring(window, query) if _is_timed(window, query) else None
    left, (first, at) = np.empty(len(asked[0]), np.int64), rows
    tree.bulk_insert(list(records[first:at]))
    for j, (end, stop) in enumerate(zip(*(a.tolist() for a in asked), strict=True)):
        while at < stop:
            tick = window.first_end(int(times[at])) - window.every
            if expire is not None and len(tree) and tick > times[at - 1]:
                expire(tree, records[at - 1], tick - int(times[at - 1]))
            tree.insert(records[at])
            tree.evict_while(holds)
            at += 1
        left[j] = stop - len(tree)
        if expire is not None and len(tree):
            now = Amta(policy.aggregate)
            now.bulk_insert(list(records[left[j] : stop]))
            expire(now, records[stop - 1], end - int(times[stop - 1]))
            left[j] = stop - len(now)
    return left


def _expiring(window: Policy, query: Query) -> Callable[[Amta, dict[str, Any], int], None]:
    """Return what lets rows go that have expired so much later than the last row."""

    def expire(tree: Amta, row: dict[str, Any], passed: int) -> None:
        now = later(row[query.time], passed)
        tree.evict_while(window.policy.expired(now, query.time))

    return expire


def refuse_far(times: Array, what: str) -> None:
    """Refuse times so far from 0 that sums with sizes overflow."""
    far = np.flatnonzero((times > FAR) | (times < -FAR))
    if len(far):
        raise ValueError(
            f"{what} {far[0]} has time {times[far[0]]}, which is beyond 2**61: correct it"
        )


def time_of(moment: Any, what: str) -> int:
    """Return a time in microseconds; a whole number is taken as it is."""
    if isinstance(moment, int | np.integer) and not isinstance(moment, bool):
        return max(-END_OF_TIME, min(int(moment), END_OF_TIME))
    if isinstance(moment, np.datetime64) and not np.isnat(moment):
        moment = moment.astype("datetime64[us]")
    try:
        return int(pa.scalar(moment).cast(pa.timestamp("us")).value)
    except (TypeError, ValueError, pa.ArrowNotImplementedError) as error:
        raise TypeError(f"{what} is a time, got {moment!r}") from error
