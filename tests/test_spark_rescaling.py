"""A checkpoint is cut into other partitions by Spark, and goes on as if nothing had been."""

import pyspark
import pytest
from pyspark.errors import StreamingQueryException

import muntin as mt
from muntin.spark.packing import grouping_keys, spark_hash
from tests.spark_streams import (
    collect,
    comparable,
    random_rows,
    read_stream,
    write_file,
    write_files,
)

PARTITIONS = "spark.sql.shuffle.partitions"
NEW = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)


@pytest.fixture
def partitions(spark):
    """Set the number of partitions of streams that begin, and set it back."""
    before = spark.conf.get(PARTITIONS)
    yield lambda number: spark.conf.set(PARTITIONS, number)
    spark.conf.set(PARTITIONS, before)


def asked() -> mt.Query:
    return mt.Query(
        time="ts",
        keys=("k", "n"),
        windows={"w": mt.Sliding("20 s", "5 s"), "s": mt.Session("2 s"), "c": mt.LastN(4, "8 s")},
        aggregates={"rows": mt.Count(), "sum": mt.Sum("v"), "all": mt.Collect("v")},
        watermark="5 s",
        lateness="15 s",
    )


@pytest.mark.parametrize("number", [1, 2, 3, 4, 6, 12])
def test_shards_are_spread_evenly_over_partitions_whose_number_divides_theirs(number):
    partitions = [spark_hash(key) % number for key in grouping_keys(12)]
    assert {partitions.count(i) for i in range(number)} == {12 // number}


@pytest.mark.skipif(not NEW, reason="Spark cuts state into other partitions from 4.2 on")
def test_a_stream_goes_on_with_more_and_with_fewer_partitions(spark, tmp_path, partitions):
    """From 2 partitions to 8 and to 3, with 8 shards, beside a stream that went through."""
    tables = [random_rows(11, batch) for batch in range(6)]
    write_files(tmp_path / "all", tables)
    expected = collect(
        mt.spark.aggregate(read_stream(spark, tmp_path / "all"), asked()), tmp_path / "whole"
    )
    partitions(2)
    found, checkpoint = [], tmp_path / "checkpoint"
    (tmp_path / "in").mkdir()
    for step, now in enumerate([2, 8, 3]):
        for number in (2 * step, 2 * step + 1):
            write_file(tmp_path / "in", number, tables[number])
        if step:
            spark._streamingCheckpointManager.repartition(str(checkpoint), now)
        stream = mt.spark.aggregate(read_stream(spark, tmp_path / "in"), asked(), shards=8)
        found += collect(stream, checkpoint)
    assert last(found) == last(expected)
    assert len(found) > 100
    other = mt.spark.aggregate(read_stream(spark, tmp_path / "in"), asked(), shards=4)
    write_file(tmp_path / "in", 6, random_rows(11, 6))
    with pytest.raises(StreamingQueryException, match=r"number of shards|no header"):
        collect(other, checkpoint)


def last(rows):
    """Return the table that a consumer has in the end."""
    table = {}
    for row in rows:
        of = str(
            [row[n] for n in ("k", "n", "window", "end", *(["start"] * (row["window"] != "c")))]
        )
        table.pop(of, None)
        if row["kind"] != "retract":
            table[of] = {**row, "kind": ""}
    return comparable(table.values())


@pytest.mark.parametrize("shards", [0, -1, 1.5, True, "8", 5000])
def test_a_number_of_shards_that_is_none_is_refused(spark, tmp_path, shards):
    with pytest.raises(ValueError, match="shards must be a whole number from 1 to 4096"):
        mt.spark.aggregate(read_stream(spark, tmp_path), asked(), shards=shards)
