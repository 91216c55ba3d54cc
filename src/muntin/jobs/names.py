"""Windows, aggregates and policies by name, written in a job file as they are in Python.

    Sliding("1 hour", every="1 minute")
    Policy(last(100) | within("1 hour", "at"), every="1 minute")
    Sliding("10 minutes", every=rows(100))

Such a text is read and never run: it is a call of a name of the catalogue, with texts and numbers as
arguments.
"""

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from muntin.aggregates import AGGREGATES, Aggregate
from muntin.jobs.sections import nearest
from muntin.policies import last, sum_at_most, until_longest_run, until_max, within
from muntin.windows import (
    Calendar,
    Cumulate,
    Delta,
    Fixed,
    LastN,
    Policy,
    Punctuation,
    Session,
    Sliding,
    Tumbling,
    Window,
    rows,
)

Catalogue = Mapping[str, Callable[..., Any]]

WINDOWS: dict[str, Callable[..., Window]] = {
    kind.__name__: kind
    for kind in (
        Tumbling,
        Sliding,
        Cumulate,
        Calendar,
        Session,
        Punctuation,
        LastN,
        Fixed,
        Delta,
        Policy,
    )
}
POLICIES: Catalogue = {
    policy.__name__: policy for policy in (last, within, sum_at_most, until_max, until_longest_run)
}
INSIDE: Catalogue = {**POLICIES, "rows": rows}
"""What may be called in the arguments of a window."""


def window(text: Any) -> Window:
    """Return the window that a text describes.

    >>> window('Sliding(100, every=10, measure="count")')
    <Sliding 100 rows every 10 rows>
    """
    made: Window = _made(text, "window", WINDOWS, 'Sliding("1 hour", every="1 minute")')
    return made


def aggregate(text: Any) -> Aggregate:
    """Return the aggregate that a text describes.

    >>> aggregate('Quantile("watts", q=0.99)')
    <Aggregate quantile(0.99, nearest_rank) of 'watts'>
    """
    made: Aggregate = _made(text, "aggregate", AGGREGATES, 'Max("watts")')
    return made


def _made(text: Any, kind: str, catalogue: Catalogue, like: str) -> Any:
    article = "an" if kind[0] in "aeiou" else "a"
    wrong = f"{article} {kind} is written like '{like}', got {text!r}"
    if not isinstance(text, str):
        raise TypeError(wrong)
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ValueError(wrong) from error
    return _called(node, kind, catalogue, wrong)


def _called(node: ast.expr, kind: str, catalogue: Catalogue, wrong: str) -> Any:
    if kind == "policy" and isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _called(node.left, kind, catalogue, wrong) | _called(
            node.right, kind, catalogue, wrong
        )
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(wrong)
    name = node.func.id
    if name not in catalogue:
        raise ValueError(f"there is no {kind} {name!r}: {nearest(name, catalogue)}")
    arguments = [_argument(argument, kind, wrong) for argument in node.args]
    named = {str(key.arg): _argument(key.value, kind, wrong) for key in node.keywords}
    _check_arguments(name, catalogue[name], arguments, named)
    return catalogue[name](*arguments, **named)


def _argument(node: ast.expr, kind: str, wrong: str) -> Any:
    if kind == "window" and isinstance(node, ast.Call | ast.BinOp):
        return _called(node, "policy", INSIDE, wrong)
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise ValueError(
            f"an argument is a text in quotes, a number, True or False, got {ast.unparse(node)}"
        ) from error


def _check_arguments(
    name: str, factory: Callable[..., Any], arguments: list[Any], named: Mapping[str, Any]
) -> None:
    signature = inspect.signature(factory)
    for key in named:
        if key not in signature.parameters:
            raise ValueError(f"{name} takes no {key!r}: {nearest(key, signature.parameters)}")
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error
