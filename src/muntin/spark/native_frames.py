"""Frames by Spark's own Window, for aggregates of which Spark has the same.

Sums and means of whole numbers are exact. Spark computes deviations and percentiles with doubles: for
columns whose values need more digits, its frames are only taken if the user asks for them.
"""

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
    IntegralType,
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
    Min,
    Std,
    Sum,
    Var,
)
from muntin.dataframes.frames import Frame
from muntin.dataframes.rolling_results import too_large
from muntin.query.native import is_percentile, is_same
from muntin.spark.partition_frames import Asked

NARROW = (ByteType, ShortType, IntegerType)
WHOLE = (*NARROW, LongType)
FLOATS = (FloatType, DoubleType)
NUMBERS = WHOLE + FLOATS
EXACT = (*WHOLE, StringType, BooleanType, DateType, TimestampType)
ORDERED = (*EXACT, *FLOATS)
ANY = (DataType,)
DIGITS = "decimal(38,0)"
"""The type of whole numbers of more than 64 bits."""
ROW = "\0"
"""Where a text has the row that it is about."""

Within = Callable[[Column], Column]
"""Applies an aggregate of Spark's to the rows of a frame, or of a group."""
Of = Callable[[Column, Within], Column]


@dataclass(frozen=True)
class Native:
    """An aggregate, what Spark has for it within a frame, and the types of values that both take.

    Of those in `rounds` Spark's results are further from the exact ones than ours.
    """

    aggregate: Aggregate
    of: Of
    kinds: tuple[type[DataType], ...]
    rounds: tuple[type[DataType], ...] = ()


def _over(function: Callable[[Column], Column]) -> Of:
    return lambda column, within: within(function(column))


def _distinct(column: Column, within: Within) -> Column:
    return F.size(within(F.collect_set(column)))


def _exact_sum(column: Column, within: Within) -> Column:
    """Return the sum of longs, from those of their halves, which do not overflow on the way."""
    high = within(F.sum(F.shiftright(column, 32)))
    low = within(F.sum(column.bitwiseAND(F.lit(2**32 - 1))))
    return high.cast(DIGITS) * F.lit(2**32).cast(DIGITS) + low


def _mean_of(sum_of: Of, kind: str) -> Of:
    """Return a mean of whole numbers, from its whole part and the rest; their sum fits the type."""

    def mean(column: Column, within: Within) -> Column:
        total = sum_of(column, within)
        count = F.nullif(within(F.count(column)), F.lit(0)).cast(kind)
        whole = F.call_function("div", total, count)
        rest = total - whole.cast(kind) * count
        return whole.cast("double") + rest.cast("double") / count.cast("double")

    return mean


NATIVES = (
    Native(Count(), _over(F.count), ANY),
    Native(Count("column"), _over(F.count), ANY),
    Native(Sum(), _over(F.sum), (*NARROW, *FLOATS)),
    Native(Sum(), _exact_sum, (LongType,)),
    Native(Mean(), _over(F.avg), FLOATS),
    Native(Mean(), _mean_of(_over(F.sum), "bigint"), NARROW),
    Native(Mean(), _mean_of(_exact_sum, DIGITS), (LongType,)),
    Native(Min(), _over(F.min), ORDERED),
    Native(Max(), _over(F.max), ORDERED),
    Native(Var(), _over(F.var_samp), NUMBERS, rounds=(IntegerType, LongType)),
    Native(Var(ddof=0), _over(F.var_pop), NUMBERS, rounds=(IntegerType, LongType)),
    Native(Std(), _over(F.stddev_samp), NUMBERS, rounds=(IntegerType, LongType)),
    Native(Std(ddof=0), _over(F.stddev_pop), NUMBERS, rounds=(IntegerType, LongType)),
    Native(First(), _over(lambda column: F.first(column, ignorenulls=True)), ANY),
    Native(First(nulls=True), _over(F.first), ANY),
    Native(Last(), _over(lambda column: F.last(column, ignorenulls=True)), ANY),
    Native(Last(nulls=True), _over(F.last), ANY),
    Native(Collect(), _over(F.collect_list), ORDERED),
    Native(CountDistinct(), _distinct, EXACT),
)


def why_not_native(asked: Asked, schema: StructType, order: DataType | None) -> str:
    """Say why Spark cannot compute what is asked, or would give something else; nothing if it can."""
    why_not = why_others(asked.aggregates, schema)
    if why_not:
        return why_not
    ranges = [frame for frame in asked.frames.values() if frame.measure == "range"]
    if ranges and not isinstance(order, (*NUMBERS, DateType, TimestampType)):
        return "Spark's ranges are over numbers, dates and timestamps"
    if isinstance(order, FLOATS) and any(not _has_whole_bounds(frame) for frame in ranges):
        return "Spark's ranges over fractions have whole bounds, which belong to the frame"
    return ""


def why_others(aggregates: Mapping[str, Aggregate], schema: StructType) -> str:
    """Say of which aggregate Spark has not the same, over columns of these types; or nothing."""
    for name, aggregate in aggregates.items():
        natives = _natives(aggregate)
        if not natives:
            return f"Spark has no aggregate like {name!r} ({aggregate.name})"
        for column in aggregate.columns:
            kind = schema[column].dataType
            if not any(isinstance(kind, native.kinds) for native in natives):
                return f"of {kind.simpleString()} columns, {name!r} is another thing in Spark"
    return ""


def why_rounded(aggregates: Mapping[str, Aggregate], schema: StructType) -> str:
    """Say which of the results, all of which Spark has, it would round more than we do; or nothing."""
    for name, aggregate in aggregates.items():
        native = _native(aggregate, schema)
        kinds = [schema[column].dataType for column in aggregate.columns]
        for kind in kinds:
            if isinstance(kind, native.rounds):
                return f"of {kind.simpleString()} columns, Spark rounds {name!r} on the way"
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
            columns.append(_framed(df, asked, aggregate, window, (name, results[name])))
    return df.select("*", *columns)


def _framed(
    df: DataFrame,
    asked: Asked,
    aggregate: Aggregate,
    window: WindowSpec,
    named: tuple[str, DataType],
) -> Column:
    """Return the results of an aggregate over a frame around each row, of a name and a type."""
    name, kind = named
    result = native_result(aggregate, df.schema, lambda column: column.over(window))
    if isinstance(kind, IntegralType):
        row = F.struct(*map(F.col, map(quoted, dict.fromkeys((*asked.keys, asked.order)))))
        place = F.to_json(row, {"ignoreNullFields": "false"})
        error = too_large(aggregate, f"{name!r} in the frame of row {ROW}", kind.simpleString())
        result = fitting(result, kind, aggregate, error, place)
    if asked.least is not None:
        counted = F.lit(1) if aggregate.nulls else value_of(aggregate)
        result = F.when(F.count(counted).over(window) >= asked.least, result)
    return result.cast(kind).alias(name)


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


def value_of(aggregate: Aggregate) -> Column:
    """Return the column that an aggregate takes, or what counts rows."""
    return F.col(quoted(aggregate.columns[0])) if aggregate.columns else F.lit(1)


def native_result(aggregate: Aggregate, schema: StructType, within: Within) -> Column:
    """Return what Spark has for an aggregate, applied within a frame or a group."""
    return _native(aggregate, schema).of(value_of(aggregate), within)


def fitting(
    result: Column, kind: DataType, aggregate: Aggregate, error: Exception, place: Column
) -> Column:
    """Return a whole number in its type; one that does not fit is an error at a place, or null."""
    fits = result.try_cast(kind)
    if aggregate.overflow == "null":
        return fits
    before, _, after = f"OverflowError: {error}".partition(ROW)
    raised = F.raise_error(F.concat(F.lit(before), place, F.lit(after)))
    return F.when(result.isNull() | (fits == result), fits).otherwise(raised)


def _natives(aggregate: Aggregate) -> list[Native]:
    """Return what Spark has that is the same, for one type of values or another."""
    if is_percentile(aggregate) and aggregate.rank is not None:
        share = float(aggregate.rank[0])
        percentile = _over(lambda column: F.percentile(column, share))
        return [Native(aggregate, percentile, NUMBERS, rounds=(LongType,))]
    return [native for native in NATIVES if is_same(native.aggregate, aggregate)]


def _native(aggregate: Aggregate, schema: StructType) -> Native:
    """Return what Spark has for an aggregate over its column; there is such."""
    kinds = [schema[column].dataType for column in aggregate.columns]
    return next(n for n in _natives(aggregate) if all(isinstance(k, n.kinds) for k in kinds))


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
