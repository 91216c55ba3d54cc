"""Aggregates of traders: bars, the price weighted by volume, and the fall from a peak."""

import math
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Kernel, built_in, named
from muntin.aggregates.conditions import Where
from muntin.aggregates.extremes import larger, smaller
from muntin.aggregates.numbers import lost, rational

Bar = tuple[Any, Any, Any, Any]
Weighted = tuple[float, float, float, float]
Fall = tuple[float, float, float, float]
NOTHING: Weighted = (0.0, 0.0, 0.0, 0.0)


def Ohlc(price: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the first, largest, smallest and last price: open, high, low, close.

    NaN is larger than any number, as for Max and Min. Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Ohlc())
    >>> window.bulk_insert([5, 2, 9, 4])
    >>> window.query()
    (5, 9, 2, 4)
    """
    return built_in(
        "ohlc",
        ("value", "value", "value", "value"),
        identity=None,
        lift=_bar,
        combine=_bars,
        columns=named(price),
        where=where,
        kernel=Kernel(_bar, _join_bars, _as_it_is),
        results=("open", "high", "low", "close"),
    )


def Vwap(price: str | None = None, volume: str | None = None, *, where: Where = None) -> Aggregate:
    """Average the prices, each weighted by its volume; NaN if the volumes add up to 0.

    A row counts if both are there. Without column names an input is a pair (price, volume).
    Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Vwap())
    >>> window.bulk_insert([(10, 1), (20, 3)])
    >>> window.query()
    17.5
    """
    return built_in(
        "vwap",
        "float",
        identity=None,
        lift=_lift_weighted,
        combine=_weighted,
        lower=_vwap,
        commutative=True,
        columns=named(price, volume),
        where=where,
        kernel=Kernel(_weigh, _join_weighted, _vwap_of_values),
    )


def Drawdown(column: str | None = None, *, where: Where = None) -> Aggregate:
    """Take the largest fall from a peak to a later value, as a share of the peak: 0.25 after 4, 5, 3.75.

    It is 0 if values never fall. It is NaN if the first is 0, because that has no shares, and if one is
    negative, infinite or NaN. Cost: O(1) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(Drawdown())
    >>> window.bulk_insert([100, 120, 90, 110])
    >>> window.query()
    0.25
    """
    return built_in(
        "drawdown",
        "float",
        identity=None,
        lift=_lift_fall,
        combine=_falls,
        lower=_drawdown,
        columns=named(column),
        where=where,
        kernel=Kernel(_fall, _join_falls, _drawdown_of_values),
    )


def _bar(price: Any) -> Bar:
    return (price, price, price, price)


def _bars(a: Bar | None, b: Bar | None) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return _join_bars(a, b)


def _join_bars(a: Any, b: Any) -> Any:
    return (a[0], larger(a[1], b[1]), smaller(a[2], b[2]), b[3])


def _as_it_is(partial: Any, _n: int) -> Any:
    return partial


def _lift_weighted(pair: Any) -> Weighted | None:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"without column names an input is a pair (price, volume), got {pair!r}")
    if pair[0] is None or pair[1] is None:
        return None
    return _weigh((rational("vwap", pair[0]), rational("vwap", pair[1])))


def _weigh(pair: Any) -> Weighted:
    weight = float(pair[1])
    return (float(pair[0]) * weight, 0.0, weight, 0.0)


def _weighted(a: Weighted | None, b: Weighted | None) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return _join_weighted(a, b)


def _join_weighted(a: Any, b: Any) -> Any:
    """Add both sums, each with what rounding took away from it."""
    total, weight = a[0] + b[0], a[2] + b[2]
    rest = a[1] + b[1] + lost(a[0], b[0], total)
    return (total, rest, weight, a[3] + b[3] + lost(a[2], b[2], weight))


def _vwap(partial: Weighted | None) -> float | None:
    return None if partial is None else _vwap_of_values(partial, 1)


def _vwap_of_values(partial: Any, _n: int) -> float:
    total, rest, weight, lighter = partial
    total = total + rest if rest == rest else total  # what an infinity lost is NaN
    weight = weight + lighter if lighter == lighter else weight
    return float(total / weight) if weight != 0.0 else math.nan


def _lift_fall(value: Any) -> Fall:
    return _fall(rational("drawdown", value))


def _fall(value: Any) -> Fall:
    """Return (first, largest, smallest, largest fall), the last NaN for what has no shares."""
    x = float(value)
    return (x, x, x, x - x if x >= 0.0 else math.nan)


def _falls(a: Fall | None, b: Fall | None) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return _join_falls(a, b)


def _join_falls(a: Any, b: Any) -> Any:
    fall = (a[1] - b[2]) / a[1] if a[1] > 0.0 else 0.0
    fall = math.nan if a[3] != a[3] or b[3] != b[3] else max(fall, a[3], b[3])
    return (a[0], max(a[1], b[1]), min(a[2], b[2]), fall)


def _drawdown(partial: Fall | None) -> float | None:
    return None if partial is None else _drawdown_of_values(partial, 1)


def _drawdown_of_values(partial: Any, _n: int) -> float:
    fall: float = partial[3]
    return fall if partial[0] > 0.0 else math.nan
