"""A query that changes beside queries that do not: one per window, with all aggregates from the start.

What is reported of a window that was added is what is reported of one that was always there, without
those of which a part may not have been seen. This holds of early results too, of calendars, in lives of
keys, and whatever the plan is when an operator, or shards, go on.
"""

import math
import random
from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch

import muntin as mt
from muntin.aggregates import close, unseal
from muntin.query.operator import LOOK_EVERY, MANY_KEYS, Operator
from muntin.query.plan import PLANS, SLICED
from muntin.query.query import COLUMNS, MEASURES, REPORTED_EARLY
from tests.changing_runs import MemoryBlocks, Stream
from tests.test_query_properties import KEYS, Shifts
from tests.window_oracle import bounds

MOST_ROWS = 60
"""Each row has a bit of its own in a sum, which says which rows a window has."""
SEVEN_HOURS = 7 * 3_600_000_000
CALENDARS = (("1 day", None), ("2 days", "1 day"), ("1 week", None), ("1 month", None))
ZONES = ("UTC", "Europe/Berlin", "America/New_York")
AGGREGATES = {
    "bit": mt.Sum("bit"),
    "rows": mt.Count(),
    "top": mt.Max("v"),
    "list": mt.Collect("v"),
    "last": mt.Last("v", nulls=True),
    "median": mt.Median("v"),
    "high": mt.Sum("v", where=mt.col("v") > 10),
    "marked": mt.Collect("v", where="mark"),
    "later": mt.Count(where=mt.col("km") > 5),
    "spread": mt.Std("v"),
    "peak": mt.ArgMax("v", "t"),
}


class Moment(NamedTuple):
    """When something was added: how many rows had come, and the latest time of a row or watermark."""

    rows: int = 0
    newest: float = -math.inf


class Watched:
    """A window as the query reports it (`found`), and as one does that never changed (`right`)."""

    def __init__(self, window, alone, since):
        self.window, self.alone, self.since = window, alone, since
        self.right, self.found, self.settled = {}, {}, set()

    def known_as(self, row):
        start = None if isinstance(self.window, mt.LastN) else row["start"]
        return row["room"], start, row["end"]

    def take(self, held, rows):
        """Keep rows as a consumer would."""
        for row in rows:
            row["start"], row["end"] = bounds(row)
            window, before = self.known_as(row), held.get(self.known_as(row))
            if row["kind"] == "retract":
                del held[window]
                continue
            complete = before is not None and before["kind"] != "early"
            assert complete == (row["kind"] == "update"), (before, row)
            held[window] = row

    def check(self, added):
        """Compare what was reported with what is right; `added` says when aggregates were."""
        for window, row in self.found.items():
            assert window in self.right, f"there is no such window: {row}"
            right = self.right[window]
            assert (row["kind"] == "early") == (right["kind"] == "early"), (row, right)
            for name in AGGREGATES.keys() & row.keys():
                may = self.may(name, right, added[name])
                assert any(close(row[name], value) for value in may), (name, row, may)
        missing = [w for w in self.right if w not in self.found and self.must(w, self.right[w])]
        assert not missing, [self.right[window] for window in missing]

    def may(self, name, right, since):
        """Return the values that an aggregate may have."""
        aggregate, moment = since
        if aggregate.only and right["window"] not in aggregate.only:
            return (None,)
        if moment.newest == -math.inf:
            return (right[name],)
        if right["bit"] % (1 << moment.rows):
            return (None,)
        in_time = not isinstance(self.window, mt.LastN | mt.Delta)
        return (right[name],) if in_time and right["start"] > moment.newest else (right[name], None)

    def must(self, window, right):
        """Whether a window must have been reported."""
        since = self.since
        if since.newest == -math.inf:
            return True
        if window in self.settled or right["bit"] % (1 << since.rows):
            return False
        if isinstance(self.window, mt.LastN | mt.Delta):  # `ChangingOracle` says of which
            return False
        gap = self.window.gap if isinstance(self.window, mt.Session) else 0
        opened = not isinstance(self.window, mt.Punctuation) or right["marked"]
        return opened and right["start"] > since.newest + gap


class Beside:
    """A random query that changes while it runs, and what it is compared with."""

    def __init__(self, number, shards=0):
        self.chance = chance = random.Random(number)
        self.unit = SEVEN_HOURS if chance.random() < 0.3 else 1
        self.events, self.arrived, self.watched = [], 0, {}
        self.clock, self.newest = chance.randint(-20, 20) * self.unit, -math.inf
        windows = {f"w{i}": self.some_window() for i in range(chance.choice((1, 1, 2, 3)))}
        names = ["bit", *chance.sample([*AGGREGATES][1:], chance.choice((0, 1, 2)))]
        self.query = mt.Query(
            time="t",
            keys=KEYS,
            windows=windows,
            aggregates={name: self.somewhere(name, windows) for name in names},
            lateness=chance.choice((0, 0, 6, 20)) * self.unit,
            ordered=chance.random() < 0.3,
        )
        self.query = self.changed(idle=chance.choice((None, None, 150 * self.unit))) or self.query
        early = self.changed(early=chance.choice((None, True, True, 7 * self.unit)))
        self.query = early or self.query
        self.runs = OnShards(self.query, chance, shards) if shards else Embedded(self.query, chance)
        self.added = {n: (a, Moment()) for n, a in self.query.aggregates.items()}
        for name, window in windows.items():
            self.watch(name, window)

    def some_window(self):
        unit, number, zone = self.unit, self.chance.randint, self.chance.choice(ZONES)
        step, (size, every) = number(1, 6), self.chance.choice(CALENDARS)
        made = [
            lambda: mt.Tumbling(number(1, 20) * unit, origin=number(0, 5) * unit),
            lambda: mt.Sliding(number(1, 25) * unit, number(1, 9) * unit),
            lambda: mt.Sliding(step * unit, (step + number(1, 6)) * unit),
            lambda: mt.Cumulate(step * number(1, 5) * unit, step * unit),
            lambda: mt.Session(number(1, 12) * unit),
            lambda: mt.Fixed(number(-10, 60) * unit, number(1, 40) * unit),
            lambda: mt.Delta("km", number(1, 15), number(1, 8)),
            lambda: mt.LastN(number(1, 4), number(2, 12) * unit),
            lambda: mt.Punctuation("mark"),
            Shifts,
        ]
        if unit > 1:
            made[-1:] = 4 * [lambda: mt.Calendar(size, every=every, zone=zone)]
        return self.chance.choice(made)()

    def somewhere(self, name, windows):
        """Return an aggregate, which may be over some windows only."""
        if name == "bit" or self.chance.random() < 0.6:
            return AGGREGATES[name]
        some = self.chance.sample([*windows], self.chance.randint(1, len(windows)))
        return AGGREGATES[name].over(*some)

    def changed(self, **parts):
        """Return the query with other parts, or None if there is no such query."""
        try:
            return replace(self.query, **parts)
        except ValueError:
            return None

    def watch(self, name, window):
        """Compare a window with one that is alone, and was there from the start."""
        query = replace(self.query, windows={name: window}, aggregates=AGGREGATES, early=None)
        kind, _ = window.lane(name, query.ordered)
        query = replace(query, early=self.query.early if kind in REPORTED_EARLY else None)
        since = Moment(self.arrived, self.newest) if self.events else Moment()
        watched = self.watched[name] = Watched(window, query.operator(), since)
        for event in self.events:
            self.repeat(watched, event)
        early = [w for w, row in watched.right.items() if row["kind"] == "early"]
        watched.settled = watched.right.keys() - early

    @staticmethod
    def repeat(watched, event):
        method, given = event
        watched.take(watched.right, getattr(watched.alone, method)(given).to_pylist())

    def happen(self, method, given):
        self.events.append((method, given))
        reported = getattr(self.runs, method)(given)
        for watched in self.watched.values():
            self.repeat(watched, self.events[-1])
        if reported is None:
            return
        rows = defaultdict(list)
        for row in reported.to_pylist():
            assert {*row} - {*MEASURES} == {*KEYS, *COLUMNS, *self.query.aggregates}
            rows[row["window"]].append(row)
        assert rows.keys() <= self.watched.keys()
        for name, watched in self.watched.items():
            watched.take(watched.found, rows[name])
            watched.check(self.added)

    def run(self):
        for step in range(self.chance.choice((10, 20, 35, 50))):
            kind = self.chance.random()
            if kind < 0.55 and self.arrived < MOST_ROWS:
                self.happen("process", self.some_rows())
            elif kind < 0.8:
                self.advance(self.clock - self.chance.choice((0, 3, 8, -3)) * self.unit)
            elif not self.runs.waiting:
                self.change(step)
        self.advance(self.clock + 400 * self.unit)

    def advance(self, watermark):
        self.newest = max(self.newest, watermark)
        self.happen("advance", watermark)

    def some_rows(self):
        rows, chance = [], self.chance
        for _ in range(min(chance.randint(1, 5), MOST_ROWS - self.arrived)):
            self.clock += chance.choice((0, 0, 0, 1, 1, 1, 1, 2, 3, 5, 14, 70)) * self.unit
            back = 0 if self.query.ordered else chance.choice((0, 0, 0, 1, 4, 9, 25))
            t = self.clock - back * self.unit
            self.newest = max(self.newest, t)
            row = {"t": t, "room": chance.choice("aabc"), "plug": 0, "n": self.arrived}
            row |= {
                "km": t // (2 * self.unit) * 3,
                "v": chance.choice((None, chance.randint(-20, 50))),
            }
            row |= {"x": None, "mark": chance.random() < 0.25, "bit": 1 << self.arrived}
            rows.append(row)
            self.arrived += 1
        return rows

    def change(self, step):
        calls = []
        for i in range(self.chance.choice((0, 1, 2, 3))):
            call = self.call(f"{step}.{i}", {name for _, name, *_ in calls})
            calls += [] if call is None else [call]
        self.runs.change(self.query, calls)

    def call(self, number, taken):
        """Change the query; return the method and arguments that do that, or None if it cannot be."""
        chance, query = self.chance, self.query
        kind = chance.choice(("add_window", "add_aggregate", "remove_window", "remove_aggregate"))
        part = "windows" if kind.endswith("window") else "aggregates"
        held = getattr(query, part)
        if kind == "add_window":
            name, thing = f"x{number}", self.some_window()
        elif kind == "add_aggregate":
            name = chance.choice([*AGGREGATES])
            thing = self.somewhere(name, query.windows)
        else:
            name, thing = chance.choice([*held]), None
        if name in ("bit", *taken) or (thing is not None and name in held):
            return None
        left = {n: t for n, t in held.items() if n != name}
        after = self.changed(**{part: left if thing is None else held | {name: thing}})
        if after is None:
            return None
        self.query = after
        if kind == "add_window":
            self.watch(name, thing)
        elif kind == "remove_window":
            del self.watched[name]
        elif kind == "add_aggregate":
            self.added[name] = thing, Moment(self.arrived, self.newest) if self.events else Moment()
        else:
            for watched in self.watched.values():
                for row in watched.found.values():
                    row.pop(name, None)
        return kind, name, *([] if thing is None else [thing])


class Embedded:
    """An operator, which may go on under another plan."""

    waiting = False

    def __init__(self, query, chance):
        plans = [p for p in PLANS if p != "buckets" or query.early_every is None]
        self.chance, self.operator = chance, query.operator(chance.choice(("auto", *plans)))

    def process(self, rows):
        return self.operator.process(rows)

    def advance(self, watermark):
        return self.operator.advance(watermark)

    def change(self, query, calls):
        if calls and self.chance.random() < 0.5:
            for method, *given in calls:
                getattr(self.operator, method)(*given)
            assert self.operator.query == query
            return
        plan, state = self.operator.plan.kind, unseal(self.operator.snapshot())
        plan = self.chance.choice(SLICED) if plan in SLICED else plan
        self.operator = Operator.from_plain(query, state, plan=plan)
        self.operator.become(query)


class OnShards:
    """Shards that are started again, under any plan that serves their state."""

    def __init__(self, query, chance, shards):
        self.chance, self.rows, self.known = chance, [], True
        self.stores = [MemoryBlocks() for _ in range(shards)]
        self.change(query, [])

    @property
    def waiting(self):
        """Whether rows wait for their micro-batch, or what was changed last does."""
        return bool(self.rows) or not self.known

    def process(self, rows):
        self.rows += rows

    def advance(self, watermark):
        rows, self.rows, self.known = self.rows, [], True
        return self.stream.take(rows, watermark)

    def change(self, query, calls):
        self.known = not calls
        self.stream = Stream(query, self.stores, self.chance, plan=self.chance.choice(SLICED))


def run_beside(number, shards=0):
    """Run the query of a number; raise AssertionError if it reports anything else than it should."""
    chance = random.Random(number)
    many, often = chance.choice(((1, 1), (MANY_KEYS, LOOK_EVERY)))
    place = "muntin.query.operator"
    with (
        patch(f"{place}.MANY_KEYS", many),
        patch(f"{place}.LOOK_EVERY", often),
        patch("muntin.spark.shard.SHORT_LOG", chance.choice((1, 400, 1 << 16))),
    ):
        Beside(number, shards).run()
