"""Forge saved states at random: each is refused with SnapshotError, or gives an operator that works.

    NUMBA_BOUNDSCHECK=1 MUNTIN_CACHE_DIR=$(mktemp -d) python -m scripts.forge --seed 1 --count 1000

Real snapshots, shards and packed rows are decoded, altered in a few places, sealed again and used.
What may not happen is a crash, a hang or an access outside of an array, which Numba reports as an
IndexError if NUMBA_BOUNDSCHECK is set (its cache does not know that setting: take a folder of its own).
"""

import argparse
import faulthandler
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import muntin as mt
from muntin.aggregates import SnapshotError, seal, unseal
from muntin.spark.packing import AS_ROWS, CELLS, Packing
from muntin.spark.shard import Copies, Shard

SECONDS = 60
"""A forged state that takes longer is a hang."""
EXTREME = (
    0,
    1,
    -1,
    2,
    7,
    63,
    64,
    255,
    2**31,
    2**40,
    2**60,
    -(2**60),
    2**62,
    -(2**62),
    2**63 - 1,
    -(2**63),
)
SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("b", pa.bool_())])
NUMBERS = {"sum": mt.Sum("v"), "max": mt.Max("v")}
IN_ORDER = {"all": mt.Collect("v"), "sum": mt.Sum("v")}
OBJECTS = {"distinct": mt.CountDistinct("k"), "median": mt.Median("v")}


class Powers(mt.ContextFreeWindow):
    """[1, 2), [2, 4), [4, 8) and so on: windows that do not repeat."""

    def next_edge(self, t: int) -> int | None:
        return 1 if t < 1 else 1 << t.bit_length()

    def closed(self, after: int, upto: int) -> Iterator[tuple[int, int]]:
        end = max(2, 1 << max(after, 1).bit_length())
        while end <= upto:
            yield end // 2, end
            end *= 2


def asked(windows: dict[str, Any], aggregates: dict[str, Any], **options: Any) -> mt.Query:
    """Return a query by key with some lateness."""
    options = {"keys": ("k",), "lateness": 15, **options}
    return mt.Query(time="t", windows=windows, aggregates=aggregates, **options)


QUERIES: dict[str, mt.Query] = {
    "sliding": asked({"a": mt.Sliding(20, 5), "b": mt.Tumbling(7)}, NUMBERS),
    "gaps": asked({"a": mt.Sliding(3, 10, origin=1)}, NUMBERS),
    "objects": asked({"a": mt.Sliding(20, 5)}, OBJECTS),
    "in order": asked({"a": mt.Sliding(20, 5), "s": mt.Session(3)}, IN_ORDER),
    "sessions": asked({"s": mt.Session(2)}, NUMBERS),
    "counts": asked({"c": mt.Sliding(7, 3, measure="count")}, NUMBERS),
    "counts in order": asked({"c": mt.Sliding(7, 3, measure="count")}, NUMBERS, ordered=True),
    "delta": asked({"d": mt.Delta("t", 20, 5)}, NUMBERS),
    "last": asked({"l": mt.LastN(4, 10), "p": mt.Punctuation("b")}, NUMBERS),
    "policy": asked({"p": mt.Policy(mt.policies.sum_at_most(90, "v"), 10)}, NUMBERS),
    "changes": asked({"a": mt.Sliding(20, 1)}, NUMBERS, emit="changes"),
    "listed": asked({"p": Powers(), "f": mt.Fixed(5, 40), "a": mt.Tumbling(8)}, NUMBERS),
    "ordered": asked(
        {"a": mt.Sliding(12, 5), "s": mt.Session(3)}, NUMBERS, ordered=True, lateness=0
    ),
    "lives": asked(
        {"l": mt.LastN(4, 10), "p": mt.Punctuation("b"), "c": mt.Tumbling(3, measure="count")},
        NUMBERS,
        idle=60,
    ),
    "no keys": asked({"a": mt.Sliding(20, 5)}, NUMBERS, keys=()),
}
PLANS = {"sliding": ("auto", "eager", "buckets", "tuple buffer")}


def rows(chance: random.Random, first: int, last: int, ordered: bool) -> pa.Table:
    """Return some rows of a stretch of time."""
    count = chance.randrange(1, 40)
    times = [chance.randrange(first, last) for _ in range(count)]
    return pa.table(
        {
            "t": sorted(times) if ordered else times,
            "k": [chance.choice(["a", "b", "c", None]) for _ in range(count)],
            "v": [chance.choice([None, *range(50)]) for _ in range(count)],
            "b": [chance.random() < 0.2 for _ in range(count)],
        },
        schema=SCHEMA,
    )


def batches(chance: random.Random, query: mt.Query) -> list[tuple[pa.Table, int]]:
    """Return batches of rows, each with a watermark."""
    back = 0 if query.ordered else 15
    return [(rows(chance, 12 * i - back, 12 * i + 12, query.ordered), 12 * i) for i in range(6)]


# What is altered


def altered(chance: random.Random, content: Any) -> Any:
    """Return plain data with one thing changed, somewhere."""
    places = list(_places(content, ()))
    path = chance.choice(places)
    return _with(content, path, lambda value: _other(chance, value))


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key in value:
            if key != "query":
                yield from _places(value[key], (*path, key))
    elif isinstance(value, list | tuple):
        for i in range(min(len(value), 40)):
            yield from _places(value[i], (*path, i))
    elif isinstance(value, np.ndarray) and value.size:
        yield from [path] * min(6, value.size)  # arrays are where harm is done


def _with(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(value)
    head, *rest = path
    if isinstance(value, dict):
        return {k: _with(v, tuple(rest), change) if k == head else v for k, v in value.items()}
    changed = [_with(v, tuple(rest), change) if i == head else v for i, v in enumerate(value)]
    return changed if isinstance(value, list) else tuple(changed)


def _other(chance: random.Random, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _other_array(chance, value)
    if isinstance(value, bool):
        return chance.choice([not value, None, 7])
    if isinstance(value, int):
        return chance.choice([*EXTREME, value + 1, value - 1, -value, None, "text", 1.5])
    if isinstance(value, bytes):
        at = chance.randrange(len(value) + 1)
        return chance.choice(
            [value[:at], value[:at] + b"\xff" + value[at + 1 :], value + value, b""]
        )
    if isinstance(value, str):
        return chance.choice(["", "a", "<i8", "timestamp[us]", value + "x", 3, None])
    if isinstance(value, list | tuple):
        items = list(value)
        if items and chance.random() < 0.7:
            action = chance.choice(["drop", "double", "shuffle", "nothing"])
            at = chance.randrange(len(items))
            if action == "drop":
                del items[at]
            elif action == "double":
                items.insert(at, items[at])
            elif action == "shuffle":
                chance.shuffle(items)
            else:
                items = []
            return items if isinstance(value, list) else tuple(items)
        return chance.choice([None, 5, {}, "text"])
    if isinstance(value, dict):
        if value and chance.random() < 0.7:
            gone = chance.choice(list(value))
            return {k: v for k, v in value.items() if k != gone}
        return chance.choice([None, [], 5])
    return chance.choice([None, 0, -5, 2**62, "text", [], {}])


def _other_array(chance: random.Random, array: np.ndarray) -> Any:
    action = chance.random()
    if action < 0.5 and array.size and array.dtype.kind in "iu":
        made = array.copy()
        info = np.iinfo(array.dtype)
        for _ in range(chance.choice([1, 1, 3])):
            at = chance.randrange(made.size)
            number = chance.choice([*EXTREME, int(made.flat[at]) + chance.randrange(-9, 9)])
            made.flat[at] = min(max(number, info.min), info.max)
        return made
    if action < 0.6 and array.dtype.kind == "f":
        return np.where(np.arange(array.size).reshape(array.shape) % 2, np.nan, array * -1e300)
    if action < 0.7:
        return array[: chance.randrange(len(array) + 1)] if array.ndim else array
    if action < 0.78:
        return np.concatenate([array, array]) if array.ndim else array
    if action < 0.85:
        return array.astype(chance.choice(["<i8", "<f8", "<i4", "<u8", "|b1", "|i1"]))
    if action < 0.9:
        return array.reshape(-1, 1) if array.ndim == 1 else array.reshape(-1)
    if action < 0.95:
        return array[::-1].copy()
    return chance.choice([None, [], array.tolist(), 5])


# What is done with it


def use(query: mt.Query, operator: Any, chance: random.Random) -> None:
    """Let an operator take rows and report, and save it."""
    since = 72 if operator.watermark is None else min(max(operator.watermark, 72), 10_000)
    for i in range(2):
        operator.process(rows(chance, since + 12 * i, since + 12 * i + 12, query.ordered))
        operator.advance(since + 12 * i)
    operator.snapshot()


def forge_snapshot(chance: random.Random) -> None:
    """Alter the state of an operator."""
    name = chance.choice(list(QUERIES))
    query = QUERIES[name]
    operator = query.operator(chance.choice(PLANS.get(name, ("auto",))))
    for table, watermark in batches(chance, query):
        operator.process(table)
        operator.advance(watermark)
    state = unseal(operator.snapshot())
    for _ in range(chance.choice([1, 1, 2, 3])):
        state = altered(chance, state)
    use(query, query.restore(seal(state)), chance)


class MemoryBlocks(dict):  # type: ignore[type-arg]
    """A state store."""

    put = dict.__setitem__
    delete = dict.__delitem__


def forge_shard(chance: random.Random) -> None:
    """Alter the content of a stored block, with a header that has the new checksum."""
    import xxhash

    name = chance.choice(list(QUERIES))
    query, store = QUERIES[name], MemoryBlocks()
    packing = Packing(name, query, pa.Table.from_batches([], SCHEMA))
    made = batches(chance, query)
    for i, (table, watermark) in enumerate(made[:5]):
        packed = [payload for _, payload in packing.pack(table, 1)]
        shard = Shard(packing, store, {}, Copies())
        if i == 3:
            shard._save = lambda h, o, p, w, s=shard: (
                s._write_blocks(h, o),
                Shard._save(s, h, o, p, w),
            )  # type: ignore[method-assign]
        shard.take(packed, watermark)
    target = chance.choice(list(store))
    content = unseal(store[target])
    if target == "header":
        store[target] = seal(altered(chance, content))
    else:
        store[target] = seal([*content[:2], altered(chance, content[2])])
        header, checksum = unseal(store["header"]), xxhash.xxh3_128_hexdigest(store[target])
        kind, _, rest = target.partition("/")
        if kind == "block":
            header["blocks"][rest] = (checksum, len(store[target]))
        else:
            header["log"] = [(*e[:3], checksum) if str(e[0]) == rest else e for e in header["log"]]
        store["header"] = seal(header)
    table, watermark = made[5]
    packed = [payload for _, payload in packing.pack(table, 1)]
    Shard(packing, store, {}, Copies()).take(packed, watermark)


def forge_payload(chance: random.Random) -> None:
    """Alter slices or rows on their way to a shard."""
    name = chance.choice(list(QUERIES))
    query = QUERIES[name]
    packing = Packing(name, query, pa.Table.from_batches([], SCHEMA))
    operator = packing.operator(query)
    for table, watermark in batches(chance, query)[:2]:
        for _, payload in packing.pack(table, 1):
            if payload[:1] == CELLS:
                payload = CELLS + seal(altered(chance, unseal(payload[1:])))
            else:
                at = chance.randrange(1, len(payload))
                payload = AS_ROWS + payload[1:at] + bytes([payload[at] ^ 1 << chance.randrange(8)])
                payload += packing_rest(payload, at, table, packing)
            packing.feed(operator, [payload])
        operator.advance(watermark)
    use(query, operator, chance)


def packing_rest(_payload: bytes, at: int, table: pa.Table, packing: Packing) -> bytes:
    """Return what follows the byte that was altered."""
    ((_, whole),) = packing.pack(table, 1)
    return whole[at + 1 :]


KINDS = {"snapshot": forge_snapshot, "shard": forge_shard, "payload": forge_payload}
ALLOWED = (
    ValueError,
    TypeError,
    OverflowError,
    ZeroDivisionError,
    AttributeError,
    KeyError,
    ArithmeticError,
)
"""What an operator may say to values that a state did not have before, SnapshotError among them."""


INTERPRETED = ("tuple index out of range", "list index out of range", "string index out of range")
"""What Python says of an index into a partial that is an object and was altered."""


def warm() -> None:
    """Compile all that is needed, which takes longer than any state may."""
    for name, query in QUERIES.items():
        for plan in PLANS.get(name, ("auto",)):
            operator = query.operator(plan)
            for table, watermark in batches(random.Random(1), query):
                operator.process(table)
                operator.advance(watermark)
            use(query, query.restore(operator.snapshot()), random.Random(2))


def run(seed: int, count: int, kinds: list[str]) -> Counter[str]:
    """Forge so many states, and count what came of them."""
    outcomes: Counter[str] = Counter()
    for i in range(count):
        kind = kinds[(seed + i) % len(kinds)]
        print(f"forging {kind} {seed + i}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            KINDS[kind](random.Random(seed + i))
        except SnapshotError:
            outcomes["refused"] += 1
        except (*ALLOWED, IndexError) as error:
            if isinstance(error, IndexError) and str(error) not in INTERPRETED:
                raise
            outcomes[f"error: {type(error).__name__}"] += 1
            print(f"  {error!r}", file=sys.stderr)
        else:
            outcomes["works"] += 1
    faulthandler.cancel_dump_traceback_later()
    return outcomes


def main() -> None:
    """Forge, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    arguments = parser.parse_args()
    faulthandler.enable()
    warm()
    for outcome, times in sorted(run(arguments.seed, arguments.count, arguments.kinds).items()):
        print(f"{outcome}: {times}")


if __name__ == "__main__":
    main()
