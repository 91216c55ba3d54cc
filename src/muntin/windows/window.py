"""What a window is: a rule that says where windows start and end, and the context it needs to know it.

EDBT 2019, section 4.4: a window type is context free if all edges are known without looking at a row;
forward context free if all edges up to t are known once all rows up to t are (punctuations); forward
context aware if rows after t may still add edges before it (the last n rows, every so often). Sessions
are context aware, but a slice per session never has to be split, so they are treated by themselves.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self

CONTEXT_FREE = "context free"
FORWARD_CONTEXT_FREE = "forward context free"
FORWARD_CONTEXT_AWARE = "forward context aware"

# Kinds of lanes: what serves a window in a query (`muntin.slicing.lane`).
TIME = "time"  # context-free windows over time
COLUMN = "column"  # the same over a column that advances
RANKS = "ranks"  # the same over the number of rows, in a stream in order
COUNTS = "counts"  # the same in a stream out of order
SESSION = "session"  # one session window
PUNCTUATION = "punctuation"  # one window between rows that open one, whatever came before
CONTEXT = "context"  # the same, if that depends on the rows before; rows are kept
LAST_ROWS = "last rows"  # the last n rows of a key, which are kept
POLICY = "policy"  # the rows that a policy has left, which are kept
FIRED = "fired by rows"  # the last so much after each so manyth row of a key, which are kept
ASSIGNED = "assigned"  # one window of which each row says its stretches of time; rows are kept
STRETCHES = "stretches"  # the last stretches between rows that open one, which are kept
FROM_ROWS = (CONTEXT, LAST_ROWS, POLICY, FIRED, ASSIGNED, STRETCHES)

# What the bounds of windows are (`Window.bounds`).
TIMES = "times"
NUMBERS = "numbers"  # of rows, or values of a column
ROWS_UNTIL = "rows until a time"  # from a number of rows to a time
FIRED_BY_ROWS = "times and numbers"  # of rows; a window along a column has only these


class Window(ABC):
    """A rule for windows; `measure` is what they are measured in: "time", "count" or a column."""

    context: ClassVar[str]
    measure: str = "time"

    @abstractmethod
    def describe(self) -> str:
        """Say in a few words what the windows are."""

    @property
    def bounds(self) -> str:
        """What starts and ends are: times, or numbers in the window's measure."""
        return TIMES if self.measure == "time" else NUMBERS

    @property
    def ends_in_time(self) -> bool:
        """Whether each window has a time at which it ends."""
        return self.bounds in (TIMES, ROWS_UNTIL, FIRED_BY_ROWS) and self.measure == "time"

    @abstractmethod
    def lane(self, name: str, ordered: bool) -> tuple[str, str]:
        """Return the kind of lane that serves the window, and which one of that kind.

        Windows of a query with the same lane share it. `name` is the window's name in the query, and
        `ordered` says whether its rows come in order.
        """


class ContextFreeWindow(Window):
    """Windows whose edges are known without looking at a row.

    Write `next_edge` and `closed` for windows of your own. Edges are whole numbers, as times are inside
    (microseconds, or the time column's own integers). Windows are half-open, [start, end), and advance:
    the later of two windows neither starts nor ends before the other. A saved state knows your methods
    by their digests, or by an attribute `version` that you change when what they compute changes.

    >>> class Powers(ContextFreeWindow):
    ...     '''[1, 2), [2, 4), [4, 8) and so on.'''
    ...     def next_edge(self, t):
    ...         return 1 if t < 1 else 1 << t.bit_length()
    ...     def closed(self, after, upto):
    ...         end = max(2, 1 << max(after, 1).bit_length())
    ...         while end <= upto:
    ...             yield end // 2, end
    ...             end *= 2
    >>> Powers().next_edge(5), list(Powers().closed(2, 8))
    (8, [(2, 4), (4, 8)])
    """

    context: ClassVar[str] = CONTEXT_FREE

    @abstractmethod
    def next_edge(self, t: int) -> int | None:
        """Return the first time after t at which a window starts or ends; None if there is none."""

    @property
    def gapless(self) -> bool:
        """Whether every time is known to be in a window."""
        return False

    @property
    def longest(self) -> int | None:
        """How long windows are at most; None if that is not known."""
        return None

    @abstractmethod
    def closed(self, after: int, upto: int) -> Iterable[tuple[int, int]]:
        """Return the windows with after < end <= upto as (start, end), in the order of their ends."""

    def lane(self, name: str, ordered: bool) -> tuple[str, str]:
        del name
        if self.measure == "count":
            return (RANKS if ordered else COUNTS), ""
        return (TIME, "") if self.measure == "time" else (COLUMN, self.measure)

    def describe(self) -> str:
        return own_name(self)


class ContextAwareWindow(Window):
    """Windows whose edges depend on the rows: rows open them, or say in which windows they are.

    Write `opens` or `assign` for windows of your own. With `opens` each row either opens a window or
    belongs to the open one; write `begin` if it needs to remember something: each window begins a new
    context, which sees every row in (time, arrival) order until the next opens.
    A window starts at the time of the row that opens it and ends where the next one starts; rows of
    equal time are never parted: if one of them opens a window, all are in it. The first window starts at
    the first row. A late row is seen in its place, and the windows that it may change are seen again. A
    window without `begin` remembers nothing: `opens` gets None, and is called once per row.

    With `assign` each row says its windows: they may overlap, leave gaps and lie before or behind the
    row. If `merging` is true, those of a key that touch or overlap become one. A saved state knows your
    methods by their digests, or by an attribute `version`.

    >>> class UntilSum(ContextAwareWindow):
    ...     '''A window takes rows until their sum has reached a limit.'''
    ...     def __init__(self, column, limit):
    ...         self.column, self.limit = column, limit
    ...     def begin(self):
    ...         return {"sum": 0}
    ...     def opens(self, context, time, row):
    ...         full = context["sum"] >= self.limit
    ...         context["sum"] += row[self.column]
    ...         return full
    >>> UntilSum("litres", 100).describe()
    "UntilSum(column='litres', limit=100)"
    >>> class Auctions(ContextAwareWindow):
    ...     '''An auction lasts as long as each of its rows says.'''
    ...     def assign(self, time, row):
    ...         return [(row["opened"], row["closes"])]
    >>> Auctions().assign(7, {"opened": 5, "closes": 30})
    [(5, 30)]
    """

    context: ClassVar[str] = FORWARD_CONTEXT_FREE
    merging: ClassVar[bool] = False

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Refuse a class that has neither or both of the methods that say where windows are."""
        opens = cls.opens is not ContextAwareWindow.opens
        if opens == (cls.assign is not ContextAwareWindow.assign):
            has = "has both opens and assign" if opens else "is abstract, without opens and assign"
            raise TypeError(f"the window {cls.__name__} {has}: write one of the two")
        return super().__new__(cls)

    @property
    def assigns(self) -> bool:
        """Whether rows say their windows."""
        return type(self).assign is not ContextAwareWindow.assign

    def begin(self) -> Any:
        """Return the context of a window that opens, before it sees its first row."""
        return None

    def opens(self, context: Any, time: int, row: dict[str, Any]) -> bool:
        """Whether this row opens a new window; the context may be changed to remember the row.

        When a window opens, its own context sees the rows at its start; the answers are not used.
        """
        raise NotImplementedError(f"{type(self).__name__} assigns windows to rows")

    def assign(self, time: int, row: dict[str, Any]) -> Iterable[tuple[Any, Any]]:
        """Return the windows that a row is in as (start, end); it is called once for each row.

        Bounds are whole numbers, as `time` is, or moments.
        """
        raise NotImplementedError(f"rows open the windows of {type(self).__name__}")

    def lane(self, name: str, ordered: bool) -> tuple[str, str]:
        del ordered
        if self.assigns:
            return ASSIGNED, name
        remembers = type(self).begin is not ContextAwareWindow.begin
        return CONTEXT if remembers else PUNCTUATION, name

    def describe(self) -> str:
        return own_name(self)


def own_name(window: Window) -> str:
    """Return the name of a user's own window with what it was made with."""
    made_with = ", ".join(f"{name}={value!r}" for name, value in vars(window).items())
    return f"{type(window).__name__}({made_with})" if made_with else type(window).__name__
