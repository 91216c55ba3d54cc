"""Values, sizes and origins at the limits: right, or an error that names them; never a hang."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import muntin as mt
from tests.patience import HUNG_S

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("seed", [0, 10_000])
def test_random_extremes_give_what_pythons_integers_give(seed):
    """In a process of its own: a loop that hangs in compiled code cannot be interrupted."""
    arguments = ["--seed", str(seed), "--count", "300", "--limit", str(HUNG_S)]
    run = subprocess.run(
        [sys.executable, "-m", "scripts.extremes", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=2 * HUNG_S,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "300 runs" in run.stdout


@pytest.mark.parametrize("value", [2**61 + 1, 2**63 - 1, -(2**63), 10**30, -(10**30)])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: mt.Tumbling(10, origin=x),
        lambda x: mt.Sliding(10, 2, origin=x),
        lambda x: mt.Tumbling(10, measure="count", origin=x),
        lambda x: mt.Delta("m", 10, origin=x),
        lambda x: mt.Fixed(x, 10),
        lambda x: mt.LastN(3, 10, origin=x),
        lambda x: mt.Policy(mt.policies.last(3), 10, origin=x),
    ],
)
def test_an_origin_too_far_off_is_refused_with_its_value(make, value):
    with pytest.raises(ValueError, match=r"2\*\*61 at most.*" + str(value)):
        make(value)


@pytest.mark.parametrize("value", [np.datetime64("NaT"), "30000000000-01-01"])
def test_an_origin_that_is_no_time_is_refused(value):
    with pytest.raises(ValueError, match="time"):
        mt.Tumbling("1 h", origin=value)


@pytest.mark.parametrize("bad", [2**61 + 1, -(2**61) - 1, 2**63 - 1, -(2**63)])
def test_a_delta_value_near_the_limit_is_refused_with_its_row(bad):
    query = mt.Query(time="t", windows={"d": mt.Delta("km", 10, 1)}, aggregates={"n": mt.Count()})
    operator = query.operator()
    with pytest.raises(ValueError, match=rf"row 1 has 'km' = {bad}"):
        operator.process({"t": [1, 2], "km": [5, bad]})
    operator.process({"t": [1, 2, 3], "km": [5, 7, 30]})
    assert operator.advance(10).num_rows == 12


@pytest.mark.parametrize("bad", [2**61 + 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("column", ["t", "km"])
def test_rows_beyond_the_bounds_can_be_left_out(column, bad):
    query = mt.Query(
        time="t",
        windows={"d": mt.Delta("km", 10), "ten": mt.Tumbling(10)},
        aggregates={"n": mt.Count()},
        on_bad_row="drop",
    )
    rows = {"t": [1, 2, 3], "km": [5, 7, 30]}
    found, twin = query.operator(), query.operator()
    found.process({name: [*values, bad if name == column else 4] for name, values in rows.items()})
    twin.process(rows)
    assert found.counters.bad_rows == 1
    assert found.advance(50).equals(twin.advance(50))
    assert found.counters.windows_reported == 2


def test_unsigned_measures_and_times_are_not_wrapped():
    query = mt.Query(time="t", windows={"d": mt.Delta("km", 10)}, aggregates={"n": mt.Count()})
    with pytest.raises(ValueError, match=rf"row 0 has 'km' = {2**63 + 5}"):
        query.run({"t": [1], "km": np.array([2**63 + 5], np.uint64)})
    with pytest.raises(ValueError, match="row 1 .*18446744073709551615"):
        mt.rolling([1.0, 2.0], "1 s", mt.Sum(), on=np.array([1, 2**64 - 1], np.uint64))


def test_a_watermark_of_any_size_completes_what_can_be_complete():
    window = {"ten": mt.Tumbling(2**60, origin=3)}
    query = mt.Query(time="t", windows=window, aggregates={"n": mt.Count()})
    operator = query.operator()
    operator.process({"t": [2**61, -(2**61)]})
    assert operator.advance(-(10**40)).num_rows == 0
    assert operator.advance(10**40).num_rows == 2


def test_rows_that_are_in_too_many_windows_are_refused_before_anything_changed():
    windows = {"few": mt.Tumbling(10), "all": mt.Sliding(2**60, 1)}
    query = mt.Query(time="t", windows=windows, aggregates={"n": mt.Count()})
    operator = query.operator()
    operator.process({"t": [5]})
    with pytest.raises(ValueError, match="window 'all' would be reported"):
        operator.advance(2**59)
    assert operator.advance(12).num_rows == 7 + 1
    changes = mt.Query(time="t", windows=windows, aggregates={"n": mt.Count()}, emit="changes")
    assert changes.run({"t": [5]})["window"].to_pylist() == ["few", "all"]


class Powers(mt.ContextFreeWindow):
    """[1, 2), [2, 4), [4, 8) and so on, without an end."""

    def next_edge(self, t):
        return 1 if t < 1 else 1 << t.bit_length()

    def closed(self, after, upto):
        end = max(2, 1 << max(after, 1).bit_length())
        while end <= upto:
            yield end // 2, end
            end *= 2


class Backwards(Powers):
    def next_edge(self, t):
        return t


@pytest.mark.parametrize(("window", "time"), [(Powers(), 2**61), (Backwards(), 5)])
def test_an_own_window_whose_edges_are_out_of_reach_is_named(window, time):
    query = mt.Query(time="t", windows={"own": window}, aggregates={"n": mt.Count()})
    with pytest.raises(ValueError, match=type(window).__name__):
        query.run({"t": [time]})


# Ticks


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("name", ["last", "policy"])
def test_a_long_gap_is_reported_tick_by_tick_in_pieces(monkeypatch, name, ordered):
    """What comes in pieces is what comes at once."""
    windows = {"last": mt.LastN(2, 3), "policy": mt.Policy(mt.policies.last(2), 3)}
    options = {"windows": {"w": windows[name], "t": mt.Tumbling(7), "s": mt.Session(5)}}
    options |= {"aggregates": {"all": mt.Collect("v"), "n": mt.Count()}, "ordered": ordered}
    tables = []
    for piece in (2**20, 50):
        monkeypatch.setattr("muntin.slicing.report_pieces.PIECE", piece)
        operator = mt.Query(time="t", keys="k", **options).operator()
        parts = [
            operator.process({"t": [1, 2, 2, 4], "k": ["a", "b", "a", "a"], "v": [1, 2, 3, 4]}),
            operator.process({"t": [2000, 2002], "k": ["a", "b"], "v": [5, 6]}),
            operator.advance(3000),
            operator.advance(3500),
        ]
        rows = [str(row) for part in parts for row in part.to_pylist()]
        tables.append(sorted(rows))
    assert tables[0] == tables[1]
    assert len(tables[0]) > 2300


def test_many_ticks_take_little_memory_beside_their_table():
    import tracemalloc

    query = mt.Query(time="t", windows={"w": mt.LastN(3, 1)}, aggregates={"sum": mt.Sum("v")})
    operator = query.operator()
    operator.process({"t": [0], "v": [7]})
    operator.advance(10)
    tracemalloc.start()
    try:
        table = operator.advance(2_500_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert table.num_rows == 2_500_000 - 10
    assert peak < 3 * table.nbytes


@pytest.mark.parametrize("window", [mt.LastN(3, 1), mt.Policy(mt.policies.last(3), 1)])
def test_changes_bound_the_ticks(window):
    query = mt.Query(
        time="t", windows={"w": window}, aggregates={"sum": mt.Sum("v")}, emit="changes",
        lateness=2**60,
    )  # fmt: skip
    operator = query.operator()
    operator.process({"t": [0, 10], "v": [1, 2]})
    assert operator.advance(2**60).num_rows == 2
    operator.process({"t": [5], "v": [4]})
    found = {row["end"]: row["sum"] for row in operator.advance(2**60 + 1).to_pylist()}
    assert found == {6: 5, 11: 7}


def test_more_ticks_than_can_be_reported_are_refused_before_anything_changed():
    query = mt.Query(time="t", windows={"w": mt.LastN(3, 1)}, aggregates={"n": mt.Count()})
    operator = query.operator()
    operator.process({"t": [0]})
    with pytest.raises(ValueError, match="window 'w' would be reported"):
        operator.advance(2**60)
    assert operator.advance(100).num_rows == 100


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("first", [-(2**61), 0, 2**61])
def test_ticks_without_idle_end_at_the_end_of_time_only(first, ordered):
    every = 2**60
    for window in (mt.LastN(1, every), mt.Policy(mt.policies.last(1), every)):
        query = mt.Query(
            time="t", windows={"w": window}, aggregates={"n": mt.Count()}, ordered=ordered
        )
        operator = query.operator()
        operator.process({"t": [first]})
        ends = operator.advance(2**70)["end"].to_pylist()
        assert ends == list(range(first + every, 2**62 + 1, every))
