"""Random queries and rolling windows at the limits of what they take, compared with their definition.

    python -m scripts.extremes --seed 1 --count 300

Times, measures, sizes, origins, lateness and watermarks are drawn near 0, near the bounds and near where
64 bits end. What is within the bounds gives what Python's integers give; what is not is refused with an
error that names the row or the value. A run that hangs is ended with a traceback.
"""

import argparse
import faulthandler
import random
from bisect import bisect_left, bisect_right

import numpy as np
from tests.window_oracle import WindowOracle, read_results

import muntin as mt

BOUND, LONGEST = 2**61, 2**60
PLACES = (0, 1000, -1000, 2**31, 2**53, -(2**53), LONGEST, -LONGEST, BOUND, -BOUND)
SCALES = (1, 7, 1000, 2**31, 2**53 + 1, 2**57)
ORIGINS = (0, 0, 5, -7, BOUND, -BOUND, BOUND - 3, LONGEST, -LONGEST + 1)
BEYOND = (BOUND + 1, -BOUND - 1, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1)
MOST_TICKS = 300
COLLECTED = {"all": mt.Collect("v"), "sum": mt.Sum("v"), "top": mt.Max("v"), "rows": mt.Count()}


def near(chance, scale, count):
    """Return whole numbers within the bounds, near one or two places."""
    places = chance.sample(PLACES, chance.choice((1, 1, 2)))
    drawn = [chance.choice(places) + scale * chance.randint(-40, 40) for _ in range(count)]
    return [max(-BOUND, min(value, BOUND)) for value in drawn]


def length(chance, scale, most=LONGEST):
    """Return a size of the order of a scale, or the longest there is."""
    return chance.choice((1, 2, scale, scale + 1, 3 * scale, 10 * scale, most - 1, most))


def windows_over(chance, scale, times):
    """Return windows of all kinds, of which no row is in too many."""
    stretch = max(times) - min(times) + 4 * LONGEST
    size = min(length(chance, scale), LONGEST)
    every = max(size // chance.choice((1, 2, 3, 30)), chance.choice((1, scale)), 1)
    tick = max(min(length(chance, scale), LONGEST), -(-stretch // MOST_TICKS))
    origin = chance.choice(ORIGINS)
    policy = mt.policies.last(chance.randint(1, 5))
    column = {"measure": "count"} if size < 50 and every < 50 else {}
    return {
        "tumbling": mt.Tumbling(size, origin=origin),
        "sliding": mt.Sliding(size, min(every, LONGEST), origin=origin, **column),
        "session": mt.Session(min(length(chance, scale), LONGEST)),
        "fixed": mt.Fixed(chance.choice((*times, *ORIGINS)), size),
        "last": mt.LastN(chance.choice((1, 3, LONGEST)), tick, origin=origin),
        "policy": mt.Policy(policy, tick, origin=origin),
        "delta": mt.Delta("m", size, min(every, LONGEST), origin=origin),
    }


def try_query(chance):
    """Run a query in random steps and compare each report with the definition."""
    scale, count = chance.choice(SCALES), chance.randint(1, 25)
    times = near(chance, scale, count)
    measures = sorted(near(chance, scale, count))
    ordered = chance.random() < 0.3
    times = sorted(times) if ordered else times
    order = sorted(range(count), key=lambda i: times[i])
    advancing = dict(zip(order, measures, strict=True))
    rows = [
        {"t": t, "k": chance.randint(0, 2), "m": advancing[i], "v": chance.randint(-9, 9)}
        for i, t in enumerate(times)
    ]
    offered = windows_over(chance, scale, times)
    windows = {n: offered[n] for n in chance.sample(sorted(offered), chance.randint(1, 3))}
    lateness = 0 if ordered else chance.choice((0, 10 * scale, LONGEST))
    lateness = min(lateness, LONGEST)
    options = {"time": "t", "keys": "k", "windows": windows, "lateness": lateness}
    query = mt.Query(aggregates=COLLECTED, ordered=ordered, **options)
    operator = query.operator(chance.choice(("auto", "eager")))
    oracle = WindowOracle(windows, COLLECTED, lateness, keys=("k",), ordered=ordered)
    while rows:
        cut = chance.randint(1, len(rows))
        table = operator.process(rows[:cut])
        expected = oracle.process(rows[:cut])
        if ordered:
            compare(table, expected)
        rows = rows[cut:]
        if chance.random() < 0.5:
            watermark = chance.choice(times) + chance.choice((-1, 0, 1)) * scale
            watermark = max(-BOUND, min(watermark, 2 * BOUND))
            compare(operator.advance(watermark), oracle.advance(watermark))
            operator = query.restore(operator.snapshot())
    compare(operator.advance(2**70), oracle.advance(2 * BOUND))
    assert operator.counters.dropped == oracle.dropped
    again = query.restore(operator.snapshot())
    assert again.snapshot() == operator.snapshot()


def compare(table, expected):
    """Compare a report with the definition's: what is new, and what is retracted."""
    results, retracted = read_results(table, ("k",))
    wanted, gone = expected
    assert results == wanted, (results, wanted)
    gone = {window for window in gone if window[2] is not None}
    assert {w for w in retracted if w[1] != "last"} == gone, (retracted, gone)


def try_changes(chance):
    """Run a query that reports changes only; what it reports is what the windows hold."""
    scale, count = chance.choice(SCALES), chance.randint(1, 25)
    times = near(chance, scale, count)
    size = min(length(chance, scale), LONGEST)
    every = chance.choice((1, max(size // 3, 1), size))
    window = mt.Sliding(size, every, origin=chance.choice(ORIGINS))
    query = mt.Query(
        time="t", windows={"w": window}, aggregates={"all": mt.Collect("v")}, emit="changes"
    )
    operator = query.operator()
    operator.process({"t": times, "v": list(range(count))})
    table = operator.advance(2**70)
    rows = sorted(zip(times, range(count), strict=True))
    for row in table.to_pylist():
        inside = [v for t, v in rows if row["start"] <= t < row["end"]]
        assert row["all"] == (inside or None), (row, inside)
        assert row["end"] - row["start"] == size
        assert (row["start"] - window.origin) % every == 0
    assert table.num_rows <= 2 * count + 1


def try_beyond(chance):
    """Give a query a time or a measure beyond the bounds: it is refused, and nothing has changed."""
    windows = {"t": mt.Tumbling(10), "d": mt.Delta("m", 10, 2), "s": mt.Session(3)}
    query = mt.Query(
        time="t", windows=windows, aggregates=COLLECTED, watermark=chance.choice((0, 5))
    )
    operator, twin = query.operator(), query.operator()
    rows = [{"t": i, "m": i, "v": i} for i in range(8)]
    for one in (operator, twin):
        one.process(rows)
    column, bad, row = chance.choice("tm"), chance.choice(BEYOND), chance.randint(0, 7)
    kind = np.uint64 if bad >= 2**63 else np.int64
    batch = {name: np.array([r[name] + 8 for r in rows], np.int64) for name in "tmv"}
    batch[column] = batch[column].astype(kind)
    batch[column][row] = bad
    refused = refusal(lambda: operator.process(batch))
    assert f"row {row}" in refused, (column, bad, refused)
    for one in (operator, twin):
        one.process([{"t": 20, "m": 30, "v": 1}])
    assert operator.advance(100).equals(twin.advance(100))


def try_rolling(chance):
    """Roll over times at the limits of 64 bits and compare with a definition in Python's integers."""
    scale, count = chance.choice(SCALES), chance.randint(1, 30)
    places = (0, 2**62, -(2**62), 2**63 - 1, -(2**63) + 1)
    place = chance.choice(places)
    drawn = sorted(place + scale * chance.randint(-40, 40) for _ in range(count))
    times = [max(-(2**63) + 1, min(t, 2**63 - 1)) for t in drawn]
    size = chance.choice((1, scale, 5 * scale, 2**60, 2**62, 2**63 - 1, 2**63, 2**70))
    closed, center = chance.choice(("right", "left", "both", "neither")), chance.random() < 0.2
    values = [chance.randint(-9, 9) for _ in times]
    options = {"on": np.array(times), "closed": closed, "center": center, "min_periods": 0}
    found = []
    refused = refusal(lambda: found.extend(mt.rolling(np.array(values), size, mt.Sum(), **options)))
    if refused:
        assert times[-1] - times[0] > BOUND, refused
        assert f"rows 0 and {count - 1}" in refused, refused
        return
    for i, t in enumerate(times):
        inside = [values[j] for j in held(times, i, t, size, closed, center)]
        same = found[i] == sum(inside) if inside else not found[i] or np.isnan(found[i])
        assert same, (i, times, size, closed, center, found[i], inside)


def refusal(call):
    """Return why a call was refused; nothing if it was not."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return ""


def held(times, i, t, size, closed, center):
    """Return the rows of row i's window."""
    before, after = (size // 2, size // 2) if center else (size, 0)
    low = (bisect_left if closed in ("left", "both") else bisect_right)(times, t - before)
    high = (bisect_right if closed in ("right", "both") else bisect_left)(times, t + after)
    return range(low, high if center else min(high, i + 1))


def try_rows(chance):
    """Roll over numbers of rows that are longer than any array."""
    values = [chance.randint(-9, 9) for _ in range(chance.randint(1, 20))]
    size = chance.choice((2**31, 2**62, 2**63 - 1, 2**63, 2**70))
    center = chance.random() < 0.3
    algorithm = "auto" if center else chance.choice(("auto", "DabaLite", "TwoStacksLite"))
    found = mt.rolling(
        np.array(values), size, mt.Sum(), min_periods=1, center=center, algorithm=algorithm
    )
    sums = [sum(values)] * len(values) if center else list(np.cumsum(values))
    assert found.tolist() == sums


TRIALS = {
    "query": try_query,
    "changes": try_changes,
    "beyond": try_beyond,
    "rolling": try_rolling,
    "rows": try_rows,
}


def main():
    """Try what was asked for, and print how much that was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--limit", type=float, default=3600, help="seconds until it counts as hung")
    parser.add_argument("--only", choices=TRIALS)
    asked = parser.parse_args()
    faulthandler.dump_traceback_later(asked.limit, exit=True)
    names = [asked.only] if asked.only else list(TRIALS)
    for i in range(asked.seed, asked.seed + asked.count):
        name = names[i % len(names)]
        try:
            TRIALS[name](random.Random(i))
        except Exception:
            print(f"failed: --only {name} --seed {i} --count 1", flush=True)
            raise
    print(f"{asked.count} runs from seed {asked.seed} on")


if __name__ == "__main__":
    main()
