"""Windows that depend on rows: sessions, punctuations, the last rows and policies at every tick."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from muntin.windows.assigned import session_of_rows
from muntin.windows.periodic import _length, _origin
from muntin.windows.window import (
    FORWARD_CONTEXT_AWARE,
    LAST_ROWS,
    POLICY,
    ROWS_UNTIL,
    SESSION,
    STRETCHES,
    ContextAwareWindow,
    Window,
)


@dataclass(frozen=True, repr=False)
class Session(Window):
    """A stretch of activity: neighbouring rows are at most `gap` apart. [first, last + gap).

    With `longest`, a row that is more than that after the session's first row opens a new one. With
    `column`, each row has its own gap in a column, of durations or, if times are whole numbers, of whole
    numbers: it stands for [t, t + gap), and a session is the union of those that touch or overlap.

    >>> Session("5 min"), Session("5 min", longest="1 hour")
    (<Session with a gap of 5 min>, <Session with a gap of 5 min, 1 h at most>)
    >>> Session(column="patience")
    <Session with the gap in patience>
    """

    context: ClassVar[str] = "session"
    gap: int

    def __new__(cls, gap: Any = None, *, column: str | None = None, longest: Any = None) -> Any:
        if cls is Session and (gap is None or column is not None or longest is not None):
            return session_of_rows(gap, column, longest)
        return super().__new__(cls)

    def __getnewargs__(self) -> tuple[int]:
        return (self.gap,)

    def __init__(self, gap: Any = None, *, column: str | None = None, longest: Any = None) -> None:
        del column, longest
        object.__setattr__(self, "gap", _length("gap", gap, "time"))

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def lane(self, name: str, ordered: bool) -> tuple[str, str]:
        del ordered
        return SESSION, name

    def describe(self) -> str:
        return f"Session with a gap of {self.gap}"


@dataclass(frozen=True, repr=False)
class Ticking(Window):
    """Windows that end at each multiple of `every`, and begin where the rows before it say."""

    context: ClassVar[str] = FORWARD_CONTEXT_AWARE
    every: int
    origin: int

    def _tick(self, every: Any, origin: Any) -> None:
        object.__setattr__(self, "every", _length("every", every, "time"))
        object.__setattr__(self, "origin", _origin(origin, "time"))

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def describe(self) -> str:
        start = f" from {self.origin}" if self.origin else ""
        return f"{self._content()} every {self.every}{start}"

    @abstractmethod
    def _content(self) -> str:
        """Say what is in the windows."""

    def first_end(self, after: int) -> int:
        """Return the first multiple of `every` after a time."""
        return (after - self.origin) // self.every * self.every + self.every + self.origin


@dataclass(frozen=True, repr=False)
class LastN(Ticking):
    """At each multiple of `every`, the last n rows before it. Its start is a number of rows."""

    n: int

    def __init__(self, n: int, every: Any, *, origin: Any = 0) -> None:
        object.__setattr__(self, "n", _length("n", n, "count"))
        self._tick(every, origin)

    @property
    def bounds(self) -> str:
        return ROWS_UNTIL

    def lane(self, name: str, ordered: bool) -> tuple[str, str]:
        del ordered
        return LAST_ROWS, name

    def _content(self) -> str:
        return f"LastN {self.n} rows"


@dataclass(frozen=True, repr=False)
class Policy(Ticking):
    """At each multiple of `every`, the rows before it that a policy has left.

    The policy is one of `mt.policies`, with the columns it looks at; it is enforced after each row of a
    key, in the order of (time, arrival). A window starts at the time of its oldest row. One of which the
    policy left nothing is not reported. A late row is enforced in its place, and what follows again.

    >>> import muntin as mt
    >>> barrel = mt.Policy(mt.policies.sum_at_most(10, "litres"), every=5)
    >>> query = mt.Query(
    ...     time="t", windows={"barrel": barrel}, aggregates={"litres": mt.Collect("litres")}
    ... )
    >>> rows = {"t": [1, 2, 6, 8, 9], "litres": [2, 2, 3, 3, 4]}
    >>> query.run(rows).select(["start", "end", "litres"]).to_pylist()
    [{'start': 1, 'end': 5, 'litres': [2, 2]}, {'start': 6, 'end': 10, 'litres': [3, 3, 4]}]
    """

    policy: Any

    def __init__(self, policy: Any, every: Any, *, origin: Any = 0) -> None:
        if not all(hasattr(policy, part) for part in ("name", "aggregate", "on_partials")):
            raise TypeError(
                f"Policy needs a policy such as mt.policies.last(100), got {policy!r}; a function "
                "becomes one with mt.policies.SlidePolicy(name, aggregate, function)"
            )
        object.__setattr__(self, "policy", policy)
        self._tick(every, origin)

    def lane(self, name: str, ordered: bool) -> tuple[str, str]:
        del ordered
        return POLICY, name

    def _content(self) -> str:
        return f"Policy {self.policy.name}"


@dataclass(frozen=True, repr=False)
class Punctuation(ContextAwareWindow):
    """A row for which the predicate holds opens a window and closes the one before.

    The predicate is the name of a boolean column, or a function of a row as a dict. A saved state knows
    a function by its digest, or by the `version` that you give in place of it. With `last`, a window has
    the stretch that closes and those before it, so many in all, or as many as there are.

    >>> Punctuation("full"), Punctuation("full", last=3)
    (<Punctuation by full>, <the last 3 of Punctuation by full>)
    """

    predicate: str | Callable[[dict[str, Any]], Any]
    version: int | str | None = None
    last: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", _length("last", self.last, "count"))
        if not isinstance(self.predicate, str) and not callable(self.predicate):
            raise TypeError(
                "Punctuation needs the name of a boolean column, or a function of a row; "
                f"got {self.predicate!r}"
            )

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def describe(self) -> str:
        name = getattr(self.predicate, "__name__", None) or str(self.predicate)
        last = "" if self.last == 1 else f"the last {self.last} of "
        return f"{last}Punctuation by {name}"

    def lane(self, name: str, ordered: bool) -> tuple[str, str]:
        return super().lane(name, ordered) if self.last == 1 else (STRETCHES, name)

    def opens(self, context: Any, time: int, row: dict[str, Any]) -> bool:
        """Whether the predicate holds for the row."""
        del context, time
        if isinstance(self.predicate, str):
            return bool(row[self.predicate])
        return bool(self.predicate(row))
