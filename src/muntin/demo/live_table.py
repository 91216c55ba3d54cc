"""What a stream's results look like while it runs: a live table, or without a terminal plain lines."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from muntin.demo.current_results import KINDS, Change, Identity, Results, Row, identity, moment
from muntin.jobs.safe import printable

SHOWN = 6
MARKS = {"result": "+", "update": "~", "retract": "x"}
STYLES = {"result": "green", "update": "yellow", "retract": "red"}
LEGEND = (
    "[green]+ a window is complete[/]  [yellow]~ late flights changed one[/]  "
    "[red]x a longer one replaces it[/]"
)
FIRST = "The first micro-batch starts Python workers and compiles, once per machine ..."


class Board:
    """The latest window of each airport, and the latest corrections."""

    def __init__(self, console: Console, results: Results, full: Sequence[Any]) -> None:
        self._console = console
        self._results = results
        self._full = full
        self._corrections: deque[Change] = deque(maxlen=SHOWN)
        self._table: RenderableType = Text(FIRST)
        self._live = Live(self._table, console=console) if console.is_terminal else None

    def __enter__(self) -> "Board":
        self._console.print(LEGEND)
        if self._live:
            self._live.start()
        else:
            self._console.print(FIRST)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
        else:
            self._console.print(self._table)

    def take(self, frame: Any, number: int) -> None:
        """Show what a micro-batch of Spark gave."""
        self.show(frame.toArrow(), number)

    def show(self, table: pa.Table, number: int) -> None:
        """Show what a micro-batch gave: all is counted, and the largest corrections are listed."""
        changes = self._results.take(table)
        corrections = largest(changes)
        self._corrections.extend(corrections)
        head = f"{self._when(number)}: {_counted(changes)}"
        marked = {identity(change.row): change.kind for change in changes}
        self._table = results_table(self._results.latest(), marked)
        if self._live:
            corrected = map(line, self._corrections)
            self._live.update(Group(Text(head, style="bold"), self._table, Text(), *corrected))
        else:
            self._console.print(head)
            for change in corrections[:2]:
                self._console.print("   ", line(change))

    def _when(self, number: int) -> str:
        if number >= len(self._full):
            return "after the last file"
        return f"micro-batch {number + 1} of {len(self._full)}, until {self._full[number]:%-d %b %H:%M}"


def results_table(rows: Sequence[Row], marked: Mapping[Identity, str]) -> Table:
    """Return results as a table in which those of the last micro-batch are marked."""
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    for name in ("", "window", "at", "from and to", "flights", "median", "worst", "most flights"):
        numbers = name in ("flights", "median", "worst")
        table.add_column(name, justify="right" if numbers else "left", no_wrap=True)
    for row, after in zip_longest(rows, rows[1:]):
        kind = marked.get(identity(row), "")
        last = after is None or after["window"] != row["window"]
        texts = (Text(printable(text)) for text in cells(row))
        table.add_row(MARKS.get(kind), *texts, style=STYLES.get(kind), end_section=last)
    return table


def cells(row: Row) -> tuple[str, ...]:
    """Return a result as texts."""
    return (
        row["window"],
        row["airport"],
        span(row),
        str(row["flights"]),
        f"{row['median']:g} min",
        f"{row['worst']} min",
        ", ".join(f"{carrier['value']} {carrier['count']}" for carrier in row["carriers"]),
    )


def span(row: Row) -> str:
    """Return from when to when a window is; the last n rows have no time at which they start."""
    end = moment(row["end"])
    if row["window"] == "last 100":
        return f"until {end:%-d %b %H:%M}"
    return f"{moment(row['start']):%-d %b %H:%M}-{end:%H:%M}"


def line(change: Change) -> Text:
    """Return an update or a retraction as one line."""
    row, before = change.row, change.before
    text = f"{MARKS[change.kind]} {change.kind:<8}{row['window']:<10}{row['airport']} {span(row)} "
    if before is not None and change.kind == "update":
        text += f"median {before['median']:g} -> {row['median']:g} min"
        text += f", {before['flights']} -> {row['flights']} flights"
    elif before is not None:
        text += f"median {before['median']:g} min, {_number(before['flights'], 'flight')}"
    style = STYLES[change.kind]
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def largest(changes: Sequence[Change]) -> list[Change]:
    """Return a retraction, and the largest update of each window and airport."""
    found: dict[tuple[str, str], Change] = {}
    for change in sorted(changes, key=lambda change: change.shift):
        if change.shift:
            found[change.row["window"], change.row["airport"]] = change
    updates = sorted(found.values(), key=lambda change: -change.shift)
    retracted = [change for change in changes if change.kind == "retract"]
    return (retracted[:1] + updates)[:SHOWN]


def _counted(changes: Sequence[Change]) -> str:
    counts = Counter(change.kind for change in changes)
    words = zip(KINDS, ("result", "update", "retraction"), strict=True)
    return ", ".join(_number(counts[kind], word) for kind, word in words)


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
