"""lookup gives what each window holds at a time, or says why it cannot; it changes nothing."""

import random

import pyarrow as pa
import pytest

import muntin as mt
from muntin.aggregates import close
from tests.as_of_oracle import as_of_rows
from tests.test_as_of import AGGREGATES, WINDOWS, rows_of

KEYS = [0, 1, 2, 3, 1]
"""Keys that are asked for: the last one never comes, one is asked twice."""


def cut(rows, seed, disorder):
    """Return batches of rows that come in order of time, but for some disorder."""
    rng = random.Random(seed)
    order = sorted(rows, key=lambda row: row["t"] + rng.uniform(0, disorder))
    batches = []
    while order:
        many = rng.randrange(1, 35)
        batches.append(order[:many])
        order = order[many:]
    return batches


def expected(query, rows, t):
    labels = [{"key": key, "at": t} for key in KEYS]
    return as_of_rows(labels, rows, query, "at")


def assert_same(found, wanted):
    assert len(found) == len(wanted)
    for got, right in zip(found, wanted, strict=True):
        for column, value in right.items():
            assert close(got[column], value), (got["key"], column, got[column], value)


def tried(op, t, says):
    """Return what a lookup gives, or nothing if it is refused with such a message."""
    try:
        return op.lookup({"key": KEYS}, at=t).to_pylist()
    except ValueError as error:
        if says not in str(error):
            raise
        return None


def run(query, batches, *, disorder, seed=0, restore=False, plan="auto"):
    """Look at all windows after each batch: now, a little later, and at many times before."""
    rng = random.Random(seed)
    op, seen, answered = query.operator(plan), [], 0
    for batch in batches:
        op.process(batch)
        seen += batch
        latest = max(row["t"] for row in seen)
        if not query.ordered:
            op.advance(latest - disorder)
        if restore and rng.random() < 0.3:
            op = query.restore(op.snapshot())
        before = op.snapshot()
        assert_same(op.lookup({"key": KEYS}).to_pylist(), expected(query, seen, latest + 1))
        for t in (latest + 1, latest + 3, latest + rng.randrange(1, 60)):
            assert_same(op.lookup({"key": KEYS}, at=t).to_pylist(), expected(query, seen, t))
        for t in (latest - rng.randrange(40) for _ in range(4)):
            found = tried(op, t, "ask for")
            if found is not None:
                answered += 1
                assert_same(found, expected(query, seen, t))
        assert op.snapshot() == before
    return answered


@pytest.mark.parametrize(("seed", "late"), [(0, 0), (1, 10), (3, 10)])
def test_a_lookup_gives_what_each_window_holds(seed, late):
    query = mt.Query(
        time="t", keys="key", windows=WINDOWS, aggregates=AGGREGATES, lateness=late, watermark=late
    )
    batches = cut(rows_of(seed, 120), seed, late)
    run(query, batches, disorder=late, seed=seed, restore=True)


@pytest.mark.parametrize("name", [*WINDOWS])
@pytest.mark.parametrize("plan", ["auto", "eager", "tuple buffer"])
def test_each_window_alone(name, plan):
    aggregates = {name: AGGREGATES[name] for name in ("n", "sum", "max")}
    query = mt.Query(
        time="t", keys="key", windows={name: WINDOWS[name]}, aggregates=aggregates, lateness=7
    )
    answered = run(query, cut(rows_of(5, 90), 5, 7), disorder=7, seed=3, plan=plan)
    assert answered or name not in ("tumbling", "sliding", "exact", "cumulate", "last")


@pytest.mark.parametrize("seed", range(2))
def test_in_an_ordered_stream(seed):
    rows = sorted(rows_of(seed, 120), key=lambda row: row["t"])
    query = mt.Query(time="t", keys="key", windows=WINDOWS, aggregates=AGGREGATES, ordered=True)
    run(query, cut(rows, seed, 0), disorder=0, seed=seed, restore=True)


def test_where_rows_are_kept_any_time_is_exact():
    query = mt.Query(
        time="t",
        keys="key",
        windows={"w": mt.Sliding(20, 10), "s": mt.Session(4)},
        aggregates={"list": mt.Collect("n"), "last": mt.Last("n")},
        lateness=500,
    )
    rows = rows_of(3, 80)
    op = query.operator()
    op.process(rows)
    for t in range(-30, 130, 3):
        assert_same(op.lookup({"key": KEYS}, at=t).to_pylist(), expected(query, rows, t))


def test_a_query_without_keys_and_one_without_rows():
    query = mt.Query(
        time="t", windows={"w": mt.Tumbling(10)}, aggregates={"n": mt.Count(), "m": mt.Max("v")}
    )
    op = query.operator()
    assert op.lookup().to_pylist() == [{"w_n": 0, "w_m": None}]
    op.process({"t": [1, 12, 13], "v": [5, 6, 2]})
    assert op.lookup().to_pylist() == [{"w_n": 2, "w_m": 6}]
    assert op.lookup(at=10).to_pylist() == [{"w_n": 0, "w_m": None}]
    assert op.lookup(at=10_000).to_pylist() == [{"w_n": 0, "w_m": None}]


def test_times_and_errors():
    query = mt.Query(
        time="t",
        keys="user",
        windows={"w": mt.Sliding(20, 10)},
        aggregates={"n": mt.Count(), "sum": mt.Sum("v")},
    )
    op = query.operator()
    op.process({"t": [1, 15], "user": ["a", "a"], "v": [2**62, 2**62]})
    with pytest.raises(OverflowError, match="window 'w' of key user='a'"):
        op.lookup({"user": ["a"]}, at=16)
    op = query.operator()
    op.process({"t": [1, 15, 95], "user": ["a", "a", "b"], "v": [2, 3, 1]})
    with pytest.raises(ValueError, match=r"at 12 ends within a slice of key user='a'.* \(15\)"):
        op.lookup({"user": ["a"]}, at=12)
    op.advance(90)
    assert op.lookup({"user": ["a", "c"]}, at=90)["w_n"].to_pylist() == [0, 0]
    with pytest.raises(ValueError, match="window 'w' at 20 needs rows of key user='a' that have"):
        op.lookup({"user": ["a"]}, at=20)
    with pytest.raises(KeyError, match="no column 'user'"):
        op.lookup({"users": ["a"]})
    with pytest.raises(TypeError, match="'user' had the type"):
        op.lookup({"user": [7]})
    with pytest.raises(TypeError, match="the time of a lookup is a time"):
        op.lookup({"user": ["a"]}, at="soon")
    with pytest.raises(ValueError, match="lookup 0 has time .* beyond"):
        op.lookup({"user": ["a"]}, at=2**80)
    assert op.lookup(pa.table({"user": ["b"]}))["w_n"].to_pylist() == [1]
    assert op.counters.keys == 2


def test_windows_that_are_refused():
    rows = {"t": [1], "k": [1], "v": [1]}
    for window in (mt.Tumbling(5, measure="count"), mt.Fixed(0, 10), mt.Sliding(5, 10)):
        op = mt.Query(time="t", windows={"odd": window}, aggregates={"n": mt.Count()}).operator()
        op.process(rows)
        with pytest.raises(ValueError, match=r"window 'odd' .* says nothing about a time"):
            op.lookup()
    query = mt.Query(time="t", windows={"w": mt.LastN(3, 5)}, aggregates={"n": mt.Count()}, idle=20)
    op = query.operator()
    op.process(rows)
    with pytest.raises(ValueError, match="'w' cannot be looked at in a query with idle"):
        op.lookup()
    query = mt.Query(time="t", windows={"w": mt.Sliding(10, 5)}, aggregates={"n": mt.Count()})
    op = query.operator("buckets")
    op.process(rows)
    with pytest.raises(ValueError, match="'buckets' has no lookups"):
        op.lookup()


@pytest.mark.parametrize("seed", range(3))
def test_windows_and_aggregates_that_are_added_hold_all_or_it_is_an_error(seed):
    rows = rows_of(seed, 160)
    batches = cut(rows, seed, 6)
    some = {name: WINDOWS[name] for name in ("tumbling", "session", "last")}
    query = mt.Query(time="t", keys="key", windows=some, aggregates={"n": mt.Count()}, lateness=6)
    op, seen, answered = query.operator(), [], 0
    for i, batch in enumerate(batches):
        op.process(batch)
        seen += batch
        op.advance(max(row["t"] for row in seen) - 6)
        if i == 3:
            for name in ("sliding", "exact", "cumulate", "marked", "stepwise"):
                op.add_window(name, WINDOWS[name])
            op.add_window("session 2", mt.Session(6))
            op.add_window("last 2", mt.LastN(2, 7))
        t = max(row["t"] for row in seen) + 1
        found = tried(op, t, "before the window was added" if i >= 3 else "no error")
        if found is not None:
            answered += i > 3
            assert_same(found, expected(op.query, seen, t))
    assert answered or seed
