"""The comparison with peers: what counts as the same, and processes that are stopped or have failed."""

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks import peers
from benchmarks.peer_cases import CASES, Question, Windows, answer
from benchmarks.peer_engines import CannotSayError, in_bottleneck
from scripts import measured

COLUMNS = ("start", "end", "most", "auction")
SEVERAL = Question("q5", COLUMNS, several=True)
OURS = {(0, 2, 5, 7): 1, (2, 4, 6, 7): 1}


@pytest.mark.parametrize(
    ("theirs", "same"),
    [
        (OURS, True),
        (OURS | {(0, 2, 5, 8): 1}, True),
        (OURS | {(0, 2, 4, 8): 1}, False),
        (OURS | {(4, 6, 5, 8): 1}, False),
        ({(0, 2, 5, 8): 1, (2, 4, 6, 7): 1}, False),
        ({(0, 2, 5, 7): 1}, False),
    ],
)
def test_of_several_best_ones_others_name_all_and_muntin_one(theirs, same):
    assert SEVERAL.same(OURS, theirs) is same
    assert Windows(60, 1).same(OURS, theirs) is (theirs == OURS)


def test_an_answer_knows_how_often_a_row_is_there():
    table = pa.table({"n": [1, 1], "at": pa.array([3, 3], pa.timestamp("ns", "UTC"))})
    with pytest.raises(pa.ArrowInvalid, match="would lose data"):
        answer(table, ["n", "at"])
    assert answer(table, ["n"]) == {(1,): 2}


def test_another_result_is_named(tmp_path):
    case = CASES["NEXMark q12"]
    row = {"who": [3], "start": [0], "end": [10], "bids": [2]}
    pq.write_table(pa.table(row), tmp_path / "found.parquet")
    peers.check("muntin", case, tmp_path)
    pq.write_table(pa.table(row | {"bids": [3]}), tmp_path / "found.parquet")
    with pytest.raises(AssertionError, match=r"only muntin has \[\(3, 0, 10, 2\)\], only A has"):
        peers.check("A", case, tmp_path)
    pq.write_table(pa.table(row), tmp_path / "found.parquet")
    peers.check("A", case, tmp_path)


def test_what_cannot_be_said_is_left_out(tmp_path):
    with pytest.raises(CannotSayError, match="no groups"):
        in_bottleneck(SEVERAL, tmp_path)


def started(code):
    """Start Python in a session of its own, as engines are."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_a_process_that_says_nothing_is_stopped_with_all_it_started():
    child = (
        "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True)"
    )
    watch = peers.Watch(
        started(f"{child}; sys.stdin.readline(); print('on', flush=True); p.wait()")
    )
    try:
        assert watch.line(60).isdigit()
        assert watch.line(0.01) is None
        assert peers.resident(watch.process.pid) > 1 << 20 or not os.path.exists("/proc")
        watch.go()
        assert watch.line(60) == "on"
    finally:
        watch.end()
    # The end waits for all who could write what is read, so the other process is gone, too.
    assert watch.process.returncode == -9


def test_a_process_that_ends_too_early_is_known():
    watch = peers.Watch(started("pass"))
    try:
        with pytest.raises(peers.EndedError):
            watch.line(60)
    finally:
        watch.end()


def test_engines_that_are_not_installed_are_named(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", {}.get)
    assert peers.notes()[0] == "Bytewax is left out: pip install bytewax adds it."
    assert "Bytewax" not in peers.engines()
    assert peers.engines()[0].startswith("muntin")


def run_of(case, ratio):
    """Return what is kept of a run with one ratio."""
    row = {"case": case, "who": "Spark, stopped", "ratio": "or more its/ours", "value": ratio}
    facts = {"machine": {"cores": 2, "cpu": "A"}, "versions": {}, "quick": True, "date": "today"}
    return facts | {"results": [row]}


def test_the_table_of_the_readme_prefers_a_run_of_peers(monkeypatch):
    runs = {"spark_batch": run_of("60 s / 1 s, 9 rows", 8.0)}
    monkeypatch.setattr(measured, "kept", lambda: runs)
    assert "| windows of 60 s, every 1 s | Spark's `window` | 8.0 or more |" in measured.chosen()
    runs["peers"] = run_of("60 s / 60 s, 9 rows on Spark", 0.5)
    assert "8.0" not in measured.chosen()
    assert "| windows of 60 s, every 60 s | Spark's `window` | 0.50 or more |" in measured.chosen()
