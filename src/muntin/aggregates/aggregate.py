"""An aggregate is a monoid with a way in and a way out.

lift turns one input into a partial, combine merges two partials of neighbouring stretches (older on
the left), lower turns a partial into the result. Combine is associative and identity is neutral;
everything else (inverse, commutative, selective, holistic) is a fact that an algorithm may ask for.
From "General Incremental Sliding-Window Aggregation" (VLDB 2015), section 3.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import is_not
from typing import Any, Protocol

from muntin.aggregates.conditions import LIKE, condition_of, only_where

Partial = Any

RESULTS = (
    "count",  # a whole number of 64 bits
    "value",  # a value of the column, or of the last of several: the type stays
    "values",  # a list of such values
    "counts",  # a list of whole numbers of 64 bits, made of numbers
    "sum",  # numbers wide enough for a sum, or a duration
    "mean",  # a number between the values, or a time or a duration
    "means",  # a list of such numbers
    "increase",  # numbers wide enough for a sum, but no durations
    "product",  # numbers wide enough for a product
    "truth",  # true or false, made of numbers and booleans
    "bits",  # whole numbers of the column
    "difference",  # the difference of two values: of times it is a duration
    "float",  # a float made of numbers; times have none
    "statistic",  # a float that says something of values of any type
    "bytes",  # bytes that say something of values of any type
    "bytes of numbers",  # bytes made of numbers; times have none
    "object",  # something to ask questions: no column can hold it
)
"""The rules for the type of a result, given the types of the columns."""
OVERFLOWS = ("error", "null")
FUNCTIONS = ("lift", "combine", "lower", "inverse", "encode", "decode", "multiset", "gather")


def as_is(value: Any) -> Any:
    """Return the value unchanged: the lift or lower of an aggregate that needs none."""
    return value


class Multiset(Protocol):
    """What a window holds, kept while it slides: partials go in and come out in any order."""

    def add(self, partial: Partial) -> None:
        """Add what a partial stands for."""

    def remove(self, partial: Partial) -> None:
        """Remove what a partial stands for, which was added."""

    def result(self) -> Any:
        """Return what lower returns for all that is in it."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """An aggregate on numbers that are there, in functions that can be compiled.

    No null comes in and no window is empty, so that nothing here needs an identity. A partial is a
    number or a flat tuple of numbers, the same for one value and for many. lower gets the number of
    values beside the partial. `plain` is a faster combine that is right when there is no NaN. `shifted`
    is a faster form for values less some constant near them; its lower gives NaN where digits were lost.
    `finish` names a NumPy function for all results at once. `inverse` takes a part out of a total; it is
    used where the partial is made of integers, and so exact. Under `least` values there is no result.

    Whole numbers of 64 bits have forms of their own where this one would lose digits: `signed`,
    `unsigned`, and `times` for moments and durations, which are whole numbers of their unit. `narrow` is
    a faster form of `signed` that is right where no sum of the values exceeds 64 bits. Of a form with
    `halves`, lift takes a number as (high, low): high * 2**32 + low, 0 <= low < 2**32, both signed.
    A `doubled` one takes each number as two floats, which add up to it exactly whatever its type is.
    If it `overflows`, lower returns as its last result whether the others do not fit their type.
    """

    lift: Callable[[Any], Partial]
    combine: Callable[[Partial, Partial], Partial]
    lower: Callable[..., Any]
    plain: Callable[[Partial, Partial], Partial] | None = None
    shifted: "Kernel | None" = None
    finish: str = ""
    inverse: Callable[[Partial, Partial], Partial] | None = None
    least: int = 1
    signed: "Kernel | None" = None
    unsigned: "Kernel | None" = None
    times: "Kernel | None" = None
    narrow: "Kernel | None" = None
    halves: bool = False
    doubled: bool = False
    overflows: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Aggregate:
    """What a window computes, as functions on partials.

    inverse(total, oldest) takes the oldest partial out of a total: inverse(combine(a, b), a) == b.
    It may return NotImplemented where that would lose information (a NaN in a sum); the caller then
    folds what is left. A selective combine returns one of its arguments. A null input never reaches
    lift unless `nulls` is set. With `columns`, an input is a row (a mapping) and lift gets the value
    of the one column, or the tuple of several. `encode` and `decode` turn a partial into plain data
    (numbers, text, bytes, tuples, lists, dicts) and back; plain partials need neither. `kernel` is
    the compilable form of a built-in aggregate, `rank` the share of values below an order statistic
    and whether it lies between two values, `results` the names of a result's parts, if it has several,
    `gather` the partial of many values at once, where that is cheaper than to combine them. `multiset`
    makes what a window over slices is kept as between reports, where partials grow with their values:
    partials are added to it and removed from it in place.

    `result` is the rule for the type of a result, one of RESULTS, or a tuple of rules if a result has
    several parts; without a rule the type is found from the results. Parts are made of the columns whose
    numbers are `sources`, or all of the last. `overflow` says what becomes of a result that its type
    cannot hold: "error" or "null". An aggregate that `picks` chooses a row by its first column and
    returns the values of the others. One that `gives_rows` returns a list of tuples with the names
    `results`. One that `counts_rows` needs no column.

    An aggregate that is `timed` has the times of rows in its last column; `timed` makes the kernel for
    times in a unit of so many nanoseconds.

    An approximate aggregate that gives other results for the same rows, grouped otherwise, has `agree`:
    whether two results can be of the same rows.

    `version` replaces the digest of your functions where a saved state is compared with the aggregate
    that is to continue it: change it when you change what they compute. Built-in aggregates are known by
    their name, version and `parameters` instead; one whose functions are not those that it was `made_of`
    is your own. `only` are the windows of a query that it belongs to, if not to all: see `over`.
    A row for which the condition `where` is not true is not there for it: the name of a boolean
    column, or what `col` begins.

    >>> from muntin import Aggregate, DabaLite
    >>> product = Aggregate("product", 1, lift=abs, combine=lambda a, b: a * b, commutative=True)
    >>> window = DabaLite(product)
    >>> window.bulk_insert([2, -3, 4])
    >>> window.query()
    24
    """

    name: str
    identity: Partial
    lift: Callable[[Any], Partial]
    combine: Callable[[Partial, Partial], Partial]
    lower: Callable[[Partial], Any] = as_is
    inverse: Callable[[Partial, Partial], Partial] | None = None
    commutative: bool = False
    selective: bool = False
    holistic: bool = False
    approximate: bool = False
    nulls: bool = False
    columns: tuple[str, ...] = ()
    encode: Callable[[Partial], Any] | None = None
    decode: Callable[[Any], Partial] | None = None
    parts: tuple["Aggregate", ...] = ()
    kernel: Kernel | None = None
    rank: tuple[Fraction, bool] | None = None
    results: tuple[str, ...] = ()
    gather: Callable[[list[Any]], Partial] | None = None
    result: str | tuple[str, ...] = ""
    sources: tuple[int, ...] = ()
    timed: "Callable[[int], Kernel] | None" = None
    overflow: str = "error"
    version: int | str | None = None
    parameters: tuple[tuple[str, Any], ...] = ()
    multiset: "Callable[[], Multiset] | None" = None
    picks: bool = False
    gives_rows: bool = False
    counts_rows: bool = False
    made_of: tuple[Any, ...] = ()
    only: tuple[str, ...] = ()
    where: Any = None
    agree: Callable[[Any, Any], bool] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", condition_of(self.where))
        if self.is_built_in and any(map(is_not, self.made_of[1:], functions_of(self))):
            self._disown()
        for field in (*FUNCTIONS, "agree"):
            function = getattr(self, field)
            if function is not None and not callable(function):
                raise TypeError(
                    f"aggregate {self.name!r}: {field} must be a function, got {function!r}"
                )
        if (self.encode is None) != (self.decode is None):
            raise TypeError(f"aggregate {self.name!r}: give both encode and decode, or neither")
        if self.overflow not in OVERFLOWS:
            raise ValueError(
                f"aggregate {self.name!r}: overflow must be one of {', '.join(OVERFLOWS)}, "
                f"got {self.overflow!r}"
            )
        for column in self.columns:
            if not isinstance(column, str):
                raise TypeError(
                    f"aggregate {self.name!r}: a column is named by text, got {column!r}"
                )

        if self.where is not None and not (self.columns or self.counts_rows or self.parts):
            raise TypeError(
                f"aggregate {self.name!r} takes bare values, and a condition is asked of rows: name the "
                f"column as well, {LIKE}"
            )

    def __repr__(self) -> str:
        columns = f" of {', '.join(map(repr, self.columns))}" if self.columns else ""
        where = "" if self.where is None else f" where {self.where}"
        return f"<Aggregate {self.name}{columns}{where}>"

    def over(self, *windows: str) -> "Aggregate":
        """Return the aggregate for some windows of a query; it is null in the others.

        >>> import muntin as mt
        >>> windows = {"minute": mt.Tumbling(60), "hour": mt.Tumbling(3600)}
        >>> aggregates = {"n": mt.Count(), "median": mt.Median("watts").over("hour")}
        >>> query = mt.Query(time="t", windows=windows, aggregates=aggregates)
        >>> query.run({"t": [1, 2], "watts": [5.0, 7.0]}).select(["window", "median"]).to_pylist()
        [{'window': 'minute', 'median': None}, {'window': 'hour', 'median': 6.0}]
        """
        if not windows or not all(isinstance(name, str) for name in windows):
            raise TypeError(
                f"aggregate {self.name!r}: over takes names of windows, as in over('hour'), "
                f"got {windows!r}"
            )
        return replace(self, only=tuple(dict.fromkeys(windows)))

    @property
    def is_built_in(self) -> bool:
        """Whether it is one of muntin's, with the functions that it was made of."""
        return bool(self.made_of)

    def _disown(self) -> None:
        """Drop what is true of muntin's own functions only, because one of them was replaced."""
        version, *functions, agree = self.made_of
        dropped: dict[str, Any] = {"made_of": (), "kernel": None, "rank": None, "result": ""}
        dropped |= {"agree": None} if self.agree is agree else {}
        dropped |= {"version": None} if self.version == version else {}
        dropped |= {"multiset": None} if self.multiset is functions[-2] else {}
        dropped |= {"gather": None} if self.gather is functions[-1] else {}
        for name, value in dropped.items():
            object.__setattr__(self, name, value)

    @property
    def invertible(self) -> bool:
        """Whether a partial can be taken out of a total again."""
        return self.inverse is not None

    def to_plain(self, partial: Partial) -> Any:
        """Return the partial as plain data; encode does not get the aggregate's own identity."""
        if self.encode is None:
            return partial
        return None if partial is self.identity else [self.encode(partial)]

    def from_plain(self, plain: Any) -> Partial:
        """Return the partial that to_plain was given."""
        if self.decode is None:
            return plain
        return self.identity if plain is None else self.decode(plain[0])

    def input_lift(self) -> Callable[[Any], Partial]:
        """Return lift as windows apply it: columns picked from the row, nulls and other rows skipped."""
        if self.where is not None:
            bare = replace(self, where=None)
            return only_where(self.where, self.identity, bare.input_lift())
        lift, identity = self.lift, self.identity
        if not self.columns:
            if self.nulls:
                return lift
            return lambda value: identity if value is None else lift(value)

        def lift_row(row: Any) -> Partial:
            values = pick(row, self.columns)
            if not self.nulls and any(value is None for value in values):
                return identity
            return lift(values[0] if len(values) == 1 else values)

        return lift_row


def pick(row: Any, columns: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the row's values for the columns, or say which column is missing."""
    if not isinstance(row, Mapping):
        raise TypeError(
            f"columns {', '.join(map(repr, columns))} are asked for, so an input must be a row "
            f"(a mapping such as a dict); got {row!r}. Leave the column names out to give bare values."
        )
    try:
        return tuple([row[column] for column in columns])
    except KeyError as missing:
        raise KeyError(
            f"no column {missing} in the row; it has {', '.join(map(repr, row))}"
        ) from None


def built_in(
    name: str, result: str | tuple[str, ...] = "", *, version: int = 1, **facts: Any
) -> Aggregate:
    """Return an aggregate of ours: known by name, version and parameters, never by its functions.

    `parameters` is a dict here. Increase the version when a change makes saved partials mean something
    else.
    """
    parameters = tuple(facts.pop("parameters", {}).items())
    return altered(Aggregate(name, result=result, version=version, parameters=parameters, **facts))


def altered(aggregate: Aggregate, **functions: Any) -> Aggregate:
    """Return an aggregate as one of ours that is made of these functions."""
    made = replace(aggregate, made_of=(), **functions)
    return replace(made, made_of=(made.version, *functions_of(made), made.agree))


def functions_of(aggregate: Aggregate) -> tuple[Any, ...]:
    """Return all that an aggregate computes with, in the order of FUNCTIONS."""
    return tuple([getattr(aggregate, name) for name in FUNCTIONS])


def named(*columns: str | None) -> tuple[str, ...]:
    """Return the column names that were given, all or none of them."""
    if all(column is None for column in columns):
        return ()
    if any(column is None for column in columns):
        raise TypeError(f"give all {len(columns)} column names or none, got {columns!r}")
    return tuple(column for column in columns if column is not None)
