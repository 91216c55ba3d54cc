"""The mark of an entry, the type of indices, and a few machine instructions, for loop files.

A loop file imports these functions and runs interpreted. A generated module has the functions of
`codegen.intrinsics` under the same names, which Numba turns into single instructions.
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
    """Mark a loop that Python calls; only other loops call the loops without this mark."""
    function.__dict__["is_entry"] = True
    return function


def is_entry(function: Callable[..., Any]) -> bool:
    """Whether a loop has the mark."""
    return bool(function.__dict__.get("is_entry", False))


def leading_zeros(x: Any) -> Any:
    """Return the number of zero bits above the highest bit that is set in x."""
    return U(64 - int(x).bit_length())


def trailing_zeros(x: Any) -> Any:
    """Return the number of zero bits below the lowest bit that is set in x."""
    return U((int(x) & -int(x)).bit_length() - 1)


def folded(a: Any, b: Any) -> Any:
    """Return the exclusive or of the two halves of a * b, which has 128 bits."""
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
    """Write the values a, b, c and d into an array from place i on."""
    array[i : i + U(4)] = a, b, c, d
