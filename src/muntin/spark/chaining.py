"""Queries over the results of queries, on streams in mode "append".

Results have `window_time`, the last microsecond of their window. That column says in its metadata how
far behind Spark's watermark times may be: by the lateness of the queries that gave them, and by a
microsecond where a window that ends at the watermark may still come. The next query holds its own
watermark back by as much. Spark lets a stream have one watermark, which it hands from operator to
operator; a time that is not `window_time`, or that went through a join, would be compared with a
watermark that does not belong to it, so that is refused.

Spark's own windows over results need to know Spark's event time. Spark refuses rows at or before its
watermark, so they can follow windows of which it is known that none of them is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, TimestampType

from muntin.query.query import WINDOW_TIME, Query
from muntin.windows import Calendar, ContextFreeWindow, Cumulate, Fixed, Periodic, Window

DELAY = "spark.watermarkDelayMs"
"""Where Spark has the delay of a watermark in the metadata of its column."""
BEHIND, REFUSED = "muntin.behind_us", "muntin.refused"
STATEFUL = "TransformWithState"
MILLISECOND = 1000


@dataclass(frozen=True)
class Upstream:
    """The results of queries that a stream consists of.

    Their times are at most `behind` microseconds behind Spark's watermark. `depth` is the number of
    queries, 0 if the stream consists of rows.
    """

    behind: int = 0
    depth: int = 0


def upstream(df: DataFrame, query: Query, mode: str) -> Upstream:
    """Return what a stream consists of, or refuse results that the query cannot take as rows."""
    if not df.isStreaming:
        return Upstream()
    above = [*_classes(df)]
    depth = sum(name.startswith(STATEFUL) for name in above)
    if not depth:
        return Upstream()
    known = {f.name: f.metadata or {} for f in df.schema.fields}.get(query.time, {})
    if BEHIND not in known and REFUSED not in known and DELAY not in known:
        raise ValueError(
            f"the stream has results of windows, and {query.time!r} is not their time: a query over "
            f"them has time={WINDOW_TIME!r}, a column that they have in mode 'append'; take that mode "
            "for the query before, and leave the column as it is"
        )
    if REFUSED in known:
        raise ValueError(str(known[REFUSED]))
    if mode != "append":
        raise ValueError(
            f"a query over the results of a query runs in mode 'append', got {mode!r}: leave out "
            "early results, and write mode='append' where the query has a lateness"
        )
    if query.delay:
        raise ValueError(
            f"the query has a watermark of {query.watermark!r}, and one over the results of a query has "
            "theirs: leave it out"
        )
    if DELAY not in known and not _is_straight(df):
        raise ValueError(
            "the results of several queries were brought together: their times are behind Spark's "
            "watermark by more than is known. Write them into a table, and read that as a stream"
        )
    return Upstream(int(known.get(BEHIND, 0)), depth)


def window_time_field(query: Query, behind: int) -> StructField | None:
    """Return the column for the time of results, of which some are `behind`; None if they have none."""
    if not query.ends_in_time:
        return None
    return StructField(WINDOW_TIME, TimestampType(), True, _told(query, behind))


def _told(query: Query, behind: int) -> dict[str, Any]:
    timeless = [name for name, window in query.windows.items() if not window.ends_in_time]
    if timeless:
        return {
            REFUSED: f"results of window {timeless[0]!r} have no time, which a query over them needs: "
            "run that window in a query of its own"
        }
    if query.reports_dropped:
        return {
            REFUSED: "rows of kind 'dropped' have no window_time, which a query over results needs: "
            "leave out dropped='report' in the query before"
        }
    closes_after = any(_closes_after_end(window) for window in query.windows.values())
    return {BEHIND: behind + query.allowed + closes_after}


def _closes_after_end(window: Window) -> bool:
    """Whether a window that ends at the watermark may be reported later, with what comes then."""
    return not isinstance(window, ContextFreeWindow) and window.bounds == "times"


def event_time(query: Query, behind: int) -> str:
    """Return the column that Spark is told of as event time; nothing if it would refuse some rows."""
    known = behind == query.allowed == 0 and not query.reports_dropped
    return WINDOW_TIME if known and all(map(_on_milliseconds, query.windows.values())) else ""


def _on_milliseconds(window: Window) -> bool:
    """Whether all windows end at a whole millisecond, which is how exact Spark's watermark is."""
    match window:
        case Periodic() if window.measure == "time":
            numbers = (window.size, window.every, window.origin)
        case Cumulate():
            numbers = (window.size, window.step, window.origin)
        case Fixed():
            numbers = (window.start, window.size, 0)
        case Calendar():
            numbers = (0, 0, 0)  # midnights
        case _:
            return False
    return not any(number % MILLISECOND for number in numbers)


def _classes(df: DataFrame) -> Iterator[str]:
    """Yield the names of the operators of a DataFrame's plan."""
    waiting = [df._jdf.queryExecution().analyzed()]
    while waiting:
        node = waiting.pop()
        yield node.getClass().getSimpleName()
        waiting += _children(node)


def _is_straight(df: DataFrame) -> bool:
    """Whether the rows of a DataFrame come from one operator with state, and from nowhere else."""
    node = df._jdf.queryExecution().analyzed()
    while not node.getClass().getSimpleName().startswith(STATEFUL):
        children = _children(node)
        if len(children) != 1:
            return False
        (node,) = children
    return True


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(i) for i in range(children.size())]
