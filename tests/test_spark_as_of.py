"""as_of on Spark gives what as_of on data frames gives, whatever the chunks that rows come in."""

import datetime as dt
import importlib

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import muntin as mt
from muntin.aggregates import close
from muntin.spark import streaming
from tests.test_as_of import AGGREGATES, WINDOWS, labels_of, rows_of

spark_as_of = importlib.import_module("muntin.spark.as_of")
QUERY = mt.Query(time="t", keys="key", windows=WINDOWS, aggregates=AGGREGATES)
LABELS = pa.schema([("id", pa.int64()), ("key", pa.int64()), ("at", pa.int64())])
WHOLE = [(name, pa.int64()) for name in ("key", "t", "n", "seen")]
EVENTS = pa.schema([*WHOLE, ("v", pa.float64()), ("mark", pa.bool_())])


def assert_same(found, wanted):
    found = sorted(found.to_pylist(), key=lambda row: row["id"])
    wanted = sorted(wanted.to_pylist(), key=lambda row: row["id"])
    assert len(found) == len(wanted)
    for got, right in zip(found, wanted, strict=True):
        assert got.keys() == right.keys()
        for column, value in right.items():
            assert close(got[column], value), (right["id"], column, got[column], value)


def tables(seed, events=300, labels=80):
    return (
        pa.Table.from_pylist(labels_of(seed + 9, labels), LABELS),
        pa.Table.from_pylist(rows_of(seed, events), EVENTS),
    )


@pytest.mark.parametrize("options", [{}, {"include_equal": True}, {"known": "seen"}], ids=str)
def test_on_spark_as_on_data_frames(spark, options):
    labels, events = tables(1)
    frames = spark.createDataFrame(labels), spark.createDataFrame(events)
    found = mt.spark.as_of(*frames, QUERY, at="at", **options).toArrow()
    assert_same(found, mt.as_of(labels, events, QUERY, at="at", **options))


@pytest.mark.parametrize("many", [1, 7, 60])
@pytest.mark.parametrize("windows", ["of time", "of rows", "of policies"])
@pytest.mark.parametrize("options", [{}, {"include_equal": True}, {"known": "seen"}], ids=str)
def test_however_rows_are_cut_into_chunks(monkeypatch, many, windows, options):
    names = {
        "of time": ("tumbling", "sliding", "exact", "cumulate", "shifts", "stepwise"),
        "of rows": ("session", "marked", "last", "big", "exact"),
        "of policies": ("left", "recent", "sliding"),
    }[windows]
    some = {name: WINDOWS[name] for name in names}
    query = mt.Query(time="t", keys="key", windows=some, aggregates=AGGREGATES)
    labels, events = tables(2, 120, 60)
    wanted = mt.as_of(labels, events, query, at="at", **options)
    monkeypatch.setattr(streaming, "ROWS_AT_ONCE", many)
    results = from_arrow_schema(wanted.schema)
    asked = spark_as_of.Answers(
        query, bool(options.get("include_equal")), "known" in options, results
    )
    rows = together(labels, events, **options)
    batches = (rows.slice(i, many).to_batches()[0] for i in range(0, rows.num_rows, many))
    assert_same(pa.Table.from_batches(asked(batches)), wanted)


def together(labels, events, include_equal=False, known=None):
    """Return rows as Spark hands them to a worker, sorted."""
    rows = []
    for event in events.to_pylist():
        values = {name: event[name] for name in ("n", "v", "mark")}
        values |= {} if known is None else {spark_as_of.KNOWN: event[known]}
        mine = {"key": event["key"], spark_as_of.AT: event["t"], spark_as_of.TURN: 0}
        rows.append({**mine, spark_as_of.EVENT: {spark_as_of.TURN: 0, **values}})
    for label in labels.to_pylist():
        mine = {"key": label["key"], spark_as_of.AT: label["at"], spark_as_of.TURN: 1}
        rows.append({**mine, spark_as_of.LABEL: {spark_as_of.TURN: 0, **label}})
    sign = 1 if include_equal else -1
    rows.sort(key=lambda r: (r["key"], r[spark_as_of.AT], sign * r[spark_as_of.TURN]))
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def test_a_long_key_keeps_only_what_its_windows_need(monkeypatch):
    held = []
    needed = spark_as_of.Answers._needed

    def counted(self, history, last):
        first = needed(self, history, last)
        held.append(len(history.rows) - first)
        return first

    monkeypatch.setattr(spark_as_of.Answers, "_needed", counted)
    monkeypatch.setattr(streaming, "ROWS_AT_ONCE", 100)
    query = mt.Query(
        time="t", keys="key", windows={"w": mt.Sliding(30, 10)}, aggregates={"n": mt.Count()}
    )
    events = pa.table({"key": [1] * 5000, "t": [*range(5000)], "n": [1] * 5000})
    events = events.append_column("v", pa.array([1.0] * 5000)).append_column(
        "mark", pa.array([True] * 5000)
    )
    labels = pa.table({"id": [*range(50)], "key": [1] * 50, "at": [*range(100, 5100, 100)]})
    rows = together(labels, events)
    wanted = mt.as_of(labels, events, query, at="at")
    asked = spark_as_of.Answers(query, False, False, from_arrow_schema(wanted.schema))
    assert_same(pa.Table.from_batches(asked(iter(rows.to_batches(100)))), wanted)
    assert max(held) <= 40


def test_times_and_text_and_no_keys(spark):
    moments = [dt.datetime(2026, 1, 1, 8, m, tzinfo=dt.UTC) for m in (0, 10, 20)]
    events = spark.createDataFrame(
        pa.table({"ts": moments, "user": ["a", "a", "b"], "cents": [5, 7, 9]})
    )
    labels = spark.createDataFrame(
        pa.table({"user": ["a", "c"], "when": [moments[1], moments[2]], "x y": [1, 2]})
    )
    query = mt.Query(
        time="ts",
        keys="user",
        windows={"hour": mt.Sliding("1 h", "1 min")},
        aggregates={"n": mt.Count(), "paid": mt.Sum("cents", where="cents > 5 or false")},
    )
    found = mt.spark.as_of(labels, events, query, at="when").orderBy("user").toArrow()
    assert found.column_names == ["user", "when", "x y", "hour_n", "hour_paid"]
    assert found["when"].to_pylist() == moments[1:]
    assert found["hour_n"].to_pylist() == [1, 0]
    assert found["hour_paid"].to_pylist() == [None, None]
    alone = mt.Query(time="ts", windows={"w": mt.Tumbling("1 h")}, aggregates={"n": mt.Count()})
    found = mt.spark.as_of(labels.select("when"), events, alone, at="when").toArrow()
    assert sorted(found["w_n"].to_pylist()) == [1, 2]


def test_what_is_refused(spark):
    events = spark.createDataFrame(pa.table({"t": [1, 1], "key": [1, 1], "n": [2**62, 2**62]}))
    labels = spark.createDataFrame(pa.table({"key": [1, 1], "at": [4, None]}))
    windows, aggregates = {"w": mt.Tumbling(50)}, {"n": mt.Sum("n")}
    query = mt.Query(time="t", keys="key", windows=windows, aggregates=aggregates)
    with pytest.raises(ValueError, match="labels have no one column 'when'"):
        mt.spark.as_of(labels, events, query, at="when")
    with pytest.raises(TypeError, match="'key' is string"):
        mt.spark.as_of(labels.withColumn("key", labels.key.cast("string")), events, query, at="at")
    stamped = labels.withColumn("at", labels.at.cast("timestamp"))
    with pytest.raises(TypeError, match="'at' is timestamp"):
        mt.spark.as_of(stamped, events, query, at="at")
    with pytest.raises(ValueError, match="two columns 'w_n'"):
        mt.spark.as_of(labels.withColumnRenamed("at", "w_n"), events, query, at="w_n")
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="events is a stream"):
        mt.spark.as_of(labels, stream, query, at="at")
    with pytest.raises(Exception, match="a label has no time: {'key': 1, 'at': None}"):
        mt.spark.as_of(labels, events, query, at="at").collect()
    with pytest.raises(Exception, match="'n' .sum. does not fit int64 in window 'w'"):
        mt.spark.as_of(labels.na.drop(), events, query, at="at").collect()
