"""Rows ahead of the clock, on Spark: they are dropped, and do not move the watermark.

The clock is that of a micro-batch, which Spark keeps in the checkpoint: what is dropped stays dropped if
the micro-batch comes again.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, IntegralType, TimestampType

from muntin.query.query import Query

FAR, COUNTED = "__muntin_far", "__muntin_counted"
"""The columns that say which rows are ahead, and that have the times by which the watermark goes.

A row that is ahead counts there as one of 1970, which moves nothing."""
LOCAL_ZERO = "timestamp_ntz'1970-01-01 00:00:00'"
DAY = 86_400_000_000


def guarded(df: DataFrame, query: Query) -> DataFrame:
    """Return a stream with its watermark, and a column that says which rows are ahead of the clock."""
    time = F.col(f"`{query.time}`")
    far = F.coalesce(F.unix_micros(time) > _limit(query), F.lit(False))
    counted = F.when(F.col(FAR), F.timestamp_seconds(F.lit(0))).otherwise(time)
    known = df.withColumn(FAR, far).withColumn(COUNTED, counted)
    return known.withWatermark(COUNTED, f"{query.delay} microseconds")


def near_frame(df: DataFrame, query: Query) -> DataFrame:
    """Return finished data without the rows that are ahead of the clock."""
    kind = df.schema[query.time].dataType
    if isinstance(kind, IntegralType):
        raise TypeError(
            f"max_ahead goes by the clock, and the time {query.time!r} is {kind.simpleString()}: make a "
            f"timestamp of it, such as timestamp_micros({query.time}), or leave max_ahead out"
        )
    far = as_micros(F.col(f"`{query.time}`"), kind) > _limit(query)
    return df.where(~F.coalesce(far, F.lit(False)))


def near_rows(table: pa.Table) -> tuple[pa.Table, int]:
    """Return the rows of a stream that are not ahead of the clock, and how many are."""
    if FAR not in table.schema.names:
        return table, 0
    far = table[FAR]
    near = table.drop_columns([FAR]).filter(pc.invert(far))
    return near, table.num_rows - near.num_rows


def as_micros(time: Column, kind: DataType) -> Column:
    """Return microseconds since 1970; those of local times as if they were in UTC."""
    if isinstance(kind, TimestampType):
        return F.unix_micros(time)
    if isinstance(kind, DateType):
        return F.unix_date(time).cast("bigint") * DAY
    return F.timestamp_diff("MICROSECOND", F.expr(LOCAL_ZERO), time)


def _limit(query: Query) -> Column:
    return F.unix_micros(F.current_timestamp()) + F.lit(query.ahead)
