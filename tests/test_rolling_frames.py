"""Rolling over frames: sizes and aggregates by name, groups, bounds, ticks; against a plain loop."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin as mt
from muntin.aggregates import close
from tests.oracle import Oracle

AGGREGATES = {
    "peak": mt.Max("price"),
    "total": mt.Sum("volume"),
    "usual": mt.Mean("price"),
    "spread": mt.Std("price"),
    "n": mt.Count(),
    "middle": mt.Median("price"),
    "rows": mt.Collect("volume"),
    "best": mt.ArgMax("price", "volume"),
    "vwap": mt.Vwap("price", "volume"),
    "bar": mt.Ohlc("price"),
    "first": mt.First("price"),
    "corr": mt.Corr("price", "volume"),
    "kinds": mt.CountDistinct("price"),
}
SIZES = {
    "three": 3,
    "far": mt.rows(50),
    "while": "4 s",
    "all": None,
    "around": (-3, 2),
    "behind": (-5, -2),
    "ahead": (1, 3),
    "near": ("-3 s", "2 s"),
    "soon": ("1 s", "4 s"),
    "ago": ("-9 s", "-4 s"),
    "rest": (0, None),
    "late": ("2 s", None),
    "begin": (None, "-1 s"),
    "whole": (None, None),
}


def window(size, rows, i):
    """Return which of the rows of a group are in the window of the i-th; rows are (second, ...)."""
    now = rows[i][0]
    numbers = range(len(rows))
    if isinstance(size, tuple):
        seconds = any(isinstance(bound, str) for bound in size)
        low, high = (int(b.split()[0]) if isinstance(b, str) else b for b in size)
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        return [k for k in numbers if low <= (rows[k][0] - now if seconds else k - i) <= high]
    if size is None:
        return [k for k in numbers if k <= i]
    if isinstance(size, str):
        length = int(size.split()[0])
        return [k for k in numbers if k <= i and now - length < rows[k][0]]
    n = size if isinstance(size, int) else size.count
    return [k for k in numbers if i - n < k <= i]


def defined(aggregate, rows, chosen, least):
    """Fold the chosen rows, (second, price, volume), from scratch."""
    places = {"price": 1, "volume": 2}
    names = aggregate.columns
    values = [tuple(rows[k][places[name]] for name in names) for k in chosen]
    there = [v for v in values if None not in v]
    if len(values if aggregate.counts_rows else there) < least:
        return None
    bare = mt.Count() if aggregate.counts_rows else aggregate
    oracle = Oracle(bare if not names else _bare(aggregate))
    oracle.values = [v[0] if len(v) == 1 else v for v in there] if names else values
    return oracle.query()


def _bare(aggregate):
    return replace(aggregate, columns=())


def same(result, wanted):
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, list | np.ndarray) and isinstance(wanted, tuple):
        result = tuple(result)
    missing = result is None or (isinstance(result, float) and math.isnan(result))
    if wanted is None or (isinstance(wanted, float) and math.isnan(wanted)):
        assert missing, (result, wanted)
    else:
        assert not missing, (result, wanted)
        assert close(result, wanted, 1e-7), (result, wanted)


rows_of = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(st.none(), st.integers(-20, 20).map(lambda k: k / 4)),
        st.integers(1, 9),
        st.sampled_from(["nyse", "xetra"]),
        st.sampled_from(["a", "b", None]),
    ),
    min_size=1,
    max_size=40,
)
COLUMNS = ("at", "price", "volume", "exchange", "symbol")


def table_of(rows):
    seconds = np.cumsum([row[0] for row in rows])
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    return pa.table(
        {
            "at": pa.array(seconds.astype("datetime64[s]")),
            "price": pa.array(columns["price"], pa.float64()),
            "volume": pa.array(columns["volume"], pa.int64()),
            "exchange": pa.array(columns["exchange"], pa.string()),
            "symbol": pa.array(columns["symbol"], pa.string()).dictionary_encode(),
        }
    ), seconds.tolist()


@settings(max_examples=40, deadline=None)
@given(
    rows=rows_of,
    by=st.sampled_from([None, "exchange", ["exchange", "symbol"]]),
    sizes=st.lists(st.sampled_from([*SIZES]), min_size=1, max_size=4, unique=True),
    names=st.lists(st.sampled_from([*AGGREGATES]), min_size=1, max_size=4, unique=True),
    kind=st.sampled_from(["arrow", "polars"]),
    step=st.sampled_from([None, None, 2]),
)
def test_every_column_equals_its_definition(rows, by, sizes, names, kind, step):
    table, seconds = table_of(rows)
    frame = table if kind == "arrow" else pl.from_arrow(table)
    aggregates = {name: AGGREGATES[name] for name in names}
    chosen = {name: SIZES[name] for name in sizes}
    results = mt.rolling(frame, chosen, aggregates, on="at", by=by, every=step, min_periods=1)
    assert type(results) is type(frame)
    table = results if kind == "arrow" else results.to_arrow()
    assert table.column_names == [f"{s}_{n}" for s in sizes for n in names]
    fields = {"exchange": 3, "symbol": 4}
    keys = [by] if isinstance(by, str) else by or []
    groups = {}
    for i, row in enumerate(rows):
        key = tuple(row[fields[name]] for name in keys)
        groups.setdefault(key, []).append(i)
    wanted_rows = sorted(i for members in groups.values() for i in members[:: step or 1])
    for size in sizes:
        for name in names:
            column = table[f"{size}_{name}"].to_pylist()
            expected = {}
            for members in groups.values():
                inside = [(seconds[i], *rows[i][1:3]) for i in members]
                for place, i in enumerate(members):
                    rows_in = window(SIZES[size], inside, place)
                    expected[i] = defined(AGGREGATES[name], inside, rows_in, 1)
            for result, i in zip(column, wanted_rows, strict=True):
                same(result, expected[i])


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=1, max_size=40),
    data=st.data(),
)
def test_bounds_as_two_arrays(values, data):
    n = len(values)
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, n), st.integers(0, n)), min_size=n, max_size=n)
    )
    starts, ends = np.array([(min(p), max(p)) for p in pairs]).T
    for aggregate in (mt.Sum(), mt.Collect(), mt.Median(), mt.Max(), mt.Mean()):
        result = mt.rolling(pa.array(values, pa.int64()), (starts, ends), aggregate)
        for got, start, end in zip(result.to_pylist(), starts, ends, strict=True):
            there = [v for v in values[start:end] if v is not None]
            oracle = Oracle(aggregate)
            oracle.values = there
            same(got, oracle.query() if there else None)


def test_custom_indexers_of_pandas():
    class Expanding(pd.api.indexers.BaseIndexer):
        def get_window_bounds(
            self, num_values=0, min_periods=None, center=None, closed=None, step=None
        ):
            del min_periods, center, closed, step
            grows = np.arange(num_values) % 3 == 0
            ends = np.arange(1, num_values + 1)
            return np.where(grows, 0, ends - 1), ends

    series = pd.Series(np.random.default_rng(1).random(50))
    indexer = Expanding()
    bounds = indexer.get_window_bounds(50)
    theirs = series.rolling(indexer, min_periods=1).mean()  # its max expects ends that never fall
    pd.testing.assert_series_equal(mt.rolling(series, bounds, mt.Mean()), theirs)
    forward = pd.api.indexers.FixedForwardWindowIndexer(window_size=4)
    theirs = series.rolling(forward, min_periods=1).sum()
    pd.testing.assert_series_equal(mt.rolling(series, (0, 3), mt.Sum()), theirs)


@settings(max_examples=30, deadline=None)
@given(
    rows=rows_of,
    by=st.sampled_from([None, "exchange", ["exchange", "symbol"]]),
    size=st.sampled_from([3, None, 7]),
    every=st.integers(1, 5),
)
def test_ticks_of_groups(rows, by, size, every):
    table, seconds = table_of(rows)
    length = None if size is None else f"{size} s"
    aggregates = {"total": mt.Sum("volume"), "rows": mt.Collect("volume")}
    results = mt.rolling(table, length, aggregates, on="at", by=by, every=f"{every} s")
    keys = [by] if isinstance(by, str) else by or []
    assert results.column_names == [*keys, "at", "total", "rows"]
    fields = {"exchange": 3, "symbol": 4}
    groups = {}
    for i, row in enumerate(rows):
        groups.setdefault(tuple(row[fields[name]] for name in keys), []).append(i)
    expected = {}
    for key, members in groups.items():
        first, last = seconds[members[0]], seconds[members[-1]]
        for tick in range((first // every + 1) * every, (last // every + 1) * every + 1, every):
            low = -math.inf if size is None else tick - size
            expected[(*key, tick)] = [rows[i][2] for i in members if low <= seconds[i] < tick]
    found = results.to_pylist()
    assert len(found) == len(expected)
    for row in found:
        there = expected[(*(row[k] for k in keys), int(row["at"].timestamp()))]
        assert row["rows"] == (there or None)
        assert row["total"] == (sum(there) if there else None)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "dict"])
def test_each_kind_of_frame_comes_back(kind):
    frame = pd.DataFrame(
        {
            "at": pd.date_range("2026-01-01", periods=4, freq="30min", tz="Europe/Berlin"),
            "k": list("abab"),
            "v": [1, 2, 3, 4],
        },
        index=list("wxyz"),
    )
    given = {
        "pandas": frame,
        "polars": pl.from_pandas(frame.reset_index(drop=True)),
        "arrow": pa.Table.from_pandas(frame, preserve_index=False),
        "dict": {name: frame[name].to_numpy() for name in ("k", "v")}
        | {"at": frame["at"].dt.tz_localize(None).to_numpy()},
    }[kind]
    results = mt.rolling(
        given,
        {"hour": "1h", "two": 2},
        {"top": mt.Max("v"), "n": mt.Count()},
        on="at",
        by="k",
        min_periods=1,
    )
    assert type(results) is type(given)
    assert list(results["hour_top"].to_pylist() if kind == "arrow" else results["hour_top"]) == [
        1,
        2,
        3,
        4,
    ]
    assert list(results["two_n"].to_pylist() if kind == "arrow" else results["two_n"]) == [
        1,
        1,
        2,
        2,
    ]
    if kind == "pandas":
        assert results.index.tolist() == list("wxyz")
    one = mt.rolling(given, "1h", {"top": mt.Max("v")}, on="at", by=["k"], every="1h")
    assert type(one) is type(given)
    if kind == "pandas":
        assert one.index.names == ["k", "at"]
        assert str(one.index.levels[1].dtype).endswith("Europe/Berlin]")
        assert one["top"].tolist() == [1, 3, 2, 4]
    else:
        assert list(one["top"].to_pylist() if kind == "arrow" else one["top"]) == [1, 3, 2, 4]
        assert list(one["k"].to_pylist() if kind == "arrow" else one["k"]) == list("aabb")


def test_pandas_and_polars_agree_on_groups():
    rng = np.random.default_rng(5)
    n = 400
    frame = pd.DataFrame(
        {
            "x": rng.choice(list("abc"), n),
            "y": rng.integers(0, 3, n),
            "v": rng.integers(0, 99, n).astype(float),
            "at": pd.Timestamp("2026-01-01")
            + pd.to_timedelta(np.cumsum(rng.integers(1, 4, n)), unit="s"),
        }
    )
    ours = mt.rolling(
        frame,
        {"r": 5, "t": "20s"},
        {"sum": mt.Sum("v"), "max": mt.Max("v"), "std": mt.Std("v")},
        on="at",
        by=["x", "y"],
    )
    grouped = frame.groupby(["x", "y"])
    for how in ("sum", "max", "std"):
        rows = getattr(grouped["v"].rolling(5), how)().droplevel([0, 1]).sort_index()
        pd.testing.assert_series_equal(ours[f"r_{how}"], rows, check_names=False)
        times = getattr(grouped.rolling("20s", on="at")["v"], how)()
        times.index = np.concatenate([grouped.indices[key] for key in sorted(grouped.indices)])
        pd.testing.assert_series_equal(ours[f"t_{how}"], times.sort_index(), check_names=False)
    theirs = pl.from_pandas(frame).select(pl.col("v").rolling_sum_by("at", "20s").over("x", "y"))
    assert np.allclose(theirs["v"].to_numpy(), ours["t_sum"].to_numpy())


FRAME = pa.table({"v": [1, 2, 3], "k": ["a", "b", "a"], "at": [1, 2, 3]})
WRONG = [
    (lambda: mt.rolling(FRAME, {}, {"m": mt.Max("v")}), ValueError, "dict of sizes is empty"),
    (lambda: mt.rolling(FRAME, 2, {}), ValueError, "dict of aggregates is empty"),
    (lambda: mt.rolling(FRAME, {1: 2}, mt.Max("v")), TypeError, "named by text, got 1"),
    (
        lambda: mt.rolling(FRAME, {"a_b": 1, "a": 2}, {"c": mt.Max("v"), "b_c": mt.Max("v")}),
        ValueError,
        "two columns 'a_b_c'",
    ),
    (lambda: mt.rolling(FRAME, 2, {"m": mt.Max("w")}), KeyError, "no column"),
    (lambda: mt.rolling(FRAME, 2, {"m": mt.Max("v")}, by=["k", "z"]), KeyError, "no column 'z'"),
    (lambda: mt.rolling(FRAME, (2, 1), mt.Max("v")), ValueError, "ends before it begins"),
    (lambda: mt.rolling(FRAME, (1, 2, 3), mt.Max("v")), ValueError, "pair of bounds"),
    (
        lambda: mt.rolling(FRAME, (-1, 1), mt.Max("v"), closed="both"),
        ValueError,
        "closed is not for",
    ),
    (lambda: mt.rolling(FRAME, (-1, 1), mt.Max("v"), center=True), ValueError, "center is not for"),
    (lambda: mt.rolling(FRAME, ("-1 s", "1 s"), mt.Max("v")), TypeError, "give on="),
    (lambda: mt.rolling(FRAME, (-1.5, 1), mt.Max("v")), TypeError, "bound"),
    (lambda: mt.rolling(FRAME, ([0, 0], [1, 1]), mt.Max("v")), ValueError, "starts has 2 windows"),
    (lambda: mt.rolling(FRAME, ([0, 2, 0], [1, 1, 4]), mt.Max("v")), ValueError, r"ends\[2\] is 4"),
    (
        lambda: mt.rolling(FRAME, ([0, 2, 0], [1, 1, 3]), mt.Max("v")),
        ValueError,
        "row 1 ends before",
    ),
    (
        lambda: mt.rolling(FRAME, ([0, 0, 0], [1, 1, 3]), mt.Max("v"), by="k"),
        ValueError,
        "leave by out",
    ),
    (lambda: mt.rolling(FRAME, 2, {"m": mt.Max("v")}, out=np.empty(3)), TypeError, "leave it out"),
    (
        lambda: mt.rolling(FRAME, (-1, 1), mt.Max("v"), on="at", every=2, by="z"),
        KeyError,
        "no column 'z'",
    ),
    (
        lambda: mt.rolling(FRAME, mt.rows(2), mt.Max("v"), on="at", every=2),
        ValueError,
        "must be a duration",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), WRONG)
def test_wrong_use_is_told(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_a_frame_of_no_rows_has_the_types_of_others(kind):
    table = pa.table(
        {
            "at": pa.array([0], pa.timestamp("us")),
            "k": ["a"],
            "v": pa.array([1], pa.int64()),
            "d": pa.array([1], pa.duration("s")),
        }
    )
    frame = {
        "pandas": table.to_pandas,
        "polars": lambda: pl.from_arrow(table),
        "arrow": lambda: table,
    }
    full = frame[kind]()
    aggregates = {
        "sum": mt.Sum("v"),
        "mean": mt.Mean("v"),
        "top": mt.Max("k"),
        "n": mt.Count(),
        "all": mt.Collect("v"),
        "long": mt.Sum("d"),
        "best": mt.ArgMax("v", "k"),
        "middle": mt.Median("v"),
    }
    for every in (None, "1 s"):
        options = {"on": "at", "by": "k", "every": every}
        some = mt.rolling(full, "5 s", aggregates, **options)
        none = mt.rolling(full[:0], "5 s", aggregates, **options)
        if kind == "pandas":
            assert none.dtypes.to_dict() == some.dtypes.to_dict()
            assert none.index.names == some.index.names
        else:
            assert none.schema == some.schema
        assert len(none) == 0


def test_results_that_are_there_for_some_windows_only_compile():
    values = np.arange(200.0)
    pairs = {"lift": lambda v: (v, 1), "combine": lambda a, b: (a[0] + b[0], a[1] + b[1])}
    many = mt.Aggregate(
        "many", (0.0, 0), **pairs, lower=lambda p: None if p[1] < 50 else p[0] / p[1]
    )
    few = mt.Aggregate("few", (0.0, 0), **pairs, lower=lambda p: p[0] if p[1] == 1 else None)
    for aggregate, least, most in ((many, 50, 200), (few, 1, 1)):
        assert mt.rolling_plan(values, 100, aggregate).compiled
        result = mt.rolling(values, 100, aggregate, min_periods=1)
        rows = np.minimum(np.arange(200) + 1, 100)
        assert np.array_equal(~np.isnan(result), (least <= rows) & (rows <= most))
        assert np.isnan(result).any()
