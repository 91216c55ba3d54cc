"""Windows in stores: equal to windows in memory, small in memory, and written by one process."""

import importlib
import random
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import muntin as mt
from muntin.aggregates import same_result
from muntin.stores import MemoryStore, RedisStore, RocksStore, Store, StoreError, stored
from muntin.stores.store import WindowTakenError
from muntin.stores.window_blocks import columns, rows
from tests import catalogue
from tests.oracle import Oracle


@pytest.fixture
def store(opener):
    with opener() as store:
        yield store


def settled(store):
    """Wait until the background has nothing left to do."""
    store.soon(lambda: None).result()


def blocks_in(store):
    """Return how many blocks and records there are."""
    if isinstance(store, MemoryStore):
        return sum(map(len, store._windows.values()))
    if isinstance(store, RocksStore):
        return len(list(store._db.keys()))
    names = store._client.keys("muntin:*")
    return sum(not name.endswith((b":lease", b":stamp")) for name in names)


# Equality


def machine(store, aggregate_name):
    """Return a state machine that drives one window in the store, next to the oracle."""
    aggregate, inputs = catalogue.make(aggregate_name)
    ids = iter(range(10**9))

    class Window(RuleBasedStateMachine):
        @initialize(buffer=st.integers(2, 9))
        def start(self, buffer):
            self.id = f"{aggregate_name} {next(ids)}"
            self.oracle = Oracle(aggregate)
            self.window = stored(aggregate, store, self.id, buffer=buffer)

        @rule(value=inputs)
        def insert(self, value):
            self.window.insert(value)
            self.oracle.insert(value)

        @rule(values=st.lists(inputs, max_size=60))
        def bulk_insert(self, values):
            self.window.bulk_insert(values)
            self.oracle.values += values

        @precondition(lambda self: len(self.oracle))
        @rule()
        def evict(self):
            self.window.evict()
            self.oracle.evict()

        @rule(share=st.floats(0, 1))
        def bulk_evict(self, share):
            n = round(share * len(self.oracle))
            self.window.bulk_evict(n)
            self.oracle.evict(n)

        @rule(values=st.lists(inputs, min_size=1, max_size=40))
        def slide(self, values):
            for value in values:
                self.insert(value)
                self.evict()

        @rule(buffer=st.integers(2, 40))
        def reopen(self, buffer):
            self.window.close()
            self.window = stored(aggregate, store, self.id, buffer=buffer)

        @rule()
        def flush(self):
            self.window.flush()

        @rule()
        def take_a_snapshot(self):
            twin = mt.Amta.restore(self.window.snapshot(), aggregate)
            assert same_result(aggregate, twin.query(), self.oracle.query())
            twin.check(self.oracle.values)

        @invariant()
        def is_the_fold_of_its_values(self):
            assert len(self.window) == len(self.oracle)
            assert same_result(aggregate, self.window.query(), self.oracle.query())
            self.window.check(self.oracle.values)

        def teardown(self):
            self.window.close()

    return Window


@pytest.mark.parametrize("aggregate_name", ["Collect", "Sum", "Var", "Product"])
def test_equals_the_oracle(store, aggregate_name):
    run_state_machine_as_test(
        machine(store, aggregate_name),
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("aggregate_name", catalogue.ALL)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_every_aggregate_can_be_stored(aggregate_name, data):
    aggregate, inputs = catalogue.make(aggregate_name)
    store, twin = MemoryStore(), mt.Amta(aggregate)
    for values in data.draw(st.lists(st.lists(inputs, max_size=30), max_size=4)):
        with stored(aggregate, store, "w", buffer=4) as window:
            for one in (window, twin):
                one.bulk_insert(values)
                one.bulk_evict(len(one) // 3)
            assert same_result(aggregate, window.query(), twin.query())


class Weighed(MemoryStore):
    """A store that notes how many bytes each commit puts."""

    def __init__(self):
        super().__init__()
        self.commits = []

    def put(self, window, items):
        self.commits.append(sum(map(len, items.values())))
        super().put(window, items)


HOLISTIC = [name for name, (make, _) in catalogue.INPUTS.items() if make().holistic]


@pytest.mark.parametrize("aggregate_name", [*HOLISTIC, "Max"])
def test_a_commit_writes_what_came_since_however_long_the_window(aggregate_name):
    aggregate, _ = catalogue.make(aggregate_name)
    worst = {}
    for n in (1 << 8, 1 << 12):
        store, values = Weighed(), [str(i) if aggregate_name == "Concat" else i for i in range(n)]
        with stored(aggregate, store, "w", buffer=64) as window:
            window.bulk_insert(values)
            store.commits.clear()
            for value in values[:200]:
                window.insert(value)
                window.evict()
            twin = mt.Amta(aggregate)
            twin.bulk_insert([*values[200:], *values[:200]])
            assert same_result(aggregate, window.query(), twin.query())
        worst[n] = max(store.commits)
        with stored(aggregate, store, "w") as window:
            window.check([*values[200:], *values[:200]])
    assert worst[1 << 12] < 2 * worst[1 << 8]  # there are 12 levels, and 8


def test_a_policy_looks_into_the_store(store):
    window, twin = stored(mt.Sum(), store, "w", buffer=4), mt.Amta(mt.Sum())
    for one in (window, twin):
        one.bulk_insert(range(300))
    for limit in (44_840, 44_000, 30_000, 5_000, 1_000, 600, 0):

        def holds(total, old, limit=limit):
            return total[1] - old[1] >= limit

        assert window.evict_while(holds) == twin.evict_while(holds)
        assert window.query() == twin.query()
    window.close()


def test_a_window_outlives_store_and_process(opener, request):
    values = list(range(1000))
    for start in range(0, 1000, 100):
        with opener() as store, stored(mt.Collect(), store, "w", buffer=8) as window:
            assert (window.inserted, len(window)) == (start, start * 3 // 4)
            window.bulk_insert(values[start : start + 100])
            window.bulk_evict(25)
            window.check(values[window.evicted : window.inserted])
    if "rocks" in request.node.name:
        folder = opener()._path
        code = f"""
            import muntin as mt
            from muntin.stores import stored
            with mt.RocksStore({folder!r}) as store, stored(mt.Collect(), store, "w") as window:
                print(window.query()[0], window.query()[-1], window)
        """
        output = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert output == (
            f"250 999 <StoredAmta(collect) of 750 values, 'w' in <RocksStore {folder}>>\n"
        )


def test_what_was_not_committed_is_lost_as_a_suffix(store):
    values = list(range(500))
    rng = random.Random(7)
    window = stored(mt.Collect(), store, "w", buffer=16)
    for _ in range(60):
        for _ in range(rng.randint(0, 40)):
            if window.inserted < 500:
                window.insert(values[window.inserted])
            if rng.random() < 0.3 and len(window):
                window.bulk_evict(rng.randint(0, len(window)))
        evicted, inserted = window.evicted, window.inserted
        store.release("w")  # as if the process had ended
        window = stored(mt.Collect(), store, "w", buffer=16)
        assert inserted - 16 <= window.inserted <= inserted
        assert window.evicted <= evicted
        window.check(values[window.evicted : window.inserted])
    window.close()


def test_many_windows_share_a_store(store):
    ids = ["a", "a1", "x1", "a:0:0", "{a}", "}", "ä ö", "lease", "a" * 200, *map(str, range(50))]
    windows = {name: stored(mt.Collect(), store, name, buffer=4) for name in ids}
    rng = random.Random(3)
    expected = {name: [] for name in ids}
    for i in range(3000):
        name = rng.choice(ids)
        windows[name].insert(i)
        expected[name].append(i)
        if rng.random() < 0.3:
            n = rng.randint(0, len(expected[name]))
            windows[name].bulk_evict(n)
            del expected[name][:n]
    for name in ids:
        windows[name].close()
        with stored(mt.Collect(), store, name) as window:
            window.check(expected[name])


# Memory and store hold what they should


@pytest.mark.parametrize("slide", [False, True], ids=["filled", "sliding"])
def test_memory_holds_a_few_elements_per_level(slide):
    def most_held(n):
        window = stored(mt.Sum(), MemoryStore(), "w", buffer=64)
        most = 0
        for i in range(2 * n if slide else n):
            window.insert(i)
            if i >= n:
                window.evict()
            if i % 64 == 0:
                settled(window._blocks.store)
                most = max(most, window.held)
        assert window.query() == sum(range(window.evicted, window.inserted))
        return most

    small, large = most_held(1 << 12), most_held(1 << 16)
    # Three blocks at head and tail of each level: 64, 32, 16, 16, ... elements.
    assert large <= 3 * (64 + 32 + 16 * 15) + 64 + 100
    assert large - small <= 4 * (3 * 16 + 4)


def test_dead_blocks_leave_the_store(store):
    def committed():
        settled(store)  # what goes on in the background is not begun twice
        window.insert(0)
        window.flush()
        settled(store)
        return blocks_in(store)

    window = stored(mt.Sum(), store, "w", buffer=16)
    window.bulk_insert(range(5000))
    full = committed()
    assert full > 5000 / 16
    for _ in range(2000):
        window.insert(0)
        window.evict()
    assert committed() <= full + 10
    window.bulk_evict(len(window) - 10)
    assert committed() <= 30
    window.bulk_insert(range(1000))
    window.bulk_evict(len(window))
    window.close()
    assert blocks_in(store) == 1
    window = stored(mt.Sum(), store, "w")
    assert (window.inserted, len(window)) == (8003, 0)
    window.close()


class Watched(MemoryStore):
    """Notes who reads: the caller, or the background."""

    def __init__(self):
        super().__init__()
        self.reads = []

    def get(self, window, keys):
        self.reads.append((threading.current_thread().name.startswith("muntin-store"), len(keys)))
        return super().get(window, keys)


def test_heads_are_read_ahead_and_bulk_evictions_read_at_once():
    store = Watched()
    window = stored(mt.Sum(), store, "w", buffer=16)
    window.bulk_insert(range(3000))
    store.reads.clear()
    for _ in range(1000):
        window.evict()
        settled(store)
    assert len(store.reads) > 60
    assert all(in_background for in_background, _ in store.reads)
    store.reads.clear()
    window.bulk_evict(1000)
    settled(store)
    foreground = [keys for in_background, keys in store.reads if not in_background]
    assert len(foreground) == 1
    assert foreground[0] > 4


def test_a_buffer_is_how_much_is_written_at_once():
    class Counting(MemoryStore):
        puts = 0

        def put(self, window, items):
            self.puts += 1
            super().put(window, items)

    def puts(buffer):
        store = Counting()
        window = stored(mt.Sum(), store, "w", buffer=buffer)
        for i in range(1000):
            window.insert(i)
        return store.puts

    assert [puts(buffer) for buffer in (10, 100, 1001)] == [99, 9, 0]


# One writer


def test_a_second_writer_is_refused(opener):
    with opener() as store:
        window = stored(mt.Sum(), store, "w")
        window.insert(1)
        with pytest.raises(WindowTakenError, match=r"window 'w'.*close it"):
            stored(mt.Sum(), store, "w")
        window.insert(2)
        window.close()
        with stored(mt.Sum(), store, "w") as window:
            assert window.query() == 3


def test_a_second_process_is_refused(tmp_path, redis_server):
    with RocksStore(tmp_path) as store:
        code = f"import muntin as mt; mt.RocksStore({str(tmp_path)!r})"
        failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert f"StoreError: <RocksStore {tmp_path}>: cannot be opened: IO error" in failed.stderr
        with stored(mt.Sum(), store, "w") as window:
            window.insert(1)
    with RedisStore(redis_server.url) as first, RedisStore(redis_server.url) as second:
        with stored(mt.Sum(), first, "two"):
            with pytest.raises(WindowTakenError, match=r"process \d+; close it there or"):
                stored(mt.Sum(), second, "two")
            with stored(mt.Sum(), second, "another") as window:
                window.insert(1)
        stored(mt.Sum(), second, "two").close()


def test_a_lease_is_kept_while_its_window_is_idle(redis_server):
    with RedisStore(redis_server.url, lease=0.15) as first, RedisStore(redis_server.url) as second:
        window = stored(mt.Sum(), first, "idle")
        leases = {second._client.pttl("muntin:{idle}:lease") for _ in range(2000)}
        assert min(leases) > 0
        with pytest.raises(WindowTakenError):
            stored(mt.Sum(), second, "idle")
        window.close()


def lapse(store):
    """Let the store's leases run out, as if its process had been suspended."""
    store._stop.set()
    for window in store._stamps:
        store._client.delete(f"muntin:{{{window}}}:lease")


def test_a_writer_that_was_overtaken_is_refused(redis_server):
    with RedisStore(redis_server.url) as first, RedisStore(redis_server.url) as second:
        slow = stored(mt.Sum(), first, "fence", buffer=4)
        slow.bulk_insert(range(10))
        slow.flush()
        lapse(first)
        slow.insert(10)
        slow.flush()  # nobody came: it goes on
        lapse(first)
        quick = stored(mt.Sum(), second, "fence", buffer=4)
        slow.insert(11)
        with pytest.raises(WindowTakenError, match="taken over by"):
            slow.flush()
        quick.bulk_insert([100, 200])
        quick.close()
        with pytest.raises(StoreError, match="another process has written it"):
            slow.flush()
        assert slow.query() == sum(range(12))
        with stored(mt.Sum(), second, "fence") as window:
            assert window.query() == sum(range(11)) + 300


def test_a_put_that_was_not_answered_can_be_repeated(redis_server):
    with RedisStore(redis_server.url) as store:
        window = stored(mt.Sum(), store, "again", buffer=4)
        window.bulk_insert(range(10))
        put = store._put

        def unanswered(*arguments):
            put(*arguments)
            raise OSError("no answer")

        store._put = unanswered
        with pytest.raises(StoreError, match="no answer"):
            window.flush()
        store._put = put
        window.bulk_insert(range(10))
        window.close()
        with stored(mt.Sum(), store, "again") as window:
            assert window.query() == 90


# What cannot be


def test_refusals():
    store = MemoryStore()
    with pytest.raises(TypeError, match="a store such as"):
        stored(mt.Sum(), "redis://", "w")
    with pytest.raises(TypeError, match="an aggregate such as"):
        stored("sum", store, "w")
    for name in ("", "a" * 201, 7):
        with pytest.raises(ValueError, match="id is text"):
            stored(mt.Sum(), store, name)
    for buffer in (1, -2, 2.5):
        with pytest.raises(ValueError, match="2 or more"):
            stored(mt.Sum(), store, "w", buffer=buffer)
    window = stored(mt.Sum(), store, "w")
    window.bulk_insert([1, 2])
    with pytest.raises(TypeError, match="Amta.restore"):
        type(window).restore(window.snapshot(), mt.Sum())
    with pytest.raises(IndexError):
        window.bulk_evict(3)
    window.close()
    window.close()
    for call in (
        lambda: window.insert(1),
        lambda: window.bulk_insert([1]),
        window.evict,
        lambda: window.bulk_evict(1),
        window.flush,
    ):
        with pytest.raises(ValueError, match="was closed"):
            call()
    with pytest.raises(StoreError, match=r"aggregate 'sum', not 'max'"):
        stored(mt.Max(), store, "w")
    with stored(mt.Sum(), store, "w") as window:  # the one that failed let it go
        assert window.query() == 3


def test_objects_need_an_encoder():
    own = mt.Aggregate("own", None, lift=lambda _: object(), combine=lambda a, b: a or b)
    with stored(own, MemoryStore(), "w") as window:
        with pytest.raises(TypeError, match="encode= and decode="):
            window.insert(1)
        with pytest.raises(TypeError, match="encode= and decode="):
            window.bulk_insert([1])
        assert len(window) == 0
    coded = mt.Aggregate(
        "coded", None, lift=complex, combine=lambda a, b: a or b, encode=str, decode=complex
    )
    store = MemoryStore()
    with stored(coded, store, "w", buffer=4) as window:
        window.bulk_insert(range(1, 50))
    with stored(coded, store, "w") as window:
        window.bulk_evict(29)
        assert window.query() == 30 + 0j


@pytest.mark.parametrize(
    "values",
    [
        [],
        [None, 1, "a"],
        [(1, 2.5), (3, None)],
        [(1, (2, [3, 4])), (5, (6, [7]))],
        [(), ()],
        [(1,), (1, 2)],
        [[1, 2], [3, 4]],
        [{"tuples": [[1]]}],
        [np.float64(1.5), np.float64(2.5)],
        [np.float32(1.5), np.float64(2.5)],
        [np.datetime64("2026-01-01"), np.datetime64("2026-01-02", "s")],
        [np.str_("a"), np.str_("bc")],
        [True, False],
    ],
    ids=repr,
)
def test_columns_keep_values_and_types(values):
    restored = rows(columns(values))
    assert restored == values
    assert list(map(type, restored)) == list(map(type, values))
    assert [getattr(v, "dtype", None) for v in restored] == [
        getattr(v, "dtype", None) for v in values
    ]


def test_stores_are_optional(monkeypatch):
    for module, make in (
        ("rocksdict", lambda: RocksStore("x")),
        ("redis", lambda: RedisStore("x")),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=r'pip install "muntin\[stores\]"'):
            make()
    assert importlib.import_module("muntin").MemoryStore is MemoryStore


def test_a_store_of_ones_own_needs_three_methods():
    with pytest.raises(NotImplementedError):
        stored(mt.Sum(), Store(), "w")
