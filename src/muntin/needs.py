"""What a query needs of its rows, and by when the windows of a finite table are complete."""

from collections.abc import Iterable
from dataclasses import dataclass

from muntin.query import Query
from muntin.slicing.grid import end_of_last
from muntin.windows import ContextAwareWindow, ContextFreeWindow, LastN, Session, Window


@dataclass(frozen=True)
class Needs:
    """What a query needs of its rows besides times and keys, and whether its results are in time."""

    columns: tuple[str, ...]
    measures: dict[str, str]
    whole_rows: bool
    times: bool

    @classmethod
    def of(cls, query: Query) -> "Needs":
        """Look through a query's windows."""
        windows = query.windows.items()
        measures = {w.measure: n for n, w in windows if w.measure not in ("time", "count")}
        whole_rows = any(isinstance(w, ContextAwareWindow) for _, w in windows)
        return cls(query.columns, measures, whole_rows, measured_in_time(query))


def measured_in_time(query: Query) -> bool:
    """Whether start and end are times in all windows; a number of rows or a column's value is not."""
    return all(w.measure == "time" and not isinstance(w, LastN) for w in query.windows.values())


def last_end(windows: Iterable[Window], latest: int) -> int:
    """Return a watermark by which every window that the data fill is complete."""
    return max(_last_end(window, latest) for window in windows)


def _last_end(window: Window, latest: int) -> int:
    if isinstance(window, LastN):
        return window.first_end(latest)
    if isinstance(window, Session):
        return latest + window.gap + 1
    if isinstance(window, ContextFreeWindow) and window.measure == "time":
        return max(latest + 1, end_of_last(window, latest))
    return latest + 1
