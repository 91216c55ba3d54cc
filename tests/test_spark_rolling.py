"""Frames on Spark: the worker against the definition, both plans against Spark's own frames."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Window
from pyspark.sql import functions as F

import muntin as mt
from muntin.aggregates import close
from muntin.spark.frames import ORDER_BITS, PLACE, Asked, Frame
from tests.oracle import Oracle


def multiplied(a, b):
    return a * b % 97


KEYS = ["a", "b", "", None]
TYPES = {"k": pa.string(), "t": pa.int64(), "v": pa.int64(), "x": pa.float64(), "s": pa.string()}
LIST = pa.list_(pa.int64())
AGGREGATES = {
    "n": (mt.Count(), pa.int64()),
    "nv": (mt.Count("v"), pa.int64()),
    "sum": (mt.Sum("v"), pa.int64()),
    "min": (mt.Min("x"), pa.float64()),
    "max": (mt.Max("x"), pa.float64()),
    "mean": (mt.Mean("v"), pa.float64()),
    "std": (mt.Std("v"), pa.float64()),
    "first": (mt.First("v", nulls=True), pa.int64()),
    "last": (mt.Last("s"), pa.string()),
    "collect": (mt.Collect("v"), LIST),
    "median": (mt.Median("v"), pa.float64()),
    "distinct": (mt.CountDistinct("s"), pa.int64()),
    "arg": (mt.ArgMax("v", "s"), pa.string()),
    "m4": (mt.M4("v"), pa.struct([(p, pa.int64()) for p in ("min", "max", "first", "last")])),
    "own": (mt.Aggregate("own", 1, abs, multiplied, columns=("v",)), pa.int64()),
}
QUICK = ("nv", "max", "collect", "arg")

rows = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(KEYS),
            "t": st.one_of(st.none(), st.integers(-9, 30)),
            "v": st.one_of(st.none(), st.integers(-9, 9)),
            "x": st.one_of(st.none(), st.just(math.nan), st.integers(0, 9).map(float)),
            "s": st.sampled_from(["x", "y", None]),
        }
    ),
    max_size=40,
)
bounds = st.tuples(*[st.one_of(st.none(), st.integers(-6, 6))] * 2).filter(
    lambda pair: None in pair or pair[0] <= pair[1]
)
measures = st.sampled_from(["rows", "range"])


def asked(frames, names, least=None, rows_at_once=1):
    fields = [(f"{frame}_{name}", AGGREGATES[name][1]) for frame in frames for name in names]
    aggregates = {name: AGGREGATES[name][0] for name in names}
    name = f"{frames}{names}{least}"
    return Asked(name, ("k",), "t", frames, aggregates, least, pa.schema(fields), rows_at_once)


def in_order(rows):
    """Return row numbers key by key, rows without order first, others as they came."""
    order = {key: i for i, key in enumerate(KEYS)}
    sort = [(order[r["k"]], r["t"] is not None, r["t"] or 0, i) for i, r in enumerate(rows)]
    return [place[-1] for place in sorted(sort)]


def placed(rows, buckets, rounded):
    """Return the rows sorted by a place of few buckets and rounded order, and these places."""
    low = -(1 << (ORDER_BITS - 1))
    codes = [(KEYS.index(r["k"]) % buckets << ORDER_BITS) - low for r in rows]
    places = [
        c + (low if r["t"] is None else r["t"] // rounded) for c, r in zip(codes, rows, strict=True)
    ]
    order = sorted(range(len(rows)), key=places.__getitem__)
    return [rows[i] for i in order], [places[i] for i in order]


def batches_of(rows, places, length):
    table = pa.Table.from_pylist(rows, pa.schema(TYPES.items()))
    table = table.append_column("id", pa.array(range(len(rows)), pa.int64()))
    if places is not None:
        table = table.append_column(PLACE, pa.array(places, pa.int64()))
    return table.to_batches(max_chunksize=length)


def frame_of(frame, mine, i):
    """Return the rows of row i's frame among those of its key, by definition."""
    low = -math.inf if frame.low is None else frame.low
    high = math.inf if frame.high is None else frame.high
    if frame.measure == "rows":
        return [r for j, r in enumerate(mine) if low <= j - i <= high]
    t = mine[i]["t"]
    if t is None:
        last = [] if frame.high is not None else [r for r in mine if r["t"] is not None]
        return [r for r in mine if r["t"] is None] + last
    first = [r for r in mine if r["t"] is None] if frame.low is None else []
    above = low if frame.closed in ("both", "left") else low + 1
    below = high if frame.closed in ("both", "right") else high - 1
    return first + [r for r in mine if r["t"] is not None and above <= r["t"] - t <= below]


def defined(rows, asked):
    """Return each row with its results by definition, by id."""
    expected = {}
    ordered = [{**rows[i], "id": i} for i in in_order(rows)]
    for key in KEYS:
        mine = [row for row in ordered if row["k"] == key]
        for i, row in enumerate(mine):
            results = {}
            for frame_name, frame in asked.frames.items():
                inside = frame_of(frame, mine, i)
                for name, aggregate in asked.aggregates.items():
                    oracle = Oracle(aggregate)
                    oracle.values = inside
                    results[f"{frame_name}_{name}"] = oracle.query()
            expected[row["id"]] = {**row, **results}
    return expected


def check(output, expected):
    results = [row for batch in output for row in batch.to_pylist()]
    assert sorted(row["id"] for row in results) == sorted(expected)
    for row in results:
        wanted = expected[row["id"]]
        assert list(row) == [*TYPES, "id", *list(wanted)[len(TYPES) + 1 :]]
        for name, value in row.items():
            result = tuple(value.values()) if isinstance(value, dict) else value
            assert close(result, wanted[name], 1e-9), (name, result, wanted)


@pytest.mark.parametrize("name", AGGREGATES)
@settings(max_examples=25, deadline=None)
@given(rows=rows, pair=bounds, measure=measures, length=st.integers(1, 9))
def test_frames_equal_their_definition(name, rows, pair, measure, length):
    query = asked({"f": Frame(*pair, measure)}, [name])
    rows = [rows[i] for i in in_order(rows)]
    check(query(iter(batches_of(rows, None, length))), defined(rows, query))


@settings(max_examples=300, deadline=None)
@given(
    rows=rows,
    pairs=st.lists(st.tuples(bounds, measures), min_size=1, max_size=3),
    length=st.integers(1, 9),
    at_once=st.integers(1, 20),
    buckets=st.integers(1, 4),
    rounded=st.integers(1, 50),
)
def test_frames_do_not_depend_on_places_chunks_and_batches(
    rows, pairs, length, at_once, buckets, rounded
):
    frames = {f"f{i}": Frame(*pair, measure) for i, (pair, measure) in enumerate(pairs)}
    query = asked(frames, QUICK, rows_at_once=at_once)
    rows, places = placed(rows, buckets, rounded)
    check(query(iter(batches_of(rows, places, length))), defined(rows, query))


@pytest.mark.parametrize("closed", ["right", "left", "both", "neither"])
@settings(max_examples=25, deadline=None)
@given(rows=rows, size=st.integers(1, 9), at_once=st.integers(1, 20))
def test_the_ends_of_a_range_belong_to_it_or_not(closed, rows, size, at_once):
    query = asked({"f": Frame(-size, 0, "range", closed)}, ["collect"], rows_at_once=at_once)
    rows, places = placed(rows, 2, 1)
    check(query(iter(batches_of(rows, places, 5))), defined(rows, query))


FLOATS = [-math.inf, -math.inf, -2.5, -0.0, 0.0, 0.5, 7.0, 7.5, math.inf, math.nan, math.nan]


@pytest.mark.parametrize("at_once", [1, 4, 100])
def test_ranges_over_fractions(at_once):
    """NaN is larger than any number and equal to itself, as infinities are."""
    fields = pa.schema([("f_n", pa.int64())])
    query = Asked(
        "floats", (), "t", {"f": Frame(-0.5, 0, "range")}, {"n": mt.Count()}, None, fields
    )
    query = Asked(*[getattr(query, f) for f in query.__dataclass_fields__][:-1], at_once)
    batches = pa.table({"t": FLOATS}).to_batches(max_chunksize=2)
    found = [n for batch in query(iter(batches)) for n in batch["f_n"].to_pylist()]
    assert found == [2, 2, 1, 2, 2, 3, 1, 2, 1, 2, 2]


def test_ranges_at_the_ends_of_all_numbers():
    ends = np.iinfo(np.int64)
    fields = pa.schema([("f_n", pa.int64())])
    query = Asked("ends", (), "t", {"f": Frame(-5, 5, "range")}, {"n": mt.Count()}, None, fields)
    batch = pa.table({"t": [ends.min, ends.min + 5, 0, ends.max - 6, ends.max]}).to_batches()
    assert [n for b in query(iter(batch)) for n in b["f_n"].to_pylist()] == [2, 2, 1, 1, 1]


@pytest.mark.parametrize("name", ["n", "nv", "collect", "arg", "median", "std"])
def test_frames_of_few_values_have_no_result(name):
    values = [1, None, None, 4, 5]
    rows = [{"k": "a", "t": i, "v": v, "x": 0.0, "s": "x"} for i, v in enumerate(values)]
    query = asked({"f": Frame(-1, 0, "rows")}, [name], least=2)
    found = [r for b in query(iter(batches_of(rows, None, 2))) for r in b["f_" + name].to_pylist()]
    nulls = [True, False, False, False, False] if name == "n" else [True] * 4 + [False]
    assert [value is None for value in found] == nulls


@pytest.mark.parametrize("measure", ["rows", "range"])
def test_rows_of_a_long_key_are_not_collected(measure):
    handed = out = 0

    def batches():
        nonlocal handed
        for i in range(200):
            ids = np.arange(50 * i, 50 * i + 50)
            handed += 50
            yield pa.record_batch({"k": ["a"] * 50, "t": ids, "v": ids, PLACE: ids // 7})

    query = asked({"f": Frame(-20, 30, measure)}, ["sum"], rows_at_once=100)
    for batch in query(batches()):
        out += batch.num_rows
        assert handed - out <= 300
    assert out == handed == 10_000


def test_a_partition_may_be_empty():
    query = asked({"f": Frame(-20, 30, "rows")}, ["sum"])
    assert list(query(iter([]))) == []
    assert list(query(iter(batches_of([], None, 1) or []))) == []


# On Spark

SPARK_FRAMES = {
    "rows": ((-4, 0), "rows"),
    "around": ((-3, 5), "rows"),
    "ahead": ((2, 4), "rows"),
    "behind": ((-5, -2), "rows"),
    "all": ((None, None), "rows"),
    "so far": ((None, 0), "rows"),
    "rest": ((0, None), "rows"),
    "range": ((-20, 0), "range"),
    "peers": ((0, 0), "range"),
    "wide": ((-30, 15), "range"),
    "past": ((None, -10), "range"),
}
SPARK_AGGREGATES = {
    "n": (mt.Count(), lambda w: F.count(F.lit(1)).over(w)),
    "nv": (mt.Count("v"), lambda w: F.count("v").over(w)),
    "sum": (mt.Sum("v"), lambda w: F.sum("v").over(w)),
    "sum_x": (mt.Sum("x"), lambda w: F.sum("x").over(w)),
    "min": (mt.Min("x"), lambda w: F.min("x").over(w)),
    "max": (mt.Max("x"), lambda w: F.max("x").over(w)),
    "max_s": (mt.Max("s"), lambda w: F.max("s").over(w)),
    "avg": (mt.Mean("v"), lambda w: F.avg("v").over(w)),
    "std": (mt.Std("v"), lambda w: F.stddev("v").over(w)),
    "std_pop": (mt.Std("x", ddof=0), lambda w: F.stddev_pop("x").over(w)),
    "var": (mt.Var("v"), lambda w: F.variance("v").over(w)),
    "var_pop": (mt.Var("v", ddof=0), lambda w: F.var_pop("v").over(w)),
    "first": (mt.First("v"), lambda w: F.first("v", ignorenulls=True).over(w)),
    "first_any": (mt.First("v", nulls=True), lambda w: F.first("v").over(w)),
    "last": (mt.Last("s"), lambda w: F.last("s", ignorenulls=True).over(w)),
    "last_any": (mt.Last("s", nulls=True), lambda w: F.last("s").over(w)),
    "list": (mt.Collect("v"), lambda w: F.collect_list("v").over(w)),
    "median": (mt.Median("x"), lambda w: F.percentile("x", 0.5).over(w)),
    "percentile": (
        mt.Quantile("v", 0.3, interpolation="linear"),
        lambda w: F.percentile("v", 0.3).over(w),
    ),
    "distinct": (mt.CountDistinct("s"), lambda w: F.size(F.collect_set("s").over(w))),
}


@pytest.fixture(scope="module")
def data(spark):
    """Return rows with ties, nulls and NaN, in more partitions than have rows; `at` is without ties."""
    rng = np.random.default_rng(6)
    count = 600
    words = np.array(["x", "y", "zz", "é", None], object)
    table = pa.table(
        {
            "k": pa.array(np.array(["a", "b", "c d", None], object)[rng.integers(0, 4, count)]),
            "lone": pa.array(np.arange(count)),
            "at": pa.array(rng.permutation(count)),
            "t": pa.array(rng.integers(0, 200, count), mask=rng.random(count) < 0.05),
            "v": pa.array(rng.integers(-9, 9, count), mask=rng.random(count) < 0.2),
            "x": pa.array(
                np.where(rng.random(count) < 0.03, math.nan, rng.integers(0, 99, count) / 8),
                mask=rng.random(count) < 0.1,
            ),
            "s": pa.array(words[rng.integers(0, 5, count)]),
        }
    )
    return spark.createDataFrame(table).repartition(16).cache()


def by_id(frame, name="lone"):
    return {row[name]: row for row in frame.toArrow().to_pylist()}


def same(found, wanted, unordered=()):
    """Compare rows by id; lists over ties are in any order."""
    assert found.keys() == wanted.keys()
    for key, row in found.items():
        for name, value in row.items():
            expected = wanted[key][name]
            if isinstance(value, list) and name in unordered:
                value, expected = sorted(value), sorted(expected)
            assert close(value, expected, 1e-9), (name, value, expected, row)


def native(frame, keys, order, pair, measure, aggregates):
    window = Window.partitionBy(*keys).orderBy(order)
    low = Window.unboundedPreceding if pair[0] is None else pair[0]
    high = Window.unboundedFollowing if pair[1] is None else pair[1]
    window = (window.rowsBetween if measure == "rows" else window.rangeBetween)(low, high)
    return frame.select("*", *(f(window).alias(n) for n, (_, f) in aggregates.items()))


@pytest.mark.parametrize("plan", ["muntin", "native"])
@pytest.mark.parametrize("name", SPARK_FRAMES)
def test_frames_equal_those_of_spark(data, name, plan):
    pair, measure = SPARK_FRAMES[name]
    order = "at" if measure == "rows" else "t"
    ends = (
        () if measure == "rows" else ("first", "first_any", "last", "last_any")
    )  # any of the ties
    aggregates = {n: a for n, a in SPARK_AGGREGATES.items() if n not in ends}
    wanted = native(data, ["k"], order, pair, measure, aggregates)
    options = {"keys": "k", "order": order, "size": pair, "measure": measure, "plan": plan}
    ours = {n: aggregate for n, (aggregate, _) in aggregates.items()}
    found = mt.spark.rolling(data, aggregates=ours, **options)
    assert found.columns == wanted.columns
    types = [[t for n, t in frame.dtypes if n != "distinct"] for frame in (found, wanted)]
    assert types[0] == types[1]
    same(by_id(found), by_id(wanted), unordered=("list",) if ends else ())
