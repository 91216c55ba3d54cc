"""Frames by Spark's own Window, for aggregates of which Spark has the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from muntin.aggregates import (
    Aggregate,
    Collect,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Mean,
    Median,
    Min,
    Std,
    Sum,
    Var,
)
from muntin.aggregates.aggregate import as_is
from muntin.spark.partition_frames import Asked, Frame

WHOLE = (ByteType, ShortType, IntegerType, LongType)
FLOATS = (FloatType, DoubleType)
NUMBERS = WHOLE + FLOATS
EXACT = (*WHOLE, StringType, BooleanType, DateType, TimestampType)
ORDERED = (*EXACT, *FLOATS)
ANY = (DataType,)
SAME = ("name", "lift", "combine", "nulls")
"""What tells an aggregate from a user's own that has its name."""


@dataclass(frozen=True)
class Native:
    """An aggregate, what Spark has for it, and the types of values on which both give the same.

    `finish` makes the result of what Spark's function gives over a window.
    """

    aggregate: Aggregate
    function: Callable[[Column], Column]
    kinds: tuple[type[DataType], ...]
    finish: Callable[[Column], Column] = as_is


NATIVES = (
    Native(Count(), F.count, ANY),
    Native(Count("column"), F.count, ANY),
    Native(Sum(), F.sum, NUMBERS),
    Native(Mean(), F.avg, NUMBERS),
    Native(Min(), F.min, ORDERED),
    Native(Max(), F.max, ORDERED),
    Native(Var(), F.var_samp, NUMBERS),
    Native(Var(ddof=0), F.var_pop, NUMBERS),
    Native(Std(), F.stddev_samp, NUMBERS),
    Native(Std(ddof=0), F.stddev_pop, NUMBERS),
    Native(First(), lambda column: F.first(column, ignorenulls=True), ANY),
    Native(First(nulls=True), F.first, ANY),
    Native(Last(), lambda column: F.last(column, ignorenulls=True), ANY),
    Native(Last(nulls=True), F.last, ANY),
    Native(Collect(), F.collect_list, ORDERED),
    Native(CountDistinct(), F.collect_set, EXACT, F.size),
)


def why_not_native(asked: Asked, schema: StructType, order: DataType | None) -> str:
    """Say why Spark cannot compute what is asked, or would give something else; nothing if it can."""
    for name, aggregate in asked.aggregates.items():
        native = _native(aggregate)
        if native is None:
            return f"Spark has no aggregate like {name!r} ({aggregate.name})"
        for column in aggregate.columns:
            kind = schema[column].dataType
            if not isinstance(kind, native.kinds):
                return f"of {kind.simpleString()} columns, {name!r} is another thing in Spark"
    ranges = [frame for frame in asked.frames.values() if frame.measure == "range"]
    if ranges and not isinstance(order, (*NUMBERS, DateType, TimestampType)):
        return "Spark's ranges are over numbers, dates and timestamps"
    if isinstance(order, FLOATS) and any(not _has_whole_bounds(frame) for frame in ranges):
        return "Spark's ranges over fractions have whole bounds, which belong to the frame"
    return ""


def _has_whole_bounds(frame: Frame) -> bool:
    bounds = (frame.low, frame.high)
    return frame.closed == "both" and all(b is None or b == int(b) for b in bounds)


def native_frames(
    df: DataFrame, asked: Asked, order: tuple[str, ...], results: Mapping[str, DataType]
) -> DataFrame:
    """Return the rows with the results that Spark's Window gives."""
    names, columns = iter(results), []
    for frame in asked.frames.values():
        window = _window(df, asked, frame, order)
        for aggregate in asked.aggregates.values():
            name = next(names)
            value = F.col(quoted(aggregate.columns[0])) if aggregate.columns else F.lit(1)
            native = _native(aggregate)
            assert native is not None
            result = native.finish(native.function(value).over(window))
            if asked.least is not None:
                counted = F.count(F.lit(1) if aggregate.nulls else value).over(window)
                result = F.when(counted >= asked.least, result)
            columns.append(result.cast(results[name]).alias(name))
    return df.select("*", *columns)


def quoted(name: str) -> str:
    """Return a column's name as Spark takes any."""
    return "`" + name.replace("`", "``") + "`"


def as_number(name: str, kind: DataType) -> Column:
    """Return an order column in the numbers that ranges are measured in."""
    column = F.col(quoted(name))
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, DateType):
        return F.unix_date(column).cast("bigint")
    return column.cast("double" if isinstance(kind, FLOATS) else "bigint")


def _native(aggregate: Aggregate) -> Native | None:
    """Return what Spark has that is the same."""
    if aggregate.rank is not None and aggregate.combine == Median().combine:
        share, between = aggregate.rank
        found = Native(aggregate, lambda column: F.percentile(column, float(share)), NUMBERS)
        return found if between else None
    for native in NATIVES:
        pairs = [(getattr(native.aggregate, f), getattr(aggregate, f)) for f in SAME]
        if all(one == other for one, other in pairs):
            return native
    return None


def _window(df: DataFrame, asked: Asked, frame: Frame, order: tuple[str, ...]) -> WindowSpec:
    window = Window.partitionBy(*(quoted(key) for key in asked.keys))
    low: Any = frame.low if frame.low is not None else Window.unboundedPreceding
    high: Any = frame.high if frame.high is not None else Window.unboundedFollowing
    if frame.measure == "rows":
        return window.orderBy(*(quoted(name) for name in order)).rowsBetween(low, high)
    low += frame.low is not None and frame.closed in ("right", "neither")
    high -= frame.high is not None and frame.closed in ("left", "neither")
    number = as_number(order[0], df.schema[order[0]].dataType)
    return window.orderBy(number).rangeBetween(int(low), int(high))
