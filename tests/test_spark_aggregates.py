"""Ranks, lists, weights and counters on Spark: the results and types that they have in one process."""

import pyarrow as pa
import pytest

import muntin as mt
from tests.spark_streams import (
    SCHEMA,
    collect,
    comparable,
    embedded,
    random_rows,
    read_stream,
    write_files,
)

AGGREGATES = {
    "rank": mt.Rank("v"),
    "mode": mt.Mode("s"),
    "entropy": mt.Entropy("s"),
    "bins": mt.Histogram("x", [0, 3, 9]),
    "quantiles": mt.Quantiles("v", [0.5, 0.9]),
    "between": mt.Quantiles("v", [0.5, 0.9], interpolation="linear"),
    "top": mt.TopBy(2, "v", "v", "s", "ts"),
    "low": mt.BottomBy(2, "v", "x"),
    "first": mt.FirstK(2, "s"),
    "last": mt.LastK(2, "v"),
    "rows": mt.Ewm("v", span=5),
    "time": mt.Ewm("v", halflife="3 s", time="ts"),
    "sum": mt.DecayedSum("v", halflife="3 s", time="ts"),
    "mean": mt.TimeWeightedMean("v", time="ts"),
    "rate": mt.Rate("v", time="ts"),
    "risen": mt.Increase("v"),
}
TYPES = {
    **dict.fromkeys(("rank", "entropy", "rows", "time", "sum", "mean", "rate"), "double"),
    "mode": "string",
    "bins": "array<bigint>",
    "quantiles": "array<bigint>",
    "between": "array<double>",
    "top": "array<struct<v:bigint,s:string,ts:timestamp>>",
    "low": "array<double>",
    "first": "array<string>",
    "last": "array<bigint>",
    "risen": "bigint",
}


@pytest.fixture(scope="module")
def tables():
    return [random_rows(23, batch) for batch in range(3)]


@pytest.fixture(scope="module")
def folder(tables, tmp_path_factory):
    path = tmp_path_factory.mktemp("aggregates") / "in"
    write_files(path, tables)
    return path


def asked(**options):
    windows = {"w": mt.Sliding("20 s", "10 s")}
    return mt.Query(time="ts", keys=("k",), windows=windows, aggregates=AGGREGATES, **options)


def same(found, wanted):
    found, wanted = comparable(found), comparable(wanted)
    assert len(found) == len(wanted) > 5
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == theirs


def test_batches_and_their_types(spark, folder, tables):
    frame = spark.read.schema(SCHEMA).parquet(str(folder))
    out = mt.spark.aggregate(frame, asked())
    assert {name: kind for name, kind in out.dtypes if name in TYPES} == TYPES
    found = out.toArrow().to_pylist()
    same(found, asked().run(pa.concat_tables(tables)).to_pylist())


def test_streams(spark, folder, tables, tmp_path):
    query = asked(watermark="5 seconds", lateness="20 s")
    out = mt.spark.aggregate(read_stream(spark, folder), query)
    same(collect(out, tmp_path / "checkpoint"), embedded(query, tables))


def test_frames(spark, folder, tables):
    """The results of each row are those of its frame as a table of its own."""
    frame = spark.read.schema(SCHEMA).parquet(str(folder))
    out = mt.spark.rolling(frame, keys="k", order="ts", size=8, aggregates=AGGREGATES)
    assert {name: kind for name, kind in out.dtypes if name in TYPES} == TYPES
    found = out.toArrow().sort_by([("k", "ascending"), ("ts", "ascending")])
    rows = found.select([field.name for field in tables[0].schema])
    whole = mt.Query(time="n", windows={"w": mt.Tumbling(2)}, aggregates=AGGREGATES)
    for i in range(0, found.num_rows, 29):
        key, first = found["k"][i], max(0, i - 7)
        inside = [j for j in range(first, i + 1) if found["k"][j].equals(key)]
        table = rows.take(inside).set_column(2, "n", pa.array([0] * len(inside)))
        (wanted,) = whole.run(table).to_pylist()
        ours = found.slice(i, 1).select([*AGGREGATES]).to_pylist()
        assert comparable(ours) == comparable([{name: wanted[name] for name in AGGREGATES}])
