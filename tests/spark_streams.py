"""Streams for tests on Spark: random rows in files, a micro-batch per file, and what should come out."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import muntin as mt
from tests.patience import ran

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
SCHEMA = "ts timestamp, k string, n int, v bigint, x double, s string, b boolean"
DELAY = 5 * SECOND


def random_rows(seed: int, batch: int, count: int = 150) -> pa.Table:
    """Return rows of ten seconds, some of which are up to a minute late."""
    rng = np.random.default_rng([seed, batch])
    late = rng.random(count) < 0.3
    back = np.where(late, rng.integers(0, 60 * SECOND, count), 0)
    times = BEGIN + batch * 10 * SECOND + rng.integers(0, 10 * SECOND, count) - back
    words = np.array(["x", "y", "z", None], object)
    keys = np.array(["a", "b", None], object)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": pa.array(keys[rng.integers(0, 3, count)], pa.string()),
            "n": pa.array(rng.integers(0, 2, count), pa.int32()),
            "v": pa.array(rng.integers(-50, 50, count), mask=rng.random(count) < 0.1),
            "x": np.where(rng.random(count) < 0.02, np.nan, rng.integers(0, 9, count)),
            "s": pa.array(words[rng.integers(0, 4, count)], pa.string()),
            "b": pa.array(rng.random(count) < 0.05),
        }
    )


def write_file(folder: Path, number: int, table: pa.Table) -> None:
    """Write a file that Spark takes as the micro-batch of its number."""
    path = folder / f"{number:04}.parquet"
    pq.write_table(table, path.with_suffix(".tmp"))
    os.utime(path.with_suffix(".tmp"), (1e9 + number, 1e9 + number))
    path.with_suffix(".tmp").rename(path)


def write_files(folder: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables as files, a micro-batch each."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables):
        write_file(folder, number, table)


def read_stream(spark: Any, folder: Path) -> Any:
    """Return the stream of a folder's files, one in a micro-batch."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def collect(stream: Any, checkpoint: Path, mode: str = "update") -> list[dict[str, Any]]:
    """Run a stream until all files are taken, and return what came out, without the times of results."""
    results: list[dict[str, Any]] = []

    def take(frame: Any, _batch: int) -> None:
        results.extend(frame.drop("window_time").toArrow().to_pylist())

    writer = stream.writeStream.foreachBatch(take).outputMode(mode).trigger(availableNow=True)
    collect.progress = ran(
        writer.option("checkpointLocation", str(checkpoint)).start
    ).recentProgress
    return results


def embedded(query: mt.Query, tables: list[pa.Table | None]) -> list[dict[str, Any]]:
    """Return what the operator reports when it is fed and advanced as Spark does it.

    None is a micro-batch without rows, as Spark runs one before it waits, and before it ends.
    """
    operator, results, latest = query.operator(), [], None
    for table in [*tables, None]:
        if table is not None:
            results += operator.process(table).to_pylist()
        if latest is None:
            results += operator.early().to_pylist()
        else:
            results += operator.advance(latest // 1000 * 1000 - query.delay).to_pylist()
        if table is not None:
            newest = max(t.value for t in table["ts"])
            latest = newest if latest is None else max(latest, newest)
    return results


def comparable(results: Iterable[dict[str, Any]]) -> list[str]:
    """Return results as sorted texts: whole numbers equal floats, which may differ in the last bits."""
    return sorted(str({name: _plain(value) for name, value in row.items()}) for row in results)


def _plain(value: Any) -> Any:
    if hasattr(value, "timestamp"):
        return value.timestamp()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return f"{float(value):.10g}" if isinstance(value, int | float) else value
