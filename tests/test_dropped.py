"""Rows that no window takes: each comes once, with its keys and time, whatever is lost on the way."""

import datetime as dt
import random
from dataclasses import replace
from unittest.mock import patch

import pyarrow as pa
import pytest

import muntin as mt
from tests.changing_runs import MemoryBlocks, Stream
from tests.test_query_properties import KEYS
from tests.window_oracle import WindowOracle, read_lost, read_results

SHARDS = 60
WINDOWS = {
    "sparse": mt.Sliding(3, 8),
    "tumbling": mt.Tumbling(5),
    "fixed": mt.Fixed(7, 12),
    "session": mt.Session(3),
    "count": mt.Tumbling(4, measure="count"),
}


def query_of(windows=None, **options):
    windows = {"sparse": mt.Sliding(3, 8)} if windows is None else windows
    return mt.Query(time="t", windows=windows, aggregates={"n": mt.Count()}, **options)


@pytest.mark.parametrize("seed", range(4))
def test_shards_report_each_row_once(seed):
    """Tasks fail, logs of folded rows and of plain ones are replayed, and a restart asks or does not."""
    for number in range(seed, SHARDS, 4):
        rng = random.Random(number)
        windows = {name: WINDOWS[name] for name in rng.sample([*WINDOWS], rng.randint(1, 3))}
        query = query_of(windows, keys=KEYS, lateness=rng.choice([0, 6]), dropped="report")
        oracle, stores = (
            WindowOracle(windows, query.aggregates, query.allowed, keys=KEYS),
            [MemoryBlocks(), MemoryBlocks()],
        )
        with patch("muntin.spark.shard.SHORT_LOG", rng.choice([1, 400, 1 << 16])):
            stream, clock = Stream(query, stores, rng), 0
            for _ in range(rng.randint(3, 12)):
                if rng.random() < 0.3:
                    query = replace(query, dropped=rng.choice(["count", "report"]))
                    stream = Stream(query, stores, rng)
                rows = []
                for _ in range(rng.choice([0, 1, 5, 12])):
                    clock += rng.choice([0, 1, 2])
                    t = clock - rng.choice([0, 0, 4, 15])
                    rows.append({"t": t, "room": rng.choice("ab"), "plug": 0})
                table, before = stream.take(rows, clock - 3), len(oracle.lost)
                oracle.process(rows)
                wanted = oracle.lost[before:] if query.reports_dropped else []
                assert sorted(read_lost(table, KEYS)) == sorted(wanted)
                results, gone = oracle.advance(clock - 3)
                assert read_results(table, KEYS) == (results, gone)


def test_times_and_keys_go_out_as_they_came_in():
    noon = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
    query = mt.Query(
        time="at",
        keys=("plug", "home"),
        windows={"first seconds": mt.Sliding("10 s", "1 min"), "pair": mt.LastN(2, "1 min")},
        aggregates={"all": mt.Collect("watts"), "top": mt.Max("watts")},
        dropped="report",
    )
    operator = query.operator()
    times = pa.array([noon, noon + dt.timedelta(minutes=9)], pa.timestamp("us", "Europe/Berlin"))
    watts = pa.array([1.5, 2.5])
    table = pa.table({"at": times, "plug": ["a", None], "home": [1, 2], "watts": watts})
    assert operator.process(table).num_rows == 0
    operator.advance(noon + dt.timedelta(minutes=9))
    (row,) = (late := operator.process(table.slice(0, 1))).to_pylist()
    assert late.schema.field("start").type == times.type
    assert late.schema.equals(operator.advance(noon + dt.timedelta(hours=1)).schema)
    assert row.pop("start") == noon
    assert row.pop("kind") == "dropped"
    assert (row.pop("plug"), row.pop("home")) == ("a", 1)
    assert {*row.values()} == {None}


def test_windows_of_rows_have_numbers_beside_the_times_of_rows():
    query = query_of({"pair": mt.Tumbling(2, measure="count")}, dropped="report", lateness=5)
    operator = query.operator()
    operator.process({"t": [10, 12]})
    assert operator.advance(20)["start"].to_pylist() == [0]
    rows = operator.process({"t": [14, 15, 3]}).to_pylist()
    assert [(row["window"], row["start"], row["kind"]) for row in rows] == [
        (None, 14, "dropped"),
        (None, 3, "dropped"),
    ]


def test_a_finished_table_reports_rows_between_its_windows():
    table = query_of(dropped="report").run({"t": [1, 5, 9, 15]})
    assert read_lost(table) == [((), 5), ((), 15)]
    assert table["kind"].to_pylist() == ["dropped", "dropped", "result", "result"]


def test_a_call_that_fails_reports_nothing_and_a_snapshot_has_nothing_to_report():
    operator = query_of(dropped="report").operator()
    with pytest.raises(ValueError, match="row 1"):
        operator.process({"t": [5, None]})
    assert read_lost(operator.process({"t": [5]})) == [((), 5)]
    operator = operator.query.restore(operator.snapshot())
    assert read_lost(operator.advance(100)) == []
    assert operator.counters.dropped == 1


def test_it_is_said_that_rows_are_not_folded_first():
    said = query_of(dropped="report").explain()
    assert "\nrows that no window takes are reported\n" in said
    assert said.endswith("rows travel as they are: each that no window takes is reported")
    assert query_of().explain().endswith("rows are folded first")


@pytest.mark.parametrize("dropped", ["reported", None, True])
def test_what_is_done_with_such_rows_has_a_name(dropped):
    with pytest.raises(ValueError, match=f"one of count, report, got {dropped!r}"):
        query_of(dropped=dropped)
