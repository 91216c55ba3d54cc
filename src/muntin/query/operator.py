"""The embedded operator: batches of rows in, results out."""

from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates import SnapshotError, seal, unseal
from muntin.aggregates.encoding import DAMAGE
from muntin.aggregates.identity import Identity, refuse_other
from muntin.dataframes.batches import Batch
from muntin.dataframes.column_types import ColumnType
from muntin.journal import Calls, Journal
from muntin.query.bound_aggregates import BoundAggregate, check_results, fit_columns, owned
from muntin.query.lane_factory import add_window, build_lane, remove_window
from muntin.query.operator_state import FORMAT, Counters, OperatorState, load_state
from muntin.query.plan import Plan
from muntin.query.query import Query, identity
from muntin.query.requirements import Requirements, last_end
from muntin.query.result_table import write_table
from muntin.slicing.folded_rows import KEY_OF, LAST, ROWS, FoldedRows
from muntin.slicing.key_table import KeyTable
from muntin.slicing.lane import Lane, Report, least
from muntin.slicing.lanes.grid_lane import GridLane
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, END_OF_TIME, FAR, Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.partials import Partials
from muntin.slicing.report_pieces import steps
from muntin.slicing.rows import Rows
from muntin.windows import Window

MANY_KEYS = 4096
"""From this many keys on, those that are idle are looked for."""
LOOK_EVERY = 16
"""Advances after which they are looked for, even if there are no more keys than the last time."""


class Operator:
    """Takes batches of rows, and gives the windows of a query as the watermark passes their ends.

    >>> import muntin as mt
    >>> op = mt.Query(
    ...     time="t", windows={"ten": mt.Tumbling(10)}, aggregates={"n": mt.Count()}
    ... ).operator()
    >>> op.process({"t": [3, 8, 14]}).num_rows
    0
    >>> op.advance(12).to_pylist()
    [{'window': 'ten', 'start': 0, 'end': 10, 'kind': 'result', 'n': 2}]
    """

    def __init__(self, query: Query, plan: Plan) -> None:
        for name, aggregate in query.aggregates.items():
            check_results(name, aggregate)
        self.query = query
        self.plan = plan
        self._state = OperatorState(KeyTable(query.keys), Lateness(query.allowed))
        self._needs = Requirements.of(query)
        self._nothing: pa.Table | None = None
        self._look_again, self._looked = MANY_KEYS, 0
        self._results: dict[str, pa.DataType] = {}
        self._calls = Calls("an operator")

    # Rows come in

    def process(self, data: Any) -> pa.Table:
        """Take a batch of rows; return results at once if the stream is ordered, else an empty table.

        All of the batch is taken in, or nothing of it. Cost: O(rows), whatever the windows.
        """
        with self._calls as journal:
            self._note(journal)
            table = self._process(data, journal)
            self._give_back(journal)
            return table

    @property
    def watermark(self) -> int | None:
        """The time up to which all windows were reported; None before the first."""
        return self._state.watermark

    def _note(self, journal: Journal) -> None:
        """Note all that is not noted by those who change it."""
        journal.fields(self)
        self._state.note(journal)

    def _process(self, data: Any, journal: Journal) -> pa.Table:
        batch = self._needs.read(data, self._state.time_type)
        batch = fit_columns(batch, self._state.aggregates, self.query.on_bad_row)
        self._state.counters.bad_times += batch.bad_times
        self._state.counters.bad_rows += batch.bad_rows
        if batch.rows == 0:
            return self._table([])
        feeds = self._fed(batch)
        inputs = [feed.inputs(batch) for feed in feeds]
        extra = self._needs.extra(batch)
        keys = self._state.keys.number(batch.keys, batch.rows)
        self._adopt(feeds, journal)
        rows = Rows(keys, owned(batch.times), inputs, extra)
        if self.query.ordered:
            self._check_order(rows)
        lanes = sorted(self._state.lanes, key=attrgetter("turn"))
        admitted = [lane.admit(rows, journal) for lane in lanes]
        for lane, (_, prepared) in zip(lanes, admitted, strict=True):
            if prepared is not None:
                lane.commit(prepared, journal)
        self._count(rows, [counts for counts, _ in admitted])
        self._state.came(keys, batch.times, journal)
        if pa.types.is_null(self._state.time_type):
            self._state.time_type = batch.time_type
        if not self.query.ordered:
            return self._empty()
        return self._report([self._upto(lane) for lane in self._state.lanes], journal)

    def _fed(self, batch: Batch) -> list[BoundAggregate]:
        """Return what feeds the aggregates; types that only nulls have told so far are found now."""
        if self._state.aggregates and all(feed.is_known for feed in self._state.aggregates):
            return self._state.aggregates
        types = {name: ColumnType.of(column) for name, column in batch.columns.items()}
        for feed in self._state.aggregates:
            held = zip(feed.columns, feed.types, strict=True)
            types |= {name: kind for name, kind in held if kind.is_known}
        return [BoundAggregate.of(name, a, types) for name, a in self.query.aggregates.items()]

    def _retype(self, feeds: list[BoundAggregate], journal: Journal) -> None:
        for i, (old, new) in enumerate(zip(self._state.aggregates, feeds, strict=True)):
            if old.kernels.columns != new.kernels.columns:
                for lane in self._state.lanes:
                    journal.whole(*lane.parts())
                    lane.retype(i, new.kernels)
        self._state.aggregates, self._nothing = feeds, None

    def _adopt(self, feeds: list[BoundAggregate], journal: Journal) -> None:
        """Make the lanes for a first batch, or let them work on types that are known only now."""
        if not self._state.aggregates:
            self._begin(feeds, journal)
        if feeds is not self._state.aggregates:
            self._retype(feeds, journal)
        if any(lane.keys != len(self._state.keys) for lane in self._state.lanes):
            self._state.grow_keys()

    def _begin(self, feeds: list[BoundAggregate], journal: Journal) -> None:
        """Make the lanes, when the types of columns are known; they begin at the watermark."""
        self._state.aggregates = feeds
        self._state.lanes = [
            build_lane(self.plan, lane, feeds, self._state.lateness) for lane in self.plan.lanes
        ]
        if self._state.watermark is not None and not self.query.ordered:
            for lane in self._state.lanes:
                lane.advance(np.array([self._state.watermark]), journal)

    def _check_order(self, rows: Rows) -> None:
        """Refuse a row that is earlier than its key's last one."""
        bad = int(compiled_loops().first_fall(rows.keys, rows.times, self._state.last.copy()))
        if bad < 0:
            return
        number = int(rows.keys[bad])
        key = [column[0].as_py() for column in self._state.keys.columns(np.array([number]))]
        raise ValueError(
            f"row {bad} has time {int(rows.times[bad])}, before an earlier row of "
            f"{'its key ' + repr(tuple(key)) if key else 'the stream'}: the query is declared ordered; "
            "sort the rows, or leave ordered=True out"
        )

    def _count(self, rows: Rows, counted: list[Array | None]) -> None:
        counters = self._state.counters
        counters.rows += len(rows)
        watermark = self._state.watermark
        if watermark is not None and least(rows.times) < watermark:
            counters.late += int(np.count_nonzero(rows.times < watermark))
        if all(counts is not None for counts in counted):
            counts = np.logical_or.reduce([c for c in counted if c is not None])
            counters.dropped += len(rows) - int(np.count_nonzero(counts))

    # Rows come in folded

    @property
    def partials(self) -> list[Partials]:
        """The partials of all aggregates in the lane that takes folded rows."""
        return self._folding_lane().partials

    def expect(self, data: Any) -> None:
        """Settle the types of all columns by a batch, of which no row is taken, before rows come."""
        with self._calls as journal:
            self._note(journal)
            batch = self._needs.read(data, self._state.time_type)
            if not self._state.aggregates:
                types = {name: ColumnType.of(column) for name, column in batch.columns.items()}
                feeds = [
                    BoundAggregate.of(name, a, types) for name, a in self.query.aggregates.items()
                ]
                self._adopt(feeds, journal)
                self._state.keys.number([key[:0] for key in batch.keys], 0)
                self._state.time_type = batch.time_type

    def results(self) -> pa.Table:
        """Return a table of results with no rows, which tells their types as far as they are known."""
        with self._calls:
            return self._table([])

    def fold(self, data: Any) -> tuple[FoldedRows, Array]:
        """Fold rows into slices, which another operator of the same query can `merge`; keep nothing.

        Returns with them a hash of each of their keys. Asks for a query that `can_fold`, and for types
        that are known: see `expect`.
        """
        with self._calls as journal:
            self._note(journal)
            batch = self._needs.read(data, self._state.time_type)
            batch = fit_columns(batch, self._state.aggregates, self.query.on_bad_row)
            keys = KeyTable(self.query.keys)
            numbers = keys.number(batch.keys, batch.rows)
            inputs = [feed.inputs(batch) for feed in self._state.aggregates]
            lane = self._folding_lane()
            lane.grow_keys(len(keys))
            rows = Rows(numbers, owned(batch.times), inputs)
            cells = lane.cells(keys.columns(np.arange(len(keys))), rows, journal)
            journal.undo()  # what was noted on the way
            cells = replace(cells, bad_times=batch.bad_times, bad_rows=batch.bad_rows)
            return cells, keys.hashes()

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and the last time of the rows in slices that were folded, if there are any."""
        starts = self._folding_lane().slices.starts()
        return (int(starts.min()), self._state.latest) if len(starts) else None

    def merge(self, pieces: list[FoldedRows]) -> None:
        """Take slices that other operators of the same query have folded, in any order."""
        with self._calls as journal:
            self._note(journal)
            lane = self._folding_lane()
            numbers = [self._state.keys.number(cells.keys, cells.key_count) for cells in pieces]
            self._state.grow_keys()
            cells = FoldedRows.together(pieces, numbers)
            keys = np.ascontiguousarray(cells.found[:, KEY_OF])
            counts, prepared = lane.admit_cells(keys, cells)
            if prepared is not None:
                lane.commit(prepared, journal)
            self._count_cells(cells, counts)
            self._state.came(keys, np.ascontiguousarray(cells.found[:, LAST]), journal)

    def _count_cells(self, cells: FoldedRows, counts: Array | None) -> None:
        counters, rows, last = self._state.counters, cells.found[:, ROWS], cells.found[:, LAST]
        counters.rows += int(rows.sum()) + cells.dropped
        counters.bad_times += cells.bad_times
        counters.bad_rows += cells.bad_rows
        counters.dropped += cells.dropped + (0 if counts is None else int(rows[~counts].sum()))
        if self._state.watermark is not None:
            counters.late += int(rows[last < self._state.watermark].sum())

    def _folding_lane(self) -> GridLane:
        if not (self.plan.can_fold and self._state.lanes):
            raise ValueError("rows of this query cannot be folded before they come; see explain()")
        lane = self._state.lanes[0]
        assert isinstance(lane, GridLane)
        return lane

    # The watermark advances

    def advance(self, watermark: Any = None) -> pa.Table:
        """Move the watermark, and return the windows that are complete by it or were changed.

        Without an argument it goes to the latest time seen, less the query's `watermark`. One that is
        not ahead of the last is ignored.
        """
        with self._calls as journal:
            self._note(journal)
            time = self._time_of(watermark)
            if time is None or (
                self._state.watermark is not None and time <= self._state.watermark
            ):
                return self._table([])
            self._state.watermark = time
            table = self._report([self._upto(lane) for lane in self._state.lanes], journal)
            self._forget_idle(journal)
            self._give_back(journal)
            return table

    def _report(self, upto: list[Array], journal: Journal) -> pa.Table:
        """Let each lane report up to a watermark, in pieces if that is much."""
        expected = [lane.expected(time) for lane, time in zip(self._state.lanes, upto, strict=True)]
        tables = []
        for times in steps(expected, upto):
            pairs = zip(self._state.lanes, times, strict=True)
            tables.append(self._table([lane.advance(time, journal) for lane, time in pairs]))
        for lane in self._state.lanes:
            lane.settle(journal)
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables(tables, promote_options="permissive")

    def _upto(self, lane: Lane, watermark: int | None = None) -> Array:
        """Return the watermark of all keys, or in an ordered stream that of each."""
        time = self._state.watermark if watermark is None else watermark
        time = ALWAYS if time is None else time
        return (
            np.maximum(self._state.last[: lane.space], time)
            if self.query.ordered
            else np.array([time])
        )

    def _forget_idle(self, journal: Journal) -> None:
        """Forget keys of which nothing is left, when they are most of those there are."""
        keys = len(self._state.keys)
        self._looked += 1
        if keys < MANY_KEYS or (keys < self._look_again and self._looked < LOOK_EVERY):
            return
        self._looked = 0
        alive = np.logical_or.reduce([lane.alive() for lane in self._state.lanes])
        if self._state.watermark is not None:  # rows may still come before its last one
            late = 0 if self.query.ordered else self._state.lateness.longest
            alive |= self._state.last[:keys] > self._state.watermark - late
        self._look_again = max(MANY_KEYS, 2 * int(np.count_nonzero(alive)))
        if 2 * np.count_nonzero(alive) > keys:
            return
        journal.no_return()
        self._state.keys.keep(alive)
        for lane in self._state.lanes:
            lane.keep_keys(alive)
        gone = self._state.last[:keys][~alive]
        self._state.forgotten = max(self._state.forgotten, int(gone.max(initial=ALWAYS)))
        self._state.last = self._state.last[:keys][alive]
        self._state.grow_keys()

    def _give_back(self, journal: Journal) -> None:
        for lane in self._state.lanes:
            lane.give_back(journal)

    def _time_of(self, watermark: Any) -> int | None:
        if watermark is None:
            return None if self._state.latest == ALWAYS else self._state.latest - self.query.delay
        if isinstance(watermark, int | np.integer) and not isinstance(watermark, bool):
            return max(-FAR, min(int(watermark), END_OF_TIME))
        try:
            time = int(pa.scalar(watermark).cast(pa.timestamp("us")).value)
        except (TypeError, ValueError, pa.ArrowNotImplementedError) as error:
            raise TypeError(f"a watermark is a time, got {watermark!r}") from error
        return max(-FAR, min(time, END_OF_TIME))

    def finish(self, data: Any) -> pa.Table:
        """Take a whole table and return all its windows; of those that repeat, all that have rows."""
        with self._calls as journal:
            self._note(journal)
            first = self._process(data, journal)
            last = self._complete(journal)
            return pa.concat_tables([first, last]) if first.num_rows else last

    def complete(self) -> pa.Table:
        """Return all windows that the rows have filled and that were not reported; no row may follow."""
        with self._calls as journal:
            self._note(journal)
            return self._complete(journal)

    def _complete(self, journal: Journal) -> pa.Table:
        if not self._state.lanes:
            return self._table([])
        ends = [last_end(lane.windows.values(), self._state.latest) for lane in self._state.lanes]
        pairs = zip(self._state.lanes, ends, strict=True)
        table = self._report([self._upto(lane, end) for lane, end in pairs], journal)
        self._state.watermark = max(ends)
        return table

    # Windows come and go

    def add_window(self, name: str, window: Window) -> None:
        """Report another window from now on.

        It reports windows that were not complete yet and of which nothing is gone from the slices held.
        """
        if name in self.query.windows:
            raise ValueError(
                f"there is a window {name!r} already: remove it, or choose another name"
            )
        with self._calls as journal:
            self._note(journal)
            query = replace(self.query, windows={**self.query.windows, name: window})
            if self._state.aggregates:
                watermark = ALWAYS if self._state.watermark is None else self._state.watermark
                state = self._state
                state.lanes = add_window(
                    query.plan(self.plan.kind),
                    state.lanes,
                    name,
                    state.aggregates,
                    state.lateness,
                    watermark,
                    state.joining(),
                    journal,
                )
                self._state.grow_keys()
            self._redefine(query)

    def remove_window(self, name: str) -> None:
        """Report a window no more, and free what only it needed."""
        if name not in self.query.windows:
            raise KeyError(
                f"no window {name!r}: there are {', '.join(map(repr, self.query.windows))}"
            )
        with self._calls as journal:
            self._note(journal)
            left = {n: w for n, w in self.query.windows.items() if n != name}
            self._redefine(replace(self.query, windows=left))
            if self._state.aggregates:
                self._state.lanes = remove_window(
                    self._state.lanes, name, self._state.latest, journal
                )

    def _redefine(self, query: Query) -> None:
        self.query = query
        self.plan = query.plan(self.plan.kind)
        self._needs = Requirements.of(query)
        self._nothing = None

    # Results go out

    def _empty(self) -> pa.Table:
        if self._nothing is None:
            self._nothing = self._table([])
        return self._nothing

    def _table(self, reports: list[Report]) -> pa.Table:
        """Write reports, one per lane, as one table."""
        pairs = zip(self._state.lanes, reports, strict=False)
        named = [(lane.names, report) for lane, report in pairs if len(report.windows)]
        for _, report in named:
            self._state.counters.windows_reported += len(report.windows)
        times = self._state.time_type if self._needs.times else pa.int64()
        table, types = write_table(
            self.query, self._state.keys, self._state.aggregates, times, self._results, named
        )
        if table.num_rows:
            self._results = types
        return table

    # State is saved

    def snapshot(self) -> bytes:
        """Return the operator's state: versioned bytes with a checksum, of which nothing is ever run."""
        with self._calls:
            return seal(self._plain())

    def plain(self, known: Identity | None = None) -> dict[str, Any]:
        """Return the operator's state as plain data; `known` is the query's identity, if it was made."""
        with self._calls:
            return self._plain(known)

    def _plain(self, known: Identity | None = None) -> dict[str, Any]:
        known = identity(self.query) if known is None else known
        return {"format": FORMAT, "query": known, "plan": self.plan.kind, **self._state.plain()}

    @classmethod
    def restore(cls, query: Query, snapshot: bytes, *, trust_functions: bool = False) -> "Operator":
        """Return the operator of which a snapshot was taken, under the plan it had."""
        return cls.from_plain(query, unseal(snapshot), trust_functions=trust_functions)

    @classmethod
    def from_plain(
        cls,
        query: Query,
        state: Any,
        known: Identity | None = None,
        *,
        trust_functions: bool = False,
    ) -> "Operator":
        """Return the operator that plain() was taken of; `known` is the query's identity, if made."""
        if not isinstance(state, dict) or "query" not in state:
            raise SnapshotError("the snapshot is not of an operator")
        if state.get("format") != FORMAT:
            raise SnapshotError(
                f"the snapshot's state is in format {state.get('format')!r}, and {FORMAT} is read here: "
                "an older or newer muntin wrote it"
            )
        known = identity(query) if known is None else known
        refuse_other(known, state["query"], "query", trust_functions=trust_functions)
        try:
            operator = cls(query, query.plan(state["plan"]))
            operator._state = load_state(query, operator.plan, state)
        except DAMAGE as error:
            raise SnapshotError(
                f"the snapshot's state is not that of an operator: {error!r}"
            ) from error
        return operator

    @property
    def counters(self) -> Counters:
        """What was done so far, and what is held now."""
        return self._state.counted()
