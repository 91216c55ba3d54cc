"""Nodes of the B-tree that Fiba holds by its ends: how they are split, evened out and read.

What moves entries between nodes combines nothing. Who calls it computes the aggregates of the nodes that
have changed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from muntin.aggregators.aggregator import Partial

MIN_ARITY = 2  # the paper's mu; 2 needs the fewest combines, 4 is a little faster if they are cheap
MIN_ENTRIES = MIN_ARITY - 1
MAX_ENTRIES = 2 * MIN_ARITY - 1
ARITY = 3 * MIN_ARITY // 2  # of the parts of a node that is split into several

LEFT, RIGHT = 1, 2
ROOT = LEFT | RIGHT  # the root is the top of both spines


class Node:
    """A node of the B-tree: child, entry, child, ..., entry, child; a leaf has no children."""

    __slots__ = ("agg", "children", "parent", "spine", "times", "values")

    def __init__(
        self, times: list[Any], values: list[Partial], children: list["Node"], spine: int
    ) -> None:
        self.times = times
        self.values = values
        self.children = children
        self.spine = spine  # 0, LEFT, RIGHT or ROOT
        self.parent: Node | None = None
        self.agg: Partial = None
        for child in children:
            child.parent = self


def place_before(leaf: Node, time: Any) -> tuple[Node, int]:
    """Find the leaf and the index for an entry that is no younger than one that goes into this leaf."""
    node = leaf
    while node.parent is not None:
        i = node.parent.children.index(node)
        if i and node.parent.times[i - 1] <= time:
            break
        node = node.parent
    while node.children:
        node = node.children[bisect_right(node.times, time)]
    return node, bisect_right(node.times, time)


def split(node: Node) -> list[Node]:
    """Cut a node with too many entries into nodes of about two, and return them.

    Entries between them go up to the parent, which is there.
    """
    parent = node.parent
    assert parent is not None
    arity = len(node.times) + 1
    count = max(-(-arity // (MAX_ENTRIES + 1)), arity // ARITY)
    kept, more = divmod(arity - count, count)
    parts, times, values, begin = [node], [], [], 0
    whole = node.times, node.values, node.children
    for number in range(count):
        end = begin + kept + (number < more)
        mine = whole[0][begin:end], whole[1][begin:end], whole[2][begin : end + 1]
        if number == 0:
            node.times, node.values, node.children = mine
        else:
            parts.append(Node(*mine, spine=0))
            parts[-1].parent = parent
        if number < count - 1:
            times.append(whole[0][end])
            values.append(whole[1][end])
        begin = end + 1
    parts[-1].spine |= node.spine & RIGHT
    node.spine &= LEFT
    i = parent.children.index(node)
    parent.times[i:i] = times
    parent.values[i:i] = values
    parent.children[i : i + 1] = parts
    return parts


def even_out(parent: Node, i: int) -> Node | None:
    """Merge the i-th and the next child if one node can hold both, else share their entries alike.

    Return the node that has gone, if they were merged.
    """
    left, right = parent.children[i : i + 2]
    times = [*left.times, parent.times[i], *right.times]
    values = [*left.values, parent.values[i], *right.values]
    children = left.children + right.children
    merge = len(times) <= MAX_ENTRIES
    m = len(times) if merge else len(times) // 2
    left.times, left.values, left.children = times[:m], values[:m], children[: m + 1]
    for child in left.children:
        child.parent = left
    if merge:
        del parent.times[i], parent.values[i], parent.children[i + 1]
        left.spine |= right.spine & RIGHT
        right.parent = None
        return right
    parent.times[i], parent.values[i] = times[m], values[m]
    right.times, right.values = times[m + 1 :], values[m + 1 :]
    right.children = children[m + 1 :]
    for child in right.children:
        child.parent = right
    return None


def release(node: Node) -> int:
    """Count the entries of a dropped subtree, and leave no reference cycles in it."""
    node.parent = None
    return len(node.times) + sum(map(release, node.children))


def entries_of(node: Node) -> Iterator[tuple[Any, Partial]]:
    """Yield the entries of a subtree, the oldest first."""
    for k, entry in enumerate(zip(node.times, node.values, strict=True)):
        if node.children:
            yield from entries_of(node.children[k])
        yield entry
    if node.children:
        yield from entries_of(node.children[-1])


def pieces(node: Node, start: Any | None, end: Any | None) -> list[Partial]:
    """Return partials that make up a subtree's values in [start, end); None is an open side."""
    times, values, children = node.times, node.values, node.children
    i = 0 if start is None else bisect_left(times, start)
    j = len(times) if end is None else bisect_left(times, end)
    if not children:
        return values[i:j]
    if i == j:
        return pieces(children[i], start, end)
    # A child that is taken whole lies between others of its level, off the spines: its agg is up.
    found = [children[i].agg] if start is None else pieces(children[i], start, None)
    found.append(values[i])
    for k in range(i + 1, j):
        found += (children[k].agg, values[k])
    found += [children[j].agg] if end is None else pieces(children[j], None, end)
    return found
