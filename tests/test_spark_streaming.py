"""Queries on Spark streams give what Spark's own windows give, and what the embedded operator gives."""

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

import muntin as mt
from muntin.spark.packing import grouping_keys
from tests.spark_streams import (
    collect,
    comparable,
    embedded,
    random_rows,
    read_stream,
    write_file,
    write_files,
)

SUMS = {"sum": mt.Sum("v"), "max": mt.Max("v"), "mean": mt.Mean("x"), "rows": mt.Count()}


def native_sums():
    return [
        F.sum("v").alias("sum"),
        F.max("v").alias("max"),
        F.avg("x").alias("mean"),
        F.count(F.lit(1)).alias("rows"),
    ]


def asked(windows, aggregates=SUMS, **options) -> mt.Query:
    options = {"keys": ("k", "n"), "watermark": "5 seconds", **options}
    return mt.Query(time="ts", windows=windows, aggregates=aggregates, **options)


@pytest.fixture(scope="module")
def tables():
    return [random_rows(1, batch) for batch in range(5)]


@pytest.fixture(scope="module")
def folder(tables, tmp_path_factory):
    made = tmp_path_factory.mktemp("stream") / "in"
    write_files(made, tables)
    return made


NATIVE_WINDOWS = {
    "sliding": (
        mt.Sliding("20 s", "5 s"),
        "5 s",
        lambda: F.window("ts", "20 seconds", "5 seconds"),
    ),
    "tumbling": (mt.Tumbling("7 s"), "0 s", lambda: F.window("ts", "7 seconds")),
    "session": (mt.Session("2 s"), "5 s", lambda: F.session_window("ts", "2 seconds")),
}


@pytest.mark.parametrize("name", NATIVE_WINDOWS)
def test_windows_are_those_of_spark(spark, folder, tmp_path, name):
    window, delay, native = NATIVE_WINDOWS[name]
    stream, query = read_stream(spark, folder), asked({"w": window}, watermark=delay)
    ours = collect(mt.spark.aggregate(stream, query), tmp_path / "ours", "append")
    theirs = stream.withWatermark("ts", f"{delay}econds").groupBy("k", "n", native().alias("w"))
    theirs = theirs.agg(*native_sums()).select(
        "k", "n", F.lit("w").alias("window"), "w.start", "w.end", F.lit("result").alias("kind"),
        "sum", "max", "mean", "rows",
    )  # fmt: skip
    assert comparable(ours) == comparable(collect(theirs, tmp_path / "theirs", "append"))
    assert len(ours) > 20


def own_windows():
    """Return windows that rows assign; classes in a function travel to workers as they are."""

    class Near(mt.ContextAwareWindow):
        def assign(self, time, row):
            start = time // 7_000_000 * 7_000_000
            return [(start, start + (8 + row["n"]) * 1_000_000), (time, row["ts"] + 2 * SECOND)]

    class Joined(mt.ContextAwareWindow):
        merging = True

        def assign(self, time, row):
            return [(time - 500_000, time + (1 + (row["v"] or 0) % 4) * 1_000_000)]

    return {"near": Near(), "joined": Joined()}


SECOND = dt.timedelta(seconds=1)
EMBEDDED = {
    "several at once": asked(
        {"a": mt.Sliding("20 s", "5 s"), "b": mt.Tumbling("7 s"), "s": mt.Session("2 s")},
        lateness="15 s",
    ),
    "folded, with objects": asked(
        {"a": mt.Sliding("20 s", "5 s")},
        {**SUMS, "distinct": mt.CountDistinct("s"), "median": mt.Median("v"), "std": mt.Std("v")},
        lateness="20 s",
    ),
    "order matters": asked(
        {"a": mt.Tumbling("8 s"), "l": mt.LastN(5, "10 s")},
        {
            "first": mt.First("s"),
            "all": mt.Collect("v"),
            "top": mt.ArgMax("v", "s"),
            "m": mt.M4("v"),
        },
        lateness="15 s",
    ),
    "counted and punctuated": asked(
        {
            "c": mt.Sliding(9, 4, measure="count"),
            "p": mt.Punctuation("b"),
            "last": mt.Punctuation("b", last=3),
        },
        keys="k",
        lateness="9 s",
    ),
    "by policies": asked(
        {
            "w": mt.Policy(mt.policies.within("15 s", "ts") | mt.policies.last(20), "5 s"),
            "s": mt.Policy(mt.policies.sum_at_most(30, "x"), "10 s"),
        },
        lateness="15 s",
    ),
    "fired by rows": asked(
        {
            "w": mt.Sliding("10 s", every=mt.rows(7)),
            "d": mt.Delta("n", 0.5, every=mt.rows(3)),
            "a": mt.Tumbling("7 s"),
        },
        keys="k",
        lateness="15 s",
    ),
    "what rows say": asked(
        {**own_windows(), "l": mt.Session("2 s", longest="5 s")},
        {"v": mt.Sum("v"), "all": mt.Collect("v")},
        lateness="15 s",
    ),
    "early": asked(
        {"a": mt.Tumbling("1 min"), "s": mt.Session("2 s"), "last": mt.LastN(5, "10 s")}, early=True
    ),
    "what no window takes": asked(
        {"a": mt.Sliding("3 s", "8 s"), "b": mt.Sliding("2 s", "5 s")}, dropped="report"
    ),
    "changes, no keys": asked({"a": mt.Sliding("30 s", "1 s")}, keys=(), emit="changes"),
    "so far, and by a calendar": asked(
        {
            "c": mt.Cumulate("20 s", "5 s"),
            "d": mt.Calendar("1 day", zone="Asia/Kolkata"),
            "m": mt.Calendar("1 month"),
        },
        lateness="15 s",
    ),
    "conditions": asked(
        {"a": mt.Tumbling("8 s"), "s": mt.Session("2 s")},
        {
            "b": mt.Count(where="b"),
            "v": mt.Sum("v", where=mt.col("x") > 3),
            "s": mt.Collect("v", nulls=True, where=mt.col("s").isin(["x", "y"])),
        },
        lateness="15 s",
    ),
    "product": asked({"a": mt.Tumbling("8 s")}, {"p": mt.Product(mt.Sum("v"), mt.Max("x"))}),
}


@pytest.mark.parametrize("name", EMBEDDED)
def test_results_are_those_of_the_operator(spark, folder, tables, tmp_path, name):
    query = EMBEDDED[name]
    results = collect(mt.spark.aggregate(read_stream(spark, folder), query), tmp_path / "cp")
    assert comparable(results) == comparable(embedded(query, tables))
    assert len(results) > 5


def test_append_reports_only_what_is_final(spark, folder, tables, tmp_path):
    query = asked({"a": mt.Sliding("20 s", "5 s"), "s": mt.Session("2 s")}, lateness="15 s")
    results = collect(
        mt.spark.aggregate(read_stream(spark, folder), query, mode="append"),
        tmp_path / "cp",
        "append",
    )
    assert {row["kind"] for row in results} == {"result"}
    final = asked(query.windows, watermark="20 s")
    assert comparable(results) == comparable(embedded(final, tables))


def test_a_restart_goes_on_and_a_window_can_be_added(spark, tables, tmp_path):
    query = asked({"a": mt.Sliding("20 s", "5 s")}, lateness="15 s")
    folder, checkpoint = tmp_path / "in", tmp_path / "cp"
    write_files(folder, tables[:2])
    results = collect(mt.spark.aggregate(read_stream(spark, folder), query), checkpoint)
    assert collect.progress
    write_file(folder, 2, tables[2])
    results += collect(mt.spark.aggregate(read_stream(spark, folder), query), checkpoint)
    assert comparable(results) == comparable(embedded(query, [*tables[:2], None, tables[2]]))
    more = replace(query, windows={**query.windows, "b": mt.Tumbling("5 s")})
    write_file(folder, 3, tables[3])
    results = collect(mt.spark.aggregate(read_stream(spark, folder), more), checkpoint)
    assert {row["window"] for row in results} == {"a", "b"}


def test_a_checkpoint_of_another_query_is_refused(spark, tmp_path):
    folder = tmp_path / "in"
    write_files(folder, [random_rows(2, 0)])
    stream = read_stream(spark, folder)
    collect(mt.spark.aggregate(stream, asked({"a": mt.Tumbling("8 s")})), tmp_path / "cp")
    write_file(folder, 1, random_rows(2, 1))
    other = asked({"a": mt.Tumbling("9 s")})
    with pytest.raises(StreamingQueryException, match=r"windows is \{'a'.*9"):
        collect(mt.spark.aggregate(stream, other), tmp_path / "cp")


def test_metrics_are_in_the_progress(spark, folder, tables, tmp_path):
    query = asked({"a": mt.Sliding("20 s", "5 s")})
    results = collect(mt.spark.aggregate(read_stream(spark, folder), query), tmp_path / "cp")
    seen = [p["observedMetrics"]["muntin"].asDict() for p in collect.progress]
    assert sum(m["rows"] for m in seen) == sum(len(t) for t in tables)
    assert sum(m["windows"] for m in seen) == len(results)
    assert sum(m["dropped"] for m in seen) > 0
    assert all(m["state_bytes"] > 0 and m["written_bytes"] > 0 for m in seen)


@pytest.mark.parametrize("window", [mt.Tumbling("8 s"), mt.Session("2 s"), mt.LastN(3, "5 s")])
def test_rows_without_a_time_are_counted(spark, tmp_path, window):
    """Folded first, or sent as rows; among others, and alone in a micro-batch."""
    whole, none = random_rows(6, 0), random_rows(6, 1, 20)
    column = whole.schema.get_field_index("ts")
    some = pa.array([i % 3 == 0 for i in range(len(whole))])
    part = pc.if_else(some, pa.scalar(None, whole["ts"].type), whole["ts"])
    tables = [
        whole.set_column(column, "ts", part),
        none.set_column(column, "ts", pa.nulls(len(none), whole["ts"].type)),
        random_rows(6, 2),
    ]
    write_files(tmp_path / "in", tables)
    query = asked({"a": window}, on_bad_time="drop")
    collect(mt.spark.aggregate(read_stream(spark, tmp_path / "in"), query), tmp_path / "cp")
    seen = [p["observedMetrics"]["muntin"].asDict() for p in collect.progress]
    assert sum(m["bad_times"] or 0 for m in seen) == 50 + 20
    assert sum(m["rows"] or 0 for m in seen) == 100 + 150


def test_keys_that_went_quiet_are_reported(spark, tmp_path):
    table = random_rows(3, 0)
    quiet = [table, *(only(random_rows(3, batch), "b") for batch in (1, 2, 4))]
    write_files(tmp_path / "in", quiet)
    query = asked({"a": mt.Sliding("20 s", "5 s"), "s": mt.Session("2 s")}, keys="k")
    results = collect(
        mt.spark.aggregate(read_stream(spark, tmp_path / "in"), query), tmp_path / "cp"
    )
    assert comparable(results) == comparable(embedded(query, quiet))
    late = [row for row in results if row["k"] == "a"]
    assert max(row["end"] for row in late) > min(row["start"] for row in results)


def only(table, key):
    return table.filter(pc.equal(table["k"], key))


def test_the_number_of_shards_is_kept_in_the_checkpoint(spark, tables, tmp_path):
    query = asked({"a": mt.Sliding("20 s", "5 s")})
    folder, checkpoint = tmp_path / "in", tmp_path / "cp"
    write_files(folder, tables[:2])
    results = collect(mt.spark.aggregate(read_stream(spark, folder), query), checkpoint)
    write_file(folder, 2, tables[2])
    spark.conf.set("spark.sql.shuffle.partitions", 3)
    try:
        results += collect(mt.spark.aggregate(read_stream(spark, folder), query), checkpoint)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)
    assert comparable(results) == comparable(embedded(query, [*tables[:2], None, tables[2]]))


def test_each_partition_has_a_shard(spark):
    for partitions in (1, 2, 7, 200):
        keys = [(key,) for key in grouping_keys(partitions)]
        frame = spark.createDataFrame(keys, "shard int")
        placed = frame.select(F.expr(f"pmod(hash(shard), {partitions})")).toArrow()
        assert placed[0].to_pylist() == list(range(partitions))


def test_keys_and_values_of_many_types(spark, tmp_path):
    """What goes in as a key or a value of some type comes out as it went in."""
    keys = {
        "flag": "b",
        "day": "to_date(ts)",
        "price": "cast(n as decimal(12, 3)) / 4",
        "when": "date_trunc('minute', ts)",
        "local": "cast(date_trunc('minute', ts) as timestamp_ntz)",
        "bytes": "cast(k as binary)",
        "pair": "named_struct('k', k, 'n', n)",
        "real": "cast(n as float)",
    }
    write_files(tmp_path / "in", [random_rows(4, batch) for batch in range(2)])
    stream = read_stream(spark, tmp_path / "in").select(
        "ts", *(F.expr(f"{e} as {n}") for n, e in keys.items())
    )
    query = mt.Query(
        time="ts",
        keys=tuple(keys),
        windows={"w": mt.Tumbling("20 s")},
        aggregates={"n": mt.Count(), "days": mt.Max("day"), "all": mt.Collect("price")},
        watermark="1 second",
    )
    out = mt.spark.aggregate(stream, query)
    results = collect(out, tmp_path / "cp", "append")
    assert {n: out.schema[n].dataType for n in keys} == {n: stream.schema[n].dataType for n in keys}
    assert out.schema["start"].dataType == stream.schema["ts"].dataType
    assert results
    for row in results:
        assert row["days"] == row["day"]
        assert set(row["all"] or [row["price"]]) == {row["price"]}
        assert (row["pair"]["k"] or "").encode() == (row["bytes"] or b"")
        assert row["start"] <= row["when"] + dt.timedelta(minutes=1)


def own_total(factor):
    """Return a user's aggregate whose lift has a factor of its own."""
    return mt.Aggregate("total", 0, lambda v: factor * v, lambda a, b: a + b, columns=("v",))


TYPES = {"total": "bigint"}


def test_a_refused_query_leaves_the_checkpoint_as_it_was(spark, tables, tmp_path):
    """Keys that are others go to shards without rows, which must refuse the query, too."""
    folder, checkpoint = tmp_path / "in", tmp_path / "cp"
    windows = {"a": mt.Sliding("20 s", "5 s")}
    query = asked(windows, {"total": own_total(1)}, keys=("n",))
    write_files(folder, [only_n(tables[0]), only_n(tables[1])])
    stream = read_stream(spark, folder)
    results = collect(mt.spark.aggregate(stream, query, types=TYPES), checkpoint)
    write_file(folder, 2, only_n(tables[2]))
    others = {
        r"keys is \['k', 'n'\]": asked(windows, {"total": own_total(1)}),
        r"aggregate 'total': its function lift": asked(
            windows, {"total": own_total(1000)}, keys=("n",)
        ),
    }
    for message, other in others.items():
        with pytest.raises(StreamingQueryException, match=message):
            collect(mt.spark.aggregate(stream, other, types=TYPES), checkpoint)
    results += collect(mt.spark.aggregate(stream, query, types=TYPES), checkpoint)
    taken = [only_n(table) for table in tables[:3]]
    assert comparable(results) == comparable(embedded(query, [*taken[:2], None, taken[2]]))
    write_file(folder, 3, only_n(tables[3]))
    trusted = mt.spark.aggregate(
        stream, others[r"aggregate 'total': its function lift"], types=TYPES, trust_functions=True
    )
    assert len(collect(trusted, checkpoint)) > 0


def only_n(table):
    """Return the rows of one key, so that other shards have none."""
    return table.filter(pc.equal(table["n"], 0))


def test_state_that_spark_cut_into_other_partitions_is_refused(spark, tables, tmp_path):
    folder, checkpoint = tmp_path / "in", tmp_path / "cp"
    query = asked({"a": mt.Sliding("20 s", "5 s")})
    write_files(folder, tables[:2])
    collect(mt.spark.aggregate(read_stream(spark, folder), query), checkpoint)
    spark._streamingCheckpointManager.repartition(str(checkpoint), 5)
    write_file(folder, 2, tables[2])
    with pytest.raises(StreamingQueryException, match=r"no header|partitions was 2 and is 5"):
        collect(mt.spark.aggregate(read_stream(spark, folder), query), checkpoint)


def test_a_first_micro_batch_without_rows_begins_all_shards(spark, tables, tmp_path):
    query = asked({"a": mt.Sliding("20 s", "5 s")})
    folder, checkpoint = tmp_path / "in", tmp_path / "cp"
    write_files(folder, [tables[0].slice(0, 0), tables[1]])
    results = collect(mt.spark.aggregate(read_stream(spark, folder), query), checkpoint)
    write_file(folder, 2, tables[2])
    results += collect(mt.spark.aggregate(read_stream(spark, folder), query), checkpoint)
    assert comparable(results) == comparable(embedded(query, [tables[1], None, tables[2]]))
