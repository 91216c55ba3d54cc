"""What the windows of a running operator hold at a time, for some keys; nothing is closed.

Each lane says what it holds of these keys, slices or rows, and `at_time` finds the run of them that a
window has at that time. A run must not need what has expired, or came before the window was added: the
lane knows (`Lane.lacks`). Its last slice must end before the time: the time lies behind its last row, or
on an edge. If neither is so and rows are kept, they are taken in place of slices. Else it is an error.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.dataframes.arrow_results import DoesNotFitError
from muntin.dataframes.batches import read_keys
from muntin.journal import Journal
from muntin.query.as_of import Outs, columns_of, queried, too_large
from muntin.query.at_time import Items, Moments, Spans, refuse_timeless, since, spans
from muntin.query.operator_state import OperatorState
from muntin.query.query import Query
from muntin.slicing.arena import span
from muntin.slicing.held_items import HeldItems, Look
from muntin.slicing.lane import Lane, Report, lines
from muntin.slicing.limits import ALWAYS, Array
from muntin.slicing.tables import HI, KEY, LO, SLICE_START


def look_up(query: Query, state: OperatorState, keys: Any, time: int, journal: Journal) -> pa.Table:
    """Return the keys asked, with what each window holds at a time; new keys are numbered on the way."""
    refuse_timeless(query)
    columns, rows = read_keys({} if keys is None else keys, query.keys)
    names = [f"{window}_{name}" for window, name in columns_of(query)]
    before = len(state.keys)
    numbers = state.keys.number(columns, rows)
    results = _Asked(query, state, numbers, numbers < before, time).results(journal)
    arrays = [results[column] for column in columns_of(query)]
    return pa.Table.from_arrays([*columns, *arrays], names=[*query.keys, *names])


@dataclass(frozen=True)
class _Asked:
    """Keys of an operator and a time."""

    query: Query
    state: OperatorState
    numbers: Array  # of the keys asked, of which some may come several times
    known: Array  # which of them the operator has
    time: int

    def results(self, journal: Journal) -> dict[tuple[str, str], pa.Array]:
        """Return a column for each window and aggregate."""
        self._refuse_forgotten()
        found: dict[tuple[str, str], pa.Array] = {}
        if not self.state.begun:
            for window, name in columns_of(self.query):
                aggregate = self.query.aggregates[name]
                nothing = aggregate.lower(aggregate.identity)
                found[window, name] = pa.array([nothing] * len(self.numbers))
            return found
        keys, back = np.unique(self.numbers[self.known], return_inverse=True)
        place = np.full(len(self.numbers), len(keys))
        place[self.known] = back
        for lane in self.state.lanes:
            for window, report in self._of_lane(lane, keys, journal):
                for name, outs in zip(lane.aggregates, report.results, strict=True):
                    found[window, name] = self._column(window, name, outs, place)
        return found

    def _refuse_forgotten(self) -> None:
        """Refuse a time before the watermark for keys that may have been forgotten since."""
        watermark = self.state.watermark
        past = watermark is not None and self.time < watermark
        if past and self.state.forgotten > ALWAYS and not self.known.all():
            raise ValueError(
                f"key {self._key(int(self.numbers[~self.known][0]))} is not known, and may have been "
                f"forgotten; ask for a time at the watermark ({watermark}) or later"
            )

    def _of_lane(self, lane: Lane, keys: Array, journal: Journal) -> Iterator[tuple[str, Report]]:
        """Yield for each window of a lane what it gives for keys, and then for one without rows."""
        if self.state.sees_lives(lane):
            raise ValueError(
                f"window {lane.names[0]!r} cannot be looked at in a query with idle: its rows wait "
                "until it is known which life of their key they belong to; use as_of, or leave out idle"
            )
        held = lane.held(keys, journal)
        for name in lane.names:
            yield name, self._of_window(lane, name, held, keys)

    def _of_window(self, lane: Lane, name: str, held: HeldItems, keys: Array) -> Report:
        times = np.full(len(keys), self.time)
        begins = since(self.query.windows[name], np.full(1, self.time))
        begin = None if begins is None else int(begins[0])
        split = self._split(lane, held, keys)
        if split.any():
            rows = lane.held_rows()
            if rows is None:
                raise self._refusal(name, int(keys[split][0]))
            held = rows
        items, heads = _items(held, keys, name)
        moments = Moments(np.arange(len(keys)), times)
        lo, hi = spans(name, self.query.windows[name], items, moments, self.query)
        first = (
            items.table[np.minimum(lo, len(items.table) - 1), SLICE_START]
            if len(items.table)
            else times
        )
        look = Look(keys, self.time, begin, lo - items.heads[:-1], hi - lo, first)
        lacking = lane.lacks(name, look)
        if lacking.any():
            raise ValueError(
                f"window {name!r} at {self.time} needs rows of key {self._key(int(keys[lacking][0]))} "
                "that have expired, or came before the window was added: ask for a later time"
            )
        places = heads - items.heads[:-1]
        return _merged(lane, held, keys, Spans(lo + places, hi + places), first)

    def _split(self, lane: Lane, held: HeldItems, keys: Array) -> Array:
        """Return of which keys a slice may have rows from both sides of the time."""
        arena = held.arena
        items = span(arena.head[keys], arena.length[keys])
        owner = np.repeat(np.arange(len(keys)), arena.length[keys])
        before = arena.meta[items, SLICE_START] < self.time
        if held.last is None:
            last = np.where(before, self.state.last[keys][owner], ALWAYS)
        else:
            last = np.where(before, arena.meta[items, held.last], ALWAYS)
        split = np.zeros(len(keys), np.bool_)
        split[owner[last >= self.time]] = True
        return split & (not lane.is_cut(self.time))

    def _refusal(self, window: str, key: int) -> ValueError:
        return ValueError(
            f"window {window!r} at {self.time} ends within a slice of key {self._key(key)}, of which "
            f"rows are not kept: ask for a time behind its latest row ({int(self.state.last[key])}), or "
            "for one at which windows begin or end"
        )

    def _column(self, window: str, name: str, outs: Outs, place: Array) -> pa.Array:
        """Return the results of the keys as they were asked for."""
        feed = self.state.bound[name]
        try:
            return feed.results(outs).take(pa.array(place))
        except DoesNotFitError as error:
            whose = f"key {self._key(int(self.numbers[place == error.row][0]))}"
            raise too_large(feed, window, whose, error) from None

    def _key(self, number: int) -> str:
        """Return a key as a text, with the names of its columns."""
        columns = self.state.keys.columns(np.array([number]))
        named = zip(self.query.keys, columns, strict=True)
        return ", ".join(f"{name}={column[0].as_py()!r}" for name, column in named) or "of all rows"


def _items(held: HeldItems, keys: Array, name: str) -> tuple[Items, Array]:
    """Return what is held of some keys, key by key, and where the items of each begin in the arena."""
    arena = held.arena
    head, length = arena.head[keys], arena.length[keys]
    places = span(head, length)
    table = arena.meta[places]
    last = table[:, SLICE_START if held.last is None else held.last]
    opens = {} if held.opens is None else {name: table[:, held.opens] == 1}
    records = None if held.records is None else held.records[places]
    heads = np.append(0, np.cumsum(length))
    compared = {column: values[places] for column, values in held.compared.items()}
    return Items(table, last, heads, opens, records, compared, held.settled), head


def _merged(lane: Lane, held: HeldItems, keys: Array, found: Spans, first: Array) -> Report:
    """Merge the items of each key, and of a key without any; some aggregates may hide what they lack."""
    windows = lines(len(keys) + 1)
    windows[:] = 0
    windows[:-1, KEY], windows[:-1, LO], windows[:-1, HI] = keys, found.lo, found.hi
    every = Spans(windows[:, LO].copy(), windows[:, HI].copy())
    some = every.hi > every.lo
    results = [queried(column, every, some, alone=True) for column in held.columns]
    if len(lane.since):
        valued = Report(windows[some], [tuple(array[some] for array in outs) for outs in results])
        lane.since.hide(valued, first[some[:-1]])
        for outs, shown in zip(results, valued.results, strict=True):
            for out, array in zip(outs, shown, strict=True):
                out[some] = array
    return Report(windows, results)
