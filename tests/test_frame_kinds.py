"""Rolling over frames and columns of every kind: what comes in tells what goes out."""

import datetime as dt

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import muntin as mt

ROWS = pa.table(
    {
        "at": pa.array([0, 1, 5, 6], pa.timestamp("s")),
        "k": pa.array(["a", "b", "a", "b"]),
        "v": pa.array([3, None, 4, 1], pa.int64()),
    }
)
ASKED = {"top": mt.Max("v"), "n": mt.Count()}
EXPECTED = {"top": [3, None, 4, 1], "n": [1, 1, 2, 2]}


class Stream:
    """Data that only Arrow's stream interface can read."""

    def __init__(self, data):
        self._data = data

    def __arrow_c_stream__(self, requested_schema=None):
        return self._data.__arrow_c_stream__(requested_schema)


class Array:
    """Data that only Arrow's array interface can read."""

    def __init__(self, data):
        self._data = data

    def __arrow_c_array__(self, requested_schema=None):
        return self._data.__arrow_c_array__(requested_schema)


KINDS = {
    "RecordBatch": (ROWS.to_batches()[0], pa.RecordBatch),
    "lazy": (pl.from_arrow(ROWS).lazy(), pl.LazyFrame),
    "DuckDB": (duckdb.from_arrow(ROWS), duckdb.DuckDBPyRelation),
    "stream": (Stream(ROWS), pa.Table),
    "array": (Array(ROWS.to_batches()[0]), pa.RecordBatch),
    "narwhals of Polars": (nw.from_native(pl.from_arrow(ROWS)), nw.DataFrame),
    "narwhals of lazy": (nw.from_native(pl.from_arrow(ROWS).lazy()), nw.LazyFrame),
    "narwhals of pandas": (nw.from_native(ROWS.to_pandas()), nw.DataFrame),
    "pandas of Arrow": (ROWS.to_pandas(types_mapper=pd.ArrowDtype), pd.DataFrame),
    "pandas": (ROWS.to_pandas(), pd.DataFrame),
    "pandas nullable": (ROWS.to_pandas().convert_dtypes(), pd.DataFrame),
}


def plain(results):
    if isinstance(results, nw.LazyFrame | pl.LazyFrame):
        results = results.collect()
    if isinstance(results, nw.DataFrame):
        results = results.to_native()
    if isinstance(results, duckdb.DuckDBPyRelation):
        results = results.to_arrow_table()
    if isinstance(results, pd.DataFrame):
        return {
            name: [None if pd.isna(x) else x for x in results[name].tolist()] for name in results
        }
    if isinstance(results, pl.DataFrame):
        return results.to_dict(as_series=False)
    return results.to_pydict()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_frame_comes_back(kind):
    frame, wanted = KINDS[kind]
    results = mt.rolling(frame, 2, ASKED, on="at", by="k", min_periods=1)
    assert type(results) is wanted
    assert plain(results) == EXPECTED
    assert plain(mt.rolling(frame, "10 s", ASKED, on="at", by=["k"])) == EXPECTED


def test_columns_of_other_libraries():
    values = pa.array([1, 2, None])
    for column in (Stream(pa.chunked_array([values])), Array(values)):
        assert mt.rolling(column, 2, mt.Sum(), min_periods=1).to_pylist() == [1, 3, 2]
    series = nw.from_native(pl.Series("v", [1, 2, 3]), series_only=True)
    result = mt.rolling(
        series,
        2,
        mt.Sum(),
        by=nw.from_native(pl.Series(list("aba")), series_only=True),
        min_periods=1,
    )
    assert isinstance(result, nw.Series)
    assert result.to_list() == [1, 2, 4]


def test_names_of_pandas_that_are_no_text_and_levels_of_an_index():
    frame = pd.DataFrame(np.arange(8.0).reshape(4, 2))
    assert mt.rolling(frame, 2, {"s": mt.Sum("1")}, min_periods=1)["s"].tolist() == [1, 4, 8, 12]
    at = pd.date_range("2026-01-01", periods=4, freq="s")
    frame.index = pd.MultiIndex.from_arrays([list("aabb"), at], names=["k", "at"])
    result = mt.rolling(frame, "5 s", {"s": mt.Sum("1")}, on="at", by="k")
    assert result["s"].tolist() == [1, 4, 5, 12]
    assert result.index.equals(frame.index)
    twice = pd.DataFrame([[1, 2]], columns=["v", "v"])
    with pytest.raises(KeyError, match="2 columns 'v'"):
        mt.rolling(twice, 1, {"s": mt.Sum("v")})
    with pytest.raises(KeyError, match="there are 'at', 'k', 'v'"):
        mt.rolling(ROWS, 1, {"s": mt.Sum("w")})


def test_dates_categories_booleans_and_fine_durations():
    days = pd.Series([dt.date(2026, 1, d) for d in (1, 2, 5)])
    for on in (pa.array(days), pl.Series(days), np.array(days, "datetime64[D]")):
        assert list(mt.rolling(np.array([1, 2, 3]), "2 days", mt.Sum(), on=on)) == [1, 3, 3]
    ticks, sums = mt.rolling(
        pa.array([1, 2, 3]), "2 days", mt.Sum(), on=pa.array(days), every="2 days"
    )
    assert ticks.tolist() == [dt.date(2026, 1, 3), dt.date(2026, 1, 5), dt.date(2026, 1, 7)]
    assert sums.to_pylist() == [3, None, 3]
    keys = pd.Series(["x", "y", "x"], dtype="category").cat.add_categories(["z"])
    for by in (keys, pa.array(keys), pl.Series(["x", "y", "x"], dtype=pl.Categorical)):
        assert list(mt.rolling(np.array([1, 2, 3]), 2, mt.Sum(), by=by, min_periods=1)) == [1, 2, 4]
    yes = pd.Series([True, None, False], dtype="boolean")
    assert mt.rolling(yes, 2, mt.All(), min_periods=1).tolist() == [True, True, False]
    assert mt.rolling(pl.Series([True, None, False]), 2, mt.Any(), min_periods=1).to_list() == [
        True,
        True,
        False,
    ]
    fine = pa.array([1, 2, 3], pa.duration("ns"))
    result = mt.rolling(fine, 2, mt.Sum(), min_periods=1)
    assert result.type == pa.duration("ns")
    assert result.cast(pa.int64()).to_pylist() == [1, 3, 5]
    assert mt.rolling(
        pl.Series([1, 2], dtype=pl.Duration("ns")), 2, mt.Max(), min_periods=1
    ).dtype == pl.Duration("ns")
