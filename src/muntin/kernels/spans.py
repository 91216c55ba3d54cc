"""Where each row's window begins and ends, as row numbers that never fall.

A window of n rows is (i - n, i] and a window of time (t - size, t]; `closed` says which ends belong to
it. No window holds a row after its own, unless it is centred. With groups, the rows of a group are
neighbours and windows stay inside their group.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Literal

import numpy as np

from muntin.aggregates.numbers import GREATEST
from muntin.kernels.codegen.loop_source import load_loops
from muntin.kernels.loops import find_spans
from muntin.kernels.loops.loop_arguments import Array as Array  # callers import both from here
from muntin.kernels.loops.loop_arguments import Spans as Spans

Bound = int | float | None
Side = Literal["left", "right"]
CLOSED = ("right", "left", "both", "neither")
FURTHEST = GREATEST - 1
"""No sum of a time and a size is further from 0."""


def row_spans(
    rows: int, n: int, closed: str, center: bool, groups: "Groups | None" = None
) -> Spans:
    """Return the windows of n rows, within groups if there are some."""
    n = min(n, 2 * rows + 2)  # further than that, there is no row
    shift = (n - 1) // 2 if center else 0
    low = 1 + shift - n - (closed in ("left", "both"))
    high = shift - (closed in ("left", "neither"))
    if groups is not None:
        return row_frames(groups, low, high)
    at = np.arange(rows)
    return Spans(np.clip(at + low, 0, rows), np.clip(at + high + 1, 0, rows))


def time_spans(times: Array, size: int, closed: str, center: bool) -> Spans:
    """Return the windows of time around each row's time."""
    times, size = within_reach(times, size)
    left: Side = "left" if closed in ("left", "both") else "right"
    right: Side = "right" if closed in ("right", "both") else "left"
    half = size // 2
    before, after = (half, half) if center else (size, 0)
    starts = np.searchsorted(times, times - before, side=left)
    ends = np.searchsorted(times, times + after, side=right)
    if not center:
        ends = np.minimum(ends, np.arange(1, len(times) + 1))
    return Spans(starts, np.maximum(starts, ends))


def group_time_spans(groups: "Groups", times: Array, size: int, closed: str, center: bool) -> Spans:
    """Return the windows of time around each row's time, within its group."""
    half = size // 2
    low, high = (-half, half) if center else (-size, 0)
    spans = range_frames(groups, times, None, low, high, closed)
    if center:
        return spans
    ends = np.minimum(spans.ends, np.arange(1, len(times) + 1))
    return Spans(spans.starts, np.maximum(spans.starts, ends))


def within_reach(times: Array, size: int) -> tuple[Array, int]:
    """Return times and a size that give the same windows, and whose sums fit into 64 bits."""
    if len(times) == 0:
        return times, min(size, FURTHEST)
    first, last = int(times[0]), int(times[-1])
    size = min(size, 2 * (last - first) + 2)  # further than that, there is no row
    if max(abs(first), abs(last)) + size <= FURTHEST:
        return times, size
    if last - first + size > FURTHEST:
        raise ValueError(
            f"the times of rows 0 and {len(times) - 1}, {first} and {last}, are too far apart: they "
            "must be within 2**61"
        )
    return times - first, size


@dataclass(frozen=True)
class Ticks:
    """The multiples of `every` from each group's first row to after its last, and their windows."""

    ends: Array
    groups: Array  # the group of each tick
    spans: Spans  # the rows in [tick - size, tick)


def tick_spans(groups: "Groups", times: Array, size: int | None, every: int) -> Ticks:
    """Return a window of `size` before each tick; without a size it begins with the group."""
    edges = groups.edges
    firsts, lasts = times[edges[:-1]] // every + 1, times[edges[1:] - 1] // every + 1
    late = np.flatnonzero(lasts > FURTHEST // every)
    if len(late):
        row = int(edges[late[0] + 1]) - 1
        raise ValueError(
            f"the first multiple of {every} after the time of row {row}, {int(times[row])}, does not "
            "fit into 64 bits: choose a shorter every"
        )
    counts = lasts - firsts + 1
    tick_edges = np.concatenate(([0], np.cumsum(counts)))
    owners = np.repeat(np.arange(len(counts)), counts)
    ends = (np.arange(len(owners)) - tick_edges[owners] + firsts[owners]) * every
    stops, starts = np.empty(len(ends), np.int64), edges[owners]
    _loops().find_ticks(times, edges, tick_edges, ends, stops)
    if size is not None:
        lows, beyond = _moved(ends, -size)
        found = np.empty(len(ends), np.int64)
        _loops().find_ticks(times, edges, tick_edges, lows, found)
        starts = np.where(beyond, starts, found)
    return Ticks(ends, owners, Spans(starts, stops))


def in_chains(spans: Spans) -> list[Array]:
    """Return the numbers of windows as chains, along each of which neither starts nor ends fall.

    Windows of no rows are a chain of their own. There are as many others as windows lie one inside the
    other, at most.
    """
    starts, ends = spans
    there = starts < ends
    windows = np.flatnonzero(there)
    windows = windows[np.lexsort((ends[windows], starts[windows]))]
    number = np.empty(len(windows), np.int64)
    lasts: list[int] = []  # of each chain the end of its last window, negative, so that they rise
    for place, end in enumerate(ends[windows].tolist()):
        chain = bisect_left(lasts, -end)
        if chain == len(lasts):
            lasts.append(-end)
        lasts[chain] = -end
        number[place] = chain
    order = np.argsort(number, kind="stable")
    chains = np.split(windows[order], np.cumsum(np.bincount(number, minlength=len(lasts)))[:-1])
    empty = np.flatnonzero(~there)
    return [*chains, empty] if len(empty) else chains


@dataclass(frozen=True)
class Groups:
    """Groups of neighbouring rows: group g has the rows [edges[g], edges[g + 1])."""

    edges: Array

    @classmethod
    def of(cls, codes: Array) -> "Groups":
        """Return the groups of neighbouring rows with equal codes."""
        changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
        return cls(np.concatenate(([0], changes, [len(codes)])))

    @property
    def first(self) -> Array:
        """The first row of each row's group."""
        return np.repeat(self.edges[:-1], np.diff(self.edges))

    @property
    def after(self) -> Array:
        """The row after the last of each row's group."""
        return np.repeat(self.edges[1:], np.diff(self.edges))


def row_frames(groups: Groups, low: Bound, high: Bound) -> Spans:
    """Return the frames from row i + low to row i + high of each row i; None is the end of its group."""
    rows = int(groups.edges[-1])
    limits = np.int64(-rows - 1), np.int64(rows + 1)
    starts, ends = np.empty(rows, np.int64), np.empty(rows, np.int64)
    bounds = [
        limit if bound is None else np.int64(_clipped(bound, rows + 1))
        for bound, limit in zip((low, high), limits, strict=True)
    ]
    _loops().find_rows(groups.edges, *bounds, starts, ends)
    return Spans(starts, ends)


def range_frames(
    groups: Groups, values: Array, valid: Array | None, low: Bound, high: Bound, closed: str
) -> Spans:
    """Return the frames of rows whose value is between value + low and value + high of each row.

    Values never fall within a group, and nulls come first; `closed` says which ends belong to a frame.
    """
    edges = groups.edges
    known = edges[:-1]
    if valid is not None:
        known = known + np.add.reduceat((~valid).astype(np.int64), known)
    starts, ends = groups.first, groups.after
    first = np.repeat(known, np.diff(edges))
    there = np.arange(len(starts)) >= first
    if low is not None:
        lows, beyond = _moved(values, low)
        _loops().find_starts(values, edges, known, lows, closed in ("right", "neither"), starts)
        starts[beyond & there] = (first if low < 0 else groups.after)[beyond & there]
    if high is not None:
        highs, beyond = _moved(values, high)
        _loops().find_ends(values, edges, known, highs, closed in ("left", "neither"), ends)
        ends[beyond & there] = (first if high < 0 else groups.after)[beyond & there]
    return Spans(starts, ends)


def _moved(values: Array, by: int | float) -> tuple[Array, Array]:
    """Return values + by, and which of these sums their type cannot hold."""
    if values.dtype.kind == "f" or isinstance(by, float):
        return values + by, np.zeros(len(values), np.bool_)
    end = np.iinfo(values.dtype)
    beyond: Array = values < end.min - by if by < 0 else values > end.max - by
    step = min(abs(by), end.max)
    rest = min(abs(by) - step, end.max)  # 1 where -2**63 is subtracted
    moved = values - step - rest if by < 0 else values + step + rest
    return np.where(beyond, end.min if by < 0 else end.max, moved), beyond  # pointers follow them


def _clipped(by: int | float, rows: int) -> int | float:
    """Return `by`, limited to [-rows, rows]."""
    return max(-rows, min(by, rows))


@cache
def _loops() -> ModuleType:
    return load_loops(find_spans)
