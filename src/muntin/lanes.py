"""From a plan to the lanes that carry it out."""

from typing import Any

from muntin.feeds import Feed
from muntin.plan import BUCKET, COLUMN, CONTEXT, COUNTS, RANKS, SESSION, TIME, LanePlan, Plan
from muntin.slicing.buckets import BucketLane
from muntin.slicing.contexts import ContextLane
from muntin.slicing.grid import PLAIN, REFOLDED, TIMED, GridLane
from muntin.slicing.lane import Lane
from muntin.slicing.measures import CountLane, DeltaLane, RankLane
from muntin.slicing.partials import Partials
from muntin.slicing.sessions import SessionLane

AnyLane = Lane | ContextLane


def build_lanes(plan: Plan, feeds: list[Feed]) -> list[AnyLane]:
    """Return a lane for each part of the plan, empty."""
    return [build_lane(plan, lane, feeds) for lane in plan.lanes]


def build_lane(plan: Plan, lane: LanePlan, feeds: list[Feed]) -> AnyLane:
    """Return an empty lane."""
    query = plan.query
    partials = [Partials(feed.aggregate, feed.kernels, lane.store) for feed in feeds]
    windows: dict[str, Any] = lane.windows
    late = {"lateness": query.allowed}
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
        width = REFOLDED if refolds else TIMED
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
        width=REFOLDED if refolds else PLAIN,
        every_row=plan.kind in ("tuple buffer", "aggregate tree"),
    )
