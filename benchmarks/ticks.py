"""How long single operations take: the worst case by a clock that is read inside the compiled loop."""

from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.kernels.codegen.build import compiled
from muntin.kernels.codegen.layout import Layout

U = np.uint64


def ticks(algorithm: str, aggregate: Aggregate, values: Any, n: int) -> np.ndarray[Any, Any]:
    """Return the clock ticks of evict + insert + query for every row of a window of n rows.

    Ticks are the processor's time-stamp counter. Interrupts are in them: take the minimum over repeats,
    row by row. Runtime: O(rows).

    >>> from muntin import Max
    >>> len(ticks("DabaLite", Max(), np.arange(100.0), 10))
    100
    """
    column = np.ascontiguousarray(values)
    kernels = compiled(aggregate, Layout((column.dtype,), nullable=False, steps=algorithm))
    size = max(2, 1 << (n - 1).bit_length())
    spent = np.empty(len(column), np.int64)
    state = kernels.start((column,), algorithm)
    kernels.module.ring_clock(
        (column,),
        kernels.outputs(len(column)),
        U(n),
        kernels.buffer(size),
        U(size - 1),
        state,
        spent,
    )
    return spent
