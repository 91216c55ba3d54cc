"""Median and quantiles over arrays: sort blocks of rows, then slide over their ranks."""

import math
from dataclasses import replace
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.kernels.codegen.loop_source import load_loops
from muntin.kernels.loops import roll_ranks as rank_loops
from muntin.kernels.rolling_columns import EXACT_IN_FLOAT, roll_objects
from muntin.kernels.spans import Array, Spans

U = np.uint64
SMALLEST_BLOCK = 1 << 13
WINDOWS_PER_BLOCK = 4
SIGN = U(1 << 63)


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
    """Interpolate between whole numbers, less the least of them, so that floats hold them.

    Where they lie too far apart for that, each window is computed with Python's integers.
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
    below_of, weight_of = _wanted(share, interpolate, longest)
    windows = len(spans.starts)
    outs = np.empty(windows, np.float64 if interpolate else column.dtype)
    counts = np.zeros(windows, np.int64)
    valid = np.ones(len(column), np.bool_) if valid is None else valid
    reach = max(SMALLEST_BLOCK, WINDOWS_PER_BLOCK * longest)
    lo = 0
    while lo < windows:
        base = int(spans.starts[lo])
        hi = max(lo + 1, int(np.searchsorted(spans.ends, base + reach, side="right")))
        top = int(spans.ends[hi - 1])
        block = column[base:top]
        order, ranks = in_order(block)
        ordered = block[order].astype(outs.dtype)
        bits = np.zeros(len(block) // 64 + 2, np.uint64)
        _module().roll_ranks(
            ordered,
            ranks,
            valid[base:top],
            U(base),
            spans.starts,
            spans.ends,
            U(lo),
            U(hi),
            bits,
            below_of,
            weight_of,
            outs,
            counts,
        )
        lo = hi
    return outs, counts


def in_order(values: Array) -> tuple[Array, Array]:
    """Return the rows in the order of their values, NaN last, and the place of each row in it."""
    n = len(values)
    keys, spare_keys = _keys(values), np.empty(n, np.uint64)
    rows, spare_rows, ranks = np.empty((3, n), np.uint32)
    counts = np.zeros((6, 1 << 11), np.int32)
    order = _module().sort_rows(keys, rows, spare_keys, spare_rows, counts, ranks)
    return order, ranks


def _keys(values: Array) -> Array:
    """Return whole numbers in the order of the values."""
    if values.dtype.kind != "f":
        signed = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)
        return signed.view(np.uint64) ^ (U(0) if values.dtype.kind == "u" else SIGN)
    bits = np.where(np.isnan(values), np.nan, values).astype(np.float64).view(np.uint64)
    return bits ^ np.where(bits >= SIGN, ~U(0), SIGN)  # the larger a number below zero, the smaller


def _wanted(share: Any, interpolate: bool, longest: int) -> tuple[Array, Array]:
    """Return for each number of values how many rank below the wanted one, and the way to the next."""
    n = np.arange(longest + 1)
    if not interpolate:
        if share.numerator < 2**31:
            rank = -((-share.numerator * n) // share.denominator)
        else:
            rank = np.ceil(float(share) * n).astype(np.int64)
        return np.maximum(rank - 1, 0), np.zeros(longest + 1)
    positions = np.maximum(float(share) * (n - 1), 0)
    below = np.floor(positions).astype(np.int64)
    return below, positions - below
