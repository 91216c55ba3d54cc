"""Figures 13 to 17: queries on Spark streams, and Spark's own windows, in one session with two cores.

Rows come from Parquet files, up to a second out of order, and results go to the noop sink. Both sides
have the same files, memory and settings, and each run follows a short one of its kind. A rate is rows
over the time of micro-batches: the sum of their triggerExecution, the one without rows at the end
included, less the planning of the first, which is the start of a query as the session's start is.
Spark's windows have the state store and the code generation with which they are faster. Where they
cannot take the whole stream they get small micro-batches and a time limit: what they complete counts.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.spark_streams import BEGIN, SECOND, write_files

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target
from muntin.spark.session import PROVIDER, ROCKSDB

SCHEMA = "ts timestamp, k bigint, v double"
ROWS, QUICK_ROWS = 2_000_000, 400_000
KEYS, MANY_KEYS, FEW_KEYS = 1000, 100_000, 100
RATE = 10
HOURS = 7200
DISORDER = SECOND
DELAY = "2 seconds"
FILES = 20
MEMORY = "4g"
TURNS = 2
BATCHES = (5, 2)
"""Into so many micro-batches a stream is cut, and into large ones."""
LIMIT, QUICK_LIMIT = 90.0, 15.0
SMALL, LARGER = 5000, 50_000
HDFS = ROCKSDB.replace("RocksDBState", "HDFSBackedState")
STORES = {"HDFS-backed": HDFS, "RocksDB": ROCKSDB}
CODEGEN = "spark.sql.codegen.wholeStage"
SWITCH = {True: "codegen", False: "no codegen"}
ROCKSDB_BYTES = "rocksdbTotalBytesWritten"
UNIT = "rows/s"
MEGABYTE = 1e6
AGGREGATES = {"s": mt.Sum("v"), "m": mt.Max("v"), "a": mt.Mean("v")}
SLIDING = {
    f"{size}/{every}": mt.Sliding(f"{size} s", f"{every} s")
    for size, every in ((10, 1), (60, 1), (300, 5), (600, 10), (3600, 60))
}
MIXED = SLIDING | {
    "10 s": mt.Tumbling("10 s"),
    "1 min": mt.Tumbling("1 min"),
    "session": mt.Session("500 ms"),
    "100 rows": mt.Tumbling(100, measure="count"),
    "last 100": mt.LastN(100, "10 s"),
}
CONTEXT_FREE = SLIDING | {
    "2 s": mt.Tumbling("2 s"),
    "10 s": mt.Tumbling("10 s"),
    "1 min": mt.Tumbling("1 min"),
    "120/2": mt.Sliding("120 s", "2 s"),
    "1800/30": mt.Sliding("1800 s", "30 s"),
}


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    quick = [
        ("same results, warm-up", partial(check, scale)),
        ("Spark's windows, 1 min", partial(against_spark, scale)),
        ("Spark's windows, 10 min", partial(against_limited, scale, 600, 100)),
        ("1 h and 1 min", partial(hour_and_minute, scale)),
        ("the way through Python", partial(through_python, scale)),
        ("ten windows", partial(ten, scale)),
        ("keys", partial(keys, scale)),
    ]
    slow = [
        ("Spark's windows, 1 h", partial(against_limited, scale, 3600, 500)),
        ("1 h and 1 min, windows filled", partial(filled, scale)),
    ]
    return quick if scale.quick else quick + slow


# Streams


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
        tracker = session().sparkContext._jsc.sc().statusTracker()
        while any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
            time.sleep(0.1)  # tasks of a query that was stopped
        return Played(batches)

    def warmed(self) -> "Case":
        """Run a short stream, so that workers, kernels and compiled code are there."""
        replace(self, source=Source(60_000, 3, self.source.keys), batches=3).play()
        return self


def best(cases: Mapping[str, Case], scale: Scale) -> dict[str, Played]:
    """Return the fastest run of each; they take turns."""
    found: dict[str, Played] = {}
    for _ in range(1 if scale.quick else TURNS):
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
    return lambda stream: mt.spark.aggregate(stream, query)


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


def whole(scale: Scale, **options: Any) -> Source:
    """Return the stream that is measured."""
    return Source(QUICK_ROWS if scale.quick else ROWS, FILES, **options)


def cuts(scale: Scale) -> tuple[int, ...]:
    """Return into how many micro-batches a stream is cut; a short one only into large ones."""
    return BATCHES[-1:] if scale.quick else BATCHES


def size_name(size: int) -> str:
    return f"{size} s / 1 s"


# What is measured


def check(scale: Scale) -> Findings:
    """Raise unless both sides have the same windows with the same values; yield nothing."""
    source = Source(50_000, 5, FEW_KEYS, seconds=100)
    mine = collected(Case(source, 5, ours({"w": mt.Sliding("60 s", "1 s")}, n=mt.Count())))
    count = F.count(F.lit(1)).alias("n")
    theirs = collected(Case(source, 5, native(60, count))).unnest("window")
    mine, theirs = (f.select("k", "start", "end", "n", *AGGREGATES) for f in (mine, theirs))
    mine, theirs = mine.sort("k", "start"), theirs.sort("k", "start").cast(dict(mine.schema))
    exact = ["k", "start", "end", "n", "m"]
    if len(mine) == 0 or not mine.select(exact).equals(theirs.select(exact)):
        raise AssertionError(f"Spark has other windows than muntin:\n{theirs}\n{mine}")
    for name in ("s", "a"):
        assert np.allclose(mine[name], theirs[name], rtol=1e-9, atol=0), f"{name} differs"
    parts = replace(whole(scale), rows=200_000)
    for made in (sliding(60), native(60)):
        Case(parts, 5, made).play()
    yield from ()


def collected(case: Case) -> pl.DataFrame:
    """Return all that comes out of a stream."""
    tables: list[pa.Table] = []
    writer = case.frame().writeStream.foreachBatch(lambda frame, _: tables.append(frame.toArrow()))
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    return pl.DataFrame(pl.from_arrow(pa.concat_tables(tables)))


def against_spark(scale: Scale) -> Findings:
    """Yield rates at 60 s / 1 s, in micro-batches and in large ones."""
    name, chosen = faster()
    source, spark = whole(scale), f"Spark, {name}"
    for batches in cuts(scale):
        case = f"{size_name(60)}, {source.rows:,} rows in {batches} micro-batches"
        cases = {
            "muntin": Case(source, batches, sliding(60)),
            spark: Case(source, batches, native(60), chosen),
        }
        found = best(cases, scale)
        yield from against(case, found["muntin"].rate, spark, found[spark].rate, 10)


def against(
    case: str, mine: float, who: str, theirs: float, asked: float, bound: str = ""
) -> Findings:
    """Yield our rate and Spark's, and its time in multiples of ours."""
    fastest = max(mine, theirs)
    yield Finding(13, case, "muntin", mine, UNIT, mine / fastest)
    yield Finding(
        13, case, who, theirs, UNIT, theirs / fastest, f"{bound}its/ours", mine / theirs,
        Target(asked),
    )  # fmt: skip


@cache
def faster() -> tuple[str, dict[str, Any]]:
    """Return the name of the settings with which Spark's windows are fastest on a part, and them."""
    tried = {}
    for store, generated in product(STORES, (True, False)):
        chosen = {PROVIDER: STORES[store], CODEGEN: generated}
        rate = Case(Source(100_000, 2), 2, native(60), chosen).play().rate
        tried[f"{store} state, {SWITCH[generated]}"] = (rate, chosen)
    name = max(tried, key=lambda name: tried[name][0])
    return name, tried[name][1]


def against_limited(scale: Scale, size: int, asked: float) -> Findings:
    """Yield our rate, and Spark's by the micro-batches that it completes within a limit."""
    source = whole(scale)
    case = Case(source, cuts(scale)[0], sliding(size))
    mine = best({"muntin": case}, scale)["muntin"].rate
    limit = QUICK_LIMIT if scale.quick else LIMIT
    found = {generated: limited(size, SMALL, generated, limit) for generated in SWITCH}
    generated = max(found, key=lambda generated: found[generated].rate)
    played, rows = found[generated], SMALL
    if played.batches:
        larger = limited(size, LARGER, generated, limit)
        played, rows = max((played, SMALL), (larger, LARGER), key=lambda pair: pair[0].rate)
    name = f"{size_name(size)}, Spark stopped after {limit:g} s"
    if not played.batches:
        who, theirs = f"Spark, no micro-batch of {rows:,} rows", rows / limit
        yield from against(name, mine, who, theirs, asked, bound="≤ ")
        return
    who = f"Spark, {rows:,} rows at a time, {SWITCH[generated]}"
    yield from against(name, mine, who, played.rate, asked)


def limited(size: int, rows: int, generated: bool, limit: float) -> Played:
    """Run Spark's windows on micro-batches of so many rows until the limit, after a few rows.

    The first micro-batch is slower, and left out if others were completed.
    """
    chosen = {**faster()[1], CODEGEN: generated}
    Case(Source(100, 2), 2, native(size), chosen).play(limit)
    played = Case(Source(FILES * rows, FILES), FILES, native(size), chosen).play(limit)
    return Played(played.batches[1:] or played.batches)


def hour_and_minute(scale: Scale) -> Findings:
    """Yield rates of an hour and of a minute, and the bytes of state that they write."""
    for batches in cuts(scale):
        yield from sizes(scale, whole(scale), batches, asked=True)


def filled(scale: Scale) -> Findings:
    """Yield the same over two hours of fewer keys, so that windows of an hour have all their slices."""
    yield from sizes(scale, whole(scale, keys=FEW_KEYS, seconds=HOURS), cuts(scale)[0], asked=False)


def sizes(scale: Scale, source: Source, batches: int, *, asked: bool) -> Findings:
    """Yield what an hour costs beside a minute."""
    minute, hour = size_name(60), size_name(3600)
    found = best(
        {size_name(size): Case(source, batches, sliding(size)) for size in (60, 3600)}, scale
    )
    case = f"{batches} micro-batches, {source}"
    yield from shares(14, case, found, minute, {hour: Target(0.7)} if asked else {})
    case = f"state per micro-batch ({batches}), {source.keys:,} keys"
    for writer, metric in WRITTEN.items():
        few, many = (found[who].mean(metric) for who in (minute, hour))
        yield Finding(16, case, f"{writer}, {minute}", few / MEGABYTE, "MB")
        yield Finding(
            16, case, f"{writer}, {hour}", many / MEGABYTE, "MB", None, "of that", many / few,
            Target(2, at_most=True) if asked else None,
        )  # fmt: skip


def shares(
    figure: int, case: str, found: dict[str, Played], whole: str, asked: dict[str, Target]
) -> Findings:
    """Yield rates, and their shares of one of them."""
    fastest = max(played.rate for played in found.values())
    for who, played in found.items():
        speed = played.rate / fastest
        ratio, share = ("", None) if who == whole else ("of that", played.rate / found[whole].rate)
        yield Finding(figure, case, who, played.rate, UNIT, speed, ratio, share, asked.get(who))


def through_python(scale: Scale) -> Findings:
    """Yield our rates beside that of rows that only pass through Python, in large micro-batches."""
    source, batches = whole(scale), BATCHES[-1]
    only = "mapInArrow of nothing"
    cases = {only: Case(source, batches, passed)}
    cases |= {size_name(size): Case(source, batches, sliding(size)) for size in (60, 3600)}
    case = f"through Python, {batches} micro-batches, {source}"
    yield from shares(14, case, best(cases, scale), only, {size_name(3600): Target(0.5)})


def ten(scale: Scale) -> Findings:
    """Yield rates of ten windows in a query, and of one."""
    source = whole(scale)
    one, mixed, free = f"one window, {size_name(60)}", "ten, of six kinds", "ten over time"
    cases = {
        one: Case(source, cuts(scale)[0], sliding(60)),
        mixed: Case(source, cuts(scale)[0], ours(MIXED)),
        free: Case(source, cuts(scale)[0], ours(CONTEXT_FREE)),
    }
    case = f"{len(MIXED)} windows, {source}"
    yield from shares(15, case, best(cases, scale), one, {mixed: Target(0.5)})


def keys(scale: Scale) -> Findings:
    """Yield rates when one key has half of the rows, and with many keys."""
    even, skewed, many = f"{KEYS:,} keys", "one key has half of the rows", f"{MANY_KEYS:,} keys"
    sources = {
        even: whole(scale),
        skewed: whole(scale, skew=0.5),
        many: whole(scale, keys=MANY_KEYS),
    }
    cases = {who: Case(source, cuts(scale)[0], sliding(60)) for who, source in sources.items()}
    case = f"keys, {size_name(60)}, {whole(scale).rows:,} rows"
    yield from shares(17, case, best(cases, scale), even, {skewed: Target(0.7)})
