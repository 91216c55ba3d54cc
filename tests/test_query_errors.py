"""What a query refuses: in words that name the fault, and without a trace in its state."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import muntin as mt
from tests.window_oracle import read_results

WINDOWS = {"tumbling": mt.Tumbling(10), "session": mt.Session(5)}
AGGREGATES = {"total": mt.Sum("v"), "list": mt.Collect("v")}
GOOD = [{"t": t, "plug": "ab"[t % 2], "v": t % 7} for t in range(30)]


def query_of(**changes):
    options = {"time": "t", "keys": ("plug",), "windows": WINDOWS, "aggregates": AGGREGATES}
    return mt.Query(**{**options, **changes})


def counts(operator):
    """Return all counters but the bytes, which may differ with spare room."""
    names = ("rows", "late", "dropped", "slices", "rows_kept", "windows_reported")
    return {name: getattr(operator.counters, name) for name in names}


# The query itself.


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"windows": {}}, ValueError, "window"),
        ({"aggregates": {}}, ValueError, "aggregate"),
        ({"windows": {"w": mt.Sum("v")}}, TypeError, "'w'"),
        ({"windows": {"w": 10}}, TypeError, "10"),
        ({"windows": [mt.Tumbling(10)]}, TypeError, "name"),
        ({"windows": {1: mt.Tumbling(10)}}, TypeError, "1"),
        ({"aggregates": {"a": mt.Tumbling(10)}}, TypeError, "'a'"),
        ({"aggregates": {"a": "sum"}}, TypeError, "'sum'"),
        ({"aggregates": {"a": mt.Sum}}, TypeError, "Sum"),
        ({"aggregates": [mt.Sum("v")]}, TypeError, "name"),
        ({"aggregates": {2: mt.Sum("v")}}, TypeError, "2"),
        ({"aggregates": {"a": mt.Sum()}}, ValueError, "'a'.*column"),
        ({"aggregates": {"a": mt.ArgMax()}}, ValueError, "'a'.*column"),
        ({"time": None}, TypeError, "time"),
        ({"keys": (3,)}, TypeError, "3"),
        ({"keys": ("plug", "plug")}, ValueError, "'plug'"),
        ({"lateness": -1}, ValueError, "lateness.*-1"),
        ({"lateness": "soon"}, ValueError, "'soon' is not a duration"),
        ({"lateness": 1.5}, TypeError, "1.5"),
        ({"emit": "some"}, ValueError, "'some'"),
        ({"on_bad_time": "ignore"}, ValueError, "'ignore'"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        query_of(**changes)


@pytest.mark.parametrize("name", ["window", "start", "end", "kind"])
def test_the_names_of_the_results_columns_are_taken(name):
    with pytest.raises(ValueError, match=f"'{name}'"):
        query_of(aggregates={name: mt.Sum("v")})
    with pytest.raises(ValueError, match=f"'{name}'"):
        query_of(keys=("plug", name))


def test_a_key_and_an_aggregate_of_one_name_are_refused():
    with pytest.raises(ValueError, match="'plug'"):
        query_of(aggregates={"plug": mt.Sum("v")})


def test_a_window_of_no_size_is_refused():
    with pytest.raises(ValueError, match="above zero"):
        query_of(windows={"none": mt.Tumbling(0)})


def test_count_is_the_aggregate_that_needs_no_column():
    operator = query_of(aggregates={"n": mt.Count()}).operator()
    operator.process(GOOD)
    assert sum(operator.advance(100)["n"].to_pylist()) == 2 * len(GOOD)


def test_a_query_can_not_be_changed_under_its_operator():
    windows = dict(WINDOWS)
    operator = query_of(windows=windows).operator()
    windows["late"] = mt.Tumbling(3)
    operator.process(GOOD)
    assert set(operator.advance(100)["window"].to_pylist()) == set(WINDOWS)


# Rows. A fault comes in the middle of a batch, or in all of it; nothing of it may be applied.


def without(column):
    """Take a column out of all rows; where only some have it, the others have null."""
    return lambda rows: [
        {name: value for name, value in row.items() if name != column} for row in rows
    ]


def having(**values):
    """Spoil the row at 3."""
    return lambda rows: [{**row, **(values if i == 3 else {})} for i, row in enumerate(rows)]


FAULTS = {
    "no time column": (without("t"), KeyError, "'t'"),
    "no key column": (without("plug"), KeyError, "'plug'"),
    "no value column": (without("v"), KeyError, "'v'"),
    "null time": (having(t=None), ValueError, r"row 3\b"),
    "text for a time": (having(t="noon"), TypeError, "'t'"),
    "fraction for a time": (having(t=3.5), TypeError, "'t'"),
    "truth for a time": (having(t=True), TypeError, "'t'"),
    "huge time": (having(t=2**70), (TypeError, ValueError, OverflowError), "'t'"),
    "text under a sum": (having(v="x"), TypeError, "'v'"),
    "list for a key": (having(plug=[1, 2]), TypeError, "'plug'"),
}


@pytest.mark.parametrize("plan", ["auto", "naive"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_row_is_named_and_its_batch_is_not_applied(fault, plan):
    spoil, error, message = FAULTS[fault]
    operator, untouched = (query_of(lateness=20).operator(plan=plan) for _ in range(2))
    both = (operator, untouched)
    for one in both:
        one.process(GOOD[:15])
    before = operator.snapshot()
    with pytest.raises(error, match=message):
        operator.process(spoil(GOOD[15:25]))
    assert operator.snapshot() == before
    for watermark, rows in ((12, GOOD[15:25]), (14, GOOD[:5]), (100, GOOD[25:])):
        first, second = (read_results(one.advance(watermark), ("plug",)) for one in both)
        assert first == second
        for one in both:
            one.process(rows)
    assert counts(operator) == counts(untouched)


@pytest.mark.parametrize("column", ["t", "plug", "v"])
@pytest.mark.parametrize("kind", [pa.Table.from_pylist, pd.DataFrame, list], ids=str)
def test_a_missing_column_is_told_beside_those_that_are_there(kind, column):
    rows = without(column)(GOOD)
    with pytest.raises(KeyError) as missing:
        query_of().operator().process(kind(rows))
    message = str(missing.value)
    assert f"'{column}'" in message
    assert all(f"'{name}'" in message for name in rows[0])


def test_an_error_in_a_predicate_spoils_nothing():
    def above(row):
        return row["v"] > 3

    operator = query_of(windows={"above": mt.Punctuation(above)}).operator()
    operator.process(GOOD[:15])
    with pytest.raises(TypeError):
        operator.process([*GOOD[15:18], {**GOOD[18], "v": None}, GOOD[19]])
    other = query_of(windows={"above": mt.Punctuation(above)}).operator()
    other.process(GOOD[:15])
    assert counts(operator) == counts(other)
    assert operator.advance(100).equals(other.advance(100))


@pytest.mark.parametrize("kind", ["rows", "arrow", "pandas"])
def test_rows_without_a_time_may_be_dropped_and_counted(kind):
    rows = [{**row, "t": None if i in (2, 5) else row["t"]} for i, row in enumerate(GOOD)]
    operator, clean = query_of(on_bad_time="drop").operator(), query_of().operator()
    frame = pd.DataFrame(rows)
    data = {
        "rows": rows,
        "arrow": pa.Table.from_pylist(rows),
        "pandas": frame.astype({"t": "Int64"}),
    }
    operator.process(data[kind])
    clean.process([row for row in rows if row["t"] is not None])
    assert operator.counters.bad_times == 2
    assert counts(operator) == counts(clean)
    assert operator.advance(100).equals(clean.advance(100))


@pytest.mark.parametrize("place", [0, 4, 9])
def test_a_disordered_row_in_an_ordered_stream_is_named_with_its_key(place):
    operator, untouched = (query_of(ordered=True).operator() for _ in range(2))
    for one in (operator, untouched):
        one.process(GOOD[:15])
    batch = [*GOOD[15 : 15 + place], {"t": 7, "plug": "b", "v": 1}, *GOOD[15 + place :]]
    with pytest.raises(ValueError, match=rf"row {place}\b.*'b'") as disorder:
        operator.process(batch)
    assert "7" in str(disorder.value)
    assert counts(operator) == counts(untouched)
    assert operator.process(GOOD[15:]).equals(untouched.process(GOOD[15:]))


def test_order_is_promised_for_each_key_alone():
    operator = query_of(ordered=True).operator()
    operator.process([{"t": 50, "plug": "a", "v": 1}])
    table = operator.process([{"t": 5, "plug": "b", "v": 2}, {"t": 5, "plug": "b", "v": 3}])
    assert table.num_rows == 0
    assert operator.process([{"t": 10, "plug": "b", "v": 4}]).to_pylist() == [
        {
            "plug": "b",
            "window": "tumbling",
            "start": 0,
            "end": 10,
            "kind": "result",
            "total": 5,
            "list": [2, 3],
        }
    ]


SCALARS = {"t": 3, "plug": "a", "v": 1}


@pytest.mark.parametrize("batch", [3, "rows", [1, 2], [("t", 1)], SCALARS, np.arange(3)], ids=str)
def test_what_is_no_batch_is_refused(batch):
    with pytest.raises((TypeError, ValueError)):
        query_of().operator().process(batch)


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="'plug' has 1"):
        query_of().operator().process({"t": [1, 2], "plug": ["a"], "v": [1, 2]})


@pytest.mark.parametrize("watermark", ["soon", 3.5, math.nan, True, pd.NaT, np.datetime64("NaT")])
def test_what_is_no_watermark_is_refused(watermark):
    operator = query_of().operator()
    operator.process(GOOD)
    with pytest.raises(TypeError, match="a watermark is a time, got"):
        operator.advance(watermark)
    assert operator.advance(100).num_rows > 0


# Snapshots.


def used():
    operator = query_of(lateness=5).operator()
    operator.process(GOOD[:20])
    operator.advance(12)
    return operator


def test_damaged_bytes_are_refused():
    snapshot, query = used().snapshot(), query_of(lateness=5)
    for length in range(0, len(snapshot), 7):
        with pytest.raises(mt.SnapshotError):
            query.restore(snapshot[:length])
    for i in range(0, len(snapshot), 7):
        with pytest.raises(mt.SnapshotError):
            query.restore(snapshot[:i] + bytes([snapshot[i] ^ 0x41]) + snapshot[i + 1 :])
    for other in (b"", b"anything", None, "text", mt.Recalc(mt.Sum()).snapshot()):
        with pytest.raises(mt.SnapshotError):
            query.restore(other)


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"windows": {"tumbling": mt.Tumbling(20), "session": mt.Session(5)}}, "tumbling"),
        ({"aggregates": {"total": mt.Max("v"), "list": mt.Collect("v")}}, "total"),
        ({"aggregates": {"total": mt.Sum("w"), "list": mt.Collect("v")}}, "total"),
        ({"keys": ()}, "keys"),
        ({"time": "at"}, "time"),
        ({"ordered": True}, "ordered"),
        ({"emit": "changes"}, "emit"),
    ],
)
def test_a_snapshot_of_another_query_is_refused_and_the_difference_told(changes, differs):
    snapshot = used().snapshot()
    with pytest.raises(mt.SnapshotError, match=differs):
        query_of(**{"lateness": 5, **changes}).restore(snapshot)


@pytest.mark.parametrize(
    "changes",
    [
        {"windows": {"tumbling": mt.Tumbling(10)}},
        {"windows": {**WINDOWS, "more": mt.Tumbling(20)}},
        {"aggregates": {"total": mt.Sum("v")}},
        {"lateness": 6},
    ],
)
def test_a_snapshot_goes_on_under_a_query_that_was_changed(changes):
    query = query_of(**{"lateness": 5, **changes})
    restored = query.restore(used().snapshot())
    assert restored.query == query
    assert query.restore(restored.snapshot()).query == query


def test_a_snapshot_of_the_same_query_goes_on_alike():
    operator = used()
    twin = query_of(lateness=5).restore(operator.snapshot())
    assert counts(twin) == counts(operator)
    assert twin.snapshot() == operator.snapshot()
    for one in (operator, twin):
        one.process(GOOD[8:])
    assert twin.advance(100).equals(operator.advance(100))
    assert counts(twin) == counts(operator)


def test_an_identity_that_can_change_runs_interpreted():
    """As with a tuple in its place, in arrays and in queries."""
    columns = {"t": np.array([1, 2, 7]), "v": np.array([3, 4, 5])}
    found = []
    for nothing in ([0, 0], (0, 0)):
        kind = type(nothing)
        own = mt.Aggregate(
            "own",
            nothing,
            lambda v, kind=kind: kind((v, 1)),
            lambda a, b, kind=kind: kind((a[0] + b[0], a[1] + b[1])),
            lambda p: p[0] / max(p[1], 1),
        )
        windows = {"w": mt.Sliding(5, 1), "s": mt.Session(2)}
        aggregates = {"a": replace(own, columns=("v",))}
        query = mt.Query(time="t", windows=windows, aggregates=aggregates)
        found.append((query.run(columns).to_pylist(), mt.rolling(columns["v"], 2, own).tolist()))
        if kind is list:
            assert "holds something that can change" in str(mt.rolling_plan(columns["v"], 2, own))
    assert repr(found[0]) == repr(found[1])


@pytest.mark.parametrize("keys", [5, None])
def test_keys_that_are_no_names_are_refused(keys):
    with pytest.raises(TypeError, match="keys is the name of a column, or several of them, got"):
        mt.Query(time="t", keys=keys, windows={"w": mt.Tumbling(5)}, aggregates={"n": mt.Count()})
