"""A combine that raises, anywhere, loses nothing: the window is as before the call or as after it."""

import random

import pytest

import muntin as mt
from tests.oracle import Oracle


class Fragile:
    """A collecting aggregate whose combine raises once, when it is told to."""

    def __init__(self):
        self.left = None
        self.aggregate = mt.Aggregate(
            "fragile",
            (),
            lift=lambda v: (v,),
            combine=self.combine,
            inverse=self.inverse,
        )

    def combine(self, a, b):
        self.count()
        return a + b

    def inverse(self, total, oldest):
        self.count()
        return total[len(oldest) :]

    def count(self):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise ArithmeticError("no")


@pytest.mark.parametrize("algorithm", mt.ALGORITHMS.values(), ids=mt.ALGORITHMS)
@pytest.mark.parametrize("seed", range(40))
def test_a_failing_combine_loses_nothing(algorithm, seed):
    rng = random.Random(seed)
    fragile = Fragile()
    options = {"range": rng.randint(4, 12)} if algorithm in (mt.Sba, mt.Pba) and seed % 2 else {}
    window = algorithm(fragile.aggregate, **options)
    values = []
    for position in range(80):
        action = rng.choice(["insert", "insert", "evict", "bulk_evict", "query"])
        n = rng.randint(0, len(values))
        after = {
            "insert": [*values, position],
            "evict": values[1:],
            "bulk_evict": values[n:],
            "query": values,
        }[action]
        arguments = {"insert": [position], "bulk_evict": [n]}.get(action, [])
        if action == "evict" and not values:
            continue
        fragile.left = rng.randint(0, 6) if rng.random() < 0.5 else None
        try:
            getattr(window, action)(*arguments)
            values = after
        except ArithmeticError:
            held = len(window)
            if action == "bulk_evict":  # one by one: some may have gone before the error
                values = values[len(values) - held :]
            else:
                assert held in (len(values), len(after))
                values = after if held == len(after) else values
        fragile.left = None
        expected = Oracle(fragile.aggregate)
        expected.values = values
        assert window.query() == expected.query()
        window.check(values)


@pytest.mark.parametrize("algorithm", mt.ALGORITHMS.values(), ids=mt.ALGORITHMS)
def test_a_refused_value_is_not_counted(algorithm):
    window = algorithm(mt.Sum())
    window.bulk_insert([1, 2, 3])
    for _ in range(3):
        try:
            window.insert("x")
        except TypeError:
            continue
        window.bulk_evict(len(window))  # not combined yet: it can still leave
        window.bulk_insert([1, 2, 3])
    assert (window.query(), len(window)) == (6, 3)
