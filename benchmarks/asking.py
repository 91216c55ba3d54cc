"""What asking for more costs: early results, a result at each row, and conditions.

Each is compared with the same run without it: first the results of a part of the rows, and then the time
of `process` and `advance`, run by run in turns.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target, best_times
from muntin.windows import Window

FIGURE = 11
KEYS = 1000
SECOND, DAY = 1_000_000, 86_400_000_000
ADVANCES = 8640  # one every ten seconds of a day
QUICK_ADVANCES = 864
BATCHES = 100
CHECKED = 20_000
EARLY, EACH_ROW, FILTERED = Target(1.5, at_most=True), Target(3), Target(1.3, at_most=True)
AGGREGATES = {"n": mt.Count(), "total": mt.Sum("v")}


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    measured = {
        "early results": early,
        "a result at each row": each_row,
        "aggregates with conditions": filtered,
    }
    return [(name, lambda run=run: run(scale)) for name, run in measured.items()]


def day(rows: int, keys: int) -> pa.Table:
    """Return the rows of a day in the order of time."""
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "t": np.sort(rng.integers(0, DAY, rows)),
            "k": rng.integers(0, keys, rows),
            "v": rng.integers(0, 100, rows),
            "high": rng.random(rows) < 0.5,
        }
    )


def asked(window: Window, **options: object) -> mt.Query:
    """Return a query for the rows of a day."""
    options = {"keys": "k", "windows": {"w": window}, "aggregates": AGGREGATES, **options}
    return mt.Query(time="t", **options)


def taken(query: mt.Query, rows: pa.Table, advances: int) -> list[pa.Table]:
    """Return what a query reports with so many advances."""
    operator, times, found = query.operator(), rows["t"].to_numpy(), []
    for part in np.array_split(np.arange(len(rows)), advances):
        found.append(operator.process(rows.slice(part[0], len(part))))
        found.append(operator.advance(int(times[part[-1]])))
    found.append(operator.advance(2 * DAY))
    return [table for table in found if len(table)]


def early(scale: Scale) -> Findings:
    """Yield the cost of early results of a day's window, every ten seconds."""
    plain = asked(mt.Tumbling("1 day"))
    asks, few = replace(plain, early="10 s"), day(CHECKED, KEYS)
    final = pa.concat_tables(taken(asks, few, BATCHES))
    _same("early results", final.filter(pc.equal(final["kind"], "result")), plain.run(few))
    rows, advances = day(scale.rows, KEYS), QUICK_ADVANCES if scale.quick else ADVANCES
    queries = {"without": plain, "early": asks}
    calls = {name: lambda q=q: taken(q, rows, advances) for name, q in queries.items()}
    best = best_times(calls, scale)
    for name, seconds in best.items():
        yield Finding(
            FIGURE, f"a day's window of {KEYS} keys, {advances} advances", name,
            seconds, "s", best["without"] / seconds, "of the run without",
            seconds / best["without"], EARLY if name == "early" and not scale.quick else None,
        )  # fmt: skip


def each_row(scale: Scale) -> Findings:
    """Yield the rows per second of a window that each row fires, of one key."""
    query = asked(mt.Sliding("1 min", every=mt.rows(1)), aggregates={"total": mt.Sum("v")})
    few = day(CHECKED, 1)
    found = pa.concat_tables(taken(query, few, BATCHES))
    wanted = mt.rolling(few["v"].to_numpy(), "1 min", mt.Sum(), on=few["t"].to_numpy())
    _same("a result at each row", found["total"], pa.array(wanted, found["total"].type))
    rows = day(scale.rows, 1)
    best = best_times({"each row": lambda: taken(query, rows, BATCHES)}, scale)
    speed = scale.rows / best["each row"] / 1e6
    yield Finding(
        FIGURE, "every=mt.rows(1), one key", "a sum of a minute", speed, "M rows/s",
        ratio="million rows per second", value=speed, target=EACH_ROW,
    )  # fmt: skip


def filtered(scale: Scale) -> Findings:
    """Yield the cost of conditions on the rows of an aggregate."""
    queries = {
        name: asked(mt.Sliding("1 min", "10 s"), aggregates={"n": mt.Sum("v", where=where)})
        for name, where in {
            "without": None,
            "a column": "high",
            "a comparison": mt.col("v") > 50,
        }.items()
    }
    few = day(CHECKED, KEYS)
    left = few.filter(pc.greater(few["v"], 50))
    ours = pa.concat_tables(taken(queries["a comparison"], few, BATCHES))
    ours = ours.filter(pc.is_valid(ours["n"]))
    _same("conditions", ours, queries["without"].run(left))
    rows = day(scale.rows, KEYS)
    calls = {name: lambda q=q: taken(q, rows, BATCHES) for name, q in queries.items()}
    best = best_times(calls, scale)
    for name, seconds in best.items():
        yield Finding(
            FIGURE, f"where=, a minute every ten seconds, {KEYS} keys", name, seconds, "s",
            min(best.values()) / seconds, "of the run without", seconds / best["without"],
            None if name == "without" else FILTERED,
        )  # fmt: skip


def _same(case: str, ours: pa.Table | pa.Array, theirs: pa.Table | pa.Array) -> None:
    """Raise unless two results are the same, in any order."""
    a, b = (sorted(map(repr, found.to_pylist())) for found in (ours, theirs))
    if a != b:
        raise AssertionError(f"{case}: results differ, first of {len(a)} and {len(b)}")
