"""Trades: the last 100 of each share, every second, and which of them was the highest.

    python examples/last_trades.py

A window of rows that is reported by the clock has two measures: it holds a number of rows, however
long ago they were, and is asked for every second. Trades come from several venues, some of them late.
A late trade takes its place among the others and may push one out of a window that was reported: the
window is then reported again, as an update.

ArgMax tells which trade was the highest and not only how high: it is the first of equals, in the
order of time. The mean price, weighted by the shares traded, is an aggregate of our own: three short
functions.
"""

import argparse
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import muntin as mt

SECOND = 1_000_000
BEGIN = 1_767_623_400 * SECOND  # a Monday, when trading starts
SHARES = {"ACME": 240.0, "BOLT": 31.5, "CORE": 88.0}
VENUES = ("north", "south", "dark")

mean_price = mt.Aggregate(
    "mean_price",
    identity=(0.0, 0.0),
    lift=lambda trade: (trade[0] * trade[1], float(trade[1])),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lower=lambda sums: sums[0] / sums[1] if sums[1] else None,
    commutative=True,
    columns=("price", "quantity"),
)

QUERY = mt.Query(
    time="at",
    keys="share",
    windows={"last 100": mt.LastN(100, every="1 second")},
    aggregates={
        "high": mt.Max("price"),
        "highest": mt.ArgMax("price", "trade"),
        "where": mt.ArgMax("price", "venue"),
        "mean": mean_price,
        "trades": mt.Count(),
    },
    watermark="1 second",
    lateness="10 seconds",
)


def generated(trades: int, seed: int = 100) -> pa.Table:
    """Return trades in the order of their arrival: one in twenty some seconds late."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, trades * SECOND // 50, trades))  # about 50 in a second
    share = rng.integers(0, len(SHARES), trades)
    walk = np.exp(np.cumsum(rng.normal(0, 2e-4, trades)))
    price = np.round(np.array(list(SHARES.values()))[share] * walk, 2)
    delay = np.where(rng.random(trades) < 0.05, rng.integers(0, 8 * SECOND, trades), 0)
    table = pa.table(
        {
            "at": pa.array(BEGIN + at, pa.timestamp("us")),
            "trade": np.arange(trades),
            "share": np.array(list(SHARES))[share],
            "venue": np.array(VENUES)[rng.integers(0, len(VENUES), trades)],
            "price": price,
            "quantity": rng.integers(1, 40, trades) * 10,
        }
    )
    return table.take(np.argsort(at + delay, kind="stable"))


def main(trades: int = 30_000, batch: int = 500) -> list[dict[str, Any]]:
    """Print the last windows, and one that a late trade has changed; return all reports."""
    console, operator = Console(), QUERY.operator()
    arrivals, reports = generated(trades), []
    for start in range(0, trades, batch):
        operator.process(arrivals.slice(start, batch))
        reports += operator.advance().to_pylist()
    latest = max(row["end"] for row in reports)
    final = sorted((row for row in reports if row["end"] == latest), key=lambda row: row["share"])
    console.print(shown("The last windows", final))
    updates = [row for row in reports if row["kind"] == "update"]
    told = [history(reports, update) for update in updates]
    for rows in [rows for rows in told if rows[0]["high"] < rows[-1]["high"]][:1]:
        console.print(shown("A late trade was the highest", rows))
    counters = operator.counters
    console.print(
        f"{counters.rows:,} trades, {counters.late:,} of them late: {len(reports) - len(updates):,} "
        f"windows, {len(updates):,} updates. Held are {counters.rows_kept:,} trades."
    )
    return reports


def history(reports: list[dict[str, Any]], update: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all that was reported of the window of an update, the update last."""
    same = update["share"], update["end"]
    return [row for row in reports if (row["share"], row["end"]) == same]


def shown(title: str, rows: list[dict[str, Any]]) -> Table:
    """Return reports as a table; `end` is in microseconds, because `start` is a number of rows."""
    table = Table(title=title)
    for heading in ("share", "until", "kind", "trades", "high", "trade", "venue", "mean"):
        table.add_column(heading, justify="left" if heading in ("share", "kind") else "right")
    for row in rows:
        until = str(np.datetime64(row["end"], "us"))[11:19]
        figures = f"{row['high']:.2f}", str(row["highest"]), row["where"], f"{row['mean']:.2f}"
        table.add_row(row["share"], until, row["kind"], str(row["trades"]), *figures)
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trades", type=int, default=30_000, help="how many to generate")
    parser.add_argument("--batch", type=int, default=500, help="how many arrive at once")
    main(**vars(parser.parse_args()))
