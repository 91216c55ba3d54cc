"""Median and quantiles over arrays: sort blocks of rows, then slide over their ranks (`roll_ranks`)."""

import math
from dataclasses import replace
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregates.sums import EXACT_IN_FLOAT
from muntin.kernels.codegen.loop_source import load_loops
from muntin.kernels.loops import roll_ranks as rank_loops
from muntin.kernels.loops.roll_ranks import (
    DIGIT_VALUES,
    DIGITS,
    RankBlock,
    RankResults,
    WantedRanks,
)
from muntin.kernels.rolling_columns import roll_objects
from muntin.kernels.spans import Array, Spans

U = np.uint64
SMALLEST_BLOCK = 1 << 13
WINDOWS_PER_BLOCK = 4
SIGN = U(1 << 63)
EXACT_NUMERATOR = 2**31
"""A smaller numerator, times a number of rows, stays within 64 bits."""


def _module() -> ModuleType:
    return load_loops(rank_loops)


def roll_ranks(
    aggregate: Aggregate, column: Array, valid: Array | None, spans: Spans
) -> tuple[Array, Array]:
    """Return the order statistic of each span and the number of values in it."""
    assert aggregate.rank is not None
    share, interpolate = aggregate.rank
    if interpolate and column.dtype.kind in "iu" and len(column):
        return _roll_near_zero(aggregate, column, valid, spans)
    return _roll(share, interpolate, column, valid, spans)


def _roll_near_zero(
    aggregate: Aggregate, column: Array, valid: Array | None, spans: Spans
) -> tuple[Array, Array]:
    """Return order statistics interpolated between whole numbers.

    The least value is subtracted first, so that floats hold all of them. Where the values lie too far
    apart for that, Python's integers compute each window.
    """
    assert aggregate.rank is not None
    least, greatest = int(column.min()), int(column.max())
    if max(-least, greatest) <= EXACT_IN_FLOAT:
        return _roll(*aggregate.rank, column.astype(np.float64), valid, spans)
    if greatest - least > EXACT_IN_FLOAT:
        return _roll_objects(aggregate, column, valid, spans)
    results, counts = _roll(
        *aggregate.rank, (column - column.dtype.type(least)).astype(np.float64), valid, spans
    )
    whole = np.floor(np.where(counts > 0, results, 0.0))
    shifted = whole.astype(column.dtype) + column.dtype.type(least)
    return shifted.astype(np.float64) + (results - whole), counts


def _roll_objects(
    aggregate: Aggregate, column: Array, valid: Array | None, spans: Spans
) -> tuple[Array, Array]:
    inputs: list[Any] = column.tolist()
    if valid is not None:
        inputs = [x if there else None for x, there in zip(inputs, valid.tolist(), strict=True)]
    found = roll_objects(replace(aggregate, columns=()), inputs, spans)
    results = np.array([math.nan if x is None else float(x) for x in found], np.float64)
    there = np.append(0, np.cumsum([x is not None for x in inputs]))
    return results, there[spans.ends] - there[spans.starts]


def _roll(
    share: Fraction, interpolate: bool, column: Array, valid: Array | None, spans: Spans
) -> tuple[Array, Array]:
    longest = spans.longest()
    wanted = _wanted(share, interpolate, longest)
    windows = len(spans.starts)
    outs = np.empty(windows, np.float64 if interpolate else column.dtype)
    results = RankResults(outs, np.zeros(windows, np.int64))
    valid = np.ones(len(column), np.bool_) if valid is None else valid
    reach = max(SMALLEST_BLOCK, WINDOWS_PER_BLOCK * longest)
    lo = 0
    while lo < windows:
        base = int(spans.starts[lo])
        hi = max(lo + 1, int(np.searchsorted(spans.ends, base + reach, side="right")))
        top = int(spans.ends[hi - 1])
        block = _block(column, valid, base, top, outs.dtype)
        _module().roll_ranks(block, spans, U(lo), U(hi), wanted, results)
        lo = hi
    return results.values, results.counts


def _block(column: Array, valid: Array, base: int, top: int, dtype: np.dtype[Any]) -> RankBlock:
    """Return the rows [base, top), sorted, with their values in another type."""
    rows = column[base:top]
    order, ranks = in_order(rows)
    bits = np.zeros(len(rows) // 64 + 2, np.uint64)
    return RankBlock(rows[order].astype(dtype), ranks, valid[base:top], U(base), bits)


def in_order(values: Array) -> tuple[Array, Array]:
    """Return the row numbers in the order of their values, NaN last, and the rank of each row."""
    n = len(values)
    keys, spare_keys = _keys(values), np.empty(n, np.uint64)
    rows, spare_rows, ranks = np.empty((3, n), np.uint32)
    counts = np.zeros((DIGITS, DIGIT_VALUES), np.int32)
    swapped = _module().sort_rows(keys, rows, spare_keys, spare_rows, counts, ranks)
    return (spare_rows if swapped else rows), ranks


def _keys(values: Array) -> Array:
    """Map values to unsigned whole numbers that have the same order."""
    if values.dtype.kind != "f":
        signed = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)
        return signed.view(np.uint64) ^ (U(0) if values.dtype.kind == "u" else SIGN)
    bits = np.where(np.isnan(values), np.nan, values).astype(np.float64).view(np.uint64)
    return bits ^ np.where(bits >= SIGN, ~U(0), SIGN)  # the larger a number below zero, the smaller


def _wanted(share: Fraction, interpolate: bool, longest: int) -> WantedRanks:
    """Return which rank is wanted of windows of up to `longest` values."""
    n = np.arange(longest + 1)
    if not interpolate:
        if share.numerator < EXACT_NUMERATOR:
            rank = -((-share.numerator * n) // share.denominator)
        else:
            rank = np.ceil(float(share) * n).astype(np.int64)
        return WantedRanks(np.maximum(rank - 1, 0), np.zeros(longest + 1))
    positions = np.maximum(float(share) * (n - 1), 0)
    below = np.floor(positions).astype(np.int64)
    return WantedRanks(below, positions - below)
