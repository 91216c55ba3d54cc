"""Every case of `conformance/` on our own engines, and the runner that compares."""

import json
import math

import pyarrow as pa
import pytest
from conformance.cases import FOLDER, Case, cases
from conformance.engines import OURS
from conformance.runner import AGREES, CANNOT, DIFFERS, difference, run

import muntin as mt
from muntin.jobs.names import window

CASES = [*cases()]


def test_cases_have_names_of_their_own_rules_and_known_sources():
    assert len({case.name for case in CASES}) == len(CASES) >= 70
    assert {path.stem for path in FOLDER.glob("*.json")} == {
        "beam", "flink", "ksqldb", "pandas", "past", "spark",
    }  # fmt: skip
    for case in CASES:
        assert case.rule.endswith((".", ":")), case.name
        assert case.source
        assert case.expected, case.name
        assert (case.steps is None) == bool(case.rows), case.name


@pytest.mark.parametrize("engine", OURS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_our_results_are_those_of_the_rule(case, engine):
    verdict = run(case, engine)
    assert (verdict.word, verdict.why) == (AGREES, "")


@pytest.mark.parametrize("engine", ["pandas", "Polars", "DuckDB"])
def test_others_agree_or_the_case_knows_why_not(engine):
    verdicts = [run(case, engine) for case in CASES]
    unknown = [f"{v.case.name}: {v.why}" for v in verdicts if not v.explained]
    assert unknown == []
    assert sum(verdict.word != CANNOT for verdict in verdicts) >= 20


def test_a_wrong_result_is_found():
    (first,) = [
        case for case in CASES if case.name == "tumbling windows are aligned with the epoch"
    ]
    wrong = Case(**{**vars(first), "expected": [{"start": 0, "end": 5, "n": 3}, first.expected[1]]})
    verdict = run(wrong, "muntin")
    assert (verdict.word, verdict.why) == (DIFFERS, "has not {'start': 0, 'end': 5, 'n': 3}")
    assert not verdict.explained


@pytest.mark.parametrize(
    ("expected", "found"),
    [([1], [True]), ([None], [0]), ([None], [math.nan]), ([1.0], [1.0001]), ([1], []), ([], [1])],
)
def test_rows_that_differ_are_told(expected, found):
    as_rows = [[{"x": value} for value in values] for values in (expected, found)]
    differ = expected != [1] or found != [True]  # a truth is a whole number in JSON's eyes too
    assert bool(difference(*as_rows, ordered=True)) is differ
    assert bool(difference(*as_rows, ordered=False)) is differ


def test_kept_results_are_of_these_cases():
    kept = FOLDER.parent.parent / "benchmarks" / "results" / "court.json"
    rows = json.loads(kept.read_text())["results"]
    assert {row["name"] for row in rows} == {case.name for case in CASES}
    assert not [row for row in rows if row["engine"] in OURS and row["verdict"] != AGREES]


WINDOWS = [
    'Calendar("1 month", "1 day")', 'Tumbling("1 h")', 'Sliding("1 h", "1 min")', 'Session("1 h")',
    'LastN(3, "1 min")', 'Cumulate("1 d", "1 h")', 'Fixed("2026-01-01", "1 d")', 'Delta("v", 3, 1)',
    'Tumbling(3, measure="count")', 'Policy(last(3), "1 min")', 'Sliding("1 h", every=rows(3))',
]  # fmt: skip


@pytest.mark.parametrize("asked", WINDOWS)
def test_a_stream_without_a_row_has_no_windows(asked):
    """So it is in a partition of Spark without rows, of which only the types are known."""
    nothing = pa.table({"t": pa.array([], pa.timestamp("us")), "v": pa.array([], pa.int64())})
    query = mt.Query(time="t", windows={"w": window(asked)}, aggregates={"n": mt.Count()})
    operator = query.operator()
    operator.expect(nothing)
    assert operator.complete().num_rows == 0
    assert query.run(nothing).num_rows == 0
