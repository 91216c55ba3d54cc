"""Random queries that change while they run.

A case is a query, and steps: rows, watermarks, restarts, changes, and calls that must fail. A number
says which it is. Its rows and windows are among those that the strategies of `test_query_properties`
give.
"""

import random
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import muntin as mt
from muntin.query.plan import PLANS
from tests.changing_oracle import ChangingOracle
from tests.test_query_properties import (
    ASSIGNED,
    COMMUTATIVE,
    IN_ORDER,
    KEYS,
    RANKS,
    WHERE,
    WINDOWS,
    WITH_CHANGES,
    Shifts,
    events,
    written,
)

SCHEMA = pa.schema(
    {"t": pa.int64(), "room": pa.string(), "plug": pa.int64(), "n": pa.int64(), "km": pa.int64()}
    | {"v": pa.int64(), "x": pa.float64(), "mark": pa.bool_(), "bit": pa.int64()}
    | {"gap": pa.int64()}
)
WHICH = (mt.Sum("bit"), mt.Collect("n"))
"""They say exactly which rows a window has; the one is commutative, the other not."""
AGGREGATES = {**COMMUTATIVE, **IN_ORDER, **RANKS, **WHERE}
LENGTHS = (8, 15, 25, 40)
LATENESS = (0, 0, 5, 15, 60)
CHANGES = (
    "add_window",
    "remove_window",
    "add_aggregate",
    "remove_aggregate",
    "change_lateness",
    "over",
)


@dataclass(frozen=True)
class Case:
    """A query, the plan it runs under, and what happens to it."""

    windows: dict[str, Any]
    aggregates: dict[str, Any]
    over: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lateness: int = 0
    ordered: bool = False
    emit: str = "every"
    plan: str = "auto"
    shards: int = 0
    forgets: bool = (
        False  # whether keys of which nothing is left are forgotten as soon as that is so
    )
    idle: int | None = None
    steps: tuple[tuple, ...] = ()

    def query(self):
        """Return the query as it is at first."""
        return mt.Query(
            time="t",
            keys=KEYS,
            windows=self.windows,
            aggregates={n: bound(a, self.over.get(n)) for n, a in self.aggregates.items()},
            lateness=self.lateness,
            ordered=self.ordered,
            emit=self.emit,
            idle=self.idle,
        )

    def oracle(self):
        """Return the definition of what it reports."""
        return ChangingOracle(
            self.windows,
            self.aggregates,
            self.lateness,
            over=self.over,
            keys=KEYS,
            ordered=self.ordered,
            idle=self.idle,
        )


def bound(aggregate, over):
    """Return an aggregate as it is written for some windows only."""
    return aggregate if over is None else aggregate.over(*over)


# Cases by a seed


@lru_cache
def pool():
    """Return events and windows that the strategies gave, to choose from by a seed."""
    drawn = [], []

    @seed(18)
    @settings(
        max_examples=80,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(events, min_size=30, max_size=30), st.fixed_dictionaries(WINDOWS))
    def draw(some, windows):
        drawn[0].extend(some)
        drawn[1].append(windows)

    draw()
    return drawn


def made_case(number, changes=CHANGES, shards=0):
    """Return the case of a number."""
    chance = random.Random(number)
    ordered = chance.random() < 0.35
    names = [f"w{i}" for i in range(chance.choice((1, 1, 2, 3)))]
    aggregates = some_aggregates(chance, "a", chance.choice((1, 1, 2)))
    exact = {"rows": chance.choice(WHICH)} if chance.random() < 0.8 else {}
    emit = chance.choice(("every", "every", "changes"))
    case = Case(
        windows={name: some_window(chance, emit) for name in names},
        aggregates={**exact, **aggregates},
        lateness=chance.choice(LATENESS),
        ordered=ordered,
        emit=emit,
        plan="auto" if shards else chance.choice(PLANS),
        shards=shards,
    )
    if "over" in changes and chance.random() < 0.2:
        case = replace(case, over={next(iter(aggregates)): (chance.choice(names),)})
    case = idle_case(chance, case) if chance.random() < 0.3 else case
    drawn = chance.choices(pool()[0], k=chance.choice(LENGTHS))
    stream = written(drawn, chance.randint(1, 3), chance.randint(-50, 50), ordered)
    stream = stream if case.idle is None else parted(chance, stream)
    steps = [step_of(event) for event in stream]
    for i in range(chance.choice((0, 1, 2, 3, 5)) if changes else 0):
        names = [f"{i}{j}" for j in range(chance.choice((1, 1, 2, 3)))]
        some = tuple(some_change(chance, name, case, changes) for name in names)
        step = (chance.choice(("change", "change", "reopen")), some)
        steps.insert(chance.randrange(len(steps)), step)
    for _ in range(chance.choice((0, 0, 1, 3)) if changes else 0):
        steps.insert(chance.randrange(len(steps)), ("bad", chance.random()))
    return replace(case, steps=tuple(steps), forgets=chance.random() < 0.5)


def idle_case(chance, case):
    """Return a case in which a key may have several lives, or the same if that cannot be."""
    for idle in (chance.randint(0, 60), chance.randint(60, 150)):
        found = replace(case, idle=idle)
        try:
            query = found.query()
        except ValueError:
            continue
        if not too_short(query):
            return found
    return case


def too_short(query):
    """Whether windows of one's own are too long for a query's idle time."""
    lengths = (
        16 if isinstance(w, Shifts) else 13 if getattr(w, "column", None) == "gap" else 0
        for w in query.windows.values()
    )
    return query.idle < query.lateness + max(lengths)


def parted(chance, stream):
    """Return a stream with longer gaps."""
    later, found = 0, []
    for event in stream:
        later += chance.choice((20, 60, 160)) if chance.random() < 0.08 else 0
        if isinstance(event, dict):
            t = event["t"] + later
            found.append(event | {"t": t, "km": t // 2 * 3})
        else:
            found.append(event + later if isinstance(event, int) else event)
    return found


def some_window(chance, emit, *, added=False):
    """Return a window of any kind that goes with what a query emits, and can be added."""
    kinds = WITH_CHANGES if emit == "changes" else WINDOWS
    kinds = [kind for kind in kinds if not added or kind not in ASSIGNED]
    return chance.choice(pool()[1])[chance.choice(tuple(kinds))]


def some_aggregates(chance, name, count):
    kinds = chance.choice((COMMUTATIVE, AGGREGATES, IN_ORDER, WHERE))
    return {f"{name}{i}": kinds[chance.choice(tuple(kinds))] for i in range(count)}


def some_change(chance, name, case, changes):
    """Return a change as a method and its arguments; a name may be one that was there."""
    kind = chance.choice([change for change in changes if change != "over"])
    if kind == "add_window":
        names = [f"w{name}", *case.windows]
        return kind, chance.choice(names), some_window(chance, case.emit, added=True)
    if kind == "remove_window":
        return kind, chance.random()
    if kind == "add_aggregate":
        names = [f"a{name}"] if case.emit == "changes" else [f"a{name}", *case.aggregates]
        ((_, aggregate),) = some_aggregates(chance, "", 1).items()
        aggregate = chance.choice((aggregate, *WHICH))
        over = "over" in changes and chance.random() < 0.3
        return kind, chance.choice(names), aggregate, chance.random() if over else None
    if kind == "remove_aggregate":
        return kind, chance.random()
    return kind, chance.choice(LATENESS)


def step_of(event):
    """Return a step of what a stream has."""
    if isinstance(event, dict):
        return "row", {**event, "bit": 1 << event["n"]}
    return ("advance", event) if isinstance(event, int) else (event,)


# Changes, to a query and to its definition


class Changed:
    """A query and its definition, changed together; a change that makes no sense now is left out."""

    def __init__(self, case):
        self.query, self.oracle = case.query(), case.oracle()

    def resolve(self, change):
        """Return a change as a method with its arguments, or None if it makes no sense now."""
        kind, *given = change
        query = self.query
        if query.idle is not None and not self._serves_idle(kind, given):
            return None
        if kind == "add_window":
            return None if given[0] in query.windows else (kind, *given)
        if kind == "remove_window":
            bound_to = {n for part in self.oracle.parts.values() for n in part.over or ()}
            free = [n for n in query.windows if n not in bound_to]
            return (kind, picked(free, given[0])) if free and len(query.windows) > 1 else None
        if kind == "add_aggregate":
            name, aggregate, share = given
            if name in query.aggregates:
                return None
            over = None if share is None else (picked([*query.windows], share),)
            return kind, name, aggregate, over
        if kind == "remove_aggregate":
            names = [*query.aggregates]
            return (kind, picked(names, given[0])) if len(names) > 1 else None
        return kind, *given

    def _serves_idle(self, kind, given):
        """Whether windows are short enough, and the lateness is, after a change."""
        query = self.query
        try:
            if kind == "add_window":
                query = replace(query, windows={**query.windows, given[0]: given[1]})
            elif kind == "change_lateness":
                query = replace(query, lateness=given[0])
        except ValueError:
            return False
        return not too_short(query)

    def calls(self, changes, consumer, *, at_once=False):
        """Yield what makes sense of some changes; at once no name can go and come.

        Of several changes of the lateness at once only the last one is seen.
        """
        removed = set()
        last = max((i for i, c in enumerate(changes) if c[0] == "change_lateness"), default=-1)
        for i, change in enumerate(changes):
            if at_once and change[0] == "change_lateness" and i < last:
                continue
            call = self.resolve(change)
            if call is None or (at_once and call[1] in removed):
                continue
            if call[0] == "remove_window":
                consumer.forget(call[1])
            if call[0] in ("remove_window", "remove_aggregate"):
                removed.add(call[1])
            yield call

    def apply(self, call):
        """Change the query and its definition."""
        kind, *given = call
        query, aggregates = self.query, dict(self.query.aggregates)
        if kind == "add_window":
            query = replace(query, windows={**query.windows, given[0]: given[1]})
        elif kind == "remove_window":
            left = {n: w for n, w in query.windows.items() if n != given[0]}
            query = replace(query, windows=left)
        elif kind == "add_aggregate":
            query = replace(query, aggregates={**aggregates, given[0]: bound(given[1], given[2])})
        elif kind == "remove_aggregate":
            del aggregates[given[0]]
            query = replace(query, aggregates=aggregates)
        else:
            query = replace(query, lateness=given[0])
        self.query = query
        getattr(self.oracle, kind)(*given)


def picked(names, share):
    return names[int(share * len(names))]
