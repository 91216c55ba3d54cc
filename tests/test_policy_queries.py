"""Policies as windows of a query: what is left at each end, late rows in their place, only changes."""

import math
import random
from dataclasses import replace
from fractions import Fraction
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
        assert len(lane._to_look_at()) <= 5 * 5
        assert operator.counters.keys <= 3 * 5 * 5
        assert operator.counters.rows_kept <= 5 * 5


@pytest.mark.parametrize("kind", ["whole", "floats", "gaps", "objects", "changing"])
@pytest.mark.parametrize("emit", ["every", "changes"])
def test_a_ready_made_policy_leaves_what_its_function_does(kind, emit):
    """Rules in a loop against the policy's own function on a tree, over late rows, cuts and restarts."""
    for seed in range(16):
        draw = random.Random(f"{seed} {kind} {emit}")
        policy = draw.choice(BY_RULES)()
        options = {"lateness": draw.choice([0, 7, 60]), "emit": emit}
        if draw.random() < 0.2:
            options = {"ordered": True, "emit": emit}
        every = draw.choice([1, 4, 15])
        ours, theirs = (
            query_of({"left": mt.Policy(one, every)}, {"list": mt.Collect("t")}, **options)
            for one in (policy, replace(policy, rules=()))
        )
        pair = [ours.operator(), theirs.operator()]
        for rows, watermark in batches(draw, kind, "ordered" in options):
            told_by = [one.process(rows).to_pylist() for one in pair]
            assert told_by[0] == told_by[1], f"seed {seed}: {policy}"
            told_by = [one.advance(watermark).to_pylist() for one in pair]
            assert told_by[0] == told_by[1], f"seed {seed}: {policy}"
            if draw.random() < 0.2:
                pair[0] = ours.restore(pair[0].snapshot())
        kept = [one.counters.rows_kept for one in pair]
        assert kept[0] == kept[1]


BY_RULES = [
    lambda: policies.last(3),
    lambda: policies.within(9, "t") | policies.last(5),
    lambda: policies.sum_at_most(20, "v"),
    lambda: policies.sum_at_most(12.5, "v") | policies.within(30, "t"),
    lambda: policies.sum_at_most(2**70, "v") | policies.last(4) | policies.sum_at_most(15, "v"),
    lambda: policies.until_max("v"),
    lambda: policies.until_max("v") | policies.last(5),
    lambda: policies.within(20, "t") | policies.until_max("v"),
    lambda: policies.until_max("v") | policies.sum_at_most(30, "v"),
    lambda: policies.until_longest_run("v"),
]
VALUES = {
    "whole": [0, 1, 2, 3, 5, 8, 13, 21],
    "floats": [0.0, -0.0, 0.5, 1.25, 3.0, 8.0, 21.5, math.nan, math.inf],
    "gaps": [None, 0, 1, 2, 5, 8, 30],
    "objects": [None, 0, 1, Fraction(5, 2), Fraction(7, 2), 9],
}


def batches(draw, kind, ordered):
    """Yield batches of rows, late ones among them, each with a watermark."""
    now = 0
    for _ in range(draw.randint(3, 12)):
        kinds = draw.choice([*VALUES]) if kind == "changing" else kind
        values = [draw.choice(VALUES[kinds]) for _ in range(draw.randint(1, 12))]
        times = [max(now + draw.randint(-20, 20), 0) for _ in values]
        times = sorted(max(t, now) for t in times) if ordered else times
        columns = {
            "t": times,
            "room": [draw.choice("ab") for _ in values],
            "plug": [0 for _ in values],
            "v": pa.array(values, pa.int64()) if kinds == "gaps" else values,
        }
        now = max([now, *times]) + draw.choice([0, 0, 5, 40])
        yield columns, now


@pytest.mark.parametrize("make", [BY_RULES[2], BY_RULES[5], BY_RULES[7]])
def test_a_batch_that_fails_leaves_what_is_looked_at_as_it_was(make, monkeypatch):
    """Whole numbers are looked at as objects from some batch on: not if that batch is undone."""
    query = query_of({"left": mt.Policy(make(), 5)}, {"list": mt.Collect("t")}, lateness=9)
    pair = [query.operator(), query.operator()]
    draw = random.Random(3)
    for step in range(12):
        now = 10 * step
        rows = rows_of(*((now + i, draw.randint(0, 9)) for i in range(10)))
        with monkeypatch.context() as broken:
            broken.setattr("muntin.slicing.lanes.policy_lane.PolicyLane._inserted", interrupted)
            for other in (rows_of((now, Fraction(1, 2))), rows_of((now, 0.5)), rows):
                with pytest.raises(KeyboardInterrupt):
                    pair[0].process(other)
        tables = [(one.process(rows), one.advance(now + 5)) for one in pair]
        assert told(tables[0][1]) == told(tables[1][1])
    assert pair[0].snapshot() == pair[1].snapshot()


def interrupted(*_arguments):
    raise KeyboardInterrupt


def test_a_sum_is_compared_as_it_is():
    """Whole numbers beyond 64 bits, sums of floats as they would be rounded once, sums that overflow."""
    for policy, values, left in [
        (policies.sum_at_most(2**64, "v"), [2**62] * 6, 4),
        (policies.sum_at_most(-(2**63) - 1, "v"), [-(2**62), -(2**62)], 0),
        (policies.sum_at_most(1.0, "v"), [0.1] * 12, 10),
        (policies.sum_at_most(1e308, "v"), [9e307, 9e307, 1e306], 2),
        (policies.sum_at_most(math.inf, "v"), [1.0, 2.0], 2),
        (policies.sum_at_most(math.nan, "v"), [1, 2], 2),
        (policies.sum_at_most(10, "v"), [2**63 - 1, 4, 5], 2),
    ]:
        table = asked(policy).run(rows_of(*enumerate(values)))
        assert [len(row["list"]) for row in table.to_pylist()][-1:] == [left] * (left > 0), policy


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: mt.LastN(n, 10),
        lambda n: mt.Policy(policies.last(n), 10),
        lambda n: mt.Policy(policies.within(n, "t"), 10),
        lambda n: mt.Policy(policies.sum_at_most(n, "one"), 10),
        lambda n: mt.Policy(replace(policies.last(n), rules=()), 10),
    ],
)
def test_a_report_takes_as_many_combines_however_much_is_left(make, late):
    """A row that comes and one that goes: two combines of a total, three of two stacks, more if late."""
    for n in (50, 400):
        query = mt.Query(
            time="t",
            windows={"left": make(n)},
            aggregates={"max": mt.Max("v"), "sum": mt.Sum("v")},
            lateness=40,
        )
        operator = query.operator()
        spent = []
        for now in range(0, 4 * n + 200, 10):
            times = [now + i - (20 if late and i % 5 == 0 else 0) for i in range(10)]
            operator.process({"t": times, "v": [t % 7 for t in times], "one": [1] * 10})
            before = operator.counters.combines
            reported = operator.advance(now + 10).num_rows
            spent.append((operator.counters.combines - before, reported))
            assert operator.counters.rows_kept <= n + 70
        settled = spent[2 * n // 10 :]
        combines = sum(count for count, _ in settled)
        rows = 10 * len(settled)
        windows = sum(count for _, count in settled)
        per_late = 2 * 3 * math.log2(n)  # of two aggregates
        most = per_late * (windows + rows / 5) if late else 5 * rows + windows
        assert combines <= most, f"{combines} for {rows} rows and {windows} windows of {n}"
