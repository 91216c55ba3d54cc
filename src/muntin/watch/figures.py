"""What a board counts: reported windows, and what Spark tells of its micro-batches."""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

BATCHES = 120
"""So many micro-batches are drawn."""
SUMMED = ("late", "dropped", "bad_times", "bad_rows")
LATEST = ("rows", "keys", "state_bytes", "written_bytes")


class Figures:
    """Totals since the board was made, what the last micro-batch said, and the last of them all."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}
        self._now: dict[str, float] = {}
        self._drawn: dict[str, deque[float]] = {}
        self._last: tuple[Any, Any] | None = None

    def count(self, kinds: Mapping[str, int]) -> None:
        """Count the windows of a batch by their kinds."""
        for kind, number in kinds.items():
            self._add(kind, number)
        self._draw("windows", sum(kinds.values()))

    def progress(self, told: Mapping[str, Any]) -> bool:
        """Take a streaming query's progress; whether it is another than the last one."""
        which = (told.get("batchId"), told.get("timestamp"))
        if which == self._last and which != (None, None):
            return False
        self._last = which
        self._hold("rows_per_second", told.get("processedRowsPerSecond"))
        self._hold("seconds", told.get("batchDuration"), 1000)
        self._hold("rows", told.get("numInputRows"))
        metrics = (told.get("observedMetrics") or {}).get("muntin") or {}
        for name in SUMMED:
            if metrics.get(name) is not None:
                self._add(name, metrics[name])
        for name in LATEST:
            self._hold(name, metrics.get(name))
        for name in ("rows_per_second", "state_bytes"):
            if name in self._now:
                self._draw(name, self._now[name])
        for name in SUMMED:
            if name in self._totals:
                self._draw(name, metrics.get(name) or 0)
        return True

    def plain(self) -> dict[str, Any]:
        """Return all that is known as plain data."""
        return {
            "totals": dict(self._totals),
            "now": dict(self._now),
            "drawn": {name: list(values) for name, values in self._drawn.items()},
        }

    def _add(self, name: str, number: int) -> None:
        self._totals[name] = self._totals.get(name, 0) + number

    def _hold(self, name: str, value: float | None, divisor: float = 1) -> None:
        """Remember a figure; one that Spark could not tell leaves the last."""
        if value is not None and math.isfinite(value):
            self._now[name] = value / divisor

    def _draw(self, name: str, value: float) -> None:
        self._drawn.setdefault(name, deque(maxlen=BATCHES)).append(value)
