"""What a shard reports on its way back to Spark: results, and behind them what was counted.

Each number that was counted is a row, which Spark observes and leaves out. Nested results come packed,
to be unpacked by another mapInArrow: from pandas Spark takes their values one by one, and NaN as null.
"""

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from muntin.query.query import WINDOW_TIME
from muntin.query.window_time import with_window_time
from muntin.slicing.folded_rows import written
from muntin.spark.result_types import arrow_schema, fitted
from muntin.spark.shard import Done

COUNTED = {
    "rows": "rows",
    "late": "late",
    "dropped": "dropped",
    "bad_times": "bad_times",
    "bad_rows": "bad_rows",
    "windows": "windows_reported",
    "keys": "keys",
}
"""The names of numbers that an operator counts, and by which name it has them."""
NUMBERS = (*COUNTED, "state_bytes", "written_bytes")
COUNT, NAME = "__muntin_count", "window"
"""Where a row that tells what was counted has the number, and its name."""
PACKED = "packed"
ROWS_AT_ONCE = 1 << 17


class Reports:
    """Results of the types that were declared, as frames for Spark."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema
        kinds = [field.dataType for field in schema.fields]
        self.nested = any(isinstance(kind, ArrayType | MapType | StructType) for kind in kinds)
        count = StructField(COUNT, LongType())
        packed = [StructField(PACKED, BinaryType()), StructField(NAME, StringType())]
        self.told = StructType([*(packed if self.nested else schema.fields), count])

    def frames(self, done: Done) -> Iterator[pd.DataFrame]:
        """Yield results and then what was counted, in columns that are Arrow's, as Spark's will be."""
        told = arrow_schema(self.told)
        tables = [_counted(done, told.field(NAME).type)]
        if done.results is not None:
            wanted = arrow_schema(self._schema)
            timed = WINDOW_TIME in wanted.names
            results = fitted(with_window_time(done.results) if timed else done.results, wanted)
            tables.insert(0, _packed(results) if self.nested else results)
        for table in tables:
            for batch in _completed(table, told).combine_chunks().to_batches(ROWS_AT_ONCE):
                columns = map(pd.arrays.ArrowExtensionArray, batch.columns)
                yield pd.DataFrame(dict(zip(batch.schema.names, columns, strict=True)))

    def unpacked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results that came packed."""
        for batch in batches:
            for packed in batch.column(PACKED):
                yield from pa.ipc.open_stream(packed.as_buffer())


def _packed(results: pa.Table) -> pa.Table:
    streams = [
        written(batch.columns, batch.schema.names)
        for batch in results.combine_chunks().to_batches(ROWS_AT_ONCE)
    ]
    return pa.table({PACKED: pa.array(streams, pa.binary())})


def _completed(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return a table with all columns that are wanted; those that it has not are null."""
    there = table.schema.names
    return pa.Table.from_arrays(
        [table[f.name] if f.name in there else pa.nulls(len(table), f.type) for f in wanted],
        schema=wanted,
    )


def _counted(done: Done, text: pa.DataType) -> pa.Table:
    """Return what was counted, a row for each number."""
    numbers = [getattr(done.counters, name) for name in COUNTED.values()]
    numbers += [done.stored, done.written]
    return pa.table({NAME: pa.array(NUMBERS, text), COUNT: pa.array(numbers, pa.int64())})
