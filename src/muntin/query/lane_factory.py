"""From a plan to the lanes that carry it out."""

from typing import Any

import numpy as np

from muntin.journal import Journal
from muntin.query.bound_aggregates import Feed
from muntin.query.plan import (
    BUCKET,
    COLUMN,
    CONTEXT,
    COUNTS,
    RANKS,
    SESSION,
    TIME,
    LanePlan,
    Plan,
    lane_of,
    plan_lane,
)
from muntin.slicing.comparison.buckets import BucketLane
from muntin.slicing.lanes.context_lane import ContextLane
from muntin.slicing.lanes.grid_lane import GridLane
from muntin.slicing.lanes.measure_lanes import CountLane, DeltaLane, MeasuredLane, RankLane
from muntin.slicing.lanes.session_lane import SessionLane
from muntin.slicing.limits import ALWAYS
from muntin.slicing.partials import Partials
from muntin.slicing.tables import PLAIN_SLICE, REFOLDED_SLICE, TIMED_SLICE
from muntin.windows import Policy

AnyLane = GridLane | SessionLane | ContextLane


def build_lane(plan: Plan, lane: LanePlan, feeds: list[Feed]) -> AnyLane:
    """Return an empty lane."""
    made = _built(plan, lane, feeds)
    made.kind = lane.kind
    return made


def add_window(
    plan: Plan,
    lanes: list[AnyLane],
    name: str,
    feeds: list[Feed],
    watermark: int,
    latest: int,
    journal: Journal,
) -> list[AnyLane]:
    """Let a window share the slices of a lane, or have a lane of its own that begins now.

    What a lane of its own reports is whole: for sessions what begins so late that no row before belongs
    to it, for other windows what has all its rows.
    """
    window: Any = plan.query.windows[name]
    kind, _ = lane_of(plan.query, plan.kind, name, window)
    for lane in lanes:
        if kind == TIME and lane.kind == TIME and isinstance(lane, GridLane) and lane.shares:
            journal.whole(lane)
            lane.redefine({**lane.windows, name: window}, latest)
            return lanes
    made = build_lane(plan, plan_lane(plan.query, plan.kind, kind, {name: window}), feeds)
    if isinstance(made, SessionLane):
        made.begins = ALWAYS if latest == ALWAYS else latest + made.gap + 1
    elif isinstance(window, Policy) and latest > ALWAYS:
        raise ValueError(
            f"window {name!r} holds what its policy left of all rows, and rows that came before it was "
            "added were not kept for it: give such a window with the query"
        )
    elif isinstance(made, ContextLane):
        made.whole_only = latest > ALWAYS
    elif isinstance(made, MeasuredLane) and latest > ALWAYS:
        raise ValueError(
            f"window {name!r} is measured in {window.measure!r}, and rows that came before it was added "
            "were not measured: give such a window with the query"
        )
    elif latest > ALWAYS:
        made.begin(latest)
    if watermark > ALWAYS and not plan.query.ordered:
        made.advance(np.array([watermark]), journal)
    return [*lanes, made]


def remove_window(lanes: list[AnyLane], name: str, latest: int, journal: Journal) -> list[AnyLane]:
    """Let a window share the slices of its lane no longer; a lane without windows goes."""
    lane = next(lane for lane in lanes if name in lane.windows)
    if len(lane.windows) == 1:
        return [other for other in lanes if other is not lane]
    journal.whole(*lane.parts())
    if isinstance(lane, ContextLane):
        lane.remove(name)
    elif isinstance(lane, GridLane):
        lane.redefine({n: w for n, w in lane.windows.items() if n != name}, latest)
    return lanes


def _built(plan: Plan, lane: LanePlan, feeds: list[Feed]) -> AnyLane:
    query = plan.query
    partials = [Partials(feed.aggregate, feed.kernels, lane.store) for feed in feeds]
    windows: dict[str, Any] = lane.windows
    late: dict[str, Any] = {"lateness": query.allowed}
    order = {"ordered": query.ordered}
    changes = {"changes": query.emit == "changes"}
    refolds = lane.keeps_rows and any(not feed.aggregate.commutative for feed in feeds)
    if lane.kind == SESSION:
        ((name, window),) = windows.items()
        return SessionLane(
            name, window, partials, **late, per_key=query.ordered, keeps_rows=refolds
        )
    if lane.kind == CONTEXT:
        return ContextLane(windows, partials, **late, **changes, **order)
    if lane.kind == RANKS:
        return RankLane(windows, partials, **late, **changes, **order)
    if lane.kind == COUNTS:
        return CountLane(windows, partials, **late, **changes, **order)
    if lane.kind == COLUMN:
        column = next(iter(windows.values())).measure
        width = REFOLDED_SLICE if refolds else TIMED_SLICE
        return DeltaLane(column, windows, partials, **late, **changes, **order, width=width)
    assert lane.kind in (TIME, BUCKET)
    kind = BucketLane if lane.kind == BUCKET else GridLane
    return kind(
        windows,
        partials,
        **late,
        **changes,
        remembers=query.allowed > 0,
        per_key=query.ordered,
        width=REFOLDED_SLICE if refolds else PLAIN_SLICE,
        every_row=plan.kind in ("tuple buffer", "aggregate tree"),
    )
