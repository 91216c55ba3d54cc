"""What windows leave for the next report: same results as plans that keep nothing, for few combines."""

import random

import pytest

import muntin as mt

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
    operators = {plan: query.operator(plan) for plan in plans}
    for batch, watermark in batches(draw, steps, late):
        calls = [("advance", watermark)] if draw.random() < 0.8 else []
        if batch["t"]:
            if options.get("ordered"):
                batch["t"] = [max(batch["t"])] * len(batch["t"])
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
    for seed in range(3):
        for aggregates in (COMMUTATIVE, ("max", "median"), (*AGGREGATES,)):
            compare(seed, windows, aggregates, late, lateness=lateness)


@pytest.mark.parametrize("windows", WINDOWS, ids=lambda windows: ",".join(windows))
def test_every_plan_gives_the_same_changes(windows):
    for seed in range(3):
        compare(seed, windows, ("sum", "max", "median"), 0.2, lateness=6, emit="changes")


@pytest.mark.parametrize("windows", WINDOWS, ids=lambda windows: ",".join(windows))
def test_every_plan_gives_the_same_in_ordered_streams(windows):
    for seed in range(3):
        compare(seed, windows, (*AGGREGATES,), 0.0, ordered=True)
