"""Windows of either engine: Spark's own give the same rows as ours, or are refused."""

import datetime as dt
import decimal
import math
import random

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F

import muntin as mt
from tests.spark_streams import collect, comparable, random_rows, read_stream, write_files

SECOND = 1_000_000
EXACT = {
    "n": mt.Count(),
    "nv": mt.Count("x"),
    "sum": mt.Sum("v", overflow="null"),
    "small": mt.Sum("i"),
    "mean": mt.Mean("v"),
    "least": mt.Min("s"),
    "most": mt.Max("x"),
    "day": mt.Max("d"),
    "truth": mt.Min("b"),
    "distinct": mt.CountDistinct("s"),
    "words": mt.CountDistinct("v"),
    "median": mt.Median("x"),
    "middle": mt.Median("i"),
}
FLOATS = {
    "total": mt.Sum("x"),
    "average": mt.Mean("x"),
    "std": mt.Std("x"),
    "var": mt.Var("x", ddof=0),
}
LARGE = 2**61
WINDOWS = [
    mt.Tumbling("7 s"),
    mt.Sliding("20 s", "7 s"),
    mt.Sliding("9 s", "3 s", origin="2026-01-31 08:00:01"),
    mt.Session("4 s"),
    mt.Session(1),
]


def some_rows(seed, count=300):
    """Return rows around 1970 of all types that both engines take, with nulls, NaN and equal times."""
    rng = random.Random(seed)

    def one_of(*values):
        return [rng.choice(values) for _ in range(count)]

    times = [rng.randrange(-90, 90) * SECOND // 2 + rng.choice((0, 0, 1)) for _ in range(count)]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": pa.array(one_of("a", "b", "", "ä", None)),
            "c": pa.array(one_of(decimal.Decimal("1.50"), None), pa.decimal128(9, 2)),
            "v": pa.array(one_of(LARGE, -LARGE, 2**53 + 1, 3, -7, None), pa.int64()),
            "i": pa.array(one_of(2**31 - 1, -(2**31), 5, 6, None), pa.int32()),
            "x": pa.array(one_of(1.5, -2.25, math.inf, math.nan, 0.1, None), pa.float64()),
            "s": pa.array(one_of("x", "Y", "é", "", None)),
            "d": pa.array(one_of(dt.date(1969, 1, 1), dt.date(2024, 2, 29), None)),
            "b": pa.array(one_of(True, False, None)),
        }
    )


def both(frame, query):
    """Return the rows of both engines."""
    one, two = (mt.spark.aggregate(frame, query, engine=engine) for engine in ("native", "muntin"))
    names = [(f.name, f.dataType) for f in one.schema]
    assert names == [(f.name, f.dataType) for f in two.schema]
    return one.toArrow().to_pylist(), two.toArrow().to_pylist()


def exactly(rows):
    return sorted(repr(row) for row in rows)


@pytest.mark.parametrize("number", range(len(WINDOWS)))
def test_both_engines_give_the_same_rows(spark, number):
    frame = spark.createDataFrame(some_rows(number))
    windows = {"w": WINDOWS[number]}
    keys = [("k", "c"), "k", ()][number % 3]
    query = mt.Query(time="ts", keys=keys, windows=windows, aggregates=EXACT)
    native, ours = both(frame, query)
    assert exactly(native) == exactly(ours)
    assert len(ours) > 20
    query = mt.Query(time="ts", keys=keys, windows=windows, aggregates=FLOATS)
    native, ours = both(frame, query)
    assert comparable(native) == comparable(ours)


def test_several_windows_and_local_times(spark):
    frame = spark.createDataFrame(some_rows(9)).withColumn("ts", F.expr("ts::timestamp_ntz"))
    query = mt.Query(
        time="ts",
        keys="b",
        windows={"t": mt.Tumbling("1 min"), "s": mt.Session("10 s")},
        aggregates={"n": mt.Count(), "sum": mt.Sum("v", overflow="null")},
    )
    native, ours = both(frame, query)
    assert exactly(native) == exactly(ours)
    assert {row["window"] for row in ours} == {"t", "s"}
    assert not mt.spark.aggregate_plan(frame, query).native


@pytest.mark.parametrize("overflow", ["error", "null"])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_that_do_not_fit(spark, overflow, ansi):
    table = pa.table(
        {
            "ts": pa.array([0, 1, 2], pa.timestamp("us", "UTC")),
            "k": ["a", "b", "b"],
            "v": [1, 2**62, 2**62],
        }
    )
    query = mt.Query(
        time="ts",
        keys="k",
        windows={"w": mt.Tumbling("1 s")},
        aggregates={"sum": mt.Sum("v", overflow=overflow)},
    )
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        results = mt.spark.aggregate(spark.createDataFrame(table), query, engine="native")
        if overflow == "null":
            assert {r["k"]: r["sum"] for r in results.collect()} == {"a": 1, "b": None}
        else:
            with pytest.raises(
                PySparkException,
                match=r"'sum' \(sum\) does not fit bigint in window 'w' \[.*\) of k='b'",
            ):
                results.collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


@pytest.mark.parametrize("engine", ["native", "muntin"])
def test_rows_without_a_time(spark, engine):
    table = pa.table({"ts": pa.array([1, None, 3], pa.timestamp("us", "UTC"))})
    frame = spark.createDataFrame(table)
    query = mt.Query(time="ts", windows={"w": mt.Tumbling(10)}, aggregates={"n": mt.Count()})
    with pytest.raises(PySparkException, match="is null: fill it in"):
        mt.spark.aggregate(frame, query, engine=engine).collect()
    query = mt.Query(
        time="ts", windows={"w": mt.Tumbling(10)}, aggregates={"n": mt.Count()}, on_bad_time="drop"
    )
    assert [row["n"] for row in mt.spark.aggregate(frame, query, engine=engine).collect()] == [2]


@pytest.mark.parametrize("micros", [2**63 - 1, -(2**63), 2**62 + 1])
def test_times_at_the_ends_are_errors_in_spark_too(spark, micros):
    frame = spark.range(1).select(F.expr(f"timestamp_micros({micros}L)").alias("ts"))
    query = mt.Query(time="ts", windows={"w": mt.Tumbling(10)}, aggregates={"n": mt.Count()})
    with pytest.raises(PySparkException, match="microseconds after 1970, is not between"):
        mt.spark.aggregate(frame, query, engine="native").collect()


def of(windows=None, aggregates=None, **options):
    return mt.Query(
        time="ts",
        windows=windows or {"w": mt.Tumbling("7 s")},
        aggregates=aggregates or {"n": mt.Count()},
        **options,
    )


REFUSED = {
    "a window": (of({"w": mt.LastN(3, "5 s")}), "no window like 'w' .LastN"),
    "rows": (of({"w": mt.Tumbling(5, measure="count")}), "no window like 'w'"),
    "gaps": (of({"w": mt.Sliding("1 s", "5 s")}), "no window like 'w'"),
    "changes": (of(emit="changes"), "no emit='changes'"),
    "idle": (of(idle="1 min"), "no idle='1 min'"),
    "bad rows": (of(on_bad_row="drop"), "no on_bad_row='drop'"),
    "an aggregate": (of(aggregates={"a": mt.TopK("s")}), "no aggregate like 'a'"),
    "order": (of(aggregates={"a": mt.First("s")}), "no aggregate like 'a' .first"),
    "condition": (of(aggregates={"a": mt.Count(where="b")}), "'a' takes some rows only"),
    "sum of decimals": (of(aggregates={"a": mt.Sum("c")}), "of decimal.9,2. columns, 'a'"),
    "float keys": (of(keys="x"), "keys such as 'x', double"),
    "collation": (of(keys="z"), "keys such as 'z', string collate"),
    "values with a collation": (of(aggregates={"a": mt.Max("z")}), "the texts of 'z'"),
    "the time as a value": (of(aggregates={"a": mt.Max("ts")}), "the time 'ts' is a key"),
    "whole numbers": (
        mt.Query(time="v", windows={"w": mt.Tumbling(5)}, aggregates={"n": mt.Count()}),
        "over timestamps, and 'v' is bigint",
    ),
    "own": (
        of(aggregates={"a": mt.Aggregate("sum", 0, abs, max, columns=("v",), commutative=True)}),
        "no aggregate like 'a' .sum.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_spark_does_not_have_is_refused_by_name_and_left_out_by_itself(spark, name):
    query, why = REFUSED[name]
    frame = spark.createDataFrame(some_rows(0)).where("ts is not null")
    frame = frame.withColumn("z", F.expr("s collate UTF8_LCASE"))
    with pytest.raises(TypeError, match=f"engine='native' cannot be: .*{why}"):
        mt.spark.aggregate(frame, query, engine="native")
    assert not mt.spark.aggregate_plan(frame, query).native


def test_the_engine_that_is_faster_is_taken(spark, tmp_path):
    query = of(aggregates={"sum": mt.Sum("v")})
    little = spark.createDataFrame(some_rows(0))
    plan = mt.spark.aggregate_plan(little, query)
    assert str(plan).startswith("native: there is little data, and Spark has the same windows")
    results = mt.spark.aggregate(little, query)
    assert "MapInArrow" not in results._jdf.queryExecution().toString()
    much = spark.range(10_000_000).selectExpr("timestamp_seconds(id) ts", "id v")
    plan = mt.spark.aggregate_plan(much, query)
    assert str(plan).startswith("muntin: over ")
    copied = of({"w": mt.Sliding("1 h", "1 s")}, {"sum": mt.Sum("v")})
    some = much.limit(10_000)
    assert "each row copied into 3600 windows" in str(mt.spark.aggregate_plan(some, copied))
    assert "the plan 'lazy'" in str(mt.spark.aggregate_plan(little, query, plan="lazy"))
    assert not mt.spark.aggregate_plan(little, of(aggregates={"var": mt.Var("v")})).native
    assert mt.spark.aggregate_plan(
        little, of(aggregates={"var": mt.Var("v")}), engine="native"
    ).native
    assert str(mt.spark.aggregate_plan(little, query, engine="muntin")).startswith("muntin: asked")
    write_files(tmp_path, [random_rows(0, 0)])
    stream = read_stream(spark, tmp_path)
    assert "by engine='native' only" in str(mt.spark.aggregate_plan(stream, of(watermark="1 s")))


@pytest.mark.parametrize("own", [False, True])
def test_a_stream_with_sparks_windows(spark, tmp_path, own):
    """The same rows as ours in mode append, with late rows and, where it can be, a lateness."""
    write_files(tmp_path / "in", [random_rows(3, batch) for batch in range(5)])
    stream = read_stream(spark, tmp_path / "in")
    query = mt.Query(
        time="ts",
        keys=("k", "n"),
        windows={"t": mt.Tumbling("7 s"), "w": mt.Sliding("20 s", "5 s")},
        aggregates={"rows": mt.Count(), "sum": mt.Sum("v"), "most": mt.Max("s")},
        watermark=None if own else "5 s",
        lateness=0 if own else "10 s",
    )
    if own:
        stream = stream.withWatermark("ts", "5 seconds")
    both = {
        engine: collect(
            mt.spark.aggregate(stream, query, mode="append", engine=engine),
            tmp_path / engine,
            "append",
        )
        for engine in ("native", "muntin")
    }
    assert comparable(both["native"]) == comparable(both["muntin"])
    assert len(both["native"]) > 100


STREAMS = {
    "update": ({"lateness": "1 s"}, "not corrected by updates"),
    "ordered": ({"ordered": True}, "rows come in order"),
    "sessions": ({"windows": {"s": mt.Session("1 s")}}, "closes a session like 's'"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_that_spark_would_report_in_another_way_are_refused(spark, tmp_path, name):
    options, why = STREAMS[name]
    write_files(tmp_path, [random_rows(0, 0)])
    query = of(**{"watermark": "1 s", **options})
    with pytest.raises(TypeError, match=why):
        mt.spark.aggregate(read_stream(spark, tmp_path), query, engine="native")


def test_rows_before_spark_s_first_watermark_are_an_error(spark, tmp_path):
    table = random_rows(0, 0)
    times = pa.array([-1] * len(table), pa.timestamp("us", "UTC"))
    write_files(tmp_path / "in", [table.set_column(0, "ts", times)])
    stream = read_stream(spark, tmp_path / "in")
    results = mt.spark.aggregate(stream, of(watermark="1 s"), engine="native")
    with pytest.raises(
        StreamingQueryException, match="-1 microseconds after 1970, is not between 0"
    ):
        collect(results, tmp_path / "cp", "append")


def test_other_arguments_are_errors(spark):
    frame = spark.createDataFrame(some_rows(0))
    with pytest.raises(TypeError, match="Spark knows the types of 'n'; leave types out"):
        mt.spark.aggregate(frame, of(), engine="native", types={"n": "int"})
    declared = mt.spark.aggregate(frame, of(), types={"n": "int"})
    assert "MapInArrow" in declared._jdf.queryExecution().toString()
    with pytest.raises(ValueError, match="engine must be one of auto, muntin, native, got 'fast'"):
        mt.spark.aggregate(frame, of(), engine="fast")
    with pytest.raises(TypeError, match=r"a DataFrame of Spark, got pandas.*Query.run"):
        mt.spark.aggregate(frame.toPandas(), of())
    with pytest.raises(TypeError, match="a DataFrame of Spark, got builtins.tuple"):
        mt.spark.aggregate((frame, frame), of())
