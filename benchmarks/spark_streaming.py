"""Figures 13 to 17: queries on Spark streams, and Spark's own windows, in one session with two cores.

Rows come from Parquet files, and results go to the noop sink. Both sides have the same files, memory and
settings, and each run follows a short one of its kind (`spark_runs.py`). A micro-batch costs some tenths
of a second whatever is in it: there is a short stream in small ones, and a long one in large ones.
Spark's windows have the state store and the code generation with which they are faster. Where they
cannot take the whole stream they get small micro-batches and a time limit: what they complete counts.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target
from benchmarks.spark_runs import (
    AGGREGATES,
    CODEGEN,
    KEYS,
    SWITCH,
    TURNS,
    WRITTEN,
    Case,
    Played,
    Source,
    best,
    native,
    ours,
    passed,
    size_name,
    sliding,
)
from muntin.spark.session import PROVIDER, ROCKSDB

ROWS, QUICK_ROWS = 2_000_000, 400_000
LONG, QUICK_LONG = 10_000_000, 1_000_000
MANY_KEYS, FEW_KEYS = 100_000, 100
HOURS = 7200
FILES = 20
BATCHES, FEW_BATCHES = 5, 4
"""Into so many micro-batches a stream is cut."""
LIMIT, QUICK_LIMIT = 90.0, 15.0
SMALL, LARGER = 5000, 50_000
HDFS = ROCKSDB.replace("RocksDBState", "HDFSBackedState")
STORES = {"HDFS-backed": HDFS, "RocksDB": ROCKSDB}
UNIT = "rows/s"
MEGABYTE = 1e6
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


def whole(scale: Scale, **options: Any) -> Source:
    """Return the stream that is measured."""
    return Source(QUICK_ROWS if scale.quick else ROWS, FILES, **options)


def turns(scale: Scale) -> int:
    """Return how often a case is run."""
    return 1 if scale.quick else TURNS


def long(scale: Scale) -> Source:
    """Return one that comes in large micro-batches."""
    return Source(QUICK_LONG if scale.quick else LONG, FILES)


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
    """Yield rates at 60 s / 1 s, in small micro-batches and in larger ones."""
    name, chosen = faster()
    spark = f"Spark, {name}"
    for source, batches in ((whole(scale), BATCHES), (long(scale), BATCHES), (long(scale), 2)):
        case = f"{size_name(60)}, {source.rows:,} rows in {batches} micro-batches"
        cases = {
            "muntin": Case(source, batches, sliding(60)),
            spark: Case(source, batches, native(60), chosen),
        }
        found = best(cases, turns(scale))
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
        rate = Case(Source(100_000, 2), 2, native(60), chosen).warmed().play().rate
        tried[f"{store} state, {SWITCH[generated]}"] = (rate, chosen)
    name = max(tried, key=lambda name: tried[name][0])
    return name, tried[name][1]


def against_limited(scale: Scale, size: int, asked: float) -> Findings:
    """Yield our rate, and Spark's by the micro-batches that it completes within a limit."""
    case = Case(whole(scale), BATCHES, sliding(size))
    mine = best({"muntin": case}, turns(scale))["muntin"].rate
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
    yield from sizes(scale, whole(scale), asked=True)


def filled(scale: Scale) -> Findings:
    """Yield the same over two hours of fewer keys, so that windows of an hour have all their slices."""
    yield from sizes(scale, whole(scale, keys=FEW_KEYS, seconds=HOURS), asked=False)


def sizes(scale: Scale, source: Source, *, asked: bool) -> Findings:
    """Yield what an hour costs beside a minute."""
    minute, hour = size_name(60), size_name(3600)
    cases = {size_name(size): Case(source, BATCHES, sliding(size)) for size in (60, 3600)}
    found = best(cases, turns(scale))
    case = f"{BATCHES} micro-batches, {source}"
    yield from shares(14, case, found, minute, {hour: Target(0.7)} if asked else {})
    case = f"state per micro-batch, {source.keys:,} keys"
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
    source, only = replace(long(scale), rows=4 * long(scale).rows), "mapInArrow of nothing"
    cases = {only: Case(source, FEW_BATCHES, passed)}
    cases |= {size_name(size): Case(source, FEW_BATCHES, sliding(size)) for size in (60, 3600)}
    case = f"through Python, {FEW_BATCHES} micro-batches, {source}"
    yield from shares(14, case, best(cases, turns(scale)), only, {size_name(3600): Target(0.5)})


def ten(scale: Scale) -> Findings:
    """Yield rates of ten windows in a query, and of one."""
    source = whole(scale)
    one, mixed, free = f"one window, {size_name(60)}", "ten, of six kinds", "ten over time"
    cases = {
        one: Case(source, BATCHES, sliding(60)),
        mixed: Case(source, BATCHES, ours(MIXED)),
        free: Case(source, BATCHES, ours(CONTEXT_FREE)),
    }
    case = f"{len(MIXED)} windows, {source}"
    yield from shares(15, case, best(cases, turns(scale)), one, {mixed: Target(0.5)})


def keys(scale: Scale) -> Findings:
    """Yield rates when one key has half of the rows, and with many keys."""
    even, skewed, many = f"{KEYS:,} keys", "one key has half of the rows", f"{MANY_KEYS:,} keys"
    sources = {
        even: whole(scale),
        skewed: whole(scale, skew=0.5),
        many: whole(scale, keys=MANY_KEYS),
    }
    cases = {who: Case(source, BATCHES, sliding(60)) for who, source in sources.items()}
    case = f"keys, {size_name(60)}, {whole(scale).rows:,} rows"
    yield from shares(17, case, best(cases, turns(scale)), even, {skewed: Target(0.7)})
