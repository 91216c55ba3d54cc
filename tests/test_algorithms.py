"""One state machine over all algorithms and all aggregates, against the oracle."""

import pytest
from hypothesis import HealthCheck, settings
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
from tests import catalogue
from tests.oracle import Oracle


def machine(algorithm, aggregate_name):
    """Return a state machine class that drives one algorithm with one aggregate."""
    aggregate, inputs = catalogue.make(aggregate_name)

    class Window(RuleBasedStateMachine):
        @initialize(inserted=st.lists(inputs, max_size=20))
        def start(self, inserted):
            self.window = algorithm(aggregate)
            self.oracle = Oracle(aggregate)
            self.bulk_insert(inserted)

        @rule(value=inputs)
        def insert(self, value):
            self.window.insert(value)
            self.oracle.insert(value)

        @precondition(lambda self: len(self.oracle))
        @rule()
        def evict(self):
            self.window.evict()
            self.oracle.evict()

        @rule(values=st.lists(inputs, max_size=30))
        def bulk_insert(self, values):
            self.window.bulk_insert(values)
            for value in values:
                self.oracle.insert(value)

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
                assert same_result(aggregate, self.window.query(), self.oracle.query())

        @rule()
        def restart(self):
            self.window = algorithm.restore(self.window.snapshot(), aggregate)

        @rule()
        def refuse(self):
            n = len(self.oracle)
            with pytest.raises(IndexError):
                self.window.bulk_evict(n + 1)
            with pytest.raises(ValueError, match="-1"):
                self.window.bulk_evict(-1)
            if not n:
                with pytest.raises(IndexError):
                    self.window.evict()

        @invariant()
        def is_the_fold_of_its_values(self):
            assert len(self.window) == len(self.oracle)
            assert same_result(aggregate, self.window.query(), self.oracle.query())
            self.window.check(self.oracle.values)

    return Window


@pytest.mark.parametrize("algorithm", mt.ALGORITHMS.values(), ids=mt.ALGORITHMS)
@pytest.mark.parametrize("aggregate_name", catalogue.ALL)
def test_equals_the_oracle(algorithm, aggregate_name):
    if algorithm.missing(catalogue.make(aggregate_name)[0]):
        with pytest.raises(TypeError, match=algorithm.__name__):
            algorithm(catalogue.make(aggregate_name)[0])
        return
    thorough, often = aggregate_name in catalogue.THOROUGH, aggregate_name in catalogue.OFTEN
    run_state_machine_as_test(
        machine(algorithm, aggregate_name),
        settings=settings(
            max_examples=60 if thorough else 8 if often else 2,
            stateful_step_count=25 if thorough else 12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("aggregate_name", ["Collect", "Sum"])
@pytest.mark.parametrize("options", [{"range": 7}, {"range": 9, "chunk": 2}, {"chunk": 1}])
@pytest.mark.parametrize("algorithm", [mt.Sba, mt.Pba])
def test_a_range_is_a_hint_and_no_limit(algorithm, options, aggregate_name):
    """Windows with a range take any number of values, in any order of operations."""

    class Ranged(algorithm):
        def __init__(self, aggregate):
            super().__init__(aggregate, **options)

    run_state_machine_as_test(
        machine(Ranged, aggregate_name),
        settings=settings(max_examples=40, stateful_step_count=20, deadline=None),
    )


def test_the_catalogue_is_complete():
    assert set(catalogue.INPUTS) == set(mt.AGGREGATES)
