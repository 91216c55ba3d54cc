"""Which windows of time are open: begun by the newest row, and not yet behind the watermark."""

from itertools import islice

from muntin.query.query import Query
from muntin.windows import Periodic
from muntin.windows.window import ContextFreeWindow, Window

MOST = 10_000
"""So many windows that do not repeat evenly are counted, one by one."""


def open_windows(query: Query, watermark: int, newest: int) -> dict[str, int]:
    """Return for each window of time how many of its windows a key can have open at most.

    Sessions and windows of rows begin where their rows are: nothing is said of them.

    >>> import muntin as mt
    >>> query = mt.Query(
    ...     time="t",
    ...     windows={"ten": mt.Sliding(10, 5), "idle": mt.Session(3)},
    ...     aggregates={"rows": mt.Count()},
    ... )
    >>> open_windows(query, watermark=20, newest=32)
    {'ten': 4}
    """
    counted = {name: _open(window, watermark, newest) for name, window in query.windows.items()}
    return {name: count for name, count in counted.items() if count is not None}


def _open(window: Window, watermark: int, newest: int) -> int | None:
    """Return how many windows have start <= newest and end > watermark; None if that is not known."""
    if window.measure != "time" or not isinstance(window, ContextFreeWindow):
        return None
    if isinstance(window, Periodic):
        first = window.first_end(watermark) - window.size
        return max(0, (newest - first) // window.every + 1)
    longest = window.longest
    if longest is None:
        return None
    ends = window.closed(watermark, newest + longest)
    return sum(start <= newest for start, _ in islice(ends, MOST))
