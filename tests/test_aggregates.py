"""What each aggregate means: against the standard library and NumPy, with nulls and NaN."""

import datetime as dt
import math
import statistics
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin as mt
from muntin.aggregates import close
from tests.oracle import Oracle

nan, inf = math.nan, math.inf


def result(aggregate, values):
    oracle = Oracle(aggregate)
    oracle.values = list(values)
    return oracle.query()


def longest_run(values):
    best = current = 0
    previous = None
    for value in values:
        current = current + 1 if previous is not None and value > previous else 1
        best, previous = max(best, current), value
    return best


REFERENCES = [
    (mt.Count(), len),
    (mt.Sum(), sum),
    (mt.Min(), min),
    (mt.Max(), max),
    (mt.Mean(), statistics.fmean),
    (mt.Var(ddof=0), statistics.pvariance),
    (mt.Std(ddof=0), statistics.pstdev),
    (mt.Range(), np.ptp),
    (mt.RelativeVariation(), lambda x: (max(x) - min(x)) / max(x) if max(x) else nan),
    (mt.MinCount(), lambda x: (min(x), x.count(min(x)))),
    (mt.MaxCount(), lambda x: (max(x), x.count(max(x)))),
    (mt.First(), lambda x: x[0]),
    (mt.Last(), lambda x: x[-1]),
    (mt.Collect(), list),
    (mt.CollectDistinct(), lambda x: list(dict.fromkeys(x))),
    (mt.CountDistinct(), lambda x: len(set(x))),
    (mt.Concat(), list),
    (mt.M4(), lambda x: (min(x), max(x), x[0], x[-1])),
    (mt.Median(), statistics.median),
    (mt.Quantile(q=0.5), statistics.median_low),
    (mt.Quantile(q=0.9), lambda x: np.quantile(x, 0.9, method="inverted_cdf")),
    (mt.Quantile(q=0.3, interpolation="linear"), lambda x: np.quantile(x, 0.3)),
    (mt.Quantile(q=0), min),
    (mt.Quantile(q=1), max),
    (mt.LongestRun(), longest_run),
]


@pytest.mark.parametrize(
    ("aggregate", "reference"), REFERENCES, ids=lambda x: getattr(x, "name", "")
)
@given(values=st.lists(st.integers(-100, 100), min_size=1, max_size=60))
def test_equals_its_reference(aggregate, reference, values):
    assert close(result(aggregate, values), reference(values))


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=60))
def test_geo_mean_equals_its_reference(values):
    assert close(result(mt.GeoMean(), values), statistics.geometric_mean(values))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1e200] * 4, 1e200),
        ([1e-200] * 4, 1e-200),
        ([4, 0, 9], 0.0),
        ([4, -1], nan),
        ([-1, 0], nan),
        ([nan, 2], nan),
        ([0, nan], nan),
        ([10**400, 1], 1e200),
        ([], None),
    ],
)
def test_geo_mean_at_its_edges(values, expected):
    assert close(result(mt.GeoMean(), values), expected)


def test_variance_of_large_values_with_small_noise():
    noise = np.random.default_rng(1).normal(size=2000)
    values = 1e9 + noise
    exact = float(np.var([Decimal(v) for v in values], ddof=1))
    assert result(mt.Var(), values.tolist()) == pytest.approx(exact, rel=1e-6)
    assert result(mt.Std(), values.tolist()) == pytest.approx(math.sqrt(exact), rel=1e-6)
    window = mt.DabaLite(mt.Var())
    window.bulk_insert(values.tolist())
    assert window.query() == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    ("aggregate", "nulls_only"),
    [
        (mt.Count(), 2),
        (mt.Count("v"), 0),
        (mt.Sum("v"), None),
        (mt.Min("v"), None),
        (mt.Max("v"), None),
        (mt.Mean("v"), None),
        (mt.GeoMean("v"), None),
        (mt.Var("v"), None),
        (mt.Std("v"), None),
        (mt.Range("v"), None),
        (mt.MinCount("v"), None),
        (mt.ArgMax("v", "id"), None),
        (mt.First("v"), None),
        (mt.Last("v"), None),
        (mt.Collect("v"), []),
        (mt.Collect("v", nulls=True), [None, None]),
        (mt.CollectDistinct("v"), []),
        (mt.CountDistinct("v"), 0),
        (mt.Concat("v"), None),
        (mt.M4("v"), None),
        (mt.Median("v"), None),
        (mt.Quantile("v", 0.9), None),
        (mt.Quantile("v", 0.9, interpolation="linear"), None),
        (mt.MomentSketch("v"), None),
        (mt.ApproxDistinct("v"), 0),
        (mt.ApproxQuantile("v"), None),
        (mt.TopK("v"), []),
        (mt.RelativeVariation("v"), None),
        (mt.LongestRun("v"), 0),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_nulls_are_skipped(aggregate, nulls_only):
    rows = [{"v": None, "id": "a"}, {"v": None, "id": "b"}]
    assert result(aggregate, rows) == nulls_only


def test_nulls_that_are_asked_for():
    assert result(mt.First(nulls=True), [None, 1, 2]) is None
    assert result(mt.First(), [None, 1, 2]) == 1
    assert result(mt.Last(nulls=True), [1, 2, None]) is None
    assert result(mt.Last(), [1, 2, None]) == 2
    assert result(mt.ArgMax(), [(1, "a"), (2, None), (None, "c")]) is None


@pytest.mark.parametrize(
    ("aggregate", "values", "expected"),
    [
        (mt.Sum(), [1.0, nan], nan),
        (mt.Mean(), [1.0, nan], nan),
        (mt.Var(), [1.0, nan, 2.0], nan),
        (mt.Var(), [1.0, 2.0, inf], nan),
        (mt.Max(), [1.0, nan, inf], nan),
        (mt.Max(), [nan, 1.0], nan),
        (mt.Min(), [nan, 1.0, 2.0], 1.0),
        (mt.Min(), [1.0, nan], 1.0),
        (mt.Min(), [nan, nan], nan),
        (mt.MaxCount(), [nan, 1.0, nan], (nan, 2)),
        (mt.MinCount(), [nan, 1.0, nan, 1.0], (1.0, 2)),
        (mt.Median(), [nan, 1.0, 2.0], 2.0),
        (mt.Quantile(q=1.0), [1.0, nan], nan),
        (mt.CountDistinct(), [nan, float("nan"), 1.0], 2),
        (mt.CollectDistinct(), [nan, 1.0, float("nan")], [nan, 1.0]),
        (mt.Range(), [1.0, nan], nan),
        (mt.LongestRun(), [1.0, nan, 2.0], 2),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_nan_is_a_value_and_the_largest(aggregate, values, expected):
    assert close(result(aggregate, values), expected)


def test_nan_among_arguments():
    pairs = [(1.0, "a"), (nan, "b"), (2.0, "c")]
    assert result(mt.ArgMax(), pairs) == "b"
    assert result(mt.ArgMin(), pairs) == "a"


def test_the_first_of_equals_wins():
    pairs = [(1, "a"), (5, "b"), (5, "c"), (1, "d")]
    assert result(mt.ArgMax(), pairs) == "b"
    assert result(mt.ArgMin(), pairs) == "a"


@pytest.mark.parametrize("poison", [nan, inf, -inf])
@pytest.mark.parametrize("aggregate", [mt.Sum(), mt.Mean(), mt.GeoMean()], ids=lambda a: a.name)
def test_a_swallowing_value_leaves_with_its_eviction(aggregate, poison):
    window = mt.SubtractOnEvict(aggregate)
    window.bulk_insert([abs(poison), 2.0, 3.0, 4.0])
    window.evict()
    window.evict()
    assert close(window.query(), result(aggregate, [3.0, 4.0]))


def test_types_beyond_numbers():
    hours = [dt.timedelta(hours=1), dt.timedelta(hours=3)]
    assert result(mt.Sum(), hours) == dt.timedelta(hours=4)
    assert result(mt.Mean(), hours) == dt.timedelta(hours=2)
    assert result(mt.Median(), hours) == dt.timedelta(hours=2)
    days = [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 2)]
    assert result(mt.Median(), days) == dt.datetime(2026, 1, 1, 12)
    assert result(mt.Sum(), [Decimal("0.1"), Decimal("0.2")]) == Decimal("0.3")
    assert result(mt.Max(), ["a", "c", "b"]) == "c"
    assert result(mt.Range(), [dt.date(2026, 1, 1), dt.date(2026, 1, 4)]) == dt.timedelta(days=3)
    assert result(mt.Sum(), [2**80, 1]) == 2**80 + 1
    assert result(mt.Concat(), [[1], (2, 3), 4]) == [1, 2, 3, 4]
    assert result(mt.Concat(), [b"a", b"b"]) == b"ab"


def test_quantile_means_the_decimal_that_was_written():
    assert result(mt.Quantile(q=0.55), range(1, 101)) == 55
    assert result(mt.Quantile(q=0.1), range(1, 31)) == 3


def test_product_shares_one_window():
    product = mt.Product(top=mt.Max("v"), who=mt.ArgMax("v", "id"), n=mt.Count())
    rows = [{"v": 3, "id": "a"}, {"v": None, "id": "b"}, {"v": 9, "id": "c"}]
    assert result(product, rows) == {"top": 9, "who": "c", "n": 3}
    assert result(mt.Product(mt.Sum(), mt.Median()), [1, 5, 9]) == (15, 5)


def test_product_declares_what_all_its_parts_declare():
    assert mt.Product(mt.Sum(), mt.Count()).invertible
    assert not mt.Product(mt.Sum(), mt.Max()).invertible
    assert mt.Product(mt.Sum(), mt.Max()).commutative
    assert not mt.Product(mt.Sum(), mt.Last()).commutative
    assert mt.Product(mt.Sum(), mt.Collect()).holistic
    window = mt.SubtractOnEvict(mt.Product(mt.Sum(), mt.Count()))
    window.bulk_insert([nan, 1.0, 2.0])
    window.evict()
    assert window.query() == (3.0, 2)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: mt.Quantile(q=1.5), ValueError, "1.5"),
        (lambda: mt.Quantile(0.9), TypeError, "0.9"),
        (lambda: mt.Quantile(q=0.5, interpolation="cubic"), ValueError, "cubic"),
        (lambda: mt.Var(ddof=-1), ValueError, "-1"),
        (lambda: mt.ArgMax("watts"), TypeError, "all 2 column names"),
        (lambda: mt.Max(7), TypeError, "7"),
        (lambda: mt.Product(), TypeError, "at least one"),
        (lambda: mt.Product(mt.Max(), n=mt.Count()), TypeError, "by position or all by name"),
        (lambda: mt.Product(max), TypeError, "Max()"),
        (lambda: mt.Aggregate("a", 0, lift=3, combine=max), TypeError, "lift must be a function"),
        (lambda: mt.Aggregate("a", 0, int, max, encode=str), TypeError, "both encode and decode"),
        (lambda: mt.DabaLite(max), TypeError, "Max()"),
    ],
)
def test_bad_declarations_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_bad_rows_are_refused_and_nothing_is_lost():
    window = mt.DabaLite(mt.Max("watts"))
    window.insert({"watts": 3})
    with pytest.raises(KeyError, match="no column 'watts' in the row; it has 'volts'"):
        window.insert({"volts": 1})
    with pytest.raises(TypeError, match="Leave the column names out"):
        window.insert(5)
    assert (window.query(), len(window)) == (3, 1)


def test_concat_of_different_kinds_is_refused():
    with pytest.raises(TypeError, match="'a' and"):
        result(mt.Concat(), ["a", 1])
