"""Queues that grow and drain: slots copied per operation, and what is held, counted and not timed."""

import gc
import math
import random
import tracemalloc
from collections import deque
from datetime import timedelta

import numpy as np
import pytest

import muntin as mt
from muntin.aggregators import chunks
from muntin.aggregators.chunks import MOVED, SIZE, Chunks
from muntin.dataframes import compiled_ring
from tests.counting import counted
from tests.interrupting import interrupt_rolling

RINGS = (mt.TwoStacksLite, mt.DabaLite, mt.Daba, mt.FlatFit)
TREES = (mt.LogMta, mt.Amta, mt.BInt)


class Counting(list):
    """A list that counts what is written to it and to all others of its kind."""

    written = 0

    def __setitem__(self, place, items):
        Counting.written += len(items) if isinstance(place, slice) else 1
        super().__setitem__(place, items)

    def append(self, item):
        Counting.written += 1
        super().append(item)


@pytest.fixture
def written(monkeypatch):
    """Return a function that calls another, and returns how many slots and references it wrote."""
    monkeypatch.setattr(chunks, "empty_slots", lambda n: Counting([None] * n))

    def during(call, *arguments):
        before = Counting.written
        call(*arguments)
        return Counting.written - before

    return during


def test_a_table_of_a_million_slots_copies_a_few_references_at_a_time(written):
    table, many = Chunks(), (1 << 20) // SIZE
    for number in range(many):
        # The chunk itself is in the table and in the next one.
        assert written(table.open, number) <= MOVED + 2
    assert table.held() <= (1 << 20) + 4 * many
    for number in range(1, many):
        assert written(table.close, number) <= MOVED + 2
        if number % 256 == 0 or number > many - 8:  # to count takes as long as the table is
            assert table.held() <= (many - number) * (SIZE + 16) + 8
    assert table.held() <= SIZE + 8


@pytest.mark.parametrize("seed", range(12))
def test_a_table_holds_its_chunks_whatever_comes_and_goes(seed):
    rng, first = random.Random(seed), random.Random(seed).choice([0, 5, 1000])
    table, held = Chunks(first), {}
    for _ in range(200):
        action = rng.choice(["open", "open", "close", "cut", "undo"] if seed % 2 else ["open"])
        if action == "open" or not held:
            for _ in range(rng.choice([1, 3, 40])):
                table.open(table.end)
                held[table.end - 1] = table.table[table.end - 1 & table.mask]
        elif action == "close":
            table.close(table.first + rng.randint(0, len(held)))
        elif action == "cut":
            table.cut(table.end - rng.choice([0, 1, 2]))
        else:
            saved = table.save(range(table.first, table.first + len(held) // 2))
            table.close(table.first + len(held) // 2)
            for _ in range(rng.choice([1, 100])):
                table.open(table.end)
            table.put_back(saved)
        held = {c: chunk for c, chunk in held.items() if table.first <= c < table.end}
        table.check(table.first * SIZE, table.end * SIZE)
        assert all(table.table[c & table.mask] is chunk for c, chunk in held.items())
        assert len(held) == table.end - table.first


@pytest.mark.parametrize("algorithm", [*RINGS, *TREES], ids=lambda a: a.__name__)
def test_no_operation_of_a_queue_copies_more_than_a_constant(algorithm, written):
    window, n = algorithm(mt.Max()), 1 << 14
    levels = math.log2(n) + 1 if algorithm in TREES else 1
    most = (MOVED + 2) * 2 + 4 * levels
    for value in range(n):
        assert written(window.insert, value) <= most
    flips = 0
    while len(window) > 2:
        spent = written(window.evict)
        if spent > most:  # each value is flipped once, as the algorithm has it
            assert algorithm is mt.TwoStacksLite
            assert spent <= len(window) + most
            flips += 1
    assert flips == (algorithm is mt.TwoStacksLite)
    assert written(window.bulk_evict, 2) <= most


@pytest.mark.parametrize("n", [1 << 10, 1 << 14])
def test_a_flip_touches_the_window_and_not_what_it_once_was(n, written):
    window = mt.TwoStacksLite(mt.Max())
    window.bulk_insert(range(n))
    window.bulk_evict(n - 4)
    for value in range(500):
        assert written(window.insert, value) <= MOVED + 3
        assert written(window.evict) <= MOVED + 3 + len(window)


@pytest.mark.parametrize("algorithm", mt.ALGORITHMS.values(), ids=mt.ALGORITHMS)
@pytest.mark.parametrize("way", ["one by one", "at once", "all at once", "bit by bit"])
def test_what_is_held_after_a_drain_is_what_is_left(algorithm, way):
    n = 1 << 13
    gc.collect()
    tracemalloc.start()
    try:
        window = algorithm(mt.Sum() if algorithm is mt.SubtractOnEvict else mt.Max())
        before = tracemalloc.get_traced_memory()[0]
        window.bulk_insert(float(-k) for k in range(n))
        window.query()
        full = tracemalloc.get_traced_memory()[0] - before
        if way == "one by one":
            for _ in range(n - 2):
                window.evict()
        elif way == "bit by bit":
            while len(window) > 2:
                window.bulk_evict(min(97, len(window) - 2))
        else:
            window.bulk_evict(n if way == "all at once" else n - 2)
        window.query()
        gc.collect()  # which also frees tuples that Python keeps for later
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert full > 32 * n
    assert left < 16_000


def test_a_window_that_was_a_million_long_holds_little():
    window = mt.DabaLite(mt.Max())
    for value in range(1 << 20):
        window.insert(value)
    assert window._chunks.held() <= 1.1 * (1 << 20)
    for _ in range((1 << 20) - 2):
        window.evict()
    assert window._chunks.held() <= 2 * SIZE + 8
    window.check([(1 << 20) - 2, (1 << 20) - 1])


@pytest.mark.parametrize(
    "algorithm", [*RINGS, mt.TwoStacks, mt.Recalc, mt.SlickDeque, mt.Sba, mt.Pba, mt.FlatFat]
)
def test_emptying_combines_nothing_and_leaves_a_window_like_a_new_one(algorithm):
    aggregate, counter = counted(mt.Max())
    window = algorithm(aggregate)
    for round_ in range(3):
        window.bulk_insert(range(1000 * round_))
        window.query()
        before = counter.combines
        window.bulk_evict(len(window))
        assert counter.combines == before
        window.check([])
        window.insert(7)
        assert window.query() == 7
        window.evict()


@pytest.mark.parametrize("at", [1, 2, 50, 198])
def test_a_flip_that_fails_leaves_the_window_as_it_was(at):
    left = [math.inf]

    def combine(a, b):
        left[0] -= 1
        if left[0] == 0:
            raise ArithmeticError("no")
        return a + b

    window = mt.TwoStacksLite(mt.Aggregate("fragile", (), lambda v: (v,), combine))
    window.bulk_insert(range(200))
    before = window.snapshot()
    left[0] = at
    with pytest.raises(ArithmeticError):
        window.evict()
    left[0] = math.inf
    assert window.snapshot() == before
    window.check(list(range(200)))
    window.evict()
    assert window.query() == tuple(range(1, 200))


class Walked(deque):
    """A deque that counts how many items were looked at one after the other."""

    steps = 0

    def __iter__(self):
        for item in super().__iter__():
            Walked.steps += 1
            yield item


@pytest.mark.parametrize("timed", [False, True])
def test_a_push_of_objects_looks_at_no_more_rows_than_come_and_leave(timed):
    size = timedelta(microseconds=1000) if timed else 1000
    window = mt.Rolling(size, mt.Concat(), min_periods=1)

    def push(start, rows):
        on = {"on": np.arange(start, start + rows)} if timed else {}
        return window.push(["x" if i % 3 else None for i in range(start, start + rows)], **on)

    push(0, 2000)
    window._ring._held = Walked(window._ring._held)
    Walked.steps = 0
    for start in range(2000, 2100):
        window._ring._held = Walked(deque.copy(window._ring._held))  # settle keeps the kind
        Walked.steps = 0
        assert len(push(start, 1)[0]) in (666, 667)
        assert Walked.steps <= 3


# Compiled rings


class Copies:
    """Counts the slots that rings copy."""

    def __init__(self, monkeypatch, few=16):
        monkeypatch.setattr(compiled_ring, "FEW_SLOTS", few)
        self.slots = 0
        copy = compiled_ring.NextRing.copy

        def counting(ring, held, start, end):
            self.slots += max(end - start, 0)
            copy(ring, held, start, end)

        monkeypatch.setattr(compiled_ring.NextRing, "copy", counting)

    def during(self, call, *arguments):
        before = self.slots
        result = call(*arguments)
        return result, self.slots - before


def pushes(rng, timed):
    """Yield values and times of pushes that let a window of 3000 grow, drain and stand still."""
    now = 0
    for _ in range(60):
        rows = rng.choice([1, 2, 7, 100, 1500])
        step = rng.choice([0, 1, 1, 2, 40])
        times = now + np.cumsum(np.array([rng.randint(0, step) for _ in range(rows)]))
        now = int(times[-1]) + rng.choice([0, 0, 1, 50, 2900, 9000])
        yield np.array([rng.randint(-9, 9) for _ in range(rows)]), times if timed else None


@pytest.mark.parametrize("algorithm", ["DabaLite", "TwoStacksLite"])
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_rings_that_grow_and_shrink_give_what_one_array_gives(seed, timed, algorithm, monkeypatch):
    copies, rng = Copies(monkeypatch), random.Random(f"{seed} {timed}")
    size = rng.choice([3, 200, 3000])
    length = timedelta(microseconds=size) if timed else size
    aggregate = rng.choice([mt.Last(), mt.M4(), mt.Sum()])
    options = {"min_periods": 1, "algorithm": algorithm}
    window, parts, all_times, results = mt.Rolling(length, aggregate, **options), [], [], []
    for values, times in pushes(rng, timed):
        held = len(window)
        result, copied = copies.during(window.push, values, times)
        flip = algorithm == "TwoStacksLite"  # which rewrites the window
        moves = len(values) + held + len(values) - len(window)
        assert copied <= (2 * compiled_ring.MOVED + 8) * moves + 64 + flip * (held + len(values))
        parts.append(values)
        all_times += [] if times is None else [times]
        results += [tuple(r) if isinstance(r, np.ndarray) else r for r in result.tolist()]
        if rng.random() < 0.1:
            window = mt.Rolling.restore(window.snapshot(), length, aggregate, **options)
        slots = len(window._ring._stamps)
        assert slots <= max(64, 8 * (len(window) + len(values)))
    on = np.concatenate(all_times) if timed else None
    whole = mt.rolling(np.concatenate(parts), size, aggregate, on=on, min_periods=1)
    assert results == [tuple(r) if isinstance(r, np.ndarray) else r for r in whole.tolist()]


@pytest.mark.parametrize("algorithm", ["DabaLite", "TwoStacksLite"])
def test_a_push_that_fails_while_the_ring_grows_is_undone(algorithm, monkeypatch):
    Copies(monkeypatch)
    window = mt.Rolling("1000 us", mt.Sum(), algorithm=algorithm)
    twin = mt.Rolling("1000 us", mt.Sum(), algorithm=algorithm)
    rng, now = random.Random(7), 0
    for _ in range(400):
        rows = rng.choice([1, 3, 9])
        times = np.arange(now, now + rows)
        now += rows
        state = window.snapshot()
        with pytest.raises(OverflowError):
            window.push(np.full(rows + 1, 2**63 - 1), np.append(times, now))
        assert window.snapshot() == state
        values = np.array([rng.randint(0, 9) for _ in range(rows)])
        assert window.push(values, times).tolist() == twin.push(values, times).tolist()
        assert window.snapshot() == twin.snapshot()


@pytest.mark.parametrize("what", ["lines", "allocations"])
@pytest.mark.parametrize("seed", range(12))
def test_a_push_that_is_stopped_while_the_ring_moves_is_undone(seed, what, monkeypatch):
    monkeypatch.setattr(compiled_ring, "FEW_SLOTS", 4)
    seen = interrupt_rolling(seed, what, 8)
    assert sum(seen.values()) in (0, 8)


@pytest.mark.parametrize("last", [1, 1500, 2_000_000])
def test_a_compiled_window_that_was_long_holds_little(last):
    n = 1 << 20
    window, other = mt.Rolling("1 s", mt.Max()), mt.Rolling("1 s", mt.Max())
    for rows in (np.arange(100), np.array([10**7])):  # what is compiled is not held by a window
        other.push(rows.astype(float), on=rows)
    tracemalloc.start()
    try:
        window.push(np.arange(n, dtype=float), on=np.arange(n))
        assert tracemalloc.get_traced_memory()[0] > 24 * n
        # What is left: the rows of the last microsecond, some of them, or only the new one.
        window.push([1.0], on=[n - 1 + 10**6 - (last if last < n else 0)])
        for _ in range(200):
            window.push([1.0], on=[window._last])
        held = len(window)
        assert held == 201 + (last if last < n else 0)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
