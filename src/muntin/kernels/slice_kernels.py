"""Kernels on slices for one aggregate: compiled on numbers, the same source interpreted on objects."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.kernels.codegen.build import NotCompilableError, compiled
from muntin.kernels.codegen.interpret import bind
from muntin.kernels.codegen.layout import Layout
from muntin.kernels.loops import slice_partials

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SliceKernels:
    """The loops of `loops/slice_partials.py` for one aggregate on one kind of columns.

    `columns` are the number types that the rows' columns must have; None if rows are objects.
    `exact_inverse` says whether rows can be taken out of a partial without a trace. If it `overflows`,
    the last array of results says which of them do not fit.
    """

    module: Any
    columns: tuple[np.dtype[Any], ...] | None
    fields: tuple[np.dtype[Any], ...]
    results: tuple[np.dtype[Any], ...]
    exact_inverse: bool
    reason: str
    overflows: bool = False

    def buffer(self, size: int) -> tuple[Array, ...]:
        """Return arrays for `size` partials, one per field."""
        return tuple(np.empty(size, field) for field in self.fields)

    def nothing(self, identity: Any, size: int) -> tuple[Array, ...]:
        """Return `size` partials of nulls only."""
        if self.columns is not None:
            return tuple(np.zeros(size, field) for field in self.fields)
        return (np.fromiter((identity for _ in range(size)), object, size),)

    def outputs(self, size: int) -> tuple[Array, ...]:
        """Return arrays for `size` results; on numbers the number of values comes first.

        Nothing is written for a result of no values: it is zero, in snapshots too.
        """
        return tuple(np.zeros(size, result) for result in self.results)

    def unsigned(self, value: int) -> Any:
        """Return an index as the kernels take it."""
        return value if self.columns is None else np.uint64(value)


class _Named:
    """The loops of an own aggregate: a whole number that is too large is an error with its name."""

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
    """Return the compiled kernels, or raise NotCompilableError; partials count their values first."""
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
    )


def interpreted_slices(aggregate: Aggregate, reason: str) -> SliceKernels:
    """Return the same loops for partials that are objects; `reason` says why they are."""
    objects = (np.dtype(object),)
    module = bind(
        slice_partials,
        U=int,
        leading_zeros=lambda word: 64 - word.bit_length(),
        lift=aggregate.input_lift(),
        combine=aggregate.combine,
        lower=aggregate.lower,
        without=_inverse(aggregate),
    )
    return SliceKernels(module, None, objects, objects, aggregate.invertible, reason)


def slice_kernels(
    aggregate: Aggregate, columns: tuple[np.dtype[Any], ...] | None, form: str = ""
) -> SliceKernels:
    """Return the fastest kernels that serve: compiled if the columns are numbers and it compiles."""
    if columns is None:
        return interpreted_slices(aggregate, "its columns are not numbers")
    try:
        return compiled_slices(aggregate, columns, form)
    except NotCompilableError as why:
        return interpreted_slices(aggregate, str(why))


def _inverse(aggregate: Aggregate) -> Callable[[Any, Any], Any]:
    inverse = aggregate.inverse

    def without(total: Any, part: Any) -> Any:
        assert inverse is not None
        return inverse(total, part)

    return without
