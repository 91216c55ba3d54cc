"""Windows that rows say: each row stands for stretches of time, and windows are made of these.

Flink calls this a window assigner. What is merged is the union of the stretches of a key that touch or
overlap. A session whose gap is in a column is one: a row at t with gap g stands for [t, t + g).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from muntin.windows.periodic import _length, check_alike
from muntin.windows.window import ASSIGNED, Window


@dataclass(frozen=True, repr=False)
class SessionOfRows(Window):
    """Sessions whose gap is in a column, or that are `longest` at most from first row to last."""

    context: ClassVar[str] = "session"
    gap: int | None
    column: str | None
    longest: int | None

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def lane(self, name: str, ordered: bool) -> tuple[str, str]:
        del ordered
        return ASSIGNED, name

    def describe(self) -> str:
        gap = f"the gap in {self.column}" if self.gap is None else f"a gap of {self.gap}"
        return f"Session with {gap}" + ("" if self.longest is None else f", {self.longest} at most")


def session_of_rows(gap: Any, column: Any, longest: Any) -> SessionOfRows:
    """Return the session that `Session` means with a column, or with a longest duration."""
    if (gap is None) == (column is None):
        given = "nothing" if gap is None else f"gap={gap!r} and column={column!r}"
        raise TypeError(
            "Session takes a gap, such as Session('5 min'), or the column in which each row has its "
            f"gap, Session(column='gap'); got {given}"
        )
    if column is not None and (not isinstance(column, str) or not column):
        raise TypeError(f"column is the name of a column, got {column!r}")
    if gap is not None:
        check_alike(gap=gap, longest=longest)
    return SessionOfRows(
        None if gap is None else _length("gap", gap, "time"),
        column,
        None if longest is None else _length("longest", longest, "time"),
    )
