"""Frames: which rows around a row its result is made of."""

from dataclasses import dataclass

import numpy as np

from muntin.dataframes.columns import Array, Column
from muntin.kernels.spans import Bound, Groups, Spans, range_frames, row_frames


@dataclass(frozen=True)
class Frame:
    """The rows from `low` to `high` beside each row; None is the first or the last row of its key.

    The measure is "rows", or "range" for the values of the order column; `closed` says which ends of a
    range belong to the frame.
    """

    low: Bound
    high: Bound
    measure: str
    closed: str = "both"

    def __str__(self) -> str:
        low = "the first row" if self.low is None else self.low
        high = "the last row" if self.high is None else self.high
        return f"{self.measure} from {low} to {high}, closed {self.closed}"

    def spans(self, groups: Groups, order: Column | None) -> Spans:
        """Return the rows of each row's frame."""
        if self.measure == "rows" or order is None:
            return row_frames(groups, self.low, self.high)
        return range_frames(groups, order.values, order.valid, self.low, self.high, self.closed)

    def is_complete(self, groups: Groups, spans: Spans) -> Array:
        """Return which rows have their whole frame, whatever comes after their key's last row."""
        if self.measure == "range" or self.high is None:
            return spans.ends < groups.after
        return np.arange(len(spans.ends)) + max(self.high, 0) < groups.after

    def first_needed(self, groups: Groups, spans: Spans, rows: Array) -> Array:
        """Return for each group the first row in the frames of rows from the given one on."""
        firsts = groups.edges[:-1]
        if self.low is None:
            return firsts
        if self.measure == "rows":
            return np.maximum(rows + min(self.low, 0), firsts)
        needed: Array = spans.starts[np.minimum(rows, groups.edges[1:] - 1)]
        return needed
