"""Numbers that once went wrong: wrapped sums, lost zones, rounded times, values that did not fit.

Each case is one of a family; test_numbers.py and test_number_places.py try the others.
"""

import datetime as dt
import math
import random
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import muntin as mt
from muntin.kernels.codegen.build import compiled
from muntin.kernels.codegen.layout import Layout

FLOATS = Layout((np.dtype(np.float64),), False)
NOW = 1_750_000_000_000_000_000  # nanoseconds since 1970


def query(*aggregates, **options):
    named = {f"r{i}" if i else "r": aggregate for i, aggregate in enumerate(aggregates)}
    return mt.Query(time="t", windows={"w": mt.Tumbling(10)}, aggregates=named, **options)


def one_window(aggregate, values, **options):
    """Return the result over all values, by a query and by rolling."""
    column = values if isinstance(values, pa.Array) else pa.array(values)
    table = query(aggregate("v"), **options).run({"t": [1] * len(column), "v": column})
    rolled = mt.rolling(column, len(column), aggregate())
    window = mt.Rolling(len(column), aggregate())
    pushed = [window.push(column[i : i + 2])[-1] for i in range(0, len(column), 2)]
    results = [table["r"][0], rolled[-1], pushed[-1]]
    assert len({str(x.type) for x in results}) == 1
    first, *others = (x.as_py() for x in results)
    assert all(
        x == (pytest.approx(first, rel=1e-12) if isinstance(x, float) else first) for x in others
    )
    return first


# Sums, means and ranges of large numbers


@pytest.mark.parametrize("count", [2, 5, 6, 7, 100, 1500])
def test_means_of_epoch_nanoseconds(count):
    ns = np.array([NOW] * count)
    assert mt.rolling(ns, count, mt.Mean())[-1] == NOW
    assert one_window(mt.Mean, ns.tolist()) == NOW
    assert mt.rolling(ns, count, mt.Mean(), min_periods=1, threads=2)[-1] == NOW
    assert mt.rolling(ns, "1 h", mt.Mean(), on=np.arange(count).astype("M8[ms]"))[-1] == NOW


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([2**62, 2**62], "int64"),
        ([-(2**62), -(2**62), -1], "int64"),
        ([2**63 - 1, 1], "int64"),
        ([2**63, 2**63 + 4], "uint64"),
        ([2**64 - 1] * 3, "uint64"),
    ],
)
@pytest.mark.parametrize(
    "algorithm", ["auto", "DabaLite", "TwoStacksLite", "SubtractOnEvict", "Recalc"]
)
def test_a_sum_that_does_not_fit_is_an_error(values, dtype, algorithm):
    array = np.array(values, dtype)
    with pytest.raises(OverflowError, match="sum"):
        mt.rolling(array, len(values), mt.Sum(), min_periods=1, algorithm=algorithm)
    with pytest.raises(OverflowError, match="sum"):
        mt.Rolling(len(values), mt.Sum(), min_periods=1).push(array)
    with pytest.raises(OverflowError, match="(?s)r.*w"):
        query(mt.Sum("v")).run({"t": [1] * len(values), "v": array})
    nulls = mt.rolling(pa.array(array), len(values), mt.Sum(overflow="null"), min_periods=1)
    wanted = [sum(values[: i + 1]) for i in range(len(values))]
    top = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}[dtype]
    assert nulls.to_pylist() == [x if top[0] <= x <= top[1] else None for x in wanted]
    assert nulls.type == dtype


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)])
def test_an_overflow_on_the_way_is_none(order):
    values = [[2**62, 2**62, -(2**62)][i] for i in order]
    assert one_window(mt.Sum, values) == 2**62
    assert one_window(mt.Mean, values) == float(Fraction(2**62, 3))
    unsigned = pa.array([2**63, 2**63 - 1], pa.uint64())
    assert one_window(mt.Sum, unsigned) == 2**64 - 1


@pytest.mark.parametrize("plan", ["lazy", "eager", "buckets", "tuple buffer"])
def test_other_windows_are_right_beside_one_that_overflows(plan):
    rows = {"t": [1, 2, 11, 21, 22, 23], "v": [2**62, 2**62, 7, 2**62, 2**62, -(2**62)]}
    asked = query(mt.Sum("v", overflow="null"), mt.Count())
    table = asked.run(rows, plan)
    assert table["r"].to_pylist() == [None, 7, 2**62]
    assert table["r1"].to_pylist() == [2, 1, 3]
    with pytest.raises(OverflowError):
        query(mt.Sum("v"), mt.Count()).run(rows, plan)


def test_a_window_that_fits_again_is_right():
    asked = query(mt.Sum("v", overflow="null"), lateness=100)
    op = asked.operator()
    op.process({"t": [1, 2, 5], "v": [2**62, 2**62, 3]})
    assert op.advance(10)["r"].to_pylist() == [None]
    op = asked.restore(op.snapshot())
    op.process({"t": [3], "v": [-(2**62)]})
    assert op.advance(20).select(["kind", "r"]).to_pylist() == [{"kind": "update", "r": 2**62 + 3}]


def test_an_overflow_error_loses_nothing():
    """The operator is as it was: after the error the stream goes on with another choice."""
    asked = query(mt.Sum("v"), keys=("k",), lateness=100)
    op = asked.operator()
    op.process({"t": [1, 1, 2, 12], "k": ["a", "b", "b", "a"], "v": [5, 2**62, 2**62, 9]})
    with pytest.raises(OverflowError) as error:
        op.advance(20)
    assert "'b'" in str(error.value)
    saved = op.snapshot()
    other = replace(asked, aggregates={"r": mt.Sum("v", overflow="null")})
    table = other.restore(saved).advance(20)
    found = {(row["k"], row["start"]): row["r"] for row in table.to_pylist()}
    assert found == {("a", 0): 5, ("b", 0): None, ("a", 10): 9}


@pytest.mark.parametrize(
    "values", [[-(2**62) - 5, 2**62 + 5], [-(2**63), 2**63 - 1], [-(2**63), 0]]
)
def test_a_range_that_does_not_fit_is_an_error(values):
    for run in (
        lambda: mt.rolling(np.array(values), 2, mt.Range(), min_periods=1),
        lambda: query(mt.Range("v")).run({"t": [1, 2], "v": values}),
    ):
        with pytest.raises(OverflowError, match="range"):
            run()
    exact = Fraction(max(values) - min(values), max(values)) if max(values) else None
    if exact is not None:
        assert one_window(mt.RelativeVariation, values) == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize(
    "values",
    [
        [2**60, 2**60 + 1, 2**60 + 5],
        [NOW, NOW + 1, NOW + 3, NOW + 900],
        [2**63 - 1, 2**63 - 2],
        [-(2**63), 2**63 - 1],
        [2**53 + 1, 2**53 + 1, 2**53 + 2],
    ],
)
def test_spreads_of_large_integers(values):
    mean = Fraction(sum(values), len(values))
    var = float(sum((x - mean) ** 2 for x in values) / (len(values) - 1))
    assert one_window(mt.Var, values) == pytest.approx(var, rel=1e-9)
    assert one_window(mt.Std, values) == pytest.approx(var**0.5, rel=1e-9)


MOST = 1.7976931348623157e308
PRECISE = Context(prec=60)


@pytest.mark.parametrize("size", [1e300, 1e160, 1e151, 1.0, 1e-134, 1e-160, 1e-300])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_spreads_of_floats_of_every_size(size, offset):
    rng = random.Random(f"{size} {offset}")
    values = [size * (offset + rng.choice([1, 1, -2, rng.uniform(-1, 1)])) for _ in range(13)]
    exact = [Fraction(x) for x in values]
    mean = sum(exact) / 13
    var = sum((x - mean) ** 2 for x in exact) / 12
    std = PRECISE.divide(Decimal(var.numerator), Decimal(var.denominator)).sqrt(PRECISE)
    assert one_window(mt.Std, values) == pytest.approx(float(std), rel=1e-9, abs=0)
    var = math.inf if var > MOST else float(var)
    assert one_window(mt.Var, values) == pytest.approx(var, rel=1e-9, abs=1e-322)
    assert one_window(mt.Std, [values[0]] * 5) == 0.0
    for each in (float, Fraction, Decimal):
        window = mt.TwoStacksLite(mt.Std())
        window.bulk_insert(map(each, values))
        assert window.query() == pytest.approx(float(std), rel=1e-9, abs=0)


def test_results_at_the_largest_float():
    assert one_window(mt.RelativeVariation, [-MOST, MOST]) == 2.0
    assert one_window(mt.RelativeVariation, [MOST / 2, MOST]) == 0.5
    assert one_window(mt.GeoMean, [MOST] * 7) == pytest.approx(MOST, rel=1e-9)
    assert one_window(mt.GeoMean, [MOST, math.inf]) == math.inf
    assert math.isnan(mt.rolling([0.0, math.inf], 2, mt.RelativeVariation())[-1])


def test_text_is_for_concat():
    rows = {"t": [3, 1, 2], "v": ["c", "a", "b"]}
    with pytest.raises(TypeError, match="(?i)concat"):
        query(mt.Sum("v")).run(rows)
    with pytest.raises(TypeError, match="(?i)concat"):
        query(mt.Sum("v"), mt.Concat("v")).run(rows)
    assert query(mt.Concat("v")).run(rows)["r"].to_pylist() == ["abc"]
    for values in (["a", "b"], np.array(["a", "b"]), pd.Series(["a", "b"]), pl.Series(["a", "b"])):
        with pytest.raises(TypeError, match="sum"):
            mt.rolling(values, 2, mt.Sum(), min_periods=1)
    lists = pa.array([[1, 2], [3]])
    assert query(mt.Concat("v")).run({"t": [1, 2], "v": lists})["r"].to_pylist() == [[1, 2, 3]]


def test_decimals_have_all_their_digits():
    big = Decimal("2e24").quantize(Decimal("1"))
    column = pa.array([big, big], pa.decimal128(38, 10))
    assert one_window(mt.Sum, column) == 4 * Decimal(10) ** 24
    window = mt.DabaLite(mt.Sum())
    window.bulk_insert([Decimal("1e30"), Decimal("0.1"), Decimal("0.2")])
    assert window.query() == Decimal("1000000000000000000000000000000.3")


# Values that do not fit the type of their column


BAD_VALUES = {
    "2**70": [7, 2**70, 9],
    "inf": np.array([7.0, np.inf, 9.0]),
    "nan": np.array([7.0, np.nan, 9.0]),
    "1e300": np.array([7.0, 1e300, 9.0]),
    "2.0**63": np.array([7.0, 2.0**63, 9.0]),
    "half": np.array([7.0, 0.5, 9.0]),
    "too large": np.array([7, 2**63, 9], "uint64"),
}


@pytest.mark.parametrize("values", BAD_VALUES.values(), ids=BAD_VALUES)
def test_a_value_that_does_not_fit_its_column_is_a_bad_row(values):
    asked = query(mt.Sum("v"), mt.Count())
    op = asked.operator()
    op.process({"t": [1, 2], "v": [1, 2]})
    with pytest.raises((ValueError, TypeError)) as error:
        op.process({"t": [3, 4, 5], "v": values})
    assert "row 1" in str(error.value)
    assert "'v'" in str(error.value)
    table = op.complete()
    assert (table["r"][0].as_py(), table["r1"][0].as_py()) == (3, 2)


@pytest.mark.parametrize("values", BAD_VALUES.values(), ids=BAD_VALUES)
def test_bad_rows_can_be_dropped(values):
    op = query(mt.Sum("v"), mt.Count(), on_bad_row="drop").operator()
    op.process({"t": [1, 2], "v": [1, 2]})
    op.process({"t": [3, 4, 5], "v": values})
    table = op.complete()
    assert (table["r"][0].as_py(), table["r1"][0].as_py()) == (19, 4)
    assert table.schema.field("r").type == pa.int64()
    assert op.counters.bad_rows == 1


@pytest.mark.parametrize("drop", [False, True])
def test_times_that_a_finer_unit_cannot_hold_are_bad_rows(drop):
    asked = query(mt.Max("v"), mt.Count(), on_bad_row="drop" if drop else "error")
    op = asked.operator()
    op.process({"t": [1], "v": np.array(["2026-01-01"], "M8[ns]")})
    later = {"t": [2, 3], "v": np.array(["3000-01-01", "2026-01-02"], "M8[s]")}
    if not drop:
        with pytest.raises((ValueError, TypeError), match="row 0"):
            op.process(later)
    else:
        op.process(later)
        assert op.counters.bad_rows == 1
    table = op.complete()
    assert table.schema.field("r").type == pa.timestamp("ns")
    assert table["r"].cast(pa.date32()).to_pylist() == [dt.date(2026, 1, 2 if drop else 1)]
    assert table["r1"].to_pylist() == [2 if drop else 1]


@pytest.mark.parametrize("kind", ["numpy", "pandas", "arrow", "polars"])
def test_a_time_between_microseconds_is_a_bad_row(kind):
    ns = np.array([1_000, 2_500, 3_000], "M8[ns]")
    rows = {"t": ns, "v": [1, 2, 4]}
    table = pa.table({"t": pa.array(ns), "v": [1, 2, 4]})
    data = {
        "numpy": rows,
        "pandas": pd.DataFrame(rows),
        "arrow": table,
        "polars": pl.from_arrow(table),
    }
    asked = mt.Query(time="t", windows={"w": mt.Tumbling("1 s")}, aggregates={"r": mt.Sum("v")})
    with pytest.raises(ValueError, match="row 1"):
        asked.operator().process(data[kind])
    op = replace(asked, on_bad_row="drop").operator()
    op.process(data[kind])
    assert op.complete()["r"].to_pylist() == [5]
    assert op.counters.bad_rows == 1


def test_choices_about_bad_rows_are_not_part_of_a_query():
    asked = query(mt.Sum("v"))
    op = asked.operator()
    op.process({"t": [1], "v": [1]})
    other = query(mt.Sum("v", overflow="null"), on_bad_row="drop")
    restored = other.restore(op.snapshot())
    restored.process({"t": [2, 3], "v": [2**70, 4]})
    assert restored.complete()["r"].to_pylist() == [5]


# Types, units and zones go out as they came


@pytest.mark.parametrize("aggregate", [mt.Max, mt.Min, mt.First, mt.Last, mt.Mean, mt.Median])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+05:30"])
def test_pandas_keeps_units_and_zones(aggregate, unit, zone):
    times = pd.Series(
        pd.date_range("2026-07-01", periods=3, tz=zone, unit=unit), [5, 6, 7], name="at"
    )
    results = mt.rolling(times, 1, aggregate(), min_periods=1)
    pd.testing.assert_series_equal(results, times)
    rows = pd.DataFrame({"t": [1, 11, 21], "v": times.array})
    table = query(aggregate("v")).run(rows)
    assert table["r"].type == pa.timestamp(unit, zone)
    assert table["r"].cast(pa.int64()).to_pylist() == times.astype("int64").tolist()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_ticks_keep_zone_and_unit(unit):
    index = pd.date_range("2026-07-01", periods=4, freq="s", tz="Europe/Berlin", unit=unit)
    zoned = mt.rolling(pd.Series([1.0, 2.0, 3.0, 4.0], index), "2 s", mt.Sum(), every="1 s")
    assert zoned.index.dtype == index.dtype
    plain = index.tz_convert("UTC").tz_localize(None)
    results = mt.rolling(pd.Series([1.0, 2.0, 3.0, 4.0], plain), "2 s", mt.Sum(), every="1 s")
    assert results.index.dtype == plain.dtype
    assert zoned.tz_convert("UTC").tz_localize(None).to_dict() == results.to_dict()
    assert 3.0 in results.tolist()


def test_durations_are_never_rounded():
    s = pd.Series(1.0, index=pd.to_datetime(np.arange(0, 6000, 600)))
    counts = mt.rolling(s, pd.Timedelta("1900ns"), mt.Count())
    assert counts.tolist() == s.rolling(pd.Timedelta("1900ns")).count().astype(int).tolist()
    on = np.arange(0, 10).astype("M8[us]")
    for size in (pd.Timedelta("1900ns"), np.timedelta64(1900, "ns"), "1900 ns"):
        with pytest.raises(ValueError, match="1900|1.9"):
            mt.rolling(np.ones(10), size, mt.Count(), on=on)
    with pytest.raises(ValueError, match="1900|1.9"):
        mt.rolling(np.ones(10), "5 us", mt.Count(), on=on, every=pd.Timedelta("1900ns"))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("groups", [1, 3, 1000])
def test_groups_may_have_any_times(unit, groups):
    at = pd.date_range("2026", periods=groups, freq="s", unit=unit)
    near = unit != "ns"  # nanoseconds as far apart as they can be
    at = at.append(at + pd.Timedelta("1s") if near else pd.DatetimeIndex(["2262-01-01"] * groups))
    frame = pd.DataFrame({"at": at, "k": [*range(groups)] * 2, "x": 1.0})
    results = mt.rolling(frame, "5 s", mt.Sum("x"), on="at", by="k")
    assert results.tolist() == [1.0] * groups + [2.0 if near else 1.0] * groups


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_means_of_numpy_times(unit):
    at = np.array([1_750_000_000, 1_750_000_001, 1_750_000_005]).astype(f"M8[{unit}]")
    assert mt.rolling(at, 3, mt.Mean(), min_periods=1)[-1] == np.datetime64(1_750_000_002, unit)
    spans = at - at[0]
    means = mt.rolling(spans, 3, mt.Mean(), min_periods=1)
    assert means.dtype == spans.dtype
    assert means[-1] == np.timedelta64(2, unit)


# Names mean nothing


def as_it_is(x):
    return x


def plus(a, b):
    return a + b


def a_quarter(total):
    return total / 4


@pytest.mark.parametrize(
    "name",
    ["last", "first", "min", "max", "sum", "count", "mean", "arg_max", "arg_min", "count_minutes",
     "count_min", "sum_x", "bloom_y", "bloom", "top_k_z", "quantile(0.5, nearest_rank)"],
)  # fmt: skip
def test_behaviour_does_not_hang_on_a_name(name):
    def own(column=None):
        columns = (column,) if column else ()
        return mt.Aggregate(name, 0, as_it_is, plus, a_quarter, columns=columns)

    values = [1, 2, 4]
    wanted = [0.25, 0.75, 1.75]
    assert mt.rolling(values, 3, own(), min_periods=1).tolist() == wanted
    assert mt.rolling(np.array(values, "int8"), 3, own(), min_periods=1).tolist() == wanted
    assert mt.rolling(pl.Series(values), 3, own(), min_periods=1).to_list() == wanted
    assert mt.Rolling(3, own(), min_periods=1).push(values).tolist() == wanted
    assert query(own("v")).run({"t": [1, 2, 3], "v": values})["r"].to_pylist() == [1.75]
    with_null = pa.array([1, None, 4])
    assert mt.rolling(with_null, 3, own(), min_periods=1).to_pylist() == [0.25, 0.25, 1.25]


def test_interpreted_and_compiled_results_are_the_same():
    """A part of a product runs interpreted, alone it is compiled."""
    rng = np.random.default_rng(3)
    values = rng.integers(-(2**63), 2**63 - 1, 200)
    rows = {"t": np.sort(rng.integers(0, 300, 200)), "v": values}
    for make in (mt.Mean, mt.Max, mt.Var, mt.Median, mt.First, mt.RelativeVariation):
        alone = query(make("v")).run(rows)["r"].to_pylist()
        beside = query(mt.Product(a=make("v"), b=mt.Collect("v"))).run(rows)["r"].to_pylist()
        assert [row["a"] for row in beside] == pytest.approx(alone, rel=1e-9, nan_ok=True)


# Columns that change their type


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (np.array([1.0], "f2"), [2**70, 2**71]),
        (np.array([1.0], "f2"), [Decimal("0.1"), Decimal(70_000)]),
        (np.array([1.0], "f4"), [Fraction(1, 3), Fraction(1, 10)]),
        (np.array([1], "i1"), [Decimal(200), Decimal(-129)]),
        (np.array([1.0]), [2**53 + 1, 2**63 - 1]),
        (np.array([1.0]), np.array([2**63 + 1, 2**64 - 1], "u8")),
    ],
)
def test_what_a_narrow_type_does_not_hold_is_a_bad_row(first, later):
    op = query(mt.Max("v"), mt.Count(), on_bad_row="drop").operator()
    op.process({"t": [1], "v": first})
    op.process({"t": [2, 3], "v": later})
    table = op.complete()
    assert (table["r"][0].as_py(), table["r1"][0].as_py(), op.counters.bad_rows) == (1, 1, 2)


@pytest.mark.parametrize("later", [[2**60, 3], np.array([2**63, 3], "u8"), [2**53, -(2**62)]])
def test_whole_numbers_that_floats_hold_are_not_bad(later):
    op = query(mt.Collect("v")).operator()
    op.process({"t": [1], "v": np.array([0.5])})
    op.process({"t": [2, 3], "v": later})
    assert op.complete()["r"].to_pylist() == [[0.5, *map(int, later)]]


@pytest.mark.parametrize("later", [[Decimal(2)], [Fraction(1, 3)], [2**70], [1]])
def test_numbers_are_no_truths(later):
    op = query(mt.Max("v")).operator()
    op.process({"t": [1], "v": [False]})
    with pytest.raises(TypeError, match="'v'"):
        op.process({"t": [2], "v": later})
    assert op.complete()["r"].to_pylist() == [False]


@pytest.mark.parametrize("turned", [False, True])
def test_times_with_and_without_a_zone_are_not_mixed(turned):
    kinds = [pa.timestamp("us"), pa.timestamp("us", "Europe/Berlin")]
    first, later = reversed(kinds) if turned else kinds
    op = query(mt.Max("v")).operator()
    op.process({"t": [1], "v": pa.array([5], first)})
    with pytest.raises(TypeError, match="'v'"):
        op.process({"t": [2], "v": pa.array([7], later)})
    op.process({"t": [2], "v": pa.array([6], first)})
    assert op.complete()["r"].to_pylist() == pa.array([6], first).to_pylist()


@pytest.mark.parametrize("dtype", [np.longdouble, np.complex128])
def test_numbers_wider_than_64_bits_are_refused(dtype):
    values = np.array([1, 2.5], dtype)
    with pytest.raises(TypeError, match="64 bits"):
        mt.rolling(values, 2, mt.Sum())
    op = query(mt.Collect("v")).operator()
    with pytest.raises(TypeError, match="'v'"):
        op.process({"t": [1, 2], "v": values})
    op.process({"t": [1], "v": [0.5]})
    assert op.complete()["r"].to_pylist() == [[0.5]]


def test_integers_of_128_bits_are_read():
    small, large = (pl.Series([1, x], dtype=pl.Int128) for x in (2, 2**100))
    assert query(mt.Sum("v")).run({"t": [1, 2], "v": small})["r"].to_pylist() == [3]
    with pytest.raises(ValueError, match="row 1"):
        query(mt.Sum("v")).run({"t": [1, 2], "v": large})
    assert mt.rolling(large, 2, mt.Max(), min_periods=1).to_list() == [1, 2**100]


# Algorithms that are asked for


@pytest.mark.parametrize("algorithm", ["DabaLite", "TwoStacksLite"])
@pytest.mark.parametrize("timed", [False, True])
def test_numbers_without_a_sign_stay_whole_in_every_algorithm(algorithm, timed):
    values = np.array([2**53 + 1, 2**63 + 1, 2**64 - 1, 2**53 + 3], "u8")
    for make, choose in ((mt.Max, max), (mt.Min, min), (mt.Last, lambda x: x[-1])):
        wanted = [choose(values.tolist()[max(0, i - 1) : i + 1]) for i in range(4)]
        for column in (values, np.ma.masked_array(values, [False] * 4)):
            found = mt.rolling(
                column,
                "2 us" if timed else 2,
                make(),
                on=np.arange(4) if timed else None,
                min_periods=1,
                algorithm=algorithm,
            )
            assert found.tolist() == wanted


def test_rows_without_a_value_count_whatever_the_column_holds():
    for values in ([Decimal(1), None, Decimal(2)], ["a", None, "b"], [1, None, 2]):
        column = pa.array(values)
        assert mt.rolling(column, 2, mt.Count(), min_periods=1).to_pylist() == [1, 2, 2]
        assert mt.Rolling(2, mt.Count(), min_periods=1).push(column).to_pylist() == [1, 2, 2]


# Products: each part has its type and its overflow


@pytest.mark.parametrize("named", [True, False])
def test_a_part_of_a_product_overflows_to_null(named):
    def product(**choice):
        parts = mt.Sum("v", **choice), mt.Count()
        return mt.Product(total=parts[0], rows=parts[1]) if named else mt.Product(*parts)

    rows = {"t": [1, 2, 11], "v": [2**62, 2**62, 7]}
    found = query(product(overflow="null")).run(rows)["r"].to_pylist()
    assert [list(x.values()) if named else x for x in found] == [[None, 2], [7, 1]]
    with pytest.raises(OverflowError, match="'w'"):
        query(product()).run(rows)


def one(_value):
    return 1


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("beside", [mt.Count(), mt.Aggregate("own", 0, one, plus)])
def test_parts_of_a_product_keep_units_and_zones(unit, zone, beside):
    kind = pa.timestamp(unit, zone)
    column = pa.array([1, 2, 2, 3, 3, 3], pa.int64()).view(kind)
    alone = query(mt.Mean("v"), mt.Max("v"), mt.Range("v"))
    apart = alone.run({"t": [1, 2, 11, 12, 21, 22], "v": column}).to_pylist()
    parts = mt.Product(
        mean=mt.Mean("v"), max=mt.Max("v"), range=mt.Range("v"), n=replace(beside, columns=("v",))
    )
    found = query(parts).run({"t": [1, 2, 11, 12, 21, 22], "v": column})["r"]
    assert found.type.field("mean").type == found.type.field("max").type == kind
    assert found.type.field("range").type == pa.duration(unit)
    for together, row in zip(found.to_pylist(), apart, strict=True):
        assert list(together.values()) == [row["r"], row["r1"], row["r2"], 2]


# Texts that are none


def invalid(values, kind):
    """Return texts made of any bytes, which Arrow does not look at."""
    binary = pa.large_binary() if kind == pa.large_string() else pa.binary()
    return pa.Array.from_buffers(kind, len(values), pa.array(values, binary).buffers())


TEXTS = [b"a", b"\xff", b"b", None]
NO_TEXTS = {
    "string": invalid(TEXTS, pa.string()),
    "large_string": invalid(TEXTS, pa.large_string()),
    "dictionary": pa.DictionaryArray.from_arrays([0, 1, 2, None], invalid(TEXTS, pa.string())),
    "struct": pa.StructArray.from_arrays([invalid(TEXTS, pa.string())], ["x"]),
    "list": pa.ListArray.from_arrays([0, 1, 2, 3, 4], invalid(TEXTS, pa.string())),
    "numpy": np.array(["a", "\ud800", "b", "c"]),
    "objects": ["a", "\ud800", "b", None],
}


@pytest.mark.parametrize("role", ["key", "value"])
@pytest.mark.parametrize("name", NO_TEXTS)
def test_texts_that_are_no_unicode_are_bad_rows(name, role):
    if (name, role) == ("list", "key"):
        pytest.skip("a list is no key")
    texts = NO_TEXTS[name]
    asked = query(mt.Count() if role == "key" else mt.Collect("v", nulls=True))
    asked = replace(asked, keys=("v",) if role == "key" else ())
    with pytest.raises(ValueError, match="row 1"):
        asked.operator().process({"t": [1, 2, 3, 4], "v": texts})
    op = replace(asked, on_bad_row="drop").operator()
    op.process({"t": [1, 2, 3, 4], "v": texts})
    table = op.complete()
    kept = sum(table["r"].to_pylist()) if role == "key" else len(table["r"].to_pylist()[0])
    assert (kept, op.counters.bad_rows) == (3, 1)


@pytest.mark.parametrize("turned", [False, True])
def test_the_time_column_keeps_its_zone_or_none(turned):
    kinds = [pa.timestamp("us"), pa.timestamp("us", "UTC")]
    first, later = reversed(kinds) if turned else kinds
    op = replace(query(mt.Count()), windows={"w": mt.Tumbling("1 s")}).operator()
    op.process({"t": pa.array([1], first)})
    with pytest.raises(TypeError, match="'t'"):
        op.process({"t": pa.array([1], later)})
    assert op.complete()["r"].to_pylist() == [1]


# Speed that follows from what is made once


@pytest.mark.parametrize("make", [mt.Std, mt.Var])
def test_kernels_are_made_once_for_aggregates_that_are_equal(make):
    assert make("v") == make("v") != make("w")
    assert make() != make(ddof=0)
    assert compiled(make(), FLOATS) is compiled(make(), FLOATS)


@pytest.mark.parametrize("closed", ["right", "both", "left", "neither"])
@pytest.mark.parametrize("least", [1, 2, 3, 50])
def test_windows_of_time_with_too_few_rows_have_no_result(closed, least):
    rng = np.random.default_rng(least)
    for size in (1, 2, 7):
        times = np.sort(rng.integers(0, 20, 30))
        column, on = pa.array(np.arange(30)), times.astype("M8[us]")
        options = {"on": on, "closed": closed, "min_periods": least}
        results = mt.rolling(column, f"{size} us", mt.Count(), **options).to_pylist()
        for k, t in enumerate(times):
            first = t - size + (closed in ("right", "neither"))
            last = t - (closed in ("left", "neither"))
            rows = int(np.count_nonzero((times[: k + 1] >= first) & (times[: k + 1] <= last)))
            assert results[k] == (rows if rows >= least else None)
