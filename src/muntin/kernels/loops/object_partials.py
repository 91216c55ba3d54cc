"""Rows and partials as Python objects: the functions through which loops reach them.

Loop files import these names, so they run interpreted. Rows, partials and results are each a tuple of
one list or array of objects. `codegen.interpret.bind` replaces lift, combine, lower and without by those
of an aggregate. A generated module has functions of the same names for numbers, which `codegen.layout`
writes.
"""

from typing import Any

from muntin.kernels.loops.instructions import U


def lift(value: Any) -> Any:
    """Return the partial of one value."""
    raise NotImplementedError(UNBOUND)


def combine(a: Any, b: Any) -> Any:
    """Return the partial of the values in a, followed by those in b."""
    raise NotImplementedError(UNBOUND)


def lower(partial: Any) -> Any:
    """Return the result of a partial."""
    raise NotImplementedError(UNBOUND)


def without(total: Any, part: Any) -> Any:
    """Return `total` with the values of `part` removed, or NotImplemented."""
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
    """Write result i from a partial of `rows` rows."""
    outs[0][i] = lower(partial)


def emit_empty(outs: Any, i: Any) -> None:
    """Write the result of window i, which has no rows."""
    outs[0][i] = None


def store_four(partials: Any, i: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    """Write the partials a, b, c and d from place i on."""
    for j, partial in enumerate((a, b, c, d)):
        store(partials, i + U(j), partial)


def emit_four(outs: Any, i: Any, a: Any, b: Any, c: Any, d: Any, rows: Any) -> None:
    """Write four results from place i on, of partials of `rows` rows each."""
    for j, partial in enumerate((a, b, c, d)):
        emit(outs, i + U(j), partial, rows)


def watch(seen: Any, values: Any, i: Any) -> Any:  # noqa: ARG001
    """Return `seen`; the plain form of a float column returns NaN if row i or a row before is NaN."""
    return seen


def declined(partial: Any) -> bool:
    """Whether `without` could not remove a partial."""
    return partial is NotImplemented


UNBOUND = "bind the loops to an aggregate first: muntin.kernels.codegen.interpret.bind"
