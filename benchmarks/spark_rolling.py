"""Figures 25 to 29: frames around each row on Spark, beside Spark's own Window, in two cores.

Rows are read from Parquet files, in which they are up to a second out of order, and results go to the
noop sink. Each side runs once before it is timed; then they take turns, and the best counts. Spark is
timed with `spark.sql.window.segmentTree.enabled`, and as it comes: then it gets as much time as would
show what is asked, and some more; where it is not done by then, the ratio is a bound. Beside single
aggregates there are rows that are shuffled, sorted and handed to Python and back, with nothing computed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target, check_same, seconds_of
from benchmarks.spark_limit import MARGIN, native_within
from benchmarks.spark_runs import SCHEMA, Source, session, settings, written

ROWS, QUICK_ROWS, KEYS = 2_000_000, 400_000, 100
HOUR = 3_600_000_000
HOURS = 20
"""From the first row to the last, so that an hour has about a thousand rows of a key."""
FILES = 8
SIZES = (100, 1000, 10_000, 100_000)
TURNS = 2
CHECKED_KEYS = 10
TREE = "spark.sql.window.segmentTree.enabled"
AGGREGATES = {
    "max": (mt.Max("v"), F.max),
    "sum": (mt.Sum("v"), F.sum),
    "avg": (mt.Mean("v"), F.avg),
    "std": (mt.Std("v"), F.stddev),
}
ALL = tuple(AGGREGATES)
TIE, TEN_TIMES = 1.4, 10
LONG_ROWS, QUICK_LONG_ROWS = 20_000_000, 2_000_000
LONG_MEMORY = "2g"
LONG_SECONDS = 3600
WINDOW, PLAIN, MOVED = "Spark, segment tree", "Spark as it comes", "rows moved only"


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


def moved(frame: DataFrame) -> DataFrame:
    """Return the rows as any plan in Python gets them: by key, in order, and back."""
    placed = frame.repartition("k").sortWithinPartitions("k", "ts")
    return placed.mapInArrow(lambda batches: batches, frame.schema)


def run(frame: DataFrame, tree: bool = False) -> None:
    """Compute all rows."""
    with settings({TREE: tree}):
        frame.write.format("noop").mode("overwrite").save()


def turns(scale: Scale) -> int:
    return 1 if scale.quick else TURNS


def best(scale: Scale, calls: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Return the best seconds of each, after a run that is not timed."""
    found = dict.fromkeys(calls, np.inf)
    for turn in range(1 + turns(scale)):
        for who, call in calls.items():
            taken = seconds_of(call)
            found[who] = min(found[who], taken) if turn else np.inf
    return found


# What is measured


def check(scale: Scale) -> Findings:
    """Raise unless all give the same on some of the keys; yield nothing."""
    frame = rows(scale).where(F.col("k") < CHECKED_KEYS)
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
    tie = Target(round(1 / TIE, 2)) if size == SIZES[0] else None
    case = f"{', '.join(names)} of {size:,} rows"
    yield from against(scale, case, size, names, tie or Target(3), tie or Target(10))
    if len(names) == 1:
        taken = best(scale, {MOVED: lambda: run(moved(rows(scale)))})[MOVED]
        yield Finding(25, case, MOVED, 1e3 * taken, "ms")


def hour(scale: Scale) -> Findings:
    """Yield seconds for the last hour of each row."""
    case = f"{', '.join(ALL)} of an hour, about 1000 rows"
    yield from against(scale, case, "1 hour", ALL, Target(3), Target(10))


def against(
    scale: Scale, case: str, size: Any, names: tuple[str, ...], tree: Target, plain: Target
) -> Findings:
    """Yield our seconds and Spark's, and its in multiples of ours."""
    frame = rows(scale)
    found = best(
        scale,
        {
            "muntin": lambda: run(ours(frame, size, names)),
            WINDOW: lambda: run(theirs(frame, size, names), tree=True),
        },
    )
    fastest, mine = min(found.values()), found["muntin"]
    yield Finding(25, case, "muntin", 1e3 * mine, "ms", fastest / mine)
    yield Finding(
        25, case, WINDOW, 1e3 * found[WINDOW], "ms", fastest / found[WINDOW], "its/ours",
        found[WINDOW] / mine, tree,
    )  # fmt: skip
    yield as_it_comes(25, scale, case, mine, plain, lambda: run(theirs(frame, size, names)))


def as_it_comes(
    figure: int, scale: Scale, case: str, mine: float, asked: Target, call: Callable[[], None]
) -> Finding:
    """Return Spark's seconds without its segment tree, or those after which it was stopped."""
    limit = MARGIN * max(asked.limit, TEN_TIMES) * mine
    found = native_within(limit, turns(scale), call)
    return Finding(
        figure, case, found.named(PLAIN), 1e3 * found.seconds, "ms", min(1, mine / found.seconds),
        found.ratio, found.seconds / mine, asked,
    )  # fmt: skip


def median(scale: Scale) -> Findings:
    """Yield seconds for the median of a thousand rows."""
    frame, case = rows(scale), "median of 1,000 rows"
    options = {"keys": "k", "order": "ts", "size": 1000, "aggregates": {"m": mt.Median("v")}}
    mine = best(scale, {case: lambda: run(mt.spark.rolling(frame, **options))})[case]
    yield Finding(26, case, "muntin", 1e3 * mine, "ms", 1.0)
    theirs = mt.spark.rolling(frame, **options, plan="native")
    yield as_it_comes(26, scale, case, mine, Target(100), lambda: run(theirs))


def any_frame(scale: Scale) -> Findings:
    """Yield our seconds by the size of the frame, in turns."""
    frame = rows(scale)
    found = best(scale, {f"{n:,} rows": lambda n=n: run(ours(frame, n, ALL)) for n in SIZES})
    shortest = min(found.values())
    for who, taken in found.items():
        asked = Target(1.5, at_most=True)
        yield Finding(
            27, "muntin, by the frame", who, 1e3 * taken, "ms", shortest / taken, "of the least",
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
    yield Finding(28, case, one, 1e3 * found[one], "ms")
    yield Finding(
        28, case, many, 1e3 * found[many], "ms", None, "of that", found[many] / found[one],
        Target(3, at_most=True),
    )  # fmt: skip


def long_key(scale: Scale) -> Findings:
    """Yield seconds and peak memory for one key of many rows, in a process with little memory."""
    count = QUICK_LONG_ROWS if scale.quick else LONG_ROWS
    command = [sys.executable, "-m", "benchmarks.spark_rolling", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_SECONDS, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    case = f"a key of {count:,} rows, {LONG_MEMORY} for Spark"
    yield Finding(29, case, "muntin", 1e3 * told["seconds"], "ms")
    for who in ("java", "python"):
        yield Finding(29, case, f"peak memory of {who}", told[who], "MB")


def roll_long_key(count: int) -> dict[str, float]:
    """Roll over one key in a session of little memory; return seconds, and megabytes at the peak."""
    spark = mt.spark.session(cores=2, partitions=2, memory=LONG_MEMORY)
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
