"""Final aggregation that is kept between reports: windows that slide over the runs of an arena.

A window of a key that was reported leaves something behind for the next one, of which most slices are
the same: a total, two stacks or the deque of DABA Lite (`kernels/loops/kept_windows.py`). Which of them
follows from what the aggregate declares. Windows of more than a few kinds share one total per key, which
goes from one window to the next, or one tree (`slice_trees.py`), or a scan, whichever takes the fewest
combines. All of it is derived from the slices: a state that is saved does not have it, a call that fails
drops what it may have changed, and the next report builds it again.
"""

import numpy as np

from muntin.journal import Journal
from muntin.kernels.loops.kept_windows import (
    DABA,
    MARKS,
    NOTHING,
    NOWHERE,
    STACKS,
    TOTALS,
    Asked,
    E,
    Slots,
)
from muntin.kernels.loops.slice_trees import CHANGED_COLUMNS
from muntin.slicing.arena import Arena
from muntin.slicing.held_bytes import Measure, sampled
from muntin.slicing.lane import longer, spans_of
from muntin.slicing.limits import Array
from muntin.slicing.loops.compiled import compiled_loops
from muntin.slicing.partials import FEW_KINDS, WORST_CASE, Partials
from muntin.slicing.slice_trees import SliceTrees
from muntin.slicing.tables import HI, KEY, LO, PERIOD_EVERY, PERIOD_SIZE, WINDOW

LOOPS = {TOTALS: "query_totals", STACKS: "query_stacks", DABA: "query_daba"}
LEAVES = {TOTALS: "leave_totals", DABA: "leave_daba"}
NO_KINDS = np.zeros(0, np.bool_)
NO_PERIODS = np.zeros((0, 3), np.int64)


def kept_as(partials: Partials) -> int:
    """Return what is kept of an aggregate's windows, by what it declares."""
    if partials.kernels.totals and partials.aggregate.commutative:
        return TOTALS
    if partials.aggregate.holistic:  # a front would hold each value once per slice before it
        return NOTHING
    return DABA if partials.store == WORST_CASE else STACKS


def climbed(slices: Array) -> int:
    """Return the combines that trees take for windows of some numbers of slices, at most."""
    return 2 * int(np.frexp(slices)[1].sum())  # as many levels as a number has bits


class KeptColumn:
    """What is kept of the windows of one aggregate, with the fronts beside the slices."""

    def __init__(self, arena: Arena, partials: Partials) -> None:
        self.partials = partials
        self._arena = arena
        self._kernels = partials.kernels
        self._kept = NOTHING
        self._slides = NO_KINDS  # per definition: whether its windows share slices
        self._shares = False  # whether windows of all kinds share one total
        self._slots = self._empty(np.full(1, NOWHERE))
        self._trees = SliceTrees(arena, partials.kernels)
        arena.beside(self)

    def _empty(self, kind_of: Array) -> Slots:
        """Return slots for windows of some kinds, of which nothing is kept yet."""
        kinds, nothing = int(kind_of.max()) + 1, self._kernels.buffer(0)
        marks, fronts = np.zeros((0, MARKS), np.int64), self._front_buffer(kinds)
        return Slots(marks, nothing, nothing, fronts, self._arena.places, kind_of, kinds)

    def _front_buffer(self, kinds: int) -> tuple[Array, ...]:
        return self._kernels.buffer(0 if self._kept == TOTALS else kinds * self._arena.places)

    def begin(self, slides: Array) -> None:
        """Keep windows from now on, given which definitions slide, and nothing of those before."""
        kinds = int(np.count_nonzero(slides))
        self._slides = slides
        self._kernels = self.partials.kernels
        self._trees = SliceTrees(self._arena, self._kernels)
        self._kept = kept_as(self.partials)
        self._shares = kinds > FEW_KINDS
        if self._shares and self._kept != TOTALS:
            self._kept = NOTHING
        kind_of = np.full(max(len(slides), 1), NOWHERE)
        if self._kept != NOTHING:
            kind_of[np.nonzero(slides)[0]] = 0 if self._shares else np.arange(kinds)
        self._slots = self._empty(kind_of)

    def renew(self, places: int) -> None:
        """Make space for fronts at a number of places, those of the arena."""
        fronts = self._front_buffer(self._slots.kinds)
        self._slots = self._slots._replace(fronts=fronts, places=places)
        self._trees.renew(places)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The fronts of each kind, and labels, at every place from 0 on: they move when slices do."""
        labels = self._trees.loops.labels
        return (*self._fronts, *([labels] if len(labels) else []))

    @property
    def _fronts(self) -> list[Array]:
        kinds, size = self._slots.kinds, self._slots.places
        if self._kept == TOTALS:
            return []
        pieces = [slice(kind * size, (kind + 1) * size) for kind in range(kinds)]
        return [array[piece] for piece in pieces for array in self._slots.fronts]

    def take(self, places: Array) -> tuple[Array, ...]:
        """Return nothing: a call that fails forgets what is kept."""
        del places
        return ()

    def put(self, places: Array, parts: tuple[Array, ...]) -> None:
        """Put nothing back."""

    @property
    def fits(self) -> bool:
        """Whether it holds partials of the type that the slices have now."""
        return self._kernels is self.partials.kernels

    @property
    def serves(self) -> bool:
        """Whether some windows share slices with the next of their kind."""
        return bool(np.count_nonzero(self._slides))

    def bytes(self, places: Array, count: int, measure: Measure) -> int:
        """Estimate the memory of what is kept from the fronts at some of the `count` places in use."""
        marks, backs, middles, fronts = self._slots[:4]
        trees = self._trees.loops
        arrays = (marks, *backs, *middles, *fronts, *trees.nodes, trees.marks, trees.labels)
        size = sum(int(array.nbytes) for array in arrays)
        if self._kernels.columns is not None:
            return size
        for held in (*backs, *middles, *trees.nodes):
            size += measure.objects(held[sampled(len(held))].tolist(), len(held))
        return size + sum(measure.objects(a[places].tolist(), count) for a in self._fronts)

    def forget(self, keys: Array) -> None:
        """Keep nothing of the windows of some keys."""
        if self._slots.kinds:
            marks = self._slots.marks.reshape(-1, self._slots.kinds, MARKS)
            marks[keys[keys < len(marks)], :, E] = NOWHERE
        self._trees.forget(keys)

    def keep_keys(self, alive: Array) -> None:
        """Drop the keys that are not alive; the others get new numbers."""
        marks, backs, middles = self._slots[:3]
        chosen = np.repeat(alive, self._slots.kinds)[: len(marks)]
        held = [tuple(array[chosen] for array in arrays) for arrays in (backs, middles)]
        self._slots = self._slots._replace(marks=marks[chosen], backs=held[0], middles=held[1])
        self._trees.keep_keys(alive)

    def _grown(self) -> Slots:
        """Return the slots, with those of keys that came since."""
        more = self._arena.keys * self._slots.kinds - len(self._slots.marks)
        if more > 0:
            marks, backs, middles = self._slots[:3]
            fresh = self._kernels.buffer(more)
            held = [
                tuple(np.append(old, new) for old, new in zip(arrays, fresh, strict=True))
                for arrays in (backs, middles)
            ]
            marks = np.append(marks, np.full((more, MARKS), NOWHERE), axis=0)
            self._slots = self._slots._replace(marks=marks, backs=held[0], middles=held[1])
        return self._slots

    def query(self, asked: Asked, windows: Array) -> tuple[Array, ...]:
        """Return the results of windows, those that go on from the one before and the others."""
        if not self.serves or len(windows) == 0:
            return self.partials.query(*spans_of(windows))
        if self._kept == NOTHING or (self._shares and not self._walks(windows)):
            return self._merged(windows, asked.closed)
        outs, behind = self._kernels.outputs(len(windows)), np.empty(len(windows), np.int64)
        loop = getattr(self._kernels.module, LOOPS[self._kept])
        runs = (self._arena.drift, self._trees.grown().credit)
        combines, skipped = loop(self.partials.arrays, self._grown(), asked, runs, outs, behind)
        self.partials.combines += int(combines)
        behind = behind[: int(skipped)]
        if len(behind):
            merged = self._merged(windows[behind], asked.closed[behind])
            for out, results in zip(outs, merged, strict=True):
                out[behind] = results
        return outs

    def _merged(self, windows: Array, closed: Array) -> tuple[Array, ...]:
        """Return the results of windows that do not go on.

        Those that share slices come from trees if that takes fewer combines.
        """
        slide = self._slides[windows[:, WINDOW]]
        if not slide.any() or not self._pays(windows[slide]):
            return self.partials.query(*spans_of(windows))
        shared, outs = windows[slide], self._kernels.outputs(len(windows))
        owners, lo, hi = (np.ascontiguousarray(shared[:, c]) for c in (KEY, LO, HI))
        found, spans = self._kernels.outputs(len(shared)), (lo, closed[slide], hi)
        self.partials.combines += self._trees.query(self.partials.arrays, owners, spans, found)
        if slide.all():
            return found
        alone = self.partials.query(*spans_of(windows[~slide]))
        for out, ours, others in zip(outs, found, alone, strict=True):
            out[slide], out[~slide] = ours, others
        return outs

    def _walks(self, windows: Array) -> bool:
        """Whether a total that goes from window to window takes fewer combines than a tree."""
        if self.partials.aggregate.holistic:  # a tree would hold each value at each of its levels
            return True
        lo, hi = windows[:, LO], windows[:, HI]
        steps = np.abs(np.diff(lo)) + np.abs(np.diff(hi))
        walked = hi[0] - lo[0] + np.minimum(steps, hi[1:] - lo[1:]).sum()
        return bool(walked <= climbed(hi - lo))

    @staticmethod
    def _pays(windows: Array) -> bool:
        """Whether trees take fewer combines for windows than scans over their slices."""
        lo, hi, _, runs = spans_of(windows)
        alone = np.diff(runs) == 1
        scanned = np.where(alone, 1, 2) * (hi[runs[1:] - 1] - lo[runs[:-1]])
        return bool(climbed(hi - lo) < scanned.sum())

    def leave(self, journal: Journal) -> None:
        """Let totals and deques follow when slices were dropped, while they are still there."""
        kinds, marks = self._slots.kinds, self._slots.marks
        if kinds == 0 or self._kept not in LEAVES:
            return
        chosen, upto = np.empty((2, len(marks)), np.int64)
        arena = self._arena
        found = (marks, kinds, arena.head, arena.drift, chosen, upto)
        count = compiled_loops().slots_behind(*found)
        if count:
            self._leave(chosen[:count], upto[:count], journal)

    def _leave(self, chosen: Array, upto: Array, journal: Journal) -> None:
        """Take the slices up to number upto[j] out of what is kept of slot chosen[j]."""
        marks = self._slots.marks
        journal.call(self.forget, chosen // self._slots.kinds)
        gone = upto >= marks[chosen, E]
        marks[chosen[gone], E] = NOWHERE
        loop = getattr(self._kernels.module, LEAVES[self._kept])
        partials, drift = self.partials.arrays, self._arena.drift
        spent = loop(partials, self._slots, chosen[~gone], upto[~gone], drift)
        self.partials.combines += int(spent)

    def join(self, log: Array, owners: Array) -> None:
        """Join the partials of slices, and let what is kept follow; owners[j] is the key of step j."""
        if not (self.serves and self.fits):
            self.partials.replay(log, len(log), self.partials.kernels.buffer(0))
            return
        kept, drift = (self._grown(), self._trees.grown()), self._arena.drift
        self._kernels.module.join_kept(log, owners, self.partials.arrays, kept, drift, self._kept)

    def replay(self, log: Array, steps: int, keys: Array, parts: tuple[Array, ...]) -> None:
        """Do to the partials what the log says was done to the slices; what is kept follows."""
        if not (self.serves and self.fits):
            self.partials.replay(log, steps, parts)
            return
        how, kept = (
            (self._kept, self.partials.aggregate.commutative),
            (self._grown(), self._trees.grown()),
        )
        held, runs = self.partials.arrays, (self._arena.head, self._arena.drift)
        changed = np.empty((steps, CHANGED_COLUMNS), np.int64)
        loop = self._kernels.module.replay_kept
        noted = int(loop(log[:steps], keys, parts, held, kept, runs, how, changed))
        if noted:
            self._trees.note(changed[:noted])

    def inserted(self, keys: Array, places: Array, parts: tuple[Array, ...]) -> None:
        """Let what is kept follow where items were inserted: part j is of keys[j], at places[j]."""
        if not (self.serves and self.fits):
            return
        how = (self._kept, self.partials.aggregate.commutative)
        kept, runs = (self._grown(), self._trees.grown()), (self._arena.head, self._arena.drift)
        changed = np.empty((len(places), CHANGED_COLUMNS), np.int64)
        noted = int(self._kernels.module.insert_kept(keys, places, parts, kept, runs, how, changed))
        if noted:
            self._trees.note(changed[:noted])


class KeptWindows:
    """What is kept of the windows of one lane, for all its aggregates."""

    def __init__(self, arena: Arena, partials: list[Partials]) -> None:
        self._arena = arena
        self.columns = [KeptColumn(arena, column) for column in partials]
        self._periods = NO_PERIODS
        self._definitions = 0
        self._reach = np.zeros(
            0, np.int64
        )  # per key: behind the last slice of windows that are kept

    def serve(self, periods: Array, definitions: int) -> bool:
        """Keep windows that repeat so from now on; return whether anything is kept of any.

        `definitions` is the number of all definitions, of which those that repeat are the first.
        """
        same = periods is self._periods or np.array_equal(periods, self._periods)
        fits = definitions == self._definitions and all(column.fits for column in self.columns)
        if not (same and fits):
            self._definitions = 0
            slides = np.zeros(definitions, np.bool_)
            slides[: len(periods)] = periods[:, PERIOD_SIZE] > periods[:, PERIOD_EVERY]
            for column in self.columns:
                column.begin(slides)
            self._reach = np.zeros(0, np.int64)
            self._definitions = definitions
        self._periods = periods
        self._reach = longer(self._reach, self._arena.keys, 0)
        return any(column.serves for column in self.columns)

    def query(
        self, windows: Array, journal: Journal, closed: Array | None = None
    ) -> list[tuple[Array, ...]]:
        """Return the results of windows of slices, which are given key by key and kind by kind.

        Slices at closed[k] and behind may still be joined with later ones; without it none are joined.
        """
        key, window, lo, hi = (np.ascontiguousarray(windows[:, c]) for c in (KEY, WINDOW, LO, HI))
        asked = Asked(key, window, lo, hi if closed is None else closed, hi)
        journal.call(self.forget, asked.keys)
        compiled_loops().note_reach(asked.keys, asked.closed, self._arena.drift, self._reach)
        return [column.query(asked, windows) for column in self.columns]

    def leave(self, journal: Journal) -> None:
        """Let what is kept follow when slices were dropped, before anything takes their places."""
        for column in self.columns:
            column.leave(journal)

    def join(self, log: Array, owners: Array) -> None:
        """Join the partials of slices as the log says; owners[j] is the key of step j."""
        for column in self.columns:
            column.join(log, owners)

    def is_disturbed(self, log: Array, steps: int, keys: Array) -> bool:
        """Whether a log changes slices of windows of which something is kept; keys[g] is part g's."""
        if len(self._reach) < self._arena.keys:
            self._reach = longer(self._reach, self._arena.keys, 0)
        drift, loops = self._arena.drift, compiled_loops()
        return bool(loops.disturbs(log, steps, keys, drift, self._reach))

    def replay(self, log: Array, steps: int, keys: Array, parts: list[tuple[Array, ...]]) -> None:
        """Let the partials of all aggregates, and what is kept, follow what was done to the slices."""
        for column, mine in zip(self.columns, parts, strict=True):
            column.replay(log, steps, keys, mine)
        self._reach[keys] += steps  # slices that came between moved those behind them up

    def inserted(self, keys: Array, places: Array, parts: list[tuple[Array, ...] | None]) -> None:
        """Let what is kept follow where items were inserted, of which all that is beside has moved.

        Part j is of keys[j], now at places[j]; they come key by key, and in order.
        """
        self._reach = longer(self._reach, self._arena.keys, 0)
        if (places - self._arena.drift[keys] >= self._reach[keys]).all():
            return
        for column, mine in zip(self.columns, parts, strict=True):
            if mine is not None:
                column.inserted(keys, places, mine)
        np.add.at(self._reach, keys, 1)

    def forget(self, keys: Array) -> None:
        """Keep nothing of the windows of some keys."""
        for column in self.columns:
            column.forget(keys)

    def keep_keys(self, alive: Array) -> None:
        """Drop the keys that are not alive; the others get new numbers."""
        self._reach = self._reach[alive[: len(self._reach)]]
        for column in self.columns:
            column.keep_keys(alive)
