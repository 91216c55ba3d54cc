"""A query on a stream: rows are packed where they are, and shards hold slices in Spark's state store.

    rows -> select: keys, time as microseconds, values
         -> mapInArrow: packed, a row per shard                    packing.py
         -> transformWithState by shard: an operator with its state in blocks       shard.py
         -> observe: rows, late, dropped, windows, bytes of state

The time column goes on as plain microseconds, because Spark drops rows behind its watermark before a
stateful operator can see them, and a query may still correct its windows by them. What a shard counted
comes behind its results, a row for each number, which is observed and left out.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from inspect import signature
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from muntin.spark.packing import Packing, grouping_keys
from muntin.spark.shard import Copies, Done, Shard
from muntin.spark.state import StateMap

PACKED = "shard int, part int, piece int, packed binary"
COUNTED = ("rows", "late", "dropped", "windows", "keys", "state_bytes", "written_bytes")
COUNT, NAME = "__muntin_count", "window"
"""Where a row that tells what was counted has the number, and its name."""
PARTITIONS = ("spark.sql.streaming.internal.stateStore.partitions", "spark.sql.shuffle.partitions")
"""Where tasks find the number of partitions: what the checkpoint has, or what the session has."""
ROWS_AT_ONCE = 1 << 20
RESULTS_AT_ONCE = 1 << 17
METRICS = "muntin"

_copies = Copies()


def stream_results(
    rows: DataFrame, packing: Packing, schema: StructType, mode: str, metrics: str
) -> DataFrame:
    """Return the results of a query over rows.

    In append mode the watermark is held back by the lateness: what is reported is final then.
    """
    delay = packing.query.allowed if mode == "append" else 0
    if delay:
        packing = replace(packing, query=replace(packing.query, lateness=0))
    packed = rows.mapInArrow(Packer(packing), PACKED)
    told = StructType([*schema.fields, StructField(COUNT, LongType())])
    reported = packed.groupBy("shard").transformWithStateInPandas(
        _ShardProcessor(packing, told, delay, mode), told, mode.capitalize(), "EventTime"
    )
    is_count = F.col(COUNT).isNotNull()
    sums = [F.sum(F.when(is_count & (F.col(NAME) == n), F.col(COUNT))).alias(n) for n in COUNTED]
    return reported.observe(metrics, *sums).where(~is_count).drop(COUNT)


class Packer:
    """Packs the rows of a partition for so many shards, or for as many as the state has partitions.

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
        packed = list(self._packing.pack(table.cast(self._packing.schema), shards))
        columns = {
            "shard": pa.array([keys[shard] for shard, _ in packed], pa.int32()),
            "part": pa.array([part] * len(packed), pa.int32()),
            "piece": pa.array([piece] * len(packed), pa.int32()),
            "packed": pa.array([payload for _, payload in packed], pa.binary()),
        }
        return pa.RecordBatch.from_pydict(columns)


def large(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Put batches together, so that a slice is folded once and not once per batch."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_AT_ONCE:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def _partitions(context: TaskContext) -> int:
    """Return the number of partitions of the state, which Spark keeps in the checkpoint."""
    found = [context.getLocalProperty(name) for name in PARTITIONS]
    return next(int(number) for number in [*found, "200"] if number)


class _ShardProcessor(StatefulProcessor):
    """Lets a shard take what is packed for it, and wakes it when the watermark has moved."""

    def __init__(self, packing: Packing, schema: StructType, delay: int, mode: str) -> None:
        self._packing = packing
        self._schema = schema
        self._delay = delay
        self._mode = mode

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._blocks = StateMap(handle.getMapState("blocks", "name string", "piece binary"))

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
        context = TaskContext.get()
        assert context is not None
        facts = {
            "partitions": _partitions(context),
            "mode": self._mode,
            "columns": [(field.name, str(field.type)) for field in self._packing.empty.schema],
        }
        shard = Shard(self._packing, self._blocks, facts, _copies)
        watermark = 1000 * reached - self._delay if reached > 0 else None
        done = shard.take(packed, watermark)
        self._handle.registerTimer(reached + 1)
        wanted = arrow_schema(self._schema)
        for table in (done.results, _counted(done, wanted.field(NAME).type)):
            if table is not None:
                yield from frames(fitted(table, wanted))


def _counted(done: Done, text: pa.DataType) -> pa.Table:
    """Return what was counted, a row for each number."""
    counters = done.counters
    numbers = (
        counters.rows,
        counters.late,
        counters.dropped,
        counters.windows_reported,
        counters.keys,
        done.stored,
        done.written,
    )
    return pa.table({NAME: pa.array(COUNTED, text), COUNT: pa.array(numbers, pa.int64())})


def frames(table: pa.Table) -> Iterator[pd.DataFrame]:
    """Yield a table as pandas frames whose columns are Arrow's, so that nothing is converted.

    Spark goes through nested values one by one, and takes them as Python has them.
    """
    for batch in table.combine_chunks().to_batches(RESULTS_AT_ONCE):
        columns = {
            name: pd.Series(column.to_pylist(maps_as_pydicts="strict"), dtype=object)
            if pa.types.is_nested(column.type)
            else pd.Series(pd.arrays.ArrowExtensionArray(column))
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        yield pd.DataFrame(columns)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types of a Spark schema, times in UTC, as Spark before 4.3 has them anyway."""
    takes_zone = "timezone" in signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if takes_zone else to_arrow_schema(schema)


def fitted(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return results in the types that were declared, or say which does not fit.

    A column that is not there is null.
    """
    columns = []
    for field in wanted:
        if field.name not in table.schema.names:
            columns.append(pa.nulls(len(table), field.type))
            continue
        column = table[field.name]
        try:
            exact = not pa.types.is_decimal(field.type)  # others are rounded
            same = column.type == field.type
            columns.append(column if same else column.cast(field.type, safe=exact))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TypeError(
                f"results of {field.name!r} are {column.type} and were declared {field.type}: "
                f"declare another type with types={{{field.name!r}: ...}} ({error})"
            ) from error
    return pa.Table.from_arrays(columns, schema=wanted)
