"""The figures of a board in Prometheus' text format, version 0.0.4."""

from collections.abc import Iterator, Mapping
from typing import Any

CONTENT = "text/plain; version=0.0.4"
COUNTED = {
    "micro_batches": "Micro-batches that ran.",
    "rows": "Rows taken in.",
    "late": "Rows before the watermark.",
    "dropped": "Rows that counted for no window.",
    "bad_times": "Rows without a time that were left out.",
    "bad_rows": "Rows that could not be read and were left out.",
}
"""Totals, and what they count; the others are windows by their kinds."""
GAUGES = {
    "rows_per_second": ("rows_per_second", "Rows per second of the last micro-batch that had any."),
    "seconds": ("micro_batch_seconds", "Seconds that the last micro-batch took."),
    "keys": ("keys", "Keys that are held."),
    "state_bytes": ("state_bytes", "Bytes of state in the store."),
    "written_bytes": ("written_bytes", "Bytes of state that the last micro-batch wrote."),
    "watermark": ("watermark_timestamp_seconds", "The watermark, in seconds since 1970."),
    "newest": (
        "newest_row_timestamp_seconds",
        "The time of the newest row, in seconds since 1970.",
    ),
    "lag": ("watermark_lag_seconds", "Seconds from the watermark to the clock."),
}


def metrics(figures: Mapping[str, Any]) -> str:
    """Return figures as Prometheus reads them.

    >>> figures = {"totals": {"result": 3}, "now": {"keys": 2}, "spent": {}, "open": {}}
    >>> print(metrics(figures), end="")
    # HELP muntin_windows_total Windows reported, by kind.
    # TYPE muntin_windows_total counter
    muntin_windows_total{kind="result"} 3
    # HELP muntin_keys Keys that are held.
    # TYPE muntin_keys gauge
    muntin_keys 2
    """
    return "".join(f"{line}\n" for line in _lines(figures))


def _lines(figures: Mapping[str, Any]) -> Iterator[str]:
    totals, now = figures["totals"], figures["now"]
    for name, what in COUNTED.items():
        if name in totals:
            yield from metric_lines(f"{name}_total", "counter", what, {"": totals[name]})
    kinds = {label("kind", kind): n for kind, n in totals.items() if kind not in COUNTED}
    yield from metric_lines("windows_total", "counter", "Windows reported, by kind.", kinds)
    for name, (metric, what) in GAUGES.items():
        if name in now:
            yield from metric_lines(metric, "gauge", what, {"": now[name]})
    spent = {label("part", part): seconds for part, seconds in figures["spent"].items()}
    what = "Seconds that parts of the last micro-batch took."
    yield from metric_lines("micro_batch_part_seconds", "gauge", what, spent)
    open_ = {label("window", window): n for window, n in figures["open"].items()}
    yield from metric_lines("open_windows", "gauge", "Windows of a key that can be open.", open_)


def metric_lines(name: str, kind: str, what: str, values: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of a metric; nothing is said of one without values."""
    if values:
        yield f"# HELP muntin_{name} {what}"
        yield f"# TYPE muntin_{name} {kind}"
    for label, value in values.items():
        yield f"muntin_{name}{label} {value}"


def label(name: str, value: str) -> str:
    """Return a label as it stands behind the name of a metric."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{{name}="{escaped}"}}'
