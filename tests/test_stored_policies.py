"""Windows under policies in stores: random policies, restarts and crashes against the oracle."""

import random
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

import muntin as mt
from muntin import policies
from muntin.aggregates import close
from muntin.stores import StoredAmta
from tests.test_policies import QUICK, PolicyOracle, any_policy, either, or_null
from tests.test_store_failures import Failing
from tests.test_stores import settled

AGGREGATES = {
    "Collect": mt.Collect(nulls=True),
    "several": mt.Product(first=mt.First(), rows=mt.Count(), usual=mt.Median(), sum=mt.Sum()),
}


def machine(opener, aggregate):
    """Return a state machine that drives one window in a store, and closes or kills it now and then."""
    ids = count()

    class Window(RuleBasedStateMachine):
        @initialize(
            policy=st.one_of(any_policy, either),
            buffer=st.integers(2, 9),
            values=st.lists(or_null, min_size=20, max_size=40),
        )
        def start(self, policy, buffer, values):
            self.id, self.policy = str(next(ids)), policy
            self.oracle = PolicyOracle(aggregate, policy)
            self.history = [[]]
            self.store = opener()
            self.open(buffer)
            self.insert(values)

        def open(self, buffer):
            self.window = mt.PolicyWindow(
                aggregate, self.policy, self.store, window_id=self.id, buffer=buffer
            )

        @rule(values=st.lists(or_null, min_size=1, max_size=30))
        def insert(self, values):
            self.window.bulk_insert(values)
            for value in values:
                self.oracle.insert(value)
                self.history.append([*self.oracle.values])

        @rule()
        def flush(self):
            self.window.flush()

        @rule(buffer=st.integers(2, 40))
        def restart(self, buffer):
            self.window.close()
            self.store.close()
            self.store = opener()
            self.open(buffer)

        @rule(buffer=st.integers(2, 9))
        def crash(self, buffer):
            before = self.window.inserted
            self.store.release(self.id)  # as if the process had ended
            self.open(buffer)
            assert self.window.inserted <= before
            del self.history[self.window.inserted + 1 :]
            self.oracle.values = [*self.history[-1]]
            self.oracle.seen.values = [*self.history[-1]]

        @rule()
        def take_a_snapshot(self):
            saved = self.window.snapshot()
            twin = mt.PolicyWindow.restore(saved, aggregate, self.policy)
            twin.check(self.oracle.values)

        @invariant()
        def is_what_the_policy_left(self):
            assert len(self.window) == len(self.oracle)
            assert self.window.inserted == len(self.history) - 1
            assert close(self.window.query(), self.oracle.query())
            self.window.check(self.oracle.values)

        def teardown(self):
            self.window.close()
            self.store.close()

    return Window


@pytest.mark.parametrize("name", AGGREGATES)
def test_equals_the_oracle(opener, name):
    run_machine(
        machine(opener, AGGREGATES[name]),
        settings=settings(QUICK, max_examples=15, stateful_step_count=12),
    )


def test_any_number_of_values_leaves_at_once(opener):
    """A policy of one's own over several aggregates, in a window of thousands of values."""

    def same_day(total, old):
        return old["day"] < total["day"]

    aggregate = mt.Product(day=mt.Max("day"), peak=mt.Max("watts"), rows=mt.Count())
    rng, oracle = random.Random(3), PolicyOracle(aggregate, same_day)
    with opener() as store, mt.PolicyWindow(aggregate, same_day, store, buffer=64) as window:
        for day, rows in enumerate([3000, 1, 700, 2, 40]):
            for _ in range(rows):
                row = {"day": day, "watts": rng.randrange(1000)}
                window.insert(row)
                oracle.values.append(row)
            del oracle.values[:-rows]
            assert window.query() == oracle.query()
            assert window.query()["rows"] == len(window) == rows
        window.check(oracle.values)


class Counting(Failing):
    """Fails at the n-th read or write from now."""

    def fail_after(self, n):
        calls = count()
        self.fails = lambda: next(calls) >= n


@pytest.mark.parametrize("seed", range(8))
def test_an_insertion_that_fails_in_the_store_can_be_repeated(seed, monkeypatch):
    rng, store, taken_back = random.Random(seed), Counting(), []
    undo = StoredAmta._take_back

    def take_back(window, n, *held):
        taken_back.append(n)
        undo(window, n, *held)

    monkeypatch.setattr(StoredAmta, "_take_back", take_back)
    aggregate = mt.Collect()
    policy = policies.sum_at_most(200) | policies.until_longest_run()
    oracle = PolicyOracle(aggregate, policy)
    window = mt.PolicyWindow(aggregate, policy, store, window_id="w", buffer=rng.choice([2, 4]))
    for _ in range(200):
        value = rng.choice([0, 1, 2, 3, 3, 50])
        before = window.inserted, window.evicted
        store.fail_after(rng.randrange(2))
        while True:
            try:
                window.insert(value)
                break
            except mt.StoreError:
                assert (window.inserted, window.evicted) == before
                assert window.query() == oracle.query()
                store.fails = lambda: False
                window.check(oracle.values)
                store.fail_after(rng.randrange(6))
        store.fails = lambda: False
        settled(store)
        oracle.insert(value)
        assert window.query() == oracle.query()
    window.check(oracle.values)
    assert taken_back


@pytest.mark.parametrize("buffer", [2, 16])
def test_a_window_in_a_store_is_always_as_the_policy_left_it(buffer):
    """A crash takes it back to the last commit, which is never between an insertion and its eviction."""
    aggregate, policy = mt.Collect(), policies.sum_at_most(60) | policies.until_max()
    store, oracle, rng = mt.MemoryStore(), PolicyOracle(aggregate, policy), random.Random(buffer)
    window = mt.PolicyWindow(aggregate, policy, store, window_id="w", buffer=buffer)
    history = [[]]
    for _ in range(300):
        value = rng.choice([0, 1, 2, 7, 70])
        window.insert(value)
        oracle.insert(value)
        history.append(oracle.query())
        assert window.query() == oracle.query()
        crashed = reopened(store, aggregate, policy)
        assert window.inserted - buffer <= crashed.inserted <= window.inserted
        assert crashed.query() == history[crashed.inserted]
        assert len(crashed) == len(history[crashed.inserted])
    window.close()
    assert reopened(store, aggregate, policy).query() == oracle.query()


def reopened(store, aggregate, policy):
    """Open what is in a store, as after a crash, without touching it."""
    store.soon(len, ()).result()  # what goes on in the background is done
    copy = mt.MemoryStore()
    copy._windows["w"] = dict(store._windows["w"])
    return mt.PolicyWindow(aggregate, policy, copy, window_id="w")


def test_a_window_is_opened_by_its_id_and_under_its_policy():
    store = mt.MemoryStore()
    with mt.PolicyWindow(mt.Max(), policies.last(100), store, window_id="readings") as window:
        window.bulk_insert(range(5000))
        saved = window.snapshot()
        with pytest.raises(mt.StoreError, match="already open"):
            mt.PolicyWindow(mt.Max(), policies.last(100), store, window_id="readings")
    with mt.PolicyWindow(mt.Max(), policies.last(100), store, window_id="readings") as window:
        assert (window.query(), len(window), window.inserted) == (4999, 100, 5000)
        window.check(range(4900, 5000))
        window.insert(7000)
        window.flush()
    with pytest.raises(mt.StoreError, match=r"last\(99\)"):
        mt.PolicyWindow(mt.Max(), policies.last(99), store, window_id="readings")
    assert len(mt.PolicyWindow(mt.Max(), policies.last(100), store)) == 0
    assert mt.PolicyWindow.restore(saved, mt.Max(), policies.last(100)).query() == 4999
    with pytest.raises(ValueError, match="in a store is an Amta"):
        mt.PolicyWindow(mt.Max(), policies.last(9), store, algorithm="LogMta")


def test_objects_need_an_encoder():
    own = mt.Aggregate("own", None, lift=lambda _: object(), combine=lambda a, b: a or b)
    window = mt.PolicyWindow(own, policies.last(3), mt.MemoryStore())
    with pytest.raises(TypeError, match="encode= and decode="):
        window.insert(1)
    assert (len(window), window.inserted) == (0, 0)
