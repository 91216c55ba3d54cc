"""What ready-made policies leave of a key's rows: the first row that is left never moves back.

TPDS 2019, section 4.1.4: a policy is enforced after each row. A ready-made one looks at one column, and
what it has to know beside that is a few numbers per key. Cost: O(1) amortised per row, and no combines.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import entry
from muntin.slicing.limits import ALWAYS, NEVER
from muntin.slicing.loops.arena_moves import find
from muntin.slicing.tables import (
    LINK_BEFORE,
    LINK_NEXT,
    ROW_MEASURE,
    ROW_TIME,
    STANDS_HIGH,
    STANDS_LAST,
    STANDS_LONGEST,
    STANDS_LOW,
    STANDS_RUN,
    STANDS_SINCE,
)

NULL = ALWAYS
"""A value that is null, among whole numbers and in the bits of floats, of which none is -0.0."""
LIMB = 32
"""A sum of whole numbers has two limbs, the lower one of so many bits of each."""
LOWER = 2**32 - 1
NO_ROW = -1


class Rules(NamedTuple):
    """When the oldest row leaves: if any of these is more, or not less, than a limit; NEVER is none."""

    rows: Any  # it leaves if there are more rows
    age: Any  # it leaves if its time is not less than this before the latest
    sums: Any  # whether it leaves if the sum of all values is more than a limit:
    high: Any  # the upper limb of this
    low: Any  # its lower limb
    most: Any  # the same for floats
    peak: Any  # whether all before the largest value leave
    run: Any  # whether all before the longest run of increasing values leave
    linked: Any  # whether rows before the largest value may leave by another rule
    floats: Any  # whether values are floats


class PolicyRows(NamedTuple):
    """Rows of keys, and how the policy stands (STANDS_HIGH and so on); both as numbers and as floats."""

    table: Any
    floats: Any
    stands: Any
    sums: Any  # `stands` as floats
    links: Any  # LINK_NEXT and so on of each row, if the rules are linked


def is_above(rows: PolicyRows, j: Any, i: Any, rules: Rules) -> Any:
    """Whether the value at place j is larger than that at i, NaN being larger than any number."""
    if rules.floats:
        x, y = rows.floats[j, ROW_MEASURE], rows.floats[i, ROW_MEASURE]
        return x > y or (x != x and y == y)
    return rows.table[j, ROW_MEASURE] > rows.table[i, ROW_MEASURE]


def is_unbounded(rows: PolicyRows, i: Any, rules: Rules) -> Any:
    """Whether the value at a place is NaN or infinite."""
    value = rows.floats[i, ROW_MEASURE]
    return rules.floats and value - value != 0.0 and rows.table[i, ROW_MEASURE] != NULL


def begin_standing(rows: PolicyRows, k: Any) -> None:
    """Let key k stand as where nothing is left."""
    rows.sums[k, STANDS_HIGH] = 0.0  # which has the bits of 0
    rows.sums[k, STANDS_LOW] = 0.0
    rows.stands[k, STANDS_SINCE] = NO_ROW
    rows.stands[k, STANDS_LAST] = NO_ROW
    rows.stands[k, STANDS_RUN] = 0
    rows.stands[k, STANDS_LONGEST] = 0


def add_value(rows: PolicyRows, k: Any, i: Any, sign: Any, rules: Rules) -> None:
    """Add the value at a place to the sum of key k, or with sign -1 take it away.

    Of floats the sum is kept with what rounding left of it.
    """
    value = rows.table[i, ROW_MEASURE]
    if value == NULL:
        return
    if not rules.floats:
        rows.stands[k, STANDS_HIGH] += sign * (value >> LIMB)
        rows.stands[k, STANDS_LOW] += sign * (value & LOWER)
        return
    term, held = sign * rows.floats[i, ROW_MEASURE], rows.sums[k, STANDS_HIGH]
    total = held + term
    if total - total != 0.0:  # it has overflowed
        rows.sums[k, STANDS_HIGH], rows.sums[k, STANDS_LOW] = total, 0.0
        return
    part = total - held
    left = (held - (total - part)) + (term - part) + rows.sums[k, STANDS_LOW]
    rows.sums[k, STANDS_HIGH] = total + left
    rows.sums[k, STANDS_LOW] = left - (total + left - total)


def add_values(rows: PolicyRows, k: Any, lo: Any, i: Any, rules: Rules) -> None:
    """Let the sum of key k be that of rows [lo, i]."""
    begin_standing(rows, k)
    for p in range(lo, i + 1):
        add_value(rows, k, p, 1, rules)


def is_more(rows: PolicyRows, k: Any, rules: Rules) -> Any:
    """Whether the sum of key k is above its limit."""
    if rules.floats:
        return rows.sums[k, STANDS_HIGH] > rules.most
    high, low = rows.stands[k, STANDS_HIGH], rows.stands[k, STANDS_LOW]
    high, low = high + (low >> LIMB), low & LOWER
    return high > rules.high or (high == rules.high and low > rules.low)


def let_go(rows: PolicyRows, k: Any, lo: Any, i: Any, rules: Rules) -> Any:
    """Let the oldest of rows [lo, i] of key k leave; return the place of the next."""
    if rules.sums:
        held = rows.sums[k, STANDS_HIGH]
        if rules.floats and held - held != 0.0:  # nothing can be taken away from it
            add_values(rows, k, lo + 1, i, rules)
        elif lo == i:
            begin_standing(rows, k)
        else:
            add_value(rows, k, lo, -1, rules)
    return lo + 1


def run_of(rows: PolicyRows, k: Any, head: Any, lo: Any, i: Any, rules: Rules) -> Any:
    """Return where the longest run of rows [lo, i] begins, when row i of key k has come."""
    if rows.table[i, ROW_MEASURE] == NULL:
        return lo
    stands = rows.stands
    last = stands[k, STANDS_LAST]
    if last != NO_ROW and is_above(rows, i, head + last, rules):
        stands[k, STANDS_RUN] += 1
    else:
        stands[k, STANDS_RUN] = 1
        stands[k, STANDS_SINCE] = i - head
    stands[k, STANDS_LAST] = i - head
    if stands[k, STANDS_RUN] > stands[k, STANDS_LONGEST]:
        stands[k, STANDS_LONGEST] = stands[k, STANDS_RUN]
        return head + stands[k, STANDS_SINCE]
    return lo


def link(rows: PolicyRows, k: Any, origin: Any, lo: Any, i: Any, rules: Rules) -> None:
    """Link row i, of rows [lo, i], with those before it: each knows the next one that is above it.

    Those of which nothing is above so far are a stack: row i takes those away that it is above.
    """
    links = rows.links
    links[i, LINK_NEXT], links[i, LINK_BEFORE] = 0, 0
    if rows.table[i, ROW_MEASURE] == NULL:
        return
    last = rows.stands[k, STANDS_LAST]
    p = lo - 1 if last == NO_ROW else origin + last
    while p >= lo and is_above(rows, i, p, rules):
        links[p, LINK_NEXT] = i - p
        p = p - links[p, LINK_BEFORE] if links[p, LINK_BEFORE] > 0 else lo - 1
    if p >= lo:
        links[i, LINK_BEFORE] = i - p
    rows.stands[k, STANDS_LAST] = i - origin


def peak_of(rows: PolicyRows, lo: Any, i: Any) -> Any:
    """Return the place of the first of the largest values of rows [lo, i]; lo if all are null."""
    p = lo
    while p <= i and rows.table[p, ROW_MEASURE] == NULL:
        p += 1
    if p > i:
        return lo
    while rows.links[p, LINK_NEXT] > 0:
        p += rows.links[p, LINK_NEXT]
    return p


def leave_by_rules(rows: PolicyRows, k: Any, head: Any, lo: Any, i: Any, rules: Rules) -> Any:
    """Return the first row that is left of rows [lo, i] when row i of key k has come.

    `head` is the place of the row with rank 0.
    """
    table = rows.table
    t, peak = table[i, ROW_TIME], lo
    if rules.linked:
        link(rows, k, head, lo, i, rules)
        peak = peak_of(rows, lo, i)
    if rules.sums:
        if is_unbounded(rows, i, rules):
            begin_standing(rows, k)
            return i + 1
        add_value(rows, k, i, 1, rules)
    while i + 1 - lo > rules.rows or t - table[lo, ROW_TIME] >= rules.age:
        lo = let_go(rows, k, lo, i, rules)
    while rules.sums and lo <= i and is_more(rows, k, rules):
        lo = let_go(rows, k, lo, i, rules)
    while lo < peak:
        lo = let_go(rows, k, lo, i, rules)
    return run_of(rows, k, head, lo, i, rules) if rules.run else lo


def leave_by_peak(rows: PolicyRows, lo: Any, at: Any, stop: Any, rules: Rules) -> Any:
    """Return the first of the largest values of rows [lo, stop); up to row `at` it is row `lo`."""
    table, values, floats = rows.table, rows.floats, rules.floats
    for i in range(at, stop):
        bits = table[i, ROW_MEASURE]
        if bits == NULL:
            continue
        if table[lo, ROW_MEASURE] == NULL:  # then all before are null, too
            lo = i
        elif floats:
            x, y = values[i, ROW_MEASURE], values[lo, ROW_MEASURE]
            lo = i if x > y or (x != x and y == y) else lo
        elif bits > table[lo, ROW_MEASURE]:
            lo = i
    return lo


def leave_in_turn(
    rows: PolicyRows, k: Any, head: Any, lo: Any, at: Any, stop: Any, rules: Rules
) -> Any:
    """Return the first row that is left of rows [lo, stop) of key k when rows [at, stop) have come.

    The arguments are those of `leave_by_rules`. Order and time tell it of all rows at once.
    """
    if at == stop:
        return lo
    if rules.sums or rules.run or rules.linked:
        for i in range(at, stop):
            lo = leave_by_rules(rows, k, head, lo, i, rules)
        return lo
    if rules.peak:
        return leave_by_peak(rows, lo, at, stop, rules)
    lo = max(lo, stop - rules.rows)
    if rules.age == NEVER:
        return lo
    return find(rows.table, lo, stop, rows.table[stop - 1, ROW_TIME] - rules.age + 1)


def expire_by_rules(rows: PolicyRows, k: Any, lo: Any, hi: Any, end: Any, rules: Rules) -> Any:
    """Return the first row that is left of rows [lo, hi) of key k at an end."""
    while lo < hi and end - rows.table[lo, ROW_TIME] >= rules.age:
        lo = let_go(rows, k, lo, hi - 1, rules)
    return lo


def stand_again(rows: PolicyRows, k: Any, origin: Any, lo: Any, hi: Any, rules: Rules) -> None:
    """Let key k stand as where rows [lo, hi) are left."""
    begin_standing(rows, k)
    for p in range(lo, hi):
        if rules.sums:
            add_value(rows, k, p, 1, rules)
        if rules.run:
            run_of(rows, k, origin, lo, p, rules)
        if rules.linked:
            link(rows, k, origin, lo, p, rules)


@entry
def left_by_rules(
    rules: Rules, rows: PolicyRows, bounds: Any, ends: Any, stops: Any, is_timed: Any, left: Any
) -> None:
    """Write into left[j] the place of the first row that is left at ends[j], of rows before stops[j].

    `bounds` are (the first row that is left so far, behind the last row that has come). If the rules
    are of time, they are enforced at each end, too.
    """
    lo, hi = bounds
    first = lo
    stand_again(rows, 0, first, lo, hi, rules)
    for j in range(len(ends)):
        lo = leave_in_turn(rows, 0, first, lo, hi, stops[j], rules)
        hi = stops[j]
        if is_timed:
            lo = expire_by_rules(rows, 0, lo, hi, ends[j], rules)
        left[j] = lo
