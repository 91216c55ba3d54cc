"""DuckDB, in SQL: windows by arithmetic and joins, and frames for a result per row."""

from typing import Any

import duckdb
import pyarrow as pa

from conformance.cases import Case, Row
from conformance.engines.asked import Asked, CannotSayError, asked, rolled, word
from muntin.windows import Session

WORDS = {
    "Count": "count({})", "Sum": "sum({})", "Min": "min({})", "Max": "max({})", "Mean": "avg({})",
    "Var": "var_samp({})", "Std": "stddev_samp({})", "Median": "median({})",
    "First": "first({} order by t, i)", "Last": "last({} order by t, i)",
    "CountDistinct": "count(distinct {})", "Skew": "skewness({})",
}  # fmt: skip
SESSIONS = """
with marked as (
    select *, coalesce(t - lag(t) over one > {gap}, true) as opens
    from data window one as (partition by 0{keys} order by t, i)
), numbered as (
    select *, sum(opens::int) over (partition by 0{keys} order by t, i) as session from marked
)
select {select}min(t) as start, max(t) + {gap} as "end", {made} from numbered group by session{keys}
"""
WINDOWS = """
select {select}start, start + {size} as "end", {made}
from data, unnest(range(
    cast({every} * floor((t - {origin} - {size}) / {every}) + {every} + {origin} as bigint),
    cast(t + 1 as bigint), {every})) as starts(start)
where start <= t and t < start + {size} group by start{keys}
"""


def results(case: Case) -> list[Row]:
    """Return what DuckDB makes of a case."""
    text = rolling(case) if case.rolls else grouped(asked(case))
    with duckdb.connect() as connection:
        rows = pa.Table.from_pylist([{"i": i, **row} for i, row in enumerate(case.rows)])
        connection.register("data", rows)
        found = connection.execute(text)
        names = [column[0] for column in found.description or []]
        return [dict(zip(names, map(plain, row), strict=True)) for row in found.fetchall()]


def plain(value: Any) -> Any:
    """Return a value as JSON has it; sums of whole numbers are as wide as they need."""
    return float(value) if type(value).__name__ == "Decimal" else value


def grouped(ask: Asked) -> str:
    """Return the query of windows."""
    keys = "".join(f", {key}" for key in ask.keys)
    made = ", ".join(
        f'{"count(*)" if column is None else word(WORDS, aggregate).format(column)} as "{name}"'
        for name, (aggregate, column) in ask.aggregates.items()
    )
    parts: dict[str, Any] = {"keys": keys, "made": made, "select": keys[2:] + ", " if keys else ""}
    window = ask.window
    if isinstance(window, Session):
        return SESSIONS.format(gap=window.gap, **parts)
    return WINDOWS.format(size=window.size, every=window.every, origin=window.origin, **parts)


def rolling(case: Case) -> str:
    """Return the query of a result per row."""
    options, name, aggregate, column = rolled(case)
    if {*options} - {"size", "min_periods", "by", "on"}:
        raise CannotSayError("frames that are centred or closed otherwise are not compared")
    size, by, on = options["size"], options.get("by"), options.get("on")
    order = f"order by {on} range" if on else "order by i rows"
    part = f"partition by {by} " if by else ""
    frame = f"({part}{order} between {size - 1} preceding and current row)"
    least = options.get("min_periods", 1 if on else size)
    made = word(WORDS, aggregate).format(column)
    return (
        f"select case when count({column}) over w >= {least} then {made} over w end as {name} "
        f"from data window w as {frame} order by i"
    )
