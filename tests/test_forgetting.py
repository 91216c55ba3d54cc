"""Keys that are done leave nothing: neither numbers, nor rows, nor bytes, however many came and went."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scripts import forgetting

import muntin as mt
from muntin.query.operator import LOOK_EVERY
from muntin.spark import packing as packings
from muntin.spark.packing import Packing

FEW = 64
"""From this many keys on, idle ones are looked for, in place of the 4096 of users."""


@pytest.fixture(autouse=True)
def _few_keys(monkeypatch):
    monkeypatch.setattr("muntin.query.operator.MANY_KEYS", FEW)


WINDOWS = {
    "tumbling": {"w": mt.Tumbling(10)},
    "sliding": {"w": mt.Sliding(20, 5)},
    "session": {"w": mt.Session(5)},
}


def passing_keys(op, batches, keys=10):
    """Let keys come, each for two rows, and yield the operator's counters after each batch."""
    for i in range(batches):
        names = [f"key {i}/{j}" for j in range(keys) for _ in range(2)]
        op.process({"t": [10 * i, 10 * i + 3] * keys, "k": names, "v": [i] * 2 * keys})
        op.advance(10 * i)
        yield op.counters


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("lateness", [0, 25])
@pytest.mark.parametrize("emit", ["every", "changes"])
def test_keys_that_pass_leave_no_trace(name, lateness, emit):
    query = mt.Query(
        time="t",
        keys="k",
        windows=WINDOWS[name],
        aggregates={"n": mt.Count(), "all": mt.Collect("v")},
        lateness=lateness,
        emit=emit,
    )
    op = query.operator()
    counters = list(passing_keys(op, 60))
    assert counters[-1].rows == 60 * 20
    assert max(c.keys for c in counters) <= 4 * FEW
    half = max(c.state_bytes for c in counters[:30])
    assert max(c.state_bytes for c in counters[30:]) <= 1.2 * half
    op.advance(10_000)
    assert op.counters.slices == op.counters.rows_kept == 0


def test_late_rows_after_a_key_became_empty_are_corrections_as_long_as_they_count():
    query = mt.Query(
        time="t",
        keys="k",
        windows={"w": mt.Tumbling(10)},
        aggregates={"n": mt.Count()},
        lateness=50,
        emit="changes",
    )
    op = query.operator()
    op.process({"t": [3] * 2 * FEW, "k": [f"{i}" for i in range(2 * FEW)]})
    op.advance(40)
    assert op.counters.keys == 2 * FEW
    op.process({"t": [4], "k": ["7"]})
    assert [(r["kind"], r["n"]) for r in op.advance(41).to_pylist()] == [("update", 2)]
    for later in range(LOOK_EVERY):
        op.advance(500 + later)
    assert op.counters.keys == 0


def test_a_process_keeps_few_folders(monkeypatch):
    monkeypatch.setattr(packings, "_FOLDERS", type(packings._FOLDERS)())
    query = mt.Query(time="t", windows={"w": mt.Tumbling(10)}, aggregates={"n": mt.Count()})
    rows = pa.table({"t": [1, 2]})
    for i in range(50):
        packing = Packing(f"query {i % 30}", query, rows.slice(0, 0))
        assert len(list(packing.pack(rows, 1))) == 1
        assert len(packings._FOLDERS) <= packings.MOST_FOLDERS
    assert f"query {49 % 30}" in packings._FOLDERS


@pytest.mark.parametrize("kind", forgetting.KINDS)
def test_a_shard_holds_what_is_left_however_many_keys_passed(kind, monkeypatch):
    monkeypatch.setattr("muntin.spark.shard.SHORT_LOG", 4096)
    held = list(forgetting.play(kind, 80))
    before, after = forgetting.most(held[:40]), forgetting.most(held[40:])
    assert before.rows > 0
    for name, first, second in zip(before._fields, before, after, strict=True):
        share = 1.6 if name in ("keys", "rows", "state_bytes") else 2.5  # a log is long or short
        assert second <= share * first + 64, f"{name}: {first} and then {second}"


@pytest.mark.parametrize("kind", forgetting.KINDS)
@pytest.mark.parametrize("ordered", [False, True])
def test_an_operator_holds_what_is_left_however_many_keys_passed(kind, ordered):
    query = replace(forgetting.query_of(kind), ordered=ordered)
    chance, operator, held = np.random.default_rng(3), query.operator(), []
    for batch in range(80):
        rows = forgetting.rows_of(batch, chance)
        if ordered:  # each key's rows in one batch
            rows = rows.slice(0, forgetting.PER_BATCH).sort_by("t")
        operator.process(rows)
        operator.advance(10 * batch - 5)
        counters = operator.counters
        items = counters.rows_kept + counters.slices
        held.append((counters.keys, items, counters.state_bytes))
    for first, second in zip(*(map(max, *part) for part in (held[:40], held[40:])), strict=True):
        assert second <= 1.3 * first + 64
    assert held[-1][0] < 8 * FEW
