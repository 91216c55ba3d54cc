"""How a query will run: which windows share slices, whether rows are kept, how slices are merged.

The decision tree is that of EDBT 2019, section 5.1 (Figure 4). In an ordered stream rows are kept for
windows that are aware of their context only. In a stream out of order they are also kept for aggregates
that are not commutative, and for windows that count rows; never for sessions and context-free windows of
commutative aggregates.
"""

from dataclasses import dataclass
from html import escape

from muntin.aggregates import Aggregate
from muntin.query.native import finished_data
from muntin.query.query import REPORTED_EARLY, Query
from muntin.slicing.partials import FEW_KINDS
from muntin.windows import Fired, Periodic, Sliding, Ticking, Window
from muntin.windows.window import (
    ASSIGNED,
    COLUMN,
    COUNTS,
    FIRED,
    FROM_ROWS,
    LAST_ROWS,
    POLICY,
    PUNCTUATION,
    RANKS,
    SESSION,
    STRETCHES,
    TIME,
)

PLANS = (
    "auto",
    "worst case",
    "lazy",
    "eager",
    "buckets",
    "tuple buffer",
    "aggregate tree",
    "naive",
)
SLICED = ("auto", "worst case", "lazy", "eager")
"""Plans in which rows are folded into slices that windows share."""
BUCKET = "bucket"
"""The kind of lane with a bucket per window, to compare with."""
KEEPING = (TIME, COLUMN, RANKS, LAST_ROWS, POLICY, FIRED)
"""The kinds of lanes in which windows can go on from the one before."""
KEPT_STORES = {"auto": "kept", "worst case": "worst case"}
"""Plans in which they do, and what their stores are called."""
SHOWN = ("slices", "rows", "store", "merge", "state")


@dataclass(frozen=True)
class LanePlan:
    """Some windows that share slices: what the slices are, whether rows are kept, and why."""

    kind: str
    windows: dict[str, Window]
    aggregates: tuple[str, ...]
    slices: str
    keeps_rows: bool
    rows: str
    store: str
    merge: str
    state: str

    @property
    def goes_on(self) -> bool:
        """Whether windows go on from what the one before has left."""
        return self.store in KEPT_STORES.values()


@dataclass(frozen=True)
class Plan:
    """How a query runs, and why."""

    query: Query
    kind: str
    lanes: tuple[LanePlan, ...]

    @property
    def why_not_fold(self) -> str:
        """Why rows are not folded into slices before an operator has them; nothing if they are."""
        if self.query.reports_dropped and self.can_merge:
            return "each that no window takes is reported"
        return self._why_not_merge

    @property
    def _why_not_merge(self) -> str:
        """Why slices that were folded elsewhere do not serve; nothing if they do."""
        unordered = [n for n, a in self.query.aggregates.items() if not a.commutative]
        others = [n for lane in self.lanes for n in lane.windows if lane.kind != TIME]
        if self.query.ordered:
            return "the stream is ordered: each row is a watermark for its key"
        if unordered:
            return f"the order of rows matters to {', '.join(unordered)}"
        if others:
            return f"the edges of {', '.join(others)} are not known without the rows before"
        some = [n for n, a in self.query.aggregates.items() if a.only]
        if some:
            return f"only some windows have {', '.join(some)}"
        if self.kind not in SLICED:
            return f"the plan {self.kind!r} keeps rows"
        return ""

    @property
    def can_fold(self) -> bool:
        """Whether rows are folded into slices before an operator has them."""
        return not self.why_not_fold

    @property
    def can_merge(self) -> bool:
        """Whether an operator can take slices that were folded elsewhere, maybe before a restart."""
        return not self._why_not_merge

    def __str__(self) -> str:
        stream = "in order" if self.query.ordered else "out of order"
        lines = [f"{_count(self.query.windows, 'window')} over a stream {stream}"]
        if self.query.idle is not None:
            lines.append(f"a new life of a key begins after {self.query.idle} without rows")
        if self.query.early_every is not None:
            when = "each advance" if self.query.early is True else f"each {self.query.early}"
            early = [n for lane in self.lanes if lane.kind in REPORTED_EARLY for n in lane.windows]
            lines.append(f"early results of {', '.join(early)} at {when}")
        if self.query.ahead is not None:
            lines.append(f"rows more than {self.query.max_ahead} ahead of the clock are dropped")
        if self.query.reports_dropped:
            lines.append("rows that no window takes are reported")
        for lane in self.lanes:
            names = ", ".join(f"{name} ({w.describe()})" for name, w in lane.windows.items())
            lines += [
                "",
                names,
                f"  slices: {lane.slices}",
                f"  rows:   {'kept' if lane.keeps_rows else 'not kept'}: {lane.rows}",
                f"  store:  {lane.store}",
                f"  merge:  {lane.merge}",
                f"  state:  {lane.state}",
            ]
        facts = self.query.aggregates.items()
        lines += ["", *(_aggregate_line(n, a, self._kept_as(a)) for n, a in facts)]
        travel = (
            f"travel as they are: {self.why_not_fold}" if self.why_not_fold else "are folded first"
        )
        lines += ["", f"finished data on Spark: {finished_data(self.query)}"]
        lines += [f"before a shuffle rows {travel}"]
        return "\n".join(lines)

    def _kept_as(self, aggregate: Aggregate) -> str:
        """Say what a window leaves for the next of its kind, if some windows leave anything."""
        kinds = [_sliding(lane.windows) for lane in self.lanes if lane.goes_on]
        if not any(kinds):
            return ""
        shared = "in a tree that all kinds share"
        few = any(0 < sliding <= FEW_KINDS for sliding in kinds)
        stacks = (
            ("in DABA Lite" if self.kind == "worst case" else "in two stacks") if few else shared
        )
        if aggregate.multiset is not None:
            return "windows kept as a multiset"
        if aggregate.holistic:
            return f"windows kept {shared}"
        if aggregate.kernel is not None and aggregate.invertible:
            return f"windows kept as a total of whole numbers, or {stacks}"
        return f"windows kept {stacks}"

    def _repr_html_(self) -> str:
        """Show the plan in a notebook."""
        head = "".join(f"<th>{name}</th>" for name in ("windows", *SHOWN))
        lines = ""
        for lane in self.lanes:
            names = "<br>".join(
                f"{escape(n)} ({escape(w.describe())})" for n, w in lane.windows.items()
            )
            kept = f"{'kept' if lane.keeps_rows else 'not kept'}: {lane.rows}"
            texts = (lane.slices, kept, lane.store, lane.merge, lane.state)
            cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
            lines += f"<tr><td>{names}</td>{cells}</tr>"
        return f"<table><tr>{head}</tr>{lines}</table>"


def make_plan(query: Query, kind: str) -> Plan:
    """Choose how to run a query; `kind` forces a store or one of the older techniques."""
    if kind not in PLANS:
        raise ValueError(f"a plan is one of {', '.join(PLANS)}, got {kind!r}")
    kind = "tuple buffer" if kind == "naive" else kind
    if kind == "buckets" and query.early_every is not None:
        raise ValueError(
            "the plan 'buckets' has no early results: choose another, or leave out early"
        )
    shared: dict[tuple[str, str, tuple[str, ...]], dict[str, Window]] = {}
    for name, window in query.windows.items():
        lane = (*lane_of(query, kind, name, window), query.aggregates_of(name))
        shared.setdefault(lane, {})[name] = window
    lanes = tuple(
        plan_lane(query, kind, lane, windows, aggregates)
        for (lane, _, aggregates), windows in shared.items()
    )
    return Plan(query, kind, lanes)


def continued(held: Plan, asked: Plan) -> Plan:
    """Return the plan by which to continue a state that was saved under `held`, or a ValueError.

    Plans with the same slices continue each other; "auto" continues any.
    """
    if held.kind in SLICED and asked.kind in SLICED:
        return asked
    if asked.kind not in ("auto", held.kind):
        raise ValueError(f"a state of plan {held.kind!r} is not one of plan {asked.kind!r}")
    return held


def lane_of(query: Query, kind: str, name: str, window: Window) -> tuple[str, str]:
    """Return the kind of lane that serves a window under a plan, and which one of that kind."""
    lane, which = window.lane(name, query.ordered)
    if kind == "buckets" and lane == TIME and isinstance(window, Periodic):
        return BUCKET, name
    return lane, which


def plan_lane(
    query: Query, kind: str, lane: str, windows: dict[str, Window], aggregates: tuple[str, ...]
) -> LanePlan:
    """Return how a lane of some kind will serve its windows."""
    keeps, why = _keeps_rows(query, kind, lane, aggregates)
    return LanePlan(
        lane,
        windows,
        aggregates,
        _slices(query, kind, lane),
        keeps,
        why,
        *_store(kind, lane, windows),
        _state(query, kind, lane, windows),
    )


def _keeps_rows(
    query: Query, kind: str, lane: str, aggregates: tuple[str, ...]
) -> tuple[bool, str]:
    if lane == FIRED:
        return True, "windows end at rows, and a late one moves the numbers of those behind it"
    if lane == ASSIGNED:
        return True, "a late row may join windows, or part them"
    if lane in FROM_ROWS:
        return True, "the windows' edges depend on rows, and rows may still move them"
    if lane == PUNCTUATION and not query.ordered:
        return True, "a row that opens a window may come late, and splits a slice"
    if lane == COUNTS:
        return True, "a row out of order changes the count of all rows behind it"
    if lane == TIME and kind in ("tuple buffer", "aggregate tree"):
        return True, f"the plan {kind!r} was asked for: each moment is a slice"
    if query.ordered:
        return False, "the stream is in order: a row is added at the end and can go"
    ordered = [name for name in aggregates if not query.aggregates[name].commutative]
    if ordered:
        return True, f"{', '.join(ordered)} is not commutative, and rows may come out of order"
    return False, "every aggregate is commutative: a late row is added to its slice"


def _slices(query: Query, kind: str, lane: str) -> str:
    if lane == SESSION:
        return "one per session; a late row may join two"
    if lane in FROM_ROWS:
        return "one per row; windows are found in the rows of a key when it reports"
    if lane == PUNCTUATION:
        return "one per window, from a row that opens it to the next"
    if lane == BUCKET:
        return "none: a bucket per window, into which each of its rows is copied"
    if lane == TIME and kind in ("tuple buffer", "aggregate tree"):
        return "one per moment that has rows"
    what = {TIME: "time", COLUMN: "the column"}.get(lane, "the number of rows")
    where = (
        "start and end" if not query.ordered else "start or end, and are joined where only one ends"
    )
    return f"cut {what} where windows {where}, for all windows together"


def _state(query: Query, kind: str, lane: str, windows: dict[str, Window]) -> str:
    """Say how much is held of a key."""
    late = f" and {query.lateness} of lateness" if query.allowed else ""
    if lane == SESSION:
        return f"the sessions of the last two gaps{late}"
    if lane == PUNCTUATION:
        kept = "" if query.ordered else " and their rows"
        return f"the windows that are open or may change{kept}{late}"
    if lane == FIRED:
        return f"the rows of the last windows{late}, and those the watermark has not passed"
    if lane == STRETCHES:
        return f"the rows of the last stretches, and of windows that may change{late}"
    if lane == ASSIGNED:
        return f"the rows of windows that are open or may change{late}"
    if lane in FROM_ROWS:
        return f"the rows of open windows, the last n, or what a policy left,{late or ' no more'}"
    if lane == COUNTS:
        return f"the rows of the longest window{late}, and those the watermark has not passed"
    if kind in ("tuple buffer", "aggregate tree"):
        return f"the moments of the longest window{late}"
    periodic = [w for w in windows.values() if isinstance(w, Periodic)]
    if len(periodic) < len(windows):
        return f"the slices of windows that are open or may change{late}"
    reach = max((w.size for w in periodic), default=0) + (query.allowed if lane == TIME else 0)
    if lane == TIME and kind != "buckets":  # what a lookup at the watermark needs
        looked_at = (w.size + w.every for w in periodic if isinstance(w, Sliding))
        reach = max(reach, max(looked_at, default=0))
    overlap = sum(-(-w.size // w.every) for w in periodic)
    cuts = {(w.every, at % w.every) for w in periodic for at in (w.origin, w.origin + w.size)}
    slices = sum(reach // every + 1 for every, _ in cuts)
    fronts = _sliding(windows) if kind in KEPT_STORES and _sliding(windows) <= FEW_KINDS else 0
    field = 8 * len(query.aggregates) * (4 if kind == "eager" else 2 + 2 * fronts)
    return (
        f"at most {slices + 1} slices behind the watermark, about {(slices + 1) * (24 + field)} bytes "
        f"with numbers; of buckets there would be {overlap}"
    )


def _store(kind: str, lane: str, windows: dict[str, Window]) -> tuple[str, str]:
    """Return the store and how windows are merged of it."""
    if lane == SESSION:
        return kind if kind == "eager" else "lazy", "a session is one slice"
    if lane == PUNCTUATION:
        return kind if kind == "eager" else "lazy", "a window is one slice"
    if lane == BUCKET:
        return "lazy", "a window is one bucket"
    if lane in (ASSIGNED, STRETCHES):
        return "lazy", "each window is folded from its rows, nothing is shared"
    if lane == TIME and kind == "tuple buffer":
        return "folded", "each window is folded from its rows, nothing is shared"
    if kind in ("eager", "aggregate tree") and lane not in FROM_ROWS:
        return "eager", "range queries on a tree that is kept up to date (FlatFAT)"
    merged = "a scan over the slices or a table of them, whichever takes fewer combines"
    if lane not in KEEPING or kind not in KEPT_STORES:
        return "lazy", merged
    sliding = _sliding(windows)
    if sliding == 0:
        merged = "when windows are due, which share no slices"
    elif sliding <= FEW_KINDS:
        merged = "each window goes on from the one before; late changes by a tree (FlatFAT)"
    else:
        merged = (
            "from a total or a tree (FlatFAT) that all kinds share, or a scan: the fewest combines"
        )
    return KEPT_STORES[kind], merged


def _sliding(windows: dict[str, Window]) -> int:
    """Return how many windows share slices with the next of their kind."""
    return sum(
        isinstance(w, Ticking | Fired) or (isinstance(w, Periodic) and w.size > w.every)
        for w in windows.values()
    )


def _aggregate_line(name: str, aggregate: Aggregate, kept: str) -> str:
    facts = [
        "" if aggregate.where is None else f"of rows where {aggregate.where}",
        "commutative" if aggregate.commutative else "not commutative",
        "with an inverse" if aggregate.invertible else "",
        "holistic: a partial grows with its values" if aggregate.holistic else "",
        kept,
    ]
    return f"{name}: {aggregate.name}, {', '.join(fact for fact in facts if fact)}"


def _count(things: object, word: str) -> str:
    number = len(things)  # type: ignore[arg-type]
    return f"{number} {word}{'' if number == 1 else 's'}"
