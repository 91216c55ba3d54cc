"""The definition of a condition: Python's own operators, row by row; null if an operand is null."""

import operator

OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def holds(condition, row):
    """Whether a condition is true of a row, and neither false nor null."""
    return value_of(condition.tree, row) is True


def value_of(tree, row):
    operation, *operands = tree
    if operation == "column":
        return row[operands[0]]
    if operation == "constant":
        return operands[0]
    values = [value_of(operand, row) for operand in operands]
    if operation == "is_null":
        return values[0] is None
    if operation == "is_valid":
        return values[0] is not None
    if operation == "&":
        return False if False in values else None if None in values else True
    if operation == "|":
        return True if True in values else None if None in values else False
    if None in values:
        return None
    if operation == "~":
        return not values[0]
    if operation == "isin":
        return any(values[0] == value for value in values[1:])
    return OPERATORS[operation](*values)
