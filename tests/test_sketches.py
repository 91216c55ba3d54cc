"""Sketches keep the laws, stay within their error, survive bytes, and refuse what they cannot do."""

import datetime as dt
import math
import random
import sys
from collections import Counter
from decimal import Decimal
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import ApproxDistinct, ApproxQuantile, Bloom, CountMin, DabaLite, MomentSketch, TopK
from muntin.aggregates import close
from muntin.aggregates.aggregate import Aggregate
from muntin.aggregates.encoding import seal
from muntin.aggregates.moments import moment_quantile
from muntin.testing import check_laws

WORDS = [f"w{int(x)}" for x in np.random.default_rng(1).zipf(1.3, 20_000) % 5_000]
NUMBERS = [3.5, -1.0, 0.0, 0.0, 2e6, math.nan, math.inf, -math.inf, 7]
SKETCHES = [Bloom(), CountMin(), ApproxDistinct(), ApproxQuantile(), TopK(), MomentSketch()]
ENCODED = [sketch for sketch in SKETCHES if sketch.encode]
BY_NAME = {"ids": lambda aggregate: aggregate.name}
EIGHTHS = st.integers(0, 8).map(lambda i: i / 8)


def fold(aggregate: Aggregate, values):
    return reduce(aggregate.combine, map(aggregate.lift, values), aggregate.identity)


def in_any_grouping(aggregate: Aggregate, values, seed: int):
    order = random.Random(seed)
    partials = [aggregate.lift(value) for value in values]
    while len(partials) > 1:
        i = order.randrange(len(partials) - 1)
        partials[i : i + 2] = [aggregate.combine(*partials[i : i + 2])]
    return partials[0]


def rank_error(values: np.ndarray, estimate: float, q: float) -> float:
    """How far q is from the ranks of the estimate; an estimate within 1e-9 of a value is that value."""
    slack = 1e-9 * abs(estimate)
    return max(0.0, np.mean(values < estimate - slack) - q, q - np.mean(values <= estimate + slack))


@pytest.mark.parametrize("aggregate", SKETCHES, **BY_NAME)
def test_laws(aggregate):
    check_laws(aggregate, NUMBERS)


@pytest.mark.parametrize("aggregate", SKETCHES, **BY_NAME)
def test_reading_and_combining_leave_a_partial_as_it_was(aggregate):
    encode = aggregate.encode or repr
    values = np.random.default_rng(2).normal(size=2_000).tolist()
    a, b = fold(aggregate, values[:1_000]), fold(aggregate, values[1_000:])
    before = encode(a), encode(b)
    aggregate.combine(a, b)
    aggregate.lower(a)
    assert (encode(a), encode(b)) == before


@pytest.mark.parametrize("aggregate", SKETCHES, **BY_NAME)
def test_nulls_and_empty_windows(aggregate):
    empty = {"bloom": 0.0, "approx_distinct": 0, "top_k": []}
    window = DabaLite(aggregate)
    window.bulk_insert([None, None])
    result = window.query()
    result = result.estimate() if aggregate.name.startswith("bloom") else result
    assert result == empty.get(aggregate.name.partition("(")[0])


@pytest.mark.parametrize("aggregate", ENCODED, **BY_NAME)
def test_encoding(aggregate):
    values = np.random.default_rng(3).normal(size=2_000).tolist()
    partial = fold(aggregate, values)
    restored = aggregate.decode(aggregate.encode(partial))
    assert aggregate.lower(restored) == aggregate.lower(partial)
    assert aggregate.decode(aggregate.encode(aggregate.identity)) == aggregate.identity


@pytest.mark.parametrize("aggregate", ENCODED, **BY_NAME)
@given(data=st.data())
def test_garbage_is_refused(aggregate, data):
    garbage = data.draw(
        st.one_of(st.binary(max_size=60), st.binary(max_size=7).map(seal), st.text(), st.integers())
    )
    for malformed in (garbage, (0, garbage)):
        with pytest.raises(ValueError, match=r"not a |snapshot|pair"):
            aggregate.decode(malformed)


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (CountMin(), CountMin(error=0.1)),
        (ApproxDistinct(), ApproxDistinct(lg_k=11)),
        (ApproxQuantile(), ApproxQuantile(k=100)),
        (TopK(), TopK(lg_max=9)),
    ],
    ids=lambda aggregate: aggregate.name,
)
def test_a_sketch_of_other_parameters_is_refused(writer, reader):
    with pytest.raises(ValueError, match="other parameters"):
        reader.decode(writer.encode(writer.lift(1)))


def test_every_altered_byte_is_noticed():
    aggregate = ApproxDistinct()
    message = aggregate.encode(fold(aggregate, WORDS))
    for at in range(0, len(message), 7):
        altered = message[:at] + bytes([message[at] ^ 1]) + message[at + 1 :]
        with pytest.raises(ValueError, match="snapshot"):
            aggregate.decode(altered)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Bloom(expected=0), "expected .* got 0"),
        (lambda: Bloom(error=1.0), "error .* got 1.0"),
        (lambda: CountMin(error=0), "error .* got 0"),
        (lambda: CountMin(error=1e-12), "error 1e-12 would take"),
        (lambda: CountMin(confidence=1.5), "confidence .* got 1.5"),
        (lambda: ApproxDistinct(lg_k=27), "lg_k .* got 27"),
        (lambda: ApproxDistinct(lg_k=12.0), "lg_k .* got 12.0"),
        (lambda: ApproxQuantile(q=1.1), "q .* got 1.1"),
        (lambda: ApproxQuantile(q=math.nan), "q .* got nan"),
        (lambda: ApproxQuantile(k=7), "k .* got 7"),
        (lambda: TopK(k=0), "k .* got 0"),
        (lambda: TopK(k=7, lg_max=3), "k .* to 6, got 7"),
        (lambda: TopK(lg_max=2), "lg_max .* got 2"),
        (lambda: MomentSketch(q=-0.1), "q .* got -0.1"),
        (lambda: MomentSketch(k=21), "k .* got 21"),
    ],
)
def test_bad_parameters_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("factory", [CountMin, ApproxDistinct, ApproxQuantile, TopK])
def test_missing_datasketches_is_named_at_once(factory, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    needs = rf"{factory.__name__} needs Apache DataSketches: pip install 'muntin\[sketches\]'"
    with pytest.raises(ImportError, match=needs):
        factory()


@pytest.mark.parametrize(
    ("aggregate", "value"),
    [
        (Bloom(), {1}),
        (CountMin(), [1]),
        (ApproxDistinct(), (1, {2})),
        (TopK(), frozenset({1})),
        (ApproxQuantile(), "7"),
        (MomentSketch(), b"7"),
    ],
    ids=lambda x: getattr(x, "name", repr(x)),
)
def test_values_that_cannot_be_taken_are_named(aggregate, value):
    with pytest.raises(TypeError, match=r"(cannot hash|numbers, got) .*; convert"):
        aggregate.lift(value)


EQUALS = [
    (1, 1.0, True, Decimal("1.00"), np.int64(1), np.bool_(True)),
    (0.0, -0.0, 0),
    (math.nan, -math.nan, Decimal("nan")),
    (math.inf, Decimal("inf")),
    (-math.inf,),
    (0.1, np.float64(0.1)),
    (Decimal("0.1"),),
    (2**70, float(2**70)),
    ("",),
    ("a", np.str_("a")),
    (b"a",),
    ("\ud800",),
    ((1, "a"), (1.0, "a")),
    (("1", "a"),),
    (dt.date(2020, 1, 1),),
    (dt.datetime(2020, 1, 1),),
    (
        dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC),
        dt.datetime(2020, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    ),
    (dt.timedelta(1),),
]


def test_equal_values_are_one_value_and_others_are_not():
    values = [value for equals in EQUALS for value in equals]
    distinct, counts = ApproxDistinct(), CountMin(error=0.0001)
    assert distinct.lower(fold(distinct, values)) == len(EQUALS)
    bloom = Bloom(error=1e-6)
    for equals in EQUALS:
        counted = counts.lower(fold(counts, equals))
        seen = bloom.lower(bloom.lift(equals[0]))
        for value in values:
            among = any(value is equal for equal in equals)
            assert counted.get_estimate(value) == (len(equals) if among else 0)
            assert (value in seen) == among


def test_bloom_never_misses_and_rarely_invents():
    bloom = Bloom(expected=1_000, error=0.01)
    seen = bloom.lower(fold(bloom, range(1_000)))
    assert isinstance(seen.bits, int)
    assert all(value in seen for value in range(1_000))
    assert sum(value in seen for value in range(1_000, 21_000)) / 20_000 < 0.015
    assert seen.estimate() == pytest.approx(1_000, rel=0.03)
    full = bloom.lower((1 << seen.size) - 1)
    assert full.estimate() == math.inf


@pytest.mark.parametrize(("error", "confidence"), [(0.01, 0.99), (0.001, 0.9)])
def test_count_min_never_undercounts_and_rarely_overcounts(error, confidence):
    aggregate = CountMin(error=error, confidence=confidence)
    counts = aggregate.lower(fold(aggregate, WORDS))
    excess = [counts.get_estimate(word) - count for word, count in Counter(WORDS).items()]
    assert counts.total == len(WORDS)
    assert min(excess) >= 0
    assert np.mean(np.array(excess) <= error * len(WORDS)) >= confidence


def test_count_min_results_compare_by_content():
    aggregate = CountMin()
    one, other = aggregate.lower(fold(aggregate, "abc")), aggregate.lower(fold(aggregate, "cba"))
    assert one == other
    assert one != aggregate.lower(aggregate.lift("a"))


@pytest.mark.parametrize("lg_k", [10, 12])
def test_distinct_error_and_independence_of_grouping(lg_k):
    aggregate = ApproxDistinct(lg_k=lg_k)
    estimate = aggregate.lower(fold(aggregate, WORDS))
    assert estimate == pytest.approx(len(set(WORDS)), rel=3 * 0.69 / 2 ** (lg_k / 2))
    assert estimate == aggregate.lower(in_any_grouping(aggregate, WORDS[:], seed=4))


@pytest.mark.parametrize("q", [0.01, 0.5, 0.99])
def test_quantile_rank_error(q):
    values = np.random.default_rng(5).lognormal(size=20_000)
    aggregate = ApproxQuantile(q=q)
    assert (
        rank_error(values, aggregate.lower(in_any_grouping(aggregate, values, seed=6)), q) < 0.025
    )


@given(st.lists(st.one_of(st.integers(-9, 9), st.just(math.nan)), min_size=1), EIGHTHS)
def test_quantile_of_few_values_is_exact_and_nan_ranks_last(values, q):
    aggregate = ApproxQuantile(q=q)
    ordered = sorted(values, key=lambda x: (x != x, x))
    expected = ordered[max(1, math.ceil(q * len(values))) - 1]
    assert close(aggregate.lower(fold(aggregate, values)), expected)


def test_top_k_finds_the_frequent_ones():
    aggregate, truth = TopK(k=5, lg_max=8), Counter(WORDS)
    top = aggregate.lower(in_any_grouping(aggregate, WORDS, seed=7))
    assert [item for item, _ in top] == [item for item, _ in truth.most_common(5)]
    assert all(0 <= estimate - truth[item] <= 3.5 / 2**8 * len(WORDS) for item, estimate in top)


def test_top_k_gives_items_back_with_their_type():
    items = [
        "1",
        1,
        1.5,
        True,
        b"1",
        -(2**70),
        Decimal("1.50"),
        (1, "x"),
        dt.date(2020, 1, 1),
        "é\0",
    ]
    aggregate = TopK(k=len(items))
    partial = aggregate.decode(aggregate.encode(fold(aggregate, items)))
    assert aggregate.lower(partial) == [(item, 1) for item in sorted(items, key=repr)]
    assert {type(item) for item, _ in aggregate.lower(partial)} == {type(item) for item in items}
    zeros = aggregate.lower(fold(aggregate, [0.0, -0.0, np.float64(0.0), math.nan, -math.nan]))
    assert str(zeros) == "[(0.0, 3), (nan, 2)]"


DRAWS = np.random.default_rng(8)
SHAPES = {
    "uniform": (DRAWS.uniform(-5, 5, 20_000), 0.005),
    "normal": (DRAWS.normal(size=20_000), 0.005),
    "exponential": (DRAWS.exponential(size=20_000), 0.005),
    "lognormal": (DRAWS.lognormal(0, 2, 20_000), 0.005),
    "pareto": (DRAWS.pareto(0.8, 20_000) + 1, 0.005),
    "with zeros": (DRAWS.lognormal(0, 2, 20_000) * DRAWS.integers(0, 2, 20_000), 0.005),
    "two hills": (np.concatenate([DRAWS.normal(-3, 1, 9_000), DRAWS.normal(3, 0.5, 9_000)]), 0.01),
    "1e6 + normal": (1e6 + DRAWS.normal(size=20_000), 0.01),
    "laplace": (DRAWS.laplace(size=20_000), 0.02),
    "student t3": (DRAWS.standard_t(3, 20_000), 0.05),
    "five values": (DRAWS.integers(1, 6, 20_000) * 1.0, 0.001),
    "ten values": (DRAWS.integers(0, 10, 20_000) * 1.0, 0.05),
    "huge": (DRAWS.uniform(-1, 1, 20_000) * 1.7e308, 0.01),
    "huge span": (DRAWS.lognormal(0, 50, 20_000), 0.005),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_moment_quantiles_are_near_in_rank(shape):
    values, allowed = SHAPES[shape]
    partial = in_any_grouping(MomentSketch(), values, seed=9)
    shares = np.arange(1, 100, 2) / 100
    estimates = np.array([moment_quantile(partial, q) for q in shares.tolist()])
    assert np.all(np.diff(estimates) >= 0)
    assert (
        np.mean([rank_error(values, x, q) for x, q in zip(estimates, shares, strict=True)])
        < allowed
    )


@pytest.mark.parametrize(("k", "allowed"), [(2, 0.3), (10, 0.01)])
def test_more_moments_see_more(k, allowed):
    values, _ = SHAPES["two hills"]
    partial = fold(MomentSketch(k=k), values)
    errors = [rank_error(values, moment_quantile(partial, q), q) for q in (0.25, 0.4, 0.6, 0.75)]
    assert np.mean(errors) < allowed
    assert k > 2 or np.mean(errors) > 0.01


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
    st.floats(0, 1),
)
def test_moment_quantile_of_any_numbers_lies_between_them(values, q):
    estimate = MomentSketch(q=q).lower(fold(MomentSketch(), values))
    assert min(values) <= estimate <= max(values)


@given(
    st.lists(st.sampled_from([1.0, 2.0, math.inf, -math.inf, math.nan]), min_size=1),
    EIGHTHS,
)
def test_moment_quantile_ranks_what_is_not_finite(values, q):
    ordered = sorted(values, key=lambda x: (x != x, x))
    expected = ordered[max(1, math.ceil(q * len(values))) - 1]
    assert close(MomentSketch(q=q).lower(fold(MomentSketch(), values)), expected)


@given(st.lists(st.floats(1, 100), min_size=1, max_size=30), st.integers(0, 99))
def test_moments_do_not_depend_on_grouping(values, seed):
    aggregate = MomentSketch()
    assert close(in_any_grouping(aggregate, values, seed), fold(aggregate, values))
