"""The columns of results that say where windows start and end."""

import datetime as dt

import pyarrow as pa
import pytest

import muntin as mt

NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
ROWS = {
    "at": [NOON, NOON + dt.timedelta(minutes=1), NOON + dt.timedelta(hours=2)],
    "km": [1, 4, 12],
}
HOUR, TWO = mt.Tumbling("1 hour"), mt.Tumbling(2, measure="count")
LAST, KM = mt.LastN(2, every="1 hour"), mt.Delta("km", 5)
TIME, NUMBER = pa.timestamp("us", "UTC"), pa.int64()


def query(windows, **options):
    named = {f"w{i}": window for i, window in enumerate(windows)}
    return mt.Query(time="at", windows=named, aggregates={"n": mt.Count()}, **options)


@pytest.mark.parametrize(
    ("windows", "start", "measured"),
    [
        ([HOUR, mt.Session("1 min")], TIME, False),
        ([TWO, KM], NUMBER, False),
        ([LAST], NUMBER, False),
        ([LAST, TWO], NUMBER, False),
        ([HOUR, TWO], TIME, True),
        ([KM, HOUR], TIME, True),
        ([HOUR, LAST], TIME, True),
    ],
)
def test_times_and_numbers_have_columns_of_their_own_in_a_query_of_both(windows, start, measured):
    asked = query(windows)
    measures = ["start_measure", "end_measure"] if measured else []
    columns = ["window", "start", "end", *measures, "kind", "n"]
    operator = asked.operator()
    assert operator.advance(0).column_names == columns
    table = asked.run({"at": pa.array(ROWS["at"], TIME), "km": ROWS["km"]})
    assert table.column_names == columns
    assert table.schema.field("start").type == table.schema.field("end").type == start
    assert all(table.schema.field(name).type == NUMBER for name in measures)


def test_the_bounds_of_each_window_are_in_the_columns_of_its_kind():
    rows = query([HOUR, TWO, LAST, KM]).run(ROWS).to_pylist()
    first = {row["window"]: row for row in reversed(rows)}
    found = {
        name: tuple(row[part] for part in ("start", "end", "start_measure", "end_measure"))
        for name, row in first.items()
    }
    one = NOON + dt.timedelta(hours=1)
    assert found == {
        "w0": (NOON, one, None, None),
        "w1": (None, None, 0, 2),
        "w2": (None, one, 0, None),
        "w3": (None, None, 0, 5),
    }


def test_a_query_that_changes_has_the_columns_that_it_needs_now():
    operator = query([HOUR]).operator()
    operator.process(ROWS)
    assert "end_measure" not in operator.advance(NOON).column_names
    operator.add_window("rows", TWO)
    assert "end_measure" in operator.advance(NOON + dt.timedelta(hours=1)).column_names
    operator.remove_window("rows")
    assert "end_measure" not in operator.advance(NOON + dt.timedelta(hours=5)).column_names


@pytest.mark.parametrize("name", ["start_measure", "end_measure"])
def test_keys_and_aggregates_have_other_names(name):
    with pytest.raises(ValueError, match=name):
        query([HOUR], keys=(name,))


def test_a_sum_that_does_not_fit_names_the_window_by_its_rows():
    asked = mt.Query(
        time="t",
        windows={"ten": mt.Tumbling(10), "two": TWO},
        aggregates={"s": mt.Sum("v").over("two")},
    )
    with pytest.raises(OverflowError, match=r"window 'two' \[0, 2\)"):
        asked.run({"t": [1, 2], "v": [2**62, 2**62]})
