"""The layout of rows and partials, and the source of the functions that hide it from the loops.

Partials are in a tuple of arrays, one per field. With nulls, the first field is the number of values,
and a null row is a partial of zero values, so no identity is needed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Layout:
    """What the rows are, and which loops and which form of a kernel work on them."""

    columns: tuple[np.dtype[Any], ...]  # types of the input columns
    nullable: bool  # whether rows may be null
    form: str = ""  # a special form of the aggregate's kernel: plain, shifted, narrow or times
    steps: str = ""  # "slices", or an algorithm for windows over a stream; else whole arrays


@dataclass(frozen=True)
class Shape:
    """What an aggregate's partials and results are."""

    fields: int  # the number of fields of a partial
    results: int  # the number of results of a window
    scalar: bool  # whether a partial is a number and not a tuple
    several: bool  # whether a result is a tuple
    own: bool  # whether it is a user's, whose lower takes no count and may return None
    finish: str = ""  # a NumPy function that is applied to the results
    halves: bool = False  # whether lift takes a whole number in two parts
    doubled: bool = False  # whether lift takes each number as two floats


HALVES = {
    "i": "(values[0][i] >> 32, values[0][i] & 0xFFFFFFFF)",
    "u": "(np.int64(values[0][i] >> U(32)), np.int64(values[0][i] & U(0xFFFFFFFF)))",
}
DOUBLED = {
    "i": "(np.float64(values[{k}][i] >> 32) * 4294967296.0, np.float64(values[{k}][i] & 0xFFFFFFFF))",
    "u": "(np.float64(U(values[{k}][i]) >> U(32)) * 4294967296.0, "
    "np.float64(U(values[{k}][i]) & U(0xFFFFFFFF)))",
    "f": "(np.float64(values[{k}][i]), 0.0)",
    "b": "(np.float64(values[{k}][i]), 0.0)",
}
DENSE = """
@inline
def lift_at(values, i):
    return {lifted}

combine = merge

@inline
def load(q, i):
    return {loaded}

@inline
def store(q, i, x):
    {stored}

@inline
def emit(outs, i, x, rows):
    {emitted}

@inline
def emit_empty(outs, i):
    pass
"""
NULLABLE = """
@inline
def lift_at(values, i):
    {unless_null}return (np.int64(values[{valid}][i]), {lifted})

@inline
def combine(a, b):
    if a[0] == 0:
        return b
    if b[0] == 0:
        return a
    return (a[0] + b[0], merge(a[1], b[1]))

@inline
def load(q, i):
    return (q[0][i], {loaded})

@inline
def store(q, i, p):
    x = p[1]
    q[0][i] = p[0]
    {stored}

@inline
def emit(outs, i, p, rows):
    x, rows = p[1], p[0]
    outs[0][i] = rows
    if rows == 0:
        return
    {emitted}

@inline
def emit_empty(outs, i):
    outs[0][i] = 0
"""
# One instruction writes four neighbouring partials or results.
FOUR = """
@inline
def store_four(q, i, a, b, c, d):
    {stored}

@inline
def emit_four(outs, i, a, b, c, d, rows):
    {lowered}
    {emitted}
"""
ONE_BY_ONE = """
@inline
def store_four(q, i, a, b, c, d):
    store(q, i, a); store(q, i + U(1), b); store(q, i + U(2), c); store(q, i + U(3), d)

@inline
def emit_four(outs, i, a, b, c, d, rows):
    emit(outs, i, a, rows); emit(outs, i + U(1), b, rows)
    emit(outs, i + U(2), c, rows); emit(outs, i + U(3), d, rows)
"""
# A sum is NaN after the first NaN (or infinities of both signs), and is cheaper than a test per row.
WATCH = """
@inline
def watch(seen, values, i):
    return seen + values[0][i]
"""
NO_WATCH = """
@inline
def watch(seen, values, i):
    return seen
"""

INVERSE = """
@inline
def without(a, b):
    if b[0] == 0:
        return a
    return (a[0] - b[0], invert(a[1], b[1]))

@inline
def declined(x):
    return False
"""
NO_INVERSE = """
@inline
def without(a, b):
    return a

@inline
def declined(x):
    return True
"""


def accessors(layout: Layout, shape: Shape) -> str:
    """Return the source of lift_at, combine, load, store, emit and watch for a layout."""
    template, shift = (NULLABLE, 1) if layout.nullable else (DENSE, 0)
    columns = ", ".join(f"values[{k}][i]" for k in range(len(layout.columns)))
    if shape.halves:
        columns = HALVES[layout.columns[0].kind]
    if shape.doubled:
        doubles = (DOUBLED[column.kind].format(k=k) for k, column in enumerate(layout.columns))
        columns = ", ".join(doubles)
    if layout.form == "shifted":
        columns += " - values[1][0]"
    fields = [f"q[{k + shift}][i]" for k in range(shape.fields)]
    parts = ["x" if shape.scalar else f"x[{k}]" for k in range(shape.fields)]
    floats = layout.columns[0].kind == "f"
    watch = WATCH if layout.form == "plain" and floats else NO_WATCH
    four = ONE_BY_ONE if layout.nullable or shape.own else _four(shape)
    frame = template.format(
        lifted=_lifted(layout, columns),
        unless_null=_unless_null(layout) if shape.own else "",
        valid=len(layout.columns),
        loaded=fields[0] if shape.scalar else f"({', '.join(fields)},)",
        stored="; ".join(_put(shape, field, x) for field, x in zip(fields, parts, strict=True)),
        emitted=_emitted(shape, shift),
    )
    return watch + four + frame


def _lifted(layout: Layout, columns: str) -> str:
    return f"lift({columns})" if len(layout.columns) == 1 else f"lift(({columns}))"


def _unless_null(layout: Layout) -> str:
    """Return the source that lifts ones for a null: a user's function may fail on the stored value."""
    ones = _lifted(layout, ", ".join(f"np.{column}(1)" for column in layout.columns))
    return f"if not values[{len(layout.columns)}][i]: return (np.int64(0), {ones})\n    "


def _put(shape: Shape, place: str, value: str) -> str:
    """Return the source that writes a number; of a user's function, it may be of another type."""
    return f"put({place.removesuffix('[i]')}, i, {value})" if shape.own else f"{place} = {value}"


def _four(shape: Shape) -> str:
    def put(where: str, k: int, bare: bool) -> str:
        parts = ", ".join(x if bare else f"{x}[{k}]" for x in "abcd")
        return f"put_four({where}[{k}], i, {parts})"

    return FOUR.format(
        stored="; ".join(put("q", k, shape.scalar) for k in range(shape.fields)),
        lowered="; ".join(f"{x} = {_lowered(shape, x)}" for x in "abcd"),
        emitted="; ".join(put("outs", k, not shape.several) for k in range(shape.results)),
    )


def _lowered(shape: Shape, partial: str) -> str:
    result = f"lower({partial}, np.int64(rows))"
    return f"np.{shape.finish}({result})" if shape.finish else result


def _emitted(shape: Shape, shift: int) -> str:
    outs = [f"outs[{k + shift}][i]" for k in range(shape.results)]
    parts = [f"result[{k}]" if shape.several else "result" for k in range(shape.results)]
    some = "; ".join(_put(shape, out, part) for out, part in zip(outs, parts, strict=True))
    if not shape.own:
        return f"result = {_lowered(shape, 'x')}; {some}"
    none = "; ".join(f"put_nothing({out.removesuffix('[i]')}, i, result)" for out in outs)
    return f"result = lower(x)\n    if result is None: {none}\n    else: {some}"
