"""A report that is long is made in pieces: the watermark then advances in steps.

After a long gap the last n rows are reported at every tick of it. What a report takes beside its results
is bounded by a piece.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from muntin.slicing.limits import Array

PIECE = 1 << 20
"""About how many windows are reported at once."""
COUNTLESS = 2**40
"""More windows than this are not even begun."""


class Expected(NamedTuple):
    """About how many windows of a lane are due, and between which times they end."""

    windows: int
    first: int
    last: int


NOT_MANY = Expected(0, 0, 0)


def refuse_countless(name: str, windows: float) -> None:
    """Refuse to report more windows than anybody can take, before anything has changed."""
    if windows > COUNTLESS:
        raise ValueError(
            f"window {name!r} would be reported {windows:.0f} times at once: advance the watermark in "
            "smaller steps, choose a longer every, or ask for emit='changes'"
        )


def steps(expected: list[Expected], upto: list[Array]) -> Iterator[list[Array]]:
    """Yield the watermarks of all lanes step by step, so that each step reports about a piece."""
    pieces = -(-sum(lane.windows for lane in expected) // PIECE)
    if pieces > 1:
        first = min(lane.first for lane in expected if lane.windows)
        last = max(lane.last for lane in expected if lane.windows)
        for piece in range(1, pieces):
            stop = first + (last - first) * piece // pieces
            yield [np.minimum(time, stop) for time in upto]
    yield upto
