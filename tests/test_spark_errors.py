"""What Spark would only find out on the way is refused before a stream starts."""

import threading

import pytest
from pyspark.sql import functions as F

import muntin as mt

LOCK = threading.Lock()


@pytest.fixture(scope="module")
def stream(spark):
    rows = spark.readStream.format("rate").load().withColumn("k", F.col("value") % 3)
    return rows.withColumn("m", F.create_map(F.lit("a"), F.lit(1))).withColumn("text", F.lit("a"))


def asked(**changed) -> mt.Query:
    parts = {
        "time": "timestamp",
        "keys": "k",
        "windows": {"a": mt.Tumbling("5 s")},
        "aggregates": {"s": mt.Sum("value")},
        "watermark": "1 second",
    }
    return mt.Query(**{**parts, **changed})


def own(**functions) -> mt.Aggregate:
    parts = {"lift": abs, "combine": lambda a, b: a + b, "columns": ("value",)}
    return mt.Aggregate("own", 0, **{**parts, **functions})


def raises(_value):
    raise RuntimeError("not today")


REFUSED = {
    "no column": (
        asked(aggregates={"s": mt.Sum("watts")}),
        "no column 'watts'.*aggregates.*'value'",
    ),
    "no key": (asked(keys="plug"), "no column 'plug', which the query's keys"),
    "time": (asked(time="value"), "time column 'value' is bigint.*timestamp_micros"),
    "map": (asked(keys="m"), "column 'm' is map<string,int>, which cannot be a key"),
    "watermark": (asked(watermark=None), "no watermark on 'timestamp'.*withWatermark"),
    "text": (
        asked(aggregates={"s": mt.Sum("text")}),
        "'s' computes with numbers.*'text' is string",
    ),
    "lock": (
        asked(aggregates={"s": own(lift=lambda x: (LOCK, x)[1])}),
        "aggregate 's' cannot be sent.*lock",
    ),
    "raises": (asked(aggregates={"s": own(lift=raises)}), "type of 's' could not be found.*types="),
    "nothing": (asked(aggregates={"s": own(lower=lambda _x: None)}), "'s'.*gave null.*types="),
    "filter": (asked(aggregates={"s": mt.Bloom("value")}), "'s' gives a filter"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_queries_that_cannot_run_are_refused(stream, name):
    query, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        mt.spark.aggregate(stream, query)


def test_arguments_are_checked(spark, stream):
    with pytest.raises(ValueError, match="mode must be one of append, update, got 'complete'"):
        mt.spark.aggregate(stream, asked(), mode="complete")
    with pytest.raises(TypeError, match=r"takes a muntin.Query, got None"):
        mt.spark.aggregate(stream, None)
    with pytest.raises(ValueError, match="types declares 'x', which is no aggregate.*'s'"):
        mt.spark.aggregate(stream, asked(), types={"x": "double"})
    with pytest.raises(ValueError, match="watermark of 3000 ms.*1000 ms: leave one"):
        mt.spark.aggregate(stream.withWatermark("timestamp", "3 seconds"), asked())
    twice = stream.withColumnRenamed("text", "value")
    with pytest.raises(ValueError, match="two columns 'value'"):
        mt.spark.aggregate(twice, asked())
    finished = spark.sql("select 'a' as text, 1 as k, 2 as value")
    with pytest.raises(TypeError, match="time column 'text' is string: times are"):
        mt.spark.aggregate(finished, asked(time="text"))


def test_another_state_store_is_refused(spark, stream):
    provider = "spark.sql.streaming.stateStore.providerClass"
    held = spark.conf.get(provider)
    spark.conf.set(provider, held.replace("RocksDB", "HDFSBacked"))
    try:
        with pytest.raises(ValueError, match="RocksDB store.*HDFSBacked.*session"):
            mt.spark.aggregate(stream, asked())
    finally:
        spark.conf.set(provider, held)


def test_a_type_can_be_declared(stream):
    query = asked(aggregates={"s": own(lower=lambda _x: None)})
    out = mt.spark.aggregate(stream, query, types={"s": "decimal(10,2)"})
    assert out.schema["s"].dataType.simpleString() == "decimal(10,2)"


def test_the_types_of_results(stream):
    aggregates = {
        "top": mt.TopK("k"),
        "times": mt.Collect("timestamp"),
        "middle": mt.Median("timestamp"),
        "last": mt.Last("timestamp"),
        "m4": mt.M4("value"),
        "own": own(),
    }
    schema = mt.spark.aggregate(stream, asked(aggregates=aggregates)).schema
    assert {name: schema[name].dataType.simpleString() for name in aggregates} == {
        "top": "array<struct<value:bigint,count:bigint>>",
        "times": "array<timestamp>",
        "middle": "timestamp",
        "last": "timestamp",
        "m4": "struct<min:bigint,max:bigint,first:bigint,last:bigint>",
        "own": "bigint",
    }


def test_transform_takes_it(stream):
    out = stream.transform(mt.spark.aggregate, asked())
    assert out.columns == ["k", "window", "start", "end", "kind", "s", "window_time"]
    assert out.isStreaming
