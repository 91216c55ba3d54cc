"""Which state a function belongs to: digests of users' functions, versions, and what is ours."""

import datetime as dt
import functools
import json
import math
import operator
import os
import pickle
import statistics
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest

import muntin as mt
from muntin.aggregates import functions, identity
from muntin.aggregates.functions import digest
from muntin.aggregates.identity import identity_of
from muntin.policies import SlidePolicy
from muntin.query.query import identity as query_identity
from muntin.stores import StoreError

ROOT = Path(__file__).parents[1]
NAMES = {"north", "south", "east", "west"}
FACTOR = 3
TABLE = {"a": 1, "b": [2, 3]}
STAMP = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)


def helper(x):
    return x * FACTOR


def itself(n):
    return n * itself(n - 1) if n else 1


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def made_with(k):
    def inner(x, offset=k + 1, *, scale=2):
        return [y * k + offset for y in x if y in NAMES] * scale

    return inner


@dataclass(frozen=True)
class Scale:
    factor: int

    def __call__(self, x):
        return x * self.factor


class Plain:
    def __init__(self, parts):
        self.parts = parts

    def method(self, x):
        return x in self.parts


FUNCTIONS = {
    "constant set": lambda x: x in {"north", "south", "east", "west"},
    "global set": lambda x: x in NAMES,
    "global function": lambda x: helper(x) + 1,
    "global values": lambda x: (TABLE[x], STAMP),
    "recursive": itself,
    "mutually recursive": even,
    "closure": made_with(3),
    "partial": functools.partial(helper, 3),
    "builtin": abs,
    "operator": operator.add,
    "getter": operator.itemgetter("v"),
    "callable object": Scale(3),
    "bound method": Plain({"x", "y", "z"}).method,
    "class": Scale,
    "ufunc": np.add,
    "module's function": lambda x: np.sqrt(x),
    "array": functools.partial(np.dot, np.arange(5)),
    "text's method": "abc".join,
    "ours": mt.Quantile(None, 0.5).lower,
    "nested": lambda x: sorted(x, key=lambda y: (y, lambda: y)),
}


def digests() -> dict[str, str]:
    return {name: digest(function) for name, function in FUNCTIONS.items()}


def test_digests_are_the_same_in_every_process():
    code = "import json, tests.test_identity as t; print(json.dumps(t.digests()))"
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout) == digests()


def test_digests_are_different():
    assert len({*digests().values()}) == len(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_digests_stay_when_functions_travel(name):
    """As Spark sends functions to workers: by value, with the globals that they refer to."""
    from pyspark import cloudpickle

    function = FUNCTIONS[name]
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        travelled = pickle.loads(cloudpickle.dumps(function))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert digest(travelled) == digest(function)


SOURCE = '''"""A module."""
{padding}
LIMIT = {limit}
OTHER = 5

def helper(x):
    {doc}
    return x + {inner}

class Part:
    size = {size}
    def get(self, x):
        return x * self.size

def make(k):
    def function(x, offset={default}, *, scale={keyword}):
        {doc}
        def nested(y):
            return y + {nested}
        if x in {{"a", "b", {member!r}}}:
            return LIMIT
        return nested(helper(x)) * k + {constant} + offset * scale + Part().get(x)
    return function

function = make({cell})
'''
PARTS = {
    "limit": 1, "inner": 2, "size": 3, "default": 4, "keyword": 5, "nested": 6, "member": "c",
    "constant": 7, "cell": 8, "padding": "", "doc": "'''Words.'''",
}  # fmt: skip


def compiled(file: str = "one.py", **changes):
    names: dict = {"__name__": "users_module"}
    exec(compile(SOURCE.format(**{**PARTS, **changes}), file, "exec"), names)
    return names["function"]


@pytest.mark.parametrize("part", [p for p in PARTS if p not in ("padding", "doc")])
def test_a_change_of_any_part_changes_the_digest(part):
    other = "d" if part == "member" else 100
    assert digest(compiled(**{part: other})) != digest(compiled())


def test_files_lines_and_docstrings_make_no_difference():
    moved = compiled("two.py", padding="\n\n\n", doc="'''Other words.'''")
    assert digest(moved) == digest(compiled())
    assert digest(lambda x: x + 1) == digest(lambda x: x + 1) != digest(lambda x: x - 1)


def test_a_global_that_is_changed_later_counts(monkeypatch):
    before = digest(helper)
    monkeypatch.setitem(globals(), "FACTOR", 4)
    assert digest(helper) != before


@pytest.mark.parametrize(
    ("one", "other"),
    [({"a": 1}, {"a": 2}), ([1], [2]), (Plain([1]), Plain([2])), (np.arange(3), np.arange(4))],
)
def test_another_object_in_the_place_of_a_global_counts(one, other, monkeypatch):
    monkeypatch.setitem(globals(), "TABLE", one)
    before = digest(FUNCTIONS["global values"])
    assert digest(FUNCTIONS["global values"]) == before
    monkeypatch.setitem(globals(), "TABLE", other)
    assert digest(FUNCTIONS["global values"]) != before


@dataclass(frozen=True)
class Lookup:
    name: str
    table: dict = field(compare=False)

    def __call__(self, x):
        return self.table[x]


def test_functions_that_are_equal_by_name_are_told_apart():
    functions = [Lookup("rates", {1: factor}) for factor in (1, 2)]
    assert functions[0] == functions[1]
    assert digest(functions[0]) != digest(functions[1])


def twice(function):
    @functools.wraps(function)
    def wrapper(x):
        return 2 * function(x)

    return wrapper


def thrice(function):
    @functools.wraps(function)
    def wrapper(x):
        return 3 * function(x)

    return wrapper


@pytest.mark.parametrize("function", [math.sqrt, np.sqrt, statistics.mean, mt.Sum().lift, helper])
def test_a_wrapper_is_not_what_it_wraps(function):
    wrapped = [function, twice(function), thrice(function), twice(twice(function)), twice(len)]
    assert len({digest(one) for one in wrapped}) == len(wrapped)
    assert digest(twice(function)) == digest(twice(function))


@pytest.mark.parametrize(
    "body",
    [
        "import {0}\n return {0}.scaled(x)",
        "import {0} as other\n return other.scaled(x)",
        "from {0} import scaled\n return scaled(x)",
        "from {0} import FACTOR\n return x * FACTOR",
    ],
)
def test_what_a_function_imports_itself_counts(body, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for factor in (1, 2, 1):
        monkeypatch.setitem(sys.modules, "own_factors", ModuleType("own_factors"))
        text = f"FACTOR = {factor}\ndef scaled(x):\n return x * FACTOR"
        exec(text, vars(sys.modules["own_factors"]))
        names: dict = {"__name__": "own"}
        exec(f"def lift(x):\n {body.format('own_factors')}", names)
        found.append(digest(names["lift"]))
    assert found[0] == found[2] != found[1]


def test_imports_that_are_not_there_or_not_the_users_own_are_known_by_name():
    def lift(x):
        import a_module_that_is_not_there
        import numpy.linalg

        return numpy.linalg.norm(a_module_that_is_not_there.of(x))

    assert digest(lift) == digest(lift)


def test_functions_that_numba_compiles_are_known_by_their_python_code():
    one, again, other = (numba.njit(f) for f in (made_with(1), made_with(1), made_with(2)))
    assert digest(one) == digest(again) != digest(other)


@pytest.mark.parametrize("function", [[1, 2].__contains__, {"a": 1}.get, "a".__add__])
def test_methods_of_python_s_own_objects_have_digests(function):
    assert digest(function) != digest([3].__contains__)


def test_what_is_known_by_a_name_that_is_not_its_own_has_no_digest():
    with pytest.raises(TypeError, match="version="):
        digest(np.frompyfunc(lambda x: x, 1, 1))


def test_a_metaclass_counts():
    class Doubling(type):
        def __call__(cls, x):
            return 2 * x

    assert digest(type("Own", (), {})) != digest(Doubling("Own", (), {}))


def test_what_changes_as_a_function_is_used_does_not_count():
    calls = []

    def lift(x):
        calls.append(x)
        return x

    before = digest(lift)
    lift(1)
    assert digest(lift) == before


def test_what_has_no_digest_asks_for_a_version():
    lock = threading.Lock()
    own = mt.Aggregate("locked", 0, lambda x: x if lock else 0, operator.add)
    with pytest.raises(TypeError, match=r"aggregate 'locked': lift.*lock.*version="):
        mt.Amta(own).snapshot()
    window = mt.Amta(replace(own, version=1))
    window.insert(3)
    assert mt.Amta.restore(window.snapshot(), replace(own, version=1)).query() == 3


# Aggregates


def own(lift=lambda x: x, **options) -> mt.Aggregate:
    return mt.Aggregate("total", 0, lift, lambda a, b: a + b, **options)


CHANGED = {
    "lift": own(lambda x: 1000 * x),
    "combine": replace(own(), combine=lambda a, b: a - b),
    "lower": replace(own(), lower=lambda a: a * 2),
    "inverse": replace(own(), inverse=lambda a, b: a - b),
    "identity": replace(own(), identity=1),
    "encode": replace(own(), encode=lambda a: a, decode=lambda a: a),
    "commutative": own(commutative=True),
    "selective": own(selective=True),
    "holistic": own(holistic=True),
    "nulls": own(nulls=True),
    "columns": own(columns=("v",)),
}


@pytest.mark.parametrize("part", CHANGED)
@pytest.mark.parametrize("algorithm", ["DabaLite", "Amta", "FlatFat"])
def test_a_changed_aggregate_is_refused(part, algorithm):
    window = mt.ALGORITHMS[algorithm](own())
    with pytest.raises(mt.SnapshotError, match=part):
        mt.ALGORITHMS[algorithm].restore(window.snapshot(), CHANGED[part])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (mt.First(nulls=True), mt.First()),
        (mt.Last(nulls=True), mt.Last()),
        (mt.Collect(nulls=True), mt.Collect()),
        (mt.Product(a=mt.Max(), b=mt.Sum()), mt.Product(b=mt.Max(), a=mt.Sum())),
        (mt.Product(mt.Max(), mt.Sum()), mt.Product(a=mt.Max(), b=mt.Sum())),
        (mt.Product(own()), mt.Product(CHANGED["lift"])),
        (mt.Var(ddof=0), mt.Var(ddof=1)),
        (mt.TopK(None, 3), mt.TopK(None, 4)),
        (mt.Quantile(None, 0.5), mt.Quantile(None, 0.6)),
        (mt.Max("a"), mt.Max("b")),
        (mt.Sum(), replace(mt.Sum(), lift=lambda x: 2 * x)),
        (mt.Sum(), replace(mt.Sum(), version=2)),
        (mt.Min(), replace(mt.Min(), combine=mt.Max().combine)),
        (mt.Sum(), replace(mt.Sum(), lower=mt.Mean().lower)),
        (mt.Sum(), replace(mt.Sum(), lower=abs)),
        (mt.Collect(), replace(mt.Collect(), lower=len)),
        (replace(mt.Sum(), lower=round), replace(mt.Sum(), lower=abs)),
        (mt.Product(mt.Min()), mt.Product(replace(mt.Min(), combine=mt.Max().combine))),
    ],
)
def test_parameters_of_built_in_aggregates_count(one, other):
    snapshot = mt.Amta(one).snapshot()
    assert len(mt.Amta.restore(snapshot, one)) == 0
    with pytest.raises(mt.SnapshotError):
        mt.Amta.restore(snapshot, other)


@pytest.mark.parametrize(
    ("aggregate", "wanted"),
    [
        (replace(mt.Min("v"), combine=mt.Max().combine), 3),
        (replace(mt.Sum("v"), lift=lambda v: mt.Sum().lift(1000 * v)), 6000),
        (replace(mt.Max("v"), lower=lambda p: -p if p else p), -3),
        (replace(mt.Median("v"), lower=len), 3),
        (replace(mt.Count("v"), lift=lambda v: v), 6),
    ],
)
def test_a_built_in_aggregate_with_another_function_is_ones_own_in_every_place(aggregate, wanted):
    window = mt.Amta(aggregate)
    window.bulk_insert({"v": v} for v in (1, 2, 3))
    query = asked(mt.Tumbling(10), aggregates={"n": aggregate})
    places = [
        window.query(),
        query.run({"t": [1, 2, 3], "v": [1, 2, 3]})["n"][0].as_py(),
        mt.rolling(np.array([1, 2, 3]), 3, replace(aggregate, columns=()))[-1],
    ]
    assert places == [wanted] * 3


def test_a_version_that_was_given_stays_with_the_function():
    known = identity_of(replace(mt.Sum(), lower=abs, version="mine"))
    assert known["functions"] == {"version": "mine"}


def test_overflow_does_not_count():
    assert identity_of(replace(mt.Sum("x"), overflow="null")) == identity_of(mt.Sum("x"))


def test_built_in_aggregates_are_not_known_by_their_code():
    """An upgrade changes our functions, and Python's version: that must not refuse any state."""
    for aggregate in (mt.Sum("x"), mt.Product(a=mt.Max("x"), b=mt.Median("x")), mt.M4("x")):
        assert "digest" not in str(identity_of(aggregate))
    policies = (
        mt.policies.last(3) | mt.policies.within("1 h", "t") | mt.policies.sum_at_most(3, "x")
    )
    policies |= mt.policies.until_max("x") | mt.policies.until_longest_run("x")
    assert "digest" not in str(policies.known_by())
    window = mt.PolicyWindow(mt.Product(mt.Sum("x"), mt.Last("x")), policies)
    assert "digest" not in str(identity_of(window._window.aggregate))


# Versions, and another Python


def test_a_version_replaces_the_digest():
    window = mt.DabaLite(own(version="a"))
    window.insert(5)
    snapshot = window.snapshot()
    assert mt.DabaLite.restore(snapshot, own(lambda x: 7 * x, version="a")).query() == 5
    with pytest.raises(mt.SnapshotError, match="version is 'b' here and 'a' in the snapshot"):
        mt.DabaLite.restore(snapshot, own(version="b"))
    with pytest.raises(mt.SnapshotError, match="version='a' is given only in the snapshot"):
        mt.DabaLite.restore(snapshot, own())


def test_a_digest_of_another_python_is_refused(monkeypatch):
    query = mt.Query(time="t", windows={"w": mt.Tumbling(9)}, aggregates={"x": own(columns=("v",))})
    versioned = replace(query, aggregates={"x": own(columns=("v",), version=1)})
    for asked in (query, versioned):
        filled = asked.operator()
        filled.process({"t": [1, 2], "v": [3, 4]})
        with monkeypatch.context() as patch:
            patch.setattr(identity, "PYTHON", "3.99")
            snapshot = filled.snapshot()
        if asked is query:
            with pytest.raises(
                mt.SnapshotError, match=r"aggregate 'x'.*Python 3.99.*trust_functions"
            ):
                asked.restore(snapshot)
        else:
            assert asked.restore(snapshot).advance(9)["x"].to_pylist() == [7]
        trusted = asked.restore(snapshot, trust_functions=True)
        assert trusted.advance(9)["x"].to_pylist() == [7]
    assert functions.PYTHON != "3.99"


# Windows, policies and queries


class UntilSum(mt.ContextAwareWindow):
    def __init__(self, limit):
        self.limit = limit

    def opens(self, _context, _time, row):
        return row["v"] >= self.limit


class UntilMore(UntilSum):
    def opens(self, _context, _time, row):
        return row["v"] > self.limit


UntilMore.__name__ = "UntilSum"


class Versioned(UntilSum):
    version = 1


class VersionedMore(UntilMore):
    version = 1


Versioned.__name__ = VersionedMore.__name__ = "Versioned"


def asked(window, **options) -> mt.Query:
    options = {"aggregates": {"n": mt.Sum("v")}, **options}
    return mt.Query(time="t", windows={"w": window}, **options)


def policy(limit, **options):
    return SlidePolicy("mine", mt.Sum("v"), lambda total, old: total - old > limit, **options)


def condition(holds):
    return mt.Policy(SlidePolicy("mine", mt.Max("v"), holds), 10)


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        (mt.Punctuation(lambda r: r["v"] > 3), mt.Punctuation(lambda r: r["v"] > 4), "predicate"),
        (mt.Punctuation("b"), mt.Punctuation("c"), "'b'"),
        (mt.Punctuation("b"), mt.Punctuation(lambda r: r["b"]), "your own"),
        (mt.Policy(policy(3), 10), mt.Policy(policy(4), 10), "holds"),
        (mt.Policy(mt.policies.last(3), 10), mt.Policy(mt.policies.last(4), 10), "last"),
        (condition(operator.gt), condition(operator.lt), "holds"),
        (condition(mt.policies.until_max().holds), condition(mt.policies.last(1).holds), "holds"),
        (
            mt.Policy(policy(3) | mt.policies.last(3), 10),
            mt.Policy(policy(4) | mt.policies.last(3), 10),
            "policies",
        ),
        (UntilSum(3), UntilSum(4), "limit"),
        (UntilSum(3), UntilMore(3), "opens"),
        (Versioned(3), Versioned(4), "limit"),
        (mt.Sliding(10, 5), mt.Sliding(10, 2), "every"),
        (mt.Sliding(10, 5), mt.Sliding(10, 5, origin=1), "origin"),
        (mt.Tumbling(10), mt.Tumbling(10, measure="count"), "measure"),
        (mt.Tumbling(10), mt.Sliding(10, 10), "Tumbling"),
    ],
)
def test_a_changed_window_is_refused(one, other, word):
    snapshot = asked(one).operator().snapshot()
    asked(one).restore(snapshot)
    with pytest.raises(mt.SnapshotError, match=word):
        asked(other).restore(snapshot)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (mt.Sliding("1 hour", "60 s"), mt.Sliding(3_600_000_000, 60_000_000)),
        (mt.Session("90 s"), mt.Session(np.timedelta64(90, "s"))),
        (mt.Punctuation(lambda r: r["v"], version=1), mt.Punctuation(lambda r: r["k"], version=1)),
        (mt.Policy(policy(3, version=1), 10), mt.Policy(policy(4, version=1), 10)),
        (Versioned(3), VersionedMore(3)),
    ],
)
def test_windows_that_mean_the_same_are_taken(one, other):
    asked(other).restore(asked(one).operator().snapshot())


def test_what_a_stream_may_choose_again_is_not_part_of_its_identity():
    query = asked(mt.Tumbling(10))
    assert query_identity(replace(query, on_bad_time="drop", watermark=5)) == query_identity(query)
    for other in (
        replace(query, lateness=1),
        replace(query, keys=("k",)),
        replace(query, time="at"),
        replace(query, emit="changes"),
        replace(query, ordered=True),
    ):
        assert query_identity(other) != query_identity(query)


def test_rolling_knows_its_aggregate():
    window = mt.Rolling(3, own())
    window.push([1, 2, 3])
    snapshot = window.snapshot()
    assert mt.Rolling.restore(snapshot, 3, own()).push([4]).tolist() == [9]
    with pytest.raises(mt.SnapshotError, match=r"not of Rolling.*lift"):
        mt.Rolling.restore(snapshot, 3, CHANGED["lift"])
    trusted = mt.Rolling.restore(snapshot, 3, CHANGED["lift"], trust_functions=True)
    assert trusted.push([4]).tolist() == [4005]


@pytest.mark.parametrize("how", ["function", "policy", "combined"])
def test_a_window_under_another_policy_is_refused(how):
    def made(limit):
        bare = lambda total, old: total - old >= limit  # noqa: E731
        if how == "function":
            return bare
        slides = SlidePolicy("mine", mt.Sum(), bare)
        return slides if how == "policy" else slides | mt.policies.last(50)

    store = mt.MemoryStore()
    with mt.PolicyWindow(mt.Sum(), made(10), store) as window:
        window.bulk_insert(range(5))
        snapshot = window.snapshot()
    for kind in (StoreError, mt.SnapshotError):
        with pytest.raises(kind, match="another aggregate or policy"):
            mt.PolicyWindow(mt.Sum(), made(3), store)
    with mt.PolicyWindow(mt.Sum(), made(10), store) as window:
        assert window.query() == 10
    with mt.PolicyWindow(mt.Sum(), made(3), store, trust_functions=True) as window:
        assert window.query() == 10
    assert mt.PolicyWindow.restore(snapshot, mt.Sum(), made(10)).query() == 10
    with pytest.raises(mt.SnapshotError, match="polic"):
        mt.PolicyWindow.restore(snapshot, mt.Sum(), made(3))
    restored = mt.PolicyWindow.restore(snapshot, mt.Sum(), made(3), trust_functions=True)
    assert restored.query() == 10
