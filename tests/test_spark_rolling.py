"""Frames on Spark: the worker against the definition, both plans against Spark's own frames."""

import datetime as dt
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
from muntin.dataframes.frames import Frame
from muntin.spark.partition_frames import ORDER_BITS, PLACE, Asked
from tests.oracle import Oracle


def size_of(value):
    return abs(value)


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
    "own": (mt.Aggregate("own", 1, size_of, multiplied, columns=("v",)), pa.int64()),
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


@pytest.mark.parametrize("measure", ["rows", "range"])
@pytest.mark.parametrize(
    "pair", [(-6, 0), (-6, 3), (-9, -4), (2, 5), (0, 0), (None, 2), (-2, None)]
)
def test_a_key_may_span_many_chunks(pair, measure):
    rng = np.random.default_rng(1)
    times = [None, None, *np.sort(rng.integers(0, 60, 90)).tolist()]
    rows = [{"k": "a", "t": t, "v": i, "x": 0.0, "s": str(i)} for i, t in enumerate(times)]
    for at_once, length in ((1, 1), (4, 3), (7, 20)):
        query = asked({"f": Frame(*pair, measure)}, QUICK, rows_at_once=at_once)
        for places in (None, placed(rows, 1, 4)[1]):
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


def rolled(frame, **options):
    """Return both plans' results by id, which are equal."""
    ours = by_id(mt.spark.rolling(frame, plan="muntin", **options))
    same(ours, by_id(mt.spark.rolling(frame, plan="native", **options)))
    return ours


def test_keys_of_one_row_and_rows_of_one_key(data):
    options = {"order": "at", "size": 3, "aggregates": {"n": mt.Count(), "top": mt.Max("v")}}
    for row in rolled(data, keys=["lone", "k"], **options).values():
        assert (row["n"], row["top"]) == (1, row["v"])
    counts = [row["n"] for row in rolled(data, **options).values()]
    assert (counts.count(1), counts.count(2), counts.count(3)) == (1, 1, 598)


@pytest.mark.parametrize("order", [["s", "at"], ["x", "at"], "word"])
def test_rows_are_ordered_by_anything(data, order):
    words = data.withColumn("word", F.format_string("%04d", "at"))
    aggregates = {"list": mt.Collect("at"), "n": mt.Count()}
    rolled(words, keys="k", order=order, size=(-3, 2), aggregates=aggregates)


TIMED = {
    "an hour": ({"size": "1 hour", "order": "ts"}, "ts > {t} - interval 1 hour and ts <= {t}"),
    "both": (
        {"size": dt.timedelta(hours=1), "order": "ts", "closed": "both"},
        "ts >= {t} - interval 1 hour and ts <= {t}",
    ),
    "left": (
        {"size": "1 hour", "order": "ts", "closed": "left"},
        "ts >= {t} - interval 1 hour and ts < {t}",
    ),
    "bounds": (
        {"size": ("-1 hour", "30 min"), "order": "ts"},
        "ts >= {t} - interval 1 hour and ts <= {t} + interval 30 minutes",
    ),
    "days": ({"size": ("-2 days", 0), "order": "day"}, "day >= {d} - 2 and day <= {d}"),
    "last days": ({"size": "2 days", "order": "day"}, "day > {d} - 2 and day <= {d}"),
    "number": (
        {"size": 30, "order": "at", "measure": "range"},
        "at > {a} - 30 and at <= {a}",
    ),
    "fractions": (
        {"size": (-1.5, 0.5), "order": "fraction", "measure": "range"},
        "fraction >= {f} - 1.5 and fraction <= {f} + 0.5",
    ),
}


@pytest.fixture(scope="module")
def timed(data):
    stamp = F.timestamp_seconds(F.col("at") * 240 - 20_000)
    rows = data.select(
        "lone", "k", "at", "v", stamp.alias("ts"), (F.col("at") / 8).alias("fraction")
    )
    return rows.withColumn("day", F.to_date(F.timestamp_seconds(F.col("at") * 9999))).cache()


@pytest.mark.parametrize("name", TIMED)
def test_ranges_in_units_of_the_order(timed, name):
    options, inside = TIMED[name]
    other = {"t": "a.ts", "d": "a.day", "a": "a.at", "f": "a.fraction"}
    joined = timed.alias("a").join(
        timed.alias("b"),
        F.expr("a.k <=> b.k and " + _qualified(inside).format(**other)),
        "left",
    )
    counted = joined.groupBy("a.lone").agg(F.count("b.lone").alias("n"), F.sum("b.v").alias("s"))
    options = {"keys": "k", "aggregates": {"n": mt.Count(), "s": mt.Sum("v")}, **options}
    plans = ["muntin"] if name == "fractions" else ["muntin", "native"]
    for plan in plans:
        found = mt.spark.rolling(timed, plan=plan, **options).select("lone", "n", "s")
        same(by_id(found), by_id(counted))


def _qualified(inside):
    for column in ("ts", "day", "at", "fraction"):
        inside = inside.replace(f"{column} ", f"b.{column} ")
    return inside


def test_several_frames_at_once_keep_all_columns(data):
    sizes = {"few": 3, "around": (-1, 1), "all": (None, None)}
    aggregates = {"n": mt.Count(), "list": mt.Collect("v")}
    out = data.transform(mt.spark.rolling, keys="k", order="at", size=sizes, aggregates=aggregates)
    names = [f"{frame}_{name}" for frame in sizes for name in aggregates]
    assert out.columns == [*data.columns, *names]
    rows = by_id(out)
    same({i: {c: row[c] for c in data.columns} for i, row in rows.items()}, by_id(data))
    for size in sizes:
        alone = by_id(
            mt.spark.rolling(data, keys="k", order="at", size=sizes[size], aggregates=aggregates)
        )
        for i, row in alone.items():
            assert (row["n"], row["list"]) == (rows[i][f"{size}_n"], rows[i][f"{size}_list"])


def test_what_follows_does_not_change_the_frames(data):
    """Filters and limits are not pushed before the frames, nor is the sort taken out."""
    out = mt.spark.rolling(
        data, keys="k", order="at", size=(-5, 5), aggregates={"n": mt.Count()}, plan="muntin"
    )
    rows = by_id(out)
    for part in (out.where("v > 3"), out.limit(7), out.where("k = 'a'"), out.orderBy("x")):
        found = by_id(part)
        assert found
        same(found, {i: rows[i] for i in found})
    assert out.agg(F.sum("n")).first()[0] == sum(row["n"] for row in rows.values())


def test_frames_of_few_values_are_null_in_both_plans(data):
    rows = rolled(
        data, keys="k", order="at", size=4, min_periods=3,
        aggregates={"n": mt.Count(), "sum": mt.Sum("v"), "any": mt.First("v", nulls=True)},
    )  # fmt: skip
    assert any(row["n"] is None for row in rows.values())
    assert any(row["n"] == 4 and row["sum"] is None for row in rows.values())


def test_aggregates_of_ones_own(data):
    own = mt.Aggregate("total", 0, size_of, lambda a, b: a + b, columns=("v",))
    nothing = mt.Aggregate("none", 0, size_of, multiplied, lambda _x: None, columns=("v",))
    options = {"keys": "k", "order": "at", "size": 50, "types": {"none": "decimal(9,2)"}}
    aggregates = {
        "start": own, "none": nothing, "top": mt.TopK("s"), "ends": mt.M4("v"),
        "both": mt.Product(low=mt.Min("v"), words=mt.Collect("s")),
    }  # fmt: skip
    out = mt.spark.rolling(data, aggregates=aggregates, **options)
    kinds = dict(out.dtypes)
    assert kinds["none"] == "decimal(9,2)"
    assert kinds["ends"] == "struct<min:bigint,max:bigint,first:bigint,last:bigint>"
    rows = by_id(out)
    plain = by_id(data)
    for i, row in rows.items():
        mine = [r for r in plain.values() if r["k"] == row["k"] and r["at"] <= plain[i]["at"]]
        frame = sorted(mine, key=lambda r: r["at"])[-50:]
        assert row["start"] == sum(abs(r["v"]) for r in frame if r["v"] is not None)
        assert row["both"]["words"] == [r["s"] for r in frame if r["s"] is not None]


def test_an_aggregate_with_the_name_of_another_is_not_sparks(data):
    first = mt.Aggregate("sum", 0, size_of, max, columns=("v",))
    plan = mt.spark.rolling_plan(data, order="at", size=2, aggregates={"a": first})
    assert not plan.native
    assert "Spark has no aggregate like 'a' (sum)" in str(plan)


PLANS = {
    "small": ({"size": 3}, "native: frames are small: Spark needs 3 steps per row"),
    "large": ({"size": 1000}, "muntin: the cost does not depend on the frame"),
    "so far": ({"size": (None, 0)}, "native: frames that begin with the key"),
    "range": ({"size": (-5, 0), "measure": "range"}, "muntin: the cost"),
    "asked": ({"size": 3, "plan": "muntin"}, "muntin: asked for"),
    "asked by engine": ({"size": 3, "engine": "muntin"}, "muntin: asked for"),
    "sketch": ({"size": 3, "aggregates": {"a": mt.ApproxDistinct("v")}}, "muntin: Spark has no"),
    "types": ({"size": 3, "aggregates": {"a": mt.CountDistinct("x")}}, "muntin: of double columns"),
    "place": ({"size": 1000, "keys": "k"}, "sort: by place, which is a hash of 'k' and 'at'"),
    "keys": ({"size": 1000, "keys": "k", "order": "s"}, "sort: by 'k', 's'"),
    "frame": ({"size": (None, 5), "plan": "muntin"}, "size: rows from the first row to 5"),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_say_what_is_done_and_why(data, name):
    options, told = PLANS[name]
    options = {"order": "at", "aggregates": {"total": mt.Sum("v")}, **options}
    assert told in str(mt.spark.rolling_plan(data, **options))


REFUSED = {
    "column": ({"aggregates": {"s": mt.Sum("w")}}, "aggregates: no column 'w'.*'lone'"),
    "key": ({"keys": "plug"}, "keys: no column 'plug'"),
    "order": ({"order": "when"}, "order: no column 'when'"),
    "no order": ({"order": []}, "order must name a column"),
    "order by number": ({"order": [1]}, "order: a column is given by its name, got 1"),
    "clash": ({"aggregates": {"V": mt.Sum("v")}}, "there is a column 'V' already"),
    "frames clash": (
        {"size": {"a": 3, "a_b": 4}, "aggregates": {"b_c": mt.Count(), "c": mt.Count()}},
        "there is a column 'a_b_c' already",
    ),
    "bounds": (
        {"size": (3, -3)},
        "size ends before it begins: .3, -3.; give the lower bound first",
    ),
    "three bounds": ({"size": (1, 2, 3)}, "size is a pair of bounds"),
    "named": ({"size": {"far": (3, -3)}}, r"size\['far'\] ends before it begins"),
    "no frames": ({"size": {}}, "size has no frames"),
    "frame names": ({"size": {1: 3}}, "a frame is named by text, got 1"),
    "zero": ({"size": 0}, "size must be a positive number of rows, got 0"),
    "negative": ({"size": "-1 hour", "order": "ts"}, "size must be a positive length"),
    "nothing": ({"size": None}, "size must be a positive number of rows, got None"),
    "rows": ({"size": 2.5}, "size is in rows, which are whole numbers, got 2.5"),
    "text": ({"size": "1 hour", "order": "s"}, "order is a string: order by a number"),
    "durations": ({"size": (-5, 0), "order": "ts", "measure": "range"}, "size must be durations"),
    "numbers": ({"size": "1 hour"}, "size must be numbers like the order, a bigint"),
    "whole": ({"size": (-0.5, 0), "measure": "range"}, "numbers like the order, a bigint"),
    "part of a day": ({"size": "1 hour", "order": "day"}, "size must be whole days"),
    "two orders": ({"size": "1 hour", "order": ["ts", "at"]}, "order must be one column"),
    "measure": ({"measure": "time"}, "measure must be one of rows, range, got 'time'"),
    "closed": ({"closed": "shut"}, "closed must be one of right, left"),
    "closed pair": ({"size": (-3, 0), "closed": "left"}, "closed is not for the bounds"),
    "periods": ({"min_periods": -1}, "min_periods must be a whole number, 0 or more, got -1"),
    "two": ({"plan": "native", "engine": "muntin"}, "plan is another name for engine"),
    "plan": ({"plan": "fast"}, "engine must be one of auto, muntin, native, got 'fast'"),
    "not native": (
        {"plan": "native", "aggregates": {"a": mt.TopK("v")}},
        "engine='native' cannot be: Spark has no aggregate like 'a'",
    ),
    "aggregate": ({"aggregates": {"s": "sum"}}, "aggregate 's' must be one such as"),
    "no aggregates": ({"aggregates": {}}, "at least one aggregate"),
    "dict": ({"aggregates": [mt.Count()]}, "aggregates is a dict"),
    "map": ({"keys": "m"}, "keys: 'm' is map<string,int>, which cannot be a key"),
    "filter": ({"aggregates": {"b": mt.Bloom("v")}}, "'b' gives a filter"),
    "types": ({"types": {"x": "double"}}, "types declares 'x', which is no aggregate"),
}


@pytest.fixture(scope="module")
def refusing(data):
    return (
        data.withColumn("m", F.create_map(F.lit("a"), F.lit(1)))
        .withColumn("ts", F.timestamp_seconds("at"))
        .withColumn("day", F.to_date(F.timestamp_seconds("at")))
    )


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(refusing, name):
    options, message = REFUSED[name]
    options = {"order": "at", "size": 3, "aggregates": {"s1": mt.Sum("v")}, **options}
    with pytest.raises((TypeError, ValueError), match=message):
        mt.spark.rolling(refusing, **options)


def test_streams_and_columns_of_one_name_are_refused(spark, data):
    options = {"order": "timestamp", "size": 3, "aggregates": {"n": mt.Count()}}
    with pytest.raises(TypeError, match="this is a stream: take mt.spark.aggregate"):
        mt.spark.rolling(spark.readStream.format("rate").load(), **options)
    twice = data.withColumnRenamed("v", "x")
    with pytest.raises(ValueError, match="two columns 'x': rename one"):
        mt.spark.rolling(twice, **{**options, "order": "at"})


def test_order_is_exact_however_large_its_numbers(spark):
    """Beyond 2^45 a place is rounded, and the worker sets the order right."""
    ends = np.iinfo(np.int64)
    near = [s * (x + d) for s in (1, -1) for x in (2**45, 2**60) for d in range(-3, 4)]
    values = [ends.min, ends.max, 0, *near]
    table = pa.table({"k": [i % 3 for i in range(len(values))], "t": values, "lone": values})
    rows = spark.createDataFrame(table).repartition(5)
    rolled(rows, keys="k", order="t", size=2, aggregates={"l": mt.Collect("t")})
