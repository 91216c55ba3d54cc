"""A small device: a window of millions of readings, in RocksDB, with little memory.

    python examples/small_device.py --readings 30_000_000

A thermometer tells its temperature every second. The window holds the readings of so many seconds and
knows the hottest of them and when it was. A policy says what leaves: whatever is older than that. The
readings are in a folder on disk; memory holds the few that are being written or evicted, however long
the window is. It is measured as the most that this process ever had, which Linux tells.

Half way the device is switched off. The window is opened again by its id and goes on where it was: its
`inserted` says which reading is next. At last the device rests for longer than the window is. The next
reading evicts all others at once, which costs no more than a few evictions (O(log n) combines).
"""

import argparse
import math
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

import muntin as mt

DAY = 86_400
HOTTEST = mt.Product(celsius=mt.Max("celsius"), at=mt.ArgMax("celsius", "at"))


def reading(at: int) -> dict[str, Any]:
    """Return what the thermometer tells at a second: days, seasons, and some noise."""
    season, day = math.sin(at / (365 * DAY) * math.tau), math.sin(at / DAY * math.tau)
    noise = (at * 2_654_435_761 % 2**32) / 2**32
    return {"at": at, "celsius": round(12 + 9 * season + 5 * day + noise, 3)}


def opened(folder: str, readings: int) -> tuple[mt.RocksStore, mt.PolicyWindow]:
    """Open the store, and the window in it as it was left."""
    store = mt.RocksStore(folder)
    policy = mt.policies.within(readings, "at")
    return store, mt.PolicyWindow(HOTTEST, policy, store, window_id="thermometer")


def main(readings: int = 300_000, folder: str | None = None) -> list[dict[str, Any]]:
    """Print what the window is after each step and what it takes; return the same."""
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return main(readings, temporary)
    console, steps = Console(), []
    store, window = opened(folder, readings)

    def step(name: str, until: int, at: int | None = None) -> None:
        began = time.perf_counter()
        seconds = range(window.inserted, until)
        for second in track(seconds, name, transient=True, disable=not console.is_terminal):
            window.insert(reading(second if at is None else at))
        window.flush()
        took = time.perf_counter() - began
        steps.append({"step": name, "values": len(window), **window.query(), "took": took})
        steps[-1] |= {"memory": peak_memory_mb(), "disk": on_disk_mb(folder)}

    step("half full", readings // 2)
    window.close()
    store.close()
    store, window = opened(folder, readings)
    step("reopened", readings)
    slides = readings + readings // 100
    step("sliding", slides)
    step("rested", slides + 1, at=slides + 2 * readings)
    window.close()
    store.close()
    console.print(shown(steps))
    return steps


def peak_memory_mb() -> float:
    """Return the most resident memory that this process has had."""
    status = Path("/proc/self/status").read_text().splitlines()
    told = dict(line.split(":", 1) for line in status)
    return int(told["VmHWM"].split()[0]) / 1000


def on_disk_mb(folder: str) -> float:
    """Return how much the store takes on disk."""
    return sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6


def shown(steps: list[dict[str, Any]]) -> Table:
    """Return the steps as a table."""
    table = Table(title="A window in RocksDB")
    table.add_column("step")
    for heading in ("readings", "hottest", "second", "took, s", "RAM, MB", "disk, MB"):
        table.add_column(heading, justify="right")
    for row in steps:
        known = f"{row['values']:,}", f"{row['celsius']:.3f}", f"{row['at']:,}"
        costs = f"{row['took']:.3f}", f"{row['memory']:.0f}", f"{row['disk']:.0f}"
        table.add_row(row["step"], *known, *costs)
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readings", type=int, default=300_000, help="seconds in the window")
    parser.add_argument("--folder", help="where the window is kept; without it, for this run only")
    main(**vars(parser.parse_args()))
