"""Trees over the slices of keys whose rows come late: what changes costs log n combines.

VLDB 2015: FlatFAT, one per key, as a ring of a power of two of leaves. A slice that comes at the end
gets the next label, and label x is leaf x modulo the leaves. A slice that comes between others shares
the label of its neighbour: its leaf is then the aggregate of several slices, and no other leaf moves.
Labels lie beside the slices and move with them; nodes lie where they are.

Invariant: a node is up to date if all its leaves are between that of the first slice and the next
label. The first and the last leaf of a window are folded from its slices, as some of theirs may not be
in it. Cost: 1 combine per slice in order, log2 n for one that changes, 2 log2 n per window.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import U, entry
from muntin.kernels.loops.object_partials import combine, emit, load, store

# The marks of a key's tree.
TREE_END = 0  # behind the last slice in it, as a number in its run; NO_TREE if there is none
TREE_NEXT = 1  # the next label
TREE_BASE = 2  # where its nodes begin
TREE_LEAVES = 3  # the number of leaves, a power of two; there are twice as many nodes
TREE_MARKS = 4
NO_TREE = -1

# A slice that has changed.
CHANGED_KEY = 0  # the number of its key
CHANGED_LABEL = 1  # its label in the key's tree
CHANGED_COLUMNS = 2


class Trees(NamedTuple):
    """The trees of all keys for one aggregate."""

    marks: Any  # per key: TREE_END and so on
    nodes: Any  # the partials of all nodes
    labels: Any  # per place of a slice: its label
    credit: Any  # per key: the combines that its tree may take before stacks are built again
    hit: Any  # per key: where windows ended when a slice in a front changed last


def node_at(marks: Any, key: Any, level: Any, block: Any) -> Any:
    """Return where the node is that has the leaves [block << level, (block + 1) << level)."""
    row = marks[key, TREE_LEAVES] >> level
    return U(marks[key, TREE_BASE] + row + (block & (row - 1)))


def raise_leaf(trees: Trees, key: Any, label: Any, least: Any) -> Any:
    """Bring the nodes above a leaf up to date, of which all leaves are in [least, the next label).

    Return the number of combines.
    """
    marks, nodes = trees.marks, trees.nodes
    after = marks[key, TREE_NEXT]
    level, block = 0, label
    while (block >> 1) << (level + 1) >= least and ((block >> 1) + 1) << (level + 1) <= after:
        pair = block >> 1 << 1
        older = load(nodes, node_at(marks, key, level, pair))
        younger = load(nodes, node_at(marks, key, level, pair + 1))
        level += 1
        block >>= 1
        store(nodes, node_at(marks, key, level, block), combine(older, younger))
    return level


def fold_between(partials: Any, p: Any, q: Any) -> Any:
    """Return the aggregate of the slices at places [p, q)."""
    acc = load(partials, U(p))
    for i in range(p + 1, q):
        acc = combine(acc, load(partials, U(i)))
    return acc


@entry
def extend_trees(partials: Any, trees: Trees, keys: Any, bounds: Any, drift: Any) -> Any:
    """Put slices of keys into their trees, as far as they are not in them.

    `bounds` are (the places of the first slices that any window may have, behind the last). The nodes
    have space. Return the number of combines.
    """
    marks, labels = trees.marks, trees.labels
    first, after = bounds
    combines = 0
    for j in range(len(keys)):
        key = keys[j]
        begin = max(marks[key, TREE_END] + drift[key], first[j])
        if marks[key, TREE_END] == NO_TREE:
            begin = first[j]
            marks[key, TREE_NEXT] = 0
        least = marks[key, TREE_NEXT] if begin == first[j] else labels[first[j]] + 1
        for p in range(begin, after[j]):
            label = marks[key, TREE_NEXT]
            marks[key, TREE_NEXT] += 1
            labels[p] = label
            store(trees.nodes, node_at(marks, key, 0, label), load(partials, U(p)))
            combines += raise_leaf(trees, key, label, least)
        marks[key, TREE_END] = max(begin, after[j]) - drift[key]
    return combines


def first_labelled(labels: Any, p: Any, q: Any, label: Any) -> Any:
    """Return the first place in [p, q) whose label is not below one."""
    while p < q:
        middle = (p + q) // 2
        if labels[middle] < label:
            p = middle + 1
        else:
            q = middle
    return p


@entry
def mend_trees(partials: Any, trees: Trees, changed: Any, first: Any, drift: Any) -> Any:
    """Fold leaves again of which slices have changed, and bring the nodes above up to date.

    `changed` has a key and a label in each row, first[j] is as in `extend_trees`. Return the combines.
    """
    marks, labels = trees.marks, trees.labels
    combines = 0
    for j in range(len(changed)):
        key, label = changed[j, CHANGED_KEY], changed[j, CHANGED_LABEL]
        end = marks[key, TREE_END] + drift[key]
        if marks[key, TREE_END] == NO_TREE or first[j] >= end or label <= labels[first[j]]:
            continue
        p = first_labelled(labels, first[j], end, label)
        q = first_labelled(labels, p, end, label + 1)
        if p < q:
            store(trees.nodes, node_at(marks, key, 0, label), fold_between(partials, p, q))
            combines += q - p - 1 + raise_leaf(trees, key, label, labels[first[j]] + 1)
    return combines


@entry
def query_trees(partials: Any, trees: Trees, keys: Any, spans: Any, outs: Any) -> Any:
    """Emit windows of slices at places [lo[k], hi[k]); return the combines.

    `spans` are (lo, closed, hi): slices before closed[k] are in the trees.
    """
    marks, labels, nodes = trees.marks, trees.labels, trees.nodes
    lo, closed, hi = spans
    combines = 0
    for k in range(len(keys)):
        key, p, q, last = keys[k], lo[k], closed[k], hi[k]
        i = labels[p] + 1 if p < q else 0
        j = labels[q - 1] if p < q else 0
        if i >= j:
            emit(outs, k, fold_between(partials, p, last), U(last - p))
            combines += last - p - 1
            continue
        front, back = first_labelled(labels, p, q, i), first_labelled(labels, p, q, j)
        left = fold_between(partials, p, front)
        right = fold_between(partials, back, last)
        spent = front - p - 1 + last - back
        level = 0
        while i < j:
            if i & 1:
                left = combine(left, load(nodes, node_at(marks, key, level, i)))
                i += 1
                spent += 1
            if j & 1:
                j -= 1
                right = combine(load(nodes, node_at(marks, key, level, j)), right)
                spent += 1
            i >>= 1
            j >>= 1
            level += 1
        emit(outs, k, combine(left, right), U(last - p))
        combines += spent
        trees.credit[key] -= spent
    return combines


def move_labels(trees: Trees, place: Any, tail: Any) -> None:
    """Let labels follow when the slices at places [place, tail) move up by one."""
    labels = trees.labels
    if len(labels) > 0:
        for p in range(tail, place, -1):
            labels[p] = labels[p - 1]


def note_change(
    trees: Trees, key: Any, place: Any, runs: Any, is_new: Any, changed: Any, n: Any
) -> Any:
    """Note that a slice changed or `is_new`, if it is in a tree; return how many are noted.

    A new slice gets the label of the one before it, or if it is the first, of the one behind it. `runs`
    are (the place of each key's first slice, how far its run has drifted).
    """
    marks, labels = trees.marks, trees.labels
    head, drift = runs
    if marks[key, TREE_END] == NO_TREE or place - drift[key] >= marks[key, TREE_END]:
        return n
    if is_new:
        marks[key, TREE_END] += 1
        labels[place] = labels[place + 1] if place == head[key] else labels[place - 1]
    changed[n, CHANGED_KEY] = key
    changed[n, CHANGED_LABEL] = labels[place]
    return n + 1


def label_first(trees: Trees, keys: Any, places: Any, j: Any, head: Any) -> None:
    """Give the second slice of a run the label of the first one that is not new, if part j is the first.

    `places` are those of new slices, in order, and of the keys `keys`.
    """
    labels, place = trees.labels, places[j]
    if place != head or trees.marks[keys[j], TREE_END] == NO_TREE:
        return
    while j + 1 < len(places) and keys[j + 1] == keys[j] and places[j + 1] == places[j] + 1:
        j += 1
    labels[place + 1] = labels[places[j] + 1]
