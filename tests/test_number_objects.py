"""The fifteen algorithms compute with Python's numbers, which neither overflow nor round."""

import datetime as dt
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import muntin as mt
from tests.number_oracle import AGGREGATES

BIG = Decimal("12345678901234567890123456789012345678.9")
OBJECTS: dict[str, list[Any]] = {
    "int": [2**62, 2**62, 2**63, -(2**64), 2**200, 1, 0, -(2**62) - 5],
    "Fraction": [Fraction(1, 3), Fraction(2**80, 7), Fraction(-1, 9), Fraction(5)],
    "Decimal": [
        BIG,
        Decimal("0.00000000000000000000000000001"),
        BIG.copy_negate(),
        Decimal("0.1"),
        Decimal(3),
    ],
    "bool": [True, True, True, False],
    "numpy bool": [np.True_, np.True_, np.True_, np.False_],
    **{
        kind: [np.dtype(kind).type(x) for x in (np.iinfo(kind).max, np.iinfo(kind).min, 1)] * 2
        + [np.dtype(kind).type(np.iinfo(kind).max)] * 3
        for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "mixed": [1, np.int64(2**62), True, np.int64(2**62), Fraction(1, 2), np.uint64(2**64 - 1)],
}


def exactly(value: Any) -> Fraction:
    return Fraction(value.item() if isinstance(value, np.generic) else value)


def middle(values: list[Fraction]) -> Fraction:
    ordered = sorted(values)
    return (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2


EXACT_OBJECTS = {
    "Sum": sum,
    "Mean": lambda x: sum(x) / len(x),
    "Range": lambda x: max(x) - min(x),
    "Min": min,
    "Max": max,
    "Median": middle,
}


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("name", EXACT_OBJECTS)
@pytest.mark.parametrize("algorithm", mt.ALGORITHMS)
def test_objects_neither_overflow_nor_round(algorithm, name, kind):
    aggregate, make = AGGREGATES[name].make(), mt.ALGORITHMS[algorithm]
    if make.missing(aggregate):
        with pytest.raises(TypeError, match=algorithm):
            make(aggregate)
        return
    window, held, rng = make(aggregate), [], random.Random(algorithm + name + kind)
    objects = OBJECTS[kind]
    if kind == "mixed" and name in ("Min", "Max", "Range"):  # NumPy cannot compare with fractions
        objects = [x for x in objects if not isinstance(x, Fraction)]
    for _ in range(30):
        if len(held) > 4 or (held and rng.random() < 0.2):
            window.evict()
            held.pop(0)
        else:
            held.append(rng.choice(objects))
            window.insert(held[-1])
        if held:
            exact, result = EXACT_OBJECTS[name](list(map(exactly, held))), window.query()
            rounds = name in ("Mean", "Median")
            slack = abs(exact) * Fraction(1, 2**52 if isinstance(result, float) else 10**26)
            assert abs(exactly(result) - exact) <= (slack if rounds else 0), (held, result)
        else:
            assert window.query() is None


@pytest.mark.parametrize("algorithm", mt.ALGORITHMS)
def test_sums_of_text_are_refused_one_by_one(algorithm):
    window = mt.ALGORITHMS[algorithm](mt.Sum())
    window.insert(1)
    with pytest.raises(TypeError, match="sum|Concat"):
        window.bulk_insert("abcdefgh")
    assert window.query() == 1


@pytest.mark.parametrize("algorithm", ["DabaLite", "TwoStacksLite", "FlatFat", "Fiba", "Recalc"])
def test_means_of_times_one_by_one(algorithm):
    day = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
    for first, second, mean in [
        (day, day + dt.timedelta(hours=1), day + dt.timedelta(minutes=30)),
        (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31), dt.datetime(5000, 7, 2)),
        (dt.timedelta(1), dt.timedelta(3), dt.timedelta(2)),
        (dt.timedelta(microseconds=1), dt.timedelta(microseconds=2), dt.timedelta(microseconds=2)),
        (dt.date(2026, 1, 1), dt.date(2026, 1, 3), dt.date(2026, 1, 2)),
    ]:
        for aggregate in (mt.Mean(), mt.Median()):
            window = mt.ALGORITHMS[algorithm](aggregate)
            window.bulk_insert([first, None, second])
            assert window.query() == mean
