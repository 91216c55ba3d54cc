"""Compile the loops for an aggregate and a layout.

The layout has the number types of the input columns, and says whether rows may be null. With nulls a
partial counts its values, and a null row is a partial of zero values, so no identity is needed. If the
source of a user's function is missing, the module is compiled in memory and not cached. If Numba cannot
compile it, the caller gets a NotCompilableError with the reason, and runs the interpreted form.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from muntin.aggregates.aggregate import Aggregate, Kernel
from muntin.aggregates.functions import digest
from muntin.kernels.codegen.cache import load_module, memory_module
from muntin.kernels.codegen.layout import INVERSE, NO_INVERSE, Layout, Shape, accessors
from muntin.kernels.codegen.loop_source import HEAD, loops_text, ring_text, slices_text
from muntin.kernels.codegen.source import Checked, NoSourceError, Writer
from muntin.kernels.loops import roll_rows, roll_spans
from muntin.kernels.loops.loop_arguments import Suffixes
from muntin.kernels.loops.roll_rows import STRETCHES, Stretches

SLICES = "slices"
BLOCK_ROWS = 2000
"""The tails of four stretches of such blocks stay in a near cache; longer blocks are fewer."""
POINTERS = {"TwoStacksLite": 3, "DabaLite": 6}
"""How many pointers an algorithm's state begins with; partials follow."""


DOUBLED_TO_SHOW = 20
"""How often a partial is doubled at most, to find a window that has a result."""
U = np.uint64


class NotCompilableError(TypeError):
    """The aggregate cannot be compiled for these columns; the message says why."""


@dataclass(frozen=True)
class Compiled:
    """A generated module, with the types of a partial's fields and of the results."""

    module: ModuleType
    fields: tuple[np.dtype[Any], ...]
    results: tuple[np.dtype[Any], ...]
    nullable: bool
    cached: bool
    inverts: bool = False
    overflows: bool = False

    def buffer(self, size: int) -> tuple[Any, ...]:
        """Return arrays for `size` partials, one per field."""
        counts = (np.empty(size, np.int64),) if self.nullable else ()
        return counts + tuple(np.empty(size, field) for field in self.fields)

    def suffixes(self, size: int) -> Suffixes:
        """Return arrays for `size` partials, a power of two, as loops over spans take them."""
        return Suffixes(self.buffer(size), U(size - 1))

    def stretches(self, n: int) -> Stretches:
        """Return the argument of `roll_rows` for windows of n rows: the size of blocks, and arrays."""
        period = max(n - 1, 1)
        size = -(-period // -(-period // BLOCK_ROWS))  # blocks of even length, but for the last
        starts, numbers = np.empty(STRETCHES, np.uint64), np.empty(STRETCHES, np.uint64)
        tails = self.buffer(STRETCHES * size)
        blocks = self.buffer(STRETCHES * (1 - (-period // size)))
        return Stretches(U(size), starts, numbers, tails, blocks)

    def start(self, values: tuple[Any, ...], algorithm: str) -> tuple[Any, ...]:
        """Return the state of an algorithm's step functions before the first row."""
        return self.typed(self.module.ring_start(values), algorithm)

    def typed(self, state: tuple[Any, ...], algorithm: str) -> tuple[Any, ...]:
        """Return a state in the types the kernels are compiled for: Numba hands out Python's numbers."""
        k = POINTERS[algorithm]
        return (*(U(p) for p in state[:k]), *(self._partial(p) for p in state[k:]))

    def _partial(self, partial: Any) -> Any:
        if self.nullable:
            return (np.int64(partial[0]), self._fields(partial[1]))
        return self._fields(partial)

    def _fields(self, x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(field.type(y) for field, y in zip(self.fields, x, strict=True))
        return self.fields[0].type(x)

    def outputs(self, size: int, out: Any = None) -> tuple[Any, ...]:
        """Return arrays for `size` results, or `out` if it has their type.

        With nulls, the first array holds numbers of values.
        """
        fits = out is not None and self.results == (out.dtype,) and out.flags.c_contiguous
        if fits and not self.nullable:
            return (out,)
        counts = (np.zeros(size, np.int64),) if self.nullable else ()
        return counts + tuple(np.empty(size, result) for result in self.results)


def compiled(aggregate: Aggregate, layout: Layout) -> Compiled:
    """Return the kernels of an aggregate for a layout; Numba compiles each at its first call."""
    try:
        return _compiled(aggregate, layout, _referred(aggregate))
    except TypeError as error:
        if _is_hashable(aggregate):
            raise
        raise NotCompilableError(
            f"aggregate {aggregate.name!r} holds something that can change ({error}), such as an "
            "identity that is a list; a tuple is one that cannot"
        ) from error


def _is_hashable(aggregate: Aggregate) -> bool:
    try:
        hash(aggregate)
    except TypeError:
        return False
    return True


def _referred(aggregate: Aggregate) -> tuple[str, ...]:
    """Return digests of a user's functions, which change with the globals that they refer to."""
    if aggregate.kernel is not None:
        return ()
    try:
        return tuple(digest(f) for f in (aggregate.lift, aggregate.combine, aggregate.lower))
    except TypeError:  # such functions are not compiled either
        return ()


@lru_cache(maxsize=1024)  # users may make functions for each call
def _compiled(aggregate: Aggregate, layout: Layout, referred: tuple[str, ...]) -> Compiled:
    del referred
    kernel = kernel_of(aggregate, layout)
    own = aggregate.kernel is None
    fields, results, scalar, several = _types(aggregate.name, kernel, layout, own)
    if own:
        nothing = aggregate.lower(aggregate.identity)
        floats = math.nan if nothing is None else nothing
        results = _wide_enough(aggregate.name, results, floats)
    combine = kernel.plain if layout.form == "plain" and kernel.plain else kernel.combine
    functions: dict[str, Callable[..., Any]] = {
        "lift": kernel.lift,
        "merge": combine,
        "lower": kernel.lower,
    }
    slices = layout.steps == SLICES
    inverts = slices and kernel.inverse is not None
    if slices and kernel.inverse is not None:
        functions["invert"] = kernel.inverse
    lifted = kernel.halves, kernel.doubled
    shape = Shape(len(fields), len(results), scalar, several, own, kernel.finish, *lifted)
    frame = accessors(layout, shape) + (INVERSE if inverts else NO_INVERSE if slices else "")
    body = _body(layout.steps)
    try:
        writer = Writer(checked=own)
        for name, function in functions.items():
            writer.write(function, name)
        module = load_module("\n".join([HEAD, writer.text(), frame, body]))
    except NoSourceError as missing:
        types = (*layout.columns, *fields, *results)
        if own and not (all(kind.kind in "fb" for kind in types) and _stays_float(functions)):
            raise NotCompilableError(
                f"{aggregate.name!r} cannot be checked for whole numbers of more than 64 bits: {missing}"
            ) from missing
        module = _in_memory(aggregate.name, functions, frame + body)
    cached = bool(module.__dict__["CACHED"])
    kernels = Compiled(module, fields, results, layout.nullable, cached, inverts, kernel.overflows)
    return kernels if aggregate.kernel is not None else _tried(kernels, aggregate.name, layout)


def _body(steps: str) -> str:
    if steps == SLICES:
        return slices_text()
    if steps:
        return ring_text(steps)
    return loops_text(roll_rows, kernel="uncounted_kernel", inline="uncounted_inline") + loops_text(
        roll_spans
    )


def kernel_of(aggregate: Aggregate, layout: Layout) -> Kernel:
    """Return the kernel that the aggregate declares for such columns, or one of the user's functions."""
    if aggregate.kernel is not None:
        return _form(aggregate.kernel, layout)
    if aggregate.holistic or aggregate.encode is not None:
        raise NotCompilableError(f"{aggregate.name!r} works on objects, not on numbers")
    return Kernel(aggregate.lift, aggregate.combine, aggregate.lower)  # lower without a count


def _form(kernel: Kernel, layout: Layout) -> Kernel:
    kind = layout.columns[0].kind
    whole = {"i": kernel.signed, "u": kernel.unsigned}.get(kind)
    narrow = None if whole is None else whole.narrow
    forms = {"shifted": kernel.shifted, "times": kernel.times, "narrow": narrow}
    return forms.get(layout.form) or whole or kernel


def _tried(kernels: Compiled, name: str, layout: Layout) -> Compiled:
    """Run a user's aggregate on one row, so that Numba compiles it, or NotCompilableError."""
    from numba.core.errors import NumbaError

    row = tuple(np.ones(1, column) for column in layout.columns)
    row = (*row, np.ones(1, np.bool_)) if layout.nullable else row
    try:
        if layout.steps == SLICES:
            one, none = np.ones(1, np.int64), np.zeros(1, np.int64)
            partials = kernels.buffer(1)
            kernels.module.fold_spans(row, none, one, partials, none, U(0))
            kernels.module.query_folds(partials, U(0), none, one, kernels.outputs(1))
        elif layout.steps:
            state, slots = kernels.start(row, layout.steps), kernels.buffer(2)
            bounds = (U(1), U(0), U(1))
            kernels.module.ring_rows(row, kernels.outputs(1), *bounds, slots, U(1), state)
        else:
            kernels.module.roll_rows(
                row, kernels.outputs(1), U(1), U(0), U(1), kernels.stretches(1)
            )
    except (
        NumbaError,
        ArithmeticError,
        LookupError,
        NotImplementedError,
        TypeError,
        ValueError,
    ) as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise NotCompilableError(f"{name!r} is not understood by Numba: {reason}") from error
    return kernels


def _types(
    name: str, kernel: Kernel, layout: Layout, own: bool
) -> tuple[tuple[np.dtype[Any], ...], tuple[np.dtype[Any], ...], bool, bool]:
    """Return the types of fields and of results, and whether a partial is bare and a result a tuple.

    They are those of the functions' values for ones.
    """
    sample = tuple(np.ones(1, column)[0] for column in layout.columns)
    sample = tuple((float(x), 0.0) for x in sample) if kernel.doubled else sample
    value = sample[0] if len(sample) == 1 else sample
    value = (np.int64(0), np.int64(1)) if kernel.halves else value
    try:
        with np.errstate(all="ignore"):
            partial = kernel.lift(value)
            merged = kernel.combine(partial, partial)
            result = _shown(kernel, partial, merged) if own else kernel.lower(merged, 2)
    except Exception as error:  # a user's functions may raise anything
        raise NotCompilableError(f"{name!r} does not take {value!r}: {error!r}") from error
    if len(_flat(partial)) != len(_flat(merged)):
        raise NotCompilableError(f"{name!r} has partials that grow: {partial!r}, then {merged!r}")
    scalar = not isinstance(partial, tuple)
    fields = tuple(
        np.result_type(_number_type(name, a), _number_type(name, b))
        for a, b in zip(_flat(partial), _flat(merged), strict=True)
    )
    results = tuple(_number_type(name, x) for x in _flat(result))
    return fields, results, scalar, isinstance(result, tuple)


def _shown(kernel: Kernel, partial: Any, merged: Any) -> Any:
    """Return a result of a user's aggregate, which may be None for few values or for many."""
    result = kernel.lower(merged)
    many = merged
    for _ in range(DOUBLED_TO_SHOW):
        if result is not None:
            return result
        many = kernel.combine(many, many)
        result = kernel.lower(many)
    return kernel.lower(partial) if result is None else result


def _wide_enough(name: str, results: tuple[Any, ...], nothing: Any) -> tuple[Any, ...]:
    """Return the types of results, widened so that they hold the result of no values."""
    parts = _flat(nothing) if isinstance(nothing, tuple) else (nothing,) * len(results)
    if len(parts) != len(results):
        raise NotCompilableError(
            f"{name!r} returns {nothing!r} for no values, and {len(results)} numbers for values"
        )
    return tuple(_with_room(name, a, part) for a, part in zip(results, parts, strict=True))


def _with_room(name: str, result: np.dtype[Any], part: Any) -> np.dtype[Any]:
    if result.kind in "iu" and type(part) is int:
        limits = np.iinfo(result)
        if limits.min <= part <= limits.max:
            return result
    return np.result_type(result, _number_type(name, part))


def _flat(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _number_type(name: str, value: Any) -> np.dtype[Any]:
    if isinstance(value, bool | np.bool_):
        return np.dtype(np.bool_)
    if isinstance(value, np.generic) and value.dtype.kind in "iuf":
        return value.dtype
    if isinstance(value, int):
        return np.dtype(np.int64)
    if isinstance(value, float):
        return np.dtype(np.float64)
    raise NotCompilableError(f"{name!r} makes {value!r}, which is not a number")


def _in_memory(name: str, functions: dict[str, Any], text: str) -> ModuleType:
    import numba

    jitted = {}
    for role, function in functions.items():
        plain = function if isinstance(function, FunctionType) else _called(function)
        jitted[role] = numba.njit(error_model="python", nogil=True)(plain)
    return memory_module(f"muntin_{name}", HEAD + text, **jitted)


def _stays_float(functions: dict[str, Any]) -> bool:
    """Whether functions without a source call nothing that turns floats into whole numbers."""
    made = {name.split(".")[-1] for name in Checked.TO_WHOLE}
    return all(
        function in (max, min)
        or (isinstance(function, FunctionType) and made.isdisjoint(function.__code__.co_names))
        for function in functions.values()
    )


def _called(function: Any) -> Any:
    """Return a Python function that calls a built-in one, such as abs."""
    return lambda *parts: function(*parts)
