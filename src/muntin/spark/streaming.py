"""A query on a stream: rows are packed where they are, and shards hold slices in Spark's state store.

    rows -> select: keys, time as microseconds, values, a hash of the keys
         -> mapInArrow: packed, a row per shard                    packing.py
         -> transformWithState by shard: an operator with its state in blocks       shard.py
         -> observe: rows, late, dropped, windows, bytes of state
         -> mapInArrow: results unpacked into columns

The time column goes on as plain microseconds, because Spark drops rows behind its watermark before a
stateful operator can see them, and a query may still correct its windows by them.
"""

from collections.abc import Iterator
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
from pyspark.sql.types import StructType

from muntin.spark.packing import Packing, grouping_keys
from muntin.spark.shard import Copies, Done, Shard

PACKED = "shard int, part int, piece int, packed binary"
COUNTED = ("rows", "late", "dropped", "windows", "keys", "state_bytes", "written_bytes")
REPORTED = f"results binary, {', '.join(f'{name} bigint' for name in COUNTED)}"
PARTITIONS = ("spark.sql.streaming.internal.stateStore.partitions", "spark.sql.shuffle.partitions")
"""Where tasks find the number of partitions: what the checkpoint has, or what the session has."""
ROWS_AT_ONCE = 1 << 20
METRICS = "muntin"

_copies = Copies()


def stream_results(
    rows: DataFrame, packing: Packing, schema: StructType, mode: str, metrics: str
) -> DataFrame:
    """Return the results of a query over rows with a hash of their keys.

    In append mode the watermark is held back by the lateness: what is reported is final then.
    """
    delay = packing.query.allowed if mode == "append" else 0
    if delay:
        packing = replace(packing, query=replace(packing.query, lateness=0))
    packed = rows.mapInArrow(Packer(packing), PACKED)
    processor = _ShardProcessor(packing, delay, mode)
    reported = packed.groupBy("shard").transformWithStateInPandas(
        processor, REPORTED, mode.capitalize(), "EventTime"
    )
    sums = [F.sum(name).alias(name) for name in COUNTED]
    return reported.observe(metrics, *sums).mapInArrow(_Unpacker(schema), schema)


class Packer:
    """Packs the rows of a partition for so many shards, or for as many as the state has partitions."""

    def __init__(self, packing: Packing, shards: int = 0) -> None:
        self._packing = packing
        self._shards = shards

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        shards = self._shards or _partitions(context)
        keys, part = grouping_keys(shards), context.partitionId()
        for piece, table in enumerate(large(batches)):
            packed = list(self._packing.pack(table.cast(self._packing.schema), shards))
            columns = {
                "shard": pa.array([keys[shard] for shard, _ in packed], pa.int32()),
                "part": pa.array([part] * len(packed), pa.int32()),
                "piece": pa.array([piece] * len(packed), pa.int32()),
                "packed": pa.array([payload for _, payload in packed], pa.binary()),
            }
            yield pa.RecordBatch.from_pydict(columns)


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

    def __init__(self, packing: Packing, delay: int, mode: str) -> None:
        self._packing = packing
        self._delay = delay
        self._mode = mode

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._blocks = handle.getMapState("blocks", "name string", "block binary")

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
        yield self._take([packed for _, _, packed in pieces], timerValues)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: Any,
        expiredTimerInfo: Any,
    ) -> Iterator[pd.DataFrame]:
        """Report what is due by a watermark that has moved without rows for this shard."""
        del key, expiredTimerInfo
        yield self._take([], timerValues)

    def close(self) -> None:
        """Leave the copies for the next micro-batch."""

    def _take(self, packed: list[bytes], times: Any) -> pd.DataFrame:
        reached = times.getCurrentWatermarkInMs()
        context = TaskContext.get()
        assert context is not None
        facts = {
            "partitions": _partitions(context),
            "mode": self._mode,
            "columns": [(field.name, str(field.type)) for field in self._packing.empty.schema],
        }
        shard = Shard(self._packing, _Blocks(self._blocks), facts, _copies)
        watermark = 1000 * reached - self._delay if reached > 0 else None
        done = shard.take(packed, watermark)
        self._handle.registerTimer(reached + 1)
        return _reported(done)


class _Blocks:
    """Blocks in a map of Spark's state store."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        """Return a block, or None if there is none."""
        found = self._state.getValue((name,))
        return None if found is None else bytes(found[0])

    def put(self, name: str, block: bytes) -> None:
        """Keep a block."""
        self._state.updateValue((name,), (block,))

    def delete(self, name: str) -> None:
        """Forget a block."""
        self._state.removeKey((name,))


def _reported(done: Done) -> pd.DataFrame:
    counters = done.counters
    counted = (
        counters.rows,
        counters.late,
        counters.dropped,
        counters.windows_reported,
        counters.keys,
        done.stored,
        done.written,
    )
    values = {name: [value] for name, value in zip(COUNTED, counted, strict=True)}
    return pd.DataFrame({"results": [_stream(done.results)], **values})


def _stream(results: pa.Table | None) -> bytes:
    if results is None:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, results.schema) as stream:
        stream.write_table(results)
    return bytes(sink.getvalue())


class _Unpacker:
    """Turns reported results into columns of the types that were declared."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = arrow_schema(self._schema)
        for batch in batches:
            for packed in batch.column("results"):
                if len(packed.as_buffer()):
                    table = pa.ipc.open_stream(packed.as_buffer()).read_all()
                    yield from fitted(table, wanted).to_batches()


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types of a Spark schema, times in UTC, as Spark before 4.3 has them anyway."""
    takes_zone = "timezone" in signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if takes_zone else to_arrow_schema(schema)


def fitted(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return results in the types that were declared, or say which does not fit."""
    columns = []
    for field in wanted:
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
