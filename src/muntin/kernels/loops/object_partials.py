"""Rows and partials as Python objects: the functions through which loops reach them.

A loop file imports these names, and so it runs interpreted: rows, partials and results are in lists or
arrays of objects, in a tuple with one of each. `codegen.interpret.bind` replaces lift, combine, lower
and without by those of an aggregate. A generated module has functions of the same names for numbers,
which `codegen.layout` writes.
"""

from typing import Any

from muntin.kernels.loops.instructions import U


def lift(value: Any) -> Any:
    """Return the partial of one value."""
    raise NotImplementedError(UNBOUND)


def combine(a: Any, b: Any) -> Any:
    """Return the partial of what is in a, followed by what is in b."""
    raise NotImplementedError(UNBOUND)


def lower(partial: Any) -> Any:
    """Return the result of a partial."""
    raise NotImplementedError(UNBOUND)


def without(total: Any, part: Any) -> Any:
    """Return a partial from which another is taken out, or NotImplemented."""
    raise NotImplementedError(UNBOUND)


def lift_at(values: Any, i: Any) -> Any:
    """Return the partial of row i."""
    return lift(values[0][i])


def load(partials: Any, i: Any) -> Any:
    """Return partial i."""
    return partials[0][i]


def store(partials: Any, i: Any, partial: Any) -> None:
    """Write partial i."""
    partials[0][i] = partial


def emit(outs: Any, i: Any, partial: Any, rows: Any) -> None:  # noqa: ARG001
    """Write result i: that of a partial of so many rows."""
    outs[0][i] = lower(partial)


def emit_empty(outs: Any, i: Any) -> None:
    """Write that window i is empty."""
    outs[0][i] = None


def store_four(partials: Any, i: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    """Write four partials side by side."""
    for j, partial in enumerate((a, b, c, d)):
        store(partials, i + U(j), partial)


def emit_four(outs: Any, i: Any, a: Any, b: Any, c: Any, d: Any, rows: Any) -> None:
    """Write four results side by side, of partials of so many rows each."""
    for j, partial in enumerate((a, b, c, d)):
        emit(outs, i + U(j), partial, rows)


def watch(seen: Any, values: Any, i: Any) -> Any:  # noqa: ARG001
    """Return NaN once a row was NaN, in layouts that have to know; in others return `seen`."""
    return seen


def declined(partial: Any) -> bool:
    """Whether an inverse could not take a partial out."""
    return partial is NotImplemented


UNBOUND = "bind the loops to an aggregate first: muntin.kernels.codegen.interpret.bind"
