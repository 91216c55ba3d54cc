"""A stream on Spark from its first file to its last, and what each micro-batch took."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from muntin.demo.flights import SCHEMA

Take = Callable[[Any, int], None]


@dataclass(frozen=True)
class Run:
    """What Spark says of a stream that has ended."""

    seconds: tuple[float, ...]
    late: int
    dropped: int
    watermark: int

    @property
    def total(self) -> float:
        """The seconds of all micro-batches."""
        return sum(self.seconds)

    @property
    def rest(self) -> float:
        """The seconds of a micro-batch after the first, which also starts the query and compiles."""
        return sum(self.seconds[1:]) / max(1, len(self.seconds) - 1)


def read(spark: Any, folder: Path) -> Any:
    """Return the stream of a folder's files, one in a micro-batch."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def run(stream: Any, mode: str, checkpoint: Path, take: Take) -> Run:
    """Run a stream until all its files are taken, giving each micro-batch's rows to `take`."""
    writer = stream.writeStream.foreachBatch(take).outputMode(mode).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()  # also when the user has had enough
    progress = query.recentProgress
    counted = [row.asDict() for p in progress for row in p["observedMetrics"].values()]
    reached = [p["eventTime"]["watermark"] for p in progress if "watermark" in p["eventTime"]]
    watermark = datetime.fromisoformat(reached[-1])
    return Run(
        seconds=tuple(p["durationMs"]["triggerExecution"] / 1000 for p in progress),
        late=sum(c["late"] or 0 for c in counted),
        dropped=sum(c["dropped"] or 0 for c in counted),
        watermark=round(watermark.timestamp() * 1e6),
    )


@contextmanager
def messages_to(path: Path) -> Iterator[None]:
    """Let programs that are started meanwhile write their messages into a file."""
    with path.open("w") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
