"""Backfill and live: one query, on finished data and on a stream, and the same table from both.

    python examples/backfill_and_live.py

A new query is wanted for the past as well as for what comes. It is written once. On a DataFrame that
is finished it gives the whole table, with one shuffle; on a stream it gives the same rows when windows
are complete, and corrects them when readings come late. Here both read the same files, and the two
tables are compared row by row.

What a stream reports is kept by two rules: a row takes the place of the one with the same key, window,
start and end, and a retraction deletes it. When all files are read, the stream has come to its
watermark, two minutes before the latest reading: windows that end later are still open there, and are
left out of the comparison.
"""

import argparse
import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import muntin as mt

SECOND = 1_000_000
BEGIN = 1_767_596_400 * SECOND
SCHEMA = "plug string, at timestamp, watts int"
DELAY = timedelta(minutes=2)
QUERY = mt.Query(
    time="at",
    keys="plug",
    windows={"quarter": mt.Sliding("15 minutes", "1 minute"), "active": mt.Session("8 seconds")},
    aggregates={"peak": mt.Max("watts"), "usual": mt.Median("watts"), "rows": mt.Count()},
    watermark=DELAY,
    lateness="15 minutes",
)
Rows = dict[tuple[Any, ...], tuple[Any, ...]]


def write_files(folder: Path, files: int, readings: int) -> datetime:
    """Write the readings of five minutes to each file, some of them late; return the latest time."""
    rng, latest = np.random.default_rng(12), 0
    for number in range(files):
        late = np.where(rng.random(readings) < 0.05, rng.integers(0, 600 * SECOND, readings), 0)
        at = BEGIN + rng.integers(0, 300 * SECOND, readings) + number * 300 * SECOND - late
        latest = max(latest, int(at.max()))
        plug = np.array(["tv", "lamp", "oven"])[rng.integers(0, 3, readings)]
        watts = rng.integers(5, 2000, readings).astype(np.int32)
        table = {"plug": plug, "at": pa.array(at, pa.timestamp("us", "UTC")), "watts": watts}
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.table(table), path)
        os.utime(path, (number, number))  # Spark takes the oldest first
    return datetime.fromtimestamp(latest / SECOND, UTC)


def apply(rows: Rows, reported: pa.Table) -> None:
    """Bring a table up to date with what was reported, in its order."""
    for row in reported.to_pylist():
        window = row["plug"], row["window"], row["start"], row["end"]
        rows.pop(window, None)
        if row["kind"] != "retract":
            rows[window] = row["peak"], row["usual"], row["rows"]


def backfill(spark: Any, folder: str) -> Rows:
    """Run the query on the files as a finished DataFrame."""
    rows: Rows = {}
    apply(rows, mt.spark.aggregate(spark.read.schema(SCHEMA).parquet(folder), QUERY).toArrow())
    return rows


def live(spark: Any, folder: str, checkpoint: str) -> Rows:
    """Run the query on the files as a stream, a micro-batch for each."""
    rows: Rows = {}
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)
    writer = mt.spark.aggregate(stream, QUERY).writeStream.outputMode("update")
    writer = writer.foreachBatch(lambda batch, _: apply(rows, batch.toArrow()))
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start().awaitTermination()
    return rows


def main(spark: Any = None, files: int = 6, readings: int = 400) -> tuple[Rows, Rows]:
    """Print where the tables differ, and a part of them; return both, up to the watermark."""
    console = Console()
    if spark is None:
        spark = mt.spark.session()
        spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as home, console.status("the same files, twice"):
        folder, checkpoint = Path(home, "readings"), Path(home, "checkpoint")
        folder.mkdir()
        watermark = write_files(folder, files, readings) - DELAY
        whole = backfill(spark, str(folder))
        present = live(spark, str(folder), str(checkpoint))
    past = {window: row for window, row in whole.items() if window[3] < watermark}
    console.print(shown(past, present))
    differing = sum(past.get(window) != present.get(window) for window in {*past, *present})
    console.print(
        f"{len(past)} windows from the backfill, {len(present)} from the stream: {differing} differ. "
        f"{len(whole) - len(past)} more are still open in the stream."
    )
    return past, present


def shown(past: Rows, present: Rows) -> Table:
    """Return the last windows of both as a table, with peak, usual and rows of each."""
    table = Table("plug", "window", "from", "until", "backfill", "live", title="The last windows")
    for name in QUERY.windows:
        windows = sorted((w for w in past if w[1] == name), key=lambda w: w[3])
        for window in windows[-6:]:
            clock = [time.strftime("%H:%M:%S") for time in window[2:]]
            values = ["  ".join(map(str, rows.get(window, ()))) for rows in (past, present)]
            table.add_row(*window[:2], *clock, *values)
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=6, help="how many micro-batches")
    parser.add_argument("--readings", type=int, default=400, help="how many in each")
    main(**vars(parser.parse_args()))
