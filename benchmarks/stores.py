"""Figures 21 to 24: bulk eviction, and windows whose elements are in a store.

Results are compared with what is known of them. What is to be small in memory runs in a process of its
own, whose peak counts; the Redis server is one more process, on loopback, without persistence. A single
eviction is the mean of many, without the slowest in a hundred, when others had the machine.
"""

import mmap
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import mean

from tests.redis_server import RedisServer

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target, best_times, seconds_of
from muntin.aggregators import Aggregator
from muntin.stores import MemoryStore, RedisStore, RocksStore, Store, stored

MILLION = 1e6
WINDOW, QUICK_WINDOW = 1 << 23, 1 << 20
TURNS, SINGLE = 5, 20_000
LARGE, QUICK_LARGE = 1 << 25, 1 << 21
INSERTS, QUICK_INSERTS = 1 << 20, 1 << 17
SLIDING, SLIDES = 1 << 16, 1 << 17
VALUES = [random.Random(1).random() for _ in range(1 << 16)]
STORES = ("RocksDB", "Redis")

FILL = """
import random, sys
import muntin as mt
from muntin.stores import MemoryStore, RedisStore, RocksStore, stored

def peak_mb():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0]) / 1e3

where, place, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
if where == "RocksDB":
    import rocksdict
elif where == "Redis":
    import redis
values = [random.random() for _ in range(1 << 12)]
empty = peak_mb()
if where in ("Amta", "LogMta", "DabaLite"):
    window = getattr(mt, where)(mt.Max())
else:
    stores = {"RocksDB": RocksStore, "Redis": RedisStore, "MemoryStore": lambda _: MemoryStore()}
    window = stored(mt.Max(), stores[where](place), "w")
for _ in range(0, n, len(values)):
    window.bulk_insert([value * 1.0 for value in values])
assert len(window) == n
print(peak_mb() - empty, window.query() == max(values))
"""


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    return [
        ("bulk eviction", lambda: bulk_eviction(scale)),
        ("memory", lambda: memory(scale)),
        ("insertions", lambda: insertions(scale)),
        ("sliding", lambda: sliding(scale)),
    ]


@contextmanager
def opened(where: str) -> Iterator[Store]:
    """Open an empty store."""
    with tempfile.TemporaryDirectory() as folder:
        if where == "RocksDB":
            with RocksStore(folder) as store:
                yield store
        elif where == "Redis":
            with RedisServer(Path(folder)) as server, RedisStore(server.url) as store:
                yield store
        else:
            yield MemoryStore()


def values(n: int) -> Iterator[float]:
    """Return n values, each an object of its own."""
    return (value * 1.0 for value in islice(cycle(VALUES), n))


def bulk_eviction(scale: Scale) -> Findings:
    """Yield the time to evict half of a large window, with Amta and DabaLite, and that of one value."""
    n = QUICK_WINDOW if scale.quick else WINDOW
    case = f"evict {n // 2:,} of {n:,} values"
    daba = mt.DabaLite(mt.Max())
    daba.bulk_insert(values(n))
    linear = seconds_of(lambda: daba.bulk_evict(n // 2))
    amta = mt.Amta(mt.Max())
    first, many = [], []
    for _ in range(TURNS):
        amta.bulk_insert(values(n - len(amta)))
        first.append(seconds_of(amta.evict))
        amta.bulk_insert(values(1))
        steady = mean(islice(sorted(evictions(amta, SINGLE)), SINGLE * 99 // 100))
        many.append(seconds_of(lambda: amta.bulk_evict(n // 2)))
    bulk, one = min(many), min(first)
    if amta.query() != max(VALUES) or daba.query() != max(VALUES):
        raise AssertionError(f"{case}: {amta.query()} and {daba.query()}, not {max(VALUES)}")
    yield Finding(
        21, case, "DabaLite", 1e3 * linear, "ms", bulk / linear, "its/Amta", linear / bulk, Target(1000)
    )  # fmt: skip
    yield Finding(
        21, case, "Amta", MILLION * bulk, "us", 1.0, "of the first", bulk / one, Target(10, at_most=True)
    )  # fmt: skip
    yield Finding(21, case, "Amta, the first value after so many insertions", MILLION * one, "us")
    yield Finding(
        21, case, "Amta, one value of many, each after an insertion", MILLION * steady, "us"
    )


def evictions(window: Aggregator, n: int) -> Iterator[float]:
    """Yield the seconds of each of n single evictions, each after an insertion."""
    for value in values(n):
        window.insert(value)
        yield seconds_of(window.evict)


def peak_mb(where: str, n: int) -> float:
    """Return the most memory that a process took above an empty one, to fill a window of n values.

    Never less than a page: a small window may fit into memory that the empty process already had.
    """
    with tempfile.TemporaryDirectory() as folder:
        if where == "Redis":
            with RedisServer(Path(folder)) as server:
                return filled(where, server.url, n)
        return filled(where, folder, n)


def filled(where: str, place: str, n: int) -> float:
    command = [sys.executable, "-c", FILL, where, place, str(n)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    if told[1] != "True":
        raise AssertionError(f"{where}, {n}: a wrong maximum")
    return max(float(told[0]), mmap.PAGESIZE / 1e6)


def memory(scale: Scale) -> Findings:
    """Yield the peak of the resident set above the empty process."""
    n = QUICK_LARGE if scale.quick else LARGE
    case = f"memory of {n:,} values, above the empty process"
    asked = Target(300, at_most=True)
    megabytes = peak_mb("RocksDB", n)
    yield Finding(22, case, "Amta in RocksDB", megabytes, "MB", value=megabytes, target=asked)
    case = f"memory of {n // 8:,} values"
    for where in ("Amta", "MemoryStore", "RocksDB"):
        who = where if where == "Amta" else f"Amta in {where}"
        yield Finding(22, case, who, peak_mb(where, n // 8), "MB")


def insertions(scale: Scale) -> Findings:
    """Yield thousand insertions a second, one by one and many at once."""
    n = QUICK_INSERTS if scale.quick else INSERTS
    given = list(values(n))
    targets = {"RocksDB": Target(100), "Redis": Target(30)}
    for case, insert in (("inserted one by one", one_by_one), ("inserted at once", at_once)):
        rates = {"memory": n / 1e3 / seconds_of(lambda: insert(mt.Amta(mt.Max()), given))}  # noqa: B023
        for where in STORES:
            with opened(where) as store, stored(mt.Max(), store, "w") as window:
                rates[where] = n / 1e3 / seconds_of(lambda: insert(window, given))  # noqa: B023
        for where, rate in rates.items():
            yield Finding(
                23, f"{n:,} values {case}", f"Amta in {where}", rate, "k/s", rate / max(rates.values()),
                value=rate, target=targets.get(where),
            )  # fmt: skip


def one_by_one(window: Aggregator, given: list[float]) -> None:
    insert = window.insert
    for value in given:
        insert(value)


def at_once(window: Aggregator, given: list[float]) -> None:
    window.bulk_insert(given)


def sliding(scale: Scale) -> Findings:
    """Yield the mean time of insert + evict + query."""
    with opened("MemoryStore") as kept, opened("RocksDB") as rocks, opened("Redis") as redis:
        windows: dict[str, Aggregator] = {
            "memory": mt.Amta(mt.Max()),
            "MemoryStore": stored(mt.Max(), kept, "w"),
            "RocksDB": stored(mt.Max(), rocks, "w"),
            "Redis": stored(mt.Max(), redis, "w"),
        }
        for window in windows.values():
            window.bulk_insert(values(SLIDING))
        count = SLIDES // 8 if scale.quick else SLIDES
        calls = {where: slider(window, count) for where, window in windows.items()}
        times = {where: 1e6 / count * s for where, s in best_times(calls, scale).items()}
        results = {window.query() for window in windows.values()}
    if results != {max(VALUES)}:
        raise AssertionError(f"sliding windows give {results}")
    for where, us in times.items():
        asked = Target(5, at_most=True) if where in STORES else None
        yield Finding(
            24, f"insert + evict + query, n = {SLIDING:,}", f"Amta in {where}", us, "us",
            min(times.values()) / us, "of memory's", us / times["memory"], asked,
        )  # fmt: skip


def slider(window: Aggregator, count: int) -> Callable[[], None]:
    """Return a call that slides the window by so many values."""

    def slide() -> None:
        insert, evict, query = window.insert, window.evict, window.query
        for value in values(count):
            insert(value)
            evict()
            query()

    return slide
