"""What a policy leaves of a key's rows, at each end that is due.

TPDS 2019, section 4.1.4: the policy is enforced after each row, on an AMTA of what it looks at. What was
left at an end is known by its start and its number of rows, so that rows can be enforced again from the
last end on that lies before a late row. Of ends that are final the last is remembered, and the rows that
were left at it are kept.
"""

from collections.abc import Iterator

import numpy as np

from muntin.aggregators import Amta
from muntin.slicing.lanes.context_state import ContextState
from muntin.slicing.limits import ALWAYS, Array
from muntin.slicing.tables import EMPTY, RESULT, RETRACT, UPDATE
from muntin.slicing.tick_ends import all_ends, ends_after_rows
from muntin.windows import Policy

Left = dict[int, tuple[int, int]]
"""Rows [lo, hi) by the end at which they were left."""


def enforce(
    book: ContextState,
    window: Policy,
    times: Array,
    rows: Array,
    upto: int,
    *,
    fresh: int,
    changes: bool,
) -> Left:
    """Enforce the policy on a key's rows, the earliest new one at `fresh`; return what is left.

    The tree is put back only at the end: if the policy raises, it is rebuilt the next time.
    """
    known, tree = book.reported, book.context
    told = max(known, default=ALWAYS)
    if tree is None or fresh < told:
        told = max((end for end in known if end <= fresh), default=ALWAYS)
        hi = int(np.searchsorted(times, told))
        tree = Amta(window.policy.aggregate)
        tree.bulk_insert(rows[hi - known[told][1] : hi] if told in known else ())
    else:
        hi = int(np.searchsorted(times, told))
    book.context = None
    if not len(tree):  # until the next row there is nothing to report
        told = max(told, int(times[hi])) if hi < len(times) else upto
    ends = ends_after_rows(window, times[hi:], upto) if changes else all_ends(window, told, upto)
    holds = window.policy.on_partials()
    left: Left = {}
    for end, stop in zip(ends.tolist(), np.searchsorted(times, ends).tolist(), strict=True):
        for row in rows[hi:stop]:
            tree.insert(row)
            tree.evict_while(holds)
        hi = stop
        left[end] = hi - len(tree), hi
    book.context = tree
    return left


def tell(
    book: ContextState, left: Left, times: Array, new: Array, *, changes: bool
) -> Iterator[tuple[int, int, int, int, int]]:
    """Write down what is left and yield what of it is news: (start, end, lo, hi, kind)."""
    known = book.reported
    for end, (lo, hi) in left.items():
        start, count = int(times[lo]) if lo < hi else end, hi - lo
        was, before = known.get(end, (end, 0))
        said = end in known and (changes or before > 0)
        known[end] = (start, count)
        if said and (was != start or not (changes or count)):
            yield was, end, 0, 0, RETRACT
            said = False
        if said and before == count and not new[lo:hi].any():
            continue
        if count:
            yield start, end, lo, hi, UPDATE if said else RESULT
        elif changes:
            yield start, end, 0, 0, EMPTY


def forget(book: ContextState, times: Array, final: int) -> int:
    """Forget ends before the last that is final; return the first row that is still needed."""
    known = book.reported
    base = max((end for end in known if end <= final), default=None)
    if base is None:
        return 0
    book.reported = {end: content for end, content in known.items() if end >= base}
    return int(np.searchsorted(times, base)) - int(known[base][1])


def check_left(book: ContextState, times: Array) -> None:
    """Refuse what was left at ends, as it was saved, unless there are rows for it."""
    for end, (start, count) in book.reported.items():
        if any(type(number) is not int for number in (end, start, count)):
            raise TypeError("ends, starts and numbers of rows are whole numbers")
        if not 0 <= count <= int(np.searchsorted(times, end)):
            raise ValueError(f"{count} rows were left at {end}, of {len(times)}")
    if book.edges:
        raise ValueError("what a policy left has no edges")
