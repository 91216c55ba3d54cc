"""Products, truth, bits, bars and chosen rows: their edges, and what tables make of them."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.aggregates import close
from tests.test_aggregates import result

nan, inf = math.nan, math.inf


@pytest.mark.parametrize(
    ("aggregate", "values", "expected"),
    [
        (mt.Prod(), [], None),
        (mt.Prod(), [None, 5], 5),
        (mt.Prod(), [10**30, 10**30, 0], 0),
        (mt.Prod(), [2**70, Fraction(1, 2)], 2**69),
        (mt.Prod(), [Decimal("0.1"), Decimal("0.3")], Decimal("0.03")),
        (mt.Prod(), [Decimal("0.1"), Fraction(1, 3)], Fraction(1, 30)),
        (mt.Prod(), [1e300, 1e300, 1e-300, 1e-300], 1.0),
        (mt.Prod(), [1e300, 1e300], inf),
        (mt.Prod(), [1e300, -1e300], -inf),
        (mt.Prod(), [1e-300, 1e-300], 0.0),
        (mt.Prod(), [10**400, 1e-300], 1e100),
        (mt.Prod(), [0.0, inf], nan),
        (mt.Prod(), [0, inf], nan),
        (mt.Prod(), [2.0, inf], inf),
        (mt.Prod(), [2.0, nan], nan),
        (mt.All(), [], None),
        (mt.All(), [1, 0], False),
        (mt.All(), [True, nan], True),
        (mt.Any(), [None], None),
        (mt.Any(), [0.0, -0.0], False),
        (mt.BitAnd(), [], None),
        (mt.BitAnd(), [2**80 + 1, 2**80 + 2], 2**80),
        (mt.BitOr(), [True, False], True),
        (mt.BitOr(), [-1, 4], -1),
        (mt.Ohlc(), [], None),
        (mt.Ohlc(), [2.0, nan, 1.0], (2.0, nan, 1.0, 1.0)),
        (mt.Ohlc(), [None, 3], (3, 3, 3, 3)),
        (mt.Vwap(), [], None),
        (mt.Vwap(), [(10, None), (None, 3), (20, 1)], 20.0),
        (mt.Vwap(), [(10, 0)], nan),
        (mt.Vwap(), [(1e9 + 0.25, 1), (1e9 + 0.75, 1)], 1e9 + 0.5),
        (mt.Vwap(), [(nan, 1), (1, 1)], nan),
        (mt.Vwap(), [(inf, 1), (1, 1)], inf),
        (mt.Drawdown(), [], None),
        (mt.Drawdown(), [5], 0.0),
        (mt.Drawdown(), [1, 2, 3], 0.0),
        (mt.Drawdown(), [0, 5, 1], nan),
        (mt.Drawdown(), [5, 0], 1.0),
        (mt.Drawdown(), [5, -1], nan),
        (mt.Drawdown(), [5.0, nan], nan),
        (mt.Drawdown(), [5.0, inf], nan),
        (mt.ArgMax("v", "a", "b"), [{"v": 1, "a": "x", "b": None}], ("x", None)),
        (mt.ArgMin("v", "a", "b"), [{"v": None, "a": "x", "b": 1}], None),
    ],
    ids=str,
)
def test_edges(aggregate, values, expected):
    assert close(result(aggregate, values), expected)


def test_products_take_out_what_has_left_exactly():
    window = mt.SubtractOnEvict(mt.Prod())
    window.bulk_insert([0, 10**30, 3, 7])
    assert window.query() == 0
    window.evict()
    window.evict()
    assert window.query() == 21


WIDE = np.array([2**32, -(2**31), 1, 3, 2**31, 2**32, -1, 0], np.int64)


def test_products_fit_exactly_or_not_at_all():
    for n in (2, 3):
        exact = [math.prod(map(int, WIDE[max(0, i - n + 1) : i + 1])) for i in range(len(WIDE))]
        fits = [-(2**63) <= x < 2**63 for x in exact]
        found = mt.rolling(pa.array(WIDE), n, mt.Prod(overflow="null"), min_periods=1).to_pylist()
        assert found == [x if fit else None for x, fit in zip(exact, fits, strict=True)]
        assert not all(fits)
    with pytest.raises(OverflowError, match="prod of the window of row 5"):
        mt.rolling(WIDE, 2, mt.Prod(), min_periods=1)
    unsigned = np.array([2**32, 2**32 - 1, 2**32 + 1], np.uint64)
    found = mt.rolling(pa.array(unsigned), 2, mt.Prod(overflow="null"), min_periods=1)
    assert found.to_pylist() == [2**32, 2**64 - 2**32, 2**64 - 1]
    assert found.type == pa.uint64()


ROWS = pa.table(
    {
        "t": [1, 2, 3, 11],
        "v": [3, 5, 5, None],
        "a": pa.array(["x", "y", None, "z"]),
        "b": pa.array([1, 2, 3, 4], pa.timestamp("ms", "UTC")),
    }
)


def test_several_arguments_are_a_struct_with_their_types():
    query = mt.Query(
        time="t",
        windows={"ten": mt.Tumbling(10)},
        aggregates={"top": mt.ArgMax("v", "a", "b"), "low": mt.ArgMin("v", "b", "a")},
    )
    found = query.run(ROWS)
    kind = pa.struct([("a", pa.string()), ("b", pa.timestamp("ms", "UTC"))])
    assert found.schema.field("top").type == kind
    assert found["top"].to_pylist() == [{"a": "y", "b": ROWS["b"][1].as_py()}, None]
    assert found["low"].to_pylist() == [{"b": ROWS["b"][0].as_py(), "a": "x"}, None]
    columns = tuple(ROWS[name] for name in "vab")
    rolled = mt.rolling(columns, 2, mt.ArgMax("v", "a", "b"), min_periods=1)
    assert rolled.type == kind
    assert rolled.field("a").to_pylist() == ["x", "y", "y", None]
    plain = (np.array([3.0, 5.0]), np.array([7, 8]), np.array([1.5, 2.5]))
    assert mt.rolling(plain, 2, mt.ArgMax("v", "a", "b"), min_periods=1).tolist() == [
        (7, 1.5),
        (8, 2.5),
    ]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: mt.ArgMax("v"), TypeError, "all 2 column names"),
        (lambda: mt.ArgMax("v", "a", "a"), TypeError, "each argument once"),
        (lambda: mt.Prod(overflow="wrap"), ValueError, "wrap"),
        (lambda: result(mt.Prod(), ["a"]), TypeError, "prod takes numbers"),
        (lambda: result(mt.BitOr(), [1.5]), TypeError, "whole numbers"),
        (lambda: result(mt.All(), ["yes"]), TypeError, "booleans and numbers"),
        (lambda: mt.rolling([1.5, 2.5], 2, mt.BitAnd()), TypeError, "whole numbers"),
        (lambda: mt.SlickDeque(mt.Vwap()), TypeError, "SlickDeque"),
        (lambda: mt.SubtractOnEvict(mt.Drawdown()), TypeError, "SubtractOnEvict"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
