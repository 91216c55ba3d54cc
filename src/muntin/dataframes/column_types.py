"""Types of columns that come in, and of the results that go out.

Kernels work on whole numbers and floats of 64 bits; what a column was before (its width, its unit, its
time zone, the digits of a decimal) is a ColumnType. The type of a result follows from the aggregate's
rule (`aggregates.aggregate.RESULTS`) and the types of its columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregates.durations import UNIT_NANOSECONDS
from muntin.dataframes.columns import Column

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER, DECIMAL, MOMENT, DATE, DURATION = "numbers", "decimals", "moments", "dates", "durations"
TAKES = {
    "sum": (NUMBER, DECIMAL, DURATION),
    "mean": (NUMBER, DECIMAL, DURATION, MOMENT, DATE),
    "difference": (NUMBER, DECIMAL, DURATION, MOMENT, DATE),
    "float": (NUMBER, DECIMAL),
    "bytes of numbers": (NUMBER, DECIMAL),
    "increase": (NUMBER, DECIMAL),
    "product": (NUMBER,),
    "truth": (NUMBER,),
    "bits": (NUMBER,),
    "counts": (NUMBER, DECIMAL),
    "means": (NUMBER, DECIMAL, DURATION, MOMENT, DATE),
}
"""The families of types that a rule can compute with; others take anything."""
FAMILY_OF_KIND = {**dict.fromkeys("fiub", NUMBER), "m": DURATION, "M": MOMENT}
MOST_DIGITS = 38


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

    def is_of(self, column: Column) -> bool:
        """Whether a column without nulls is surely of this type, which is one of numbers."""
        if column.valid is not None or not self.is_known or column.dtype != self.dtype:
            return False
        if self.numbers is None or not column.is_numeric:
            return False
        return bool(column.values.dtype == self.numbers and column.arrow == self.arrow)

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
        return family_of(self.arrow)

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
            return None if self.arrow == pa.null() else self.arrow
        try:
            return pa.from_numpy_dtype(self.dtype)
        except pa.ArrowNotImplementedError:
            return None


@lru_cache(maxsize=1024)
def family_of(kind: "pa.DataType") -> str:
    """Return what kind of values an Arrow type has; of a type without a family, its name."""
    from pyarrow import types as kinds

    tests = {
        NUMBER: lambda k: kinds.is_integer(k) or kinds.is_floating(k) or kinds.is_boolean(k),
        DECIMAL: kinds.is_decimal,
        MOMENT: kinds.is_timestamp,
        DATE: kinds.is_date,
        DURATION: kinds.is_duration,
    }
    return next((name for name, test in tests.items() if test(kind)), str(kind))


def check_types(name: str, aggregate: Aggregate, columns: list[tuple[str, ColumnType]]) -> None:
    """Raise TypeError if an aggregate cannot compute with the types of its columns, by their names."""
    values = columns[:1] if aggregate.picks else columns
    if aggregate.timed is not None and columns:
        *values, (time, kind) = columns
        if kind.is_known and not _unit(kind):
            raise TypeError(
                f"aggregate {name!r} needs the times of rows, moments or whole numbers, and {time} is "
                f"{kind}; convert it, or take another column"
            )
    for column, kind in values:
        check_takes(name, aggregate, column, kind)


def in_units(aggregate: Aggregate, columns: Sequence[ColumnType]) -> Aggregate:
    """Return an aggregate whose kernel takes times in the unit that their column has."""
    unit = _unit(columns[-1]) if aggregate.timed is not None and columns else 0
    if aggregate.timed is None or not unit:
        return aggregate
    return replace(aggregate, kernel=aggregate.timed(unit))


def _unit(kind: ColumnType) -> int:
    """Return the nanoseconds in the unit of a column of times, 0 if it has no times."""
    if kind.numbers is None:
        return 0
    if kind.family == NUMBER:
        return 1000 if kind.dtype.kind in "iu" else 0  # whole numbers are microseconds
    if kind.dtype.kind != "M":
        return 0
    unit, count = np.datetime_data(kind.dtype)
    return UNIT_NANOSECONDS.get(unit, 0) if count == 1 else 0


def check_takes(name: str, aggregate: Aggregate, column: str, kind: ColumnType) -> None:
    """Raise TypeError if an aggregate cannot compute with values of a column's type."""
    rule = aggregate.result if isinstance(aggregate.result, str) else aggregate.result[0]
    takes = TAKES.get(rule)
    if rule == "bits" and kind.is_known and kind.dtype.kind == "f":
        takes = ("whole numbers",)
    if takes is None or not kind.is_known or kind.family in (*takes, ""):
        return
    joins = ": Concat joins text and lists" if kind.family in ("string", "large_string") else ""
    raise TypeError(
        f"aggregate {name!r} computes with {', '.join(takes)}, and {column} is {kind}{joins}; "
        "convert it, or take another column"
    )


def numpy_result(rule: str, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the NumPy type of results over a column; None for that which the kernel gives."""
    if rule == "value" or (rule == "mean" and dtype.kind in "mM"):
        return dtype
    if rule == "bits":
        return dtype
    if rule == "truth":
        return np.dtype(np.bool_)
    if rule in ("sum", "product", "increase") and (dtype.kind == "m" or dtype == np.uint64):
        return dtype
    if rule == "difference" and dtype.kind in "mM":
        return np.dtype(dtype.str.replace("M8", "m8"))
    return None


def arrow_result(rule: str, kind: "pa.DataType | None") -> "pa.DataType | None":
    """Return the Arrow type of results over a column; None for that which the results have."""
    import pyarrow as pa

    if rule == "count":
        return pa.int64()
    if rule == "counts":
        return pa.list_(pa.int64())
    if rule == "statistic":
        return pa.float64()
    if rule == "truth":
        return pa.bool_()
    if rule in ("bytes", "bytes of numbers"):
        return pa.binary()
    if kind is None or not rule:
        return None
    if rule in ("value", "bits"):
        return kind
    if rule == "values":
        return pa.list_(kind)
    if rule == "means":
        return pa.list_(_computed("mean", kind))
    return _computed(rule, kind)


@lru_cache(maxsize=1024)
def _computed(rule: str, kind: "pa.DataType") -> "pa.DataType | None":
    """Return the Arrow type of what is computed from a column."""
    import pyarrow as pa

    family = family_of(kind)
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

    more = {"sum": 10, "increase": 10, "difference": 1, "mean": 4}[rule]
    scale = kind.scale + (more if rule == "mean" else 0)
    return pa.decimal128(min(kind.precision + more, MOST_DIGITS), min(scale, MOST_DIGITS))
