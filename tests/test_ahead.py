"""Rows ahead of the clock are dropped and counted, and the rest is as if they had never come."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin as mt
from tests.spark_streams import collect, comparable, random_rows, read_stream, write_files

DAY = 86_400_000_000
WINDOWS = {
    "folded": {"w": mt.Sliding(10, 4)},
    "sessions": {"w": mt.Sliding(10, 4), "s": mt.Session(5)},
    "ranks": {"c": mt.Tumbling(3, measure="count"), "l": mt.LastN(2, 6)},
}


def of(windows, **options):
    aggregates = {"n": mt.Count(), "s": mt.Sum("v"), "f": mt.First("v")}
    return mt.Query(time="t", keys="k", windows=windows, aggregates=aggregates, **options)


batches = st.lists(
    st.tuples(st.integers(0, 60), st.lists(st.tuples(st.integers(0, 200), st.sampled_from("ab")))),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("ordered", [False, True])
@given(batches=batches, ahead=st.integers(0, 40))
def test_results_are_those_without_them(name, ordered, batches, ahead):
    query = of(WINDOWS[name], max_ahead=ahead, ordered=ordered, watermark=5, lateness=20)
    guarded, plain = query.operator(), replace(query, max_ahead=None).operator()
    dropped, seen = 0, set()
    for now, rows in batches:
        held = [(t, f"{now} {k}" if ordered else k) for t, k in (sorted(rows) if ordered else rows)]
        held = [(t, k) for t, k in held if k not in seen]  # of an ordered stream, keys come once
        seen |= {k for _, k in held} if ordered else set()
        near = [(t, k) for t, k in held if t <= now + ahead]
        dropped += len(held) - len(near)
        tables = [
            op.process(table_of(part), **given)
            for op, part, given in ((guarded, held, {"now": now}), (plain, near, {}))
        ]
        assert tables[0].to_pylist() == tables[1].to_pylist()
        if not ordered:
            assert guarded.advance().to_pylist() == plain.advance().to_pylist()
        guarded = query.restore(guarded.snapshot())
    assert guarded.complete().to_pylist() == plain.complete().to_pylist()
    assert guarded.counters.rows == plain.counters.rows + dropped
    assert guarded.counters.dropped == plain.counters.dropped + dropped


def table_of(rows):
    return {
        "t": np.array([t for t, _ in rows], np.int64),
        "k": pa.array([k for _, k in rows], pa.string()),
        "v": np.array([31 * t % 17 for t, _ in rows], np.int64),
    }


def test_now_may_be_any_time_and_is_the_clock_s_if_left_out():
    query = mt.Query(
        time="t", windows={"w": mt.Tumbling("1 h")}, aggregates={"n": mt.Count()}, max_ahead="1 day"
    )
    times = [dt.datetime(2020, 1, 1), dt.datetime(2200, 1, 1)]
    assert [row["n"] for row in query.run({"t": times}).to_pylist()] == [1]
    for now in (dt.datetime(2199, 12, 31), np.datetime64("2199-12-31"), "2199-12-31 00:00"):
        assert query.run({"t": times}, now=now).num_rows == 2
    zoned = [time.replace(tzinfo=dt.UTC) for time in times]
    assert query.run({"t": zoned}, now=dt.datetime(2199, 12, 30, tzinfo=dt.UTC)).num_rows == 1


WRONG = {
    "whole numbers": (
        {"max_ahead": 5},
        {},
        ValueError,
        "whole numbers, which a clock does not tell",
    ),
    "not asked": ({}, {"now": 5}, ValueError, "now=5 is for a query with max_ahead"),
    "no time": ({"max_ahead": 5}, {"now": "soon"}, TypeError, "now is a time, got 'soon'"),
    "a truth": ({"max_ahead": 5}, {"now": True}, TypeError, "now is a time, got True"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_change_nothing(name):
    options, now, kind, match = WRONG[name]
    operator = of(WINDOWS["folded"], **options).operator()
    before = operator.snapshot()
    with pytest.raises(kind, match=match):
        operator.process(table_of([(1, "a")]), **now)
    assert operator.snapshot() == before


def test_a_negative_one_is_refused():
    with pytest.raises(ValueError, match="max_ahead must not be negative"):
        of(WINDOWS["folded"], max_ahead=-1)
    with pytest.raises(ValueError, match="max_ahead drops rows before windows see them"):
        of(WINDOWS["folded"], max_ahead=1, dropped="report")


ON_SPARK = {
    "folded": {"a": mt.Sliding("20 s", "5 s")},
    "as they are": {"a": mt.Tumbling("7 s"), "s": mt.Session("2 s"), "l": mt.LastN(3, "10 s")},
}


@pytest.mark.parametrize("name", ON_SPARK)
def test_a_stream_goes_on_after_a_row_of_the_year_2200(spark, tmp_path, name):
    """The rows ahead are among others, and alone in a micro-batch."""
    query = mt.Query(
        time="ts",
        keys=("k", "n"),
        windows=ON_SPARK[name],
        aggregates={"n_rows": mt.Count(), "sum": mt.Sum("v")},
        watermark="5 s",
        lateness="15 s",
        max_ahead="1 day",
    )
    near = [random_rows(5, batch) for batch in range(4)]
    far = random_rows(6, 0, count=7)
    year = pa.array([7_258_118_400_000_000 + i for i in range(7)], pa.timestamp("us", "UTC"))
    far = far.set_column(0, "ts", year)
    both = [near[0], pa.concat_tables([far.slice(0, 3), near[1]]), far.slice(3), *near[2:]]
    write_files(tmp_path / "both", both)
    write_files(tmp_path / "near", [near[0], near[1], far.slice(0, 0), *near[2:]])
    found = collect(
        mt.spark.aggregate(read_stream(spark, tmp_path / "both"), query), tmp_path / "cp"
    )
    counted = [p["observedMetrics"]["muntin"]["dropped"] or 0 for p in collect.progress]
    plain = replace(query, max_ahead=None)
    wanted = collect(
        mt.spark.aggregate(read_stream(spark, tmp_path / "near"), plain), tmp_path / "cp2"
    )
    before = [p["observedMetrics"]["muntin"]["dropped"] or 0 for p in collect.progress]
    assert comparable(found) == comparable(wanted)
    assert sum(counted) == sum(before) + 7
    assert len(found) > 50


def test_finished_data_is_without_them_too(spark, tmp_path):
    times = [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2200, 1, 1, tzinfo=dt.UTC)]
    frame = spark.createDataFrame(pa.table({"t": times, "k": ["a", "a"], "v": [1, 2]}))
    windows = {"w": mt.Tumbling("1 h")}
    for kind in ("timestamp", "timestamp_ntz", "date"):
        cast = frame.withColumn("t", frame.t.cast(kind))
        query = of({"w": mt.Tumbling("1 day")}, max_ahead="1 day")
        assert [row.s for row in mt.spark.aggregate(cast, query).collect()] == [1]
    with pytest.raises(TypeError, match="max_ahead goes by the clock, and the time 't' is bigint"):
        mt.spark.aggregate(frame.withColumn("t", frame.v), of({"w": mt.Tumbling(5)}, max_ahead=5))
    write_files(tmp_path, [random_rows(0, 0)])
    stream = read_stream(spark, tmp_path).withWatermark("ts", "1 second")
    query = mt.Query(time="ts", windows=windows, aggregates={"n": mt.Count()}, max_ahead="1 day")
    with pytest.raises(ValueError, match="has a watermark on 'ts' already, which rows ahead"):
        mt.spark.aggregate(stream, query)
