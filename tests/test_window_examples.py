"""The examples that the operator was promised to meet, given to it and to the oracle."""

import json
from pathlib import Path

import numpy as np
import pytest

import muntin as mt
from muntin.aggregates import close
from muntin.windows import Fixed, LastN, Punctuation, Session, Sliding, Tumbling
from tests.window_oracle import WindowOracle, read_results

CASES = json.loads((Path(__file__).parent / "data" / "windows.json").read_text())["cases"]
EXAMPLES = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


# A user's own sum, which says nothing about how to take a value out again.
SUM_NOINVERT = mt.Aggregate(
    "sum_noinvert",
    identity=0,
    lift=lambda value: value,
    combine=lambda a, b: a + b,
    commutative=True,
    columns=("v",),
)
WINDOWS = {
    "tumbling": lambda measure, size: Tumbling(size, measure=measure),
    "sliding": lambda measure, size, slide: Sliding(size, slide, measure=measure),
    "session": lambda _measure, gap: Session(gap),
    "fixed_band": lambda _measure, start, size: Fixed(start, size),
    "punctuation": lambda _measure, punctuation_value: Punctuation(
        lambda row: row["v"] == punctuation_value
    ),
    "last_n_every_t": lambda _measure, n, every: LastN(n, every),
}
AGGREGATES = {
    "sum": mt.Sum("v"),
    "sum_noinvert": SUM_NOINVERT,
    "count": mt.Count(),
    "min": mt.Min("v"),
    "max": mt.Max("v"),
    "avg": mt.Mean("v"),
    "stddev_pop": mt.Std("v", ddof=0),
    "min_count": mt.MinCount("v"),
    "max_count": mt.MaxCount("v"),
    "argmax": mt.ArgMax("v", "id"),
    "argmin": mt.ArgMin("v", "id"),
    "first": mt.First("v"),
    "last": mt.Last("v"),
    "concat": mt.Collect("v"),
    "m4": mt.M4("v"),
    "median": mt.Median("v"),
    "median_low": mt.Quantile("v", 0.5),
}


def windows_of(case):
    return {
        str(i): WINDOWS[window["type"]](window["measure"], **window["params"])
        for i, window in enumerate(case["windows"])
    }


def aggregates_of(case):
    """Return the aggregates by name, in the order of the expected values."""
    return {
        asked["name"]: mt.Quantile("v", asked["q"]) if "q" in asked else AGGREGATES[asked["name"]]
        for asked in case["aggregations"]
    }


def steps(case):
    """Return (the rows before a watermark, the watermark, what is expected of it)."""
    rows, expected = [], iter(case["expected"])
    for event in case["events"]:
        if "watermark" in event:
            yield rows, event["watermark"], next(expected)
            rows = []
        else:
            rows.append(event)


def check(results, retracted, expected):
    wanted = {((), str(i), start, end): values for i, _, start, end, values in expected["results"]}
    assert results.keys() == wanted.keys()
    for window, (_, values) in results.items():
        assert close(list(values.values()), wanted[window]), window
    assert retracted == {((), str(i), start, end) for i, _, start, end in expected["retracted"]}


@EXAMPLES
def test_the_oracle_meets_the_examples(case):
    oracle = WindowOracle(windows_of(case), aggregates_of(case), case["allowed_lateness"])
    for rows, watermark, expected in steps(case):
        oracle.process(rows)
        check(*oracle.advance(watermark), expected)


@pytest.mark.parametrize(
    "plan", ["auto", "lazy", "eager", "naive", "buckets", "tuple buffer", "aggregate tree"]
)
@pytest.mark.parametrize("one_by_one", [False, True], ids=["batches", "one row at a time"])
@EXAMPLES
def test_the_operator_meets_the_examples(case, one_by_one, plan):
    query = mt.Query(
        time="t",
        keys=(),
        windows=windows_of(case),
        aggregates=aggregates_of(case),
        lateness=case["allowed_lateness"],
    )
    operator = query.operator(plan=plan)
    for rows, watermark, expected in steps(case):
        size = 1 if one_by_one else len(rows)
        for i in range(0, len(rows), size or 1):
            operator.process(rows[i : i + size])
        check(*read_results(operator.advance(watermark)), expected)


BIDS = [
    ("08:05", 4.0),
    ("08:07", 2.0),
    ("08:09", 5.0),
    ("08:11", 3.0),
    ("08:13", 1.0),
    ("08:17", 6.0),
]


def test_the_documented_example_of_flinks_cumulate():
    """Flink, "Windowing table-valued functions": steps of 2 minutes, 10 minutes at most."""
    rows = {"t": [f"2020-04-15T{at}" for at, _ in BIDS], "price": [price for _, price in BIDS]}
    rows["t"] = np.array(rows["t"], "M8[us]")
    windows = {"w": mt.Cumulate("10 min", "2 min")}
    table = mt.Query(time="t", windows=windows, aggregates={"price": mt.Sum("price")}).run(rows)
    found = [(f"{r['start']:%H:%M}", f"{r['end']:%H:%M}", r["price"]) for r in table.to_pylist()]
    assert found == [
        ("08:00", "08:06", 4.0),
        ("08:00", "08:08", 6.0),
        ("08:00", "08:10", 11.0),
        ("08:10", "08:12", 3.0),
        ("08:10", "08:14", 4.0),
        ("08:10", "08:16", 4.0),
        ("08:10", "08:18", 10.0),
        ("08:10", "08:20", 10.0),
    ]
