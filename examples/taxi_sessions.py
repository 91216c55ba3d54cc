"""Taxis: the shifts of drivers, as sessions of a stream on Spark, with trips that are told late.

    python examples/taxi_sessions.py

A shift is a session: trips of one taxi, each at most 45 minutes after the one before. Some taxis lose
their connection and send their trips when they have it again. Such a trip may lengthen a shift that
was already reported, or join two of them to one: the query then reports an update, and takes back the
shift that is no more. `upsert` applies that to a table in SQLite: whoever reads it sees the shifts as
they are known by then.

The trips are made up. They are written to files, one for each hour, and Spark takes each of them as a
micro-batch, as it would take new files in a folder.
"""

import argparse
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import muntin as mt

MINUTE = 60_000_000
BEGIN = 1_767_596_400_000_000
SCHEMA = "taxi string, at timestamp, fare double, told long"
QUERY = mt.Query(
    time="at",
    keys="taxi",
    windows={"shift": mt.Session("45 minutes")},
    aggregates={"trips": mt.Count(), "fares": mt.Sum("fare"), "best": mt.Max("fare")},
    watermark="10 minutes",
    lateness="5 hours",
)


def generated(taxis: int, hours: int) -> pa.Table:
    """Return trips by the minute in which they are told: most at once, some hours later."""
    rng = np.random.default_rng(7)
    trips = taxis * hours * 2
    taxi, minute = rng.integers(0, taxis, trips), rng.integers(0, hours * 60, trips)
    delay = np.where(rng.random(trips) < 0.2, rng.integers(60, 240, trips), 0)
    table = pa.table(
        {
            "taxi": [f"taxi {number:02}" for number in taxi],
            "at": pa.array(BEGIN + minute * MINUTE, pa.timestamp("us", "UTC")),
            "fare": np.round(rng.gamma(4.0, 4.0, trips), 2),
            "told": minute + delay,
        }
    )
    return table.sort_by("told").filter(pc.field("told") < hours * 60)


def write_files(trips: pa.Table, folder: Path) -> None:
    """Write a file for each hour, in the order in which Spark is to take them."""
    folder.mkdir()
    hour = trips["told"].to_numpy() // 60
    for number in range(hour[-1] + 1):
        path = folder / f"{number:03}.parquet"
        pq.write_table(trips.filter(pa.array(hour == number)), path)
        os.utime(path, (number, number))


def main(spark: Any = None, taxis: int = 20, hours: int = 8) -> list[dict[str, Any]]:
    """Run the stream, print what each micro-batch did and the longest shifts; return all shifts."""
    console = Console()
    if spark is None:
        spark = mt.spark.session()
        spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as temporary, console.status("trips come in"):
        home = Path(temporary)
        write_files(generated(taxis, hours), home / "trips")
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        shifts = mt.spark.aggregate(reader.parquet(str(home / "trips")), QUERY)
        writer = shifts.writeStream.outputMode("update").trigger(availableNow=True)
        writer = writer.foreachBatch(mt.spark.upsert(home / "taxis.db", "shifts", keys="taxi"))
        stream = writer.option("checkpointLocation", str(home / "checkpoint")).start()
        stream.awaitTermination()
        with closing(sqlite3.connect(home / "taxis.db")) as database:
            found = database.execute("SELECT * FROM shifts ORDER BY start, taxi")
            names = [column[0] for column in found.description]
            table = [dict(zip(names, row, strict=True)) for row in found]
    metrics = [batch["observedMetrics"]["muntin"] for batch in stream.recentProgress]
    console.print(shown_batches(metrics))
    console.print(shown_shifts(sorted(table, key=lambda row: -row["fares"])[:10]))
    late, reports = (sum(told[name] or 0 for told in metrics) for name in ("late", "windows"))
    console.print(
        f"{late} trips came late; {reports} reports made {len(table)} shifts of them all."
    )
    return table


def shown_batches(metrics: list[Any]) -> Table:
    """Return what the query says of each micro-batch as a table."""
    table = Table(title="Micro-batches")
    columns = ("rows", "late", "dropped", "windows", "state_bytes")
    for heading in ("batch", *columns):
        table.add_column(heading, justify="right")
    for number, told in enumerate(metrics):
        table.add_row(str(number), *(f"{told[column] or 0:,}" for column in columns))
    return table


def shown_shifts(shifts: list[dict[str, Any]]) -> Table:
    """Return shifts as a table."""
    table = Table("taxi", "from", "until", "kind", "trips", "fares", title="The best shifts")
    for row in shifts:
        clock = row["start"][11:16], row["end"][11:16]
        table.add_row(row["taxi"], *clock, row["kind"], str(row["trips"]), f"{row['fares']:.2f}")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--taxis", type=int, default=20, help="how many to generate")
    parser.add_argument("--hours", type=int, default=8, help="how long to generate")
    main(**vars(parser.parse_args()))
