"""Figures 8 to 12: general stream slicing, batches of 64 k rows, the watermark advanced after each.

Results are first compared with a definition in NumPy or with a peer's. Rows of one figure are timed in
turns; a rate is that of a whole stream through `process` and `advance`, with its results as tables.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target, best_times
from benchmarks.streams import (
    GAP,
    LATE,
    PLAY,
    SECOND,
    VALUE,
    Run,
    check_defined,
    check_frames,
    check_plans,
    concurrent,
    defined,
    football,
    plugs,
    query,
    rates,
)  # fmt: skip

CHECKED = 1 << 17
HOUR = 3600
POLARS_ROWS = 2_000_000
MINUTE = 60
KEYS, QUICK_KEYS = 100_000, 10_000
SAMPLED = (0, 1, 17, 4321)
SESSIONS = 20
SLICES = 500
MEMORY_ROWS, QUICK_MEMORY_ROWS = 50_000_000, 5_000_000
# The plans whose state grows with rows get fewer of them.
STATE_ROWS = {
    "lazy": 1.0,
    "eager": 1.0,
    "buckets": 0.01,
    "tuple buffer": 0.01,
    "aggregate tree": 0.01,
}
MEGABYTE = 1e6
UNIT = "M rows/s"


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    return [
        ("20 windows", lambda: twenty(scale)),
        ("20 sessions", lambda: sessions(scale)),
        ("1000 windows", lambda: thousand(scale)),
        ("1 h every second", lambda: hour(scale)),
        ("1 h every second, Polars", lambda: hour_of_polars(scale)),
        ("keys", lambda: dense_keys(scale)),
        ("keys, changes", lambda: sparse_keys(scale)),
        ("memory", lambda: memory(scale)),
    ]


def twenty(scale: Scale) -> Findings:
    """Yield rows a second with 20 windows: in order, with late rows, with a session window."""
    in_order, late = football(scale.rows), football(scale.rows, LATE)
    pausing = football(scale.rows, pauses=True)
    late_pausing = football(scale.rows, LATE, pauses=True)
    runs = {
        "in order": Run(concurrent(20), in_order),
        "in order, declared so": Run(concurrent(20, ordered=True), in_order),
        "20 % up to 2 s late": Run(concurrent(20), late),
        "in order, and a session": Run(concurrent(20, session=True), pausing),
        "20 % late, and a session": Run(concurrent(20, session=True), late_pausing),
    }
    targets = [Target(50), None, Target(30), Target(20), Target(20)]
    case = "20 concurrent windows of 1 to 20 s"
    for who, run in runs.items():
        check_defined(f"{case}, {who}", run.head(CHECKED))
    asked = dict(zip(runs, targets, strict=True))
    yield from by_rate(8, case, rates(runs, scale), asked)


def sessions(scale: Scale) -> Findings:
    """Yield rows a second with 20 sessions of several gaps, and with the shortest of them alone."""
    gaps = np.linspace(GAP // 2, PLAY, SESSIONS).astype(int).tolist()
    several = query({f"{gap} us": mt.Session(gap) for gap in gaps})
    alone = query({f"{gaps[0]} us": mt.Session(gaps[0])})
    late = football(scale.rows, LATE, pauses=True)
    runs = {
        "1": Run(alone, football(scale.rows, pauses=True)),
        "20": Run(several, football(scale.rows, pauses=True)),
        "20, 20 % up to 2 s late": Run(several, late),
    }
    case = "sessions of 0.5 to 10 s"
    for who, run in runs.items():
        check_defined(f"{case}, {who}", run.head(CHECKED))
    asked = {"1": None, "20": Target(40), "20, 20 % up to 2 s late": None}
    yield from by_rate(8, case, rates(runs, scale), asked)


def by_rate(
    figure: int, case: str, found: dict[str, float], asked: dict[str, Target | None]
) -> Findings:
    """Yield rates with what is asked of them."""
    fastest = max(found.values())
    for who, rate in found.items():
        yield Finding(
            figure, case, who, rate, UNIT, rate / fastest, value=rate, target=asked.get(who)
        )


def thousand(scale: Scale) -> Findings:
    """Yield the rate with 1000 windows and its share of the rate with 20."""
    for order, stream in {
        "in order": football(scale.rows),
        "20 % late": football(scale.rows, LATE),
    }.items():
        case = f"1000 concurrent windows, {order}"
        runs = {f"{n} windows": Run(concurrent(n), stream) for n in (20, 1000)}
        for who, run in runs.items():
            check_defined(f"{case}, {who}", run.head(CHECKED))
        few, many = rates(runs, scale).values()
        fastest = max(few, many)
        yield Finding(9, case, "20 windows", few, UNIT, few / fastest)
        yield Finding(
            9, case, "1000 windows", many, UNIT, many / fastest, "of 20's", many / few,
            Target(0.5),
        )  # fmt: skip


def hour(scale: Scale) -> Findings:
    """Yield the time of one sliding window of an hour beside that of a tumbling one of a second."""
    stream = football(scale.rows)
    runs = {
        "tumbling 1 s": Run(query({"w": mt.Tumbling(SECOND)}), stream),
        "sliding 3600 s / 1 s": Run(query({"w": mt.Sliding(HOUR * SECOND, SECOND)}), stream),
    }
    case = f"1 h every second, {len(stream):,} rows"
    for who, run in runs.items():
        check_defined(f"{case}, {who}", run)
    times = best_times({who: run.play for who, run in runs.items()}, scale)
    fastest, tumbling = min(times.values()), times["tumbling 1 s"]
    for who, seconds in times.items():
        value, ratio = (None, "") if who == "tumbling 1 s" else (seconds / tumbling, "of tumbling")
        target = Target(2, at_most=True) if ratio else None
        yield Finding(10, case, who, 1e3 * seconds, "ms", fastest / seconds, ratio, value, target)


def hour_of_polars(scale: Scale) -> Findings:
    """Yield the time of a whole table at once, and of Polars for the same windows."""
    columns = football(min(scale.rows, POLARS_ROWS)).columns
    frame = pl.DataFrame({"start": columns["t"].astype("datetime64[us]"), VALUE: columns["v"]})
    asked = query({"w": mt.Sliding(HOUR * SECOND, SECOND)})
    case = f"1 h every second, {len(frame):,} rows at once"
    calls = {"muntin": lambda: asked.run(columns), "Polars": lambda: dynamic(frame)}
    ours = pl.DataFrame(pl.from_arrow(calls["muntin"]())).select("start", VALUE)
    theirs = calls["Polars"]().with_columns(pl.col("start").dt.epoch("us"))
    check_frames(case, "Polars", ours, theirs)
    times = best_times(calls, scale)
    for who, seconds in times.items():
        peer = who == "Polars"
        value = seconds / times["muntin"] if peer else None
        yield Finding(
            10, case, who, 1e3 * seconds, "ms", min(times.values()) / seconds,
            "its/ours" if peer else "", value, Target(50) if peer else None,
        )  # fmt: skip


def dynamic(frame: pl.DataFrame) -> pl.DataFrame:
    """Return Polars' sums; by the offset it has the windows that begin before the first row too."""
    groups = frame.group_by_dynamic(
        "start", every="1s", period=f"{HOUR}s", offset=f"-{HOUR - 1}s", closed="left"
    )
    return groups.agg(pl.col(VALUE).sum())


def minute_of_keys(emit: str = "every") -> mt.Query:
    """Return sums of a minute every second for each key."""
    return query({"w": mt.Sliding(MINUTE * SECOND, SECOND)}, keys=("k",), emit=emit)


def dense_keys(scale: Scale) -> Findings:
    """Yield the rate with many keys that have a row each second."""
    keys = QUICK_KEYS if scale.quick else KEYS
    run = Run(minute_of_keys(), plugs(keys, scale.rows // keys, SECOND))
    case = f"{keys:,} keys each second, 60 s / 1 s"
    small = replace(run, stream=plugs(QUICK_KEYS, 2 * MINUTE, SECOND))
    table = pl.DataFrame(pl.from_arrow(small.table()))
    for key in SAMPLED:
        ours = table.filter(pl.col("k") == key).sort("start")
        check_frames(case, f"key {key}", ours.select("start", "end", VALUE), of_key(small, key))
    yield from by_rate(11, case, rates({"muntin": run}, scale), {"muntin": Target(3)})


def sparse_keys(scale: Scale) -> Findings:
    """Yield the rate with many keys that have a row each minute, when only changes are reported."""
    keys = QUICK_KEYS if scale.quick else KEYS
    run = Run(minute_of_keys("changes"), plugs(keys, scale.rows // keys, MINUTE * SECOND))
    case = f"{keys:,} keys each minute, changes"
    small = replace(run, stream=plugs(QUICK_KEYS, 5, MINUTE * SECOND))
    table = pl.DataFrame(pl.from_arrow(small.table()))
    for key in SAMPLED:
        every = of_key(small, key)
        changes = table.filter(pl.col("k") == key).sort("start")
        check_frames(case, f"key {key}", replayed(changes, every), every)
    yield from by_rate(11, case, rates({"muntin": run}, scale), {"muntin": Target(1)})


def of_key(run: Run, key: int) -> pl.DataFrame:
    """Return the windows of one key by their definition."""
    columns, (window,) = run.stream.columns, run.query.windows.values()
    mine = columns["k"] == key
    return defined(window, columns["t"][mine], columns["v"][mine], run.stream.watermark)


def replayed(changes: pl.DataFrame, every: pl.DataFrame) -> pl.DataFrame:
    """Return changes carried forward to every window."""
    latest = np.searchsorted(changes["start"], every["start"], side="right") - 1
    return every.with_columns(changes[VALUE].gather(latest))


def memory(scale: Scale) -> Findings:
    """Yield the state of each plan when 500 slices are held for late rows."""
    rows = QUICK_MEMORY_ROWS if scale.quick else MEMORY_ROWS
    case = f"state with {SLICES} slices held, {rows:,} rows"
    check_plans(case, {plan: held(plan, CHECKED // 4) for plan in STATE_ROWS})
    for plan, share in STATE_ROWS.items():
        counters = held(plan, int(rows * share)).play().counters
        sliced = plan in ("lazy", "eager")
        assert counters.slices >= SLICES, f"{plan} holds {counters.slices} slices"
        name = plan if share == 1 else f"{plan}, {counters.rows:,} rows"
        yield Finding(
            12, case, name, counters.state_bytes / MEGABYTE, "MB",
            value=counters.state_bytes / MEGABYTE, target=Target(2, at_most=True) if sliced else None,
        )  # fmt: skip


def held(plan: str, rows: int, slices: int = SLICES) -> Run:
    """Return a run that ends with so many slices, each of a second, in the allowed lateness."""
    stream = football(rows, rate=rows / slices)
    return Run(concurrent(20, lateness=slices * SECOND), stream, plan)
