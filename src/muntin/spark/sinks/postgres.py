"""A table of PostgreSQL that takes changes.

A micro-batch is one transaction: its rows are copied into a temporary table, rows of their windows are
deleted, those that stay are inserted, and the number of the micro-batch is written. A crash leaves all
of it or nothing.
"""

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from muntin.spark.sinks.changes import Changes, Part, check_columns
from muntin.spark.sinks.plain_values import nested_as_json

BATCHES = "muntin_batches"
CHANGES, PART, GONE = "muntin_changes", "muntin_part", "muntin_gone"
LOCK = 0x6D756E74696E  # "muntin": of who makes the table BATCHES
TYPES: dict[Any, str] = {
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
}
"""What PostgreSQL calls a type itself."""


def psycopg() -> Any:
    """Return the client's package, or say how to install it."""
    try:
        import psycopg
    except ImportError as error:
        raise ModuleNotFoundError(
            'a table of PostgreSQL needs psycopg: pip install "muntin[postgres]"'
        ) from error
    return psycopg


@dataclass(frozen=True)
class PostgresTable:
    """A table at an address, `postgresql://user@host/database`; it is made if it is missing."""

    address: str = field(repr=False)
    table: str

    def __post_init__(self) -> None:
        client = psycopg()
        try:
            client.conninfo.conninfo_to_dict(self.address)
        except client.ProgrammingError:
            raise ValueError(
                "the address of PostgreSQL is not one: write it like postgresql://user@host/database, "
                "and special characters of a password as %XX"
            ) from None  # its text may have a part of the password

    def apply(self, changes: Changes, query: str | None, batch_id: int) -> None:
        with (
            closing(psycopg().connect(self.address)) as connection,  # also if the commit fails
            connection.transaction(),
            connection.cursor() as cursor,
        ):
            if _is_new(cursor, (self.table, query), batch_id):
                self._apply(cursor, changes)

    def _apply(self, cursor: Any, changes: Changes) -> None:
        sql = psycopg().sql
        table = sql.Identifier(*self.table.split("."))
        wanted = {field.name: _type(field) for field in changes.rows.schema}
        self._prepare(cursor, table, changes.known.column_names, wanted)
        _copy(cursor, changes, wanted)
        for number, part in enumerate(changes.parts()):
            delete = sql.SQL("DELETE FROM {} AS t USING {} AS c WHERE c.{} = {} AND {}")
            known = sql.SQL(" AND ").join(_conditions(part))
            here = (*map(sql.Identifier, (CHANGES, PART)), sql.Literal(number))
            cursor.execute(delete.format(table, *here, known))
        columns = sql.SQL(", ").join(map(sql.Identifier, wanted))
        insert = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} AS c WHERE NOT c.{}")
        names = (sql.Identifier(CHANGES), sql.Identifier(GONE))
        cursor.execute(insert.format(table, columns, columns, *names))

    def _prepare(self, cursor: Any, table: Any, known: list[str], wanted: dict[str, str]) -> None:
        """Make the table, or check that the one there has the columns that are needed."""
        sql = psycopg().sql
        there = dict(
            cursor.execute(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
                "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
                (table.as_string(cursor),),
            ).fetchall()
        )
        if there:
            check_columns(self.table, there, wanted)
            return
        cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(table, _columns(wanted)))
        columns = sql.SQL(", ").join(map(sql.Identifier, known))
        cursor.execute(sql.SQL("CREATE INDEX ON {} ({})").format(table, columns))


def _is_new(cursor: Any, of: tuple[str, str | None], batch_id: int) -> bool:
    """Whether a micro-batch is not in the table yet; from now on it is.

    Two streams that are the same wait for each other here.
    """
    if of[1] is None:
        return True
    if cursor.execute("SELECT to_regclass(%s)", (BATCHES,)).fetchone()[0] is None:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {BATCHES} "
            "(table_name text, query text, batch_id bigint, PRIMARY KEY (table_name, query))"
        )
    cursor.execute(
        f"INSERT INTO {BATCHES} AS there VALUES (%s, %s, %s) ON CONFLICT (table_name, query) "
        "DO UPDATE SET batch_id = excluded.batch_id WHERE there.batch_id < excluded.batch_id",
        (*of, batch_id),
    )
    return bool(cursor.rowcount)


def _copy(cursor: Any, changes: Changes, wanted: dict[str, str]) -> None:
    """Copy the rows into a temporary table, each with its part and whether it is to go."""
    sql = psycopg().sql
    rows = changes.rows
    parts = [0] * rows.num_rows
    for number, part in enumerate(changes.parts()):
        for place in part.places.to_pylist():
            parts[place] = number
    own = sql.SQL("{} integer, {} boolean").format(*map(sql.Identifier, (PART, GONE)))
    create = sql.SQL("CREATE TEMPORARY TABLE {} ({}, {}) ON COMMIT DROP")
    cursor.execute(create.format(sql.Identifier(CHANGES), _columns(wanted), own))
    values = [_values(column) for column in rows.columns]
    with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(CHANGES))) as copy:
        for row in zip(*values, parts, changes.gone.to_pylist(), strict=True):
            copy.write_row(row)
    cursor.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(CHANGES)))


def _columns(wanted: dict[str, str]) -> Any:
    sql = psycopg().sql
    columns = [sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(k)) for n, k in wanted.items()]
    return sql.SQL(", ").join(columns)


def _conditions(part: Part) -> list[Any]:
    sql = psycopg().sql
    equal = [sql.SQL("t.{0} = c.{0}").format(sql.Identifier(name)) for name in part.columns]
    return equal + [sql.SQL("t.{} IS NULL").format(sql.Identifier(name)) for name in part.nulls]


def _values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return nested_as_json(values) if kinds.is_nested(column.type) else values


def _type(field: pa.Field) -> str:
    kind = field.type
    if kinds.is_duration(kind):
        raise TypeError(f"column {field.name!r} has intervals: cast it to a number or a string")
    if kinds.is_timestamp(kind):
        return f"timestamp {'with' if kind.tz else 'without'} time zone"
    if kinds.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return "bytea"
    if kinds.is_nested(kind):
        return "jsonb"
    return TYPES.get(kind, "text")
