"""What one aggregate takes of a batch, and what its results look like in a table.

On numbers an aggregate is fed arrays and a mask of the rows that are not null, and its results are
arrays; on anything else it is fed objects. Which of the two is settled by the first batch.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates import Aggregate
from muntin.frames.batches import Batch
from muntin.frames.columns import Array, Column
from muntin.kernels.slices import SliceKernels, slice_kernels
from muntin.query import columns_of

SAME_TYPE = ("min", "max", "first", "last", "arg_min", "arg_max")
Types = tuple[np.dtype[Any], ...]


@dataclass(frozen=True)
class Feed:
    """An aggregate with its kernels, for columns of some types."""

    name: str
    aggregate: Aggregate
    columns: tuple[str, ...]
    kernels: SliceKernels
    types: Types

    @classmethod
    def of(cls, name: str, aggregate: Aggregate, batch: Batch) -> "Feed":
        """Choose the kernels that serve the columns of a first batch."""
        names = columns_of(aggregate)
        columns = [batch.columns[c] for c in names]
        types = tuple(column.dtype for column in columns)
        numeric = all(column.is_numeric for column in columns)
        if aggregate.parts:
            return cls(name, aggregate, names, slice_kernels(aggregate, None), types)
        bare = replace(aggregate, columns=())
        takes_nulls = aggregate.nulls and bool(names)
        numbers = tuple(column.values.dtype for column in columns) or (np.dtype(np.int64),)
        chosen = numbers if numeric and not takes_nulls else None
        return cls(name, bare, names, slice_kernels(bare, chosen), types)

    def inputs(self, batch: Batch) -> tuple[Array, ...]:
        """Return what the kernels take of a batch, or say which column has changed its type."""
        columns = [batch.columns[name] for name in self.columns]
        if self.kernels.columns is None:
            return (self._objects(batch.rows, columns),)
        if not columns:
            return (batch.times, np.ones(batch.rows, np.bool_))
        arrays = [self._numbers(i, column) for i, column in enumerate(columns)]
        valid = [column.valid for column in columns if column.valid is not None]
        mask = np.logical_and.reduce(valid) if valid else np.ones(batch.rows, np.bool_)
        return (*arrays, mask)

    def _numbers(self, i: int, column: Column) -> Array:
        assert self.kernels.columns is not None
        wanted = self.kernels.columns[i]
        if column.values.dtype == wanted:
            return column.values
        if column.valid is not None and not column.valid.any():
            return np.zeros(len(column.values), wanted)
        if not column.is_numeric or not np.can_cast(column.values.dtype, wanted):
            raise TypeError(
                f"column {self.columns[i]!r} had numbers of type {self.types[i]} in earlier batches and "
                f"has {column.dtype} now: convert it to one type"
            )
        return column.values.astype(wanted)

    def _objects(self, rows: int, columns: list[Column]) -> Array:
        lists = [column.objects() for column in columns]
        if self.aggregate.parts:
            dicts = (dict(zip(self.columns, row, strict=True)) for row in zip(*lists, strict=True))
            return np.fromiter(dicts if lists else ({} for _ in range(rows)), object, rows)
        if len(lists) == 1:
            return np.fromiter(lists[0], object, rows)
        tuples = zip(*lists, strict=True)
        if self.aggregate.nulls:
            return np.fromiter(tuples, object, rows)
        return np.fromiter((None if None in row else row for row in tuples), object, rows)

    def results(self, outs: tuple[Array, ...]) -> pa.Array:
        """Return results as an Arrow array."""
        if self.kernels.columns is None:
            return self._from_objects(outs[0])
        missing = outs[0] == 0 if self.aggregate.name != "count" else None
        missing = missing if missing is not None and missing.any() else None
        arrays = [pa.array(self._typed(array), mask=missing) for array in outs[1:]]
        if len(arrays) == 1:
            return arrays[0]
        names = self.aggregate.results or tuple(f"_{i + 1}" for i in range(len(arrays)))
        mask = None if missing is None else pa.array(missing)
        return pa.StructArray.from_arrays(arrays, list(names), mask=mask)

    def _typed(self, array: Array) -> Array:
        """Give values that come out as they went in their type again."""
        if self.aggregate.name not in SAME_TYPE or not self.types:
            return array
        dtype = self.types[-1]
        if dtype.kind in "mM":
            return array.view(dtype)
        return array.astype(dtype) if dtype.kind == "b" else array

    def _from_objects(self, values: Array) -> pa.Array:
        items = values.tolist()
        names = self.aggregate.results
        if names:
            items = [None if v is None else dict(zip(names, v, strict=True)) for v in items]
        try:
            return pa.array(items, from_pandas=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise TypeError(
                f"the results of {self.name!r} do not fit one column, for example {items[0]!r}: {error}"
            ) from error
