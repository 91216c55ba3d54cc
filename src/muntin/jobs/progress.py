"""How far a stream is, from what Spark tells of each micro-batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Totals:
    """What a stream has done since it was started.

    >>> totals = Totals()
    >>> totals.add({"numInputRows": 1200, "processedRowsPerSecond": 800.0})
    >>> print(totals)
    1 micro-batch, 1,200 rows (800 rows/s), 0 windows, 0 late, 0 dropped
    """

    micro_batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    windows: int = 0
    late: int = 0
    dropped: int = 0
    bad_times: int = 0
    bad_rows: int = 0

    def add(self, progress: Mapping[str, Any]) -> None:
        """Count a micro-batch; progress of an idle stream is of none."""
        if is_idle(progress):
            return
        rows = progress.get("numInputRows") or 0
        counted = (progress.get("observedMetrics") or {}).get("muntin") or {}
        self.micro_batches += 1
        self.rows += rows
        if rows:
            self.rows_per_second = progress.get("processedRowsPerSecond") or 0.0
        self.windows += counted.get("windows") or 0  # null where no shard had anything to do
        self.late += counted.get("late") or 0
        self.dropped += counted.get("dropped") or 0
        self.bad_times += counted.get("bad_times") or 0
        self.bad_rows += counted.get("bad_rows") or 0

    def __str__(self) -> str:
        batches = "micro-batch" if self.micro_batches == 1 else "micro-batches"
        rows = f"{self.rows:,} rows ({self.rows_per_second:,.0f} rows/s)"
        counted = f"{self.windows:,} windows, {self.late:,} late, {self.dropped:,} dropped"
        counted += f", {self.bad_times:,} without a time" if self.bad_times else ""
        counted += f", {self.bad_rows:,} bad rows" if self.bad_rows else ""
        return f"{self.micro_batches:,} {batches}, {rows}, {counted}"


def is_idle(progress: Mapping[str, Any]) -> bool:
    """Whether nothing ran: Spark then has no metrics, and the number of the micro-batch to come."""
    return "addBatch" not in progress.get("durationMs", {"addBatch": 0})


def mark(progress: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what tells a progress from others: an idle one has the number of the next micro-batch."""
    return progress["batchId"], progress["timestamp"]


def behind(
    recent: Sequence[Mapping[str, Any]], seen: tuple[Any, Any] | None
) -> Sequence[Mapping[str, Any]]:
    """Return what came after the progress that was seen last."""
    marks = [mark(progress) for progress in recent]
    return recent[marks.index(seen) + 1 :] if seen in marks else recent
