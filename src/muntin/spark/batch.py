"""A query on finished data: one shuffle by key, then an operator per partition.

    folded first     rows -> mapInArrow: slices -> shuffle -> mapInArrow: merge, report
    as they are      rows -> shuffle -> sort by time -> mapInArrow: process, report what is complete

In the second way the rows of a partition come in the order of time, so that each Arrow batch is a
watermark: windows are reported as they fill, and no more is held than windows that are open.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.query.operator import Operator
from muntin.spark.packing import Packing
from muntin.spark.result_types import arrow_schema, fitted
from muntin.spark.streaming import PACKED, Packer, large
from muntin.windows import Periodic

RESULTS_AT_ONCE = 1 << 20
ARRIVAL = "__muntin_arrival"


def batch_results(
    rows: DataFrame, packing: Packing, schema: StructType, partitions: int
) -> DataFrame:
    """Return the results of a query over rows."""
    packing = replace(packing, query=replace(packing.query, lateness=0, watermark=None, early=None))
    if packing.query.plan(packing.plan).can_fold:
        packed = rows.mapInArrow(Packer(packing, partitions), PACKED)
        placed = packed.repartition(partitions, "shard").sortWithinPartitions("part", "piece")
        return placed.mapInArrow(_Merger(packing, schema), schema)
    by_time = [F.col(f"`{packing.query.time}`"), F.col(ARRIVAL)]
    arrived = rows.withColumn(ARRIVAL, F.monotonically_increasing_id())
    keys = [F.col(f"`{name}`") for name in packing.query.keys] or [F.lit(0)]
    placed = arrived.repartition(partitions, *keys).sortWithinPartitions(*by_time)
    return placed.drop(ARRIVAL).mapInArrow(_Runner(packing, schema), schema)


class _Merger:
    """Merges the slices of a partition, and reports all windows when it has them."""

    def __init__(self, packing: Packing, schema: StructType) -> None:
        self._packing = packing
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator = self._packing.operator(self._packing.query)
        for batch in batches:
            self._packing.feed(operator, batch.column("packed").to_pylist())
        wanted = arrow_schema(self._schema)
        for watermark in _steps(operator):
            yield from fitted(operator.advance(watermark), wanted).to_batches()
        yield from fitted(operator.complete(), wanted).to_batches()


class _Runner:
    """Processes rows that come in the order of time, and reports windows as they fill."""

    def __init__(self, packing: Packing, schema: StructType) -> None:
        self._packing = packing
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator = self._packing.operator(self._packing.query)
        wanted = arrow_schema(self._schema)
        for table in large(batches):
            for result in self._taken(operator, table.cast(self._packing.schema)):
                yield from fitted(result, wanted).to_batches()
        yield from fitted(operator.complete(), wanted).to_batches()

    def _taken(self, operator: Operator, table: pa.Table) -> Iterator[pa.Table]:
        yield operator.process(table)
        yield operator.advance()


def _steps(operator: Operator) -> Iterator[Any]:
    """Yield watermarks, so that no more results than fit are made at once."""
    span = operator.span
    if span is None:
        return
    first, last = span
    repeating = [w for w in operator.query.windows.values() if isinstance(w, Periodic)]
    results = operator.counters.keys * sum((last - first) // w.every + 1 for w in repeating)
    parts = -(-results // RESULTS_AT_ONCE)
    yield from (first + (last - first) * i // parts for i in range(1, parts))
