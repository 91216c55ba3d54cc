"""Run many micro-batches of keys that come and go through a shard, and say what it holds.

    python -m scripts.forgetting --seed 1 --batches 10000

For every kind of window: the most keys, rows, bytes in memory, and bytes of header, log and blocks that
a shard had in the first and in the second half. What passes leaves nothing, so the halves are alike.
"""

import argparse
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import muntin as mt
from muntin.spark.packing import Packing
from muntin.spark.shard import HEADER, Copies, Shard
from muntin.windows import Window

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("p", pa.bool_())])
PER_BATCH = 12
"""Keys that come with each micro-batch, of two rows each; the micro-batch is 10 long."""
AGGREGATES = {"n": mt.Count(), "all": mt.Collect("v")}
IDLE = {"idle": 40}


class Odd(mt.ContextAwareWindow):
    """A window begins with a row whose value is odd."""

    def begin(self) -> None:
        """Nothing is remembered."""

    def opens(self, context: Any, time: int, row: dict[str, Any]) -> bool:
        """Whether the value is odd."""
        del context, time
        return bool(row["v"] % 2)


KINDS: dict[str, tuple[Window, dict[str, Any]]] = {
    "tumbling": (mt.Tumbling(10), {}),
    "sliding": (mt.Sliding(20, 5), {}),
    "changes": (mt.Sliding(20, 5), {"emit": "changes"}),
    "session": (mt.Session(5), {}),
    "within": (mt.Policy(mt.policies.within(15, "t"), 5), {}),
    "policy": (mt.Policy(mt.policies.last(2), 5), IDLE),
    "last": (mt.LastN(2, 5), IDLE),
    "count": (mt.Tumbling(2, measure="count"), IDLE),
    "delta": (mt.Delta("v", 3), IDLE),
    "punctuation": (mt.Punctuation("p"), IDLE),
    "own": (Odd(), IDLE),
}


class Held(NamedTuple):
    """What a shard holds after a micro-batch."""

    keys: int
    rows: int
    state_bytes: int
    header_bytes: int
    log_bytes: int
    block_bytes: int


class Blocks(dict[str, bytes]):
    """A state store in memory."""

    def put(self, name: str, block: bytes) -> None:
        """Keep a block."""
        self[name] = block

    def delete(self, name: str) -> None:
        """Forget a block."""
        del self[name]

    def size(self, prefix: str) -> int:
        """Return the bytes under names that begin so."""
        return sum(len(block) for name, block in self.items() if name.startswith(prefix))


def query_of(kind: str, lateness: int = 12) -> mt.Query:
    """Return the query with windows of a kind."""
    window, options = KINDS[kind]
    return mt.Query(
        time="t",
        keys="k",
        windows={"w": window},
        aggregates=AGGREGATES,
        lateness=lateness,
        **options,
    )


def rows_of(batch: int, chance: np.random.Generator) -> pa.Table:
    """Return the rows of a micro-batch: its own keys, and some of the batch before that come late."""
    names = [f"key {b}/{i}" for b in (batch, batch - 1) for i in range(PER_BATCH)]
    times = 10 * batch + chance.integers(-4, 10, len(names))
    marks = chance.random(len(names)) < 0.3
    return pa.table({"t": times, "k": names, "v": times // 2, "p": marks}, schema=SCHEMA)


def play(kind: str, batches: int, seed: int = 1) -> Iterator[Held]:
    """Run micro-batches through a shard and yield what it holds after each."""
    chance, query = np.random.default_rng(seed), query_of(kind)
    packing = Packing(f"forgetting {kind}", query, SCHEMA.empty_table())
    store, copies = Blocks(), Copies()
    for batch in range(batches):
        packed = [payload for _, payload in packing.pack(rows_of(batch, chance), 1)]
        done = Shard(packing, store, {}, copies).take(packed, 10 * batch - 5)
        held = done.counters
        sizes = (len(store[HEADER]), store.size("log/"), store.size("block/"))
        yield Held(held.keys, held.rows_kept + held.slices, held.state_bytes, *sizes)


def most(held: list[Held]) -> Held:
    """Return the most of each."""
    return Held(*map(max, zip(*held, strict=True)))


def main() -> None:
    """Run all kinds, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("kinds", nargs="*", default=[*KINDS])
    arguments = parser.parse_args()
    print(f"{'kind':12} half  {'  '.join(f'{name:>12}' for name in Held._fields)}")
    for kind in arguments.kinds:
        start, held = time.perf_counter(), list(play(kind, arguments.batches, arguments.seed))
        half = len(held) // 2
        for name, part in (("1st", held[:half]), ("2nd", held[half:])):
            numbers = "  ".join(f"{number:12,}" for number in most(part))
            print(f"{kind:12} {name}   {numbers}", flush=True)
        print(f"{kind:12} {len(held) / (time.perf_counter() - start):.0f} micro-batches per second")


if __name__ == "__main__":
    main()
