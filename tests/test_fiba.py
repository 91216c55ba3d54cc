"""Fiba against a sorted list, and its combines against the bounds of its papers."""

import datetime as dt
import gc
import math
import random
import weakref
from bisect import bisect_left, bisect_right, insort_right
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muntin.aggregates import SnapshotError, seal
from muntin.aggregates.aggregate import Aggregate
from muntin.aggregators.aggregator import InvariantError
from muntin.aggregators.fiba import LEFT, Fiba

COLLECT = Aggregate("collect", (), lift=lambda v: (v,), combine=lambda a, b: a + b)
MAX = Aggregate("max", -math.inf, lift=lambda v: v, combine=max)
EXPECTED: dict[str, Callable[[list[Any]], Any]] = {
    "collect": tuple,
    "max": lambda values: max(values, default=-math.inf),
}

times = st.integers(-20, 60)
numbers = st.integers(0, 99)
pairs = st.lists(st.tuples(times, numbers), min_size=1, max_size=40)


class FibaAndList(RuleBasedStateMachine):
    """Two windows, one of them not commutative, and the entries they must hold, in time order."""

    def __init__(self) -> None:
        super().__init__()
        self.windows = [Fiba(COLLECT), Fiba(MAX)]
        self.entries: list[tuple[int, int]] = []

    @rule(time=times, value=numbers)
    def insert_at_a_time(self, time: int, value: int) -> None:
        insort_right(self.entries, (time, value), key=itemgetter(0))
        for window in self.windows:
            window.insert(time, value)

    @rule(value=numbers)
    def insert_at_the_young_end(self, value: int) -> None:
        self.entries.append((self.entries[-1][0] + 1 if self.entries else 0, value))
        for window in self.windows:
            window.insert(value)

    @rule(entries=pairs)
    def bulk_insert(self, entries: list[tuple[int, int]]) -> None:
        for entry in entries:
            insort_right(self.entries, entry, key=itemgetter(0))
        for window in self.windows:
            window.bulk_insert((v for _, v in entries), times=(t for t, _ in entries))

    @precondition(lambda self: self.entries)
    @rule()
    def evict(self) -> None:
        del self.entries[0]
        for window in self.windows:
            window.evict()

    @rule(time=times)
    def evict_until(self, time: int) -> None:
        n = bisect_right(self.entries, time, key=itemgetter(0))
        del self.entries[:n]
        assert [window.evict_until(time) for window in self.windows] == [n, n]

    @rule(data=st.data())
    def bulk_evict(self, data: st.DataObject) -> None:
        n = data.draw(st.integers(0, len(self.entries)))
        del self.entries[:n]
        for window in self.windows:
            window.bulk_evict(n)

    @rule(start=times, end=times)
    def evict_between(self, start: int, end: int) -> None:
        gone = [entry for entry in self.entries if start <= entry[0] < end]
        self.entries = [entry for entry in self.entries if not start <= entry[0] < end]
        found = [window.evict_between(start, end) for window in self.windows]
        assert found == [len(gone), len(gone)]

    @rule(start=times, end=times)
    def range_query(self, start: int, end: int) -> None:
        i, j = (bisect_left(self.entries, time, key=itemgetter(0)) for time in (start, end))
        values = [value for _, value in self.entries[i:j]]
        for window in self.windows:
            assert window.range_query(start, end) == EXPECTED[window.aggregate.name](values)

    @rule()
    def restart(self) -> None:
        self.windows = [Fiba.restore(w.snapshot(), w.aggregate) for w in self.windows]

    @invariant()
    def same_as_the_list(self) -> None:
        values = [value for _, value in self.entries]
        ends = (self.entries[0][0], self.entries[-1][0]) if self.entries else (None, None)
        for window in self.windows:
            window.check(values)
            assert window.query() == EXPECTED[window.aggregate.name](values)
            assert (len(window), window.oldest, window.youngest) == (len(values), *ends)


TestFibaAndList = FibaAndList.TestCase
TestFibaAndList.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


class Combines:
    """A maximum that counts its combines."""

    def __init__(self) -> None:
        self.n = 0
        self.aggregate = Aggregate("max", -math.inf, lift=lambda v: v, combine=self.combine)

    def combine(self, a: float, b: float) -> float:
        self.n += 1
        return max(a, b)

    def of(self, operation: Callable[..., Any], *arguments: Any) -> int:
        before = self.n
        operation(*arguments)
        return self.n - before


def filled(combines: Combines, n: int, order: str) -> Fiba:
    """Return a window with one value at each time from 0 to n - 1."""
    arrival = list(range(n))
    if order == "shuffled":
        random.Random(n).shuffle(arrival)
    elif order == "backward":
        arrival.reverse()
    window = Fiba(combines.aggregate)
    window.bulk_insert(arrival, times=arrival)
    return window


# 3 + 2 + 4 in long windows; a little more at 43 and 133, where the root splits and merges in turns.
@pytest.mark.parametrize("size", [*(2**e for e in range(17)), 43, 81, 133, 1000])
def test_in_order_an_insert_a_query_and_an_evict_cost_about_nine_combines(size: int) -> None:
    combines, rounds = Combines(), max(2 * size, 10_000)
    window = filled(combines, size, "in order")
    inserts = queries = evicts = 0
    for value in range(rounds):
        inserts += combines.of(window.insert, value)
        queries += combines.of(window.query)
        evicts += combines.of(window.evict)
    assert inserts <= 3.3 * rounds
    assert queries <= 2 * rounds
    assert evicts <= 4.2 * rounds
    assert inserts + queries + evicts <= (9.4 if size < 500 else 9.1) * rounds


def mean_combines_of_late_inserts(n: int, d: int) -> float:
    """Insert 1000 values, each older than d others, in a window that keeps its length n."""
    combines = Combines()
    window = filled(combines, n, "in order")
    total = 0
    for _ in range(1000):
        total += combines.of(window.insert, window.youngest - d + 0.5, 0)
        window.insert(window.youngest + 1, 0)
        window.bulk_evict(2)
    return total / 1000


@pytest.mark.parametrize("d", [2**e for e in range(13)])
def test_a_late_insert_costs_the_logarithm_of_its_distance(d: int) -> None:
    assert mean_combines_of_late_inserts(2**14, d) <= 5.5 * math.log2(d) + 5


@pytest.mark.parametrize("d", [1, 2, 4, 8, 16])
def test_the_cost_of_a_late_insert_does_not_depend_on_the_window(d: int) -> None:
    small, large = (mean_combines_of_late_inserts(n, d) for n in (2**8, 2**14))
    assert small == pytest.approx(large, abs=0.5)


@pytest.mark.parametrize("e", [6, 10, 14])
def test_the_worst_insert_and_evict_cost_a_logarithm(e: int) -> None:
    combines, rng = Combines(), random.Random(e)
    window = Fiba(combines.aggregate)
    for _ in range(2**e):
        assert combines.of(window.insert, rng.random(), 0) <= 8 * e + 8
    for _ in range(2**e):
        assert combines.of(window.evict) <= 6 * e + 6


@pytest.mark.parametrize("n", [2**10, 2**13])
@pytest.mark.parametrize("d", [0, 64, 1000])
@pytest.mark.parametrize("m", [1, 8, 64, 512])
def test_a_bulk_insertion_costs_what_its_paper_says(n: int, d: int, m: int) -> None:
    combines = Combines()
    window = filled(combines, n, "in order")
    late = [n - 1 - d + (i + 1) / (m + 1) * max(d, 1) for i in range(m)]
    random.Random(m).shuffle(late)
    spent = combines.of(window.bulk_insert, late, late)
    assert spent <= 2 * math.log2(d + 2) + 3 * m * (1 + math.log2(1 + d / m)) + 8
    window.check(sorted([*range(n), *late]))


def test_a_bulk_insertion_into_an_empty_window_combines_each_value_about_once() -> None:
    combines = Combines()
    window = Fiba(combines.aggregate)
    assert combines.of(window.bulk_insert, range(10_000)) <= 1.1 * 10_000
    window.check(range(10_000))


@pytest.mark.parametrize("n", [2**6, 2**12])
def test_what_leaves_from_the_middle_costs_a_logarithm_each(n: int) -> None:
    combines = Combines()
    window = filled(combines, n, "shuffled")
    for start in (n // 2, n // 4, 0, n - 4):
        before = combines.n
        assert window.evict_between(start, start + 4) == 4
        assert combines.n - before <= 4 * (9 * math.log2(n) + 6)
    window.check(
        [x for x in range(n) if not any(0 <= x - s < 4 for s in (n // 2, n // 4, 0, n - 4))]
    )


class Broken:
    """A combine that raises after so many."""

    def __init__(self) -> None:
        self.left = math.inf
        self.aggregate = Aggregate("join", (), lift=lambda v: (v,), combine=self.combine)

    def combine(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        self.left -= 1
        if self.left == 0:
            raise ArithmeticError("no more")
        return a + b


@pytest.mark.parametrize("after", [*range(1, 40, 3), 70])
def test_what_fails_in_bulk_changes_nothing(after: int) -> None:
    broken = Broken()
    window = Fiba(broken.aggregate)
    window.bulk_insert(range(60), times=[i // 3 for i in range(60)])
    calls: list[Callable[[], Any]] = [
        lambda: window.bulk_insert(range(30), times=[i % 21 for i in range(30)]),
        lambda: window.evict_between(5, 15),
    ]
    for call in calls:
        broken.left = after
        try:
            call()
        except ArithmeticError:
            broken.left = math.inf
            window.check(range(60))
        else:
            broken.left = math.inf
            window = Fiba(broken.aggregate)
            window.bulk_insert(range(60), times=[i // 3 for i in range(60)])


@pytest.mark.parametrize("times", [[1, math.nan], [1, None], [1, "noon"], [math.nan, 1]])
def test_a_bulk_with_a_time_without_a_place_changes_nothing(times: list[Any]) -> None:
    window = filled(Combines(), 5, "in order")
    with pytest.raises(TypeError, match="cannot be ordered among"):
        window.bulk_insert([1, 2], times=times)
    window.check(range(5))


def test_nothing_leaves_from_an_empty_range() -> None:
    window = filled(Combines(), 20, "in order")
    assert window.evict_between(7, 7) == window.evict_between(9, 3) == 0
    assert window.evict_between(30, 40) == window.evict_between(-9, 0) == 0
    assert window.evict_between(-9, 99) == 20
    assert (window.oldest, window.youngest, len(window)) == (None, None, 0)


ORDERS = pytest.mark.parametrize("order", ["in order", "shuffled", "backward"])


@ORDERS
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 31, 100, 2**10, 2**13])
def test_a_bulk_eviction_costs_a_logarithm_whatever_it_removes(n: int, order: str) -> None:
    few = {1, n // 2, n - 1, n, *random.Random(n).choices(range(n), k=3)}
    bound = 6 * math.log2(n) + 6
    for k in range(n + 1) if n <= 100 else few:
        combines = Combines()
        by_number, by_time = filled(combines, n, order), filled(combines, n, order)
        assert combines.of(by_number.bulk_evict, k) <= bound
        assert combines.of(by_time.evict_until, k - 1) <= bound
        assert len(by_number) == len(by_time) == n - k
        if n <= 100:
            by_number.check(range(k, n))
            by_time.check(range(k, n))


@ORDERS
def test_a_range_query_costs_a_logarithm(order: str) -> None:
    combines, rng, n = Combines(), random.Random(1), 2**12
    window = filled(combines, n, order)
    for _ in range(1000):
        start, end = sorted(rng.choices(range(-1, n + 2), k=2))
        assert combines.of(window.range_query, start, end) <= 5 * math.log2(n)


@ORDERS
def test_mixed_operations_cost_a_constant_at_the_ends(order: str) -> None:
    combines, rng = Combines(), random.Random(2)
    window = filled(combines, 1000, order)
    steps = [
        lambda: window.insert(0),
        lambda: window.insert(window.oldest - 1, 0),
        window.evict,
        window.evict,
    ]
    assert sum(combines.of(rng.choice(steps)) for _ in range(10_000)) <= 6 * 10_000


def test_equal_times_keep_the_order_of_arrival_and_leave_one_by_one() -> None:
    window = Fiba(COLLECT)
    window.bulk_insert("abcdefgh", times=[1, 0, 1, 0, 1, 1, 0, 1])
    assert window.query() == tuple("bdgacefh")
    window.evict()
    assert window.query() == tuple("dgacefh")
    assert window.evict_until(0) == 2
    assert window.range_query(1, 2) == tuple("acefh")


def test_without_a_time_a_value_comes_one_after_the_youngest() -> None:
    window = Fiba(COLLECT)
    window.insert("a")
    assert window.youngest == 0
    window.insert(7.5, "b")
    window.insert("c")
    assert window.youngest == 8.5
    assert window.evict_until(100) == 3
    window.insert("d")
    assert window.youngest == 0


def test_times_may_be_dates() -> None:
    window = Fiba(COLLECT)
    days = [dt.datetime(2024, 5, day, tzinfo=dt.UTC) for day in (1, 3, 2)]
    window.bulk_insert("acb", times=days)
    window = Fiba.restore(window.snapshot(), COLLECT)
    assert window.range_query(days[0], days[1]) == ("a", "b")
    with pytest.raises(TypeError, match=r"youngest time is datetime.*insert\(time, value\)"):
        window.insert("d")
    window.check("abc")


def test_what_a_bulk_eviction_removed_is_freed_without_the_garbage_collector() -> None:
    class Value:
        pass

    window = Fiba(Aggregate("last", None, lift=lambda v: v, combine=lambda *pair: pair[1]))
    values = [Value() for _ in range(100)]
    alive = [weakref.ref(value) for value in values]
    gc.disable()
    try:
        window.bulk_insert(values)
        del values
        window.bulk_evict(70)
        assert [i for i, value in enumerate(alive) if value() is not None] == [*range(70, 100)]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("n", "time"),
    [(0, None), (0, math.nan), (1, "noon"), (1, None), (50, "noon"), (50, math.nan), (50, (1,))],
)
def test_a_time_without_a_place_is_refused_and_nothing_changes(n: int, time: Any) -> None:
    window = filled(Combines(), n, "shuffled")
    with pytest.raises(TypeError, match="cannot be ordered among"):
        window.insert(time, 1)
    window.check(range(n))


def test_a_value_that_cannot_be_lifted_changes_nothing() -> None:
    window = Fiba(Aggregate("sum", 0, lift=int, combine=lambda a, b: a + b))
    window.insert(1)
    with pytest.raises(ValueError, match="invalid literal"):
        window.insert(0, "x")
    window.check([1])


def test_nothing_is_as_old_as_nan() -> None:
    window = filled(Combines(), 10, "in order")
    assert window.evict_until(math.nan) == 0
    assert window.range_query(0, math.nan) == -math.inf


def test_what_is_not_there_cannot_be_evicted() -> None:
    window = Fiba(MAX)
    with pytest.raises(IndexError, match="empty window"):
        window.evict()
    window.bulk_insert([1, 2])
    with pytest.raises(IndexError, match="3 values from a window of 2"):
        window.bulk_evict(3)
    with pytest.raises(ValueError, match="0 or more"):
        window.bulk_evict(-1)
    window.check([1, 2])


def test_values_and_times_must_be_as_many() -> None:
    window = Fiba(MAX)
    with pytest.raises(ValueError, match="2 values cannot be inserted at 3 times"):
        window.bulk_insert([1, 2], times=[1, 2, 3])
    assert len(window) == 0


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"times": [1, 2]},
        {"times": [1, 2], "values": [1]},
        {"times": [2, 1], "values": [1, 2]},
        {"times": [1, math.nan], "values": [1, 2]},
        {"times": [math.nan], "values": [1]},
        {"times": [1, "2"], "values": [1, 2]},
        {"times": "12", "values": [1, 2]},
        {"times": [1, 2], "values": {1: 1, 2: 2}},
        {"times": None, "values": None},
    ],
)
def test_an_altered_snapshot_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(SnapshotError, match="state is not that of a Fiba"):
        Fiba.restore(seal(["Fiba", "max", state]), MAX)


def swap_times(window: Fiba) -> None:
    window._left.times[0] = 100


def forget_parent(window: Fiba) -> None:
    window._right.parent = window._left


def mark_spine(window: Fiba) -> None:
    window._root.children[1].spine = LEFT


def move_finger(window: Fiba) -> None:
    window._left = window._right


def lose_size(window: Fiba) -> None:
    window._size -= 1


def alter_finger_aggregate(window: Fiba) -> None:
    window._left.agg = ()


def alter_inner_aggregate(window: Fiba) -> None:
    window._root.children[1].agg += (0,)


def alter_root_aggregate(window: Fiba) -> None:
    window._root.agg = ()


def shorten_a_branch(window: Fiba) -> None:
    child = window._root.children[1]
    child.values = list(child.agg)
    child.times = [time + child.times[0] for time in range(len(child.agg))]
    child.children = []
    window._size = len(window.query())


@pytest.mark.parametrize(
    "damage",
    [
        swap_times,
        forget_parent,
        mark_spine,
        move_finger,
        lose_size,
        alter_finger_aggregate,
        alter_inner_aggregate,
        alter_root_aggregate,
        shorten_a_branch,
    ],
)
def test_check_notices_damage(damage: Callable[[Fiba], None]) -> None:
    window = Fiba(COLLECT)
    window.bulk_insert(range(40))
    window.check(range(40))
    damage(window)
    with pytest.raises(InvariantError):
        window.check()


def test_check_compares_the_values() -> None:
    window = Fiba(COLLECT)
    window.bulk_insert(range(40))
    with pytest.raises(InvariantError, match="value 39"):
        window.check([*range(39), 0])
    with pytest.raises(InvariantError, match="40 values, not 39"):
        window.check(range(39))
