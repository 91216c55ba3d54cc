"""Who is asked besides Spark and Bytewax, and how each computes the results of a case from its files.

None of them has windows that slide by one and are cheap, so each is given what a good user would write:
rows are grouped by key and step, the steps that have no rows are filled in, and a frame of so many steps
rolls over them. (Polars' `group_by_dynamic` leaves out the windows that begin before the first row of a
key, so its results are others.) Times are microseconds since 1970.
"""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import bottleneck
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peer_cases import SECOND, Case, Question, Windows

TEN, TWO = 10 * SECOND, 2 * SECOND


class CannotSayError(Exception):
    """An engine has no way to say a case."""


# muntin


def muntin(case: Case, path: Path) -> pa.Table:
    """Run the queries of a case in this process."""
    return reduce(lambda rows, query: query.run(rows), case.queries(), pq.read_table(path))


# Polars


def polars(case: Case, path: Path) -> pa.Table:
    """Roll over steps that are filled in, or answer a question by its groups."""
    frame = pl.read_parquet(path).with_columns(pl.col(pl.Datetime).dt.epoch("us"))
    if isinstance(case, Question):
        return POLARS[case.name](frame).to_arrow()
    step, back = case.step * SECOND, (case.panes - 1) * case.step * SECOND
    panes = frame.group_by("k", at=pl.col("ts") // step * step).agg(
        s=pl.col("v").sum(), m=pl.col("v").max(), n=pl.len().cast(pl.Int64)
    )
    if case.panes > 1:
        filled = pl.int_range(pl.col("at").min(), pl.col("at").max() + back + 1, step)
        grid = panes.group_by("k").agg(at=filled).explode("at")
        rows = grid.join(panes, on=["k", "at"], how="left").sort("k", "at")
        n, options = case.panes, {"min_samples": 1}
        panes = rows.select(
            "k", "at",
            s=pl.col("s").fill_null(0).rolling_sum(n, **options).over("k"),
            m=pl.col("m").rolling_max(n, **options).over("k"),
            n=pl.col("n").fill_null(0).rolling_sum(n, **options).over("k"),
        ).filter(pl.col("n") > 0)  # fmt: skip
    return panes.select(
        "k", "s", "m", start=pl.col("at") - back, end=pl.col("at") + step,
        a=pl.col("s") / pl.col("n"),
    ).to_arrow()  # fmt: skip


def _polars_q5(bids: pl.DataFrame) -> pl.DataFrame:
    at = pl.col("at") // TWO * TWO
    panes = bids.group_by("auction", start=at).agg(bids=pl.len())
    copies = [panes.with_columns(pl.col("start") - i * TWO) for i in range(5)]
    counts = pl.concat(copies).group_by("auction", "start").agg(most=pl.col("bids").sum())
    best = counts.filter(pl.col("most") == pl.col("most").max().over("start"))
    start = pl.col("start")
    return best.with_columns(start=start + TEN - TWO, end=start + TEN)


def _polars_q7(bids: pl.DataFrame) -> pl.DataFrame:
    rows = bids.select("price", bidder="who", start=pl.col("at") // TEN * TEN)
    best = rows.filter(pl.col("price") == pl.col("price").max().over("start"))
    return best.with_columns(end=pl.col("start") + TEN)


def _polars_q11(bids: pl.DataFrame) -> pl.DataFrame:
    rows = bids.select("who", "at").sort("who", "at")
    first = pl.col("at").diff().over("who").fill_null(TEN + 1) > TEN
    visits = rows.with_columns(visit=first.cum_sum()).group_by("who", "visit")
    at = pl.col("at")
    return visits.agg(start=at.min(), end=at.max() + TEN, bids=pl.len())


def _polars_q12(bids: pl.DataFrame) -> pl.DataFrame:
    start = pl.col("arrived") // TEN * TEN
    counts = bids.group_by("who", start=start).agg(bids=pl.len())
    return counts.with_columns(end=pl.col("start") + TEN)


POLARS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "q5": _polars_q5, "q7": _polars_q7, "q11": _polars_q11, "q12": _polars_q12,
}  # fmt: skip


# pandas


def pandas(case: Case, path: Path) -> pa.Table:
    """Roll over a table of steps and keys, or answer a question by its groups."""
    frame = pd.read_parquet(path)
    for name in frame.select_dtypes("datetimetz"):
        frame[name] = frame[name].astype("datetime64[us, UTC]").astype(np.int64)
    if isinstance(case, Question):
        return pa.Table.from_pandas(PANDAS[case.name](frame), preserve_index=False)
    step, back = case.step * SECOND, (case.panes - 1) * case.step * SECOND
    frame["at"] = frame["ts"] // step * step
    panes = frame.groupby(["at", "k"])["v"].agg(s="sum", m="max", n="count")
    if case.panes > 1:
        wide = panes.unstack("k")
        all_steps = range(wide.index[0], wide.index[-1] + back + 1, step)
        wide = wide.reindex(pd.Index(all_steps, name="at"))
        rolled = {
            "s": wide["s"].fillna(0).rolling(case.panes, min_periods=1).sum().stack(),
            "m": wide["m"].rolling(case.panes, min_periods=1).max().stack(),
            "n": wide["n"].fillna(0).rolling(case.panes, min_periods=1).sum().stack(),
        }
        panes = pd.DataFrame(rolled)
        panes = panes[panes["n"] > 0]
    found = panes.reset_index()
    found = found.assign(start=found["at"] - back, end=found["at"] + step, a=found.s / found.n)
    return pa.Table.from_pandas(found, preserve_index=False)


def _pandas_q5(bids: pd.DataFrame) -> pd.DataFrame:
    panes = bids.assign(start=bids["at"] // TWO * TWO).groupby(["start", "auction"]).size()
    flat = panes.rename("most").reset_index()
    copies = [flat.assign(start=flat["start"] - i * TWO) for i in range(5)]
    counts = pd.concat(copies).groupby(["start", "auction"])["most"].sum().reset_index()
    best = counts[counts["most"] == counts.groupby("start")["most"].transform("max")]
    return best.assign(start=best["start"] + TEN - TWO, end=best["start"] + TEN)


def _pandas_q7(bids: pd.DataFrame) -> pd.DataFrame:
    rows = bids.assign(start=bids["at"] // TEN * TEN, bidder=bids["who"])
    best = rows[rows["price"] == rows.groupby("start")["price"].transform("max")]
    return best.assign(end=best["start"] + TEN)


def _pandas_q11(bids: pd.DataFrame) -> pd.DataFrame:
    rows = bids[["who", "at"]].sort_values(["who", "at"])
    first = ~(rows.groupby("who")["at"].diff() <= TEN)
    visits = rows.assign(visit=first.cumsum()).groupby(["who", "visit"])["at"]
    found = visits.agg(start="min", end="max", bids="count").reset_index()
    return found.assign(end=found["end"] + TEN)


def _pandas_q12(bids: pd.DataFrame) -> pd.DataFrame:
    counts = bids.assign(start=bids["arrived"] // TEN * TEN).groupby(["who", "start"]).size()
    found = counts.rename("bids").reset_index()
    return found.assign(end=found["start"] + TEN)


PANDAS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "q5": _pandas_q5, "q7": _pandas_q7, "q11": _pandas_q11, "q12": _pandas_q12,
}  # fmt: skip


# DuckDB

BIDS = """
    bids AS (SELECT epoch_us("at") AS t, epoch_us(arrived) AS arrived, who, auction, price
             FROM read_parquet('{path}/*.parquet'))"""
PANES = """
    panes AS (SELECT k, epoch_us(ts) // {step} * {step} AS t, sum(v) AS s, max(v) AS m,
                     count(*) AS n
              FROM read_parquet('{path}/*.parquet') GROUP BY ALL)"""
ROLLED = """,
    grid AS (SELECT k, unnest(range(min(t), max(t) + {back} + 1, {step})) AS t
             FROM panes GROUP BY k),
    rolled AS (SELECT k, t, sum(s) OVER w AS s, max(m) OVER w AS m, sum(n) OVER w AS n
               FROM grid LEFT JOIN panes USING (k, t)
               WINDOW w AS (PARTITION BY k ORDER BY t
                            ROWS BETWEEN {panes} - 1 PRECEDING AND CURRENT ROW))"""
FOUND = """
    SELECT k, t - {back} AS start, t + {step} AS "end", s, m, s / n AS a FROM {table} WHERE n > 0"""
DUCKDB = {
    "q5": """,
        counts AS (SELECT auction, start, count(*) AS most FROM (
            SELECT auction, unnest(range(t // {two} * {two} - 4 * {two}, t + 1, {two})) AS start
            FROM bids) GROUP BY ALL)
        SELECT start + {ten} - {two} AS start, start + {ten} AS "end", most, auction FROM counts
        QUALIFY most = max(most) OVER (PARTITION BY start)""",
    "q7": """
        SELECT t // {ten} * {ten} AS start, start + {ten} AS "end", price, who AS bidder FROM bids
        QUALIFY price = max(price) OVER (PARTITION BY t // {ten})""",
    "q11": """,
        firsts AS (SELECT who, t, coalesce(t - lag(t) OVER w > {ten}, true) AS first FROM bids
                   WINDOW w AS (PARTITION BY who ORDER BY t)),
        visits AS (SELECT who, t, sum(first::INT) OVER (
                       PARTITION BY who ORDER BY t ROWS UNBOUNDED PRECEDING) AS visit FROM firsts)
        SELECT who, min(t) AS start, max(t) + {ten} AS "end", count(*) AS bids FROM visits
        GROUP BY who, visit""",
    "q12": """
        SELECT who, arrived // {ten} * {ten} AS start, start + {ten} AS "end", count(*) AS bids
        FROM bids GROUP BY ALL""",
}


def in_duckdb(case: Case, path: Path) -> pa.Table:
    """Roll over steps that are filled in, or answer a question in SQL."""
    if isinstance(case, Question):
        text = f"WITH {BIDS}{DUCKDB[case.name]}".format(path=path, ten=TEN, two=TWO)
    else:
        slides = case.panes > 1
        back = (case.panes - 1) * case.step * SECOND
        text = f"WITH {PANES}{ROLLED if slides else ''}{FOUND}".format(
            path=path, step=case.step * SECOND, back=back, panes=case.panes,
            table="rolled" if slides else "panes",
        )  # fmt: skip
    with duckdb.connect() as connection:
        return connection.sql(text).to_arrow_table()


# bottleneck


def in_bottleneck(case: Case, path: Path) -> pa.Table:
    """Roll over a table of keys and steps; it has no groups, so NumPy makes the steps."""
    if not isinstance(case, Windows) or case.panes == 1:
        raise CannotSayError("it rolls over rows of a regular grid, and has no groups")
    table, step = pq.read_table(path), case.step * SECOND
    pane = np.asarray(table["ts"].cast(pa.timestamp("us")).cast(pa.int64())) // step
    names, key = np.unique(np.asarray(table["k"]), return_inverse=True)
    first, v = pane.min(), np.asarray(table["v"])
    shape = len(names), int(pane.max() - first) + case.panes
    cell = key * shape[1] + (pane - first)
    s, n = (np.bincount(cell, w, shape[0] * shape[1]).reshape(shape) for w in (v, None))
    m = np.full(shape[0] * shape[1], -np.inf)
    np.maximum.at(m, cell, v)
    options = {"window": case.panes, "min_count": 1, "axis": 1}
    s, n = (bottleneck.move_sum(array.astype(np.float64), **options) for array in (s, n))
    m = bottleneck.move_max(m.reshape(shape), **options)
    rows, columns = np.nonzero(n)
    s, m, n = s[rows, columns], m[rows, columns], n[rows, columns]
    end = (columns + first + 1) * step
    found = {"k": names[rows], "start": end - case.size * SECOND, "end": end}
    return pa.table(found | {"s": s, "m": m, "a": s / n})


LOCAL: dict[str, Callable[[Case, Path], Any]] = {
    "muntin": muntin,
    "Polars": polars,
    "pandas": pandas,
    "DuckDB": in_duckdb,
    "bottleneck": in_bottleneck,
}
