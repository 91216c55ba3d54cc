"""From windows to the lines of a chart, compressed with M4 (Jugel et al., VLDB 2014).

A chart has a width in pixel columns. Of all windows that end within one column, the first, the
smallest, the largest and the last value draw the same pixels as all of them: that is the aggregate M4
over tumbling windows of one column, and a query of our own computes it for all lines of a page at once.
Lines are broken where windows are missing. Each point has the number of the run it is in, and M4 over
these tells whether a column goes on with the run that the one before ended with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates import M4
from muntin.query.query import Query
from muntin.watch.series import Array, Reports
from muntin.windows import Tumbling

PIXELS = Query(
    time="column",
    keys=("line",),
    windows={"pixel": Tumbling(1)},
    aggregates={"value": M4("value"), "run": M4("run")},
    ordered=True,
)
FIELDS = ("first", "min", "max", "last")


@dataclass(frozen=True)
class Stretch:
    """What a chart shows of an axis: from lo to hi, and the number of pixel columns."""

    lo: int
    hi: int
    columns: int

    def column(self, at: Array) -> Array:
        """Return the pixel column of each place."""
        scaled = (at - self.lo).astype(np.float64) * (self.columns - 1)
        return np.asarray(np.floor(scaled / max(self.hi - self.lo, 1)), np.int64)


@dataclass(frozen=True)
class Line:
    """The points of a line, in order: pixel columns, values, and runs that are not joined."""

    columns: Array
    values: Array
    runs: Array


def points(windows: Reports, fields: Array, stretch: Stretch, every: int | None) -> Line:
    """Return the line of a key that has a result for each window.

    `fields` are the numbers to draw, a row per window; `every` tells how far ends are apart where
    windows repeat: if they are farther, some were empty.
    """
    there = _are_there(fields)
    breaks = ~there
    if every is not None:
        breaks[1:] |= np.diff(windows.ends) > every
    shown = there & (windows.ends >= stretch.lo)
    return _line(stretch.column(windows.ends[shown]), fields[shown], np.cumsum(breaks)[shown])


def steps(windows: Reports, fields: Array, stretch: Stretch) -> Line:
    """Return the line of a key that reports changes: a value holds until the next one, or until none."""
    there = _are_there(fields)
    before = np.append(False, there[:-1])
    runs: Array = np.cumsum(~there) - ~there
    source = np.maximum.accumulate(np.where(there, np.arange(len(there)), 0))
    kept = np.flatnonzero(there | before)  # a value ends where the first null is
    at_lo = int(np.searchsorted(windows.ends[kept], stretch.lo, "right")) - 1
    if at_lo >= 0:
        kept = kept[at_lo if there[kept[at_lo]] else at_lo + 1 :]
    ends, lasting = windows.ends[kept], source[kept]
    if len(kept) and there[kept[-1]]:
        ends, lasting = np.append(ends, stretch.hi), np.append(lasting, lasting[-1])
        kept = np.append(kept, kept[-1])
    at = stretch.column(np.maximum(ends, stretch.lo))
    return _line(at, fields[lasting], runs[kept])


def _are_there(fields: Array) -> Array:
    """Return which windows have numbers that can be drawn."""
    return np.asarray(np.isfinite(fields).all(axis=1))


def _line(columns: Array, fields: Array, runs: Array) -> Line:
    """Return a line with as many points for each window as it has fields."""
    width = fields.shape[1]
    return Line(np.repeat(columns, width), fields.reshape(-1), np.repeat(runs, width))


def compress(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return for each line its columns, four values for each, and before which of them it is broken."""
    lengths = [len(line.columns) for line in lines]
    if not sum(lengths):
        return [{"columns": [], "values": [], "breaks": []} for _ in lines]
    table = PIXELS.run(
        pa.table(
            {
                "line": np.repeat(np.arange(len(lines)), lengths),
                "column": np.concatenate([line.columns for line in lines]),
                "value": np.concatenate([line.values for line in lines]),
                "run": np.concatenate([line.runs.astype(np.float64) for line in lines]),
            }
        )
    )
    number, column = table["line"].to_numpy(), table["start"].to_numpy()
    order = np.lexsort((column, number))
    values, runs = _four(table["value"])[order], _four(table["run"])[order]
    cuts = np.searchsorted(number[order], np.arange(len(lines) + 1))
    return [_plain(column[order[lo:hi]], values[lo:hi], runs[lo:hi]) for lo, hi in pairwise(cuts)]


def _four(column: pa.ChunkedArray) -> Array:
    parts = [column.combine_chunks().field(name).to_numpy() for name in FIELDS]
    return np.stack(parts, axis=1)


def _plain(columns: Array, values: Array, runs: Array) -> dict[str, Any]:
    breaks = np.flatnonzero(runs[1:, 0] != runs[:-1, -1]) + 1
    return {
        "columns": columns.tolist(),
        "values": values.reshape(-1).tolist(),
        "breaks": breaks.tolist(),
    }
