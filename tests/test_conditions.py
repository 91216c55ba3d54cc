"""Conditions on rows: evaluated by Arrow as Python's operators would, and in every place the same."""

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin as mt
from muntin.aggregates import SnapshotError, same_result
from muntin.aggregates.conditions import Condition, condition_of
from tests import catalogue
from tests.condition_oracle import holds
from tests.spark_streams import comparable, random_rows
from tests.test_spark_streaming import asked
from tests.window_oracle import read_results

ROWS = st.fixed_dictionaries(
    {
        "i": st.one_of(st.none(), st.integers(-5, 5)),
        "u": st.one_of(st.none(), st.integers(0, 9)),
        "x": st.one_of(st.none(), st.integers(-8, 8).map(lambda k: k / 4), st.just(math.nan)),
        "s": st.one_of(st.none(), st.sampled_from(["a", "b", ""])),
        "b": st.one_of(st.none(), st.booleans()),
    }
)
SCHEMA = pa.schema(
    {"i": pa.int64(), "u": pa.uint64(), "x": pa.float64(), "s": pa.string(), "b": pa.bool_()}
)
numbers = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["i", "x"]).map(mt.col),
        st.builds(lambda a, b: a + b, numbers, numbers),
        st.builds(lambda a, k: k - a * 2, numbers, st.integers(-3, 3)),
        st.builds(lambda a, k: a / k, numbers, st.sampled_from([2, -4])),
    )
)
COMPARISONS = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
]
comparisons = st.one_of(
    st.builds(lambda f, a, b: f(a, b), st.sampled_from(COMPARISONS), numbers, numbers),
    st.builds(lambda f, a, k: f(a, k), st.sampled_from(COMPARISONS), numbers, st.integers(-5, 5)),
    st.builds(lambda f, k: f(mt.col("u"), k), st.sampled_from(COMPARISONS), st.integers(0, 9)),
    st.builds(lambda f: f(mt.col("s"), "a"), st.sampled_from(COMPARISONS)),
    st.just(mt.col("s").isin(["a", ""])),
    st.sampled_from("iusxb").map(lambda name: mt.col(name).is_null()),
    st.sampled_from("iusxb").map(lambda name: mt.col(name).is_valid()),
    st.just(mt.col("b")),
)
conditions = st.recursive(
    comparisons,
    lambda some: st.one_of(
        st.builds(lambda a, b: a & b, some, some),
        st.builds(lambda a, b: a | b, some, some),
        some.map(lambda a: ~a),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(conditions, st.lists(ROWS, max_size=8))
def test_arrow_and_pythons_operators_agree(expression, rows):
    condition = condition_of(expression)
    table = pa.Table.from_pylist(rows, SCHEMA).combine_chunks()
    columns = {name: table[name].combine_chunks() for name in condition.columns}
    wanted = [holds(condition, row) for row in rows]
    assert condition.evaluate(columns).to_pylist() == wanted
    some = [row for row in rows if all(row[name] is not None for name in condition.columns)]
    assert [condition.holds(row) for row in some] == [holds(condition, row) for row in some]


STREAM = [
    {"t": i, "k": "ab"[i % 2], "v": None if i % 7 == 0 else i * 5 % 11, "s": "xyz"[i % 3]}
    | {"b": [True, False, None, True][i % 4], "n": i}
    for i in range(60)
]
WHERES = {"column": "b", "comparison": mt.col("v") > 8, "nulls": mt.col("v").is_null()}


@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize("name", catalogue.OF_TABLES)
def test_an_aggregate_sees_only_the_rows_that_the_condition_leaves(name, where):
    condition = condition_of(WHERES[where])
    whole = catalogue.of_columns(name, word="s")
    aggregate = catalogue.of_columns(name, word="s", where=WHERES[where])
    kept = [row for row in STREAM if holds(condition, row)]
    by_hand = mt.DabaLite(aggregate)
    by_hand.bulk_insert(STREAM)
    wanted = mt.DabaLite(whole)
    wanted.bulk_insert(kept)
    assert same_result(whole, by_hand.query(), wanted.query())
    windows = {"all": mt.Tumbling(100)}
    both = {"rows": mt.Count(), "all": whole, "some": aggregate}
    query = mt.Query(time="t", windows=windows, aggregates=both)
    (result,) = query.run(STREAM).to_pylist()
    assert result["rows"] == len(STREAM)
    (expected,) = query.run(kept).to_pylist() or [{"all": None}]
    empty = mt.Query(time="t", windows=windows, aggregates={"all": whole})
    if kept:
        assert same_result(whole, result["some"], expected["all"])
    else:
        nulls = [{**STREAM[0], "v": None, "s": None}]
        assert result["some"] == empty.run(nulls).to_pylist()[0]["all"]


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("name", ["First", "Last", "Collect"])
def test_a_null_that_counts_is_not_a_row_that_does_not(name, nulls):
    aggregate = mt.AGGREGATES[name]("v", nulls=nulls, where=mt.col("t") < 2)
    rows = [{"t": 0, "v": None}, {"t": 1, "v": None}, {"t": 2, "v": 7}]
    query = mt.Query(time="t", windows={"all": mt.Tumbling(9)}, aggregates={"r": aggregate})
    (result,) = query.run(rows).to_pylist()
    wanted = ([None, None] if nulls else []) if name == "Collect" else None
    assert result["r"] == wanted


def test_a_product_and_its_parts_have_conditions_of_their_own():
    early = mt.col("t") < 20
    product = mt.Product(
        top=mt.Max("v", where="b"), rows=mt.Count(where=mt.col("s") == "x"), where=early
    )
    query = mt.Query(time="t", windows={"all": mt.Tumbling(100)}, aggregates={"p": product})
    (result,) = query.run(STREAM).to_pylist()
    rows = STREAM[:20]
    assert result["p"] == {
        "top": max(row["v"] for row in rows if row["b"] and row["v"] is not None),
        "rows": sum(row["s"] == "x" for row in rows),
    }


FRAMES = {
    "arrow": lambda rows: pa.Table.from_pylist(rows),
    "pandas": lambda rows: pd.DataFrame(rows).astype({"b": "boolean", "v": "Int64"}),
    "objects of pandas": lambda rows: pd.DataFrame(rows).astype({"b": object, "v": "Int64"}),
    "categories": lambda rows: pd.DataFrame(rows).astype({"s": "category", "v": "Int64"}),
    "polars": pl.DataFrame,
    "lists": lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
}


@pytest.mark.parametrize("kind", FRAMES)
def test_rows_may_come_in_any_frame(kind):
    aggregates = {
        "b": mt.Count(where="b"),
        "s": mt.Sum("n", where=mt.col("s") == "x"),
        "v": mt.Max("n", where=(mt.col("v") <= 3) & (mt.col("k") == "a")),
    }
    query = mt.Query(time="t", keys="k", windows={"w": mt.Tumbling(15)}, aggregates=aggregates)
    assert query.run(FRAMES[kind](STREAM)).to_pylist() == query.run(STREAM).to_pylist()


def test_constants_are_of_the_columns_types():
    noon = dt.datetime(2026, 1, 31, 12)
    rows = {
        "t": [noon + dt.timedelta(hours=h) for h in range(4)],
        "d": [Decimal(h) / 4 for h in range(4)],
        "u": np.array([2**64 - 1, 1, 2, 3], np.uint64),
    }
    aggregates = {
        "late": mt.Count(where=mt.col("t") >= noon + dt.timedelta(hours=1)),
        "dear": mt.Count(where=mt.col("d") > Decimal("0.25")),
        "large": mt.Count(where=mt.col("u") > np.int64(1)),
    }
    query = mt.Query(time="t", windows={"day": mt.Tumbling("1 d")}, aggregates=aggregates)
    (result,) = query.run(rows).to_pylist()
    assert [result[name] for name in aggregates] == [3, 2, 3]


# What is refused


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: mt.Sum("v", where=3), TypeError, "got 3"),
        (lambda: mt.Sum("v", where=""), TypeError, "got ''"),
        (lambda: mt.Sum("v", where=bool), TypeError, "where is"),
        (lambda: mt.Sum(where="b"), TypeError, "'sum' takes bare values"),
        (lambda: mt.Sum("v", where=1 < mt.col("v") < 3), TypeError, "combine conditions with &"),
        (lambda: mt.col("v") == None, TypeError, "is_null"),  # noqa: E711
        (lambda: mt.col("v") > 2**64, ValueError, "64 bits"),
        (lambda: mt.col("v") > [1], TypeError, r"\[1\]"),
        (lambda: mt.col("v").isin("abc"), TypeError, "'abc'"),
        (lambda: mt.col("v").isin([]), ValueError, "at least one"),
        (lambda: mt.col(3), TypeError, "got 3"),
        (lambda: mt.rolling([1], 1, mt.Sum("v", where="b")), TypeError, r"rolling.*col\('b'\)"),
        (lambda: mt.Rolling(1, mt.Sum("v", where="b")), TypeError, r"Rolling.*col\('b'\)"),
        (lambda: mt.rolling([1], 1, mt.Product(mt.Sum("v", where="b"))), TypeError, "rolling"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


def query_of(where, **options):
    aggregates = {"s": mt.Sum("v", where=where)}
    return mt.Query(time="t", windows={"w": mt.Tumbling(10)}, aggregates=aggregates, **options)


def test_a_policy_looks_at_all_rows():
    policy = mt.policies.SlidePolicy("calm", mt.Max("v", where="b"), max)
    with pytest.raises(ValueError, match=r"calm of window 'w'.*where="):
        mt.Query(time="t", windows={"w": mt.Policy(policy, 5)}, aggregates={"n": mt.Count()})


@pytest.mark.parametrize(
    ("where", "rows", "message"),
    [
        ("b", {"b": [1, 0]}, "'b' is int64"),
        ("b", {}, "no column 'b'"),
        ("v > 3", {}, "no column 'v > 3'.*SQL is for Spark"),
        (mt.col("v") > "x", {}, "'v' is int64"),
        (mt.col("v") & True, {}, "neither true nor false"),
        (mt.col("at") > dt.datetime(2026, 1, 1), {"at": [dt.datetime(2026, 1, 2, tzinfo=dt.UTC)] * 2},
         "'at' is timestamp"),
    ],
)  # fmt: skip
def test_a_condition_that_its_columns_cannot_be_asked_is_refused(where, rows, message):
    operator = query_of(where, on_bad_row="drop").operator()
    with pytest.raises((TypeError, KeyError), match=message):
        operator.process({"t": [1, 2], "v": [5, 6], **rows})
    assert operator.counters.rows == 0


def test_a_row_for_which_there_is_no_answer_is_a_bad_row():
    large = 2**62
    rows = {"t": [1, 2, 3, 4], "v": [large, 5, 6, large]}
    where = mt.col("v") * 2 > 10
    with pytest.raises(ValueError, match=r"row 0: the condition .*overflow.*on_bad_row='drop'"):
        query_of(where).run(rows)
    operator = query_of(where, on_bad_row="drop").operator()
    operator.process(rows)
    assert operator.counters.bad_rows == 2
    assert operator.advance(10)["s"].to_pylist() == [6]


# Identity


def test_a_state_goes_on_only_with_the_same_condition():
    first = query_of(mt.col("v") > 3).operator()
    first.process({"t": [1, 2], "v": [3, 4]})
    snapshot = first.snapshot()
    second = query_of(mt.col("v") > 3).restore(snapshot)
    second.process({"t": [3, 4], "v": [10, 2]})
    assert second.advance(10)["s"].to_pylist() == [14]
    for other in (mt.col("v") > 3.0, mt.col("v") >= 3, None):
        with pytest.raises(SnapshotError, match="where"):
            query_of(other).restore(snapshot)


def test_a_condition_is_known_by_its_text():
    assert condition_of("b") == condition_of(mt.col("b"))
    assert condition_of(mt.col("x") == 1) != condition_of(mt.col("x") == True)  # noqa: E712
    assert isinstance(mt.Sum("v", where="b").where, Condition)
    assert "of rows where (col('v') > 3)" in query_of(mt.col("v") > 3).explain()
    assert repr(mt.Count(where="b")) == "<Aggregate count where col('b')>"


# Lives, in which rows wait with what aggregates take of them


def test_rows_wait_for_their_life_with_what_the_condition_said():
    every = mt.Collect("v", nulls=True, where=mt.col("s") == "x")
    aggregates = {"n": mt.Count(where="b"), "all": every}
    windows = {"w": mt.Tumbling(3, measure="count")}
    query = mt.Query(time="t", windows=windows, aggregates=aggregates, lateness=5, idle=20)
    whole, cut = query.operator(), query.operator()
    whole.process(STREAM)
    for start in range(0, 60, 7):
        cut.process(STREAM[start : start + 7])
        cut = query.restore(cut.snapshot())
    found = [read_results(operator.advance(100)) for operator in (whole, cut)]
    assert found[0] == found[1]
    assert found[0][0][((), "w", 0, 3)][1] == {"n": 1, "all": [None]}


# On Spark


def on_spark(frame, aggregates):
    query = asked({"w": mt.Tumbling("7 s")}, aggregates)
    table = mt.spark.aggregate(frame, query).toArrow()
    return comparable(table.to_pylist())


def test_on_spark_a_condition_may_be_sql(spark, tmp_path):
    rows = random_rows(3, 0)
    rows.to_pandas()
    path = str(tmp_path / "rows.parquet")
    import pyarrow.parquet as pq

    pq.write_table(rows, path)
    frame = spark.read.parquet(path)
    ours = {
        "sql": mt.Sum("v", where="v > 10 and `s` <> 'x'"),
        "column": mt.Count(where="b"),
        "written": mt.Max("x", where=(mt.col("v") > 10) & (mt.col("s") != "x")),
    }
    windows = {"w": mt.Tumbling("7 s")}
    embedded = {**ours, "sql": mt.Sum("v", where=(mt.col("v") > 10) & (mt.col("s") != "x"))}
    query = asked(windows, embedded)
    assert on_spark(frame, ours) == comparable(query.run(rows).to_pylist())
    assert query.plan().can_fold
    in_order = {"list": mt.Collect("v", nulls=True, where="v is null or v > 40")}
    same = {"list": mt.Collect("v", nulls=True, where=mt.col("v").is_null() | (mt.col("v") > 40))}
    by_time = rows.sort_by("ts")
    assert on_spark(frame, in_order) == comparable(asked(windows, same).run(by_time).to_pylist())
    for wrong in ("v >", "nothing > 3"):
        with pytest.raises(ValueError, match=wrong):
            mt.spark.aggregate(frame, asked(windows, {"rows": mt.Count(where=wrong)}))
    with pytest.raises(TypeError, match="'v \\+ 1' is bigint"):
        mt.spark.aggregate(frame, asked(windows, {"rows": mt.Count(where="v + 1")}))
    with pytest.raises(TypeError, match="rolling takes all rows"):
        mt.spark.rolling(frame, order="ts", size=3, aggregates={"n": mt.Count(where="b")})
