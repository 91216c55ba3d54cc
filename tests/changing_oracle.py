"""The definition of what a query may report, and must, while its windows and aggregates come and go.

Each window has a `View`: the oracle of that window alone, over the rows of the whole stream. What a
window that was added may report follows from it, and from the moment when it was added.

Windows over time or a column, sessions, `LastN` and punctuations are what they were if the window had
been there from the start. Those that were complete when it came are never reported. Those that began
before may be left out: nobody may know whether a row of them is gone. Those that begin after all that
had come must be there.

Windows over the number of rows, or that rows fire, policies, and context-aware windows of one's own
depend on all rows before. They begin behind the key's own last row, as if the key began there.

An aggregate that was added is null in windows with a row from before, and right in those that begin
after all that had come. In windows between it may be either: they were open, and nothing was in them.

With `idle` the sorted rows of a key, whatever they count for, are parted where they are further apart.
Each part is a life, and windows that are found in rows see each life as a key, (key, life). A life is
known, and reported, once no row can come that joins it to the one before.
"""

import math
from bisect import insort
from collections import defaultdict
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

from muntin.windows import (
    ContextAwareWindow,
    ContextFreeWindow,
    Fired,
    LastN,
    Policy,
    Punctuation,
    Session,
    Ticking,
)
from tests.window_oracle import WindowOracle, by_end, complete, fold, is_assigned, times_of


class Moment(NamedTuple):
    """When something was added: the rows that had come, and how far the stream was."""

    rows: int
    newest: float  # the watermark or the last time of a row, whichever is later
    last: dict[tuple, int]  # the last time of each key

    @property
    def nothing_came(self):
        return self.newest == -math.inf


class Arrival(NamedTuple):
    """A row, with what was so when it came."""

    values: dict[str, Any]
    watermark: float
    lateness: tuple[tuple[float, int], ...]


class Part(NamedTuple):
    """An aggregate of a query: the windows that it belongs to (None if all), and since when."""

    aggregate: Any
    over: tuple[str, ...] | None
    since: Moment | None


class Report(NamedTuple):
    """What is new: {window: {column: the values it may have}}, what of it must be there, what is gone.

    A window is (key, name, start, end); the start is None if it is known by its end.
    """

    may: dict[tuple, dict[str, tuple]]
    must: set[tuple]
    gone: set[tuple]

    def joined(self, other):
        return Report(self.may | other.may, self.must | other.must, self.gone | other.gone)


class ChangingOracle:
    """What a query whose windows, aggregates and lateness change must report, may report, and not."""

    def __init__(
        self,
        windows,
        aggregates,
        lateness=0,
        *,
        over=None,
        time="t",
        keys=(),
        ordered=False,
        idle=None,
    ):
        self.time, self.keys, self.ordered = time, tuple(keys), ordered
        self.idle, self.times = idle, defaultdict(list)  # of rows, for each key in order
        self.lateness = ((-math.inf, lateness),)
        self.watermark = -math.inf
        self.log = []
        over = over or {}
        self.parts = {name: Part(a, over.get(name), None) for name, a in aggregates.items()}
        self.views = {name: View(self, name, window, None) for name, window in windows.items()}

    def process(self, rows):
        for values in rows:
            arrival = Arrival(values, self.watermark, self.lateness)
            self.log.append(arrival)
            if self._may_come(values[self.time]):
                insort(self.times[self.key_of(values)], values[self.time])
            for view in self.views.values():
                view.take(arrival)
        return self._report() if self.ordered else Report({}, set(), set())

    def advance(self, watermark):
        if watermark <= self.watermark:
            return Report({}, set(), set())
        self.watermark = watermark
        return self._report()

    def add_window(self, name, window):
        moment = self._now()
        self.views[name] = View(self, name, window, None if moment.nothing_came else moment)

    def remove_window(self, name):
        del self.views[name]

    def add_aggregate(self, name, aggregate, over=None):
        moment = self._now()
        self.parts[name] = Part(aggregate, over, None if moment.nothing_came else moment)

    def remove_aggregate(self, name):
        del self.parts[name]

    def change_lateness(self, lateness):
        self.lateness = (*self.lateness, (self.watermark, lateness))

    def key_of(self, values):
        return tuple(values[column] for column in self.keys)

    def lives(self, key):
        """Return the first and the last time of each life of a key that is known."""
        times = self.times[key]
        cuts = [i for i in range(1, len(times)) if times[i] - times[i - 1] > self.idle]
        lives = [(times[i], times[j - 1]) for i, j in pairwise([0, *cuts, len(times)])]
        unsure = (not self.ordered and self._may_come(last + self.idle) for _, last in lives)
        return lives[: 1 + next((i for i, may_join in enumerate(unsure) if may_join), len(lives))]

    def _may_come(self, t):
        """Whether a row with a time would count for windows that are found in rows."""
        return t + 1 + allowed(self.lateness, t + 1, self.watermark) > self.watermark

    def _now(self):
        last = {}
        for values, *_ in self.log:
            key = self.key_of(values)
            last[key] = max(last.get(key, -math.inf), values[self.time])
        return Moment(len(self.log), max([self.watermark, *last.values()]), last)

    def _report(self):
        reports = [view.report(self.watermark) for view in self.views.values()]
        return reduce(Report.joined, reports, Report({}, set(), set()))


def allowed(changes, end, watermark):
    """Return the lateness of windows that end somewhere, after (watermark, lateness) changes.

    Raised lateness holds for windows that end after the watermark at the change, lowered for all windows
    as soon as the watermark has moved: what changed before is reported first.
    """
    (_, length), *others = changes
    for at, changed in others:
        if end > at if changed > length else watermark > at:
            length = changed
    return length


class View(WindowOracle):
    """One window of a query that changes, over the rows that count for it."""

    def __init__(self, query, name, window, since):
        super().__init__(
            {name: window},
            {},
            query.lateness,
            time=query.time,
            keys=query.keys,
            ordered=query.ordered,
        )
        self.query, self.name, self.window, self.since = query, name, window, since
        self.begins_again = since is not None and begins_again(window)
        self.in_lives = query.idle is not None and not is_of_time(window)
        for arrival in query.log:
            self.take(arrival)
        self.watermark = query.watermark
        self._changes()
        self.settled = {self._known(window) for window in self.table()} if since else set()

    def take(self, arrival):
        """Count a row as it counted when it came."""
        self.watermark, self.lateness = arrival.watermark, arrival.lateness
        key, t = self.query.key_of(arrival.values), arrival.values[self.time]
        before = self.begins_again and (
            self.rows < self.since.rows or t < self.since.last.get(key, -math.inf)
        )
        if before:
            self.rows += 1
            self.last_time[key] = t
        else:
            self._take(arrival.values)

    def report(self, watermark):
        """Return what is new for a consumer who has seen all that was reported of the window."""
        self.watermark = watermark
        results, gone = self._changes()
        may = {self._known(window): values for window, (_, values) in results.items()}
        must = {self._known(window) for window in results if self._must(*window)}
        gone = {(key, name, start, end) for key, name, start, end in gone}
        return Report(
            {w: values for w, values in may.items() if w not in self.settled},
            must - self.settled,
            gone,
        )

    def expected(self):
        """Return {window: (values, whether it must be there)}, all that a consumer may have by now."""
        return {
            self._known(window): (values, self._must(*window))
            for window, values in self.table().items()
            if self._known(window) not in self.settled
        }

    def upto(self, key, last):
        """Return how far a key's windows are complete; `last` is the end of the last that has rows."""
        return self._clock(key).watermark if self.window.measure == "time" else last

    def _complete(self):
        if not self.in_lives:
            yield from super()._complete()
            return
        for key, rows in self.counted[self.name].items():
            for life, (first, last) in enumerate(self.query.lives(key)):
                own = sorted(row for row in rows if first <= row.t <= last)
                for start, end, content in (
                    complete(self.window, own, self._clock(key)) if own else ()
                ):
                    if not isinstance(self.window, Ticking) or end <= last + self.query.idle:
                        yield self.name, (key, life), start, end, content

    def counted_of(self, key):
        """Return the rows of a key, or of the key of a life, that count."""
        return self.counted[self.name][key[0] if self.in_lives else key]

    def rows_of(self, key, start, end):
        """Return the rows of a complete window, in order."""
        known = self.reported[key, self.name, None if by_end(self.window) else start, end]
        rows = {row.arrival: row for row in self.counted_of(key)}
        return [rows[arrival] for arrival in known[0]]

    def _known(self, window):
        key, name, start, end = window
        return key, name, None if by_end(self.window) else start, end

    def _allowed(self, end):
        return allowed(self.lateness, end, self.watermark)

    def _values(self, _name, start, rows):
        over_time = isinstance(self.window, ContextFreeWindow) and self.window.measure == "time"
        begin = start if over_time else rows[0].t
        values = {
            column: part_values(part, self.name, begin, rows)
            for column, part in self.query.parts.items()
        }
        if isinstance(self.window, Fired) or (isinstance(self.window, LastN) and not self.since):
            values["start"] = (start,)
        values |= {name: (times,) for name, times in times_of(self.window, rows).items()}
        return values

    def _must(self, key, _name, start, end):
        """Whether nothing that had come before the window was added can be a part of it."""
        if self.since is None:
            return True
        window, newest = self.window, self.since.newest
        rows = self.rows_of(key, start, end)
        if isinstance(window, Session):
            return start > newest + window.gap
        if isinstance(window, LastN):
            return len(rows) == window.n and rows[0].t > newest
        if isinstance(window, Punctuation):
            return start > newest and any(
                window.opens(None, start, row.values) for row in rows if row.t == start
            )
        if self.begins_again:
            first = min(row.t for row in self.counted_of(key))
            own = isinstance(window, ContextAwareWindow)
            return not own or (start > newest and start > first)
        if window.measure != "time":
            return start > self._come_to(key)
        return start > newest

    def _come_to(self, key):
        """Return what the column of a Delta had surely come to by the first row that counts since.

        Before the window was added, nobody may have looked at the column.
        """
        column, rows = self.window.measure, self.counted_of(key)
        last = self.since.last.get(key[0] if self.in_lives else key, -math.inf)
        since = [row for row in rows if row.arrival >= self.since.rows and row.t >= last]
        before = [row.values[column] for row in rows if row.arrival < self.since.rows]
        return max([*before, *(row.values[column] for row in since[:1])], default=math.inf)


def is_of_time(window):
    """Whether a window lies in time, and is not found in the rows of a key."""
    free = isinstance(window, ContextFreeWindow) and window.measure == "time"
    return free or isinstance(window, Session) or is_assigned(window)


def begins_again(window):
    """Whether a window that is added begins behind each key's last row."""
    if isinstance(window, ContextAwareWindow):
        return not isinstance(window, Punctuation)
    return isinstance(window, Policy | Fired) or window.measure == "count"


def part_values(part, window, begin, rows):
    """Return the values that an aggregate may have in a window."""
    if part.over is not None and window not in part.over:
        return (None,)
    right = fold(part.aggregate, rows)
    if part.since is None or begin > part.since.newest:
        return (right,)
    if any(row.arrival < part.since.rows for row in rows):
        return (None,)
    return right, None
