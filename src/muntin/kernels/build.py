"""(algorithm, aggregate, layout) to a compiled function.

The layout says what a partial is made of: the number types of the input columns, and whether rows may be
null. With nulls a partial carries the number of its values, and a null row one of zero values, so that
nothing needs an identity. What cannot be written out is compiled in memory; what Numba refuses is a
NotCompilableError that says why, and the caller runs the interpreted form.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from muntin.aggregates.aggregate import Aggregate, Kernel
from muntin.aggregators import daba_lite, two_stacks_lite
from muntin.kernels import drivers, ring_drivers
from muntin.kernels.cache import load_module, memory_module
from muntin.kernels.generate import NoSourceError, Writer, function_tree

HEAD = """
import numpy as np
from numba import njit

from muntin.kernels.intrinsics import clock, leading_zeros, trailing_zeros

U = np.uint64
inline = njit(error_model="numpy", nogil=True)
kernel = njit(error_model="numpy", nogil=True, cache=CACHED)
"""
ENTRIES = (
    "roll_rows",
    "roll_spans",
    "roll_times",
    "ring_rows",
    "ring_times",
    "ring_start",
    "ring_clock",
    "roll_ranks",
)
STEPS = {"TwoStacksLite": two_stacks_lite, "DabaLite": daba_lite}


U = np.uint64


class NotCompilableError(TypeError):
    """The aggregate cannot be compiled for these columns; the message says why."""


@dataclass(frozen=True)
class Layout:
    """What the rows are: the number types of the input columns, and whether rows may be null.

    `form` chooses a special form of the aggregate's kernel (plain, shifted), `steps` an algorithm's own
    step functions in place of the loops over whole arrays.
    """

    columns: tuple[np.dtype[Any], ...]
    nullable: bool
    form: str = ""
    steps: str = ""


@dataclass(frozen=True)
class Compiled:
    """A generated module with the types of a partial's fields and of the results."""

    module: ModuleType
    fields: tuple[np.dtype[Any], ...]
    results: tuple[np.dtype[Any], ...]
    nullable: bool
    cached: bool

    def buffer(self, size: int) -> tuple[Any, ...]:
        """Return arrays for `size` partials, one per field."""
        counts = (np.empty(size, np.int64),) if self.nullable else ()
        return counts + tuple(np.empty(size, field) for field in self.fields)

    def outputs(self, size: int) -> tuple[Any, ...]:
        """Return arrays for `size` results; with nulls, the number of values comes first."""
        counts = (np.zeros(size, np.int64),) if self.nullable else ()
        return counts + tuple(np.empty(size, result) for result in self.results)


@cache
def compiled(aggregate: Aggregate, layout: Layout) -> Compiled:
    """Return the kernels of an aggregate on a layout; nothing is compiled before it is called."""
    kernel = kernel_of(aggregate, layout.form)
    own = aggregate.kernel is None
    fields, results, scalar, several = _types(aggregate.name, kernel, layout, own)
    if own and aggregate.lower(aggregate.identity) is None:
        results = tuple(np.result_type(result, np.float64) for result in results)
    combine = kernel.plain if layout.form == "plain" and kernel.plain else kernel.combine
    functions: dict[str, Callable[..., Any]] = {
        "lift": kernel.lift,
        "merge": combine,
        "lower": kernel.lower,
    }
    frame = _frame(layout, len(fields), len(results), scalar, several, own)
    body = _steps(layout.steps) + loops(ring_drivers) if layout.steps else loops(drivers)
    try:
        writer = Writer()
        for name, function in functions.items():
            writer.write(function, name)
        module = load_module("\n".join([HEAD, writer.text(), frame, body]))
    except NoSourceError:
        module = _in_memory(aggregate.name, functions, frame + body)
    kernels = Compiled(module, fields, results, layout.nullable, bool(module.__dict__["CACHED"]))
    return kernels if aggregate.kernel is not None else _tried(kernels, aggregate.name, layout)


def kernel_of(aggregate: Aggregate, form: str) -> Kernel:
    """Return the compilable form: declared, or a user's own functions taken as they are."""
    if aggregate.kernel is not None:
        shifted = aggregate.kernel.shifted if form == "shifted" else None
        return shifted or aggregate.kernel
    if aggregate.holistic or aggregate.encode is not None:
        raise NotCompilableError(f"{aggregate.name!r} works on objects, not on numbers")
    return Kernel(aggregate.lift, aggregate.combine, aggregate.lower)  # lower without a count


def _tried(kernels: Compiled, name: str, layout: Layout) -> Compiled:
    """Compile a user's own aggregate on one row, to learn now whether Numba takes it."""
    from numba.core.errors import NumbaError

    row = tuple(np.ones(1, column) for column in layout.columns)
    row = (*row, np.ones(1, np.bool_)) if layout.nullable else row
    try:
        if layout.steps:
            kernels.module.ring_start(row)
        else:
            buffers = [kernels.buffer(2) for _ in range(4)]
            kernels.module.roll_rows(row, kernels.outputs(1), U(1), U(0), U(1), *buffers)
    except (
        NumbaError,
        ArithmeticError,
        LookupError,
        NotImplementedError,
        TypeError,
        ValueError,
    ) as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise NotCompilableError(f"{name!r} is not understood by Numba: {reason}") from error
    return kernels


def _types(
    name: str, kernel: Kernel, layout: Layout, own: bool
) -> tuple[tuple[np.dtype[Any], ...], tuple[np.dtype[Any], ...], bool, bool]:
    """Find the types of partials and results by trying the functions on a few numbers."""
    sample = tuple(np.ones(1, column)[0] for column in layout.columns)
    value = sample[0] if len(sample) == 1 else sample
    try:
        partial = kernel.lift(value)
        merged = kernel.combine(partial, partial)
        result = kernel.lower(merged) if own else kernel.lower(merged, 2)
    except (TypeError, ValueError, AttributeError, IndexError, KeyError, ArithmeticError) as error:
        raise NotCompilableError(f"{name!r} does not take {value!r}: {error!r}") from error
    scalar = not isinstance(partial, tuple)
    fields = tuple(
        np.result_type(_number_type(name, a), _number_type(name, b))
        for a, b in zip(_flat(partial), _flat(merged), strict=True)
    )
    results = tuple(_number_type(name, x) for x in _flat(result))
    return fields, results, scalar, isinstance(result, tuple)


def _flat(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _number_type(name: str, value: Any) -> np.dtype[Any]:
    if isinstance(value, bool | np.bool_):
        return np.dtype(np.bool_)
    if isinstance(value, np.generic) and value.dtype.kind in "iuf":
        return value.dtype
    if isinstance(value, int):
        return np.dtype(np.int64)
    if isinstance(value, float):
        return np.dtype(np.float64)
    raise NotCompilableError(f"{name!r} makes {value!r}, which is not a number")


def _frame(
    layout: Layout, fields: int, results: int, scalar: bool, several: bool, own: bool
) -> str:
    """Write the functions that hide the layout from the drivers."""
    shift = int(layout.nullable)
    columns = ", ".join(f"values[{k}][i]" for k in range(len(layout.columns)))
    lifted = f"lift(({columns}))" if len(layout.columns) > 1 else f"lift({columns})"
    parts = ", ".join(f"q[{k + shift}][i]" for k in range(fields))
    loaded = parts if scalar else f"({parts},)"
    stored = [f"q[{k + shift}][i] = {'x' if scalar else f'x[{k}]'}" for k in range(fields)]
    emitted = [
        f"outs[{k + shift}][i] = {f'result[{k}]' if several else 'result'}" for k in range(results)
    ]
    lowered = "lower(x)" if own else "lower(x, np.int64(rows))"
    nothing = "; ".join(f"outs[{k + shift}][i] = np.nan" for k in range(results))
    some = "; ".join(emitted)
    found = f"if result is None: {nothing}" + f"\n{' ' * 16}else: {some}" if own else some
    lines = {
        False: f"""
            @inline
            def lift_at(values, i):
                return {lifted}

            combine = merge

            @inline
            def load(q, i):
                return {loaded}

            @inline
            def store(q, i, x):
                {"; ".join(stored)}

            @inline
            def emit(outs, i, x, rows):
                result = {lowered}
                {found}

            @inline
            def emit_empty(outs, i):
                pass
            """,
        True: f"""
            @inline
            def lift_at(values, i):
                return (np.int64(values[{len(layout.columns)}][i]), {lifted})

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
                q[0][i] = p[0]; {"; ".join(stored)}

            @inline
            def emit(outs, i, p, rows):
                x, rows = p[1], p[0]
                outs[0][i] = rows
                if rows == 0:
                    return
                result = {lowered}
                {found}

            @inline
            def emit_empty(outs, i):
                outs[0][i] = 0
            """,
    }
    return textwrap.dedent(lines[layout.nullable])


@cache
def loops(module: ModuleType) -> str:
    """Return the source of the array loops, the entries as cached kernels."""
    texts = []
    for function in vars(module).values():
        if inspect.isfunction(function):
            tree = _bare(function_tree(function))
            decorator = "kernel" if tree.name in ENTRIES else "inline"
            texts.append(f"@{decorator}\n{ast.unparse(tree)}\n")
    return "\n".join(texts)


@cache
def _steps(algorithm: str) -> str:
    """Return the algorithm's step functions, written for a tuple of arrays and unsigned pointers."""
    module = STEPS[algorithm]
    trees = [
        _bare(function_tree(f))
        for f in vars(module).values()
        if inspect.isfunction(f) and f.__module__ == module.__name__
    ]
    lowered = [ast.fix_missing_locations(_Slots().visit(tree)) for tree in trees]
    ordered = sorted(lowered, key=lambda tree: tree.name != "fixup")
    return "\n".join(f"@inline\n{ast.unparse(tree)}\n" for tree in ordered)


def _bare(tree: ast.FunctionDef) -> ast.FunctionDef:
    tree.returns = None
    for argument in tree.args.args:
        argument.annotation = None
    if ast.get_docstring(tree) is not None:
        del tree.body[0]
    return tree


class _Slots(ast.NodeTransformer):
    """slots[i] becomes load(slots, i) or store(slots, i, x), and whole numbers become unsigned.

    combine is no longer an argument but a name of the module: Numba does not cache functions that are
    handed other compiled functions.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.args.args = [argument for argument in node.args.args if argument.arg != "combine"]
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.args = [a for a in node.args if not (isinstance(a, ast.Name) and a.id == "combine")]
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "slots":
            return ast.Call(ast.Name("load", ast.Load()), [node.value, node.slice], [])
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and ast.unparse(target.value) == "slots":
            place = self.visit(target.slice)
            arguments = [target.value, place, self.visit(node.value)]
            return ast.Expr(ast.Call(ast.Name("store", ast.Load()), arguments, []))
        self.generic_visit(node)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int:
            return ast.Call(ast.Name("U", ast.Load()), [node], [])
        return node


def _in_memory(name: str, functions: dict[str, Any], text: str) -> ModuleType:
    import numba

    jitted = {}
    for role, function in functions.items():
        jitted[role] = numba.njit(error_model="numpy", nogil=True)(function)
    return memory_module(f"muntin_{name}", HEAD + text, **jitted)
