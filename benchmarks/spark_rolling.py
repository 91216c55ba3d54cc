"""Figures 18 to 22: frames around each row on Spark, beside Spark's own Window, in two cores.

Rows are read from Parquet files, in which they are up to a second out of order, and results go to the
noop sink. Each side runs once before it is timed; then they take turns, and the best counts. Spark is
timed as it comes, and with `spark.sql.window.segmentTree.enabled`. Where it would take minutes as it
comes, it gets some of the keys, as many of each partition, and its time is scaled by the rows. On the
way to Python Spark adds up the bytes of a batch after every row unless told that they have no limit.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target, check_same, seconds_of
from benchmarks.spark_streaming import SCHEMA, Source, home, session, settings, written

ROWS, QUICK_ROWS, KEYS = 2_000_000, 400_000, 100
HOUR = 3_600_000_000
HOURS = 20
"""From the first row to the last, so that an hour has about a thousand rows of a key."""
FILES = 8
SIZES = (100, 1000, 10_000, 100_000)
TURNS = 2
SHARES = {100: 1.0, 1000: 0.1, 10_000: 0.02, 100_000: 0.02}
"""The share of the keys for Spark as it comes, by rows of a frame."""
MEDIAN_SHARE = 0.02
TREE = "spark.sql.window.segmentTree.enabled"
UNLIMITED = {"spark.sql.execution.arrow.maxBytesPerBatch": 2**31 - 1}
AGGREGATES = {
    "max": (mt.Max("v"), F.max),
    "sum": (mt.Sum("v"), F.sum),
    "avg": (mt.Mean("v"), F.avg),
    "std": (mt.Std("v"), F.stddev),
}
ALL = tuple(AGGREGATES)
TIE = 1.4
LONG_ROWS, QUICK_LONG_ROWS = 20_000_000, 2_000_000
LONG_MEMORY = "2g"
LONG_SECONDS = 3600
WINDOW, PLAIN = "Spark, segment tree", "Spark as it comes"


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    singles = [(f"{n} of 1000 rows", partial(row_frames, scale, 1000, (n,))) for n in ALL]
    return [
        ("same results", partial(check, scale)),
        *((f"{size:,} rows", partial(row_frames, scale, size, ALL)) for size in SIZES),
        *([] if scale.quick else singles),
        ("an hour", partial(hour, scale)),
        ("median", partial(median, scale)),
        ("any frame", partial(any_frame, scale)),
        ("three frames", partial(three_frames, scale)),
        ("a long key", partial(long_key, scale)),
    ]


# What runs


@cache
def rows(scale: Scale) -> DataFrame:
    """Return the rows that are measured."""
    count = QUICK_ROWS if scale.quick else ROWS
    source = Source(count, FILES, KEYS, seconds=HOURS * 3600)
    return session().read.schema(SCHEMA).parquet(str(written(source)))


@cache
def part(scale: Scale, share: float) -> tuple[DataFrame, float]:
    """Return the rows of a share of the keys, and how often they fit into all rows."""
    frame = rows(scale)
    if share == 1.0:
        return frame, 1.0
    homes = frame.select("k", F.pmod(F.hash("k"), F.lit(2)).alias("home")).distinct().toPandas()
    each = round(share * KEYS / 2)
    chosen = [k for _, keys in homes.groupby("home")["k"] for k in sorted(keys)[:each]]
    folder = f"{home().name}/share-{share}"
    frame.where(F.col("k").isin(chosen)).repartition(FILES).write.parquet(folder)
    found = session().read.schema(SCHEMA).parquet(folder)
    return found, frame.count() / found.count()


def ours(frame: DataFrame, size: Any, names: tuple[str, ...]) -> DataFrame:
    """Return our frames, whatever the plan would be."""
    aggregates = {name: AGGREGATES[name][0] for name in names}
    options = {"keys": "k", "order": "ts", "plan": "muntin"}
    return mt.spark.rolling(frame, size=size, aggregates=aggregates, **options)


def theirs(frame: DataFrame, size: Any, names: tuple[str, ...]) -> DataFrame:
    """Return Spark's frames of so many rows, or of an hour."""
    window = Window.partitionBy("k")
    if isinstance(size, int):
        window = window.orderBy("ts").rowsBetween(1 - size, 0)
    else:
        window = window.orderBy(F.unix_micros("ts")).rangeBetween(1 - HOUR, 0)
    made = [AGGREGATES[name][1]("v").over(window).alias(name) for name in names]
    return frame.select("*", *made)


def run(frame: DataFrame, tree: bool = False) -> None:
    """Compute all rows."""
    with settings({TREE: tree, **UNLIMITED}):
        frame.write.format("noop").mode("overwrite").save()


def best(scale: Scale, calls: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Return the best seconds of each, after a run that is not timed."""
    found = dict.fromkeys(calls, np.inf)
    for turn in range(1 + (1 if scale.quick else TURNS)):
        for who, call in calls.items():
            taken = seconds_of(call)
            found[who] = min(found[who], taken) if turn else np.inf
    return found


# What is measured


def check(scale: Scale) -> Findings:
    """Raise unless all give the same on some of the keys; yield nothing."""
    frame, _ = part(scale, SHARES[1000])
    for size in (*SIZES[:2], "1 hour"):
        mine = ours(frame, size, ALL).toPandas().sort_values(["k", "ts"])
        for tree in (True, False)[: 1 + (size == SIZES[0])]:
            with settings({TREE: tree}):
                wanted = theirs(frame, size, ALL).toPandas().sort_values(["k", "ts"])
            for name in ALL:
                check_same(f"{size}, {name}", f"Spark, {TREE}={tree}", mine[name], wanted[name])
    yield from ()


def row_frames(scale: Scale, size: int, names: tuple[str, ...]) -> Findings:
    """Yield seconds for the last rows of each row."""
    share = SHARES[size]
    least = Target(1 / TIE) if size == SIZES[0] else None
    case = f"{', '.join(names)} of {size:,} rows"
    yield from against(scale, case, size, names, share, least or Target(3), least or Target(10))


def hour(scale: Scale) -> Findings:
    """Yield seconds for the last hour of each row."""
    case = f"{', '.join(ALL)} of an hour, about 1000 rows"
    yield from against(scale, case, "1 hour", ALL, SHARES[1000], Target(3), Target(10))


def against(
    scale: Scale,
    case: str,
    size: Any,
    names: tuple[str, ...],
    share: float,
    tree: Target,
    plain: Target,
) -> Findings:
    """Yield our seconds and Spark's, and its in multiples of ours."""
    frame, (some, times) = rows(scale), part(scale, share)
    found = best(
        scale,
        {
            "muntin": lambda: run(ours(frame, size, names)),
            WINDOW: lambda: run(theirs(frame, size, names), tree=True),
        },
    )
    who = PLAIN if share == 1.0 else f"{PLAIN}, {share:.0%} of the keys, scaled"
    found |= {who: times * best(scale, {who: lambda: run(theirs(some, size, names))})[who]}
    asked = {WINDOW: tree, who: plain}
    yield from seconds(18, case, found, asked)


def seconds(
    figure: int, case: str, found: dict[str, float], asked: dict[str, Target]
) -> Iterator[Finding]:
    fastest, mine = min(found.values()), found["muntin"]
    for who, taken in found.items():
        peer = who != "muntin"
        yield Finding(
            figure, case, who, 1e3 * taken, "ms", fastest / taken, "its/ours" if peer else "",
            taken / mine if peer else None, asked.get(who),
        )  # fmt: skip


def median(scale: Scale) -> Findings:
    """Yield seconds for the median of a thousand rows; Spark gets some of the keys."""
    frame, (some, times) = rows(scale), part(scale, MEDIAN_SHARE)
    options = {"keys": "k", "order": "ts", "size": 1000, "aggregates": {"m": mt.Median("v")}}
    who = f"{PLAIN}, {MEDIAN_SHARE:.0%} of the keys, scaled"
    mine = mt.spark.rolling(frame, **options)
    theirs = mt.spark.rolling(some, **options, plan="native")
    found = best(scale, {"muntin": lambda: run(mine), who: lambda: run(theirs)})
    found[who] *= times
    yield from seconds(19, "median of 1,000 rows", found, {who: Target(100)})


def any_frame(scale: Scale) -> Findings:
    """Yield our seconds by the size of the frame, in turns."""
    frame = rows(scale)
    found = best(scale, {f"{n:,} rows": lambda n=n: run(ours(frame, n, ALL)) for n in SIZES})
    shortest = min(found.values())
    for who, taken in found.items():
        asked = Target(1.5, at_most=True)
        yield Finding(
            20, "muntin, by the frame", who, 1e3 * taken, "ms", shortest / taken, "of the least",
            taken / shortest, asked,
        )  # fmt: skip


def three_frames(scale: Scale) -> Findings:
    """Yield our seconds for one frame with one aggregate, and for three with four each."""
    frame = rows(scale)
    sizes = {"short": 100, "long": 10_000, "hour": ("-1 hour", "0 s")}
    one, many = "one frame, one aggregate", "three frames, four aggregates each"
    calls = {
        one: lambda: run(ours(frame, 1000, ("max",))),
        many: lambda: run(ours(frame, sizes, ALL)),
    }
    found = best(scale, calls)
    case = "several frames in one call"
    yield Finding(21, case, one, 1e3 * found[one], "ms")
    yield Finding(
        21, case, many, 1e3 * found[many], "ms", None, "of that", found[many] / found[one],
        Target(3, at_most=True),
    )  # fmt: skip


def long_key(scale: Scale) -> Findings:
    """Yield seconds and peak memory for one key of many rows, in a process with little memory."""
    count = QUICK_LONG_ROWS if scale.quick else LONG_ROWS
    command = [sys.executable, "-m", "benchmarks.spark_rolling", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_SECONDS, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    case = f"a key of {count:,} rows, {LONG_MEMORY} for Spark"
    yield Finding(22, case, "muntin", 1e3 * told["seconds"], "ms")
    for who in ("java", "python"):
        yield Finding(22, case, f"peak memory of {who}", told[who], "MB")


def roll_long_key(count: int) -> dict[str, float]:
    """Roll over one key in a session of little memory; return seconds, and megabytes at the peak."""
    spark = mt.spark.session(cores=2, partitions=2, memory=LONG_MEMORY, settings=UNLIMITED)
    ids = spark.range(count)
    stamp = F.timestamp_micros(F.expr("pmod(id * 7919, 1000003) * 1000000 + id"))
    frame = ids.select(F.lit("key").alias("k"), stamp.alias("ts"), F.rand(1).alias("v"))
    taken = seconds_of(lambda: run_long(frame))
    return {"seconds": taken, "java": peak("java"), "python": peak("python")}


def run_long(frame: DataFrame) -> None:
    ours(frame, 10_000, ALL).write.format("noop").mode("overwrite").save()


def peak(command: str) -> float:
    """Return the largest peak of memory among the processes that this one has started, in megabytes."""
    facts = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended in between
            lines = [line.split(":", 1) for line in path.read_text().splitlines()]
            facts[int(path.parent.name)] = {name: value.split() for name, value in lines}
    started, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, fact in facts.items() if int(fact["PPid"][0]) in started} - started
        started, grown = started | more, bool(more)
    mine = [facts[pid] for pid in started - {os.getpid()}]
    return max(int(fact["VmHWM"][0]) / 1e3 for fact in mine if fact["Name"][0] == command)


if __name__ == "__main__":
    print(json.dumps(roll_long_key(int(sys.argv[1]))))
