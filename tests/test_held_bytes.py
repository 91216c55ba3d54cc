"""`counters.state_bytes` against what Python has allocated, and memory that is given back."""

import gc
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest

import muntin as mt
from muntin import policies


class Box:
    """A user's partial: an object with attributes."""

    def __init__(self, items):
        self.items = items
        self.by_name = {"first": items[0]}


def boxes():
    def combine(a, b):
        return Box(a.items[-20:] + b.items[-20:]) if a and b else a or b

    return mt.Aggregate(
        "boxes",
        None,
        lambda v: Box([v]),
        combine,
        lambda box: box and len(box.items),
        columns=("v",),
    )


NUMBERS = {"n": mt.Count(), "sum": mt.Sum("v"), "max": mt.Max("v")}
STATES = {
    "numbers": ({"w": mt.Sliding(500, 10)}, NUMBERS, {}),
    "texts": ({"w": mt.Sliding(500, 10)}, {"max": mt.Max("s"), "first": mt.First("s")}, {}),
    "lists": ({"w": mt.Sliding(500, 10)}, {"all": mt.Collect("v")}, {}),
    "multisets": ({"w": mt.Sliding(500, 100)}, {"usual": mt.Median("v")}, {}),
    "own": ({"w": mt.Sliding(500, 10)}, {"own": boxes()}, {}),
    "trees": ({"w": mt.Sliding(500, 10)}, {"usual": mt.Median("v")}, {"plan": "eager"}),
    "sessions": ({"w": mt.Session(50)}, {"all": mt.Collect("s")}, {}),
    "ranks": ({"w": mt.Sliding(50, 10, measure="count")}, NUMBERS | {"all": mt.Collect("v")}, {}),
    "last rows": ({"w": mt.LastN(10, 100)}, NUMBERS | {"all": mt.Collect("v")}, {}),
    "contexts": ({"w": mt.Punctuation("b")}, NUMBERS | {"all": mt.Collect("v")}, {}),
    "policies": ({"w": mt.Policy(policies.last(40), every=100)}, NUMBERS, {}),
    "changes": ({"w": mt.Sliding(50, 10)}, NUMBERS, {"emit": "changes", "lateness": 400}),
}


@contextmanager
def traced():
    """Give a function that returns the bytes that were allocated since."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]

        def held():
            gc.collect()
            return tracemalloc.get_traced_memory()[0] - before

        yield held
    finally:
        tracemalloc.stop()


def batches(keys, rows, count=2):
    rng = np.random.default_rng(7)
    for i in range(count):
        yield {
            "t": np.sort(rng.integers(1000 * i, 1000 * i + 1000, rows)),
            "k": [f"key {k}" for k in rng.integers(0, keys, rows)],
            "v": rng.integers(1000, 10**6, rows).tolist(),
            "s": [f"text {x}" for x in rng.integers(0, 10**6, rows)],
            "b": rng.random(rows) < 0.1,
        }


def query_of(windows, aggregates, **options):
    options = {"lateness": 100, **options}
    return mt.Query(time="t", keys="k", windows=windows, aggregates=aggregates, **options)


@pytest.mark.parametrize("keys", [10, 400])
@pytest.mark.parametrize("name", STATES)
def test_state_bytes_are_those_that_are_allocated(name, keys):
    windows, aggregates, options = STATES[name]
    plan = options.get("plan", "auto")
    query = query_of(windows, aggregates, **{n: o for n, o in options.items() if n != "plan"})
    data = list(batches(keys, 1500))
    for _ in range(2):  # the first time loops are loaded
        with traced() as held:
            operator = query.operator(plan)
            for i, batch in enumerate(data):
                operator.process(batch)
                operator.advance(1000 * i + 700)
            allocated = held()
    assert 0.5 * allocated < operator.counters.state_bytes < 2 * allocated


def test_what_a_sketch_has_outside_of_python_counts():
    query = query_of({"w": mt.Tumbling(10)}, {"usual": mt.ApproxQuantile("v")}, lateness=0)
    operator = query.operator()
    operator.process({"t": [1] * 9000, "k": [i % 30 for i in range(9000)], "v": [*range(9000)]})
    assert 30 * 1500 < operator.counters.state_bytes < 30 * 8000  # each has 200 numbers or more


@pytest.mark.parametrize("name", STATES)
def test_a_state_that_was_large_and_is_not_holds_little(name):
    windows, aggregates, options = STATES[name]
    plan = options.get("plan", "auto")
    query = query_of(windows, aggregates, **{n: o for n, o in options.items() if n != "plan"})
    operator = query.operator(plan)
    sizes = []
    for batch in batches(1, 6_000):
        operator.process({**batch, "k": ["one"] * 6_000, "b": np.arange(6_000) == 5_999})
        sizes.append(operator.counters.state_bytes)
        operator.advance(int(batch["t"][-1]) - 500)
    for i in range(30):
        last = 4_000 + 700 * i
        operator.process({"t": [last], "k": ["one"], "v": [7], "s": ["x"], "b": [i % 2 == 0]})
        operator.advance(last)
    assert operator.counters.rows_kept + operator.counters.slices < 300
    assert operator.counters.state_bytes < 500_000
    assert max(sizes) > operator.counters.state_bytes


def test_what_was_dropped_is_not_referred_to():
    query = query_of({"w": mt.Tumbling(10)}, {"all": mt.Collect("s")}, lateness=0)
    operator = query.operator()
    for batch in range(3):
        operator.process(
            {
                "t": [20 * batch] * 100,
                "k": list(range(100)),
                "s": [f"{batch} {i}" * 1000 for i in range(100)],
            }
        )
        operator.advance(20 * batch + 10)
    (lane,) = operator._state.lanes
    column, *_ = lane.slices.columns
    assert not [item for item in column.arrays[0] if item is not None]
