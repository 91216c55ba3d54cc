"""Windows that depend on the rows: sessions, punctuations, and the last n rows every so often."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from muntin.windows.periodic import _length, _origin
from muntin.windows.window import FORWARD_CONTEXT_AWARE, ContextAwareWindow, Window


@dataclass(frozen=True, repr=False)
class Session(Window):
    """A stretch of activity: neighbouring rows are at most `gap` apart. [first, last + gap)."""

    context: ClassVar[str] = "session"
    gap: int

    def __init__(self, gap: Any) -> None:
        object.__setattr__(self, "gap", _length("gap", gap, "time"))

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def describe(self) -> str:
        return f"Session with a gap of {self.gap}"


@dataclass(frozen=True, repr=False)
class LastN(Window):
    """At each multiple of `every`, the last n rows before it. Its start is a number of rows."""

    context: ClassVar[str] = FORWARD_CONTEXT_AWARE
    n: int
    every: int
    origin: int

    def __init__(self, n: int, every: Any, *, origin: Any = 0) -> None:
        object.__setattr__(self, "n", _length("n", n, "count"))
        object.__setattr__(self, "every", _length("every", every, "time"))
        object.__setattr__(self, "origin", _origin(origin, "time"))

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def describe(self) -> str:
        start = f" from {self.origin}" if self.origin else ""
        return f"LastN {self.n} rows every {self.every}{start}"

    def first_end(self, after: int) -> int:
        """Return the first multiple of `every` after a time."""
        return (after - self.origin) // self.every * self.every + self.every + self.origin


@dataclass(frozen=True, repr=False)
class Punctuation(ContextAwareWindow):
    """A row for which the predicate holds opens a window and closes the one before.

    The predicate is the name of a boolean column, or a function of a row as a dict.
    """

    predicate: str | Callable[[dict[str, Any]], Any]

    def __post_init__(self) -> None:
        if not isinstance(self.predicate, str) and not callable(self.predicate):
            raise TypeError(
                "Punctuation needs the name of a boolean column, or a function of a row; "
                f"got {self.predicate!r}"
            )

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def describe(self) -> str:
        name = getattr(self.predicate, "__name__", None) or str(self.predicate)
        return f"Punctuation by {name}"

    def opens(self, context: Any, time: int, row: dict[str, Any]) -> bool:
        """Whether the predicate holds for the row."""
        del context, time
        if isinstance(self.predicate, str):
            return bool(row[self.predicate])
        return bool(self.predicate(row))
