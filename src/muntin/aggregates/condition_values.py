"""Conditions evaluated by Arrow, on whole columns.

Arrow compares numbers of two types only where no digit is lost, and calculates with an error where a
result does not fit.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.aggregates.conditions import METHODS, Condition, Tree

COMPARED = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
COMBINED = {"&": "and_kleene", "|": "or_kleene"}
CALCULATED = {"+": "add_checked", "-": "subtract_checked", "*": "multiply_checked"}


def evaluated(condition: Condition, columns: Mapping[str, Any]) -> pa.BooleanArray:
    """Return of which rows a condition is true, given the columns that it looks at."""
    arrays = {name: pa.array(column) for name, column in columns.items()}
    try:
        found = _boolean(_value(condition.tree, arrays))
        return pc.fill_null(found, False) if found.null_count else found
    except pa.ArrowInvalid as error:
        if all(array.null_count == len(array) for array in arrays.values()):
            raise _misfit(condition, arrays, error) from error
        evaluated(condition, {name: pa.nulls(1, array.type) for name, array in arrays.items()})
        raise ValueError(f"the condition {condition} has no answer: {error}") from error
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise _misfit(condition, arrays, error) from error


def _misfit(condition: Condition, arrays: dict[str, pa.Array], error: Exception) -> TypeError:
    kinds = ", ".join(f"{name!r} is {array.type}" for name, array in arrays.items())
    return TypeError(f"the condition {condition} does not go with its columns: {kinds} ({error})")


def _value(tree: Tree, columns: dict[str, pa.Array]) -> Any:
    """Return the value of an expression: an array, or a scalar if no column is in it."""
    operation, *operands = tree
    if operation == "column":
        return columns[operands[0]]
    if operation == "constant":
        return pa.scalar(operands[0])
    values = [_value(operand, columns) for operand in operands]
    if operation == "isin":
        found = (_compared("==", values[0], value) for value in values[1:])
        return reduce(lambda a, b: pc.call_function("or_kleene", [a, b]), found)
    if operation in METHODS:
        return pc.call_function(operation, values)
    if operation == "~":
        return pc.call_function("invert", [_boolean(values[0])])
    if operation in COMBINED:
        return pc.call_function(COMBINED[operation], [*map(_boolean, values)])
    return (_compared if operation in COMPARED else _calculated)(operation, *values)


def _compared(operation: str, a: Any, b: Any) -> Any:
    return pc.call_function(COMPARED[operation], [_beside(a, b), _beside(b, a)])


def _calculated(operation: str, a: Any, b: Any) -> Any:
    """Calculate with whole numbers of 64 bits, so that only what does not fit those is an error."""
    if operation == "/":
        return pc.call_function("divide", [_cast(x, pa.float64()) for x in (a, b)])
    wide = [x if pa.types.is_uint64(x.type) else _cast(x, pa.int64()) for x in (a, b)]
    return pc.call_function(CALCULATED[operation], [_beside(*wide), _beside(*wide[::-1])])


def _cast(value: Any, kind: pa.DataType) -> Any:
    """Return whole numbers in another type; as floats they are rounded."""
    return pc.cast(value, kind, safe=False) if pa.types.is_integer(value.type) else value


def _beside(value: Any, other: Any) -> Any:
    """Return an operand; a whole number beside a column of unsigned ones of 64 bits becomes one."""
    alone = isinstance(value, pa.Scalar) and pa.types.is_integer(value.type)
    if alone and pa.types.is_uint64(other.type) and value.as_py() >= 0:
        return pa.scalar(value.as_py(), pa.uint64())
    return value


def _boolean(value: Any) -> Any:
    """Return what is true or false; a column of nulls alone has no type yet."""
    if pa.types.is_null(value.type):
        return value.cast(pa.bool_())
    if not pa.types.is_boolean(value.type):
        raise pa.ArrowTypeError(f"{value.type} is neither true nor false")
    return value
