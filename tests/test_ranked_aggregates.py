"""Ranks, frequencies, histograms and chosen rows: as SciPy, NumPy and pandas have them, and edges."""

import math
import random
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import muntin as mt
from muntin.aggregates import close
from muntin.aggregates.frequencies import METHODS
from tests.test_aggregates import result

nan, inf = math.nan, math.inf
RNG = np.random.default_rng(23)
FEW = RNG.integers(0, 6, 300).astype(float)


def in_windows(reference, values, size):
    return [reference(values[max(0, i - size + 1) : i + 1]) for i in range(len(values))]


def entropy(values):
    return stats.entropy([*Counter(values).values()])


@pytest.mark.parametrize("shift", [0.0, 1e9])
@pytest.mark.parametrize("method", METHODS)
def test_ranks_are_those_of_scipy(method, shift):
    found = mt.rolling(FEW + shift, 20, mt.Rank(method=method), min_periods=1)
    wanted = in_windows(lambda x: stats.rankdata(x, method)[-1], FEW, 20)
    assert found.tolist() == wanted
    if method != "dense":
        theirs = pd.Series(FEW).rolling(20, min_periods=1).rank(method=method)
        assert found.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    ("aggregate", "reference"),
    [
        (mt.Mode(), lambda x: stats.mode(x).mode),
        (mt.Entropy(), entropy),
        (
            mt.Histogram(edges=[0.5, 2, 3.0, 5]),
            lambda x: np.histogram(x, [0.5, 2, 3, 5])[0].tolist(),
        ),
        (
            mt.Quantiles(q=[0.1, 0.9]),
            lambda x: np.quantile(x, [0.1, 0.9], method="inverted_cdf").tolist(),
        ),
        (
            mt.Quantiles(q=(0.25, 0.5), interpolation="linear"),
            lambda x: np.quantile(x, [0.25, 0.5]).tolist(),
        ),
        (mt.TopBy(4), lambda x: sorted(x, reverse=True)[:4]),
        (mt.BottomBy(4), lambda x: sorted(x)[:4]),
        (mt.FirstK(4), lambda x: x[:4].tolist()),
        (mt.LastK(4), lambda x: x[-4:].tolist()),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_rolling_equals_its_reference(aggregate, reference):
    found = mt.rolling(FEW, 20, aggregate, min_periods=1).tolist()
    assert close(found, in_windows(reference, FEW, 20))


@pytest.mark.parametrize(
    ("aggregate", "values", "expected"),
    [
        (mt.Rank(), [], None),
        (mt.Rank(), [None], None),
        (mt.Rank(), [7, None], 1.0),
        (mt.Rank(), ["b", "a", "b"], 2.5),
        (mt.Rank(), [nan, 1.0, nan], 2.5),
        (mt.Rank(method="dense"), [nan, 1.0, nan], 2.0),
        (mt.Rank(method="max"), [-0.0, 0.0], 2.0),
        (mt.Rank(), [2**63, 2**63 + 1, 2**63], 1.5),
        (mt.Rank(), [inf, -inf], 1.0),
        (mt.Mode(), [], None),
        (mt.Mode(), [None, 2], 2),
        (mt.Mode(), [3, 1, 2], 1),
        (mt.Mode(), [nan, 1.0, nan], nan),
        (mt.Mode(), [nan, 1.0], 1.0),
        (mt.Mode(), [2**70, 2**70 + 1, 2**70 + 1], 2**70 + 1),
        (mt.Entropy(), [], None),
        (mt.Entropy(), [5, 5, 5], 0.0),
        (mt.Entropy(), [nan, nan, 1.0, 1.0], math.log(2)),
        (mt.Entropy(), [True, False, None], math.log(2)),
        (mt.Histogram(edges=[0, 1]), [], [0]),
        (mt.Histogram(edges=[0, 1, 2]), [nan, -inf, inf, 2.0, None], [0, 1]),
        (mt.Histogram(edges=[-inf, 0, inf]), [-inf, inf, 0, nan], [1, 2]),
        (mt.Histogram(edges=[0, 2**53, 2**63]), [2**53 - 1, 2**53 + 1, 2**63], [1, 2]),
        (mt.Histogram(edges=[0, 0.1, 1]), [Decimal("0.1"), Fraction(1, 10), 0.1], [2, 1]),
        (mt.Quantiles(q=[0.5]), [], None),
        (mt.Quantiles(q=[1, 0]), [3, 9], [9, 3]),
        (mt.Quantiles(q=[0.5, 0.5]), [nan, 1.0], [1.0, 1.0]),
        (mt.TopBy(2), [], []),
        (mt.TopBy(9), [1.0, None, nan], [nan, 1.0]),
        (mt.TopBy(1), ["a", "b"], ["b"]),
        (mt.BottomBy(2), [nan, nan, 1.0], [1.0, nan]),
        (mt.BottomBy(2), [2**64, 2**64 - 1], [2**64 - 1, 2**64]),
        (mt.TopBy(2, "v", "a"), [{"v": 1, "a": i} for i in range(3)], [0, 1]),
        (mt.BottomBy(2, "v", "a"), [{"v": 1, "a": None}, {"v": None, "a": 2}], [None]),
        (mt.FirstK(2), [None, [1], [2], [3]], [[1], [2]]),
        (mt.LastK(1), [1, 2, None], [2]),
    ],
    ids=str,
)
def test_edges(aggregate, values, expected):
    assert close(result(aggregate, values), expected)


ROWS = pa.table(
    {
        "t": [1, 2, 3, 11],
        "v": [3, 5, 5, None],
        "a": pa.array(["x", "y", None, "z"]),
        "b": pa.array([1, 2, 3, 4], pa.timestamp("ms", "UTC")),
    }
)


def test_chosen_rows_are_lists_of_structs_with_their_types():
    aggregates = {
        "top": mt.TopBy(2, "v", "v", "b"),
        "low": mt.BottomBy(2, "v", "a"),
        "values": mt.TopBy(2, "v"),
    }
    query = mt.Query(time="t", windows={"ten": mt.Tumbling(10)}, aggregates=aggregates)
    found = query.run(ROWS)
    kind = pa.struct([("v", pa.int64()), ("b", pa.timestamp("ms", "UTC"))])
    assert found.schema.field("top").type == pa.list_(kind)
    times = ROWS["b"].to_pylist()
    assert found["top"].to_pylist() == [[{"v": 5, "b": times[1]}, {"v": 5, "b": times[2]}], []]
    assert found["low"].to_pylist() == [["x", "y"], []]
    assert found["values"].to_pylist() == [[5, 5], []]
    rolled = mt.rolling((ROWS["v"], ROWS["v"], ROWS["b"]), 2, aggregates["top"], min_periods=1)
    assert rolled.type == pa.list_(kind)
    assert [len(rows or ()) for rows in rolled.to_pylist()] == [1, 2, 2, 1]
    assert mt.rolling((ROWS["v"], ROWS["a"]), 2, aggregates["low"]).to_pylist()[-1] is None


@pytest.mark.parametrize("name", ["Mode", "Entropy", "Quantiles", "Histogram"])
def test_windows_that_slide_over_slices_and_are_corrected(name):
    """What slides is a multiset; late rows, of a few values and of many, amend it."""
    rng = random.Random(name)
    made = {"Quantiles": lambda: mt.Quantiles("v", [0.2, 0.7]), "Histogram": lambda: BINS}
    aggregate = made.get(name, lambda: mt.AGGREGATES[name]("v"))()
    for different in (3, 1000):
        values = [*range(different), nan]
        rows = [{"t": t, "v": float(rng.choice(values))} for t in range(300)]
        late = sorted(rows, key=lambda row: row["t"] + rng.randrange(60))
        windows = {"w": mt.Sliding(50, 5)}
        query = mt.Query(time="t", windows=windows, aggregates={"r": aggregate}, lateness=100)
        operator, found = query.operator(), {}
        for i in range(0, 300, 7):
            operator.process(late[i : i + 7])
            reports = [operator.advance(max(0, i - 20))]
            reports += [operator.complete()] if i + 7 >= 300 else []
            for row in (r for report in reports for r in report.to_pylist()):
                found[row["start"]] = row["r"]
        for start, answer in found.items():
            inside = [row for row in rows if start <= row["t"] < start + 50]
            assert close(answer, result(aggregate, inside)), (different, start)
        assert len(found) == 69


BINS = mt.Histogram("v", [0, 2, 500, 900])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mt.Rank(method="ordinal"), "average, min, max, dense"),
        (lambda: mt.Quantiles(q=0.5), "list of numbers"),
        (mt.Quantiles, "list of numbers"),
        (lambda: mt.Quantiles(q=[0.5, 2]), "between 0 and 1, got 2"),
        (lambda: mt.Quantiles(q=[0.5], interpolation="lower"), "nearest_rank"),
        (mt.Histogram, "two or more numbers"),
        (lambda: mt.Histogram(edges=[1, 1]), "larger than the one before"),
        (lambda: mt.Histogram(edges=[1, nan]), "larger than the one before"),
        (lambda: mt.Histogram(edges=["a", "b"]), "takes numbers"),
        (lambda: mt.TopBy(0), "k must be a whole number"),
        (lambda: mt.FirstK("v"), "k must be a whole number"),
        (lambda: mt.LastK(True), "k must be a whole number"),
        (lambda: mt.TopBy(2, "v", "a", "a"), "each column once"),
        (lambda: result(mt.Mode(), [[1]]), "mode takes"),
        (lambda: result(mt.Rank(), [{"a": 1}]), "rank takes"),
        (lambda: result(mt.Entropy(), [(1, 2)]), "entropy takes"),
        (lambda: result(mt.Histogram(edges=[0, 1]), ["a"]), "histogram takes numbers"),
        (lambda: mt.SubtractOnEvict(mt.Rank()), "SubtractOnEvict"),
        (lambda: mt.SlickDeque(mt.TopBy(2)), "SlickDeque"),
        (lambda: mt.rolling([1, 2], 2, mt.TopBy(2, "v", "a")), "takes 2 columns"),
        (lambda: mt.rolling(pa.array(["a", "b"]), 2, mt.Histogram(edges=[0, 1])), "computes with"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
