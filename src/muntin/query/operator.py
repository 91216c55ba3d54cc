"""The embedded operator: batches of rows in, results out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates import Aggregate, SnapshotError, seal, unseal
from muntin.aggregates.encoding import DAMAGE
from muntin.aggregates.identity import Identity
from muntin.dataframes.batches import Batch
from muntin.dataframes.column_types import ColumnType
from muntin.journal import Calls, Journal
from muntin.query.ahead import near
from muntin.query.at_time import refuse_far, time_of
from muntin.query.bound_aggregates import BoundAggregate, check_results, fit_columns, owned
from muntin.query.changing import Change, left_of
from muntin.query.feeding import Feeding
from muntin.query.forgetting import forget_keys, forget_lives
from muntin.query.lane_factory import build_lane
from muntin.query.lookup import look_up
from muntin.query.operator_state import FORMAT, Counters, OperatorState, load_state
from muntin.query.plan import Plan, continued
from muntin.query.query import REPORTED_EARLY, Query, identity
from muntin.query.requirements import Requirements, last_end
from muntin.query.result_table import dropped_table, write_table
from muntin.slicing.folded_rows import KEY_OF, LAST, LOST, ROWS, FoldedRows
from muntin.slicing.key_table import KeyTable
from muntin.slicing.lane import Lane, Report, least
from muntin.slicing.lanes.grid_lane import GridLane
from muntin.slicing.lateness import Lateness
from muntin.slicing.limits import ALWAYS, END_OF_TIME, FAR, NEVER, Array
from muntin.slicing.lives import Lives, input_types
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.partials import Partials
from muntin.slicing.report_pieces import steps
from muntin.slicing.rows import Rows
from muntin.slicing.tables import KEY
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
        self._early = query.early_every

    # Rows come in

    def process(self, data: Any, *, now: Any = None) -> pa.Table:
        """Take a batch of rows; return results at once if the stream is ordered, else an empty table.

        All of the batch is taken in, or nothing of it. `now` takes the place of the clock where the
        query has a `max_ahead`. Cost: O(rows), whatever the windows.
        """
        with self._calls as journal:
            self._note(journal)
            table = self._process(data, now, journal)
            if self.query.ordered:
                forget_lives(self._state, self.query.ordered, journal)
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

    def _process(self, data: Any, now: Any, journal: Journal) -> pa.Table:
        read = self._needs.read(data, self._state.time_type)
        batch = near(read, self.query, now)
        self._leave_out(read.rows - batch.rows)
        batch = fit_columns(batch, self._state.aggregates, self.query.on_bad_row)
        self._state.counters.bad_times += batch.bad_times
        self._state.counters.bad_rows += batch.bad_rows
        if batch.rows == 0:
            return self._table([])
        feeds = self._fed(batch)
        inputs = {feed.name: feed.inputs(batch) for feed in feeds}
        extra = self._needs.extra(batch)
        keys = self._state.keys.number(batch.keys, batch.rows)
        self._adopt(feeds, journal)
        rows = Rows(keys, owned(batch.times), [], extra)
        if self.query.ordered:
            self._check_order(rows)
        lost = self._count(rows, self._feeding(journal).give(rows, inputs))
        self._state.came(keys, batch.times, journal)
        if pa.types.is_null(self._state.time_type):
            self._state.time_type = batch.time_type
        tables = [self._dropped(rows, lost)] if len(lost) and self.query.reports_dropped else []
        if self.query.ordered:
            upto = [self._upto(lane) for lane in self._state.lanes]
            tables.append(self._report(upto, journal))
        return _joined(tables or [self._table([])])

    def _dropped(self, rows: Rows, lost: Array) -> pa.Table:
        """Return the rows of some numbers, which no window took."""
        keys = self._state.keys.columns(rows.keys[lost])
        return dropped_table(self._table([]), keys, rows.times[lost])

    def leave_out(self, rows: int) -> None:
        """Count rows that were dropped before they came here, because they were ahead of the clock."""
        with self._calls as journal:
            self._note(journal)
            self._leave_out(rows)

    def _leave_out(self, rows: int) -> None:
        self._state.counters.rows += rows
        self._state.counters.dropped += rows

    def _fed(self, batch: Batch) -> list[BoundAggregate]:
        """Return what feeds the aggregates; types that only nulls have told so far are found now."""
        if self._state.begun and all(feed.is_known for feed in self._state.aggregates):
            return self._state.aggregates
        types = {name: ColumnType.of(column) for name, column in batch.columns.items()}
        for feed in self._state.aggregates:
            held = zip(feed.columns, feed.types, strict=True)
            types |= {name: kind for name, kind in held if kind.is_known}
        return [BoundAggregate.of(name, a, types) for name, a in self.query.aggregates.items()]

    def _retype(self, feeds: list[BoundAggregate], journal: Journal) -> None:
        for old, new in zip(self._state.aggregates, feeds, strict=True):
            if old.kernels.columns != new.kernels.columns:
                for lane in self._state.lanes:
                    if new.name in lane.aggregates:
                        journal.whole(*lane.parts())
                        lane.retype(lane.aggregates.index(new.name), new.kernels)
                if self._state.lives is not None and new.name in self._state.lives.names:
                    self._state.lives.retype(new.name, input_types(new.kernels.columns))
        self._state.aggregates, self._nothing = feeds, None

    def _adopt(self, feeds: list[BoundAggregate], journal: Journal) -> None:
        """Make the lanes for a first batch, or let them work on types that are known only now."""
        if not self._state.begun:
            self._begin(feeds, journal)
        if feeds is not self._state.aggregates:
            self._retype(feeds, journal)
        if not self._state.has_space:
            self._state.grow_keys()

    def _begin(self, feeds: list[BoundAggregate], journal: Journal) -> None:
        """Make the lanes, when the types of columns are known; they begin at the watermark."""
        self._state.begun, self._state.aggregates = True, feeds
        bound, lateness = self._state.bound, self._state.lateness
        self._state.lanes = [
            build_lane(self.plan, lane, bound, lateness) for lane in self.plan.lanes
        ]
        if self.query.limit is not None and any(lane.IN_LIVES for lane in self._state.lanes):
            self._state.lives = Lives(self.query.limit, [*bound])
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

    def _count(self, rows: Rows, counted: list[Array | None]) -> Array:
        """Count rows, and return the numbers of those that no window took."""
        counters = self._state.counters
        counters.rows += len(rows)
        watermark = self._state.watermark
        if watermark is not None and least(rows.times) < watermark:
            counters.late += int(np.count_nonzero(rows.times < watermark))
        lost = np.zeros(0, np.int64)
        if all(counts is not None for counts in counted):
            lost = np.nonzero(~_any_of(counted, len(rows)))[0]
        counters.dropped += len(lost)
        return lost

    # Rows come in folded

    @property
    def partials(self) -> dict[str, Partials]:
        """The partials of all aggregates in a lane that takes folded rows, if there is one."""
        lanes = self._folding_lanes()
        held = dict(zip(lanes[0].aggregates, lanes[0].partials, strict=True)) if lanes else {}
        return {name: held[name] for name in self.query.aggregates if name in held}

    def expect(self, data: Any) -> None:
        """Settle the types of columns that are not known by a batch, of which no row is taken."""
        with self._calls as journal:
            self._note(journal)
            batch = self._needs.read(data, self._state.time_type)
            begun = self._state.begun
            self._adopt(self._fed(batch), journal)
            if not begun:
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
            (lane,) = self._folding_lanes()
            lane.grow_keys(len(keys))
            rows = Rows(numbers, owned(batch.times), inputs)
            cells = lane.cells(keys.columns(np.arange(len(keys))), rows, journal)
            journal.undo()  # what was noted on the way
            cells = replace(cells, bad_times=batch.bad_times, bad_rows=batch.bad_rows)
            return cells, keys.hashes()

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and the last time of the rows in slices that were folded, if there are any."""
        (lane,) = self._folding_lanes()
        starts = lane.slices.starts()
        return (int(starts.min()), self._state.latest) if len(starts) else None

    def merge(self, pieces: list[FoldedRows]) -> None:
        """Take slices that other operators of the same query have folded, in any order."""
        with self._calls as journal:
            self._note(journal)
            lanes = self._folding_lanes()
            numbers = [self._state.keys.number(cells.keys, cells.key_count) for cells in pieces]
            self._state.grow_keys()
            cells = FoldedRows.together(pieces, numbers)
            keys = np.ascontiguousarray(cells.found[:, KEY_OF])
            admitted = []
            for lane in lanes:
                order = [[*self.query.aggregates].index(name) for name in lane.aggregates]
                mine = replace(cells, parts=[cells.parts[i] for i in order])
                counts, prepared = lane.admit_cells(keys, mine)
                if prepared is not None:
                    lane.commit(prepared, journal)
                admitted.append(counts)
            self._count_cells(cells, admitted)
            came = np.append(cells.found[:, [KEY_OF, LAST]], cells.lost[:, [KEY_OF, LOST]], 0)
            owners, times = np.ascontiguousarray(came.T)
            self._state.came(owners, times, journal)

    def _count_cells(self, cells: FoldedRows, counted: list[Array | None]) -> None:
        counts = None
        if all(counts is not None for counts in counted):
            counts = _any_of(counted, len(cells))
        counters, rows, last = self._state.counters, cells.found[:, ROWS], cells.found[:, LAST]
        counters.rows += int(rows.sum()) + cells.dropped
        counters.bad_times += cells.bad_times
        counters.bad_rows += cells.bad_rows
        counters.dropped += cells.dropped + (0 if counts is None else int(rows[~counts].sum()))
        if self._state.watermark is not None:
            counters.late += int(rows[last < self._state.watermark].sum())

    def _folding_lanes(self) -> list[GridLane]:
        """Return the lanes that take folded rows: all, of which there may be several after a change."""
        lanes = [lane for lane in self._state.lanes if isinstance(lane, GridLane)]
        if not self.plan.can_merge:
            raise ValueError("rows of this query cannot be folded before they come; see explain()")
        return lanes

    # The watermark advances

    def advance(self, watermark: Any = None) -> pa.Table:
        """Move the watermark, and return the windows that are complete by it or were changed.

        Without an argument it goes to the latest time seen, less the query's `watermark`. One that is
        not ahead of the last is ignored.
        """
        with self._calls as journal:
            self._note(journal)
            before, time = self._state.watermark, self._time_of(watermark)
            moved = time is not None and (before is None or time > before)
            tables = []
            if time is not None and moved:
                self._state.watermark = time
                self._feeding(journal).release(time, self._state.past)
                upto = [self._upto(lane) for lane in self._state.lanes]
                tables.append(self._report(upto, journal))
            if self._early_due(before):
                tables.append(self._early_results(journal))
            if moved:
                forget_lives(self._state, self.query.ordered, journal)
                self._forget_idle(journal)
            self._give_back(journal)
            filled = [table for table in tables if table.num_rows]
            return _joined(filled or tables[:1] or [self._table([])])

    def early(self) -> pa.Table:
        """Return early results, if they are asked for at each advance, and leave the watermark."""
        with self._calls as journal:
            self._note(journal)
            return self._early_results(journal) if self._early == 0 else self._table([])

    def _early_results(self, journal: Journal) -> pa.Table:
        lanes = self._state.lanes
        return self._table([self._of_keys(lane, lane.early(journal)) for lane in lanes])

    def report_early(self, every: int | None) -> None:
        """Report early results from now on at multiples of a time: 0 for each advance, None never."""
        self._early = every
        for lane in self._state.lanes:
            lane.report_early(every is not None and lane.kind in REPORTED_EARLY)

    def _early_due(self, before: int | None) -> bool:
        """Whether early results are due, when the watermark was at `before`."""
        every, now = self._early, self._state.watermark
        if not every:
            return every == 0
        return now is not None and (before is None or now // every > before // every)

    def _report(self, upto: list[Array], journal: Journal) -> pa.Table:
        """Let each lane report up to a watermark, in pieces if that is much."""
        expected = [lane.expected(time) for lane, time in zip(self._state.lanes, upto, strict=True)]
        tables = []
        for times in steps(expected, upto):
            pairs = zip(self._state.lanes, times, strict=True)
            tables.append(self._table([self._advance(*pair, journal) for pair in pairs]))
        for lane in self._state.lanes:
            lane.settle(journal)
        return _joined(tables)

    def _advance(self, lane: Lane, upto: Array, journal: Journal) -> Report:
        """Return a lane's report, with keys in place of lives."""
        report, state = self._of_keys(lane, lane.advance(upto, journal)), self._state
        if state.lives is None or not lane.IN_LIVES:
            return report
        keys = len(state.keys)
        clock = state.last[:keys] if self.query.ordered else upto
        return lane.of_keys(report, keys, clock, journal)

    def _of_keys(self, lane: Lane, report: Report) -> Report:
        """Return a report with keys in place of lives, which some lanes are given."""
        lives = self._state.lives if lane.IN_LIVES else None
        return report if lives is None else report.by_key(lives.owner[report.windows[:, KEY]])

    def _upto(self, lane: Lane, watermark: int | None = None) -> Array:
        """Return the watermark of all keys, or in an ordered stream that of each."""
        time = self._state.watermark if watermark is None else watermark
        time = ALWAYS if time is None else time
        if not self.query.ordered:
            return np.array([time])
        lives, last = self._state.lives, self._state.last
        if lives is not None and lane.IN_LIVES:
            return np.maximum(lives.times(last, lane.space), time)
        return np.maximum(last[: lane.space], time)

    def _forget_idle(self, journal: Journal) -> None:
        """Look from time to time for keys of which nothing is left."""
        keys = len(self._state.keys)
        self._looked += 1
        if keys < MANY_KEYS or (keys < self._look_again and self._looked < LOOK_EVERY):
            return
        left = forget_keys(self._state, self.query.ordered, journal)
        self._look_again, self._looked = max(MANY_KEYS, 2 * left), 0

    def _feeding(self, journal: Journal) -> Feeding:
        return Feeding(self._state, self.query.ordered, journal)

    def _give_back(self, journal: Journal) -> None:
        for lane in self._state.lanes:
            lane.give_back(journal)

    def _time_of(self, watermark: Any) -> int | None:
        if watermark is None:
            return None if self._state.latest == ALWAYS else self._state.latest - self.query.delay
        return max(-FAR, min(time_of(watermark, "a watermark"), END_OF_TIME))

    def finish(self, data: Any, *, now: Any = None) -> pa.Table:
        """Take a whole table and return all its windows; of those that repeat, all that have rows."""
        with self._calls as journal:
            self._note(journal)
            first = self._process(data, now, journal)
            last = self._complete(journal)
            return _joined([first, last]) if first.num_rows else last

    def complete(self) -> pa.Table:
        """Return all windows that the rows have filled and that were not reported; no row may follow."""
        with self._calls as journal:
            self._note(journal)
            return self._complete(journal)

    def _complete(self, journal: Journal) -> pa.Table:
        if not self._state.lanes or self._state.latest == ALWAYS:  # no row has come
            return self._table([])
        self._feeding(journal).release(NEVER, NEVER)
        latest, idle = self._state.latest, self.query.limit
        ends = [
            max(lane.last_end, last_end(lane.windows.values(), latest, idle))
            for lane in self._state.lanes
        ]
        pairs = zip(self._state.lanes, ends, strict=True)
        table = self._report([self._upto(lane, end) for lane, end in pairs], journal)
        self._state.watermark = max(ends)
        return table if self.query.emit == "every" else self._as_if_alone(table)

    def _as_if_alone(self, table: pa.Table) -> pa.Table:
        """Leave out ends of windows that the watermark passed only for the sake of longer windows."""
        latest, idle = self._state.latest, self.query.limit
        names, ends = (
            table["window"].to_numpy(),
            table["end"].cast(pa.int64()).fill_null(0).to_numpy(),
        )
        later = np.zeros(table.num_rows, np.bool_)
        for name, window in self.query.windows.items():
            if window.measure == "time":
                later |= (names == name) & (ends > last_end([window], latest, idle))
        return table.filter(pa.array(~later | (table["kind"].to_numpy() != "empty")))

    # Windows are looked at

    def lookup(self, keys: Any = None, at: Any = None) -> pa.Table:
        """Return what the windows of some keys hold at a time, and close nothing.

        One row per key asked, with a column `{window}_{aggregate}` for each, as `muntin.as_of` gives it
        over the rows that came. Without a time it is behind all rows, and not before the watermark. An
        earlier time must be behind a key's latest row, or lie on an edge of slices, or rows must be
        kept; and nothing that a window needs may have expired. Cost: the slices or rows of these keys.

        - `keys`: a batch with the columns of the query's keys; nothing if it has none.
        - `at`: a time; rows before it count.

        >>> import muntin as mt
        >>> op = mt.Query(
        ...     time="t", keys="user", windows={"day": mt.Sliding(24, 1)}, aggregates={"n": mt.Count()}
        ... ).operator()
        >>> _ = op.process({"t": [1, 5, 9], "user": [7, 7, 8]})
        >>> op.lookup({"user": [7, 9]}).to_pylist()
        [{'user': 7, 'day_n': 2}, {'user': 9, 'day_n': 0}]
        """
        with self._calls as journal:
            self._note(journal)
            time = self._now() if at is None else time_of(at, "the time of a lookup")
            refuse_far(np.array([time]), "lookup")
            table = look_up(self.query, self._state, keys, time, journal)
            journal.undo()  # new keys, and what was brought up to date on the way
            return table

    def _now(self) -> int:
        """Return the first time behind all rows that is not before the watermark."""
        watermark = self._state.watermark
        behind = self._state.latest + 1 if self._state.latest > ALWAYS else 0
        return behind if watermark is None else max(behind, watermark)

    # Windows come and go

    def add_window(self, name: str, window: Window) -> None:
        """Report another window from now on.

        It reports windows that were not complete yet and of which nothing is gone from the slices held;
        windows of rows, Delta and Policy begin after each key's last row.
        """
        self._change("windows", name, window)

    def remove_window(self, name: str) -> None:
        """Report a window no more, and free what only it needed."""
        self._change("windows", name)

    def add_aggregate(self, name: str, aggregate: Aggregate) -> None:
        """Report another aggregate from now on; it is null in windows that have a row from before."""
        self._change("aggregates", name, aggregate)

    def remove_aggregate(self, name: str) -> None:
        """Report an aggregate no more, and free what only it needed."""
        self._change("aggregates", name)

    def _change(self, part: str, name: str, thing: Window | Aggregate | None = None) -> None:
        """Add something to the query's windows or aggregates, or remove what has the name."""
        with self._calls as journal:
            held = getattr(self.query, part)
            if thing is None and name not in held:
                raise KeyError(f"no {part[:-1]} {name!r}: there are {', '.join(map(repr, held))}")
            if thing is not None and name in held:
                raise ValueError(
                    f"{name!r} is one of the {part} already: remove it, or choose another name"
                )
            left = {n: t for n, t in held.items() if n != name}
            changed: Any = left if thing is None else {**held, name: thing}
            self._become(replace(self.query, **{part: changed}), journal)

    def change_lateness(self, lateness: Any) -> None:
        """Correct windows for longer, or shorter, after their end.

        A raised lateness holds for windows that end after the watermark of now.
        """
        with self._calls as journal:
            self._become(replace(self.query, lateness=lateness), journal)

    def become(self, query: Query) -> None:
        """Go on under another query, with the same keys and times."""
        with self._calls as journal:
            self._become(query, journal)

    def _become(self, query: Query, journal: Journal) -> None:
        for name, aggregate in query.aggregates.items():
            check_results(name, aggregate)
        self._note(journal)
        Change(self._state, self.query, query, self.plan.kind, journal).carry_out()
        if not any(lane.IN_LIVES for lane in self._state.lanes):
            self._state.lives = None
        self.query = query
        self.report_early(query.early_every)
        self.plan = query.plan(self.plan.kind)
        self._needs = Requirements.of(query)
        self._nothing = None
        self._results = {n: t for n, t in self._results.items() if n in query.aggregates}

    # Results go out

    def _table(self, reports: list[Report]) -> pa.Table:
        """Write reports, one per lane, as one table."""
        pairs = zip(self._state.lanes, reports, strict=False)
        named = [(lane, report) for lane, report in pairs if len(report.windows)]
        if not named and self._nothing is not None:
            return self._nothing
        for _, report in named:
            self._state.counters.windows_reported += len(report.windows)
        times = self._state.time_type
        table, types = write_table(
            self.query, self._state.keys, self._state.aggregates, times, self._results, named
        )
        if table.num_rows and types != self._results:
            self._results, self._nothing = types, None
        elif not named and not pa.types.is_null(times):
            self._nothing = table
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
        operator = cls.from_plain(query, unseal(snapshot), trust_functions=trust_functions)
        operator.become(query)
        return operator

    @classmethod
    def from_plain(
        cls,
        query: Query,
        state: Any,
        known: Identity | None = None,
        *,
        trust_functions: bool = False,
        plan: str | None = None,
        place: str = "",
    ) -> "Operator":
        """Return the operator that plain() was taken of, under the part of its query that is left.

        It is to `become` one of the given query; `known` is that query's identity, if it was made.
        It has the plan it had, or `plan`, if a state of the one serves the other.
        """
        if not isinstance(state, dict) or "query" not in state:
            raise SnapshotError("the snapshot is not of an operator")
        if state.get("format") != FORMAT:
            raise SnapshotError(
                f"the snapshot's state is in format {state.get('format')!r}, and {FORMAT} is read here: "
                "an older or newer muntin wrote it"
            )
        known = identity(query) if known is None else known
        try:
            saved, lanes = state["query"], state["lanes"]
            left = left_of(query, known, saved, lanes, trust_functions=trust_functions, place=place)
            held = left.plan(state["plan"])
            operator = cls(left, held if plan is None else continued(held, left.plan(plan)))
            operator._state = load_state(left, operator.plan, state)
        except SnapshotError:
            raise
        except DAMAGE as error:
            raise SnapshotError(
                f"the snapshot's state is not that of an operator: {error!r}"
            ) from error
        return operator

    @property
    def counters(self) -> Counters:
        """What was done so far, and what is held now."""
        return self._state.counted()

    @property
    def done(self) -> Counters:
        """What was done so far; what is held, which takes longer, is not counted."""
        return self._state.done()


def _joined(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")


def _any_of(counted: list[Array | None], rows: int) -> Array:
    """Return which rows count in any of some lanes."""
    none = np.zeros(rows, np.bool_)
    found: Array = np.logical_or.reduce([none, *(c for c in counted if c is not None)])
    return found
