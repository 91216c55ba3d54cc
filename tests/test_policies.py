"""Windows that slide by policies: against a list and a linear scan, and the paper's bounds."""

import datetime as dt
import math
import random
from contextlib import suppress
from decimal import Decimal
from itertools import count, repeat

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import muntin as mt
from muntin import policies
from muntin.aggregates import close
from muntin.testing import LawError, check_policy
from tests import catalogue
from tests.counting import counted, spans
from tests.oracle import Oracle

TREES = pytest.mark.parametrize("algorithm", ["Amta", "LogMta"])
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


class PolicyOracle(Oracle):
    """A list, of which after each insertion the longest run goes for which the policy holds."""

    def __init__(self, aggregate, policy):
        super().__init__(aggregate)
        self.policy = policy
        self.seen = Oracle(getattr(policy, "aggregate", aggregate))

    def insert(self, value):
        super().insert(value)
        self.seen.insert(value)
        holds, total = getattr(self.policy, "holds", self.policy), self.seen.query()
        runs = range(len(self), 0, -1)
        n = next((n for n in runs if holds(total, self.seen.range_query(0, n))), 0)
        self.evict(n)
        self.seen.evict(n)

    def enforce(self, now):
        """Let the longest run go that has expired by a time."""
        runs = range(len(self), 0, -1)
        n = next((n for n in runs if expired(self.policy, now, self.seen.range_query(0, n))), 0)
        self.evict(n)
        self.seen.evict(n)
        return n


def expired(policy, now, old):
    """Whether a run has expired under a policy, or under a part of it."""
    if getattr(policy, "parts", ()):
        return any(expired(*pair) for pair in zip(policy.parts, [now] * 2, old, strict=True))
    expires = getattr(policy, "expires", None)
    return bool(expires and expires(now, old))


def longer_than(total, old):
    """A user's own policy, on results of Collect: at most six values that differ."""
    return len(set(total)) > 6 and len(old) <= len(total) - 4


small = st.integers(0, 9)
or_null = st.one_of(small, st.none())
ANY = {
    "last": st.builds(policies.last, st.integers(1, 40)),
    "within": st.builds(policies.within, st.integers(1, 20)),
    "sum": st.builds(policies.sum_at_most, st.integers(-1, 60)),
    "max": st.just(policies.until_max()),
    "run": st.just(policies.until_longest_run()),
    "nothing": st.just(policies.SlidePolicy("nothing", mt.Count(), lambda *_: False)),
    "all": st.just(policies.SlidePolicy("all", mt.Sum(), lambda total, _: (total or 0) > 50)),
}
any_policy = st.one_of(*ANY.values())
either = st.builds(lambda a, b: a | b, any_policy, any_policy)


def machine(algorithm, policy, aggregate, values):
    """Return a state machine that drives a window under one of the policies."""

    class Window(RuleBasedStateMachine):
        @initialize(policy=policy, inserted=st.lists(values, max_size=30))
        def start(self, policy, inserted):
            self.policy = policy
            self.window = mt.PolicyWindow(aggregate, policy, algorithm=algorithm)
            self.oracle = PolicyOracle(aggregate, policy)
            self.bulk_insert(inserted)

        @rule(value=values)
        def insert(self, value):
            self.window.insert(value)
            self.oracle.insert(value)

        @rule(values=st.lists(values, max_size=30))
        def bulk_insert(self, values):
            self.window.bulk_insert(values)
            for value in values:
                self.oracle.insert(value)

        @rule(now=st.integers(0, 25))
        def enforce(self, now):
            assert self.window.enforce(now) == self.oracle.enforce(now)

        @rule()
        def restart(self):
            saved = self.window.snapshot()
            self.window = mt.PolicyWindow.restore(
                saved, aggregate, self.policy, algorithm=algorithm
            )

        @invariant()
        def is_what_the_policy_left(self):
            assert len(self.window) == len(self.oracle)
            assert self.window.inserted - self.window.evicted == len(self.oracle)
            assert close(self.window.query(), self.oracle.query())
            self.window.check(self.oracle.values)

    return Window


@TREES
@pytest.mark.parametrize("kind", [*ANY, "either", "own"])
def test_equals_the_oracle(algorithm, kind):
    policy = {**ANY, "either": either, "own": st.just(longer_than)}[kind]
    run_state_machine_as_test(
        machine(algorithm, policy, mt.Collect(nulls=True), or_null),
        settings=settings(QUICK, max_examples=20, stateful_step_count=15),
    )


@TREES
@pytest.mark.parametrize("name", ["Sum", "Median", "LongestRun", "Product"])
def test_any_aggregate_shares_the_tree_with_the_policy(algorithm, name):
    aggregate, _ = catalogue.make(name)
    run_state_machine_as_test(
        machine(algorithm, either, aggregate, small),
        settings=settings(QUICK, max_examples=6, stateful_step_count=10),
    )


def test_a_policy_may_look_at_other_columns_than_the_aggregate():
    """Experiment 5: dimensions share the structure and the policy."""
    aggregate = mt.Product(top=mt.Max("watts"), usual=mt.Mean("volts"), rows=mt.Count())
    policy = policies.within("1 min", "at") | policies.sum_at_most(100, "watts")
    window, oracle = mt.PolicyWindow(aggregate, policy), PolicyOracle(aggregate, policy)
    rng, at = random.Random(5), dt.datetime(2026, 1, 31)
    for _ in range(300):
        at += dt.timedelta(seconds=rng.choice([0, 1, 2, 30]))
        row = {"at": at, "watts": rng.randrange(30), "volts": rng.randrange(220, 240)}
        window.insert(row)
        oracle.insert(row)
        assert window.query() == oracle.query()
    with pytest.raises(KeyError, match="watts"):
        window.insert({"at": at, "volts": 230})
    assert window.query() == oracle.query()


# The paper's examples


def contents(policy, values):
    window = mt.PolicyWindow(mt.Collect(nulls=True), policy)
    window.bulk_insert(values)
    return window.query()


def test_the_running_example():
    """Section 3.2: the updates that add up to 10 at most, and their maximum."""
    window = mt.PolicyWindow(mt.Max(), policies.sum_at_most(10))
    window.bulk_insert([2, 2, 3, 3])
    assert (window.query(), len(window)) == (3, 4)
    window.insert(4)
    assert (window.query(), len(window)) == (4, 3)


def test_figure_2():
    """A window of four units of time, from which timestamp 8 evicts all others."""
    window = mt.PolicyWindow(mt.Max(), lambda total, old: total - old >= 4)
    window.bulk_insert([1, 2, 3, 4])
    assert len(window) == 4
    window.insert(8)
    assert (window.query(), len(window)) == (8, 1)


@pytest.mark.parametrize(
    ("policy", "values", "left"),
    [
        (policies.sum_at_most(10), [3, 11], []),
        (policies.sum_at_most(10), [3, 11, 4], [4]),
        (policies.sum_at_most(10), [3, math.inf, 4, 5], [4, 5]),
        (policies.sum_at_most(10), [3, math.nan, 4, 5], [4, 5]),
        (policies.sum_at_most(10), [9, None, 2, None], [None, 2, None]),
        (policies.sum_at_most(Decimal("0.3")), [Decimal("0.1")] * 4, [Decimal("0.1")] * 3),
        (policies.until_max(), [3, 7, 5, 7, 2], [7, 5, 7, 2]),
        (policies.until_max(), [3, math.nan, 7], [math.nan, 7]),
        (policies.until_max(), [None, None, 3, None], [3, None]),
        (policies.until_longest_run(), [1, 2, 3, 0, 1, 2], [1, 2, 3, 0, 1, 2]),
        (policies.until_longest_run(), [None, 4, 0, None, 1, 2], [0, None, 1, 2]),
        (policies.within(3), [0, 1, 2, 3], [1, 2, 3]),
        (policies.within(3), [5, None, None, 9], [9]),
        (policies.within("500 ms"), [0, 0.25e6, 0.5e6], [0.25e6, 0.5e6]),
        (policies.within("1 s"), [np.datetime64(k, "s") for k in (1, 2)], [np.datetime64(2, "s")]),
        (policies.last(2) | policies.sum_at_most(5), [1, 1, 5], [5]),
        (policies.last(2) | policies.sum_at_most(50), [1, 1, 5], [1, 5]),
    ],
)
def test_what_is_left(policy, values, left):
    assert close(contents(policy, values), left)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: policies.last(0), ValueError, "1 or more"),
        (lambda: policies.last("3"), TypeError, "integer"),
        (lambda: policies.within(0), ValueError, "above zero"),
        (lambda: policies.within("soon"), ValueError, "not a duration"),
        (lambda: policies.last(3) | len, TypeError, "SlidePolicy"),
        (lambda: policies.SlidePolicy("x", 3, len), TypeError, "'x' needs an aggregate"),
        (lambda: policies.SlidePolicy("x", mt.Sum(), 3), TypeError, "'x' needs a function"),
        (lambda: mt.PolicyWindow(3, policies.last(3)), TypeError, "needs an aggregate"),
        (lambda: mt.PolicyWindow(mt.Sum(), 3), TypeError, "mt.policies.last"),
        (lambda: mt.PolicyWindow(mt.Sum(), policies.last(3), algorithm="Daba"), ValueError, "Daba"),
        (lambda: mt.Policy(len, 10), TypeError, "SlidePolicy"),
        (lambda: mt.Policy(policies.last(3), 0), ValueError, "above zero"),
    ],
)
def test_mistakes_are_told(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_state_under_another_policy_is_refused():
    saved = mt.PolicyWindow(mt.Sum(), policies.last(5)).snapshot()
    with pytest.raises(mt.SnapshotError, match=r"'sum under last\(5\)', not 'sum under last\(6\)'"):
        mt.PolicyWindow.restore(saved, mt.Sum(), policies.last(6))
    with pytest.raises(mt.SnapshotError, match="Amta"):
        mt.PolicyWindow.restore(saved, mt.Sum(), policies.last(5), algorithm="LogMta")


# Policies that are not monotone


@pytest.mark.parametrize("kind", ANY)
def test_ready_made_policies_are_monotone(kind):
    @settings(QUICK)
    @given(policy=ANY[kind], samples=st.lists(or_null, min_size=1, max_size=8))
    def monotone(policy, samples):
        check_policy(policy, samples)

    monotone()


def test_a_policy_that_is_not_monotone_is_found_and_the_run_named():
    with pytest.raises(LawError, match=r"sum_at_most\(3\): .* \[2, -4, 5\] .* 3 but .* oldest 1"):
        check_policy(policies.sum_at_most(3), [2, -4, 5])

    def every_other(_total, old):
        return old % 2 == 0

    with pytest.raises(LawError, match="every_other: .* oldest 2 but not for the oldest 1"):
        check_policy(every_other, "abc", mt.Count())
    check_policy(longer_than, range(12), mt.Collect())


def test_check_policy_says_what_it_needs():
    with pytest.raises(TypeError, match="aggregate="):
        check_policy(longer_than, [1, 2])
    with pytest.raises(ValueError, match="at least one sample"):
        check_policy(policies.last(3), [])


@TREES
@QUICK
@given(answers=st.lists(st.booleans(), min_size=40, max_size=40), n=st.integers(1, 40))
def test_under_a_policy_that_is_not_monotone_a_run_leaves_for_which_it_held(algorithm, answers, n):
    window = mt.ALGORITHMS[algorithm](mt.Count())
    window.bulk_insert(range(n))
    evicted = window.evict_while(lambda total, old: answers[old - 1] and total == n)
    assert evicted == 0 or answers[evicted - 1]
    assert len(window) == window.query() == n - evicted
    window.check()


# Policies and combines that raise


@TREES
@pytest.mark.parametrize("who", ["policy", "combine"])
def test_what_raises_leaves_the_window_as_it_was(algorithm, who):
    left = [math.inf]

    def fragile(call):
        def counted_down(*arguments):
            left[0] -= 1
            if left[0] < 0:
                raise ArithmeticError("no")
            return call(*arguments)

        return counted_down

    rng = random.Random(11)
    for n in [1, 2, 3, 7, 16, 33, 100]:
        for _ in range(30):
            combine = (lambda a, b: a + b) if who == "policy" else fragile(lambda a, b: a + b)
            collect = mt.Aggregate("collect", (), lift=lambda v: (v,), combine=combine)
            window, offset, k = (
                mt.ALGORITHMS[algorithm](collect),
                rng.randrange(9),
                rng.randint(1, n),
            )
            left[0] = math.inf
            window.bulk_insert(range(n + offset))
            window.bulk_evict(offset)

            def holds(_total, old, k=k):
                return len(old) <= k

            left[0] = rng.randrange(20)
            values = list(range(offset, offset + n))
            with suppress(ArithmeticError):
                values = values[window.evict_while(fragile(holds) if who == "policy" else holds) :]
            left[0] = math.inf
            window.check(values)
            assert window.query() == tuple(values)


def test_a_value_is_in_when_the_policy_raises_and_the_policy_is_asked_again():
    broken = [False]

    def three(total, old):
        if broken[0]:
            raise ArithmeticError("no")
        return total - old >= 3

    window = mt.PolicyWindow(mt.Count(), three)
    window.bulk_insert("abc")
    broken[0] = True
    for held in (4, 5):
        with pytest.raises(ArithmeticError):
            window.insert("d")
        assert len(window) == held
    broken[0] = False
    window.insert("e")
    assert len(window) == window.query() == 3


# The paper's bounds


def length(partial):
    return partial[1] - partial[0] + 1


@TREES
@pytest.mark.parametrize("n", [8, 9, 15, 16, 33, 64, 100, 1 << 10, 1 << 14])
def test_a_run_is_found_and_evicted_in_four_log_n(algorithm, n):
    rng = random.Random(n)
    every = range(n + 1) if n <= 64 else [*range(40), *(rng.randint(0, n) for _ in range(30))]
    lengths = {*every, n // 2 - 1, n // 2, n // 2 + 1, n - 2, n - 1, n}
    for offset in {0, 1, n // 3, n // 2, n - 1}:
        saved = mt.ALGORITHMS[algorithm](spans())
        saved.bulk_insert(range(n + offset))
        saved.bulk_evict(offset)
        saved = saved.snapshot()
        for k in lengths if n < 1 << 14 else rng.sample(sorted(lengths), 8):
            aggregate, counter = counted(spans())
            restore = mt.ALGORITHMS[algorithm].restore
            window = restore(saved, aggregate, trust_functions=True)  # combine counts now
            assert window.evict_while(lambda _, old, k=k: length(old) <= k) == k
            assert counter.combines <= 4 * math.log2(n)
            assert window.query() == ((offset + k, offset + n - 1) if k < n else None)


def gaps(rng):
    """Return how many values are to be left after each insertion: jumps, slides, and whole windows."""
    while True:
        size = rng.choice([0, 1, 2, 5, 30, 200, 2000])
        for _ in range(rng.choice([1, 10, 300])):
            yield size


SIZES = {
    "constant": lambda _: repeat(1000),
    "growing": lambda _: repeat(math.inf),
    "two at a time": lambda _: (1000 + i % 2 for i in count()),
    "sawtooth": lambda _: (math.inf if i % 777 else 0 for i in count()),
    "jumps": gaps,
}


@pytest.mark.parametrize("sizes", SIZES)
def test_an_insertion_is_amortised_constant(sizes):
    aggregate, counter = counted(spans())
    window, keep = mt.Amta(aggregate), SIZES[sizes](random.Random(3))
    n = 20_000
    for position in range(n):
        window.insert(position)
        size = next(keep)
        window.evict_while(lambda total, old, size=size: length(total) - length(old) >= size)
    assert counter.combines <= 6 * n


def test_nothing_to_evict_costs_the_total_alone():
    aggregate, counter = counted(spans())
    window = mt.Amta(aggregate)
    window.bulk_insert(range(5000))
    before = counter.combines
    assert window.evict_while(lambda *_: False) == 0
    assert counter.combines - before <= 1


def test_an_empty_window_asks_nothing():
    window = mt.Amta(mt.Sum())
    assert window.evict_while(lambda *_: 1 / 0) == 0


@TREES
@pytest.mark.parametrize("now", [0, 14, 20, 99])
def test_enforced_at_a_time_a_policy_of_time_leaves_what_is_not_older(algorithm, now):
    aged = policies.SlidePolicy(
        "aged", mt.Max("t"), lambda *_: False, expires=lambda now, old: now - old >= 6
    )
    rows = [{"t": t, "watts": -t} for t in (1, 4, 4, 7, 13)]
    for policy, age in (
        (policies.within(10, "t"), 10),
        (policies.within(10, "t") | policies.last(9), 10),
        (policies.until_max("watts") | policies.within(10, "t") | aged, 6),
    ):
        window = mt.PolicyWindow(mt.Collect("t"), policy, algorithm=algorithm)
        window.bulk_insert(rows)
        before = window.query()
        left = [t for t in before if now - t < age]
        assert window.enforce(now) == len(before) - len(left)
        assert window.query() == left
        assert window.enforce(now) == 0


def test_other_policies_let_nothing_go_as_time_passes():
    for policy in (policies.last(3), lambda total, old: total - old > 3):
        window = mt.PolicyWindow(mt.Count(), policy)
        window.bulk_insert([1, 2])
        assert window.enforce(10**9) == 0
        assert len(window) == 2


@pytest.mark.parametrize("n", [10, 10_000])
def test_enforcing_costs_log_n_combines(n):
    watched, counter = counted(mt.Max("t"))
    policy = policies.SlidePolicy(
        "aged", watched, lambda *_: False, expires=lambda now, old: now - old >= 5
    )
    window = mt.PolicyWindow(mt.Count(), policy)
    window.bulk_insert({"t": t} for t in range(n))
    assert counter.during("enforce", window.enforce, n) == n - 4
    assert counter.worst["enforce"] <= 4 * n.bit_length()
