"""A table of an SQLite file that takes changes.

Changes and the number of their micro-batch are written in one transaction: a crash leaves both or
neither. Times are text in ISO 8601 and UTC, decimals are text, lists and structs are JSON.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import types as kinds

from muntin.spark.sinks.changes import Changes, check_columns
from muntin.spark.sinks.plain_values import plain_values

BATCHES = "muntin_batches"


@dataclass(frozen=True)
class SqliteTable:
    """A table of a file, which are both made if they are missing."""

    path: str
    table: str

    def __post_init__(self) -> None:
        if not Path(self.path).absolute().parent.is_dir():
            raise FileNotFoundError(
                f"there is no folder for the SQLite file {self.path!r}: make it"
            )

    def apply(self, changes: Changes, query: str | None, batch_id: int) -> None:
        with (
            closing(sqlite3.connect(self.path, isolation_level=None)) as connection,
            connection,
        ):
            connection.execute("BEGIN IMMEDIATE")
            if _is_new(connection, (self.table, query), batch_id):
                self._apply(connection, changes)

    def _apply(self, connection: sqlite3.Connection, changes: Changes) -> None:
        rows = changes.rows
        _prepare(connection, self.table, changes.known.column_names, rows.schema)
        for part in changes.parts():
            asks = [f"{quoted(name)} = ?" for name in part.columns]
            asks += [f"{quoted(name)} IS NULL" for name in part.nulls]
            chosen = changes.known.take(part.places)
            known = zip(*(plain_values(chosen[name]) for name in part.columns), strict=True)
            delete = f"DELETE FROM {quoted(self.table)} WHERE {' AND '.join(asks)}"
            connection.executemany(delete, known)
        stay = changes.stay
        into = f"INSERT INTO {quoted(self.table)} ({', '.join(map(quoted, stay.column_names))}) "
        into += f"VALUES ({', '.join('?' * stay.num_columns)})"
        connection.executemany(into, zip(*map(plain_values, stay.columns), strict=True))


def _is_new(connection: sqlite3.Connection, of: tuple[str, str | None], batch_id: int) -> bool:
    """Whether a micro-batch is not in the table yet; from now on it is."""
    if of[1] is None:
        return True
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {BATCHES} "
        "(table_name TEXT, query TEXT, batch_id INTEGER, PRIMARY KEY (table_name, query))"
    )
    last = f"SELECT batch_id FROM {BATCHES} WHERE table_name = ? AND query = ?"
    if any(batch_id <= written for (written,) in connection.execute(last, of)):
        return False
    connection.execute(f"INSERT OR REPLACE INTO {BATCHES} VALUES (?, ?, ?)", (*of, batch_id))
    return True


def _prepare(
    connection: sqlite3.Connection, table: str, known: list[str], schema: pa.Schema
) -> None:
    """Make the table, or check that the one there has the columns that are needed."""
    wanted = {field.name: _type(field) for field in schema}
    there = dict(connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)))
    if there:
        check_columns(table, there, wanted)
        return
    columns = [f"{quoted(name)} {kind}" for name, kind in wanted.items()]
    key = f"PRIMARY KEY ({', '.join(map(quoted, known))})"  # for its index: nulls pass
    connection.execute(f"CREATE TABLE {quoted(table)} ({', '.join([*columns, key])})")


def quoted(name: str) -> str:
    """Return a name as SQL has it, whatever is in it."""
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
