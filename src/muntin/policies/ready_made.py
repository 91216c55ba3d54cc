"""Ready-made window slide policies, those of TPDS 2019 among them.

Without a column a value is what was inserted, with one it is the row's. All are monotone, sum_at_most as
long as no value is negative.
"""

from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple

from muntin.aggregates import Aggregate, Count, LongestRun, Max
from muntin.aggregates.aggregate import altered, as_is, built_in, named
from muntin.aggregates.extremes import above
from muntin.aggregates.runs import Runs
from muntin.policies.policy import Rule, SlidePolicy
from muntin.windows import microseconds


def last(n: int) -> SlidePolicy:
    """Keep the last n values (Listing 3).

    >>> from muntin import Collect, PolicyWindow
    >>> window = PolicyWindow(Collect(), last(3))
    >>> window.bulk_insert("abcde")
    >>> window.query()
    ['c', 'd', 'e']
    """
    n = index(n)
    if n < 1:
        raise ValueError(f"last needs a number of values of 1 or more, got {n}")
    rule = Rule("rows", n)
    return _built_in(_told("last", n), Count(), lambda total, old: total - old >= n, rule)


def within(duration: Any, column: str | None = None) -> SlidePolicy:
    """Keep the values whose time is less than a duration before the latest (Listing 1).

    It is a policy of time: `PolicyWindow.enforce(now)` keeps those less than the duration before `now`,
    and a query those less than it before each report, if the column is the query's time.
    Times are datetimes or numbers; a number is compared with the duration as it is, or with its
    microseconds. A value without a time leaves once it is the oldest.

    >>> from muntin import Collect, PolicyWindow
    >>> window = PolicyWindow(Collect("watts"), within(10, "t"))
    >>> window.bulk_insert({"t": t, "watts": 5 * t} for t in (1, 4, 11, 13))
    >>> window.query()
    [20, 55, 65]
    """
    size = microseconds(duration)
    if size <= 0:
        raise ValueError(f"within needs a duration above zero, got {duration!r}")

    def holds(total: Any, old: Any) -> bool:
        return old is None or _elapsed(old, total) >= size

    name, rule = _told("within", size, column), Rule("age", size, column)
    return _built_in(name, Max(column), holds, rule, expires=holds)


def sum_at_most(x: Any, column: str | None = None) -> SlidePolicy:
    """Keep the values that, with all younger ones, add up to x at most (the running example, 3.2).

    A value above x leaves at once, with all before it, as does one that is NaN or infinite. Null counts
    as 0. Exact on integers and decimals.

    >>> from muntin import Collect, PolicyWindow
    >>> window = PolicyWindow(Collect(), sum_at_most(10))
    >>> window.bulk_insert([2, 2, 3, 3])
    >>> window.query()
    [2, 2, 3, 3]
    >>> window.insert(4)
    >>> window.query()
    [3, 3, 4]
    """

    def holds(total: _Sums, old: _Sums) -> bool:
        unbounded = total.unbounded - old.unbounded + old.last_unbounded
        return unbounded > 0 or total.sum - old.sum + old.last > x

    rule = Rule("sums", x, column)
    return _built_in(_told("sum_at_most", x, column), _running_sums(column), holds, rule)


def until_max(column: str | None = None) -> SlidePolicy:
    """Drop what is older than the maximum, the first of equals: it can be no maximum any more.

    >>> from muntin import Collect, PolicyWindow
    >>> window = PolicyWindow(Collect(), until_max())
    >>> window.bulk_insert([4, 7, 3, 5])
    >>> window.query()
    [7, 3, 5]
    """

    def holds(total: Any, old: Any) -> bool:
        return total is not None and (old is None or bool(above(total, old)))

    rule = Rule("peak", column=column)
    return _built_in(_told("until_max", column), Max(column), holds, rule)


def until_longest_run(column: str | None = None) -> SlidePolicy:
    """Drop what is older than the longest increasing run, the first of equals.

    >>> from muntin import Collect, PolicyWindow
    >>> window = PolicyWindow(Collect(), until_longest_run())
    >>> window.bulk_insert([5, 6, 1, 2, 3])
    >>> window.query()
    [1, 2, 3]
    """

    def holds(total: Runs | None, old: Runs | None) -> bool:
        return total is not None and (0 if old is None else old.n) <= total.start

    runs = altered(LongestRun(column), lower=as_is)
    return _built_in(_told("until_longest_run", column), runs, holds, Rule("run", column=column))


def _built_in(
    name: str,
    aggregate: Aggregate,
    holds: Callable[[Any, Any], Any],
    rule: Rule | None = None,
    expires: Callable[[Any, Any], Any] | None = None,
) -> SlidePolicy:
    """Return a policy of ours: known by its name, in which are all parameters, and its aggregate."""
    rules = () if rule is None else (rule,)
    return SlidePolicy(name, aggregate, holds, expires=expires, made_of=holds, rules=rules)


def _told(name: str, *arguments: Any) -> str:
    return f"{name}({', '.join(repr(argument) for argument in arguments if argument is not None)})"


def _elapsed(old: Any, latest: Any) -> Any:
    elapsed = latest - old
    return elapsed if isinstance(elapsed, int | float) else microseconds(elapsed)


class _Sums(NamedTuple):
    """The sum of a stretch and its last value; what is NaN or infinite is counted beside them."""

    sum: Any
    last: Any
    unbounded: int
    last_unbounded: int


def _running_sums(column: str | None) -> Aggregate:
    return built_in(
        "running_sum",
        identity=None,
        lift=_sums,
        combine=_add,
        nulls=True,
        columns=named(column),
        encode=tuple,
        decode=_decode,
    )


def _sums(value: Any) -> _Sums:
    if value is None:
        return _Sums(0, 0, 0, 0)
    if value - value != 0:  # only NaN and the infinite differ from themselves
        return _Sums(0, 0, 1, 1)
    return _Sums(value, value, 0, 0)


def _add(a: _Sums | None, b: _Sums | None) -> _Sums | None:
    if a is None or b is None:
        return a if b is None else b
    return _Sums(a.sum + b.sum, b.last, a.unbounded + b.unbounded, b.last_unbounded)


def _decode(plain: Any) -> _Sums:
    return _Sums(*plain)
