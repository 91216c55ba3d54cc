"""Windows that do not repeat, found one edge after the other: they tell their next edge only."""

from collections.abc import Iterable

from muntin.slicing.loops import ALWAYS
from muntin.windows import ContextFreeWindow


def windows_after(window: ContextFreeWindow, t: int) -> Iterable[tuple[int, int]]:
    """Return the windows that end after t, in the order of their ends, one edge after the other."""
    before, edge = t, window.next_edge(t)
    while edge is not None:
        yield from window.closed(before, edge)
        before, edge = edge, window.next_edge(edge)


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


def end_of_last(window: ContextFreeWindow, t: int) -> int:
    """Return the end of the last window that holds t."""
    last = ALWAYS
    for start, end in windows_after(window, t):
        if start > t:
            break
        last = end
    return last
