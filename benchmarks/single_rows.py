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


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    return [("one row", lambda: one_row(scale))]


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


def check() -> None:
    """Raise unless both ways give the same sums."""
    rows, steps = ByOperator(), ByDabaLite()
    for t in range(CHECKED):
        table, total = rows.step(), steps.step()
        assert table.column_names == made(t).column_names
        assert table["s"].to_pylist() == [total], f"row {t}: {table['s']}, and {total}"
        assert table["end"].to_pylist() == [t + 1]


def one_row(scale: Scale) -> Findings:
    """Yield what a row costs in steps of DabaLite, apart from its table."""
    check()
    calls: dict[str, Callable[[], object]] = {
        "muntin": repeated(ByOperator().step),
        "muntin, 5 keys": repeated(ByOperator(keys=5).step),
        "a step of DabaLite": repeated(ByDabaLite().step),
        "an Arrow table": repeated(lambda: made(N)),
    }
    times = {who: 1e6 * seconds / ROWS for who, seconds in best_times(calls, scale).items()}
    case = f"one row per process and advance, Sliding({N}, 1), Sum"
    table, step = times["an Arrow table"], times["a step of DabaLite"]
    for who, spent in times.items():
        asked = who == "muntin"
        yield Finding(
            6, case, who, spent, "µs", speed=min(times.values()) / spent,
            ratio="steps, without a table" if asked else "",
            value=(spent - table) / step if asked else None,
            target=Target(STEPS, at_most=True) if asked else None,
        )  # fmt: skip


def repeated(step: Callable[[], object]) -> Callable[[], None]:
    """Return a call of many steps."""

    def steps() -> None:
        for _ in range(ROWS):
            step()

    return steps
