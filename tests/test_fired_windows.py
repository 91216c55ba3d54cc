"""Windows that rows fire: what they have, how they are written, and what is refused."""

import copy
import pickle
import sqlite3
from contextlib import closing

import pytest

import muntin as mt
from muntin.spark.upsert import upsert
from muntin.windows import Fired
from tests.spark_streams import SCHEMA, embedded, random_rows

LIST = {"c": mt.Collect("v")}


def query(window, aggregates=LIST, **options):
    return mt.Query(time="t", windows={"w": window}, aggregates=aggregates, **options)


def give(operator, *times, **columns):
    return told(operator.process({"t": [*times], "v": [*times], **columns}))


def told(table):
    bounds = ("start", "end", "start_measure", "end_measure")
    return [(*(row[b] for b in bounds), row["kind"], row["c"]) for row in table.to_pylist()]


# What they are


@pytest.mark.parametrize(
    ("made", "meant"),
    [
        (mt.Sliding("10 min", every=mt.rows(100)), Fired(600_000_000, 100)),
        (mt.Sliding(10, mt.rows(1)), Fired(10, 1)),
        (mt.Sliding(mt.rows(100), every="1 min"), mt.LastN(100, "1 min")),
        (mt.Sliding(mt.rows(3), every=5, origin=2), mt.LastN(3, 5, origin=2)),
        (mt.Delta("km", 5.0, every=mt.rows(10)), Fired(5.0, 10, "km")),
        (mt.Delta("km", 5, mt.rows(10)), Fired(5, 10, "km")),
    ],
)
def test_the_size_or_the_step_may_be_a_number_of_rows(made, meant):
    assert made == meant
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made


@pytest.mark.parametrize("window", [mt.Sliding("1 h", "1 min"), mt.Delta("km", 5, 2)])
def test_windows_without_rows_are_copied_as_ever(window):
    assert pickle.loads(pickle.dumps(window)) == copy.copy(window) == window


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: mt.rows(0), ValueError, "above zero"),
        (lambda: mt.rows(2.5), TypeError, "whole number"),
        (lambda: mt.rows(True), TypeError, "whole number"),
        (lambda: mt.Sliding(mt.rows(9), mt.rows(3)), TypeError, r"Sliding\(9, every=3, measure="),
        (lambda: mt.Sliding("1 s", mt.rows(3), measure="count"), TypeError, "leave out measure"),
        (lambda: mt.Sliding("1 s", mt.rows(3), origin=4), TypeError, "no origin"),
        (lambda: mt.Sliding(2.5, mt.rows(3)), TypeError, "duration"),
        (lambda: mt.Sliding(0, mt.rows(3)), ValueError, "above zero"),
        (lambda: mt.Tumbling(mt.rows(3)), TypeError, "size=3, with measure='count'"),
        (lambda: mt.Session(mt.rows(3)), TypeError, "gap"),
        (lambda: mt.LastN(mt.rows(3), 5), TypeError, "write n=3"),
        (lambda: mt.Delta("km", 5.0), TypeError, r"every=muntin\.rows\(1\)"),
        (lambda: mt.Delta("km", 5.0, 2), TypeError, "whole number of 'km'"),
        (lambda: mt.Delta("km", mt.rows(3)), TypeError, "rows"),
        (lambda: mt.Delta("km", mt.rows(3), mt.rows(3)), TypeError, "number of 'km'"),
        (lambda: mt.Delta("km", float("inf"), mt.rows(3)), ValueError, "above zero"),
        (lambda: mt.Delta("km", float("nan"), mt.rows(3)), ValueError, "above zero"),
        (lambda: mt.Delta("km", 5, mt.rows(3), origin=1), TypeError, "no origin"),
        (lambda: mt.Delta("", 5, mt.rows(3)), ValueError, "column"),
        (lambda: query(Fired(5, 2), emit="changes"), ValueError, "'w' is reported at each row"),
        (lambda: query(Fired(5, 2), early=True), ValueError, "no window of the query is reported"),
    ],
)
def test_wrong_uses_are_refused_with_what_to_write(make, error, says):
    with pytest.raises(error, match=says):
        make()


# What they have


@pytest.mark.parametrize("plan", ["auto", "lazy", "eager", "naive", "worst case"])
def test_a_late_row_moves_the_rows_that_fire_and_with_them_the_bounds(plan):
    operator = query(mt.Sliding(10, every=mt.rows(2)), lateness=100).operator(plan)
    give(operator, 1, 8, 12, 19)
    assert told(operator.advance(19)) == [(-1, 9, 0, 2, "result", [1, 8])]
    assert told(operator.advance(20)) == [(10, 20, 2, 4, "result", [12, 19])]
    give(operator, 5)
    assert told(operator.advance(21)) == [
        (-4, 6, 0, 2, "update", [1, 5]),
        (3, 13, 1, 4, "update", [5, 8, 12]),
    ]
    give(operator, 21, 20)
    assert told(operator.advance(30)) == [(11, 21, 3, 6, "result", [12, 19, 20])]


def test_in_an_ordered_stream_each_row_fires_at_once():
    operator = query(mt.Sliding(5, every=mt.rows(1)), ordered=True).operator()
    assert give(operator, 1, 1) == [
        (-3, 2, 0, 1, "result", [1]),
        (-3, 2, 0, 2, "result", [1, 1]),
    ]
    assert give(operator, 1) == [(-3, 2, 0, 3, "result", [1, 1, 1])]
    assert give(operator, 6) == [(2, 7, 3, 4, "result", [6])]
    assert told(operator.advance(100)) == []
    assert operator.counters.rows_kept == 0


def test_along_a_column_a_value_that_falls_counts_as_the_greatest_before():
    operator = query(mt.Delta("km", 2.5, every=mt.rows(1)), lateness=50).operator()
    give(operator, 1, 2, 3, 4, km=[0.5, 3.0, 1.0, 3.25])
    assert [row[2:] for row in told(operator.advance(9))] == [
        (0, 1, "result", [1]),
        (1, 2, "result", [2]),
        (1, 3, "result", [2, 3]),
        (1, 4, "result", [2, 3, 4]),
    ]
    give(operator, 2, km=[9.0])
    operator = operator.query.restore(operator.snapshot())
    assert [row[2:] for row in told(operator.advance(10))] == [
        (2, 3, "update", [2]),
        (2, 4, "update", [2, 3]),
        (2, 5, "result", [2, 3, 4]),
    ]


def test_what_is_held_does_not_depend_on_how_many_rows_came():
    windows = {"a": mt.Sliding(10, every=mt.rows(3)), "b": mt.Delta("km", 10, every=mt.rows(3))}
    asked = mt.Query(time="t", windows=windows, aggregates={"s": mt.Sum("v")}, lateness=5)
    operator = asked.operator()
    for t in range(0, 3000, 100):
        operator.process({"t": [*range(t, t + 100)], "v": [1] * 100, "km": [*range(t, t + 100)]})
        operator.advance(t + 100)
        assert operator.counters.rows_kept <= 2 * (10 + 5 + 1)


@pytest.mark.parametrize(
    ("km", "says"),
    [
        ([1.0, float("nan")], "row 1 has 'km' = nan, which is no number"),
        ([1.0, float("-inf")], "row 1 has 'km' = -inf, which is no number"),
        ([1, 2**53 + 1], r"row 1 has 'km' = 9007199254740993, which is beyond 2\*\*53"),
        ([1, -(2**63)], "row 1 has 'km' = -9223372036854775808"),
        ([1.0, None], "numbers without nulls"),
        (["a", "b"], "numbers without nulls"),
    ],
)
def test_a_column_along_which_rows_fire_has_numbers(km, says):
    window = mt.Delta("km", 2.5, every=mt.rows(1))
    operator = query(window).operator()
    before = operator.snapshot()
    with pytest.raises((TypeError, ValueError), match=says):
        give(operator, 1, 2, km=km)
    assert operator.snapshot() == before
    if not isinstance(km[0], str):
        lenient = query(window, on_bad_row="drop").operator()
        give(lenient, 1, 2, km=km)
        assert lenient.counters.bad_rows == 1
        assert [row[2:] for row in told(lenient.advance(9))] == [(0, 1, "result", [1])]


def test_numbers_and_floats_may_follow_each_other_in_the_column():
    operator = query(mt.Delta("km", 2.5, every=mt.rows(1))).operator()
    give(operator, 1, 2, km=[1, 2])
    give(operator, 3, km=[3.5])
    assert [row[2:4] for row in told(operator.advance(9))] == [(0, 1), (0, 2), (1, 3)]


def test_a_key_has_ranks_of_its_own_and_after_idle_they_begin_again():
    asked = query(mt.Sliding(50, every=mt.rows(2)), keys=("k",), idle=20)
    operator = asked.operator()
    operator.process({"t": [1, 2, 5, 60, 61], "k": [*"abaaa"], "v": [1, 2, 5, 60, 61]})
    rows = operator.advance(200).to_pylist()
    assert [(row["k"], row["end_measure"], row["c"]) for row in rows] == [
        ("a", 2, [1, 5]),
        ("a", 2, [60, 61]),
    ]


# Where they go


def test_a_table_has_one_row_for_each_row_that_fires(spark, tmp_path):
    windows = {"w": mt.Sliding("10 s", every=mt.rows(3)), "m": mt.Tumbling("7 s")}
    windows |= {"l": mt.Sliding(mt.rows(4), every="5 s"), "d": mt.Delta("n", 1, every=mt.rows(2))}
    asked = mt.Query(
        time="ts", keys=("k",), windows=windows, aggregates={"v": mt.Sum("v")}, lateness="30 s"
    )
    rows = embedded(asked, [random_rows(7, batch, 40) for batch in range(4)])
    expected = {}
    for row in rows:
        known = (row["end_measure"],) if row["end_measure"] is not None else (row["end"],)
        expected[row["k"], row["window"], *known] = (row["start_measure"], row["v"])
    assert any(row["kind"] == "update" for row in rows if row["window"] == "w")
    schema = mt.spark.aggregate(spark.createDataFrame([], SCHEMA), asked).schema
    write = upsert(tmp_path / "out.db", "out", keys="k")
    half = len(rows) // 2
    for batch, part in enumerate((rows[:half], rows[half:])):
        write(spark.createDataFrame([tuple(row.values()) for row in part], schema), batch)
    with closing(sqlite3.connect(tmp_path / "out.db")) as connection:
        held = connection.execute("SELECT k, window, start_measure, v FROM out").fetchall()
    wanted = [(k, window, *values) for (k, window, *_), values in expected.items()]
    assert sorted(map(repr, held)) == sorted(map(repr, wanted))
