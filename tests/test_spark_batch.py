"""Queries on finished DataFrames give what Spark's windows, streams and the operator give."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

import muntin as mt
from tests.spark_streams import collect, comparable, random_rows, read_stream, write_files
from tests.test_spark_streaming import EMBEDDED, NATIVE_WINDOWS, asked, native_sums


@pytest.fixture(scope="module")
def rows():
    return pa.concat_tables([random_rows(7, batch) for batch in range(6)])


@pytest.fixture(scope="module")
def frame(spark, rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch") / "in"
    write_files(folder, [rows.slice(i * 150, 150) for i in range(6)])
    return spark.read.parquet(str(folder))


@pytest.mark.parametrize("name", NATIVE_WINDOWS)
def test_windows_are_those_of_spark(frame, name):
    window, _, native = NATIVE_WINDOWS[name]
    ours = mt.spark.aggregate(frame, asked({"w": window}), engine="muntin").toArrow().to_pylist()
    theirs = frame.groupBy("k", "n", native().alias("w")).agg(*native_sums())
    theirs = theirs.select(
        "k", "n", F.lit("w").alias("window"), "w.start", "w.end", F.lit("result").alias("kind"),
        "sum", "max", "mean", "rows",
    )  # fmt: skip
    assert comparable(ours) == comparable(theirs.toArrow().to_pylist())
    assert len(ours) > 50


@pytest.mark.parametrize("name", EMBEDDED)
def test_results_are_those_of_the_operator(frame, rows, name):
    query = EMBEDDED[name]
    results = mt.spark.aggregate(frame, query).toArrow().to_pylist()
    by_time = rows.take(pc.sort_indices(rows["ts"]))
    assert comparable(results) == comparable(query.run(by_time).to_pylist())
    assert results


def test_backfill_and_live_give_the_same_table(spark, rows, tmp_path):
    """All rows, and one so late that the watermark closes everything before it."""
    query = asked({"a": mt.Sliding("20 s", "5 s"), "s": mt.Session("2 s")}, lateness="10 minutes")
    end = random_rows(7, 500, count=1)
    tables = [*(rows.slice(i * 300, 300) for i in range(3)), end]
    write_files(tmp_path / "in", tables)
    live: dict[str, dict] = {}
    for row in collect(
        mt.spark.aggregate(read_stream(spark, tmp_path / "in"), query), tmp_path / "cp"
    ):
        of = str([row[name] for name in ("k", "n", "window", "start", "end")])
        live.pop(of, None)
        if row["kind"] != "retract":
            live[of] = {**row, "kind": "result"}
    finished = spark.read.parquet(str(tmp_path / "in"))
    backfill = mt.spark.aggregate(finished, query).toArrow().to_pylist()
    before = [row for row in backfill if row["start"].timestamp() < 1_700_003_000]
    assert comparable(live.values()) == comparable(before)


def test_results_are_made_in_steps(monkeypatch):
    """Watermarks on the way, so that not all windows of all keys are in memory at once."""
    from muntin.spark import batch
    from muntin.spark.packing import Packing

    query = mt.Query(time="t", windows={"a": mt.Tumbling(5)}, aggregates={"n": mt.Count()})
    table = pa.table({"t": list(range(100))})
    operator = Packing("steps", query, table.slice(0, 0)).operator(query)
    operator.merge([operator.fold(table)[0]])
    monkeypatch.setattr(batch, "RESULTS_AT_ONCE", 5)
    steps = list(batch._steps(operator))
    assert steps == [24, 49, 74]
    made = [operator.advance(step).num_rows for step in steps] + [operator.complete().num_rows]
    assert made == [4, 5, 5, 6]


@pytest.mark.parametrize("kind", ["bigint", "date", "timestamp_ntz"])
def test_times_of_other_types(spark, kind):
    expression = {"bigint": "id * 1000000", "date": "date_add(date'2020-01-01', cast(id as int))"}
    moment = expression.get(
        kind, "timestamp_ntz'2020-01-01 00:00:00' + make_interval(0,0,0,0,0,0,id)"
    )
    frame = spark.range(20).select(F.expr(f"{moment} as t"), F.col("id").alias("v"))
    size = "5 days" if kind == "date" else "5 seconds"
    query = mt.Query(time="t", windows={"w": mt.Tumbling(size)}, aggregates={"s": mt.Sum("v")})
    results = mt.spark.aggregate(frame, query).toArrow().to_pylist()
    assert sum(row["s"] for row in results) == 190
    assert len(results) in (4, 5)


def test_an_empty_frame_has_no_windows(frame):
    query = EMBEDDED["several at once"]
    assert mt.spark.aggregate(frame.filter("v > 1000"), query).count() == 0


def test_a_gap_may_be_a_column_of_intervals(spark):
    """As in Spark's session_window with a gap of each row; text is a duration, too."""
    rows = [(k, at, gap) for k in "ab" for at, gap in ((0, 20), (3, 2), (20, 4), (40, 5), (46, 1))]
    frame = spark.createDataFrame(rows, "k string, at long, seconds int").select(
        "k",
        F.timestamp_seconds("at").alias("ts"),
        F.make_dt_interval(secs="seconds").alias("gap"),
        F.concat("seconds", F.lit(" seconds")).alias("words"),
    )
    native = frame.groupBy("k", F.session_window("ts", F.col("words")).alias("w"))
    wanted = native.count().select("k", "w.start", "w.end", F.col("count").alias("n"))
    for column in ("gap", "words"):
        query = mt.Query(
            time="ts",
            keys="k",
            windows={"w": mt.Session(column=column)},
            aggregates={"n": mt.Count()},
        )
        found = mt.spark.aggregate(frame, query).select("k", "start", "end", "n")
        assert sorted(found.collect()) == sorted(wanted.collect())
