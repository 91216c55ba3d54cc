"""From a plan to the lanes that carry it out."""

from typing import Any

import numpy as np

from muntin.journal import Journal
from muntin.query.bound_aggregates import BoundAggregate
from muntin.query.plan import BUCKET, LanePlan, Plan, lane_of, plan_lane
from muntin.slicing.comparison.buckets import BucketLane
from muntin.slicing.lane import Joining, Lane, Setting
from muntin.slicing.lanes.context_lane import ContextLane
from muntin.slicing.lanes.grid_lane import GridLane
from muntin.slicing.lanes.last_rows_lane import LastRowsLane
from muntin.slicing.lanes.measure_lanes import CountLane, DeltaLane, RankLane
from muntin.slicing.lanes.policy_lane import PolicyLane
from muntin.slicing.lanes.session_lane import SessionLane
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS
from muntin.slicing.partials import Partials
from muntin.windows.window import (
    COLUMN,
    CONTEXT,
    COUNTS,
    LAST_ROWS,
    POLICY,
    RANKS,
    SESSION,
    TIME,
)

LANES: dict[str, type[Lane]] = {
    TIME: GridLane,
    BUCKET: BucketLane,
    SESSION: SessionLane,
    RANKS: RankLane,
    COUNTS: CountLane,
    COLUMN: DeltaLane,
    CONTEXT: ContextLane,
    LAST_ROWS: LastRowsLane,
    POLICY: PolicyLane,
}
"""The class for each kind of lane. A window says which kind serves it (`Window.lane`)."""
EVERY_ROW = ("tuple buffer", "aggregate tree")
"""Plans in which each moment that has rows is a slice."""


def build_lane(plan: Plan, lane: LanePlan, feeds: list[BoundAggregate], lateness: Lateness) -> Lane:
    """Return an empty lane."""
    query = plan.query
    setting = Setting(
        lateness=lateness,
        ordered=query.ordered,
        changes=query.emit == "changes",
        refolds=lane.keeps_rows and any(not feed.aggregate.commutative for feed in feeds),
        every_row=plan.kind in EVERY_ROW,
    )
    partials = [Partials(feed.aggregate, feed.kernels, lane.store) for feed in feeds]
    made = LANES[lane.kind].build(lane.windows, partials, setting)
    made.kind = lane.kind
    return made


def add_window(
    plan: Plan,
    lanes: list[Lane],
    name: str,
    feeds: list[BoundAggregate],
    lateness: Lateness,
    watermark: int,
    joining: Joining,
    journal: Journal,
) -> list[Lane]:
    """Let a window share the slices of a lane, or have a lane of its own that begins now.

    What a lane of its own reports is whole: for sessions what begins so late that no row before belongs
    to it, for other windows what has all its rows.
    """
    window: Any = plan.query.windows[name]
    kind, _ = lane_of(plan.query, plan.kind, name, window)
    for lane in lanes:
        if lane.shares(kind):
            journal.whole(lane)
            lane.add(name, window, joining.latest)
            return lanes
    made = build_lane(plan, plan_lane(plan.query, plan.kind, kind, {name: window}), feeds, lateness)
    if joining.latest > ALWAYS:
        made.join_stream(joining)
    if watermark > ALWAYS and not plan.query.ordered:
        made.advance(np.array([watermark]), journal)
    return [*lanes, made]


def remove_window(lanes: list[Lane], name: str, latest: int, journal: Journal) -> list[Lane]:
    """Let a window share the slices of its lane no longer; a lane without windows goes."""
    lane = next(lane for lane in lanes if name in lane.windows)
    if len(lane.windows) == 1:
        return [other for other in lanes if other is not lane]
    journal.whole(*lane.parts())
    lane.remove(name, latest)
    return lanes
