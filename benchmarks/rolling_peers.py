"""Who is compared with whom: one table of aggregates and of the libraries that have the same.

Every peer gets its own kind of data, made before the clock starts, and one thread where it can be told.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import bottleneck
import duckdb
import numpy as np
import pandas as pd
import polars as pl
from scipy import ndimage

import muntin as mt
from benchmarks.measure import SIZES

DUCKDB_ROWS = 1 << 18


@dataclass(frozen=True, eq=False)
class Data:
    """One array as every library wants it."""

    array: np.ndarray

    @cached_property
    def pandas(self) -> pd.Series:
        return pd.Series(self.array)

    @cached_property
    def polars(self) -> pl.Series:
        return pl.Series(self.array)

    @cached_property
    def duckdb(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(config={"threads": 1})
        connection.register(
            "rows", pd.DataFrame({"i": np.arange(len(self.array)), "x": self.array})
        )
        connection.execute("create table data as select * from rows")
        return connection


@dataclass(frozen=True)
class Peer:
    """A library's way to the same result; `skip_ramp` if its first n - 1 rows mean something else."""

    name: str
    run: Callable[[Data, int], Any]
    most_rows: int | None = None
    skip_ramp: bool = False


@dataclass(frozen=True)
class Comparison:
    """An aggregate, its names elsewhere, and the peers and sizes that must be `beaten`."""

    name: str
    figure: int
    aggregate: mt.Aggregate
    sql: str
    beaten: set[tuple[str, int]]
    scipy: Callable[[Data, int], Any] | None = None
    spread: bool = False
    ranks: bool = False
    near_copy: bool = False

    def ours(self, data: Data, n: int, **options: Any) -> Any:
        """Run muntin, on one thread unless told otherwise."""
        options = {"threads": 1, **options}
        return mt.rolling(data.array, n, self.aggregate, min_periods=1, **options)

    def peers(self) -> list[Peer]:
        """Return the libraries that have this aggregate."""
        peers = [
            Peer("bottleneck", self._bottleneck),
            Peer("Polars", self._polars),
            Peer("pandas", self._pandas),
            Peer("DuckDB", self._duckdb, most_rows=DUCKDB_ROWS),
        ]
        if self.scipy is not None:
            peers.insert(3, Peer("SciPy", self.scipy, skip_ramp=True))
        return peers

    def _bottleneck(self, data: Data, n: int) -> Any:
        options = {"ddof": 1} if self.spread else {}
        return getattr(bottleneck, f"move_{self.name}")(data.array, n, min_count=1, **options)

    def _polars(self, data: Data, n: int) -> Any:
        return getattr(data.polars, f"rolling_{self.name}")(n, min_samples=1)

    def _pandas(self, data: Data, n: int) -> Any:
        return getattr(data.pandas.rolling(n, min_periods=1), self.name)()

    def _duckdb(self, data: Data, n: int) -> Any:
        frame = f"order by i rows between {n - 1} preceding and current row"
        query = f"select {self.sql}(x) over ({frame}) as result from data order by i"
        return np.ma.filled(data.duckdb.execute(query).fetchnumpy()["result"], np.nan)


def _maximum_filter(data: Data, n: int) -> Any:
    return ndimage.maximum_filter1d(
        data.array, n, mode="constant", cval=-np.inf, origin=(n - 1) // 2
    )


def _uniform_filter(data: Data, n: int) -> Any:
    return ndimage.uniform_filter1d(data.array, n, mode="constant", origin=(n - 1) // 2)


def _uniform_sum(data: Data, n: int) -> Any:
    result = _uniform_filter(data, n)
    result *= n
    return result


def everyone(*names: str) -> set[tuple[str, int]]:
    """Return the named peers at every window size."""
    return {(name, n) for name in names for n in SIZES}


ALL = everyone("bottleneck", "Polars", "pandas", "SciPy", "DuckDB")
FAST = everyone("bottleneck")
RANKS = everyone("Polars", "pandas") | {("bottleneck", 1024)}

COMPARISONS = (
    Comparison("max", 1, mt.Max(), "max", ALL, _maximum_filter, near_copy=True),
    Comparison("sum", 1, mt.Sum(), "sum", ALL, _uniform_sum, near_copy=True),
    Comparison("mean", 1, mt.Mean(), "avg", set(), _uniform_filter),
    Comparison("std", 2, mt.Std(), "stddev_samp", FAST, spread=True),
    Comparison("var", 2, mt.Var(), "var_samp", FAST, spread=True),
    Comparison("median", 3, mt.Median(), "median", RANKS, ranks=True),
)
