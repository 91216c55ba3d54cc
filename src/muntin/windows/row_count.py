"""A number of rows, in place of a duration."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RowCount:
    """So many rows of a key."""

    count: int

    def __repr__(self) -> str:
        return f"rows({self.count})"


def rows(n: int) -> RowCount:
    """Return a number of rows, where `Sliding` or `Delta` would else have a duration or a length.

    >>> import muntin as mt
    >>> mt.Sliding("10 min", every=mt.rows(100)), mt.Sliding(mt.rows(100), every="1 min")
    (<the last 10 min after each 100 rows>, <LastN 100 rows every 1 min>)
    """
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"rows takes a whole number, got {n!r}")
    count = int(n)
    if not 0 < count <= 2**60:
        raise ValueError(f"a number of rows is above zero, and 2**60 at most, got {n!r}")
    return RowCount(count)


def refuse_rows(name: str, value: Any, measure: str) -> None:
    """Refuse a number of rows where there is another way to write it."""
    if isinstance(value, RowCount):
        plain = "" if measure == "count" else ", with measure='count'"
        raise TypeError(
            f"{name}={value!r}: rows(n) is the size or the step of Sliding, or the step of Delta; for "
            f"windows of rows alone write {name}={value.count}{plain}"
        )
