"""Figure 30: queries on finished data, beside Spark's own windows, in one session with two cores.

Rows are those of the streams: read from Parquet files, up to a second out of order, 1000 keys with about
ten rows each second. Results go to the noop sink. Both sides run once before they are timed, on a part;
then they take turns, and the best counts. Spark's windows have whole-stage code generation on or off,
whichever is faster on the part. They get as much time as would show what is asked, and some more; where
they are not done by then, the ratio is a bound.
"""

from collections.abc import Callable
from functools import cache, partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target, seconds_of
from benchmarks.spark_limit import MARGIN, native_within
from benchmarks.spark_runs import (
    CODEGEN,
    KEYS,
    SCHEMA,
    SWITCH,
    Source,
    native,
    session,
    settings,
    size_name,
    sliding,
    written,
)

ROWS, QUICK_ROWS, FILES = 2_000_000, 200_000, 8
PART, CHECKED_ROWS = 3_000_000, 20_000
"""Rows of a part, in copies: one for each window that a row is in."""
TURNS = 2
ASKED = {60: 10, 600: 100}
"""By the seconds of a window that slides by one."""
Made = Callable[[DataFrame], DataFrame]


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    sizes = [(size_name(size), partial(against_spark, scale, size)) for size in ASKED]
    return [("same results", check), *sizes]


@cache
def rows(count: int, keys: int = KEYS) -> DataFrame:
    """Return so many rows."""
    folder = written(Source(count, FILES, keys))
    return session().read.schema(SCHEMA).parquet(str(folder))


def run(made: Made, frame: DataFrame) -> None:
    """Compute all results."""
    made(frame).write.format("noop").mode("overwrite").save()


def check() -> Findings:
    """Raise unless both have the same windows with the same counts, sums and maxima; yield nothing."""
    frame = rows(CHECKED_ROWS, keys=20).withColumn("i", F.expr("cast(1000 * v as bigint)"))
    aggregates = {"n": mt.Count(), "s": mt.Sum("i"), "m": mt.Max("i")}
    wanted = (F.count(F.lit(1)).alias("n"), F.sum("i").alias("s"), F.max("i").alias("m"))
    for size in ASKED:
        windows = {"w": mt.Sliding(f"{size} s", "1 s")}
        query = mt.Query(time="ts", keys="k", windows=windows, aggregates=aggregates)
        columns = ["k", "start", "end", *aggregates]
        mine = mt.spark.aggregate(frame, query, engine="muntin").select(columns)
        window = F.window("ts", f"{size} seconds", "1 second")
        theirs = frame.groupBy("k", window).agg(*wanted).select("k", "window.*", *aggregates)
        found, expected = (f.toPandas().sort_values(columns).values for f in (mine, theirs))
        if found.shape != expected.shape or not (found == expected).all():
            raise AssertionError(f"{size_name(size)}: Spark has other windows than muntin")
    yield from ()


def against_spark(scale: Scale, size: int) -> Findings:
    """Yield our seconds and Spark's for windows of a size, every second."""
    frame = rows(QUICK_ROWS if scale.quick else ROWS)
    generated = faster(size)
    run(sliding(size), frame)
    turns = 1 if scale.quick else TURNS
    mine = min(seconds_of(partial(run, sliding(size), frame)) for _ in range(turns))
    with settings({CODEGEN: generated}):
        limit = MARGIN * ASKED[size] * mine
        theirs = native_within(limit, turns, partial(run, native(size), frame))
    case = f"{size_name(size)}, {QUICK_ROWS if scale.quick else ROWS:,} rows, {KEYS:,} keys"
    yield Finding(30, case, "muntin", 1e3 * mine, "ms", 1.0)
    yield Finding(
        30, case, theirs.named(f"Spark, {SWITCH[generated]}"), 1e3 * theirs.seconds, "ms",
        mine / theirs.seconds, theirs.ratio, theirs.seconds / mine, Target(ASKED[size]),
    )  # fmt: skip


def faster(size: int) -> bool:
    """Return whether Spark's windows are faster with whole-stage code generation, on a part."""
    frame, taken = rows(PART // size), {}
    for generated in SWITCH:
        with settings({CODEGEN: generated}):
            run(native(size), frame)
            taken[generated] = seconds_of(partial(run, native(size), frame))
    return min(taken, key=lambda generated: taken[generated])
