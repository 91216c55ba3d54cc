"""Calls that are stopped at a point chosen by a seed, and compared with an unbroken twin.

A `Script` is a query and what is done to its operator, both made of a seed. A call is stopped at a line
of muntin's own, at an allocation, or in a function of the query. Then it has either left the operator as
it was, to the byte, and is made again; or the operator refuses further calls, and its last snapshot is
restored. From then on it must do what the twin does.
"""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import muntin as mt
from muntin.query.operator import Operator
from muntin.query.plan import PLANS

HOME = str(Path(mt.__file__).parent)
ALLOCATING = {
    "np": ("append arange array ascontiguousarray concatenate empty empty_like fromiter full full_like "
           "lexsort maximum nonzero ones repeat searchsorted stack unique where zeros").split(),
    "pa": ["array", "nulls", "repeat", "table"],
}  # fmt: skip


class SignalledError(Exception):
    """What a signal handler raises, which is an ordinary exception."""


# What can be stopped


class Counter:
    """Counts events while it is armed, and raises at one of them."""

    def __init__(self) -> None:
        self.error: Callable[[], BaseException] | None = None
        self.count = 0
        self.at = 0
        self.armed = False

    def event(self) -> None:
        """Count an event; raise once, if it is the one."""
        if self.armed:
            self.count += 1
            if self.error is not None and self.count == self.at:
                self.armed = False
                raise self.error()

    @contextmanager
    def watching(
        self, at: int = 0, error: Callable[[], BaseException] | None = None
    ) -> Iterator[None]:
        """Count the events of a block, and raise at one of them if there is something to raise."""
        self.count, self.at, self.error, self.armed = 0, at, error, True
        try:
            yield
        finally:
            self.armed = False


class Lines(Counter):
    """Every line of muntin's own files that is about to run."""

    errors = (KeyboardInterrupt, SignalledError, SystemExit)

    @contextmanager
    def watching(
        self, at: int = 0, error: Callable[[], BaseException] | None = None
    ) -> Iterator[None]:
        before = sys.gettrace()
        with super().watching(at, error):
            sys.settrace(self._enter)
            try:
                yield
            finally:
                sys.settrace(before)

    def _enter(self, frame: Any, event: str, arg: Any) -> Any:  # noqa: ARG002
        return self._line if frame.f_code.co_filename.startswith(HOME) else None

    def _line(self, frame: Any, event: str, arg: Any) -> Any:  # noqa: ARG002
        if event == "line":
            self.event()
        return self._line


class Allocations(Counter):
    """Every array that muntin's own code asks NumPy or Arrow for."""

    errors = (MemoryError,)

    @contextmanager
    def watching(
        self, at: int = 0, error: Callable[[], BaseException] | None = None
    ) -> Iterator[None]:
        modules = [
            m for n, m in sys.modules.items() if n.split(".")[0] == "muntin" and n != "muntin"
        ]
        held = [(m, n, vars(m)[n]) for m in modules for n in ALLOCATING if n in vars(m)]
        with super().watching(at, error):
            for module, name, library in held:
                setattr(module, name, _Library(library, ALLOCATING[name], self))
            try:
                yield
            finally:
                for module, name, library in held:
                    setattr(module, name, library)


class _Library:
    """NumPy or Arrow, as one module sees it."""

    def __init__(self, library: Any, names: list[str], counter: Counter) -> None:
        self._library, self._names, self._counter = library, names, counter

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            self._counter.event()
        return getattr(self._library, name)


class Functions(Counter):
    """Every call of a function of the query's own."""

    errors = (ZeroDivisionError, KeyboardInterrupt, MemoryError)

    def one(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function of one argument that can fail."""

        def call(x: Any) -> Any:
            self.event()
            return function(x)

        return call

    def two(self, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Return a function of two arguments that can fail."""

        def call(a: Any, b: Any) -> Any:
            self.event()
            return function(a, b)

        return call


# What is done


class Shifts(mt.ContextFreeWindow):
    """Early and late shift, of different lengths; a window of a user's own."""

    def __init__(self, functions: Functions) -> None:
        self._next = functions.one(self._next_edge)

    def next_edge(self, t: int) -> int:
        return self._next(t)

    @staticmethod
    def _next_edge(t: int) -> int:
        day, hour = divmod(t, 24)
        return day * 24 + (10 if hour < 10 else 24)

    def closed(self, after: int, upto: int) -> list[tuple[int, int]]:
        hour = upto % 24
        return [(upto - 10, upto) if hour else (upto - 14, upto)] if upto > after else []

    def describe(self) -> str:
        return "shifts"


class Barrels(mt.ContextAwareWindow):
    """A row opens a window when those before it have filled one; a context of a user's own."""

    def __init__(self, functions: Functions) -> None:
        self._opens = functions.two(self._is_full)

    def begin(self) -> list[int]:
        return [0]

    def opens(self, context: list[int], time: int, row: dict[str, Any]) -> bool:
        del time
        return bool(self._opens(context, row))

    @staticmethod
    def _is_full(context: list[int], row: dict[str, Any]) -> bool:
        context[0] += row["v"] or 0
        return context[0] > 60

    def describe(self) -> str:
        return "barrels"


class Spreads(mt.ContextAwareWindow):
    """A user's own: each row stands for some time, and what touches is one window."""

    merging = True

    def __init__(self, functions: Functions) -> None:
        self._lasts = functions.one(lambda row: 1 + (row["v"] or 0) % 9)

    def assign(self, time: int, row: dict[str, Any]) -> list[tuple[int, int]]:
        return [(time, time + int(self._lasts(row))), (time + 20, time + 22)]

    def describe(self) -> str:
        return "spreads"


def own(functions: Functions, commutative: bool) -> mt.Aggregate:
    """Return an aggregate of a user's own, whose functions can all fail."""
    one, two = functions.one, functions.two
    if commutative:
        facts: Any = {"combine": two(lambda a, b: tuple(sorted(a + b))), "commutative": True}
    else:
        facts = {"combine": two(lambda a, b: a + b), "inverse": two(lambda a, b: a[len(b) :])}
    return mt.Aggregate("own", (), one(lambda v: (v,)), lower=one(list), columns=("v",), **facts)


NUMBERS = {"sum": mt.Sum("v"), "max": mt.Max("v"), "n": mt.Count()}
OBJECTS = {"distinct": mt.CountDistinct("s"), "median": mt.Median("v")}
ORDERED = {"first": mt.First("s"), "all": mt.Collect("v")}


def windows_of(kind: str, functions: Functions) -> dict[str, Any]:
    """Return the windows of one kind."""
    if kind == "time":
        return {"a": mt.Sliding(20, 5), "b": mt.Tumbling(7), "c": mt.Fixed(30, 40)}
    if kind == "ends":
        return {"a": mt.Sliding(13, 10)}
    if kind == "session":
        return {"a": mt.Session(3), "b": mt.Tumbling(9)}
    if kind == "count":
        return {"a": mt.Sliding(6, 2, measure="count"), "b": mt.Tumbling(5, measure="count")}
    if kind == "delta":
        return {"a": mt.Delta("km", 20, 10)}
    if kind == "last":
        return {"a": mt.LastN(4, 5), "b": mt.Session(4)}
    if kind == "policy":
        return {"a": mt.Policy(mt.policies.sum_at_most(60, "v"), 6)}
    if kind == "punctuation":
        holds = functions.one(lambda row: bool(row["b"]))
        return {"a": mt.Punctuation(holds), "b": mt.Sliding(10, 4)}
    if kind == "assigned":
        stretches = mt.Punctuation("b", last=2)
        return {"a": Spreads(functions), "b": mt.Session(3, longest=7), "c": stretches}
    if kind == "own":
        return {"a": Shifts(functions), "b": mt.Tumbling(12)}
    assert kind == "context"
    return {"a": Barrels(functions), "b": mt.Session(2)}


KINDS = (
    "time",
    "ends",
    "session",
    "count",
    "delta",
    "last",
    "policy",
    "punctuation",
    "own",
    "context",
    "assigned",
)


class Script:
    """A query and the calls of its operator, made of a seed."""

    def __init__(self, seed: int, kind: str, *, own_functions: bool = False) -> None:
        self.rng = rng = random.Random(f"{seed} {kind}")
        self.functions = Functions()
        of_own = {"own": own(self.functions, rng.random() < 0.5)}
        built_in = [] if own_functions else [NUMBERS, NUMBERS | OBJECTS, NUMBERS | ORDERED]
        few = rng.choice([*built_in, of_own, NUMBERS | of_own])
        self.ordered = rng.random() < 0.4
        self.query = mt.Query(
            time="t",
            keys=rng.choice([(), ("k",), ("k", "s")]),
            windows=windows_of(kind, self.functions),
            aggregates=few,
            lateness=0 if self.ordered else rng.choice([0, 6, 20]),
            ordered=self.ordered,
            emit=rng.choice(["every", "changes"]),
        )
        self.plan = rng.choice(PLANS)
        self._reached = 0
        self.calls = list(self._calls())

    def operator(self) -> Operator:
        """Return an operator of the query."""
        return self.query.operator(self.plan)

    def _calls(self) -> Iterator[tuple[str, Any]]:
        rng, latest, added = self.rng, 0, False
        if rng.random() < 0.3:
            yield "expect", [self._batch(0, 3)]
        for step in range(8):
            count = rng.choice([1, 3, 12, 30])
            nulls = step == 0 and rng.random() < 0.3  # the type of a column shows later
            yield "process", [self._batch(latest, count, nulls=nulls)]
            latest += rng.choice([4, 8, 30])
            if rng.random() < 0.6:
                yield "advance", [latest - rng.choice([0, 5, 12])]
            if step == 4 and rng.random() < 0.4:
                yield (
                    "add_window",
                    ["more", mt.Session(5) if rng.random() < 0.5 else mt.Tumbling(11)],
                )
                added = True
            if step == 6 and added:
                yield "remove_window", ["more"]
            if rng.random() < 0.2:
                yield "snapshot", []
        if rng.random() < 0.5:
            yield "complete", []
        else:
            yield "finish", [self._batch(latest, 9)]

    def _batch(self, first: int, count: int, *, nulls: bool = False) -> pa.Table:
        rng = self.rng
        times = [first + rng.randint(-6 if not self.ordered else 0, 7) for _ in range(count)]
        if self.ordered:
            times = sorted(max(t, self._reached) for t in times)
            self._reached = times[-1]
        keys = [rng.choice("abcde" if first < 30 else "abcdefghijklm") for _ in times]
        values = [None if nulls or rng.random() < 0.1 else rng.randint(0, 20) for _ in times]
        texts = [rng.choice(["x", "y", None]) for _ in times]
        return pa.table(
            {
                "t": pa.array(times, pa.int64()),
                "k": keys,
                "v": pa.array(values, pa.null() if nulls and rng.random() < 0.5 else pa.int64()),
                "s": pa.array(texts, pa.string()),
                "b": [rng.random() < 0.2 for _ in times],
                "km": pa.array([max(t, 0) for t in times], pa.int64()),
            }
        )


# A call that is stopped, and the twin


def answer(result: Any) -> Any:
    """Return what a call gave, in a form that can be compared."""
    return result.to_pylist() if isinstance(result, pa.Table) else result


class Run:
    """A script, its twin's answers and states, and what was seen of calls that were stopped."""

    def __init__(self, script: Script, fault: Counter) -> None:
        self.script, self.fault = script, fault
        self.seen = {"undone": 0, "refused": 0, "done": 0}
        twin = script.operator()
        self.states, self.answers, self.events, self.queries = (
            [twin.snapshot()],
            [],
            [],
            [twin.query],
        )
        for name, arguments in script.calls:
            with fault.watching():
                result = getattr(twin, name)(*arguments)
            self.events.append(fault.count)
            self.answers.append(answer(result))
            self.states.append(twin.snapshot())
            self.queries.append(twin.query)

    def stop(self, call: int, at: int, error: type[BaseException]) -> None:
        """Run the script, one call of it stopped at one event; compare everything with the twin."""
        operator, refused = self.script.operator(), self.seen["refused"]
        for i, (name, arguments) in enumerate(self.script.calls):
            if i != call:
                result = getattr(operator, name)(*arguments)
            else:
                operator, result = self._stopped(operator, i, at, error)
            if name != "snapshot":
                assert answer(result) == self.answers[i], (self.script.query, i, name)
            if refused == self.seen["refused"]:  # what was restored has other space for keys
                assert operator.snapshot() == self.states[i + 1], (self.script.query, i, name)

    def _stopped(
        self, operator: Operator, i: int, at: int, error: type[BaseException]
    ) -> tuple[Operator, Any]:
        name, arguments = self.script.calls[i]
        before = operator.counters
        done, result = stopped(self.fault, at, error, getattr(operator, name), *arguments)
        if done:
            self.seen["done"] += 1
            return operator, result
        state = snapshot_of(operator)
        if state is None:
            self.seen["refused"] += 1
            operator = Operator.restore(self.queries[i], self.states[i])
        else:
            self.seen["undone"] += 1
            assert state == self.states[i], (self.script.query, i, name)
            now = operator.counters
            for of in (
                "rows",
                "late",
                "dropped",
                "keys",
                "slices",
                "rows_kept",
                "windows_reported",
            ):
                assert getattr(now, of) == getattr(before, of)
        return operator, getattr(operator, name)(*arguments)


def stopped(
    fault: Counter, at: int, error: type[BaseException], call: Callable[..., Any], *arguments: Any
) -> tuple[bool, Any]:
    """Return whether a call went through, although it was to be stopped, and what it gave."""
    try:
        with fault.watching(at, error):
            return True, call(*arguments)
    except error:
        return False, None


def snapshot_of(thing: Any) -> bytes | None:
    """Return a snapshot, or None of what refuses every further call."""
    try:
        return bytes(thing.snapshot())
    except RuntimeError as refusal:
        if "restore a snapshot" not in str(refusal):
            raise
        return None


FAULTS = {"lines": Lines, "allocations": Allocations, "functions": Functions}


def interrupt(seed: int, kind: str, what: str, count: int) -> dict[str, int]:
    """Stop `count` calls of a script at points chosen by a seed; return how it went with them."""
    script = Script(seed, kind, own_functions=what == "functions")
    fault = script.functions if what == "functions" else FAULTS[what]()
    run = Run(script, fault)
    rng = random.Random(f"{seed} {kind} {what}")
    open_calls = [i for i, events in enumerate(run.events) if events]
    for _ in range(count if open_calls else 0):
        call = rng.choice(open_calls)
        run.stop(call, rng.randint(1, run.events[call]), rng.choice(fault.errors))
    return run.seen


def interrupt_rolling(seed: int, what: str, count: int) -> dict[str, int]:
    """Stop pushes to a rolling window at points chosen by a seed; return how it went with them."""
    rng, functions = random.Random(f"{seed} {what}"), Functions()
    fault = functions if what == "functions" else FAULTS[what]()
    own_one = own(functions, commutative=False)
    made = [mt.Sum(), mt.Max(), mt.Collect(), replace(own_one, columns=())]
    size, timed, aggregate = rng.choice([2, 5, 40]), rng.random() < 0.5, rng.choice(made)
    options = {"min_periods": 1, "algorithm": rng.choice(["DabaLite", "TwoStacksLite"])}
    length = f"{size} us" if timed else size
    pushes, now = [], 0
    for _ in range(10):
        values = np.array([rng.randint(0, 99) for _ in range(rng.choice([1, 3, 20]))])
        times = now + np.cumsum([rng.choice([0, 1, 30]) for _ in values])
        now = int(times[-1])
        pushes.append((values, times) if timed else (values,))
    twin, events, answers = mt.Rolling(length, aggregate, **options), [], []
    states = [twin.snapshot()]
    for push in pushes:
        with fault.watching():
            answers.append(twin.push(*push).tolist())
        events.append(fault.count)
        states.append(twin.snapshot())
    seen = {"undone": 0, "refused": 0, "done": 0}
    for _ in range(count if any(events) else 0):
        chosen = rng.choice([i for i, n in enumerate(events) if n])
        window = mt.Rolling(length, aggregate, **options)
        for i, push in enumerate(pushes):
            done, result = False, None
            if i == chosen:
                at, error = rng.randint(1, events[i]), rng.choice(fault.errors)
                done, result = stopped(fault, at, error, window.push, *push)
                state = snapshot_of(window)
                seen["done" if done else "refused" if state is None else "undone"] += 1
                if state is None:
                    window = mt.Rolling.restore(states[i], length, aggregate, **options)
                assert done or state in (None, states[i])
            if not done:
                result = window.push(*push)
            assert result.tolist() == answers[i]
            assert window.snapshot() == states[i + 1], (
                seed,
                what,
                i,
                chosen,
                seen,
                aggregate,
                options,
                timed,
            )
    return seen
