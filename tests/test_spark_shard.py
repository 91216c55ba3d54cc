"""Shards without Spark: packed rows in, blocks in a dict, copies that fall behind or are lost."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.aggregates import seal
from muntin.spark import state_blocks as blocks
from muntin.spark import streaming
from muntin.spark.packing import Packing
from muntin.spark.shard import Copies, Shard
from muntin.spark.state_blocks import KEYS_PER_BLOCK, cut, joined

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("k", pa.string()),
        ("v", pa.int64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
    ]
)
EMPTY = pa.Table.from_batches([], SCHEMA)
COMMUTATIVE = {"sum": mt.Sum("v"), "max": mt.Max("v"), "n": mt.Count()}
OBJECTS = {"distinct": mt.CountDistinct("s"), "median": mt.Median("v")}
IDENTITY = ("k", "window", "start", "end", "kind")
ORDER = {"first": mt.First("s"), "all": mt.Collect("v"), "top": mt.ArgMax("v", "s")}


class MemoryBlocks(dict):
    """A state store that can be rolled back, as Spark's is when a task fails."""

    def put(self, name: str, block: bytes) -> None:
        self[name] = block

    def delete(self, name: str) -> None:
        del self[name]


def rows(rng: np.random.Generator, first: int, last: int, count: int, keys: int = 5) -> pa.Table:
    words = np.array(["x", "y", "z", None], object)
    return pa.table(
        {
            "t": rng.integers(first, last, count),
            "k": pa.array([f"k{i}" if i else None for i in rng.integers(0, keys, count)]),
            "v": pa.array(rng.integers(0, 50, count), mask=rng.random(count) < 0.1),
            "s": pa.array(words[rng.integers(0, 4, count)], pa.string()),
            "b": pa.array(rng.random(count) < 0.1),
        },
        schema=SCHEMA,
    )


def listed(table: pa.Table | None) -> list[dict]:
    return [] if table is None else table.to_pylist()


def ordered(reported: list[dict]) -> list[dict]:
    return sorted(reported, key=lambda row: str([row[n] for n in IDENTITY]))


QUERIES: dict[str, Callable[[], mt.Query]] = {
    "time": lambda: query({"a": mt.Sliding(20, 5), "b": mt.Tumbling(7)}, COMMUTATIVE),
    "objects": lambda: query({"a": mt.Sliding(20, 5)}, COMMUTATIVE | OBJECTS),
    "gaps": lambda: query({"a": mt.Sliding(3, 10)}, COMMUTATIVE),
    "order": lambda: query({"a": mt.Sliding(20, 5), "s": mt.Session(3)}, ORDER),
    "session": lambda: query({"a": mt.Tumbling(9), "s": mt.Session(2)}, COMMUTATIVE),
    "count": lambda: query({"c": mt.Sliding(7, 3, measure="count")}, COMMUTATIVE),
    "last": lambda: query({"l": mt.LastN(4, 10), "p": mt.Punctuation("b")}, COMMUTATIVE | ORDER),
    "lives": lambda: query(
        {"l": mt.LastN(4, 10), "p": mt.Punctuation("b"), "c": mt.Tumbling(3, measure="count")}
        | {"left": mt.Policy(mt.policies.within(20, "t"), 7), "a": mt.Sliding(20, 5)},
        COMMUTATIVE | ORDER,
        lateness=5,
        idle=25,
    ),
    "changes": lambda: query({"a": mt.Sliding(20, 1)}, COMMUTATIVE, emit="changes"),
}


def query(windows, aggregates, **options) -> mt.Query:
    options = {"lateness": 15, **options}
    return mt.Query(time="t", keys="k", windows=windows, aggregates=aggregates, **options)


def stream(seed: int, batches: int) -> list[tuple[pa.Table, int]]:
    rng = np.random.default_rng(seed)
    made = []
    for i in range(batches):
        count = int(rng.integers(0, 60))
        made.append((rows(rng, 12 * i - 20, 12 * i + 12, count), 12 * i - 6))
    return made


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_shards_report_what_one_operator_reports(name: str, seed: int, monkeypatch) -> None:
    """Whatever the shards, the processes that have them, failing tasks, and when blocks are written."""
    monkeypatch.setattr("muntin.spark.shard.SHORT_LOG", [1, 400, 1 << 16][seed])
    asked = QUERIES[name]()
    chance = random.Random(seed)
    packing = Packing(f"{name}{seed}", asked, EMPTY)
    shards, workers = 3, [Copies(), Copies(most=chance.choice([0, 1 << 30]))]
    stores = [MemoryBlocks() for _ in range(shards)]
    whole = asked.operator()
    for table, watermark in stream(seed, 25):
        expected = listed(whole.process(table)) + listed(whole.advance(watermark))
        packed: dict[int, list[bytes]] = {i: [] for i in range(shards)}
        for half in (table.slice(0, len(table) // 2), table.slice(len(table) // 2)):
            for shard, payload in packing.pack(half, shards) if len(half) else ():
                packed[shard].append(payload)
        reported: list[dict] = []
        for i, payloads in packed.items():
            if chance.random() < 0.2:  # a task that fails after it was done
                lost = MemoryBlocks(stores[i])
                Shard(packing, lost, {}, chance.choice(workers)).take(payloads, watermark)
            done = Shard(packing, stores[i], {}, chance.choice(workers)).take(payloads, watermark)
            reported += listed(done.results)
        assert ordered(reported) == ordered(expected)
    total = whole.counters
    assert total.rows > 0
    assert total.windows_reported > 0


def run(packing: Packing, store: MemoryBlocks, batches, copies: Copies) -> list[dict]:
    reported = []
    for table, watermark in batches:
        packed = [p for _, p in packing.pack(table, 1)] if len(table) else []
        reported += listed(Shard(packing, store, {}, copies).take(packed, watermark).results)
    return reported


def test_what_is_written_does_not_grow_with_the_window() -> None:
    """Bytes for the same rows, under windows of 20 and of 2000 slices."""
    rng = np.random.default_rng(1)
    batches = [(rows(rng, 40 * i, 40 * i + 40, 2000, keys=50), 40 * i) for i in range(120)]
    written = {}
    for size in (20, 2000):
        packing = Packing(f"size {size}", query({"a": mt.Sliding(size, 1)}, COMMUTATIVE), EMPTY)
        store, copies, total = MemoryBlocks(), Copies(), 0
        for table, watermark in batches:
            packed = [p for _, p in packing.pack(table, 1)]
            total += Shard(packing, store, {}, copies).take(packed, watermark).written
        written[size] = total
    assert written[2000] < 2 * written[20]


def test_a_log_that_is_no_longer_than_the_state_needs_no_blocks() -> None:
    """While a window fills, micro-batches are written once; a copy that is behind reads only them."""
    rng = np.random.default_rng(8)
    packing = Packing("fills", query({"a": mt.Sliding(10_000, 1)}, COMMUTATIVE), EMPTY)
    store, late, current = MemoryBlocks(), Copies(), Copies()
    read: list[str] = []
    for i in range(20):
        batch = rows(rng, 100 * i, 100 * i + 100, 4000, keys=50)
        packed = [p for _, p in packing.pack(batch, 1)]
        Shard(packing, store, {}, late if i in (0, 17) else current).take(packed, 100 * i)
        assert not [name for name in store if name.startswith("block/")]
        if i == 16:
            store.get = lambda name: read.append(name) or MemoryBlocks.get(store, name)
        if i == 17:
            assert read == ["header", *(f"log/{version}" for version in range(2, 18))]


def test_blocks_that_do_not_change_are_not_written_again(monkeypatch) -> None:
    monkeypatch.setattr(blocks, "ITEMS_PER_BLOCK", 64)
    operator = QUERIES["time"]().operator()
    operator.expect(EMPTY)
    stretches: dict[str, int] = {}
    rng = np.random.default_rng(2)
    wide = rows(rng, 0, 10_000, 5000)
    operator.process(wide)
    before = cut(operator.plain(), stretches)
    operator.process(rows(rng, 9_990, 10_000, 10))
    after = cut(operator.plain(), stretches)
    changed = [name for name in after if str(after[name]) != str(before.get(name))]
    assert len(after) > 20
    assert {name.rpartition("/")[0] for name in changed} <= {"", "slices/0"}
    assert len(changed) <= 3


def test_stretches_follow_the_number_of_items() -> None:
    seconds = np.arange(10_000)
    few = blocks._stretch(seconds, 1)
    assert seconds[-1] // few == 0, "one block"
    many = np.repeat(seconds, 10)
    assert blocks._stretch(many[:30_000], few) == few, "it still serves"
    more = blocks._stretch(many, few)
    assert 4 <= seconds[-1] // more <= blocks.BLOCKS
    assert blocks._stretch(seconds, more) == few, "too many blocks"


@pytest.mark.parametrize("name", QUERIES)
def test_a_state_is_what_its_blocks_were_cut_from(name: str) -> None:
    asked = QUERIES[name]()
    operator = asked.operator()
    operator.expect(EMPTY)
    for table, watermark in stream(4, 10):
        operator.process(table)
        operator.advance(watermark)
        again = type(operator).from_plain(asked, joined(cut(operator.plain(), {})))
        held = {"state_bytes": 0, "combines": 0}  # the latter are counted again
        assert replace(again.counters, **held) == replace(operator.counters, **held)
        same = asked.restore(operator.snapshot())
        assert ordered(listed(again.advance(10_000))) == ordered(listed(same.advance(10_000)))


def test_many_keys_are_several_blocks() -> None:
    operator = query({"a": mt.Tumbling(10)}, COMMUTATIVE).operator()
    count = 2 * KEYS_PER_BLOCK + 1
    table = pa.table({"t": np.zeros(count, int), "k": [f"{i}" for i in range(count)]})
    operator.process(table.append_column("v", pa.array(np.arange(count))))
    pieces = cut(operator.plain(), {})
    assert {name for name in pieces if name.startswith("keys")} == {"keys/0", "keys/1", "keys/2"}
    assert joined(pieces)["keys"] == operator.plain()["keys"]


def test_a_window_can_be_added_to_a_store() -> None:
    asked = QUERIES["time"]()
    more = replace(asked, windows={**asked.windows, "c": mt.Tumbling(4)})
    batches, store = stream(5, 12), MemoryBlocks()
    run(Packing("less", asked, EMPTY), store, batches[:6], Copies())
    operator = asked.operator()
    for table, watermark in batches[:6]:
        operator.process(table)
        operator.advance(watermark)
    operator.add_window("c", mt.Tumbling(4))
    expected = []
    for table, watermark in batches[6:]:
        operator.process(table)
        expected += listed(operator.advance(watermark))
    reported = run(Packing("more", more, EMPTY), store, batches[6:], Copies())
    assert ordered(reported) == ordered(expected)
    assert any(row["window"] == "c" for row in reported)


def test_another_query_is_refused_with_what_differs() -> None:
    asked, store, copies = QUERIES["time"](), MemoryBlocks(), Copies()
    run(Packing("one", asked, EMPTY), store, stream(6, 2), copies)
    others = {
        "emit": replace(asked, emit="changes"),
        "windows": replace(asked, windows={"a": mt.Sliding(20, 4), "b": mt.Tumbling(7)}),
        "aggregates": replace(asked, aggregates={next(iter(asked.aggregates)): mt.Last("v")}),
    }
    for word, other in others.items():
        with pytest.raises(mt.SnapshotError, match=word):
            run(Packing(word, other, EMPTY), store, stream(6, 1), copies)
    fresh, packing = MemoryBlocks(), Packing("two", asked, EMPTY)
    Shard(packing, fresh, {"partitions": 2}, Copies()).take([], 1)
    with pytest.raises(mt.SnapshotError, match="partitions was 2 and is 3"):
        Shard(packing, fresh, {"partitions": 3}, Copies()).take([], 2)


def test_damaged_and_missing_blocks_are_errors() -> None:
    asked, store = QUERIES["time"](), MemoryBlocks()
    packing = Packing("damage", asked, EMPTY)
    run(packing, store, stream(7, 4), Copies())
    for name in list(store):
        for damaged in (MemoryBlocks(store), MemoryBlocks(store)):
            damaged[name] = damaged[name][:-1] + bytes([damaged[name][-1] ^ 1])
            with pytest.raises(mt.SnapshotError):
                Shard(packing, damaged, {}, Copies()).take([], 100)
    del store["log/1"]
    with pytest.raises(mt.SnapshotError, match="log/1"):
        Shard(packing, store, {}, Copies()).take([], 100)


def filled_store(
    seed: int, monkeypatch, copies: list[Copies] | None = None
) -> tuple[Packing, list[MemoryBlocks]]:
    """Return a shard's state after each micro-batch, with blocks and a log; and its copies then."""
    monkeypatch.setattr("muntin.spark.shard.SHORT_LOG", 300)
    name = [*QUERIES][seed % len(QUERIES)]
    packing, store, history = Packing(f"filled {seed}", QUERIES[name](), EMPTY), MemoryBlocks(), []
    for batch in stream(seed, 14):
        made = Copies()
        run(packing, store, [batch], made)
        history.append(MemoryBlocks(store))
        if copies is not None:
            copies.append(made)
    return packing, history


class Altered(MemoryBlocks):
    """A state store that lacks something, which may be deleted all the same."""

    def delete(self, name: str) -> None:
        self.pop(name, None)


def altered_stores(history: list[MemoryBlocks], foreign: MemoryBlocks, chance: random.Random):
    """Yield the last state with one thing replaced: by another, an older, a foreign or a short one."""
    last = history[-1]
    names = list(last)
    for name in names:
        other = chance.choice(names)
        older = [held[name] for held in history if name in held and held[name] != last[name]]
        short = last[name][: chance.randrange(len(last[name]))]
        found = [last[other], short, *older[-1:], *([foreign[name]] if name in foreign else [])]
        for block in found:
            if block != last[name]:
                yield name, Altered({**last, name: block})
        yield name, Altered({n: b for n, b in last.items() if n != name})
        if other != name:
            yield name, Altered({**last, name: last[other], other: last[name]})


@pytest.mark.parametrize("seed", range(8))
def test_any_block_that_is_not_what_was_written_last_is_found_out(seed: int, monkeypatch) -> None:
    """Swapped, stale, replayed, truncated, missing, or of another shard: an error, or not needed."""
    packing, history = filled_store(seed, monkeypatch)
    _, (*_, foreign) = filled_store(seed, monkeypatch)
    assert any(name.startswith("block/") for name in history[-1])
    batch = packed_rows(packing, seed)
    expected = Shard(packing, MemoryBlocks(history[-1]), {}, Copies(), begun=True).take(batch, 170)
    refused = 0
    for name, store in altered_stores(history, foreign, random.Random(seed)):
        try:
            done = Shard(packing, store, {}, Copies(), begun=True).take(batch, 170)
        except mt.SnapshotError:
            refused += 1
        else:  # a log entry that is in the blocks, too
            assert name.startswith("log/")
            assert ordered(listed(done.results)) == ordered(listed(expected.results))
    assert refused > 10


def packed_rows(packing: Packing, seed: int) -> list[bytes]:
    table = rows(np.random.default_rng(seed), 160, 170, 40)
    return [payload for _, payload in packing.pack(table, 1)]


def test_a_header_of_an_earlier_micro_batch_is_found_out(monkeypatch) -> None:
    """With all that was written since beside it, and even if there is a copy of that micro-batch."""
    found = 0
    for seed in range(4):
        held: list[Copies] = []
        packing, history = filled_store(seed, monkeypatch, held)
        for before, copies in zip(history[:-1], held, strict=False):
            store = MemoryBlocks({**history[-1], "header": before["header"]})
            for mine in (Copies(), copies):
                with pytest.raises(mt.SnapshotError):
                    Shard(packing, store, {}, mine, begun=True).take([], 500)
                found += 1
    assert found == 104


def test_a_shard_that_began_and_has_no_header_is_refused() -> None:
    packing, store = Packing("begun", QUERIES["time"](), EMPTY), MemoryBlocks()
    with pytest.raises(mt.SnapshotError, match="no header"):
        Shard(packing, store, {}, Copies(), begun=True).take([], 1)
    Shard(packing, store, {}, Copies()).begin()
    assert Shard(packing, store, {}, Copies(), begun=True).take([], 1).results is None
    other = Packing("other", replace(QUERIES["time"](), keys=("s",)), EMPTY)
    with pytest.raises(mt.SnapshotError, match=r"keys is \['s'\] here"):
        Shard(other, store, {}, Copies(), begun=True).take([], 2)


def test_a_state_of_an_older_format_is_refused_by_its_number() -> None:
    packing, store = Packing("old", QUERIES["time"](), EMPTY), MemoryBlocks()
    store["header"] = seal({"format": 2})
    with pytest.raises(mt.SnapshotError, match="format 2"):
        Shard(packing, store, {}, Copies()).take([], 1)


def test_a_changed_function_is_refused_unless_it_is_trusted(monkeypatch) -> None:
    monkeypatch.setattr("muntin.spark.shard.SHORT_LOG", 1)

    def asked(factor: int) -> Packing:
        own = mt.Aggregate("own", 0, lambda v: factor * v, lambda a, b: a + b, columns=("v",))
        return Packing(f"own {factor}", query({"a": mt.Sliding(20, 5)}, {"own": own}), EMPTY)

    batches, store = stream(3, 6), MemoryBlocks()
    run(asked(1), store, batches[:4], Copies())
    with pytest.raises(mt.SnapshotError, match=r"aggregate 'own': its function lift"):
        run(asked(2), store, batches[4:5], Copies())
    run(replace(asked(2), trust_functions=True), store, batches[4:5], Copies())
    run(asked(2), store, batches[5:], Copies())
    assert "identity" not in vars(asked(1)), "digests are made when they are asked for"
    with pytest.raises(mt.SnapshotError, match="lift"):
        run(asked(1), store, batches[5:], Copies())


def test_a_copy_of_an_earlier_run_does_not_serve_another() -> None:
    """Its operator has the choices of that run, which are not part of the query's identity."""
    asked, store, copies = QUERIES["time"](), MemoryBlocks(), Copies()
    run(Packing("first run", asked, EMPTY), store, stream(4, 3), copies)
    again = Packing("second run", replace(asked, on_bad_time="drop"), EMPTY)
    run(again, store, stream(4, 4)[3:], copies)
    ((_, copy),) = copies._held.items()
    assert copy.operator.query.on_bad_time == "drop"


def test_copies_are_kept_up_to_a_number_of_bytes_and_the_last_one_always() -> None:
    packing, store = Packing("kept", QUERIES["time"](), EMPTY), MemoryBlocks()
    held = Copies()
    run(packing, store, stream(3, 4)[:3], held)
    ((_, copy),) = held._held.items()
    assert copy.bytes == copy.operator.counters.state_bytes > 0
    for most, left in ((600, "abc"), (599, "bc"), (300, "c"), (299, "c"), (0, "c")):
        kept = Copies(most)
        for name, size in (("a", 100), ("b", 200), ("c", 300)):
            kept.put(name, replace(copy, bytes=size))
        assert "".join(kept._held) == left


def test_pieces_have_few_rows_and_few_bytes(monkeypatch) -> None:
    """Of narrow rows and of wide ones, in batches of any size, in their order."""
    monkeypatch.setattr(streaming, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(streaming, "BYTES_AT_ONCE", 4000)
    table = pa.table({"i": range(300), "text": ["x" * (i % 7 == 0) * 900 for i in range(300)]})
    for size in (1, 7, 300):
        pieces = list(streaming.large(iter(table.to_batches(max_chunksize=size))))
        assert pa.concat_tables(pieces).equals(table)
        assert max(piece.num_rows for piece in pieces) < 50 + size
        assert max(piece.nbytes for piece in pieces) < 3 * 4000
        assert all(piece.num_rows >= 50 or piece.nbytes >= 3000 for piece in pieces[:-1])
    assert list(streaming.large(iter(table.slice(0, 0).to_batches()))) == []
    empty = [pa.RecordBatch.from_pydict({"i": []})]
    assert list(streaming.large(iter(empty))) == []


@pytest.mark.parametrize("aggregate", [mt.Sum("v"), mt.Collect("v")])
def test_a_micro_batch_counts_its_own_rows_and_not_those_before_it(aggregate) -> None:
    windows = {"w": mt.Delta("km", 10)}
    asked = query(windows, {"s": aggregate}, on_bad_row="drop", on_bad_time="drop")
    table = pa.table({"t": [1, 2, None], "k": ["a", "a", "a"], "v": [1, 2, 3], "km": [5, 2**62, 6]})
    packing = Packing(f"counted {aggregate.name}", asked, table.slice(0, 0))
    store, copies = MemoryBlocks(), Copies()
    for _ in range(3):
        packed = [payload for _, payload in packing.pack(table, 1)]
        counted = Shard(packing, store, {}, copies).take(packed, None).counters
        assert (counted.rows, counted.bad_rows, counted.bad_times) == (1, 1, 1)
