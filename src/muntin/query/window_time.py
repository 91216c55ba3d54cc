"""Results as rows of another query: the time of each is the last microsecond of its window."""

import pyarrow as pa
import pyarrow.compute as pc

from muntin.query.query import WINDOW_TIME

DROPPED = "dropped"
"""The kind of a row that no window took."""
NOT_FINAL = ("update", "retract", "early", DROPPED)
"""Kinds of rows that say that another row was not final, or that are no result."""


def read_as_stream(results: pa.Table) -> pa.Table:
    """Return results with their `window_time`, or refuse those that were not final."""
    if WINDOW_TIME in results.column_names or "end" not in results.column_names:
        return results
    for kind in pc.unique(results["kind"]).to_pylist() if "kind" in results.column_names else ():
        if kind in NOT_FINAL:
            raise ValueError(
                f"there are results of kind {kind!r}, which a query over results cannot take: leave "
                "lateness, early and dropped out of the query before, or filter its results"
            )
    return with_window_time(results)


def with_window_time(results: pa.Table) -> pa.Table:
    """Return results with a column for the last microsecond of each window."""
    end = results["end"]
    exact = end.cast(pa.timestamp("us", end.type.tz)) if pa.types.is_timestamp(end.type) else end
    times = pc.subtract(exact.cast(pa.int64()), 1).cast(exact.type)
    return results.append_column(WINDOW_TIME, times)
