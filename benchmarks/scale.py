"""Figure 33: many small shards in one process, and what a row, a result and a key cost.

Shards are those of a Spark stream, with their packing, log and blocks, and a dict in place of Spark's
state store. Keys and rows grow with the number of shards, so that each shard has the same work. All
results are compared with those of one call of `run` over all rows. Times are those of the processor,
which other programs do not change much. `docs/scale.md` computes clusters from the rates.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale
from muntin.spark.packing import Packing
from muntin.spark.shard import Copies, Shard

SECOND = 1_000_000
STEP = 300 * SECOND
SHARDS = (64, 256, 1024)
KEYS, QUICK_KEYS = 400, 100
"""Keys of a shard."""
BATCHES, QUICK_BATCHES = 12, 6
SPAN = 4 * STEP
"""The time from one micro-batch to the next; a key has a row in each."""
FEW_SHARDS, MANY_KEYS, QUICK_MANY_KEYS = 4, 100_000, 20_000
PIECES = 2
"""In so many parts a micro-batch is packed."""
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.int64())])
QUERY = mt.Query(
    time="at",
    keys="k",
    windows={"w": mt.Sliding("1 hour", "5 min")},
    aggregates={"s": mt.Sum("v"), "m": mt.Max("v"), "a": mt.Mean("v")},
)
SORTED = [("k", "ascending"), ("start", "ascending")]
MILLION = 1e6


class Blocks(dict[str, bytes]):
    """A state store in memory."""

    def put(self, name: str, block: bytes) -> None:
        """Keep a block."""
        self[name] = block

    def delete(self, name: str) -> None:
        """Forget a block."""
        del self[name]


@dataclass
class Spent:
    """Processor seconds of packing, taking rows, reporting, doing nothing and recovering; bytes."""

    pack: float = 0.0
    take: float = 0.0
    report: float = 0.0
    idle: float = 0.0
    recover: float = 0.0
    sent: int = 0
    stored: int = 0
    rows: int = 0
    combines: int = 0
    results: list[pa.Table] = field(default_factory=list)

    @property
    def reported(self) -> int:
        """The number of results."""
        return sum(len(table) for table in self.results)

    @property
    def row(self) -> float:
        """Microseconds of a row, with its share of results and of the cost of shards."""
        return MILLION * (self.pack + self.take + self.report) / self.rows


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    return [("shards", partial(many, scale)), ("rates", partial(rates, scale))]


def micro_batches(keys: int, batches: int) -> Iterator[tuple[pa.Table, int]]:
    """Yield rows in any order within a micro-batch, and the watermark after them."""
    rng = np.random.default_rng(0)
    for number in range(batches):
        times = number * SPAN + rng.integers(0, SPAN, keys)
        columns = [pa.array(times, SCHEMA.field("at").type), rng.permutation(keys)]
        rows = pa.table([*columns, rng.integers(0, 1000, keys)], SCHEMA)
        yield rows, (number + 1) * SPAN


def simulated(shards: int, keys: int, batches: int) -> Spent:
    """Play a stream over so many shards, each with `keys` keys, and lose all copies at the end."""
    packing = Packing(f"scale {shards} {keys}", QUERY, pa.Table.from_batches([], SCHEMA))
    stores, copies, spent = [Blocks() for _ in range(shards)], workers(shards), Spent()

    def all_take(
        packed: dict[int, list[bytes]], watermark: int | None, copies: list[Copies]
    ) -> float:
        began = time.process_time()
        done = [
            Shard(packing, store, {}, held).take(packed.get(number, []), watermark)
            for number, (store, held) in enumerate(zip(stores, copies, strict=True))
        ]
        spent.results += [d.results for d in done if d.results is not None]
        spent.stored = sum(d.stored for d in done)
        spent.combines += sum(d.counters.combines for d in done)
        return time.process_time() - began

    before = 0
    for rows, watermark in micro_batches(shards * keys, batches):
        packed: dict[int, list[bytes]] = {}
        spent.pack += pack(packing, rows, shards, packed)
        spent.sent += sum(len(payload) for payloads in packed.values() for payload in payloads)
        spent.take += all_take(packed, before, copies)
        spent.report += all_take({}, watermark, copies)
        spent.rows, before = spent.rows + len(rows), watermark
    spent.idle = min(all_take({}, before, copies) for _ in range(3))
    spent.recover = all_take({}, before, workers(shards))
    return spent


def workers(shards: int) -> list[Copies]:
    """Return what so many workers hold that have one shard each."""
    return [Copies() for _ in range(shards)]


def pack(packing: Packing, rows: pa.Table, shards: int, packed: dict[int, list[bytes]]) -> float:
    """Pack a micro-batch in parts, as tasks do, and return the seconds."""
    began = time.process_time()
    size = -(-len(rows) // PIECES)
    for first in range(0, len(rows), size):
        for shard, payload in packing.pack(rows.slice(first, size), shards):
            packed.setdefault(shard, []).append(payload)
    return time.process_time() - began


def check(shards: int, keys: int, batches: int, spent: Spent) -> None:
    """Raise unless shards have the results of one call over all rows that are complete by then."""
    rows = pa.concat_tables(table for table, _ in micro_batches(shards * keys, batches))
    wanted = QUERY.run(rows)
    complete = np.asarray(wanted["end"].cast(pa.int64())) <= batches * SPAN
    wanted = wanted.filter(pa.array(complete)).sort_by(SORTED)
    found = pa.concat_tables(spent.results).select(wanted.column_names).sort_by(SORTED)
    if not len(wanted) or not found.cast(wanted.schema).equals(wanted):
        raise AssertionError(
            f"{shards} shards have {len(found):,} results, one call has {len(wanted):,}, or others"
        )


def many(scale: Scale) -> Findings:
    """Yield what a row costs with more and more shards, beside the fewest."""
    keys, batches = sizes(scale)
    simulated(4, keys, batches)
    least = 0.0
    for shards in SHARDS:
        spent = simulated(shards, keys, batches)
        check(shards, keys, batches, spent)
        least = least or spent.row
        case = f"{shards:,} shards, {spent.rows:,} rows, {shards * keys:,} keys"
        ratio, value = f"cost of a row, beside {SHARDS[0]} shards", spent.row / least
        yield Finding(33, case, "muntin", spent.row, "us", least / spent.row, ratio, value)
        yield Finding(33, case, "combines of a row", spent.combines / spent.rows, "combines")


def sizes(scale: Scale) -> tuple[int, int]:
    """Return the keys of a shard and the micro-batches."""
    return (QUICK_KEYS, QUICK_BATCHES) if scale.quick else (KEYS, BATCHES)


def rates(scale: Scale) -> Findings:
    """Yield what rows, results, keys and slices cost where shards are large."""
    _, batches = sizes(scale)
    keys = (QUICK_MANY_KEYS if scale.quick else MANY_KEYS) // FEW_SHARDS
    spent = simulated(FEW_SHARDS, keys, batches)
    check(FEW_SHARDS, keys, batches, spent)
    nothing = batches * spent.idle
    small = simulated(SHARDS[0], 1, 2)
    for who, measured, unit in (
        ("packing a row", MILLION * spent.pack / spent.rows, "us"),
        ("taking a row", MILLION * max(0.0, spent.take - nothing) / spent.rows, "us"),
        ("reporting a result", MILLION * max(0.0, spent.report - nothing) / spent.reported, "us"),
        ("a shard without rows", MILLION * small.idle / SHARDS[0], "us"),
        ("a row on the network", spent.sent / spent.rows, "bytes"),
        *((who, measured, "bytes") for who, measured in state_bytes(keys).items()),
        ("recovering", spent.stored / spent.recover / MILLION, "MB/s"),
    ):
        yield Finding(33, f"rates of {FEW_SHARDS * keys:,} keys", who, measured, unit)


def state_bytes(keys: int) -> dict[str, float]:
    """Return the bytes of a key and of each of its slices, in memory and written as blocks are."""
    rng, few, more = np.random.default_rng(0), 1, 11
    sizes = []
    for slices in (few, more):
        operator = QUERY.operator()
        numbers = np.repeat(np.arange(keys), slices)
        times = pa.array(np.tile(np.arange(slices) * STEP, keys), SCHEMA.field("at").type)
        operator.process(pa.table([times, numbers, rng.integers(0, 1000, len(numbers))], SCHEMA))
        sizes.append((operator.counters.state_bytes / keys, len(operator.snapshot()) / keys))
    found = {}
    for place, first, last in zip(("memory", "the store"), *sizes, strict=True):
        piece = (last - first) / (more - few)
        found |= {f"a key in {place}": first - few * piece, f"a slice in {place}": piece}
    return found
