"""What every aggregate gives for every type: by Python's own ints, fractions and decimals.

A plain value is an int, float, bool, Decimal or text; a time, a duration or a date is the whole number
of its unit. DTYPES has the values of each type, AGGREGATES what each aggregate makes of plain values,
`result_type` the Arrow type of its results.
"""

import math
import random
import zlib
from collections.abc import Callable, Iterable
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache, reduce
from itertools import accumulate, pairwise
from operator import and_, or_
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import types as kinds

import muntin as mt

nan, inf = math.nan, math.inf
DIGITS = Context(prec=60)


class DType(NamedTuple):
    """A type, and values of it; `edges` are for aggregates that give back the values they were given."""

    type: pa.DataType
    ordinary: tuple[Any, ...]
    extreme: tuple[Any, ...]
    edges: tuple[Any, ...] = ()


class Near(NamedTuple):
    """A number that a result may differ from by `slack`; `also` are other results that are allowed."""

    value: float
    slack: float = 0.0
    also: tuple[float, ...] = ()


class Overflow:
    """The result does not fit its type."""


OVERFLOW = Overflow()


# Types and their values


def _integers(kind: pa.DataType) -> DType:
    bits, unsigned = kind.bit_width, str(kind).startswith("u")
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    edges = (low, low + 1, high, high - 1, high // 2 + 1, high // 3)
    beyond = (2**53 + 1, 1_750_000_000_000_000_000, 2**60 + 5) if bits == 64 else ()
    return DType(kind, (0, 1, 2, 3, 7, 100) if unsigned else (0, 1, -1, 2, -7, 100), edges + beyond)


def decimals(precision: int, scale: int) -> DType:
    """Return decimals of so many digits."""
    kind = pa.decimal128(precision, scale)
    ordinary = (decimal_of(k, scale) for k in (0, 1, -1, 25, 333, -1000))
    most = 10**precision - 1
    return DType(
        kind,
        tuple(ordinary),
        tuple(decimal_of(k, scale) for k in (most, -most, most // 2, most - 1)),
    )


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """Return unscaled / 10**scale with all its digits."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


SECONDS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
YEAR_1, YEAR_9999 = -62_135_596_800, 253_402_300_799
FURTHEST = 2**63 - 1


def _times(unit: str, zone: str | None = None) -> DType:
    one = SECONDS[unit]
    ordinary = (1_750_000_000 * one, 1_750_000_000 * one + 1, 1_783_000_003 * one, 0, -1, -7 * one)
    extreme = (FURTHEST, -FURTHEST) if unit == "ns" else (YEAR_1 * one, YEAR_9999 * one)
    return DType(pa.timestamp(unit, zone), ordinary, extreme)


def _durations(unit: str) -> DType:
    one = SECONDS[unit]
    most = FURTHEST if unit in ("us", "ns") else 86_400 * 10**9 * one - 1  # as Python's timedelta
    return DType(
        pa.duration(unit), (0, 1, -1, 2, 90 * one, -7 * one), (most, -most, most // 2, most - 1)
    )


DTYPES = {
    **{str(t): _integers(t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(t): _integers(t) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "float64": DType(
        pa.float64(),
        (0.0, -0.0, 0.1, 1.5, -2.25, 3.0, 1e6, 1e-7),
        (nan, inf, -inf, 1e-300, 1e15 + 0.25, -1e15),
        (1.7976931348623157e308, -1.7976931348623157e308, 5e-324),
    ),
    "float32": DType(
        pa.float32(),
        (0.0, -0.0, 0.125, 1.5, -2.25, 3.0, 16777215.0),
        (nan, inf, -inf, 2.0**-126, 2.0**40),
        (3.4028234663852886e38, -3.4028234663852886e38, 2.0**-149),
    ),
    "bool": DType(pa.bool_(), (True, False), (True, False)),
    "decimal(5,2)": decimals(5, 2),
    "decimal(18,6)": decimals(18, 6),
    "decimal(38,10)": decimals(38, 10),
    "decimal(38,0)": decimals(38, 0),
    "decimal(38,38)": decimals(38, 38),
    **{f"timestamp[{unit}]": _times(unit) for unit in SECONDS},
    "timestamp[us, Europe/Berlin]": _times("us", "Europe/Berlin"),
    "timestamp[ns, UTC]": _times("ns", "UTC"),
    **{f"duration[{unit}]": _durations(unit) for unit in SECONDS},
    "date32": DType(pa.date32(), (0, 1, -1, 20_000, 20_001, 20_455), (-719_162, 2_932_896)),
    "string": DType(
        pa.string(), ("a", "b", "ab", "", "zz"), ("ä", "\U0001f600", "\U0010ffff", "A")
    ),
}


def as_array(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """Return plain values as an Arrow array."""
    if kinds.is_timestamp(kind) or kinds.is_duration(kind):
        return pa.array(list(values), pa.int64()).view(kind)
    if kinds.is_date32(kind):
        return pa.array(list(values), pa.int32()).view(kind)
    return pa.array(list(values), kind)


def as_plain(array: Any) -> list[Any]:
    """Return an Arrow array as plain values; structs are tuples."""
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    kind = array.type
    if kinds.is_timestamp(kind) or kinds.is_duration(kind):
        return array.view(pa.int64()).to_pylist()
    if kinds.is_date32(kind):
        return array.view(pa.int32()).to_pylist()
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        items = (as_plain(pa.array(x.values)) if x.is_valid else None for x in array)
        return list(items)
    if kinds.is_struct(kind):
        rows = zip(*map(as_plain, array.flatten()), strict=True)
        there = array.is_valid().to_pylist()
        return [row if ok else None for row, ok in zip(rows, there, strict=True)]
    return array.to_pylist()


# The types of results


def _same(kind: pa.DataType) -> pa.DataType:
    return kind


def _count_type(_kind: pa.DataType) -> pa.DataType:
    return pa.int64()


def _list_type(kind: pa.DataType) -> pa.DataType:
    return pa.list_(kind)


def _four_type(kind: pa.DataType) -> pa.DataType:
    return pa.struct([(name, kind) for name in ("min", "max", "first", "last")])


def _counted_type(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("value", kind), ("count", pa.int64())])


def _is_number(kind: pa.DataType) -> bool:
    return kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)


def _wide(kind: pa.DataType) -> pa.DataType:
    if kinds.is_floating(kind):
        return pa.float64()
    return pa.uint64() if kinds.is_uint64(kind) else pa.int64()


def _sum_type(kind: pa.DataType) -> pa.DataType | None:
    if kinds.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    if kinds.is_duration(kind):
        return kind
    return _wide(kind) if _is_number(kind) else None


def _mean_type(kind: pa.DataType) -> pa.DataType | None:
    if kinds.is_decimal(kind):  # what Spark's avg gives: DecimalType.bounded(p + 4, s + 4)
        return pa.decimal128(min(38, kind.precision + 4), min(38, kind.scale + 4))
    if kinds.is_timestamp(kind) or kinds.is_duration(kind) or kinds.is_date(kind):
        return kind
    return pa.float64() if _is_number(kind) else None


def _range_type(kind: pa.DataType) -> pa.DataType | None:
    if kinds.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 1), kind.scale)
    if kinds.is_timestamp(kind) or kinds.is_duration(kind):
        return pa.duration(kind.unit)
    if kinds.is_date32(kind):
        return pa.duration("s")
    return _wide(kind) if _is_number(kind) else None


def _float_type(kind: pa.DataType) -> pa.DataType | None:
    return pa.float64() if _is_number(kind) or kinds.is_decimal(kind) else None


def _always_float(_kind: pa.DataType) -> pa.DataType:
    return pa.float64()


def _text_type(kind: pa.DataType) -> pa.DataType | None:
    return kind if kinds.is_string(kind) else None


# What aggregates make of values that are there


def _fitted(exact: Fraction | int, kind: pa.DataType, ulps: int = 1) -> Any:
    """Return an exact number in a type: rounded as the type has it, or OVERFLOW."""
    if kinds.is_floating(kind):
        return Near(float(exact), ulps * math.ulp(float(exact)))
    if kinds.is_decimal(kind):
        scaled = abs(exact) * 10**kind.scale
        whole = math.floor(scaled + Fraction(1, 2))  # half up, away from zero
        fits = whole < 10**kind.precision
        return decimal_of(-whole if exact < 0 else whole, kind.scale) if fits else OVERFLOW
    whole = round(exact)  # half to even
    bits = 64 if kinds.is_temporal(kind) else kind.bit_width
    low = 0 if kinds.is_unsigned_integer(kind) else -(2 ** (bits - 1))
    least = low + 1 if kinds.is_temporal(kind) else low  # NumPy's way to say that there is no time
    return whole if least <= whole < low + 2**bits else OVERFLOW


def _strange(values: list[Any]) -> bool:
    """Whether a float among the values is NaN or infinite."""
    return any(isinstance(x, float) and not math.isfinite(x) for x in values)


def _ordered(values: list[Any]) -> list[Any]:
    """Sort values, NaN behind all numbers."""
    return sorted(values, key=lambda x: (x != x, x))


def _above(x: Any, y: Any) -> bool:
    return x > y or (x != x and y == y)


def _same_value(x: Any, y: Any) -> bool:
    return x == y or (x != x and y != y)


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for x in values:
        if not any(_same_value(x, y) for y in found):
            found.append(x)
    return found


def _rounding(values: list[Any]) -> float:
    """Return what adding up floats one by one may lose."""
    return len(values) * 2.0**-52 * sum(abs(float(x)) for x in values)


def _sum(values: list[Any], kind: pa.DataType) -> Any:
    if _strange(values):
        return Near(sum(values))
    exact = sum(map(Fraction, values))
    if kinds.is_floating(kind):
        return Near(float(exact), _rounding(values))
    wide = _sum_type(kind)
    return _fitted(exact, wide)


def _mean(values: list[Any], kind: pa.DataType) -> Any:
    if _strange(values):
        return Near(sum(values) / len(values))
    exact = sum(map(Fraction, values)) / len(values)
    if kinds.is_floating(kind):
        return Near(float(exact), _rounding(values) / len(values) + math.ulp(float(exact)))
    return _fitted(exact, _mean_type(kind))


def _between(share: Fraction) -> Callable[[list[Any], pa.DataType], Any]:
    """Return the quantile between the nearest two values."""

    def quantile(values: list[Any], kind: pa.DataType) -> Any:
        ordered = _ordered(values)
        position = share * (len(values) - 1)
        below = math.floor(position)
        low, weight = ordered[below], position - below
        high = ordered[below + 1] if weight else low
        if _strange([low, high]):
            w = float(weight)
            either = (low + (high - low) * w, low * (1 - w) + high * w, (low + high) / 2)
            return Near(either[0], also=either) if weight else Near(low)
        exact = Fraction(low) + (Fraction(high) - Fraction(low)) * weight
        if kinds.is_floating(kind) or (kinds.is_integer(kind) and share != Fraction(1, 2)):
            return Near(float(exact), 2 * math.ulp(float(max(abs(low), abs(high)))))
        return _fitted(exact, _mean_type(kind), ulps=2)

    return quantile


def _nearest(share: Fraction) -> Callable[[list[Any], pa.DataType], Any]:
    return lambda values, _: _ordered(values)[max(1, math.ceil(share * len(values))) - 1]


def _range(values: list[Any], kind: pa.DataType) -> Any:
    low, *_, high = _ordered([*values, *values])
    if _strange([low, high]):
        return Near(high - low)
    exact = Fraction(high) - Fraction(low)
    return _fitted(exact * 86_400 if kinds.is_date32(kind) else exact, _range_type(kind))


def _relative_variation(values: list[Any], _kind: pa.DataType) -> Any:
    low, *_, high = _ordered([*values, *values])
    if _strange([low, high]):
        return Near((high - low) / high if high else nan)
    if not high:
        return Near(nan)
    exact = float((Fraction(high) - Fraction(low)) / Fraction(high))
    return Near(exact, 1e-9 * abs(exact))


def _variance(values: list[Any]) -> Fraction:
    exact = [Fraction(x) for x in values]
    mean = sum(exact) / len(exact)
    return sum((x - mean) ** 2 for x in exact) / (len(exact) - 1)


def _var(values: list[Any], kind: pa.DataType) -> Any:
    if len(values) < 2:
        return None
    if _strange(values):
        return Near(nan)
    exact = float(_variance(values))
    return Near(exact, 1e-9 * exact + _blur(values, kind) ** 2)


def _std(values: list[Any], kind: pa.DataType) -> Any:
    if len(values) < 2:
        return None
    if _strange(values):
        return Near(nan)
    exact = math.sqrt(_variance(values))
    return Near(exact, 1e-9 * exact + _blur(values, kind))


def _central(values: list[Any], power: int) -> Fraction:
    exact = [Fraction(x) for x in values]
    mean = sum(exact) / len(exact)
    return sum((x - mean) ** power for x in exact)


def _root(square: Fraction) -> float:
    """Return the root of a fraction that may be no float."""
    top, bottom = (Decimal(n) for n in (square.numerator, square.denominator))
    return float(DIGITS.sqrt(DIGITS.divide(top, bottom)))


def _sem(values: list[Any], kind: pa.DataType) -> Any:
    std = _std(values, kind)
    return std and Near(std.value / math.sqrt(len(values)), std.slack)


def _zscore(values: list[Any], _kind: pa.DataType) -> Any:
    if _strange(values) or not _central(values, 2):
        return Near(nan)
    n, mean = len(values), sum(map(Fraction, values)) / len(values)
    distance = Fraction(values[-1]) - mean
    score = math.copysign(_root(distance**2 * n / _central(values, 2)), distance)
    return Near(score, 1e-9 * (1 + abs(score)))


def _skew(values: list[Any], _kind: pa.DataType) -> Any:
    n = len(values)
    if n < 3:
        return None
    if _strange(values):
        return Near(nan)
    if not _central(values, 2):
        return Near(0.0)
    third = _central(values, 3)
    skew = _root(third**2 / _central(values, 2) ** 3 * n**2 * (n - 1)) / (n - 2)
    return Near(math.copysign(skew, third), 1e-9 * (1 + skew))


def _kurt(values: list[Any], _kind: pa.DataType) -> Any:
    n = len(values)
    if n < 4:
        return None
    if _strange(values):
        return Near(nan)
    m2, m4 = _central(values, 2), _central(values, 4)
    if not m2:
        return Near(-3.0)
    exact = float(((n + 1) * n * m4 / m2**2 - 3 * (n - 1)) * (n - 1) / ((n - 2) * (n - 3)))
    return Near(exact, 1e-9 * (1 + abs(exact)))


Moments = tuple[list[float], Fraction, Fraction, Fraction]


def _moments(pairs: list[tuple[Any, Any]]) -> Moments | None:
    """Return the means of both columns, and sums of squares and products of distances from them."""
    if any(map(_strange, map(list, pairs))):
        return None
    columns = [[Fraction(v) for v in column] for column in zip(*pairs, strict=True)]
    means = [sum(column) / len(column) for column in columns]
    x, y = ([v - mean for v in column] for column, mean in zip(columns, means, strict=True))
    squares = (sum(v * v for v in x), sum(v * v for v in y))
    return means, *squares, sum(v * w for v, w in zip(x, y, strict=True))


def _cov(pairs: list[tuple[Any, Any]], _kind: pa.DataType) -> Any:
    if len(pairs) < 2:
        return None
    moments = _moments(pairs)
    if moments is None:
        return Near(nan)
    _, xx, yy, xy = moments
    slack = 1e-9 * _root(xx * yy) / (len(pairs) - 1)
    return Near(float(xy / (len(pairs) - 1)), slack)


def _corr(pairs: list[tuple[Any, Any]], _kind: pa.DataType) -> Any:
    if len(pairs) < 2:
        return None
    moments = _moments(pairs)
    if moments is None or not moments[1] or not moments[2]:
        return Near(nan)
    _, xx, yy, xy = moments
    return Near(math.copysign(_root(xy * xy / (xx * yy)), xy), 1e-9)


def _regression(pairs: list[tuple[Any, Any]], _kind: pa.DataType) -> Any:
    if len(pairs) < 2:
        return None
    moments = _moments(pairs)
    if moments is None or not moments[2]:
        return (Near(nan),) * 3
    (y, x), yy, xx, xy = moments
    slope, spread = xy / xx, _root(yy / xx)
    intercept, blur = float(y - slope * x), 1e-9 * abs(float(y)) + 1e-9 * spread * abs(float(x))
    r2 = float(xy * xy / (xx * yy)) if yy else 0.0
    return Near(float(slope), 1e-9 * spread), Near(intercept, blur), Near(r2, 1e-9)


def _blur(values: list[Any], kind: pa.DataType) -> float:
    """Return how far off a mean of floats may be; that of whole numbers and decimals is exact."""
    return 2.0**-50 * max(map(abs, values)) if kinds.is_floating(kind) else 0.0


@cache
def _log(value: Any) -> Decimal:
    exact = Fraction(value)
    top, bottom = (Decimal(n) for n in (exact.numerator, exact.denominator))
    return DIGITS.subtract(top.ln(DIGITS), bottom.ln(DIGITS))


def _geo_mean(values: list[Any], _kind: pa.DataType) -> Any:
    if any(x != x or x < 0 for x in values):
        return Near(nan)
    if 0 in values:
        return Near(0.0, also=(nan,) if _strange(values) else ())
    if _strange(values):
        return Near(inf)
    logs = Decimal(0)
    for x in values:
        logs = DIGITS.add(logs, _log(x))
    exact = float(DIGITS.exp(DIGITS.divide(logs, Decimal(len(values)))))
    return Near(exact, 1e-9 * exact)


def _longest_run(values: list[Any], _kind: pa.DataType) -> int:
    best = run = 0
    for i, value in enumerate(values):
        run = run + 1 if i and _above(value, values[i - 1]) else 1
        best = max(best, run)
    return best


def _counted(best: Any, values: list[Any]) -> tuple[Any, int]:
    return best, sum(_same_value(best, x) for x in values)


def _argument(sign: int) -> Callable[[list[tuple[Any, Any]], pa.DataType], Any]:
    def argument(pairs: list[tuple[Any, Any]], _kind: pa.DataType) -> Any:
        best = pairs[0]
        for pair in pairs[1:]:
            more, less = (pair, best) if sign > 0 else (best, pair)
            best = pair if _above(more[0], less[0]) else best
        return best[1]

    return argument


class Known(NamedTuple):
    """What is known of an aggregate: how it is made of column names, its results and their type."""

    make: Callable[..., mt.Aggregate]
    type: Callable[[pa.DataType], pa.DataType | None]
    exact: Callable[[list[Any], pa.DataType], Any]
    nothing: Any = None  # the result of no values
    takes_pairs: bool = False
    gives_values: bool = False  # and so takes the edges of floats
    needs_both: bool = False  # a pair counts only if both values are there
    dtypes: tuple[str, ...] = ()  # types that it meets; all, in all places, if there are none


def _gives_values(
    make: Any, kind: Any, exact: Any, nothing: Any = None, pairs: bool = False
) -> Known:
    return Known(make, kind, exact, nothing, pairs, gives_values=True)


BITS = ("bool", "uint64", "int16", "float32", "string")
SOME = ("float64", "decimal(38,10)", "int64", "duration[ns]", "string")
MORE = (*SOME, "uint64", "bool", "date32")
"""Types that some aggregates meet at once, the first also after restarts, the second in other places."""


def _of_one(make: Any, kind: Any, exact: Any, **facts: Any) -> Known:
    return Known(make, kind, exact, **{"dtypes": SOME, **facts})


def _of_pairs(make: Any, kind: Any, exact: Any, **facts: Any) -> Known:
    return _of_one(make, kind, exact, takes_pairs=True, needs_both=True, **facts)


def _prod(values: list[Any], kind: pa.DataType) -> Any:
    if _strange(values):
        return Near(math.prod(values))
    exact = math.prod(map(Fraction, values))
    if kinds.is_floating(kind):
        near = float(exact) if abs(exact) < Fraction(2) ** 1024 else math.copysign(inf, exact)
        return Near(near, abs(near) * 1e-14 + 5e-324 if math.isfinite(near) else 0.0)
    return _fitted(exact, _wide(kind))


def _wide_number(kind: pa.DataType) -> pa.DataType | None:
    return _wide(kind) if _is_number(kind) else None


def _truth_type(kind: pa.DataType) -> pa.DataType | None:
    return pa.bool_() if _is_number(kind) else None


def _bits_type(kind: pa.DataType) -> pa.DataType | None:
    return kind if kinds.is_integer(kind) or kinds.is_boolean(kind) else None


def _bits(operation: Callable[[Any, Any], Any]) -> Callable[[list[Any], pa.DataType], Any]:
    return lambda values, _: reduce(operation, values)


def _bar_type(kind: pa.DataType) -> pa.DataType:
    return pa.struct([(name, kind) for name in ("open", "high", "low", "close")])


def _vwap(pairs: list[tuple[Any, Any]], _kind: pa.DataType) -> Any:
    if any(map(_strange, map(list, pairs))):
        return Near(sum(p * v for p, v in pairs) / (sum(v for _, v in pairs) or nan))
    weight = sum(Fraction(v) for _, v in pairs)
    floats = sum(float(v) for _, v in pairs)
    if not weight:
        return Near(nan, also=(nan, inf, -inf) if floats else ())
    amounts = [Fraction(p) * Fraction(v) for p, v in pairs]
    blur = (
        sum(map(abs, amounts))
        / abs(weight)
        * (1 + sum(abs(Fraction(v)) for _, v in pairs) / abs(weight))
    )
    return Near(float(sum(amounts) / weight), 1e-14 * float(blur))


def _drawdown(values: list[Any], _kind: pa.DataType) -> Any:
    if _strange(values) or values[0] <= 0 or min(values) < 0:
        return Near(nan)
    exact = [Fraction(x) for x in values]
    peaks = accumulate(exact, max)
    fall = float(max((p - x) / p for p, x in zip(peaks, exact, strict=True)))
    return Near(fall, 1e-12 * (1 + fall))


def _line_type(kind: pa.DataType) -> pa.DataType | None:
    parts = [(name, pa.float64()) for name in ("slope", "intercept", "r2")]
    return pa.struct(parts) if _float_type(kind) else None


def _frequencies(values: list[Any]) -> list[int]:
    return [sum(_same_value(x, y) for y in values) for x in _distinct(values)]


def _mode(values: list[Any], _kind: pa.DataType) -> Any:
    most = max(_frequencies(values))
    counts = zip(_distinct(values), _frequencies(values), strict=True)
    return _ordered([x for x, count in counts if count == most])[0]


def _entropy(values: list[Any], _kind: pa.DataType) -> Any:
    shares = [count / len(values) for count in _frequencies(values)]
    return Near(-sum(share * math.log(share) for share in shares), 1e-12)


def _rank(values: list[Any], _kind: pa.DataType) -> Any:
    newest = values[-1]
    below = sum(_above(newest, x) for x in values)
    return below + (sum(_same_value(newest, x) for x in values) + 1) / 2


EDGES = [-7, -0.1, 0.1, Decimal("1.5"), 2**63]


def _histogram(values: list[Any], _kind: pa.DataType) -> Any:
    exact = [Fraction(x) for x in values if not _strange([x])]
    edges = [Fraction(x) for x in EDGES]
    bins = [sum(low <= x < high for x in exact) for low, high in pairwise(edges)]
    return [*bins[:-1], bins[-1] + exact.count(edges[-1])]


def _count_list_type(kind: pa.DataType) -> pa.DataType | None:
    return pa.list_(pa.int64()) if _float_type(kind) else None


def _means_type(kind: pa.DataType) -> pa.DataType | None:
    mean = _mean_type(kind)
    return mean and pa.list_(mean)


def _quantiles(*one: Callable[[list[Any], pa.DataType], Any]) -> Any:
    return lambda values, kind: [quantile(values, kind) for quantile in one]


def _sorted_by_value(k: int, largest: bool) -> Callable[[list[tuple[Any, Any]], pa.DataType], Any]:
    def rows(pairs: list[tuple[Any, Any]], _kind: pa.DataType) -> Any:
        left, found = list(pairs), []
        while left and len(found) < k:
            values = _ordered([v for v, _ in left])
            best = next(p for p in left if _same_value(p[0], values[-1 if largest else 0]))
            left = [pair for pair in left if pair is not best]
            found.append(best[1])
        return found

    return rows


def _ewm(values: list[Any], _kind: pa.DataType) -> Any:
    if _strange(values):
        return Near(sum(x for x in values if _strange([x])))
    weights = [Fraction(7, 10) ** age for age in reversed(range(len(values)))]
    exact = sum(w * Fraction(x) for w, x in zip(weights, values, strict=True)) / sum(weights)
    return Near(float(exact), 1e-14 * float(max(map(abs, values))))


def _increase(values: list[Any], kind: pa.DataType) -> Any:
    if _strange(values):
        return Near(nan)
    exact = list(map(Fraction, values))
    risen = sum(y - x if y >= x else y for x, y in pairwise(exact))
    if kinds.is_floating(kind):
        return Near(float(risen), _rounding(values))
    return _fitted(risen, _increase_type(kind))


def _increase_type(kind: pa.DataType) -> pa.DataType | None:
    return None if kinds.is_duration(kind) else _sum_type(kind)


KEPT: dict[str, Any] = {"nothing": [], "gives_values": True}
"""What is true of lists of the values themselves."""

AGGREGATES = {
    "Count": _gives_values(mt.Count, _count_type, lambda x, _: len(x), 0),
    "CountDistinct": _gives_values(
        mt.CountDistinct, _count_type, lambda x, _: len(_distinct(x)), 0
    ),
    "ApproxDistinct": _gives_values(
        mt.ApproxDistinct, _count_type, lambda x, _: Near(len(_distinct(x)), 1), 0
    ),
    "LongestRun": _gives_values(mt.LongestRun, _count_type, _longest_run, 0),
    "Min": _gives_values(mt.Min, _same, lambda x, _: _ordered(x)[0]),
    "Max": _gives_values(mt.Max, _same, lambda x, _: _ordered(x)[-1]),
    "First": _gives_values(mt.First, _same, lambda x, _: x[0]),
    "Last": _gives_values(mt.Last, _same, lambda x, _: x[-1]),
    "ArgMin": _gives_values(mt.ArgMin, _same, _argument(-1), pairs=True),
    "ArgMax": _gives_values(mt.ArgMax, _same, _argument(1), pairs=True),
    "Quantile": _gives_values(lambda c=None: mt.Quantile(c, 0.9), _same, _nearest(Fraction(9, 10))),
    "Collect": _gives_values(mt.Collect, _list_type, lambda x, _: x, []),
    "CollectDistinct": _gives_values(mt.CollectDistinct, _list_type, lambda x, _: _distinct(x), []),
    "M4": _gives_values(
        mt.M4, _four_type, lambda x, _: (_ordered(x)[0], _ordered(x)[-1], x[0], x[-1])
    ),
    "MinCount": _gives_values(mt.MinCount, _counted_type, lambda x, _: _counted(_ordered(x)[0], x)),
    "MaxCount": _gives_values(
        mt.MaxCount, _counted_type, lambda x, _: _counted(_ordered(x)[-1], x)
    ),
    "Sum": Known(mt.Sum, _sum_type, _sum),
    "Mean": Known(mt.Mean, _mean_type, _mean),
    "Median": Known(mt.Median, _mean_type, _between(Fraction(1, 2))),
    "Quantile linear": Known(
        lambda c=None: mt.Quantile(c, 0.3, interpolation="linear"),
        _mean_type,
        _between(Fraction(3, 10)),
    ),
    "Range": Known(mt.Range, _range_type, _range),
    "RelativeVariation": Known(mt.RelativeVariation, _float_type, _relative_variation),
    "Var": Known(mt.Var, _float_type, _var),
    "Std": Known(mt.Std, _float_type, _std),
    "GeoMean": Known(mt.GeoMean, _float_type, _geo_mean),
    "Concat": Known(mt.Concat, _text_type, lambda x, _: "".join(x)),
    "Sem": _of_one(mt.Sem, _float_type, _sem),
    "Zscore": _of_one(mt.Zscore, _float_type, _zscore),
    "Skew": _of_one(mt.Skew, _float_type, _skew, dtypes=MORE),
    "Kurt": _of_one(mt.Kurt, _float_type, _kurt),
    "Cov": _of_pairs(mt.Cov, _float_type, _cov, dtypes=MORE),
    "Corr": _of_pairs(mt.Corr, _float_type, _corr),
    "Regression": _of_pairs(mt.Regression, _line_type, _regression),
    "Prod": _of_one(mt.Prod, _wide_number, _prod, dtypes=("int64", "bool", *MORE)),
    "All": _of_one(mt.All, _truth_type, lambda x, _: all(x), dtypes=BITS),
    "Any": _of_one(mt.Any, _truth_type, lambda x, _: any(x), dtypes=BITS),
    "BitAnd": _of_one(mt.BitAnd, _bits_type, _bits(and_), dtypes=BITS),
    "BitOr": _of_one(mt.BitOr, _bits_type, _bits(or_), dtypes=BITS),
    "Ohlc": _of_one(
        mt.Ohlc,
        _bar_type,
        lambda x, _: (x[0], _ordered(x)[-1], _ordered(x)[0], x[-1]),
        gives_values=True,
    ),
    "Vwap": _of_pairs(mt.Vwap, _float_type, _vwap),
    "Drawdown": _of_one(mt.Drawdown, _float_type, _drawdown),
    "Mode": _of_one(mt.Mode, _same, _mode, gives_values=True, dtypes=MORE),
    "Entropy": _of_one(mt.Entropy, _always_float, _entropy, gives_values=True),
    "Rank": _of_one(mt.Rank, _always_float, _rank, gives_values=True, dtypes=MORE),
    "Histogram": _of_one(
        lambda c=None: mt.Histogram(c, EDGES),
        _count_list_type,
        _histogram,
        nothing=[0] * 4,
        gives_values=True,
        dtypes=MORE,
    ),
    "Quantiles": _of_one(
        lambda c=None: mt.Quantiles(c, [0.9, 0.5]),
        _list_type,
        _quantiles(_nearest(Fraction(9, 10)), _nearest(Fraction(1, 2))),
        gives_values=True,
    ),
    "Quantiles linear": _of_one(
        lambda c=None: mt.Quantiles(c, [0.3, 0.5], interpolation="linear"),
        _means_type,
        _quantiles(_between(Fraction(3, 10)), _between(Fraction(1, 2))),
        dtypes=("float64", "decimal(18,6)", "timestamp[ns, UTC]", "duration[us]", "string"),
    ),
    "TopBy": _of_one(
        lambda v=None, a=None: mt.TopBy(2, v, a),
        _list_type,
        _sorted_by_value(2, largest=True),
        **KEPT,
        takes_pairs=True,
    ),
    "BottomBy": _of_one(
        lambda v=None, a=None: mt.BottomBy(3, v, a),
        _list_type,
        _sorted_by_value(3, largest=False),
        **KEPT,
        takes_pairs=True,
    ),
    "Ewm": _of_one(lambda c=None: mt.Ewm(c, alpha=0.3), _float_type, _ewm, dtypes=MORE),
    "Increase": _of_one(
        mt.Increase, _increase_type, _increase, dtypes=("int64", "decimal(38,10)", *MORE)
    ),
    "FirstK": _of_one(lambda c=None: mt.FirstK(2, c), _list_type, lambda x, _: x[:2], **KEPT),
    "LastK": _of_one(lambda c=None: mt.LastK(2, c), _list_type, lambda x, _: x[-2:], **KEPT),
}


def result_type(name: str, kind: pa.DataType) -> pa.DataType | None:
    """Return the type of an aggregate's results, or None if it refuses the type of its column."""
    return AGGREGATES[name].type(kind)


def expected(name: str, kind: pa.DataType, pairs: Iterable[tuple[Any, Any]]) -> Any:
    """Return what an aggregate gives for rows of a value and an argument, in order."""
    known = AGGREGATES[name]
    there = [(v, a) for v, a in pairs if v is not None and not (known.needs_both and a is None)]
    if not there:
        return known.nothing
    return known.exact(there if known.takes_pairs else [v for v, _ in there], kind)


def agrees(result: Any, wanted: Any) -> bool:
    """Whether a plain result is what is wanted."""
    if isinstance(wanted, Near):
        if not isinstance(result, int | float):
            return False
        allowed = any(_same_value(result, x) for x in (wanted.value, *wanted.also))
        return allowed or abs(result - wanted.value) <= wanted.slack
    if isinstance(wanted, tuple | list):
        return (
            isinstance(result, tuple | list)
            and len(result) == len(wanted)
            and all(map(agrees, result, wanted))
        )
    return type(result) is type(wanted) and _same_value(result, wanted)


# Random rows


class Row(NamedTuple):
    """A row of the tables that are aggregated; `k` is its key."""

    t: int
    k: str
    v: Any
    a: Any


SIZE, EVERY = 20, 10
MOODS = ("ordinary", "extreme", "both", "neighbours", "one by one", "there and back")


def random_values(name: str, dtype: str, mood: str, count: int, rng: random.Random) -> list[Any]:
    """Return values of a type that suit an aggregate, with nulls among them."""
    pool = DTYPES[dtype]
    extreme = pool.extreme + (pool.edges if AGGREGATES[name].gives_values else ())
    chosen = {"ordinary": pool.ordinary, "extreme": extreme}.get(mood, pool.ordinary + extreme)
    if mood == "neighbours" and type(chosen[0]) is int:  # which differ in their last digits only
        base, least, most = rng.choice(extreme), min(chosen), max(chosen)
        chosen = tuple(x for x in range(base - 5, base + 6) if least <= x <= most)
    return [None if rng.random() < 0.15 else rng.choice(chosen) for _ in range(count)]


def random_rows(name: str, dtype: str, seed: int = 0) -> list[Row]:
    """Return rows of a few keys in any order; each key has values of another kind."""
    rng = random.Random(zlib.crc32(f"{name} {dtype} {seed}".encode()))
    rows = []
    for i, mood in enumerate(MOODS + MOODS[:3]):
        count = rng.randint(3, 9)
        values = random_values(name, dtype, mood, count, rng)
        times = [rng.randrange(40) for _ in values]
        if mood == "one by one":
            times = [5 + 2 * SIZE * n for n in range(count)]
        elif mood == "there and back":
            values, times = _there_and_back(dtype, values), [7] * count
        arguments = random_values(name, dtype, mood, count, rng)
        rows += map(Row, times, [f"key {i}"] * count, values, arguments)
    order = {row.k: iter([r for r in rows if r.k == row.k]) for row in rows}
    keys = [row.k for row in rows]
    rng.shuffle(keys)  # rows of one key stay in their order
    return [next(order[k]) for k in keys]


def _there_and_back(dtype: str, values: list[Any]) -> list[Any]:
    """Return values whose sum fits although sums on the way do not, if the type has such."""
    kind = DTYPES[dtype].type
    signed = kinds.is_signed_integer(kind) or kinds.is_decimal(kind) or kinds.is_duration(kind)
    if not signed:
        return values
    top = max(DTYPES[dtype].extreme)
    back = DIGITS.minus(top) if isinstance(top, Decimal) else -top
    return [top, top, top, back, back, None][: len(values)] if len(values) > 4 else [top]


def as_table(rows: list[Row], kind: pa.DataType) -> pa.Table:
    """Return rows as an Arrow table."""
    columns = list(zip(*rows, strict=True)) or [()] * 4
    return pa.table(
        {
            "t": pa.array(columns[0], pa.int64()),
            "k": pa.array(columns[1], pa.string()),
            "v": as_array(columns[2], kind),
            "a": as_array(columns[3], kind),
        }
    )


def windows_of(rows: list[Row], size: int = SIZE, every: int = EVERY) -> dict[Any, list[Any]]:
    """Return the values and arguments in each window that has rows, by key and start."""
    windows: dict[Any, list[Any]] = {}
    for row in sorted(rows, key=lambda row: row.t):  # stable: equal times stay as they came
        start = row.t // every * every
        while start > row.t - size:
            windows.setdefault((row.k, start), []).append((row.v, row.a))
            start -= every
    return windows


def expected_windows(name: str, kind: pa.DataType, rows: list[Row]) -> dict[Any, Any]:
    """Return what an aggregate gives for each window."""
    return {window: expected(name, kind, pairs) for window, pairs in windows_of(rows).items()}


def overflowing(
    name: str, kind: pa.DataType, rows: list[Row], on_the_way: bool = False
) -> set[str]:
    """Return the keys with a window whose result does not fit, or did not when some rows had come."""
    keys = set()
    for key in {row.k for row in rows}:
        mine = [row for row in rows if row.k == key]
        for count in range(1 if on_the_way else len(mine), len(mine) + 1):
            if OVERFLOW in expected_windows(name, kind, mine[:count]).values():
                keys.add(key)
    return keys
