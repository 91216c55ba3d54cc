"""A query: windows x aggregates x keys over a stream, and what lateness means for it.

What runs a query is imported when it is asked for: a query can be written down without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from muntin.aggregates import Aggregate
from muntin.aggregates.conditions import Condition, conditions_of
from muntin.aggregates.identity import Identity, identity_of
from muntin.windows import (
    ContextAwareWindow,
    ContextFreeWindow,
    Fired,
    Policy,
    Punctuation,
    Session,
    SessionOfRows,
    Window,
    microseconds,
)
from muntin.windows.periodic import LONGEST
from muntin.windows.window import ASSIGNED, COLUMN, FIRED_BY_ROWS, SESSION, TIME, TIMES
from muntin.windows.window_identity import window_identity

if TYPE_CHECKING:
    from muntin.query.operator import Operator
    from muntin.query.plan import Plan

COLUMNS = ("window", "start", "end", "kind")
MEASURES = ("start_measure", "end_measure")
"""Columns of results with windows of time and others: what the bounds are in the windows' measures."""
WINDOW_TIME = "window_time"
"""The time of a result for whatever reads it as a stream: the last microsecond of its window."""
EMITS = ("every", "changes")
BAD = ("error", "drop")
REPORT = "report"
DROPPED = ("count", REPORT)
"""What is done with rows that no window takes."""
REPORTED_EARLY = (TIME, COLUMN, SESSION, ASSIGNED)
"""The kinds of lanes whose windows are reported early, if that is asked for."""


@dataclass(frozen=True)
class Query:
    """Windows and aggregates over a stream of rows.

    `time` is the column of the rows' times, `keys` the columns they are grouped by. `watermark` is how
    far the watermark stays behind the latest time where nobody sets it; a stream on Spark needs one,
    which may be "0 s". `lateness` is how long after its end a window is still corrected. `ordered`
    declares that each key's rows come in the order of time.
    With `emit="changes"` a window that repeats is reported only if its values are not those of the one
    before it. A row whose time is null is an error, or with `on_bad_time="drop"` left out and counted;
    `on_bad_row="drop"` does the same for a row with a value that cannot be read, or that does not fit
    the type its column had before. Where neighbouring rows of a key are more than `idle` apart, a new
    life of the key begins, as if it were another key, and nothing of the one before is kept. With
    `early=True` each advance also reports windows that are not complete and have changed, and with
    `early="10 s"` each that passes a multiple of that: their `kind` is "early", and the row of kind
    "result" takes their place. Rows that no window takes are counted; with `dropped="report"` `process`
    returns each of them, too: `kind` is "dropped", `start` is the row's time, and only its keys are not
    null. With `max_ahead="1 day"` a row whose time is more than that ahead of the clock is dropped and
    counted, and does not move the watermark.

    >>> import muntin as mt
    >>> query = mt.Query(
    ...     time="t",
    ...     keys=("plug",),
    ...     windows={"last 20": mt.Sliding(20, 10)},
    ...     aggregates={"peak": mt.Max("watts")},
    ... )
    >>> table = query.run({"t": [1, 12, 25], "plug": ["a", "a", "a"], "watts": [5, 9, 7]})
    >>> table.select(["start", "end", "peak"]).to_pylist()[0]
    {'start': -10, 'end': 10, 'peak': 5}
    """

    time: str
    windows: Mapping[str, Window]
    aggregates: Mapping[str, Aggregate]
    keys: tuple[str, ...] = ()
    watermark: Any = None
    lateness: Any = 0
    ordered: bool = False
    emit: str = "every"
    on_bad_time: str = "error"
    on_bad_row: str = "error"
    _least: ClassVar[int] = 1  # how many windows and aggregates there must be
    idle: Any = None
    early: Any = None
    dropped: str = "count"
    max_ahead: Any = None
    delay: int = field(init=False, repr=False)
    allowed: int = field(init=False, repr=False)
    limit: int | None = field(init=False, repr=False)
    early_every: int | None = field(init=False, repr=False)
    ahead: int | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given: Any = self.keys
        if not hasattr(given, "__iter__"):
            raise TypeError(f"keys is the name of a column, or several of them, got {given!r}")
        keys = (given,) if isinstance(given, str) else tuple(given)
        object.__setattr__(self, "keys", keys)
        for part in ("windows", "aggregates"):
            object.__setattr__(self, part, _named(part, getattr(self, part)))
        delay = 0 if self.watermark is None else _duration("watermark", self.watermark)
        object.__setattr__(self, "delay", delay)
        object.__setattr__(self, "allowed", _duration("lateness", self.lateness))
        limit = None if self.idle is None else _duration("idle", self.idle)
        object.__setattr__(self, "limit", limit)
        ahead = None if self.max_ahead is None else _duration("max_ahead", self.max_ahead)
        object.__setattr__(self, "ahead", ahead)
        if not isinstance(self.time, str):
            raise TypeError(f"time is the name of a column, got {self.time!r}")
        if self.emit not in EMITS:
            raise ValueError(f"emit must be one of {', '.join(EMITS)}, got {self.emit!r}")
        for part in ("on_bad_time", "on_bad_row"):
            if getattr(self, part) not in BAD:
                raise ValueError(
                    f"{part} must be one of {', '.join(BAD)}, got {getattr(self, part)!r}"
                )
        if self.dropped not in DROPPED:
            raise ValueError(f"dropped must be one of {', '.join(DROPPED)}, got {self.dropped!r}")
        _check_windows(self.windows, self._least, self.time)
        _check_aggregates(self.aggregates, self._least)
        if self._least:
            _check_over(self.windows, self.aggregates)
        _check_names(keys, [*self.aggregates])
        if self.limit is not None:
            _check_idle(self, self.limit)
        _check_fired(self)
        object.__setattr__(self, "early_every", _early(self.early))
        if self.ahead is not None and self.reports_dropped:
            raise ValueError(
                "max_ahead drops rows before windows see them, so dropped='report' has no part of them: "
                "leave one of them out"
            )
        if self.early_every is not None and self._least:
            _check_early(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are needed, besides time and keys."""
        names = [c for condition in self.conditions for c in condition.columns]
        others = (c for c in names if c not in (self.time, *self.keys))
        return tuple(dict.fromkeys([*self.value_columns, *others]))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What is asked of rows before aggregates take them."""
        asked = (c for aggregate in self.aggregates.values() for c in conditions_of(aggregate))
        return tuple(dict.fromkeys(asked))

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The columns whose values aggregates and windows take."""
        names = [c for aggregate in self.aggregates.values() for c in columns_of(aggregate)]
        names += [w.measure for w in self.windows.values() if w.measure not in ("time", "count")]
        policies = [w.policy for w in self.windows.values() if isinstance(w, Policy)]
        looked_at: list[Any] = [
            w.predicate for w in self.windows.values() if isinstance(w, Punctuation)
        ]
        looked_at += [c for policy in policies for c in columns_of(policy.aggregate)]
        looked_at += [w.column for w in self.windows.values() if isinstance(w, SessionOfRows)]
        names += [c for c in looked_at if isinstance(c, str) and c not in (self.time, *self.keys)]
        return tuple(dict.fromkeys(names))

    @cached_property
    def measured(self) -> bool:
        """Whether results have the columns MEASURES, beside times."""
        bounds = {window.bounds for window in self.windows.values()}
        return FIRED_BY_ROWS in bounds or (TIMES in bounds and len(bounds) > 1)

    @cached_property
    def in_time(self) -> bool:
        """Whether start and end are times; where all windows are of rows or a column, they are not."""
        bounds = {window.bounds for window in self.windows.values()}
        return not bounds.isdisjoint((TIMES, FIRED_BY_ROWS)) or not bounds

    @property
    def ends_in_time(self) -> bool:
        """Whether there are windows with a time at which they end."""
        return any(window.ends_in_time for window in self.windows.values())

    @property
    def reports_dropped(self) -> bool:
        """Whether each row that no window takes is reported."""
        return self.dropped == REPORT

    @property
    def result_columns(self) -> tuple[str, ...]:
        """The columns of results, besides keys and aggregates."""
        return (*COLUMNS[:-1], *(MEASURES if self.measured else ()), COLUMNS[-1])

    def aggregates_of(self, window: str) -> tuple[str, ...]:
        """Return the names of the aggregates that belong to a window."""
        return tuple(n for n, a in self.aggregates.items() if not a.only or window in a.only)

    def plan(self, kind: str = "auto") -> "Plan":
        """Return how the query will run; see `explain`."""
        plan: Plan = import_module("muntin.query.plan").make_plan(self, kind)
        return plan

    def explain(self, plan: str = "auto") -> str:
        """Say which slices are made, what is kept, how windows are merged of it, and why."""
        return str(self.plan(plan))

    def operator(self, plan: str = "auto") -> "Operator":
        """Return an operator that takes batches of rows and gives results."""
        operator: Operator = import_module("muntin.query.operator").Operator(self, self.plan(plan))
        return operator

    def restore(self, snapshot: bytes, *, trust_functions: bool = False) -> "Operator":
        """Return the operator of which a snapshot was taken, or say how its query was another.

        Windows and aggregates may have come or gone since, and the lateness may be another: the
        operator goes on as if that had been changed now. Your own functions are compared by digests, or
        by their `version`. With `trust_functions` they are taken as they are: you know that they compute
        the same.
        """
        restore = import_module("muntin.query.operator").Operator.restore
        operator: Operator = restore(self, snapshot, trust_functions=trust_functions)
        return operator

    def _repr_html_(self) -> str:
        """Show the query in a notebook."""
        lines = {
            "time": self.time,
            "keys": ", ".join(self.keys) or "none",
            "windows": "<br>".join(
                f"{escape(name)}: {escape(w.describe())}" for name, w in self.windows.items()
            ),
            "aggregates": "<br>".join(
                f"{escape(name)}: {escape(a.name)}({escape(', '.join(columns_of(a)))})"
                for name, a in self.aggregates.items()
            ),
            "watermark, lateness": f"{self.watermark or 0}, {self.lateness}",
            **({} if self.idle is None else {"idle": str(self.idle)}),
            **({} if self.early_every is None else {"early": str(self.early)}),
            **({} if self.ahead is None else {"max_ahead": str(self.max_ahead)}),
            **({"dropped rows": "reported"} if self.reports_dropped else {}),
            "emit": self.emit + (", ordered" if self.ordered else ""),
        }
        cells = "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in lines.items())
        return f"<table>{cells}</table>"

    def run(self, data: Any, plan: str = "auto", *, now: Any = None) -> Any:
        """Return all windows over a whole table, in order or not, as a pyarrow.Table.

        `now` takes the place of the clock where the query has a `max_ahead`.
        """
        return self.operator(plan).finish(data, now=now)


class LeftOfQuery(Query):
    """What is left of a query that was changed: it may have no windows, and no aggregates."""

    _least: ClassVar[int] = 0


def columns_of(aggregate: Aggregate) -> tuple[str, ...]:
    """Return the columns that an aggregate takes, or its parts do."""
    if not aggregate.parts:
        return aggregate.columns
    return tuple(dict.fromkeys(c for part in aggregate.parts for c in columns_of(part)))


def _named(part: str, things: Any) -> dict[str, Any]:
    if not isinstance(things, Mapping):
        raise TypeError(f"{part} is a dict of them by name, got {things!r}")
    return dict(things)


def _duration(name: str, value: Any) -> int:
    length = microseconds(value)
    if not 0 <= length <= LONGEST:
        raise ValueError(f"{name} must not be negative, nor above 2**60, got {value!r}")
    return length


def _check_windows(windows: Mapping[str, Window], least: int, time: str) -> None:
    if len(windows) < least:
        raise ValueError(
            "a query needs at least one window: windows={'last hour': Tumbling('1 h')}"
        )
    for name, window in windows.items():
        if not isinstance(name, str):
            raise TypeError(f"a window is named by text, got {name!r}")
        if not isinstance(window, Window):
            raise TypeError(f"window {name!r} must be a window such as Tumbling, got {window!r}")
        if isinstance(window, SessionOfRows) and window.column == time:
            raise ValueError(
                f"the gap of window {name!r} is in a column of its own, not in {time!r}"
            )
        if isinstance(window, Policy):
            policy = f"policy {window.policy.name} of window {name!r}"
            _check_columns(policy, window.policy.aggregate)
            if conditions_of(window.policy.aggregate):
                raise ValueError(f"{policy} looks at all rows: leave where= out of its aggregate")


def _check_idle(query: Query, idle: int) -> None:
    """Refuse an idle time after which a window of time, or a late row, could reach the rows before."""
    for name, window in query.windows.items():
        if isinstance(window, ContextAwareWindow) and window.assigns:
            raise ValueError(
                f"the windows that {name!r} assigns may reach over idle={query.idle!r} without rows: "
                "leave idle out, which they do not need, or run the window in a query of its own"
            )
        longest = _longest(window)
        if idle < query.allowed + longest:
            raise ValueError(
                f"idle must be at least the lateness and the length of window {name!r} together, "
                f"{query.allowed + longest}; got {query.idle!r}"
            )


def _check_fired(query: Query) -> None:
    """Refuse to leave out windows that rows fire: each is asked for by its row."""
    fired = [name for name, window in query.windows.items() if isinstance(window, Fired)]
    if fired and query.emit != "every":
        raise ValueError(
            f"window {fired[0]!r} is reported at each row that fires it, and emit={query.emit!r} would "
            "leave some out or add others: take emit='every', or a query of its own"
        )


def _early(early: Any) -> int | None:
    """Return of which time early results come at each multiple: 0 for each advance, None for never."""
    if early is None or isinstance(early, bool):
        return 0 if early else None
    every = _duration("early", early)
    if every == 0:
        raise ValueError("early is True for each advance, or a duration above 0, got 0")
    return every


def _check_early(query: Query) -> None:
    """Refuse early results where there are none, or where they have no place."""
    if query.emit != "every":
        raise ValueError(
            f"early results are windows that will change, which emit={query.emit!r} cannot say: leave "
            "out early, or take emit='every'"
        )
    kinds = {name: window.lane(name, query.ordered)[0] for name, window in query.windows.items()}
    if not any(kind in REPORTED_EARLY for kind in kinds.values()):
        raise ValueError(
            f"no window of the query is reported early ({', '.join(map(repr, kinds))}): their ends are "
            "not known before. Those of time, of a column and sessions are; leave out early"
        )


def _longest(window: Window) -> int:
    """Return how long windows of time are, or the gap of a session.

    Windows that are found in the rows of a key have no length in time. Those of one's own are looked at
    when rows come.
    """
    if isinstance(window, ContextFreeWindow) and window.measure == "time":
        return window.longest or 0
    gap = window.gap if isinstance(window, Session | SessionOfRows) else 0
    return gap or 0


def _check_aggregates(aggregates: Mapping[str, Aggregate], least: int) -> None:
    if len(aggregates) < least:
        raise ValueError("a query needs at least one aggregate: aggregates={'total': Sum('watts')}")
    for name, aggregate in aggregates.items():
        if not isinstance(name, str):
            raise TypeError(f"an aggregate is named by text, got {name!r}")
        if not isinstance(aggregate, Aggregate):
            raise TypeError(
                f"aggregate {name!r} must be one such as Max('watts'), got {aggregate!r}"
            )
        _check_columns(f"aggregate {name!r}", aggregate, "Max('watts')")


def _check_over(windows: Mapping[str, Window], aggregates: Mapping[str, Aggregate]) -> None:
    for name, aggregate in aggregates.items():
        for window in aggregate.only:
            if window not in windows:
                raise ValueError(
                    f"aggregate {name!r} is over window {window!r}, which the query has not: it has "
                    f"{', '.join(map(repr, windows))}"
                )


def _check_columns(what: str, aggregate: Aggregate, like: str = "sum_at_most(10, 'watts')") -> None:
    """Refuse an aggregate that takes bare values, of which a stream of rows has none."""
    if aggregate.parts:
        for part in aggregate.parts:
            _check_columns(what, part, like)
    elif not aggregate.columns and not aggregate.counts_rows:
        raise ValueError(f"{what} does not say which column it is of: write it like {like}")


def _check_names(keys: tuple[str, ...], aggregates: list[str]) -> None:
    for names, what in ((keys, "a key"), (tuple(aggregates), "an aggregate")):
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"{what} is named by text, got {name!r}")
            if name in (*COLUMNS, *MEASURES, WINDOW_TIME):
                raise ValueError(f"{what} cannot be called {name!r}: results have such a column")
    for name in {*keys}:
        if keys.count(name) > 1:
            raise ValueError(f"the key {name!r} is given twice")
        if name in aggregates:
            raise ValueError(f"{name!r} is a key and an aggregate: give the aggregate another name")


def identity(query: Query) -> Identity:
    """Return what must be the same for a saved state to serve a query.

    Not part of it is what a stream that stopped may choose again: `watermark`, `max_ahead`,
    `on_bad_time`, `early`, `dropped` and `overflow` of aggregates. Of two states, windows, aggregates
    and lateness may differ (`changing`).
    """
    return {
        "time": query.time,
        "keys": list(query.keys),
        "windows": {name: window_identity(window) for name, window in query.windows.items()},
        "aggregates": {name: identity_of(a) for name, a in query.aggregates.items()},
        "ordered": query.ordered,
        "lateness": query.allowed,
        "idle": query.limit,
        "emit": query.emit,
    }
