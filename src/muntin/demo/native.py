"""Spark's own window beside the query's: the same rows, the same results, and what both took.

Spark has one window in a query and no corrections, so it waits until nothing can change: its watermark
stays behind by the query's lateness too. On the stream both have the same micro-batches, and on
finished data each runs after a short run of its kind, so that neither pays for what happens once.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

import muntin as mt
from muntin.demo import stream_run as stream
from muntin.demo.current_results import Row
from muntin.demo.stream_run import Run

WINDOW = "last hour"
COMPARED = ("flights", "median", "worst")
KNOWN = ["airport", "start"]
SQL = """SELECT airport, unix_micros(window.start) AS start, unix_micros(window.end) AS end,
       count(*) AS flights, median(delay) AS median, max(delay) AS worst
FROM departures
GROUP BY airport, window(scheduled, '1 hour', '1 minute')"""


@dataclass(frozen=True)
class Seconds:
    """What both took for the same windows."""

    windows: int
    ours: float
    theirs: float


def on_stream(spark: Any, files: Path, query: mt.Query, folder: Path) -> tuple[pd.DataFrame, Run]:
    """Return what Spark's window gives on the stream, and how the stream ran."""
    waiting = f"{(query.delay + query.allowed) // 1_000_000} seconds"
    rows = stream.read(spark, files).withWatermark(query.time, waiting)
    rows.createOrReplaceTempView("departures")
    results: list[pa.Table] = []

    def take(frame: Any, _number: int) -> None:
        results.append(frame.toArrow())

    run = stream.run(spark.sql(SQL), "append", folder / "native", take)
    return pa.concat_tables(results).to_pandas(), run


def same_on_stream(ours: Iterable[Row], theirs: pd.DataFrame, watermark: int) -> int:
    """Compare the windows that are final for Spark with ours after corrections; return how many."""
    final = [row for row in ours if row["window"] == WINDOW and row["end"] <= watermark]
    return same(pd.DataFrame(final), theirs)


def on_finished(spark: Any, file: Path, warm_up: Path, query: mt.Query) -> Seconds:
    """Run the window over finished data both ways, compare, and return what both took."""
    aggregates = {name: query.aggregates[name] for name in COMPARED}
    alone = replace(query, windows={WINDOW: query.windows[WINDOW]}, aggregates=aggregates)
    for path in (warm_up, file):
        departures = spark.read.parquet(str(path))
        departures.createOrReplaceTempView("departures")
        ours, our_seconds = _timed(mt.spark.aggregate(departures, alone, engine="muntin"))
        theirs, their_seconds = _timed(spark.sql(SQL))
    for name in ("start", "end"):
        ours[name] = ours[name].astype("datetime64[us, UTC]").astype("int64")
    return Seconds(same(ours, theirs), our_seconds, their_seconds)


def same(ours: pd.DataFrame, theirs: pd.DataFrame) -> int:
    """Return how many windows there are, or say which is the first that differs."""
    columns = [*KNOWN, "end", *COMPARED]
    tables = [t[columns].sort_values(KNOWN, ignore_index=True) for t in (ours, theirs)]
    here, there = (table.astype(dict.fromkeys(COMPARED, float)) for table in tables)
    if len(here) != len(there):
        raise RuntimeError(f"muntin reports {len(here)} windows and Spark {len(there)}")
    differ = (here != there).any(axis=1)
    if differ.any():
        first = differ.idxmax()
        raise RuntimeError(
            f"{differ.sum()} of {len(here)} windows differ: muntin has {here.loc[first].to_dict()}, "
            f"Spark {there.loc[first].to_dict()}"
        )
    return len(here)


def _timed(frame: Any) -> tuple[pd.DataFrame, float]:
    began = time.perf_counter()
    table = frame.toArrow()
    return table.to_pandas(), time.perf_counter() - began
