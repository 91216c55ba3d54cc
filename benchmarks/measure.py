"""Time calls side by side, say what machine it was, and keep the results.

Calls that are compared take turns, and the best of each counts: noise of a shared machine then hits all
of them alike.
"""

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from muntin._version import __version__

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("numpy", "numba", "pyarrow", "pandas", "polars", "duckdb", "bottleneck", "pyspark")
"""The packages whose versions are kept with results."""
SIZES = (16, 1024, 131072)
TURNS = 9
SECONDS_PER_CALL = 1.0


@dataclass(frozen=True)
class Scale:
    """How much to measure: rows, rows of order statistics, how patiently, and whether to compare."""

    rows: int = 10_000_000
    rank_rows: int = 1_000_000
    patience: float = 1.0
    quick: bool = False
    checked: bool = False


FULL = Scale()
QUICK = Scale(1_000_000, 200_000, 0.3, quick=True)


@dataclass(frozen=True)
class Target:
    """What is asked of a ratio."""

    limit: float
    at_most: bool = False

    def met(self, value: float) -> bool:
        """Whether the value is on the right side of the limit."""
        return value <= self.limit if self.at_most else value >= self.limit

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.limit:g}"


@dataclass(frozen=True)
class Finding:
    """One row of the table: a figure, what was measured of whom, and what was asked.

    `speed` is the share of the fastest in the same case, for the bar; `ratio` says what the value is, if
    it is not the measured number itself.
    """

    figure: int
    case: str
    who: str
    measured: float
    unit: str
    speed: float | None = None
    ratio: str = ""
    value: float | None = None
    target: Target | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met, if there is one."""
        if self.target is None or self.value is None:
            return None
        return self.target.met(self.value)


Findings = Iterator[Finding]


def best_times(calls: dict[Any, Callable[[], Any]], scale: Scale) -> dict[Any, float]:
    """Return the best seconds of each call; the slow ones get fewer turns."""
    best = {name: seconds_of(call) for name, call in calls.items()}
    budget = SECONDS_PER_CALL * scale.patience
    turns = {name: min(TURNS, max(2, int(budget / best[name]))) for name in calls}
    for turn in range(max(turns.values())):
        for name, call in calls.items():
            if turn < turns[name]:
                best[name] = min(best[name], seconds_of(call))
    return best


def seconds_of(call: Callable[[], Any]) -> float:
    """Return how long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def check_same(case: str, who: str, ours: Any, theirs: Any, skip: int = 0) -> None:
    """Raise unless two results are equal up to rounding, after the first `skip` rows."""
    a, b = np.asarray(ours, np.float64)[skip:], np.asarray(theirs, np.float64)[skip:]
    if not np.allclose(a, b, rtol=1e-6, atol=1e-7, equal_nan=True):
        row = int(np.argmax(~np.isclose(a, b, rtol=1e-6, atol=1e-7, equal_nan=True)))
        raise AssertionError(f"{case}: {who} has {b[row]} in row {row + skip}, muntin {a[row]}")


def machine() -> dict[str, Any]:
    """Return the facts that a time depends on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
    }


def versions() -> dict[str, str]:
    """Return the versions of muntin, Python and the packages that take part in benchmarks."""
    found = {"muntin": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def kept_folder(scale: Scale) -> Path:
    """Return where results of this scale are kept; quick ones have a folder of their own."""
    return RESULTS / "quick" if scale.quick else RESULTS


def folder(scale: Scale) -> Path:
    """Return where a run of this scale writes; one that is compared leaves the kept results alone."""
    path = kept_folder(scale)
    path = path / "checked" if scale.checked else path
    path.mkdir(parents=True, exist_ok=True)
    return path


def save(name: str, results: list[Any], scale: Scale) -> Path:
    """Write the results of a benchmark with the date, the machine and the versions."""
    rows = [_plain(result) if isinstance(result, Finding) else result for result in results]
    kept = {
        "benchmark": name,
        "date": datetime.now(UTC).date().isoformat(),
        "quick": scale.quick,
        "machine": machine(),
        "versions": versions(),
    }
    path = folder(scale) / f"{name}.json"
    lines = ",\n".join(f" {json.dumps(row)}" for row in rows)
    path.write_text(f'{json.dumps(kept, indent=1)[:-2]},\n "results": [\n{lines}\n]}}\n')
    return path


def load(path: Path) -> dict[str, Any]:
    """Return what a run has kept."""
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return kept


def _plain(finding: Finding) -> dict[str, Any]:
    target = str(finding.target) if finding.target else None
    return {**asdict(finding), "target": target, "met": finding.met}
