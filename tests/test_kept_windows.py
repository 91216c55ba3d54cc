"""What windows leave for the next report: same results as plans that keep nothing, for few combines."""

import math
import random
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from math import log2

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.aggregates import SnapshotError
from muntin.query.operator import Operator
from muntin.spark.packing import Packing
from muntin.spark.shard import Copies, Shard
from tests.counting import counted
from tests.test_spark_shard import MemoryBlocks

AGGREGATES = {
    "count": mt.Count(),
    "sum": mt.Sum("v"),
    "mean": mt.Mean("v"),
    "max": mt.Max("v"),
    "argmax": mt.ArgMax("v", "u"),
    "last": mt.Last("v"),
    "median": mt.Median("v"),
    "quantile": mt.Quantile("v", q=0.9),
    "distinct": mt.CountDistinct("v"),
    "collect": mt.Collect("v"),
    "affine": mt.Aggregate(
        "affine",
        (1, 0),
        lambda v: (-1, v),
        lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]),
        inverse=lambda total, part: (total[0] * part[0], total[1] - total[0] * part[0] * part[1]),
        lower=lambda partial: partial[1],
        columns=("v",),
    ),
    "own": mt.Aggregate("own", (), lambda v: (v,), lambda a, b: a + b, tuple, columns=("v",)),
}
COMMUTATIVE = ("count", "sum", "mean", "max", "median", "quantile", "distinct")
PLANS = ("auto", "worst case", "lazy", "eager")
WINDOWS = (
    {"w": mt.Sliding(7, 1)},
    {"w": mt.Sliding(12, 3), "v": mt.Sliding(5, 1)},
    {"w": mt.Sliding(10, 4), "v": mt.Tumbling(6)},
    {f"w{size}": mt.Sliding(size, 1 + size % 2) for size in range(3, 9)},
)
JOINED_WINDOWS = (
    {"w": mt.Sliding(30, 4), "v": mt.Sliding(13, 5)},
    {"w": mt.Sliding(41, 9), "v": mt.Tumbling(6), "u": mt.Sliding(9, 6)},
    {f"w{size}": mt.Sliding(size, 4 + size % 2) for size in range(11, 18)},
)
SPREAD = 8
"""In streams in order a batch has rows at several of so many moments, so that windows end between."""


def sorted_rows(table):
    return sorted(map(repr, table.to_pylist()))


def batches(draw, steps, late, keys=3, rows=4, span=12):
    """Yield (batch, watermark) per step."""
    for now in range(steps):
        count = draw.randint(0, rows)
        times = [now - draw.randint(0, span) if draw.random() < late else now for _ in range(count)]
        yield (
            {
                "t": times,
                "k": [draw.choice("abc"[:keys]) for _ in range(count)],
                "v": [None if draw.random() < 0.1 else draw.randint(-9, 9) for _ in range(count)],
                "u": [draw.randint(0, 99) for _ in range(count)],
            },
            now - draw.randint(0, 2),
        )


def compare(seed, windows, aggregates, late, plans=PLANS, steps=60, **options):
    draw = random.Random(seed)
    query = mt.Query(
        time="t", keys=("k",), windows=windows,
        aggregates={name: AGGREGATES[name] for name in aggregates}, **options,
    )  # fmt: skip
    expected = query.operator("naive")
    watermarks = SPREAD if options.get("ordered") else 1
    operators = {plan: query.operator(plan) for plan in plans}
    for batch, watermark in batches(draw, steps, late):
        calls = [("advance", watermark * watermarks)] if draw.random() < 0.8 else []
        if batch["t"]:
            if options.get("ordered"):
                latest = SPREAD * max(batch["t"])
                batch["t"] = sorted(latest + draw.randrange(SPREAD) for _ in batch["t"])
            calls.insert(0, ("process", batch))
        for call, argument in calls:
            wanted = sorted_rows(getattr(expected, call)(argument))
            for plan, operator in operators.items():
                assert sorted_rows(getattr(operator, call)(argument)) == wanted, (plan, watermark)
        if draw.random() < 0.05:
            operators = {
                plan: query.restore(operator.snapshot()) for plan, operator in operators.items()
            }
    return operators


@pytest.mark.parametrize("late", [0.0, 0.2])
@pytest.mark.parametrize("lateness", [0, 6])
@pytest.mark.parametrize("windows", WINDOWS, ids=lambda windows: ",".join(windows))
def test_every_plan_gives_the_same_reports(windows, lateness, late):
    compare(1, windows, COMMUTATIVE, late, lateness=lateness)
    compare(2, windows, (*AGGREGATES,), late, lateness=lateness)


@pytest.mark.parametrize("windows", WINDOWS, ids=lambda windows: ",".join(windows))
def test_every_plan_gives_the_same_changes(windows):
    compare(3, windows, ("sum", "max", "median"), 0.2, lateness=6, emit="changes")


@pytest.mark.parametrize("windows", WINDOWS + JOINED_WINDOWS, ids=",".join)
def test_every_plan_gives_the_same_in_ordered_streams(windows):
    for seed in (4, 5):
        compare(seed, windows, (*AGGREGATES,), 0.0, ordered=True)


# Combines


def spent(plan, n, steps, aggregate, late=0.0, every=1, delay=None):
    """Return the combines per report after the first, in turn, and the number of late slices."""
    draw = random.Random(n)
    made, counter = counted(aggregate)
    query = mt.Query(time="t", windows={"w": mt.Sliding(n * every, every)}, aggregates={"a": made})
    operator = query.operator(plan)
    rows = [(t, t % 7) for t in range(n * every)]
    operator.process({"t": [t for t, _ in rows], "v": [v for _, v in rows]})
    operator.advance(n * every)
    costs, behind = [], 0
    for step in range(n, n + steps):
        before, reported = counter.combines, operator.counters.combines
        now = step * every
        times = [now - draw.randint(0, delay or n - 1) if draw.random() < late else now]
        behind += times[0] < now
        operator.process({"t": times, "v": [step % 11]})
        operator.advance(now + every)
        costs.append(counter.combines - before)
        if not late:
            assert operator.counters.combines - reported == costs[-1]
    return costs, behind


OWN = mt.Aggregate("own", None, lambda v: (v, v), lambda a, b: (a[0], b[1]), columns=("v",))


@pytest.mark.parametrize("n", [2, 3, 10, 64, 257])
def test_a_window_more_takes_three_combines_on_average(n):
    costs, _ = spent("auto", n, 4 * n, OWN)
    assert sum(costs) <= 3 * len(costs)


@pytest.mark.parametrize("n", [2, 3, 10, 64, 257])
def test_no_window_takes_more_than_six_combines_in_the_worst_case(n):
    costs, _ = spent("worst case", n, 2 * n, OWN)
    assert max(costs) <= 6
    assert sum(costs) <= 4 * len(costs)


LARGEST = mt.Aggregate("own max", -99, int, max, columns=("v",), commutative=True)
JOINED = replace(OWN, identity=(), lift=lambda v: (v,), combine=lambda a, b: (*a, *b)[-3:])


@pytest.mark.parametrize("plan", ["auto", "worst case"])
@pytest.mark.parametrize("delay", [5, None])
@pytest.mark.parametrize("aggregate", [LARGEST, JOINED], ids=["commutative", "in order"])
def test_late_rows_take_three_log_n_combines(aggregate, delay, plan):
    n = 64
    costs, late = spent(plan, n, 4 * n, aggregate, late=0.2, delay=delay)
    assert late > n / 2
    assert sum(costs) <= 3 * log2(n) * (len(costs) + late)


@pytest.mark.parametrize("plan", ["auto", "worst case"])
@pytest.mark.parametrize("name", ["sum", "count", "median", "distinct"])
def test_what_can_be_taken_away_takes_two_steps(name, plan):
    query = mt.Query(time="t", windows={"w": mt.Sliding(50, 1)}, aggregates={"a": AGGREGATES[name]})
    operator = query.operator(plan)
    for t in range(200):
        before = operator.counters.combines
        operator.process({"t": [t], "v": [t % 9]})
        operator.advance(t + 1)
        assert operator.counters.combines - before <= 2


class Cut:
    """A stream of one row per moment through an operator, cut into batches at random."""

    def __init__(self, n, aggregate, plan, late=0.0, **options):
        window = mt.Sliding(options.pop("size", n), options.pop("every", 1))
        query = mt.Query(time="t", windows={"w": window}, aggregates={"a": aggregate}, **options)
        self.operator, self.draw = query.operator(plan), random.Random(n)
        self.n, self.late, self.now, self.behind = n, late, 0, 0

    def take(self, rows):
        """Take the next rows, some of them late; return what they cost, and the windows reported."""
        counters = self.operator.counters
        before, reported = counters.combines, counters.windows_reported
        times = np.arange(self.now, self.now + rows)
        late = np.array([i for i in range(rows) if self.draw.random() < self.late], np.int64)
        times[late] -= np.array([self.draw.randint(1, self.n - 1) for _ in late], np.int64)
        self.behind += len(late)
        self.now += rows
        self.operator.process({"t": times, "v": times * 7919 % 1000, "f": times % 13 / 8})
        if not self.operator.query.ordered:
            self.operator.advance(self.now)
        counters = self.operator.counters
        return counters.combines - before, counters.windows_reported - reported

    def run(self, rows, most):
        """Return the cost of each batch, and of windows reported, after a first report."""
        self.take(2 * self.n)
        self.behind, end = 0, self.now + rows
        taken = []
        while self.now < end:
            taken.append(self.take(min(self.draw.randint(1, most), end - self.now)))
        return np.array(taken).T


CUT = {
    "max": mt.Max("v"),
    "float sum": mt.Sum("f"),
    "sum": mt.Sum("v"),
    "median": mt.Median("v"),
    "own": OWN,
    "own list": replace(OWN, combine=lambda a, b: (*a[:2], *b[-1:]), holistic=True),
}


@pytest.mark.parametrize("plan", ["auto", "worst case"])
@pytest.mark.parametrize("name", [name for name in CUT if name != "own list"])
def test_any_cut_into_batches_takes_four_combines_on_average(name, plan):
    costs, windows = Cut(10_000, CUT[name], plan).run(10_000, 60)
    assert windows.sum() == 10_000
    assert costs.sum() <= 4 * 10_000
    if plan == "worst case":
        assert (costs <= 6 * windows).all()


@pytest.mark.parametrize("plan", ["auto", "worst case"])
@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("lateness", [0, 30])
def test_late_rows_of_any_cut_take_three_log_n_combines(lateness, name, plan):
    n = 4000
    cut = Cut(n, CUT[name], plan, late=0.2, lateness=lateness)
    costs, windows = cut.run(n, 40)
    assert cut.behind > n / 6
    assert costs.sum() <= 3 * log2(n) * (windows.sum() + cut.behind)


@pytest.mark.parametrize(("plan", "most"), [("auto", 3), ("auto", 30), ("worst case", 3)])
@pytest.mark.parametrize("name", ["sum", "median", "own"])
def test_slices_that_are_joined_cost_one_combine_more(name, plan, most):
    """In order, size no multiple of every: slices at the end of a window are joined later."""
    n = 100
    cut = Cut(4 * n, CUT[name], plan, size=4 * n + 2, every=4, ordered=True)
    costs, windows = cut.run(8 * n, most)
    assert costs.sum() <= 6 * windows.sum()
    assert cut.operator.counters.slices <= n + 2


# Many kinds


@pytest.mark.parametrize("name", ["max", "sum", "median", "own"])
def test_many_kinds_of_windows_share_what_is_kept(name):
    n = 150

    def kept(sizes):
        windows = {f"w{size}": mt.Sliding(size, 1) for size in sizes}
        query = mt.Query(time="t", windows=windows, aggregates={"a": CUT[name]})
        operator = query.operator()
        for now in range(0, 2 * n, 5):
            operator.process({"t": np.arange(now, now + 5), "v": np.arange(5)})
            operator.advance(now + 5)
        costs = []
        for now in range(2 * n, 2 * n + 8):
            before = operator.counters.combines
            operator.process({"t": [now], "v": [now]})
            operator.advance(now + 1)
            costs.append(operator.counters.combines - before)
        return operator.counters.state_bytes, sum(costs[1:]) / len(costs[1:]) / len(windows)

    one, _ = kept([n])
    for kinds in (5, 20, n):
        many, mean = kept(range(n // kinds, n + 1, n // kinds))
        assert many <= 2 * one, kinds
        assert mean <= max(3 * log2(n), n / kinds), kinds


# Through a shard of Spark


def shard_combines(plan, n, steps):
    """Return the combines of each micro-batch after the first, counted by the shard's operator."""
    empty = pa.table({"t": np.zeros(0, np.int64), "v": np.zeros(0, np.int64)})
    query = mt.Query(
        time="t",
        windows={"w": mt.Sliding(n, 1)},
        aggregates={"m": mt.Max("v"), "q": mt.Median("v")},
    )
    packing = Packing(f"kept {plan} {n}", query, empty, plan=plan)
    store, copies, costs, tables = MemoryBlocks(), Copies(), [], []
    for step in range(n - 1, n + steps):
        times = np.arange(n) if step < n else np.array([step])
        rows = pa.table({"t": times, "v": times % 13})
        (packed,) = [payload for _, payload in packing.pack(rows, 1)]
        done = Shard(packing, store, {}, copies).take([packed], step + 1)
        costs.append(done.counters.combines)
        tables.append(done.results)
    return costs[1:], pa.concat_tables(tables)


@pytest.mark.parametrize("n", [8, 60])
def test_a_shard_takes_as_few_combines(n):
    tables = {}
    for plan, mean, most in (("auto", 3 + 2, 2 * n), ("worst case", 4 + 2, 6 + 2)):
        costs, tables[plan] = shard_combines(plan, n, 2 * n)
        assert max(costs) <= most
        assert sum(costs) <= mean * len(costs)
    assert tables["auto"].equals(tables["worst case"])
    assert tables["auto"].equals(shard_combines("naive", n, 2 * n)[1])


def test_a_state_goes_on_under_a_plan_with_the_same_slices():
    query = mt.Query(time="t", windows={"w": mt.Sliding(5, 1)}, aggregates={"m": mt.Max("v")})
    held = query.operator("lazy")
    held.process({"t": [1, 2], "v": [3, 4]})
    assert Operator.from_plain(query, held.plain(), plan="worst case").plan.kind == "worst case"
    naive = query.operator("naive")
    assert Operator.from_plain(query, naive.plain(), plan="auto").plan.kind == "tuple buffer"
    with pytest.raises(SnapshotError, match="a state of plan 'tuple buffer' is not one of plan"):
        Operator.from_plain(query, naive.plain(), plan="eager")


# Multisets


VALUES = {
    "few equal": lambda draw: draw.randint(-1000, 1000),
    "many equal": lambda draw: draw.randint(-5, 5),
    "floats": lambda draw: draw.choice([draw.random(), 0.5, -0.0, math.inf]),
    "large": lambda draw: (
        draw.randint(-(2**66), 2**66) if draw.random() < 0.1 else draw.randint(0, 9)
    ),
    "mixed": lambda draw: draw.choice([draw.randint(0, 99), draw.random(), Fraction(1, 3), 2**70]),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("name", ["median", "quantile", "distinct"])
def test_a_multiset_gives_what_lower_gives_of_what_is_in_it(name, values):
    draw, aggregate = random.Random(values), replace(AGGREGATES[name], columns=())
    held, multiset = [], aggregate.multiset()
    assert multiset.result() == aggregate.lower(aggregate.identity)
    for _ in range(700):
        if held and draw.random() < 0.45:
            multiset.remove(held.pop(draw.randrange(len(held))))
        else:
            few = [draw.choice([VALUES[values](draw), math.nan]) for _ in range(5)]
            held.append(reduce(aggregate.combine, map(aggregate.lift, few)))
            multiset.add(held[-1])
        if draw.random() < 0.1:
            total = reduce(aggregate.combine, held, aggregate.identity)
            assert repr(multiset.result()) == repr(aggregate.lower(total))
    for partial in held:
        multiset.remove(partial)
    assert multiset.result() == aggregate.lower(aggregate.identity)


def test_a_function_of_ones_own_is_asked_and_not_the_multiset():
    median = AGGREGATES["median"]
    assert replace(median, columns=("u",)).multiset is median.multiset
    assert replace(median, lower=len).multiset is None
