"""Windows over the number of rows, out of order: random streams of many keys against the definition."""

import random

import pytest

import muntin as mt
from tests.test_context_windows import follow
from tests.window_oracle import WindowOracle

AGGREGATES = {"all": mt.Collect("v"), "sum": mt.Sum("v"), "max": mt.Max("v")}


def a_batch(draw, now, keys, numbers):
    rows = []
    for _ in range(draw.choice([1, 3, 30])):
        now += draw.choice([0, 0, 1, 2])
        t = now - draw.choice([0, 0, 0, 0, 0, 1, 3, 30])
        rows.append({"t": t, "k": draw.choice(keys), "v": next(numbers)})
    return now, rows


def a_window(draw):
    if draw.random() < 0.2:
        return mt.Sliding(draw.randint(1, 4), draw.randint(4, 9), measure="count")
    return mt.Sliding(draw.randint(1, 12), draw.randint(1, 5), measure="count")


def check_a_stream(seed):
    draw = random.Random(seed)
    lateness = draw.choice([0, 3, 20])
    windows = {f"w{i}": a_window(draw) for i in range(draw.choice([1, 1, 2]))}
    chosen = {name: AGGREGATES[name] for name in draw.sample([*AGGREGATES], draw.randint(1, 3))}
    query = mt.Query(time="t", keys=("k",), windows=windows, aggregates=chosen, lateness=lateness)
    operator = query.operator(draw.choice(["auto", "eager"]))
    oracle = WindowOracle(windows, chosen, lateness, keys=("k",))
    current, now, numbers = {}, 0, iter(range(10_000))
    keys = draw.choice(["a", "ab", "abcdefghijkl"])
    for _ in range(draw.randint(2, 15)):
        now, rows = a_batch(draw, now, keys, numbers)
        follow(current, operator.process(rows), chosen)
        oracle.process(rows)
        if draw.random() < 0.6:
            watermark = now - draw.choice([0, 2, 8])
            follow(current, operator.advance(watermark), chosen)
            oracle.advance(watermark)
        if draw.random() < 0.2:
            operator = query.restore(operator.snapshot())
        assert current == oracle.table(), seed


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_random_streams_give_the_windows_of_the_definition(first_seed):
    for seed in range(first_seed, first_seed + 50):
        check_a_stream(seed)


def test_rows_behind_others_are_added_to_their_slice_and_not_folded_with_it():
    combined = []

    def combine(a, b):
        combined.append((a, b))
        return a + b

    own = mt.Aggregate("own", 0, lambda v: v, combine, columns=("v",))
    query = mt.Query(
        time="t", windows={"w": mt.Tumbling(1000, measure="count")}, aggregates={"s": own}
    )
    operator = query.operator()
    for t in range(500):
        operator.process({"t": [t], "v": [1]})
        operator.advance(t)
    assert len(combined) <= 500
