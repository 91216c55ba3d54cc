"""Python objects as Arrow arrays: all of one kind, and exactly, or TypeError.

Arrow alone guesses a type from a few of the objects and converts the others: a decimal among datetimes
becomes microseconds since 1970, a number of 64 bits beside floats wraps, nanoseconds are cut off.
"""

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

NULLS = ("NaTType", "NAType")
"""The nulls of pandas, which may be among objects of any kind."""
SEQUENCE = "list"
RECORD = "dict"
KINDS: tuple[tuple[Any, str], ...] = (
    ((bool, np.bool_), "bool"),
    ((np.longdouble, np.clongdouble), "longdouble"),
    ((np.datetime64,), "datetime64"),
    ((np.timedelta64,), "timedelta64"),
    ((int, np.integer), "int"),
    ((float, np.floating), "float"),
    ((str,), "str"),
    ((bytes, bytearray, memoryview), "bytes"),
    ((Decimal,), "Decimal"),
    ((dt.datetime,), "datetime"),
    ((dt.date,), "date"),
    ((dt.timedelta,), "timedelta"),
    ((dt.time,), "time"),
    ((list, tuple, np.ndarray), SEQUENCE),
    ((Mapping,), RECORD),
)
"""Types, and what kind of objects they are. The first that fits counts: a bool is an int in Python."""
ONE_TYPE = ({int}, {float}, {str}, {bool}, {bytes})
"""Types of Python that Arrow reads as they are."""
TOGETHER = ({"int", "float"}, {"int", "Decimal"})
"""Kinds that Arrow reads as one type, if all values have one there."""


def as_arrow_array(items: Any, *, nan_is_null: bool = False) -> "pa.Array":
    """Return objects as an Arrow array, or raise what says why they are not of one type."""
    import pyarrow as pa

    if not nan_is_null and {*map(type, items)} - {type(None)} in ONE_TYPE:
        return pa.array(items, from_pandas=False)
    items = _without_nulls(items, nan_is_null)
    kinds = _kinds(items)
    _check_together(items, kinds)
    if kinds == {"datetime"} and any(getattr(x, "nanosecond", 0) for x in items):
        zone = pa.array([x for x in items if x is not None][:1]).type.tz
        return pa.array(items, pa.timestamp("ns", zone))
    if kinds == {"timedelta"} and any(getattr(x, "nanoseconds", 0) for x in items):
        return pa.array(items, pa.duration("ns"))
    if len(kinds) > 1:
        items = [x.item() if isinstance(x, np.generic) else x for x in items]
    return pa.array(items, from_pandas=False)


def _without_nulls(items: Any, nan_is_null: bool) -> list[Any]:
    """Return the objects with None for what is null."""
    objects: list[Any] = items.tolist() if isinstance(items, np.ndarray) else list(items)
    types = {*map(type, objects)}
    nulls = {kind for kind in types if kind.__name__ in NULLS}
    if nulls:
        objects = [None if type(x) in nulls else x for x in objects]
    if nan_is_null and any(issubclass(kind, float) for kind in types):
        objects = [None if isinstance(x, float) and math.isnan(x) else x for x in objects]
    return objects


def _kinds(items: Iterable[Any]) -> set[str]:
    """Return what kinds of objects there are."""
    return {_kind(kind) for kind in {*map(type, items)} - {type(None)}}


def _kind(of: type) -> str:
    known = (name for types, name in KINDS if issubclass(of, types))
    return next(known, of.__qualname__)


def _check_together(items: list[Any], kinds: set[str]) -> None:
    """Raise TypeError if objects are not of one kind, or lists and dicts hold such."""
    if len(kinds) > 1 and kinds not in TOGETHER:
        raise TypeError(f"there are values of the types {', '.join(sorted(kinds))}")
    there = [x for x in items if x is not None]
    if kinds <= {"datetime", "time"} and len({x.tzinfo is None for x in there}) > 1:
        raise TypeError("there are times with a time zone and times without one")
    if kinds == {"time"} and there[0].tzinfo is not None:
        raise TypeError("a time of day with a time zone has no type in Arrow")
    if kinds == {SEQUENCE}:
        _check_inner(list(chain.from_iterable(there)))
    if kinds == {RECORD}:
        for name in dict.fromkeys(chain.from_iterable(there)):
            _check_inner([x.get(name) for x in there])


def _check_inner(items: list[Any]) -> None:
    kinds = _kinds(items)
    _check_together(items, kinds)
    if len(kinds) > 1 and any(isinstance(x, np.generic) for x in items):
        raise TypeError(f"lists hold numbers of NumPy's beside {', '.join(sorted(kinds))}")
