"""Windows by Spark's own `window` and `session_window`, where they give the same rows.

    rows -> a time that is null, or out of reach, is an error or left out
         -> groupBy(window, keys).agg, once for each window of the query
         -> a sum that does not fit its type is an error, or null

Columns are taken only if their types mean the same to both: Spark compares texts by their collation,
and takes 0.0 and -0.0 for one key.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from muntin.query.native import why_not_faster, why_not_grouped
from muntin.query.query import Query
from muntin.spark.chaining import DELAY
from muntin.spark.clock import as_micros
from muntin.spark.native_frames import (
    ROW,
    fitting,
    native_result,
    quoted,
    why_others,
    why_rounded,
)
from muntin.windows import Session, Sliding, Tumbling, Window

KEYS = (
    IntegralType, BooleanType, StringType, BinaryType, DateType, TimestampType, TimestampNTZType,
    DecimalType,
)  # fmt: skip
WINDOW, BOUNDS = "__muntin_window", ("start", "end")
UNKNOWN = 1 << 60
"""From here on a number of bytes stands for one that Spark does not know."""
FURTHEST = 1 << 62
"""Times up to here, and windows around them, are numbers of 64 bits."""


@dataclass(frozen=True)
class WindowsPlan:
    """Whose windows are taken, and why; printed, it says so."""

    native: bool
    reason: str
    query: Query
    plan: str

    def __str__(self) -> str:
        windows = ", ".join(f"{n} ({w.describe()})" for n, w in self.query.windows.items())
        lines = [f"{'native' if self.native else 'muntin'}: {self.reason}"]
        if self.native:
            lines += [f"  {windows}", "  Spark's window, one groupBy for each"]
        else:
            lines += [
                f"  {line}" if line else "" for line in self.query.explain(self.plan).splitlines()
            ]
        return "\n".join(lines)


def choose(engine: str, query: Query, df: DataFrame, plan: str, mode: str) -> WindowsPlan:
    """Return whose windows serve a query, and why; a stream keeps its engine."""
    if engine == "muntin":
        return WindowsPlan(False, "asked for", query, plan)
    why_not = why_not_grouped(query) or why_types(query, df.schema)
    if df.isStreaming:
        why_not = why_not or _why_not_streamed(query, df.schema, mode)
    if engine == "native":
        if why_not:
            raise TypeError(f"engine='native' cannot be: {why_not}; leave engine out")
        return WindowsPlan(True, "asked for", query, plan)
    if df.isStreaming:
        return WindowsPlan(False, "Spark's own run on streams by engine='native' only", query, plan)
    if plan != "auto":
        return WindowsPlan(False, f"the plan {plan!r} is for muntin's windows", query, plan)
    why_not = why_not or why_rounded(query.aggregates, df.schema)
    why_not = why_not or why_not_faster(query, _size(df))
    reason = why_not or "there is little data, and Spark has the same windows"
    return WindowsPlan(not why_not, reason, query, plan)


def _why_not_streamed(query: Query, schema: StructType, mode: str) -> str:
    """Say why Spark's windows over a stream would report something else; nothing if they would not."""
    if mode != "append":
        return "Spark's windows are not corrected by updates; in mode 'append' they are"
    if query.ordered:
        return "Spark's windows do not know that rows come in order"
    for name, window in query.windows.items():
        if isinstance(window, Session):
            return (
                f"Spark closes a session like {name!r} at its end, when a row could still extend it"
            )
    if query.allowed and DELAY in schema[query.time].metadata:
        return "the stream has a watermark of its own, which cannot be held back by the lateness"
    return ""


def _size(df: DataFrame) -> int | None:
    """Return how many bytes Spark expects, or None where it does not know."""
    plan: Any = getattr(df, "_jdf", None)
    if plan is None:  # Spark Connect
        return None
    size = int(plan.queryExecution().optimizedPlan().stats().sizeInBytes())
    return size if size < UNKNOWN else None


def why_types(query: Query, schema: StructType) -> str:
    """Say which column means something else to Spark's windows, or nothing."""
    kind = schema[query.time].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        return f"Spark's windows are over timestamps, and {query.time!r} is {kind.simpleString()}"
    for name in query.keys:
        kind = schema[name].dataType
        if not isinstance(kind, KEYS) or not _is_binary(kind):
            return f"keys such as {name!r}, {kind.simpleString()}, are compared in another way"
    for name in query.value_columns:
        if not _is_binary(schema[name].dataType):
            return f"the texts of {name!r} have a collation"
    return why_others(query.aggregates, schema)


def _is_binary(kind: DataType) -> bool:
    """Whether texts are compared by their bytes."""
    return not isinstance(kind, StringType) or kind == StringType()


def native_windows(df: DataFrame, query: Query, schema: StructType, metrics: str = "") -> DataFrame:
    """Return the results of a query over rows, from Spark's own windows."""
    time = df.schema[query.time]
    if query.on_bad_time == "drop":
        df = df.where(F.col(quoted(query.time)).isNotNull())
    least = 0 if df.isStreaming else -FURTHEST  # Spark's watermark begins at 1970
    moment = _moment(F.col(quoted(query.time)), query, time.dataType, least)
    df = df.withColumn(query.time, moment.alias(query.time, metadata=time.metadata))
    if df.isStreaming and DELAY not in time.metadata:
        df = df.withWatermark(query.time, f"{query.delay + query.allowed} microseconds")
    parts = [_grouped(df, query, name, schema) for name in query.windows]
    results = reduce(DataFrame.unionAll, parts)
    if not df.isStreaming:
        return results
    return results.observe(metrics, F.count(F.lit(1)).alias("windows"))


def _moment(time: Column, query: Query, kind: DataType, least: int) -> Column:
    """Return the time of a row, or raise the error that says why it has none."""
    null = F.raise_error(
        F.lit(
            f"ValueError: the time of a row (column {query.time!r}) is null: fill it in, or leave such "
            "rows out with on_bad_time='drop'"
        )
    )
    micros = as_micros(time, kind)
    far = F.raise_error(
        F.concat(
            F.lit(f"OverflowError: the time of a row (column {query.time!r}), "),
            micros.cast("string"),
            F.lit(f" microseconds after 1970, is not between {least} and {FURTHEST}"),
        )
    )
    near = F.when(micros.between(least, FURTHEST), time).otherwise(far)
    return F.when(time.isNull(), null).otherwise(near)


def _grouped(df: DataFrame, query: Query, name: str, schema: StructType) -> DataFrame:
    """Return the results of one window."""
    keys = [F.col(quoted(key)) for key in query.keys]
    groups = df.groupBy(*keys, _window(query.windows[name], query.time).alias(WINDOW))
    results = {
        n: native_result(a, df.schema, lambda column: column).alias(f"{WINDOW}_{i}")
        for i, (n, a) in enumerate(query.aggregates.items())
    }
    table = groups.agg(*results.values())
    start, end = (F.col(f"{WINDOW}.{bound}") for bound in BOUNDS)
    columns = {
        "window": F.lit(name),
        "start": start,
        "end": end,
        "kind": F.lit("result"),
        **dict(zip(query.keys, keys, strict=True)),
    }
    place = _place(df, query, start, end)
    for i, (n, aggregate) in enumerate(query.aggregates.items()):
        columns[n], kind = F.col(f"{WINDOW}_{i}"), schema[n].dataType
        if isinstance(kind, IntegralType):
            null = ", or give it overflow='null'" if aggregate.result == "sum" else ""
            error = OverflowError(
                f"aggregate {n!r} ({aggregate.name}) does not fit {kind.simpleString()} in window "
                f"{name!r} {ROW}: convert its column to floats{null}"
            )
            columns[n] = fitting(columns[n], kind, aggregate, error, place)
    typed = (columns[f.name].cast(f.dataType).alias(f.name) for f in schema.fields)
    return table.select(*typed)


def _place(df: DataFrame, query: Query, start: Column, end: Column) -> Column:
    """Return the bounds and the keys of a window as a text."""
    parts = [F.lit("["), start.cast("string"), F.lit(", "), end.cast("string"), F.lit(")")]
    for i, name in enumerate(query.keys):
        quote = F.lit("'" if isinstance(df.schema[name].dataType, StringType) else "")
        key = F.concat(quote, F.col(quoted(name)).cast("string"), quote)
        parts += [F.lit(f"{', ' if i else ' of '}{name}="), F.coalesce(key, F.lit("None"))]
    return F.concat(*parts)


def _window(window: Window, time: str) -> Column:
    column = F.col(quoted(time))
    if isinstance(window, Session):
        return F.session_window(column, f"{int(window.gap)} microseconds")
    if not isinstance(window, Tumbling | Sliding):
        raise TypeError(f"Spark has no window like {window!r}")
    size, every = (f"{int(length)} microseconds" for length in (window.size, window.every))
    return F.window(column, size, every, f"{window.origin % window.every} microseconds")
