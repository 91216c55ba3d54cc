"""A query on a stream: rows are packed where they are, and shards hold slices in Spark's state store.

    rows -> select: keys, time as microseconds, values
         -> mapInArrow: packed, a row per shard                    packing.py
         -> transformWithState by shard: an operator with its state in blocks       shard.py
         -> observe: rows, late, dropped, bad times, windows, bytes of state      reports.py

The time column goes on as plain microseconds, because Spark drops rows behind its watermark before a
stateful operator can see them, and a query may still correct its windows by them.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from muntin.spark.clock import near_rows
from muntin.spark.packing import Packing, grouping_keys, left_out
from muntin.spark.reports import COUNT, NAME, NUMBERS, Reports
from muntin.spark.shard import Copies, Shard
from muntin.spark.state_map import BLOCKS, StateMap

PACKED = "shard int, part int, piece int, packed binary"
PARTITIONS = ("spark.sql.streaming.internal.stateStore.partitions", "spark.sql.shuffle.partitions")
"""Where tasks find the number of partitions: what the checkpoint has, or what the session has."""
ROWS_AT_ONCE, BYTES_AT_ONCE = 1 << 20, 1 << 26
"""A piece of a partition is packed when it has so many rows, or so many bytes."""
METRICS = "muntin"

_copies = Copies()


@dataclass(frozen=True)
class Chain:
    """What is before and behind a query in a chain of operators.

    Times of rows may be `behind` Spark's watermark by so many microseconds. Spark takes the column
    `event_time` of results as their event time, if there is one, and has what was counted as `metrics`.
    """

    behind: int = 0
    event_time: str = ""
    metrics: str = METRICS


def stream_results(
    rows: DataFrame, packing: Packing, schema: StructType, mode: str, chain: Chain
) -> DataFrame:
    """Return the results of a query over rows.

    In append mode the watermark is held back by the lateness: what is reported is final then.
    """
    delay = packing.query.allowed if mode == "append" else 0
    if delay:
        packing = replace(packing, query=replace(packing.query, lateness=0))
    assert (
        packing.identity
    )  # digests are made here, on the driver: workers compare what they are sent
    packed = rows.mapInArrow(Packer(packing), PACKED)
    reports = Reports(schema)
    begun = rows.sparkSession.range(1).mapInArrow(_all_shards, "shard int")
    reported = packed.groupBy("shard").transformWithStateInPandas(
        _ShardProcessor(packing, reports, chain.behind + delay, mode),
        reports.told,
        mode.capitalize(),
        "EventTime",
        begun.groupBy("shard"),
        "" if reports.nested else chain.event_time,
    )
    is_count = F.col(COUNT).isNotNull()
    sums = [F.sum(F.when(is_count & (F.col(NAME) == n), F.col(COUNT))).alias(n) for n in NUMBERS]
    found = reported.observe(chain.metrics, *sums).where(~is_count).drop(COUNT)
    return found.mapInArrow(reports.unpacked, schema) if reports.nested else found


class Packer:
    """Packs the rows of a partition for a number of shards: as given, or that of the state's partitions.

    While rows are packed in a thread, Spark sends the next ones.
    """

    def __init__(self, packing: Packing, shards: int = 0) -> None:
        self._packing = packing
        self._shards = shards

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        shards = self._shards or _partitions(context)
        part = context.partitionId()
        with ThreadPoolExecutor(1) as thread:
            packed: deque[Future[pa.RecordBatch]] = deque()
            for piece, table in enumerate(large(batches)):
                packed.append(thread.submit(self._packed, table, shards, part, piece))
                if len(packed) > 1:
                    yield packed.popleft().result()
            for last in packed:
                yield last.result()

    def _packed(self, table: pa.Table, shards: int, part: int, piece: int) -> pa.RecordBatch:
        keys = grouping_keys(shards)
        near, far = near_rows(table)
        rows = near.cast(self._packing.schema)
        packed = list(self._packing.pack(rows, shards)) if len(rows) else []
        if far:
            packed.append((0, left_out(far)))
        columns = {
            "shard": pa.array([keys[shard] for shard, _ in packed], pa.int32()),
            "part": pa.array([part] * len(packed), pa.int32()),
            "piece": pa.array([piece] * len(packed), pa.int32()),
            "packed": pa.array([payload for _, payload in packed], pa.binary()),
        }
        return pa.RecordBatch.from_pydict(columns)


def large(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Put batches together, so that a slice is folded once and not once per batch; cut large ones."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for piece in _pieces(batch):
            held.append(piece)
            rows += piece.num_rows
            size += piece.nbytes
            if rows >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in pieces of about as many bytes as are packed at once."""
    count = max(1, min(batch.nbytes // BYTES_AT_ONCE, batch.num_rows))
    rows = max(1, -(-batch.num_rows // count))
    yield from (batch.slice(first, rows) for first in range(0, batch.num_rows, rows))


def _partitions(context: TaskContext) -> int:
    """Return the number of partitions of the state, which Spark keeps in the checkpoint."""
    found = [context.getLocalProperty(name) for name in PARTITIONS]
    return next(int(number) for number in [*found, "200"] if number)


def _all_shards(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the grouping keys of all shards, for each of which a header is written at first."""
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        keys = grouping_keys(_partitions(context)) if batch.num_rows else ()
        yield pa.RecordBatch.from_pydict({"shard": pa.array(keys, pa.int32())})


class _ShardProcessor(StatefulProcessor):
    """Lets a shard take what is packed for it, and wakes it when the watermark has moved.

    Spark hands the initial state to the first micro-batch of a checkpoint only, whether that has rows or
    not. Then every shard gets its header; later one without a header has lost its state.
    """

    def __init__(self, packing: Packing, reports: Reports, delay: int, mode: str) -> None:
        self._packing = packing
        self._reports = reports
        self._delay = delay
        self._mode = mode

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._blocks = StateMap(handle.getMapState(BLOCKS, "name string", "piece string"))

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Write the header of a new shard."""
        del key, initialState, timerValues
        self._shard(begun=False).begin()

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """Take a micro-batch, in the order of arrival."""
        del key
        pieces = sorted(
            (int(part), int(piece), bytes(packed))
            for frame in rows
            for part, piece, packed in zip(
                frame["part"], frame["piece"], frame["packed"], strict=True
            )
        )
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        yield from self._take([packed for _, _, packed in pieces], timerValues)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: Any,
        expiredTimerInfo: Any,
    ) -> Iterator[pd.DataFrame]:
        """Report what is due by a watermark that has moved without rows for this shard."""
        del key, expiredTimerInfo
        yield from self._take([], timerValues)

    def close(self) -> None:
        """Leave the copies for the next micro-batch."""

    def _take(self, packed: list[bytes], times: Any) -> Iterator[pd.DataFrame]:
        reached = times.getCurrentWatermarkInMs()
        watermark = 1000 * reached - self._delay if reached > 0 else None
        done = self._shard(begun=True).take(packed, watermark)
        self._handle.registerTimer(reached + 1)
        yield from self._reports.frames(done)

    def _shard(self, *, begun: bool) -> Shard:
        context = TaskContext.get()
        assert context is not None
        _copies.most = self._packing.copies
        facts = {
            "partitions": _partitions(context),
            "mode": self._mode,
            "columns": [(field.name, str(field.type)) for field in self._packing.empty.schema],
        }
        return Shard(self._packing, self._blocks, facts, _copies, begun=begun)
