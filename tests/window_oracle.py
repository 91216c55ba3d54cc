"""The definition of every result of a query: lists of rows, and windows found in them by their words.

Each window keeps the rows that counted for it when they came. At an advance all complete windows are
found in the sorted rows, folded from scratch and compared with what was reported before. Nothing is
shared, sliced or forgotten; every operator must report exactly this.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import replace
from functools import reduce
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from muntin.query.query import COLUMNS, MEASURES
from muntin.windows import (
    ContextAwareWindow,
    ContextFreeWindow,
    Fired,
    LastN,
    Policy,
    Session,
    SessionOfRows,
)
from tests.condition_oracle import holds


class Row(NamedTuple):
    """Sorts by (time, arrival), which no two rows share."""

    t: int
    arrival: int
    values: dict[str, Any]
    spans: list[tuple[int, int]]


class WindowOracle:
    """What a query must report.

    `process` takes rows (dicts) in the order of their arrival. `advance` returns what is new, as
    {(key, window, start, end): (kind, {aggregate: value})}, and the set of windows that are retracted.
    If ordered, every row is a watermark for its key and `process` returns the same pair.
    """

    def __init__(self, windows, aggregates, lateness=0, *, time="t", keys=(), ordered=False):
        self.windows, self.aggregates, self.lateness = windows, aggregates, lateness
        self.time, self.keys, self.ordered = time, tuple(keys), ordered
        self.watermark = -math.inf
        self.last_time = {}
        self.counted = {name: defaultdict(list) for name in windows}
        self.final = {name: defaultdict(list) for name in windows}  # what nothing joins any more
        self.longest = {name: defaultdict(int) for name in windows}  # of what rows stand for
        self.reported = {}
        self.rows = self.late = self.dropped = 0
        self.lost = []  # the keys and times of the rows that no window took

    def process(self, rows):
        for values in rows:
            self._take(values)
        return self._changes() if self.ordered else None

    def advance(self, watermark):
        if watermark <= self.watermark:
            return {}, set()
        self.watermark = watermark
        return self._changes()

    def table(self):
        """Return {(key, window, start, end): {aggregate: value}}, what a consumer has by now."""
        return {
            (key, name, start, end): values
            for (key, name, _, end), (_, start, values) in self.reported.items()
        }

    def _take(self, values):
        t, key = values[self.time], tuple(values[column] for column in self.keys)
        counts = False
        for name, window in self.windows.items():
            spans = [
                (start, end)
                for start, end in own_spans(window, t, values)
                if end + self._allowed(end) > self.watermark
            ]
            if spans and merges(window):
                self._settle(name, key, max(end - start for start, end in spans))
            if spans:
                self.counted[name][key].append(Row(t, self.rows, values, spans))
                counts = True
        self.rows += 1
        self.late += t < self.watermark
        self.dropped += not counts
        self.lost += [] if counts else [(key, t)]
        self.last_time[key] = t

    def _settle(self, name, key, length):
        """Part what a row cannot join: it reaches no further back than the longest before it."""
        window, longest = self.windows[name], self.longest[name][key]
        self.longest[name][key] = max(longest, length)
        if not longest or length <= longest:
            return
        clock = self._clock(key)._replace(watermark=math.inf)
        watermark = self._clock(key).watermark
        for start, end, rows in list(complete(window, sorted(self.counted[name][key]), clock)):
            if end + longest + self._allowed(end + longest) > watermark:
                break
            self.final[name][key].append((start, end, rows))
            gone = [(row, [s for s in row.spans if start <= s[0] and s[1] <= end]) for row in rows]
            for row, spans in gone:
                row.spans[:] = [span for span in row.spans if span not in spans]
            self.counted[name][key] = [row for row in self.counted[name][key] if row.spans]

    def _allowed(self, _end):
        return self.lateness

    def _values(self, name, _start, rows):
        values = {column: fold(a, rows) for column, a in self.aggregates.items()}
        return values | times_of(self.windows[name], rows)

    def _changes(self):
        before, self.reported, results = self.reported, {}, {}
        for name, key, start, end, rows in self._complete():
            identity = (key, name, None if by_end(self.windows[name]) else start, end)
            content = [row.arrival for row in rows]
            known = before.get(identity)
            if known and known[0] == content:
                self.reported[identity] = known
                continue
            values = self._values(name, start, rows)
            self.reported[identity] = content, start, values
            results[key, name, start, end] = ("update" if known else "result", values)
        return results, before.keys() - self.reported.keys()

    def _complete(self):
        for name, window in self.windows.items():
            for key, rows in self.counted[name].items():
                found = complete(window, sorted(rows), self._clock(key)) if rows else ()
                for start, end, content in (*self.final[name][key], *found):
                    yield name, key, start, end, content

    def _clock(self, key):
        if not self.ordered:
            return Clock(self.watermark, self.watermark - 1)
        own = self.last_time[key]
        return Clock(max(own, self.watermark), max(own, self.watermark - 1))


class Clock(NamedTuple):
    """A key's watermark, and the last time at which no row can come before those that are there."""

    watermark: float
    settled: float


def own_spans(window, t, values):
    """Return the spans for whose sake a row counts, as long as one of them is not past."""
    if isinstance(window, Session):
        return [(t, t + window.gap)]
    if isinstance(window, SessionOfRows):
        return [(t, t + (window.gap if window.column is None else values[window.column]))]
    if is_assigned(window):
        return sorted(set(window.assign(t, values)))
    if isinstance(window, ContextFreeWindow) and window.measure == "time":
        return containing(window, t)
    return [(t, t + 1)]


def is_assigned(window):
    """Whether windows are made of what rows stand for."""
    return isinstance(window, SessionOfRows) or getattr(window, "assigns", False)


def merges(window):
    """Whether what rows stand for is merged, if it touches."""
    return isinstance(window, SessionOfRows) or (is_assigned(window) and window.merging)


def containing(window, x):
    """Return the context-free windows that contain a time, rank or value."""
    found = []
    for start, end in window.closed(x, math.inf):
        if start > x:
            break
        found.append((start, end))
    return found


def fold(aggregate, rows):
    """Fold the rows for which the aggregate's condition is true."""
    if aggregate.where is not None:
        rows = [row for row in rows if holds(aggregate.where, row.values)]
        aggregate = replace(aggregate, where=None)
    partials = map(aggregate.input_lift(), (row.values for row in rows))
    return aggregate.lower(reduce(aggregate.combine, partials, aggregate.identity))


def complete(window, rows, clock):
    """Return the complete windows as (start, end, rows), given all rows of one key in order."""
    if isinstance(window, Session):
        return sessions(window, rows, clock)
    if isinstance(window, LastN):
        return last_rows(window, rows, clock)
    if isinstance(window, Fired):
        return fired(window, rows, clock)
    if isinstance(window, Policy):
        return left_rows(window, rows, clock)
    if isinstance(window, SessionOfRows):
        return limited_sessions(window, rows, clock)
    if merges(window):
        return merged_windows(rows, clock)
    if is_assigned(window):
        return time_windows(rows, clock)
    if isinstance(window, ContextAwareWindow):
        return between_openings(window, rows, clock)
    if window.measure == "time":
        return time_windows(rows, clock)
    if window.measure == "count":
        return count_windows(window, rows, clock)
    return delta_windows(window, rows, clock)


def time_windows(rows, clock):
    content = defaultdict(list)
    for row in rows:
        for span in row.spans:
            content[span].append(row)
    return [(*span, inside) for span, inside in content.items() if span[1] <= clock.watermark]


def sessions(window, rows, clock):
    breaks = [i for i in range(1, len(rows)) if rows[i].t - rows[i - 1].t > window.gap]
    for i, j in pairwise([0, *breaks, len(rows)]):
        end = rows[j - 1].t + window.gap
        if end < clock.watermark:
            yield rows[i].t, end, rows[i:j]


def limited_sessions(window, rows, clock):
    """A row opens a session if no span before reaches it, or if the session would be too long."""
    found = []
    for row in rows:
        ((_, end),) = row.spans
        if found and row.t <= found[-1][1] and row.t - found[-1][0] <= (window.longest or math.inf):
            found[-1] = found[-1][0], max(found[-1][1], end), [*found[-1][2], row]
        else:
            found.append((row.t, end, [row]))
    return [session for session in found if session[1] < clock.watermark]


def merged_windows(rows, clock):
    """The unions of spans that touch or overlap, with every row that has one of them, once."""
    spans = sorted({span for row in rows for span in row.spans})
    while any(b[0] <= a[1] for a, b in pairwise(spans)):
        i = next(i for i, (a, b) in enumerate(pairwise(spans)) if b[0] <= a[1])
        spans[i : i + 2] = [(spans[i][0], max(spans[i][1], spans[i + 1][1]))]
    for start, end in spans:
        if end < clock.watermark:
            inside = (any(start <= s and e <= end for s, e in row.spans) for row in rows)
            yield start, end, [row for row, is_in in zip(rows, inside, strict=True) if is_in]


def count_windows(window, rows, clock):
    for start, end in window.closed(0, len(rows)):
        if start >= 0 and rows[end - 1].t <= clock.settled:
            yield start, end, rows[start:end]


def delta_windows(window, rows, clock):
    content = defaultdict(list)
    reached = -math.inf
    for row in rows:
        value = row.values[window.measure]
        for span in containing(window, value):
            content[span].append(row)
        if row.t <= clock.settled:
            reached = max(reached, value)
    return [(*span, inside) for span, inside in content.items() if span[1] <= reached]


def last_rows(window, rows, clock):
    times = [row.t for row in rows]
    end = window.first_end(times[0])
    while end <= clock.watermark:
        stop = bisect_left(times, end)
        start = max(0, stop - window.n)
        yield start, end, rows[start:stop]
        end += window.every


def fired(window, rows, clock):
    """Each `every`th row fires what is not too far before it, in time or by what a column came to."""
    come_to, reached = -math.inf, []
    for row in rows:
        come_to = max(come_to, row.t if window.measure == "time" else row.values[window.measure])
        reached.append(come_to)
    for stop in range(window.every, len(rows) + 1, window.every):
        if rows[stop - 1].t <= clock.settled:
            start = next(i for i in range(stop) if reached[stop - 1] - reached[i] < window.size)
            yield start, stop, rows[start:stop]


def by_end(window):
    """Whether windows are known by their end, since late rows move their start."""
    return isinstance(window, LastN | Fired)


def times_of(window, rows):
    """Return the times of a window that a row fires, which is known by numbers of rows."""
    if not isinstance(window, Fired) or window.measure != "time":
        return {}
    return {"times": (rows[-1].t - window.size + 1, rows[-1].t + 1)}


def left_rows(window, rows, clock):
    """After each row the longest run of oldest rows leaves for which the policy holds.

    At each end that run leaves, too, which has expired by then.
    """
    policy, left, coming = window.policy, [], list(rows)
    end = window.first_end(rows[0].t)
    while end <= clock.watermark:
        while coming and coming[0].t < end:
            left.append(coming.pop(0))
            total = fold(policy.aggregate, left)
            runs = (
                n
                for n in range(len(left), 0, -1)
                if policy.holds(total, fold(policy.aggregate, left[:n]))
            )
            del left[: next(runs, 0)]
        runs = (
            n
            for n in range(len(left), 0, -1)
            if expired(policy, end, fold(policy.aggregate, left[:n]))
        )
        del left[: next(runs, 0)]
        if left:
            yield left[0].t, end, left.copy()
        end += window.every


def expired(policy, now, old):
    """Whether a run has expired by the time of a report, under policies that look at the rows' time."""
    if policy.parts:
        return any(expired(*pair) for pair in zip(policy.parts, (now, now), old, strict=True))
    return policy.expires and "t" in policy.aggregate.columns and policy.expires(now, old)


def between_openings(window, rows, clock):
    """Edges are the times of the rows that open a window; rows of equal time are never parted."""
    edges, context = [], None
    for t, group in groupby(rows, key=lambda row: row.t):
        together = [row.values for row in group]
        told = [window.opens(context, t, values) for values in together] if edges else [True]
        if any(told):
            edges.append(t)
            context = window.begin()
            for values in together:
                window.opens(context, t, values)
    for i, end in enumerate(edges[1:], 1):
        start = edges[max(i - getattr(window, "last", 1), 0)]
        if end <= clock.watermark:
            yield start, end, [row for row in rows if start <= row.t < end]


def replay_changes(changes, windows, watermark):
    """Return the table of every window from one of changes only: each row holds until the next.

    `changes` is what a consumer keeps, {(key, window, start, end): (kind, {aggregate: value})}.
    """
    runs = defaultdict(list)
    for (key, name, _, end), (kind, values) in changes.items():
        runs[key, name].append((end, None if kind == "empty" else values))
    table = {}
    for (key, name), held in runs.items():
        held.sort(key=lambda run: run[0])
        for (end, values), (next_end, _) in pairwise([*held, (watermark + 1, None)]):
            if values is not None:
                for span in windows[name].closed(end - 1, next_end - 1):
                    table[(key, name, *span)] = values
    return table


def read_results(table, keys=()):
    """Return an operator's table as the oracle gives it: results by their window, and the retracted."""
    return by_window(read_rows(table, keys))


def read_rows(table, keys=()):
    """Return what a table has as (window, kind, values); of rows that no window took see `read_lost`."""
    rows = []
    for row in table.to_pylist():
        if row["kind"] == "dropped":
            continue
        key = tuple(row.pop(column) for column in keys)
        window, kind = (key, row["window"], *bounds(row)), row["kind"]
        values = {n: as_plain(v) for n, v in row.items() if n not in (*COLUMNS, *MEASURES)}
        if row["end"] is not None and row.get("end_measure") is not None:  # a row fired it
            values["times"] = row["start"], row["end"]
        rows.append((window, kind, values))
    return rows


def read_lost(table, keys=()):
    """Return the keys and times of rows that no window took, of which all else is null."""
    lost = []
    for row in table.to_pylist():
        key = tuple(row.pop(column) for column in keys)
        if row.pop("kind") == "dropped":
            lost.append((key, row.pop("start")))
            assert not any(value is not None for value in row.values()), row
    return lost


def bounds(row):
    """Return the bounds in a row of results: times, or the numbers of a window that is not of time."""
    start, end, first, last = (row.get(name) for name in (*COLUMNS[1:3], *MEASURES))
    return start if first is None else first, end if last is None else last


def by_window(rows):
    """Return results by their window, and the retracted."""
    results, retracted = {}, set()
    for window, kind, values in rows:
        assert window not in results, f"{window} came twice in one table"
        assert window not in retracted, f"{window} came and went in one table"
        if kind == "retract":
            retracted.add(window)
        else:
            results[window] = (kind, values)
    return results, retracted


def as_plain(value):
    """Return a struct of Arrow as the list of its values, as tuples are compared."""
    if isinstance(value, dict):
        return [as_plain(field) for field in value.values()]
    return [as_plain(item) for item in value] if isinstance(value, list) else value
