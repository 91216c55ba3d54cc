"""Early results against their definition: what is open, has rows, and changed since it was reported."""

import math
import random
from collections import defaultdict
from dataclasses import replace
from unittest.mock import patch

import pytest

import muntin as mt
from muntin.windows import Session
from tests.changing_runs import MemoryBlocks, Stream
from tests.test_query_properties import KEYS, Asked, Joined, Shifts
from tests.window_oracle import (
    WindowOracle,
    complete,
    containing,
    is_assigned,
    merges,
    read_results,
    sessions,
)

STREAMS, SHARDS = 400, 60
WINDOWS = {
    "tumbling": mt.Tumbling(10),
    "sliding": mt.Sliding(12, 4),
    "ragged": mt.Sliding(7, 3, origin=1),
    "gaps": mt.Sliding(3, 8),
    "short": mt.Session(3),
    "long": mt.Session(9),
    "fixed": mt.Fixed(7, 12),
    "shifts": Shifts(),
    "delta": mt.Delta("km", 9),
    "last": mt.LastN(3, 5),
    "own gaps": mt.Session(column="gap"),
    "limited": mt.Session(6, longest=10),
    "asked": Asked(9),
    "joined": Joined(9),
}
AGGREGATES = {"n": mt.Count(), "all": mt.Collect("v"), "peak": mt.Max("v")}
PLANS = ("auto", "worst case", "lazy", "eager", "tuple buffer", "aggregate tree")


class Early(WindowOracle):
    """The definition, and a consumer of early results."""

    def __init__(self, query):
        options = {"keys": KEYS, "ordered": query.ordered}
        super().__init__(query.windows, query.aggregates, query.allowed, **options)
        self.early = query.early_every
        self.held = {}
        self.known = 0
        self.switched = False
        self.retracted = set()  # while the watermark stands still

    def open(self):
        """Return the rows of each window that is not complete, of the kinds that are reported early."""
        found = {}
        for name, window in self.windows.items():
            for key, rows in self.counted[name].items():
                if name != "last":
                    clock = self._clock(key)
                    for start, end, inside in opened(window, sorted(rows), clock, self.known):
                        found[key, name, start, end] = inside
        return found

    def check(self, table, told, before, *, moved=True, asked=True):
        """Compare what came with what the definition reports (`told`) and with early results."""
        results, retracted = read_results(table, KEYS)
        wanted, gone = told
        first = {w: row for w, row in results.items() if row[0] != "early"}
        assert first == wanted
        self.known = self.rows if moved else self.known
        now, due = self.open(), asked and self.due(before)
        reported = {(key, name, start, end) for (key, name, start, end) in self.table()}
        lost = {w for w in self.held if w not in now and w not in reported}
        may_join = {w for w in reported if w not in now and not self.is_settled(*w)}
        joined = {w for w in may_join if any(within(w, other) for other in now)}
        lost |= joined if due else set()
        assert retracted == (gone | (lost if moved or due else set())) - self.retracted
        self.retracted = (self.retracted | retracted if not moved else set()) & reported
        if moved or due:
            self.held = {w: rows for w, rows in self.held.items() if w in now}
        early = {w: values for w, (kind, values) in results.items() if kind == "early"}
        if not due:
            assert not early
            return
        changed = {w for w in now if self.held.get(w) != contents(now[w])}
        assert early.keys() <= now.keys(), (early.keys() - now.keys(), now)
        assert self.switched or early.keys() == changed, (early, changed)
        assert changed <= early.keys()
        for window, values in early.items():
            assert values == self._values(window[1], window[2], now[window])
        self.held = {w: contents(rows) for w, rows in now.items()}
        self.switched = False

    def is_settled(self, key, name, start, end):
        """Whether nothing joins a window any more."""
        return any((start, end) == settled[:2] for settled in self.final[name][key])

    def due(self, before):
        """Whether an advance from one watermark to this one reports early results."""
        if not self.early:
            return self.early == 0
        first = before == -math.inf
        return first or self.watermark // self.early > before // self.early


def opened(window, rows, clock, known):
    """Return (start, end, rows) of the windows of a key that are not complete.

    When the watermark moved last, as many rows as `known` had come.
    """
    if isinstance(window, Session):
        done = {(start, end) for start, end, _ in sessions(window, rows, clock)}
        every = sessions(window, rows, clock._replace(watermark=10**9))
        return [found for found in every if found[:2] not in done]
    if is_assigned(window):
        bound = clock.watermark if merges(window) else clock.watermark + 1
        every = complete(window, rows, clock._replace(watermark=10**9)) if rows else ()
        return [found for found in every if found[1] >= bound]
    content, in_time, reached = defaultdict(list), window.measure == "time", clock.watermark
    if not in_time:
        seen = [row for row in rows if row.t <= clock.settled and row.arrival < known]
        reached = max((row.values[window.measure] for row in seen), default=-math.inf)
    for row in rows:
        for span in row.spans if in_time else containing(window, row.values[window.measure]):
            if span[1] > reached:
                content[span].append(row)
    return [(*span, inside) for span, inside in content.items()]


def within(session, other):
    """Whether a session is part of a longer one."""
    key, name, start, end = session
    inside = other[2] <= start and end <= other[3]
    return (
        inside
        and (key, name) == other[:2]
        and name in ("short", "long", "own gaps", "limited", "joined")
    )


def contents(rows):
    return [row.arrival for row in rows]


def drawn(rng, *, ordered):
    """Return a query, and batches of rows with the watermark after each."""
    names = rng.sample([*WINDOWS], rng.randint(1, 4))
    names += [] if {*names} - {"last"} else ["sliding"]
    query = mt.Query(
        time="t",
        keys=KEYS,
        windows={name: WINDOWS[name] for name in names},
        aggregates={name: AGGREGATES[name] for name in rng.choice([[*AGGREGATES], ["n", "peak"]])},
        ordered=ordered,
        lateness=0 if ordered else rng.choice([0, 0, 6, 30]),
        early=rng.choice([True, True, 5, 12]),
    )
    batches, clock, last, arrival = [], 0, {}, 0
    for _ in range(rng.randint(3, 14)):
        rows = []
        for _ in range(rng.choice([0, 1, 1, 3, 12])):
            clock += rng.choice([0, 0, 1, 1, 2, 5])
            key = rng.choice("ab")
            t = clock - rng.choice([0, 0, 1, 4, 15])
            if ordered:
                t = last[key] = max(t, last.get(key, 0))
            rows.append({"t": t, "room": key, "plug": 0, "v": arrival, "km": 2 * t})
            rows[-1] |= {"n": arrival, "gap": 1 + arrival * arrival % 13}
            arrival += 1
        batches.append((rows, clock - rng.choice([0, 3, 8, 20])))
    return query, batches


@pytest.mark.parametrize("seed", range(8))
def test_early_results_are_what_is_open_and_has_changed(seed):
    for number in range(seed, STREAMS, 8):
        rng = random.Random(number)
        query, batches = drawn(rng, ordered=rng.random() < 0.3)
        operator, oracle = query.operator(rng.choice(PLANS)), Early(query)
        for rows, watermark in [*batches, ([], 1000)]:
            if rows:
                table, told = operator.process(rows), oracle.process(rows)
                if query.ordered:
                    oracle.check(table, told, None, asked=False)
            before = oracle.watermark
            table, told = operator.advance(watermark), oracle.advance(watermark)
            oracle.check(table, told, before, moved=watermark > before)
            if rng.random() < 0.2:
                operator = query.restore(operator.snapshot())


@pytest.mark.parametrize("seed", range(4))
def test_shards_report_early_whatever_is_lost(seed):
    """Tasks fail, copies are lost, logs are replayed, and a restart asks for early results or not."""
    for number in range(seed, SHARDS, 4):
        rng = random.Random(number)
        query, batches = drawn(rng, ordered=False)
        oracle, stores = Early(query), [MemoryBlocks(), MemoryBlocks()]
        with patch("muntin.spark.shard.SHORT_LOG", rng.choice([1, 400, 1 << 16])):
            stream = Stream(query, stores, rng)
            for rows, watermark in [*batches, ([], 1000)]:
                if rng.random() < 0.15:
                    query = replace(query, early=rng.choice([None, True, 5, 12]))
                    oracle.early, oracle.switched = query.early_every, True
                    stream = Stream(query, stores, rng)
                table, before = stream.take(rows, watermark), oracle.watermark
                oracle.process(rows)
                told = oracle.advance(watermark)
                oracle.check(table, told, before, moved=watermark > before)


def query_of(windows=None, **options):
    windows = {"ten": mt.Tumbling(10)} if windows is None else windows
    return mt.Query(time="t", windows=windows, aggregates={"n": mt.Count()}, **options)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: query_of(early=True, emit="changes"), "emit='changes' cannot say"),
        (lambda: query_of({"last": mt.LastN(3, 5)}, early=True), "reported early .'last'."),
        (lambda: query_of({"c": mt.Tumbling(5, measure="count")}, early=5), "reported early .'c'."),
        (lambda: query_of(early=0), "duration above 0, got 0"),
        (lambda: query_of(early="soon"), "soon"),
        (lambda: query_of(early=-5), "early must not be negative"),
        (lambda: query_of(early=True).operator("buckets"), "'buckets' has no early results"),
    ],
)
def test_early_results_that_cannot_be_are_refused_by_name(made, says):
    with pytest.raises(ValueError, match=says):
        made()


def test_early_results_are_said_in_the_plan():
    said = query_of({"ten": mt.Tumbling(10), "last": mt.LastN(3, 5)}, early="10 s").explain()
    assert "early results of ten at each 10 s\n" in said
    assert "early" not in query_of().explain()


def test_slices_that_changed_are_noted_once():
    """What is noted between two early results does not grow with the batches."""
    operator = query_of(early=10**9).operator()
    operator.process({"t": [1]})
    operator.advance(1)
    held = []
    for _ in range(3000):
        operator.process({"t": [3]})
        held.append(operator.counters.state_bytes)
    assert max(held) < held[0] + 1000


def test_a_user_whose_function_fails_gets_the_early_result_later():
    fails = []

    def lower(total):
        if fails:
            raise ZeroDivisionError(fails.pop())
        return total

    own = mt.Aggregate("own", 0, lambda v: v, lambda a, b: a + b, lower, columns=("v",))
    query = mt.Query(
        time="t",
        windows={"ten": mt.Tumbling(10), "s": mt.Session(3)},
        aggregates={"own": own, "all": mt.Collect("v")},
        early=True,
    )
    operator = query.operator()
    operator.process({"t": [1, 2], "v": [1, 2]})
    fails.append("once")
    with pytest.raises(ZeroDivisionError):
        operator.advance(0)
    rows = operator.advance(0).to_pylist()
    assert [(row["window"], row["kind"], row["own"]) for row in rows] == [
        ("ten", "early", 3),
        ("s", "early", 3),
    ]
    assert operator.advance(0).num_rows == 0
