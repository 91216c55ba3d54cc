"""A table kept current from a query's results: updates replace rows, retractions delete them.

A row is known by its keys, window, start and end, or by `end_measure` if it has one, which a window of
rows or along a column has in a query with windows of time too. Only the last n rows before an end are
known by that end: late rows move their start, and then the update is of a row that is not in the table.
It takes the place of the row with its end. Of the rows of one micro-batch that concern the same window
the last one counts: they come from one shard, hence from one partition of Spark's, and toArrow gives
partitions whole and in order. What a micro-batch changes and its number are written in one transaction,
so that a crash leaves both or neither, and a micro-batch that comes again is known.
"""

import json
import math
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date, datetime, time
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import DataFrame

IDENTITY = ("window", "end", "start")  # in the order of the table's index
MEASURE = "end_measure"
KINDS = ("result", "update", "retract", "empty", "early")
BATCHES = "muntin_batches"
QUERY_ID = "sql.streaming.queryId"  # where Spark has the id that a checkpoint keeps


def upsert(
    path: str | PathLike[str], table: str, keys: str | Sequence[str] = ()
) -> Callable[[DataFrame, int], None]:
    """Return a function for foreachBatch that keeps a table of an SQLite file current.

    results.writeStream.foreachBatch(upsert("power.db", "plugs", keys="plug")).start()

    The table is made at the first micro-batch. Times are text in ISO 8601 and UTC, decimals are text,
    lists and structs are JSON, and NaN, which SQLite has not, is the text 'NaN'. Give it the rows as
    the query gives them: after a repartition their order is gone. Cost: O(rows log table), and memory
    for the rows of one micro-batch.
    """
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder for the SQLite file {str(path)!r}: make it")

    def write(batch: DataFrame, batch_id: int) -> None:
        rows = batch.toArrow()  # also if they are in the table: Spark's state goes on from them
        query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID) or ""
        with closing(sqlite3.connect(path, isolation_level=None)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            if _is_new(connection, (table, query), batch_id):
                _apply(connection, table, names, rows)

    return write


def _is_new(connection: sqlite3.Connection, of: tuple[str, str], batch_id: int) -> bool:
    """Whether a micro-batch is not in the table yet; from now on it is."""
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {BATCHES} "
        "(table_name TEXT, query TEXT, batch_id INTEGER, PRIMARY KEY (table_name, query))"
    )
    last = f"SELECT batch_id FROM {BATCHES} WHERE table_name = ? AND query = ?"
    if any(batch_id <= written for (written,) in connection.execute(last, of)):
        return False
    connection.execute(f"INSERT OR REPLACE INTO {BATCHES} VALUES (?, ?, ?)", (*of, batch_id))
    return True


def _apply(
    connection: sqlite3.Connection, table: str, keys: tuple[str, ...], rows: pa.Table
) -> None:
    measured = [MEASURE] if MEASURE in rows.column_names else []
    identity = (*keys, IDENTITY[0], *measured, *IDENTITY[1:])
    for name in (*identity, "kind"):
        if name not in rows.column_names:
            there = ", ".join(map(repr, rows.column_names))
            raise ValueError(
                f"the rows for table {table!r} have no column {name!r}: it has {there}"
            )
    _prepare(connection, table, identity, {field.name: _type(field) for field in rows.schema})
    columns = {name: _values(rows.column(name)) for name in rows.column_names}
    there = f"DELETE FROM {_quoted(table)} WHERE "
    asks = [f"{_quoted(name)} IS ?" for name in identity]  # also nulls
    by_all, by_end = (there + " AND ".join(some) for some in (asks, asks[:-1]))
    by_measure, count = there + " AND ".join(asks[:-2]), len(identity) - 2
    into = f"INSERT INTO {_quoted(table)} ({', '.join(map(_quoted, columns))}) "
    into += f"VALUES ({', '.join('?' * len(columns))})"
    identities = zip(*(columns[name] for name in identity), strict=True)
    values = zip(*columns.values(), strict=True)
    for kind, known, row in zip(columns["kind"], identities, values, strict=True):
        if kind not in KINDS:
            raise ValueError(f"the kind of a row is one of {', '.join(KINDS)}, got {kind!r}")
        if measured and known[count - 1] is not None:
            connection.execute(by_measure, known[:count])
        elif not connection.execute(by_all, known).rowcount and kind == "update":
            connection.execute(by_end, known[:-1])
        if kind != "retract":
            connection.execute(into, row)


def _prepare(
    connection: sqlite3.Connection, table: str, identity: tuple[str, ...], wanted: dict[str, str]
) -> None:
    """Make the table, or check that the one there has the columns that are needed."""
    there = dict(connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)))
    if not there:
        columns = [f"{_quoted(name)} {kind}" for name, kind in wanted.items()]
        key = f"PRIMARY KEY ({', '.join(map(_quoted, identity))})"  # for its index: nulls pass
        connection.execute(f"CREATE TABLE {_quoted(table)} ({', '.join([*columns, key])})")
        return
    differ = [
        f"{name!r} is {there.get(name, 'missing')} and should be {wanted.get(name, 'left out')}"
        for name in {**wanted, **there}
        if there.get(name) != wanted.get(name)
    ]
    if differ:
        raise ValueError(
            f"table {table!r} is not for these rows: {'; '.join(differ)}. Choose another name, or drop "
            "the table and start with a new checkpoint"
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _type(field: pa.Field) -> str:
    kind = field.type
    if kinds.is_integer(kind) or kinds.is_boolean(kind):
        return "INTEGER"
    if kinds.is_floating(kind):
        return "REAL"
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return "BLOB"
    if kinds.is_duration(kind):
        raise TypeError(f"column {field.name!r} has intervals: cast it to a number or a string")
    return "TEXT"


def _values(column: pa.ChunkedArray) -> list[Any]:
    values = [_plain(value) for value in column.to_pylist()]
    if not kinds.is_nested(column.type):
        return values
    return [None if value is None else json.dumps(value, default=bytes.hex) for value in values]


def _plain(value: Any) -> Any:
    """Return a value that SQLite and JSON have."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")  # toArrow gives them in UTC
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return str(value) if isinstance(value, date | time | Decimal) else value
