"""FlatFAT beyond a queue: positions, ranges, removal from the middle, capacity."""

import math
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import muntin as mt
from muntin.aggregators.flat_fat import SMALLEST
from tests.oracle import Oracle


class AnyPosition(RuleBasedStateMachine):
    """Two windows, one commutative, and the list that both must equal."""

    def __init__(self):
        super().__init__()
        self.windows = [mt.FlatFat(mt.Collect()), mt.FlatFat(mt.Sum())]
        self.oracles = [Oracle(mt.Collect()), Oracle(mt.Sum())]
        self.handles = []

    @initialize(capacity=st.sampled_from([1, 8, 9, 100]))
    def start(self, capacity):
        self.windows = [mt.FlatFat(w.aggregate, capacity=capacity) for w in self.windows]

    @property
    def values(self):
        return self.oracles[0].values

    def on_both(self, name, *arguments):
        for window in self.windows:
            getattr(window, name)(*arguments)

    @rule(values=st.lists(st.integers(0, 9), min_size=1, max_size=20))
    def insert(self, values):
        for value in values:
            first, second = (window.insert(value) for window in self.windows)
            assert first == second
            self.handles.append(first)
        for oracle in self.oracles:
            oracle.values += values

    @rule(share=st.floats(0, 0.99), n=st.integers(1, 12))
    def remove(self, share, n):
        for _ in range(min(n, len(self.values))):
            position = int(share * len(self.values))
            self.on_both("remove", position)
            for removed in (self.handles, *(oracle.values for oracle in self.oracles)):
                del removed[position]

    @precondition(lambda self: self.values)
    @rule(share=st.floats(0, 0.99), n=st.integers(1, 12))
    def remove_by_handle(self, share, n):
        for _ in range(min(n, len(self.values))):
            position = int(share * len(self.values))
            for window in self.windows:
                window.remove(handle=self.handles[position])
                with pytest.raises(KeyError, match="handle"):
                    window.remove(handle=self.handles[position])
            for removed in (self.handles, *(oracle.values for oracle in self.oracles)):
                del removed[position]

    @rule(share=st.floats(0, 1))
    def evict(self, share):
        n = int(share * len(self.values))
        self.on_both("bulk_evict", n)
        del self.handles[:n]
        for oracle in self.oracles:
            oracle.evict(n)

    @precondition(lambda self: self.values)
    @rule(data=st.data())
    def update(self, data):
        positions = st.integers(0, len(self.values) - 1)
        changes = data.draw(st.dictionaries(positions, st.integers(10, 19), max_size=8))
        self.on_both("update", changes)
        for oracle in self.oracles:
            for position, value in changes.items():
                oracle.values[position] = value

    @rule(data=st.data())
    def range_query(self, data):
        n = len(self.values)
        start, end = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
        for window, oracle in zip(self.windows, self.oracles, strict=True):
            assert window.range_query(start, end) == oracle.range_query(start, end)
            assert window.prefix(end) == oracle.range_query(0, end)
            assert window.suffix(start) == oracle.range_query(start, n)

    @rule()
    def restart(self):
        self.windows = [mt.FlatFat.restore(w.snapshot(), w.aggregate) for w in self.windows]

    @invariant()
    def same_as_the_list(self):
        for window, oracle in zip(self.windows, self.oracles, strict=True):
            assert window.query() == oracle.query()
            window.check(oracle.values)


TestAnyPosition = AnyPosition.TestCase
TestAnyPosition.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def test_capacity_follows_the_papers_thresholds():
    window = mt.FlatFat(mt.Sum())
    window.bulk_insert(range(64))
    assert window.capacity == 64
    window.insert(64)
    assert window.capacity == 128  # full: doubled
    window.bulk_evict(33)
    assert (len(window), window.capacity) == (32, 128)
    window.evict()
    assert (len(window), window.capacity) == (31, 64)  # below a quarter: halved
    window.bulk_evict(31)
    assert window.capacity == SMALLEST


def test_a_full_buffer_with_holes_is_compacted():
    window = mt.FlatFat(mt.Collect())
    window.bulk_insert(range(64))
    for _ in range(16):
        window.remove(5)
    assert len(window) == 48
    window.insert(64)
    assert window.capacity == 64  # three quarters in use: compacted, not doubled
    window.check([*range(5), *range(21, 65)])


@pytest.mark.parametrize(
    "call",
    [
        lambda w: w.remove(3),
        lambda w: w.remove(-1),
        lambda w: w.update({0: 5, 3: 6}),
        lambda w: w.range_query(0, 4),
        lambda w: w.range_query(2, 1),
        lambda w: w.prefix(4),
        lambda w: w.suffix(-1),
    ],
)
def test_positions_outside_are_refused_and_nothing_changes(call):
    window = mt.FlatFat(mt.Collect())
    window.bulk_insert([1, 2, 3])
    with pytest.raises(IndexError, match="in a window of 3"):
        call(window)
    assert window.query() == [1, 2, 3]


@pytest.mark.parametrize("capacity", [1, 8, 100, 1 << 12])
def test_an_array_keeps_the_capacity_that_it_was_made_with(capacity):
    window = mt.FlatFat(mt.Sum(), capacity=capacity)
    room = max(SMALLEST, 1 << math.ceil(math.log2(capacity)))
    assert window.capacity == room
    window.bulk_insert(range(capacity))
    assert window.capacity == room
    window.bulk_insert(range(2 * room))
    assert window.capacity > room
    window.bulk_evict(len(window) - 1)
    assert window.capacity == room
    again = mt.FlatFat.restore(window.snapshot(), mt.Sum())
    assert again.capacity == room
    again.bulk_insert(range(room))
    again.bulk_evict(room)
    assert again.capacity == room


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_capacity_is_for_one_value_or_more(capacity):
    with pytest.raises(ValueError, match=f"got {capacity}"):
        mt.FlatFat(mt.Sum(), capacity=capacity)


def test_what_to_remove_is_a_position_or_a_handle():
    window = mt.FlatFat(mt.Collect())
    handles = [window.insert(value) for value in "abc"]
    for call in (window.remove, lambda: window.remove(0, handle=0)):
        with pytest.raises(TypeError, match="either"):
            call()
    window.evict()
    with pytest.raises(KeyError, match=f"no value with handle {handles[0]}"):
        window.remove(handle=handles[0])
    window.remove(handle=handles[2])
    assert window.query() == ["b"]


def test_a_window_of_an_older_snapshot_has_handles_from_the_oldest_on():
    window = mt.FlatFat(mt.Collect())
    window.bulk_insert("abcdef")
    window.bulk_evict(2)
    old = {name: window._save(list)[name] for name in ("capacity", "leaves")}
    window._load(old, tuple)
    window.remove(handle=1)
    assert window.query() == ["c", "e", "f"]


@pytest.mark.parametrize("order", ["forwards", "backwards", "at random"])
def test_holes_cost_a_logarithm_each_however_many_there_are(order, monkeypatch):
    calls = []

    def counting(function):
        return lambda *arguments: calls.append(function) or function(*arguments)

    for name in ("_count_hole", "_filled_slot", "_holes_before"):  # each O(log n)
        monkeypatch.setattr(mt.FlatFat, name, counting(getattr(mt.FlatFat, name)))
    n = 1 << 12
    window = mt.FlatFat(mt.Sum(), capacity=n)
    handles = [window.insert(k) for k in range(n)]
    middle = handles[1:-1]
    if order != "forwards":
        middle.reverse() if order == "backwards" else random.Random(1).shuffle(middle)
    for k, handle in enumerate(middle, start=1):
        window.remove(handle=handle)
        assert len(calls) <= 5 * k
    calls.clear()
    window.evict()  # past all of them
    assert len(calls) <= 4
    window.check([n - 1])
    calls.clear()
    for value in range(3 * n):
        window.insert(value)
        window.evict()
    assert len(calls) <= n  # slots that were holes are used again
    window.check([3 * n - 1])
