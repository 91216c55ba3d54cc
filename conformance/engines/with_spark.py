"""Spark's own `window` and `session_window` on finished data, and frames for a result per row."""

from functools import cache
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Window as Frame
from pyspark.sql import functions as F

import muntin as mt
from conformance.cases import Case, Row
from conformance.engines.asked import Asked, CannotSayError, asked, rolled, word
from muntin.windows import Session

WORDS = {
    "Count": "count({})", "Sum": "sum({})", "Min": "min({})", "Max": "max({})", "Mean": "avg({})",
    "Var": "var_samp({})", "Std": "stddev_samp({})", "Median": "median({})",
    "First": "first({}, true)", "Last": "last({}, true)",
    "CountDistinct": "count(distinct {})", "Skew": "skewness({})",
}  # fmt: skip
TYPES = {int: "bigint", float: "double", str: "string", bool: "boolean", type(None): "bigint"}


@cache
def session() -> SparkSession:
    """Return the session that is there, or start one."""
    return SparkSession.getActiveSession() or mt.spark.session(cores=2, partitions=2)


def results(case: Case) -> list[Row]:
    """Return what Spark makes of a case."""
    ask = None if case.rolls else asked(case)
    session()  # functions of columns ask for one
    return rolling(case) if ask is None else grouped(case, ask)


def frame_of(case: Case) -> DataFrame:
    """Return the rows with their number and a timestamp."""
    columns = case.columns()
    schema = ["i bigint"]
    for name, values in columns.items():
        kinds = [type(value) for value in values if value is not None] or [type(None)]
        schema.append(f"{name} {TYPES[float if float in kinds else kinds[0]]}")
    doubles = [line.endswith("double") for line in schema[1:]]
    rows = [
        (i, *(float(v) if d and v is not None else v for v, d in zip(row, doubles, strict=True)))
        for i, row in enumerate(zip(*columns.values(), strict=True))
    ]
    frame = session().createDataFrame(rows, ", ".join(schema))
    return frame.withColumn("at", F.expr("timestamp_seconds(t)"))


def grouped(case: Case, ask: Asked) -> list[Row]:
    """Group by keys and windows."""
    window = ask.window
    if isinstance(window, Session):
        of = F.session_window("at", f"{window.gap} seconds")
    else:
        size, every = f"{window.size} seconds", f"{window.every} seconds"
        of = F.window("at", size, every, f"{window.origin % window.every} seconds")
    made = [made_of(*what).alias(name) for name, what in ask.aggregates.items()]
    found = frame_of(case).groupBy(*ask.keys, of.alias("w")).agg(*made)
    bounds = [F.expr(f"unix_seconds(w.{name})").alias(name) for name in ("start", "end")]
    columns = [*ask.keys, *bounds, *ask.aggregates]
    return [row.asDict() for row in found.select(*columns).collect()]


def made_of(aggregate: str, column: str | None) -> Column:
    """Return an aggregate of a group."""
    return F.expr("count(*)" if column is None else word(WORDS, aggregate).format(column))


def rolling(case: Case) -> list[Row]:
    """Return a result per row, of frames of rows or of whole seconds."""
    options, name, aggregate, column = rolled(case)
    if {*options} - {"size", "min_periods", "by", "on"} or aggregate == "CountDistinct":
        raise CannotSayError("frames that are centred or closed otherwise are not compared")
    size, on, by = options["size"], options.get("on"), options.get("by")
    frame: Any = Frame.partitionBy(*([by] if by else [F.lit(0)])).orderBy(on or "i")
    frame = frame.rangeBetween(1 - size, 0) if on else frame.rowsBetween(1 - size, 0)
    least = options.get("min_periods", 1 if on else size)
    enough = F.count(F.col(column or "")).over(frame) >= least
    made = made_of(aggregate, column).over(frame)
    found = frame_of(case).select("i", F.when(enough, made).alias(name)).orderBy("i")
    return [{name: row[name]} for row in found.collect()]
