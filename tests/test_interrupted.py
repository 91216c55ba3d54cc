"""Calls that fail, are interrupted or come from two threads: undone, or refused, never half done."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.kernels.codegen.cache import load_module
from muntin.spark.packing import Packing
from muntin.spark.shard import Copies, Shard
from tests.interrupting import (
    FAULTS,
    KINDS,
    Counter,
    Lines,
    interrupt,
    interrupt_rolling,
    snapshot_of,
    stopped,
)

STOPPED = 8
"""Calls that are stopped per kind of windows and of fault; more with `python -m scripts.interrupt`."""


@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_is_stopped_is_undone_or_the_operator_refuses(kind, what):
    seen: dict[str, int] = {}
    for seed in range(2):
        for how, times in interrupt(seed, kind, what, STOPPED // 2).items():
            seen[how] = seen.get(how, 0) + times
    assert sum(seen.values()) == STOPPED
    assert seen["undone"] > 0
    if what == "functions":
        assert seen["refused"] == 0


@pytest.mark.parametrize("what", FAULTS)
def test_a_push_that_is_stopped_is_undone_or_the_window_refuses(what):
    seen: dict[str, int] = {}
    for seed in range(16):
        for how, times in interrupt_rolling(seed, what, 3).items():
            seen[how] = seen.get(how, 0) + times
    assert seen["undone"] > 0
    if what == "functions":
        assert seen["refused"] == 0


# Errors of data and of users' functions


def query(**options):
    given = {
        "time": "t",
        "keys": ("k",),
        "windows": {"w": mt.Tumbling(10)},
        "aggregates": {"s": mt.Sum("v")},
    }
    return mt.Query(**(given | options))


def batch(times, values, keys="a"):
    return {"t": list(times), "v": list(values), "k": [keys] * len(times)}


class Once:
    """A function that raises the first time."""

    def __init__(self, function):
        self.function, self.failed = function, False

    def __call__(self, *arguments):
        if not self.failed:
            self.failed = True
            raise ZeroDivisionError("once")
        return self.function(*arguments)


REFUSED = {
    "another type of a column": lambda: batch([3], ["x"], "new"),
    "a key of another type": lambda: batch([3], [1], 7),
    "a row out of order": lambda: batch([50, 40], [1, 2], "new"),
    "a null time": lambda: batch([None], [1], "new"),
    "a column that is missing": lambda: {"t": [60], "k": ["new"]},
    "columns of different lengths": lambda: {"t": [60, 61], "k": ["new"], "v": [1]},
    "another type of times": lambda: {
        "t": np.array(["2026-01-01"], "M8[us]"), "k": ["new"], "v": [1]
    },
}  # fmt: skip


@pytest.mark.parametrize("plan", ["auto", "eager", "naive"])
@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_batch_leaves_neither_keys_nor_types_nor_counts(what, plan):
    operator, twin = (query(ordered=True).operator(plan) for _ in range(2))
    for one in (operator, twin):
        one.process(batch([1, 2, 30], [1, 2, 3]))
    before, counters = operator.snapshot(), operator.counters
    with pytest.raises((TypeError, ValueError, KeyError)):
        operator.process(REFUSED[what]())
    assert operator.snapshot() == before == twin.snapshot()
    assert operator.counters.keys == counters.keys == 1
    later = batch([60, 61], [1, 2], "b")
    assert operator.process(later).equals(twin.process(later))
    assert operator.snapshot() == twin.snapshot()


def test_a_refused_first_batch_leaves_no_types():
    fails = Once(lambda v: v)
    operator = query(aggregates={"x": mt.Aggregate("x", 0, fails, max, columns=("v",))}).operator()
    before = operator.snapshot()
    with pytest.raises(ZeroDivisionError):
        operator.process(batch([1], ["text"], "a"))
    assert operator.snapshot() == before
    operator.process({"t": [1], "v": [b"bytes"], "k": [7]})  # other types of column and key
    assert operator.advance(10).column("x").to_pylist() == [b"bytes"]


def test_a_type_that_shows_late_is_forgotten_with_its_batch():
    aggregates = {"s": mt.Max("v"), "first": mt.First("t")}
    operator = query(aggregates=aggregates, ordered=True).operator()
    operator.process({"t": [1], "v": pa.nulls(1), "k": ["a"]})
    before = operator.snapshot()
    with pytest.raises(ValueError, match="ordered"):
        operator.process(batch([5, 4], [1.5, 2.5]))
    assert operator.snapshot() == before
    operator.process(batch([5], [3]))
    assert operator.advance(10).column("s").to_pylist() == [3]


def failing(name):
    """Return an aggregate one of whose functions raises once."""
    functions = {"lift": lambda v: (v,), "combine": lambda a, b: a + b, "lower": sum}
    functions[name] = once = Once(functions[name])
    return mt.Aggregate("own", (), **functions, columns=("v",)), once


CALLS = {
    "process": lambda op: op.process(batch([11, 12, 25, 31], [1, 2, 3, 4])),
    "advance": lambda op: op.advance(20),
    "complete": lambda op: op.complete(),
    "finish": lambda op: op.finish(batch([33, 34], [5, 6], "b")),
}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("name", ["lift", "combine", "lower"])
@pytest.mark.parametrize("call", CALLS)
def test_a_function_that_raises_once_loses_no_window_and_counts_no_row_twice(call, name, ordered):
    aggregate, once = failing(name)
    aggregates = {"own": aggregate, "n": mt.Count()}
    windows = {"w": mt.Sliding(20, 10), "s": mt.Session(3), "l": mt.LastN(2, 5)}
    operator, twin = (
        query(windows=windows, aggregates=aggregates, ordered=ordered).operator() for _ in range(2)
    )
    once.failed = True
    for one in (operator, twin):
        one.process(batch([1, 2, 5, 8], [1, 2, 3, 4]))
    wanted = CALLS[call](twin)
    before = operator.snapshot()
    once.failed = False
    try:
        result = CALLS[call](operator)
    except ZeroDivisionError:
        assert operator.snapshot() == before
        result = CALLS[call](operator)
    assert result.equals(wanted)
    assert operator.snapshot() == twin.snapshot()


def test_results_that_fit_no_column_are_not_lost():
    results = iter([1, "text", 1, 2])
    odd = mt.Aggregate("odd", "", lambda v: v, max, lambda _: next(results), columns=("s",))
    operator = query(aggregates={"odd": odd, "s": mt.Sum("v")}).operator()
    operator.process({**batch([1, 11], [1, 2]), "s": ["x", "y"]})
    before = operator.snapshot()
    with pytest.raises(TypeError, match="do not fit one column"):
        operator.advance(20)
    assert (operator.snapshot(), operator.watermark) == (before, None)
    assert operator.advance(20).column("s").to_pylist() == [1, 2]


def test_results_that_fail_when_they_are_written_are_not_lost(monkeypatch):
    """As an OverflowError is, of compiled aggregates too."""
    for ordered in (False, True):
        operator, twin = (query(ordered=ordered).operator() for _ in range(2))
        for one in (operator, twin):
            one.process(batch([1, 2], [1, 2]))
        before = operator.snapshot()
        call = CALLS["process" if ordered else "advance"]
        with monkeypatch.context() as patched:
            patched.setattr("muntin.query.operator.write_table", Once(None))
            with pytest.raises(ZeroDivisionError):
                call(operator)
        assert operator.snapshot() == before
        assert call(operator).equals(call(twin))
        assert operator.snapshot() == twin.snapshot()


def test_folding_and_merging_are_undone():
    whole = query(windows={"w": mt.Tumbling(10), "v": mt.Sliding(20, 5)})
    folder, merger, twin = (whole.operator() for _ in range(3))
    for one in (folder, merger, twin):
        one.expect(batch([], []))
    cells = [folder.fold(batch([1, 12, 3], [1, 2, 3], key))[0] for key in "abc"]
    lines = Lines()
    with lines.watching():
        twin.merge(cells)
    before, events = merger.snapshot(), lines.count
    undone = 0
    for at in range(1, events, max(events // 40, 1)):
        done, _ = stopped(lines, at, KeyboardInterrupt, merger.merge, cells)
        state = snapshot_of(merger)
        if done or state is None:
            merger = whole.restore(before)
        else:
            undone += 1
            assert state == before
    assert undone > 20
    merger.merge(cells)
    assert merger.advance(100).equals(twin.advance(100))


def test_folding_keeps_nothing():
    operator = query().operator()
    operator.process(batch([1, 2], [1, 2], "a"))
    operator.process(batch([3], [1], "b"))
    before = operator.snapshot()
    operator.fold(batch([50], [7], "c"))
    assert operator.snapshot() == before
    assert operator.advance(10).num_rows == 2


# Threads


def test_two_threads_in_one_operator_are_an_error_and_lose_no_row():
    operator = query(windows={"w": mt.Tumbling(1000)}).operator()
    operator.process(batch([0], [1]))
    rows, taken, refusals = 20_000, [1], []
    data = {"t": np.arange(rows) % 900, "v": np.ones(rows, np.int64), "k": ["a"] * rows}
    start = threading.Barrier(4)

    def work():
        start.wait()
        for _ in range(15):
            try:
                operator.process(data)
                taken.append(rows)
            except RuntimeError as refusal:
                refusals.append(str(refusal))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("one thread at a time" in refusal for refusal in refusals)
    assert operator.counters.rows == sum(taken)
    assert operator.advance(1000).column("s").to_pylist() == [sum(taken)]


def test_two_threads_in_one_rolling_window_are_an_error():
    entered, go, refusals = threading.Event(), threading.Event(), []

    def lift(v):
        entered.set()
        go.wait(60)
        return v

    window = mt.Rolling(2, mt.Aggregate("own", "", lift, max), min_periods=1)
    first = threading.Thread(target=window.push, args=(["a", "b"],))
    first.start()
    assert entered.wait(60)
    try:
        window.push(["c"])
    except RuntimeError as refusal:
        refusals.append(str(refusal))
    go.set()
    first.join()
    assert ["one thread at a time" in refusal for refusal in refusals] == [True]
    assert len(window) == 2


@pytest.mark.parametrize("call", ["snapshot", "complete", "results"])
def test_a_function_of_a_query_cannot_call_its_operator(call):
    held: list = []

    def lift(v):
        getattr(held[0], call)()
        return v

    own = mt.Aggregate("x", 0, lift, max, columns=("v",), version=1)
    operator = query(aggregates={"x": own}).operator()
    held.append(operator)
    before = operator.snapshot()
    with pytest.raises(RuntimeError, match="one thread at a time"):
        operator.process({"t": [1], "v": ["x"], "k": ["a"]})
    assert operator.snapshot() == before


def test_an_operator_that_was_stopped_refuses_every_call_and_says_what_to_do():
    operator = query().operator()
    operator.process(batch([1], [1]))
    snapshot, twin = operator.snapshot(), query().operator()
    lines = Lines()
    many = {"t": list(range(90)), "v": list(range(90)), "k": [str(i) for i in range(90)]}
    warm = query().operator()  # what runs only once in a process is not counted
    for one in (warm, twin):
        one.process(batch([1], [1]))
    warm.process(many)
    with lines.watching():
        twin.process(many)
    for at in range(lines.count, 0, -1):
        done, _ = stopped(lines, at, KeyboardInterrupt, operator.process, many)
        assert not done
        if snapshot_of(operator) is None:
            break
    calls = {
        "process": [many], "advance": [5], "complete": [], "finish": [many], "expect": [many],
        "add_window": ["x", mt.Tumbling(3)], "remove_window": ["w"], "snapshot": [], "plain": [],
        "fold": [many], "merge": [[]], "results": [],
    }  # fmt: skip
    for name, arguments in calls.items():
        with pytest.raises(RuntimeError, match="restore a snapshot"):
            getattr(operator, name)(*arguments)
    assert operator.counters.rows >= 1
    again = query().restore(snapshot)
    again.process(many)
    assert again.advance(100).equals(twin.advance(100))


FIRST_USE = """
import sys, threading
sys.setswitchinterval(1e-5)
import numpy as np
import muntin as mt

aggregates = [mt.Sum("v"), mt.Sum("v"), mt.Max("v"), mt.Sum("v")]
start, failed, rows = threading.Barrier(4), [], []

def work(aggregate):
    query = mt.Query(time="t", windows={"w": mt.Tumbling(10)}, aggregates={"a": aggregate})
    start.wait()
    try:
        rows.append(query.run({"t": np.arange(100), "v": np.arange(100)}).num_rows)
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=work, args=(a,)) for a in aggregates]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert (failed, rows) == ([], [10] * 4), (failed, rows)
"""


def run(code, **environment):
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=told, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_four_operators_on_four_threads_at_first_use(tmp_path):
    run(FIRST_USE, MUNTIN_CACHE_DIR=str(tmp_path))


def test_a_module_is_seen_by_others_when_it_has_run(tmp_path, monkeypatch):
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(mt, "_entered", threading.Event(), raising=False)
    monkeypatch.setattr(mt, "_go", threading.Event(), raising=False)
    text = "import muntin\nmuntin._entered.set()\nmuntin._go.wait(20)\nANSWER = 42\n"
    answers = []

    def load():
        answers.append(getattr(load_module(text), "ANSWER", None))

    threads = [threading.Thread(target=load) for _ in range(2)]
    threads[0].start()
    assert mt._entered.wait(60)
    threads[1].start()
    threads[1].join(0.2)  # it waits for the first, or would be done with half a module
    mt._go.set()
    for thread in threads:
        thread.join()
    assert answers == [42, 42]


# Memory ends, for once really


MEMORY = """
import resource
import numpy as np
import muntin as mt

def used():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

query = mt.Query(
    time="t", keys=("k",), windows={"w": mt.Sliding(50, 10), "s": mt.Session(4)},
    aggregates={"s": mt.Sum("v"), "n": mt.Count()}, lateness=20,
)
rng = np.random.default_rng(SEED)
def batch(step, rows):
    return {"t": rng.integers(10 * step, 10 * step + 30, rows), "k": rng.integers(0, 30000, rows),
            "v": rng.integers(0, 99, rows)}
batches = [batch(step, 60_000) for step in range(7)]
def warm():
    op = query.operator()
    for step, data in enumerate(batches):
        op.process(data); op.advance(10 * step)
    return op
warm(); twin, op, failed = query.operator(), query.operator(), 0
limits = resource.getrlimit(resource.RLIMIT_AS)
for step, data in enumerate(batches):
    tables = []
    for name, argument in (("process", data), ("advance", 10 * step)):
        wanted = getattr(twin, name)(argument)
        before = op.snapshot()
        for spare in (1 << 20, 3 << 20, 6 << 20, 12 << 20):
            resource.setrlimit(resource.RLIMIT_AS, (used() + spare, limits[1]))
            try:
                result = getattr(op, name)(argument)
            except MemoryError:
                resource.setrlimit(resource.RLIMIT_AS, limits)
                failed += 1
                try:
                    assert op.snapshot() == before
                except RuntimeError as refusal:
                    assert "restore a snapshot" in str(refusal)
                    op = query.restore(before)
            else:
                break
        else:
            resource.setrlimit(resource.RLIMIT_AS, limits)
            result = getattr(op, name)(argument)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        assert result.equals(wanted), (step, name)
assert failed, "memory never ended"
print(failed)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux how much memory a process has")
def test_a_call_for_which_memory_ends_is_undone_or_the_operator_refuses():
    assert int(run(MEMORY.replace("SEED", "7"))) > 0


# Shards


class FailingBlocks(dict):
    """A state store one of whose calls fails, and which is rolled back then."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def get(self, name, default=None):
        self.calls.event()
        return super().get(name, default)

    def put(self, name, block):
        self.calls.event()
        self[name] = block

    def delete(self, name):
        self.calls.event()
        del self[name]


def micro_batches(rng):
    for step in range(12):
        count = int(rng.integers(1, 40))
        times = rng.integers(10 * step - 8, 10 * step + 10, count)
        yield pa.table({
            "t": times, "k": [f"k{i}" for i in rng.integers(0, 9, count)],
            "v": rng.integers(0, 50, count),
        }), 10 * step - 5  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", ["store", "lines"])
def test_a_shard_whose_take_fails_drops_its_copy_and_takes_it_again(seed, fault, monkeypatch):
    monkeypatch.setattr("muntin.spark.shard.SHORT_LOG", 64)  # blocks are written often
    rng = np.random.default_rng(seed)
    aggregates = {"s": mt.Sum("v"), "all": mt.Collect("v")} if seed else {"s": mt.Sum("v")}
    windows = {"w": mt.Sliding(20, 5), "s": mt.Session(3)}
    asked = query(windows=windows, aggregates=aggregates, lateness=10)
    empty = next(micro_batches(rng))[0].slice(0, 0)
    packing = Packing(f"interrupted {seed} {fault}", asked, empty)
    store, other, copies, twins = FailingBlocks(), FailingBlocks(), Copies(), Copies()
    failures, lines = 0, Lines()
    for table, watermark in micro_batches(rng):
        packed = [piece for _, piece in packing.pack(table, 1)]
        counter = other.calls if fault == "store" else lines
        with counter.watching():
            wanted = Shard(packing, other, {}, twins).take(packed, watermark).results
        events = counter.count
        counter = store.calls if fault == "store" else lines
        for at in sorted(rng.integers(1, events + 1, 3).tolist()):
            before = dict(store)
            error = OSError if fault == "store" else KeyboardInterrupt
            shard = Shard(packing, store, {}, copies)
            done, _ = stopped(counter, at, error, shard.take, packed, watermark)
            store.clear()
            store.update(before)  # as Spark does when a task fails, or its result is lost
            failures += not done
        result = Shard(packing, store, {}, copies).take(packed, watermark).results
        assert (result is None) == (wanted is None)
        assert result is None or result.equals(wanted)
    assert failures > 20
