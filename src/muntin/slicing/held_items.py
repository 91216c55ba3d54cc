"""What a lane holds of some keys, for whoever looks at windows at a time that it chooses itself.

A lane holds slices or rows as items in an arena. A look at a window finds a run of them, and the lane
says of which keys it no longer has, or never had, all that the window needs (`Lane.lacks`).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from muntin.slicing.arena import Arena
from muntin.slicing.limits import Array
from muntin.slicing.partials import Partials


class Look(NamedTuple):
    """What is asked of one window of a lane, and the items that were found for it."""

    keys: Array  # the numbers of the keys in the lane
    time: int  # rows before it count
    begin: int | None  # when the rows of the window begin; None if rows decide that
    lo: Array  # the number of the first item in its key's run
    items: Array  # how many items there are
    first: Array  # the start of the first item, where there is one


@dataclass(frozen=True)
class HeldItems:
    """Slices or rows of a lane, with the partials of its aggregates beside them."""

    arena: Arena
    columns: list[Partials]
    last: int | None  # the column of the table with the time of an item's last row, if it is known
    opens: int | None = None  # the column that has 1 where a window opens, if rows open windows
    records: Array | None = None  # the rows as dicts, beside the items, if a policy looks at them
    compared: dict[str, Array] = field(default_factory=dict)  # numbers that a policy compares
    settled: Array | None = (
        None  # of each key asked, the first items (from, to) that a policy has left
    )
