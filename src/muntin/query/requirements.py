"""What a query needs of its rows, and by when the windows of a finite table are complete."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates.conditions import Condition
from muntin.aggregates.sums import EXACT_IN_FLOAT
from muntin.dataframes.batches import FEW, Batch, column_names, drop_bad_rows, read_batch
from muntin.dataframes.columns import Column
from muntin.query.query import WINDOW_TIME, Query
from muntin.query.row_spans import assigned_spans, gap_lengths, rows_without_gap
from muntin.query.window_time import read_as_stream
from muntin.slicing.irregular_windows import end_of_last
from muntin.slicing.lanes.row_lane import ROW
from muntin.slicing.limits import FAR, NEVER, Array
from muntin.slicing.loops.policy_rules import NULL
from muntin.slicing.policy_values import column_of, looks_at_rows
from muntin.slicing.rows import advancing, looked_at, opening, reaching
from muntin.windows import (
    ContextAwareWindow,
    ContextFreeWindow,
    Fired,
    Policy,
    Punctuation,
    Session,
    SessionOfRows,
    Ticking,
    Window,
)
from muntin.windows.window import ASSIGNED, PUNCTUATION, STRETCHES

OPENED = (PUNCTUATION, STRETCHES)
"""The kinds of lanes of windows that rows open, whatever came before."""


@dataclass(frozen=True)
class Requirements:
    """What a query needs of its rows besides times and keys."""

    query: Query
    columns: tuple[str, ...]
    conditions: tuple[Condition, ...]
    measures: dict[str, str]
    advancing: dict[str, str]  # columns along which rows fire windows, with the name of one of them
    punctuations: dict[str, ContextAwareWindow]  # windows that rows open, whatever came before
    assigned: dict[str, Window]  # windows made of the stretches of time for which rows stand
    compared: tuple[str, ...]  # columns that ready-made policies look at
    whole_rows: bool
    records: bool

    @classmethod
    def of(cls, query: Query) -> "Requirements":
        """Look through a query's windows."""
        windows = query.windows.items()
        along = [(n, w) for n, w in windows if w.measure not in ("time", "count")]
        measures = {w.measure: n for n, w in along if not isinstance(w, Fired)}
        fired = {w.measure: n for n, w in along if isinstance(w, Fired)}
        punctuations = {
            n: w
            for n, w in windows
            if isinstance(w, ContextAwareWindow) and w.lane(n, query.ordered)[0] in OPENED
        }
        assigned = {n: w for n, w in windows if w.lane(n, query.ordered)[0] == ASSIGNED}
        whole_rows = any(
            isinstance(w, ContextAwareWindow) and not isinstance(getattr(w, "predicate", None), str)
            for _, w in windows
        )
        policies = [w for _, w in windows if isinstance(w, Policy)]
        records = whole_rows or any(looks_at_rows(w, query.time, query.limit) for w in policies)
        by_rules = [w for w in policies if not looks_at_rows(w, query.time, query.limit)]
        compared = [column for column in map(column_of, by_rules) if column is not None]
        return cls(
            query,
            query.value_columns,
            query.conditions,
            measures,
            fired,
            punctuations,
            assigned,
            tuple(dict.fromkeys(compared)),
            whole_rows,
            records,
        )

    def read(self, data: Any, held: pa.DataType) -> Batch:
        """Read a batch; `held` is the type of times in earlier ones, null if there were none.

        Results of another query have a time.
        """
        query, needed = self.query, self.columns
        if query.time == WINDOW_TIME and isinstance(data, pa.Table):
            data = read_as_stream(data)
        if self.whole_rows:
            others = [n for n in column_names(data) if n != query.time and n not in query.keys]
            needed = tuple(dict.fromkeys([*needed, *others]))
        batch = read_batch(
            data,
            query.time,
            query.keys,
            needed,
            self.conditions,
            on_bad_time=query.on_bad_time,
            on_bad_row=query.on_bad_row,
        )
        if held != batch.time_type and differ(held, batch.time_type):
            raise TypeError(
                f"the time column {query.time!r} had {held} in earlier batches and has "
                f"{batch.time_type} now: convert it to one type"
            )
        return self._with_gaps(self._within_bounds(batch))

    def _with_gaps(self, batch: Batch) -> Batch:
        """Refuse or leave out rows without a gap, where a session's gap is in a column."""
        bad = np.zeros(batch.rows, np.bool_)
        for name, window in self.assigned.items():
            if isinstance(window, SessionOfRows) and window.column is not None and batch.rows:
                bad |= rows_without_gap(batch, self.query, name, window)
        return drop_bad_rows(batch, bad) if bad.any() else batch

    def _within_bounds(self, batch: Batch) -> Batch:
        """Refuse or leave out rows of which a time or a measure is so far from 0 that sums overflow."""
        if not self.measures and not self.advancing and _is_near(batch.times):
            return batch
        held, bad = [("time", batch.times, FAR)], np.zeros(batch.rows, np.bool_)
        for measure in {**self.measures, **self.advancing}:
            column = batch.columns[measure]
            most = EXACT_IN_FLOAT if measure in self.advancing else FAR
            if column.values.dtype.kind in ("iuf" if measure in self.advancing else "iu"):
                held.append((f"{measure!r} =", column.values, most))
            if column.valid is not None and self.query.on_bad_row == "drop":
                bad |= ~column.valid
        for what, values, most in held:
            if _is_near(values, most):
                continue
            far = ~np.isfinite(values) if values.dtype.kind == "f" else _beyond(values, most)
            if self.query.on_bad_row == "error" and far.any():
                row = int(np.argmax(far))
                beyond = f"beyond 2**{most.bit_length() - 1}"
                raise ValueError(
                    f"row {batch.row_of(row)} has {what} {values[row].item()}, which is "
                    f"{'no number' if values.dtype.kind == 'f' else beyond}: correct it, or leave such "
                    "rows out with on_bad_row='drop'"
                )
            bad |= far
        return drop_bad_rows(batch, bad) if bad.any() else batch

    def extra(self, batch: Batch) -> dict[str, Array]:
        """Return what windows need of the rows besides their times."""
        extra: dict[Any, Array] = {}
        for measure, window in self.measures.items():
            column = batch.columns[measure]
            if column.values.dtype.kind not in "iu" or _has_nulls(column):
                raise TypeError(
                    f"window {window!r} is measured in column {measure!r}, which must be whole numbers "
                    f"without nulls; it has {column.dtype}"
                )
            extra[measure] = column.values.astype(np.int64, copy=False)
        for measure, window in self.advancing.items():
            extra[advancing(measure)] = self._advancing(batch, measure, window)
        numbers = {column: compared(batch.columns.get(column)) for column in self.compared}
        extra |= {looked_at(n): values for n, values in numbers.items() if values is not None}
        if self.records or any(values is None for values in numbers.values()):
            extra[ROW] = self._records(batch)
        for name, punctuation in self.punctuations.items():
            extra[opening(name)] = self._opening(punctuation, batch, extra)
        for name, assigned in self.assigned.items():
            extra[reaching(name)] = self._reaching(name, assigned, batch, extra)
        return extra

    def _reaching(self, name: str, window: Window, batch: Batch, extra: dict[Any, Array]) -> Array:
        """Return the end of the stretch from each row, or the stretches that a window assigns."""
        if isinstance(window, SessionOfRows):
            ends: Array = batch.times + gap_lengths(batch, self.query, name, window)
            return ends
        assert isinstance(window, ContextAwareWindow)
        return assigned_spans(batch, self.query, name, window, extra[ROW])

    @staticmethod
    def _advancing(batch: Batch, measure: str, window: str) -> Array:
        """Return a column along which rows fire windows, as floats in the bits of whole numbers."""
        column = batch.columns[measure]
        if column.values.dtype.kind not in "iuf" or _has_nulls(column):
            raise TypeError(
                f"window {window!r} is measured in column {measure!r}, which must be numbers without "
                f"nulls; it has {column.dtype}"
            )
        floats: Array = np.ascontiguousarray(column.values, np.float64)
        return floats.view(np.int64)

    def _opening(self, window: ContextAwareWindow, batch: Batch, extra: dict[Any, Array]) -> Array:
        """Return which rows open a window, of one that remembers no rows."""
        name = window.predicate if isinstance(window, Punctuation) else None
        column = batch.columns.get(name) if isinstance(name, str) else None
        if column is not None and column.values.dtype.kind in "biu":
            opens: Array = column.values != 0
            return opens if column.valid is None else opens & column.valid
        if column is not None:
            return np.fromiter(map(bool, column.objects()), np.bool_, batch.rows)
        rows = extra[ROW] if ROW in extra else self._records(batch)
        found = map(window.opens, repeat(None), batch.times.tolist(), rows)
        return np.fromiter(map(bool, found), np.bool_, batch.rows)

    def _records(self, batch: Batch) -> Array:
        """Return the rows as dicts, for windows that look at them."""
        columns = {self.query.time: pa.array(batch.times, batch.time_type).to_pylist()}
        columns |= {
            name: c.to_pylist() for name, c in zip(self.query.keys, batch.keys, strict=True)
        }
        columns |= {name: column.objects() for name, column in batch.columns.items()}
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        return np.fromiter(rows, object, batch.rows)


def compared(column: Column | None) -> Array | None:
    """Return values as policies compare them, null as NULL; or nothing if they are not such numbers."""
    if column is None:  # that of times or keys
        return None
    values = column.values
    if column.dtype.kind in "mM" or values.dtype.kind not in "iuf":
        return None
    valid = np.ones(len(values), np.bool_) if column.valid is None else column.valid
    if values.dtype.kind == "f":
        floats = values + 0.0  # no -0.0
        floats.view(np.int64)[~valid] = NULL
        return floats
    held = values[valid]
    if len(held) and (held.max() > NEVER or held.min() == NULL):
        return None
    whole: Array = np.where(valid, values.astype(np.int64, copy=False), NULL)
    return whole


def last_end(windows: Iterable[Window], latest: int, idle: int | None) -> int:
    """Return a watermark by which every window that the data fill is complete."""
    return max(_last_end(window, latest, idle) for window in windows)


def _last_end(window: Window, latest: int, idle: int | None) -> int:
    if isinstance(window, Ticking):
        return window.first_end(latest) if idle is None else max(latest + 1, latest + idle)
    if isinstance(window, Session):
        return latest + window.gap + 1
    if isinstance(window, ContextFreeWindow) and window.measure == "time":
        return max(latest + 1, end_of_last(window, latest))
    return latest + 1


def _has_nulls(column: Column) -> bool:
    return column.valid is not None and not column.valid.all()


def _beyond(values: Array, most: int) -> Array:
    """Return which whole numbers are too far from 0."""
    far: Array = (values > most) | (values < -most)
    return far


def _is_near(values: Array, most: int = FAR) -> bool:
    """Whether no value is so far from 0 that sums overflow, nor NaN."""
    if len(values) <= FEW:
        return all(-most <= value <= most for value in values.tolist())
    return bool(values.max() <= most and values.min() >= -most)


def differ(held: pa.DataType, new: pa.DataType) -> bool:
    """Whether times of two types cannot be of one column; nulls tell no type."""
    untold = pa.types.is_null(held) or pa.types.is_null(new)
    return not untold and _kind_of_time(held) != _kind_of_time(new)


def _kind_of_time(kind: pa.DataType) -> tuple[bool, bool]:
    """Return whether times are moments, and whether they have a time zone."""
    return pa.types.is_timestamp(kind), getattr(kind, "tz", None) is not None
