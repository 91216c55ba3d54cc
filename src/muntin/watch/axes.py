"""What the axes of a chart are: time of day or a number, and what it is called."""

from typing import Any

import pyarrow as pa

from muntin.aggregates import Aggregate
from muntin.query.query import Query, columns_of

PLAIN_TIMES = range(10**14, 10**16)
"""Microseconds since 1970 from 1973 to 2286, if whole numbers may be times or numbers of rows."""


def x_axis(query: Query, name: str, bounds: pa.DataType, latest: int) -> dict[str, Any]:
    """Return whether ends are times or numbers, in which zone, and what they are called.

    Where no windows of a query are measured in time, all bounds are whole numbers.
    """
    measure = query.windows[name].measure
    if measure != "time":
        unit = "number of rows" if measure == "count" else measure
        return {"kind": "number", "zone": None, "label": f"end of window, {unit}"}
    if pa.types.is_timestamp(bounds):
        return {"kind": "time", "zone": bounds.tz, "label": "end of window"}
    if not query.in_time and latest in PLAIN_TIMES:
        return {"kind": "time", "zone": None, "label": "end of window"}
    return {"kind": "number", "zone": None, "label": f"end of window, {query.time}"}


def y_label(aggregate: Aggregate) -> str:
    """Return what an aggregate is of, such as max(watts); that of Count is the unit of its results."""
    columns = columns_of(aggregate)
    return f"{aggregate.name}({', '.join(columns)})" if columns else "rows"
