"""Windows that slide over a key's run of slices: what is kept of the last one for the next.

A slot is one key and one kind of windows. Its marks say which slices its last window had, [F, E), as
numbers in their run: slice number i is at place i + drift of the arena. What else there is depends on
the algebra:

    totals    an exact inverse: total = [F, E). What enters is added, what leaves is taken away, at
              either end: windows that late rows changed are reached by going back.
    stacks    VLDBJ 2021, section 4: Two-Stacks. front[i] = [i, B) for F <= i < B, beside slice i;
              back = [B, E). A window is one combine; when F reaches B, the front is built again.
    DABA      VLDBJ 2021, section 6: DABA Lite, whose deque is the front. No window takes more than
              6 combines for a slice that enters and one that leaves.

A slice that is dropped leaves totals and deques at once, while it is still there. Slices that may
still be joined with later ones, at the end of a window, are combined with each result and not kept.

The slices keep their partials, so all of this can be forgotten and is then built from them again. Each
loop counts the combines that it asks for. Numbers run compiled, objects interpreted (`slice_kernels`).
"""

from typing import Any, NamedTuple

import numpy as np

from muntin.aggregators.daba_lite import evict, insert, query
from muntin.kernels.loops.instructions import ALL_BITS, U, entry
from muntin.kernels.loops.object_partials import combine, emit, load, store, without
from muntin.kernels.loops.slice_log import (
    ADD,
    JOIN,
    LATE,
    LOG_OTHER,
    LOG_PLACE,
    LOG_STEP,
    NEW,
    OPEN,
)
from muntin.kernels.loops.slice_partials import replay_step
from muntin.kernels.loops.slice_trees import (
    NO_TREE,
    TREE_END,
    Trees,
    label_first,
    move_labels,
    note_change,
)

# The marks of a slot: pointers of the papers, as numbers of slices in their run.
F = 0  # the first slice of the window
E = 1  # behind its last slice; NOWHERE if nothing is kept
B = 2  # the boundary: behind the last slice of the front
L, R, A = 3, 4, 5  # how far DABA Lite's reversal of the front has come
MARKS = 6
NOWHERE = -1

TOTALS, STACKS, DABA, NOTHING = 0, 1, 2, 3
"""What is kept of a window; where it is nothing, windows are merged of a tree or by a scan."""
CREDIT = 4
"""A tree may take that many combines per slice of the window before stacks are built again."""


class Slots(NamedTuple):
    """What is kept of windows of all keys and kinds."""

    marks: Any  # per slot: its pointers
    backs: Any  # per slot: the total, or the partial of the back
    middles: Any  # per slot: DABA Lite's running partial of the middle
    fronts: Any  # per kind and place: the partials of the front
    places: Any  # the number of places per kind in `fronts`
    kind_of: (
        Any  # per definition of windows: the number of its kind, or -1 if nothing is kept of it
    )
    kinds: Any  # the number of kinds, which are neighbours: key k has slots k * kinds and up


class Asked(NamedTuple):
    """Windows over slices: per window the key, the definition, and the places [lo, hi)."""

    keys: Any
    windows: Any
    lo: Any
    closed: Any  # behind the last slice that will not be joined with later ones
    hi: Any


def begun(partial: Any) -> Any:
    """Return the total of one slice."""
    return partial


def entered(total: Any, partial: Any) -> Any:
    """Return the total with a slice that enters the window."""
    return combine(total, partial)


def left(total: Any, partial: Any) -> Any:
    """Return the total without a slice that leaves the window."""
    return without(total, partial)


def amended(total: Any, before: Any, after: Any, part: Any) -> Any:  # noqa: ARG001
    """Return the total when a part is added to one of its slices, which was `before`."""
    return combine(total, part)


def emit_total(outs: Any, k: Any, total: Any, rows: Any) -> None:
    """Write result k from a total."""
    emit(outs, k, total, rows)


def slot_of(slots: Slots, asked: Asked, k: Any) -> Any:
    """Return the slot of window k, or -1 if nothing is kept of such windows."""
    kind = slots.kind_of[asked.windows[k]]
    return asked.keys[k] * slots.kinds + kind if kind >= 0 else -1


def is_behind(marks: Any, slot: Any, first: Any, end: Any) -> Any:
    """Whether a window of slices [first, end) is empty, or before that of which something is kept."""
    return end <= first or (
        first < marks[slot, E] and (first < marks[slot, F] or end < marks[slot, E])
    )


def with_open(partials: Any, partial: Any, p: Any, q: Any) -> Any:
    """Return a partial with the slices at places [p, q) behind it, which may still be joined."""
    for i in range(p, q):
        partial = combine(partial, load(partials, U(i)))
    return partial


def in_tree(marks: Any, slot: Any, credit: Any) -> Any:
    """Whether nothing is kept of a slot, and a tree takes its place for a while."""
    return marks[slot, E] == NOWHERE and credit > 0


@entry
def query_totals(
    partials: Any, slots: Slots, asked: Asked, runs: Any, outs: Any, behind: Any
) -> Any:
    """Emit windows from totals; return (combines, how many were left out because they are behind).

    `runs` are, per key, (how far its run has drifted, the credit of its tree).
    """
    marks, totals = slots.marks, slots.backs
    drift, _credit = runs
    combines, skipped = 0, 0
    for k in range(len(asked.keys)):
        slot, shift = slot_of(slots, asked, k), drift[asked.keys[k]]
        first, end, last = asked.lo[k] - shift, asked.closed[k] - shift, asked.hi[k] - shift
        if slot < 0 or end <= first:
            behind[skipped] = k
            skipped += 1
            continue
        f, e = marks[slot, F], marks[slot, E]
        if e <= first or end <= f or abs(first - f) + abs(end - e) >= end - first:
            total = begun(load(partials, U(first + shift)))
            f, e = first, first + 1
        else:
            total = load(totals, U(slot))
        combines += abs(first - f) + abs(last - e) + last - end
        for i in range(first, f):
            total = entered(total, load(partials, U(i + shift)))
        for i in range(e, last):
            total = entered(total, load(partials, U(i + shift)))
        for i in range(f, first):
            total = left(total, load(partials, U(i + shift)))
        for i in range(last, e):
            total = left(total, load(partials, U(i + shift)))
        emit_total(outs, k, total, U(last - first))
        for i in range(end, last):
            total = left(total, load(partials, U(i + shift)))
        store(totals, U(slot), total)
        marks[slot, F], marks[slot, E] = first, end
    return combines, skipped


@entry
def query_stacks(
    partials: Any, slots: Slots, asked: Asked, runs: Any, outs: Any, behind: Any
) -> Any:
    """Emit windows from two stacks; return what `query_totals` does."""
    marks, backs, fronts = slots.marks, slots.backs, slots.fronts
    drift, credit = runs
    combines, skipped = 0, 0
    for k in range(len(asked.keys)):
        key, slot = asked.keys[k], slot_of(slots, asked, k)
        shift = drift[key]
        first, end, last = asked.lo[k] - shift, asked.closed[k] - shift, asked.hi[k] - shift
        if slot < 0 or is_behind(marks, slot, first, end) or in_tree(marks, slot, credit[key]):
            behind[skipped] = k
            skipped += 1
            continue
        at = slots.kind_of[asked.windows[k]] * slots.places + shift
        e, b = marks[slot, E], marks[slot, B]
        if e <= first or b <= first:  # flip
            partial = load(partials, U(end - 1 + shift))
            store(fronts, U(at + end - 1), partial)
            for i in range(end - 2, first - 1, -1):
                partial = combine(load(partials, U(i + shift)), partial)
                store(fronts, U(at + i), partial)
            combines += end - 1 - first
            marks[slot, B] = end
        else:
            partial = load(fronts, U(at + first))
            if b < end:
                back = load(backs, U(slot)) if b < e else load(partials, U(b + shift))
                for i in range(max(e, b + 1), end):
                    back = combine(back, load(partials, U(i + shift)))
                combines += end - max(e, b + 1) + 1
                store(backs, U(slot), back)
                partial = combine(partial, back)
        marks[slot, F], marks[slot, E] = first, end
        combines += last - end
        emit(outs, k, with_open(partials, partial, end + shift, last + shift), U(last - first))
    return combines, skipped


def reversal_combines(state: Any, evicted: Any) -> Any:
    """Return how many combines the next step of DABA Lite's reversal takes, after some evictions."""
    front, _e, l, r, a, b, _middle, _back = state
    f = front + evicted
    if f == b:  # singleton
        return 0
    if l == b:  # flip
        return 0 if f == r else 1
    if l == r:  # shift
        return 0
    return 1 if a == b else 2  # shrink


def deque(fronts: Any) -> Any:
    """Return the fronts as the slots that DABA Lite's functions take."""
    return fronts


def daba_state(slots: Slots, slot: Any, at: Any, nothing: Any) -> Any:
    """Return the state of DABA Lite of a slot, whose slice number i is item at + i of the fronts."""
    marks = slots.marks
    f, e, b = U(at + marks[slot, F]), U(at + marks[slot, E]), U(at + marks[slot, B])
    l, r, a = U(at + marks[slot, L]), U(at + marks[slot, R]), U(at + marks[slot, A])
    middle = load(slots.middles, U(slot)) if l != r else nothing
    back = load(slots.backs, U(slot)) if b != e else nothing
    return f, e, l, r, a, b, middle, back


def keep_daba(slots: Slots, slot: Any, at: Any, state: Any) -> None:
    """Keep the state of DABA Lite."""
    marks = slots.marks
    f, e, l, r, a, b, middle, back = state
    marks[slot, F], marks[slot, E] = np.int64(f) - at, np.int64(e) - at
    marks[slot, L], marks[slot, R] = np.int64(l) - at, np.int64(r) - at
    marks[slot, A], marks[slot, B] = np.int64(a) - at, np.int64(b) - at
    store(slots.middles, U(slot), middle)
    store(slots.backs, U(slot), back)


@entry
def query_daba(partials: Any, slots: Slots, asked: Asked, runs: Any, outs: Any, behind: Any) -> Any:
    """Emit windows from DABA Lite; return what `query_totals` does."""
    marks, mask, fronts = slots.marks, U(ALL_BITS), deque(slots.fronts)
    drift, credit = runs
    combines, skipped = 0, 0
    for k in range(len(asked.keys)):
        key, slot = asked.keys[k], slot_of(slots, asked, k)
        shift = drift[key]
        first, end, last = asked.lo[k] - shift, asked.closed[k] - shift, asked.hi[k] - shift
        if slot < 0 or is_behind(marks, slot, first, end) or in_tree(marks, slot, credit[key]):
            behind[skipped] = k
            skipped += 1
            continue
        at = slots.kind_of[asked.windows[k]] * slots.places + shift
        if marks[slot, E] <= first:
            for c in range(MARKS):
                marks[slot, c] = first
        nothing = load(partials, U(first + shift))
        state = daba_state(slots, slot, at, nothing)
        for i in range(marks[slot, E], end):
            combines += (1 if state[5] != state[1] else 0) + reversal_combines(state, U(0))
            state = insert(fronts, mask, state, load(partials, U(i + shift)), combine, nothing)
        for _i in range(marks[slot, F], first):
            combines += reversal_combines(state, U(1))
            state = evict(fronts, mask, state, combine, nothing)
        f, e, b = state[0], state[1], state[5]
        combines += (1 if f != b and b != e else 0) + last - end
        partial = query(fronts, mask, state, combine)
        emit(outs, k, with_open(partials, partial, end + shift, last + shift), U(last - first))
        keep_daba(slots, slot, at, state)
    return combines, skipped


@entry
def leave_totals(partials: Any, slots: Slots, chosen: Any, upto: Any, drift: Any) -> Any:
    """Take slices up to number upto[j] out of the total of slot chosen[j]; return the combines."""
    marks, totals = slots.marks, slots.backs
    combines = 0
    for j in range(len(chosen)):
        slot = chosen[j]
        shift = drift[slot // slots.kinds]
        total = load(totals, U(slot))
        for i in range(marks[slot, F], upto[j]):
            total = left(total, load(partials, U(i + shift)))
        store(totals, U(slot), total)
        combines += upto[j] - marks[slot, F]
        marks[slot, F] = upto[j]
    return combines


@entry
def leave_daba(partials: Any, slots: Slots, chosen: Any, upto: Any, drift: Any) -> Any:
    """Do what `leave_totals` does for DABA Lite."""
    marks, mask, fronts = slots.marks, U(ALL_BITS), deque(slots.fronts)
    combines = 0
    for j in range(len(chosen)):
        slot = chosen[j]
        shift = drift[slot // slots.kinds]
        at = (slot % slots.kinds) * slots.places + shift
        nothing = load(partials, U(marks[slot, F] + shift))
        state = daba_state(slots, slot, at, nothing)
        for _i in range(marks[slot, F], upto[j]):
            combines += reversal_combines(state, U(1))
            state = evict(fronts, mask, state, combine, nothing)
        keep_daba(slots, slot, at, state)
    return combines


def open_slot(slots: Slots, slot: Any, i: Any, shift: Any, kept: Any) -> None:
    """Let the marks of a slot follow when a slice becomes number i and moves those behind it up."""
    marks, fronts = slots.marks, slots.fronts
    if i >= marks[slot, E]:
        return
    if i >= marks[slot, F]:
        marks[slot, E] += 1
    elif kept == DABA:
        marks[slot, E] = NOWHERE
    else:
        if kept == STACKS:
            at = (slot % slots.kinds) * slots.places + shift
            for p in range(at + marks[slot, B], at + marks[slot, F], -1):
                store(fronts, U(p), load(fronts, U(p - 1)))
        for c in range(MARKS):
            marks[slot, c] += 1


def drop_front(slots: Slots, slot: Any, trees: Trees, key: Any) -> None:
    """Forget what is kept of a slot, because a slice of its front has changed.

    If that happens often, a tree is used for a while.
    """
    marks, credit, hit = slots.marks, trees.credit, trees.hit
    size = marks[slot, E] - marks[slot, F]
    if hit[key] >= 0 and 2 * (marks[slot, E] - hit[key]) < size:
        credit[key] = CREDIT * size
    hit[key] = marks[slot, E]
    marks[slot, E] = NOWHERE


@entry
def replay_kept(
    log: Any, keys: Any, parts: Any, partials: Any, kept: Any, runs: Any, how: Any, changed: Any
) -> Any:
    """Do what `replay` does, and let what is kept of windows follow.

    `kept` are (slots, trees), `runs` as in `note_change`, `how` is (TOTALS and so on, whether the
    aggregate is commutative); keys[g] is the key of part g. What cannot follow is forgotten. Return how
    many slices of trees are noted in `changed`.
    """
    slots, trees = kept
    way, commutes = how
    marks, backs = slots.marks, slots.backs
    noted = 0
    for j in range(len(log)):
        step, place, other = log[j, LOG_STEP], log[j, LOG_PLACE], log[j, LOG_OTHER]
        if step == OPEN:
            move_labels(trees, place, other)
        if step != NEW and step != ADD and step != LATE:
            replay_step(log, j, parts, partials, U(0), not commutes)
            continue
        part = load(parts, U(other))
        before = part if step == NEW else load(partials, U(place))
        replay_step(log, j, parts, partials, U(0), not commutes)
        key = keys[other]
        noted = note_change(trees, key, place, runs, step == NEW, changed, noted)
        shift = runs[1][key]
        i = place - shift
        for slot in range(key * slots.kinds, (key + 1) * slots.kinds):
            if step == NEW:
                open_slot(slots, slot, i, shift, way)
            if i < marks[slot, F] or i >= marks[slot, E]:
                continue
            if way == TOTALS and step != NEW:
                after = load(partials, U(place))
                store(backs, U(slot), amended(load(backs, U(slot)), before, after, part))
            else:
                take_in(kept, slot, i, part, how)
    return noted


def take_in(kept: Any, slot: Any, i: Any, part: Any, how: Any) -> None:
    """Let what is kept of a slot have a part more in slice i of its window, or forget it."""
    slots, trees = kept
    way, commutes = how
    backs = slots.backs
    if way == TOTALS:
        store(backs, U(slot), entered(load(backs, U(slot)), part))
    elif way == STACKS and commutes and i >= slots.marks[slot, B]:
        store(backs, U(slot), combine(load(backs, U(slot)), part))
    else:
        drop_front(slots, slot, trees, slot // slots.kinds)


@entry
def insert_kept(
    keys: Any, places: Any, parts: Any, kept: Any, runs: Any, how: Any, changed: Any
) -> Any:
    """Let what is kept of windows follow where parts became slices: part j of keys[j], at places[j].

    They come key by key and in order, and all that is beside slices has moved with them. The other
    arguments, and what is returned, are as in `replay_kept`.
    """
    slots, trees = kept
    marks = slots.marks
    noted = 0
    for j in range(len(places)):
        key, place = keys[j], places[j]
        label_first(trees, keys, places, j, runs[0][key])
        noted = note_change(trees, key, place, runs, True, changed, noted)
        i = place - runs[1][key]
        part = load(parts, U(j))
        for slot in range(key * slots.kinds, (key + 1) * slots.kinds):
            if i >= marks[slot, E]:
                continue
            if i < marks[slot, F]:
                for c in range(MARKS):
                    marks[slot, c] += 1
            else:
                marks[slot, E] += 1
                take_in(kept, slot, i, part, how)
    return noted


def join_slot(slots: Slots, slot: Any, i: Any, shift: Any, kept: Any) -> Any:
    """Let the marks of a slot follow when slice number i + 1 is joined with number i.

    Return whether both were in the window.
    """
    marks, fronts = slots.marks, slots.fronts
    if i >= marks[slot, E]:
        return False
    inside = marks[slot, F] <= i and i + 1 < marks[slot, E]
    parted = i + 1 == marks[slot, E] or i + 1 == marks[slot, F]
    parted = parted or (kept == STACKS and i + 1 == marks[slot, B])
    if parted or (inside and kept == DABA):
        marks[slot, E] = NOWHERE
        return False
    if kept != TOTALS:
        at = (slot % slots.kinds) * slots.places + shift
        behind = marks[slot, E] if kept == DABA else marks[slot, B]
        for p in range(max(marks[slot, F], i + 2), behind):
            store(fronts, U(at + p - 1), load(fronts, U(at + p)))
    for c in range(MARKS):
        if marks[slot, c] > i:
            marks[slot, c] -= 1
    return inside


@entry
def join_kept(log: Any, owners: Any, partials: Any, kept: Any, drift: Any, way: Any) -> None:
    """Do what `replay` does where slices are joined, and let what is kept of windows follow.

    owners[j] is the key of step j, `kept` are (slots, trees).
    """
    slots, trees = kept
    backs = slots.backs
    for j in range(len(log)):
        place, other = log[j, LOG_PLACE], log[j, LOG_OTHER]
        if log[j, LOG_STEP] != JOIN:
            replay_step(log, j, partials, partials, U(0), False)
            continue
        key = owners[j]
        i = place - drift[key]
        older, younger = load(partials, U(place)), load(partials, U(other))
        replay_step(log, j, partials, partials, U(0), False)
        if i < trees.marks[key, TREE_END]:
            trees.marks[key, TREE_END] = NO_TREE
        for slot in range(key * slots.kinds, (key + 1) * slots.kinds):
            if join_slot(slots, slot, i, drift[key], way) and way == TOTALS:
                total = left(load(backs, U(slot)), younger)
                total = amended(total, older, load(partials, U(place)), younger)
                store(backs, U(slot), total)
