"""Bytewax: rows one by one through a dataflow, with its own windows.

Its watermark goes with the clock of the machine, so rows may be a minute late. What is left after the
windows, the best one of each, is done in Python.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
import pyarrow as pa
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing
from bytewax.testing import TestingSink, TestingSource, run_main

from benchmarks.peer_cases import SECOND, Case, Question

LATE = timedelta(seconds=60)
ORIGIN = datetime(2023, 1, 1, tzinfo=UTC)
BEGIN = int(ORIGIN.timestamp()) * SECOND
TEN, TWO = 10 * SECOND, 2 * SECOND
Folded = tuple[str, tuple[int, Any]]


def answer(case: Case, path: Path) -> pa.Table:
    """Run a dataflow over the rows of a folder."""
    rows = pq.read_table(path)
    if isinstance(case, Question):
        return QUESTIONS[case.name](rows)
    windower = windowing.SlidingWindower(
        length=timedelta(seconds=case.size), offset=timedelta(seconds=case.step), align_to=ORIGIN
    )
    found = folded(rows, ("k", "ts", "v"), windower, (0, 0.0, float("-inf")), _add)
    columns: dict[str, list[Any]] = {name: [] for name in case.columns}
    for key, (number, (n, s, m)) in found:
        start = BEGIN + number * case.step * SECOND
        row = (int(key), start, start + case.size * SECOND, s, m, s / n)
        for name, value in zip(case.columns, row, strict=True):
            columns[name].append(value)
    return pa.table(columns)


def _add(state: Any, row: Any) -> Any:
    n, s, m = state
    return n + 1, s + row[1], max(m, row[1])


def folded(
    rows: pa.Table,
    columns: tuple[str, str, str],
    windower: Any,
    empty: Any,
    add: Callable[[Any, Any], Any],
) -> list[Folded]:
    """Return the key, number and value of each window; rows are keys, times and values."""
    keys, times, values = (rows[name].to_pylist() for name in columns)
    items = [
        (str(k), (t.replace(tzinfo=UTC), v)) for k, t, v in zip(keys, times, values, strict=True)
    ]
    found: list[Folded] = []
    flow = Dataflow("windows")
    stream = op.input("in", flow, TestingSource(items, batch_size=1000))
    clock = windowing.EventClock(ts_getter=lambda row: row[0], wait_for_system_duration=LATE)
    windows = windowing.fold_window(
        "fold", stream, clock, windower, builder=lambda: empty, folder=add, merger=_merge
    )
    op.output("out", windows.down, TestingSink(found))
    run_main(flow)
    return found


def _merge(a: Any, b: Any) -> Any:
    return a[0] + b[0], min(a[1], b[1]), max(a[2], b[2])


def _count(state: int, _: Any) -> int:
    return state + 1


def _tumbling() -> Any:
    return windowing.TumblingWindower(length=timedelta(seconds=10), align_to=ORIGIN)


def _q5(rows: pa.Table) -> pa.Table:
    sliding = windowing.SlidingWindower(
        length=timedelta(seconds=10), offset=timedelta(seconds=2), align_to=ORIGIN
    )
    found = folded(rows, ("auction", "at", "price"), sliding, 0, _count)
    best: dict[int, int] = {}
    for _, (number, bids) in found:
        best[number] = max(best.get(number, 0), bids)
    winners = [(number, bids, int(key)) for key, (number, bids) in found if best[number] == bids]
    numbers, most, auctions = map(list, zip(*winners, strict=True))
    end = [BEGIN + number * TWO + TEN for number in numbers]
    start = [e - TWO for e in end]
    return pa.table({"start": start, "end": end, "most": most, "auction": auctions})


def _q7(rows: pa.Table) -> pa.Table:
    priced = rows.append_column("row", pa.array(zip_of(rows)))
    all_ = priced.append_column("all", pa.array(["all"] * len(rows)))
    found = folded(all_, ("all", "at", "row"), _tumbling(), [], _highest)
    columns: dict[str, list[int]] = {"start": [], "end": [], "price": [], "bidder": []}
    for _, (number, best) in found:
        start = BEGIN + number * TEN
        for price, bidder in best:
            for name, value in zip(columns, (start, start + TEN, price, bidder), strict=True):
                columns[name].append(value)
    return pa.table(columns)


def zip_of(rows: pa.Table) -> list[list[int]]:
    """Return the price and the bidder of each bid."""
    pairs = zip(rows["price"].to_pylist(), rows["who"].to_pylist(), strict=True)
    return [[price, who] for price, who in pairs]


def _highest(best: list[Any], row: Any) -> list[Any]:
    if best and best[0][0] > row[1][0]:
        return best
    return [*best, row[1]] if best and best[0][0] == row[1][0] else [row[1]]


def _visit(state: Any, row: Any) -> Any:
    bids, first, last = state
    return bids + 1, min(first, row[0]), max(last, row[0])


def _q11(rows: pa.Table) -> pa.Table:
    session = windowing.SessionWindower(gap=timedelta(seconds=10))
    empty = (0, datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))
    found = folded(rows, ("who", "at", "price"), session, empty, _visit)
    firsts, lasts = ([microseconds(state[i]) for _, (_, state) in found] for i in (1, 2))
    return pa.table(
        {
            "who": [int(key) for key, _ in found],
            "start": firsts,
            "end": [last + TEN for last in lasts],
            "bids": [state[0] for _, (_, state) in found],
        }
    )


def microseconds(time: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _q12(rows: pa.Table) -> pa.Table:
    found = folded(rows, ("who", "arrived", "price"), _tumbling(), 0, _count)
    start = [BEGIN + number * TEN for _, (number, _) in found]
    return pa.table(
        {
            "who": [int(key) for key, _ in found],
            "start": start,
            "end": [s + TEN for s in start],
            "bids": [bids for _, (_, bids) in found],
        }
    )


QUESTIONS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "q5": _q5, "q7": _q7, "q11": _q11, "q12": _q12,
}  # fmt: skip
