"""Queries whose windows, aggregates and lateness change while they run, against the definition.

`python -m scripts.changing` runs any number of such streams.
"""

import pytest

import muntin as mt
from tests.changing_beside import run_beside
from tests.changing_cases import made_case
from tests.changing_runs import run_operator, run_shards

CASES = 250
SHARD_CASES = 40
BESIDE = 40


@pytest.mark.parametrize("first", range(0, 8 * CASES, CASES))
def test_an_operator_reports_what_the_definition_says_while_its_query_changes(first):
    for number in range(first, first + CASES):
        run(run_operator, number)


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_shards_report_what_the_definition_says_while_their_query_changes(shards):
    for number in range(100_000 * shards, 100_000 * shards + SHARD_CASES):
        run(run_shards, number, shards)


def run(runner, number, shards=0):
    try:
        runner(made_case(number, shards=shards))
    except Exception as error:
        error.add_note(f"python -m scripts.changing --seed {number} --count 1 --shards {shards}")
        raise


@pytest.mark.parametrize(
    ("first", "shards"), [(0, 0), (BESIDE, 0), (2 * BESIDE, 0), (0, 1), (0, 3)]
)
def test_an_added_window_reports_what_one_does_that_was_always_there(first, shards):
    for number in range(first, first + BESIDE):
        try:
            run_beside(number, shards)
        except Exception as error:
            error.add_note(f"run_beside({number}, {shards})")
            raise


@pytest.mark.parametrize("runner", [run_operator, run_shards])
def test_the_definition_is_that_of_a_query_that_does_not_change(runner):
    for number in range(40):
        runner(made_case(number, changes=(), shards=2 if runner is run_shards else 0))


COUNTED = {"n": mt.Count(), "s": mt.Sum("v")}
COLLECTED = {"c": mt.Collect("v")}


def give(operator, *times, **measures):
    return operator.process({"t": list(times), "v": list(times), **measures}).to_pylist()


def of(rows, window, column):
    return {(row["start"], row["end"]): row[column] for row in rows if row["window"] == window}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("emit", ["every", "changes"])
@pytest.mark.parametrize("measure", ["km", "count"])
def test_a_window_over_a_measure_is_removed(measure, emit, ordered):
    def over(size):
        return mt.Delta("km", size) if measure == "km" else mt.Tumbling(size // 4, measure="count")

    query = mt.Query(
        time="t",
        windows={"a": over(4), "b": over(20)},
        aggregates=COLLECTED,
        lateness=100,
        ordered=ordered,
        emit=emit,
    )
    operator, reported = query.operator(), []
    reported += give(operator, 5, 7, km=[5, 7])
    operator.remove_window("a")
    operator = operator.query.restore(operator.snapshot())
    late = [] if ordered else [1]
    reported += give(operator, 9, km=[9])
    reported += give(operator, *late, 30, 31, km=[*late, 30, 31])
    reported += operator.advance(40).to_pylist()
    first = (0, 20) if measure == "km" else (0, 5)
    content = [*late, 5, 7, 9] if measure == "km" else [*late, 5, 7, 9, 30, 31][:5]
    assert of(reported, "b", "c")[first] == content
    assert not of(reported[2:], "a", "c")


@pytest.mark.parametrize("plan", ["auto", "eager", "buckets", "tuple buffer"])
def test_a_sliding_window_is_added_under_every_plan(plan):
    query = mt.Query(time="t", windows={"a": mt.Tumbling(10)}, aggregates=COUNTED)
    operator = query.operator(plan)
    give(operator, 3, 7)
    operator.advance(8)
    operator.add_window("b", mt.Sliding(10, 5))
    give(operator, 12, 16, 21)
    reported = of(operator.advance(40).to_pylist(), "b", "n")
    assert {window: n for window, n in reported.items() if window[0] >= 10} == {
        (10, 20): 2,
        (15, 25): 2,
        (20, 30): 1,
    }
    assert reported.get((0, 10), 2) == reported.get((5, 15), 2) == 2


@pytest.mark.parametrize("window", [mt.LastN(2, 10), mt.Policy(mt.policies.last(2), 10)])
def test_late_rows_report_only_ticks_that_change(window):
    query = mt.Query(
        time="t", windows={"w": window}, aggregates=COLLECTED, emit="changes", lateness=100
    )
    operator = query.operator()
    give(operator, 5, 7, 33)
    operator.advance(60)
    give(operator, 6)
    reported = operator.advance(61).to_pylist()
    assert [(row["end"], row["c"]) for row in reported if row["kind"] != "retract"] == [
        (10, [6, 7])
    ]


def test_what_run_reports_of_a_window_does_not_depend_on_the_others():
    windows = {
        "last": mt.LastN(2, 10),
        "left": mt.Policy(mt.policies.last(2), 7),
        "long": mt.Sliding(100, 10),
        "session": mt.Session(40),
        "count": mt.Tumbling(2, measure="count"),
        "marked": mt.Punctuation("p"),
    }
    rows = {"t": [1, 12, 13, 25], "v": [1, 2, 3, 4], "p": [True, False, True, False]}

    def run(some):
        query = mt.Query(time="t", windows=some, aggregates=COLLECTED)
        found = query.run(rows).to_pylist()
        return {
            str({name: row[name] for name in ("window", "kind", "c")} | bounds(row))
            for row in found
        }

    def bounds(row):  # numbers of rows have columns of their own beside times
        names = ("start", "end")
        return {x: row[x] if row[x] is not None else row[f"{x}_measure"] for x in names}

    alone = [run({name: window}) for name, window in windows.items()]
    assert run(windows) == set().union(*alone)
