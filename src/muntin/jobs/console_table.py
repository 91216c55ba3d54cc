"""Results as a table on the console."""

import datetime as dt
from typing import TYPE_CHECKING, Any

from pyarrow import types as kinds
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from muntin.jobs.safe import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = 40
SHOWN_BYTES = 32
STYLES = {"update": "yellow", "retract": "red", "empty": "dim", "early": "cyan", "dropped": "dim"}


def show(
    console: Console, results: "DataFrame", keys: tuple[str, ...], batch: int | None = None
) -> None:
    """Print the first results in the order of time; of a micro-batch without results, nothing."""
    order = [f"`{name}`" for name in ("end", "window", *keys)]
    rows = results.orderBy(*order).limit(SHOWN + 1).toArrow()
    if rows.num_rows == 0:
        if batch is None:
            console.print("no results")
        return
    title = None if batch is None else f"micro-batch {batch}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for field in rows.schema:
        zone = " (UTC)" if kinds.is_timestamp(field.type) and field.type.tz else ""
        number = kinds.is_integer(field.type) or kinds.is_floating(field.type)
        table.add_column(
            Text(printable(field.name) + zone),
            justify="right" if number else "left",
            no_wrap=not kinds.is_nested(field.type),
            overflow="fold",
        )
    for row in rows.slice(0, SHOWN).to_pylist():
        table.add_row(*(Text(cell(value)) for value in row.values()), style=STYLES.get(row["kind"]))
    console.print(table)
    if rows.num_rows > SHOWN:
        console.print(f"more than {SHOWN} results: a sink of files or a table takes all of them")


def cell(value: Any) -> str:
    """Return a value as a person reads it; times are in UTC.

    >>> cell(2 / 3), cell([1.5, None]), cell({"value": "a", "count": 2}), cell(bytes(4136))
    ('0.66666667', '1.5, ', 'value=a count=2', '4136 bytes')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.8g}"
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, dict):
        return " ".join(f"{cell(name)}={cell(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    if isinstance(value, bytes) and len(value) > SHOWN_BYTES:
        return f"{len(value)} bytes"
    return printable(str(value))
