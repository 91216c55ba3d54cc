"""LastN and policies: few combines per report, however many rows are held."""

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin import policies
from muntin.spark.packing import Packing
from muntin.spark.shard import Copies, Shard
from tests.counting import counted
from tests.test_kept_windows import JOINED, LARGEST, OWN
from tests.test_spark_shard import MemoryBlocks

KINDS = {
    "last rows": lambda n: mt.LastN(n, 1),
    "last": lambda n: mt.Policy(policies.last(n), 1),
    "within": lambda n: mt.Policy(policies.within(n, "t"), 1),
    "sum at most": lambda n: mt.Policy(policies.sum_at_most(n, "one"), 1),
    "until max": lambda _: mt.Policy(policies.until_max("falls"), 1),
    "own": lambda n: mt.Policy(counting(n), 1),
}
WINDOWS = pytest.mark.parametrize("window", KINDS.values(), ids=KINDS)


def counting(n):
    """Return a policy of a user's own."""
    return policies.SlidePolicy("counting", mt.Count(), lambda total, old: total - old >= n)


def rows_at(times):
    times = np.asarray(times)
    return {"t": times, "v": times % 7, "one": np.ones(len(times), np.int64), "falls": -times}


def costs_of(window, aggregate, steps, *, plan="auto", late=None, n=0):
    """Return the combines of each report, one row per report; `late` gives the row at a step."""
    made, counter = counted(aggregate)
    query = mt.Query(time="t", windows={"w": window}, aggregates={"a": made}, lateness=10**6)
    operator, costs = query.operator(plan), []
    operator.process(rows_at(np.arange(n)))
    operator.advance(n)
    begun, told = counter.combines, operator.counters.combines
    for step in range(n, n + steps):
        before = counter.combines
        t = step if late is None else late(step)
        operator.process(rows_at([t]))
        operator.advance(step + 1)
        costs.append(counter.combines - before)
    if late is None:
        assert operator.counters.combines - told == counter.combines - begun
    return costs


@pytest.mark.parametrize("plan", ["auto", "worst case"])
@pytest.mark.parametrize(
    ("kind", "n"), [*((kind, n) for kind in KINDS for n in (10, 100)), ("last rows", 1000)]
)
def test_a_report_takes_four_combines_on_average_however_many_rows_there_are(kind, n, plan):
    costs = costs_of(KINDS[kind](n), OWN, 3 * n // 2, plan=plan, n=n)[1:]
    assert sum(costs) <= 4 * len(costs)
    if plan == "worst case":
        assert max(costs) <= 6


@WINDOWS
@pytest.mark.parametrize("aggregate", [LARGEST, JOINED], ids=["commutative", "in order"])
def test_a_late_row_takes_a_few_combines_per_window_that_it_changes(window, aggregate):
    n, every = 128, 4

    def late(step):
        return step - 9 if step % every == 0 else step

    costs = costs_of(window(n), aggregate, n, late=late, n=n)
    windows = len(costs) + 9 * len(costs) / every
    assert sum(costs) <= 3 * np.log2(n) * windows


@pytest.mark.parametrize("window", [KINDS["last rows"], KINDS["last"], KINDS["within"]])
@pytest.mark.parametrize("name", ["Sum", "Count", "Median", "CountDistinct"])
def test_what_can_be_taken_away_takes_two_steps(window, name):
    query = mt.Query(
        time="t", windows={"w": window(50)}, aggregates={"a": mt.AGGREGATES[name]("v")}
    )
    operator = query.operator()
    for t in range(200):
        before = operator.counters.combines
        operator.process(rows_at([t]))
        operator.advance(t + 1)
        assert operator.counters.combines - before <= 2


@WINDOWS
def test_through_a_shard_a_report_takes_as_few(window):
    n, steps = 60, 150
    empty = pa.table(rows_at([])).cast(pa.table(rows_at([1])).schema)
    windows, aggregates = {"w": window(n)}, {"m": mt.Max("v"), "q": mt.Median("v")}
    query = mt.Query(time="t", windows=windows, aggregates=aggregates)
    packing = Packing(f"rows {windows}", query, empty, plan="auto")
    store, copies, costs, tables = MemoryBlocks(), Copies(), [], []
    for step in range(n, n + steps):
        times = np.arange(n) if step == n else np.array([step - 1])
        (packed,) = [payload for _, payload in packing.pack(pa.table(rows_at(times)), 1)]
        done = Shard(packing, store, {}, copies).take([packed], step)
        costs.append(done.counters.combines)
        tables.append(done.results)
    assert sum(costs[2:]) <= (3 + 2) * len(costs[2:])  # the first reports begin
    naive = query.operator("naive")
    naive.process(rows_at(np.arange(n + steps - 1)))
    assert pa.concat_tables(tables).equals(naive.advance(n + steps - 1))
