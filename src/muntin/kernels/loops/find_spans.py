"""Frames over a range of values: a pointer that follows the rows of each group.

Values never fall within a group; NaN is larger than any number and equal to NaN, as in Spark. Rows whose
value is null come first in their group, and their frame is the null rows of the group.
"""

from typing import Any

from muntin.kernels.loops.instructions import entry


def before(x: Any, y: Any) -> Any:
    """Whether x comes before y in the order of values."""
    return x < y or (y != y and x == x)


@entry
def find_starts(values: Any, firsts: Any, known: Any, lows: Any, is_open: Any, starts: Any) -> None:
    """Set starts[i] to the first row of row i's group with a value >= lows[i] (> if `is_open`).

    Group g has rows [firsts[g], firsts[g + 1]), of which those from known[g] on are not null.
    """
    for g in range(len(known)):
        after = firsts[g + 1]
        for i in range(firsts[g], known[g]):
            starts[i] = firsts[g]
        s = known[g]
        for i in range(known[g], after):
            low = lows[i]
            if is_open:
                while s < after and not before(low, values[s]):
                    s += 1
            else:
                while s < after and before(values[s], low):
                    s += 1
            starts[i] = s


@entry
def find_ends(values: Any, firsts: Any, known: Any, highs: Any, is_open: Any, ends: Any) -> None:
    """Set ends[i] to the first row of row i's group with a value > highs[i] (>= if `is_open`)."""
    for g in range(len(known)):
        after = firsts[g + 1]
        for i in range(firsts[g], known[g]):
            ends[i] = known[g]
        e = known[g]
        for i in range(known[g], after):
            high = highs[i]
            if is_open:
                while e < after and before(values[e], high):
                    e += 1
            else:
                while e < after and not before(high, values[e]):
                    e += 1
            ends[i] = e


@entry
def find_ticks(times: Any, edges: Any, tick_edges: Any, ticks: Any, places: Any) -> None:
    """Set places[k] to the first row of tick k's group with a time >= ticks[k], which never fall.

    Group g has rows [edges[g], edges[g + 1]) and ticks [tick_edges[g], tick_edges[g + 1]).
    """
    for g in range(len(edges) - 1):
        after = edges[g + 1]
        i = edges[g]
        for k in range(tick_edges[g], tick_edges[g + 1]):
            while i < after and times[i] < ticks[k]:
                i += 1
            places[k] = i


@entry
def find_rows(edges: Any, low: Any, high: Any, starts: Any, ends: Any) -> None:
    """Set the frames from row i + low to row i + high of each row i, within its group."""
    for g in range(len(edges) - 1):
        first, after = edges[g], edges[g + 1]
        for i in range(first, after):
            starts[i] = min(max(i + low, first), after)
            ends[i] = min(max(i + high + 1, first), after)
