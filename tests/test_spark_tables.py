"""A table kept current: what a reader of it sees is what the definition of updates gives."""

import datetime as dt
import json
import random
import sqlite3
from contextlib import closing
from decimal import Decimal

import pytest

from muntin.spark.upsert import upsert
from tests.patience import ran

SCHEMA = "plug string, window string, start timestamp, end timestamp, kind string, watts double"


def row(plug, minute, kind, watts=None):
    start = dt.datetime(2024, 1, 1, 0, minute, tzinfo=dt.UTC)
    return plug, "minute", start, start + dt.timedelta(minutes=1), kind, watts


@pytest.fixture
def path(tmp_path):
    return tmp_path / "power.db"


@pytest.fixture
def plugs(spark, path):
    """Return a function that writes rows as a micro-batch."""
    write = upsert(path, "plugs", keys="plug")
    return lambda batch_id, *rows: write(spark.createDataFrame(list(rows), SCHEMA), batch_id)


def select(path, statement, *values):
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def current(path):
    statement = "SELECT plug, CAST(substr(start, 15, 2) AS INTEGER), kind, watts FROM plugs"
    return set(select(path, statement))


def test_updates_replace_and_retractions_delete(path, plugs):
    plugs(0, row("a", 0, "result", 1.0), row("a", 1, "result", 2.0), row("b", 0, "result", 3.0))
    plugs(1, row("a", 0, "update", 4.0), row("a", 1, "retract"), row("b", 1, "empty"))
    assert current(path) == {
        ("a", 0, "update", 4.0),
        ("b", 0, "result", 3.0),
        ("b", 1, "empty", None),
    }


def test_of_several_rows_for_a_window_the_last_one_counts(path, plugs):
    plugs(
        0,
        row("a", 0, "result", 1.0),
        row("b", 0, "retract"),
        row("c", 0, "result", 2.0),
        row("a", 0, "retract"),
        row("b", 0, "result", 3.0),
        row("c", 0, "update", 4.0),
    )
    assert current(path) == {("b", 0, "result", 3.0), ("c", 0, "update", 4.0)}


def test_the_last_rows_before_an_end_are_known_by_it_when_late_rows_move_their_start(spark, path):
    schema = "plug string, window string, start long, end timestamp, kind string, watts double"
    write = upsert(path, "plugs", keys="plug")
    ends = [dt.datetime(2024, 1, 1, hour, tzinfo=dt.UTC) for hour in range(3)]

    def last(plug, start, hour, kind, watts):
        return plug, "last 100", start, ends[hour], kind, watts

    def starts():
        return set(select(path, "SELECT plug, start, substr(end, 12, 2), kind, watts FROM plugs"))

    write(
        spark.createDataFrame(
            [
                last("a", 0, 0, "result", 1.0),
                last("a", 5, 1, "result", 2.0),
                last("a", 5, 2, "result", 3.0),
                last("b", 5, 1, "result", 4.0),
                last("a", 6, 2, "update", 5.0),
            ],
            schema,
        ),
        0,
    )
    b, first = ("b", 5, "01", "result", 4.0), ("a", 0, "00", "result", 1.0)
    assert starts() == {first, b, ("a", 5, "01", "result", 2.0), ("a", 6, "02", "update", 5.0)}
    moved = [last("a", 7, 1, "update", 6.0), last("a", 7, 2, "update", 7.0)]
    write(spark.createDataFrame([*moved, last("a", 8, 2, "update", 8.0)], schema), 1)
    assert starts() == {first, b, ("a", 7, "01", "update", 6.0), ("a", 8, "02", "update", 8.0)}


def test_a_micro_batch_that_comes_again_changes_nothing(path, plugs):
    plugs(3, row("a", 0, "result", 1.0))
    plugs(4, row("a", 0, "update", 2.0))
    plugs(3, row("a", 0, "result", 1.0))
    plugs(4, row("a", 0, "retract"))
    assert current(path) == {("a", 0, "update", 2.0)}
    plugs(5, row("a", 0, "update", 3.0))
    assert current(path) == {("a", 0, "update", 3.0)}


def test_a_micro_batch_that_comes_again_is_computed_all_the_same(spark, path):
    computed = spark.sparkContext.accumulator(0)

    def count(batches):
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    rows = spark.createDataFrame([row("a", 0, "result", 1.0)], SCHEMA).mapInArrow(count, SCHEMA)
    write = upsert(path, "plugs", keys="plug")
    write(rows, 0)
    write(rows, 0)
    assert computed.value == 2


def test_a_table_has_its_own_micro_batches(spark, path):
    rows = spark.createDataFrame([row("a", 0, "result", 1.0)], SCHEMA)
    upsert(path, "plugs", keys="plug")(rows, 7)
    upsert(path, "doors", keys="plug")(rows, 0)
    assert select(path, "SELECT count(*) FROM doors") == [(1,)]


def test_null_is_a_key_like_others(path, plugs):
    plugs(0, row(None, 0, "result", 1.0), row("a", 0, "result", 2.0), row(None, 1, "result", 3.0))
    plugs(1, row(None, 0, "update", 4.0), row(None, 1, "retract"))
    assert current(path) == {(None, 0, "update", 4.0), ("a", 0, "result", 2.0)}


@pytest.mark.parametrize("seed", range(3))
def test_random_micro_batches_leave_the_last_row_of_each_window(path, plugs, seed):
    dice = random.Random(seed)
    expected = {}
    for batch_id in range(4):
        rows = [
            row(dice.choice([None, "a", "b"]), dice.randrange(4), kind, float(i))
            for i, kind in enumerate(dice.choices(["result", "update", "retract", "empty"], k=20))
        ]
        plugs(batch_id, *rows)
        expected |= {values[:4]: values for values in rows}
    kept = [values for values in expected.values() if values[4] != "retract"]
    assert current(path) == {(v[0], v[2].minute, v[4], v[5]) for v in kept}


def test_windows_of_counts_and_queries_without_keys(spark, path):
    schema = "window string, start long, end long, kind string, total long"
    write = upsert(path, "totals")
    write(spark.createDataFrame([("w", 0, 9, "result", 1), ("w", 9, 18, "result", 2)], schema), 0)
    write(
        spark.createDataFrame([("v", 0, 9, "result", 3), ("w", 0, 9, "retract", None)], schema), 1
    )
    assert set(select(path, "SELECT * FROM totals")) == {
        ("v", 0, 9, "result", 3),
        ("w", 9, 18, "result", 2),
    }


KINDS_OF_VALUES = [
    ("bigint", 2**62, "INTEGER", 2**62),
    ("boolean", True, "INTEGER", 1),
    ("double", 0.1, "REAL", 0.1),
    ("double", float("nan"), "REAL", "NaN"),
    ("double", float("-inf"), "REAL", float("-inf")),
    ("string", "12", "TEXT", "12"),
    ("binary", b"\x00\xff", "BLOB", b"\x00\xff"),
    ("decimal(38, 18)", Decimal("1.10"), "TEXT", "1.100000000000000000"),
    ("date", dt.date(1969, 12, 31), "TEXT", "1969-12-31"),
    (
        "timestamp",
        dt.datetime(2024, 3, 31, 2, 30, tzinfo=dt.timezone(dt.timedelta(hours=5))),
        "TEXT",
        "2024-03-30T21:30:00.000000+00:00",
    ),
    ("timestamp_ntz", dt.datetime(2024, 3, 31, 2, 30), "TEXT", "2024-03-31T02:30:00.000000"),
    ("array<double>", [1.5, None, float("nan")], "TEXT", '[1.5, null, "NaN"]'),
    ("array<binary>", [b"\xff"], "TEXT", '["ff"]'),
    (
        "struct<at: timestamp, top: array<struct<name: string, n: bigint>>>",
        (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), [("x", 2)]),
        "TEXT",
        '{"at": "2024-01-01T00:00:00.000000+00:00", "top": [{"name": "x", "n": 2}]}',
    ),
]


def test_values_are_stored_by_their_type(spark, path):
    names = [f"c{i}" for i in range(len(KINDS_OF_VALUES))]
    columns = ", ".join(f"{n} {k[0]}" for n, k in zip(names, KINDS_OF_VALUES, strict=True))
    values = tuple(kind[1] for kind in KINDS_OF_VALUES)
    nulls = (None,) * len(values)
    rows = [row("a", 0, "result", 1.0) + values, row("b", 0, "empty") + nulls]
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        write = upsert(path, "t", keys="plug")
        write(spark.createDataFrame(rows, f"{SCHEMA}, {columns}"), 0)
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    types = dict(select(path, "SELECT name, type FROM pragma_table_info('t')"))
    assert [types[name] for name in names] == [kind[2] for kind in KINDS_OF_VALUES]
    [stored, empty] = select(path, f"SELECT {', '.join(names)} FROM t ORDER BY plug")
    assert stored == tuple(kind[3] for kind in KINDS_OF_VALUES)
    assert empty == nulls
    assert json.loads(stored[-1])["top"][0]["n"] == 2
    assert select(path, "SELECT start FROM t")[0] == ("2024-01-01T00:00:00.000000+00:00",)


def test_names_are_quoted(spark, path):
    table, key = 'x"; DROP TABLE y; --', 'the "plug"'
    rows = spark.createDataFrame([row("a", 0, "result", 1.0)], SCHEMA)
    rows = rows.withColumnRenamed("plug", key).withColumnRenamed("watts", "order by")
    write = upsert(path, table, keys=[key])
    write(rows, 0)
    write(rows, 1)
    statement = 'SELECT "the ""plug""", "order by" FROM "x""; DROP TABLE y; --"'
    assert select(path, statement) == [("a", 1.0)]


def test_an_index_finds_the_rows(path, plugs):
    plugs(0, row("a", 0, "result", 1.0))
    where = "plug IS ? AND window IS ? AND start IS ? AND end IS ?"
    plan = select(path, f"EXPLAIN QUERY PLAN DELETE FROM plugs WHERE {where}", *"abcd")
    assert "USING INDEX sqlite_autoindex_plugs_1 (plug=? AND window=?" in plan[0][-1]


def test_a_table_of_other_columns_is_refused(path, plugs):
    select(
        path, 'CREATE TABLE plugs (plug TEXT, "window" TEXT, start INTEGER, kind TEXT, volts REAL)'
    )
    with pytest.raises(ValueError, match="table 'plugs' is not for these rows") as refused:
        plugs(0, row("a", 0, "result", 1.0))
    for difference in (
        "'start' is INTEGER and should be TEXT",
        "'end' is missing and should be TEXT",
        "'watts' is missing and should be REAL",
        "'volts' is REAL and should be left out",
    ):
        assert difference in str(refused.value)
    assert "'plug'" not in str(refused.value)


def test_a_micro_batch_is_written_whole_or_not_at_all(path, plugs):
    columns = 'plug TEXT, "window" TEXT, start TEXT, "end" TEXT, kind TEXT, watts REAL'
    select(path, f"CREATE TABLE plugs ({columns}, CHECK (watts < 100))")
    plugs(0, row("a", 0, "result", 1.0))
    with pytest.raises(sqlite3.IntegrityError):
        plugs(1, row("a", 0, "retract"), row("b", 0, "result", 1.0), row("c", 0, "result", 100.0))
    assert current(path) == {("a", 0, "result", 1.0)}
    plugs(1, row("b", 0, "result", 1.0))
    assert current(path) == {("a", 0, "result", 1.0), ("b", 0, "result", 1.0)}


def test_wrong_rows_are_refused(spark, path, plugs):
    rows = spark.createDataFrame([row("a", 0, "result", 1.0)], SCHEMA)
    with pytest.raises(ValueError, match="have no column 'door': they have 'plug', 'window'"):
        upsert(path, "plugs", keys=["plug", "door"])(rows, 0)
    with pytest.raises(
        ValueError, match="one of result, update, retract, empty, early, got 'deleted'"
    ):
        plugs(0, row("a", 0, "deleted"))
    with pytest.raises(TypeError, match="column 'span' has intervals: cast it"):
        upsert(path, "plugs", "plug")(rows.selectExpr("*", "end - start AS span"), 0)


def test_a_file_in_no_folder_is_refused(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"no folder for the SQLite file .*absent/power\.db"
    ):
        upsert(tmp_path / "absent" / "power.db", "plugs")


def test_spark_delivers_again_after_a_crash_and_anew_with_a_new_checkpoint(spark, path, tmp_path):
    rows = spark.createDataFrame([row("a", 0, "result", 1.0)], SCHEMA)
    rows.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "rows"))

    def run(checkpoint):
        writer = stream.writeStream.foreachBatch(upsert(path, "plugs", keys="plug"))
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        ran(writer.trigger(availableNow=True).start)

    run("first")
    select(path, "UPDATE plugs SET watts = 2.0")
    for name in ("0", ".0.crc"):
        (tmp_path / "first" / "commits" / name).unlink()
    run("first")
    assert current(path) == {("a", 0, "result", 2.0)}
    run("second")
    assert current(path) == {("a", 0, "result", 1.0)}
