"""What a checkpoint cannot serve is said before a stream starts."""

import pytest

import muntin as mt
from muntin.aggregates import SnapshotError
from tests.spark_streams import collect, random_rows, read_stream, write_files

SUM = {"sum": mt.Sum("v")}


def asked(**changed) -> mt.Query:
    parts = {
        "time": "ts",
        "keys": ("k", "n"),
        "windows": {"a": mt.Sliding("20 s", "5 s")},
        "aggregates": SUM | {"own": mt.Aggregate("own", 0, int, max, columns=("v",))},
        "watermark": "5 seconds",
    }
    return mt.Query(**{**parts, **changed})


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked")
    write_files(folder / "in", [random_rows(3, batch) for batch in range(2)])
    results = mt.spark.aggregate(read_stream(spark, folder / "in"), asked(aggregates=SUM))
    collect(results, folder / "out", "append")
    return folder


SERVED = {
    "the same": asked(aggregates=SUM),
    "a window more": asked(
        aggregates=SUM, windows={"a": mt.Sliding("20 s", "5 s"), "b": mt.Session("2 s")}
    ),
    "other windows": asked(aggregates=SUM, windows={"b": mt.Session("2 s")}),
    "an aggregate more": asked(),
    "a lateness": asked(aggregates=SUM, lateness="1 min"),
}


REFUSED = {
    "keys": (asked(keys="k"), r"keys is \['k'\] here and \['k', 'n'\] in the checkpoint"),
    "a window": (asked(aggregates=SUM, windows={"a": mt.Tumbling("1 s")}), "'Tumbling'.*'Sliding'"),
    "emit": (asked(aggregates=SUM, emit="changes"), "emit is 'changes' here and 'every'"),
}


@pytest.mark.parametrize("name", SERVED)
def test_a_query_that_is_served_is_not_refused(checkpoint, name):
    assert mt.spark.check(checkpoint / "out", SERVED[name]) is None


@pytest.mark.parametrize("name", REFUSED)
def test_a_query_that_is_not_served_is_refused(checkpoint, name):
    query, message = REFUSED[name]
    with pytest.raises(SnapshotError, match=f"the checkpoint is of another query.*{message}"):
        mt.spark.check(checkpoint / "out", query)


@pytest.mark.usefixtures("spark")
def test_a_new_checkpoint_serves_every_query(tmp_path):
    assert mt.spark.check(tmp_path / "new", asked()) is None


def test_a_checkpoint_of_another_stream_is_refused(spark, checkpoint, tmp_path):
    counted = (
        read_stream(spark, checkpoint / "in").withWatermark("ts", "5 seconds").groupBy("k").count()
    )
    collect(counted, tmp_path / "native", "update")
    with pytest.raises(SnapshotError, match="native is of a stream without a query of muntin"):
        mt.spark.check(tmp_path / "native", asked())


def test_own_functions_are_compared(spark, checkpoint, tmp_path):
    stream = read_stream(spark, checkpoint / "in")
    collect(mt.spark.aggregate(stream, asked()), tmp_path / "own", "append")
    other = asked(aggregates=SUM | {"own": mt.Aggregate("own", 0, abs, max, columns=("v",))})
    with pytest.raises(SnapshotError, match="own"):
        mt.spark.check(tmp_path / "own", other)
    assert mt.spark.check(tmp_path / "own", other, trust_functions=True) is None


def test_what_is_no_query_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"check takes a checkpoint and a muntin.Query, got None"):
        mt.spark.check(tmp_path, None)
