"""Conditions on rows: which of them are there for an aggregate.

A condition is written with `col`, and evaluated by Arrow's functions on whole columns. A comparison with
null is null, as in SQL, and a row for which a condition is null or false does not count.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from typing import Any

Tree = tuple[Any, ...]
"""An operation and what it is applied to: ("column", name), ("constant", value), ("<", tree, tree)."""

METHODS = ("is_null", "is_valid")
CONSTANTS = (bool, int, float, str, bytes, Decimal, dt.date, dt.time, dt.timedelta)
NUMBERS = range(-(2**63), 2**64)
LIKE = "write it like mt.Count(where='is_bid') or mt.Sum('price', where=mt.col('price') > 100)"


class Expression:
    """Columns and constants, calculated with and compared; see `col`."""

    __slots__ = ("tree",)

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def __repr__(self) -> str:
        return _text(self.tree)

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self!r} is neither true nor false before there are rows: combine conditions with &, | "
            "and ~, each in parentheses, in place of and, or, not and 1 < x < 3"
        )

    def __eq__(self, other: object) -> "Expression":  # type: ignore[override]
        return self._with("==", other)

    def __ne__(self, other: object) -> "Expression":  # type: ignore[override]
        return self._with("!=", other)

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Any) -> "Expression":
        return self._with("<", other)

    def __le__(self, other: Any) -> "Expression":
        return self._with("<=", other)

    def __gt__(self, other: Any) -> "Expression":
        return self._with(">", other)

    def __ge__(self, other: Any) -> "Expression":
        return self._with(">=", other)

    def __and__(self, other: Any) -> "Expression":
        return self._with("&", other)

    def __rand__(self, other: Any) -> "Expression":
        return self._after("&", other)

    def __or__(self, other: Any) -> "Expression":
        return self._with("|", other)

    def __ror__(self, other: Any) -> "Expression":
        return self._after("|", other)

    def __invert__(self) -> "Expression":
        return Expression(("~", self.tree))

    def __add__(self, other: Any) -> "Expression":
        return self._with("+", other)

    def __radd__(self, other: Any) -> "Expression":
        return self._after("+", other)

    def __sub__(self, other: Any) -> "Expression":
        return self._with("-", other)

    def __rsub__(self, other: Any) -> "Expression":
        return self._after("-", other)

    def __mul__(self, other: Any) -> "Expression":
        return self._with("*", other)

    def __rmul__(self, other: Any) -> "Expression":
        return self._after("*", other)

    def __truediv__(self, other: Any) -> "Expression":
        return self._with("/", other)

    def __rtruediv__(self, other: Any) -> "Expression":
        return self._after("/", other)

    def is_null(self) -> "Expression":
        """Return the condition that there is no value."""
        return Expression(("is_null", self.tree))

    def is_valid(self) -> "Expression":
        """Return the condition that there is a value."""
        return Expression(("is_valid", self.tree))

    def isin(self, values: Any) -> "Expression":
        """Return the condition that the value is one of several; null where it is null."""
        if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
            raise TypeError(f"isin takes a list of values, got {values!r}")
        constants = tuple(_constant(value) for value in values)
        if not constants:
            raise ValueError("isin takes at least one value")
        return Expression(("isin", self.tree, *constants))

    def _with(self, operation: str, other: Any) -> "Expression":
        return Expression((operation, self.tree, _operand(other)))

    def _after(self, operation: str, other: Any) -> "Expression":
        return Expression((operation, _operand(other), self.tree))


def col(name: str) -> Expression:
    """Return a column, to write a condition with: comparisons, `&`, `|`, `~`, arithmetic, `isin`.

    `/` gives floats. A comparison with null is null; `is_null()` and `is_valid()` ask for nulls.

    >>> import muntin as mt
    >>> (mt.col("price") > 100) & ~mt.col("kind").isin(["test"])
    ((col('price') > 100) & ~col('kind').isin(['test']))
    >>> window = mt.DabaLite(mt.Sum("price", where=mt.col("price") > 100))
    >>> window.bulk_insert([{"price": 90}, {"price": 120}, {"price": None}])
    >>> window.query()
    120
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"a column is named by text, got {name!r}")
    return Expression(("column", name))


@dataclass(frozen=True)
class Condition:
    """What must be true of a row; known by its text."""

    text: str
    tree: Tree = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def column(self) -> str | None:
        """The one boolean column that it is, if it is no more than that."""
        return self.tree[1] if self.tree[0] == "column" else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return tuple(dict.fromkeys(_columns(self.tree)))

    def holds(self, row: Any) -> bool:
        """Whether it is true of a row; `evaluate` does the same for many rows at once.

        A row of a batch that was evaluated has the answer under the condition itself.
        """
        if not isinstance(row, Mapping):
            raise TypeError(
                f"the condition {self} needs rows (mappings such as dicts), got {row!r}"
            )
        if self in row:
            return bool(row[self])
        for name in self.columns:
            if name not in row:
                raise KeyError(
                    f"no column {name!r} in the row, which the condition {self} asks for"
                )
        return bool(self.evaluate({name: [row[name]] for name in self.columns})[0].as_py())

    def evaluate(self, columns: Mapping[str, Any]) -> Any:
        """Return for columns of some rows an Arrow array that says of which rows it is true.

        Raises TypeError if columns are of types that it cannot be asked of, and ValueError if the values
        of a row are such that it has no answer.
        """
        return import_module("muntin.aggregates.condition_values").evaluated(self, columns)


Where = str | Expression | Condition | None
"""A condition as it is given: a boolean column's name, or what `col` begins."""


def condition_of(where: Where) -> Condition | None:
    """Return the condition that was given, if there is one."""
    if where is None or isinstance(where, Condition):
        return where
    if isinstance(where, str) and where:
        where = col(where)
    if not isinstance(where, Expression):
        raise TypeError(f"where is a boolean column's name or a condition, got {where!r}: {LIKE}")
    condition = Condition(repr(where), where.tree)
    if not condition.columns:
        raise TypeError(f"the condition {condition} looks at no column: {LIKE}")
    return condition


def _operand(value: Any) -> Tree:
    return value.tree if isinstance(value, Expression) else _constant(value)


def _constant(value: Any) -> Tree:
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if value is None:
        raise TypeError("a comparison with None is never true: write col(...).is_null()")
    if not isinstance(value, CONSTANTS):
        raise TypeError(f"a condition's constants are numbers, texts and times, got {value!r}")
    if isinstance(value, int) and value not in NUMBERS:
        raise ValueError(f"a condition's whole numbers have 64 bits, got {value!r}")
    return ("constant", value)


def _text(tree: Tree) -> str:
    operation, *operands = tree
    if operation == "column":
        return f"col({operands[0]!r})"
    if operation == "constant":
        return repr(operands[0])
    texts = [_text(operand) for operand in operands]
    if operation == "~":
        return f"~{texts[0]}"
    if operation in METHODS:
        return f"{texts[0]}.{operation}()"
    if operation == "isin":
        return f"{texts[0]}.isin([{', '.join(texts[1:])}])"
    return f"({texts[0]} {operation} {texts[1]})"


def _columns(tree: Tree) -> list[str]:
    operation, *operands = tree
    if operation == "column":
        return operands
    return [] if operation == "constant" else [n for operand in operands for n in _columns(operand)]


def conditions_of(aggregate: Any) -> list[Condition]:
    """Return the conditions of an aggregate and of its parts."""
    own = [] if aggregate.where is None else [aggregate.where]
    return own + [condition for part in aggregate.parts for condition in conditions_of(part)]


def refuse_conditions(aggregate: Any, place: str) -> None:
    """Refuse an aggregate that has a condition, where all rows are taken."""
    for condition in conditions_of(aggregate):
        raise TypeError(
            f"{place} takes all rows: leave where={condition} out of {aggregate.name!r}, or ask for it "
            "in a query"
        )


def only_where(
    condition: Condition, nothing: Any, lift: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return lift, of rows for which a condition is not true the identity."""
    return lambda row: lift(row) if condition.holds(row) else nothing
