"""The stretches of time for which rows stand, where windows are made of what rows say.

A session's gap in a column is a length for each row; `assign` of an own window gives stretches. What
no window can be made of is an error that names the row.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.dataframes.batches import Batch
from muntin.dataframes.columns import Column, read
from muntin.query.query import Query
from muntin.slicing.limits import FAR, Array
from muntin.slicing.rows import object_array
from muntin.windows import ContextAwareWindow, SessionOfRows, is_duration, microseconds
from muntin.windows.periodic import LONGEST, _moment

NO_LENGTH = 0
"""In place of a gap that is null, or no duration above zero."""


def gap_lengths(batch: Batch, query: Query, name: str, window: SessionOfRows) -> Array:
    """Return the gap of each row; NO_LENGTH where there is none."""
    if window.column is None:
        return np.full(batch.rows, window.gap, np.int64)
    column, plain = _column_of(batch, query, window.column), pa.types.is_int64(batch.time_type)
    if column.dtype.kind == "O":
        found = (_length(value, plain) for value in column.objects())
        return np.fromiter(found, np.int64, batch.rows)
    if column.dtype.kind not in ("iu" if plain else "m"):
        needed = "whole numbers, as times are" if plain else "durations, as times are timestamps"
        raise TypeError(
            f"the gap of window {name!r} is in column {window.column!r}, which must be {needed}; it "
            f"has {column.dtype}"
        )
    lengths = _whole_lengths(column)
    return lengths if column.valid is None else np.where(column.valid, lengths, NO_LENGTH)


def _column_of(batch: Batch, query: Query, name: str) -> Column:
    if name in query.keys:
        return read(batch.keys[query.keys.index(name)], name)
    return batch.columns[name]


def _whole_lengths(column: Column) -> Array:
    """Return numbers or durations as lengths from 1 to LONGEST, NO_LENGTH where they are others."""
    values = column.values
    if column.dtype.kind == "m":
        given = values.view(column.dtype)
        exact = given.astype("m8[us]")
        values = np.where(exact.astype(column.dtype) == given, exact.view(np.int64), NO_LENGTH)
    good = (values > 0) & (values <= LONGEST)
    return np.where(good, values, NO_LENGTH).astype(np.int64)


def _length(value: Any, plain: bool) -> int:
    """Return one gap; a whole number if times are, else a duration, which may be text."""
    try:
        if isinstance(value, bool) or is_duration(value) == plain:
            return NO_LENGTH
        length = microseconds(value)
    except (TypeError, ValueError, AttributeError):
        return NO_LENGTH
    return length if 0 < length <= LONGEST else NO_LENGTH


def rows_without_gap(batch: Batch, query: Query, name: str, window: SessionOfRows) -> Array:
    """Return the rows whose gap is no duration above zero, or say of the first of them what it has.

    A gap with which a session could reach over the end of a key's life is an error in any case.
    """
    lengths = gap_lengths(batch, query, name, window)
    bad: Array = lengths == NO_LENGTH
    if bad.any() and query.on_bad_row == "error":
        row = int(np.argmax(bad))
        value = _column_of(batch, query, str(window.column)).take(np.array([row])).objects()[0]
        raise ValueError(
            f"row {batch.row_of(row)} has {window.column!r} = {value!r}, which is no gap for window "
            f"{name!r}: a duration above zero is needed, or a whole number if times are; correct it, or "
            "leave such rows out with on_bad_row='drop'"
        )
    if query.limit is not None and batch.rows:
        row = int(np.argmax(lengths))
        if int(lengths[row]) > query.limit - query.allowed:
            raise ValueError(
                f"row {batch.row_of(row)} has a gap of {int(lengths[row])} for window {name!r}, longer "
                f"than idle less the lateness, {query.limit - query.allowed}: make idle longer"
            )
    return bad


def assigned_spans(
    batch: Batch, query: Query, name: str, window: ContextAwareWindow, rows: Array
) -> Array:
    """Return what an own window assigns to each row, as tuples of (start, end)."""
    spans = []
    for i, (time, row) in enumerate(zip(batch.times.tolist(), rows, strict=True)):
        where = f"window {name!r}: assign, for row {batch.row_of(i)} at {time},"
        spans.append(_checked(window.assign(time, row), where))
        if query.ordered:
            _check_in_order(time, spans[-1], window.merging, where)
    return object_array(spans, batch.rows)


def _checked(given: Any, where: str) -> tuple[tuple[int, int], ...]:
    """Return stretches as whole numbers, each once and in order, or say what is wrong with them."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise TypeError(
            f"{where} gave {given!r}; a list of (start, end) is needed, or an empty one"
        )
    spans = []
    for span in given:
        if not isinstance(span, tuple | list) or len(span) != 2:
            raise TypeError(f"{where} gave {span!r} among its windows; (start, end) is needed")
        start, end = (_moment(bound) for bound in span)
        if not -FAR <= start < end <= FAR:
            raise ValueError(
                f"{where} gave {span!r}: a window ends behind its start, and within 2**61 of 0"
            )
        spans.append((start, end))
    return tuple(sorted(set(spans)))


def _check_in_order(
    time: int, spans: tuple[tuple[int, int], ...], merging: bool, where: str
) -> None:
    """Refuse windows that may have been complete by the row before, in an ordered stream."""
    for start, end in spans:
        if end <= time or (merging and start < time):
            what = "start before the row" if merging else "end before or at the row"
            raise ValueError(
                f"{where} gave {(start, end)}: in an ordered stream, where each row is a watermark, "
                f"windows {'that merge ' if merging else ''}may not {what}; leave ordered=True out"
            )
