"""What peers are asked: windows that slide or tumble, and the window queries of NEXMark, as files.

A folder holds the rows of a case, another one those of which results are compared. Values are whole
numbers, so that sums are the same in every order.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from examples import nexmark
from tests.spark_streams import write_files

import muntin as mt
from benchmarks.spark_runs import AGGREGATES, DELAY, Source

SECOND = 1_000_000
SPAN = 7200
ROWS, KEYS, EVENTS = 2_000_000, 1000, 2_000_000
QUICK_ROWS, QUICK_KEYS, QUICK_EVENTS = 200_000, 100, 200_000
SMALL_ROWS, SMALL_KEYS, SMALL_SPAN, SMALL_EVENTS = 200, 2, 4000, 4000
FILES = 8
Answer = dict[tuple[Any, ...], int]
"""Rows of results and how many there are of each."""


@dataclass(frozen=True)
class Windows:
    """Windows of `size` seconds, one every `step` seconds, by key."""

    size: int
    step: int

    def __str__(self) -> str:
        return f"{self.size} s / {self.step} s"

    columns = ("k", "start", "end", "s", "m", "a")

    @property
    def panes(self) -> int:
        """How many steps a window has."""
        return self.size // self.step

    def queries(self) -> tuple[mt.Query, ...]:
        """Return the query of muntin."""
        windows = {"w": mt.Sliding(f"{self.size} s", f"{self.step} s")}
        return (
            mt.Query(time="ts", keys="k", windows=windows, aggregates=AGGREGATES, watermark=DELAY),
        )

    def rows(self, quick: bool) -> pa.Table:
        """Return rows of two hours, up to a second out of order."""
        rows, keys = (QUICK_ROWS, QUICK_KEYS) if quick else (ROWS, KEYS)
        return whole(Source(rows, 1, keys, SPAN).table())

    def few_rows(self) -> pa.Table:
        """Return the rows of which results are compared."""
        return whole(Source(SMALL_ROWS, 1, SMALL_KEYS, SMALL_SPAN).table())

    def told(self, quick: bool) -> str:
        """Return the case and how many rows it has."""
        rows, keys = (QUICK_ROWS, QUICK_KEYS) if quick else (ROWS, KEYS)
        return f"{self}, {rows:,} rows, {keys:,} keys"

    def same(self, ours: Answer, theirs: Answer) -> bool:
        """Whether two answers are the same."""
        return ours == theirs


@dataclass(frozen=True)
class Question:
    """A question of NEXMark, of the bids of a stream of events."""

    name: str
    columns: tuple[str, ...]
    several: bool = False
    """Whether others name everyone who is as good as the best one, and muntin one of them."""

    def __str__(self) -> str:
        return f"NEXMark {self.name}"

    def queries(self) -> tuple[mt.Query, ...]:
        """Return the queries of muntin, each over the results of the one before."""
        return nexmark.QUERIES[self.name]

    def rows(self, quick: bool) -> pa.Table:
        """Return the bids."""
        return bids(QUICK_EVENTS if quick else EVENTS)

    def few_rows(self) -> pa.Table:
        """Return the bids of which results are compared."""
        return bids(SMALL_EVENTS)

    def told(self, quick: bool) -> str:
        """Return the case and how many events it has."""
        return f"{self}, {QUICK_EVENTS if quick else EVENTS:,} events"

    def same(self, ours: Answer, theirs: Answer) -> bool:
        """Whether two answers are the same, up to whom is named of several."""
        if not self.several:
            return ours == theirs
        return {*ours} <= {*theirs} and {row[:-1] for row in ours} == {row[:-1] for row in theirs}


def whole(table: pa.Table) -> pa.Table:
    """Return rows with whole numbers for values."""
    return table.set_column(table.column_names.index("v"), "v", pc.floor(table["v"]))


def bids(events: int) -> pa.Table:
    """Return the bids of so many events."""
    columns = ["at", "arrived", "who", "auction", "price"]
    return nexmark.source("q7", nexmark.generated(events)).select(columns)


Case = Windows | Question
PER_WHO = ("who", "start", "end", "bids")
CASES: dict[str, Case] = {
    str(case): case
    for case in (
        Windows(60, 1),
        Windows(600, 1),
        Windows(3600, 1),
        Windows(60, 60),
        Question("q5", ("start", "end", "most", "auction"), several=True),
        Question("q7", ("start", "end", "price", "bidder"), several=True),
        Question("q11", PER_WHO),
        Question("q12", PER_WHO),
    )
}


def write(folder: Path, case: Case, quick: bool) -> None:
    """Write the files of a case, several each, so that Spark reads them on all cores."""
    for name, rows in {"rows": case.rows(quick), "few": case.few_rows()}.items():
        size = -(-len(rows) // FILES)
        write_files(folder / name, (rows.slice(i * size, size) for i in range(FILES)))


def answer(table: pa.Table, columns: Iterable[str]) -> Answer:
    """Return the rows of a table of results, with times in microseconds.

    >>> answer(pa.table({"start": pa.array([5], pa.timestamp("ms")), "n": [2.0]}), ["start", "n"])
    {(5000, 2.0): 1}
    """
    found: Answer = {}
    for row in zip(*(plain(table[name]) for name in columns), strict=True):
        found[row] = found.get(row, 0) + 1
    return found


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; times are whole microseconds."""
    if pa.types.is_timestamp(column.type):
        stamps = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        return np.asarray(stamps).tolist()
    return column.to_pylist()
