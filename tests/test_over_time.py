"""Aggregates that weigh values by age, and readings over time: against exact definitions and pandas."""

import datetime as dt
import math
import random
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import muntin as mt
from muntin.aggregates import close
from tests.test_aggregates import result

nan, inf = math.nan, math.inf
RNG = np.random.default_rng(23)
X = RNG.normal(size=200)
TIMES = np.cumsum(RNG.integers(0, 5, 200))
UNITS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


# Definitions: of pairs (value, time in seconds), oldest first


def ewm(pairs, halflife):
    newest = max(t for _, t in pairs)
    weights = [2.0 ** float((t - newest) / halflife) for _, t in pairs]
    exact = sum(Fraction(w) * Fraction(x) for w, (x, _) in zip(weights, pairs, strict=True))
    return float(exact / sum(map(Fraction, weights)))


def decayed_sum(pairs, halflife):
    newest = max(t for _, t in pairs)
    return math.fsum(float(x) * 2.0 ** float((t - newest) / halflife) for x, t in pairs)


def time_weighted_mean(pairs):
    if len(pairs) < 2:
        return None
    passed = pairs[-1][1] - pairs[0][1]
    area = sum(Fraction(x) * Fraction(u - t) for (x, t), (_, u) in pairwise(pairs))
    return float(area / passed) if passed else nan


def rate(pairs):
    if len(pairs) < 2:
        return None
    passed = pairs[-1][1] - pairs[0][1]
    steps = ((Fraction(x), Fraction(y)) for (x, _), (y, _) in pairwise(pairs))
    risen = sum(y - x if y >= x else y for x, y in steps)
    return float(risen / passed) if passed else nan


DEFINED = {
    "Ewm": (lambda *columns: of(mt.Ewm, columns, halflife="7 s"), lambda p: ewm(p, 7)),
    "DecayedSum": (
        lambda *columns: of(mt.DecayedSum, columns, halflife="7 s"),
        lambda p: decayed_sum(p, 7),
    ),
    "TimeWeightedMean": (lambda *columns: of(mt.TimeWeightedMean, columns), time_weighted_mean),
    "Rate": (lambda *columns: of(mt.Rate, columns), rate),
}


def of(factory, columns, **options):
    named = dict(zip(("column", "time"), columns, strict=False))
    return factory(**named, **options)


VALUES = {
    "large with noise": X + 1e9,
    "beyond floats": 2**60 + RNG.integers(0, 1000, 200),
    "unsigned": np.uint64(2**63) + RNG.integers(0, 9, 200).astype(np.uint64),
    "small": X,
}
UNIT_OF = dict(zip(VALUES, ("ns", "us", "ms", "s"), strict=True))
CASES = [(name, values) for name in DEFINED for values in VALUES]
CASES = [
    case for case in CASES if case[0] == "Ewm" or case[1] in ("large with noise", "beyond floats")
]


@pytest.mark.parametrize(("name", "values"), CASES)
def test_rolling_is_what_is_defined(name, values):
    make, defined = DEFINED[name]
    numbers, unit = VALUES[values], UNIT_OF[values]
    times = TIMES.astype("datetime64[s]").astype(f"datetime64[{unit}]")
    found = mt.rolling((numbers, times), 20, make(), min_periods=1)
    pairs = list(zip(numbers.tolist(), TIMES.tolist(), strict=True))
    for i in range(0, 200, 17):
        wanted = defined(pairs[max(0, i - 19) : i + 1])
        assert found[i] == pytest.approx(nan if wanted is None else wanted, rel=1e-9, nan_ok=True)
    assert mt.rolling_plan((numbers, times), 20, make()).compiled


def test_ewm_is_that_of_pandas():
    series, whole = pd.Series(X), {"size": 200, "min_periods": 1}
    for options in ({"alpha": 0.3}, {"span": 9}, {"alpha": 1.0}, {"span": 5, "adjust": False}):
        theirs = series.ewm(**options).mean()
        ours = mt.rolling(series, whole["size"], mt.Ewm(**options), min_periods=1)
        pd.testing.assert_series_equal(ours, theirs, rtol=1e-12)
    gaps = series.where(series > -0.5)
    theirs = gaps.ewm(span=9, ignore_na=True).mean()
    nulls = pa.array(gaps, from_pandas=True)
    ours = mt.rolling(nulls, 200, mt.Ewm(span=9), min_periods=1).to_numpy(zero_copy_only=False)
    assert ours == pytest.approx(theirs.to_numpy(), rel=1e-12, nan_ok=True)
    stamps = pd.Series(TIMES.astype("datetime64[s]"))
    theirs = series.ewm(halflife="7 s", times=stamps).mean()
    ours = mt.rolling((X, stamps.to_numpy()), 200, mt.Ewm(halflife="7 s"), min_periods=1)
    assert ours == pytest.approx(theirs.to_numpy(), rel=1e-12)


SECOND = 1_000_000


@pytest.mark.parametrize(
    ("aggregate", "values", "expected"),
    [
        (mt.Ewm(alpha=0.5), [], None),
        (mt.Ewm(alpha=0.5), [None, 3], 3.0),
        (mt.Ewm(alpha=0.5), [1.0, nan, 3.0], nan),
        (mt.Ewm(alpha=0.5), [inf, 1.0], inf),
        (mt.Ewm(alpha=0.5), [1.0, -inf], -inf),
        (mt.Ewm(alpha=0.5), [inf, -inf], nan),
        (mt.Ewm(alpha=0.5, adjust=False), [1.7e308, -1.7e308], 0.0),
        (mt.Ewm(alpha=0.5), [1.7e308, -1.7e308], -1.7e308 / 3),
        (mt.Ewm(alpha=1), [inf, 2.0], 2.0),
        (mt.Ewm(alpha=0.5), [nan, *[1.0] * 2000], nan),
        (mt.Ewm(halflife=1), [(inf, 0), (7.0, 10**9)], inf),
        (mt.Ewm(alpha=1), [7, 2.0], 2.0),
        (mt.Ewm(alpha=1e-9), [1e9 + 1, 1e9 + 2], 1e9 + 1.5),
        (mt.Ewm(alpha=0.5), [Decimal(1), Fraction(5, 2)], 2.0),
        (mt.Ewm(halflife=10), [(1, 0), (None, 5), (2, None), (4, 10)], 3.0),
        (mt.Ewm(halflife=1), [(5.0, 0), (7.0, 10**9)], 7.0),
        (mt.Ewm(halflife=10), [(4, 10), (1, 0)], 3.0),
        (mt.Ewm(halflife="1 d"), [(1, dt.date(2026, 1, 1)), (4, dt.date(2026, 1, 2))], 3.0),
        (mt.DecayedSum(halflife=10), [], None),
        (mt.DecayedSum(halflife=1), [(inf, 0), (1.0, 10**9)], inf),
        (mt.DecayedSum(halflife=10), [(4, 10), (1, 0)], 4.5),
        (mt.TimeWeightedMean(), [], None),
        (mt.TimeWeightedMean(), [(5, 0)], None),
        (mt.TimeWeightedMean(), [(5, 3), (6, 3)], nan),
        (mt.TimeWeightedMean(), [(5, 3), (6, 2)], nan),
        (mt.TimeWeightedMean(), [(5, 3), (6, 2), (7, 9)], nan),
        (mt.TimeWeightedMean(), [(5, 0), (nan, 3), (7, 3), (9, 4)], 5.5),
        (mt.TimeWeightedMean(), [(5.0, 0), (nan, 3), (7.0, 4)], nan),
        (mt.TimeWeightedMean(), [(inf, 0), (1.0, 3), (7.0, 4)], inf),
        (mt.TimeWeightedMean(), [(1, dt.datetime(2026, 1, 1)), (9, dt.datetime(2026, 1, 2))], 1.0),
        (mt.Rate(), [(5, 0)], None),
        (mt.Rate(), [(5, 0), (9, 0)], nan),
        (mt.Rate(), [(5, SECOND), (9, 0)], nan),
        (mt.Rate(), [(5, 0), (9, SECOND), (2, 2 * SECOND)], 3.0),
        (mt.Rate(), [(2**63, 0), (2**63 + 2, SECOND)], 2.0),
        (mt.Rate(), [(nan, 0), (1.0, SECOND)], nan),
        (mt.Increase(), [], None),
        (mt.Increase(), [7], 0),
        (mt.Increase(), [7, None, 9, 3, 4], 6),
        (mt.Increase(), [2**70, 2**70 + 3], 3),
        (mt.Increase(), [Decimal("0.1"), Decimal("0.3")], Decimal("0.2")),
        (mt.Increase(), [1.0, nan, 5.0], nan),
        (mt.Increase(), [5.0, inf], nan),
    ],
    ids=str,
)
def test_edges(aggregate, values, expected):
    assert close(result(aggregate, values), expected, 1e-12)


PLANS = ("auto", "eager", "buckets", "tuple buffer")
COLUMNS = {
    "float64": (pa.float64(), pa.timestamp("ns", "UTC")),
    "decimal": (pa.decimal128(30, 3), pa.timestamp("s")),
}


def random_readings(rng):
    """Rows of one key in time order, some at the same time, some without a value."""
    time, rows = 0, []
    for _ in range(150):
        time += rng.choice([0, 1, 2, 9])
        value = None if rng.random() < 0.1 else rng.randrange(100)
        rows.append({"s": time, "v": value})
    return rows


def as_table(rows, value, time):
    unit = UNITS[time.unit] if pa.types.is_timestamp(time) else 1000
    times = pa.array([row["s"] * 10**9 // unit for row in rows], pa.int64())
    values = pa.array([row["v"] for row in rows])
    return pa.table({"at": times.cast(time), "v": values.cast(value)})


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", DEFINED)
def test_queries_with_late_rows_and_restarts_give_what_is_defined(name, columns):
    make, defined = DEFINED[name]
    rng = random.Random(f"{name} {columns}")
    rows = random_readings(rng)
    aggregates = {"answer": make("v", "at")}
    windows = {"w": mt.Sliding("60 s", "20 s")}
    query = mt.Query(time="at", windows=windows, aggregates=aggregates, lateness="1 day")
    wanted = {}
    for start in range(-40, rows[-1]["s"] + 20, 20):
        inside = [row for row in rows if start <= row["s"] < start + 60]
        pairs = [(row["v"], row["s"]) for row in inside if row["v"] is not None]
        if inside:
            wanted[start] = defined(pairs) if pairs else None
    table = as_table(rows, *COLUMNS[columns])
    for plan in PLANS:
        check(query.run(table, plan), wanted)
    # rows of one time stay in their order: only whole seconds come late
    late = sorted(rows, key=lambda row: row["s"] + 40 * random.Random(row["s"]).random())
    table, operator, reports = as_table(late, *COLUMNS[columns]), query.operator(), []
    for i in range(0, 150, 30):
        operator.process(table.slice(i, 30))
        reports.append(operator.advance(table["at"][i].as_py()))
        operator = query.restore(operator.snapshot())
    check(pa.concat_tables([*reports, operator.complete()]), wanted)


def check(found, wanted):
    starts = found["start"]
    if pa.types.is_timestamp(starts.type):
        starts = starts.cast(pa.timestamp("s", starts.type.tz)).cast(pa.int64()).to_pylist()
    else:
        starts = [start // SECOND for start in starts.to_pylist()]
    results = dict(zip(starts, found["answer"].to_pylist(), strict=True))
    assert found.schema.field("answer").type == pa.float64()
    assert results.keys() == wanted.keys()
    for start, answer in results.items():
        assert close(answer, wanted[start], 1e-9), (start, answer, wanted[start])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (mt.Ewm, "one of alpha="),
        (lambda: mt.Ewm(alpha=0.5, span=3), "one of alpha="),
        (lambda: mt.Ewm(alpha=0), "larger than 0"),
        (lambda: mt.Ewm(alpha=1.5), "at most 1"),
        (lambda: mt.Ewm(alpha=nan), "alpha must be a number"),
        (lambda: mt.Ewm(span=0.5), "at least 1"),
        (lambda: mt.Ewm(halflife="1 s", adjust=False), "weights go by rows"),
        (lambda: mt.Ewm("x", halflife="1 s"), "all 2 column names"),
        (lambda: mt.Ewm("x", alpha=0.5, time="at"), "goes with halflife"),
        (lambda: mt.Ewm(halflife="0 s"), "longer than 0"),
        (lambda: mt.DecayedSum(halflife="often"), "not a duration"),
        (lambda: mt.Rate("x"), "all 2 column names"),
        (lambda: result(mt.Rate(), [3]), "a pair"),
        (lambda: result(mt.Rate(), [("a", 3)]), "takes numbers"),
        (lambda: result(mt.Rate(), [(3, "noon")]), "a time is a moment"),
        (lambda: result(mt.Rate(), [(3, 1.5)]), "a time is a moment"),
        (lambda: result(mt.Increase(), [dt.timedelta(1)]), "takes numbers"),
        (lambda: mt.rolling((X, X), 3, mt.Rate()), "times of rows"),
        (lambda: mt.rolling((X, np.array(["a"] * 200)), 3, mt.Rate()), "times of rows"),
        (
            lambda: mt.rolling((TIMES.astype("M8[s]"), TIMES), 3, mt.Ewm(halflife=3)),
            "computes with",
        ),
        (lambda: mt.Increase(overflow="wrap"), "wrap"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_columns_of_frames_by_keys():
    stamps = pd.date_range("2026-01-01", periods=6, freq="s")
    frame = pd.DataFrame({"at": stamps, "k": list("aabbab"), "v": [1.0, 5.0, 3.0, 9.0, 2.0, 4.0]})
    aggregates = {"rate": mt.Rate("v", time="at"), "top": mt.TopBy(1, "v", "v", "k")}
    found = mt.rolling(frame, {"two": 2}, aggregates, on="at", by=["k"], min_periods=1)
    assert close(found["two_rate"].tolist(), [nan, 4.0, nan, 6.0, 2 / 3, 2.0])
    assert found["two_top"].tolist()[4] == [(5.0, "a")]
