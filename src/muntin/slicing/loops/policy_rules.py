"""What ready-made policies leave of a key's rows: the first row that is left never moves back.

TPDS 2019, section 4.1.4: a policy is enforced after each row. Where it is a comparison with the oldest
row, the rows that leave are found one by one. Cost: O(1) amortised per row, and no combines.
"""

from typing import Any, NamedTuple

from muntin.kernels.loops.instructions import entry
from muntin.slicing.tables import ROW_TIME


class Rules(NamedTuple):
    """When the oldest row leaves: if any of these is more, or not less, than a limit; NEVER is none."""

    rows: Any  # it leaves if there are more rows
    age: Any  # it leaves if its time is not less than this before the latest


def leave_by_rules(table: Any, lo: Any, i: Any, rules: Rules) -> Any:
    """Return the first row that is left of rows [lo, i] when row i has come."""
    t = table[i, ROW_TIME]
    while i + 1 - lo > rules.rows or t - table[lo, ROW_TIME] >= rules.age:
        lo += 1
    return lo


@entry
def left_by_rules(
    table: Any, bounds: Any, ends: Any, stops: Any, rules: Rules, is_timed: Any, left: Any
) -> None:
    """Write into left[j] the place of the first row that is left at ends[j], of rows before stops[j].

    `bounds` are (the first row that is left so far, behind the last row that has come). If the rules
    are of time, they are enforced at each end, too.
    """
    lo, hi = bounds
    for j in range(len(ends)):
        while hi < stops[j]:
            lo = leave_by_rules(table, lo, hi, rules)
            hi += 1
        while is_timed and lo < hi and ends[j] - table[lo, ROW_TIME] >= rules.age:
            lo += 1
        left[j] = lo
