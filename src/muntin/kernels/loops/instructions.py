"""What loop files need beside Python: the mark of an entry, indices, and a few machine instructions.

A loop file is plain Python: it imports these functions and runs interpreted. A generated module has the
functions of `codegen.intrinsics` under the same names, which Numba turns into single instructions.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
U: Any = np.uint64
"""The type of an index that is never negative. Numba would check a signed index for being negative."""
ALL_BITS = 2**64 - 1


def entry(function: F) -> F:
    """Mark a loop that Python calls; loops without the mark are called by other loops only."""
    function.__dict__["is_entry"] = True
    return function


def is_entry(function: Callable[..., Any]) -> bool:
    """Whether a loop has the mark."""
    return bool(function.__dict__.get("is_entry", False))


def leading_zeros(x: Any) -> Any:
    """Return the number of zero bits above the highest bit of a word that is set."""
    return U(64 - int(x).bit_length())


def trailing_zeros(x: Any) -> Any:
    """Return the number of zero bits below the lowest bit of a word that is set."""
    return U((int(x) & -int(x)).bit_length() - 1)


def folded(a: Any, b: Any) -> Any:
    """Return the two halves of a product of 128 bits, combined by exclusive or."""
    product = int(a) * int(b)
    return U((product >> 64) ^ (product & ALL_BITS))


def clock() -> int:
    """Return the ticks of a clock that only moves forward."""
    return time.perf_counter_ns()


def read_soon(array: Any, i: Any) -> None:
    """Ask the processor to fetch an element for reading; interpreted, do nothing."""


def write_soon(array: Any, i: Any) -> None:
    """Ask the processor to fetch an element for writing; interpreted, do nothing."""


def put_four(array: Any, i: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    """Write four values side by side into an array."""
    array[i : i + U(4)] = a, b, c, d
