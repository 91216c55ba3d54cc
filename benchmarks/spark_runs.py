"""Streams of rows in files, and queries over them that Spark runs and tells of, in one session.

Rows are up to a second out of order. A rate is rows over the time of micro-batches: the sum of their
triggerExecution, the one without rows at the end included, less the planning of the first, which is the
start of a query as the session's start is.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.spark_streams import BEGIN, SECOND, write_files

import muntin as mt

SCHEMA = "ts timestamp, k bigint, v double"
KEYS = 1000
RATE = 10
DISORDER = SECOND
DELAY = "2 seconds"
MEMORY = "4g"
TURNS = 2
CODEGEN = "spark.sql.codegen.wholeStage"
SWITCH = {True: "codegen", False: "no codegen"}
ROCKSDB_BYTES = "rocksdbTotalBytesWritten"
AGGREGATES = {"s": mt.Sum("v"), "m": mt.Max("v"), "a": mt.Mean("v")}


@dataclass(frozen=True)
class Source:
    """Rows in files of equal size: so many keys, and a share of the rows for one of them."""

    rows: int
    files: int
    keys: int = KEYS
    seconds: float = 0
    skew: float = 0

    def __str__(self) -> str:
        return f"{self.keys:,} keys, {self.span / SECOND:g} s"

    @property
    def span(self) -> int:
        """The microseconds from the first row to the last."""
        return int((self.seconds or self.rows / (KEYS * RATE)) * SECOND)

    def table(self) -> pa.Table:
        """Return the rows in the order of their arrival."""
        # The first rows are the same for any number of them.
        delay, chance, key, value = np.random.default_rng(0).random((self.rows, 4)).T
        times = np.arange(self.rows) * self.span // self.rows
        arrived = np.argsort(times + delay * DISORDER, kind="stable")
        names = np.where(chance < self.skew, 0, (key * self.keys).astype(np.int64))
        stamps = pa.array(BEGIN + times[arrived], pa.timestamp("us", "UTC"))
        return pa.table({"ts": stamps, "k": names, "v": 100 * value})


@cache
def home() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="muntin-benchmark-", ignore_cleanup_errors=True)


@cache
def written(source: Source) -> Path:
    """Write the files of a source once, and return their folder."""
    folder, table = Path(tempfile.mkdtemp(dir=home().name)), source.table()
    size = source.rows // source.files
    write_files(folder, (table.slice(i * size, size) for i in range(source.files)))
    return folder


@cache
def session() -> SparkSession:
    """Start the session; what Spark and its workers print goes to a file, not into the progress bar."""
    folder = home().name
    local = {"spark.local.dir": folder, "spark.sql.warehouse.dir": f"{folder}/warehouse"}
    screen = os.dup(2)
    with open(f"{folder}/spark.log", "wb") as log:
        os.dup2(log.fileno(), 2)
        try:
            spark = mt.spark.session(cores=2, partitions=2, memory=MEMORY, settings=local)
        finally:
            os.dup2(screen, 2)
            os.close(screen)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def wait_idle() -> None:
    """Wait for the tasks of queries that were stopped."""
    tracker = session().sparkContext._jsc.sc().statusTracker()
    while any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
        time.sleep(0.1)


@contextmanager
def settings(changed: Mapping[str, Any]) -> Iterator[None]:
    """Have other settings for the queries that start meanwhile."""
    conf = session().conf
    before = {name: conf.get(name) for name in changed}
    for name, value in changed.items():
        conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            conf.set(name, value)


# Runs

WRITTEN: dict[str, Callable[[Mapping[str, Any]], int]] = {
    "muntin": lambda batch: batch["observedMetrics"]["muntin"]["written_bytes"],
    "RocksDB": lambda batch: sum(
        operator["customMetrics"][ROCKSDB_BYTES] for operator in batch["stateOperators"]
    ),
}


@dataclass(frozen=True)
class Played:
    """What Spark tells of the micro-batches that were completed."""

    batches: list[Mapping[str, Any]]

    @cached_property
    def rows(self) -> int:
        """The rows of all micro-batches."""
        return sum(batch["numInputRows"] for batch in self.batches)

    @cached_property
    def rate(self) -> float:
        """Rows a second, without the start; 0 if there is no micro-batch."""
        spent = sum(batch["durationMs"]["triggerExecution"] for batch in self.batches)
        start = sum(batch["durationMs"]["queryPlanning"] for batch in self.batches[:1])
        return 1e3 * self.rows / (spent - start) if self.batches else 0.0

    def mean(self, metric: Callable[[Mapping[str, Any]], int]) -> float:
        """Return the mean of a metric over the micro-batches that have rows."""
        return float(np.mean([metric(batch) for batch in self.batches if batch["numInputRows"]]))


@dataclass(frozen=True)
class Case:
    """What is made of a stream that comes in so many micro-batches, under settings."""

    source: Source
    batches: int
    made: Callable[[DataFrame], DataFrame]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def frame(self) -> DataFrame:
        """Return the streaming DataFrame."""
        per = max(1, self.source.files // self.batches)
        reader = session().readStream.schema(SCHEMA).option("maxFilesPerTrigger", per)
        return self.made(reader.parquet(str(written(self.source))))

    def play(self, limit: float | None = None) -> Played:
        """Run until all is taken, or until the limit."""
        checkpoint = tempfile.mkdtemp(dir=home().name)
        with settings(self.settings):
            writer = self.frame().writeStream.format("noop").trigger(availableNow=True)
            running = writer.option("checkpointLocation", checkpoint).start()
        running.awaitTermination(limit)
        batches = [*running.recentProgress]
        running.stop()
        wait_idle()
        return Played(batches)

    def warmed(self) -> "Case":
        """Run a short stream, so that workers, kernels and compiled code are there."""
        replace(self, source=Source(60_000, 3, self.source.keys), batches=3).play()
        return self


def best(cases: Mapping[str, Case], turns: int) -> dict[str, Played]:
    """Return the fastest run of each; they take turns."""
    found: dict[str, Played] = {}
    for _ in range(turns):
        for who, case in cases.items():
            played = case.warmed().play()
            assert played.rows == case.source.rows, f"{who} has taken {played.rows:,} rows"
            found[who] = max(found.get(who, played), played, key=lambda played: played.rate)
    return found


def ours(windows: Mapping[str, Any], **aggregates: Any) -> Callable[[DataFrame], DataFrame]:
    """Return what makes a stream the windows of a query."""
    query = mt.Query(
        time="ts", keys="k", windows=windows, aggregates=AGGREGATES | aggregates, watermark=DELAY
    )
    return lambda stream: mt.spark.aggregate(stream, query, engine="muntin")


def sliding(size: int) -> Callable[[DataFrame], DataFrame]:
    """Return what makes a stream our windows of a size, every second."""
    return ours({"w": mt.Sliding(f"{size} s", "1 s")})


def native(size: int, *more: Any) -> Callable[[DataFrame], DataFrame]:
    """Return what makes a stream Spark's windows of a size, every second."""

    def made(stream: DataFrame) -> DataFrame:
        asked = [F.sum("v").alias("s"), F.max("v").alias("m"), F.avg("v").alias("a"), *more]
        windows = F.window("ts", f"{size} seconds", "1 second")
        return stream.withWatermark("ts", DELAY).groupBy("k", windows).agg(*asked)

    return made


def passed(stream: DataFrame) -> DataFrame:
    """Return a stream that goes through Python as it is."""
    return stream.mapInArrow(lambda batches: batches, stream.schema)


def size_name(size: int) -> str:
    return f"{size} s / 1 s"
