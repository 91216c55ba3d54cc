"""Kafka as a source of Spark's without jars: a Python data source over confluent-kafka.

    register(spark)
    plugs = spark.readStream.format("muntin_kafka").options(topic="plugs")
    rows = plugs.option("bootstrap.servers", "host:9092").load()

A micro-batch is a range of offsets per partition, and Spark's checkpoint has its end before it is read:
after a crash the same rows come again, and no others. A partition that is not in the checkpoint enters
it with an empty range, so that where it starts is written down, too, before a row of it is read. No
consumer group is joined and nothing is committed to Kafka. Columns are those of Spark's own Kafka
source, without headers; aborted transactions are left out unless `kafka.isolation.level` says otherwise.

Needs PySpark 4.2, which brought limits to what a micro-batch reads.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import datasource as source
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import datasource as streaming
from pyspark.sql.types import StructType

from muntin.spark.kafka_client import (
    COLUMNS,
    Client,
    OffsetRange,
    Offsets,
    Options,
    confluent_kafka_client,
    place,
    read_options,
)

Written = dict[str, dict[str, int]]  # offsets in a checkpoint, as Spark's own source writes them


def register(spark: SparkSession) -> None:
    """Make `format("muntin_kafka")` known to a session."""
    spark.dataSource.register(KafkaSource)


class KafkaSource(source.DataSource):
    """Rows of Kafka topics: a stream, or what is there now.

    Options: `bootstrap.servers`; `topic`, or several with commas between; `startingOffsets` (earliest,
    the default, or latest; later on, new partitions are read from their first row); `failOnDataLoss`
    (true, or false to go on behind rows that Kafka has deleted); `maxOffsetsPerTrigger` (over all
    partitions, but at least one of each that has any); `timeoutSeconds` (30) for each question to the
    servers; and `kafka.*` for the client, as librdkafka names them: `kafka.security.protocol`,
    `kafka.sasl.username` and so on.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = read_options(options)
        confluent_kafka_client()

    @classmethod
    def name(cls) -> str:
        return "muntin_kafka"

    def schema(self) -> StructType:
        return from_arrow_schema(COLUMNS)

    def reader(self, schema: StructType) -> source.DataSourceReader:  # noqa: ARG002
        return KafkaReader(self._options)

    def streamReader(self, schema: StructType) -> source.DataSourceStreamReader:  # noqa: ARG002
        return KafkaStreamReader(self._options)


class KafkaReader(source.DataSourceReader):
    """Reads what the topics have when Spark plans the query."""

    def __init__(self, options: Options) -> None:
        if options.starting == "latest":
            raise ValueError("startingOffsets=latest is for streams: a table starts at earliest")
        self._options = options

    def partitions(self) -> list[source.InputPartition]:
        with closing(Client(self._options)) as client:
            earliest, latest = client.bounds()
        # Empty ranges, too: for no ranges at all, Spark would make one of its own.
        return [OffsetRange(*of, earliest[of], end) for of, end in latest.items()]

    def read(self, partition: source.InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class KafkaStreamReader(source.DataSourceStreamReader, streaming.SupportsTriggerAvailableNow):
    """Plans micro-batches in a process of the driver that lives on, and reads their ranges in tasks."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: Offsets | None = None

    @cached_property
    def _client(self) -> Client:
        return Client(self._options)

    def initialOffset(self) -> Written:
        """Return where a new stream starts; after a crash in the first micro-batch Spark asks again.

        By then 'latest' would have moved: it is left to latestOffset, which Spark writes down.
        """
        return {} if self._options.starting == "latest" else _written(self._client.bounds()[0])

    def getDefaultReadLimit(self) -> streaming.ReadLimit:
        rows = self._options.max_rows
        return streaming.ReadAllAvailable() if rows is None else streaming.ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._client.bounds()[1]

    def latestOffset(self, start: Written, limit: streaming.ReadLimit) -> Written:
        earliest, latest = self._client.bounds()
        latest = latest if self._target is None else self._target
        known = self._readable(_offsets(start), earliest, latest)
        ends = _within(known, latest, limit)
        entry = latest if self._options.starting == "latest" else earliest
        for topic, partition in latest.keys() - known.keys():
            ends[topic, partition] = 0 if topic in start else entry[topic, partition]
        return _written(ends)

    def _readable(self, start: Offsets, earliest: Offsets, latest: Offsets) -> Offsets:
        """Return from where on rows can be read still, or say which are lost."""
        readable = {}
        for of, offset in start.items():
            if of not in latest:
                self._options.lose(f"{place(*of)} is in the checkpoint, but not in the topics")
                continue
            first, end = earliest[of], latest[of]
            if not first <= offset <= end:
                now = f"and now has offsets from {first} until before {end}"
                self._options.lose(f"{place(*of)} was read until {offset} {now}")
            readable[of] = min(max(offset, first), end)
        return readable

    def partitions(self, start: Written, end: Written) -> list[source.InputPartition]:
        starts, ends = _offsets(start), _offsets(end)
        ranges = [OffsetRange(*of, starts.get(of, stop), stop) for of, stop in ends.items()]
        return [rows for rows in ranges if rows.start < rows.end]

    def read(self, partition: source.InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    def stop(self) -> None:
        if "_client" in self.__dict__:
            self._client.close()


def _offsets(written: Written) -> Offsets:
    return {(t, int(p)): offset for t, offsets in written.items() for p, offset in offsets.items()}


def _written(offsets: Offsets) -> Written:
    """Return offsets for the checkpoint, in order: Spark compares them as text."""
    written: Written = {}
    for (topic, partition), offset in sorted(offsets.items()):
        written.setdefault(topic, {})[str(partition)] = offset
    return written


def _within(start: Offsets, latest: Offsets, limit: streaming.ReadLimit) -> Offsets:
    """Return the ends of a micro-batch; a limit is shared out by how many rows wait."""
    waiting = {of: latest[of] - offset for of, offset in start.items()}
    total = sum(waiting.values())
    if isinstance(limit, streaming.ReadMaxRows) and total > limit.max_rows:
        shares = {of: max(1, limit.max_rows * rows // total) for of, rows in waiting.items()}
        waiting = {of: min(shares[of], rows) for of, rows in waiting.items()}
    return {of: offset + waiting[of] for of, offset in start.items()}


def _read(options: Options, partition: Any) -> Iterator[pa.RecordBatch]:
    with closing(Client(options)) as client:
        yield from client.read(partition)
