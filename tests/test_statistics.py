"""Statistics of one column and of two, against SciPy, pandas and NumPy, and at their edges."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import muntin as mt
from muntin.aggregates import close
from tests.test_aggregates import result

nan, inf = math.nan, math.inf
SIZE = 30
RNG = np.random.default_rng(23)
X = RNG.normal(size=400)
Y = X / 2 + RNG.normal(size=400)


def zscore(x):
    return stats.zscore(x)[-1]


ONE_COLUMN = {
    "Skew": (mt.Skew(), lambda x: stats.skew(x, bias=False)),
    "Kurt": (mt.Kurt(), lambda x: stats.kurtosis(x, bias=False)),
    "Sem": (mt.Sem(), stats.sem),
    "Zscore": (mt.Zscore(), zscore),
}
TWO_COLUMNS = {
    "Cov": (mt.Cov(), lambda x, y: np.cov(x, y)[0, 1]),
    "Corr": (mt.Corr(), lambda x, y: stats.pearsonr(x, y)[0]),
    "slope": (mt.Regression(), lambda y, x: stats.linregress(x, y).slope),
}


@pytest.mark.parametrize("shift", [0.0, 1e9])
@pytest.mark.parametrize("name", [*ONE_COLUMN, *TWO_COLUMNS])
def test_rolling_is_what_scipy_gives_for_values_near_zero(name, shift):
    """Values are multiples of 2^-20, so that nothing is rounded when they are shifted."""
    aggregate, reference = {**ONE_COLUMN, **TWO_COLUMNS}[name]
    columns = [np.round(c * 2**20) / 2**20 for c in ((X,) if name in ONE_COLUMN else (X, Y))]
    shifted = [c + shift for c in columns]
    found = mt.rolling(shifted[0] if len(columns) == 1 else tuple(shifted), SIZE, aggregate)
    for i in range(SIZE - 1, 400, 37):
        wanted = reference(*(c[i - SIZE + 1 : i + 1] for c in columns))
        got = found[i][0] if name == "slope" else found[i]
        assert got == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert np.isnan(found[0]) if name != "slope" else found[0] is None


def test_rolling_is_what_pandas_gives_for_equal_values():
    same = pd.Series([3.0] * 6)
    for aggregate, theirs in (
        (mt.Skew(), same.rolling(5).skew()),
        (mt.Kurt(), same.rolling(5).kurt()),
    ):
        assert mt.rolling(same, 5, aggregate).equals(theirs)


@pytest.mark.parametrize(
    ("aggregate", "values", "expected"),
    [
        (mt.Sem(), [], None),
        (mt.Sem(), [4], None),
        (mt.Sem(ddof=0), [4], 0.0),
        (mt.Sem(), [1.0, nan], nan),
        (mt.Sem(), [1.0, inf], nan),
        (mt.Zscore(), [], None),
        (mt.Zscore(), [4], nan),
        (mt.Zscore(ddof=1), [4], None),
        (mt.Zscore(), [4, 4, 4], nan),
        (mt.Zscore(), [1.0, nan, 2.0], nan),
        (mt.Zscore(), [1, 3, None], 1.0),
        (mt.Zscore(), [10**30, 10**30 + 2], 1.0),
        (mt.Zscore(), [Decimal(1), 2.0], 1.0),
        (mt.Skew(), [1, 2], None),
        (mt.Skew(), [1, None, 2], None),
        (mt.Skew(), [1.0, 2.0, nan], nan),
        (mt.Skew(), [1.0, 2.0, inf], nan),
        (mt.Skew(), [1e-200, 2e-200, 9e-200], stats.skew([1, 2, 9], bias=False)),
        (mt.Skew(), [1e200, 2e200, 9e200], stats.skew([1, 2, 9], bias=False)),
        (mt.Skew(), [Fraction(1, 3), Fraction(2, 3), 3], stats.skew([1, 2, 9], bias=False)),
        (mt.Kurt(), [1, 2, 9], None),
        (mt.Kurt(), [1, 2, 9, 4.0], stats.kurtosis([1, 2, 9, 4], bias=False)),
        (mt.Cov(), [], None),
        (mt.Cov(), [(1, 2)], None),
        (mt.Cov(ddof=0), [(1, 2)], 0.0),
        (mt.Cov(), [(1, 2), (1, 5)], 0.0),
        (mt.Cov(), [(1, 2), (None, 3), (3, None), (3, 6)], 4.0),
        (mt.Cov(), [(1.0, 2), (nan, 3)], nan),
        (mt.Cov(), [(1.0, 2), (inf, 3)], nan),
        (mt.Cov(), [(1e200, 1e-200), (3e200, 2e-200)], 1.0),
        (mt.Corr(), [(1, 2)], None),
        (mt.Corr(), [(1, 2), (1, 5)], nan),
        (mt.Corr(), [(1, 5), (2, 5)], nan),
        (mt.Corr(), [(1, 1), (2, 2), (3, 3)], 1.0),
        (mt.Corr(), [(1e200, -1e-200), (2e200, -2e-200), (4e200, -4e-200)], -1.0),
        (mt.Regression(), [(7, 1)], None),
        (mt.Regression(), [(7, 1), (9, 1)], (nan, nan, nan)),
        (mt.Regression(), [(7, 1), (7, 3)], (0.0, 7.0, 0.0)),
        (mt.Regression(), [(7, 1), (9, 2), (None, 5)], (2.0, 5.0, 1.0)),
    ],
    ids=str,
)
def test_edges(aggregate, values, expected):
    assert close(result(aggregate, values), expected)


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_regression_on_several_columns(shift):
    x, z = X[:60] + shift, Y[:60]
    y = 3 * X[:60] - 2 * z + 5 + RNG.normal(size=60) / 10
    rows = [dict(zip("yxz", row, strict=True)) for row in zip(y, x, z, strict=True)]
    design = np.column_stack([X[:60], z, np.ones(60)])
    wanted, residuals, _, _ = np.linalg.lstsq(design, y, rcond=None)
    slope_x, slope_z, intercept, r2 = result(mt.Regression("y", "x", "z"), rows)
    assert (slope_x, slope_z) == pytest.approx(wanted[:2], rel=1e-8)
    assert intercept == pytest.approx(wanted[2] - shift * wanted[0], rel=1e-8)
    assert r2 == pytest.approx(1 - residuals[0] / (np.var(y) * 60), rel=1e-9)


def test_regression_on_columns_that_say_the_same():
    rows = [{"y": i, "x": i, "z": 2 * i + 1} for i in range(9)]
    aggregate = mt.Regression("y", "x", "z")
    assert close(result(aggregate, rows), (nan, nan, nan, nan))
    assert result(aggregate, rows[:2]) is None
    query = mt.Query(time="x", windows={"all": mt.Tumbling(9)}, aggregates={"fit": aggregate})
    kind = query.run(rows).schema.field("fit").type
    assert [field.name for field in kind] == ["slope_x", "slope_z", "intercept", "r2"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mt.Cov("x"), "all 2 column names"),
        (lambda: mt.Cov(ddof=-1), "ddof must be 0 or more"),
        (lambda: mt.Zscore(ddof=-1), "ddof must be 0 or more"),
        (lambda: mt.Regression("y"), "one or more columns x"),
        (lambda: result(mt.Corr(), [3]), "a pair of numbers"),
        (lambda: result(mt.Skew(), ["a"]), "takes numbers"),
        (lambda: mt.SubtractOnEvict(mt.Skew()), "SubtractOnEvict"),
        (lambda: mt.SlickDeque(mt.Corr()), "SlickDeque"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
