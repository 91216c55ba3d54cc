"""The programs in examples/, at a small size, against plain loops over their rows."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples import (
    backfill_and_live,
    dashboard,
    last_trades,
    small_device,
    smart_plugs,
    taxi_sessions,
)
from pyarrow import csv

EXAMPLES = Path(smart_plugs.__file__).parent
SECOND = 1_000_000


def run(name, *arguments):
    command = [sys.executable, EXAMPLES / f"{name}.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_a_program_is_short_and_tells_what_it_shows(path):
    assert len(path.read_text().splitlines()) <= 130
    assert f"python examples/{path.name}" in path.read_text()
    assert f"({path.name})" in (EXAMPLES / "README.md").read_text()
    first = re.search('"""(.*)', path.read_text())[1]
    assert first in " ".join(run(path.stem, "--help").split())


# Smart plugs


def test_smart_plugs_compare_each_plug_with_all():
    standings = smart_plugs.main(houses=2, hours=25)
    rows = pa.concat_tables(smart_plugs.generated(houses=2, hours=25)).to_pandas()
    for name, seconds in (("hour", 3600), ("day", 24 * 3600)):
        found = [row for row in standings if row["window"] == name]
        assert [row["house_id"] for row in found] == [0, 1]
        end = (found[0]["end"] - np.datetime64(0, "s").item()).total_seconds()
        assert end == rows["timestamp"].max() - 10
        held = rows[(rows["timestamp"] >= end - seconds) & (rows["timestamp"] < end)]
        plugs = held.groupby(list(smart_plugs.PLUG))["value"].agg(["mean", "max"])
        for row in found:
            mine = plugs.loc[row["house_id"]]
            assert row["above_count"] == len(mine)
            assert row["above_mean"] == (mine["mean"] > held["value"].mean()).mean()
            assert row["mean_mean"] == pytest.approx(mine["mean"].mean())
            assert row["peak_max"] == mine["max"].max()


def test_smart_plugs_read_the_file_of_the_challenge(tmp_path):
    [loads] = smart_plugs.generated(houses=1, hours=1)
    columns = {"id": np.arange(len(loads)), **{name: loads[name] for name in loads.column_names}}
    columns["property"] = np.ones(len(loads), int)
    work = {**columns, "property": np.zeros(len(loads), int), "value": np.full(len(loads), 9e9)}
    both = [pa.table(table).select(smart_plugs.COLUMNS) for table in (columns, work)]
    path = tmp_path / "sorted.csv"
    csv.write_csv(pa.concat_tables(both), path, csv.WriteOptions(include_header=False))
    generated = smart_plugs.main(houses=1, hours=1)
    for row, expected in zip(smart_plugs.main(file=path), generated, strict=True):
        assert row == {**expected, "mean_mean": pytest.approx(expected["mean_mean"])}


def test_smart_plugs_that_end_too_soon(tmp_path):
    path = tmp_path / "short.csv"
    path.write_text("1,1377986400,68.4,1,0,0,0\n2,1377986401,70.1,1,0,0,0\n")
    with pytest.raises(ValueError, match="no window was complete"):
        smart_plugs.main(file=path)


# Taxis


def test_taxi_sessions_are_the_shifts_of_all_trips(spark):
    shifts = taxi_sessions.main(spark, taxis=12, hours=4)
    trips = taxi_sessions.generated(taxis=12, hours=4).to_pandas()
    trips["minute"] = (trips["at"].astype("int64") - taxi_sessions.BEGIN) // taxi_sessions.MINUTE
    assert (trips["told"] - trips["minute"]).max() > 120
    expected, watermark = set(), trips["minute"].max() - 10
    for taxi, mine in trips.groupby("taxi"):
        mine = mine.sort_values("minute", kind="stable").reset_index()
        breaks = [i for i in range(1, len(mine)) if mine["minute"].diff()[i] > 45]
        for first, end in pairwise([0, *breaks, len(mine)]):
            shift = mine[first:end]
            start, until = shift["minute"].min(), shift["minute"].max() + 45
            if until < watermark:
                expected.add((taxi, start, until, len(shift), round(shift["fare"].sum(), 2)))
    assert {shift_of(row) for row in shifts} == expected
    assert len(shifts) == len(expected) > 10


def shift_of(row):
    bounds = [np.datetime64(row[name][:19], "us").astype(int) for name in ("start", "end")]
    minutes = [(bound - taxi_sessions.BEGIN) // taxi_sessions.MINUTE for bound in bounds]
    return (row["taxi"], *minutes, row["trips"], round(row["fares"], 2))


# Trades


def test_last_trades_are_the_last_hundred_of_every_second():
    reports = last_trades.main(trades=6000, batch=300)
    assert {row["kind"] for row in reports} == {"result", "update"}
    current = {(row["share"], row["end"]): row for row in reports}
    trades = last_trades.generated(6000)
    at = trades["at"].cast(pa.int64()).to_numpy()
    rows = trades.take(np.argsort(at, kind="stable")).to_pandas()
    rows["at"] = rows["at"].astype("int64")
    ends = range(last_trades.BEGIN, at.max() - SECOND + 1, SECOND)
    expected = {}
    for share, mine in rows.groupby("share"):
        for end in ends:
            held = mine[mine["at"] < end].tail(100)
            if len(held):
                expected[share, end] = held
    assert current.keys() == expected.keys()
    for window, held in expected.items():
        row, top = current[window], held.loc[held["price"].idxmax()]
        told = row["high"], row["highest"], row["where"], row["trades"]
        assert told == (top["price"], top["trade"], top["venue"], len(held))
        weighted = (held["price"] * held["quantity"]).sum() / held["quantity"].sum()
        assert row["mean"] == pytest.approx(weighted)


# A small device


def test_a_small_device_restarts_slides_and_rests(tmp_path):
    steps = small_device.main(readings=20_000, folder=tmp_path)
    spans = {"half full": (0, 10_000), "reopened": (0, 20_000), "sliding": (200, 20_200)}
    for step in steps[:3]:
        first, end = spans[step["step"]]
        readings = [small_device.reading(at) for at in range(first, end)]
        hottest = max(readings, key=lambda reading: reading["celsius"])
        assert step["values"] == end - first
        assert {name: step[name] for name in hottest} == hottest
    assert steps[3]["values"] == 1
    assert steps[3]["at"] == 60_200
    store, window = small_device.opened(tmp_path, readings=20_000)
    assert (window.inserted, window.evicted) == (20_201, 20_200)
    window.close()
    store.close()


def test_a_small_device_is_small():
    output = run("small_device", "--readings", "40_000")
    cells = [line.split("│") for line in output.splitlines() if "│" in line]
    assert [row[2].strip() for row in cells] == ["20,000", "40,000", "40,000", "1"]
    assert all(10 < int(row[6]) < 200 for row in cells)


# A dashboard


@pytest.mark.parametrize("width", [90, 250])
def test_a_dashboard_differs_in_no_pixel(width, tmp_path):
    differing = dashboard.main(rows=30_000, width=width, picture=tmp_path / "lines.png")
    assert differing["all values"] == differing["M4"] == 0
    assert width / 10 < differing["a sample"] < width
    assert (tmp_path / "lines.png").read_bytes().startswith(b"\x89PNG")
    columns, values = dashboard.compressed(dashboard.generated(30_000), width)
    assert len(columns) == len(values) <= 4 * width


def test_a_dashboard_draws_what_it_is_given():
    line = np.array([0, 1, 1, 2]), np.array([0.5, 0.5, 3.5, 3.5])
    dark = dashboard.drawn(line, 3, (0, dashboard.HEIGHT))[::-1]
    pixels = {(0, 0), (0, 1), (1, 1), (2, 1), (3, 1), (3, 2)}
    assert {(row, column) for row, column in np.argwhere(dark).tolist()} == pixels


# Backfill and live


def test_backfill_and_live_give_the_same_table(spark, tmp_path):
    past, present = backfill_and_live.main(spark, files=3, readings=200)
    assert past == present
    assert {window for _, window, *_ in past} == {"quarter", "active"}
    backfill_and_live.write_files(tmp_path, files=3, readings=200)
    rows = pq.read_table(tmp_path).to_pandas()
    for (plug, _, start, end), values in past.items():
        inside = (rows["at"] >= start) & (rows["at"] < end) & (rows["plug"] == plug)
        watts = rows[inside]["watts"]
        assert values == (watts.max(), watts.median(), len(watts))
