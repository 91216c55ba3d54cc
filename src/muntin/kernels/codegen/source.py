"""From the source of functions to the source of a module that Numba compiles and caches.

Numba's cache never finds closures over compiled functions again, because their key holds a number that
is different in each process. So the source of an aggregate's functions, and of the functions they call,
becomes the text of a module. The module's name is a hash of its text, so the next process finds it.
"""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Collection
from copy import deepcopy
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar


class NoSourceError(Exception):
    """A function cannot be written out; the message says why."""


class Writer:
    """Collects the source of functions and of what they refer to, each once, under a unique name.

    If it is `checked`, a whole number of more than 64 bits is an error and does not wrap.
    """

    def __init__(self, checked: bool = False) -> None:
        self._checked = checked
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
        """Return an expression for a value that a function refers to; add functions to the text."""
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
        tree, outside = function_tree(function), _outside(function)
        _check_scopes(tree, outside)
        names = {name: self._reference(name, value) for name, value in outside.items()}
        tree.name = self._names[id(function)]
        Bare(names).visit(tree)
        if self._checked:
            Checked().visit(tree)
        self._write_defaults(tree.args, function)
        decorator = "checked" if self._checked else "inline"
        return f"@{decorator}\n{ast.unparse(ast.fix_missing_locations(tree))}"

    def _write_defaults(self, arguments: ast.arguments, function: FunctionType) -> None:
        """Replace the expressions of default values by the values."""
        named = function.__kwdefaults__ or {}
        arguments.defaults = [self._value("a default", v) for v in function.__defaults__ or ()]
        arguments.kw_defaults = [
            self._value(a.arg, named[a.arg]) if a.arg in named else None
            for a in arguments.kwonlyargs
        ]

    def _value(self, name: str, value: Any) -> ast.expr:
        return ast.parse(self._reference(name, value), mode="eval").body


def function_tree(function: Callable[..., Any]) -> ast.FunctionDef:
    """Return the syntax tree of a function; a lambda becomes one that is defined with def.

    Raises NoSourceError if the source is missing or gives another function: the file may have changed
    since the import, and Python reports the source of a wrapped function for its wrapper.
    """
    code = getattr(function, "__code__", None)
    if code is not None and code.co_name == "<lambda>":
        return _lambda_tree(function)
    tree = _def_tree(function)
    _check(tree, function)
    return tree


def _check(node: ast.FunctionDef | ast.Lambda, function: Any) -> None:
    """Raise NoSourceError if a syntax tree does not compile to the function's code."""
    node = deepcopy(node)
    node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
    node.args.kw_defaults = [default and ast.Constant(None) for default in node.args.kw_defaults]
    free = [ast.arg(name) for name in function.__code__.co_freevars]
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = []
    body = node if isinstance(node, ast.FunctionDef) else ast.Expr(node)
    around = ast.FunctionDef("around", ast.arguments([], free, None, [], [], None, []), [body], [])
    module = ast.fix_missing_locations(
        ast.Module([*_imports(_file(function.__code__)), around], [])
    )
    found = _inner(_inner(compile(module, "source", "exec", dont_inherit=True)))
    if _meaning(found) != _meaning(function.__code__):
        raise NoSourceError(f"the source of {function!r} is that of another function")


@lru_cache(maxsize=32)
def _imports(text: str) -> tuple[ast.stmt, ...]:
    """Return the imports of a file: Python compiles calls through imported names in another way."""
    found: list[ast.stmt] = []
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += [
                child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)
            ]
    return tuple(sorted(found, key=lambda node: node.lineno))


def _inner(code: CodeType) -> CodeType:
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))


def _meaning(code: CodeType) -> tuple[Any, ...]:
    """Return the instructions, names and constants of code, without its place in a file."""
    constants = [_meaning(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def _def_tree(function: Any) -> ast.FunctionDef:
    code = getattr(function, "__code__", None)
    try:
        source = textwrap.dedent(
            inspect.getsource(code or function)
        )  # not that of a function it wraps
        tree = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError) as error:
        raise NoSourceError(f"the source of {function!r} is missing: {error}") from error
    if not isinstance(tree, ast.FunctionDef) or code is None or tree.name != code.co_name:
        raise NoSourceError(f"{function!r} is not defined with def")
    return tree


def _lambda_tree(function: Any) -> ast.FunctionDef:
    """Find a lambda in its file by the place of its body."""
    code = function.__code__
    try:
        module = ast.parse(_file(code))
    except SyntaxError as error:
        raise NoSourceError(f"the source of {function!r} is missing: {error}") from error
    places = [p for p in code.co_positions() if None not in p and p[2:] != (0, 0)]
    first = min(((line, column) for line, _, column, _ in places), default=(0, 0))
    last = max(((line, column) for _, line, _, column in places), default=(0, 0))
    found = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.Lambda)
        and (node.body.lineno, node.body.col_offset) <= first
        and last <= (node.body.end_lineno or 0, node.body.end_col_offset or 0)
        and [a.arg for a in node.args.args] == list(code.co_varnames[: code.co_argcount])
    ]
    if not places or not found:
        raise NoSourceError(f"the source of {function!r} is missing")
    body = found[-1].body  # the innermost, if several lie around it
    _check(found[-1], function)
    tree = ast.FunctionDef("lambda_", found[-1].args, [ast.Return(body)], [])
    return ast.fix_missing_locations(ast.copy_location(tree, found[-1]))


def _file(code: CodeType) -> str:
    """Return the text of the file that code comes from."""
    try:
        return "".join(inspect.findsource(code)[0])
    except (OSError, TypeError) as error:
        raise NoSourceError(f"the source of {code.co_name} is missing: {error}") from error


def _check_scopes(tree: ast.FunctionDef, outside: Collection[str]) -> None:
    """Raise NoSourceError for names that differ in an inner function, and for unknown names."""
    names = [node for part in tree.body for node in ast.walk(part) if isinstance(node, ast.Name)]
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    bound |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    unknown = {node.id for node in names} - bound - set(outside) - set(dir(builtins))
    strange = sorted(unknown | (bound & set(outside)))
    if strange:
        raise NoSourceError(f"{', '.join(strange)} is not the same in all its parts")


class Checked(ast.NodeTransformer):
    """Replaces arithmetic by functions that check for overflow; NoSourceError where there is none."""

    NAMES: ClassVar[dict[type[ast.operator], str]] = {
        ast.Add: "plus",
        ast.Sub: "minus",
        ast.Mult: "times",
        ast.Pow: "power",
        ast.LShift: "power",  # which does not take whole numbers
        ast.FloorDiv: "floor_quotient",
        ast.Mod: "remainder",
    }
    CALLS: ClassVar[dict[str, str]] = {"abs": "magnitude", "pow": "power"}
    TO_WHOLE = ("int", "round", "_math.floor", "_math.ceil", "_math.trunc")
    UNCHECKED = ("sum", "divmod")

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        name = self.NAMES.get(type(node.op))
        return node if name is None else _call(name, node.left, node.right)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        name = self.NAMES.get(type(node.op))
        if name is None:
            return node
        if not isinstance(node.target, ast.Name):
            raise NoSourceError(f"{ast.unparse(node)} is not checked for whole numbers")
        value = _call(name, ast.Name(node.target.id, ast.Load()), node.value)
        return ast.Assign([node.target], value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Invert):
            return _call("minus", ast.Constant(-1), node.operand)
        negates = isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant)
        return _call("times", node.operand, ast.Constant(-1)) if negates else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name in self.UNCHECKED:
            raise NoSourceError(f"{name} is not checked for whole numbers")
        if name in self.CALLS:
            return _call(self.CALLS[name], *node.args)
        if name in self.TO_WHOLE and len(node.args) == 1:
            node.args = [_call("within", *node.args)]
        return node


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


class Bare(ast.NodeTransformer):
    """Removes decorators, docstrings and annotations, and renames what a function refers to."""

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
    """Return the globals and outer variables that a function refers to, except built-in names."""
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
