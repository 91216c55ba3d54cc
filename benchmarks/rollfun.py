"""db-benchmark's task of rolling functions, with an own generator: ten questions, equal results first.

The table has a key of text, two columns of noise, and two of times: dense ones, of which one second
in ten is missing, and sparse ones, of which half is. Windows have a thousandth of the rows, small
ones a tenth of that, big ones ten times as many. All libraries have all threads of the machine.
They answer from data in their own kind, made before the clock starts. A peer that takes very long
runs on fewer rows, and its time is scaled to those of the others.
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

import muntin as mt
from benchmarks.measure import Findings, Scale, Target, best_times, check_same
from benchmarks.rolling import OURS, against

KEYS = 1000
DENSE_MISSING, SPARSE_MISSING = 0.1, 0.5
SECOND = 1_000_000
FIGURE = 1
AHEAD = Target(1)
TIE = Target(0.9)
"""Bottleneck may be as fast."""
SLOW_ROWS = 200_000
"""The rows on which peers run whose cost grows with the window."""
KEYED_ROWS = 50


class Rows:
    """The generated table in the kind of each library."""

    def __init__(self, rows: int) -> None:
        rng = np.random.default_rng(rows)
        self.rows = rows
        self.x, self.y = rng.normal(size=rows), rng.normal(size=rows)
        self.keys = rng.integers(0, KEYS, rows)
        self.dense = times(rng, rows, DENSE_MISSING)
        self.sparse = times(rng, rows, SPARSE_MISSING)

    @cached_property
    def pandas(self) -> pd.DataFrame:
        columns = {"x": self.x, "y": self.y, "dense": self.dense, "sparse": self.sparse}
        return pd.DataFrame({"key": np.char.add("id", self.keys.astype(str)), **columns})

    @cached_property
    def polars(self) -> pl.DataFrame:
        return pl.from_pandas(self.pandas)

    @cached_property
    def duckdb(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect()
        connection.register("given", self.pandas.assign(i=np.arange(self.rows)))
        connection.execute("create table data as select * from given")
        return connection

    def sql(self, select: str, window: str) -> np.ndarray:
        """Return the columns that DuckDB computes over a window, in the order of rows."""
        columns = ", ".join(f"{part} over w as c{i}" for i, part in enumerate(select.split("; ")))
        text = f"select {columns} from data window w as ({window}) order by i"
        return np.column_stack(list(self.duckdb.execute(text).fetchnumpy().values()))


def times(rng: np.random.Generator, rows: int, missing: float) -> np.ndarray:
    """Return seconds of which a share is missing, as moments."""
    seconds = np.flatnonzero(rng.random(int(rows / (1 - missing) * 1.1) + 100) >= missing)[:rows]
    return (seconds * SECOND).astype("datetime64[us]")


@dataclass(frozen=True)
class Question:
    """What is asked, of how many rows per window, and how each library answers.

    Peers in `slow` run on SLOW_ROWS rows.
    """

    name: str
    window: Callable[[int], int]
    answers: dict[str, Callable[[Rows, int], Any]]
    slow: tuple[str, ...] = ()


def usual(rows: int) -> int:
    return max(2, rows // 1000)


def small(rows: int) -> int:
    return max(2, rows // 10_000)


def big(rows: int) -> int:
    return max(2, rows // 100)


def few(rows: int) -> int:
    del rows
    return KEYED_ROWS


def mean_of(window: Callable[[int], int], name: str) -> Question:
    """Return the question of a mean."""
    return Question(
        name,
        window,
        {
            OURS: lambda d, n: mt.rolling(d.x, n, mt.Mean(), min_periods=1),
            "pandas": lambda d, n: d.pandas["x"].rolling(n, min_periods=1).mean(),
            "Polars": lambda d, n: d.polars["x"].rolling_mean(n, min_samples=1),
            "DuckDB": lambda d, n: d.sql("avg(x)", _rows(n)),
            "bottleneck": lambda d, n: bottleneck.move_mean(d.x, n, min_count=1),
        },
    )


def _rows(n: int) -> str:
    return f"order by i rows between {n - 1} preceding and current row"


def _range(on: str, n: int) -> str:
    micros = n * SECOND - 1
    return f"order by {on} range between interval {micros} microseconds preceding and current row"


def uneven(on: str) -> Question:
    """Return the question of a mean over so many seconds, of which some are missing."""
    return Question(
        f"uneven {on}",
        usual,
        {
            OURS: lambda d, n: mt.rolling(d.polars, f"{n} s", mt.Mean("x"), on=on),
            "pandas": lambda d, n: d.pandas.rolling(f"{n}s", on=on)["x"].mean(),
            "Polars": lambda d, n: d.polars.select(pl.col("x").rolling_mean_by(on, f"{n}s"))["x"],
            "DuckDB": lambda d, n: d.sql("avg(x)", _range(on, n)),
        },
    )


SEVERAL = {
    "x_mean": mt.Mean("x"),
    "x_max": mt.Max("x"),
    "y_mean": mt.Mean("y"),
    "y_max": mt.Max("y"),
}
MOVES = (bottleneck.move_mean, bottleneck.move_max)

QUESTIONS = (
    mean_of(usual, "mean"),
    mean_of(small, "window small"),
    mean_of(big, "window big"),
    Question(
        "min",
        usual,
        {
            OURS: lambda d, n: mt.rolling(d.x, n, mt.Min(), min_periods=1),
            "pandas": lambda d, n: d.pandas["x"].rolling(n, min_periods=1).min(),
            "Polars": lambda d, n: d.polars["x"].rolling_min(n, min_samples=1),
            "DuckDB": lambda d, n: d.sql("min(x)", _rows(n)),
            "bottleneck": lambda d, n: bottleneck.move_min(d.x, n, min_count=1),
        },
    ),
    Question(
        "median",
        usual,
        {
            OURS: lambda d, n: mt.rolling(d.x, n, mt.Median(), min_periods=1),
            "pandas": lambda d, n: d.pandas["x"].rolling(n, min_periods=1).median(),
            "Polars": lambda d, n: d.polars["x"].rolling_median(n, min_samples=1),
            "DuckDB": lambda d, n: d.sql("median(x)", _rows(n)),
            "bottleneck": lambda d, n: bottleneck.move_median(d.x, n, min_count=1),
        },
        slow=("DuckDB",),
    ),
    Question(
        "several columns",
        usual,
        {
            OURS: lambda d, n: mt.rolling(d.polars, n, SEVERAL, min_periods=1).to_numpy(),
            "pandas": lambda d, n: (
                d.pandas[["x", "y"]].rolling(n, min_periods=1).agg(["mean", "max"]).to_numpy()
            ),
            "Polars": lambda d, n: d.polars.select(
                part
                for name in "xy"
                for part in (
                    pl.col(name).rolling_mean(n, min_samples=1).alias(f"{name}_mean"),
                    pl.col(name).rolling_max(n, min_samples=1).alias(f"{name}_max"),
                )
            ).to_numpy(),
            "DuckDB": lambda d, n: d.sql("avg(x); max(x); avg(y); max(y)", _rows(n)),
            "bottleneck": lambda d, n: np.column_stack(
                [move(c, n, min_count=1) for c in (d.x, d.y) for move in MOVES]
            ),
        },
    ),
    uneven("dense"),
    uneven("sparse"),
    Question(
        "regression",
        usual,
        {
            OURS: lambda d, n: (
                mt.rolling((d.y, d.x), n, mt.Cov(ddof=1)) / mt.rolling(d.x, n, mt.Var())
            ),
            "pandas": lambda d, n: (
                d.pandas["x"].rolling(n).cov(d.pandas["y"]) / d.pandas["x"].rolling(n).var()
            ),
            "DuckDB": lambda d, n: _full(d.sql("regr_slope(y, x)", _rows(n)), n),
        },
    ),
    Question(
        "mean by keys of text",
        few,
        {
            OURS: lambda d, n: mt.rolling(d.polars, n, mt.Mean("x"), by="key", min_periods=1),
            "pandas": lambda d, n: (
                d.pandas.groupby("key")["x"]
                .rolling(n, min_periods=1)
                .mean()
                .droplevel(0)
                .sort_index()
            ),
            "Polars": lambda d, n: d.polars.select(
                pl.col("x").rolling_mean(n, min_samples=1).over("key")
            )["x"],
            "DuckDB": lambda d, n: d.sql("avg(x)", f"partition by key {_rows(n)}"),
        },
    ),
)


def _full(results: np.ndarray, n: int) -> np.ndarray:
    """Return results of full windows only."""
    results[: n - 1] = np.nan
    return results


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return the questions, each with a name for the progress bar."""
    data, part = Rows(scale.rows), Rows(min(scale.rows, SLOW_ROWS))
    return [(q.name, lambda q=q: ask(q, data, part, scale)) for q in QUESTIONS]


def ask(question: Question, data: Rows, part: Rows, scale: Scale) -> Findings:
    """Yield the times of all libraries, after their results were equal."""
    n, case = question.window(data.rows), f"rollfun: {question.name}"
    calls, labels, factors = {}, {}, {}
    expected = {rows: _flat(question.answers[OURS](rows, n)) for rows in (data, part)}
    for who, answer in question.answers.items():
        rows = part if who in question.slow else data
        check_same(case, who, expected[rows], _flat(answer(rows, n)))
        calls[who] = lambda answer=answer, rows=rows: answer(rows, n)
        factors[who] = data.rows / rows.rows
        labels[who] = who if rows is data else f"{who} on {rows.rows} rows, scaled"
    timed = best_times(calls, scale)
    seconds = {who: time * factors[who] for who, time in timed.items()}
    targets = {who: TIE if who == "bottleneck" else AHEAD for who in calls if who != OURS}
    yield from against(FIGURE, case, seconds, targets, labels)


def _flat(results: Any) -> np.ndarray:
    return np.asarray(results, np.float64).ravel()
