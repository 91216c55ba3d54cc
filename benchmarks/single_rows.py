"""One row at a time: each row through `process` and `advance`, which reports one window.

Beside it a step of the interpreted DabaLite on the same rows (evict, insert and query), and the making
of one Arrow table like each result. What an operator does for a row besides that table is in steps.
"""

from collections.abc import Callable
from itertools import count

import pyarrow as pa

import muntin as mt
from benchmarks.measure import Finding, Findings, Scale, Target, best_times

N = 60
ROWS = 500
CHECKED = 300
STEPS = 50
KEYS = 5


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    return [
        ("one row", lambda: one_row(scale, 0)),
        (f"one row of {KEYS} keys", lambda: one_row(scale, KEYS)),
    ]


def value(t: int) -> int:
    """Return the value of the row at a time."""
    return t * 7 % 13


class ByOperator:
    """Rows through a query, one by one."""

    def __init__(self, keys: int = 0) -> None:
        self._keys = keys
        query = mt.Query(
            keys=("k",) if keys else (),
            time="t",
            windows={"w": mt.Sliding(N, 1)},
            aggregates={"s": mt.Sum("x")},
        )
        self._operator = query.operator()
        self._times = count()

    def step(self) -> pa.Table:
        """Take the next row, and return the window that ends at it."""
        t = next(self._times)
        row = {"t": [t], "x": [value(t)]}
        if self._keys:
            row["k"] = [t % self._keys]
        self._operator.process(row)
        return self._operator.advance(t + 1)


class ByDabaLite:
    """The same rows through an interpreted algorithm."""

    def __init__(self) -> None:
        self._window = mt.DabaLite(mt.Sum())
        self._times = count()

    def step(self) -> int:
        """Take the next row, and return the sum of the last rows."""
        t = next(self._times)
        if t >= N:
            self._window.evict()
        self._window.insert(value(t))
        total: int = self._window.query()
        return total


def made(t: int) -> pa.Table:
    """Return a table like the result at a time."""
    return pa.table(
        {
            "window": pa.array(["w"]),
            "start": pa.array([t - N]),
            "end": pa.array([t]),
            "kind": pa.array(["result"]),
            "s": pa.array([t]),
        }
    )


def check(keys: int) -> None:
    """Raise unless the operator gives the sums of each key's rows in the window."""
    rows = ByOperator(keys)
    for t in range(CHECKED):
        held = range(max(t - N + 1, 0), t + 1)
        groups = {key: [value(u) for u in held if u % keys == key] for key in range(keys)}
        wanted = groups if keys else {None: [value(u) for u in held]}
        found = rows.step().to_pylist()
        sums = {row.get("k"): row["s"] for row in found}
        assert sums == {key: sum(group) for key, group in wanted.items() if group}, f"row {t}"
        assert all(row["end"] == t + 1 for row in found)


def one_row(scale: Scale, keys: int) -> Findings:
    """Yield what a row costs in steps of DabaLite, apart from its table."""
    check(keys)
    calls: dict[str, Callable[[], object]] = {
        "muntin": repeated(ByOperator(keys).step),
        "a step of DabaLite": repeated(ByDabaLite().step),
        "an Arrow table": repeated(lambda: made(N)),
    }
    times = {who: 1e6 * seconds / ROWS for who, seconds in best_times(calls, scale).items()}
    of_keys = f", {keys} keys" if keys else ""
    case = f"one row per process and advance, Sliding({N}, 1), Sum{of_keys}"
    table, step = times["an Arrow table"], times["a step of DabaLite"]
    for who, spent in times.items():
        asked = who == "muntin"
        yield Finding(
            6, case, who, spent, "µs", speed=min(times.values()) / spent,
            ratio="steps, without a table" if asked else "",
            value=(spent - table) / step if asked else None,
            target=Target(STEPS, at_most=True) if asked and not keys else None,
        )  # fmt: skip


def repeated(step: Callable[[], object]) -> Callable[[], None]:
    """Return a call of many steps."""

    def steps() -> None:
        for _ in range(ROWS):
            step()

    return steps
