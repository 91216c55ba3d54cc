"""A table kept current from a query's results: updates replace rows, retractions delete them."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from pyspark.sql import DataFrame

from muntin.spark.sinks.changes import Table, changes
from muntin.spark.sinks.delta import DeltaTable
from muntin.spark.sinks.kafka import KafkaTable
from muntin.spark.sinks.postgres import PostgresTable
from muntin.spark.sinks.sqlite import SqliteTable

QUERY_ID = "sql.streaming.queryId"  # where Spark has the id that a checkpoint keeps
ADDRESSES = ("postgresql://user@host/database", "delta:folder", "kafka://host:9092")


def upsert(
    place: str | PathLike[str],
    table: str,
    keys: str | Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for foreachBatch that keeps a table current.

    results.writeStream.foreachBatch(upsert("power.db", "plugs", keys="plug")).start()

    A table is made at its first micro-batch, and a micro-batch that Spark delivers again leaves it as it
    is. Give the function the rows as the query gives them: after a repartition their order is gone.
    Cost: memory for the rows of one micro-batch; see the guide for what each kind of table does.

    place: the path of an SQLite file; `postgresql://user@host/database`; `delta:` before the folder or
        address that has the Delta table; or `kafka://host:9092`.
    table: the name of the table, of the Delta table's folder, or of the topic.
    keys: the keys of the query.
    options: of a Delta table's storage or of Kafka's client, such as credentials.

    >>> upsert("mysql://host/power", "plugs")
    Traceback (most recent call last):
    ...
    ValueError: there are no tables to keep current at mysql://...: write the path of ...
    """
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    kept = _table(fspath(place), table, dict(options or {}))

    def write(batch: DataFrame, batch_id: int) -> None:
        rows = batch.toArrow()  # also if they are in the table: Spark's state goes on from them
        kept.apply(changes(rows, names), query_id(batch.sparkSession), batch_id)

    return write


def _table(place: str, table: str, options: dict[str, str]) -> Table:
    """Return the table that a place and a name mean."""
    scheme, colon, rest = place.partition(":")
    if scheme == "delta" and colon:
        return DeltaTable(rest, table, options)
    if scheme == "kafka" and colon:
        return KafkaTable(rest.removeprefix("//"), table, options)
    if options:
        raise ValueError(
            f"options are for Delta tables and Kafka, got {', '.join(map(repr, options))}: leave them "
            "out, or write them into the address"
        )
    if scheme in ("postgresql", "postgres") and colon:
        return PostgresTable(place, table)
    if "://" in place or scheme == "jdbc":
        raise ValueError(
            f"there are no tables to keep current at {scheme}://...: write the path of an SQLite file, "
            f"or an address like {', '.join(ADDRESSES)}"
        )
    return SqliteTable(place, table)


def query_id(session: Any) -> str | None:
    """Return the id of the stream that the checkpoint keeps; None where Spark Connect has it.

    Without one a micro-batch that comes again is applied again, which leaves the same table.
    """
    context = getattr(session, "sparkContext", None)
    return None if context is None else context.getLocalProperty(QUERY_ID) or ""
