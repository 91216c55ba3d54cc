"""The windows of a query at the time of each label: a training set, as the stream would have had it.

Events are sorted once, by key and time. Each window then holds, for each label, a run of them
(`at_time`), and neither end of it falls from a label of a key to the next. Where any window of any label
begins or ends, slices are cut; an aggregate folds each slice once, and a scan merges the slices of each
window (`Partials.query`). Cost: O((events + labels) log) to sort, then O(events + labels) combines for
each window and aggregate.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.dataframes.added_columns import refuse_names, with_columns
from muntin.dataframes.arrow_results import DoesNotFitError, results_as_arrow
from muntin.dataframes.batches import Batch, read_batch
from muntin.dataframes.column_types import ColumnType
from muntin.dataframes.columns import Column
from muntin.kernels.order_statistics import roll_ranks
from muntin.kernels.spans import Spans as RowSpans
from muntin.query.at_time import Items, Moments, Spans, refuse_far, refuse_timeless, since, spans
from muntin.query.bound_aggregates import BoundAggregate
from muntin.query.query import Query
from muntin.query.requirements import Requirements, differ
from muntin.slicing.key_table import KeyTable
from muntin.slicing.lanes.row_lane import ROW
from muntin.slicing.limits import Array
from muntin.slicing.partials import LAZY, Partials
from muntin.slicing.rows import Rows, looked_at, opening
from muntin.windows import Policy

ROWS_AT_ONCE = 1 << 22
"""Events that are copied at once for labels that do not know all of them."""
Outs = tuple[Array, ...]
Answers = dict[tuple[str, str], pa.Array]


def as_of(
    labels: Any,
    events: Any,
    query: Query,
    at: str,
    include_equal: bool = False,
    known: str | None = None,
) -> Any:
    """Return the labels with what each window of a query held at their times.

    For each row of `labels`, which has the query's keys and a time, each window is aggregated over the
    events of its key with a time before it. The columns are those of labels, and for each window and
    aggregate one named `{window}_{aggregate}`, in a frame of the kind of `labels`: pandas, Polars, or
    Arrow. Without events the results are those of no rows: null, and 0 for counts.

    - `labels`, `events`: frames, in any order. Events have the query's time column.
    - `query`: its windows and aggregates; watermark, lateness and emit play no part.
    - `at`: the column of labels that has their time.
    - `include_equal`: whether events at the time of a label count.
    - `known`: a column of events with the time at which each was known. An event counts for labels at
      that time or later.

    >>> import muntin as mt
    >>> query = mt.Query(
    ...     time="t", keys="user",
    ...     windows={"day": mt.Sliding(24, 1)}, aggregates={"paid": mt.Sum("amount")},
    ... )
    >>> events = {"t": [1, 5, 9], "user": [7, 7, 8], "amount": [10, 20, 30]}
    >>> mt.as_of({"user": [7, 8], "label_time": [5, 40]}, events, query, at="label_time").to_pylist()
    [{'user': 7, 'label_time': 5, 'day_paid': 10}, {'user': 8, 'label_time': 40, 'day_paid': None}]
    """
    refuse_timeless(query)
    names = [f"{window}_{name}" for window, name in columns_of(query)]
    refuse_names(labels, names, "labels")
    columns = History.of(events, query, known).columns(labels, at, include_equal)
    return with_columns(labels, dict(zip(names, columns, strict=True)))


def columns_of(query: Query) -> list[tuple[str, str]]:
    """Return the windows and aggregates of which there is a column, by their names."""
    return [(window, name) for window in query.windows for name in query.aggregates_of(window)]


@dataclass(frozen=True)
class History:
    """Events in the order of keys and times, with what each aggregate takes of them."""

    query: Query
    keys: KeyTable
    time_type: pa.DataType
    feeds: dict[str, BoundAggregate]
    ranked: dict[str, tuple[Column, Array | None]]  # columns of which order statistics are asked
    rows: Rows
    known: Array | None  # when each was known, if not all were at once
    came: Array  # which row of the frame each is

    @classmethod
    def of(cls, events: Any, query: Query, known: str | None = None) -> "History":
        """Read and sort events."""
        needs = Requirements.of(query)
        batch = needs.read(events, pa.null())
        held = {name: ColumnType.of(column) for name, column in batch.columns.items()}
        feeds = {n: BoundAggregate.of(n, a, held) for n, a in query.aggregates.items()}
        keys = KeyTable(query.keys)
        numbers = keys.number(batch.keys, batch.rows)
        inputs = [feed.inputs(batch) for feed in feeds.values()]
        extra = dict(needs.extra(batch))
        if known is not None:
            extra["known"] = _known_at(events, known, batch, query)
        extra["row"] = np.arange(batch.rows)
        rows = Rows(numbers, batch.times, inputs, extra).in_order()
        order = rows.extra.pop("row")
        ranked = {n: _ranked(feed, batch, order) for n, feed in feeds.items() if _is_ranked(feed)}
        late = rows.extra.pop("known", None)
        if late is not None and (late <= rows.times).all():
            late = None
        came = order if batch.origin is None else batch.origin[order]
        return cls(query, keys, batch.time_type, feeds, ranked, rows, late, came)

    def columns(self, labels: Any, at: str, include_equal: bool) -> list[pa.Array]:
        """Return for each window and aggregate what the labels have, as they come."""
        asked, moments = self.ask(labels, at, include_equal)
        order = np.lexsort((moments.times, moments.keys))
        answers = self.answer(moments.take(order), order, asked)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return [answers[column].take(pa.array(back)) for column in columns_of(self.query)]

    def needed(self, labels: Any, at: str) -> int:
        """Return the row of the frame from which on a last label, or one after it, asks for events.

        Events are given in the order of keys and times, and none of the last key is before the label.
        """
        _, moment = self.ask(labels, at, include_equal=False)
        items = self._items(self.rows)
        first = [int(items.heads[moment.keys[0]])]
        windows = self.query.windows.items()
        by_rows = any(since(window, moment.times) is None for _, window in windows)
        policies = any(isinstance(window, Policy) for _, window in windows)
        if not policies and not (by_rows and self.known is not None):
            found = (spans(name, window, items, moment, self.query) for name, window in windows)
            first = [int(lo[0]) for lo, _ in found]
        row = min(first)
        return int(self.came[row]) if row < len(self.came) else len(self.came)

    def ask(self, labels: Any, at: str, include_equal: bool) -> tuple[Batch, Moments]:
        """Read labels: what they are, and the moments they ask for."""
        try:
            batch = read_batch(labels, at, self.query.keys, (), on_bad_time="drop")
        except (KeyError, TypeError, ValueError) as error:
            error.add_note("This is about the labels.")
            raise
        if batch.origin is not None:
            gaps = np.flatnonzero(batch.origin != np.arange(batch.rows))
            label = gaps[0] if len(gaps) else batch.rows
            raise ValueError(
                f"the time of label {label} (column {at!r}) is null: fill it in, or leave the label out"
            )
        if differ(self.time_type, batch.time_type):
            raise TypeError(
                f"events have times of type {self.time_type} and labels {batch.time_type} (column "
                f"{at!r}): convert them to one type"
            )
        refuse_far(batch.times, "label")
        return batch, Moments(self.keys.number(batch.keys, batch.rows), batch.times, include_equal)

    def answer(self, moments: Moments, order: Array, asked: Batch) -> Answers:
        """Return what windows hold at moments that are in order; `order` has their labels."""
        outs = self._outs(moments)
        return {
            (window, name): self._written(window, name, found, order, asked)
            for (window, name), found in outs.items()
        }

    def _outs(self, moments: Moments) -> dict[tuple[str, str], Outs]:
        items = self._items(self.rows)
        if self.known is None:
            return self._merged(self.rows, items, moments, None)
        heads = items.heads[moments.keys]
        hi = items.before(moments.keys, moments.ends)
        unknown = _some_later(self.known, heads, hi, moments.times)
        prompt, late = np.flatnonzero(~unknown), np.flatnonzero(unknown)
        found = [self._merged(self.rows, items, moments.take(prompt), None)]
        for part in _portions(late, (hi - heads)[late]):
            found.append(self._of_known(moments.take(part), heads[part], hi[part]))
        back = np.argsort(np.append(prompt, late), kind="stable")
        joined = {}
        for column in found[0]:
            arrays = zip(*(piece[column] for piece in found), strict=True)
            joined[column] = tuple(np.concatenate(parts)[back] for parts in arrays)
        return joined

    def _of_known(self, moments: Moments, heads: Array, hi: Array) -> dict[tuple[str, str], Outs]:
        """Return what windows hold at moments, each of which knows other rows of its key."""
        assert self.known is not None
        count = hi - heads
        owner = np.repeat(np.arange(len(count)), count)
        places = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count) + heads[owner]
        there = self.known[places] <= moments.times[owner]
        owner, places = owner[there], places[there]
        rows = replace(self.rows.take(places), keys=owner)
        own = replace(moments, keys=np.arange(len(count)))
        return self._merged(rows, self._items(rows, len(count)), own, places)

    def _items(self, rows: Rows, keys: int | None = None) -> Items:
        """Return rows as items of their keys."""
        heads = np.searchsorted(
            rows.keys, np.arange((len(self.keys) if keys is None else keys) + 1)
        )
        opens = {n: rows.extra[opening(n)] for n in self.query.windows if opening(n) in rows.extra}
        held = {name: rows.extra.get(looked_at(name)) for name in self.query.columns}
        compared = {name: values for name, values in held.items() if values is not None}
        records = rows.extra.get(ROW)
        return Items(rows.times.reshape(-1, 1), rows.times, heads, opens, records, compared)

    def _merged(
        self, rows: Rows, items: Items, moments: Moments, places: Array | None
    ) -> dict[tuple[str, str], Outs]:
        """Return what kernels give for each window and aggregate; `places` are those of the rows."""
        query = self.query
        held = {n: spans(n, w, items, moments, query) for n, w in query.windows.items()}
        found: dict[tuple[str, str], Outs] = {}
        for i, (name, feed) in enumerate(self.feeds.items()):
            windows = [n for n in held if name in query.aggregates_of(n)]
            wanted = [held[n] for n in windows]
            if name in self.ranked:
                column, valid = self.ranked[name]
                values = column.values if places is None else column.values[places]
                mask = valid if places is None or valid is None else valid[places]
                outs = [_order_statistics(feed, values, mask, each) for each in wanted]
            else:
                outs = merge_spans(feed, rows.inputs[i], wanted)
            found |= {(n, name): out for n, out in zip(windows, outs, strict=True)}
        return found

    def _written(self, window: str, name: str, outs: Outs, order: Array, asked: Batch) -> pa.Array:
        feed = self.feeds[name]
        try:
            if name not in self.ranked:
                return feed.results(outs)
            counts, values = outs
            (rule,), source = (feed.asked.result,), self.ranked[name][0]
            kind = ColumnType.of(source).as_arrow()
            return results_as_arrow(str(rule), values, counts == 0, kind)
        except DoesNotFitError as error:
            label = int(order[error.row])
            key = ", ".join(
                f"{column}={values[label].as_py()!r}"
                for column, values in zip(self.query.keys, asked.keys, strict=True)
            )
            whose = f"label {label}{' of ' + key if key else ''}"
            raise too_large(feed, window, whose, error) from None


def too_large(
    feed: BoundAggregate, window: str, whose: str, error: DoesNotFitError
) -> OverflowError:
    """Return the error of a result at a time that does not fit its type."""
    null = ", or give it overflow='null'" if feed.asked.result == "sum" else ""
    return OverflowError(
        f"aggregate {feed.name!r} ({feed.asked.name}) does not fit {error.kind} in window {window!r} of "
        f"{whose}: convert its column to floats{null}"
    )


def merge_spans(feed: BoundAggregate, inputs: Outs, wanted: list[Spans]) -> list[Outs]:
    """Return what kernels give for runs of rows [lo, hi), in which neither lo nor hi falls."""
    rows = len(inputs[0])
    marks, cover = np.zeros(rows + 1, np.bool_), np.zeros(rows + 1, np.int64)
    for lo, hi in wanted:
        some = hi > lo
        marks[lo[some]] = marks[hi[some]] = True
        np.add.at(cover, lo[some], 1)
        np.add.at(cover, hi[some], -1)
    used = np.cumsum(cover[:-1]) > 0
    first = np.flatnonzero(marks[:-1] & used)
    slices = np.append(0, np.cumsum(marks[:-1] & used))  # how many begin before a row
    if not used.all():
        inputs = tuple(array[used] for array in inputs)
        first = np.append(0, np.cumsum(used))[first]
    column = Partials(feed.aggregate, feed.kernels, LAZY)
    column.renew(len(first))
    if len(first):
        column.put(np.arange(len(first)), column.fold(inputs, None, first))
    return [queried(column, Spans(slices[lo], slices[hi]), hi > lo) for lo, hi in wanted]


def queried(column: Partials, spans: Spans, some: Array, *, alone: bool = False) -> Outs:
    """Return the results of runs of slices; those that are not `some` have the result of no rows.

    Their bounds do not fall, or each stands `alone`.
    """
    lo, hi = spans
    outs = column.kernels.outputs(len(lo))
    if column.kernels.columns is None:
        nothing = column.aggregate.lower(column.aggregate.identity)
        outs[0][:] = [nothing] * len(lo)
    here = np.flatnonzero(some)
    if len(here):
        bounds = np.arange(len(here) + 1) if alone else np.array([0, len(here)])
        for out, found in zip(outs, column.query(lo[here], hi[here], bounds, bounds), strict=True):
            out[here] = found
    return outs


def _is_ranked(feed: BoundAggregate) -> bool:
    """Whether the order statistics of a column of numbers are asked for."""
    held = feed.types[0] if len(feed.types) == 1 else None
    numeric = held is not None and held.numbers is not None and held.form == ""
    return feed.asked.rank is not None and numeric


def _ranked(feed: BoundAggregate, batch: Batch, order: Array) -> tuple[Column, Array | None]:
    column = batch.columns[feed.columns[0]].take(order)
    valid = column.valid
    if feed.asked.where is not None:
        holds = batch.holds[feed.asked.where][order]
        valid = holds if valid is None else valid & holds
    return column, valid


def _order_statistics(
    feed: BoundAggregate, values: Array, valid: Array | None, wanted: Spans
) -> Outs:
    if len(values) == 0 or len(wanted.lo) == 0:
        return np.zeros(len(wanted.lo), np.int64), np.zeros(len(wanted.lo))
    found, counts = roll_ranks(feed.asked, values, valid, RowSpans(wanted.lo, wanted.hi))
    return counts, found


def _known_at(events: Any, known: str, batch: Batch, query: Query) -> Array:
    """Return the times at which the events of a batch were known."""
    try:
        read = read_batch(events, known, (), (), on_bad_time="drop")
    except (KeyError, TypeError, ValueError) as error:
        error.add_note(f"This is about known={known!r}.")
        raise
    if differ(batch.time_type, read.time_type):
        raise TypeError(
            f"{query.time!r} has times of type {batch.time_type} and known={known!r} {read.time_type}: "
            "convert them to one type"
        )
    times = np.zeros(read.rows + read.bad_times, np.int64)
    there = np.zeros(len(times), np.bool_)
    origin = np.arange(read.rows) if read.origin is None else read.origin
    times[origin], there[origin] = read.times, True
    mine = np.arange(batch.rows) if batch.origin is None else batch.origin
    missing = np.flatnonzero(~there[mine])
    if len(missing):
        raise ValueError(
            f"event {mine[missing[0]]} has no time in {known!r}: fill in when it was known, or leave "
            "it out"
        )
    return times[mine]


def _some_later(known: Array, lo: Array, hi: Array, times: Array) -> Array:
    """Return of which moments a row of [lo, hi) was known only later; lo are heads of keys."""
    latest = np.full(len(lo), np.iinfo(np.int64).min)
    some = hi > lo
    if some.any():
        latest[some] = _running_max(known, np.unique(lo))[hi[some] - 1]
    found: Array = latest > times
    return found


def _running_max(values: Array, heads: Array) -> Array:
    """Return the greatest value so far, beginning again at each head."""
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.arange(len(values))
    group = np.zeros(len(values), np.int64)
    group[heads[heads < len(values)]] = 1
    offset = np.cumsum(group) * len(values)
    highest = np.maximum.accumulate(ranks + offset) - offset
    found: Array = values[order][np.maximum(highest, 0)]
    return found


def _portions(which: Array, rows: Array) -> list[Array]:
    """Cut moments into portions of which not too many rows are copied at once."""
    if len(which) == 0:
        return []
    cuts = np.flatnonzero(np.diff(np.cumsum(rows) // ROWS_AT_ONCE)) + 1
    return np.split(which, cuts)
