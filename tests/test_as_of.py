"""as_of gives what each window held at each label, for all aggregates and windows."""

import datetime as dt
import math
import random
from functools import partial

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
from tests.as_of_oracle import as_of_rows
from tests.catalogue import ALL, make
from tests.test_query_properties import POLICIES, Shifts

QUICK = settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
WINDOWS = {
    "tumbling": mt.Tumbling(10, origin=3),
    "sliding": mt.Sliding(20, 6, origin=1),
    "stepwise": mt.Sliding(8, 8),
    "exact": mt.Sliding(15, every=mt.rows(1)),
    "cumulate": mt.Cumulate(30, 5, origin=2),
    "shifts": Shifts(),
    "session": mt.Session(4),
    "marked": mt.Punctuation("mark"),
    "big": mt.Punctuation(lambda row: (row["n"] or 0) > 90),
    "last": mt.LastN(4, 7),
    "left": mt.Policy(policies.sum_at_most(90, "n"), 7),
    "recent": mt.Policy(policies.within(12, "t") | policies.last(6), 5),
}
AGGREGATES = {
    "n": mt.Count(),
    "sum": mt.Sum("n"),
    "max": mt.Max("v"),
    "median": mt.Median("v"),
    "list": mt.Collect("v", nulls=True),
    "some": mt.Mean("n", where=mt.col("n") > 40),
}


def rows_of(seed, count, spread=120, keys=3):
    rng = random.Random(seed)
    return [
        {
            "key": rng.randrange(keys),
            "t": (t := rng.randrange(-40, spread)),
            "n": rng.choice([None, *range(100)]),
            "v": rng.choice([None, 1.5, 2.0, math.nan, -3.25, 8.0]),
            "mark": rng.random() < 0.2,
            "seen": t + rng.choice([0, 0, 0, 1, 5, 30]),
        }
        for _ in range(count)
    ]


def labels_of(seed, count, spread=140, keys=4):
    rng = random.Random(seed)
    return [
        {"id": i, "key": rng.randrange(keys), "at": rng.randrange(-60, spread)}
        for i in range(count)
    ]


def assert_as_defined(labels, events, query, **options):
    table = pa.Table.from_pylist(labels)
    rows = pa.Table.from_pylist(events)
    found = mt.as_of(table, rows, query, at="at", **options).to_pylist()
    wanted = as_of_rows(labels, events, query, "at", **options)
    for label, got, right in zip(labels, found, wanted, strict=True):
        assert {name: got.pop(name) for name in label} == label
        assert got.keys() == right.keys()
        for column, value in right.items():
            assert close(got[column], value), (label, column, got[column], value)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("include_equal", [False, True])
def test_each_label_has_what_its_windows_held(seed, include_equal):
    query = mt.Query(time="t", keys="key", windows=WINDOWS, aggregates=AGGREGATES)
    events = rows_of(seed, 150)
    assert_as_defined(labels_of(seed + 50, 40), events, query, include_equal=include_equal)


@pytest.mark.parametrize("seed", range(4))
def test_events_that_were_not_known_are_left_out(seed):
    query = mt.Query(time="t", keys="key", windows=WINDOWS, aggregates=AGGREGATES)
    assert_as_defined(labels_of(seed + 50, 60), rows_of(seed, 120), query, known="seen")


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_what_each_policy_leaves(policy):
    query = mt.Query(
        time="t",
        keys="key",
        windows={"left": mt.Policy(policy, 6)},
        aggregates={"list": mt.Collect("t")},
    )
    events = [
        row | {"v": int(row["v"] or 0) if row["v"] == row["v"] else 3} for row in rows_of(9, 90)
    ]
    assert_as_defined(labels_of(8, 60), events, query)


def test_lives_of_keys_end():
    windows = {name: WINDOWS[name] for name in ("last", "marked", "left", "recent", "big")}
    query = mt.Query(time="t", keys="key", windows=windows, aggregates=AGGREGATES, idle=5)
    assert_as_defined(labels_of(1, 60), rows_of(2, 80), query)


@pytest.mark.parametrize("name", [*ALL])
@QUICK
@given(st.data())
def test_every_aggregate(name, data):
    aggregate, values = make(name)
    if aggregate.result == "object":
        pytest.skip("a query has no aggregate whose result is an object of its own")
    pairs = name in ("ArgMin", "ArgMax", "own") or aggregate.timed is not None
    columns = aggregate.columns or ("v", "w")[: 2 if pairs else 1]
    distinct = tuple(dict.fromkeys(columns))
    raw = data.draw(st.lists(values, max_size=30))
    times = data.draw(st.lists(st.integers(0, 40), min_size=len(raw), max_size=len(raw)))
    events = [{"t": t} | _columns_of(v, distinct) for t, v in zip(times, raw, strict=True)]
    factory = ALL[name][0]
    named = _with_columns(factory, name, columns)
    query = mt.Query(
        time="t",
        windows={"s": mt.Sliding(12, 4), "e": mt.Sliding(9, every=mt.rows(1)), "o": mt.Session(2)},
        aggregates={"a": named},
    )
    labels = [{"at": t} for t in data.draw(st.lists(st.integers(-3, 60), min_size=1, max_size=8))]
    frame = {"t": [e["t"] for e in events]} | {c: [e[c] for e in events] for c in distinct}
    found = mt.as_of(labels, frame, query, at="at").to_pylist()
    for got, right in zip(found, as_of_rows(labels, events, query, "at"), strict=True):
        for column, value in right.items():
            alike = same if named.agree is None else partial(same_result, named)
            assert alike(got[column], value), (column, got[column], value)


def _columns_of(value, columns):
    if isinstance(value, dict):
        return value
    return dict(
        zip(columns, (value if len(columns) > 1 else (value,)) or (None, None), strict=True)
    )


def _with_columns(factory, name, columns):
    from dataclasses import replace

    if name == "Product":
        return mt.Product(top=mt.Max("v"), total=mt.Sum("v"), all=mt.Collect("v"))
    made = factory()
    return made if not made.columns and name == "Count" else replace(made, columns=columns)


def same(found, right):
    """Whether results are equal, of which a struct has names and a tuple none."""
    found, right = (tuple(x.values()) if isinstance(x, dict) else x for x in (found, right))
    if isinstance(found, list) and isinstance(right, list | tuple):
        return len(found) == len(right) and all(map(same, found, right))
    if isinstance(found, tuple) and isinstance(right, tuple | list):
        return len(found) == len(right) and all(map(same, found, right))
    return close(found, right)


def test_frames_come_back_in_their_kind():
    query = mt.Query(
        time="t",
        keys="user",
        windows={"hour": mt.Sliding("1 h", "1 min")},
        aggregates={"n": mt.Count(), "paid": mt.Sum("cents")},
    )
    moments = [dt.datetime(2026, 1, 1, 8, m) for m in (0, 10, 20)]
    events = pl.DataFrame({"t": moments, "user": ["a", "a", "b"], "cents": [5, 7, 9]})
    at = [dt.datetime(2026, 1, 1, 8, 10), dt.datetime(2026, 1, 1, 12)]
    labels = pd.DataFrame({"user": ["a", "c"], "when": at}, index=["x", "y"])
    found = mt.as_of(labels, events, query, at="when")
    assert isinstance(found, pd.DataFrame)
    assert list(found.index) == ["x", "y"]
    assert list(found.columns) == ["user", "when", "hour_n", "hour_paid"]
    assert found["hour_n"].tolist() == [1, 0]
    assert found["hour_paid"].dtype == "Int64"
    assert found["hour_paid"].tolist() == [5, pd.NA]
    polars = mt.as_of(pl.from_pandas(labels), events, query, at="when")
    assert polars["hour_paid"].to_list() == [5, None]
    arrow = mt.as_of(pa.Table.from_pandas(labels, preserve_index=False), events, query, at="when")
    assert arrow["hour_paid"].type == pa.int64()
    assert labels.columns.tolist() == ["user", "when"]  # what came in is as it was


def test_no_events_and_no_labels():
    query = mt.Query(
        time="t",
        keys="k",
        windows={"w": mt.Tumbling(5)},
        aggregates={"n": mt.Count(), "m": mt.Max("v")},
    )
    nothing = {"t": np.zeros(0, np.int64), "k": np.zeros(0, np.int64), "v": np.zeros(0)}
    found = mt.as_of({"k": [1], "at": [3]}, nothing, query, at="at")
    assert found.to_pylist() == [{"k": 1, "at": 3, "w_n": 0, "w_m": None}]
    events = {"t": [1], "k": [1], "v": [2.0]}
    none = {"k": np.zeros(0, np.int64), "at": np.zeros(0, np.int64)}
    assert mt.as_of(none, events, query, at="at").num_rows == 0


def test_an_aggregate_over_one_window_has_one_column():
    query = mt.Query(
        time="t",
        windows={"a": mt.Tumbling(5), "b": mt.Tumbling(10)},
        aggregates={"n": mt.Count(), "m": mt.Max("v").over("b")},
    )
    found = mt.as_of({"at": [4, 9]}, {"t": [1, 6], "v": [3, 2]}, query, at="at")
    assert found.column_names == ["at", "a_n", "b_n", "b_m"]
    assert found["b_m"].to_pylist() == [3, 3]


@pytest.mark.parametrize(
    "window",
    [
        mt.Tumbling(5, measure="count"),
        mt.Delta("km", 5),
        mt.Delta("km", 5.5, every=mt.rows(1)),
        mt.Fixed(0, 10),
        mt.Sliding(5, every=mt.rows(2)),
        mt.Sliding(5, 10),
    ],
    ids=repr,
)
def test_windows_that_say_nothing_about_a_time(window):
    query = mt.Query(time="t", windows={"odd": window}, aggregates={"n": mt.Count()})
    with pytest.raises(ValueError, match=r"window 'odd' .* says nothing about a time"):
        mt.as_of({"at": [1]}, {"t": [1], "km": [1]}, query, at="at")


@pytest.mark.parametrize(
    ("labels", "events", "options", "error", "says"),
    [
        ({"k": [1]}, {}, {}, KeyError, "no column 'at'"),
        ({"k": [1, 1], "at": [4, None]}, {}, {}, ValueError, "label 1 .* is null"),
        ({"k": ["x"], "at": [4]}, {}, {}, TypeError, "'k' had the type int64 and now has string"),
        ({"k": [1], "at": [dt.datetime(2026, 1, 1)]}, {}, {}, TypeError, "one type"),
        ({"k": [1], "at": [1], "w_n": [1]}, {}, {}, ValueError, "two columns 'w_n'"),
        ({"k": [1], "at": [2**62]}, {}, {}, ValueError, "label 0 .* beyond"),
        ({"k": [1], "at": [1]}, {}, {"known": "seen"}, KeyError, "no column 'seen'"),
        (
            {"k": [1], "at": [1]},
            {"seen": [None]},
            {"known": "seen"},
            ValueError,
            "event 0 .* 'seen'",
        ),
        ({"k": [1], "at": [9]}, {"v": [2**62, 2**62]}, {}, OverflowError, "label 0 of k=1"),
        ({"k": [1], "at": [9]}, {"t": [None]}, {}, ValueError, "time of row 0"),
    ],
)
def test_errors_say_what_to_do(labels, events, options, error, says):
    query = mt.Query(
        time="t", keys="k", windows={"w": mt.Tumbling(50)}, aggregates={"n": mt.Sum("v")}
    )
    rows = len(events.get("v", [1]))
    given_events = {"t": [1] * rows, "k": [1] * rows, "v": [1] * rows} | events
    with pytest.raises(error, match=says):
        mt.as_of(labels, given_events, query, at="at", **options)
