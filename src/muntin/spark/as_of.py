"""A training set on Spark: what the windows of a query held at the time of each label.

    labels, events -> union: keys, time, either an event or a label
                   -> repartition by key, one shuffle
                   -> sortWithinPartitions: by key and time, events of one time as they came
                   -> mapInArrow: chunks of rows, each a small as_of                 query/as_of.py

In this order all events that a label asks for come before it. So a chunk answers its labels, and keeps
for the next one only the events that later labels of its last key may still ask for: a key may be larger
than memory, as long as its longest window is not. For a policy all events of a key are kept, and so they
are for windows found in rows if some events were known only later.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from muntin.dataframes.added_columns import refuse_names
from muntin.query.as_of import History, columns_of
from muntin.query.at_time import refuse_timeless
from muntin.query.query import Query
from muntin.spark.aggregate import TIMES, check_pickles, columns_asked, moment_of, selected
from muntin.spark.result_types import arrow_schema, fitted, result_types
from muntin.spark.sql_conditions import answered
from muntin.spark.streaming import large

AT, KNOWN, EVENT, LABEL, TURN, ARRIVAL = (
    f"__muntin_{name}" for name in ("at", "known", "event", "label", "turn", "arrival")
)


def as_of(
    labels: DataFrame,
    events: DataFrame,
    query: Query,
    at: str,
    include_equal: bool = False,
    known: str | None = None,
) -> DataFrame:
    """Return the labels with what each window of a query held at their times, as `muntin.as_of` does.

        mt.spark.as_of(labels, events, query, at="label_time")

    The columns are those of labels, and for each window and aggregate one named `{window}_{aggregate}`.
    Both are finished DataFrames. Cost: one shuffle and one sort of both by key and time; a worker holds
    some rows, and the events of the longest window of one key.

    - `labels`, `events`: DataFrames with the query's keys, in any order. Events have its time column.
    - `query`: its windows and aggregates; watermark, lateness and emit play no part.
    - `at`: the column of labels that has their time, of the type of the events' times.
    - `include_equal`: whether events at the time of a label count.
    - `known`: a column of events with the time at which each was known. An event counts for labels at
      that time or later.
    """
    if not isinstance(query, Query):
        raise TypeError(f"as_of takes a muntin.Query, got {query!r}")
    for name, frame in (("labels", labels), ("events", events)):
        if frame.isStreaming:
            raise ValueError(
                f"{name} is a stream: as_of takes finished DataFrames; a running query answers by "
                "lookup, or by publish and muntin.Lookup"
            )
    refuse_timeless(query)
    names = [f"{window}_{name}" for window, name in columns_of(query)]
    refuse_names(labels, names, "labels")
    events, query = answered(events, query)
    asked = columns_asked(events, query)
    check_pickles(query)
    _check_labels(labels, events, query, at, known)
    schema = arrow_schema(StructType([events.schema[name] for name in asked]))
    kinds = result_types(query, schema.empty_table(), {})
    added = pa.schema(
        [
            pa.field(n, kinds.field(a).type)
            for n, (_, a) in zip(names, columns_of(query), strict=True)
        ]
    )
    results = StructType([*labels.schema.fields, *from_arrow_schema(added).fields])
    columns = selected(events, query, asked)
    if known is not None:
        columns = selected(
            events.withColumn(KNOWN, moment_of(events, known)), query, [*asked, KNOWN]
        )
    rows = _together(labels, columns, query, at)
    turn = F.col(TURN) if include_equal else -F.col(TURN)
    keys = [F.col(f"`{name}`") for name in query.keys]
    placed = rows.repartition(*(keys or [F.lit(0)]))
    placed = placed.sortWithinPartitions(*keys, F.col(AT), turn, F.col(ARRIVAL)).drop(ARRIVAL)
    return placed.mapInArrow(Answers(query, include_equal, known is not None, results), results)


def _check_labels(
    labels: DataFrame, events: DataFrame, query: Query, at: str, known: str | None
) -> None:
    """Refuse labels without keys or a time, and times and keys of several types."""
    for frame, what, name in [
        *((labels, "labels", name) for name in (*query.keys, at)),
        *([] if known is None else [(events, "events", known)]),
    ]:
        if frame.columns.count(name) != 1:
            there = ", ".join(map(repr, frame.columns))
            raise ValueError(f"{what} have no one column {name!r}: there are {there}")
    pairs = [(labels, at, query.time)] + ([] if known is None else [(events, known, query.time)])
    for frame, name, time in [*pairs, *((labels, key, key) for key in query.keys)]:
        kind, wanted = frame.schema[name].dataType, events.schema[time].dataType
        if kind != wanted or (name not in query.keys and not isinstance(kind, TIMES)):
            raise TypeError(
                f"column {name!r} is {kind.simpleString()}, and {time!r} of events is "
                f"{wanted.simpleString()}: cast one to the type of the other"
            )


def _together(labels: DataFrame, events: DataFrame, query: Query, at: str) -> DataFrame:
    """Return events and labels in one frame: each is a struct beside its keys and its time."""
    held = {*query.keys, query.time}
    values = [F.col(f"`{n}`") for n in events.columns if n not in held]
    event = F.struct(F.lit(0).alias(TURN), *values)
    label = F.struct(F.lit(0).alias(TURN), *(F.col(f"`{n}`") for n in labels.columns))
    keys = [F.col(f"`{name}`") for name in query.keys]
    came = events.select(
        *keys,
        F.col(f"`{query.time}`").alias(AT),
        event.alias(EVENT),
        F.lit(0).alias(TURN),
        F.monotonically_increasing_id().alias(ARRIVAL),
    )
    asking = labels.select(
        *keys,
        moment_of(labels, at).alias(AT),
        label.alias(LABEL),
        F.lit(1).alias(TURN),
        F.lit(0).cast("long").alias(ARRIVAL),
    )
    return came.unionByName(asking, allowMissingColumns=True)


@dataclass(frozen=True)
class Answers:
    """Answers the labels of a partition, whose rows come by key and time."""

    query: Query
    include_equal: bool
    knows: bool
    results: StructType

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: pa.Table | None = None
        wanted = arrow_schema(self.results)
        for rows in large(batches):
            events, labels = self._events(rows), self._labels(rows)
            if held is not None:
                events = pa.concat_tables([held, events])
            history = History.of(events, self.query, KNOWN if self.knows else None)
            if labels.num_rows:
                self._refuse_timeless(labels)
                columns = history.columns(labels, AT, self.include_equal)
                for field in wanted:
                    if field.name in labels.column_names:
                        continue
                    labels = labels.append_column(field.name, columns.pop(0))
                yield from fitted(labels, wanted).to_batches()
            held = events.slice(self._needed(history, rows.slice(rows.num_rows - 1)))

    def _needed(self, history: History, last: pa.Table) -> int:
        """Return the first event that labels may ask for that come behind a last row."""
        if last[AT].null_count:
            return 0
        return history.needed(last.select([*self.query.keys, AT]), AT)

    def _events(self, rows: pa.Table) -> pa.Table:
        """Return the events among some rows, with the columns that the query reads."""
        mine = rows.filter(pc.equal(rows[TURN], 0))
        keys = {name: mine[name] for name in self.query.keys}
        values = _fields(mine[EVENT])
        return pa.table({self.query.time: mine[AT], **keys, **values})

    def _labels(self, rows: pa.Table) -> pa.Table:
        """Return the labels among some rows, with all their columns and their time as a number."""
        mine = rows.filter(pc.equal(rows[TURN], 1))
        return pa.table({**_fields(mine[LABEL]), AT: mine[AT]})

    def _refuse_timeless(self, labels: pa.Table) -> None:
        if labels[AT].null_count:
            label = labels.filter(pc.is_null(labels[AT])).slice(0, 1).drop_columns([AT])
            raise ValueError(
                f"a label has no time: {label.to_pylist()[0]}; fill it in, or leave the label out"
            )


def _fields(structs: pa.ChunkedArray) -> dict[str, pa.Array]:
    """Return the columns that lie in a column of structs, but for the turn."""
    whole = structs.combine_chunks()
    names = [field.name for field in whole.type if field.name != TURN]
    return {name: whole.field(name) for name in names}
