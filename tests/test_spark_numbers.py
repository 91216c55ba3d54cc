"""Extreme numbers on Spark: the sums, means and types that Spark's own functions give, or an error."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import muntin as mt
from tests.spark_streams import collect, write_files

NOON = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)
NOW = 1_750_000_000_000_000_000
BIG = Decimal(2 * 10**24)
VALUES = {
    "long": ("bigint", pa.int64(), [2**62, 2**62, -(2**62), NOW, 2**53 + 1, None]),
    "byte": ("tinyint", pa.int8(), [127, 127, -128, 1, None, 127]),
    "decimal": ("decimal(38,10)", pa.decimal128(38, 10), [BIG, BIG, Decimal("0.0000000001"), None]),
    "small": (
        "decimal(5,2)",
        pa.decimal128(5, 2),
        [Decimal("999.99"), Decimal("0.01"), Decimal("0.02")],
    ),
    "at": (
        "timestamp",
        pa.timestamp("us", "UTC"),
        [NOON, NOON + dt.timedelta(microseconds=1), None],
    ),
    "span": (
        "interval day to second",
        pa.duration("us"),
        [dt.timedelta(1), dt.timedelta(days=2), None],
    ),
    "flag": ("boolean", pa.bool_(), [True, True, None, False]),
}
AGGREGATES = {
    name: {
        **({} if name in ("at", "flag") else {"sum": mt.Sum(name)}),
        **({} if name in ("decimal",) else {"mean": mt.Mean(name)}),
        "max": mt.Max(name),
        "last": mt.Last(name),
        "count": mt.Count(name),
    }
    for name in VALUES
}
ROWS = max(len(values) for _, _, values in VALUES.values())
SCHEMA = "ts timestamp, " + ", ".join(f"{name} {kind}" for name, (kind, _, _) in VALUES.items())


def rows_of(**replaced) -> pa.Table:
    """Return rows of one minute with the values of each type; the rest is null."""
    columns = {"ts": pa.array([NOON + dt.timedelta(seconds=i) for i in range(ROWS)])}
    columns["ts"] = columns["ts"].cast(pa.timestamp("us", "UTC"))
    for name, (_, kind, values) in VALUES.items():
        values = replaced.get(name, values)
        columns[name] = pa.array(values + [None] * (ROWS - len(values)), kind)
    return pa.table(columns)


def asked(aggregates, **options) -> mt.Query:
    windows = {"minute": mt.Tumbling("1 minute")}
    return mt.Query(time="ts", windows=windows, aggregates=aggregates, **options)


def frame_of(spark, table):
    return spark.createDataFrame(table, StructType.fromDDL(SCHEMA))


@pytest.fixture(scope="module")
def frame(spark):
    return frame_of(spark, rows_of())


NATIVE = {"sum": F.sum, "mean": F.avg, "max": F.max, "count": F.count}


def all_aggregates(without=("last",)):
    return {
        f"{name}_{what}": aggregate
        for name, aggregates in AGGREGATES.items()
        for what, aggregate in aggregates.items()
        if what not in without
    }


def test_results_are_those_of_spark(frame):
    """Values and types; what Spark cannot average (times) is in the next test."""
    ours = {n: a for n, a in all_aggregates().items() if n not in ("at_mean", "flag_mean")}
    row = mt.spark.aggregate(frame, asked(ours)).select(*ours)
    native = [NATIVE[n.split("_")[1]](n.split("_")[0]).alias(n) for n in ours]
    theirs = frame.agg(*native)
    for field in theirs.schema:
        assert row.schema[field.name].dataType == field.dataType, field.name
    found, wanted = row.collect()[0].asDict(), theirs.collect()[0].asDict()
    for name in ours:
        assert found[name] == wanted[name], name


def test_results_are_exact_and_those_of_the_operator(frame):
    asked_for = asked(all_aggregates(without=()))
    (row,) = mt.spark.aggregate(frame, asked_for).toArrow().to_pylist()
    (here,) = asked_for.run(rows_of()).to_pylist()
    for name in asked_for.aggregates:
        assert row[name] == here[name], name
    assert row["long_sum"] == 2**62 + NOW + 2**53 + 1
    assert row["long_mean"] == float(Fraction(row["long_sum"], 5))
    assert row["byte_sum"] == 254
    assert row["decimal_sum"] == 2 * BIG + Decimal("1e-10")
    assert row["small_mean"] == Decimal("333.340000")
    assert row["at_mean"] == NOON
    assert row["span_sum"] == dt.timedelta(days=3)


OVERFLOWS = {
    "long": [2**62, 2**62],
    "decimal": [Decimal(10**28 - 1), Decimal(10**28 - 1)],
    "span": [dt.timedelta(microseconds=2**62), dt.timedelta(microseconds=2**62)],
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_sum_that_does_not_fit_is_an_error_or_null(spark, name):
    frame = frame_of(spark, rows_of(**{name: OVERFLOWS[name]}))
    with pytest.raises(Exception, match="(?s)OverflowError.*total.*minute"):
        mt.spark.aggregate(frame, asked({"total": mt.Sum(name)})).collect()
    nulls = asked({"total": mt.Sum(name, overflow="null"), "rows": mt.Count(name)})
    (row,) = mt.spark.aggregate(frame, nulls).collect()
    assert (row["total"], row["rows"]) == (None, 2)


BARE = {"sum": mt.Sum(), "mean": mt.Mean(), "max": mt.Max(), "last": mt.Last()}


def test_rolling_gives_the_same(frame):
    names = [
        n for n in all_aggregates(without=("count",)) if n.startswith(("long", "decimal", "at"))
    ]
    aggregates = {n: a for n, a in all_aggregates(without=()).items() if n in names}
    table = mt.spark.rolling(
        frame, order="ts", size=2, aggregates=aggregates, min_periods=1
    ).toArrow()
    table = table.sort_by("ts")
    for name in names:
        column, what = name.split("_")
        rolled = mt.rolling(rows_of()[column].combine_chunks(), 2, BARE[what], min_periods=1)
        assert table[name].to_pylist() == rolled.to_pylist(), name


def stream_of(spark, folder):
    schema = StructType.fromDDL(SCHEMA)
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def test_a_stream_gives_the_same(spark, tmp_path):
    later = rows_of()
    later = later.set_column(
        0, "ts", pa.array([NOON + dt.timedelta(hours=1)] * ROWS, later["ts"].type)
    )
    without_spans = [table.drop_columns("span") for table in (rows_of(), rows_of(), later)]
    write_files(tmp_path / "in", without_spans)
    aggregates = {n: a for n, a in all_aggregates(("last",)).items() if not n.startswith("span")}
    aggregates["long_sum"] = mt.Sum("long", overflow="null")
    query = asked(aggregates, watermark="1 second")
    results = collect(mt.spark.aggregate(stream_of(spark, tmp_path / "in"), query), tmp_path / "cp")
    (row,) = [row for row in results if row["start"] == NOON]
    both = pa.concat_tables(without_spans[:2])
    (here,) = query.run(both).to_pylist()
    assert {n: row[n] for n in aggregates} == {n: here[n] for n in aggregates}
    assert row["long_sum"] is None
    assert row["decimal_sum"] == 4 * BIG + Decimal("2e-10")


def test_an_overflow_in_a_stream_is_an_error(spark, tmp_path):
    table = rows_of(long=[2**62, 2**62]).drop_columns("span")
    later = table.set_column(
        0, "ts", pa.array([NOON + dt.timedelta(hours=1)] * ROWS, table["ts"].type)
    )
    write_files(tmp_path / "in", [table, later])
    query = asked({"total": mt.Sum("long")}, watermark="1 second")
    with pytest.raises(StreamingQueryException, match="(?s)OverflowError.*total"):
        collect(mt.spark.aggregate(stream_of(spark, tmp_path / "in"), query), tmp_path / "cp")
