"""A Delta table that takes changes, through the package deltalake and without a jar.

A micro-batch is one MERGE, and its commit has the number of the micro-batch: a crash leaves both or
neither. Cost: O(table) at worst, as MERGE looks for rows in all files that may have them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from muntin.spark.sinks.changes import END, MEASURE, START, Changes, check_columns

GONE, KNOWN = "muntin_gone", "muntin_known_"


def deltalake() -> Any:
    """Return the package, or say how to install it."""
    try:
        import deltalake
    except ImportError as error:
        raise ModuleNotFoundError(
            'a Delta table needs deltalake: pip install "muntin[delta]"'
        ) from error
    return deltalake


@dataclass(frozen=True)
class DeltaTable:
    """A Delta table in a folder or behind an address; `options` are those of its storage."""

    place: str = field(repr=False)
    table: str
    options: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        deltalake()

    @property
    def address(self) -> str:
        """Where the table is."""
        return f"{self.place.rstrip('/')}/{self.table}"

    def apply(self, changes: Changes, query: str | None, batch_id: int) -> None:
        delta = deltalake()
        table = self._opened(changes.rows.schema)
        if not changes.rows.num_rows:
            return
        application, properties = f"muntin {query}", None
        if query is not None:
            written = table.transaction_version(application)
            if written is not None and batch_id <= written:
                return
            transaction = delta.Transaction(application, batch_id)
            properties = delta.CommitProperties(app_transactions=[transaction])
        merge = table.merge(
            _source(changes),
            predicate=" AND ".join(map(_condition, self._known(changes))),
            source_alias="s",
            target_alias="t",
            commit_properties=properties,
        )
        values = {f"t.{quoted(n)}": f"s.{quoted(n)}" for n in changes.rows.column_names}
        merge.when_matched_delete(f"s.{GONE}").when_matched_update(values).when_not_matched_insert(
            values, predicate=f"NOT s.{GONE}"
        ).execute()

    def _opened(self, schema: pa.Schema) -> Any:
        """Return the table, which is made if it is missing."""
        delta = deltalake()
        for name in schema.names:
            _check_type(schema.field(name))
        given = {"storage_options": dict(self.options) or None}
        if not delta.DeltaTable.is_deltatable(self.address, **given):
            return delta.DeltaTable.create(self.address, schema, mode="ignore", **given)
        table = delta.DeltaTable(self.address, **given)
        wanted = delta.Schema.from_arrow(schema)
        check_columns(self.table, _types(table.schema()), _types(wanted))
        return table

    def _known(self, changes: Changes) -> list[tuple[str, str]]:
        """Return by which columns rows are known, and what these are in the table."""
        names = changes.known.column_names
        bounds = {END, START} if MEASURE in names else set()
        by_end = f"CASE WHEN t.{quoted(MEASURE)} IS NULL THEN t."
        return [
            (name, f"{by_end}{quoted(name)} END" if name in bounds else f"t.{quoted(name)}")
            for name in names
        ]


def _source(changes: Changes) -> pa.Table:
    """Return the rows with what they are known by, and whether they are to go."""
    table = changes.rows
    for name in changes.known.column_names:
        table = table.append_column(KNOWN + name, changes.known[name])
    return table.append_column(GONE, changes.gone)


def _condition(known: tuple[str, str]) -> str:
    name, there = known
    return f"({there} IS NOT DISTINCT FROM s.{quoted(KNOWN + name)})"


def quoted(name: str) -> str:
    """Return a name as it is written in a predicate."""
    return '"' + name.replace('"', '""') + '"'


def _types(schema: Any) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema.fields}


def _check_type(field: pa.Field) -> None:
    if kinds.is_duration(field.type):
        raise TypeError(f"column {field.name!r} has intervals: cast it to a number or a string")
