"""The results of a query kept current: updates replace them, retractions take them away.

A window is known by airport, name, start and end. Of the last n rows the start is a number of rows,
which a late row moves, so they are known by their end.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
Identity = tuple[Any, ...]
KINDS = ("result", "update", "retract")


@dataclass(frozen=True)
class Change:
    """A row that a micro-batch gave, and what was there before it."""

    row: Row
    before: Row | None

    @property
    def kind(self) -> str:
        """Whether it is a result, an update or a retraction."""
        return str(self.row["kind"])

    @property
    def shift(self) -> float:
        """By how many minutes the median moved."""
        if self.before is None or self.kind == "retract":
            return 0.0
        return _shift(self.before, self.row)


@dataclass
class Results:
    """What was said first of each window, what is true of it now, and how often it was said."""

    windows: Sequence[str]
    first: dict[Identity, Row] = field(default_factory=dict)
    now: dict[Identity, Row] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def take(self, table: pa.Table) -> list[Change]:
        """Take what a micro-batch gave, and return what changed by it."""
        changes = []
        for row in with_numbers(table).to_pylist():
            known = identity(row)
            changes.append(Change(row, self.now.get(known)))
            self.counts[row["window"], row["kind"]] += 1
            if row["kind"] == "retract":
                del self.now[known]
            else:
                self.first.setdefault(known, row)
                self.now[known] = row
        return changes

    def latest(self) -> list[Row]:
        """Return the latest window of each name and airport."""
        rows: dict[tuple[int, str], Row] = {}
        for row in sorted(self.now.values(), key=lambda row: row["end"]):
            rows[self.windows.index(row["window"]), row["airport"]] = row
        return [rows[place] for place in sorted(rows)]

    def corrected(self) -> list[tuple[Row, Row]]:
        """Return what was first said and what is now of the windows that were corrected most."""
        most: dict[tuple[int, str], tuple[Row, Row]] = {}
        for known, first in self.first.items():
            now = self.now.get(known, first)
            place = (self.windows.index(now["window"]), now["airport"])
            if _shift(first, now) > _shift(*most.get(place, (first, first))):
                most[place] = (first, now)
        return [most[place] for place in sorted(most)]


def with_numbers(table: pa.Table) -> pa.Table:
    """Return results with their bounds as microseconds."""
    for name in ("start", "end"):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].cast(pa.int64()))
    return table


def identity(row: Row) -> Identity:
    """Return by what a window is known."""
    start = None if row["window"] == "last 100" else row["start"]
    return (row["airport"], row["window"], start, row["end"])


def moment(microseconds: int) -> datetime:
    """Return a time of a result."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC)


def _shift(before: Row, after: Row) -> float:
    return abs(float(after["median"] - before["median"]))
