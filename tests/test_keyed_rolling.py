"""Rolling windows of keys over arrays that keep coming: what one array gives, whatever the cuts."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin as mt

AGGREGATES = [
    mt.Sum(),
    mt.Max(),
    mt.Mean(),
    mt.Collect(),
    mt.Count(),
    mt.CountDistinct(),
    mt.First(),
]
rows_of = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(st.none(), st.integers(-9, 9)),
        st.sampled_from(["a", "b", "c", None]),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(
    rows=rows_of,
    aggregate=st.sampled_from(AGGREGATES),
    size=st.sampled_from([1, 3, 10, "2 s", "9 s"]),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    several=st.booleans(),
    algorithm=st.sampled_from(["DabaLite", "TwoStacksLite"]),
)
def test_pushes_equal_one_array(rows, aggregate, size, cuts, several, algorithm):
    at = np.cumsum([row[0] for row in rows]).astype("datetime64[s]")
    values = pa.array([row[1] for row in rows], pa.int64())
    keys = [pa.array([row[2] for row in rows], pa.string()), np.array([row[3] for row in rows])]
    keys = keys if several else keys[:1]
    timed = isinstance(size, str)
    options = {"min_periods": 1, "by": ["k", "l"] if several else "k", "algorithm": algorithm}
    expected = mt.rolling(
        values, size, aggregate, on=at if timed else None, by=keys, min_periods=1
    ).to_pylist()
    window, found = mt.Rolling(size, aggregate, **options), []
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    for lo, hi in pairwise(edges):
        on = at[lo:hi] if timed else None
        by = [key[lo:hi] for key in keys]
        found += window.push(values[lo:hi], on=on, by=by if several else by[0]).to_pylist()
        window = mt.Rolling.restore(window.snapshot(), size, aggregate, **options)
    assert found == expected


def test_a_push_that_fails_changes_nothing():
    window = mt.Rolling("5 s", mt.Sum(), by="plug")
    window.push([1, 2, 3], on=[1, 2, 3], by=["tv", "lamp", "tv"])
    before = window.snapshot()
    with pytest.raises(ValueError, match="row 1 is at 1, before its predecessor"):
        window.push([1, 1], on=[4, 1], by=["new", "lamp"])
    assert window.snapshot() == before
    assert window.push([4], on=[2], by=["lamp"]).tolist() == [6]
    assert len(window) == 4


def test_an_index_stays_and_sums_that_do_not_fit_are_told():
    window = mt.Rolling(2, mt.Sum(), by="k", min_periods=1)
    series = pd.Series([1, 2, 3], index=[5, 6, 7])
    pd.testing.assert_series_equal(
        window.push(series, by=series % 2), pd.Series([1, 2, 4], index=[5, 6, 7])
    )
    with pytest.raises(OverflowError, match="row 1 of this array"):
        window.push(np.array([1, 2**63 - 1]), by=[0, 1])
    assert window.push(np.array([7]), by=[1]).tolist() == [10]


@pytest.mark.parametrize(
    ("push", "error", "message"),
    [
        (lambda: mt.Rolling(2, mt.Sum(), by="k").push([1]), TypeError, "rows of keys need them"),
        (lambda: mt.Rolling(2, mt.Sum()).push([1], by=[1]), TypeError, "by is for windows of keys"),
        (
            lambda: mt.Rolling(2, mt.Sum(), by="k").push([1], by=[1, 2]),
            ValueError,
            "'k' has 2 rows",
        ),
        (
            lambda: mt.Rolling(2, mt.Sum(), by=["k", "l"]).push([1], by=[[1]]),
            ValueError,
            "1 columns",
        ),
    ],
)
def test_wrong_use_is_told(push, error, message):
    with pytest.raises(error, match=message):
        push()


def test_a_snapshot_belongs_to_its_keys():
    saved = mt.Rolling(2, mt.Sum(), by="k").snapshot()
    with pytest.raises(mt.SnapshotError, match="by"):
        mt.Rolling.restore(saved, 2, mt.Sum(), by="other")
    with pytest.raises(mt.SnapshotError):
        mt.Rolling.restore(saved, 2, mt.Sum())
