"""Types of columns that come in, and of the results that go out.

Kernels work on whole numbers and floats of 64 bits; what a column was before (its width, its unit, its
time zone, the digits of a decimal) is a ColumnType. The type of a result follows from the aggregate's
rule (`aggregates.aggregate.RESULTS`) and the types of its columns. A value that does not fit the type
that its column had before is never converted: it is a bad row.
"""

from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.frames.columns import Array, Column

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER, DECIMAL, MOMENT, DATE, DURATION = "numbers", "decimals", "moments", "dates", "durations"
TAKES = {
    "sum": (NUMBER, DECIMAL, DURATION),
    "mean": (NUMBER, DECIMAL, DURATION, MOMENT, DATE),
    "difference": (NUMBER, DECIMAL, DURATION, MOMENT, DATE),
    "float": (NUMBER, DECIMAL),
}
"""The families of types that a rule can compute with; others take anything."""
FAMILY_OF_KIND = {**dict.fromkeys("fiub", NUMBER), "m": DURATION, "M": MOMENT}
MOST_DIGITS = 38
MANY_DIGITS = Context(prec=100)
EXACT_IN_FLOAT = 2**53
SECONDS_PER_DAY = 86_400
ATTOSECONDS = {
    "as": 1,
    "fs": 10**3,
    "ps": 10**6,
    "ns": 10**9,
    "us": 10**12,
    "ms": 10**15,
    "s": 10**18,
    "m": 60 * 10**18,
    "h": 3600 * 10**18,
    "D": 86_400 * 10**18,
    "W": 604_800 * 10**18,
}
"""The units of time that have one length."""


@dataclass(frozen=True)
class ColumnType:
    """What a column came as: its NumPy type, and its Arrow type where that says more.

    `numbers` is the type of its values in kernels; None if it holds objects. Nulls alone do not tell the
    type: it is not known then.
    """

    dtype: np.dtype[Any]
    arrow: "pa.DataType | None" = None
    numbers: np.dtype[Any] | None = None
    is_known: bool = True

    @classmethod
    def of(cls, column: Column) -> "ColumnType":
        """Return the type of a column."""
        numbers = column.values.dtype if column.is_numeric else None
        known = column.has_values and str(column.arrow) != "null"
        return cls(column.dtype, column.arrow, numbers, known)

    @classmethod
    def known(cls, column: Column) -> "ColumnType | None":
        """Return the type of a column, or None if it is not known."""
        kind = cls.of(column)
        return kind if kind.is_known else None

    @property
    def family(self) -> str:
        """What kind of values the column has; nothing if they are objects of any kind."""
        if self.arrow is None:
            return FAMILY_OF_KIND.get(self.dtype.kind, "")
        return _family(self.arrow)

    @property
    def form(self) -> str:
        """The form of a kernel that serves the column."""
        return "times" if self.family in (MOMENT, DATE, DURATION) else ""

    def __str__(self) -> str:
        return str(self.arrow) if self.arrow is not None else str(self.dtype)

    def plain(self) -> list[Any]:
        """Return the type as plain data."""
        import pyarrow as pa

        arrow = None
        if self.arrow is not None:
            arrow = pa.schema([("type", self.arrow)]).serialize().to_pybytes()
        numbers = None if self.numbers is None else self.numbers.str
        return [self.dtype.str, arrow, numbers, self.is_known]

    @classmethod
    def from_plain(cls, plain: Any) -> "ColumnType":
        """Return the type that plain() was called on, or raise ValueError."""
        import pyarrow as pa

        dtype, arrow, numbers, is_known = plain
        try:
            if arrow is not None:
                arrow = pa.ipc.read_schema(pa.py_buffer(arrow)).field("type").type
        except (pa.ArrowException, OSError, KeyError) as error:
            raise ValueError(f"the type of a column cannot be read: {error!r}") from error
        kernels = None if numbers is None else np.dtype(numbers)
        if kernels not in (None, np.int64, np.uint64, np.float64):
            raise ValueError(f"kernels do not work on {kernels}")
        return cls(np.dtype(dtype), arrow, kernels, bool(is_known))

    def as_arrow(self) -> "pa.DataType | None":
        """Return the Arrow type; None for objects of any kind, and units that Arrow has not."""
        import pyarrow as pa

        if self.arrow is not None or self.dtype.kind == "O":
            return self.arrow
        try:
            return pa.from_numpy_dtype(self.dtype)
        except pa.ArrowNotImplementedError:
            return None


def _family(kind: "pa.DataType") -> str:
    from pyarrow import types as kinds

    tests = {
        NUMBER: lambda k: kinds.is_integer(k) or kinds.is_floating(k) or kinds.is_boolean(k),
        DECIMAL: kinds.is_decimal,
        MOMENT: kinds.is_timestamp,
        DATE: kinds.is_date,
        DURATION: kinds.is_duration,
    }
    return next((name for name, test in tests.items() if test(kind)), str(kind))


def check_takes(name: str, aggregate: Aggregate, column: str, kind: ColumnType) -> None:
    """Raise TypeError if an aggregate cannot compute with values of a column's type."""
    takes = TAKES.get(aggregate.result if isinstance(aggregate.result, str) else "")
    if takes is None or not kind.is_known or kind.family in (*takes, ""):
        return
    joins = ": Concat joins text and lists" if kind.family in ("string", "large_string") else ""
    raise TypeError(
        f"aggregate {name!r} computes with {', '.join(takes)}, and {column} is {kind}{joins}; "
        "convert it, or take another column"
    )


# The types of results


def numpy_result(rule: str, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the NumPy type of results over a column; None for that which the kernel gives."""
    if rule == "value" or (rule == "mean" and dtype.kind in "mM"):
        return dtype
    if rule == "sum" and (dtype.kind == "m" or dtype == np.uint64):
        return dtype
    if rule == "difference" and dtype.kind in "mM":
        return np.dtype(dtype.str.replace("M8", "m8"))
    return None


def arrow_result(rule: str, kind: "pa.DataType | None") -> "pa.DataType | None":
    """Return the Arrow type of results over a column; None for that which the results have."""
    import pyarrow as pa

    if rule == "count":
        return pa.int64()
    if kind is None or not rule:
        return None
    family = _family(kind)
    if rule == "value":
        return kind
    if rule == "values":
        return pa.list_(kind)
    if rule == "float" or (rule == "mean" and family == NUMBER):
        return pa.float64()
    if family == NUMBER:
        return _wide(kind)
    if family == DECIMAL:
        return _decimal(rule, kind)
    if rule == "difference" and family in (MOMENT, DATE):
        return pa.duration({pa.date32(): "s", pa.date64(): "ms"}.get(kind) or kind.unit)
    return kind


def _wide(kind: "pa.DataType") -> "pa.DataType":
    import pyarrow as pa
    from pyarrow import types as kinds

    if kinds.is_floating(kind):
        return pa.float64()
    return pa.uint64() if kinds.is_uint64(kind) else pa.int64()


def _decimal(rule: str, kind: "pa.DataType") -> "pa.DataType":
    """Return the digits of a sum, mean or difference of decimals, as Spark has them."""
    import pyarrow as pa

    more = {"sum": 10, "difference": 1, "mean": 4}[rule]
    scale = kind.scale + (more if rule == "mean" else 0)
    return pa.decimal128(min(kind.precision + more, MOST_DIGITS), min(scale, MOST_DIGITS))


# Results in their types


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


def as_arrow(values: Array, missing: Array | None, kind: "pa.DataType | None") -> "pa.Array":
    """Return numbers as an Arrow array of a type."""
    import pyarrow as pa
    from pyarrow import types as kinds

    if kind is not None and kinds.is_uint64(kind) and values.dtype == np.int64:
        values = values.view(np.uint64)
    array = pa.array(values, mask=missing)
    if kind is None or array.type == kind:
        return array
    if kinds.is_date(kind) and kind == pa.date32():
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
    if kind is not None and _family(kind) in (MOMENT, DATE, DURATION):
        return _moments_as_arrow(items, kind)
    if kind == pa.float64():
        items = [float(item) if isinstance(item, int | Fraction) else item for item in items]
    if kind is not None and kinds.is_decimal(kind):
        items = [_rounded(item, kind.scale) for item in items]
    try:
        return pa.array(items, kind, from_pandas=False)
    except (pa.ArrowInvalid, OverflowError) as error:
        misfits = [i for i, item in enumerate(items) if not _fits(item, kind)]
        if not misfits:
            raise TypeError(f"{items[0]!r} and the like do not fit one column: {error}") from error
    if overflow == "error":
        raise DoesNotFitError(misfits[0], kind or "64 bits")
    kept = list(items)
    for i in misfits:
        kept[i] = None
    return pa.array(kept, kind, from_pandas=False)


def _lists_as_arrow(items: list[Any], kind: "pa.DataType", overflow: str) -> "pa.Array":
    import pyarrow as pa

    lengths = [0 if item is None else len(item) for item in items]
    flat = [value for item in items if item is not None for value in item]
    values = objects_as_arrow(flat, kind.value_type, overflow)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
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
    letter = "m" if _family(kind) == DURATION else "M"
    unit = {pa.date32(): "D", pa.date64(): "ms"}.get(kind) or kind.unit
    if kind == pa.duration("s") and any(_has_days(item) for item in items):
        unit = "D"
    dtype = np.dtype(f"{letter}8[{unit}]")
    ticks = np.array([np.array("NaT", dtype) if x is None else x for x in items], dtype)
    numbers = np.where(missing, 0, ticks.view(np.int64))
    if unit == "D" and letter == "m":
        numbers = numbers * SECONDS_PER_DAY
    return as_arrow(numbers, missing if missing.any() else None, kind)


def _has_days(item: Any) -> bool:
    return isinstance(item, np.timedelta64) and np.datetime_data(item.dtype)[0] == "D"


def _fits(item: Any, kind: "pa.DataType | None") -> bool:
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


# Columns in the type that they had before


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
    if held.family == NUMBER and held.numbers is not None and known.family in ("", DECIMAL):
        return _numbers_of_objects(objects, known, held)
    if held.arrow is None and held.numbers is None:
        return Column(_object_array(objects), column.valid, held.dtype), None
    if held.family != DECIMAL or (
        known.family not in (DECIMAL, "") and known.dtype.kind not in "iu"
    ):
        raise TypeError(_changed(known, held))
    bad = np.array([x is not None and not _fits(x, held.arrow) for x in objects], np.bool_)
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
            bad[row] = Fraction(values[row].item()) != Fraction(item)
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
    whole = column.values // factor.denominator
    furthest = (2**63 - 1) // factor.numerator
    bad = (whole * factor.denominator != column.values) | (np.abs(whole) > furthest)
    return np.where(bad, 0, whole) * factor.numerator, bad


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
        bad = _beyond(values, -EXACT_IN_FLOAT, EXACT_IN_FLOAT)
    else:
        limits = np.iinfo(wanted)
        moved = values.astype(wanted)
        bad = _beyond(values, int(limits.min), int(limits.max))
    narrow = moved.astype(held.dtype) if held.dtype.kind in "fiu" else moved
    with np.errstate(invalid="ignore"):
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
