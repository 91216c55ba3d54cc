"""Figures 1 to 5: `rolling` against copying the array and against its peers.

A peer that is too slow for all rows runs on fewer, and its time is scaled to the rows of the others; the
table says so. `np.copyto` writes into memory that is there, and is compared with `rolling` into such
memory (`out=`); peers allocate their results, and are compared with `rolling` that does so too.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import muntin as mt
from benchmarks.measure import SIZES, Finding, Findings, Scale, Target, best_times, check_same
from benchmarks.rolling_peers import COMPARISONS, Comparison, Data

OURS, TWO, COPY, FRESH = "muntin", "muntin, 2 threads", "np.copyto", "np.copyto, new memory"
INTO = "muntin, out="
VAR, NULLS, APPLY = "muntin Var", "muntin Mean with nulls", "pandas apply"
# Those that a ratio above 1 says we are slower than.
NEAR = (COPY, FRESH, TWO, VAR, NULLS)
AHEAD = Target(1)
ACCURATE = Target(1e-9, at_most=True)
EXACT_WINDOWS = 40
HOUR_ROWS = 1000
GAP_US = 3_600_000_000 / HOUR_ROWS
TIMED = ("max", "sum", "std", "mean")
APPLY_ROWS = 20_000
APPLY_SIZES = (16, 1024)


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here, each with a name for the progress bar."""
    data = normal(scale.rows)
    ranked = normal(scale.rank_rows)
    timed = Timed(scale.rows)
    named = [
        (f"{c.name}, n = {n}", lambda c=c, n=n: compare(c, ranked if c.ranks else data, n, scale))
        for c in COMPARISONS
        for n in SIZES
    ]
    named += [(f"accuracy, n = {n}", lambda n=n: accuracy(n)) for n in SIZES]
    named += [
        (f"{c.name} over 1 h", lambda c=c: timed.compare(c, scale))
        for c in COMPARISONS
        if c.name in TIMED
    ]
    named += [(f"own aggregate, n = {n}", lambda n=n: own(n, scale)) for n in SIZES]
    return named


def normal(rows: int, around: float = 0.0) -> Data:
    """Return normal noise."""
    return Data(around + np.random.default_rng(rows).normal(size=rows))


def compare(comparison: Comparison, data: Data, n: int, scale: Scale) -> Findings:
    """Yield muntin, the copy and each peer for one aggregate and window."""
    rows = len(data.array)
    case = f"{comparison.name}, n = {n}"
    target = np.zeros(rows)
    calls: dict[str, Callable[[], Any]] = {
        COPY: lambda: np.copyto(target, data.array),
        OURS: lambda: comparison.ours(data, n),
    }
    if comparison.figure == 1:
        calls[INTO] = lambda: comparison.ours(data, n, out=target)
        calls[FRESH] = data.array.copy
        calls[TWO] = lambda: comparison.ours(data, n, threads=2)
    result = comparison.ours(data, n)
    if TWO in calls:
        check_same(case, TWO, result, calls[TWO]())
    factors, labels = {}, {}
    for peer in comparison.peers():
        part = Data(data.array[: peer.most_rows]) if peer.most_rows else data
        few = len(part.array)
        theirs = peer.run(part, n)
        check_same(case, peer.name, result[:few], theirs, n - 1 if peer.skip_ramp else 0)
        calls[peer.name] = lambda peer=peer, part=part: peer.run(part, n)
        factors[peer.name] = rows / few
        labels[peer.name] = peer.name if few == rows else f"{peer.name} on {few} rows, scaled"
    times = best_times(calls, scale)
    times = {who: seconds * factors.get(who, 1.0) for who, seconds in times.items()}
    targets = dict.fromkeys((name for name, size in comparison.beaten if size == n), AHEAD)
    if comparison.near_copy:
        targets |= {COPY: Target(2 if n == 16 else 1.5, at_most=True), TWO: Target(1.4)}
    yield from against(comparison.figure, case, times, targets, labels)


def against(
    figure: int,
    case: str,
    times: dict[str, float],
    targets: dict[str, Target],
    labels: dict[str, str] | None = None,
) -> Findings:
    """Yield the times of a case, fastest first, each with its ratio to ours."""
    fastest = min(times.values())
    for who, seconds in sorted(times.items(), key=lambda item: item[1]):
        name = (labels or {}).get(who, who)
        ratio, value = "", None
        if who in NEAR:
            ours = times[INTO] if who == COPY and INTO in times else times[OURS]
            ratio, value = "ours/its", ours / seconds
        elif who not in (OURS, INTO):
            ratio, value = "its/ours", seconds / times[OURS]
        yield Finding(
            figure,
            case,
            name,
            1e3 * seconds,
            "ms",
            fastest / seconds,
            ratio,
            value,
            targets.get(who),
        )


def accuracy(n: int) -> Findings:
    """Yield the largest relative error of std and var on 1e9 + noise, on a sample of windows."""
    data = normal(4 * SIZES[-1], around=1e9)
    ends = np.linspace(n, len(data.array), EXACT_WINDOWS).astype(int)
    exact = np.array([float(exact_variance(data.array[end - n : end])) for end in ends])
    for comparison in COMPARISONS:
        if not comparison.spread:
            continue
        truth = np.sqrt(exact) if comparison.name == "std" else exact
        results = {OURS: comparison.ours(data, n)}
        results |= {peer.name: peer.run(data, n) for peer in comparison.peers()[:3]}
        errors = {who: largest_error(result, ends, truth) for who, result in results.items()}
        case = f"{comparison.name} of 1e9 + noise, n = {n}"
        for who, error in errors.items():
            target = ACCURATE if who == OURS else None
            ratio, value = ("error", error) if who == OURS else ("its/ours", error / errors[OURS])
            yield Finding(2, case, who, error, "error", None, ratio, value, target)


def largest_error(result: Any, ends: np.ndarray, truth: np.ndarray) -> float:
    """Return the largest relative error in the windows with these ends."""
    return float(np.max(np.abs(np.asarray(result)[ends - 1] / truth - 1)))


def exact_variance(window: np.ndarray) -> Fraction:
    """Return the variance of doubles near 1e9 without rounding: they are whole multiples of 2^-23."""
    scale = 2**23
    whole = [int(x) for x in (window - 1e9) * scale]
    total, squares, n = sum(whole), sum(x * x for x in whole), len(whole)
    return Fraction(n * squares - total * total, n * (n - 1) * scale * scale)


class Timed:
    """Rows at random gaps, about a thousand in an hour.

    No two at one time: there Polars gives both rows the later one's result, pandas and muntin do not.
    """

    def __init__(self, rows: int) -> None:
        gaps = np.random.default_rng(rows).exponential(GAP_US, rows)
        self.data = normal(rows)
        self.times = np.cumsum(1 + gaps.astype(np.int64)).astype("datetime64[us]")
        self.polars = pl.DataFrame({"time": self.times, "x": self.data.array})
        self.pandas = pd.Series(self.data.array, index=pd.DatetimeIndex(self.times))

    def compare(self, comparison: Comparison, scale: Scale) -> Findings:
        """Yield muntin, Polars and pandas for windows of an hour."""
        case = f"{comparison.name} over 1 h ({HOUR_ROWS} rows)"
        name, x = comparison.name, pl.col("x")
        query = getattr(x, f"rolling_{name}_by")("time", window_size="1h")
        calls = {
            OURS: lambda: self.ours(comparison, 1),
            TWO: lambda: self.ours(comparison, 2),
            "Polars": lambda: self.polars.select(query)["x"],
            "pandas": lambda: getattr(self.pandas.rolling("1h"), name)(),
        }
        expected = calls[OURS]()
        for who, call in calls.items():
            check_same(case, who, expected, call())
        yield from against(4, case, best_times(calls, scale), {"Polars": Target(2)})

    def ours(self, comparison: Comparison, threads: int) -> Any:
        """Run muntin over the hour before each row."""
        aggregate = comparison.aggregate
        return mt.rolling(self.data.array, "1 h", aggregate, on=self.times, threads=threads)


def lift(row: tuple[float, float]) -> tuple[float, float]:
    return row[0] * row[1], row[1]


def combine(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return a[0] + b[0], a[1] + b[1]


def lower(partial: tuple[float, float]) -> float | None:
    return partial[0] / partial[1] if partial[1] else None


WEIGHTED_MEAN = mt.Aggregate("weighted_mean", (0.0, 0.0), lift, combine, lower)
BUILT_IN = {VAR: mt.Var(), NULLS: mt.Mean()}


def own(n: int, scale: Scale) -> Findings:
    """Yield a user's weighted mean beside built-in aggregates and the way pandas has for it."""
    rng = np.random.default_rng(n)
    price, volume = rng.normal(100, 1, scale.rows), rng.uniform(1, 9, scale.rows)
    nulls = np.ma.masked_array(price, rng.random(scale.rows) < 0.1)
    case = f"own weighted mean, n = {n}"
    calls = {
        OURS: lambda: _rolling((price, volume), n, WEIGHTED_MEAN),
        VAR: lambda: _rolling(price, n, BUILT_IN[VAR]),
        NULLS: lambda: _rolling(nulls, n, BUILT_IN[NULLS]),
    }
    result = calls[OURS]()
    few = APPLY_ROWS if n in APPLY_SIZES else 0
    if few:
        calls[APPLY] = lambda: pandas_apply(price[:few], volume[:few], n)
        check_same(case, APPLY, result[:few], calls[APPLY]())
    sums = [_rolling(x, n, mt.Sum()) for x in (price * volume, volume)]
    check_same(case, "two sums", result, sums[0] / sums[1])
    times = best_times(calls, scale)
    if few:
        times[APPLY] *= scale.rows / few
    near = Target(1.5, at_most=True)
    targets = {VAR: near, NULLS: near, APPLY: Target(100)}
    yield from against(5, case, times, targets, {APPLY: f"{APPLY} on {few} rows, scaled"})


def _rolling(values: Any, n: int, aggregate: mt.Aggregate) -> Any:
    return mt.rolling(values, n, aggregate, min_periods=1, threads=1)


def pandas_apply(price: np.ndarray, volume: np.ndarray, n: int) -> Any:
    """Roll over row numbers, because apply sees one column."""

    def weighted(rows: np.ndarray) -> float:
        window = slice(int(rows[0]), int(rows[-1]) + 1)
        return price[window] @ volume[window] / volume[window].sum()

    rows = pd.Series(np.arange(len(price), dtype=np.float64))
    return rows.rolling(n, min_periods=1).apply(weighted, raw=True)
