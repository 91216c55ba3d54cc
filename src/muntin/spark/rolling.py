"""Frames around each row of a batch DataFrame, by the faster of two plans.

    rows -> repartition: the rows of a key in one partition, one shuffle
         -> sortWithinPartitions: by a row's place, one number, which Spark sorts by its digits
         -> mapInArrow: exact order, frames as spans of rows, kernels              frames.py

Spark's own Window compares keys and order row by row to sort, and computes each frame from its rows,
or by a tree of segments if that is set. It is the plan for small frames, and for those that begin with
the key, which it extends row by row.
"""

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, StructField, StructType, TimestampType

from muntin.aggregates import Aggregate
from muntin.dataframes.frames import Frame
from muntin.query.native import ENGINES
from muntin.spark.frame_requests import (
    check_columns,
    check_least,
    names_of,
    read_frames,
    read_results,
    trial_query,
)
from muntin.spark.native_frames import (
    WHOLE,
    as_number,
    native_frames,
    quoted,
    why_not_native,
    why_rounded,
)
from muntin.spark.partition_frames import ORDER_BITS, PLACE, Asked
from muntin.spark.result_types import arrow_schema

FEW_STEPS = 10
"""Fewer steps per row, one for each row of a frame and aggregate, cost less than the way to Python."""
EXACT = 1 << 45
ROUNDED_BITS = 17
"""A place holds numbers up to EXACT as they are, and larger ones without their last bits."""


@dataclass(frozen=True)
class RollingPlan:
    """Whose frames are taken, and why; printed, it says so."""

    native: bool
    reason: str
    asked: Asked
    order: tuple[str, ...]
    results: Mapping[str, DataType]
    has_places: bool

    def __str__(self) -> str:
        keys, order = (", ".join(map(repr, names)) for names in (self.asked.keys, self.order))
        lines = [
            f"{'native' if self.native else 'muntin'}: {self.reason}",
            f"  shuffle: by {keys}" if keys else "  shuffle: all rows into one partition",
            f"  sort: by place, which is a hash of {keys} and {order} in one number"
            if self.has_places and not self.native
            else f"  sort: by {', '.join(filter(None, (keys, order)))}",
        ]
        lines += [f"  {name}: {frame}" for name, frame in self.asked.frames.items()]
        return "\n".join(lines)


def rolling(
    df: DataFrame,
    *,
    order: str | Sequence[str],
    size: Any,
    aggregates: Mapping[str, Aggregate],
    keys: str | Sequence[str] = (),
    measure: str | None = None,
    closed: str | None = None,
    min_periods: int | None = None,
    types: Mapping[str, DataType | str] | None = None,
    plan: str | None = None,
    engine: str | None = None,
) -> DataFrame:
    """Return the rows with the result of each aggregate over a frame around each row.

        rolling(df, keys="plug", order="ts", size="1 hour", aggregates={"peak": mt.Max("watts")})

    A frame lies within the rows of one key, in the order of `order`. `size` is one of

    - a number n of rows: the last n, this one among them;
    - a duration, if the order is a timestamp or a date: the rows of the last so long;
    - a pair of bounds, (-1000, 0) or ("-1 hour", "0 s"), as Spark's rowsBetween and rangeBetween take
      them: both belong to the frame, and None is the first or the last row of the key;
    - a dict of these by name, for several frames at once: results are named <frame>_<aggregate>.

    With measure="range", numbers are differences of a numeric order column. A range has all rows of
    equal order or none of them, and rows without order are each other's frame, as in Spark. `closed`
    says which ends of a size (not of a pair) belong to the frame, "right" unless given.

    With `min_periods`, frames of fewer values have no result. Without, it is what the aggregate gives
    for what there is: for an empty frame null, 0 or []. `types` declares results whose type cannot be
    found by trying. `engine` forces Spark's Window ("native") or ours ("muntin"); `rolling_plan` tells
    which is taken, and `plan` is another name for `engine`. Cost: one shuffle, one sort, then O(1) per
    row and aggregate, whatever the frame; memory for the rows of the longest frame, which is the largest
    key if a bound is None.
    """
    taken = _engine(engine, plan)
    chosen = _plan(df, order, size, aggregates, keys, measure, closed, min_periods, types, taken)
    if chosen.native:
        return native_frames(df, chosen.asked, chosen.order, chosen.results)
    results = [StructField(name, kind) for name, kind in chosen.results.items()]
    return _sorted(df, chosen).mapInArrow(chosen.asked, StructType([*df.schema.fields, *results]))


def rolling_plan(
    df: DataFrame,
    *,
    order: str | Sequence[str],
    size: Any,
    aggregates: Mapping[str, Aggregate],
    keys: str | Sequence[str] = (),
    measure: str | None = None,
    closed: str | None = None,
    min_periods: int | None = None,
    types: Mapping[str, DataType | str] | None = None,
    plan: str | None = None,
    engine: str | None = None,
) -> RollingPlan:
    """Return what rolling does with the same arguments; print it to see why."""
    taken = _engine(engine, plan)
    return _plan(df, order, size, aggregates, keys, measure, closed, min_periods, types, taken)


def _engine(engine: str | None, plan: str | None) -> str:
    """Return the engine, which is given under one of its names."""
    if None not in (engine, plan) and engine != plan:
        raise ValueError(
            f"plan is another name for engine, got engine={engine!r} and plan={plan!r}"
        )
    taken = engine or plan or ENGINES[0]
    if taken not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {taken!r}")
    return taken


def _plan(
    df: DataFrame,
    order: str | Sequence[str],
    size: Any,
    aggregates: Mapping[str, Aggregate],
    keys: str | Sequence[str],
    measure: str | None,
    closed: str | None,
    min_periods: int | None,
    types: Mapping[str, DataType | str] | None,
    engine: str,
) -> RollingPlan:
    """Check what is asked, and choose whose frames are taken."""
    if df.isStreaming:
        raise TypeError(
            "rolling takes a batch DataFrame, and this is a stream: take mt.spark.aggregate with "
            "windows such as Sliding or LastN"
        )
    check_least(min_periods)
    query = trial_query(aggregates)
    by, along = names_of("keys", keys), names_of("order", order)
    check_columns(df, by, along, query.columns)
    kind = df.schema[along[0]].dataType if len(along) == 1 else None
    frames = read_frames(size, measure, closed, kind)
    results = read_results(df, query, [*aggregates], frames, isinstance(size, Mapping), types)
    schema = arrow_schema(StructType([StructField(n, t) for n, t in results.items()]))
    asked = Asked(uuid.uuid4().hex, by, along[0], frames, dict(aggregates), min_periods, schema)
    native, reason = _choice(engine, why_not_native(asked, df.schema, kind), asked, df.schema)
    has_places = bool(by) and isinstance(kind, (*WHOLE, DateType, TimestampType))
    return RollingPlan(native, reason, asked, along, results, has_places)


def _choice(engine: str, why_not: str, asked: Asked, schema: StructType) -> tuple[bool, str]:
    if engine == "native" and why_not:
        raise TypeError(f"engine='native' cannot be: {why_not}; leave engine out")
    if engine != "auto":
        return engine == "native", "asked for"
    why_not = why_not or why_rounded(asked.aggregates, schema)
    if why_not:
        return False, why_not
    if all(frame.low is None for frame in asked.frames.values()):
        return True, "frames that begin with the key are extended row by row"
    steps = sum(map(_steps, asked.frames.values())) * len(asked.aggregates)
    if steps < FEW_STEPS:
        return True, f"frames are small: Spark needs {steps:g} steps per row"
    return False, "the cost does not depend on the frame"


def _steps(frame: Frame) -> float:
    """Return how many values Spark goes through for a row's frame."""
    if frame.low is None:
        return 1
    if frame.measure == "range" or frame.high is None:
        return math.inf
    return frame.high - frame.low + 1


def _sorted(df: DataFrame, plan: RollingPlan) -> DataFrame:
    """Return the rows of each key in one partition, sorted, and with their places if they have some."""
    keys = [F.col(quoted(key)) for key in plan.asked.keys]
    order = [F.col(quoted(name)) for name in plan.order]
    if not keys:
        return df.repartition(1).sortWithinPartitions(*order)
    rows = df.repartition(*keys)
    if not plan.has_places:
        return rows.sortWithinPartitions(*keys, *order)
    number = as_number(plan.order[0], df.schema[plan.order[0]].dataType)
    return rows.withColumn(PLACE, _place(keys, number)).sortWithinPartitions(PLACE)


def _place(keys: list[Column], order: Column) -> Column:
    """Return a number that never falls along the order of a key; few keys share a bucket."""
    rounded = (
        F.when(order >= EXACT, F.shiftright(order - EXACT, ROUNDED_BITS) + EXACT)
        .when(order < -EXACT, F.shiftright(order + EXACT, ROUNDED_BITS) - EXACT)
        .otherwise(order)
    )
    lowest = 1 << (ORDER_BITS - 1)  # for nulls, which come before all others
    bucket = F.xxhash64(*keys).bitwiseAND(F.lit(-1 << ORDER_BITS))
    return bucket + (F.coalesce(rounded, F.lit(-lowest)) + F.lit(lowest))
