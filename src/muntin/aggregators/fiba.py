"""FiBA: a B-tree held by its two ends, for values that arrive at any time.

Entries (time, value) lie in all nodes; the fingers are the leftmost and the rightmost leaf. Every
node stores one aggregate: off the spines that of its subtree (up); on the left spine that of its
subtree without its first child, then its parent's unless that is the root (left); on the right
spine mirrored (right); in the root what is between its first and last child (inner). So a change
near an end is repaired near that end, and left finger ⊗ root ⊗ right finger is the whole window.
"Optimal and General Out-of-Order Sliding-Window Aggregation" (VLDB 2019); in bulk after
"Out-of-Order Sliding-Window Aggregation with Efficient Bulk Evictions and Insertions" (VLDB 2023).
Combines: insert amortised O(log d) at distance d from the young end, evict amortised O(1), both at
worst O(log n), bulk eviction O(log n), query 2. Where we differ: equal times stay separate entries;
a cut is mended in one pass from its top, which gives every node on it a child to spare; when the
right spine splits, the aggregate above grows by two combines instead of being computed again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import pairwise
from operator import itemgetter
from typing import Any, ClassVar, overload

from muntin.aggregates import Aggregate
from muntin.aggregators.aggregator import Aggregator, Card, Partial, empty_window, require
from muntin.aggregators.finger_nodes import (
    LEFT,
    MAX_ENTRIES,
    MIN_ENTRIES,
    RIGHT,
    ROOT,
    Node,
    entries_of,
    even_out,
    pieces,
    place_before,
    release,
    split,
)

_ABSENT: Any = object()


class Fiba(Aggregator):
    """A window whose values arrive at any time and leave one by one or many at once.

    Runtime in combines: insert amortised O(log d) at distance d from the young end, evict amortised
    O(1), query O(1), bulk eviction and range query O(log n).

    >>> from muntin import Fiba, Sum
    >>> window = Fiba(Sum())
    >>> window.bulk_insert([1, 3, 2], times=[10, 30, 20])
    >>> window.query(), window.range_query(10, 30)
    (6, 3)
    >>> window.evict_until(20), window.query(), window.oldest
    (2, 3, 30)
    """

    __slots__ = ("_left", "_right", "_root", "_size")

    card: ClassVar[Card] = Card(
        ordering="any order",
        needs="associative",
        time="amortised O(log d) at distance d from the young end, worst O(log n)",
        space="at most 2n + 1",
        paper="VLDB 2019; bulk insertion and eviction VLDB 2023",
    )

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._root = self._left = self._right = Node([], [], [], ROOT)
        self._root.agg = self._identity
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def oldest(self) -> Any:
        """The oldest time, None if the window is empty: O(1)."""
        return self._left.times[0] if self._size else None

    @property
    def youngest(self) -> Any:
        """The youngest time, None if the window is empty: O(1)."""
        return self._right.times[-1] if self._size else None

    @overload
    def insert(self, value: Any, /) -> None: ...
    @overload
    def insert(self, time: Any, value: Any) -> None: ...
    def insert(self, time: Any, value: Any = _ABSENT) -> None:
        """Add a value at a time, behind its equals; if none is given, at the youngest + 1 or 0.

        Runtime: amortised O(log d) at distance d from the young end, worst O(log n).
        """
        if value is _ABSENT:
            time, value = self._next_time(), time
        self._insert_partial(time, self._lift(value))

    def _insert_partial(self, time: Any, partial: Partial) -> None:
        leaf, i = self._locate(time)
        try:
            self._put(leaf, i, time, partial)
        except BaseException:
            entries = list(entries_of(self._root))
            del entries[bisect_right(entries, time, key=itemgetter(0)) - 1]
            self._rebuild(entries)
            raise

    def bulk_insert(self, values: Iterable[Any], times: Iterable[Any] | None = None) -> None:
        """Insert several values, each at its time or all at the young end, the oldest first.

        All of them are inserted, or none. Runtime for m values, the oldest at distance d from the young
        end: O(log d + m (1 + log(d / m))); each node that has changed is computed once.
        """
        partials = [self._lift(value) for value in values]
        given = self._next_times(len(partials)) if times is None else list(times)
        if len(partials) != len(given):
            raise ValueError(f"{len(partials)} values cannot be inserted at {len(given)} times")
        if len(given) == 1:
            self._insert_partial(given[0], partials[0])
        elif given:
            self._insert_all(*self._in_order(given, partials))

    def _next_times(self, count: int) -> list[Any]:
        """Return times after the youngest, one after the other."""
        found: list[Any] = []
        for _ in range(count):
            found.append(found[-1] + 1 if found else self._next_time())
        return found

    def _in_order(
        self, times: list[Any], partials: list[Partial]
    ) -> tuple[list[Any], list[Partial]]:
        """Return times and partials sorted by time, equal times in the order of arrival."""
        try:
            if not all(time <= time for time in times):  # not so for NaN
                raise self._without_place(next(time for time in times if not time <= time))
            order = sorted(range(len(times)), key=times.__getitem__)
        except TypeError as error:
            if "cannot be ordered" in str(error):
                raise
            raise TypeError(f"the times cannot be ordered among each other: {error}") from error
        return [times[i] for i in order], [partials[i] for i in order]

    def _insert_all(self, times: list[Any], partials: list[Partial]) -> None:
        """Put sorted entries into their leaves, split the leaves, and repair what has changed."""
        touched: dict[Node, None] = {}
        place = self._locate(times[-1])
        placed = []
        for time in reversed(times):
            place = place_before(place[0], time)
            placed.append(place)
        for (leaf, i), time, partial in zip(
            placed, reversed(times), reversed(partials), strict=True
        ):
            leaf.times.insert(i, time)
            leaf.values.insert(i, partial)
            touched[leaf] = None
        self._size += len(times)
        try:
            self._repair(touched)
        except BaseException:
            entries = list(entries_of(self._root))
            for time in reversed(times):  # new ones are the last of their time
                del entries[bisect_right(entries, time, key=itemgetter(0)) - 1]
            self._rebuild(entries)
            raise

    def _repair(self, touched: dict[Node, None]) -> None:
        """Split nodes level by level, and compute each node once that has changed."""
        highest: dict[int, Node] = {}  # by spine
        level = [*touched]
        while level:
            above: dict[Node, None] = {}
            for node in level:
                parts = self._split(node) if len(node.times) > MAX_ENTRIES else [node]
                for part in parts:
                    if part.spine:
                        highest[part.spine] = part
                    else:
                        self._refresh(part)
                parent = node.parent
                if parent is not None and (len(parts) > 1 or not node.spine):
                    above[parent] = None
            level = [*above]
        for spine, node in highest.items():
            self._refresh(node)
            if spine != ROOT:
                self._refresh_below(node, spine)

    def evict(self) -> None:
        """Remove the oldest value, IndexError if none: amortised O(1), worst O(log n)."""
        if not self._size:
            raise empty_window()
        leaf = self._left
        oldest = (leaf.times[0], leaf.values[0])
        del leaf.times[0], leaf.values[0]
        self._size -= 1
        try:
            self._settle(leaf, LEFT)
        except BaseException:
            self._rebuild([oldest, *entries_of(self._root)])
            raise

    def evict_until(self, time: Any) -> int:
        """Remove every value whose time is at most the given one, and return their number.

        Runtime: O(log n) however many go; they are counted, but not combined.
        """
        node = self._left
        if not self._size or not node.times[0] <= time:
            return 0
        while node.parent is not None and node.parent.times[0] <= time:
            node = node.parent
        while node.children:
            node = node.children[bisect_right(node.times, time)]
        return self._cut(node, bisect_right(node.times, time))

    def bulk_evict(self, n: int) -> None:
        """Remove the n oldest values, IndexError and no change if there are fewer.

        Runtime: O(log(length)) however many go; they are counted, but not combined.
        """
        n = self._whole(n)
        if n:
            self._cut(*self._skip(n))

    def evict_between(self, start: Any, end: Any) -> int:
        """Remove every value with start <= time < end, and return their number; all of them, or none.

        Runtime: O(log n) for each value that goes.
        """
        gone: list[tuple[Any, Partial]] = []
        try:
            while self._size and start < end:
                node, i = self._first_from(start)
                if i == len(node.times) or not node.times[i] < end:
                    break
                gone.append((node.times[i], node.values[i]))
                self._remove(node, i)
        except BaseException:
            entries = list(entries_of(self._root))
            i = bisect_left(entries, start, key=itemgetter(0))
            self._rebuild(entries[:i] + gone + entries[i:])
            raise
        return len(gone)

    def query(self) -> Any:
        """Return the aggregate of the whole window, lower(identity) if it is empty: O(1)."""
        root, combine = self._root, self._combine
        if not root.children:
            return self._lower(root.agg)
        return self._lower(combine(combine(self._left.agg, root.agg), self._right.agg))

    def range_query(self, start: Any, end: Any) -> Any:
        """Return the aggregate of the values with start <= time < end: O(log n)."""
        found = pieces(self._root, start, end) if start < end else []
        return self._lower(reduce(self._combine, found) if found else self._identity)

    def _next_time(self) -> Any:
        try:
            return self.youngest + 1 if self._size else 0
        except TypeError as error:
            raise TypeError(
                f"the youngest time is {self.youngest!r}, to which 1 cannot be added; "
                "give the time of the value: insert(time, value)"
            ) from error

    def _locate(self, time: Any) -> tuple[Node, int]:
        """Find the leaf and the index for an entry, upwards from the right finger, then down."""
        node, cause = self._right, None
        try:
            if node.times and node.times[-1] <= time:
                return node, len(node.times)
            if time <= time:  # not so for NaN
                while node.parent is not None and time < node.parent.times[-1]:
                    node = node.parent
                while node.children:
                    node = node.children[bisect_right(node.times, time)]
                return node, bisect_right(node.times, time)
        except TypeError as error:
            cause = error
        raise self._without_place(time) from cause

    def _without_place(self, time: Any) -> TypeError:
        among = f"the window's times such as {self.youngest!r}" if self._size else "other times"
        return TypeError(f"time {time!r} cannot be ordered among {among}")

    def _put(self, leaf: Node, i: int, time: Any, partial: Partial) -> None:
        leaf.times.insert(i, time)
        leaf.values.insert(i, partial)
        self._size += 1
        if leaf is self._right and 0 < i == len(leaf.times) - 1 < MAX_ENTRIES:
            leaf.agg = self._combine(leaf.agg, partial)
        else:
            self._grow(leaf)

    def _grow(self, node: Node) -> None:
        """Split upwards from a node with a new entry; repair up to a spine, then down along it."""
        spines = 0  # those of which a node was split
        while True:
            halves = [node]
            if len(node.times) > MAX_ENTRIES:
                spines |= node.spine
                halves = self._split(node)
            elif node.spine:
                break
            for half in halves:
                if not half.spine:
                    self._refresh(half)
            assert node.parent is not None
            node = node.parent
        if spines == RIGHT:
            gained = self._combine(node.children[-2].agg, node.values[-1])
            node.agg = self._combine(node.agg, gained)
        else:
            self._refresh(node)
        self._refresh_below(node, spines if node.spine == ROOT else node.spine)

    def _split(self, node: Node) -> list[Node]:
        """Split a node with too many entries, and return its parts; the root gets a root above it."""
        if node.parent is None:
            self._root = Node([], [], [node], ROOT)
        parts = split(node)
        if self._right is node:
            self._right = parts[-1]
        return parts

    def _skip(self, n: int) -> tuple[Node, int]:
        """Walk past the n oldest entries, to the leaf and the index where the others begin."""
        node = self._left
        while n > len(node.times):
            n -= len(node.times) + 1
            i = len(node.times)
            while i == len(node.times):
                assert node.parent is not None
                i = node.parent.children.index(node)
                node = node.parent
            node = node.children[i + 1]
            while node.children:
                node = node.children[0]
        return node, n

    def _cut(self, leaf: Node, i: int) -> int:
        """Remove all that is left of index i of the leaf, and return how many entries that was."""
        path, removed, top = [leaf], 0, leaf
        while True:
            removed += i + sum(map(release, top.children[:i]))
            del top.times[:i], top.values[:i], top.children[:i]
            if top.spine & LEFT:
                break
            assert top.parent is not None
            top.spine = LEFT
            i = top.parent.children.index(top)
            top = top.parent
            path.append(top)
        self._left = leaf
        self._size -= removed
        try:
            self._mend(path)
        except BaseException:
            self._rebuild(list(entries_of(self._root)))
            raise
        return removed

    def _mend(self, path: list[Node]) -> None:
        """Fill the nodes along a cut, from its top down, and repair the left spine."""
        top = highest = path[-1]
        spines = LEFT
        for node in reversed(path):
            # A parent without entries has only this child: it was the root, and goes in _settle.
            if node.parent is not None and node.parent.times:
                spare = 1 if node.children else 0  # a child of it may be merged away next
                if len(node.times) < MIN_ENTRIES + spare:
                    spines |= self._fill(node)
                    highest = node.parent if node is top else highest
        self._settle(highest, spines)

    def _fill(self, node: Node) -> int:
        """Merge a left-spine node with its sibling, or share alike; return the sibling's spine."""
        assert node.parent is not None
        sibling = node.parent.children[1]
        self._even_out(node.parent, 0)
        if sibling.parent is not None and not sibling.spine:
            self._refresh(sibling)
        return sibling.spine

    def _first_from(self, time: Any) -> tuple[Node, int]:
        """Find the oldest entry that is not older than a time; an index behind the last if none is."""
        node = self._right
        while node.parent is not None and not node.parent.times[-1] < time:
            node = node.parent
        found = node, bisect_left(node.times, time)
        while node.children:
            i = bisect_left(node.times, time)
            found = (node, i) if i < len(node.times) else found
            node = node.children[i]
        i = bisect_left(node.times, time)
        return (node, i) if i < len(node.times) else found

    def _remove(self, node: Node, i: int) -> None:
        """Remove an entry of any node: the one before it takes its place if it has children."""
        leaf, top = node, node
        if node.children:
            leaf = node.children[i]
            while leaf.children:
                leaf = leaf.children[-1]
            node.times[i], node.values[i] = leaf.times[-1], leaf.values[-1]
            i = len(leaf.times) - 1
        del leaf.times[i], leaf.values[i]
        self._size -= 1
        self._settle_up(leaf, top)

    def _settle_up(self, node: Node, top: Node) -> None:
        """Fill upwards from any node, at least to the top, and repair what has changed."""
        reached = node is top
        while node.parent is not None:
            parent = node.parent
            if len(node.times) < MIN_ENTRIES:
                i = parent.children.index(node)
                i -= i == len(parent.children) - 1
                self._even_out(parent, i)
                for child in parent.children[i : i + 2]:
                    if not child.spine:
                        self._refresh(child)
            elif not node.spine:
                self._refresh(node)
            elif reached:
                break
            node = parent
            reached = reached or node is top
        if not self._root.times:
            node = self._lower_root()
        if self._size:
            self._refresh(node)
            self._refresh_below(node, node.spine)

    def _even_out(self, parent: Node, i: int) -> None:
        """Merge two neighbouring children, or share alike."""
        gone = even_out(parent, i)
        if gone is self._right:
            self._right = parent.children[i]

    def _settle(self, node: Node, spines: int) -> None:
        """Fill upwards from a left-spine node with fewer entries; repair down the given spines."""
        while len(node.times) < MIN_ENTRIES and node.parent is not None:
            spines |= self._fill(node)
            node = node.parent
        if not self._root.times:
            node, spines = self._lower_root(), ROOT
        if self._size:
            self._refresh(node)
            self._refresh_below(node, spines)

    def _lower_root(self) -> Node:
        """Make the root's only child the root until there are entries in it, or no child."""
        root = self._root
        while not root.times and root.children:
            root = root.children[0]
            root.parent = None
        if not root.children:
            self._left = self._right = root
        self._root, root.spine, root.agg = root, ROOT, self._identity
        return root

    def _refresh(self, node: Node) -> None:
        """Compute the aggregate that the node must store: up, left, right or inner."""
        combine, values, children = self._combine, node.values, node.children
        spine, parent, agg = node.spine, node.parent, values[0]
        if children:
            for k in range(1, len(values)):
                agg = combine(combine(agg, children[k].agg), values[k])
            if not spine & LEFT:
                agg = combine(children[0].agg, agg)
            if not spine & RIGHT:
                agg = combine(agg, children[-1].agg)
        else:
            for k in range(1, len(values)):
                agg = combine(agg, values[k])
        if spine and parent is not None and parent.spine != ROOT:
            agg = combine(agg, parent.agg) if spine == LEFT else combine(parent.agg, agg)
        node.agg = agg

    def _refresh_below(self, top: Node, spines: int) -> None:
        node = top
        while spines & LEFT and node.children:
            node = node.children[0]
            self._refresh(node)
        node = top
        while spines & RIGHT and node.children:
            node = node.children[-1]
            self._refresh(node)

    def _rebuild(self, entries: list[tuple[Any, Partial]]) -> None:
        """Start afresh with these entries, after a combine that raised half-way through a repair."""
        Fiba.__init__(self, self.aggregate)
        for time, partial in entries:
            self._put(*self._locate(time), time, partial)

    def _save(self, encode: Callable[[Partial], Any]) -> dict[str, Any]:
        entries = list(entries_of(self._root))
        return {"times": [t for t, _ in entries], "values": [encode(v) for _, v in entries]}

    def _load(self, state: dict[str, Any], decode: Callable[[Any], Partial]) -> None:
        times, values = state["times"], state["values"]
        if not isinstance(times, list) or not isinstance(values, list):
            raise TypeError("times and values must be lists")
        if not all(a <= b for a, b in pairwise(times)):
            raise ValueError("the times are not in order")
        for time, value in zip(times, values, strict=True):
            self._put(*self._locate(time), time, decode(value))

    def check(self, values: Sequence[Any] | None = None) -> None:
        """Raise InvariantError unless tree, spines, fingers, aggregates are right: O(n log n)."""
        self._check_structure()
        self._check_subtree(self._root, [])
        left = right = self._root
        while left.children:
            left, right = left.children[0], right.children[-1]
        require(left is self._left and right is self._right, "a finger is not at its end")
        self._check_values([partial for _, partial in entries_of(self._root)], values)

    def _check_structure(self) -> None:
        entries = list(entries_of(self._root))
        require(len(entries) == self._size, f"{len(entries)} entries, size {self._size}")
        require(all(a <= b for (a, _), (b, _) in pairwise(entries)), "the times are not in order")
        require(self._root.parent is None and self._root.spine == ROOT, "the root is not on top")

    def _check_subtree(self, node: Node, beyond: list[Partial]) -> int:
        """Check from a node down and return its height; its parent's spine continues beyond."""
        children, last = node.children, len(node.times)
        least = min(1, self._size) if node.parent is None else MIN_ENTRIES
        require(least <= last <= MAX_ENTRIES, f"a node of {last} entries")
        require(len(children) in (0, last + 1), f"{len(children)} children, {last} entries")
        covered = []
        for k in range(last + 1):
            if children and not children[k].spine:
                covered += [value for _, value in entries_of(children[k])]
            covered += node.values[k : k + 1]
        covered = covered + beyond if node.spine == LEFT else beyond + covered
        self._require_fold(f"the aggregate of the node at {node.times}", node.agg, covered)
        heights = {-1} if not children else set()
        for k, child in enumerate(children):
            spine = node.spine & ((LEFT if k == 0 else 0) | (RIGHT if k == last else 0))
            require(child.parent is node, "a child does not know its parent")
            require(child.spine == spine, f"a node is marked {child.spine} on spine {spine}")
            on = covered if spine and node.spine != ROOT else []
            heights.add(self._check_subtree(child, on))
        require(len(heights) == 1, f"leaves at different depths: {heights}")
        return heights.pop() + 1
