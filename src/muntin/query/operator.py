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
from muntin.query.bound_aggregates import BoundAggregate, check_results, fit_columns, owned
from muntin.query.changing import Change, left_of
from muntin.query.lane_factory import build_lane
from muntin.query.operator_state import FORMAT, Counters, OperatorState, load_state
from muntin.query.plan import Plan, continued
from muntin.query.query import Query, identity
from muntin.query.requirements import Requirements, last_end
from muntin.query.result_table import write_table
from muntin.slicing.folded_rows import KEY_OF, LAST, LOST, ROWS, FoldedRows
from muntin.slicing.key_table import KeyTable
from muntin.slicing.lane import Lane, Report
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
FEW_LIVES = 64
"""When so many lives of keys have ended, and not fewer than there are others, they are forgotten."""
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
            if self.query.ordered:
                self._forget_lives(journal)
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
        inputs = {feed.name: feed.inputs(batch) for feed in feeds}
        extra = self._needs.extra(batch)
        keys = self._state.keys.number(batch.keys, batch.rows)
        self._adopt(feeds, journal)
        rows = Rows(keys, owned(batch.times), [], extra)
        if self.query.ordered:
            self._check_order(rows)
        lives = self._state.lives
        lanes = [lane for lane in self._state.lanes if not self._state.sees_lives(lane)]
        counted = [] if lives is None else [self._live(rows, lives, inputs, journal)]
        self._count(rows, counted + self._give(lanes, rows, inputs, journal))
        self._state.came(keys, batch.times, journal)
        if pa.types.is_null(self._state.time_type):
            self._state.time_type = batch.time_type
        if not self.query.ordered:
            return self._empty()
        return self._report([self._upto(lane) for lane in self._state.lanes], journal)

    def _give(
        self, lanes: list[Lane], rows: Rows, inputs: dict[str, tuple[Array, ...]], journal: Journal
    ) -> list[Array | None]:
        """Give rows to some lanes; return for each which of them count."""
        admitted = [
            lane.admit(replace(rows, inputs=[inputs[name] for name in lane.aggregates]), journal)
            for lane in lanes
        ]
        for lane, (_, prepared) in zip(lanes, admitted, strict=True):
            if prepared is not None:
                lane.commit(prepared, journal)
        return [counts for counts, _ in admitted]

    def _live(
        self, rows: Rows, lives: Lives, inputs: dict[str, tuple[Array, ...]], journal: Journal
    ) -> Array | None:
        """Find the lives of rows, or let them wait for them; return which rows are not too late."""
        counts: Array = rows.times >= self._past()
        which = np.nonzero(counts)[0]
        mine = replace(rows, inputs=[inputs[name] for name in lives.names]).take(which)
        for lane in self._lanes_of_lives():
            lane.try_rows(
                replace(mine, inputs=[mine.inputs[lives.names.index(n)] for n in lane.aggregates])
            )
        if not self.query.ordered:
            lives.wait(mine)
        elif len(mine):
            known, _ = lives.assign(mine, NEVER, journal)
            self._enliven(known, lives, journal)
        return counts

    def _enliven(self, rows: Rows, lives: Lives, journal: Journal) -> None:
        """Give rows of which the life is known to the lanes that see lives."""
        self._state.grow_keys()
        inputs = dict(zip(lives.names, rows.inputs, strict=True))
        self._give(self._lanes_of_lives(), rows, inputs, journal)

    def _release(self, upto: int, past: int, journal: Journal) -> None:
        """Give rows that waited, up to a time, to lanes, if their life is known by now."""
        lives = self._state.lives
        if lives is not None:
            rows = lives.released(upto, past, journal)
            if rows is not None:
                self._enliven(rows, lives, journal)

    def _lanes_of_lives(self) -> list[Lane]:
        return [lane for lane in self._state.lanes if self._state.sees_lives(lane)]

    def _past(self) -> int:
        """Return the time before which no row can count for windows of rows."""
        watermark = self._state.watermark
        if watermark is None:
            return ALWAYS
        return int(self._state.lateness.past(np.array([watermark]))[0])

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

    def _count(self, rows: Rows, counted: list[Array | None]) -> None:
        counters = self._state.counters
        counters.rows += len(rows)
        if self._state.watermark is not None:
            counters.late += int(np.count_nonzero(rows.times < self._state.watermark))
        if all(counts is not None for counts in counted):
            counters.dropped += len(rows) - int(np.count_nonzero(_any_of(counted, len(rows))))

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
        if not self.plan.can_fold:
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
            time = self._time_of(watermark)
            if time is None or (
                self._state.watermark is not None and time <= self._state.watermark
            ):
                return self._table([])
            self._state.watermark = time
            self._release(time, self._past(), journal)
            table = self._report([self._upto(lane) for lane in self._state.lanes], journal)
            self._forget_lives(journal)
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
        if not self.query.ordered:
            return np.array([time])
        lives, last = self._state.lives, self._state.last
        if lives is not None and lane.IN_LIVES:
            return np.maximum(lives.times(last, lane.space), time)
        return np.maximum(last[: lane.space], time)

    def _forget_idle(self, journal: Journal) -> None:
        """Forget keys of which nothing is left, when they are most of those there are."""
        keys = len(self._state.keys)
        self._looked += 1
        if keys < MANY_KEYS or (keys < self._look_again and self._looked < LOOK_EVERY):
            return
        self._looked = 0
        state = self._state
        each = [lane.alive() for lane in state.lanes if not state.sees_lives(lane)]
        if state.lives is not None:
            self._forget_lives(journal, all_of_them=True)
            each.append(state.lives.alive(keys))
        alive = np.logical_or.reduce([np.zeros(keys, np.bool_), *each])
        if self._state.watermark is not None:  # rows may still come before its last one
            late = 0 if self.query.ordered else self._state.lateness.longest
            alive |= self._state.last[:keys] > self._state.watermark - late
        self._look_again = max(MANY_KEYS, 2 * int(np.count_nonzero(alive)))
        if 2 * np.count_nonzero(alive) > keys:
            return
        journal.no_return()
        self._state.keys.keep(alive)
        for lane in self._state.lanes:
            if not self._state.sees_lives(lane):
                lane.keep_keys(alive)
        if self._state.lives is not None:
            self._state.lives.keep_keys(alive)
        gone = self._state.last[:keys][~alive]
        self._state.forgotten = max(self._state.forgotten, int(gone.max(initial=ALWAYS)))
        self._state.last = self._state.last[:keys][alive]
        self._state.grow_keys()

    def _forget_lives(self, journal: Journal, all_of_them: bool = False) -> None:
        """Forget lives that have ended, when they are most of those there are, or all of them."""
        lives, watermark = self._state.lives, self._state.watermark
        if lives is None or not len(lives):
            return
        past = np.array([self._past()])
        if self.query.ordered:
            past = np.maximum(self._state.last, ALWAYS if watermark is None else past)
        alive = lives.open(past)
        ended = len(alive) - int(np.count_nonzero(alive))
        if not ended or (not all_of_them and (ended < FEW_LIVES or 2 * ended < len(alive))):
            return
        journal.no_return()
        for lane in self._lanes_of_lives():
            lane.keep_keys(alive)
        lives.keep(alive)
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
        self._release(NEVER, NEVER, journal)
        latest, idle = self._state.latest, self.query.limit
        ends = [last_end(lane.windows.values(), latest, idle) for lane in self._state.lanes]
        pairs = zip(self._state.lanes, ends, strict=True)
        table = self._report([self._upto(lane, end) for lane, end in pairs], journal)
        self._state.watermark = max(ends)
        return table

    # Windows come and go

    def add_window(self, name: str, window: Window) -> None:
        """Report another window from now on.

        It reports windows that were not complete yet and of which nothing is gone from the slices held;
        windows of rows, Delta and Policy begin after each key's last row.
        """
        if name in self.query.windows:
            raise ValueError(
                f"there is a window {name!r} already: remove it, or choose another name"
            )
        self.become(replace(self.query, windows={**self.query.windows, name: window}))

    def remove_window(self, name: str) -> None:
        """Report a window no more, and free what only it needed."""
        if name not in self.query.windows:
            raise KeyError(
                f"no window {name!r}: there are {', '.join(map(repr, self.query.windows))}"
            )
        left = {n: w for n, w in self.query.windows.items() if n != name}
        self.become(replace(self.query, windows=left))

    def add_aggregate(self, name: str, aggregate: Aggregate) -> None:
        """Report another aggregate from now on; it is null in windows that have a row from before."""
        if name in self.query.aggregates:
            raise ValueError(
                f"there is an aggregate {name!r} already: remove it, or choose another name"
            )
        self.become(replace(self.query, aggregates={**self.query.aggregates, name: aggregate}))

    def remove_aggregate(self, name: str) -> None:
        """Report an aggregate no more, and free what only it needed."""
        if name not in self.query.aggregates:
            raise KeyError(
                f"no aggregate {name!r}: there are {', '.join(map(repr, self.query.aggregates))}"
            )
        left = {n: a for n, a in self.query.aggregates.items() if n != name}
        self.become(replace(self.query, aggregates=left))

    def change_lateness(self, lateness: Any) -> None:
        """Correct windows for longer, or shorter, after their end.

        A raised lateness holds for windows that end after the watermark of now.
        """
        self.become(replace(self.query, lateness=lateness))

    def become(self, query: Query) -> None:
        """Go on under another query, with the same keys and times."""
        for name, aggregate in query.aggregates.items():
            check_results(name, aggregate)
        with self._calls as journal:
            self._note(journal)
            Change(self._state, self.query, query, self.plan.kind, journal).carry_out()
            if not any(lane.IN_LIVES for lane in self._state.lanes):
                self._state.lives = None
            self.query = query
            self.plan = query.plan(self.plan.kind)
            self._needs = Requirements.of(query)
            self._nothing = None
            self._results = {n: t for n, t in self._results.items() if n in query.aggregates}

    # Results go out

    def _empty(self) -> pa.Table:
        if self._nothing is None:
            self._nothing = self._table([])
        return self._nothing

    def _table(self, reports: list[Report]) -> pa.Table:
        """Write reports, one per lane, as one table."""
        pairs = zip(self._state.lanes, reports, strict=False)
        named = [
            (lane, self._by_key(lane, report)) for lane, report in pairs if len(report.windows)
        ]
        self._state.counters.windows_reported += sum(len(report.windows) for _, report in named)
        times = self._state.time_type if self._needs.times else pa.int64()
        table = write_table(
            self.query, self._state.keys, self._state.aggregates, times, self._results, named
        )
        if table.num_rows:
            self._results = {name: table.schema.field(name).type for name in self.query.aggregates}
        return table

    def _by_key(self, lane: Lane, report: Report) -> Report:
        """Return a report with keys in place of lives."""
        lives = self._state.lives if lane.IN_LIVES else None
        if lives is None:
            return report
        windows = report.windows.copy()
        windows[:, KEY] = lives.owner[windows[:, KEY]]
        return replace(report, windows=windows)

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
        """Return the operator that plain() was taken of, under what is left of the query it had.

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


def _any_of(counted: list[Array | None], rows: int) -> Array:
    """Return which rows count in any of some lanes."""
    none = np.zeros(rows, np.bool_)
    found: Array = np.logical_or.reduce([none, *(c for c in counted if c is not None)])
    return found
