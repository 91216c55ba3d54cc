"""Trees over the slices of those keys whose rows come late (`kernels/loops/slice_trees.py`).

They are made when a window first needs one, with nodes in one array for all keys. When that is full, all
trees are forgotten and made again as they are needed, in a larger one.
"""

from typing import Any

import numpy as np

from muntin.kernels.loops.slice_trees import (
    CHANGED_COLUMNS,
    CHANGED_KEY,
    NO_TREE,
    TREE_BASE,
    TREE_END,
    TREE_LEAVES,
    TREE_MARKS,
    TREE_NEXT,
    Trees,
)
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.arena import Arena
from muntin.slicing.lane import longer
from muntin.slicing.limits import Array

Spans = tuple[Array, Array, Array]
MANY_NOTES = 64
"""After this many batches with changes, what they changed is joined."""
MORE_SLICES = 64
"""A tree has space for so small a part of its slices in addition."""
LOOSE_NODES = 16
"""More nodes than so many per place are of slices that have gone; all trees are made again."""
NO_CHANGES = np.zeros((0, CHANGED_COLUMNS), np.int64)


class SliceTrees:
    """The trees of one aggregate."""

    def __init__(self, arena: Arena, kernels: SliceKernels) -> None:
        self._arena = arena
        self._kernels = kernels
        self._top = 0  # the nodes in use
        self._changed = [NO_CHANGES]  # keys and labels of slices that changed since
        marks = np.full((0, TREE_MARKS), NO_TREE)
        none = np.zeros(0, np.int64)
        self.loops = Trees(marks, kernels.buffer(0), none, none, none)

    def renew(self, places: int) -> None:
        """Make space for labels at some places, if there are trees; free the nodes of many more."""
        if len(self.loops.labels):
            self.loops = self.loops._replace(labels=np.empty(places, np.int64))
        if len(self.loops.nodes[0]) > LOOSE_NODES * places:
            self.forget(np.arange(len(self.loops.marks)))
            self._top = 0
            self.loops = self.loops._replace(nodes=self._kernels.buffer(0))

    def grown(self) -> Trees:
        """Return the trees, with space for keys that came since."""
        more = self._arena.keys - len(self.loops.marks)
        if more > 0:
            marks, _, _, credit, hit = self.loops
            marks = np.append(marks, np.full((more, TREE_MARKS), NO_TREE), axis=0)
            credit, hit = longer(credit, len(marks), 0), longer(hit, len(marks), -1)
            self.loops = self.loops._replace(marks=marks, credit=credit, hit=hit)
        return self.loops

    def note(self, changed: Array) -> None:
        """Note the keys and labels of slices that have changed."""
        self._changed.append(changed)
        if len(self._changed) > MANY_NOTES:
            self._changed = [np.unique(np.concatenate(self._changed), axis=0)]

    def forget(self, keys: Array) -> None:
        """Have no trees of some keys."""
        marks = self.loops.marks
        marks[keys[keys < len(marks)], TREE_END] = NO_TREE

    def keep_keys(self, alive: Array) -> None:
        """Drop the keys that are not alive; the others get new numbers."""
        chosen = alive[: len(self.loops.marks)]
        marks, _, _, credit, hit = self.loops
        self.loops = self.loops._replace(
            marks=marks[chosen], credit=credit[chosen], hit=hit[chosen]
        )
        self.forget(np.arange(len(self.loops.marks)))
        self._top = 0
        self._changed = [NO_CHANGES]

    def query(self, partials: Any, keys: Array, spans: Spans, outs: Any) -> int:
        """Write the results of windows of slices; return the combines.

        `spans` are the places of their slices, (lo, closed, hi): those before `closed` are in the tree.
        """
        module, drift = self._kernels.module, self._arena.drift
        owners, at = np.unique(keys, return_inverse=True)
        first, after = self._arena.head[owners], np.zeros(len(owners), np.int64)
        np.minimum.at(first, at, spans[0])
        np.maximum.at(after, at, spans[1])
        np.maximum(after, first, out=after)
        self._make_space(owners, first, after)
        combines = int(module.extend_trees(partials, self.loops, owners, (first, after), drift))
        changed = self._changes(owners)
        firsts = first[np.searchsorted(owners, changed[:, CHANGED_KEY])]
        combines += int(module.mend_trees(partials, self.loops, changed, firsts, drift))
        return combines + int(module.query_trees(partials, self.loops, keys, spans, outs))

    def _changes(self, owners: Array) -> Array:
        """Take out what changed in the trees of some keys; each slice once."""
        changed = np.unique(np.concatenate(self._changed), axis=0)
        mine = np.isin(changed[:, CHANGED_KEY], owners)
        self._changed = [changed[~mine]]
        return np.ascontiguousarray(changed[mine])

    def _make_space(self, keys: Array, first: Array, after: Array) -> None:
        """Make trees of those keys that have none, or one that is too small or too uneven."""
        if len(self.loops.labels) == 0:
            self.loops = self.loops._replace(labels=np.zeros(self._arena.places, np.int64))
        marks, _, labels, _, _ = self.grown()
        begin = marks[keys, TREE_END] + self._arena.drift[keys]
        goes_on = (marks[keys, TREE_END] != NO_TREE) & (begin > first)
        oldest = np.where(goes_on, labels[first], marks[keys, TREE_NEXT])
        used = marks[keys, TREE_NEXT] - oldest + after - np.maximum(begin, first)
        known = marks[keys, TREE_END] != NO_TREE
        fits = known & (used <= marks[keys, TREE_LEAVES]) & (2 * used >= after - first)
        if fits.all():
            return
        made, slices = keys[~fits], (after - first)[~fits]
        leaves = 1 << np.ceil(np.log2(slices + slices // MORE_SLICES + 2)).astype(np.int64)
        nodes = 2 * int(leaves.sum())
        if self._top + nodes > len(self.loops.nodes[0]):
            others = marks[marks[:, TREE_END] != NO_TREE, TREE_LEAVES]
            size = nodes + 2 * int(others.sum())
            size += size // 4
            self.forget(np.arange(len(marks)))
            self._top = 0
            if size > len(self.loops.nodes[0]):
                self.loops = self.loops._replace(nodes=self._kernels.buffer(size))
            self._make_space(keys, first, after)
            return
        marks[made, TREE_END], marks[made, TREE_LEAVES] = NO_TREE, leaves
        marks[made, TREE_BASE] = self._top + 2 * (np.cumsum(leaves) - leaves)
        self._top += nodes
