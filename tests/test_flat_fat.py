"""FlatFAT beyond a queue: positions, ranges, removal from the middle, capacity."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import muntin as mt
from muntin.aggregators.flat_fat import SMALLEST
from tests.oracle import Oracle


class AnyPosition(RuleBasedStateMachine):
    """Two windows, one commutative, and the list that both must equal."""

    def __init__(self):
        super().__init__()
        self.windows = [mt.FlatFat(mt.Collect()), mt.FlatFat(mt.Sum())]
        self.oracles = [Oracle(mt.Collect()), Oracle(mt.Sum())]

    @property
    def values(self):
        return self.oracles[0].values

    def on_both(self, name, *arguments):
        for window in self.windows:
            getattr(window, name)(*arguments)

    @rule(values=st.lists(st.integers(0, 9), min_size=1, max_size=20))
    def insert(self, values):
        self.on_both("bulk_insert", values)
        for oracle in self.oracles:
            oracle.values += values

    @rule(share=st.floats(0, 0.99), n=st.integers(1, 12))
    def remove(self, share, n):
        for _ in range(min(n, len(self.values))):
            position = int(share * len(self.values))
            self.on_both("remove", position)
            for oracle in self.oracles:
                del oracle.values[position]

    @rule(share=st.floats(0, 1))
    def evict(self, share):
        n = int(share * len(self.values))
        self.on_both("bulk_evict", n)
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
