"""From the source of functions to the source of a module that Numba compiles and caches.

Numba's cache never hits for closures over compiled functions, because their key holds a number of the
process. So an aggregate's functions are written out, with what they refer to, as plain functions of a
module; its name is a hash of its text, and the cache finds it in the next process.
"""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any


class NoSourceError(Exception):
    """A function cannot be written out; the message says why."""


class Writer:
    """Collects functions and what they refer to, each once, under names of their own."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._keep: list[Any] = []
        self._lines: list[str] = []

    def text(self) -> str:
        """Return everything written so far, definitions before their use."""
        return "\n\n".join(self._lines) + "\n"

    def write(self, function: Callable[..., Any], name: str) -> None:
        """Write the function and give it the name."""
        self._lines.append(f"{name} = {self._reference(name, function)}")

    def _reference(self, name: str, value: Any) -> str:
        """Return an expression for a value that a function refers to, writing it out if need be."""
        if isinstance(value, ModuleType):
            if value.__name__.split(".")[0] not in ("math", "numpy"):
                raise NoSourceError(f"it refers to the module {value.__name__}")
            alias = f"_{value.__name__.replace('.', '_')}"
            self._once(f"import {value.__name__} as {alias}")
            return alias
        if isinstance(value, FunctionType):
            if id(value) not in self._names:
                self._names[id(value)] = f"_f{len(self._names)}_{value.__name__.strip('<>')}"
                self._keep.append(value)
                self._lines.append(self._definition(value))
            return self._names[id(value)]
        if type(value) in (bool, int, float, str, type(None)) or isinstance(value, tuple):
            return _literal(name, value)
        if inspect.isbuiltin(value) and value.__module__ == "math":
            self._once("import math as _math")
            return f"_math.{value.__name__}"
        raise NoSourceError(f"it refers to {name} = {value!r}")

    def _once(self, line: str) -> None:
        if line not in self._lines:
            self._lines.append(line)

    def _definition(self, function: FunctionType) -> str:
        tree = function_tree(function)
        names = {name: self._reference(name, value) for name, value in _outside(function).items()}
        tree.name = self._names[id(function)]
        Bare(names).visit(tree)
        return "@inline\n" + ast.unparse(ast.fix_missing_locations(tree))


def function_tree(function: Callable[..., Any]) -> ast.FunctionDef:
    """Return the syntax tree of a function that was defined with def."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError) as error:
        raise NoSourceError(f"the source of {function!r} is not to be had: {error}") from error
    if not isinstance(tree, ast.FunctionDef) or tree.name != function.__name__:
        raise NoSourceError(f"{function!r} is not defined with def")
    return tree


class Bare(ast.NodeTransformer):
    """Strips what a compiled function has no use for, and renames what it refers to."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = {name: ast.parse(text, mode="eval").body for name, text in names.items()}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = []
        node.returns = None
        if ast.get_docstring(node) is not None and len(node.body) > 1:
            del node.body[0]
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and node.id in self._names:
            return self._names[node.id]
        return node


def _outside(function: FunctionType) -> dict[str, Any]:
    """Return what the function refers to outside of itself, but for built-in names."""
    variables = inspect.getclosurevars(function)
    unbound = {name for name in variables.unbound if name in function.__code__.co_names}
    missing = sorted(unbound - _attributes(function) - set(dir(builtins)))
    if missing:
        raise NoSourceError(f"it refers to {', '.join(missing)}, which is not defined")
    return {**variables.globals, **variables.nonlocals}


def _attributes(function: FunctionType) -> set[str]:
    tree = function_tree(function)
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def _literal(name: str, value: Any) -> str:
    if isinstance(value, tuple):
        return f"({''.join(_literal(name, item) + ', ' for item in value)})"
    if type(value) not in (bool, int, float, str, type(None)):
        raise NoSourceError(f"it refers to {name} = {value!r}")
    if isinstance(value, float) and not abs(value) < float("inf"):
        return f"float('{value}')"
    return repr(value)
