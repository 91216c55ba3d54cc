"""What `rolling` is asked on Spark, read and checked before anything runs."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType, DateType, StructType, TimestampNTZType, TimestampType

from muntin.aggregates import Aggregate
from muntin.aggregates.conditions import refuse_conditions
from muntin.dataframes.frames import Frame
from muntin.kernels.spans import CLOSED, Bound
from muntin.query.query import COLUMNS, Query
from muntin.spark.aggregate import UNHASHED, _arrow_type, check_pickles
from muntin.spark.native_frames import FLOATS, NUMBERS
from muntin.spark.partition_frames import PLACE
from muntin.spark.result_types import TIME, arrow_schema, result_types
from muntin.windows import Tumbling, microseconds

MEASURES = ("rows", "range")
TIMES = (TimestampType, TimestampNTZType, DateType)
DAY = 86_400_000_000
FAR = 2**63 - 1
"""From here on Spark's bounds are unbounded, in either direction."""


def names_of(part: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns that were given as one or as several."""
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{part}: a column is given by its name, got {name!r}")
    if part == "order" and not names:
        raise ValueError("order must name a column: frames are along it")
    return names


def check_least(min_periods: int | None) -> None:
    """Refuse a min_periods that is no number of values."""
    if min_periods is not None and (type(min_periods) is not int or min_periods < 0):
        raise ValueError(f"min_periods must be a whole number, 0 or more, got {min_periods!r}")


def check_columns(
    df: DataFrame, keys: tuple[str, ...], order: tuple[str, ...], values: tuple[str, ...]
) -> None:
    """Refuse columns that are not there, or twice, or whose type cannot serve."""
    parts = {"keys": keys, "order": order, "aggregates": values}
    for part, names in parts.items():
        for name in names:
            if name not in df.columns:
                there = ", ".join(map(repr, df.columns))
                raise ValueError(f"{part}: no column {name!r}, the DataFrame has {there}")
    for name in df.columns:
        if df.columns.count(name) > 1:
            raise ValueError(f"the DataFrame has two columns {name!r}: rename one")
    for name in keys:
        kind = df.schema[name].dataType
        if isinstance(kind, UNHASHED):
            raise TypeError(f"keys: {name!r} is {kind.simpleString()}, which cannot be a key")


def trial_query(aggregates: Mapping[str, Aggregate]) -> Query:
    """Return a query of these aggregates, which checks them and knows the types of their results."""
    given: Any = aggregates
    if isinstance(aggregates, Mapping):
        given = {_trial_name(name): aggregate for name, aggregate in aggregates.items()}
    query = Query(time=TIME, windows={"rows": Tumbling(1)}, aggregates=given)
    for aggregate in query.aggregates.values():
        refuse_conditions(aggregate, "rolling")
    check_pickles(query)
    return query


def _trial_name(name: Any) -> Any:
    """Return the name of an aggregate in a query, whose windows have some columns already."""
    return f"{name}_" if name in COLUMNS else name


def read_results(
    df: DataFrame,
    query: Query,
    aggregates: Sequence[str],
    frames: Mapping[str, Frame],
    is_named: bool,
    types: Mapping[str, DataType | str] | None,
) -> dict[str, DataType]:
    """Return the names and types of the results, frame by frame."""
    schema = arrow_schema(StructType([df.schema[name] for name in query.columns]))
    empty = schema.append(pa.field(TIME, pa.int64())).empty_table()
    given = {_trial_name(name): kind for name, kind in (types or {}).items()}
    declared = {name: _arrow_type(name, kind, query) for name, kind in given.items()}
    found = from_arrow_schema(result_types(query, empty, declared), prefer_timestamp_ntz=True)
    results: dict[str, DataType] = {}
    for frame in frames:
        for aggregate in aggregates:
            name = f"{frame}_{aggregate}" if is_named else aggregate
            if name.lower() in {other.lower() for other in (*df.columns, *results, PLACE)}:
                raise ValueError(f"aggregates: there is a column {name!r} already, rename one")
            results[name] = found[_trial_name(aggregate)].dataType
    return results


def read_frames(
    size: Any, measure: str | None, closed: str | None, order: DataType | None
) -> dict[str, Frame]:
    """Read one frame or several by name; `order` is the type of the order column, if it is one."""
    if measure not in (None, *MEASURES):
        raise ValueError(f"measure must be one of {', '.join(MEASURES)}, got {measure!r}")
    if closed not in (None, *CLOSED):
        raise ValueError(f"closed must be one of {', '.join(CLOSED)}, got {closed!r}")
    if not isinstance(size, Mapping):
        return {"size": _frame("size", size, measure, closed, order)}
    if not size:
        raise ValueError("size has no frames: give one, as in {'last': 1000}")
    for name in size:
        if not isinstance(name, str):
            raise TypeError(f"size: a frame is named by text, got {name!r}")
    return {n: _frame(f"size[{n!r}]", s, measure, closed, order) for n, s in size.items()}


def _frame(
    what: str, size: Any, measure: str | None, closed: str | None, order: DataType | None
) -> Frame:
    is_pair = isinstance(size, tuple | list)
    bounds = list(size) if is_pair else [size]
    if is_pair and len(bounds) != 2:
        raise ValueError(f"{what} is a pair of bounds such as (-1000, 0), got {size!r}")
    if is_pair and closed is not None:
        raise ValueError(f"closed is not for the bounds {size!r}, which both belong to the frame")
    if measure is None:
        measure = "range" if any(map(_is_time, bounds)) else "rows"
    numbers = [_bound(what, bound, measure, order) for bound in bounds]
    if is_pair:
        low, high = numbers
        if low is not None and high is not None and low > high:
            raise ValueError(f"{what} ends before it begins: {size!r}; give the lower bound first")
        return Frame(
            None if low is not None and low <= -FAR else low,
            None if high is not None and high >= FAR else high,
            measure,
        )
    length = numbers[0]
    if length is None or length <= 0:
        unit = "number of rows" if measure == "rows" else "length"
        raise ValueError(f"{what} must be a positive {unit}, got {size!r}")
    closed = closed or "right"
    if measure == "range":
        return Frame(-length, 0, measure, closed)
    first = closed in ("right", "neither")
    return Frame(first - length, -1 if closed in ("left", "neither") else 0, measure)


def _bound(what: str, bound: Any, measure: str, order: DataType | None) -> Bound:
    """Return a bound in rows, or in the unit of the order column."""
    if bound is None:
        return None
    if measure == "rows":
        if not isinstance(bound, int) or isinstance(bound, bool):
            raise TypeError(f"{what} is in rows, which are whole numbers, got {bound!r}")
        return bound
    if order is None:
        raise ValueError(f"{what} is a range: order must be one column, which it is measured in")
    kind = order.simpleString()
    if isinstance(order, TIMES):
        if not (_is_time(bound) or bound == 0):
            raise TypeError(f"{what} must be durations, as order is a {kind}, got {bound!r}")
        length = microseconds(bound)
        if isinstance(order, DateType) and length % DAY:
            raise ValueError(f"{what} must be whole days, as order is a date, got {bound!r}")
        return length // DAY if isinstance(order, DateType) else length
    if not isinstance(order, NUMBERS):
        raise TypeError(
            f"{what} is a range, and order is a {kind}: order by a number, a date or a timestamp"
        )
    wanted = int | float if isinstance(order, FLOATS) else int
    if not isinstance(bound, wanted) or isinstance(bound, bool) or bound != bound:
        raise TypeError(f"{what} must be numbers like the order, a {kind}, got {bound!r}")
    return bound


def _is_time(bound: Any) -> bool:
    return isinstance(bound, str | dt.timedelta | np.timedelta64)
