"""The loops on slices for one aggregate: compiled for numbers, interpreted for objects."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.aggregators.chunks import BITS
from muntin.kernels.codegen.build import NotCompilableError, compiled
from muntin.kernels.codegen.interpret import bind
from muntin.kernels.codegen.layout import Layout
from muntin.kernels.loops import kept_windows, slice_partials, slice_trees

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SliceKernels:
    """The loops of `loops/slice_partials.py` for one aggregate on one kind of columns.

    If an aggregate `overflows`, the last array of results says which results do not fit.
    """

    module: Any  # the loops, by name
    columns: tuple[np.dtype[Any], ...] | None  # types of the rows' columns; None for objects
    fields: tuple[np.dtype[Any], ...]  # types of the arrays of a partial
    results: tuple[np.dtype[Any], ...]  # types of the arrays of results
    exact_inverse: bool  # whether the inverse gives exactly the partial without the removed rows
    reason: str  # why the loops are not compiled; empty if they are
    overflows: bool = False
    totals: bool = False  # whether what leaves a window can be taken out of it, exactly

    def buffer(self, size: int) -> tuple[Array, ...]:
        """Return arrays for `size` partials, one per field."""
        return tuple(np.empty(size, field) for field in self.fields)

    def nothing(self, identity: Any, size: int) -> tuple[Array, ...]:
        """Return `size` partials of rows that are all null."""
        if self.columns is not None:
            return tuple(np.zeros(size, field) for field in self.fields)
        return (np.fromiter((identity for _ in range(size)), object, size),)

    def outputs(self, size: int) -> tuple[Array, ...]:
        """Return arrays for `size` results; for numbers, the first array holds numbers of values.

        The arrays are zero, because loops write nothing for a result of no values, and snapshots must
        not depend on memory that was never written.
        """
        return tuple(np.zeros(size, result) for result in self.results)

    def unsigned(self, value: int) -> Any:
        """Return an index in the type that the loops take."""
        return value if self.columns is None else np.uint64(value)


class _Named:
    """The loops of a user's aggregate: an OverflowError from them names the aggregate."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self._module = module
        self._name = name

    def __getattr__(self, loop: str) -> Callable[..., Any]:
        function = getattr(self._module, loop)

        def named(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except OverflowError as error:
                raise OverflowError(
                    f"aggregate {self._name!r}: {error}; convert its column to floats"
                ) from None

        return named


def compiled_slices(
    aggregate: Aggregate, columns: tuple[np.dtype[Any], ...], form: str = ""
) -> SliceKernels:
    """Return the compiled loops, or raise NotCompilableError.

    The first array of partials and of results holds numbers of values.
    """
    made = compiled(aggregate, Layout(columns, True, form, steps="slices"))
    counted = (np.dtype(np.int64),)
    inverse = made.inverts and all(field.kind in "iu" for field in made.fields)
    own = aggregate.kernel is None
    return SliceKernels(
        _Named(made.module, aggregate.name) if own else made.module,
        columns,
        counted + made.fields,
        counted + made.results,
        inverse,
        "",
        made.overflows,
        inverse,
    )


def interpreted_slices(aggregate: Aggregate, reason: str) -> SliceKernels:
    """Return the loops for partials that are objects; `reason` says why they are not compiled."""
    objects = (np.dtype(object),)
    names: dict[str, Any] = {
        "U": int,
        "leading_zeros": lambda word: 64 - word.bit_length(),
        "lift": aggregate.input_lift(),
        "combine": aggregate.combine,
        "lower": aggregate.lower,
        "without": _inverse(aggregate),
    }
    names |= {"deque": lambda fronts: Chunked(fronts[0])} | _counted_in(aggregate)
    module = bind(slice_partials, slice_trees, kept_windows, **names)
    exact = aggregate.multiset is not None
    return SliceKernels(module, None, objects, objects, aggregate.invertible, reason, totals=exact)


def slice_kernels(
    aggregate: Aggregate, columns: tuple[np.dtype[Any], ...] | None, form: str = ""
) -> SliceKernels:
    """Return the compiled loops if the columns are numbers and the aggregate compiles, else others."""
    if columns is None:
        return interpreted_slices(aggregate, "its columns are not numbers")
    try:
        return compiled_slices(aggregate, columns, form)
    except NotCompilableError as why:
        return interpreted_slices(aggregate, str(why))


class Chunked:
    """An array as the chunks of a queue: item p of it is slots[p >> BITS][p & LOW]."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, chunk: int) -> Array:
        return self._array[chunk << BITS : (chunk + 1) << BITS]


def _counted_in(aggregate: Aggregate) -> dict[str, Callable[..., Any]]:
    """Return how windows are counted in and out of a multiset that changes in place, if there is one."""
    made = aggregate.multiset
    if made is None:
        return {}

    def begun(partial: Any) -> Any:
        return entered(made(), partial)

    def entered(total: Any, partial: Any) -> Any:
        total.add(partial)
        return total

    def left(total: Any, partial: Any) -> Any:
        total.remove(partial)
        return total

    def amended(total: Any, before: Any, after: Any, part: Any) -> Any:
        del part
        total.remove(before)
        total.add(after)
        return total

    def emit_total(outs: Any, k: Any, total: Any, rows: Any) -> None:
        del rows
        outs[0][k] = total.result()

    changes: list[Callable[..., Any]] = [begun, entered, left, amended, emit_total]
    return {change.__name__: change for change in changes}


def _inverse(aggregate: Aggregate) -> Callable[[Any, Any], Any]:
    inverse = aggregate.inverse

    def without(total: Any, part: Any) -> Any:
        assert inverse is not None
        return inverse(total, part)

    return without
