"""Results of kernels and of users' functions in the types that they should have, or an error.

A kernel gives moments and durations as whole numbers of their unit. Objects are written as they are:
nothing is rounded but means of decimals, to the digits of their type.
"""

import datetime as dt
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.dataframes.column_types import DATE, DURATION, MOMENT, arrow_result, family_of
from muntin.dataframes.columns import Array
from muntin.dataframes.python_objects import as_arrow_array

if TYPE_CHECKING:
    import pyarrow as pa

WHOLE, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
MANY_DIGITS = Context(prec=100)
SECONDS_PER_DAY = 86_400
MICROSECONDS = {"s": 1_000_000, "ms": 1_000}


class DoesNotFitError(OverflowError):
    """A result does not fit its type; `row` is which of the results it is."""

    def __init__(self, row: int, kind: object) -> None:
        super().__init__(row, kind)
        self.row = row
        self.kind = kind


def as_numpy(values: Array, dtype: np.dtype[Any] | None) -> Array:
    """Return results of a kernel, or objects, in the NumPy type that they should have."""
    if dtype is None or values.dtype == dtype:
        return values
    if values.dtype.kind == "O":
        return values
    bits = dtype.kind in "mM" or dtype == np.uint64
    return values.view(dtype) if bits and values.dtype == np.int64 else values.astype(dtype)


def results_as_arrow(
    rule: str, values: Array, missing: Array | None, source: "pa.DataType | None"
) -> "pa.Array":
    """Return results of a kernel over a column of some type; `missing` marks those that are null."""
    import pyarrow as pa

    if rule == "difference" and source == pa.date32():
        values = values * SECONDS_PER_DAY
    return as_arrow(values, missing, arrow_result(rule, source))


def same_bits(values: Array, kind: "pa.DataType") -> "pa.Array":
    """Return numbers as an Arrow array of a type of as many bits, which are not looked at."""
    import pyarrow as pa

    held = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, held])


def as_arrow(values: Array, missing: Array | None, kind: "pa.DataType | None") -> "pa.Array":
    """Return numbers as an Arrow array of a type."""
    import pyarrow as pa

    if kind == pa.uint64() and values.dtype == np.int64:
        values = values.view(np.uint64)
    if missing is None and values.dtype in (WHOLE, FLOAT):
        array = same_bits(values, pa.int64() if values.dtype == WHOLE else pa.float64())
    else:
        array = pa.array(values, mask=missing)
    if kind is None or array.type == kind:
        return array
    from pyarrow import types as kinds

    if kind == pa.date32():
        return array.cast(pa.int32()).view(kind)
    if values.dtype == np.int64 and kind.bit_width == 64 and not kinds.is_integer(kind):
        return array.view(kind)
    return array.cast(kind)


def objects_as_arrow(items: list[Any], kind: "pa.DataType | None", overflow: str) -> "pa.Array":
    """Return results that are objects as an Arrow array, exactly, or raise DoesNotFitError.

    With overflow="null" a result that does not fit is null.
    """
    import pyarrow as pa
    from pyarrow import types as kinds

    if kind is not None and kinds.is_list(kind):
        return _lists_as_arrow(items, kind, overflow)
    if kind is not None and kinds.is_struct(kind):
        return _structs_as_arrow(items, kind, overflow)
    if kind is not None and family_of(kind) in (MOMENT, DATE, DURATION):
        return _moments_as_arrow(items, kind)
    if kind == pa.float64():
        items = [float(item) if isinstance(item, int | Fraction) else item for item in items]
    if kind is not None and kinds.is_decimal(kind):
        items = [_rounded(item, kind.scale) for item in items]
    if kind is not None and kinds.is_integer(kind) and any(map(_is_broken, items)):
        raise TypeError(f"not all results are whole numbers, and {kind} holds no others")
    try:
        return as_arrow_array(items) if kind is None else pa.array(items, kind, from_pandas=False)
    except (pa.ArrowInvalid, OverflowError) as error:
        misfits = [i for i, item in enumerate(items) if not fits(item, kind)]
        if not misfits:
            raise TypeError(f"{items[0]!r} and the like do not fit one column: {error}") from error
    if overflow == "error":
        raise DoesNotFitError(misfits[0], kind or "64 bits")
    kept = list(items)
    for i in misfits:
        kept[i] = None
    return pa.array(kept, kind, from_pandas=False)


def part_names(aggregate: Aggregate) -> tuple[str, ...]:
    """Return the names of a product's parts; none if they have no names."""
    names: tuple[str, ...] = dict(aggregate.parameters).get("names") or ()
    return names


def part_type(part: Aggregate, source: "pa.DataType | None") -> "pa.DataType | None":
    """Return the type of the results of a product's part; None if it is not known."""
    return arrow_result(part.result if isinstance(part.result, str) else "", source)


def products_as_arrow(
    items: list[Any], product: Aggregate, kinds: "list[pa.DataType | None]"
) -> "pa.Array":
    """Return results of a product as an Arrow array, each part in its type and with its `overflow`."""
    import pyarrow as pa

    names = part_names(product)
    parts = list(zip(product.parts, kinds, strict=True))
    if not names:
        rows = [item and tuple(map(_or_null, item, *zip(*parts, strict=True))) for item in items]
        return objects_as_arrow(rows, None, product.overflow)
    missing = np.array([item is None for item in items], np.bool_)
    columns = [
        objects_as_arrow([item and item[name] for item in items], kind, part.overflow)
        for name, (part, kind) in zip(names, parts, strict=True)
    ]
    mask = pa.array(missing) if missing.any() else None
    return pa.StructArray.from_arrays(columns, list(names), mask=mask)


def _or_null(value: Any, part: Aggregate, kind: "pa.DataType | None") -> Any:
    return value if part.overflow == "error" or fits(value, kind) else None


def _lists_as_arrow(items: list[Any], kind: "pa.DataType", overflow: str) -> "pa.Array":
    import pyarrow as pa

    lengths = [0 if item is None else len(item) for item in items]
    flat = [value for item in items if item is not None for value in item]
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    try:
        values = objects_as_arrow(flat, kind.value_type, overflow)
    except DoesNotFitError as error:
        row = int(np.searchsorted(offsets, error.row, side="right")) - 1
        raise DoesNotFitError(row, error.kind) from None
    missing = np.array([item is None for item in items], np.bool_)
    mask = pa.array(missing) if missing.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=kind, mask=mask)


def _structs_as_arrow(items: list[Any], kind: "pa.DataType", overflow: str) -> "pa.Array":
    import pyarrow as pa

    columns = [
        objects_as_arrow([x if x is None else x[field.name] for x in items], field.type, overflow)
        for field in kind
    ]
    missing = np.array([item is None for item in items], np.bool_)
    mask = pa.array(missing) if missing.any() else None
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)


def _moments_as_arrow(items: list[Any], kind: "pa.DataType") -> "pa.Array":
    """Return moments or durations, NumPy's or Python's in UTC, in the unit of a type."""
    import pyarrow as pa

    missing = np.array([item is None for item in items], np.bool_)
    letter = "m" if family_of(kind) == DURATION else "M"
    unit = {pa.date32(): "D", pa.date64(): "ms"}.get(kind) or kind.unit
    if kind == pa.duration("s") and any(_has_days(item) for item in items):
        unit = "D"
    dtype = np.dtype(f"{letter}8[{unit}]")
    fine = MICROSECONDS.get(unit, 1) if any(map(_is_pythons, items)) else 1
    read_as = np.dtype(f"{letter}8[us]") if fine > 1 else dtype
    ticks = np.array([np.array("NaT", read_as) if x is None else x for x in items], read_as)
    numbers = _nearest(np.where(missing, 0, ticks.view(np.int64)), fine)
    if unit == "D" and letter == "m":
        numbers = numbers * SECONDS_PER_DAY
    return as_arrow(numbers, missing if missing.any() else None, kind)


def _is_broken(item: Any) -> bool:
    return isinstance(item, float | Decimal | Fraction) and item != int(item)


def _is_pythons(item: Any) -> bool:
    return isinstance(item, dt.datetime | dt.timedelta)


def _nearest(numbers: Array, unit: int) -> Array:
    """Return whole numbers in a coarser unit, rounded half to even."""
    whole, rest = np.divmod(numbers, unit)
    rounded: Array = whole + ((2 * rest > unit) | ((2 * rest == unit) & (whole % 2 == 1)))
    return rounded


def _has_days(item: Any) -> bool:
    return isinstance(item, np.timedelta64) and np.datetime_data(item.dtype)[0] == "D"


def fits(item: Any, kind: "pa.DataType | None") -> bool:
    """Whether an object is a value of an Arrow type, or of any if there is none."""
    import pyarrow as pa

    try:
        pa.array([item], kind, from_pandas=False)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True


def _rounded(item: Any, scale: int) -> Any:
    """Round a mean to the digits of its column, as Spark does; a sum has no more digits than that."""
    if not isinstance(item, Decimal) or not item.is_finite():
        return item
    exponent = item.as_tuple().exponent
    if not isinstance(exponent, int) or exponent >= -scale:
        return item
    return item.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, MANY_DIGITS)
