"""What one aggregate takes of a batch, and what its results look like in a table.

On numbers an aggregate is fed arrays and a mask of the rows that are not null, and its results are
arrays; on anything else it is fed objects. Which of the two is settled by the first batch. Later
batches are brought into the types of the first (`fit_columns`): a value that does not fit is a bad row.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates import Aggregate
from muntin.aggregates.aggregate import altered
from muntin.aggregates.conditions import Condition, conditions_of
from muntin.dataframes.arrow_results import (
    DoesNotFitError,
    objects_as_arrow,
    part_names,
    part_type,
    products_as_arrow,
    results_as_arrow,
)
from muntin.dataframes.batches import FEW, Batch, drop_bad_rows
from muntin.dataframes.column_fitting import fit
from muntin.dataframes.column_types import ColumnType, arrow_result, check_types, in_units
from muntin.dataframes.columns import Array, Column
from muntin.kernels.slice_kernels import SliceKernels, slice_kernels
from muntin.query.query import columns_of
from muntin.slicing.since import ABSENT, without

ALL_VALID = np.ones(FEW, np.bool_)


@dataclass(frozen=True)
class BoundAggregate:
    """An aggregate with its kernels, for columns of some types.

    `asked` is the aggregate of the query. `aggregate` takes what `inputs` gives, in which rows that its
    condition leaves out are null.
    """

    name: str
    asked: Aggregate
    aggregate: Aggregate
    columns: tuple[str, ...]
    kernels: SliceKernels
    types: tuple[ColumnType, ...]

    @classmethod
    def of(
        cls, name: str, aggregate: Aggregate, columns: dict[str, ColumnType]
    ) -> "BoundAggregate":
        """Choose the kernels that serve columns of some types, or refuse types it cannot take."""
        names = columns_of(aggregate)
        held = tuple(columns[c] for c in names)
        _check_types(name, aggregate, columns)
        numbers = tuple(c.numbers for c in held if c.numbers is not None)
        numeric = (
            len(numbers) == len(held) and not (aggregate.nulls and names) and not aggregate.parts
        )
        times = any(c.form == "times" for c in held)
        if not numeric or (times and aggregate.kernel is None):
            bare = _bare(aggregate)
            return cls(name, aggregate, bare, names, slice_kernels(bare, None), held)
        bare = in_units(replace(aggregate, columns=(), where=None), held)
        chosen = numbers or (np.dtype(np.int64),)
        form = held[0].form if held else ""
        return cls(name, aggregate, bare, names, slice_kernels(bare, chosen, form), held)

    @property
    def is_known(self) -> bool:
        """Whether the types of all columns are known."""
        return all(column.is_known for column in self.types)

    @property
    def column_types(self) -> list[tuple[str, ColumnType]]:
        """The columns with their types."""
        return list(zip(self.columns, self.types, strict=True))

    def nothing(self, count: int) -> tuple[Array, ...]:
        """Return results as kernels give them, none of which has a value."""
        return without(self.kernels.outputs(count), np.ones(count, np.bool_))

    def inputs(self, batch: Batch) -> tuple[Array, ...]:
        """Return what the kernels take of a batch whose columns have the types of this feed."""
        columns = [batch.columns[name] for name in self.columns]
        if self.kernels.columns is None:
            return (np.fromiter(self._objects(batch, columns), object, batch.rows),)
        arrays = [owned(column.values) for column in columns] or [owned(batch.times)]
        valid = [column.valid for column in columns if column.valid is not None]
        if self.asked.where is not None:
            valid.append(batch.holds[self.asked.where])
        mask = owned(reduce(np.logical_and, valid)) if valid else _all(batch.rows)
        return (*arrays, mask)

    def _objects(self, batch: Batch, columns: list[Column]) -> Iterable[Any]:
        """Return the rows as objects; one for which the condition is not true is null."""
        where, rows = self.asked.where, self._rows(batch, columns)
        if where is None:
            return rows
        pairs = zip(rows, batch.holds[where].tolist(), strict=True)
        if self.asked.nulls:
            return ((row,) if holds else None for row, holds in pairs)
        return (row if holds else None for row, holds in pairs)

    def _rows(self, batch: Batch, columns: list[Column]) -> Iterable[Any]:
        exact = _is_built_in(self.aggregate)
        lists = [column.objects(exact=exact) for column in columns]
        if self.aggregate.parts:
            inside = [c for part in self.aggregate.parts for c in conditions_of(part)]
            names: list[str | Condition] = [*self.columns, *inside]
            lists += [batch.holds[condition].tolist() for condition in inside]
            dicts = (dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True))
            return dicts if lists else ({} for _ in range(batch.rows))
        if len(lists) == 1:
            return lists[0]
        tuples = zip(*lists, strict=True)
        if self.asked.nulls:
            return tuples
        return (None if None in row else row for row in tuples)

    @cached_property
    def _source(self) -> pa.DataType | None:
        """The type of the column whose type results may have."""
        return self.types[-1].as_arrow() if self.types else None

    def results(self, outs: tuple[Array, ...]) -> pa.Array:
        """Return results as an Arrow array; DoesNotFitError says which of them does not fit."""
        if self.kernels.columns is not None:
            absent = outs[0] == ABSENT
        elif self.aggregate.gives_rows or self.aggregate.parts:
            absent = np.fromiter((value is None for value in outs[0]), np.bool_, len(outs[0]))
        else:
            return self._present(outs)
        if not absent.any():
            return self._present(outs)
        present = np.flatnonzero(~absent)
        try:
            array = self._present(tuple(array[present] for array in outs))
        except DoesNotFitError as error:
            raise DoesNotFitError(int(present[error.row]), error.kind) from None
        return array.take(pa.array(np.cumsum(~absent) - 1, mask=absent))

    def _present(self, outs: tuple[Array, ...]) -> pa.Array:
        """Return results of windows that have one, which may be null."""
        if self.kernels.columns is None:
            return self._from_objects(outs[0])
        kernel = self.aggregate.kernel
        missing = outs[0] < (1 if kernel is None else kernel.least)
        arrays = [*outs[1:]]
        if self.kernels.overflows:
            missing = self._misfits(arrays.pop(), missing)
        some = np.count_nonzero(missing) > 0
        nothing = self.aggregate.lower(self.aggregate.identity) if some else None
        if nothing is not None:
            parts = nothing if isinstance(nothing, tuple) else (nothing,)
            for array, part in zip(arrays, parts, strict=True):
                array[missing] = part
        null = missing if nothing is None and some else None
        rules = self.aggregate.result
        rules = rules if isinstance(rules, tuple) else (rules,) * len(arrays)
        pairs = zip(rules, arrays, strict=True)
        columns = [results_as_arrow(rule, array, null, self._source) for rule, array in pairs]
        if len(columns) == 1:
            return columns[0]
        names = self.aggregate.results or tuple(f"_{i + 1}" for i in range(len(columns)))
        mask = None if null is None else pa.array(null)
        return pa.StructArray.from_arrays(columns, list(names), mask=mask)

    def _misfits(self, misfits: Array, missing: Array) -> Array:
        """Return which results are missing, with those that do not fit if they are to be null."""
        if not np.count_nonzero(misfits):
            return missing
        bad = misfits & ~missing
        if bad.any() and self.aggregate.overflow == "error":
            raise DoesNotFitError(int(np.argmax(bad)), self.result_type or "64 bits")
        return missing | bad

    @property
    def result_type(self) -> pa.DataType | None:
        """The type of results, as far as the aggregate declares it."""
        rules, source = self.aggregate.result, self._source
        if self.aggregate.parts:
            return self._product_type()
        if isinstance(rules, str):
            return arrow_result(rules, source)
        sources = [self.types[i].as_arrow() for i in self.aggregate.sources]
        sources = sources or [source] * len(rules)
        kinds = [arrow_result(rule, of) for rule, of in zip(rules, sources, strict=True)]
        if None in kinds:
            return None
        kind = pa.struct(list(zip(self.aggregate.results, kinds, strict=True)))
        return pa.list_(kind) if self.aggregate.gives_rows else kind

    def _part_types(self) -> list[pa.DataType | None]:
        """Return the types of a product's parts, as far as they are known."""
        held = dict(zip(self.columns, self.types, strict=True))
        sources = (held[p.columns[-1]] if p.columns else None for p in self.aggregate.parts)
        pairs = zip(self.aggregate.parts, sources, strict=True)
        return [part_type(part, None if kind is None else kind.as_arrow()) for part, kind in pairs]

    def _product_type(self) -> pa.DataType | None:
        """Return the type of a product whose parts have names and types that are known."""
        names, kinds = part_names(self.aggregate), self._part_types()
        known = names and all(kind is not None for kind in kinds)
        return pa.struct(list(zip(names, kinds, strict=True))) if known else None

    def _from_objects(self, values: Array) -> pa.Array:
        items = values.tolist()
        names = self.aggregate.results
        if names and self.aggregate.gives_rows:
            items = [[dict(zip(names, row, strict=True)) for row in v] for v in items]
        elif names:
            items = [None if v is None else dict(zip(names, v, strict=True)) for v in items]
        try:
            if self.aggregate.parts:
                return products_as_arrow(items, self.aggregate, self._part_types())
            return objects_as_arrow(items, self.result_type, self.aggregate.overflow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
            raise TypeError(
                f"the results of {self.name!r} do not fit one column, for example {items[0]!r}: {error}"
            ) from error


def _bare(aggregate: Aggregate) -> Aggregate:
    """Return an aggregate of bare values, to which rows that the condition leaves out come as null.

    One that takes nulls as well takes each value in a tuple of its own.
    """
    bare = replace(aggregate, columns=(), where=None)
    if aggregate.where is None or not aggregate.nulls:
        return bare
    lift, gather = bare.lift, bare.gather
    functions: dict[str, Any] = {"lift": lambda boxed: lift(boxed[0])}
    if gather is not None:
        functions["gather"] = lambda boxes: gather([value for (value,) in boxes])
    boxed = replace(bare, nulls=False)
    return altered(boxed, **functions) if bare.is_built_in else replace(boxed, **functions)


def _is_built_in(aggregate: Aggregate) -> bool:
    return aggregate.is_built_in and all(map(_is_built_in, aggregate.parts))


def fit_columns(batch: Batch, feeds: list[BoundAggregate], on_bad_row: str) -> Batch:
    """Return a batch with its columns in the types that feeds have, without rows that do not fit."""
    held = {
        name: kind
        for feed in feeds
        for name, kind in zip(feed.columns, feed.types, strict=True)
        if name in batch.columns and not kind.is_of(batch.columns[name])
    }
    if not held:
        return batch
    columns, bad = dict(batch.columns), np.zeros(batch.rows, np.bool_)
    for name, kind in held.items():
        try:
            columns[name], misfits = fit(columns[name], kind)
        except TypeError as error:
            raise TypeError(f"column {name!r}: {error}") from None
        if misfits is not None:
            if on_bad_row == "error":
                row = int(np.argmax(misfits))
                raise ValueError(
                    f"row {batch.row_of(row)} has {batch.columns[name].objects()[row]!r} in column "
                    f"{name!r}, which does not fit {kind}, the type of earlier batches: convert "
                    "it, or leave such rows out with on_bad_row='drop'"
                )
            bad |= misfits
    return drop_bad_rows(replace(batch, columns=columns), bad)


def _check_types(name: str, aggregate: Aggregate, columns: dict[str, ColumnType]) -> None:
    for part in aggregate.parts:
        _check_types(name, part, columns)
    if not aggregate.parts:
        kinds = [(f"column {column!r}", columns[column]) for column in aggregate.columns]
        check_types(name, aggregate, kinds)


def check_results(name: str, aggregate: Aggregate) -> None:
    """Refuse an aggregate whose result is an object of its own, and no value of a table."""
    if aggregate.result == "object":
        raise TypeError(
            f"aggregate {name!r} gives a filter to ask, which no column can hold: take one that gives "
            "numbers, text, times, lists or structs"
        )


def _all(rows: int) -> Array:
    """Return a mask of rows that are all valid, which nobody changes."""
    return ALL_VALID[:rows] if rows <= FEW else np.ones(rows, np.bool_)


def owned(array: Array) -> Array:
    """Return an array that may be written: for others kernels would be compiled a second time."""
    return array if array.flags.writeable and array.flags.c_contiguous else np.array(array)
