"""An auction house: the questions of NEXMark, each as one query or one chain of two.

    python examples/nexmark.py

Persons register, open auctions and bid, in one stream of events. NEXMark (Tucker and others, 2002) asks
what is hot, what was the highest bid, who opened an auction soon after registering; its successors ask
for sessions and for statistics of the day. The events here come from a generator of our own, with the
shares of the benchmark: of 50 events one is a person, three are auctions, and the others bids.

q5 asks for the auctions with the most bids of each window. That is a query over the results of a
query: its time is `window_time`, the last microsecond of a result's window.
"""

import argparse
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import muntin as mt

SECOND = 1_000_000
BEGIN = 1_767_139_200 * SECOND  # midnight
PER_SECOND = IN_TURN = 50
CHANNELS = np.array(["app", "phone", "web", "partner"])
DELAY = "2 s"
LOW, HIGH = mt.col("price") < 1_000, mt.col("price") >= 100_000
MIDDLE = (mt.col("price") >= 1_000) & (mt.col("price") < 100_000)


def generated(events: int, seed: int = 1) -> pa.Table:
    """Return events in the order of their arrival, up to two seconds after their time."""
    rng, n = np.random.default_rng(seed), np.arange(events)
    turn, round_ = n % IN_TURN, n // IN_TURN
    kind = np.where(turn == 0, "person", np.where(turn < 4, "auction", "bid"))
    auction = np.where(turn < 4, 3 * round_ + turn - 1, 0)
    newest = np.maximum(3 * round_ + np.minimum(turn, 4) - 2, 0)
    hot, any_of_last = newest // 20 * 20, newest - rng.integers(0, 60, events)
    bid_on = np.maximum(np.where(rng.random(events) < 0.5, hot, any_of_last), 0)
    active = np.maximum(round_ - rng.integers(0, 100, events), 0)
    who = np.where(turn == 0, round_, active)
    at = BEGIN + n * SECOND // PER_SECOND
    late = rng.integers(0, 2 * SECOND, events) * (rng.random(events) < 0.2)
    order = np.argsort(at + late, kind="stable")
    events_ = pa.table(
        {
            "kind": kind,
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "arrived": pa.array(at + late, pa.timestamp("us", "UTC")),
            "who": who,  # the person, the seller of an auction, or the bidder
            "auction": np.where(kind == "bid", bid_on, auction),
            "price": np.exp(rng.random(events) * 14).astype(np.int64) + 1,
            "channel": CHANNELS[rng.integers(0, len(CHANNELS), events)],
        }
    )
    return events_.take(order)


def asked(windows: dict[str, Any], aggregates: dict[str, Any], **options: Any) -> mt.Query:
    """Return a query over events."""
    options = {"time": "at", "watermark": DELAY, **options}
    return mt.Query(windows=windows, aggregates=aggregates, **options)


def ranked(**options: Any) -> mt.Query:
    """Return the statistics of a day's bids, so far and in the end."""
    aggregates: dict[str, Any] = {"bids": mt.Count()}
    for name, price in {"low": LOW, "middle": MIDDLE, "high": HIGH}.items():
        aggregates[f"{name}_bids"] = mt.Count(where=price)
        aggregates[f"{name}_bidders"] = mt.CountDistinct("who", where=price)
        aggregates[f"{name}_auctions"] = mt.CountDistinct("auction", where=price)
    aggregates |= {"bidders": mt.CountDistinct("who"), "auctions": mt.CountDistinct("auction")}
    return asked({"day": mt.Calendar("1 day")}, aggregates, **options)


COUNT = {"bids": mt.Count()}
TEN = {"ten seconds": mt.Tumbling("10 s")}
BIDS_OF = asked({"recent": mt.Sliding("10 s", "2 s")}, COUNT, keys="auction")
HOTTEST = mt.Query(
    time="window_time",
    windows={"hottest": mt.Tumbling("2 s")},
    aggregates={"most": mt.Max("bids"), "auction": mt.ArgMax("bids", "auction")},
)
JOINED = {
    "registered": mt.Count(where=mt.col("kind") == "person"),
    "opened": mt.Count(where=mt.col("kind") == "auction"),
}
HIGHEST = {"price": mt.Max("price"), "bidder": mt.ArgMax("price", "who")}
QUERIES: dict[str, tuple[mt.Query, ...]] = {
    "q5": (BIDS_OF, HOTTEST),  # the auction with the most bids
    "q7": (asked(TEN, HIGHEST),),  # the highest bid
    "q8": (asked(TEN, JOINED, keys="who"),),  # who registers and sells: both are above 0
    "q11": (asked({"visit": mt.Session("10 s")}, COUNT, keys="who"),),  # bids of a visit
    "q12": (asked(TEN, COUNT, keys="who", time="arrived"),),  # by the clock of who takes them
    "q15": (ranked(),),  # the day
    "q16": (ranked(keys="channel"),),  # the day of a channel
}


def source(name: str, events: pa.Table) -> pa.Table:
    """Return the events that a question is about."""
    return events if name == "q8" else events.filter(pc.equal(events["kind"], "bid"))


def main(events: int = 20_000) -> dict[str, pa.Table]:
    """Answer each question, and return the answers."""
    stream, answers = generated(events), {}
    shown = Table("question", "results", "the last one", title=f"{events} events")
    for name, queries in QUERIES.items():
        rows = source(name, stream)
        for query in queries:
            rows = query.run(rows)
        if name == "q8":
            rows = rows.filter((pc.field("registered") > 0) & (pc.field("opened") > 0))
        answers[name] = rows
        last = rows.slice(len(rows) - 1).drop_columns(["window", "kind"]).to_pylist()[0]
        shown.add_row(name, str(len(rows)), ", ".join(f"{k} {v}" for k, v in last.items()))
    Console().print(shown)
    return answers


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=20_000, help="how many to generate")
    main(**vars(parser.parse_args()))
