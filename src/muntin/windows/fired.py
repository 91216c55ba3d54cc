"""Windows that rows fire: the last so much of time or of a column, after each so manyth row of a key.

What a window holds and when it is reported are two things (Tangwongsan et al., VLDB 2015, call them
eviction and trigger). Where only one of the two is counted in rows, a window is written as
`Sliding("10 min", every=rows(100))` or as `Sliding(rows(100), every="1 min")`, which is `LastN`.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from muntin.windows.contextual import LastN
from muntin.windows.periodic import LONGEST, _length
from muntin.windows.row_count import RowCount
from muntin.windows.window import FIRED, FIRED_BY_ROWS, FORWARD_CONTEXT_AWARE, Window


@dataclass(frozen=True, repr=False)
class Fired(Window):
    """The rows of the last so much, up to and with each `every`th row of a key.

    Of time these are the rows later than that row's time less `size`, and of a column those that it had
    not passed by `size` or more. A value of the column that falls counts as the greatest one before.
    """

    context: ClassVar[str] = FORWARD_CONTEXT_AWARE
    size: int | float
    every: int
    measure: str = "time"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    @property
    def bounds(self) -> str:
        return FIRED_BY_ROWS

    def lane(self, name: str, ordered: bool) -> tuple[str, str]:
        del ordered
        return FIRED, name

    def describe(self) -> str:
        of = "" if self.measure == "time" else f" of {self.measure}"
        when = "each row" if self.every == 1 else f"each {self.every} rows"
        return f"the last {self.size}{of} after {when}"


def sliding_by_rows(size: Any, every: Any, measure: str, origin: Any) -> Window:
    """Return the windows that `Sliding` means where its size or its step is a number of rows."""
    if measure != "time":
        raise TypeError(f"rows(n) says what is counted: leave out measure={measure!r}")
    if not isinstance(every, RowCount):
        return LastN(size.count, every, origin=origin)
    if isinstance(size, RowCount):
        raise TypeError(
            f"windows of {size} every {every} are Sliding({size.count}, every={every.count}, "
            "measure='count'); rows(n) is for one of the two, beside a duration"
        )
    if origin != 0:
        raise TypeError(f"windows that rows fire have no origin, got {origin!r}")
    return Fired(_length("size", size, "time"), every.count)


def delta_by_rows(column: str, size: Any, every: RowCount, origin: Any) -> Window:
    """Return the windows that `Delta` means where its step is a number of rows."""
    if isinstance(size, bool) or not isinstance(size, int | float):
        raise TypeError(f"size is a number of {column!r}, such as 5.0, got {size!r}")
    if not (0 < size <= LONGEST and math.isfinite(size)):
        raise ValueError(f"a window's size must be above zero, and 2**60 at most, got {size!r}")
    if origin != 0:
        raise TypeError(f"windows that rows fire have no origin, got {origin!r}")
    return Fired(size, every.count, column)
