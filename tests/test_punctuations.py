"""Windows between rows that open one: random streams against the definition, and what is held."""

import random

import pytest

import muntin as mt
from tests.window_oracle import WindowOracle, bounds

BY_COLUMN = mt.Punctuation("p")
BY_FUNCTION = mt.Punctuation(lambda row: row["p"])
AGGREGATES = {"all": mt.Collect("v"), "sum": mt.Sum("v")}


def a_batch(draw, now, ordered, numbers):
    rows = []
    for _ in range(draw.randint(1, 8)):
        now += draw.choice([0, 0, 1, 2, 5])
        t = now if ordered else now - draw.choice([0, 0, 0, 3, 10, 30])
        row = {"t": t, "k": draw.choice("ab"), "v": next(numbers), "p": draw.random() < 0.3}
        rows.append(row)
    return now, rows


def follow(current, table):
    """Keep what a consumer has by a table of results; updates and retractions are of what it has."""
    told = set()
    for row in table.to_pylist():
        window = (row["k"],), row["window"], *bounds(row)
        assert window not in told, f"{window} came twice in one table"
        told.add(window)
        if row["kind"] == "retract":
            del current[window]
        else:
            assert (row["kind"] == "update") == (window in current)
            current[window] = {name: row[name] for name in row if name in AGGREGATES}


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_random_streams_give_the_windows_of_the_definition(first_seed, ordered):
    for seed in range(first_seed, first_seed + 50):
        draw = random.Random(seed)
        lateness = 0 if ordered else draw.choice([0, 3, 15, 100])
        windows = {"p": draw.choice([BY_COLUMN, BY_FUNCTION])}
        chosen = AGGREGATES if draw.random() < 0.5 else {"sum": AGGREGATES["sum"]}
        query = mt.Query(
            time="t",
            keys=("k",),
            windows=windows,
            aggregates=chosen,
            lateness=lateness,
            ordered=ordered,
        )
        operator = query.operator(draw.choice(["auto", "eager"]))
        oracle = WindowOracle(windows, chosen, lateness, keys=("k",), ordered=ordered)
        current, now, numbers = {}, 0, iter(range(1000))
        for _ in range(draw.randint(1, 8)):
            now, rows = a_batch(draw, now, ordered, numbers)
            follow(current, operator.process(rows))
            oracle.process(rows)
            if draw.random() < 0.6:
                watermark = now - draw.choice([0, 2, 8])
                follow(current, operator.advance(watermark))
                oracle.advance(watermark)
            if draw.random() < 0.2:
                operator = query.restore(operator.snapshot())
            assert current == oracle.table(), seed


def test_in_order_no_rows_are_kept_and_a_window_is_one_slice():
    query = mt.Query(time="t", windows={"p": BY_COLUMN}, aggregates={"n": mt.Count()}, ordered=True)
    operator = query.operator()
    for t in range(100):
        operator.process({"t": [t], "p": [t % 10 == 0]})
    assert operator.counters.rows_kept == 0
    assert operator.counters.slices <= 2
    assert "one per window" in query.explain()


def test_out_of_order_the_rows_of_windows_that_may_change_are_kept():
    query = mt.Query(time="t", windows={"p": BY_COLUMN}, aggregates={"n": mt.Count()}, lateness=20)
    operator = query.operator()
    for t in range(1000):
        operator.process({"t": [t], "p": [t % 10 == 0]})
        operator.advance(t)
    assert 20 <= operator.counters.rows_kept <= 40
    assert operator.counters.slices <= 4


def test_a_row_of_the_same_time_in_a_later_batch_opens_its_window():
    query = mt.Query(
        time="t", windows={"p": BY_COLUMN}, aggregates={"v": mt.Collect("v")}, ordered=True
    )
    operator = query.operator()
    assert operator.process({"t": [1, 5], "p": [False, False], "v": [1, 2]}).num_rows == 0
    first = operator.process({"t": [5], "p": [True], "v": [3]}).to_pylist()
    assert first == [{"window": "p", "start": 1, "end": 5, "kind": "result", "v": [1]}]
    second = operator.process({"t": [5, 8], "p": [False, True], "v": [4, 5]}).to_pylist()
    assert second == [{"window": "p", "start": 5, "end": 8, "kind": "result", "v": [2, 3, 4]}]


def test_a_predicate_sees_each_row_once():
    seen = []

    def opens(row):
        seen.append(row["t"])
        return row["t"] % 7 == 0

    query = mt.Query(
        time="t", windows={"p": mt.Punctuation(opens)}, aggregates={"n": mt.Count()}, lateness=9
    )
    operator = query.operator()
    times = [3, 9, 5, 14, 12, 20, 16, 28, 21]
    for t in times:
        operator.process({"t": [t]})
        operator.advance(t - 3)
    assert seen == times


@pytest.mark.parametrize("column", [[0, 2, None], ["", "x", None], [0.0, 1.5, None]])
def test_any_true_value_opens_a_window(column):
    query = mt.Query(time="t", windows={"p": BY_COLUMN}, aggregates={"n": mt.Count()})
    result = query.run({"t": [1, 4, 9], "p": column})
    assert result.select(["start", "end", "n"]).to_pylist() == [{"start": 1, "end": 4, "n": 1}]


def test_a_measured_column_may_have_the_name_of_what_windows_look_at():
    windows = {"d": mt.Delta("row", 10), "p": mt.Punctuation(lambda row: row["row"] > 12)}
    query = mt.Query(time="t", windows=windows, aggregates={"n": mt.Count()})
    result = query.run({"t": [1, 2, 3], "row": [5, 9, 25]})
    found = {(r["window"], *bounds(r)): r["n"] for r in result.to_pylist()}
    assert found[("p", 1, 3)] == 2
    assert found[("d", 0, 10)] == 2


def test_a_window_that_is_cut_off_from_a_longer_one_at_once_is_an_update():
    query = mt.Query(
        time="t", windows={"p": BY_COLUMN}, aggregates={"c": mt.Collect("t")}, lateness=60
    )
    operator = query.operator()
    operator.process({"t": [40, 35], "p": [True, False]})
    operator.advance(47)
    operator.process({"t": [35, -2], "p": [True, False]})
    found = [(r["start"], r["end"], r["kind"], r["c"]) for r in operator.advance(62).to_pylist()]
    assert sorted(found) == [(-2, 35, "result", [-2]), (35, 40, "update", [35, 35])]
