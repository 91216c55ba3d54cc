"""A query that changes while it runs: windows, aggregates and the lateness come and go.

`change` brings what an operator holds from one query to another. A state that was saved is read under
the part of its query that the new one still has (`left_of`), and then changed. What was removed is
skipped by its name, without its code; of a window whose slices others share, only its edges are known.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import windows as our_windows
from muntin.aggregates import SnapshotError
from muntin.aggregates.identity import Identity, refuse_other
from muntin.dataframes.column_types import ColumnType
from muntin.journal import Journal
from muntin.query.bound_aggregates import BoundAggregate
from muntin.query.lane_factory import build_lane, build_partials
from muntin.query.operator_state import OperatorState
from muntin.query.plan import lane_of, make_plan, plan_lane
from muntin.query.query import LeftOfQuery, Query, columns_of
from muntin.slicing.lane import Joining, Lane
from muntin.slicing.limits import ALWAYS
from muntin.slicing.lives import Lives, input_types
from muntin.windows import ContextFreeWindow, Window
from muntin.windows.periodic import Periodic
from muntin.windows.window import TIME

NOT_KNOWN = ColumnType(np.dtype(object), pa.null(), None, False)
"""The type of a column that did not come yet."""
PARTS = ("windows", "aggregates")
OURS: dict[str, type] = {n: c for n, c in vars(our_windows).items() if isinstance(c, type)}
"""The windows that muntin has, by name."""


class Change:
    """Brings what an operator holds for one query to another with the same keys and times."""

    def __init__(
        self, state: OperatorState, before: Query, after: Query, kind: str, journal: Journal
    ) -> None:
        self._state, self._before, self._after = state, before, after
        self._plan, self._journal = make_plan(before, kind), journal

    def carry_out(self) -> None:
        """Add what comes, and then remove what goes: windows can share the slices of one that goes."""
        state, before, after = self._state, self._before, self._after
        if after.limit != before.limit:
            raise ValueError(
                f"idle was {before.idle!r} and cannot become {after.idle!r}: start again"
            )
        if after.allowed != before.allowed:
            self._change_lateness()
        if not state.begun:
            return
        for name, window in _more(after.windows, before.windows):
            self._add_window(name, window)
        for name, aggregate in _more(after.aggregates, before.aggregates):
            self._add_aggregate(name, aggregate)
        for name, _ in _more(before.aggregates, after.aggregates):
            self._remove_aggregate(name)
        for name, _ in _more(before.windows, after.windows):
            self._remove_window(name)
        bound = state.bound
        state.aggregates = [bound[name] for name in after.aggregates]
        if state.lives is not None:
            state.lives.hold([*after.aggregates], state.lanes_of_lives)
        state.grow_keys()

    @cached_property
    def _both(self) -> Query:
        """The query with all that lanes may have on the way."""
        before, after = self._before, self._after
        return replace(
            before,
            windows={**before.windows, **after.windows},
            aggregates={**before.aggregates, **after.aggregates},
            lateness=min(before.allowed, after.allowed),
        )

    def _kind_of(self, name: str, window: Window) -> str:
        return lane_of(self._before, self._plan.kind, name, window)[0]

    def _change_lateness(self) -> None:
        state = self._state
        state.lateness = state.lateness.changed(self._after.allowed, state.watermark)
        for lane in state.lanes:
            self._journal.whole(*lane.parts())
            lane.change_lateness(state.lateness)

    def _add_window(self, name: str, window: Window) -> None:
        """Let a window share the slices of a lane, or have a lane of its own that begins now."""
        state, joining = self._state, self._state.joining()
        kind = self._kind_of(name, window)
        aggregates = self._before.aggregates_of(name)
        for lane in state.lanes:
            if lane.shares(kind) and {*lane.aggregates} == {*aggregates}:
                self._journal.whole(*lane.parts())
                lane.add(name, window, joining.latest)
                return
        made = self._made(kind, {name: window}, aggregates)
        if made.IN_LIVES and self._before.limit is not None:
            joining = self._join_lives(name, joining, self._before.limit)
        if joining.latest > ALWAYS:
            made.join_stream(joining)
        if state.watermark is not None and not self._before.ordered:
            made.advance(np.array([state.watermark]), self._journal)
        state.lanes = [*state.lanes, made]

    def _join_lives(self, name: str, joining: Joining, idle: int) -> Joining:
        """Let a window see the lives of keys from now on; return what it has to know of them."""
        state = self._state
        if state.lives is None:
            names = [*state.bound]
            state.lives = Lives.of_keys(idle, names, joining.last, joining.forgotten)
        if not self._before.ordered:
            state.lives.add_window(name, joining.last, joining.latest)
        return Joining(joining.latest, state.lives.last.copy(), ALWAYS)

    def _made(self, kind: str, windows: dict[str, Window], aggregates: tuple[str, ...]) -> Lane:
        planned = plan_lane(self._both, self._plan.kind, kind, windows, aggregates)
        return build_lane(self._plan, planned, self._state.bound, self._state.lateness)

    def _remove_window(self, name: str) -> None:
        """Serve a window no more; a lane without windows goes."""
        state = self._state
        lane = next(lane for lane in state.lanes if name in lane.windows)
        if len(lane.windows) == 1:
            state.lanes = [other for other in state.lanes if other is not lane]
            return
        self._journal.whole(*lane.parts())
        lane.remove(name, state.latest)

    def _add_aggregate(self, name: str, aggregate: Any) -> None:
        state = self._state
        types = {c: t for bound in state.aggregates for c, t in bound.column_types}
        types = dict.fromkeys(columns_of(aggregate), NOT_KNOWN) | types
        bound = BoundAggregate.of(name, aggregate, types)
        state.aggregates = [*state.aggregates, bound]
        if state.lives is not None:
            inputs = input_types(bound.kernels.columns)
            state.lives.add_aggregate(name, inputs, state.joining().latest)
        for lane in state.lanes:
            mine = [
                window for window in lane.names if not aggregate.only or window in aggregate.only
            ]
            if mine:
                chosen = lane if len(mine) == len(lane.names) else self._parted(lane, mine)
                self._journal.whole(*chosen.parts())
                chosen.add_aggregate(build_partials(bound, chosen.store))
                chosen.aggregates = [*chosen.aggregates, name]

    def _parted(self, lane: Lane, names: list[str]) -> Lane:
        """Give some windows of a lane another one, which begins as a copy of it; return that."""
        state = self._state
        other = self._made(lane.kind, lane.windows, tuple(lane.aggregates))
        other.load(lane.plain())
        self._journal.whole(*lane.parts())
        for name in list(lane.names):
            (lane if name in names else other).remove(name, state.latest)
        state.lanes = [*state.lanes, other]
        return other

    def _remove_aggregate(self, name: str) -> None:
        for lane in self._state.lanes:
            if name in lane.aggregates:
                self._journal.whole(*lane.parts())
                lane.remove_aggregate(lane.aggregates.index(name))
                lane.aggregates = [other for other in lane.aggregates if other != name]


def _more(some: Any, others: Any) -> list[tuple[str, Any]]:
    """Return what has a name that the others do not have."""
    return [(name, thing) for name, thing in some.items() if name not in others]


def left_of(
    query: Query,
    known: Identity,
    saved: Any,
    lanes: Iterable[Any] | None,
    *,
    trust_functions: bool = False,
    place: str = "",
) -> Query:
    """Return the part of a saved state's query that this query still has, or refuse another query.

    `known` and `saved` are the identities of the query and of the state, and `lanes` are those that
    were saved, if there are any. Lanes of which no window is left are skipped; in others, a window that
    was removed is served until `Change` removes it.
    """
    if not isinstance(saved, dict) or not all(isinstance(saved.get(p), dict) for p in PARTS):
        raise SnapshotError(f"the {place or 'snapshot'} does not say which query it is of")
    left = {part: [name for name in saved[part] if name in known[part]] for part in PARTS}
    ours, theirs = (
        {**whole, **{part: {name: whole[part][name] for name in left[part]} for part in PARTS}}
        for whole in (known, saved)
    )
    ours = {**ours, "lateness": theirs.get("lateness")}
    refuse_other(ours, theirs, "query", trust_functions=trust_functions, place=place)
    windows = {name: query.windows[name] for name in left["windows"]}
    stand_ins = {n: _stand_in(i) for n, i in saved["windows"].items() if n not in windows}
    if lanes is None:  # rows that were folded are cut where windows over time were
        windows |= {n: w for n, w in stand_ins.items() if w is not None and w.measure == "time"}
    for kind, names, *_ in lanes or ():
        if kind == TIME or any(name in windows for name in names):
            gone = {name: stand_ins[name] for name in names if name in stand_ins}
            windows |= {name: window or _Nowhere() for name, window in gone.items()}
    return LeftOfQuery(
        time=query.time,
        windows=windows,
        aggregates={name: query.aggregates[name] for name in left["aggregates"]},
        keys=query.keys,
        watermark=query.watermark,
        lateness=saved["lateness"],
        ordered=query.ordered,
        emit=query.emit,
        on_bad_time=query.on_bad_time,
        on_bad_row=query.on_bad_row,
        idle=query.idle,
        early=query.early,
        max_ahead=query.max_ahead,
        dropped=query.dropped,
    )


def _stand_in(saved: Any) -> Window | None:
    """Return a window with the edges that one which was removed had, or may have had."""
    match saved:
        case {
            "parameters": {
                "size": int() as size,
                "every": int() as every,
                "origin": int() as origin,
                "measure": str() as measure,
            }
        } if min(size, every) > 0:
            return Periodic(size, every, origin, measure)
        case {"functions": _}:
            return _Nowhere()
        case {"window": str() as kind} if issubclass(OURS.get(kind, object), ContextFreeWindow):
            return _Nowhere()
    return None


class _Nowhere(ContextFreeWindow):
    """In place of a window whose code may be gone: there are none any more."""

    def next_edge(self, t: int) -> int | None:
        del t
        return None

    def closed(self, after: int, upto: int) -> Iterable[tuple[int, int]]:
        del after, upto
        return ()
