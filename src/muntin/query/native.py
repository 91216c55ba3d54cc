"""Whether Spark's own windows give what a query asks for, so far as the types of columns do not matter.

Spark copies a row into each window that it is in. Over little finished data that takes less time than
to start Python and to load kernels.
"""

from dataclasses import fields

from muntin.aggregates import (
    Aggregate,
    Count,
    CountDistinct,
    Max,
    Mean,
    Median,
    Min,
    Std,
    Sum,
    Var,
)
from muntin.query.query import Query
from muntin.windows import Session, Sliding, Tumbling, Window

ENGINES = ("auto", "muntin", "native")
"""Whose windows run."""
LITTLE = 1 << 25
"""Over so many bytes, copies included, Spark's own windows take less time on finished data."""
SAME = ("name", "lift", "combine", "nulls")
"""What tells an aggregate from a user's own that has its name."""
GROUPED = (
    Count(),
    Count("column"),
    Sum(),
    Mean(),
    Min(),
    Max(),
    Var(),
    Var(ddof=0),
    Std(),
    Std(ddof=0),
    CountDistinct(),
)
"""Aggregates of which Spark has the same over rows in any order; quantiles are beside them."""
ALIKE = {"time", "windows", "aggregates", "keys", "watermark", "lateness", "ordered"}
ALIKE |= {"on_bad_time", "early"}
"""The parts of a query that may be anything on finished data."""


def is_same(one: Aggregate, other: Aggregate) -> bool:
    """Whether two aggregates compute the same, of whichever columns."""
    return all(getattr(one, part) == getattr(other, part) for part in SAME)


def is_percentile(aggregate: Aggregate) -> bool:
    """Whether an aggregate is a quantile between the nearest two values, as Spark's percentile."""
    ranked = aggregate.rank is not None and aggregate.combine == Median().combine
    return ranked and bool(aggregate.rank and aggregate.rank[1])


def why_not_grouped(query: Query) -> str:
    """Say why Spark's windows over finished data would give something else; nothing if they may not."""
    for part in fields(query):
        if part.init and part.name not in ALIKE and getattr(query, part.name) != part.default:
            return f"Spark's windows have no {part.name}={getattr(query, part.name)!r}"
    if query.time in (*query.keys, *query.value_columns):
        return f"the time {query.time!r} is a key or a value, too"
    for name, window in query.windows.items():
        if not _is_of_spark(window):
            return f"Spark has no window like {name!r} ({window.describe()})"
    for name, aggregate in query.aggregates.items():
        if aggregate.where is not None or aggregate.only:
            return f"{name!r} takes some rows only, or is over some windows only"
        if not (is_percentile(aggregate) or any(is_same(aggregate, one) for one in GROUPED)):
            return f"Spark has no aggregate like {name!r} ({aggregate.name})"
    return ""


def why_not_faster(query: Query, size: int | None) -> str:
    """Say why Spark's windows would take longer over so many bytes of data, or nothing."""
    if len(query.windows) > 1:
        return "Spark reads the rows once for each window"
    copies = max(map(_copies, query.windows.values()))
    if size is None:
        return "Spark does not know how much data there is"
    if size * copies > LITTLE:
        into = f", each row copied into {copies} windows" if copies > 1 else ""
        return f"over {size / 1e6:.0f} MB{into}, it takes less time"
    return ""


def finished_data(query: Query) -> str:
    """Say whose windows serve finished data on Spark, as far as that depends on the query."""
    why_not = why_not_grouped(query)
    if not why_not and len(query.windows) > 1:
        why_not = why_not_faster(query, None)
    if why_not:
        return f"the windows of muntin, because {why_not}"
    return "Spark's own windows, if there is little and the types of columns allow it"


def _is_of_spark(window: Window) -> bool:
    if type(window) in (Tumbling, Sliding):
        return window.measure == "time" and window.every <= window.size  # type: ignore[attr-defined]
    return type(window) is Session and window == Session(window.gap)


def _copies(window: Window) -> int:
    """Return in how many windows a row is."""
    return -(-window.size // window.every) if isinstance(window, Tumbling | Sliding) else 1
