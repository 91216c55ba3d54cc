"""What a board counts: reported windows, and what Spark tells of its micro-batches."""

import math
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from muntin.query.query import Query
from muntin.watch.open_windows import open_windows

BATCHES = 120
"""So many micro-batches are drawn."""
SUMMED = ("late", "dropped", "bad_times", "bad_rows")
LATEST = ("rows", "keys", "state_bytes", "written_bytes")
WHOLE = "triggerExecution"
"""What Spark calls the time of a whole micro-batch, among the times of its parts."""
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
"""Spark's watermark before there is one."""


class Figures:
    """Totals since the board was made, what the last micro-batch said, and the last of them all."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._totals: dict[str, int] = {}
        self._now: dict[str, float] = {}
        self._drawn: dict[str, deque[float]] = {}
        self._spent: dict[str, float] = {}  # seconds, of the last micro-batch that ran
        self._open: dict[str, int] = {}
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
        self._add("micro_batches", "addBatch" in (told.get("durationMs") or {}))
        self._add("rows", told.get("numInputRows") or 0)
        self._time(told)
        self._event_time(told)
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
            "spent": dict(self._spent),
            "open": dict(self._open),
            "drawn": {name: list(values) for name, values in self._drawn.items()},
        }

    def _time(self, told: Mapping[str, Any]) -> None:
        """Take what a micro-batch spent its time on; an idle trigger has none."""
        parts = dict(told.get("durationMs") or {})
        if "addBatch" in parts:
            whole = parts.pop(WHOLE, sum(parts.values()))
            other = max(0, whole - sum(parts.values()))
            self._spent = {name: ms / 1000 for name, ms in {**parts, "other": other}.items() if ms}

    def _event_time(self, told: Mapping[str, Any]) -> None:
        """Take the watermark, and say how far it is behind the clock and which windows are open.

        The newest row is that of the last micro-batch that had any.
        """
        times = told.get("eventTime") or {}
        watermark, newest = (_moment(times.get(name)) for name in ("watermark", "max"))
        if newest is not None:
            self._now["newest"] = newest.timestamp()
        if watermark is None or watermark <= EPOCH:
            return
        self._now["watermark"] = watermark.timestamp()
        clock = _moment(told.get("timestamp"))
        if clock is not None:
            self._now["lag"] = (clock - watermark).total_seconds()
            self._draw("lag", self._now["lag"])
        reached = max(watermark.timestamp(), self._now.get("newest", 0))
        bounds = [round(seconds * 1e6) for seconds in (watermark.timestamp(), reached)]
        self._open = open_windows(self._query, *bounds)

    def _add(self, name: str, number: int) -> None:
        self._totals[name] = self._totals.get(name, 0) + number

    def _hold(self, name: str, value: float | None, divisor: float = 1) -> None:
        """Remember a figure; one that Spark could not tell leaves the last."""
        if value is not None and math.isfinite(value):
            self._now[name] = value / divisor

    def _draw(self, name: str, value: float) -> None:
        self._drawn.setdefault(name, deque(maxlen=BATCHES)).append(value)


def _moment(text: str | None) -> datetime | None:
    """Return a time as Spark writes it."""
    return None if text is None else datetime.fromisoformat(text)
