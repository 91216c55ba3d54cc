"""A stream into slices in Redis, from which lookups are answered.

    micro-batch -> repartition by key -> mapInArrow: read, merge and write blocks     serving/writer.py

A micro-batch is begun, each partition writes its keys, and when all are done it is ended, which moves
the watermark. One that Spark delivers again finds the keys that it has written, and writes the others.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from muntin.aggregates import seal
from muntin.query.query import Query
from muntin.serving.blocks import FORMAT
from muntin.serving.layout import Layout
from muntin.serving.lookup import published_as, read_about
from muntin.serving.writer import Writer
from muntin.spark.aggregate import check_pickles, columns_asked, selected
from muntin.spark.result_types import arrow_schema
from muntin.spark.sql_conditions import answered
from muntin.spark.upsert import query_id
from muntin.stores import RedisStore
from muntin.stores.published import Head, Published
from muntin.stores.redis import Address

ARRIVAL = "__muntin_arrival"
COUNTS = "rows long, dropped long, latest long"


def publish(
    stream: DataFrame, query: Query, store: RedisStore, name: str = "query"
) -> DataStreamWriter:
    """Return a writer that keeps the slices of a query in Redis, for `muntin.Lookup`.

        mt.spark.publish(stream, query, store).option("checkpointLocation", folder).start()

    What is written are the partials of each key and stretch of time, not results, so that a lookup gives
    any window at any time behind a key's rows. A row counts if it is not before what has expired by the
    watermark; the query's `lateness` plays no part. Each micro-batch is written exactly once. Cost: two
    exchanges with the server per partition, and of each key that has rows a few blocks.

    - `stream`: a stream with the query's time, keys and columns.
    - `query`: a query of windows of time, with a `watermark`.
    - `store`: a RedisStore.
    - `name`: under which lookups find it; each stream publishes under a name of its own.
    """
    if not isinstance(query, Query):
        raise TypeError(f"publish takes a muntin.Query, got {query!r}")
    if not isinstance(store, RedisStore):
        raise TypeError(f"publish takes a muntin.RedisStore, got {store!r}")
    if not stream.isStreaming:
        raise ValueError("publish takes a stream: read one with readStream")
    if query.watermark is None:
        raise ValueError(
            "old slices leave by the watermark: say in the query how late rows may be, as in "
            "watermark='10 minutes'"
        )
    if query.ahead is not None:
        raise ValueError("publish takes all rows: leave max_ahead out, and such rows before it")
    Layout.of(query)
    stream, query = answered(stream, query)
    names = columns_asked(stream, query)
    check_pickles(query)
    rows = selected(stream, query, names)
    empty = arrow_schema(rows.schema).empty_table()
    target = _Target(store.address, name, query, empty)
    return rows.writeStream.foreachBatch(target.take)


@dataclass(frozen=True)
class _Target:
    """Where the micro-batches of a stream go."""

    address: Address
    name: str
    query: Query
    empty: pa.Table

    def take(self, rows: DataFrame, batch: int) -> None:
        """Write a micro-batch, unless that was done."""
        writer = query_id(rows.sparkSession)
        if not writer:
            raise ValueError(
                "publish needs the id of its stream, which Spark Connect does not tell"
            )
        known = published_as(self.query)
        schema = self.empty.schema.serialize().to_pybytes()
        about = seal({"format": FORMAT, "query": known, "schema": schema})
        published = Published(self.address, self.name)
        try:
            head = published.begin(uuid.uuid4().hex, about, writer, batch)
            if read_about(head.about, known, trust_functions=False) != self.empty.schema:
                raise TypeError(
                    f"the rows are of other types than those published under {self.name!r}: cast them, "
                    "or publish under another name with a new checkpoint"
                )
            if head.batch == batch:
                return
            latest = self._written(rows, head, batch)
            watermark = _later(
                head.watermark, None if latest is None else latest - self.query.delay
            )
            past = None
            if watermark is not None:
                past = Layout.of(self.query).past(self.query, watermark) - 1
            published.end(head, batch, watermark, past)
        finally:
            published.close()

    def _written(self, rows: DataFrame, head: Head, batch: int) -> int | None:
        """Write rows, and return the latest time."""
        keys = [F.col(f"`{name}`") for name in self.query.keys] or [F.lit(0)]
        placed = rows.withColumn(ARRIVAL, F.monotonically_increasing_id()).repartition(*keys)
        task = _Task(self.address, self.name, self.query, self.empty, head, batch)
        done = placed.mapInArrow(task, COUNTS).collect()
        latest = [row["latest"] for row in done if row["latest"] is not None]
        return max(latest, default=None)


@dataclass(frozen=True)
class _Task:
    """Writes the rows of a partition."""

    address: Address
    name: str
    query: Query
    empty: pa.Table
    head: Head
    batch: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        rows = pa.Table.from_batches(held).sort_by(ARRIVAL).drop_columns([ARRIVAL])
        published = Published(self.address, self.name)
        try:
            writer = Writer(published, self.query, self.empty)
            done = writer.write(self.head, str(self.batch), rows.cast(self.empty.schema))
        finally:
            published.close()
        counts = {"rows": [done.rows], "dropped": [done.dropped], "latest": [done.latest]}
        yield pa.RecordBatch.from_pydict({n: pa.array(v, pa.int64()) for n, v in counts.items()})


def _later(before: int | None, now: int | None) -> int | None:
    """Return the later of two times, of which there may be none."""
    times = [time for time in (before, now) if time is not None]
    return max(times, default=None)
