"""Rolling windows over arrays: against the definition, against pandas, in every kind of data."""

import datetime as dt
import math
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin as mt
from muntin.aggregates import close
from muntin.kernels.codegen import build
from muntin.kernels.order_statistics import in_order
from tests.catalogue import weighted_mean
from tests.oracle import Oracle

NUMERIC = {
    "count": mt.Count(),
    "sum": mt.Sum(),
    "mean": mt.Mean(),
    "min": mt.Min(),
    "max": mt.Max(),
    "var": mt.Var(),
    "std": mt.Std(ddof=0),
    "geo_mean": mt.GeoMean(),
    "range": mt.Range(),
    "relative_variation": mt.RelativeVariation(),
    "min_count": mt.MinCount(),
    "max_count": mt.MaxCount(),
    "first": mt.First(),
    "last": mt.Last(),
    "m4": mt.M4(),
    "median": mt.Median(),
    "quantile": mt.Quantile(q=0.9),
    "linear": mt.Quantile(q=0.3, interpolation="linear"),
    "collect": mt.Collect(),
    "longest_run": mt.LongestRun(),
}
ALGORITHMS = ["auto", "Sba", "TwoStacksLite", "DabaLite"]

eighths = st.integers(-80, 80).map(lambda k: k / 8)
floats = st.lists(st.one_of(eighths, st.just(math.nan)), min_size=1, max_size=60)
whole = st.lists(st.integers(-9, 9), min_size=1, max_size=60)


def defined(aggregate, values, spans, least):
    """Fold each window from scratch."""
    oracle = Oracle(aggregate)
    results = []
    for start, end in spans:
        oracle.values = values[start:end]
        enough = sum(value is not None for value in oracle.values) >= least
        results.append(oracle.query() if enough else None)
    return results


def as_list(results):
    return [
        None if x is None else x
        for x in (results.tolist() if hasattr(results, "tolist") else results)
    ]


def same(results, expected):
    for result, wanted in zip(as_list(results), expected, strict=True):
        missing = result is None or (isinstance(result, float) and math.isnan(result))
        if wanted is None:
            assert missing, (result, wanted)
        else:
            assert close(result, wanted, 1e-7), (result, wanted)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", NUMERIC)
@settings(max_examples=12, deadline=None)
@given(values=st.one_of(floats, whole), n=st.integers(1, 70), least=st.integers(1, 3))
def test_row_windows_equal_their_definition(name, algorithm, values, n, least):
    least = min(least, n)
    aggregate = NUMERIC[name]
    spans = [(max(0, i + 1 - n), i + 1) for i in range(len(values))]
    results = mt.rolling(np.array(values), n, aggregate, min_periods=least, algorithm=algorithm)
    same(results, defined(aggregate, values, spans, least))


@pytest.mark.parametrize("name", ["sum", "max", "m4", "first", "std"])
@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=1, max_size=200),
    n=st.integers(1, 99),
    rows=st.integers(1, 9),
)
def test_windows_of_many_blocks_equal_their_definition(name, values, n, rows):
    aggregate = NUMERIC[name]
    there = [value for value in values if value is not None]
    with mock.patch.object(build, "BLOCK_ROWS", rows):
        for column in (values, there):
            spans = [(max(0, i + 1 - n), i + 1) for i in range(len(column))]
            results = mt.rolling(pa.array(column, pa.int64()), n, aggregate, min_periods=1)
            same(results.to_pylist(), defined(aggregate, column, spans, 1))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("n", [1, 2, 7, 100, 2500, 3000])
def test_a_nan_is_noticed_wherever_it_is(name, n):
    rng = np.random.default_rng(n)
    for row in (0, 1, n - 1, 1500, 2999):
        values = rng.normal(size=3000)
        values[row] = math.nan
        expected = mt.rolling(values, n, NUMERIC[name], min_periods=1, algorithm="TwoStacksLite")
        for threads in (1, 2):
            results = mt.rolling(values, n, NUMERIC[name], min_periods=1, threads=threads)
            assert np.array_equal(results, expected, equal_nan=True)


@pytest.mark.parametrize("closed", ["right", "left", "both", "neither"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("name", ["sum", "max", "median", "collect", "m4"])
@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9)), min_size=1, max_size=50),
    n=st.integers(1, 9),
)
def test_time_windows_equal_their_definition(name, closed, center, rows, n):
    times = np.cumsum([gap for gap, _ in rows])
    values = [value for _, value in rows]
    half = n // 2
    spans = []
    for i, t in enumerate(times):
        low, high = (t - half, t + half) if center else (t - n, t)
        left = times >= low if closed in ("left", "both") else times > low
        right = times <= high if closed in ("right", "both") else times < high
        inside = left & right & (np.arange(len(times)) <= (len(times) if center else i))
        where = np.nonzero(inside)[0]
        spans.append((where[0], where[-1] + 1) if len(where) else (0, 0))
    aggregate = NUMERIC[name]
    expected = defined(aggregate, values, spans, 1)
    for algorithm in ALGORITHMS:
        options = {"closed": closed, "center": center, "algorithm": algorithm}
        same(mt.rolling(np.array(values), n, aggregate, on=times, **options), expected)


@pytest.mark.parametrize("window", [3, "4s"])
@pytest.mark.parametrize("closed", ["right", "left", "both", "neither"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("how", ["sum", "max", "min", "mean", "median", "std", "var"])
def test_pandas_agrees(window, closed, center, how):
    rng = np.random.default_rng(7)
    values = rng.integers(0, 20, 60).astype(float)
    values[rng.random(60) < 0.2] = np.nan
    index = pd.Timestamp("2026-01-01") + pd.to_timedelta(
        np.cumsum(rng.integers(0, 4, 60)), unit="s"
    )
    series = pd.Series(values, index, name="v")
    aggregate = {
        name.lower(): getattr(mt, name) for name in "Sum Max Min Mean Median Std Var".split()
    }[how]()
    for least in (None, 1, 2):
        ours = mt.rolling(
            series, window, aggregate, min_periods=least, closed=closed, center=center
        )
        theirs = getattr(series.rolling(window, least, center=center, closed=closed), how)()
        pd.testing.assert_series_equal(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("name", ["sum", "max", "median", "collect"])
def test_groups_stay_apart(name):
    rng = np.random.default_rng(3)
    groups = rng.choice(list("abc"), 80)
    values, times = rng.integers(0, 9, 80), np.cumsum(rng.integers(0, 3, 80))
    aggregate = NUMERIC[name]
    for options in ({"size": 4, "min_periods": 1}, {"size": 5, "on": times}):
        results = as_list(mt.rolling(values, aggregate=aggregate, by=groups, **options))
        for group in "abc":
            inside = groups == group
            on = {"on": times[inside]} if "on" in options else {}
            alone = mt.rolling(values[inside], aggregate=aggregate, **{**options, **on})
            assert [x for x, there in zip(results, inside, strict=True) if there] == as_list(alone)


def test_every_so_many_rows_and_every_so_often():
    values = np.arange(10)
    assert mt.rolling(values, 3, mt.Sum(), every=3, min_periods=1).tolist() == [0, 6, 15, 24]
    times = np.array([1, 2, 3, 11, 12], "datetime64[s]")
    ends, sums = mt.rolling(np.arange(5), "5 s", mt.Sum(), on=times, every="5 s")
    assert ends.astype("datetime64[s]").astype(int).tolist() == [5, 10, 15]
    assert sums[0] == 3
    assert np.isnan(sums[1])
    assert sums[2] == 7
    series = mt.rolling(
        pd.Series(np.arange(5), times), "5 s", mt.Count(), every="5 s", min_periods=0
    )
    assert series.to_dict() == {
        pd.Timestamp(5, unit="s"): 3,
        pd.Timestamp(10, unit="s"): 0,
        pd.Timestamp(15, unit="s"): 2,
    }


def test_each_kind_of_data_comes_back():
    values = [1, None, 3, 4]
    for data in (
        pl.Series("v", values),
        pa.array(values),
        pd.Series(values, dtype="Int64"),
        pa.chunked_array([values[:2], values[2:]]),
    ):
        results = mt.rolling(data, 2, mt.Sum(), min_periods=1)
        assert isinstance(results, pa.Array) or type(results) is type(data)
        assert (results.to_pylist() if isinstance(results, pa.Array) else results.to_list()) == [
            1,
            1,
            3,
            7,
        ]
    results = mt.rolling(pl.Series("v", values), 2, mt.Sum())
    assert results.to_list() == [None, None, None, 7]
    assert results.name == "v"
    masked = np.ma.masked_array([1, 2, 3], [False, True, False])
    assert mt.rolling(masked, 2, mt.Count("v"), min_periods=0).tolist() == [1, 1, 1]


def test_frames_name_their_columns():
    at = np.array([0, 1000, 2000, 9000], "datetime64[ms]")
    rows = {"watts": [3, 9, 2, 9], "plug": ["a", "b", "c", "d"], "at": at}
    for frame in (rows, pd.DataFrame(rows), pl.DataFrame(rows), pa.table(rows)):
        results = mt.rolling(frame, "3 s", mt.ArgMax("watts", "plug"), on="at")
        assert list(results.to_pylist() if hasattr(results, "to_pylist") else results) == [
            "a",
            "b",
            "b",
            "d",
        ]
    results = mt.rolling(pd.DataFrame(rows), 2, mt.Max("watts"), min_periods=1, by="plug")
    assert results.tolist() == [3, 9, 2, 9]


def test_types_are_kept():
    large = np.array([2**62, 1, -(2**62)])
    assert mt.rolling(large, 2, mt.Sum(), min_periods=1).tolist() == [2**62, 2**62 + 1, 1 - 2**62]
    assert mt.rolling(np.array([1, 2], np.uint64), 2, mt.Max(), min_periods=1).dtype == np.uint64
    assert (
        mt.rolling(np.array([1.5, 2], np.float32), 2, mt.Max(), min_periods=1).dtype == np.float32
    )
    assert mt.rolling(np.array([True, False, True]), 2, mt.Sum(), min_periods=1).tolist() == [
        1,
        1,
        1,
    ]
    days = np.array(["2026-01-02", "2026-01-01", "NaT"], "datetime64[D]")
    assert mt.rolling(days, 2, mt.Max(), min_periods=1).tolist() == [dt.date(2026, 1, 2)] * 2 + [
        dt.date(2026, 1, 1)
    ]
    assert mt.rolling(["b", "a", "c"], 2, mt.Max(), min_periods=1).tolist() == ["b", "b", "c"]
    hours = np.array([1, 3, 5], "timedelta64[h]")
    assert mt.rolling(hours, 2, mt.Median(), min_periods=1)[1] == dt.timedelta(hours=2)
    assert mt.rolling(hours, 2, mt.Sum(), min_periods=1)[1] == np.timedelta64(4, "h")
    with pytest.raises(ValueError, match="min_periods=1"):
        mt.rolling(large, 2, mt.Sum())
    assert mt.rolling(pd.Series(large), 2, mt.Sum()).tolist() == [pd.NA, 2**62 + 1, 1 - 2**62]


@pytest.mark.parametrize("name", ["max", "std", "median", "count"])
def test_results_go_where_they_are_asked_to(name):
    values = np.random.default_rng(8).random(100)
    expected = mt.rolling(values, 7, NUMERIC[name])
    out = np.empty(100)
    assert mt.rolling(values, 7, NUMERIC[name], out=out) is out
    assert np.array_equal(out, expected, equal_nan=True)
    gaps = np.zeros(200)
    mt.rolling(values, 7, NUMERIC[name], out=gaps[::2])
    assert np.array_equal(gaps[::2], expected, equal_nan=True)
    assert not gaps[1::2].any()
    with pytest.raises(TypeError, match="NumPy array of 100 results"):
        mt.rolling(values, 7, NUMERIC[name], out=np.empty(99))


@pytest.mark.parametrize(
    "values",
    [
        np.array([0.5, -0.0, np.nan, -np.inf, 0.0, np.inf, np.copysign(np.nan, -1), -7.5, 1e-300]),
        np.random.default_rng(2).integers(-50, 50, 5000),
        np.array([2**64 - 1, 0, 2**63, 2**63 - 1, 5], np.uint64),
        np.array([-(2**63), 2**63 - 1, -1, 0, 1], np.int64),
        np.random.default_rng(3).standard_normal(3000).astype(np.float32),
        np.array([True, False, True]),
    ],
    ids=lambda values: str(values.dtype),
)
def test_rows_are_sorted_by_their_digits(values):
    order, ranks = in_order(values)
    expected = np.argsort(values, kind="stable")
    floats = values.dtype.kind == "f"
    assert np.array_equal(values[order], values[expected], equal_nan=floats)
    assert np.array_equal(ranks[order], np.arange(len(values)))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("name", ["sum", "max", "std"])
def test_threads_do_not_change_results(name, threads):
    values = np.random.default_rng(1).random(5000)
    for n in (1, 7, 100, 4999, 9999):
        one = mt.rolling(values, n, NUMERIC[name], min_periods=1, threads=1)
        assert np.array_equal(
            mt.rolling(values, n, NUMERIC[name], min_periods=1, threads=threads), one
        )
    times = np.arange(5000) // 3
    one = mt.rolling(values, 50, NUMERIC[name], on=times, threads=1)
    assert np.allclose(mt.rolling(values, 50, NUMERIC[name], on=times, threads=threads), one)


@pytest.mark.parametrize("n", [2, 30, 1000])
@pytest.mark.parametrize("name", ["var", "std"])
def test_spread_is_accurate_far_from_zero(name, n):
    noise = np.random.default_rng(5).normal(size=100_000)
    ours = mt.rolling(1e9 + noise, n, NUMERIC[name])
    exact = 1e9 + noise - 1e9  # what the doubles hold, without the offset
    for i in range(n, len(noise), 997):
        window = exact[i + 1 - n : i + 1].astype(np.longdouble)
        ddof = 1 if name == "var" else 0
        expected = np.var(window, ddof=ddof) if name == "var" else np.std(window, ddof=ddof)
        assert ours[i] == pytest.approx(float(expected), rel=1e-9, abs=1e-9)


def test_spread_survives_outliers_and_constant_stretches():
    values = np.random.default_rng(6).normal(size=5000)
    values[::700] = 1e15
    values[3000:3200] = 7.0
    infinite = mt.rolling(np.append(values, np.inf), 50, mt.Var())
    assert np.isnan(infinite[-1])
    ours = mt.rolling(values, 50, mt.Var())
    for i in range(50, 5000, 13):
        window = values[i - 49 : i + 1]
        assert ours[i] == pytest.approx(np.var(window, ddof=1), rel=1e-6, abs=1e-9)


def test_a_users_own_aggregate_is_compiled():
    prices, volumes = np.array([10.0, 20.0, 40.0]), np.array([1.0, 3.0, 1.0])
    plan = mt.rolling_plan((prices, volumes), 2, weighted_mean())
    assert plan.compiled
    results = mt.rolling((prices, volumes), 2, weighted_mean(), min_periods=1)
    assert results.tolist() == [10.0, 17.5, 25.0]


def test_what_cannot_be_compiled_runs_interpreted_and_says_why():
    words = mt.Aggregate("words", "", lift=str, combine=lambda a, b: a + b)
    assert mt.rolling([1, 2, 3], 2, words).tolist() == [None, "12", "23"]
    plan = mt.rolling_plan([1, 2, 3], 2, words)
    assert not plan.compiled
    assert "not a number" in plan.reason
    with pytest.warns(mt.InterpretedWarning, match="not a number"):
        mt.rolling(np.arange(2000), 2, words)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: mt.rolling(x, 0, mt.Max()), ValueError, "positive number of rows, got 0"),
        (lambda x: mt.rolling(x, -1, mt.Max()), ValueError, "positive number of rows, got -1"),
        (lambda x: mt.rolling(x, 2.5, mt.Max()), TypeError, "2.5"),
        (lambda x: mt.rolling(x, "0 s", mt.Max(), on=x), ValueError, "positive duration"),
        (lambda x: mt.rolling(x, "soon", mt.Max(), on=x), ValueError, "'soon' is not a duration"),
        (lambda x: mt.rolling(x, "1 s", mt.Max()), TypeError, "give on="),
        (lambda x: mt.rolling(x, 2, mt.Max(), on=x[::-1]), ValueError, "row 1 is at 3, after 4"),
        (
            lambda x: mt.rolling(x, 2, mt.Max(), on=x[:2]),
            ValueError,
            "on has 2 rows, the values have 5",
        ),
        (lambda x: mt.rolling(x, 2, mt.Max(), by=x[:2]), ValueError, "by has 2 rows"),
        (lambda x: mt.rolling(x[:2], 2, mt.Max(), by=[1, True]), TypeError, "types bool, int"),
        (lambda x: mt.rolling(x[:2], 2, mt.Max(), by=["1", 1]), TypeError, "types int, str"),
        (lambda x: mt.rolling((x, x[:1]), 2, mt.ArgMax()), ValueError, "column 1 has 1 rows"),
        (lambda x: mt.rolling(x, 2, mt.ArgMax()), TypeError, "takes 2 columns"),
        (lambda x: mt.rolling(x, 2, mt.Max(), closed="up"), ValueError, "'up'"),
        (lambda x: mt.rolling(x, 2, mt.Max(), min_periods=3), ValueError, "size of 2, got 3"),
        (lambda x: mt.rolling(x, 2, mt.Max(), algorithm="Best"), ValueError, "'Best'"),
        (
            lambda x: mt.rolling(x, 2, mt.Max(), algorithm="SubtractOnEvict"),
            TypeError,
            "no inverse",
        ),
        (lambda x: mt.rolling(x, 2, mt.Max(), threads=0), ValueError, "threads"),
        (lambda x: mt.rolling(x, 2, mt.Max(), every=0), ValueError, "every must be 1 row or more"),
        (lambda x: mt.rolling(x, 2, mt.Max(), every=2, out=x * 1), TypeError, "leave every out"),
        (lambda x: mt.rolling(x, 2, mt.Max(), out=x), ValueError, "memory of the values"),
        (lambda x: mt.rolling(x, 2, max), TypeError, r"Max\(\)"),
        (lambda x: mt.rolling(x.reshape(1, 5), 2, mt.Sum()), ValueError, "one dimension"),
        (lambda x: mt.rolling(x, 2, mt.Max(), on=x.astype(float)), TypeError, "float64"),
        (lambda x: mt.rolling(x, 2, mt.Max(), on="at"), TypeError, "no frame"),
        (lambda x: mt.rolling({"a": x}, 2, mt.Max("b")), KeyError, "no column 'b'"),
        (lambda x: mt.rolling({"a": x}, 2, mt.Max()), TypeError, "name its columns"),
        (lambda x: mt.rolling([1, "a", x], 2, mt.Sum()), TypeError, "sum takes numbers"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(np.arange(5))


def test_a_window_longer_than_the_data_and_no_data_at_all():
    assert mt.rolling(np.arange(3), 10, mt.Sum(), min_periods=1).tolist() == [0, 1, 3]
    assert np.isnan(mt.rolling(np.arange(3), 10, mt.Sum())).all()
    assert len(mt.rolling(np.array([]), 3, mt.Max())) == 0
    null_time = np.array(["2026-01-01", "NaT"], "datetime64[s]")
    with pytest.raises(ValueError, match="row 1 is null"):
        mt.rolling([1, 2], "1 s", mt.Max(), on=null_time)


@pytest.mark.parametrize("name", ["sum", "max", "std", "m4", "median", "collect", "count"])
@pytest.mark.parametrize("algorithm", ["DabaLite", "TwoStacksLite"])
@pytest.mark.parametrize("timed", [False, True])
@settings(max_examples=10, deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=1, max_size=60),
    data=st.data(),
)
def test_a_stream_of_arrays_gives_what_one_array_gives(name, algorithm, timed, values, data):
    aggregate = NUMERIC[name]
    times = np.cumsum(
        data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values)))
    )
    size = data.draw(st.integers(1, 40))
    column = pa.array(values, pa.int64())
    whole_at_once = mt.rolling(column, size, aggregate, on=times if timed else None, min_periods=1)
    length = dt.timedelta(microseconds=size) if timed else size
    window = mt.Rolling(length, aggregate, min_periods=1, algorithm=algorithm)
    results, at = [], 0
    while at < len(values):
        step = data.draw(st.integers(1, 20))
        part = slice(at, at + step)
        on = times[part] if timed else None
        results += as_list(window.push(column[part], on=on).to_pylist())
        if data.draw(st.booleans()):
            options = {"min_periods": 1, "algorithm": algorithm}
            window = mt.Rolling.restore(window.snapshot(), length, aggregate, **options)
        at += step
    for result, expected in zip(results, whole_at_once.to_pylist(), strict=True):
        assert close(result, expected, 1e-7)


def test_streams_refuse_what_does_not_fit_and_keep_what_they_have():
    window = mt.Rolling("2 s", mt.Sum())
    window.push([1, 2], on=np.array([5, 6], "datetime64[s]"))
    with pytest.raises(ValueError, match="times must not fall: row 0"):
        window.push([3], on=np.array([4], "datetime64[s]"))
    with pytest.raises(TypeError, match="on=times"):
        window.push([3])
    with pytest.raises(ValueError, match="row 0 is null"):
        window.push([3], on=np.array(["NaT"], "datetime64[s]"))
    with pytest.raises(TypeError, match="another unit"):
        window.push([3], on=np.array([7_000_000_000], "datetime64[ns]"))
    with pytest.raises(TypeError, match="cannot take float64"):
        window.push([0.5], on=np.array([7], "datetime64[s]"))
    assert window.push([3], on=np.array([7], "datetime64[s]")).tolist() == [5]
    with pytest.raises(mt.SnapshotError, match="not of Rolling"):
        mt.Rolling.restore(window.snapshot(), "3 s", mt.Sum())
    with pytest.raises(mt.SnapshotError, match="truncated or altered"):
        mt.Rolling.restore(window.snapshot()[:-1], "2 s", mt.Sum())
    with pytest.raises(ValueError, match="positive"):
        mt.Rolling(0, mt.Sum())
    with pytest.raises(ValueError, match="'Amta'"):
        mt.Rolling(3, mt.Sum(), algorithm="Amta")
