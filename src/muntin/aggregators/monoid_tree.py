"""The slide policy of the Monoid Tree Aggregators: the longest old run for which a condition holds.

TPDS 2019, sections 4.1.3 and 4.2.4, Algorithm 2. A policy looks at the total of the window and at the
aggregate of a run of its oldest values. It is monotone: if it holds for a run, it holds for all shorter
ones, so that the longest is found in the tree like a key in a search tree.
A run is found and evicted with at most 4 log2 n combines, however long it is (from 8 values on).
Where we differ: the search climbs from the oldest leaf before it descends, so that it reads no ancestor
of that leaf, and the stale ones of AMTA need no repair; the run is known before anything is evicted, so
that a combine or a policy that raises leaves the window as it was.
"""

from collections.abc import Callable, Sequence
from typing import Any

from muntin.aggregators.aggregator import Aggregator, Combine, Partial
from muntin.aggregators.levels import Level


class MonoidTree(Aggregator):
    """A window as levels of a tree, its values at the bottom."""

    __slots__ = ("_levels",)

    _levels: list[Level]

    def __len__(self) -> int:
        return len(self._levels[0])

    def _total(self) -> Partial:
        """Return the aggregate of the whole window."""
        raise NotImplementedError

    def query(self) -> Any:
        return self._lower(self._total())

    def evict_while(self, holds: Callable[[Partial, Partial], Any]) -> int:
        """Evict the longest run of oldest values for which `holds(total, old)`; return its length.

        Both are partials: of the window as it is, and of the run. The whole window goes if the policy
        holds for all of it. Runtime: O(log n) combines, whatever leaves.

        >>> from muntin import Amta, Count
        >>> window = Amta(Count())
        >>> window.bulk_insert("abcdefgh")
        >>> window.evict_while(lambda total, old: total - old >= 3)  # keep the last three
        5
        >>> window.query()
        3
        """
        if not len(self):
            return 0
        total = self._total()
        n = longest_run(self._levels, self._combine, lambda old: holds(total, old))
        if n:
            self.bulk_evict(n)
        return n

    def slide(self, value: Any, holds: Callable[[Partial, Partial], Any]) -> None:
        """Insert a value, then evict what `evict_while` finds."""
        self.insert(value)
        self.evict_while(holds)


def longest_run(levels: Sequence[Level], combine: Combine, holds: Callable[[Partial], Any]) -> int:
    """Count the leaves of the longest run, from the oldest on, whose aggregate a condition holds for.

    The run is what lies before element i of level l. Nearly always it is short, and often empty: the
    oldest leaf is looked at first (section 4.2.4).
    """
    leaves = levels[0]
    run = leaves[leaves.head]
    if not holds(run):
        return 0
    l, i = 0, leaves.head + 1
    while True:  # climb: what begins behind the oldest leaf, in ever longer stretches
        if not i & 1 and l + 1 < len(levels) and i >> 1 < levels[l + 1].tail:
            l, i = l + 1, i >> 1
            continue
        if i >= levels[l].tail:
            break
        longer = combine(run, levels[l][i])
        if not holds(longer):
            break
        run, i = longer, i + 1
    while l:  # descend: into the element that failed, or to the trees behind this one
        failed = i < levels[l].tail
        l, i = l - 1, i << 1
        end = i + 1 if failed else levels[l].tail  # a failed element's last child fails with it
        while i < end:
            longer = combine(run, levels[l][i])
            if not holds(longer):
                break
            run, i = longer, i + 1
    return min(i, leaves.tail) - leaves.head
