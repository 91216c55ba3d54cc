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

OBJECTS = ("bloom", "count_min")
SAME_TYPE = ("min", "max", "first", "last", "arg_min", "arg_max")


@dataclass(frozen=True)
class ColumnType:
    """The type a column came with, and that of its numbers in kernels; None if it holds objects."""

    came_as: np.dtype[Any]
    numbers: np.dtype[Any] | None
    is_known: bool = True

    @classmethod
    def of(cls, column: Column) -> "ColumnType":
        """Return the type of a column, which nulls alone do not tell."""
        known = column.valid is None or bool(column.valid.any())
        return cls(column.dtype, column.values.dtype if column.is_numeric else None, known)


@dataclass(frozen=True)
class Feed:
    """An aggregate with its kernels, for columns of some types."""

    name: str
    aggregate: Aggregate
    columns: tuple[str, ...]
    kernels: SliceKernels
    types: tuple[ColumnType, ...]

    @classmethod
    def of(cls, name: str, aggregate: Aggregate, columns: dict[str, ColumnType]) -> "Feed":
        """Choose the kernels that serve columns of some types."""
        names = columns_of(aggregate)
        held = tuple(columns[c] for c in names)
        if aggregate.parts:
            return cls(name, aggregate, names, slice_kernels(aggregate, None), held)
        bare = replace(aggregate, columns=())
        numeric = all(c.numbers is not None for c in held) and not (aggregate.nulls and names)
        numbers = tuple(c.numbers for c in held if c.numbers is not None)
        chosen = (numbers or (np.dtype(np.int64),)) if numeric else None
        return cls(name, bare, names, slice_kernels(bare, chosen), held)

    @property
    def is_known(self) -> bool:
        """Whether the types of all columns are known."""
        return all(column.is_known for column in self.types)

    def inputs(self, batch: Batch) -> tuple[Array, ...]:
        """Return what the kernels take of a batch, or say which column has changed its type."""
        columns = [batch.columns[name] for name in self.columns]
        if self.kernels.columns is None:
            return (self._objects(batch.rows, columns),)
        if not columns:
            return (owned(batch.times), np.ones(batch.rows, np.bool_))
        arrays = [self._numbers(i, column) for i, column in enumerate(columns)]
        valid = [column.valid for column in columns if column.valid is not None]
        mask = np.logical_and.reduce(valid) if valid else np.ones(batch.rows, np.bool_)
        return (*arrays, mask)

    def _numbers(self, i: int, column: Column) -> Array:
        assert self.kernels.columns is not None
        wanted, came_as = self.kernels.columns[i], self.types[i].came_as
        if (
            column.dtype != came_as
            and {column.dtype.kind, came_as.kind} & set("mMb")
            and _has_values(column)
        ):
            return self._same_unit(i, column)
        if column.values.dtype == wanted:
            return owned(column.values)
        if not _has_values(column):
            return np.zeros(len(column.values), wanted)
        if column.is_numeric and np.can_cast(column.values.dtype, wanted):
            return column.values.astype(wanted)
        there = column.values if column.valid is None else column.values[column.valid]
        if column.values.dtype.kind != "f" or not (np.floor(there) == there).all():
            raise TypeError(self._changed(i, column))
        return np.where(np.isfinite(column.values), column.values, 0).astype(wanted)

    def _same_unit(self, i: int, column: Column) -> Array:
        """Return moments or durations in the unit they had in earlier batches."""
        came_as = self.types[i].came_as
        if column.dtype.kind != came_as.kind or came_as.kind == "b":
            raise TypeError(self._changed(i, column))
        return column.values.view(column.dtype).astype(came_as).view(np.int64)

    def _changed(self, i: int, column: Column) -> str:
        return (
            f"column {self.columns[i]!r} was of type {self.types[i].came_as} in earlier batches and is "
            f"{column.dtype} now: convert it to one type"
        )

    def _objects(self, rows: int, columns: list[Column]) -> Array:
        for i, column in enumerate(columns):
            known = self.types[i]
            if (
                known.is_known
                and column.is_numeric != (known.numbers is not None)
                and _has_values(column)
            ):
                raise TypeError(self._changed(i, column))
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
        kernel = self.aggregate.kernel
        missing = outs[0] < (1 if kernel is None else kernel.least)
        nothing = self.aggregate.lower(self.aggregate.identity) if missing.any() else None
        if nothing is not None:
            parts = nothing if isinstance(nothing, tuple) else (nothing,)
            for array, part in zip(outs[1:], parts, strict=True):
                array[missing] = part
        null = missing if nothing is None and missing.any() else None
        arrays = [pa.array(self._typed(array), mask=null) for array in outs[1:]]
        if len(arrays) == 1:
            return arrays[0]
        names = self.aggregate.results or tuple(f"_{i + 1}" for i in range(len(arrays)))
        mask = None if null is None else pa.array(null)
        return pa.StructArray.from_arrays(arrays, list(names), mask=mask)

    def _typed(self, array: Array) -> Array:
        """Give values that come out as they went in their type again."""
        if self.aggregate.name not in SAME_TYPE or not self.types:
            return array
        dtype = self.types[-1].came_as
        if dtype.kind in "mM":
            return array.view(dtype)
        return array.astype(dtype) if dtype.kind == "b" else array

    def _from_objects(self, values: Array) -> pa.Array:
        items = values.tolist()
        names = self.aggregate.results
        if names:
            items = [None if v is None else dict(zip(names, v, strict=True)) for v in items]
        if self.aggregate.name.startswith("top_k"):
            items = [
                [dict(zip(("value", "count"), pair, strict=True)) for pair in v] for v in items
            ]
        try:
            return pa.array(items, from_pandas=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise TypeError(
                f"the results of {self.name!r} do not fit one column, for example {items[0]!r}: {error}"
            ) from error


def check_results(name: str, aggregate: Aggregate) -> None:
    """Refuse an aggregate whose result is an object of its own, and no value of a table."""
    if aggregate.name.startswith(OBJECTS):
        raise TypeError(
            f"aggregate {name!r} gives a filter to ask, which no column can hold: take one that gives "
            "numbers, text, times, lists or structs"
        )


def owned(array: Array) -> Array:
    """Return an array that may be written: for others kernels would be compiled a second time."""
    return array if array.flags.writeable and array.flags.c_contiguous else np.array(array)


def _has_values(column: Column) -> bool:
    return column.valid is None or bool(column.valid.any())
