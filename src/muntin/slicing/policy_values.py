"""What a query's policies look at: ready-made ones at one column of numbers, others at whole rows.

Values that policies compare are kept as 64 bits each: whole numbers, or floats. Where a column
has anything else (text, moments, decimals, whole numbers beside floats), rows are objects from then on,
and an AMTA enforces the policy on them.
"""

import sys
from math import floor, isnan
from typing import Any

import numpy as np

from muntin.policies.policy import Rule
from muntin.slicing.held_bytes import Measure
from muntin.slicing.limits import NEVER, Array
from muntin.slicing.loops.policy_rules import LIMB, LOWER, NULL, Rules
from muntin.slicing.tables import LINK_COLUMNS
from muntin.windows import Policy

NOTHING, WHOLE, FLOATS, OBJECTS = "nothing", "whole numbers", "floats", "objects"
FORMS = (NOTHING, WHOLE, FLOATS, OBJECTS)
"""What the values are that a policy has seen so far; nothing, if all of them were null."""
OF_VALUES = ("sums", "peak", "run")
MOST = 2**94
"""No sum of whole numbers is further from 0."""


def rules_of(window: Policy, time: str) -> Rules | None:
    """Return a policy as rules for loops, if it is made of them; `time` is the column of rows' times."""
    rules: tuple[Rule, ...] = getattr(window.policy, "rules", ())
    kinds = {rule.kind for rule in rules}
    columns = {rule.column for rule in rules if rule.kind in OF_VALUES}
    if not rules or any(rule.kind == "age" and rule.column != time for rule in rules):
        return None
    if len(columns) > 1 or ("run" in kinds and len(kinds) > 1):
        return None
    sums = [rule.limit for rule in rules if rule.kind == "sums"]
    if not all(type(x) in (int, float) for x in sums):
        return None
    rows, age = (
        min((r.limit for r in rules if r.kind == k), default=NEVER) for k in ("rows", "age")
    )
    most = min((x for x in sums if not isnan(x)), default=np.inf)
    whole = floor(max(-MOST, min(MOST, most)))
    has_sums, has_peak, has_run = (int(kind in kinds) for kind in OF_VALUES)
    linked = int(has_peak and len(kinds) > 1)
    high, low = whole >> LIMB, whole & LOWER
    return Rules(
        rows, age, has_sums, high, low, not_above(most), has_peak, has_run, linked, floats=0
    )


def not_above(x: float) -> float:
    """Return the largest float that is not above a number."""
    limit = min(x, sys.float_info.max) if x != np.inf else x
    nearest = float(max(limit, -sys.float_info.max) if x != -np.inf else limit)
    return nearest if nearest <= x else float(np.nextafter(nearest, -np.inf))


def column_of(window: Policy) -> str | None:
    """Return the column whose values a policy of rules compares, if it compares values."""
    columns = [rule.column for rule in window.policy.rules if rule.kind in OF_VALUES]
    return columns[0] if columns else None


def looks_at_rows(window: Policy, time: str, idle: int | None) -> bool:
    """Whether a policy looks at rows as dicts, whatever values they have."""
    return rules_of(window, time) is None or (column_of(window) is not None and idle is not None)


def form_of(values: Array) -> str:
    """Return what values are, as `compared` returned them."""
    if (values.view(np.int64) == NULL).all():
        return NOTHING
    return FLOATS if values.dtype.kind == "f" else WHOLE


class Links:
    """What links kept rows (LINK_NEXT and so on), beside their arena. It is derived from the values."""

    def __init__(self) -> None:
        self.table = np.zeros((0, LINK_COLUMNS), np.int64)

    def renew(self, places: int) -> None:
        """Make space for a number of places, with nothing at them."""
        self.table = np.zeros((places, LINK_COLUMNS), np.int64)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The links, at every place."""
        return (self.table,)

    def take(self, places: Array) -> tuple[Array, ...]:
        """Return nothing: a call that fails forgets how policies stand, and links with it."""
        del places
        return ()

    def put(self, places: Array, parts: tuple[Array, ...]) -> None:
        """Put nothing back."""

    def bytes(self, places: Array, count: int, measure: Measure) -> int:
        """Return the memory of the links."""
        del places, count, measure
        return int(self.table.nbytes)


def as_objects(bits: Array, form: str) -> list[Any]:
    """Return values of some form as Python's objects."""
    values: list[Any] = (bits.view(np.float64) if form == FLOATS else bits).tolist()
    null = (bits == NULL).tolist()
    return [None if missing else x for x, missing in zip(values, null, strict=True)]
