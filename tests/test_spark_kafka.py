"""Kafka as a source, against the broker that librdkafka has inside: it speaks real TCP."""

import socket
import sys
import traceback
from itertools import groupby

import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.functions import unix_millis
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from muntin.spark.kafka import KafkaSource, OffsetRange, read_options, register
from tests.kafka_broker import Broker
from tests.patience import HUNG_S, answered, ran, refused

PARTITIONS = 4  # what the broker gives to every topic
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "kafka.log_level": "0"}


def reader_of(broker, topic, **options):
    return source(broker.servers, topic, **options).streamReader(None)


def source(servers, topic, **options):
    return KafkaSource({"bootstrap.servers": servers, "topic": topic, **options})


@pytest.fixture(scope="module")
def broker():
    return Broker()


@pytest.fixture(scope="module")
def kafka(spark, broker):
    register(spark)

    def load(read, topic, **options):
        servers = {"bootstrap.servers": broker.servers, "kafka.log_level": "0"}
        rows = read.format("muntin_kafka").options(**{**servers, "topic": topic, **options}).load()
        return rows.withColumn("timestamp", unix_millis("timestamp"))

    return load


@pytest.fixture
def deleted(broker):
    """Return a topic of 10 rows, the first of which are gone: the broker keeps 5 MB."""
    if not hasattr(broker, "deleted"):
        broker.produce("deleted", range(10), partitions=1, pad=900_000)
        broker.deleted = reader_of(broker, "deleted").initialOffset()["deleted"]["0"]
    assert 0 < broker.deleted < 10
    return broker.deleted


def run(rows, checkpoint, batches):
    """Run a stream over what is there and return which micro-batches came; none may come changed."""
    ids = []

    def keep(batch, batch_id):
        ids.append(batch_id)
        came = [tuple(row) for row in batch.collect()]
        assert batches.setdefault(batch_id, came) == came

    writer = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    ran(writer.trigger(availableNow=True).start)
    return ids


def without_offsets(batches):
    return sorted((row[:4] + row[5:] for rows in batches.values() for row in rows), key=repr)


def read(reader, *part):
    return [row for batch in reader.read(OffsetRange(*part)) for row in batch.to_pylist()]


def test_every_row_comes_exactly_once_over_restarts_and_a_crash(spark, kafka, broker, tmp_path):
    rows = broker.produce("plugs", range(250))
    stream = kafka(spark.readStream, "plugs", maxOffsetsPerTrigger=100)
    batches = {}
    assert run(stream, tmp_path, batches) == [0, 1, 2]
    assert [len(batch) for batch in batches.values()] == [99, 99, 52]

    rows += broker.produce("plugs", range(250, 300), partitions=PARTITIONS)
    for name in ("2", ".2.crc"):  # as after a crash: the last one comes again
        (tmp_path / "commits" / name).unlink()
    assert run(stream, tmp_path, batches) == [2, 3]
    assert without_offsets(batches) == sorted(rows, key=repr)
    for batch in batches.values():
        for _, part in groupby(batch, key=lambda row: row[3]):
            offsets = [row[4] for row in part]
            assert offsets == list(range(offsets[0], offsets[-1] + 1))


def test_latest_starts_after_what_was_there(spark, kafka, broker, tmp_path):
    broker.produce("doors", range(10))
    batches = {}
    stream = kafka(spark.readStream, "doors", startingOffsets="latest")
    run(stream, tmp_path, batches)
    assert without_offsets(batches) == []
    rows = broker.produce("doors", range(10, 20))
    run(stream, tmp_path, batches)
    assert without_offsets(batches) == sorted(rows, key=repr)


def test_latest_does_not_move_when_the_first_micro_batch_crashes(broker):
    broker.produce("bells", range(4), partitions=1)
    crashed = reader_of(broker, "bells", startingOffsets="latest")
    start = crashed.initialOffset()
    broker.produce("bells", range(4, 6), partitions=1)
    written = crashed.latestOffset(start, ReadAllAvailable())
    assert written == {"bells": {"0": 6, "1": 0, "2": 0, "3": 0}}
    first = crashed.partitions(start, written)

    broker.produce("bells", range(6, 8), partitions=1)
    restarted = reader_of(broker, "bells", startingOffsets="latest")
    assert restarted.partitions(restarted.initialOffset(), written) == first
    end = restarted.latestOffset(written, ReadAllAvailable())
    assert restarted.partitions(written, end) == [OffsetRange("bells", 0, 6, 8)]


def test_a_table_has_what_is_there(spark, kafka, broker):
    rows = broker.produce("lamps", range(9)) + broker.produce("lights", range(5))
    table = kafka(spark.read, "lamps, lights")
    assert table.columns == ["key", "value", "topic", "partition", "offset", "timestamp"]
    assert without_offsets({0: [tuple(row) for row in table.collect()]}) == sorted(rows, key=repr)


def test_times_are_instants_in_any_time_zone(spark, broker):
    broker.produce("clocks", [0])
    register(spark)
    options = {"bootstrap.servers": broker.servers, "topic": "clocks"}
    table = spark.read.format("muntin_kafka").options(**options).load()
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        [row] = table.selectExpr("cast(timestamp as string) as time").collect()
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert row.time == "2023-11-15 03:43:20.123"


def test_the_marks_that_end_transactions_are_no_rows(broker):
    producer = Producer(
        {"bootstrap.servers": broker.servers, "transactional.id": "test", "log_level": 0}
    )
    producer.init_transactions(HUNG_S)
    for _ in range(2):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce("sales", b"sold", partition=0)
        producer.commit_transaction(HUNG_S)
    reader = reader_of(broker, "sales")
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["sales"]["0"] == 8
    assert [row["offset"] for row in read(reader, "sales", 0, 0, 8)] == [0, 1, 2, 4, 5, 6]
    assert [row["offset"] for row in read(reader, "sales", 0, 0, 4)] == [0, 1, 2]
    assert read(reader, "sales", 0, 3, 4) == []


def test_new_partitions_are_read_from_their_first_row(broker):
    broker.produce("grows", range(8), partitions=PARTITIONS)
    for starting in ("earliest", "latest"):
        reader = reader_of(broker, "grows", startingOffsets=starting)
        start = {"grows": {"0": 1, "1": 2}}
        entered = reader.latestOffset(start, ReadAllAvailable())
        assert entered == {"grows": {"0": 2, "1": 2, "2": 0, "3": 0}}
        assert reader.partitions(start, entered) == [OffsetRange("grows", 0, 1, 2)]
        end = reader.latestOffset(entered, ReadAllAvailable())
        assert end == {"grows": {str(p): 2 for p in range(PARTITIONS)}}
        assert reader.latestOffset(end, ReadAllAvailable()) == end
        reader.stop()


def test_a_topic_that_is_added_starts_where_the_options_say(broker):
    for topic in ("first", "second"):
        broker.produce(topic, range(3), partitions=1)
    start = {"first": {str(p): 0 for p in range(PARTITIONS)}}
    for starting, offset in (("earliest", 0), ("latest", 3)):
        reader = reader_of(broker, "first,second", startingOffsets=starting)
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end["first"]["0"] == 3
        assert end["second"] == {"0": offset, "1": 0, "2": 0, "3": 0}


def test_a_limit_is_shared_by_what_waits_and_starves_nobody(broker):
    broker.produce("uneven", [0] * 40 + [1] * 10 + [2])
    reader = reader_of(broker, "uneven", maxOffsetsPerTrigger="20")
    assert reader.getDefaultReadLimit() == ReadMaxRows(20)
    assert reader_of(broker, "uneven").getDefaultReadLimit() == ReadAllAvailable()
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(20))
    assert end == {"uneven": {"0": 15, "1": 3, "2": 1, "3": 0}}


def test_available_now_ends_at_what_was_there_when_it_began(broker):
    broker.produce("now", range(3), partitions=1)
    reader = reader_of(broker, "now")
    reader.prepareForTriggerAvailableNow()
    broker.produce("now", range(3, 6), partitions=1)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert end["now"]["0"] == 3


def test_deleted_rows_are_an_error(broker, deleted):
    reader = reader_of(broker, "deleted")
    message = f"until 0 and now has offsets from {deleted} until before 10; .*failOnDataLoss=false"
    with pytest.raises(RuntimeError, match=message):
        reader.latestOffset({"deleted": {"0": 0}}, ReadAllAvailable())
    with pytest.raises(
        RuntimeError, match=r"partition 0 of topic 'deleted' has no offset 0; .*=false"
    ):
        read(reader, "deleted", 0, 0, 10)
    with pytest.raises(RuntimeError, match="was read until 11 and now has"):
        reader.latestOffset({"deleted": {"0": 11}}, ReadAllAvailable())


def test_deleted_rows_can_be_skipped(broker, deleted):
    reader = reader_of(broker, "deleted", failOnDataLoss="false")
    end = reader.latestOffset({"deleted": {"0": 0}}, ReadMaxRows(1))
    assert end["deleted"]["0"] == deleted + 1
    assert [row["offset"] for row in read(reader, "deleted", 0, 0, 9)] == [*range(deleted, 9)]
    assert read(reader, "deleted", 0, 0, deleted - 1) == []
    behind = reader.latestOffset({"deleted": {"0": 11}}, ReadAllAvailable())
    assert behind["deleted"]["0"] == 10


def test_a_partition_that_is_shorter_than_it_was_is_an_error(broker):
    broker.produce("short", range(3), partitions=1)
    part = ("short", 0, 1, 9)

    def short(limit, part=part, **options):
        return read(reader_of(broker, "short", timeoutSeconds=str(limit), **options), *part)

    refused((RuntimeError, ConnectionError), r"'short' ends at 3 and not at 9; .*=false", short)
    kept = {"failOnDataLoss": "false"}
    rows = answered(ConnectionError, lambda limit: short(limit, **kept))
    assert [row["offset"] for row in rows] == [1, 2]
    behind = ("short", 0, 7, 9)
    assert answered(ConnectionError, lambda limit: short(limit, behind, **kept)) == []


def test_a_partition_that_is_gone_is_an_error(broker):
    broker.produce("fewer", range(3), partitions=1)
    start = {"fewer": {"0": 3, "1": 0, "2": 0, "3": 0, "4": 2}}
    with pytest.raises(
        RuntimeError, match="partition 4 of topic 'fewer' is in the checkpoint, but"
    ):
        reader_of(broker, "fewer").latestOffset(start, ReadAllAvailable())
    end = reader_of(broker, "fewer", failOnDataLoss="false").latestOffset(start, ReadAllAvailable())
    assert end == {"fewer": {"0": 3, "1": 0, "2": 0, "3": 0}}


def test_a_topic_that_does_not_exist_is_named(spark, kafka, broker, tmp_path):
    message = f"no topic 'nowhere' in Kafka at {broker.servers}: create it"
    with pytest.raises(StreamingQueryException, match=message):
        run(kafka(spark.readStream, "nowhere"), tmp_path, {})
    with pytest.raises(AnalysisException, match=message):
        kafka(spark.read, "nowhere").collect()


def test_servers_that_cannot_be_reached_are_named(spark, kafka, tmp_path):
    def start(limit):
        run(kafka(spark.readStream, "plugs", timeoutSeconds=limit, **NOWHERE), tmp_path, {})

    message = r"Kafka at 127.0.0.1:1 did not give topic 'plugs' \(waited up to \d+ s\).*refused"
    refused(StreamingQueryException, message, start)


def test_tasks_do_not_wait_for_ever_either():
    reader = KafkaSource({"topic": "plugs", "timeoutSeconds": "1", **NOWHERE}).streamReader(None)
    with pytest.raises(
        ConnectionError, match=r"127.0.0.1:1 did not give partition 2 of topic 'plugs'"
    ):
        read(reader, "plugs", 2, 0, 5)


def test_a_server_that_never_answers_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        reader = source(servers, "plugs", timeoutSeconds="1").streamReader(None)
        with pytest.raises(
            ConnectionError, match=f"{servers} did not give .*raise the option timeout"
        ):
            reader.initialOffset()
        reader.stop()


SASL = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "hunter",
    "kafka.sasl.password": "hunter2",
    "kafka.log_level": "0",
}


def test_options_reach_the_client_and_credentials_stay_out_of_errors(broker):
    def ask(limit):
        reader_of(broker, "plugs", timeoutSeconds=str(limit), **SASL).initialOffset()

    error = refused(ConnectionError, "SASL", ask)
    assert "hunter" not in "".join(traceback.format_exception(error))
    assert "hunter" not in repr(read_options({"bootstrap.servers": "a", "topic": "b", **SASL}))


def test_an_option_that_the_client_refuses_is_named_without_its_secrets(broker):
    reader = reader_of(broker, "plugs", **{**SASL, "kafka.security.protocol": "hunter2"})
    with pytest.raises(ValueError, match=r"not take its options: .*security.protocol") as raised:
        reader.initialOffset()
    assert "hunter" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": ""}, "needs the option topic"),
        ({"topic": "a,,b"}, "needs the option topic"),
        ({"bootstrap.servers": ""}, r"needs the option bootstrap\.servers"),
        ({"subscribe": "a"}, "no option 'subscribe': it has bootstrap.servers, topic"),
        ({"startingOffsets": "first"}, "startingOffsets must be earliest or latest, got 'first'"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss must be true or false, got 'no'"),
        ({"maxOffsetsPerTrigger": "1.5"}, "must be a whole number above 0, got '1.5'"),
        ({"timeoutSeconds": "0"}, "timeoutSeconds must be a number above 0, got '0'"),
        ({"kafka.auto.offset.reset": "latest"}, r"leave out the option kafka\.auto\.offset\.reset"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        KafkaSource({"bootstrap.servers": "host:9092", "topic": "plugs", **options})


def test_only_streams_start_at_the_latest_offset(broker):
    with pytest.raises(ValueError, match="startingOffsets=latest is for streams"):
        source(broker.servers, "plugs", startingOffsets="latest").reader(None)


def test_without_confluent_kafka_there_is_a_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ImportError, match=r'pip install "muntin\[kafka\]"'):
        source("host:9092", "plugs")
