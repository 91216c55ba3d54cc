"""Sessions of several gaps, of which the longer ones are made of the groups of the shortest."""

import random

import numpy as np
import pytest

import muntin as mt
from muntin.slicing.lanes import session_lane
from muntin.slicing.loops import session_slices
from muntin.slicing.tables import SLICE_LAST, SLICE_START, Runs
from tests.test_query_properties import KEYS, LIST, assert_close, query_of, same
from tests.window_oracle import WindowOracle, read_results

TOTALS = {"total": mt.Sum("v"), "top": mt.Max("v"), "rows": mt.Count()}
AGGREGATES = pytest.mark.parametrize("aggregates", [TOTALS, LIST], ids=["commutative", "in order"])
SEEDS = pytest.mark.parametrize("seed", range(12))
SHARING = pytest.mark.parametrize("few", [0, 2, 8])


def random_gaps(draw):
    """Return sessions of several gaps, in any order."""
    return {f"gap {gap}": mt.Session(gap) for gap in draw.sample(range(1, 40), draw.randint(2, 6))}


def random_rows(draw, clock, late):
    """Return rows around a time, some of them far behind it, in bursts and pauses."""
    rows = []
    for _ in range(draw.choice([1, 8, 60])):
        clock += draw.choice([0, 0, 1, 2, 7, 25])
        t = clock - (draw.randint(1, 70) if draw.random() < late else 0)
        rows.append(
            {
                "t": t,
                "room": draw.choice("ab"),
                "plug": draw.randrange(2),
                "v": draw.choice([None, *range(9)]),
            }
        )
    return rows, clock


@SHARING
@AGGREGATES
@SEEDS
def test_sessions_of_several_gaps_are_what_each_alone_would_be(monkeypatch, few, aggregates, seed):
    """Late rows extend and bridge sessions at each gap, and count for some of the gaps only."""
    monkeypatch.setattr(session_lane, "FEW_GROUPS", few)
    draw = random.Random(seed)
    windows, lateness = random_gaps(draw), draw.choice([0, 5, 60])
    query = query_of(windows, aggregates, lateness=lateness)
    operator = query.operator(plan=draw.choice(["auto", "eager"]))
    oracle = WindowOracle(windows, aggregates, lateness, keys=KEYS)
    clock = draw.randint(-200, 0)
    for _ in range(14):
        rows, clock = random_rows(draw, clock, draw.choice([0, 0.2]))
        operator.process(rows)
        oracle.process(rows)
        if draw.random() < 0.8:
            watermark = clock - draw.choice([0, 10, 40])
            same(read_results(operator.advance(watermark), KEYS), oracle.advance(watermark))
        if draw.random() < 0.2:
            operator = query.restore(operator.snapshot())
    assert operator.counters.dropped == oracle.dropped
    assert operator.counters.late == oracle.late
    same(read_results(operator.advance(clock + 99), KEYS), oracle.advance(clock + 99))


@SHARING
@AGGREGATES
@SEEDS
def test_in_an_ordered_stream_too(monkeypatch, few, aggregates, seed):
    monkeypatch.setattr(session_lane, "FEW_GROUPS", few)
    draw = random.Random(seed)
    windows = random_gaps(draw)
    operator = query_of(windows, aggregates, ordered=True).operator()
    oracle = WindowOracle(windows, aggregates, keys=KEYS, ordered=True)
    clock = 0
    for _ in range(10):
        rows, clock = random_rows(draw, clock, 0)
        same(read_results(operator.process(rows), KEYS), oracle.process(rows))


@SEEDS
def test_gaps_come_and_go(monkeypatch, seed):
    """A gap that is added below or above the others reports sessions that began behind all rows."""
    monkeypatch.setattr(session_lane, "FEW_GROUPS", 0)
    draw = random.Random(seed)
    windows = random_gaps(draw)
    operator = query_of(windows, TOTALS).operator()
    oracle = WindowOracle(windows, TOTALS, keys=KEYS)
    rows, clock = random_rows(draw, 0, 0)
    operator.process(rows)
    oracle.process(rows)
    name = draw.choice(list(windows))
    operator.remove_window(name)
    operator.add_window("added", mt.Session(draw.randint(40, 50)))
    operator.add_window("short", mt.Session(1))
    for _ in range(5):
        rows, clock = random_rows(draw, clock + 60, 0.1)
        operator.process(rows)
        oracle.process(rows)
        watermark = clock - 20
        found, gone = read_results(operator.advance(watermark), KEYS)
        wanted, lost = oracle.advance(watermark)
        of_others = {w: kind for w, (kind, _) in found.items() if w[1] not in ("added", "short")}
        assert of_others == {w: kind for w, (kind, _) in wanted.items() if w[1] != name}
        assert {w for w in gone if w[1] not in ("added", "short")} == {
            w for w in lost if w[1] != name
        }
        for window in of_others:
            assert_close(found[window][1], wanted[window][1], window)


def test_the_rows_of_a_batch_are_folded_once():
    """The lane of the shortest gap folds them, wherever it is among the windows."""
    lifts = []

    def lift(value):
        lifts.append(value)
        return len(value)

    seen = mt.Aggregate(
        "seen", identity=0, lift=lift, combine=max, lower=int, columns=("v",), commutative=True
    )
    windows = {f"{gap}": mt.Session(gap) for gap in (30, 5, 10, 20)}
    operator = mt.Query(time="t", windows=windows, aggregates={"seen": seen}).operator()
    texts = [str(t) for t in range(100)]
    operator.process({"t": list(range(100)), "v": texts})
    assert lifts == texts


def test_what_a_late_row_reaches():
    """The last session that begins more than a gap before, else the first, else nothing but the row."""
    table = np.zeros((4, SLICE_LAST + 1), np.int64)
    table[:3, SLICE_START] = [10, 20, 30]
    runs = Runs(table, np.array([0, 3]), np.array([3, 0]))
    since = np.zeros(1, np.int64)
    for key, first, wanted in [(0, 40, 30), (0, 33, 20), (0, 5, 10), (0, 24, 10), (1, 7, 7)]:
        session_slices.reached(runs, np.array([key]), np.array([first]), 5, since)
        assert since.tolist() == [wanted], (key, first)
