"""Random streams through random queries: every table that comes out is the oracle's.

Streams have several keys, ties, gaps, bursts, disorder, late and too late rows, negative times, nulls
and NaN. They are cut into batches and interrupted by restarts at random; windows of all types run at
once. The plan must make no difference.
"""

import datetime as dt
import math
import os
import random
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import muntin as mt
from muntin import policies
from muntin.aggregates import close, same_result
from tests import catalogue
from tests.window_oracle import WindowOracle, read_lost, read_results, replay_changes

KEYS = ("room", "plug")
THIS_YEAR = 1_767_225_600_000_000
PLANS = pytest.mark.parametrize("plan", ["auto", "eager", "naive"])
ALL_PLANS = pytest.mark.parametrize(
    "plan", ["auto", "lazy", "eager", "naive", "buckets", "tuple buffer", "aggregate tree"]
)
MORE = int(os.environ.get("MUNTIN_EXAMPLES", "0"))  # to search longer than a test run can
THOROUGH = settings(
    max_examples=MORE or 60,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
QUICK = settings(THOROUGH, max_examples=MORE or 40)


class Shifts(mt.ContextFreeWindow):
    """A user's own: days of 24 in two shifts, [0, 8) and [8, 24)."""

    def next_edge(self, t):
        day = t // 24 * 24
        return day + 8 if t < day + 8 else day + 24

    def closed(self, after, upto):
        end = self.next_edge(after)
        while end <= upto:
            yield (end - 8 if end % 24 == 8 else end - 16), end
            end = self.next_edge(end)


class UntilSum(mt.ContextAwareWindow):
    """A user's own: a window takes rows until their sum has reached a limit."""

    def __init__(self, column, limit):
        self.column, self.limit = column, limit

    def begin(self):
        return {"sum": 0}

    def opens(self, context, time, row):
        del time
        full = context["sum"] >= self.limit
        context["sum"] += abs(row[self.column] or 0)
        return full


class Asked(mt.ContextAwareWindow):
    """A user's own: rows are in windows that overlap, begin later than they, or are none."""

    def __init__(self, size):
        self.size = size

    def assign(self, time, row):
        start = time // 7 * 7
        near = [(start, start + 7 + row["n"] % self.size)] if row["n"] % 5 else []
        return [(time + 2, time + 2 + self.size), *near] if row["n"] % 3 == 0 else near


class Joined(mt.ContextAwareWindow):
    """A user's own: what rows stand for is merged, and begins up to so much before them."""

    merging = True

    def __init__(self, size, back=0):
        self.size, self.back = size, back

    def assign(self, time, row):
        n = row["n"] * 5 % 17
        if n == 3:
            return []
        own = (time - self.back * (n % 4), time + 1 + n % self.size)
        return [own, (time + 11, time + 13)] if n > 13 else [own]


def seventh(row):
    return row["v"] is not None and row["v"] % 7 == 0


def rolling_hash(column):
    """Return a user's own aggregate, to which order matters and of which nothing else is known."""
    return mt.Aggregate(
        "rolling_hash",
        identity=(1, 0),
        lift=lambda value: (31, value % 1009),
        combine=lambda a, b: (a[0] * b[0] % 1009, (a[1] * b[0] + b[1]) % 1009),
        lower=lambda partial: partial[1],
        columns=(column,),
    )


def forgetful(column):
    """Return a user's own policy, by which a high value wipes out all that was before it."""
    return policies.SlidePolicy("forgetful", mt.Max(column), lambda total, _: (total or 0) > 40)


def never(_total, _old):
    return False


POLICIES = [
    policies.last(3),
    policies.within(12, "t"),
    policies.within(20, "t") | policies.last(4),
    policies.SlidePolicy("aged", mt.Max("t"), never, expires=lambda now, old: now - old > 7),
    policies.sum_at_most(90, "n"),
    policies.until_max("v") | policies.last(5),
    policies.until_longest_run("v"),
    forgetful("v"),
]
small = st.integers(1, 12)
PERIODIC = {
    "tumbling": st.builds(lambda n, o: mt.Tumbling(n, origin=o), st.integers(1, 30), small),
    "sliding": st.builds(mt.Sliding, st.integers(1, 40), small),
    "sparse": st.builds(lambda n, more: mt.Sliding(n, n + more), small, small),
    "shifts": st.builds(Shifts),
    "cumulate": st.builds(lambda n, k, o: mt.Cumulate(n * k, n, origin=o), small, small, small),
    "fixed": st.builds(mt.Fixed, st.integers(-60, 60), st.integers(1, 80)),
}
WINDOWS = {
    **PERIODIC,
    "count": st.builds(lambda n: mt.Tumbling(n, measure="count"), small),
    "sliding count": st.builds(lambda n, m: mt.Sliding(n, m, measure="count"), small, small),
    "session": st.builds(mt.Session, small),
    "long session": st.builds(mt.Session, st.integers(13, 30)),
    "marked": st.just(mt.Punctuation("mark")),
    "seventh": st.just(mt.Punctuation(seventh)),
    "until": st.builds(lambda limit: UntilSum("v", limit), st.integers(1, 150)),
    "last": st.builds(mt.LastN, small, st.integers(3, 30)),
    "left": st.builds(mt.Policy, st.sampled_from(POLICIES), st.integers(3, 30)),
    "delta": st.builds(lambda n, m: mt.Delta("km", n, m), st.integers(1, 30), small),
}
limits = st.one_of(st.none(), st.integers(1, 30))
ASSIGNED = {
    "gaps": st.builds(lambda most: mt.Session(column="gap", longest=most), limits),
    "limited": st.builds(
        lambda gap, most: mt.Session(gap, longest=most), small, st.integers(1, 30)
    ),
    "asked": st.builds(Asked, small),
    "joined": st.builds(Joined, small),
    "last marked": st.builds(lambda n: mt.Punctuation("mark", last=n), st.integers(2, 5)),
}
WINDOWS |= ASSIGNED
WITH_CHANGES = dict(WINDOWS)  # those that may be reported only when they change
few = st.integers(1, 4).map(mt.rows)
WINDOWS |= {
    "fired": st.builds(mt.Sliding, st.integers(1, 40), few),
    "fired along": st.builds(
        lambda column, n, k: mt.Delta(column, n / 4, every=k),
        st.sampled_from(["km", "n"]),
        st.integers(1, 120),
        few,
    ),
}
COMMUTATIVE = {
    "rows": mt.Count(),
    "values": mt.Count("v"),
    "total": mt.Sum("v"),
    "top": mt.Max("v"),
    "low": mt.Min("x"),
    "mean": mt.Mean("x"),
    "spread": mt.Std("x", ddof=0),
}
IN_ORDER = {
    "list": mt.Collect("v", nulls=True),
    "first": mt.First("v"),
    "last": mt.Last("v", nulls=True),
    "peak": mt.ArgMax("v", "n"),
    "hash": rolling_hash("v"),
}
RANKS = {"median": mt.Median("x"), "distinct": mt.CountDistinct("v"), "total": mt.Sum("v")}
WHERE = {
    "marked": mt.Count(where="mark"),
    "high": mt.Sum("v", where=mt.col("v") > 3),
    "gaps": mt.Collect("v", nulls=True, where=(mt.col("x") > 1) | mt.col("v").is_null()),
    "others": mt.Last("v", nulls=True, where=~mt.col("plug").isin([1])),
    "middle": mt.Median("x", where=(mt.col("n") * 3 - mt.col("v") > 40) & (mt.col("room") == "a")),
    "top": mt.Max("n", where=(mt.col("mark") == False) & (mt.col("x") / 2 <= mt.col("t"))),  # noqa: E712
}
SUM, LIST = {"total": mt.Sum("v")}, {"list": mt.Collect("v")}
EXACT = {"rows": mt.Count(), "total": mt.Sum("v"), "list": mt.Collect("v")}
AGGREGATES = [COMMUTATIVE, IN_ORDER, RANKS, WHERE, {**COMMUTATIVE, **IN_ORDER, **RANKS, **WHERE}]


@st.composite
def chosen(draw, windows):
    """Return one of the windows, some, or all of them at once."""
    name = st.sampled_from(list(windows))
    names = draw(
        st.one_of(
            st.sets(name, min_size=1, max_size=1), st.sets(name, min_size=1), st.just(windows)
        )
    )
    return {name: draw(windows[name]) for name in windows if name in names}


class Event(NamedTuple):
    kind: str
    key: int
    step: int
    back: int
    v: int | None
    x: float | None
    mark: bool


eighths = st.integers(-80, 80).map(lambda k: k / 8)
events = st.builds(
    Event,
    kind=st.sampled_from(["row"] * 10 + ["advance"] * 3 + ["cut", "restart"]),
    key=st.integers(0, 3),
    step=st.sampled_from([0, 1, 0, 1, 2, 0, 1, 3, 0, 4, 9, 45]),
    back=st.sampled_from([0, 0, 0, 0, 0, 0, 1, 4, 9, 20, 60]),
    v=st.one_of(st.integers(-50, 50), st.none()),
    x=st.one_of(eighths, st.none(), st.just(math.nan)),
    mark=st.sampled_from([False, False, False, False, True]),
)


@st.composite
def streams(draw, ordered=False):
    """Return a list of rows (dicts), watermarks (integers), and the words "cut" and "restart"."""
    least = draw(st.sampled_from([0, 30, 60, 90]))
    keys, clock = (
        draw(st.integers(1, 4)),
        draw(st.one_of(st.integers(-100, 100), st.just(THIS_YEAR))),
    )
    return written(draw(st.lists(events, min_size=least, max_size=120)), keys, clock, ordered)


def written(drawn, keys, clock, ordered):
    """Return a stream of what was drawn: some keys, and a clock that goes on with each row."""
    stream = []
    for n, event in enumerate(drawn):
        key = event.key % keys
        if event.kind == "row":
            clock += event.step
            t = clock + 5 * key if ordered else clock - event.back
            row = {"t": t, "room": "ab"[key % 2], "plug": key // 2, "n": n, "km": t // 2 * 3}
            row["gap"] = 1 + n * n % 13
            stream.append({**row, "v": event.v, "x": event.x, "mark": event.mark})
        elif event.kind == "advance":
            stream.append(clock - event.back % 8 + (not ordered))
        else:
            stream.append(event.kind)
    return [*stream, clock + 60]


def query_of(windows, aggregates, **options):
    return mt.Query(time="t", keys=KEYS, windows=windows, aggregates=aggregates, **options)


def same(got, expected):
    """Compare what came at one advance, (results, retracted), with what should have come."""
    (results, retracted), (wanted, gone) = got, expected
    assert {window: kind for window, (kind, _) in results.items()} == {
        window: kind for window, (kind, _) in wanted.items()
    }
    assert retracted == gone
    for window, (_, values) in results.items():
        assert_close(values, wanted[window][1], window)


def assert_close(values, wanted, window):
    assert values.keys() == wanted.keys()
    for name, value in values.items():
        assert close(value, wanted[name]), (window, name, value, wanted[name])


def drive(query, stream, plan, process, advance):
    """Give a stream to an operator; the two functions get what went in, and the table that came."""
    operator, batch = query.operator(plan=plan), []
    for event in stream:
        if isinstance(event, dict):
            batch.append(event)
            continue
        if event == "restart":
            operator = query.restore(operator.snapshot())
            continue
        if batch:
            process(batch, operator.process(batch))
            batch = []
        if event != "cut":
            advance(event, operator.advance(event))
    return operator


@ALL_PLANS
@THOROUGH
@given(
    stream=streams(),
    windows=chosen(WINDOWS),
    aggregates=st.sampled_from(AGGREGATES),
    lateness=st.sampled_from([0, 15, 60]),
    dropped=st.sampled_from(["count", "report"]),
)
def test_every_table_is_the_oracles(plan, stream, windows, aggregates, lateness, dropped):
    oracle, lost = WindowOracle(windows, aggregates, lateness, keys=KEYS), []

    def advance(watermark, table):
        same(read_results(table, KEYS), oracle.advance(watermark))

    def process(rows, table):
        oracle.process(rows)
        lost.extend(read_lost(table, KEYS))
        assert lost == (oracle.lost if dropped == "report" else [])

    query = query_of(windows, aggregates, lateness=lateness, dropped=dropped)
    counters = drive(query, stream, plan, process, advance).counters
    assert (counters.rows, counters.late) == (oracle.rows, oracle.late)
    assert counters.dropped == oracle.dropped


@PLANS
@QUICK
@given(
    stream=streams(ordered=True), windows=chosen(WINDOWS), aggregates=st.sampled_from(AGGREGATES)
)
def test_in_an_ordered_stream_results_come_with_the_rows(plan, stream, windows, aggregates):
    oracle, lost = WindowOracle(windows, aggregates, keys=KEYS, ordered=True), []

    def advance(watermark, table):
        same(read_results(table, KEYS), oracle.advance(watermark))

    def process(rows, table):
        same(read_results(table, KEYS), oracle.process(rows))
        lost.extend(read_lost(table, KEYS))
        assert lost == oracle.lost

    query = query_of(windows, aggregates, ordered=True, dropped="report")
    drive(query, stream, plan, process, advance)


@PLANS
@pytest.mark.parametrize("seed", [MORE])
@pytest.mark.parametrize("aggregates", [COMMUTATIVE, IN_ORDER], ids=["commutative", "in order"])
def test_many_keys_and_large_batches(seed, aggregates, plan):
    """More rows and keys than fit into what was first set aside for them."""
    rng = random.Random(seed)
    windows = {
        "tumbling": mt.Tumbling(16),
        "sliding": mt.Sliding(40, 9),
        "session": mt.Session(5),
        "count": mt.Sliding(7, 3, measure="count"),
        "marked": mt.Punctuation("mark"),
        "last": mt.LastN(4, 25),
        "left": mt.Policy(policies.within(30, "t"), 25),
    }
    oracle = WindowOracle(windows, aggregates, lateness=30, keys=KEYS)
    operator = query_of(windows, aggregates, lateness=30).operator(plan=plan)
    for step in range(6):
        rows = [random_row(rng, 60 * step) for _ in range(rng.choice([3, 300, 900]))]
        operator.process(rows)
        oracle.process(rows)
        watermark = 60 * step + rng.randrange(60)
        same(read_results(operator.advance(watermark), KEYS), oracle.advance(watermark))
        operator = query_of(windows, aggregates, lateness=30).restore(operator.snapshot())
    assert operator.counters.rows == oracle.rows
    assert operator.counters.dropped == oracle.dropped


def random_row(rng, start):
    hot = rng.random() < 0.2
    t = start + rng.randrange(-40, 60)
    return {
        "t": t,
        "room": "hot" if hot else rng.choice("abcdefghij"),
        "plug": 0 if hot else rng.randrange(12),
        "n": rng.randrange(10**6),
        "v": rng.choice([None, rng.randrange(100)]),
        "x": rng.randrange(800) / 8,
        "mark": rng.random() < 0.1,
    }


@pytest.mark.parametrize("name", catalogue.OF_TABLES)
def test_every_aggregate_of_the_registry_runs(name):
    aggregates = {"result": catalogue.of_columns(name), "rows": mt.Count()}
    windows = {
        "sliding": mt.Sliding(20, 6),
        "session": mt.Session(3),
        "count": mt.Tumbling(4, measure="count"),
        "marked": mt.Punctuation("mark"),
        "last": mt.LastN(3, 10),
    }
    oracle = WindowOracle(windows, aggregates, lateness=20, keys=KEYS)
    operator = query_of(windows, aggregates, lateness=20).operator()
    rng = random.Random(7)
    for step in range(4):
        rows = [random_row(rng, 60 * step) for _ in range(60)]
        for row in rows:
            if name in catalogue.WORDS and row["v"] is not None:
                row["v"] = "abcdefgh"[row["v"] % 8]
        operator.process(rows)
        oracle.process(rows)
        operator = query_of(windows, aggregates, lateness=20).restore(operator.snapshot())
        (results, retracted), (wanted, gone) = (
            read_results(operator.advance(60 * step + 40), KEYS),
            oracle.advance(60 * step + 40),
        )
        assert (results.keys(), retracted) == (wanted.keys(), gone)
        for window, (kind, values) in results.items():
            right = wanted[window][1]
            assert (kind, values.keys()) == (wanted[window][0], right.keys())
            for column, value in values.items():
                made = aggregates.get(column, aggregates["rows"])
                assert same_result(made, value, right[column]), (window, values, right)


@pytest.mark.parametrize("name", catalogue.OBJECTS)
def test_an_aggregate_whose_result_no_table_can_hold_is_refused_before_any_row(name):
    with pytest.raises(TypeError, match="'sketch'"):
        query_of({"tumbling": mt.Tumbling(10)}, {"sketch": catalogue.of_columns(name)}).operator()


@PLANS
@pytest.mark.parametrize("emit", ["every", "changes"])
@pytest.mark.parametrize(
    ("window", "results"),
    [(mt.Sliding(10, 1), 10), (mt.Session(4), 1), (mt.Fixed(0, 10), 1)],
    ids=["sliding", "session", "fixed"],
)
def test_a_long_silence_costs_nothing(window, results, emit, plan):
    """The windows between two rows are not walked through, however many there are."""
    operator = query_of({"w": window}, {"top": mt.Max("v")}, emit=emit).operator(plan=plan)
    for year in (0, THIS_YEAR):
        operator.process([{"t": year, "room": "a", "plug": 0, "v": 1}])
    kinds = operator.advance(2 * THIS_YEAR)["kind"].to_pylist()
    assert kinds.count("result") == (1 if emit == "changes" else results) * (
        1 if isinstance(window, mt.Fixed) else 2
    )


@PLANS
@pytest.mark.parametrize("emit", ["every", "changes"])
def test_a_long_silence_costs_nothing_in_windows_of_ones_own_either(emit, plan):
    asked = []

    class Counted(Shifts):
        def next_edge(self, t):
            asked.append(t)
            return super().next_edge(t)

    operator = query_of({"own": Counted()}, {"top": mt.Max("v")}, emit=emit).operator(plan=plan)
    for t in (0, 240_000):  # 20 000 windows apart
        operator.process([{"t": t, "room": "a", "plug": 0, "v": 1}])
    operator.advance(480_000)
    assert len(asked) < 1000


@pytest.mark.parametrize("plan", ["auto", "eager", "naive", "buckets"])
@QUICK
@given(
    stream=streams(),
    windows=chosen({name: PERIODIC[name] for name in ("tumbling", "sliding", "sparse")}),
    aggregates=st.sampled_from([EXACT, COMMUTATIVE]),
    lateness=st.sampled_from([0, 15, 60]),
)
def test_changes_replay_to_every_window(plan, stream, windows, aggregates, lateness):
    oracle = WindowOracle(windows, aggregates, lateness, keys=KEYS)
    kept = {}

    def advance(watermark, table):
        results, retracted = read_results(table, KEYS)
        for window in retracted:
            del kept[window]
        kept.update(results)
        oracle.advance(watermark)
        replayed, every = replay_changes(kept, windows, oracle.watermark), oracle.table()
        assert replayed.keys() == every.keys()
        for window, values in replayed.items():
            assert_close(values, every[window], window)
        if aggregates is EXACT:
            assert_each_is_a_change(kept)

    def process(rows, _table):
        oracle.process(rows)

    query = query_of(windows, aggregates, lateness=lateness, emit="changes")
    drive(query, stream, plan, process, advance)


def test_windows_that_do_not_repeat_are_each_reported():
    windows = {"fixed": mt.Fixed(0, 10), "shifts": Shifts(), "session": mt.Session(4)}
    query = query_of(windows, {"top": mt.Max("v")}, emit="changes")
    rows = [{"t": t, "room": "a", "plug": 0, "v": 1} for t in (1, 9, 25)]
    results = query.run(rows).to_pylist()
    assert {(row["window"], row["start"], row["kind"]) for row in results} == {
        ("fixed", 0, "result"),
        ("shifts", 0, "result"),
        ("shifts", 8, "result"),
        ("shifts", 24, "result"),
        ("session", 1, "result"),
        ("session", 9, "result"),
        ("session", 25, "result"),
    }


def assert_each_is_a_change(kept):
    before = {}
    for (key, name, _, end), (kind, values) in sorted(kept.items(), key=lambda item: item[0][3]):
        now = None if kind == "empty" else values
        assert before.get((key, name)) != now, (key, name, end)
        before[key, name] = now


@PLANS
def test_a_change_may_be_from_null_to_a_value(plan):
    windows = {"sliding": mt.Sliding(24, 2)}
    operator = query_of(windows, SUM, emit="changes", lateness=60).operator(plan=plan)
    kept = {}
    for t, value, watermark in ((-18, None, 8), (-9, 1, 71)):
        operator.process([{"t": t, "v": value, "room": "a", "plug": 0}])
        results, retracted = read_results(operator.advance(watermark), KEYS)
        kept = {window: kept[window] for window in kept.keys() - retracted} | results
    totals = {end: v["total"] for (*_, end), v in replay_changes(kept, windows, 71).items()}
    assert totals == {end: None if end <= -9 else 1 for end in range(-16, 15, 2)}


def test_changes_cost_as_many_results_as_rows():
    query = query_of({"hour": mt.Sliding(3600, 1)}, {"top": mt.Max("v")}, emit="changes")
    operator = query.operator()
    rows = [{"t": 100 * k, "room": "a", "plug": k, "v": 1} for k in range(50)]
    operator.process(rows)
    kinds = operator.advance(20_000)["kind"].to_pylist()
    assert sorted(kinds) == ["empty"] * 50 + ["result"] * 50


@ALL_PLANS
@pytest.mark.parametrize(("size", "every"), [(1, 3), (2, 3), (1, 2), (3, 1)])
def test_a_late_row_shifts_ranks_across_rows_that_no_window_has(size, every, plan):
    windows = {"count": mt.Sliding(size, every, measure="count")}
    oracle = WindowOracle(windows, LIST, lateness=15, keys=KEYS)
    operator = query_of(windows, LIST, lateness=15).operator(plan=plan)
    for times, watermark in (([0, 11, 0], 20), ([5], 21), ([12, 6, 30, 31, 32], 85)):
        rows = [{"t": t, "v": t, "room": "a", "plug": 0} for t in times]
        operator.process(rows)
        oracle.process(rows)
        same(read_results(operator.advance(watermark), KEYS), oracle.advance(watermark))


@ALL_PLANS
def test_a_delta_is_complete_by_any_row_before_the_watermark(plan):
    """The row at 9 has passed 10 km and is before the watermark; one at 10 has, but is not."""
    operator = query_of({"ten km": mt.Delta("km", 10)}, SUM).operator(plan=plan)
    rows = [
        {"t": t, "km": km, "v": 1, "room": "a", "plug": 0} for t, km in ((5, 3), (10, 12), (9, 12))
    ]
    operator.process(rows)
    assert operator.advance(9).num_rows == 0
    assert operator.advance(10)["total"].to_pylist() == [1]


@ALL_PLANS
def test_rows_of_one_time_keep_their_order_when_sessions_are_bridged(plan):
    """135 comes twice, in two batches; the second also brings the row that joins both to 90."""
    windows = {"session": mt.Session(25)}
    operator = query_of(windows, LIST).operator(plan=plan)
    for batch in ([(90, 1), (135, 2)], [(135, 3), (115, 4)]):
        operator.process([{"t": t, "v": v, "room": "a", "plug": 0} for t, v in batch])
    assert operator.advance(300).to_pylist()[0]["list"] == [1, 4, 2, 3]


# What is kept, and what is counted.

AHEAD = [{"t": t, "room": "a", "plug": 0, "v": t % 5, "mark": t == 17, "km": t} for t in range(40)]
BEHIND = [{**row, "t": row["t"] - 3} for row in AHEAD[::4]]
TIME = {"tumbling": mt.Tumbling(10), "sliding": mt.Sliding(20, 4), "fixed": mt.Fixed(3, 9)}


@pytest.mark.parametrize(
    ("windows", "aggregates", "ordered", "keeps"),
    [
        (TIME, SUM, False, False),
        (TIME, RANKS, False, False),
        (TIME, SUM, True, False),
        (TIME, LIST, True, False),
        ({"session": mt.Session(3)}, SUM, False, False),
        ({"session": mt.Session(3)}, LIST, True, False),
        ({**TIME, "session": mt.Session(3)}, SUM, False, False),
        ({"count": mt.Tumbling(7, measure="count")}, SUM, True, False),
        (TIME, LIST, False, True),
        ({"session": mt.Session(3)}, LIST, False, True),
        ({"count": mt.Tumbling(7, measure="count")}, SUM, False, True),
        ({**TIME, "count": mt.Sliding(7, 2, measure="count")}, SUM, False, True),
        ({"marked": mt.Punctuation("mark")}, SUM, False, True),
        ({"until": UntilSum("v", 9)}, SUM, False, True),
        ({"last": mt.LastN(5, 10)}, SUM, False, True),
        ({"last": mt.LastN(5, 10)}, SUM, True, True),
        ({"left": mt.Policy(policies.last(5), 10)}, SUM, False, True),
        ({"left": mt.Policy(policies.last(5), 10)}, SUM, True, True),
    ],
)
def test_rows_are_kept_only_where_the_decision_tree_says_so(windows, aggregates, ordered, keeps):
    rows = [{**row, "x": 1.0} for row in (AHEAD if ordered else AHEAD + BEHIND)]
    operator = query_of(windows, aggregates, ordered=ordered, lateness=100).operator()
    operator.process(rows)
    assert (operator.counters.rows_kept > 0) == keeps
    assert operator.counters.rows == len(rows)


def test_state_is_proportional_to_slices_and_goes_when_it_is_past():
    operator = query_of({"tumbling": mt.Tumbling(10)}, SUM).operator()
    rows = [{"t": i // 10, "room": "a", "plug": 0, "v": 1} for i in range(1000)]
    operator.process(rows)
    held = operator.counters
    for _ in range(9):
        operator.process(rows)
    assert operator.counters.slices == held.slices == 10
    assert operator.counters.state_bytes == held.state_bytes > 0
    assert operator.advance(200)["total"].to_pylist() == [1000] * 10
    assert operator.counters.slices == 0
    assert operator.counters.windows_reported == 10


def test_late_and_dropped_rows_are_counted():
    operator = query_of({"tumbling": mt.Tumbling(10)}, SUM, lateness=5).operator()
    operator.process([{"t": 3, "room": "a", "plug": 0, "v": 1}])
    operator.advance(12)
    for t in (11, 8, -4, 12):  # late but open, late but not past, past, on time
        operator.process([{"t": t, "room": "a", "plug": 0, "v": 1}])
    counters = operator.counters
    assert (counters.rows, counters.late, counters.dropped) == (5, 3, 1)
    results, _ = read_results(operator.advance(20), KEYS)
    assert {(s, e): (kind, v["total"]) for (_, _, s, e), (kind, v) in results.items()} == {
        (0, 10): ("update", 2),
        (10, 20): ("result", 2),
    }


# Windows that come and go.


@PLANS
@QUICK
@given(
    stream=streams(),
    windows=chosen(WINDOWS),
    added=chosen({name: WINDOWS[name] for name in (*PERIODIC, "session")}),
    aggregates=st.sampled_from([COMMUTATIVE, IN_ORDER]),
    lateness=st.sampled_from([0, 10]),
    share=st.floats(0, 1),
)
def test_an_added_window_reports_whole_windows_only(
    plan, stream, windows, added, aggregates, lateness, share
):
    """What it reports is whole, and all is reported that starts after everything that came before.

    A session starts so only if it is further than its gap from what came before.
    """
    stream = [event for event in stream if event not in ("cut", "restart")]
    added = {f"added {name}": window for name, window in added.items()}
    oracle = WindowOracle({**windows, **added}, aggregates, lateness, keys=KEYS)
    operator = query_of(windows, aggregates, lateness=lateness).operator(plan=plan)
    gaps = {name: getattr(window, "gap", 0) for name, window in added.items()}
    at, newest, complete, reported = round(share * (len(stream) - 1)), -math.inf, set(), set()
    for i, event in enumerate(stream):
        if i == at:
            newest = max([oracle.watermark, *(e["t"] for e in stream[:i] if isinstance(e, dict))])
            complete = oracle.table().keys()
            for name, window in added.items():
                operator.add_window(name, window)
        if isinstance(event, dict):
            operator.process([event])
            oracle.process([event])
            continue
        new, whole = read_results(operator.advance(event), KEYS), oracle.advance(event)
        same(*(tuple(map(only(windows), both)) for both in (new, whole)))
        results, retracted = map(only(added), new)
        for window, (_, values) in results.items():
            assert_close(values, oracle.table()[window], window)
        assert not results.keys() & complete
        assert retracted <= reported
        reported |= results.keys()
        wanted = {
            window for window in only(added)(whole[0]) if window[2] > newest + gaps[window[1]]
        }
        assert i < at or wanted <= results.keys()


def only(names):
    """Return a function that keeps the windows of some names, of a dict or of a set."""

    def keep(windows):
        kept = {window for window in windows if window[1] in names}
        return {w: windows[w] for w in kept} if isinstance(windows, dict) else kept

    return keep


def test_a_removed_window_reports_no_more_and_frees_what_it_needed():
    windows = {"tumbling": mt.Tumbling(10), "last": mt.LastN(3, 10), "fine": mt.Sliding(100, 1)}
    operator = query_of(windows, SUM).operator()
    operator.process(AHEAD)
    many, before = operator.counters.slices, operator.advance(20)
    assert set(before["window"].to_pylist()) == set(windows)
    assert operator.counters.rows_kept > 0
    operator.remove_window("last")
    operator.remove_window("fine")
    after = operator.advance(40)
    assert set(after["window"].to_pylist()) == {"tumbling"}
    assert after["total"].to_pylist() == [20, 20]
    operator.process([{**row, "t": row["t"] + 40} for row in AHEAD])
    assert operator.counters.rows_kept == 0
    assert operator.counters.slices < many
    with pytest.raises(KeyError, match="fine"):
        operator.remove_window("fine")


def test_a_window_can_not_be_added_twice():
    operator = query_of({"tumbling": mt.Tumbling(10)}, SUM).operator()
    with pytest.raises(ValueError, match="tumbling"):
        operator.add_window("tumbling", mt.Tumbling(5))


# What goes in, and what comes out.

TABLE = {
    "t": [5, 1, 12, 3, 31, 30, 14, 12],
    "room": ["a", "b", "a", "a", "b", "b", "a", "b"],
    "plug": [0, 1, 0, 0, 1, 1, 0, 1],
    "v": [4, 2, 7, 1, 9, 3, 8, 5],
}
KINDS = {
    "rows": lambda data: [
        dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)
    ],
    "dict of lists": lambda data: data,
    "dict of arrays": lambda data: {name: np.array(column) for name, column in data.items()},
    "arrow": pa.table,
    "arrow batch": pa.RecordBatch.from_pydict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
}
OVER_TABLE = {
    "tumbling": mt.Tumbling(10),
    "session": mt.Session(4),
    "count": mt.Tumbling(2, measure="count"),
    "big": mt.Punctuation(lambda row: row["v"] > 6),
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_data_goes_in(kind):
    aggregates = {"total": mt.Sum("v"), "list": mt.Collect("v")}
    oracle = WindowOracle(OVER_TABLE, aggregates, keys=KEYS)
    oracle.process(KINDS["rows"](TABLE))
    expected = oracle.advance(1000)
    query = query_of(OVER_TABLE, aggregates)
    operator = query.operator()
    operator.process(KINDS[kind](TABLE))
    same(read_results(operator.advance(1000), KEYS), expected)
    same(read_results(query.run(KINDS[kind](TABLE)), KEYS), expected)


def test_the_result_is_an_arrow_table_with_promised_columns():
    operator = query_of(OVER_TABLE, {"total": mt.Sum("v"), "mean": mt.Mean("v")}).operator()
    empty = operator.advance(-1000)
    operator.process(KINDS["arrow"](TABLE))
    table = operator.advance(1000)
    columns = ["room", "plug", "window", "start", "end", "start_measure", "end_measure", "kind"]
    columns += ["total", "mean"]
    assert table.column_names == empty.column_names == columns
    types = dict(zip(columns, table.schema.types, strict=True))
    assert types["start"] == types["end"] == types["total"] == pa.int64()
    assert types["mean"] == pa.float64()
    assert empty.num_rows == 0


def test_a_watermark_that_does_not_advance_is_ignored():
    operator = query_of({"tumbling": mt.Tumbling(10)}, SUM, lateness=50).operator()
    operator.process([{"t": 3, "room": "a", "plug": 0, "v": 1}])
    assert operator.advance(20).num_rows == 1
    operator.process([{"t": 4, "room": "a", "plug": 0, "v": 1}])
    assert operator.advance(20).num_rows == 0
    assert operator.advance(5).num_rows == 0
    assert operator.advance(21).to_pylist()[0]["total"] == 2


def test_an_empty_batch_is_no_batch():
    operator = query_of({"tumbling": mt.Tumbling(10)}, SUM).operator()
    operator.process([])
    operator.process(pa.table(TABLE).slice(0, 0))
    assert operator.counters.rows == 0
    assert operator.advance(1000).num_rows == 0


@pytest.mark.parametrize("kind", ["rows", "arrow", "pandas", "polars"])
def test_times_may_be_moments(kind):
    noon = dt.datetime(2026, 1, 31, 12)
    data = {
        "at": [noon + dt.timedelta(minutes=m) for m in (0, 59, 60, 90)],
        "v": [1, 2, 3, 4],
    }
    windows = {"hour": mt.Tumbling("1 hour")}
    query = mt.Query(time="at", windows=windows, aggregates={"total": mt.Sum("v")})
    operator = query.operator()
    operator.process(KINDS[kind](data))
    table = operator.advance(noon + dt.timedelta(hours=1))
    assert [(row["start"], row["end"], row["total"]) for row in table.to_pylist()] == [
        (noon, noon + dt.timedelta(hours=1), 3)
    ]


@pytest.mark.parametrize(
    "keys",
    [["x", "y"], [1, 2], [1.5, -0.5], [None, "x"], [True, False], [dt.date(2026, 1, 31), None]],
)
def test_keys_may_be_anything_hashable(keys):
    query = mt.Query(
        time="t", keys=("k",), windows={"all": mt.Tumbling(10)}, aggregates={"n": mt.Count()}
    )
    operator = query.operator()
    operator.process([{"t": 1, "k": key} for key in [*keys, keys[0]]])
    operator = query.restore(operator.snapshot())
    operator.process([{"t": 2, "k": key} for key in keys])
    counts = {row["k"]: row["n"] for row in operator.advance(10).to_pylist()}
    assert counts == {keys[0]: 3, keys[1]: 2}


def test_a_plan_that_does_not_exist_is_refused_by_name():
    with pytest.raises(ValueError, match="fastest"):
        query_of({"tumbling": mt.Tumbling(10)}, SUM).operator(plan="fastest")
