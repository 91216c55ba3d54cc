"""From a plan to the lanes that carry it out."""

from collections.abc import Mapping

from muntin.query.bound_aggregates import BoundAggregate
from muntin.query.plan import BUCKET, LanePlan, Plan
from muntin.query.query import REPORTED_EARLY
from muntin.slicing.comparison.buckets import BucketLane
from muntin.slicing.lane import Lane, Setting
from muntin.slicing.lanes.assigned_lane import AssignedLane
from muntin.slicing.lanes.context_lane import ContextLane
from muntin.slicing.lanes.fired_lane import FiredLane
from muntin.slicing.lanes.grid_lane import GridLane
from muntin.slicing.lanes.last_rows_lane import LastRowsLane
from muntin.slicing.lanes.measure_lanes import CountLane, DeltaLane, RankLane
from muntin.slicing.lanes.policy_lane import PolicyLane
from muntin.slicing.lanes.punctuation_lane import PunctuationLane
from muntin.slicing.lanes.session_lane import SessionLane
from muntin.slicing.lanes.stretches_lane import StretchesLane
from muntin.slicing.lateness import Lateness
from muntin.slicing.partials import Partials
from muntin.windows.window import (
    ASSIGNED,
    COLUMN,
    CONTEXT,
    COUNTS,
    FIRED,
    LAST_ROWS,
    POLICY,
    PUNCTUATION,
    RANKS,
    SESSION,
    STRETCHES,
    TIME,
)

LANES: dict[str, type[Lane]] = {
    TIME: GridLane,
    BUCKET: BucketLane,
    SESSION: SessionLane,
    RANKS: RankLane,
    COUNTS: CountLane,
    COLUMN: DeltaLane,
    PUNCTUATION: PunctuationLane,
    CONTEXT: ContextLane,
    LAST_ROWS: LastRowsLane,
    FIRED: FiredLane,
    POLICY: PolicyLane,
    ASSIGNED: AssignedLane,
    STRETCHES: StretchesLane,
}
"""The class for each kind of lane. A window says which kind serves it (`Window.lane`)."""
IN_LIVES = {kind for kind, lane in LANES.items() if lane.IN_LIVES}
"""The kinds of lanes whose windows are found in the rows of a key's life."""
EVERY_ROW = ("tuple buffer", "aggregate tree")
"""Plans in which each moment that has rows is a slice."""


def build_lane(
    plan: Plan, lane: LanePlan, bound: Mapping[str, BoundAggregate], lateness: Lateness
) -> Lane:
    """Return an empty lane."""
    query = plan.query
    setting = Setting(
        lateness=lateness,
        ordered=query.ordered,
        changes=query.emit == "changes",
        keeps_rows=lane.keeps_rows or not query.ordered,
        every_row=plan.kind in EVERY_ROW,
        time=query.time,
        idle=query.limit,
    )
    partials = [build_partials(bound[name], lane.store) for name in lane.aggregates]
    made = LANES[lane.kind].build(lane.windows, partials, setting)
    made.kind, made.store, made.aggregates = lane.kind, lane.store, [*lane.aggregates]
    made.report_early(query.early_every is not None and lane.kind in REPORTED_EARLY)
    return made


def build_partials(bound: BoundAggregate, store: str) -> Partials:
    """Return a place for the partials of an aggregate."""
    return Partials(bound.aggregate, bound.kernels, store)
