"""Single machine instructions that Numba has no name for."""
# mypy: ignore-errors

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_WORD = ir.IntType(64)


@intrinsic
def clock(typing_context):  # noqa: ARG001, D103
    def generate(context, builder, signature, arguments):  # noqa: ARG001
        kind = ir.FunctionType(_WORD, [])
        counter = builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind)
        return builder.call(counter, [])

    return types.int64(), generate


@intrinsic
def trailing_zeros(typing_context, word):  # noqa: ARG001, D103
    def generate(context, builder, signature, arguments):  # noqa: ARG001
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def leading_zeros(typing_context, word):  # noqa: ARG001, D103
    def generate(context, builder, signature, arguments):  # noqa: ARG001
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate
