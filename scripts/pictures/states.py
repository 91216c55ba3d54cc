"""What each algorithm holds, read from its own structure."""

from collections.abc import Callable
from typing import Any

import muntin as mt
from muntin.aggregators.fiba import LEFT, RIGHT, Node
from muntin.aggregators.flat_fat import EMPTY
from scripts.pictures.bars import PREFIX, STRETCH, SUFFIX, VALUE, Bar, State, bar, by_letter


def recalc(window: mt.Recalc) -> State:
    """Return the values, a row each."""
    values = [bar(i, VALUE, v) for i, v in enumerate(window._partials)]
    return State(values, len(values))


def subtract_on_evict(window: mt.SubtractOnEvict) -> State:
    """Return the values and the running total."""
    values = recalc(window).bars
    n = len(values)
    return State([bar(n, PREFIX, window._total), *values], n + 1, {n: "total"})


def two_stacks(window: mt.TwoStacks) -> State:
    """Return both stacks, the oldest value first; each element has its value and an aggregate."""
    front, back = list(window._front)[::-1], list(window._back)
    bars = [bar(i, SUFFIX, agg) for i, (_, agg) in enumerate(front)]
    bars += [bar(len(front) + i, PREFIX, agg) for i, (_, agg) in enumerate(back)]
    bars += [bar(i, VALUE, val) for i, (val, _) in enumerate(front + back)]
    start = by_letter((front + back)[0][0])
    pointers = [("front", start)] if front else []
    pointers += [("back", start + len(front))] if back else []
    return State(bars, len(front) + len(back), pointers=pointers)


def two_stacks_lite(window: mt.TwoStacksLite) -> State:
    """Return the deque and aggB."""
    f, e, b, agg_b = window._state
    bars = [bar(i, SUFFIX, agg) for i, agg in enumerate(window._between(f, b))]
    bars += [bar(b - f + i, VALUE, v) for i, v in enumerate(window._between(b, e))]
    n = e - f
    bars += [bar(n, PREFIX, agg_b)] if agg_b else []
    return State(bars, n + 1, {n: "aggB"}, [("F", f), ("B", b), ("E", e)])


def daba(window: mt.Daba) -> State:
    """Return value and aggregate of each position, and the six pointers."""
    f, e, l, r, a, b = window._state
    aggs, vals = [], []
    for i, (val, agg) in enumerate(window._between(f, e)):
        p = f + i
        kind = SUFFIX if p < r or a <= p < b else PREFIX
        aggs.append(bar(i, kind, agg))
        vals.append(bar(i, VALUE, val))
    return State(aggs + vals, e - f, pointers=_six(f, l, r, a, b, e))


def daba_lite(window: mt.DabaLite) -> State:
    """Return the deque, the two running aggregates and the six pointers."""
    f, e, l, r, a, b, agg_ra, agg_b = window._state
    n = e - f
    bars = [bar(n, PREFIX, agg_ra)] if l != r else []
    bars += [bar(n + 1, PREFIX, agg_b)] if agg_b else []
    for i, stored in enumerate(window._between(f, e)):
        p = f + i
        bars.append(bar(i, SUFFIX if p < r or a <= p < b else VALUE, stored))
    return State(bars, n + 2, {n: "aggRA", n + 1: "aggB"}, _six(f, l, r, a, b, e))


def _six(f: int, l: int, r: int, a: int, b: int, e: int) -> list[tuple[str, int]]:
    return list(zip("FLRABE", (f, l, r, a, b, e), strict=True))


def slick_deque(window: mt.SlickDeque) -> State:
    """Return the values that are kept; each is the maximum of all from where its bar begins."""
    deque: Any = window._variant
    bars, start = [], deque._f
    for row, (position, v) in enumerate(deque._deque):
        columns = range(start, deque._e)
        bars.append(Bar(row, SUFFIX, tuple((c, str(v) if c == position else "") for c in columns)))
        start = position + 1
    return State(bars, len(bars))


def flat_fit(window: mt.FlatFit) -> State:
    """Return each position's aggregate, which reaches as far as its index says."""
    f, e = window._state
    slots = window._between(f, e)
    bars = [
        bar(i, VALUE if nxt == f + i + 1 else SUFFIX, agg) for i, (agg, nxt) in enumerate(slots)
    ]
    return State(bars, e - f)


def flat_fat(window: mt.FlatFat) -> State:
    """Return the nodes of the tree, over the slots of the circular buffer."""
    capacity, tree = window.capacity, window._tree
    height = capacity.bit_length() - 1
    slots = ["" if leaf is EMPTY else leaf for leaf in tree[capacity:]]
    bars = [bar(height, VALUE, leaf, slots.index) for leaf in slots if leaf]
    for node in range(1, capacity):
        if tree[node] is not EMPTY:
            bars.append(bar(node.bit_length() - 1, STRETCH, tree[node], slots.index))
    first, end = window._front % capacity, window._back % capacity
    pointers = [("F", first), ("B", end)]
    return State(bars, height + 1, {0: "root"}, pointers, slots)


def levels(window: mt.BInt | mt.LogMta) -> State:
    """Return the levels of a tree, the leaves at the bottom."""
    bars, top = [], len(window._levels) - 1
    for l, level in enumerate(window._levels):
        bars += [bar(top - l, STRETCH if l else VALUE, element) for element in level]
    return State(bars, top + 1, {top - l: f"level {l}" for l in range(top + 1)})


def amta(window: mt.Amta) -> State:
    """Return the levels, and below them the stack, R0 and R1."""
    tree = levels(window)
    bars, labels = [], dict(tree.labels)
    row = tree.rows
    for name, kind, partial in [
        *(("stack", SUFFIX, held) for held in window._stack),
        ("R0", SUFFIX, window._r0),
        ("R1", PREFIX, window._r1),
    ]:
        if partial:
            bars.append(bar(row, kind, partial))
            labels[row] = name
            row += 1
    return State([*bars, *tree.bars], row, labels)


def sba(window: mt.Sba) -> State:
    """Return the slices or the lcs of each chunk, then ca and csa."""
    bars: list[Bar] = []
    totals: list[tuple[str, str, str]] = []
    edges = []
    for chunk in window._chunks:
        slots = chunk.slots[::-1] if chunk.entered else chunk.slots
        for slot in slots:
            bars.append(bar(len(bars), SUFFIX if chunk.entered else VALUE, slot))
        if not chunk.entered:
            totals.append(("ca", STRETCH, chunk.ca))
        edges.append(("boundary", by_letter(bars[-1].text[-1]) + 1))
    for s in window._saa:
        bars.append(bar(len(bars), VALUE, s))
    if window._saa:
        totals.append(("csa", PREFIX, window._csa))
    rows = len(bars)
    labels = {rows + i: name for i, (name, _, _) in enumerate(totals)}
    summed = [bar(rows + i, kind, text) for i, (_, kind, text) in enumerate(totals)]
    return State([*summed, *bars], rows + len(totals), labels, edges)


def pba(window: mt.Pba) -> State:
    """Return what SBA has, and what the second thread has made of a chunk that was not entered."""
    own = sba(window)
    bars, labels = list(own.bars), dict(own.labels)
    row = own.rows
    for chunk in window._chunks:
        if not chunk.entered and chunk.lcs is not None:
            for slot in chunk.lcs[1].result()[-2::-1]:
                bars.append(bar(row, SUFFIX, slot, beside=True))
                labels[row] = "lcs"
                row += 1
    return State(bars, row, labels, own.pointers)


def fiba(window: mt.Fiba) -> State:
    """Return the nodes of the B-tree level by level: their values, then their aggregates."""
    bars: list[Bar] = []
    labels: dict[int, str] = {}
    row, nodes = 0, [window._root]
    while nodes:
        labels[row] = "leaves" if not nodes[0].children else "" if row else "root"
        bars += [bar(row, VALUE, "".join(node.values)) for node in nodes]
        for kinds in ((STRETCH,), (SUFFIX, PREFIX)):  # what runs along a spine lies over the others
            aggregates = [bar(row + 1, _spine(n), n.agg) for n in nodes if _spine(n) in kinds]
            bars, row = [*aggregates, *bars], row + bool(aggregates)
        row, nodes = row + 1, [child for node in nodes for child in node.children]
    return State(bars, row, labels)


def _spine(node: Node) -> str:
    return {LEFT: SUFFIX, RIGHT: PREFIX}.get(node.spine, STRETCH)


STATES: dict[str, Callable[[Any], State]] = {
    "Recalc": recalc,
    "SubtractOnEvict": subtract_on_evict,
    "TwoStacks": two_stacks,
    "TwoStacksLite": two_stacks_lite,
    "Daba": daba,
    "DabaLite": daba_lite,
    "SlickDeque": slick_deque,
    "FlatFit": flat_fit,
    "FlatFat": flat_fat,
    "BInt": levels,
    "Sba": sba,
    "Pba": pba,
    "LogMta": levels,
    "Amta": amta,
    "Fiba": fiba,
}
