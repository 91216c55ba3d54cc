"""The windows of one key that are made of the stretches of time for which its rows stand.

Windows of the same bounds are one; those that merge are unions of stretches that touch or overlap. In
sessions a stretch begins with its row, so the rows of a session follow each other; and a session that
would grow longer than allowed ends before the row by which it would, which begins another.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from muntin.slicing.limits import Array

Span = tuple[int, int]
"""A stretch of time: (start, end)."""
Spans = tuple[Span, ...]
"""The stretches for which a row stands, each once and in order."""


class Found(NamedTuple):
    """Windows in the order of their starts, with their rows by number among those of a key."""

    spans: list[Span]
    rows: Array  # those of one window after the other, in the order of time and arrival
    bounds: Array  # where the rows of each window begin, and where the last ones end

    def rows_of(self, i: int) -> Array:
        """Return the rows of a window."""
        rows: Array = self.rows[self.bounds[i] : self.bounds[i + 1]]
        return rows

    def any_of(self, marks: Array) -> list[bool]:
        """Return of each window whether one of its rows is marked."""
        if not self.spans:
            return []
        found: list[bool] = np.logical_or.reduceat(marks[self.rows], self.bounds[:-1]).tolist()
        return found


def sessions(times: Array, ends: Array, longest: int | None) -> Found:
    """Return the sessions of rows that stand for stretches from their times on."""
    cuts = _apart(times, ends) if longest is None else _apart_at_most(times, ends, longest)
    first = np.array([0, *cuts], np.int64)[: len(times)]
    bounds = np.append(first, len(times))
    last = np.maximum.reduceat(ends, first) if len(first) else ends
    spans = list(zip(times[first].tolist(), last.tolist(), strict=True))
    return Found(spans, np.arange(len(times)), bounds)


def _apart(times: Array, ends: Array) -> list[int]:
    """Return the rows that no stretch before them reaches."""
    reached = np.maximum.accumulate(ends)
    cuts: list[int] = (np.flatnonzero(times[1:] > reached[:-1]) + 1).tolist()
    return cuts


def _apart_at_most(times: Array, ends: Array, longest: int) -> list[int]:
    """Return the rows that open a session, of which none is later than `longest` after its first."""
    cuts: list[int] = []
    first = reached = None
    for i, (time, end) in enumerate(zip(times.tolist(), ends.tolist(), strict=True)):
        if first is None or reached is None:
            first, reached = time, end
        elif time > reached or time - first > longest:
            cuts.append(i)
            first, reached = time, end
        else:
            reached = max(reached, end)
    return cuts


def assigned(rows: Sequence[Spans], merging: bool) -> Found:
    """Return the windows of rows that stand for any stretches."""
    spans = sorted((span, i) for i, held in enumerate(rows) for span in held)
    groups = list(_unions(spans)) if merging else list(_same(spans))
    members = [sorted(set(mine)) for _, mine in groups]
    bounds = np.cumsum([0, *map(len, members)])
    return Found(
        [span for span, _ in groups],
        np.array([i for mine in members for i in mine], np.int64),
        bounds,
    )


def _same(spans: list[tuple[Span, int]]) -> Iterator[tuple[Span, list[int]]]:
    """Return each stretch once, with the rows that have it."""
    groups: dict[Span, list[int]] = {}
    for span, i in spans:
        groups.setdefault(span, []).append(i)
    yield from groups.items()


def _unions(spans: list[tuple[Span, int]]) -> Iterator[tuple[Span, list[int]]]:
    """Return the unions of stretches that touch or overlap, with the rows of each."""
    open_span: Span | None = None
    rows: list[int] = []
    for (start, end), i in spans:
        if open_span is not None and start <= open_span[1]:
            open_span = open_span[0], max(open_span[1], end)
            rows.append(i)
            continue
        if open_span is not None:
            yield open_span, rows
        open_span, rows = (start, end), [i]
    if open_span is not None:
        yield open_span, rows


def without(held: Spans, gone: Sequence[Span], merging: bool) -> Spans:
    """Return the stretches of a row that are in no window of some that are gone."""
    if not merging:
        return tuple(span for span in held if span not in gone)
    return tuple(
        (start, end)
        for start, end in held
        if not any(first <= start and end <= last for first, last in gone)
    )


def read_spans(saved: Any) -> Spans:
    """Return the stretches of a row as they were saved, or raise ValueError."""
    spans = tuple((start, end) for start, end in saved)
    if any(type(bound) is not int for span in spans for bound in span):
        raise TypeError("stretches of time are whole numbers")
    if any(start >= end for start, end in spans) or list(spans) != sorted(set(spans)):
        raise ValueError("stretches of time end behind their start, and are in order")
    return spans
