"""One query, three answers: as_of on Spark, lookup on a replayed stream, Lookup on a published one.

Rows come in micro-batches, some of them late. After each stretch of the stream everything is asked for
all keys: by labels over all events that were known by then, of an operator that was restored, and of a
stream that was started again. All must be equal, whole numbers and texts to the bit.
"""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import muntin as mt
from muntin.aggregates import close
from muntin.stores import StoreError
from tests.patience import ran
from tests.redis_server import RedisServer

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
WINDOWS = {
    "tumbling": mt.Tumbling("1 min"),
    "sliding": mt.Sliding("5 min", "10 s"),
    "exact": mt.Sliding("90 s", every=mt.rows(1)),
    "cumulate": mt.Cumulate("10 min", "30 s"),
    "day": mt.Calendar("1 day", zone="Europe/Berlin"),
    "days": mt.Calendar("3 days", every="1 day", zone="America/New_York"),
}
AGGREGATES = {
    "count": mt.Count(),
    "values": mt.Count("v"),
    "sum": mt.Sum("v"),
    "min": mt.Min("v"),
    "max": mt.Max("v"),
    "range": mt.Range("v"),
    "mean": mt.Mean("v"),
    "var": mt.Var("v"),
    "std": mt.Std("x"),
    "mins": mt.MinCount("v"),
    "maxs": mt.MaxCount("v"),
    "at_max": mt.ArgMax("v", "s"),
    "at_min": mt.ArgMin("v", "s"),
    "first": mt.First("s"),
    "last": mt.Last("v"),
    "list": mt.Collect("s"),
    "different": mt.CountDistinct("s"),
    "median": mt.Median("x"),
    "bits": mt.BitOr("v"),
    "some": mt.Sum("v", where=mt.col("v") > 10),
}
QUERY = mt.Query(
    time="ts", keys="k", windows=WINDOWS, aggregates=AGGREGATES,
    watermark="2 min", lateness="2 min",
)  # fmt: skip
MOMENT = pa.timestamp("us", "UTC")
TYPES = pa.schema(
    [
        ("ts", MOMENT),
        ("k", pa.string()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("arrived", MOMENT),
    ]
)
KEYS = ["a", "b", "c", "nobody"]
STRETCHES, BATCHES = 3, 2


def rows_of(seed, batch):
    """Return rows of one minute, some of which are up to two minutes late, known at its end."""
    rng = random.Random(f"{seed} {batch}")
    end = BEGIN + (batch + 1) * 60 * SECOND
    rows = []
    for _ in range(60):
        late = rng.randrange(110 * SECOND) if rng.random() < 0.3 else 0
        rows.append(
            {
                "ts": end - 1 - rng.randrange(60) * SECOND - late,
                "k": rng.choice(KEYS[:3]),
                "v": rng.choice([None, *range(30)]),
                "x": rng.choice([None, 1.5, 2.0, -3.25]),
                "s": rng.choice([None, "x", "y", "zz"]),
                "arrived": end,
            }
        )
    return pa.Table.from_pylist(rows, TYPES)


def published(spark, store, folder, checkpoint):
    schema = "ts timestamp, k string, v bigint, x double, s string, arrived timestamp"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    writer = mt.spark.publish(stream, QUERY, store).trigger(availableNow=True)
    return ran(writer.option("checkpointLocation", str(checkpoint)).start)


def assert_equal(found, wanted):
    pairs = zip(found.to_pylist(), wanted.to_pylist(), strict=True)
    assert found.column_names == wanted.column_names
    for got, right in pairs:
        for column, value in right.items():
            same = close(got[column], value) if isinstance(value, float) else got[column] == value
            assert same, (right["k"], column, got[column], value)


@pytest.mark.parametrize("seed", [1])
def test_training_streaming_and_serving_agree(spark, tmp_path, seed):
    (tmp_path / "in").mkdir()
    op, batches = QUERY.operator(), []
    with RedisServer(tmp_path) as server, mt.RedisStore(server.url) as store:
        for stretch in range(STRETCHES):
            for batch in range(stretch * BATCHES, (stretch + 1) * BATCHES):
                batches.append(rows_of(seed, batch))
                pq.write_table(batches[-1], tmp_path / "in" / f"{batch}.parquet")
                published(spark, store, tmp_path / "in", tmp_path / "checkpoint")
                op.process(batches[-1])
                op.advance()
            op = QUERY.restore(op.snapshot())
            now = BEGIN + len(batches) * 60 * SECOND
            moment = pa.array([now] * len(KEYS), pa.timestamp("us", "UTC"))
            later = pa.concat_tables([*batches, rows_of(seed, len(batches))])
            labels = spark.createDataFrame(pa.table({"k": KEYS, "at": moment}))
            events = spark.createDataFrame(later)
            trained = mt.spark.as_of(labels, events, QUERY, at="at", known="arrived").toArrow()
            order = pa.array([trained["k"].to_pylist().index(key) for key in KEYS])
            trained = trained.take(order).drop_columns(["at"])
            streamed = op.lookup({"k": KEYS}, at=moment[0])
            served = mt.Lookup(store, QUERY).get({"k": KEYS}, at=moment[0])
            assert_equal(streamed, trained)
            assert_equal(served, trained)
            assert served["days_count"].to_pylist()[-1] == 0
        assert sum(served["days_count"].to_pylist()) == sum(map(len, batches))


def test_a_stream_whose_store_is_gone_stops_and_goes_on(spark, tmp_path):
    """The server is killed and comes back: with what it kept the stream goes on, else it refuses."""
    (tmp_path / "in").mkdir()
    kept = ("--appendonly", "yes", "--appendfsync", "always")
    checkpoint = tmp_path / "checkpoint"
    with RedisServer(tmp_path, *kept) as server, mt.RedisStore(server.url) as store:
        for batch in range(3):
            pq.write_table(rows_of(2, batch), tmp_path / "in" / f"{batch}.parquet")
            if batch == 1:
                server.kill()
                with pytest.raises(Exception, match="publication 'query' in Redis"):
                    published(spark, store, tmp_path / "in", checkpoint)
                server.start()
            published(spark, store, tmp_path / "in", checkpoint)
        rows = pa.concat_tables([rows_of(2, batch) for batch in range(3)])
        now = pa.scalar(BEGIN + 180 * SECOND, pa.timestamp("us", "UTC"))
        labels = pa.table({"k": KEYS, "at": [now] * len(KEYS)})
        found = mt.Lookup(store, QUERY).get({"k": KEYS}, at=now)
        assert_equal(found, mt.as_of(labels, rows, QUERY, at="at").drop_columns(["at"]))
        pq.write_table(rows_of(2, 3), tmp_path / "in" / "3.parquet")
        with pytest.raises(Exception, match="being published by another stream"):
            published(spark, store, tmp_path / "in", tmp_path / "another checkpoint")
        store._client.flushall()
        with pytest.raises(Exception, match="the server lost what was written"):
            published(spark, store, tmp_path / "in", checkpoint)
        with pytest.raises(StoreError, match="nothing is published"):
            mt.Lookup(store, QUERY)
