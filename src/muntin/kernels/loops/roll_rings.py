"""Windows over a stream of arrays: an algorithm's own step functions in compiled loops.

A generated module has these functions beside those of an aggregate. In it insert, evict and query
are the step functions of one algorithm (`aggregators/two_stacks_lite.py`, `aggregators/daba_lite.py`),
which find combine in the module and work on slots, a tuple of arrays with one field of a partial each.
All state goes in and out, so that the next array continues where this one ended.
"""

from typing import Any

from muntin.aggregators.two_stacks_lite import empty_state, evict, insert, query
from muntin.kernels.loops.instructions import U, clock, entry
from muntin.kernels.loops.object_partials import combine, emit, lift_at


@entry
def ring_rows(
    values: Any, outs: Any, n: Any, lo: Any, hi: Any, slots: Any, mask: Any, state: Any
) -> Any:
    """Emit the windows of the last n rows for rows [lo, hi) and return the state."""
    for i in range(lo, hi):
        v = lift_at(values, i)
        if state[1] - state[0] == n:
            state = evict(slots, mask, state, combine, v)
        state = insert(slots, mask, state, v, combine, v)
        emit(outs, i, query(slots, mask, state, combine), state[1] - state[0])
    return state


@entry
def ring_times(
    values: Any,
    outs: Any,
    times: Any,
    size: Any,
    past: Any,
    lo: Any,
    hi: Any,
    slots: Any,
    stamps: Any,
    mask: Any,
    state: Any,
) -> Any:
    """Emit the windows of the last `size` of time for rows [lo, hi).

    Returns how far it came and the state: it stops at a row for which the ring has no room.
    """
    for i in range(lo, hi):
        v = lift_at(values, i)
        first = times[i] - size + past
        while state[0] != state[1] and stamps[state[0] & mask] < first:
            state = evict(slots, mask, state, combine, v)
        if state[1] - state[0] > mask:
            return i, state
        stamps[state[1] & mask] = times[i]
        state = insert(slots, mask, state, v, combine, v)
        emit(outs, i, query(slots, mask, state, combine), state[1] - state[0])
    return hi, state


@entry
def ring_start(values: Any) -> Any:
    """Return the state of an empty window; the partial in it only tells its type."""
    return empty_state(lift_at(values, U(0)))


@entry
def ring_clock(
    values: Any, outs: Any, n: Any, slots: Any, mask: Any, state: Any, ticks: Any
) -> Any:
    """As ring_rows over all rows, with the ticks that each evict, insert and query took together."""
    for i in range(U(0), U(len(values[0]))):
        v = lift_at(values, i)
        before = clock()
        if state[1] - state[0] == n:
            state = evict(slots, mask, state, combine, v)
        state = insert(slots, mask, state, v, combine, v)
        p = query(slots, mask, state, combine)
        emit(outs, i, p, state[1] - state[0])
        ticks[i] = clock() - before
    return state
