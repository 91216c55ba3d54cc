"""Queries over the results of queries, on streams: what finished data give, and what is refused."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import muntin as mt
from muntin.query.query import WINDOW_TIME
from tests.spark_streams import (
    BEGIN,
    SECOND,
    collect,
    comparable,
    random_rows,
    read_stream,
    write_file,
)

BATCHES, DELAY = 5, 15 * SECOND
BOUND = BEGIN + 45 * SECOND
"""The results that end by then are compared: rows come until five seconds later."""
ROWS = {"n": mt.Count(), "top": mt.Max("v")}
OVER = {"rows": mt.Sum("n"), "windows": mt.Count(), "top": mt.Max("top")}


def rows_query(windows, **options):
    options = {"keys": "k", "watermark": "15 s", "aggregates": ROWS, **options}
    return mt.Query(time="ts", windows=windows, **options)


def over(windows, aggregates=OVER, **options):
    return mt.Query(time=WINDOW_TIME, windows=windows, aggregates=aggregates, **options)


def rows_in_time(batch):
    """Return rows of ten seconds, none of which is late; the watermark comes to whole seconds."""
    table, rng = random_rows(3, batch, 60), np.random.default_rng(batch)
    times = BEGIN + batch * 10 * SECOND + np.append(rng.integers(-5, 11, 59), 10) * SECOND
    times[::3] -= rng.integers(0, SECOND, 20)
    times = BEGIN + 100 * SECOND if batch == BATCHES else times
    times = pa.array(np.broadcast_to(times, 60), pa.timestamp("us", "UTC"))
    return table.set_column(0, "ts", times)


@pytest.fixture(scope="module")
def tables():
    return [rows_in_time(batch) for batch in range(BATCHES + 1)]


CHAINS = {
    "with lateness and sessions": [
        rows_query({"s": mt.Session("2 s"), "a": mt.Sliding("4 s", "2 s")}, lateness="5 s"),
        over({"b": mt.Tumbling("5 s")}, keys="k", lateness="3 s"),
        over({"c": mt.Tumbling("10 s")}, {"all": mt.Sum("rows")}),
    ],
    "fired and punctuated": [
        rows_query({"f": mt.Sliding("4 s", mt.rows(5)), "p": mt.Punctuation("b")}),
        over({"b": mt.Tumbling("5 s"), "l": mt.LastN(3, "10 s")}, keys="k"),
    ],
    "the last rows, and lists": [
        rows_query({"l": mt.LastN(5, "2 s")}, aggregates={"n": mt.Collect("v")}),
        over({"b": mt.Tumbling("3 s"), "s": mt.Session("2 s")}, {"n": mt.Last("n")}, keys="k"),
    ],
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_gives_what_finished_data_give(spark, tables, tmp_path, name):
    """On the way is a restart; each query takes the results of the one before."""
    ours = []
    (tmp_path / "in").mkdir()
    numbered = [*enumerate(tables)]
    for part in (numbered[:3], numbered[3:]):
        for number, table in part:
            write_file(tmp_path / "in", number, table)
        frame = read_stream(spark, tmp_path / "in")
        for query in CHAINS[name]:
            frame = mt.spark.aggregate(frame, query, mode="append")
        ours += collect(frame, tmp_path / "cp", "append")
    finished, results = spark.createDataFrame(pa.concat_tables(tables)), pa.concat_tables(tables)
    for query in CHAINS[name]:
        finished, results = mt.spark.aggregate(finished, query), query.run(results)
    wanted = in_bounds(results.to_pylist())
    assert comparable(in_bounds(ours)) == comparable(wanted)
    assert comparable(in_bounds(finished.toArrow().to_pylist())) == comparable(wanted)
    assert len(wanted) > 3


def in_bounds(rows):
    """Return the results that are compared, with whole numbers for times: LastN alone has these."""
    found = [row | {name: whole(row[name]) for name in ("start", "end")} for row in rows]
    return [row for row in found if row["end"] <= BOUND]


def whole(bound):
    known = bound is None or isinstance(bound, int)
    return bound if known else round(bound.timestamp() * SECOND)


def test_sparks_own_windows_follow(spark, tables, tmp_path):
    (tmp_path / "in").mkdir()
    for number, table in enumerate(tables):
        write_file(tmp_path / "in", number, table)
    stream = read_stream(spark, tmp_path / "in")
    ours = mt.spark.aggregate(stream, rows_query({"a": mt.Sliding("4 s", "2 s")}), mode="append")
    native = stream.withWatermark("ts", "15 seconds")
    native = native.groupBy("k", F.window("ts", "4 seconds", "2 seconds").alias("w"))
    native = native.agg(F.count(F.lit(1)).alias("n")).withColumn(WINDOW_TIME, F.window_time("w"))
    both = []
    for name, frame in {"ours": ours, "native": native}.items():
        frame = frame.groupBy("k", F.window(WINDOW_TIME, "5 seconds").alias("w"))
        frame = frame.agg(F.sum("n").alias("rows")).select("k", "w.start", "rows")
        both.append(collect(frame, tmp_path / name, "append"))
    assert comparable(both[0]) == comparable(both[1])
    assert len(both[0]) > 20


def test_results_have_the_last_microsecond_of_their_window(spark, tmp_path):
    (tmp_path / "in").mkdir()
    stream = read_stream(spark, tmp_path / "in")
    append = mt.spark.aggregate(stream, rows_query({"a": mt.Tumbling("4 s")}), mode="append")
    assert append.columns[-1] == WINDOW_TIME
    assert append.schema[WINDOW_TIME].dataType == append.schema["end"].dataType
    update = mt.spark.aggregate(stream, rows_query({"a": mt.Tumbling("4 s")}), mode="update")
    assert WINDOW_TIME not in update.columns
    count = rows_query({"c": mt.Tumbling(4, measure="count")})
    assert WINDOW_TIME not in mt.spark.aggregate(stream, count, mode="append").columns


def first(windows=None, **options):
    windows = {"a": mt.Tumbling("4 s")} if windows is None else windows
    return rows_query(windows, **options), "append"


def union(frame):
    return frame.union(frame)


LATE = first(lateness="1 s")
MIXED = first({"a": mt.Tumbling("4 s"), "c": mt.Tumbling(4, measure="count")})
TEN = {"b": mt.Tumbling("10 s")}
REFUSED = {
    "of an update": ((first()[0], "update"), None, over(TEN), "'window_time' is not their time"),
    "by its end": (
        first(),
        None,
        mt.Query(time="end", windows=TEN, aggregates=OVER),
        "'end' is not their time: .* time='window_time'",
    ),
    "changed": (
        first(),
        lambda frame: frame.withColumn(WINDOW_TIME, F.col("end")),
        over(TEN),
        "leave the column as it is",
    ),
    "in update": (first(), None, over(TEN, early=True), "in mode 'append', got 'update'"),
    "late": (first(), None, over(TEN, lateness="1 s"), "in mode 'append', got 'update'"),
    "a watermark": (first(), None, over(TEN, watermark="5 s"), "a watermark of '5 s'"),
    "mixed": (MIXED, None, over(TEN), "results of window 'c' have no time"),
    "dropped": (first(dropped="report"), None, over(TEN), "leave out dropped='report'"),
    "together": (LATE, union, over(TEN), "results of several queries"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_follow_is_refused_before_the_start(spark, tmp_path, name):
    (query, mode), between, second, says = REFUSED[name]
    (tmp_path / "in").mkdir()
    frame = mt.spark.aggregate(read_stream(spark, tmp_path / "in"), query, mode=mode)
    frame = between(frame) if between else frame
    with pytest.raises(ValueError, match=says):
        mt.spark.aggregate(frame, second)


SPARKS = {
    "late": LATE,
    "sessions": first({"s": mt.Session("2 s")}),
    "microseconds": first({"a": mt.Tumbling("1500 us")}),
    "update": (first()[0], "update"),
}


@pytest.mark.parametrize("name", SPARKS)
def test_sparks_own_windows_do_not_follow_where_spark_might_refuse_rows(spark, tmp_path, name):
    query, mode = SPARKS[name]
    (tmp_path / "in").mkdir()
    frame = mt.spark.aggregate(read_stream(spark, tmp_path / "in"), query, mode=mode)
    time = WINDOW_TIME if mode == "append" else "end"
    counts = frame.groupBy(F.window(time, "5 seconds")).count()
    writer = counts.writeStream.format("noop").outputMode("append")
    with pytest.raises(Exception, match="(?i)watermark|append"):
        writer.option("checkpointLocation", str(tmp_path / "cp")).start()


def test_corrections_are_not_read_as_rows():
    query = mt.Query(
        time="t", windows={"a": mt.Tumbling(4)}, aggregates={"n": mt.Count()}, early=True
    ).operator()
    query.process({"t": [1]})
    second = over({"b": mt.Tumbling(8)}, {"n": mt.Sum("n")})
    with pytest.raises(ValueError, match="results of kind 'early'"):
        second.run(query.advance(2))
    assert second.run(query.advance(9)).to_pylist() == [
        {"window": "b", "start": 0, "end": 8, "kind": "result", "n": 1}
    ]
