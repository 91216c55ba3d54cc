"""Aggregates of every type over arrays and frames, against exact arithmetic.

NumPy, pandas, Polars and Arrow get back what they gave: types, units, time zones and nulls.
"""

import math
import random
import re
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import types as kinds

import muntin as mt
from tests.number_oracle import (
    AGGREGATES,
    DTYPES,
    OVERFLOW,
    agrees,
    as_array,
    as_plain,
    expected,
    random_values,
    result_type,
)

SIZE = 3
MOODS = ("ordinary", "extreme", "both", "neighbours")
NAMES = ("Sum", "Mean", "Max", "Last", "Range", "Median", "Quantile", "Collect")
MORE_NAMES = (*NAMES, "Count", "Std", "ArgMin", "M4", "Quantile linear")
FEW = ("Sum", "Mean", "Max", "Range", "Median", "Collect")
NESTED = ("M4", "Collect")


# Columns of each kind, and what is in the results


def to_numpy(array: pa.Array) -> Any:
    kind = array.type
    if kinds.is_timestamp(kind) or kinds.is_duration(kind):
        letter = "M" if kinds.is_timestamp(kind) else "m"
        return np.array(as_plain(array), np.int64).view(f"{letter}8[{kind.unit}]")
    if kinds.is_date32(kind):
        return np.array(as_plain(array), "int64").view("M8[D]")
    if kinds.is_decimal(kind) or kinds.is_string(kind):
        return np.array(array.to_pylist(), object)
    return array.to_numpy(zero_copy_only=False)


def numpy_dtype(kind: pa.DataType) -> np.dtype[Any]:
    return to_numpy(pa.array([], kind)).dtype if not kinds.is_nested(kind) else np.dtype(object)


def from_numpy(values: Any) -> list[Any]:
    if values.dtype.kind in "mM":
        null = np.isnat(values)
        return [None if no else x for x, no in zip(values.view("i8").tolist(), null, strict=True)]
    return values.tolist()


def to_pandas(array: pa.Array) -> pd.Series:
    values, index = to_numpy(array), pd.RangeIndex(7, 7 + len(array))
    series = pd.Series(values, index, name="watts")
    zone = getattr(array.type, "tz", None)
    return series.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else series


def pandas_dtype(kind: pa.DataType) -> Any:
    return object if kinds.is_nested(kind) else to_pandas(pa.array([], kind)).dtype


def from_pandas(series: pd.Series) -> list[Any]:
    assert series.name == "watts"
    assert series.index[0] == 7
    if series.dtype == object:
        return series.tolist()
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if isinstance(series.dtype, pd.ArrowDtype):
        return as_plain(pa.array(series))
    if not isinstance(series.dtype, np.dtype):
        return [None if x is pd.NA else x for x in series.tolist()]
    return from_numpy(series.to_numpy())


NULLABLE = {
    **{name: name[0].upper() + name[1:] for name in DTYPES if name.startswith("int")},
    **{name: name[:2].upper() + name[2:] for name in DTYPES if name.startswith("uint")},
    "float32": "Float32",
    "float64": "Float64",
    "bool": "boolean",
}


def to_nullable(array: pa.Array) -> pd.Series:
    name = {"double": "float64", "float": "float32"}.get(str(array.type), str(array.type))
    values = pd.array(array.to_pylist(), dtype=NULLABLE[name])
    return pd.Series(values, pd.RangeIndex(7, 7 + len(array)), name="watts")


def to_arrow_series(array: pa.Array) -> pd.Series:
    values = pd.arrays.ArrowExtensionArray(array)
    return pd.Series(values, pd.RangeIndex(7, 7 + len(array)), name="watts")


def to_polars(array: pa.Array) -> pl.Series:
    return pl.from_arrow(array).alias("watts")


# Places: values of one type in, a result per row out, or per tick


def over_rows(column: Any, arguments: Any, aggregate: mt.Aggregate) -> Any:
    values = column if arguments is None else (column, arguments)
    return mt.rolling(values, SIZE, aggregate, min_periods=1)


def over_time(column: Any, arguments: Any, aggregate: mt.Aggregate) -> Any:
    """Give rows times so far apart that three of them are in a window."""
    values = column if arguments is None else (column, arguments)
    on = np.arange(len(column)).astype("datetime64[s]")
    return mt.rolling(values, "3 s", aggregate, on=on)


def at_ticks(column: Any, arguments: Any, aggregate: mt.Aggregate) -> Any:
    values = column if arguments is None else (column, arguments)
    on = np.arange(1, len(column) + 1).astype("datetime64[s]")
    ticks, results = mt.rolling(values, "3 s", aggregate, on=on, every="1 s")
    assert ticks.tolist() == (on + 1).tolist()
    return results


def by_groups(column: pa.Array, arguments: Any, aggregate: mt.Aggregate) -> Any:
    """Roll over the values in one group, between rows of another that has them in reverse."""
    there, back = np.arange(len(column)), np.arange(len(column))[::-1]
    order = np.stack([there, back], axis=1).ravel()
    values = column.take(order)
    both = values if arguments is None else (values, arguments.take(order))
    groups = np.array(["a", "b"] * len(column))
    return mt.rolling(both, SIZE, aggregate, by=groups, min_periods=1)[0::2]


def in_pieces(column: Any, _arguments: Any, aggregate: mt.Aggregate) -> Any:
    window = mt.Rolling(SIZE, aggregate, min_periods=1)
    cuts = [(0, 1), (1, 5), (5, 5), (5, 8), (8, len(column))]
    return pa.concat_arrays([window.push(column[a:b]) for a, b in cuts if b > a])


def sequences(name: str, dtype: str, nulls: bool, finite: bool) -> list[Any]:
    """Return rows of a value and an argument of one type, a few times."""
    rng = random.Random(zlib.crc32(f"{name} {dtype}".encode()))
    found = []
    for mood in MOODS:
        columns = [random_values(name, dtype, mood, 12, rng) for _ in range(2)]
        rows = list(zip(*columns, strict=True))
        rows = rows if nulls else [row for row in rows if None not in row]
        found.append([row for row in rows if not (finite and any(map(is_strange, row)))])
    return found


def is_strange(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def over_each_row(name: str, kind: pa.DataType, rows: list[Any]) -> list[Any]:
    """Return what the windows of the last rows have; windows without values have nothing."""
    wanted = []
    for i in range(len(rows)):
        window = rows[max(0, i - SIZE + 1) : i + 1]
        there = any(v is not None for v, _ in window)
        of = expected(name, kind, window) if there or name == "Count" else None
        wanted.append(len(window) if name == "Count" else of)
    return wanted


def check(
    name: str,
    dtype: str,
    place: Callable[..., Any],
    convert: Callable[[pa.Array], Any],
    read: Callable[[Any, pa.DataType], list[Any]],
    nulls: bool = True,
    finite: bool = False,
) -> None:
    """Compare a place's results with exact ones, over several sequences."""
    known, kind = AGGREGATES[name], DTYPES[dtype].type
    wide = result_type(name, kind)
    for rows in filter(None, sequences(name, dtype, nulls, finite)):
        column, arguments = (convert(as_array(x, kind)) for x in zip(*rows, strict=True))
        arguments = arguments if known.takes_pairs else None
        if wide is None:
            with pytest.raises(TypeError, match=re.escape(known.make().name)):
                place(column, arguments, known.make())
            continue
        wanted = over_each_row(name, kind, rows)
        if OVERFLOW in wanted:
            with pytest.raises(OverflowError, match=re.escape(known.make().name)):
                place(column, arguments, known.make())
            continue
        results = read(place(column, arguments, known.make()), wide)
        pairs = zip(results, wanted, strict=True)
        wrong = {i: pair for i, pair in enumerate(pairs) if not agrees(*pair)}
        assert not wrong, f"(result, expected) by row of {rows}: {wrong}"


def read_arrow(results: Any, wide: pa.DataType) -> list[Any]:
    if kinds.is_struct(wide) and len({field.type for field in wide}) == 1:  # parts of one type
        assert results.type == pa.list_(wide.field(0).type)
        return [x if x is None else tuple(x) for x in as_plain(results)]
    assert results.type == wide
    return as_plain(results)


@pytest.mark.parametrize("name", MORE_NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrow_gives_arrow(dtype, name):
    check(name, dtype, over_rows, lambda array: array, read_arrow)


@pytest.mark.parametrize("place", [over_time, at_ticks, by_groups, in_pieces])
@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize(
    "dtype", ["int64", "uint64", "decimal(38,10)", "timestamp[ns, UTC]", "bool"]
)
def test_time_ticks_groups_and_pieces(dtype, name, place):
    check(name, dtype, place, lambda array: array, read_arrow)


def of_types(names, dtypes, without=()):
    """Return pairs of type and aggregate, without lists and structs of times: those are Arrow's."""
    pairs = [(dtype, name) for dtype in dtypes for name in names if (dtype, name) not in without]
    times = [d for d in DTYPES if kinds.is_temporal(DTYPES[d].type)]
    kept = [pair for pair in pairs if not (pair[0] in times and pair[1] in NESTED)]
    return pytest.mark.parametrize(("dtype", "name"), kept)


ZONED = ("timestamp[us, Europe/Berlin]", "timestamp[ns, UTC]")


# How many digits decimals have is said by a column; objects do not say it. NumPy's dates differ by days.
OBJECTS = [
    *((d, name) for d in DTYPES if "decimal" in d for name in ("Sum", "Mean", "Median", "Range")),
    ("date32", "Range"),
]


@of_types(NAMES, [d for d in DTYPES if d not in ZONED], OBJECTS)
def test_numpy_gives_numpy(dtype, name):
    def read(results, wide):
        assert isinstance(results, np.ndarray)
        assert results.dtype == numpy_dtype(wide)
        return from_numpy(results)

    check(name, dtype, over_rows, to_numpy, read, nulls=False)


@of_types(NAMES, [d for d in DTYPES if d != "date32"], OBJECTS)
def test_pandas_gives_pandas(dtype, name):
    def read(results, wide):
        assert results.dtype == pandas_dtype(wide)
        return [None if x != x else x for x in from_pandas(results)]

    check(name, dtype, over_rows, to_pandas, read, nulls=False, finite=True)


@of_types(NAMES, NULLABLE)
def test_nullable_pandas_stays_nullable(dtype, name):
    def read(results, wide):
        wanted = {"double": "Float64", "float": "Float32"}.get(str(wide), NULLABLE.get(str(wide)))
        if name in ("Sum", "Max", "Last", "Quantile"):
            assert str(results.dtype) == wanted
        return [None if x != x else x for x in from_pandas(results)]

    check(name, dtype, over_rows, to_nullable, read, finite=True)


@of_types(NAMES, DTYPES)
def test_pandas_with_arrow_stays_with_arrow(dtype, name):
    def read(results, wide):
        if name not in NESTED:
            assert results.dtype == pd.ArrowDtype(wide)
        return from_pandas(results)

    check(name, dtype, over_rows, to_arrow_series, read, finite=True)


IN_SECONDS = [d for d in DTYPES if d.endswith("[s]")]


@of_types(NAMES, [d for d in DTYPES if d not in IN_SECONDS], without=[("date32", "Range")])
def test_polars_gives_polars(dtype, name):
    def read(results, wide):
        assert isinstance(results, pl.Series)
        assert results.dtype == pl.from_arrow(pa.array([], wide)).dtype
        return as_plain(results.to_arrow())

    check(name, dtype, over_rows, to_polars, read)


@pytest.mark.parametrize("values", [[True, None, True], [True, True, None], [None, True, False]])
def test_sums_of_booleans_are_integers_in_polars(values):
    results = mt.rolling(pl.Series(values), 2, mt.Sum(), min_periods=1)
    assert results.dtype == pl.Int64
    wanted = [values[max(0, i - 1) : i + 1] for i in range(3)]
    assert results.to_list() == [
        sum(filter(None, w)) if any(x is not None for x in w) else None for w in wanted
    ]
