"""Single machine instructions that Numba has no name for.

With NUMBA_DISABLE_JIT, the functions of `loops.instructions` replace them.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload
from numba.np.numpy_support import as_dtype

from muntin.aggregates.numbers import LEAST
from muntin.aggregates.sums import EXACT_IN_FLOAT
from muntin.kernels.loops import instructions

_WORD = ir.IntType(64)
_HALF = ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()
LEAST_AS_FLOAT = float(LEAST)
"""The least whole number of 64 bits; its negative is the first above the greatest."""
PLAIN = (
    "clock",
    "folded",
    "leading_zeros",
    "put_four",
    "read_soon",
    "trailing_zeros",
    "write_soon",
)
"""The names of functions that `loops.instructions` has too."""


@intrinsic
def clock(typing_context: Any) -> Any:  # noqa: ARG001, D103
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        kind = ir.FunctionType(_WORD, [])
        counter = builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind)
        return builder.call(counter, [])

    return types.int64(), generate


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:  # noqa: ARG001, D103
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def leading_zeros(typing_context: Any, word: Any) -> Any:  # noqa: ARG001, D103
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def folded(typing_context: Any, a: Any, b: Any) -> Any:  # noqa: ARG001, D103
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        twice = ir.IntType(128)
        product = builder.mul(*(builder.zext(word, twice) for word in arguments))
        upper = builder.trunc(builder.lshr(product, ir.Constant(twice, 64)), _WORD)
        return builder.xor(upper, builder.trunc(product, _WORD))

    return types.uint64(types.uint64, types.uint64), generate


def _with_overflow(operation: Any) -> Any:
    """Return an intrinsic that gives the result for two whole numbers, and whether it wrapped."""

    @intrinsic
    def checked(typing_context: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pair = getattr(builder, f"{operation}_with_overflow")(*arguments)
            parts = [builder.extract_value(pair, 0), builder.extract_value(pair, 1)]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.Tuple((types.int64, types.boolean))(types.int64, types.int64), generate

    return checked


_sum_of, _difference_of, _product_of = map(_with_overflow, ("sadd", "ssub", "smul"))


def plus(a: Any, b: Any) -> Any:
    """Add; compiled, a whole number of more than 64 bits is an OverflowError."""
    return a + b


def minus(a: Any, b: Any) -> Any:
    """Subtract, with the same check."""
    return a - b


def times(a: Any, b: Any) -> Any:
    """Multiply, with the same check."""
    return a * b


def power(a: Any, b: Any) -> Any:
    """Raise to a power; compiled, not for whole numbers."""
    return a**b


def floor_quotient(a: Any, b: Any) -> Any:
    """Divide and round down, with the same check."""
    return a // b


def remainder(a: Any, b: Any) -> Any:
    """Return the remainder of a division."""
    return a % b


def magnitude(a: Any) -> Any:
    """Return the absolute value, with the same check."""
    return abs(a)


def within(a: Any) -> Any:
    """Return a number that becomes a whole one; compiled, OverflowError if 64 bits cannot hold it."""
    return a


def put(array: Any, i: Any, x: Any) -> None:
    """Write x into an array; compiled, an error unless the array's type holds x exactly."""
    array[i] = x


def put_nothing(array: Any, i: Any, result: Any) -> None:  # noqa: ARG001
    """Write a missing result; compiled, it does nothing for results that are never None."""
    array[i] = np.nan


@overload(plus)
def _plus(a, b):
    return _checked(a, b, _sum_of, lambda a, b: a + b)


@overload(minus)
def _minus(a, b):
    return _checked(a, b, _difference_of, lambda a, b: a - b)


@overload(times)
def _times(a, b):
    return _checked(a, b, _product_of, lambda a, b: a * b)


@overload(power)
def _power(a, b):
    if _are_whole(a, b):
        raise TypingError("powers of whole numbers are not checked for overflow")
    return lambda a, b: a**b


@overload(floor_quotient)
def _floor_quotient(a, b):
    def divided(a, b):
        if b == 0:
            raise ZeroDivisionError("division by zero")
        return a // b

    def checked(a, b):
        if b == 0:
            raise ZeroDivisionError("division by zero")
        return minus(0, a) if b == -1 else a // b

    return checked if _are_signed(a, b) else divided


@overload(remainder)
def _remainder(a, b):
    def left(a, b):
        if b == 0:
            raise ZeroDivisionError("division by zero")
        return a % b

    def checked(a, b):
        if b == 0:
            raise ZeroDivisionError("division by zero")
        return 0 if b == -1 else a % b

    return checked if _are_signed(a, b) else left


@overload(magnitude)
def _magnitude(a):
    if not isinstance(a, types.Integer):
        return lambda a: abs(a)
    return lambda a: minus(0, a) if a < 0 else a


@overload(within)
def _within(a):
    if not isinstance(a, types.Float):
        return lambda a: a

    def bounded(a):
        if not LEAST_AS_FLOAT <= a < -LEAST_AS_FLOAT:
            raise OverflowError("a whole number has more than 64 bits")
        return a

    return bounded


@overload(put)
def _put(array, i, x):  # noqa: ARG001
    given = types.unliteral(x.type if isinstance(x, types.Optional) else x)
    held = array.dtype
    if isinstance(held, types.Float) and isinstance(given, types.Integer):

        def rounded(array, i, x):
            if not -EXACT_IN_FLOAT <= x <= EXACT_IN_FLOAT:
                raise OverflowError("a whole number among floats has more than 53 bits")
            array[i] = x

        return rounded
    if given != held and not np.can_cast(as_dtype(given), as_dtype(held), "safe"):
        raise TypingError(f"some values are {given} and others {held}")

    def exact(array, i, x):
        array[i] = x

    return exact


@overload(put_nothing)
def _put_nothing(array, i, result):  # noqa: ARG001
    if not isinstance(result, types.Optional | types.NoneType):
        return lambda array, i, result: None  # noqa: ARG005
    if not isinstance(array.dtype, types.Float):
        raise TypingError(f"some results are None and others {array.dtype}")

    def nothing(array, i, result):  # noqa: ARG001
        array[i] = np.nan

    return nothing


def _are_whole(a: Any, b: Any) -> Any:
    return isinstance(a, types.Integer) and isinstance(b, types.Integer)


def _are_signed(a: Any, b: Any) -> Any:
    """Whether both are whole numbers; TypingError if one is unsigned."""
    if _are_whole(a, b) and not (a.signed and b.signed):
        raise TypingError("unsigned whole numbers would become floats")
    return _are_whole(a, b)


def _checked(a: Any, b: Any, operation: Any, plain: Any) -> Any:
    if not _are_signed(a, b):
        return plain

    def checked(a, b):
        result, wrapped = operation(a, b)
        if wrapped:
            raise OverflowError("a whole number has more than 64 bits")
        return result

    return checked


@intrinsic
def put_four(typing_context: Any, array: Any, i: Any, a: Any, b: Any, c: Any, d: Any) -> Any:  # noqa: ARG001, D103
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        held, place = signature.args[0].dtype, _place(context, builder, signature, arguments)
        item, size = place.type.pointee, context.get_abi_sizeof(place.type.pointee)
        four = ir.VectorType(item, 4)
        vector = ir.Constant(four, ir.Undefined)
        for lane, kind in enumerate(signature.args[2:]):
            value = context.cast(builder, arguments[2 + lane], kind, held)
            stored = context.data_model_manager[held].as_data(builder, value)
            vector = builder.insert_element(vector, stored, ir.Constant(_HALF, lane))
        builder.store(vector, builder.bitcast(place, four.as_pointer()), align=size)
        return context.get_dummy_value()

    return types.void(array, types.uint64, a, b, c, d), generate


@intrinsic
def read_soon(typing_context: Any, array: Any, i: Any) -> Any:  # noqa: ARG001, D103
    return types.void(array, types.uint64), _fetch(0)


@intrinsic
def write_soon(typing_context: Any, array: Any, i: Any) -> Any:  # noqa: ARG001, D103
    return types.void(array, types.uint64), _fetch(1)


def _fetch(writes: Any) -> Any:
    """Return the code of a prefetch; the item may be outside of the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.bitcast(_place(context, builder, signature, arguments), _BYTES)
        kind = ir.FunctionType(ir.VoidType(), [_BYTES, _HALF, _HALF, _HALF])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [_BYTES], kind)
        builder.call(fetch, [place, *(ir.Constant(_HALF, x) for x in (writes, 3, 1))])
        return context.get_dummy_value()

    return generate


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of an item in a contiguous array."""
    held = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(held.data, [arguments[1]])


if getattr(config, "DISABLE_JIT", False):
    for _name in PLAIN:
        globals()[_name] = getattr(instructions, _name)
