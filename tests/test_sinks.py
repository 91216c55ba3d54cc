"""Tables of every kind follow one definition: the last row of each window that was not retracted."""

import datetime as dt
import json
import math
import random
import sqlite3
import sys
from contextlib import closing
from decimal import Decimal

import duckdb
import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable as Delta
from deltalake.table import TableMerger

from muntin.spark.sinks.changes import changes
from muntin.spark.upsert import _table
from tests.kafka_broker import Broker

UTC = dt.UTC
STREAM = "a stream"
ROWS = pa.schema(
    {
        "plug": pa.string(),
        "window": pa.string(),
        "start": pa.timestamp("us", "UTC"),
        "end": pa.timestamp("us", "UTC"),
        "kind": pa.string(),
        "watts": pa.float64(),
    }
)
KINDS = ("result", "update", "retract", "empty", "early", "dropped")


def minute(number):
    return dt.datetime(2024, 1, 1, 0, number, tzinfo=UTC)


def row(plug, number, kind, watts=None):
    return dict(
        zip(
            ROWS.names,
            (plug, "minute", minute(number), minute(number + 1), kind, watts),
            strict=True,
        )
    )


@pytest.fixture(scope="module")
def broker():
    return Broker()


@pytest.fixture(params=["sqlite", "postgres", "delta", "kafka"])
def kind(request):
    return request.param


@pytest.fixture
def place(kind, request, tmp_path):
    """Return where a table of a kind is, and as what a client of its own reads it."""
    if kind == "sqlite":
        return str(tmp_path / "power.db")
    if kind == "delta":
        return f"delta:{tmp_path}/warehouse"
    if kind == "postgres":
        url = request.getfixturevalue("postgres").url
        with psycopg.connect(url) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        return url
    return f"kafka://{request.getfixturevalue('broker').servers}"


@pytest.fixture
def name(request):
    """Return the name of a table: topics of one broker need different ones."""
    return "".join(c if c.isalnum() else "_" for c in request.node.name)[-60:]


def table_at(place, name):
    return _table(place, name, {})


def write(place, name, batch_id, rows, keys=("plug",), query=STREAM):
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), ROWS)
    table_at(place, name).apply(changes(table, keys), query, batch_id)


def read(kind, place, name, request):
    """Return a table's rows as another client reads them."""
    if kind == "sqlite":
        with closing(sqlite3.connect(place)) as connection:
            cursor = connection.execute(f'SELECT * FROM "{name}"')
            columns = [column[0] for column in cursor.description]
            return [dict(zip(columns, values, strict=True)) for values in cursor]
    if kind == "postgres":
        with psycopg.connect(place, row_factory=psycopg.rows.dict_row) as connection:
            return connection.execute(f'SELECT * FROM "{name}"').fetchall()
    if kind == "delta":
        files = Delta(f"{place.removeprefix('delta:')}/{name}").file_uris()
        if not files:
            return []
        found = duckdb.sql("SELECT * FROM read_parquet($1)", params=[files])
        return found.to_arrow_table().to_pylist()
    last = dict(request.getfixturevalue("broker").messages(name))
    for key, value in last.items():
        known = json.loads(key)
        assert value is None or {n: json.loads(value)[n] for n in known} == known
    return [json.loads(value) for value in last.values() if value is not None]


def moment(value):
    return dt.datetime.fromisoformat(value) if isinstance(value, str) else value


def seen(rows, columns=("plug", "start", "kind", "watts")):
    """Return rows as plain tuples that are equal whichever client read them."""
    bounds = ("start", "end")
    return {tuple(moment(r[n]) if n in bounds else r[n] for n in columns) for r in rows}


def defined(batches):
    """Return what the definition gives: the last row of each window that was not retracted."""
    last = {}
    for rows in batches:
        for r in rows:
            if r["kind"] != "dropped":
                last[r["plug"], r["window"], r["start"], r["end"]] = r
    return [r for r in last.values() if r["kind"] != "retract"]


@pytest.fixture
def current(kind, place, name, request):
    return lambda: read(kind, place, name, request)


@pytest.mark.parametrize("seed", range(3))
def test_random_micro_batches_leave_the_last_row_of_each_window(place, name, current, seed):
    dice, batches = random.Random(seed), []
    for batch_id in range(5):
        rows = [
            row(dice.choice([None, "a", "b"]), dice.randrange(4), kind, float(i))
            for i, kind in enumerate(dice.choices(KINDS, k=20))
        ]
        batches.append(rows)
        write(place, name, batch_id, rows)
        if dice.random() < 0.5:  # as after a crash between the write and Spark's own commit
            write(place, name, batch_id, rows, query=dice.choice([STREAM, None]))
    assert seen(current()) == seen(defined(batches))
    assert len(current()) == len(defined(batches))


def test_a_micro_batch_of_nothing_or_of_dropped_rows_only(place, name, current, kind):
    write(place, name, 0, [row("a", 0, "dropped")])
    write(place, name, 1, [])
    assert kind == "kafka" or current() == []
    write(place, name, 2, [row("a", 0, "early", 1.0)])
    write(place, name, 3, [row("a", 0, "result", 2.0), row("a", 1, "dropped")])
    assert seen(current()) == {("a", minute(0), "result", 2.0)}


def test_a_micro_batch_that_was_taken_is_known_by_its_number_and_stream(place, name, current, kind):
    write(place, name, 4, [row("a", 0, "result", 1.0)])
    write(place, name, 4, [row("a", 0, "result", 2.0)])
    again = (
        2.0 if kind == "kafka" else 1.0
    )  # a topic takes it again; Spark would give the same rows
    assert seen(current()) == {("a", minute(0), "result", again)}
    write(place, name, 0, [row("a", 0, "result", 3.0)], query="a new checkpoint")
    assert seen(current()) == {("a", minute(0), "result", 3.0)}


MEASURED = pa.schema(
    {
        "window": pa.string(),
        "start": pa.timestamp("us", "UTC"),
        "end": pa.timestamp("us", "UTC"),
        "start_measure": pa.int64(),
        "end_measure": pa.int64(),
        "kind": pa.string(),
        "n": pa.int64(),
    }
)


def test_windows_of_rows_and_of_time_in_one_table(place, name, current):
    def measured(window, start, end, first, behind, kind, n):
        times = [None if number is None else minute(number) for number in (start, end)]
        return dict(zip(MEASURED.names, (window, *times, first, behind, kind, n), strict=True))

    first = [
        measured("ten rows", None, None, 0, 10, "result", 1),
        measured("ten rows", None, None, 10, 20, "result", 2),
        measured("last", None, 5, 3, None, "result", 3),
        measured("fired", 1, 4, 0, 7, "result", 4),
        measured("hour", 0, 5, None, None, "result", 5),
        measured("hour", 1, 5, None, None, "result", 6),
    ]
    then = [
        measured("ten rows", None, None, 10, 20, "retract", None),
        measured("last", None, 5, 4, None, "update", 30),
        measured("fired", 2, 5, 0, 7, "update", 40),
        measured("hour", 1, 5, None, None, "update", 60),
    ]
    for batch_id, rows in enumerate((first, then, then)):
        write(place, name, batch_id, pa.Table.from_pylist(rows, MEASURED), keys=())
    columns = ("window", "start", "end", "start_measure", "end_measure", "n")
    assert seen(current(), columns) == {
        ("ten rows", None, None, 0, 10, 1),
        ("last", None, minute(5), 4, None, 30),
        ("fired", minute(2), minute(5), 0, 7, 40),
        ("hour", minute(0), minute(5), None, None, 5),
        ("hour", minute(1), minute(5), None, None, 60),
    }


def test_the_last_rows_are_known_by_their_end_where_their_start_is_a_number(place, name, current):
    schema = {"plug": pa.string(), "window": pa.string(), "start": pa.int64(), "end": pa.int64()}
    schema = pa.schema({**schema, "kind": pa.string(), "n": pa.int64()})

    def batch(*rows):
        return pa.Table.from_pylist([dict(zip(schema.names, r, strict=True)) for r in rows], schema)

    write(place, name, 0, batch(("a", "l", 5, 9, "result", 1), ("a", "l", 6, 12, "result", 2)))
    write(place, name, 1, batch(("a", "l", 6, 9, "update", 3), ("a", "l", 7, 9, "update", 4)))
    found = {(r["start"], r["end"], r["n"]) for r in current()}
    assert found == {(7, 9, 4), (6, 12, 2)}


VALUES = {
    "bigint": (pa.int64(), 2**62),
    "small": (pa.int8(), -128),
    "flag": (pa.bool_(), True),
    "real": (pa.float32(), 0.5),
    "nan": (pa.float64(), math.nan),
    "low": (pa.float64(), -math.inf),
    "text": (pa.string(), 'it\'s \\ "7"\t\N{SNOWMAN}'),
    "bytes": (pa.binary(), b"\x00\xff"),
    "money": (pa.decimal128(38, 18), Decimal("1.100000000000000001")),
    "day": (pa.date32(), dt.date(1969, 12, 31)),
    "at": (pa.timestamp("us", "UTC"), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    "plain": (pa.timestamp("us"), dt.datetime(2024, 3, 31, 2, 30)),
    "list": (pa.list_(pa.float64()), [1.5, None, math.inf]),
    "parts": (
        pa.struct({"n": pa.int64(), "of": pa.list_(pa.string())}),
        {"n": 2, "of": ["x", None]},
    ),
}
AS_TEXT = {
    "nan": "NaN",
    "low": "-Infinity",
    "bytes": "00ff",
    "money": "1.100000000000000001",
    "day": "1969-12-31",
    "at": "1969-12-31T23:59:59.999999+00:00",
    "plain": "2024-03-31T02:30:00.000000",
    "list": [1.5, None, "Infinity"],
}
WANTED = {
    "sqlite": {
        **AS_TEXT,
        "low": -math.inf,
        "bytes": b"\x00\xff",
        "flag": 1,
        "list": '[1.5, null, "Infinity"]',
        "parts": '{"n": 2, "of": ["x", null]}',
    },
    "postgres": {"list": [1.5, None, "Infinity"]},
    "delta": {},
    "kafka": AS_TEXT,
}


def test_values_come_back_as_they_were_or_as_the_guide_says(place, name, current, kind):
    rows = pa.Table.from_pylist([row("a", 0, "result", 1.0), row("b", 0, "empty")], ROWS)
    for column, (type_, value) in VALUES.items():
        rows = rows.append_column(column, pa.array([value, None], type_))
    write(place, name, 0, rows)
    write(place, name, 1, rows)
    [full] = [r for r in current() if r["plug"] == "a"]
    [empty] = [r for r in current() if r["plug"] == "b"]
    plain = {column: value for column, (_, value) in VALUES.items()}
    for column, value in (plain | WANTED[kind]).items():
        found = full[column]
        assert found == value or (value != value and found != found), column
        assert empty[column] is None, column


KEYS = [
    (pa.float64(), [math.nan, 0.0, math.inf, None]),
    (pa.decimal128(20, 4), [Decimal("1.1"), Decimal(-5), None]),
    (pa.binary(), [b"\x00", b"", None]),
    (pa.bool_(), [True, False, None]),
    (pa.date32(), [dt.date(2024, 1, 1), None]),
    (pa.timestamp("us", "UTC"), [minute(3), None]),
    (pa.string(), ["", "null", 'a"b', "\N{SNOWMAN}", None]),
]


@pytest.mark.parametrize(("type_", "values"), KEYS, ids=str)
def test_keys_of_every_type_are_found_again(place, name, current, type_, values):
    schema = ROWS.remove(0).insert(0, pa.field('the "key"', type_))
    for batch_id, (kind, watts) in enumerate([("result", 1.0), ("update", 2.0)]):
        rows = [{**row(None, 0, kind, watts), 'the "key"': value} for value in values]
        write(place, name, batch_id, pa.Table.from_pylist(rows, schema), keys=('the "key"',))
    assert [r["watts"] for r in current()] == [2.0] * len(values)
    gone = [{**row(None, 0, "retract"), 'the "key"': value} for value in values[1:]]
    write(place, name, 2, pa.Table.from_pylist(gone, schema), keys=('the "key"',))
    assert len(current()) == 1


def test_a_table_of_other_columns_is_refused_and_stays(place, name, current, kind):
    if kind == "kafka":
        return  # a topic has no columns
    write(place, name, 0, [row("a", 0, "result", 1.0)])
    other = pa.Table.from_pylist([row("a", 1, "result", 1.0)], ROWS)
    other = other.rename_columns([*ROWS.names[:-1], "volts"])
    with pytest.raises(
        ValueError, match=f"table '{name}' is not for these rows.*'watts' is .*left"
    ):
        write(place, name, 1, other)
    assert seen(current()) == {("a", minute(0), "result", 1.0)}


def test_intervals_are_refused_by_name(place, name, kind):
    rows = pa.Table.from_pylist([row("a", 0, "result", 1.0)], ROWS)
    rows = rows.append_column("span", pa.array([dt.timedelta(1)], pa.duration("us")))
    if kind != "kafka":
        with pytest.raises(TypeError, match="column 'span' has intervals: cast it"):
            write(place, name, 0, rows)


# Crashes


def test_postgres_has_all_or_nothing_of_a_micro_batch_that_fails_at_its_commit(postgres, name):
    write(postgres.url, name, 0, [row("a", 0, "result", 1.0), row("b", 0, "result", 1.0)])
    refuse = f"""
        CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN RAISE 'power cut'; END $$ LANGUAGE plpgsql;
        CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON "{name}" DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION refuse()"""
    batch = [row("a", 0, "update", 2.0), row("b", 0, "retract"), row("c", 0, "result", 3.0)]
    with psycopg.connect(postgres.url) as connection:
        connection.execute(refuse)
    with pytest.raises(psycopg.errors.RaiseException, match="power cut"):
        write(postgres.url, name, 1, batch)
    with psycopg.connect(postgres.url) as connection:
        rows = connection.execute(f'SELECT plug, watts FROM "{name}" ORDER BY 1').fetchall()
        assert rows == [("a", 1.0), ("b", 1.0)]
        connection.execute("DROP FUNCTION refuse CASCADE")
    write(postgres.url, name, 1, batch)
    with psycopg.connect(postgres.url) as connection:
        rows = connection.execute(f'SELECT plug, watts FROM "{name}" ORDER BY 1').fetchall()
    assert rows == [("a", 2.0), ("c", 3.0)]


def test_a_server_that_was_killed_has_what_was_committed(postgres, name):
    write(postgres.url, name, 0, [row("a", 0, "result", 1.0)])
    postgres.kill()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        write(postgres.url, name, 1, [row("a", 0, "update", 2.0)])
    postgres.start()
    write(postgres.url, name, 0, [row("a", 0, "retract")])
    write(postgres.url, name, 1, [row("a", 0, "update", 2.0)])
    with psycopg.connect(postgres.url) as connection:
        assert connection.execute(f'SELECT watts FROM "{name}"').fetchall() == [(2.0,)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_writer_that_dies_around_the_commit_of_a_delta_table(tmp_path, when, monkeypatch):
    place, execute = f"delta:{tmp_path}", TableMerger.execute
    write(place, "plugs", 0, [row("a", 0, "result", 1.0), row("b", 0, "result", 1.0)])
    batch = [row("a", 0, "update", 2.0), row("b", 0, "retract")]

    def dies(merge):
        if when == "after":
            execute(merge)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(TableMerger, "execute", dies)
        with pytest.raises(KeyboardInterrupt):
            write(place, "plugs", 1, batch)
    version = Delta(str(tmp_path / "plugs")).version()
    write(place, "plugs", 1, batch)
    after = Delta(str(tmp_path / "plugs"))
    assert after.version() - version == (0 if when == "after" else 1)
    assert after.transaction_version(f"muntin {STREAM}") == 1
    found = duckdb.execute("SELECT plug, watts FROM read_parquet($1)", [after.file_uris()])
    assert found.fetchall() == [("a", 2.0)]


def test_messages_that_do_not_arrive_are_an_error_and_are_sent_again(broker, name):
    nowhere = _table("kafka://127.0.0.1:1", name, {"message.timeout.ms": "100", "log_level": "0"})
    batch = pa.Table.from_pylist([row("a", 0, "result", 1.0), row("b", 0, "retract")], ROWS)
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1 did not take all 2 messages.*again"):
        nowhere.apply(changes(batch, ("plug",)), STREAM, 0)
    for _ in range(2):  # a producer that died half way sends all of them again
        write(f"kafka://{broker.servers}", name, 0, batch)
    found = broker.messages(name)
    assert len(found) == 4
    start, end = "2024-01-01T00:00:00.000000+00:00", "2024-01-01T00:01:00.000000+00:00"
    known = {"plug": "b", "window": "minute", "end": end, "start": start}
    assert dict(found)[json.dumps(known).encode()] is None


# What is asked for


@pytest.mark.parametrize(
    ("place", "options", "error", "told"),
    [
        ("mysql://host/power", {}, ValueError, "no tables to keep current at mysql://"),
        ("jdbc:postgresql://h/power", {}, ValueError, "no tables to keep current at jdbc://"),
        ("power.db", {"a": "b"}, ValueError, "options are for Delta tables and Kafka, got 'a'"),
        ("kafka://", {}, ValueError, "has no servers: write it like kafka://host:9092"),
        ("postgresql://u:pa@ss@h:x/d?y=1", {}, ValueError, "write it like postgresql://user@host"),
        ("nowhere/power.db", {}, FileNotFoundError, "no folder for the SQLite file"),
    ],
)
def test_places_that_are_none_are_refused_at_once(place, options, error, told):
    with pytest.raises(error, match=told) as refused:
        _table(place, "plugs", options)
    assert "ss@" not in str(refused.value)


def test_options_of_the_client_reach_it_and_secrets_stay_secret(broker, name):
    wrong = {"sasl.password": "s3cret", "no.such.option": "s3cret"}
    with pytest.raises(ValueError, match="does not take its options: .*no.such.option") as refused:
        _table(f"kafka://{broker.servers}", name, wrong).apply(
            changes(pa.Table.from_pylist([row("a", 0, "result")], ROWS), ("plug",)), STREAM, 0
        )
    assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(_table("kafka://h", name, wrong))
    assert "pw" not in repr(_table("postgresql://u:pw@h/d", name, {}))


@pytest.mark.parametrize(
    ("package", "place", "told"),
    [
        ("psycopg", "postgresql://h/d", r'pip install "muntin\[postgres\]"'),
        ("deltalake", "delta:here", r'pip install "muntin\[delta\]"'),
        ("confluent_kafka", "kafka://h", r'pip install "muntin\[kafka\]"'),
    ],
)
def test_a_missing_package_is_told_before_the_start(monkeypatch, package, place, told):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=told):
        _table(place, "plugs", {})
