"""Windows that do not repeat, found one edge after the other: they tell their next edge only."""

from collections.abc import Iterable
from itertools import takewhile

import numpy as np

from muntin.slicing.limits import ALWAYS, END_OF_TIME, Array
from muntin.windows import ContextFreeWindow, Periodic


def edge_after(window: ContextFreeWindow, t: int) -> int | None:
    """Return a window's next edge, or refuse one that no watermark reaches."""
    edge = window.next_edge(t)
    if edge is not None and not t < edge <= END_OF_TIME:
        raise ValueError(
            f"the edge of {window.describe()} after {t} must be behind it and 2**62 at most; next_edge "
            f"gave {edge!r}: return None if there is no other edge"
        )
    return edge


def windows_after(window: ContextFreeWindow, t: int) -> Iterable[tuple[int, int]]:
    """Return the windows that end after t, in the order of their ends, one edge after the other."""
    before, edge = t, edge_after(window, t)
    while edge is not None:
        yield from window.closed(before, edge)
        before, edge = edge, edge_after(window, edge)


def windows_with(
    window: ContextFreeWindow, starts: list[int], after: int, upto: int
) -> list[tuple[int, int]]:
    """Return the windows with after < end <= upto that hold a slice, in the order of their ends."""
    held: dict[tuple[int, int], None] = {}
    seen = ALWAYS
    for s in starts:
        for start, end in windows_after(window, max(s, after, seen)):
            if start > s or end > upto:
                break
            held[start, end] = None
            seen = end
    return list(held)


def ends_of_last(window: ContextFreeWindow, values: Array) -> Array:
    """Return the end of the last window that holds each value; between two edges it is the same."""
    different, place = np.unique(values, return_inverse=True)
    ends, i = np.empty(len(different), np.int64), 0
    while i < len(different):
        t = int(different[i])
        edge = edge_after(window, t)
        behind = len(different) if edge is None else int(np.searchsorted(different, edge))
        ends[i:behind] = end_of_last(window, t)
        i = behind
    found: Array = ends[place]
    return found


def end_of_last(window: ContextFreeWindow, t: int) -> int:
    """Return the end of the last window that holds t."""
    if isinstance(window, Periodic):
        end = (t - window.origin) // window.every * window.every + window.origin + window.size
        return end if end > t else ALWAYS
    return max((end for _, end in windows_at(window, t)), default=ALWAYS)


def windows_at(window: ContextFreeWindow, t: int) -> Iterable[tuple[int, int]]:
    """Return the windows that hold t, in the order of their ends."""
    return takewhile(lambda bounds: bounds[0] <= t, windows_after(window, t))
