"""Read the cases: JSON files of rows, a query, the results that must come out, and the rule's source.

A case asks a query (`windows`, `aggregates` and what else `muntin.Query` takes) or rolls over its rows
(`rolling`). Windows and aggregates are written as in job files. Times are whole numbers, which other
engines take as seconds, or texts. A stream has `steps`, of rows and watermarks. NaN and infinities are
written as texts, "NaN" and "Infinity".
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import muntin as mt
from muntin.jobs import names

FOLDER = Path(__file__).parent / "cases"
NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
OPTIONS = ("watermark", "lateness", "emit", "idle", "ordered", "on_bad_time", "dropped")
ROLLING = ("size", "min_periods", "closed", "center", "on", "by")
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Rows, what is asked of them, what must come out, and the rule with its source.

    `differs` says for an engine why it has other results, if it is known to.
    """

    name: str
    source: str
    rule: str
    asked: Row
    rows: list[Row]
    expected: list[Row]
    steps: list[Row] | None = None
    differs: Row = field(default_factory=dict)

    @property
    def rolls(self) -> bool:
        """Whether a result per row is asked."""
        return "rolling" in self.asked

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns by which rows are grouped."""
        return tuple(self.asked.get("keys", ()))

    def query(self) -> mt.Query:
        """Return the query that is asked."""
        options = {name: self.asked[name] for name in OPTIONS if name in self.asked}
        return mt.Query(
            time="t",
            keys=self.keys,
            windows={n: names.window(text) for n, text in self.asked["windows"].items()},
            aggregates=self.aggregates(),
            **options,
        )

    def aggregates(self) -> dict[str, mt.Aggregate]:
        """Return the aggregates that are asked."""
        return {n: names.aggregate(text) for n, text in self.asked["aggregates"].items()}

    def rolling(self) -> Row:
        """Return the options of a result per row."""
        return {
            name: self.asked["rolling"][name] for name in ROLLING if name in self.asked["rolling"]
        }

    def columns(self) -> dict[str, list[Any]]:
        """Return the rows as columns."""
        return {name: [row.get(name) for row in self.rows] for name in self.rows[0]}


def cases() -> Iterator[Case]:
    """Yield every case, file by file."""
    for path in sorted(FOLDER.glob("*.json")):
        for told in json.loads(path.read_text(encoding="utf-8")):
            told["rows"] = [_numbers(row) for row in told.get("rows", [])]
            told["expected"] = [_numbers(row) for row in told["expected"]]
            yield Case(**told)


def _numbers(row: Row) -> Row:
    """Return a row with the numbers that JSON has not."""
    return {
        name: NUMBERS.get(value, value) if isinstance(value, str) else value
        for name, value in row.items()
    }
