"""The streams and queries of EDBT 2019, section 6.1, and how an operator is fed with them.

The paper replays a football match: 2000 rows a second, about 84 000 different values, five pauses in a
minute. That data set is not to be had here; these streams have its rate, values, pauses and disorder.
Windows are tumbling ones with lengths spread evenly from 1 to 20 s, in whole milliseconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import muntin as mt
from benchmarks.measure import Scale, best_times, check_same
from muntin.query.operator import Operator
from muntin.windows import Window

SECOND = 1_000_000
RATE = 2000
BATCH = 1 << 16
DELAY = 2 * SECOND
DISTINCT = 84_232
GAP = SECOND
PLAY, PAUSE = 10 * SECOND, 2 * SECOND
LATE = 0.2
VALUE = "s"


@dataclass(frozen=True, eq=False)
class Stream:
    """Columns of rows in the order of their arrival; the watermark stays `behind` the latest time."""

    columns: dict[str, np.ndarray]
    behind: int = 0

    def __len__(self) -> int:
        return len(self.columns["t"])

    def head(self, rows: int) -> "Stream":
        """Return the first rows as a stream."""
        return replace(self, columns={name: c[:rows] for name, c in self.columns.items()})

    @cached_property
    def batches(self) -> list[tuple[dict[str, np.ndarray], int]]:
        """The batches, each with the watermark after it."""
        parts, latest = [], 0
        for i in range(0, len(self), BATCH):
            part = {name: column[i : i + BATCH] for name, column in self.columns.items()}
            latest = max(latest, int(part["t"].max()))
            parts.append((part, latest - self.behind))
        return parts

    @property
    def watermark(self) -> int:
        """The watermark at the end."""
        return self.batches[-1][1]


@cache
def football(
    rows: int, late: float = 0.0, delay: int = DELAY, pauses: bool = False, rate: float = RATE
) -> Stream:
    """Return a stream of which a share comes late, by any delay up to the given one."""
    rng = np.random.default_rng(rows)
    times = (np.arange(rows) * (SECOND / rate)).astype(np.int64)
    if pauses:
        times += times // PLAY * PAUSE
    values = rng.integers(1, DISTINCT, rows) / 1e4
    if not late:
        return Stream({"t": times, "v": values})
    arrival = times + np.where(rng.random(rows) < late, rng.integers(0, delay, rows), 0)
    return Stream({"t": times[np.argsort(arrival, kind="stable")], "v": values}, delay)


@cache
def plugs(keys: int, rounds: int, every: int) -> Stream:
    """Return a stream in which each key has a row in each round, the rows spread over the round."""
    rng = np.random.default_rng(keys)
    rows = keys * rounds
    times = np.arange(rows, dtype=np.int64) * every // keys
    return Stream({"t": times, "k": np.tile(rng.permutation(keys), rounds), "v": rng.random(rows)})


def concurrent(
    windows: int,
    *,
    measure: str = "time",
    session: bool = False,
    aggregate: mt.Aggregate | None = None,
    **options: Any,
) -> mt.Query:
    """Return a query of so many tumbling windows, and a session window if asked."""
    lengths_ms = np.linspace(1000, 20_000, windows).round().astype(int)
    unit = RATE // 1000 if measure == "count" else 1000
    chosen: dict[str, Window] = {
        f"{ms} ms": mt.Tumbling(int(ms) * unit, measure=measure) for ms in lengths_ms
    }
    if session:
        chosen["session"] = mt.Session(GAP)
    return query(chosen, aggregate, **options)


def query(
    windows: dict[str, Window], aggregate: mt.Aggregate | None = None, **options: Any
) -> mt.Query:
    """Return a query with one aggregate, a sum if not told otherwise."""
    aggregates = {VALUE: aggregate or mt.Sum("v")}
    return mt.Query(time="t", windows=windows, aggregates=aggregates, **options)


@dataclass(frozen=True, eq=False)
class Run:
    """A query over a stream under a plan."""

    query: mt.Query
    stream: Stream
    plan: str = "auto"

    def head(self, rows: int) -> "Run":
        """Return the same over the first rows."""
        return replace(self, stream=self.stream.head(rows))

    def operator(self) -> Operator:
        """Return an operator that has not seen any rows."""
        return self.query.operator(self.plan)

    def play(self) -> Operator:
        """Feed an operator batch by batch and drop its results."""
        operator = self.operator()
        for _ in self._tables(operator):
            pass
        return operator

    def table(self) -> pa.Table:
        """Return all that is reported on the way."""
        return pa.concat_tables(self._tables(self.operator()), promote_options="default")

    def _tables(self, operator: Operator) -> Iterator[pa.Table]:
        for batch, watermark in self.stream.batches:
            yield operator.process(batch)
            yield operator.advance(watermark)

    def settled(self) -> pl.DataFrame:
        """Return the windows with their last values, updates and retractions applied."""
        frame = pl.DataFrame(pl.from_arrow(self.table()))
        ids = [name for name in frame.columns if name not in ("kind", VALUE)]
        last = frame.unique(ids, keep="last").filter(pl.col("kind") != "retract")
        return last.sort(ids).drop("kind")


def rates(runs: dict[str, Run], scale: Scale) -> dict[str, float]:
    """Return million rows a second of each, timed in turns."""
    times = best_times({name: run.play for name, run in runs.items()}, scale)
    return {name: len(run.stream) / times[name] / 1e6 for name, run in runs.items()}


def check_plans(case: str, runs: dict[str, Run]) -> None:
    """Raise unless all runs give what the first of them gives."""
    (_, first), *others = runs.items()
    expected = first.settled()
    for who, run in others:
        check_frames(case, who, expected, run.settled())


def check_defined(case: str, run: Run) -> None:
    """Raise unless sums over windows of time and sessions are what their definition gives."""
    times, values = run.stream.columns["t"], run.stream.columns["v"]
    parts = [
        defined(window, times, values, run.stream.watermark).with_columns(window=pl.lit(name))
        for name, window in run.query.windows.items()
    ]
    ids = ["window", "start", "end"]
    expected = pl.concat(parts).select([*ids, VALUE]).sort(ids)
    check_frames(case, "the definition", run.settled(), expected)


def check_frames(case: str, who: str, ours: pl.DataFrame, theirs: pl.DataFrame) -> None:
    """Raise unless both have the same windows with the same values."""
    if not ours.drop(VALUE).equals(theirs.drop(VALUE)):
        raise AssertionError(f"{case}: {who} has other windows than muntin:\n{theirs}\n{ours}")
    check_same(case, who, ours[VALUE], theirs[VALUE])


def defined(window: Any, times: np.ndarray, values: np.ndarray, watermark: int) -> pl.DataFrame:
    """Return the sums of a window's complete instances, by NumPy over the sorted rows."""
    if isinstance(window, mt.Session):
        return _sessions(window.gap, times, values, watermark)
    first = int(times.min()) // window.every
    pane = times // window.every - first
    panes, counts = np.bincount(pane, values), np.bincount(pane).astype(float)
    overlap = np.ones(window.size // window.every)
    sums, filled = np.convolve(panes, overlap), np.convolve(counts, overlap)
    starts = (np.arange(len(sums)) + first - len(overlap) + 1) * window.every
    kept = (filled > 0.5) & (starts + window.size <= watermark)
    return pl.DataFrame({"start": starts, "end": starts + window.size, VALUE: sums}).filter(kept)


def _sessions(gap: int, times: np.ndarray, values: np.ndarray, watermark: int) -> pl.DataFrame:
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    first = np.flatnonzero(np.diff(times, prepend=times[0] - gap - 1) > gap)
    last = np.append(first[1:], len(times)) - 1
    sums = np.add.reduceat(values, first)
    found = pl.DataFrame({"start": times[first], "end": times[last] + gap, VALUE: sums})
    return found.filter(pl.col("end") < watermark)
