"""Only windows whose values differ from those of the window before: `emit="changes"`.

Lanes gather the windows at whose ends a slice enters or leaves; nothing can change between. Here those
are left out whose values are the same all the same. What was reported is remembered: of each key and
window the last, and while late rows may still change it, all of it. A late row then gives updates, new
results where a change is new, and retractions where there is none any more.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.journal import Journal
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.lane import Report
from muntin.slicing.limits import ALWAYS, Array
from muntin.slicing.partials import Partials
from muntin.slicing.since import without
from muntin.slicing.tables import EMPTY, END, KEY, KIND, RESULT, RETRACT, START, UPDATE, WINDOW

Values = tuple[Any, ...] | None
UNCHANGED = -1


@dataclass(frozen=True)
class Entry:
    """A window that was reported, with its values as the kernels gave them; None if it was empty."""

    start: int
    end: int
    values: Values


class Changes:
    """What was last reported of each key and window."""

    def __init__(
        self, windows: int, partials: list[Partials], remembers: bool, *, by_end: bool = True
    ) -> None:
        self._windows = windows
        self._by_end = by_end  # whether a window that starts elsewhere now is the same one
        self._outputs = [column.kernels for column in partials]
        self._aggregates = [column.aggregate for column in partials]
        self._known = np.zeros(0, np.bool_)
        self._last = [_nothing(kernels, 0) for kernels in self._outputs]
        self._remembers = remembers
        self._log: dict[int, list[Entry]] = {}

    def grow_keys(self, keys: int) -> None:
        """Make space for more keys."""
        more = keys * self._windows - len(self._known)
        if more > 0:
            self._known = np.append(self._known, np.zeros(more, np.bool_))
            self._last = [
                tuple(np.append(h, n) for h, n in zip(held, _nothing(kernels, more), strict=True))
                for held, kernels in zip(self._last, self._outputs, strict=True)
            ]

    def select(self, windows: list[int | None], keys: int) -> None:
        """Go on with other windows, given by their old numbers; None is a new one."""
        self.grow_keys(keys)
        nothing = len(self._known)  # the number of a slot behind all others
        old = np.array([nothing if window is None else window for window in windows], np.int64)
        starts = np.arange(nothing // max(self._windows, 1))[:, None] * self._windows
        slots = np.where(old == nothing, nothing, starts + old).ravel()
        number = {slot: new for new, slot in enumerate(slots.tolist()) if slot < nothing}
        self._known = np.append(self._known, False)[slots]
        self._last = [
            tuple(np.append(array, np.zeros(1, array.dtype))[slots] for array in held)
            for held in self._last
        ]
        self._log = {number[slot]: held for slot, held in self._log.items() if slot in number}
        self._windows = len(windows)

    def remember(self, upto: Array) -> None:
        """Remember what is reported from now on; what was ends by `upto` (of all, or of each key)."""
        self._remembers = True
        flat = [array for held in self._last for array in held]
        for slot in np.nonzero(self._known)[0].tolist():
            end = int(upto[slot // self._windows * (len(upto) > 1)])
            self._log[slot] = [Entry(end, end, tuple(_item(array, slot) for array in flat))]

    @property
    def remembers(self) -> bool:
        """Whether what was reported is remembered, so that late rows may change it."""
        return self._remembers

    def add_aggregate(self, column: Partials) -> None:
        """Compare the results of another aggregate too; it had none so far."""
        kernels = column.kernels
        self._aggregates = [*self._aggregates, column.aggregate]
        absent = without(_nothing(kernels, len(self._known)), np.ones(len(self._known), np.bool_))
        nothing = without(_nothing(kernels, 1), np.ones(1, np.bool_))
        values = tuple(_item(array, 0) for array in nothing)
        self._outputs = [*self._outputs, kernels]
        self._last = [*self._last, absent]
        self._log = {
            slot: [e if e.values is None else replace(e, values=(*e.values, *values)) for e in held]
            for slot, held in self._log.items()
        }

    def remove_aggregate(self, i: int) -> None:
        """Compare the results of an aggregate no more."""
        at = sum(len(other.results) for other in self._outputs[:i])
        behind = at + len(self._outputs[i].results)
        self._outputs = [*self._outputs[:i], *self._outputs[i + 1 :]]
        self._aggregates = [*self._aggregates[:i], *self._aggregates[i + 1 :]]
        self._last = [*self._last[:i], *self._last[i + 1 :]]
        self._log = {
            slot: [
                e if e.values is None else replace(e, values=(*e.values[:at], *e.values[behind:]))
                for e in held
            ]
            for slot, held in self._log.items()
        }

    def alive(self, keys: int, final: Array) -> Array:
        """Return which keys have windows that are not empty, or end after `final` (of all, or each).

        Where nothing changes any more and the last window was empty, a new row finds what it would
        find of a new key. Cost: O(keys).
        """
        self.grow_keys(keys)
        known = self._known[: keys * self._windows].reshape(keys, self._windows)
        alive: Array = np.asarray(known.any(1))
        slots = np.fromiter(self._log, np.int64, len(self._log))
        ends = (log[-1].end if log else ALWAYS for log in self._log.values())
        last, owner = np.fromiter(ends, np.int64, len(slots)), slots // max(self._windows, 1)
        alive[owner[last > final[owner * (len(final) > 1)]]] = True
        return alive

    def keep_keys(self, alive: Array) -> None:
        """Forget the keys that are not alive; the others get new numbers."""
        slots = np.repeat(alive, self._windows)
        numbers = np.cumsum(slots) - 1
        self._known = self._known[: len(slots)][slots]
        self._last = [tuple(array[: len(slots)][slots] for array in held) for held in self._last]
        self._log = {
            int(numbers[slot]): held for slot, held in self._log.items() if slots[slot] and held
        }

    def retype(self, i: int, kernels: SliceKernels) -> None:
        """Hold results of another type, because only nulls came so far."""
        at = sum(len(other.results) for other in self._outputs[:i])
        behind = at + len(self._outputs[i].results)
        told = _of_nulls(self._aggregates[i], kernels)

        def retyped(values: tuple[Any, ...]) -> tuple[Any, ...]:
            lacks = int(values[at] is None)
            return (*values[:at], *(_item(array, lacks) for array in told), *values[behind:])

        for entries in self._log.values():
            entries[:] = [
                e if e.values is None else replace(e, values=retyped(e.values)) for e in entries
            ]
        lacks = np.array([value is None for value in self._last[i][0].tolist()], np.int64)
        self._outputs[i] = kernels
        self._last[i] = tuple(array[lacks] for array in told)

    def apply(self, report: Report, final: Array, journal: Journal) -> Report:
        """Leave out what has not changed; windows that end by `final` (of all, or each key) stay."""
        lines = report.windows
        if len(lines) == 0:
            return report
        slots = lines[:, KEY] * self._windows + lines[:, WINDOW]
        self._note(np.unique(slots), journal)
        again = lines[:, KIND] == UPDATE
        for slot in dict.fromkeys(slots[again].tolist()):
            first = int(lines[again & (slots == slot), END][0])
            self._put(slot, self._before(slot, first))
        valued, places = report.valued, np.maximum(np.cumsum(report.valued) - 1, 0)
        values = [
            _told(aggregate, [_picked(array, places) for array in outs])
            for aggregate, outs in zip(self._aggregates, report.results, strict=True)
        ]
        changed = self._differ(slots, valued, values)
        lines[:, KIND] = np.where(valued, RESULT, EMPTY)
        gone = np.zeros((0, 7), np.int64)
        if self._remembers:
            entries = _entries(lines, valued, values)
            gone = self._revise(lines, slots, again, changed, entries)
            self._remember(slots, changed, entries, final[lines[:, KEY] * (len(final) > 1)])
            changed &= lines[:, KIND] != UNCHANGED
        results = [tuple(array[changed[valued]] for array in outs) for outs in report.results]
        return Report(np.concatenate([gone, lines[changed]]), results)

    def _note(self, slots: Array, journal: Journal) -> None:
        """Note what was last reported of some keys and windows."""
        journal.items(slots, self._known, *(array for held in self._last for array in held))
        if self._remembers:
            journal.entries(self._log, slots.tolist(), list)

    def _differ(self, slots: Array, valued: Array, values: list[list[Array]]) -> Array:
        """Return which windows differ from the one before, and keep the last of each key and window."""
        follows = np.append(False, slots[1:] == slots[:-1])
        before = np.where(follows, np.append(False, valued[:-1]), self._known[slots])
        same = np.ones(len(slots), np.bool_)
        last = np.append(~follows[1:], True)
        for held, arrays in zip(self._last, values, strict=True):
            before_it = [
                np.where(follows, _shifted(array), kept[slots])
                for array, kept in zip(arrays, held, strict=True)
            ]
            same &= _same(arrays, before_it)
            for array, kept in zip(arrays, held, strict=True):
                kept[slots[last]] = array[last]
        self._known[slots[last]] = valued[last]
        differ: Array = (valued != before) | (valued & ~same)
        return differ

    def _put(self, slot: int, values: Values) -> None:
        """Take these as the values last reported."""
        self._known[slot] = values is not None
        if values is not None:
            flat = iter(values)
            for held in self._last:
                for array in held:
                    array[slot] = next(flat)

    def _before(self, slot: int, end: int) -> Values:
        """Return the values of the last window reported before an end."""
        held = [entry for entry in self._log.get(slot, []) if entry.end < end]
        return held[-1].values if held else None

    def _revise(
        self, lines: Array, slots: Array, again: Array, changed: Array, entries: list[Entry]
    ) -> Array:
        """Compare windows that were looked at again with what was reported; return what is no more."""
        gone: list[tuple[int, ...]] = []
        for slot in dict.fromkeys(slots[again].tolist()):
            rows = np.nonzero(again & (slots == slot))[0].tolist()
            first = entries[rows[0]].end
            now = {entries[i].end: i for i in rows if changed[i]}
            log = self._log.get(slot, [])
            for entry in [e for e in log if e.end >= first]:
                i = now.get(entry.end)
                if i is None or not (self._by_end or entry.start == entries[i].start):
                    key, window = divmod(slot, self._windows)
                    gone.append((key, window, entry.start, entry.end, 0, 0, RETRACT))
                elif _equal(entry.values, entries[i].values):
                    lines[i, KIND] = UNCHANGED
                elif entries[i].values is not None:
                    lines[i, KIND] = UPDATE
            self._log[slot] = [e for e in log if e.end < first]
        return np.array(gone, np.int64).reshape(-1, 7)

    def _remember(self, slots: Array, changed: Array, entries: list[Entry], final: Array) -> None:
        """Log what is reported, and forget all but the last of what cannot change any more."""
        for i in np.nonzero(changed)[0].tolist():
            log = self._log.setdefault(int(slots[i]), [])
            log.append(entries[i])
            fixed = sum(entry.end <= final[i] for entry in log)
            del log[: max(fixed - 1, 0)]

    def plain(self) -> dict[str, Any]:
        """Return the state as plain data."""
        log = [
            (slot, [(e.start, e.end, e.values) for e in entries])
            for slot, entries in self._log.items()
        ]
        last = [[array.tolist() for array in held] for held in self._last]
        return {"known": self._known, "last": last, "log": log, "remembers": self._remembers}

    @staticmethod
    def some_aggregates(plain: dict[str, Any], which: list[int]) -> dict[str, Any]:
        """Return a state that was saved, with some of its aggregates."""
        ends = np.cumsum([len(held) for held in plain["last"]]).tolist()
        at = [n for i in which for n in range(ends[i] - len(plain["last"][i]), ends[i])]
        log = [
            (
                slot,
                [
                    (start, end, v if v is None else tuple(v[n] for n in at))
                    for start, end, v in held
                ],
            )
            for slot, held in plain["log"]
        ]
        return {**plain, "last": [plain["last"][i] for i in which], "log": log}

    def load(self, plain: dict[str, Any]) -> None:
        """Take a state that was saved."""
        self._known = np.array(plain["known"])
        slots = len(self._known)
        if self._known.shape != (slots,) or self._known.dtype != np.bool_:
            raise ValueError(f"what is known is true or false for each slot, not {self._known!r}")
        if slots % max(self._windows, 1) or any(
            len(saved) != slots for lists in plain["last"] for saved in lists
        ):
            raise ValueError(f"{slots} slots of {self._windows} windows")
        self._last = [
            tuple(
                np.fromiter(saved, array.dtype, len(saved))
                for array, saved in zip(held, lists, strict=True)
            )
            for held, lists in zip(self._last, plain["last"], strict=True)
        ]
        self._remembers = bool(plain["remembers"])
        self._log = {int(slot): [self._entry(*e) for e in held] for slot, held in plain["log"]}
        if any(not 0 <= slot < slots for slot in self._log):
            raise ValueError(f"windows were reported of slots that are not among {slots}")

    def _entry(self, start: int, end: int, values: Values) -> Entry:
        """Return an entry that was saved."""
        count = sum(len(kernels.results) for kernels in self._outputs)
        if values is not None and len(values) != count:
            raise ValueError(f"{len(values)} values of {count} results")
        return Entry(int(start), int(end), values)


def _item(array: Array, at: int) -> Any:
    """Return an item of an array, as Python has it."""
    return array[at : at + 1].tolist()[0]


def _nothing(kernels: SliceKernels, count: int) -> tuple[Array, ...]:
    """Return results that mean nothing, and are the same in every process."""
    return tuple(np.zeros(count, dtype) for dtype in kernels.results)


def _of_nulls(aggregate: Aggregate, kernels: SliceKernels) -> tuple[Array, ...]:
    """Return what is told of a window of nulls only, and of one without a result."""
    if kernels.columns is None:
        return (np.array([aggregate.lower(aggregate.identity), None], object),)
    told = tuple(_told(aggregate, [*_nothing(kernels, 2)]))
    has_result = aggregate.lower(aggregate.identity) is not None
    return without(told, np.array([False, has_result]))


def _picked(array: Array, places: Array) -> Array:
    """Return the values of windows, anything for those that have none."""
    return array[places] if len(array) else np.zeros(len(places), array.dtype)


def _told(aggregate: Aggregate, outs: list[Array]) -> list[Array]:
    """Return results in a form in which equal ones compare as equal; objects stay as they are.

    In place of a number of values there is 1 if there is a result, 0 if that is null, or ABSENT.
    """
    if outs[0].dtype == object:
        return outs
    least = 1 if aggregate.kernel is None else aggregate.kernel.least
    nothing = aggregate.lower(aggregate.identity)
    null = (outs[0] >= 0) & (outs[0] < least)
    if nothing is None:
        return [np.where(null, 0, np.minimum(outs[0], 1)), *outs[1:]]
    parts = nothing if isinstance(nothing, tuple) else (nothing,)
    arrays = [np.where(null, part, a) for a, part in zip(outs[1:], parts, strict=False)]
    return [np.where(null, 1, np.minimum(outs[0], 1)), *arrays, *outs[1 + len(arrays) :]]


def _shifted(array: Array) -> Array:
    return np.concatenate([array[:1], array[:-1]])


def _same(now: list[Array], before: list[Array]) -> Array:
    """Whether results are the same: both null, or equal; NaN equals NaN."""
    if len(now) == 1:
        pairs = zip(now[0].tolist(), before[0].tolist(), strict=True)
        return np.array([_equal(a, b) for a, b in pairs], np.bool_)
    same = np.ones(len(now[0]), np.bool_)
    for a, b in zip(now[1:], before[1:], strict=True):
        same &= (a == b) | ((a != a) & (b != b))
    equal: Array = (now[0] == before[0]) & ((now[0] < 1) | same)
    return equal


def _equal(a: Any, b: Any) -> bool:
    return (
        bool(a == b) or (isinstance(a, tuple | list) and repr(a) == repr(b)) or (a != a and b != b)
    )


def _entries(lines: Array, valued: Array, values: list[list[Array]]) -> list[Entry]:
    flat = [array.tolist() for arrays in values for array in arrays]
    rows = list(zip(*flat, strict=True)) if flat else [()] * len(lines)
    bounds = zip(lines[:, START].tolist(), lines[:, END].tolist(), strict=True)
    return [
        Entry(start, end, row if full else None)
        for (start, end), row, full in zip(bounds, rows, valued.tolist(), strict=True)
    ]
