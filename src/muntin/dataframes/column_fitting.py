"""A column in the type that it had in earlier batches.

A value that does not fit that type is never converted: its row is bad.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from muntin.dataframes.arrow_results import fits
from muntin.dataframes.column_types import DECIMAL, ColumnType
from muntin.dataframes.columns import Array, Column
from muntin.dataframes.time_units import ATTOSECONDS, convert


def fit(column: Column, held: ColumnType) -> tuple[Column, Array | None]:
    """Return a column in the type that it had before, and which rows have values that do not fit.

    Raises TypeError if it is of another kind altogether, such as text where there were numbers.
    """
    known = ColumnType.of(column)
    if known == held or not held.is_known:
        return column, None
    if not column.has_values:
        return _nulls(len(column.values), held), None
    if held.numbers is None or known.numbers is None:
        return _fit_objects(column, known, held)
    if _is_zoned(known) != _is_zoned(held):
        raise TypeError(_changed(known, held))
    times = {held.dtype.kind, known.dtype.kind} & set("mM")
    if (times or {held.dtype.kind, known.dtype.kind} & {"b"}) and (
        held.dtype.kind != known.dtype.kind
    ):
        raise TypeError(_changed(known, held))
    values, bad = _same_unit(column, held) if times else _same_number(column, held)
    bad = bad if column.valid is None else bad & column.valid
    if bad.any():
        values = np.where(bad, np.zeros(1, values.dtype), values)
    return Column(values, column.valid, held.dtype, held.arrow), bad if bad.any() else None


def _is_zoned(kind: ColumnType) -> bool:
    return getattr(kind.arrow, "tz", None) is not None


def _changed(known: ColumnType, held: ColumnType) -> str:
    return f"it was of type {held} in earlier batches and is {known} now: convert it to one type"


def _nulls(rows: int, held: ColumnType) -> Column:
    dtype = np.dtype(object) if held.numbers is None else held.numbers
    return Column(
        np.full(rows, None if held.numbers is None else 0, dtype),
        np.zeros(rows, np.bool_),
        held.dtype,
        held.arrow,
    )


def _fit_objects(
    column: Column, known: ColumnType, held: ColumnType
) -> tuple[Column, Array | None]:
    """Let values be followed by others of their kind, object by object; text is no number."""
    texts = ("string", "large_string")
    if known.family in texts and held.family in texts:
        return replace(column, arrow=held.arrow), None
    objects = column.objects()
    if held.numbers is not None and held.dtype.kind in "fiu" and known.family in ("", DECIMAL):
        return _numbers_of_objects(objects, known, held)
    if held.arrow is None and held.numbers is None:
        return Column(_object_array(objects), column.valid, held.dtype), None
    if held.family != DECIMAL or (
        known.family not in (DECIMAL, "") and known.dtype.kind not in "iu"
    ):
        raise TypeError(_changed(known, held))
    bad = np.array([x is not None and not fits(x, held.arrow) for x in objects], np.bool_)
    kept = [None if misfit else x for x, misfit in zip(objects, bad.tolist(), strict=True)]
    fitted = Column(_object_array(kept), column.valid, held.dtype, held.arrow)
    return fitted, bad if bad.any() else None


def _object_array(items: list[Any]) -> Array:
    objects = np.empty(len(items), object)
    objects[:] = items
    return objects


def _numbers_of_objects(
    objects: list[Any], known: ColumnType, held: ColumnType
) -> tuple[Column, Array | None]:
    """Return numbers among objects as kernels take them; those that lose digits are bad."""
    assert held.numbers is not None
    values, bad = np.zeros(len(objects), held.numbers), np.zeros(len(objects), np.bool_)
    for row, item in enumerate(objects):
        if item is None:
            continue
        if isinstance(item, str | bytes) or not hasattr(item, "as_integer_ratio"):
            raise TypeError(_changed(known, held))
        try:
            values[row] = item
            with np.errstate(over="ignore"):
                narrow = values[row].astype(held.dtype)
            bad[row] = not Fraction(item) == Fraction(values[row].item()) == Fraction(narrow.item())
        except (OverflowError, ValueError):
            bad[row] = True
    valid = np.array([item is not None for item in objects], np.bool_)
    return Column(values, None if valid.all() else valid, held.dtype), bad if bad.any() else None


def _same_unit(column: Column, held: ColumnType) -> tuple[Array, Array]:
    """Return moments or durations in the unit they had before; what is not whole in it does not fit."""
    (source, many), (target, few) = np.datetime_data(column.dtype), np.datetime_data(held.dtype)
    if source == target and many == few:
        return column.values, np.zeros(len(column.values), np.bool_)
    if not {source, target} <= ATTOSECONDS.keys():
        raise TypeError(_changed(ColumnType.of(column), held))
    factor = Fraction(ATTOSECONDS[source] * many, ATTOSECONDS[target] * few)
    values, broken, far = convert(column.values, factor)
    return values, broken | far


def _same_number(column: Column, held: ColumnType) -> tuple[Array, Array]:
    """Return numbers in the type they had before; what would lose digits does not fit."""
    assert held.numbers is not None
    values, wanted = column.values, held.numbers
    if values.dtype == wanted:
        moved, bad = values, np.zeros(len(values), np.bool_)
    elif values.dtype.kind == "f":
        limits = np.iinfo(wanted)
        with np.errstate(invalid="ignore"):
            inside = (values >= float(limits.min)) & (values < float(limits.max))
            moved = np.where(inside, values, 0.0).astype(wanted)
        bad = ~inside | (moved != values)
    elif wanted.kind == "f":
        moved = values.astype(wanted)
        with np.errstate(invalid="ignore"):
            back = moved.astype(values.dtype)
        bad = (back != values) | (moved >= float(np.iinfo(values.dtype).max))
    else:
        limits = np.iinfo(wanted)
        moved = values.astype(wanted)
        bad = _beyond(values, int(limits.min), int(limits.max))
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = moved.astype(held.dtype) if held.dtype.kind in "fiu" else moved
        bad |= (narrow != moved) & ~((narrow != narrow) & (moved != moved))
    return moved, bad


def _beyond(values: Array, least: int, most: int) -> Array:
    """Return which whole numbers are not between two others, whatever the sign of their type."""
    limits = np.iinfo(values.dtype)
    beyond = np.zeros(len(values), np.bool_)
    if limits.min < least:
        beyond |= values < least
    if limits.max > most:
        beyond |= values > most
    return beyond
