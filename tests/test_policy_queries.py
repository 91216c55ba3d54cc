"""Policies as windows of a query: what is left at each end, late rows in their place, only changes."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin as mt
from muntin import policies
from tests.test_query_properties import (
    EXACT,
    KEYS,
    POLICIES,
    QUICK,
    chosen,
    drive,
    query_of,
    streams,
)
from tests.window_oracle import WindowOracle, read_results

barrel = policies.sum_at_most(10, "v")


def rows_of(*pairs):
    return [{"t": t, "room": "a", "plug": 0, "v": v} for t, v in pairs]


def told(table):
    columns = ("start", "end", "kind", "list")
    return [tuple(row[column] for column in columns) for row in table.to_pylist()]


def asked(policy=barrel, every=10, **options):
    return query_of({"left": mt.Policy(policy, every)}, {"list": mt.Collect("v")}, **options)


def test_a_window_starts_at_its_oldest_row_and_is_what_was_left_before_its_end():
    operator = asked().operator()
    operator.process(rows_of((1, 2), (3, 2), (9, 3), (10, 3), (12, 4), (25, 11)))
    assert told(operator.advance(20)) == [
        (1, 10, "result", [2, 2, 3]),
        (9, 20, "result", [3, 3, 4]),
    ]
    assert told(operator.advance(60)) == []  # 11 is in no window
    operator.process(rows_of((61, 5)))
    assert told(operator.advance(80)) == [(61, 70, "result", [5]), (61, 80, "result", [5])]


def test_a_late_row_is_enforced_in_its_place():
    operator = asked(lateness=100).operator()
    operator.process(rows_of((1, 2), (12, 4), (22, 5)))
    assert [(s, e) for s, e, *_ in told(operator.advance(30))] == [(1, 10), (1, 20), (12, 30)]
    operator.process(rows_of((15, 3)))
    assert told(operator.advance(31)) == [
        (1, 20, "update", [2, 4, 3]),
        (12, 30, "retract", None),
        (15, 30, "result", [3, 5]),
    ]
    operator.process(rows_of((16, 11)))  # which is in no window, and leaves none before it
    assert told(operator.advance(32)) == [
        (1, 20, "retract", None),
        (15, 30, "retract", None),
        (22, 30, "result", [5]),
    ]


def test_only_what_was_left_is_kept():
    operator = asked(policies.last(3)).operator()
    for start in range(0, 1000, 50):
        operator.process(rows_of(*((t, 1) for t in range(start, start + 50))))
        operator.advance(start + 50)
        assert operator.counters.rows_kept == 3


def test_the_columns_of_a_policy_are_needed_and_no_others():
    query = asked(policies.within(5, "t") | policies.until_max("w") | policies.last(9))
    assert query.columns == ("v", "w")
    with pytest.raises(KeyError, match="'w'"):
        query.run(rows_of((1, 2)))
    rows = [{**row, "w": row["v"], "other": object()} for row in rows_of((1, 2), (4, 5), (8, 3))]
    assert told(query.run(rows)) == [(8, 10, "result", [3])]


def test_a_policy_that_raises_loses_nothing():
    broken = [False]

    def fragile(total, old):
        if broken[0]:
            raise ArithmeticError("no")
        return total - old >= 2

    query = asked(policies.SlidePolicy("fragile", mt.Count(), fragile), lateness=5)
    operator = query.operator()
    operator.process(rows_of((1, 1), (2, 2), (13, 3)))
    assert told(operator.advance(15)) == [(1, 10, "result", [1, 2])]
    broken[0] = True
    operator.process(rows_of((16, 4)))
    for _ in range(2):
        with pytest.raises(ArithmeticError):
            operator.advance(20)
    broken[0] = False
    assert told(query.restore(operator.snapshot()).advance(20)) == [(13, 20, "result", [3, 4])]
    assert told(operator.advance(20)) == [(13, 20, "result", [3, 4])]


def test_a_row_that_a_policy_cannot_take_is_refused_with_its_batch():
    operator = asked().operator()
    operator.process(rows_of((1, 2)))
    with pytest.raises(TypeError):
        operator.process(rows_of((2, 3), (3, "x")))
    assert told(operator.advance(10)) == [(1, 10, "result", [2])]


def test_a_policy_says_which_column_it_looks_at():
    with pytest.raises(ValueError, match="until_max.* of window 'left' does not say which column"):
        asked(policies.until_max() | policies.last(3))


def test_a_policy_that_is_added_begins_after_the_last_row():
    operator = query_of({"ten": mt.Tumbling(10)}, {"list": mt.Collect("v")}).operator()
    operator.process(rows_of((4, 2), (1, 3)))
    operator.add_window("left", mt.Policy(barrel, 10))
    operator.process(rows_of((3, 1), (5, 4)))
    table = operator.advance(10).to_pylist()
    assert {row["window"]: row["list"] for row in table} == {"ten": [3, 1, 2, 4], "left": [4]}


def test_explain_tells_that_rows_are_kept():
    text = asked().explain()
    assert "left (Policy sum_at_most(10, 'v') every 10)" in text
    assert "kept: the windows' edges depend on rows" in text


@settings(QUICK, max_examples=30)
@given(
    stream=streams(),
    windows=chosen(
        {str(p): st.builds(mt.Policy, st.just(p), st.integers(3, 30)) for p in POLICIES}
    ),
    lateness=st.sampled_from([0, 5, 60]),
)
def test_changes_tell_of_every_window(stream, windows, lateness):
    """With emit="changes" each report holds until the next; `empty` says that nothing is left."""
    oracle, kept = WindowOracle(windows, EXACT, lateness, keys=KEYS), {}

    def advance(watermark, table):
        results, retracted = read_results(table, KEYS)
        for window in retracted:
            del kept[window]
        for window, (kind, _) in results.items():
            assert (kind == "update") == (window in kept)
        kept.update(results)
        oracle.advance(watermark)
        every = {(*window[:2], window[3]): values for window, values in oracle.table().items()}
        assert held_until_the_next(kept, windows, oracle.watermark) == every

    query = query_of(windows, EXACT, lateness=lateness, emit="changes")
    drive(query, stream, "auto", lambda rows, _: oracle.process(rows), advance)


def held_until_the_next(kept, windows, watermark):
    """Return {(key, window, end): values} for every end up to the watermark."""
    ends = {}
    for (key, name, _, end), (kind, values) in kept.items():
        ends.setdefault((key, name), {})[end] = None if kind == "empty" else values
    table = {}
    for (key, name), said in ends.items():
        for end, after in pairwise([*sorted(said), watermark + 1]):
            for tick in range(end, after, windows[name].every) if said[end] else ():
                table[key, name, tick] = said[end]
    return table


@pytest.mark.parametrize("emit", ["every", "changes"])
@pytest.mark.parametrize("lateness", [0, 300])
def test_rows_that_expired_are_not_reported(emit, lateness):
    """`within` means no older than that at the time of the report."""
    query = query_of(
        {"left": mt.Policy(policies.within(10, "t"), every=100)},
        {"list": mt.Collect("v")},
        lateness=lateness,
        emit=emit,
    )
    operator = query.operator()
    operator.process(rows_of((5, 1), (92, 2), (95, 3), (188, 4)))
    first = (92, 100, "result", [2, 3])
    if emit == "every":
        assert told(operator.advance(1000)) == [first]
    else:
        assert told(operator.advance(1000)) == [first, (200, 200, "empty", None)]
    if lateness == 0:
        assert told(operator.advance(10**6)) == []
        assert operator.counters.rows_kept == 0
    else:
        operator.process(rows_of((991, 5), (995, 6)))
        assert told(operator.advance(1001))[0] == (991, 1000, "result", [5, 6])
        assert told(operator.advance(5000))[:1] == (
            [] if emit == "every" else [(1100, 1100, "empty", None)]
        )


def test_a_time_with_a_zone_expires_as_a_number_does():
    times = pa.array([5, 92, 95], pa.timestamp("us", "Asia/Kolkata"))
    query = mt.Query(
        time="t",
        windows={"left": mt.Policy(policies.within("10 us", "t"), every="100 us")},
        aggregates={"n": mt.Count()},
    )
    operator = query.operator()
    operator.process({"t": times})
    assert operator.advance(10**9)["n"].to_pylist() == [2]


def test_keys_with_nothing_left_are_looked_at_no_more(monkeypatch):
    monkeypatch.setattr("muntin.query.operator.MANY_KEYS", 8)
    query = query_of(
        {"left": mt.Policy(policies.within(10, "t"), every=10)}, {"n": mt.Count()}, lateness=20
    )
    operator = query.operator()
    for i in range(100):
        operator.process([{"t": 10 * i, "room": f"{i}", "plug": j, "v": 1} for j in range(5)])
        operator.advance(10 * i)
        (lane,) = operator._state.lanes
        assert len(lane._visited()) <= 5 * 5
        assert operator.counters.keys <= 3 * 5 * 5
        assert operator.counters.rows_kept <= 5 * 5
