"""What a server has answered, for Prometheus."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from muntin.watch.prometheus import label, metric_lines

BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Seconds up to which requests are counted together."""


class Metrics:
    """Counts requests by their status, how long they took, and the keys they asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._took = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0
        self._keys = 0

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            self._requests[path, status] += 1
            self._took[bisect_left(BOUNDS, seconds)] += 1
            self._seconds += seconds

    def keys(self, count: int) -> None:
        """Count keys that were looked up."""
        with self._lock:
            self._keys += count

    def text(self) -> str:
        """Return all of it as Prometheus reads it."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        requests = {
            f"{label('path', path)[:-1]},{label('status', str(status))[1:]}": count
            for (path, status), count in sorted(self._requests.items())
        }
        yield from metric_lines("requests_total", "counter", "Requests, by status.", requests)
        took = list(accumulate(self._took))
        names = [*map(str, BOUNDS), "+Inf"]
        histogram: dict[str, float] = {
            f"_bucket{label('le', name)}": count for name, count in zip(names, took, strict=True)
        }
        histogram |= {"_sum": self._seconds, "_count": took[-1]}
        what = "Seconds that requests took."
        yield from metric_lines("request_seconds", "histogram", what, histogram)
        what = "Keys that were looked up."
        yield from metric_lines("looked_up_keys_total", "counter", what, {"": self._keys})
