"""Users' own functions give what Python gives, compiled or not: or there is an error."""

import datetime as dt
import functools
import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.kernels.codegen.build import NotCompilableError, compiled
from muntin.kernels.codegen.layout import Layout


def plus(a, b):
    return a + b


def larger(a, b):
    return a if a > b else b


def as_it_is(x):
    return x


def own(lift=as_it_is, combine=plus, lower=as_it_is, identity=0):
    return mt.Aggregate("own", identity, lift, combine, lower)


ALL_PLACES = slice(None)


def by_python(aggregate, values, size):
    """Return what the functions give, one by one."""
    window, results = mt.TwoStacksLite(aggregate), []
    for value in values:
        window.insert(value)
        if len(window) > size:
            window.evict()
        results.append(window.query())
    return results


def places(aggregate, array, size):
    """Return functions that give the results of rolling, Rolling and Query."""
    rows = {"t": np.arange(len(array)), "v": array}
    query = mt.Query(
        time="t",
        windows={"w": mt.Sliding(size, 1)},
        aggregates={"r": replace(aggregate, columns=("v",))},
    )
    yield lambda: mt.rolling(pa.array(array), size, aggregate, min_periods=1).to_pylist()
    yield lambda: mt.Rolling(size, aggregate, min_periods=1).push(pa.array(array)).to_pylist()
    yield lambda: query.run(rows)["r"].to_pylist()[: len(array)]


def check(aggregate, values, dtype=None, place=ALL_PLACES):
    """Compare places with Python: the same results, or an error."""
    array = np.array(values, dtype)
    try:
        wanted = by_python(aggregate, array.tolist(), 2)
    except ArithmeticError as error:
        wanted = type(error)
    for run in list(places(aggregate, array, 2))[place]:
        found = result_of(run)
        assert found == wanted or (isinstance(found, Exception) and not fits(wanted))


def result_of(run):
    """Return the results, or the kind of the error that there is."""
    try:
        return run()
    except ZeroDivisionError as error:
        return type(error)
    except (OverflowError, TypeError) as error:
        return error


def fits(results):
    """Whether results have one type that a column can hold."""
    kinds = {type(x) for x in results if x is not None}
    return len(kinds) == 1 and not any(isinstance(x, int) and abs(x) >= 2**63 for x in results)


LEAST = -(2**63)
FUNCTIONS = {
    "lift makes floats of some": (own(lambda x: x if x < 3 else 0.5), [1, 2, 3, 20]),
    "lower makes floats of some": (own(lower=lambda t: t if t < 4 else t / 4), [1, 2, 3, 20]),
    "combine makes floats of some": (own(combine=lambda a, b: a if a < 2 else b / 4), [1, 2, 3]),
    "lower has no result for some": (own(lower=lambda t: None if t > 10 else t), [1, 2, 3, 20]),
    "nor for some truths": (own(lower=lambda t: None if t > 10 else t > 3), [1, 2, 3, 20]),
    "a large result or none": (
        own(combine=larger, lower=lambda t: None if t < 2 else t),
        [1, 2**60 + 1, 2**53 + 1],
    ),
    "whole numbers of floats": (own(lambda x: int(x)), [1.5, 2.5, 1e300, 3.0]),
    "floor": (own(lambda x: math.floor(x)), [1.5, -1e19, 3.0]),
    "round": (own(lambda x: round(x)), [1.5, 2.5, 1e19, 3.0]),
    "division by zero": (own(lambda x: 1 / x), [1.0, 0.0, 3.0]),
    "whole division by zero": (own(lambda x: 10 // x), [1, 0, 3]),
    "remainder of zero": (own(lambda x: 10 % x), [1, 0, 3]),
    "division by minus one": (own(lambda x: x // -1, larger), [1, LEAST, 3]),
    "remainder of minus one": (own(lambda x: x % -1, larger), [1, LEAST, 3]),
    "magnitude": (own(lambda x: abs(x), larger), [1, LEAST, 3]),
    "bits": (own(lambda x: ~x, larger), [1, LEAST, 3]),
    "pow": (own(lambda x: pow(x, 3)), [1, 2**40, 3]),
    "sum": (own(combine=lambda a, b: sum((a, b))), [2**62, 2**62, 3]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_functions_do_what_python_does(name):
    """Each in one place, as compiling takes time; what is written out is the same in all."""
    aggregate, values = FUNCTIONS[name]
    which = list(FUNCTIONS).index(name) % 3
    check(aggregate, values, place=slice(which, which + 1))


def in_a_list(a, b):
    total = [0]
    total[0] += a
    total[0] += b
    return total[0]


def test_numbers_in_lists_do_not_wrap():
    check(own(combine=in_a_list), [2**62, 2**62, 3])


@pytest.mark.parametrize(
    "lift",
    [as_it_is, lambda x: x // 2, lambda x: x % 10, lambda x: x >> 1, lambda x: max(x, 5)],
)
def test_numbers_without_a_sign_do_not_become_floats(lift):
    check(own(lift, larger), [2**63 + 1, 5, 2**64 - 1, 2**53 + 1], dtype="uint64")


def test_a_function_is_not_applied_to_nulls():
    values = pa.array([2, None, 4])
    parts = own(lambda x: 100 // x)
    assert mt.rolling(values, 2, parts, min_periods=1).to_pylist() == [50, 50, 25]


# The function that was given, and no other


FACTOR = 7


def with_default(x, factor=FACTOR):
    return x * factor


FACTOR = 1000
scale = 100


def same_name_within(x):
    double = lambda scale: scale * 2  # noqa: E731
    return double(x) * scale


def same_name_in_a_list(x):
    total = 0
    for part in [scale for scale in (1, 2, 3)]:  # noqa: C416
        total += part * x
    return total * scale


def more(function):
    @functools.wraps(function)
    def wrapper(x):
        return function(x) + 1000

    return wrapper


@more
def wrapped(x):
    return x * 2


def times(x):
    return x - 1


def named_as_ours(times):
    return times * 2 + 1


def calls_named_as_ours(x):
    return times(x) * 3


def replaced(text):
    """Return a function that claims to come from this file, where something else is."""
    names = {}
    place = plus.__code__.co_firstlineno - 1
    exec(compile("\n" * place + text, __file__, "exec"), names)
    return names["plus"]


GIVEN = {
    "default": (own(with_default), [7, 21, 35]),
    "default of a lambda": (own(lambda x, k=FACTOR // 250: x * k), [4, 12, 20]),
    "default by name": (own(lambda x, *, k=5: x * k), [5, 15, 25]),
    "same name within": (own(same_name_within), [200, 600, 1000]),
    "same name in a list": (own(same_name_in_a_list), [600, 1800, 3000]),
    "wrapped": (own(wrapped), [1002, 2006, 2010]),
    "named as ours": (own(named_as_ours), [3, 8, 12]),
    "calls one named as ours": (own(calls_named_as_ours), [0, 3, 9]),
    "replaced def": (own(combine=replaced("def plus(a, b):\n    return a - b\n")), [1, -1, -1]),
    "replaced lambda": (own(combine=replaced("plus = lambda a, b: a * b")), [1, 2, 6]),
}


@pytest.mark.parametrize("name", GIVEN)
def test_the_function_that_was_given_runs(name):
    aggregate, wanted = GIVEN[name]
    runs = list(places(aggregate, np.array([1, 2, 3]), 2))
    assert runs[list(GIVEN).index(name) % 3]() == wanted


def test_lambdas_of_one_line_are_told_apart():
    pair = [lambda x: x * 2 if x > 2 else x, lambda x: x * 3 if x > 2 else x]
    assert mt.rolling([1, 2, 3], 1, own(pair[0])).tolist() == [1, 2, 6]
    assert mt.rolling([1, 2, 3], 1, own(pair[1])).tolist() == [1, 2, 9]
    by_loop = [own(lambda x, k=k: x * k) for k in (2, 3)]
    assert [mt.rolling([1, 2], 1, one).tolist() for one in by_loop] == [[2, 4], [3, 6]]


def test_functions_without_a_source_are_not_compiled_with_whole_numbers():
    names = {}
    exec("large = lambda x: int(x) * 2**61\nplus = lambda a, b: a + b", names)
    check(own(names["large"], names["plus"]), [1.0, 2.0, 3.0])
    floats = Layout((np.dtype(np.float64),), nullable=False)
    with pytest.raises(NotCompilableError):
        compiled(own(names["large"], names["plus"]), floats)
    assert compiled(own(combine=names["plus"]), floats).fields == (np.float64,)


# Results of nothing, and functions in the place of ours


@pytest.mark.parametrize("identity", [-math.inf, 0.5, -7])
def test_what_nothing_gives_is_not_cut_off(identity):
    best = own(combine=larger, identity=identity)
    column = pa.array([None, 3, None, None], pa.int64())
    wanted = [identity, 3, 3, identity]
    assert mt.rolling(column, 2, best, min_periods=0).to_pylist() == wanted
    assert mt.rolling(np.array([4, 3]), 1, best, min_periods=0, closed="neither").tolist() == (
        [identity, identity]
    )
    windows, aggregates = {"w": mt.Tumbling(1)}, {"r": replace(best, columns=("v",))}
    table = mt.Query(time="t", windows=windows, aggregates=aggregates).run(
        {"t": [0, 1, 2], "v": column[:3]}
    )
    assert table["r"].to_pylist() == [identity, 3, identity]


def test_another_lower_has_results_of_its_own_type():
    half = replace(mt.Sum("v"), lower=lambda partial: partial[1] / 2 if partial[0] else None)
    query = mt.Query(time="t", windows={"w": mt.Tumbling(10)}, aggregates={"r": half})
    assert query.run({"t": [1, 2], "v": [3, 4]})["r"].to_pylist() == [3.5]
    bare = replace(half, columns=())
    assert mt.rolling(pa.array([3, 4]), 2, bare, min_periods=1).to_pylist() == [1.5, 3.5]


RESULTS = [
    1, 0, 2.5, 1.0, 2**53 + 1, 0.1, math.inf, True, "5", b"5", None, Decimal("1.25"), np.float32(0.5),
    dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.date(2026, 1, 1),
    dt.timedelta(1), [1], [0.5], ["x"], {"a": 1}, {"a": "1"},
]  # fmt: skip


@pytest.mark.parametrize("first", RESULTS, ids=repr)
def test_results_are_never_converted_to_the_type_of_earlier_ones(first):
    """In one table they may be refused; in a later one they may be of another type."""
    for second in RESULTS:
        aggregate = mt.Aggregate(
            "own", None, {"a": first, "b": second}.get, lambda _, b: b, columns=("v",), nulls=True
        )
        query = mt.Query(time="t", windows={"w": mt.Tumbling(10)}, aggregates={"own": aggregate})
        operator = query.operator()
        operator.process({"t": [1, 11], "v": ["a", "b"]})
        for wanted, end in ((first, 10), (second, 20)):
            (result,) = operator.advance(end)["own"].to_pylist()
            numbers = isinstance(wanted, int | float | np.float32) and type(wanted) is not bool
            assert result == wanted
            assert numbers or type(result) is type(wanted)
            assert isinstance(result, bool) == isinstance(wanted, bool)
