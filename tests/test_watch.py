"""What the live page is told: windows as they were last reported, compressed, bounded; its server."""

import base64
import datetime as dt
import hmac
import http.client
import json
import re
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.resources import files
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

import muntin as mt
from muntin.watch import Board, axes, followed_keys, history, serve
from muntin.watch.charts import LINES, View
from muntin.watch.history import History
from muntin.watch.lines import Stretch, compress, points, steps
from muntin.watch.open_windows import open_windows
from muntin.watch.series import Reports
from muntin.watch.server import COLUMNS, FILES
from tests.patience import HUNG_S

NAN = np.nan


def results(rows, name="ten", **types):
    """Return results as a query by "k" with the aggregate "v" gives them: (key, end, kind, value)."""
    keys, ends, kinds, values = zip(*rows, strict=True)
    return pa.table(
        {
            "k": pa.array(keys),
            "window": pa.array([name] * len(rows), pa.string()),
            "start": pa.array([None if end is None else end - 10 for end in ends], pa.int64()),
            "end": pa.array(ends, pa.int64()),
            "kind": pa.array(kinds),
            "v": pa.array(values, types.get("v", pa.float64())),
        }
    )


def tens(**options):
    return mt.Query(
        time="t",
        keys="k",
        windows={"ten": mt.Tumbling(10)},
        aggregates={"v": mt.Max("x")},
        **options,
    )


def line_of(board, view=None, chart=0, line=0):
    return board.drawing(view)["charts"][chart]["lines"][line]


def last_values(line):
    return line["values"][3::4]


# What is held


WINDOWS = {
    "sliding": mt.Sliding(20, 5),
    "active": mt.Session(6),
    "latest": mt.LastN(3, every=10),
    "pairs": mt.Tumbling(2, measure="count"),
    "marked": mt.Punctuation(lambda row: row["x"] % 5 == 0),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_after_updates_and_retractions_the_held_windows_are_those_of_the_definition(name):
    query = mt.Query(
        time="t",
        keys="k",
        windows={name: WINDOWS[name]},
        aggregates={"n": mt.Count(), "v": mt.Max("x")},
        lateness=10_000,
    )
    random = np.random.default_rng(7)
    rows = {
        "t": random.permutation(np.repeat(np.arange(150), 2)),
        "k": random.choice(["a", "b"], 300),
        "x": random.integers(0, 50, 300),
    }
    held, op, kinds = History(query), query.operator(), set()
    for part in np.split(np.arange(300), 30):
        op.process({name: column[part] for name, column in rows.items()})
        table = op.advance(int(part[-1]) // 2)
        kinds |= set(table["kind"].to_pylist())
        if table.num_rows:
            held.take(table)
    held.take(op.advance(200))
    assert "update" in kinds or "retract" in kinds
    expected = query.run(rows).to_pylist()
    for number, key in held.followed.names.items():
        of_key = sorted(
            (row["end"], row["start"], row["n"], row["v"]) for row in expected if row["k"] == key
        )
        windows = held.windows(name, number)
        found = zip(windows.ends, windows.starts, *windows.values.T, strict=True)
        if name == "latest":  # its start is a rank, and of ranks that only move nothing is told
            of_key = [(end, *values) for end, _, *values in of_key]
            ranked = [(end, *values) for end, _, *values in found]
            found = [window for window in ranked if window[0] <= of_key[-1][0]]
        assert list(found) == of_key


def test_at_most_so_many_windows_are_held_and_they_are_the_last(monkeypatch):
    monkeypatch.setattr(history, "HELD", 100)
    held = History(tens())
    for batch in range(50):
        ends = range(1000 * batch, 1000 * (batch + 1), 10)
        held.take(results([(key, end, "result", 1.0) for end in ends for key in "ab"]))
    windows = [held.windows("ten", key) for key in held.followed.names]
    assert [windows.ends.tolist() for windows in windows] == [list(range(49_500, 50_000, 10))] * 2


def test_results_that_nobody_looks_at_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(history, "HELD", 100)
    held = History(tens())
    for end in range(0, 20_000, 10):
        held.take(results([("a", end, "result", 1.0)]))
    (series,) = held._series.values()
    assert series._waiting <= 1024 + 100 // 4
    assert len(series._held) <= 100


def test_keys_idle_for_longest_give_way_but_not_those_someone_looks_at(monkeypatch):
    monkeypatch.setattr(followed_keys, "KEYS", 3)
    board = Board(tens())
    board.take(results([(key, 10, "result", 1.0) for key in "abc"]))
    board.take(results([("c", 20, "result", 2.0)]))
    named = {key["name"]: key["id"] for key in board.drawing(View(chosen=True))["keys"]}
    board.drawing(View(keys=(named["a"],), chosen=True))
    board.take(results([("d", 30, "result", 3.0), ("e", 30, "result", 4.0)]))
    drawing = board.drawing(View(keys=tuple(named.values()), chosen=True))
    assert {key["name"] for key in drawing["keys"]} == {"d", "e", "a"}
    assert drawing["shown"] == [named["a"]]
    assert not {key["id"] for key in drawing["keys"]} & {named["b"], named["c"]}


def test_keys_that_come_in_one_batch_do_not_push_each_other_out(monkeypatch):
    monkeypatch.setattr(followed_keys, "KEYS", 2)
    monkeypatch.setattr(followed_keys, "NUMBERED", 10)
    board = Board(tens())
    for end in range(10, 60, 10):
        board.take(results([(f"k{n}", end, "result", float(n)) for n in range(20)]))
    drawing = board.drawing()
    assert [key["name"] for key in drawing["keys"]] == ["k0", "k1"]
    assert [len(line["columns"]) for line in drawing["charts"][0]["lines"]] == [5, 5]


def test_names_of_keys_are_text_of_bounded_length():
    table = results([("x" * 500, 10, "result", 1.0), (None, 10, "result", 2.0)])
    board = Board(tens())
    board.take(table)
    names = [key["name"] for key in board.drawing()["keys"]]
    assert names == ["x" * 79 + "…", "null"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": ["new"]}, "the kind of a result is one of result, .*, got 'new'"),
        ({"window": ["hour"]}, "the window of a result is one of ten, got 'hour'"),
        ({"v": None}, "the results have no column 'v'.*make the board with the query"),
    ],
)
def test_results_of_another_query_are_refused(change, message):
    columns = results([("a", 10, "result", 1.0)]).to_pydict() | change
    table = pa.table({name: values for name, values in columns.items() if values is not None})
    board = Board(tens())
    with pytest.raises(ValueError, match=message):
        board.take(table)
    assert board.drawing()["keys"] == []


# Lines


def reports(ends):
    ends = np.array(ends, np.int64)
    return Reports(ends - 10, ends, np.zeros(len(ends), np.bool_), np.zeros((len(ends), 1)))


def test_m4_has_the_first_smallest_largest_and_last_value_of_every_column():
    random = np.random.default_rng(3)
    ends = np.sort(random.choice(10**7, 30_000, replace=False))
    values = random.normal(size=30_000)
    stretch = Stretch(int(ends[0]), int(ends[-1]), 400)
    lines = [points(reports(ends), values[:, None] * sign, stretch, None) for sign in (1, -1)]
    column = (ends - ends[0]) * 399 // (ends[-1] - ends[0])
    for sign, line in zip((1, -1), compress(lines), strict=True):
        groups = [sign * values[column == c] for c in range(400)]
        assert line["columns"] == list(range(400))
        expected = [[g[0], g.min(), g.max(), g[-1]] for g in groups]
        assert np.reshape(line["values"], (-1, 4)).tolist() == np.array(expected).tolist()
        assert line["breaks"] == []


def test_lines_are_broken_where_windows_are_missing():
    fields = np.array([[1.0], [2.0], [NAN], [4.0], [5.0]])
    windows = reports([10, 20, 30, 40, 90])
    (line,) = compress([points(windows, fields, Stretch(10, 90, 81), every=10)])
    assert line["columns"] == [0, 10, 30, 80]
    assert line["breaks"] == [2, 3]
    (line,) = compress([points(windows, fields, Stretch(10, 90, 81), every=None)])
    assert line["breaks"] == [2]
    (line,) = compress([points(windows, fields, Stretch(20, 90, 81), every=None)])
    assert last_values(line) == [2, 4, 5]


@pytest.mark.parametrize(
    ("lo", "columns", "values", "breaks"),
    [
        (10, [0, 20, 50, 80], [1, 1, 4, 4], [2]),
        (15, [0, 15, 45, 75], [1, 1, 4, 4], [2]),
        (45, [15, 45], [4, 4], []),
        (70, [0, 20], [4, 4], []),
    ],
)
def test_changes_hold_until_the_next_one_or_until_there_is_nothing(lo, columns, values, breaks):
    fields = np.array([[1.0], [NAN], [NAN], [4.0]])
    windows = reports([10, 30, 40, 60])
    (line,) = compress([steps(windows, fields, Stretch(lo, 90, 91 - lo))])
    assert line["columns"] == columns
    assert last_values(line) == values
    assert line["breaks"] == breaks


def test_changes_of_a_query_end_where_a_key_becomes_empty():
    query = tens(emit="changes")
    board, op = Board(query), query.operator()
    op.process({"t": [5, 15, 25, 65], "k": ["a"] * 4, "x": [1, 1, 3, 4]})
    board.take(op.advance(75))
    chart = board.drawing(View(columns=61))["charts"][0]
    assert chart["steps"]
    assert chart["lines"][0]["columns"] == [0, 20, 30, 60]
    assert last_values(chart["lines"][0]) == [1, 3, 3, 4]
    assert chart["lines"][0]["breaks"] == [3]


def test_results_of_m4_are_drawn_with_all_four_values():
    query = mt.Query(time="t", windows={"ten": mt.Tumbling(10)}, aggregates={"shape": mt.M4("x")})
    board, op = Board(query), query.operator()
    op.process({"t": [1, 2, 3, 4, 12], "x": [5, 2, 9, 4, 6]})
    board.take(op.advance(20))
    assert line_of(board)["values"] == [5, 2, 9, 4, 6, 6, 6, 6]


# What is looked at


def test_a_browser_gets_at_most_four_points_for_a_column_whatever_is_held():
    board = Board(tens())
    board.take(results([("a", end, "result", end % 77.0) for end in range(0, 500_000, 10)]))
    for columns in (50, 600):
        line = line_of(board, View(columns=columns, last=0))
        assert len(line["columns"]) == columns
        assert len(line["values"]) == 4 * columns
    assert max(last_values(line)) <= 76


def test_a_view_says_how_many_windows_which_keys_and_which_aggregate():
    query = mt.Query(
        time="t",
        keys="k",
        windows={"ten": mt.Tumbling(10), "five": mt.Tumbling(5)},
        aggregates={"n": mt.Count(), "v": mt.Max("x"), "all": mt.Collect("x")},
    )
    times = np.arange(0, 10 * 100)
    rows = {"t": times, "k": [f"k{t % 7}" for t in times], "x": times}
    board = Board(query)
    board.take(query.run(rows))
    usual = board.drawing()
    assert len(usual["shown"]) == LINES
    assert [chart["aggregate"] for chart in usual["charts"]] == ["v", "v"]
    assert [chart["label"] for chart in usual["charts"]] == ["max(x)", "max(x)"]
    assert usual["charts"][0]["choices"] == ["n", "v"]
    assert usual["charts"][0]["undrawn"] == ["all"]
    assert (usual["charts"][0]["x"]["lo"], usual["charts"][0]["x"]["hi"]) == (10, 1000)
    short = board.drawing(View(last=20))["charts"]
    assert [chart["x"]["lo"] for chart in short] == [810, 905]
    wanted = (usual["keys"][6]["id"], usual["keys"][2]["id"])
    assert board.drawing(View(keys=wanted, chosen=True))["shown"] == list(wanted)
    assert board.drawing(View(keys=wanted))["shown"][:2] == list(wanted)
    assert len(board.drawing(View(keys=wanted))["shown"]) == LINES
    counted = board.drawing(View(aggregates={"five": "n"}))["charts"]
    assert [chart["aggregate"] for chart in counted] == ["v", "n"]
    assert counted[1]["label"] == "rows"
    assert board.drawing(View(aggregates={"five": "all"}))["charts"][1]["aggregate"] == "v"


def test_types_that_only_nulls_have_told_are_learned_later():
    board = Board(tens())
    board.take(results([("a", 10, "result", None)], v=pa.null()))
    assert board.drawing()["charts"][0]["aggregate"] is None
    board.take(results([("a", 20, "result", 3)], v=pa.decimal128(5, 2)))
    assert last_values(line_of(board)) == [3]


def test_axes_are_times_where_ends_are():
    at, clock = pa.timestamp("us", "Europe/Berlin"), 1_790_000_000_000_000
    plain = tens()
    mixed = mt.Query(
        time="at",
        windows={
            "hour": mt.Sliding("1 hour", "1 minute"),
            "km": mt.Delta("km", 10),
            "rows": mt.Tumbling(10, measure="count"),
        },
        aggregates={"n": mt.Count()},
    )
    last = replace(mixed, windows={"last": mt.LastN(10, every="1 minute")})
    asked = [
        (plain, "ten", at, clock),
        (plain, "ten", pa.int64(), clock),
        (last, "last", pa.int64(), clock),
        (mixed, "hour", pa.int64(), clock),
        (mixed, "km", pa.int64(), clock),
        (mixed, "rows", pa.int64(), 30),
    ]
    axis = [axes.x_axis(*one) for one in asked]
    assert [one["kind"] for one in axis] == ["time", "number", "time", "number", "number", "number"]
    assert [one["zone"] for one in axis] == ["Europe/Berlin"] + [None] * 5
    assert [one["label"].partition(", ")[2] for one in axis] == [
        *("", "t", "", "at", "km", "number of rows")
    ]


def test_times_are_the_same_moments_in_any_zone():
    start = dt.datetime(2026, 3, 12, 8, tzinfo=dt.UTC)
    query = mt.Query(
        time="at", windows={"hour": mt.Tumbling("1 hour")}, aggregates={"v": mt.Max("x")}
    )
    stretches = []
    for zone in ("UTC", "Asia/Tokyo"):
        board, times = Board(query), [start, start + dt.timedelta(hours=1)]
        rows = pa.table({"at": pa.array(times, pa.timestamp("us", zone)), "x": [1, 2]})
        board.take(query.run(rows))
        axis = board.drawing()["charts"][0]["x"]
        assert axis.pop("zone") == zone
        stretches.append(axis)
    assert stretches[0] == stretches[1]
    assert stretches[0]["lo"] == int((start.timestamp() + 3600) * 1e6)


def test_figures_are_those_of_the_last_micro_batch_and_totals():
    board = Board(tens())
    told = {
        "batchId": 1,
        "timestamp": "2026-03-12T08:00:00Z",
        "numInputRows": 50,
        "processedRowsPerSecond": 100.0,
        "batchDuration": 500,
        "observedMetrics": {
            "muntin": {"rows": 50, "late": 3, "dropped": 1, "keys": 2, "state_bytes": 900}
        },
    }
    board.progress(told)
    board.progress(told)
    idle = {"late": None, "dropped": None, "keys": None, "state_bytes": None}
    board.progress(
        {
            "batchId": 2,
            "timestamp": "2026-03-12T08:00:10Z",
            "numInputRows": 0,
            "processedRowsPerSecond": NAN,
            "observedMetrics": {"muntin": idle},
        }
    )
    board.take(results([("a", 10, "result", 1.0), ("b", 10, "result", 1.0)]))
    board.take(results([("a", 10, "update", 2.0), ("b", 10, "retract", None)]))
    board.take(results([("a", None, "dropped", None)], name=None))
    figures = board.drawing()["figures"]
    assert figures["now"] == {
        "rows_per_second": 100.0,
        "seconds": 0.5,
        "rows": 0,
        "keys": 2,
        "state_bytes": 900,
    }
    counted = {"result": 2, "update": 1, "retract": 1, "empty": 0, "early": 0}
    counted |= {"micro_batches": 0, "rows": 50}
    assert figures["totals"] == {"late": 3, "dropped": 1} | counted
    assert figures["drawn"]["late"] == [3, 0]
    assert figures["drawn"]["windows"] == [2, 2]
    assert last_values(line_of(board)) == [2.0]


STREAMED = {
    "batchId": 3,
    "timestamp": "2026-03-12T08:02:00.250Z",
    "numInputRows": 50,
    "processedRowsPerSecond": 100.0,
    "batchDuration": 500,
    "durationMs": {"addBatch": 400, "walCommit": 30, "getBatch": 0, "triggerExecution": 500},
    "eventTime": {"watermark": "2026-03-12T08:00:00.000Z", "max": "2026-03-12T08:00:10.000Z"},
    "observedMetrics": {"muntin": {"rows": 50, "late": 3, "keys": 2, "state_bytes": 900}},
}
LIVE = mt.Query(
    time="t",
    keys="k",
    windows={"ten": mt.Tumbling("10 s"), 'a "slide"\n': mt.Sliding("20 s", "5 s")}
    | {"day": mt.Calendar("1 day", zone="UTC"), "pairs": mt.Tumbling(2, measure="count")},
    aggregates={"v": mt.Max("x")},
)


def test_the_watermark_its_lag_open_windows_and_what_took_time():
    board = Board(LIVE)
    board.progress(STREAMED)
    figures = board.drawing()["figures"]
    assert figures["spent"] == {"addBatch": 0.4, "walCommit": 0.03, "other": 0.07}
    noon = dt.datetime(2026, 3, 12, 8, tzinfo=dt.UTC).timestamp()
    assert figures["now"]["watermark"] == noon
    assert figures["now"]["newest"] == noon + 10
    assert figures["now"]["lag"] == 120.25
    # [08:00:00, 08:00:10) and the one of the newest row; slides that began from 07:59:45 on; a day
    assert figures["open"] == {"ten": 2, 'a "slide"\n': 6, "day": 1}
    idle = {"timestamp": "2026-03-12T08:03:00.000Z", "durationMs": {"latestOffset": 2}}
    board.progress({**STREAMED, **idle, "batchId": 4, "numInputRows": 0, "observedMetrics": {}})
    figures = board.drawing()["figures"]
    assert figures["now"]["lag"] == 180
    assert figures["drawn"]["lag"] == [120.25, 180]
    assert figures["spent"]["addBatch"] == 0.4  # an idle trigger is no micro-batch
    assert figures["totals"]["micro_batches"] == 1


def test_before_there_is_a_watermark_nothing_is_said_of_it():
    board = Board(LIVE)
    board.progress({**STREAMED, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}})
    figures = board.drawing()["figures"]
    assert figures["open"] == {}
    assert "watermark" not in figures["now"]


@pytest.mark.parametrize("seed", range(4))
def test_open_windows_are_counted_as_they_are(seed):
    dice = np.random.default_rng(seed)
    size, every, origin = (int(n) for n in dice.integers(1, 30, 3))
    watermark = int(dice.integers(-50, 50))
    newest = watermark + int(dice.integers(0, 60))
    windows = {"w": mt.Sliding(size, every, origin=origin), "c": mt.Cumulate(6 * every, every)}
    query = mt.Query(time="t", windows=windows, aggregates={"n": mt.Count()})
    starts = range(-400 * every + origin, 400 * every, every)
    sliding = [(start, start + size) for start in starts]
    starts = range(-6 * every * 400, 6 * every * 400, 6 * every)
    cumulated = [(start, start + j * every) for start in starts for j in range(1, 7)]
    both = [sum(s <= newest and e > watermark for s, e in all_) for all_ in (sliding, cumulated)]
    assert list(open_windows(query, watermark, newest).values()) == both


def test_threads_feed_a_board_while_others_look():
    board = Board(tens())

    def feed(key):
        for end in range(10, 1010, 10):
            board.take(results([(key, end, "result", float(end))]))
            board.progress({"numInputRows": 1})

    def look():
        for _ in range(20):  # an error in a thread is a warning, and warnings fail tests
            board.drawing(View(last=0))

    threads = [threading.Thread(target=feed, args=(key,)) for key in "abc"]
    threads += [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    drawing = board.drawing(View(columns=100))
    assert drawing["figures"]["totals"]["result"] == 300
    assert [len(line["columns"]) for line in drawing["charts"][0]["lines"]] == [100] * 3


# The server


@pytest.fixture
def board():
    board = Board(tens(), title="plugs & lamps")
    board.take(results([("a", 10, "result", 1.0)]))
    return board


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=HUNG_S)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, response.headers, body


def test_the_page_is_served_with_all_its_files(board):
    with serve(board) as server:
        for path, (name, kind) in FILES.items():
            status, headers, body = ask(server, path)
            assert status == 200
            assert headers["Content-Type"].startswith(kind)
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert body == (files("muntin.watch") / "page" / name).read_text()


def test_the_page_needs_nothing_from_elsewhere_and_writes_no_markup():
    for name, _ in FILES.values():
        text = (files("muntin.watch") / "page" / name).read_text()
        assert set(re.findall(r"https?://[^\"' ]+", text)) <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)


@pytest.mark.parametrize(
    "path",
    ["/board.py", "/../board.py", "/..%2fboard.py", "//etc/passwd", "/page/page.html", "/page.js/"],
)
def test_nothing_else_is_served(board, path):
    with serve(board) as server:
        assert ask(server, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_only_get_is_served(board, method):
    with serve(board) as server:
        assert ask(server, "/", method)[0] == 501


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9000", "127.0.0.1:1"])
def test_this_machine_may_ask_through_any_port(board, host):
    with serve(board) as server:
        assert ask(server, "/", Host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80"),
        *("[::1]:80", "localhost:", "127.0.0.1, localhost", ""),
    ],
)
@pytest.mark.parametrize("path", ["/", "/events?columns=100&last=10"])
def test_those_who_ask_by_another_name_are_refused(board, host, path):
    with serve(board) as server:
        status, _, body = ask(server, path, Host=host)
    assert (status, body) == (403, "ask for this page at 127.0.0.1 or localhost\n")


def test_it_listens_on_the_loopback_only_and_on_the_port_asked_for(board):
    with serve(board) as server:
        port = int(server.url.rpartition(":")[2])
        assert server.url == f"http://127.0.0.1:{port}"
        assert server._server.socket.getsockname()[0] == "127.0.0.1"
        with pytest.raises(OSError, match=f"port {port}: .*port=0 takes one that is free"):
            serve(board, port=port)
    with serve(board, port=port) as server:
        assert server.url.endswith(f":{port}")
        assert ask(server, "/")[0] == 200


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("", "columns is from 50 to 2000, got -1"),
        (f"columns={COLUMNS[-1] + 1}&last=0", "columns is from 50 to 2000, got 2001"),
        ("columns=100&last=-1", "last is from 0 to"),
        ("columns=many&last=0", "invalid literal"),
        ("columns=100&last=0&key=tv", "invalid literal"),
        ("&".join(["key=1"] * 2000), "fields"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(board, parameters, message):
    with serve(board) as server:
        status, _, body = ask(server, f"/events?{parameters}")
    assert status == 400
    assert message in body


def events(stream):
    """Return the events of a stream until it ends, as (name, data)."""
    texts = stream.read().decode().strip().split("\n\n")
    pairs = [re.fullmatch(r"event: (\w+)\ndata: (.*)", text) for text in texts]
    return [(pair[1], json.loads(pair[2])) for pair in pairs]


def test_drawings_come_as_the_board_changes_and_the_last_one_when_it_is_over(board):
    with serve(board) as server:
        asked = "columns=100&last=10&chosen=yes&key=0&aggregate.ten=v"
        stream = urlopen(f"{server.url}/events?{asked}", timeout=HUNG_S)
        first = [stream.readline().decode() for _ in range(6)]
        board.take(results([("a", 20, "result", 2.0)]))
        board.take(results([("a", 30, "result", 3.0)]))
    about = json.loads(first[1].removeprefix("data: "))
    assert about == {"title": "plugs & lamps", "keys": ["k"], "plan": tens().explain()}
    assert first[3] == "event: drawing\n"
    drawing = json.loads(first[4].removeprefix("data: "))
    assert last_values(drawing["charts"][0]["lines"][0]) == [1.0]
    name, drawing = events(stream)[-1]
    assert name == "drawing"
    assert last_values(drawing["charts"][0]["lines"][0]) == [1.0, 2.0, 3.0]
    assert drawing["charts"][0]["x"]["columns"] == 100


def test_a_browser_that_goes_away_is_not_an_error(board, capfd):
    with serve(board) as server:
        connection = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
        connection.sendall(b"GET /events?columns=50&last=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with connection.makefile("rb") as answer:
            assert answer.read(15) == b"HTTP/1.0 200 OK"
        connection.close()
        board.take(results([("a", 20, "result", 2.0)]))
        assert ask(server, "/")[0] == 200
    assert capfd.readouterr().err == ""


TOKEN = "s3cret-s3cret-Σ3"


def basic(password, name="anyone"):
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_a_page_with_a_token_is_for_those_who_send_it(board, capfd):
    with serve(board, token=TOKEN) as server:
        for path in ("/", "/page.js", "/metrics", "/events?columns=100&last=10", "/nothing"):
            for sent in (
                None,
                basic(""),
                basic(TOKEN + "x"),
                basic(TOKEN[:-1]),
                f"Token {TOKEN[:9]}",
            ):
                headers = {} if sent is None else {"Authorization": sent}
                status, got, body = ask(server, path, **headers)
                assert status == 401
                assert got["WWW-Authenticate"].startswith("Basic ")
                assert "s3cret" not in body + str(got)
        for bad in ("Basic !!!", "Basic", "Bearer", "Bearer ", "Basic " + "A" * 5000):
            assert ask(server, "/", Authorization=bad)[0] == 401
        bearer = f"bearer {TOKEN}".encode()
        assert ask(server, "/", Authorization=bearer)[0] == 200
        assert ask(server, "/", Authorization=basic(TOKEN), Host="plugs.example:80")[0] == 200
        assert ask(server, "/nothing", Authorization=basic(TOKEN))[0] == 404
        assert "s3cret" not in server.url
    heard = capfd.readouterr()
    assert heard.out + heard.err == ""


def test_a_client_of_pythons_library_sends_the_token(board):
    with serve(board, host="0.0.0.0", token=TOKEN) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        asked = Request(url, headers={"Authorization": basic(TOKEN)})
        assert urlopen(asked, timeout=HUNG_S).status == 200
        with pytest.raises(HTTPError, match="401"):
            urlopen(url, timeout=HUNG_S)


def test_the_token_is_compared_in_constant_time(board, monkeypatch):
    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    with serve(board, token=TOKEN) as server:
        assert ask(server, "/", Authorization=basic("wrong"))[0] == 401
    assert compared == [(b"wrong", TOKEN.encode())]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"host": "0.0.0.0"}, "other machines may reach the server on 0.0.0.0: give it a token"),
        ({"host": "::"}, "other machines may reach the server on ::: give it a token"),
        ({"token": "short"}, "a token has at least 16 characters that can be printed, got 5: make"),
        ({"token": "s" * 20 + "\n"}, "that can be printed, got 21"),
    ],
)
def test_a_page_that_others_reach_needs_a_good_token(board, given, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        serve(board, **given)


def test_an_address_that_is_not_here_is_named(board):
    with pytest.raises(OSError, match=r"the page cannot be served on port 0 of 192\.0\.2\.1: "):
        serve(board, host="192.0.2.1", token=TOKEN)


def test_the_figures_are_there_for_prometheus():
    timed = {name: window for name, window in LIVE.windows.items() if name != "pairs"}
    board = Board(replace(LIVE, windows=timed))
    board.progress(STREAMED)
    board.take(results([("a", 10, "result", 1.0), ("b", 10, "update", 1.0)]))
    with serve(board) as server:
        status, headers, body = ask(server, "/metrics")
        assert ask(server, "/metrics", Host="evil.example")[0] == 403
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }
    figures = board.drawing()["figures"]
    for kind in ("result", "update", "retract"):
        assert found["muntin_windows_total", kind] == figures["totals"][kind]
    for part, seconds in figures["spent"].items():
        assert found["muntin_micro_batch_part_seconds", part] == seconds
    for window, number in figures["open"].items():
        assert found["muntin_open_windows", window] == number
    assert found["muntin_rows_total",] == 50
    assert found["muntin_late_total",] == 3
    assert found["muntin_state_bytes",] == 900
    assert found["muntin_watermark_lag_seconds",] == 120.25
    assert found["muntin_watermark_timestamp_seconds",] == figures["now"]["watermark"]
    assert {name for name, *_ in found} <= set(re.findall(r"# TYPE (\S+)", body))


def test_a_page_needs_no_spark():
    code = "import muntin.watch, sys; print('pyspark' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == "False"
