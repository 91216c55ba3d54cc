"""The lives of keys: where neighbouring rows are more than `idle` apart, a new one begins.

Lanes of windows that are found in rows see lives in place of keys, as if each were another key. Windows
of time, which are never longer than `idle`, are the same with lives and without.

A late row may join what were two lives. So rows wait here until it is known which life they belong to:
until the watermark has come to them, and, where they would begin a new life, until no row can come any
more that belongs to the one before. Lives are only begun, never joined or parted, and as `idle` is no
shorter than the lateness, no row can come before the first one of a life: a key has one life at a time
that rows can join. In an ordered stream all that is known at once.

Windows and aggregates may be added while rows wait. A row is marked when it comes with which of them it
counts for; for the others it is only known that there was a row.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from muntin.journal import Journal
from muntin.slicing.arena import whole
from muntin.slicing.lane import Lane, longer
from muntin.slicing.limits import ALWAYS, END_OF_TIME, NEVER, Array
from muntin.slicing.rows import Rows, object_array

NONE = -1
"""In place of the number of a life."""
WINDOW, AGGREGATE = "window", "aggregate"
Added = tuple[str, str]
"""A window or an aggregate that was added while rows waited, and the name of its mark in rows."""


class Lives:
    """The lives of all keys, numbered densely, and rows that wait for theirs."""

    def __init__(self, idle: int, names: list[str]) -> None:
        self.idle = idle
        self.names = names  # the aggregates whose inputs wait with the rows
        self._of_key = np.zeros(0, np.int64)  # the life that rows of a key can join, or NONE
        self._count = 0
        self._owner = np.zeros(0, np.int64)  # the key of each life
        self._last = np.zeros(0, np.int64)  # the time of its last row
        self._waiting: list[Rows] = []  # in the order of their arrival
        # For what was added: no row that came before is later, and rows of a key count from then on.
        self._added: dict[Added, tuple[int, Array]] = {}
        self._forgotten = ALWAYS  # keys of which no life is known may have had a row up to then
        self.strange = np.zeros(0, np.int64)  # lives that began last, and may have had such a row

    @classmethod
    def of_keys(cls, idle: int, names: list[str], last: Array, forgotten: int) -> "Lives":
        """Return the lives of keys that had rows up to some times, which nobody has kept."""
        lives = cls(idle, names)
        keys = np.nonzero(last > ALWAYS)[0]
        lives._of_key = np.full(len(last), NONE)
        lives._of_key[keys] = np.arange(len(keys))
        lives._owner, lives._last, lives._count = keys, last[keys], len(keys)
        lives._forgotten = forgotten
        return lives

    def __len__(self) -> int:
        return self._count

    @property
    def owner(self) -> Array:
        """The key of each life."""
        return self._owner[: self._count]

    @property
    def last(self) -> Array:
        """The time of the last row of each life."""
        return self._last[: self._count]

    # Windows and aggregates come and go

    def add_window(self, name: str, last: Array, latest: int) -> None:
        """Let rows count for a window from now on, if they are not before their key's last one."""
        self._mark((WINDOW, name), last, latest)

    def add_aggregate(self, name: str, dtypes: tuple[Any, ...], latest: int) -> None:
        """Let rows have inputs for another aggregate from now on."""
        self.names = [*self.names, name]
        self._waiting = [
            replace(rows, inputs=[*rows.inputs, no_inputs(dtypes, len(rows))])
            for rows in self._waiting
        ]
        self._mark((AGGREGATE, name), np.zeros(0, np.int64), latest)

    def _mark(self, added: Added, last: Array, latest: int) -> None:
        """Mark that no row which waits counts."""
        self._added = {**self._added, added: (latest, last)}
        self._waiting = [
            replace(rows, extra=rows.extra | {added: np.zeros(len(rows), np.bool_)})
            for rows in self._waiting
        ]

    def hold(self, names: list[str], lanes: list[Lane]) -> None:
        """Hold of rows what aggregates of some names, and lanes, take of them."""
        served = {(WINDOW, window) for lane in lanes for window in lane.names}
        served |= {(AGGREGATE, name) for name in names}
        self._added = {added: since for added, since in self._added.items() if added in served}
        which = [self.names.index(name) for name in names]
        self.names = list(names)
        self._waiting = [
            replace(
                rows,
                inputs=[rows.inputs[i] for i in which],
                extra=self._needed(rows, lanes) | {mark: rows.extra[mark] for mark in self._added},
            )
            for rows in self._waiting
        ]

    def _needed(self, rows: Rows, lanes: list[Lane]) -> dict[Any, Array]:
        """Return what lanes take of rows besides inputs; anything of rows that do not count for them."""
        types = {name: dtype for lane in lanes for name, dtype in lane.extra.items()}
        return {
            name: rows.extra[name] if name in rows.extra else _anything(dtype, len(rows))
            for name, dtype in types.items()
        }

    def marked(self, rows: Rows, lanes: list[Lane]) -> Rows:
        """Return rows that come, with what lanes take of them, and marks of what they count for."""
        extra = self._needed(rows, lanes)
        for added, (_, last) in self._added.items():
            held = longer(last, int(rows.keys.max(initial=NONE)) + 1, ALWAYS)
            extra[added] = rows.times >= held[rows.keys]
        return replace(rows, extra=extra)

    def forget_added(self, past: int) -> None:
        """Forget when something was added, if no row from before it waits or can come.

        No row before `past` can come any more, and rows that waited for that were released.
        """
        gone = [added for added, (latest, _) in self._added.items() if latest < past]
        if gone:
            self._added = {a: since for a, since in self._added.items() if a not in gone}
            self._waiting = [
                replace(rows, extra={n: a for n, a in rows.extra.items() if n not in gone})
                for rows in self._waiting
            ]
        if self._forgotten + self.idle < past:
            self._forgotten = ALWAYS

    # Rows come in

    def wait(self, rows: Rows) -> None:
        """Take rows that are marked, the inputs of which are in the order of `names`."""
        if len(rows):
            self._waiting = [*self._waiting, rows]

    def released(self, upto: int, past: int, journal: Journal) -> Rows | None:
        """Return the rows up to a time whose life is known, by life, time and arrival.

        No row before `past` can come any more.
        """
        known: list[Rows] = []
        left: list[Rows] = []
        for rows in self._waiting:
            soon = rows.times <= upto
            known += [rows.take(np.nonzero(soon)[0])] if soon.any() else []
            left += [rows.take(np.nonzero(~soon)[0])] if not soon.all() else []
        if not known:
            return None
        rows = _together(known)
        rows, waits = self.assign(rows, past, journal)
        self._waiting = [waits, *left] if len(waits) else left
        return rows if len(rows) else None

    def assign(self, rows: Rows, past: int, journal: Journal) -> tuple[Rows, Rows]:
        """Return rows with lives in place of keys, and those of which it is not known yet."""
        rows = rows.take(np.lexsort((rows.times, rows.keys)))
        keys, times = rows.keys, rows.times
        self._grow(int(keys.max()) + 1)
        first = np.append(True, keys[1:] != keys[:-1])
        held = self._of_key[keys]
        last = np.append(self._last[: self._count], ALWAYS)[held]  # NONE is the last of all
        before = np.where(first, last, np.maximum(last, np.append(ALWAYS, times[:-1])))
        begins = before < times - self.idle
        joinable = np.where(before > ALWAYS, before, -END_OF_TIME) + self.idle
        unsure = begins & (before > ALWAYS) & (past <= joinable)
        segment = np.cumsum(first) - 1
        waits = _since_first(unsure, first, segment) > 0
        begins &= ~waits
        begun = _since_first(begins, first, segment) > 0
        fresh = self._count + np.cumsum(begins) - 1
        unknown = begins & (before == ALWAYS) & (times <= self._forgotten + self.idle)
        self.strange = fresh[unknown] if self._forgotten > ALWAYS else fresh[:0]
        life = np.where(begun, fresh, held)
        self._begin(keys[begins], journal)
        given = ~waits
        self._pass(life[given], times[given], journal)
        at = np.nonzero(begins)[0]
        journal.items(np.unique(keys[at]), self._of_key)
        self._of_key[keys[at]] = fresh[at]  # of several, the last one stays
        mine = Rows(life, times, rows.inputs, rows.extra).take(np.nonzero(given)[0])
        return mine, rows.take(np.nonzero(waits)[0])

    def _grow(self, keys: int) -> None:
        self._of_key = longer(self._of_key, keys, NONE)

    def _begin(self, keys: Array, journal: Journal) -> None:
        """Begin a life for each key."""
        count = self._count + len(keys)
        if count > len(self._owner):
            self._owner = longer(self._owner, 2 * count, NONE)
            self._last = longer(self._last, 2 * count, ALWAYS)
        new = np.arange(self._count, count)
        journal.items(new, self._owner, self._last)
        self._owner[new], self._last[new] = keys, ALWAYS
        self._count = count

    def _pass(self, lives: Array, times: Array, journal: Journal) -> None:
        journal.items(np.unique(lives), self._last)
        np.maximum.at(self._last, lives, times)

    def open(self, past: Array) -> Array:
        """Return which lives rows can still join, if none can come before a time (of all, or each key).

        Of the others everything was reported, if the watermark has come to `past`.
        """
        owner, last = self.owner, self.last
        current = self._of_key[owner] == np.arange(self._count)
        ends = np.where(last > NEVER - self.idle, NEVER, last + self.idle)
        found: Array = current & (past[owner * (len(past) > 1)] <= ends)
        return found

    def keep(self, alive: Array) -> None:
        """Forget the lives that are not alive; the others get new numbers."""
        number = np.where(alive, np.cumsum(alive) - 1, NONE)
        held = self._of_key >= 0
        self._of_key[held] = number[self._of_key[held]]
        self._owner, self._last = self.owner[alive], self.last[alive]
        self._count = int(np.count_nonzero(alive))

    def alive(self, keys: int) -> Array:
        """Return which keys have lives or rows that wait."""
        alive = np.zeros(keys, np.bool_)
        alive[self.owner] = True
        for rows in self._waiting:
            alive[rows.keys] = True
        return alive

    def keep_keys(self, alive: Array) -> None:
        """Forget the keys that are not alive, which have no lives; the others get new numbers."""
        number = np.cumsum(alive) - 1
        self._grow(len(alive))
        self._of_key = self._of_key[: len(alive)][alive]
        self._owner[: self._count] = number[self.owner]
        self._waiting = [replace(rows, keys=number[rows.keys]) for rows in self._waiting]
        self._added = {
            added: (latest, longer(last, len(alive), ALWAYS)[: len(alive)][alive])
            for added, (latest, last) in self._added.items()
        }

    def times(self, last: Array, space: int) -> Array:
        """Return for each life the last time of its key, with space for more lives."""
        return longer(last[self.owner], space, ALWAYS)

    def retype(self, name: str, dtypes: tuple[Any, ...]) -> None:
        """Let the inputs of an aggregate, of which only nulls came so far, be of other types."""
        i = self.names.index(name)
        self._waiting = [
            replace(
                rows,
                inputs=[*rows.inputs[:i], no_inputs(dtypes, len(rows)), *rows.inputs[i + 1 :]],
            )
            for rows in self._waiting
        ]

    # State

    @property
    def rows_waiting(self) -> int:
        """The number of rows that wait."""
        return sum(map(len, self._waiting))

    def plain(self, keys: int) -> dict[str, Any]:
        """Return it as plain data, for a number of keys."""
        rows = _together(self._waiting) if self._waiting else None
        saved = None
        if rows is not None:
            saved = {
                "keys": rows.keys,
                "times": rows.times,
                "inputs": [[_plain(array) for array in inputs] for inputs in rows.inputs],
                "extra": [(name, _plain(array)) for name, array in rows.extra.items()],
            }
        of_key = longer(self._of_key, keys, NONE)[:keys]
        added = [[*added, latest, last[:keys]] for added, (latest, last) in self._added.items()]
        return {
            "names": self.names,
            "of_key": of_key,
            "owner": self.owner.copy(),
            "last": self.last.copy(),
            "added": added,
            "forgotten": self._forgotten,
            "waiting": saved,
        }

    def load(self, plain: dict[str, Any], keys: int) -> None:
        """Take what was saved, or raise ValueError if it cannot be."""
        self.names = [str(name) for name in plain["names"]]
        self._owner = whole(plain["owner"]).copy()
        self._count = len(self._owner)
        self._last = whole(plain["last"], count=self._count).copy()
        self._of_key = whole(plain["of_key"], count=keys).copy()
        _check_numbers(self._owner, 0, keys, "keys of lives")
        _check_numbers(self._of_key, NONE, self._count, "lives of keys")
        _check_numbers(self._last, -END_OF_TIME, END_OF_TIME, "times of lives")
        mine = np.nonzero(self._of_key >= 0)[0]
        if (self._owner[self._of_key[mine]] != mine).any():
            raise ValueError("a key has the life of another key")
        self._forgotten = int(plain["forgotten"])
        for kind, name, latest, last in plain["added"]:
            if kind not in (WINDOW, AGGREGATE) or len(last) > keys:
                raise ValueError(f"a {kind!r} was added, with times of {len(last)} of {keys} keys")
            self._added[kind, name] = int(latest), whole(last).copy()
        if plain["waiting"] is not None:
            self._waiting = [self._read(plain["waiting"], keys)]

    def _read(self, saved: dict[str, Any], keys: int) -> Rows:
        count = len(saved["keys"])
        owner, times = whole(saved["keys"], count=count), whole(saved["times"], count=count)
        _check_numbers(owner, 0, keys, "keys of rows that wait")
        _check_numbers(times, -END_OF_TIME, END_OF_TIME, "times of rows that wait")
        inputs = [tuple(_array(a, count) for a in arrays) for arrays in saved["inputs"]]
        if len(inputs) != len(self.names):
            raise ValueError(f"inputs of {len(inputs)} aggregates, not {self.names}")
        extra = {name: _array(array, count) for name, array in saved["extra"]}
        if any(added not in extra or extra[added].dtype != np.bool_ for added in self._added):
            raise ValueError(f"rows wait without marks of {[*self._added]}")
        return Rows(owner, times, inputs, extra)

    def check(self, types: dict[str, tuple[Any, ...]], lane: Lane) -> None:
        """Raise ValueError unless rows that wait have all that a lane takes; `types` are of inputs."""
        if not {*lane.aggregates} <= {*self.names}:
            raise ValueError(f"rows wait with inputs of {self.names}, not of {lane.aggregates}")
        for rows in self._waiting:
            for name, inputs in zip(self.names, rows.inputs, strict=True):
                held = tuple(array.dtype for array in inputs)
                if name in lane.aggregates and held != types[name]:
                    raise ValueError(f"inputs of {name!r} are of types {held}, not {types[name]}")
            for name, dtype in lane.extra.items():
                if name not in rows.extra or rows.extra[name].dtype != dtype:
                    raise ValueError(f"rows wait without {name!r} of type {dtype}")
                if dtype.hasobject and not all(isinstance(row, dict) for row in rows.extra[name]):
                    raise TypeError("rows that wait are dicts")


def input_types(columns: tuple[np.dtype[Any], ...] | None) -> tuple[Any, ...]:
    """Return the types of the inputs of kernels that take columns; None for objects."""
    return (np.dtype(object),) if columns is None else (*columns, np.dtype(np.bool_))


def no_inputs(dtypes: tuple[Any, ...], count: int) -> tuple[Array, ...]:
    """Return the inputs of rows that are all null."""
    return tuple(np.full(count, None) if d.hasobject else np.zeros(count, d) for d in dtypes)


def _anything(dtype: np.dtype[Any], count: int) -> Array:
    """Return anything in place of what windows take of rows that do not count for them."""
    if dtype.hasobject:
        return object_array(({} for _ in range(count)), count)
    return np.zeros(count, dtype)


def _since_first(marks: Array, first: Array, segment: Array) -> Array:
    """Count the marks in each segment up to each row."""
    upto = np.cumsum(marks)
    counted: Array = upto - (upto - marks)[first][segment]
    return counted


def _together(pieces: list[Rows]) -> Rows:
    if len(pieces) == 1:
        return pieces[0]
    inputs = [
        tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        for parts in zip(*(piece.inputs for piece in pieces), strict=True)
    ]
    names = pieces[0].extra
    extra = {name: np.concatenate([piece.extra[name] for piece in pieces]) for name in names}
    keys, times = (
        np.concatenate(c) for c in zip(*((p.keys, p.times) for p in pieces), strict=True)
    )
    return Rows(keys, times, inputs, extra)


def _plain(array: Array) -> Any:
    return array.tolist() if array.dtype == object else array


def _array(saved: Any, count: int) -> Array:
    """Return an array that was saved, or raise ValueError if it has another length."""
    array = object_array(saved, len(saved)) if isinstance(saved, list) else np.asarray(saved)
    if array.shape != (count,):
        raise ValueError(f"{array.shape} values of {count} rows that wait")
    return array


def _check_numbers(numbers: Array, least: int, end: int, what: str) -> None:
    if len(numbers) and not least <= int(numbers.min()) <= int(numbers.max()) < end:
        raise ValueError(f"{what} from {numbers.min()} to {numbers.max()}, of {end}")
