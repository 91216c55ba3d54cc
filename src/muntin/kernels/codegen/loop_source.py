"""The source of loop files as part of a generated module.

Loop files are plain Python (`kernels/loops`, `slicing/loops`). The generated module has their functions
without docstrings and annotations. It also has the constants that they use as globals, which Numba
compiles as constants, and the functions of other loop files that they call; it imports their named
tuples. Other imports are dropped: HEAD imports `intrinsics` under the same names, and `layout` writes
the functions that reach rows and partials.
"""

import ast
from collections.abc import Callable, Iterable
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from muntin.aggregators import daba_lite, two_stacks_lite
from muntin.kernels.codegen.cache import load_module
from muntin.kernels.codegen.source import Bare, function_tree
from muntin.kernels.loops import (
    instructions,
    kept_windows,
    object_partials,
    roll_rings,
    slice_partials,
    slice_trees,
)
from muntin.kernels.loops.instructions import is_entry

HEAD = """
import numpy as np
from numba import njit

from muntin.kernels.codegen.intrinsics import clock, floor_quotient, folded, leading_zeros
from muntin.kernels.codegen.intrinsics import magnitude, minus, plus, power, put, put_four, put_nothing
from muntin.kernels.codegen.intrinsics import read_soon, remainder, times, trailing_zeros, within
from muntin.kernels.codegen.intrinsics import write_soon

U = np.uint64
bare = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # never called from Python
inline = njit(error_model="numpy", nogil=True, **bare)
checked = njit(error_model="python", nogil=True, **bare)  # users' functions
kernel = njit(error_model="numpy", nogil=True, cache=CACHED)
uncounted_inline = njit(error_model="numpy", nogil=True, _nrt=False, forceinline=True, **bare)
uncounted_kernel = njit(error_model="numpy", nogil=True, _nrt=False, cache=CACHED)
"""
STEPS = {"TwoStacksLite": two_stacks_lite, "DabaLite": daba_lite}
DEFINED = (instructions.__name__, object_partials.__name__)
"""Files whose functions a generated module has under the same names."""


@cache
def load_loops(*modules: ModuleType) -> ModuleType:
    """Return loop files that use no aggregate, compiled as one module."""
    return load_module(HEAD + loops_text(*modules))


@cache
def loops_text(*modules: ModuleType, prefix: str = "") -> str:
    """Return the source of loop files, with their entries as cached kernels.

    Loops that make no arrays may have the prefix `uncounted_`: Numba then does not count references to
    their arguments. It would do so at every call, which takes longer than a short block of rows.
    """
    text = _LoopText(prefix)
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                text.add(value)
    return text.text()


class _LoopText:
    """Collects functions, with the constants and named tuples that they use, each once."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._constants: dict[str, int | float] = {}
        self._structs: dict[type, str] = {}
        self._functions: dict[FunctionType, str] = {}

    def add(self, function: FunctionType) -> None:
        """Add a function and the constants, functions and named tuples that it uses."""
        if function in self._functions:
            return
        self._refuse_namesake(function, self._functions)
        self._functions[function] = self._written(function)
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, int | float):
                self._add_constant(name, value)
            elif isinstance(value, FunctionType) and _is_loop(value):
                self.add(value)
        used = (function.__globals__.get(name) for name in function.__code__.co_names)
        for value in (*used, *function.__annotations__.values()):
            if isinstance(value, type) and hasattr(value, "_fields"):
                self._add_struct(value)

    def text(self) -> str:
        """Return the constants, the named tuples and the functions."""
        constants = [f"{name} = {value!r}" for name, value in self._constants.items()]
        return "\n".join([*self._structs.values(), *constants, *self._functions.values()])

    def _add_struct(self, struct: Any) -> None:
        """Import a named tuple; its fields are in the text, whose hash finds the machine code."""
        if struct not in self._structs:
            self._refuse_namesake(struct, self._structs)
        line = f"from {struct.__module__} import {struct.__name__}"
        self._structs[struct] = f"{line}  # {', '.join(struct._fields)}"

    @staticmethod
    def _refuse_namesake(thing: Any, others: Iterable[Any]) -> None:
        """Refuse a second function or named tuple of one name: it would take the place of the first."""
        for other in others:
            if other.__name__ == thing.__name__:
                raise ValueError(
                    f"{other.__module__} and {thing.__module__} both have {thing.__name__}: rename one"
                )

    def _add_constant(self, name: str, value: int | float) -> None:
        if self._constants.setdefault(name, value) != value:
            raise ValueError(
                f"two loop files have a constant {name}: {self._constants[name]}, {value}"
            )

    def _written(self, function: FunctionType) -> str:
        decorator = "kernel" if is_entry(function) else "inline"
        return f"@{self._prefix}{decorator}\n{ast.unparse(_bare(function))}\n"


def _is_loop(function: FunctionType) -> bool:
    module = function.__module__
    return module not in DEFINED and module.split(".")[-2] == "loops"


@cache
def ring_text(algorithm: str) -> str:
    """Return the step functions of an algorithm, and the loops over rows that call them.

    The step functions are written for a tuple of arrays and unsigned positions.
    """
    return _with_steps(algorithm, loops_text(roll_rings))


@cache
def slices_text() -> str:
    """Return the loops over slices, and those over windows that are kept."""
    return _with_steps("DabaLite", loops_text(slice_partials, slice_trees, kept_windows))


def _with_steps(algorithm: str, loops: str) -> str:
    """Return loops behind the step functions of an algorithm that they call."""
    steps = STEPS[algorithm]
    trees = [
        _WithoutCombine().visit(_Slots().visit(_bare(value)))
        for value in vars(steps).values()
        if isinstance(value, FunctionType) and value.__module__ == steps.__name__
    ]
    ordered = sorted(trees, key=lambda tree: bool(tree.name != "fixup"))
    texts = [f"@inline\n{ast.unparse(ast.fix_missing_locations(tree))}\n" for tree in ordered]
    return "\n".join([*texts, ast.unparse(_WithoutCombine().visit(ast.parse(loops))), ""])


def _bare(function: Callable[..., Any]) -> ast.FunctionDef:
    tree = function_tree(function)
    Bare({}).visit(tree)
    return tree


class _WithoutCombine(ast.NodeTransformer):
    """Drops `combine` from the arguments of step functions: a generated module has it as a global.

    Numba does not cache functions that take other compiled functions as arguments.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.args.args = [argument for argument in node.args.args if argument.arg != "combine"]
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.args = [a for a in node.args if not (isinstance(a, ast.Name) and a.id == "combine")]
        self.generic_visit(node)
        return node


class _Slots(ast.NodeTransformer):
    """A slot becomes load(slots, i) or store(slots, i, x), and whole numbers become unsigned.

    Interpreted slots lie in chunks, compiled ones in arrays: the slot of position p, which is
    slots[p >> BITS & mask][p & LOW], is at place p & mask.
    """

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name("load", ast.Load()), _place(node), []) if _is_slot(node) else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and _is_slot(target):
            arguments = [*map(self.visit, _place(target)), self.visit(node.value)]
            return ast.Expr(ast.Call(ast.Name("store", ast.Load()), arguments, []))
        self.generic_visit(node)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int:
            return ast.Call(ast.Name("U", ast.Load()), [node], [])
        return node


def _is_slot(node: ast.Subscript) -> bool:
    chunk = node.value
    return isinstance(chunk, ast.Subscript) and ast.unparse(chunk.value) == "slots"


def _place(node: ast.Subscript) -> list[ast.expr]:
    """Return the slots and the place in them of slots[p >> BITS & mask][p & LOW]."""
    assert isinstance(node.slice, ast.BinOp)
    assert isinstance(node.value, ast.Subscript)
    mask = ast.Name("mask", ast.Load())
    return [node.value.value, ast.BinOp(node.slice.left, ast.BitAnd(), mask)]
