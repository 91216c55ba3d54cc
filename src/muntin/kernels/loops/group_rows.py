"""Rows in the order of their groups, by counting: rows of a group keep their order."""

from typing import Any

from muntin.kernels.loops.instructions import entry


@entry
def place_rows(codes: Any, following: Any, order: Any, places: Any) -> None:
    """Set order[p] to the row at place p, and places[i] to the place of row i.

    following[g] is the place of the next row of group g; at first, where the group begins.
    """
    for i in range(len(codes)):
        place = following[codes[i]]
        following[codes[i]] = place + 1
        order[place] = i
        places[i] = place
