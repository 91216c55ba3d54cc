"""How far a stream is, from what Spark tells of each micro-batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass
class Totals:
    """What a stream has done since it was started.

    >>> totals = Totals()
    >>> totals.add({"numInputRows": 1200, "processedRowsPerSecond": 800.0, "observedMetrics": {}})
    >>> print(totals)
    1 micro-batch, 1,200 rows (800 rows/s), 0 windows, 0 late, 0 dropped
    """

    micro_batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    windows: int = 0
    late: int = 0
    dropped: int = 0

    def add(self, progress: Mapping[str, Any]) -> None:
        """Count a micro-batch, of which Spark tells so much."""
        self.micro_batches += 1
        self.rows += progress["numInputRows"]
        if progress["numInputRows"]:
            self.rows_per_second = progress["processedRowsPerSecond"]
        counted = progress["observedMetrics"].get("muntin", {})
        self.windows += counted.get("windows") or 0  # null where no shard had anything to do
        self.late += counted.get("late") or 0
        self.dropped += counted.get("dropped") or 0

    def __str__(self) -> str:
        batches = "micro-batch" if self.micro_batches == 1 else "micro-batches"
        rows = f"{self.rows:,} rows ({self.rows_per_second:,.0f} rows/s)"
        counted = f"{self.windows:,} windows, {self.late:,} late, {self.dropped:,} dropped"
        return f"{self.micro_batches:,} {batches}, {rows}, {counted}"
