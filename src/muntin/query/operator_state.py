"""The state of an operator: what it holds between calls, and how that is saved and read back."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.dataframes.column_types import ColumnType
from muntin.journal import Journal
from muntin.query.bound_aggregates import BoundAggregate
from muntin.query.lane_factory import IN_LIVES, build_lane
from muntin.query.plan import Plan, plan_lane
from muntin.query.query import Query
from muntin.query.result_table import time_type
from muntin.slicing.arena import whole
from muntin.slicing.held_bytes import Measure
from muntin.slicing.key_table import KeyTable
from muntin.slicing.lane import Joining, Lane, greatest, longer
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, END_OF_TIME, FAR, Array
from muntin.slicing.lives import Lives, input_types

FORMAT = 6
"""The version of what is saved."""


@dataclass
class Counters:
    """What an operator has done, and what it holds now."""

    rows: int = 0
    late: int = 0
    dropped: int = 0
    bad_times: int = 0
    bad_rows: int = 0
    windows_reported: int = 0
    slices: int = 0
    rows_kept: int = 0
    keys: int = 0
    state_bytes: int = 0
    combines: int = 0


@dataclass
class OperatorState:
    """What an operator holds; when it has `begun` there are lanes, for the types of the first batch."""

    keys: KeyTable
    lateness: Lateness
    begun: bool = False
    lives: Lives | None = None  # if keys have several, and windows are found in their rows
    aggregates: list[BoundAggregate] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    time_type: pa.DataType = field(default_factory=pa.null)
    watermark: int | None = None
    latest: int = ALWAYS  # the last time of a row
    last: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # the same for each key
    forgotten: int = ALWAYS  # the latest of those of keys that were forgotten
    counters: Counters = field(default_factory=Counters)

    def note(self, journal: Journal) -> None:
        """Note all that lanes do not note by themselves."""
        journal.call(self.grow_keys)
        journal.fields(self, self.counters, *self.lanes)
        if self.lives is not None:
            journal.fields(self.lives)
        self.keys.note(journal)

    def grow_keys(self) -> None:
        """Make space for new keys."""
        keys = len(self.keys)
        start = ALWAYS if self.watermark is None else self.watermark
        for lane in self.lanes:
            lane.grow_keys(self.numbers_of(lane), start)
        size = max((lane.space for lane in self.lanes if not self.sees_lives(lane)), default=keys)
        self.last = longer(self.last, max(size, keys), ALWAYS)

    @property
    def has_space(self) -> bool:
        """Whether there is space for all keys."""
        known = all(lane.keys == self.numbers_of(lane) for lane in self.lanes)
        return known and len(self.last) >= len(self.keys)

    def sees_lives(self, lane: Lane) -> bool:
        """Whether a lane is given lives in place of keys."""
        return self.lives is not None and lane.IN_LIVES

    @property
    def lanes_of_lives(self) -> list[Lane]:
        """The lanes that are given lives in place of keys."""
        return [lane for lane in self.lanes if self.sees_lives(lane)]

    @property
    def past(self) -> int:
        """The time before which no row can count for windows of rows."""
        if self.watermark is None:
            return ALWAYS
        return int(self.lateness.past(np.array([self.watermark]))[0])

    def numbers_of(self, lane: Lane) -> int:
        """Return how many keys, or lives, a lane is to know."""
        lives = self.lives if lane.IN_LIVES else None
        return len(self.keys) if lives is None else len(lives)

    @property
    def bound(self) -> dict[str, BoundAggregate]:
        """The aggregates by name."""
        return {bound.name: bound for bound in self.aggregates}

    def came(self, keys: Array, times: Array, journal: Journal) -> None:
        """Note the times of rows that came."""
        journal.items(slice(0, 1) if len(self.keys) == 1 else keys, self.last)
        latest = greatest(times) if len(times) else ALWAYS
        if len(self.keys) == 1:
            self.last[0] = max(self.last[0], latest)
        else:
            np.maximum.at(self.last, keys, times)
        self.latest = max(self.latest, latest)

    def joining(self) -> Joining:
        """Return what windows that begin now have to know of the stream."""
        watermark = ALWAYS if self.watermark is None else self.watermark
        last = self.last[: len(self.keys)].copy()
        return Joining(max(self.latest, watermark), last, self.forgotten)

    def done(self) -> Counters:
        """Return what was done so far; what is held is not counted."""
        combines = sum(column.combines for lane in self.lanes for column in lane.partials)
        return replace(self.counters, combines=combines)

    def counted(self) -> Counters:
        """Return what was done so far, and what is held now."""
        waiting = 0 if self.lives is None else self.lives.rows_waiting
        others = [self.keys] if self.lives is None else [self.keys, self.lives]
        return replace(
            self.done(),
            slices=sum(lane.slice_count for lane in self.lanes),
            rows_kept=sum(lane.rows_kept for lane in self.lanes) + waiting,
            keys=len(self.keys),
            state_bytes=sum(lane.bytes for lane in self.lanes) + sum(map(Measure().fields, others)),
        )

    def plain(self) -> dict[str, Any]:
        """Return the state as plain data."""
        types = {
            column: kind
            for bound in self.aggregates
            for column, kind in zip(bound.columns, bound.types, strict=True)
        }
        return {
            "watermark": self.watermark,
            "lateness": self.lateness.plain(),
            "latest": self.latest,
            "forgotten": self.forgotten,
            "time_type": str(self.time_type),
            "types": {name: kind.plain() for name, kind in types.items()},
            "keys": self.keys.plain(),
            "last": self.last[: len(self.keys)],
            "counters": asdict(self.counters),
            "begun": self.begun,
            "lives": None if self.lives is None else self.lives.plain(len(self.keys)),
            "lanes": [
                (lane.kind, lane.names, lane.aggregates, lane.plain()) for lane in self.lanes
            ],
        }


def load_state(query: Query, plan: Plan, plain: dict[str, Any]) -> OperatorState:
    """Return the state that was saved of an operator, or raise what its parts raise if it is damaged."""
    state = OperatorState(
        KeyTable.from_plain(query.keys, plain["keys"]),
        Lateness.from_plain(plain["lateness"]),
        time_type=time_type(plain["time_type"]),
        watermark=_moment(plain["watermark"]),
        latest=int(plain["latest"]),
        forgotten=int(plain["forgotten"]),
        counters=Counters(**{name: int(count) for name, count in plain["counters"].items()}),
    )
    if not plain["begun"]:
        return state
    state.begun = True
    types = {name: ColumnType.from_plain(kind) for name, kind in plain["types"].items()}
    state.aggregates = [BoundAggregate.of(n, a, types) for n, a in query.aggregates.items()]
    inputs = {bound.name: input_types(bound.kernels.columns) for bound in state.aggregates}
    if plain["lives"] is not None:
        state.lives = _lives(query, plain["lives"], state)
    for kind, names, aggregates, saved in plain["lanes"]:
        windows = {name: query.windows[name] for name in names if name in query.windows}
        if not windows:
            continue
        left = [i for i, name in enumerate(aggregates) if name in query.aggregates]
        held = tuple(aggregates[i] for i in left)
        planned = plan_lane(query, plan.kind, kind, windows, held)
        lane = build_lane(plan, planned, state.bound, state.lateness)
        lane.load(saved if len(left) == len(aggregates) else lane.some_aggregates(saved, left))
        if lane.keys != state.numbers_of(lane):
            raise ValueError(f"{lane.keys} of {state.numbers_of(lane)} keys in a lane")
        if state.lives is not None and lane.IN_LIVES:
            state.lives.check(inputs, lane)
        state.lanes.append(lane)
    in_lives = query.limit is not None and any(kind in IN_LIVES for kind, *_ in plain["lanes"])
    if (state.lives is not None) != in_lives:
        raise ValueError("keys have lives where windows are found in their rows, and idle is given")
    if state.lives is not None and not state.lanes_of_lives:
        state.lives = None
    if state.lives is not None:
        state.lives.hold([*query.aggregates], state.lanes_of_lives)
    served = [name for lane in state.lanes for name in lane.names]
    if sorted(served) != sorted(query.windows):
        raise ValueError(f"lanes of {served} for windows {[*query.windows]}")
    state.grow_keys()
    state.last[: len(state.keys)] = whole(plain["last"], count=len(state.keys))
    return state


def _lives(query: Query, plain: Any, state: OperatorState) -> Lives:
    if query.limit is None:
        raise ValueError("lives of keys were saved, and the query has no idle")
    lives = Lives(query.limit, [])
    lives.load(plain, len(state.keys))
    return lives


def _moment(saved: Any) -> int | None:
    """Return a watermark that was saved, or raise ValueError."""
    if saved is not None and not (type(saved) is int and -FAR <= saved <= END_OF_TIME):
        raise ValueError(f"a watermark of {saved!r}")
    return saved
