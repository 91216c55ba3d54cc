"""Sketches as values: what Apache DataSketches, and Spark, read from the bytes that windows give."""

import math
import random
import sys
from dataclasses import replace
from functools import reduce

import datasketches
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin as mt
from muntin.aggregates import same_partial, same_result, seal
from muntin.testing import check_laws
from tests.test_sketches import EQUALS, in_any_grouping

FACTORIES = [mt.HllSketch, mt.KllSketch, mt.ThetaSketch]
MADE = [factory() for factory in FACTORIES]
COUNTING = [mt.HllSketch(), mt.ThetaSketch()]
BY_NAME = {"ids": lambda aggregate: aggregate.name}
READERS = {
    "hll_sketch": datasketches.hll_sketch,
    "kll_sketch": datasketches.kll_doubles_sketch,
    "theta_sketch": datasketches.compact_theta_sketch,
}
WORDS = [f"w{x}" for x in np.random.default_rng(1).integers(0, 5_000, 20_000).tolist()]
ROWS = {
    "t": [i * 7 % 1_000 // 10 for i in range(1_000)],
    "k": [i % 3 for i in range(1_000)],
    "v": [i * i % 4_001 - 500 for i in range(1_000)],
}


def read(aggregate, result):
    """Return the sketch that other programs read."""
    return READERS[aggregate.name.partition("(")[0]].deserialize(result)


def folded(aggregate, values):
    return reduce(aggregate.combine, map(aggregate.lift, values), aggregate.identity)


def unite(aggregate, results):
    """Return what other programs make of stored bytes, merged."""
    sketches = [read(aggregate, result) for result in results]
    if aggregate.name.startswith("kll"):
        first, *others = sketches
        for sketch in others:
            first.merge(sketch)
        return first
    make = datasketches.hll_union if "hll" in aggregate.name else datasketches.theta_union
    union = make(12)
    for sketch in sketches:
        union.update(sketch)
    return union.get_result()


def query_of(**options):
    made = mt.HllSketch("v"), mt.KllSketch("v"), mt.ThetaSketch("v")
    aggregates = dict(zip(READERS, made, strict=True))
    windows = {"ten": mt.Tumbling(10), "thirty": mt.Sliding(30, 10)}
    return mt.Query(time="t", keys="k", windows=windows, aggregates=aggregates, **options)


def assert_results(table, rows):
    """Compare each result of a table with the exact answer for the rows of its window."""
    held = list(zip(rows["t"], rows["k"], rows["v"], strict=True))
    for row in table.to_pylist():
        inside = [v for t, k, v in held if k == row["k"] and row["start"] <= t < row["end"]]
        assert inside
        for name in ("hll_sketch", "theta_sketch"):
            found = READERS[name].deserialize(row[name]).get_estimate()
            assert found == pytest.approx(len(set(inside)), rel=1e-3)
        numbers = datasketches.kll_doubles_sketch.deserialize(row["kll_sketch"])
        assert numbers.n == len(inside)
        middle = sorted(inside)[math.ceil(len(inside) / 2) - 1]
        assert numbers.get_quantile(0.5 - 1e-9, True) == middle


@pytest.mark.parametrize("aggregate", MADE, **BY_NAME)
def test_laws(aggregate):
    check_laws(aggregate, [3.5, -1.0, 0.0, -0.0, 2e6, math.inf, -math.inf, 7])


@pytest.mark.parametrize("aggregate", MADE, **BY_NAME)
def test_reading_and_combining_leave_a_partial_as_it_was(aggregate):
    values = np.random.default_rng(2).normal(size=6_000).tolist()
    a, b = folded(aggregate, values[:1_000]), folded(aggregate, values[1_000:])
    before = aggregate.encode(a), aggregate.encode(b)
    aggregate.combine(a, b)
    aggregate.lower(a)
    aggregate.lower(b)
    assert (aggregate.encode(a), aggregate.encode(b)) == before


@pytest.mark.parametrize("values", [WORDS[:150], WORDS], ids=["few", "many"])
@pytest.mark.parametrize("aggregate", COUNTING, **BY_NAME)
def test_estimates_are_those_of_approx_distinct(aggregate, values):
    distinct = mt.ApproxDistinct()
    wanted = distinct.lower(in_any_grouping(distinct, values, seed=3))
    for partial in (in_any_grouping(aggregate, values, seed=4), folded(aggregate, values)):
        found = read(aggregate, aggregate.lower(partial)).get_estimate()
        assert found == pytest.approx(len(set(values)), rel=1e-3 if len(values) < 200 else 0.05)
        assert found == pytest.approx(wanted, rel=0.01 if len(values) < 200 else 0.06)


def test_equal_values_are_one_value_and_others_are_not():
    values = [value for equals in EQUALS for value in equals]
    for aggregate in COUNTING:
        found = read(aggregate, aggregate.lower(folded(aggregate, values))).get_estimate()
        assert round(found, 3) == len(EQUALS)


@given(st.lists(st.integers(-99, 99), min_size=1, max_size=200), st.integers(1, 8))
def test_quantiles_of_few_values_are_those_of_approx_quantile(values, eighth):
    aggregate, quantile = mt.KllSketch(), mt.ApproxQuantile(q=eighth / 8)
    sketch = read(aggregate, aggregate.lower(folded(aggregate, values)))
    rank = math.ceil(eighth * len(values) / 8)
    found = sketch.get_quantile((rank - 0.5) / len(values), True)
    assert found == quantile.lower(folded(quantile, values)) == sorted(values)[rank - 1]


def test_quantiles_of_many_values_are_near_in_rank():
    values = np.random.default_rng(5).lognormal(size=20_000)
    aggregate = mt.KllSketch()
    sketch = read(aggregate, aggregate.lower(in_any_grouping(aggregate, values, seed=6)))
    for q in (0.01, 0.5, 0.99):
        assert np.mean(values <= sketch.get_quantile(q, True)) == pytest.approx(q, abs=0.025)


@pytest.mark.parametrize("aggregate", MADE, **BY_NAME)
def test_stored_bytes_are_merged_later(aggregate):
    """The union of the hours is the sketch of the day, whichever way it was made."""
    values = [i % 3_001 for i in range(0, 80_000, 7)]
    hours = [aggregate.lower(folded(aggregate, values[i::24])) for i in range(24)]
    empty = aggregate.lower(aggregate.identity)
    merged = unite(aggregate, [*hours, empty])
    whole = read(aggregate, aggregate.lower(folded(aggregate, values)))
    if aggregate.name.startswith("kll"):
        assert merged.n == whole.n == len(values)
        assert merged.get_rank(1_500) == pytest.approx(whole.get_rank(1_500), abs=0.03)
        assert aggregate.agree(merged.serialize(), whole.serialize())
        return
    assert merged.get_estimate() == pytest.approx(3_001, rel=0.05)
    write = "serialize_compact" if "hll" in aggregate.name else "serialize"
    assert aggregate.agree(getattr(merged, write)(), getattr(whole, write)())


@pytest.mark.parametrize("aggregate", MADE, **BY_NAME)
def test_results_agree_by_what_they_say(aggregate):
    for count in (1, 50, 5_000):
        values = list(range(count))
        shuffled = random.Random(count).sample(values, count)
        a, b = (folded(aggregate, some) for some in (values, shuffled))
        assert same_partial(aggregate, a, b)
        for other in ([*range(count, 2 * count), -1], [v + 9e6 for v in values] * 2, []):
            assert not same_partial(aggregate, a, folded(aggregate, other))
    assert not same_result(aggregate, aggregate.lower(a), None)
    both = mt.Product(n=mt.Count("v"), s=aggregate)
    one, other = {"n": 2, "s": aggregate.lower(a)}, {"n": 2, "s": aggregate.lower(b)}
    assert same_result(both, one, other)
    assert not same_result(both, one, {**other, "n": 3})


def test_results_of_ones_own_agree_by_ones_own_rule():
    """The rule for muntin's bytes is not asked about results that are no such bytes."""

    def estimate(sketch):
        return 0.0 if sketch is None else sketch.get_estimate()

    own = replace(mt.HllSketch(), lower=estimate)
    assert not own.is_built_in
    check_laws(own, [1, 2, 3])
    assert same_result(own, 100.0, 101.0)
    assert not same_result(own, 100.0, 120.0)
    wide = replace(mt.HllSketch(), lower=estimate, agree=lambda a, b: abs(a - b) < 50)
    assert same_result(wide, 100.0, 120.0)
    with pytest.raises(TypeError, match="agree must be a function, got 5"):
        replace(mt.HllSketch(), agree=5)


@pytest.mark.parametrize("aggregate", MADE, **BY_NAME)
def test_nulls_and_empty_windows_give_an_empty_sketch(aggregate):
    window = mt.DabaLite(aggregate)
    assert read(aggregate, window.query()).is_empty()
    window.bulk_insert([None, None])
    assert read(aggregate, window.query()).is_empty()


@pytest.mark.parametrize("aggregate", MADE, **BY_NAME)
def test_encoding(aggregate):
    for values in ([1.5], range(100), range(5_000)):
        partial = folded(aggregate, values)
        restored = aggregate.decode(aggregate.encode(partial))
        assert same_partial(aggregate, restored, partial)
        texts = [read(aggregate, aggregate.lower(p)).to_string() for p in (restored, partial)]
        assert texts[0] == texts[1]
    assert aggregate.decode(aggregate.encode(aggregate.identity)) is None


@pytest.mark.parametrize("aggregate", MADE, **BY_NAME)
@given(data=st.data())
def test_garbage_is_refused(aggregate, data):
    garbage = data.draw(
        st.one_of(
            st.binary(max_size=60),
            st.binary(max_size=7).map(seal),
            st.text(),
            st.integers(),
        )
    )
    for malformed in (garbage, (12, garbage)):
        with pytest.raises(ValueError, match=r"not a |snapshot|pair"):
            aggregate.decode(malformed)


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (mt.HllSketch(), mt.HllSketch(lg_k=11)),
        (mt.KllSketch(), mt.KllSketch(k=100)),
        (mt.ThetaSketch(), mt.ThetaSketch(lg_k=11)),
    ],
    **BY_NAME,
)
def test_a_sketch_of_other_parameters_is_refused(writer, reader):
    with pytest.raises(ValueError, match="other parameters"):
        reader.decode(writer.encode(writer.lift(1)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: mt.HllSketch(lg_k=3), "lg_k .* got 3"),
        (lambda: mt.HllSketch(lg_k=22), "lg_k .* got 22"),
        (lambda: mt.HllSketch(lg_k=12.0), "lg_k .* got 12.0"),
        (lambda: mt.KllSketch(k=7), "k .* got 7"),
        (lambda: mt.KllSketch(k=65_536), "k .* got 65536"),
        (lambda: mt.ThetaSketch(lg_k=4), "lg_k .* got 4"),
        (lambda: mt.ThetaSketch(lg_k=27), "lg_k .* got 27"),
    ],
)
def test_bad_parameters_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("factory", FACTORIES)
def test_the_smallest_and_the_largest_take_values(factory):
    ends = {mt.HllSketch: (4, 21), mt.KllSketch: (8, 65_535), mt.ThetaSketch: (5, 26)}[factory]
    for size in ends:
        aggregate = factory(**{"k" if factory is mt.KllSketch else "lg_k": size})
        partial = folded(aggregate, range(100))
        assert aggregate.decode(aggregate.encode(partial)) is not None
        assert same_partial(aggregate, partial, in_any_grouping(aggregate, range(100), seed=1))


@pytest.mark.parametrize("factory", FACTORIES)
def test_missing_datasketches_is_named_at_once(factory, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    needs = rf"{factory.__name__} needs Apache DataSketches: pip install 'muntin\[sketches\]'"
    with pytest.raises(ImportError, match=needs):
        factory()


def test_values_that_cannot_be_taken_are_named():
    for aggregate in COUNTING:
        with pytest.raises(TypeError, match=r"cannot hash \{1\}.*; convert"):
            aggregate.lift({1})
    with pytest.raises(TypeError, match=r"kll_sketch is for numbers, got '7'; convert"):
        mt.KllSketch().lift("7")
    with pytest.raises(ValueError, match=r"no place for NaN; leave such rows out"):
        mt.KllSketch().lift(math.nan)


def test_nan_is_left_out_by_a_condition():
    rows = {"t": [1, 2, 3], "v": [math.nan, 2.0, math.inf]}
    for where, count in ((None, None), (mt.col("v") <= math.inf, 2)):
        aggregates = {"s": mt.KllSketch("v", where=where)}
        query = mt.Query(time="t", windows={"w": mt.Tumbling(9)}, aggregates=aggregates)
        if where is None:
            with pytest.raises(ValueError, match="NaN"):
                query.run(rows)
        else:
            (result,) = query.run(rows)["s"].to_pylist()
            assert read(MADE[1], result).n == count


def test_a_column_of_text_is_refused_before_any_row():
    query = mt.Query(time="t", windows={"w": mt.Tumbling(9)}, aggregates={"s": mt.KllSketch("v")})
    with pytest.raises(TypeError, match="'s' computes with numbers, decimals, and column 'v'"):
        query.run({"t": [1], "v": ["a"]})


def test_tables():
    table = query_of().run(ROWS)
    for name in READERS:
        assert table.schema.field(name).type == pa.binary()
    assert_results(table, ROWS)


def test_late_rows_and_snapshots():
    """Rows come in any order, the operator stops and goes on, and corrections replace results."""
    order = random.Random(8).sample(range(1_000), 1_000)
    query, found = query_of(lateness=1_000, watermark=0), {}
    operator = query.operator()
    reports = []
    for i in range(0, 1_000, 100):
        operator.process({name: [ROWS[name][j] for j in order[i : i + 100]] for name in ROWS})
        operator = query.restore(operator.snapshot())
        reports.append(operator.advance(10 + i // 10))
    reports.append(operator.advance(200))
    kinds = set()
    for report in reports:
        for row in report.to_pylist():
            kinds.add(row["kind"])
            found[row["k"], row["window"], row["start"]] = row
    assert kinds == {"result", "update"}
    wanted = query.run(ROWS)
    assert len(found) == wanted.num_rows
    assert_results(pa.Table.from_pylist([*found.values()]), ROWS)


def test_a_snapshot_is_bound_to_the_parameters():
    def asked(**options):
        aggregates = {"s": mt.ThetaSketch("v", **options)}
        return mt.Query(time="t", windows={"w": mt.Tumbling(9)}, aggregates=aggregates)

    operator = asked().operator()
    operator.process({"t": [1, 2], "v": [1, 2]})
    with pytest.raises(mt.SnapshotError, match="lg_k"):
        asked(lg_k=11).restore(operator.snapshot())


def test_spark_gives_the_bytes_and_reads_them(spark, tmp_path):
    pq.write_table(pa.table(ROWS), tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    out = mt.spark.aggregate(frame, query_of())
    assert {name: kind for name, kind in out.dtypes if name in READERS} == dict.fromkeys(
        READERS, "binary"
    )
    found = out.toArrow()
    assert found.num_rows == query_of().run(ROWS).num_rows
    assert_results(found, ROWS)
    out.createOrReplaceTempView("stored_sketches")
    (row,) = spark.sql(
        "select hll_sketch_estimate(hll_union_agg(hll_sketch)) hll,"
        " theta_sketch_estimate(theta_union_agg(theta_sketch)) theta,"
        " kll_sketch_get_n_double(kll_merge_agg_double(kll_sketch)) n"
        " from stored_sketches where window = 'ten'"
    ).collect()
    assert row["hll"] == pytest.approx(len(set(ROWS["v"])), rel=0.05)
    assert row["theta"] == len(set(ROWS["v"]))
    assert row["n"] == len(ROWS["v"])
