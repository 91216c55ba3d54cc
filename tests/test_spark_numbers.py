"""Numbers of every type on Spark, against exact arithmetic: batches, streams, and frames of both plans.

A query asks for many aggregates over many columns at once, because each run costs seconds. Of
types with a wild column, results over the plain one fit their types; over the wild one they need not.
"""

import random
from functools import cache
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import types as kinds
from pyspark.errors import ArithmeticException, PySparkException, StreamingQueryException
from pyspark.sql import functions as F

import muntin as mt
from tests.number_oracle import (
    AGGREGATES,
    DTYPES,
    OVERFLOW,
    DType,
    agrees,
    as_array,
    as_plain,
    decimal_of,
    decimals,
    expected,
    result_type,
)
from tests.patience import ran
from tests.spark_streams import write_files

SECOND = 1_000_000
BEGIN = 1_782_000_000 * SECOND
MINUTE = 60 * SECOND
PER_KEY = 12
"""Rows of a key: in two windows of a minute."""
MOODS = ("ordinary", "extreme", "both", "neighbours", "there and back", "nothing")
TYPES: dict[str, tuple[str, DType]] = {
    "byte": ("tinyint", DTYPES["int8"]),
    "short": ("smallint", DTYPES["int16"]),
    "int": ("int", DTYPES["int32"]),
    "long": ("bigint", DTYPES["int64"]),
    "small": ("decimal(10,2)", decimals(10, 2)),
    "large": ("decimal(38,10)", DTYPES["decimal(38,10)"]),
    "fraction": ("decimal(38,38)", DTYPES["decimal(38,38)"]),
    "float": ("float", DTYPES["float32"]),
    "double": ("double", DTYPES["float64"]),
    "truth": ("boolean", DTYPES["bool"]),
    "day": ("date", DTYPES["date32"]),
    "at": ("timestamp", DTYPES["timestamp[us]"]._replace(type=pa.timestamp("us", "UTC"))),
    "local": ("timestamp_ntz", DTYPES["timestamp[us]"]),
    "span": ("interval day to second", DTYPES["duration[us]"]),
    "text": ("string", DTYPES["string"]),
}
FOLDED = ("Count", "Sum", "Mean", "Min", "Max", "Range", "Var", "Std")
IN_ORDER = ("First", "Last", "Median", "Sum", "Count")
ALL = (*FOLDED, "First", "Last", "Median")
WILD = ("long", "large", "fraction", "float", "double", "day", "at", "local", "span")
NULL = "Sum or null"
"""Sum(overflow="null")."""


# Rows


def mild(dtype: DType) -> tuple[Any, ...]:
    """Return large values of which a dozen can be added up and averaged."""
    kind = dtype.type
    if kinds.is_int64(kind):
        return (2**59 + 1, -(2**59), 2**53 + 1, 1_750_000_000_000_000_000 // 4)
    if kinds.is_decimal(kind):
        digits = min(kind.precision, 33)
        return tuple(decimal_of(s * (10**digits - 1), kind.scale) for s in (1, -1))
    if kinds.is_duration(kind):
        return (2**59 + 1, -(2**59))
    if kinds.is_date32(kind) or kinds.is_timestamp(kind):
        return tuple(x // 3 for x in dtype.extreme)
    return dtype.extreme


def drawn(dtype: DType, large: tuple[Any, ...], mood: str, rng: random.Random) -> list[Any]:
    """Return a key's values."""
    if mood == "nothing":
        return [None] * PER_KEY
    signed = kinds.is_signed_integer(dtype.type) or kinds.is_decimal(dtype.type)
    if mood == "there and back" and (signed or kinds.is_duration(dtype.type)):
        top = max(large)
        back = top.copy_negate() if kinds.is_decimal(dtype.type) else -top
        return [top, top, None, back, top, back] * (PER_KEY // 6)
    pool = {"ordinary": dtype.ordinary, "extreme": large}.get(mood, dtype.ordinary + large)
    if mood == "neighbours" and type(pool[0]) is int:  # which differ in their last digits only
        base, least, most = rng.choice(large), min(pool), max(pool)
        pool = tuple(x for x in range(base - 5, base + 6) if least <= x <= most)
    return [None if rng.random() < 0.15 else rng.choice(pool) for _ in range(PER_KEY)]


@cache
def columns() -> dict[str, tuple[str, list[Any]]]:
    """Return the type's name and the values of each column, key by key."""
    rng = random.Random(16)
    found = {}
    for name, (_, dtype) in TYPES.items():
        pools = {name: mild(dtype), f"{name}_wild": dtype.extreme + dtype.edges}
        for column, large in list(pools.items())[: 1 + (name in WILD)]:
            values = [drawn(dtype, large, mood, rng) for mood in MOODS]
            found[column] = (name, list(chain.from_iterable(values)))
    return found


def kind_of(column: str) -> pa.DataType:
    return TYPES[columns()[column][0]][1].type


def keys_and_times() -> tuple[list[str], list[int]]:
    """Return the key and the time of each row; a key's rows come in the order of time."""
    keys = [mood for mood in MOODS for _ in range(PER_KEY)]
    return keys, [BEGIN + 7 * SECOND * i for _ in MOODS for i in range(PER_KEY)]


@cache
def rows() -> pa.Table:
    """Return all rows; durations are microseconds, as Parquet has no type for them."""
    keys, times = keys_and_times()
    table = {"k": pa.array(keys), "ts": pa.array(times).view(pa.timestamp("us", "UTC"))}
    for column, (_, values) in columns().items():
        kind = kind_of(column)
        table[column] = as_array(values, pa.int64() if kinds.is_duration(kind) else kind)
    return pa.table(table)


def schema() -> str:
    told = {
        c: TYPES[name][0].replace(TYPES["span"][0], "bigint") for c, (name, _) in columns().items()
    }
    return "k string, ts timestamp, " + ", ".join(f"{c} {kind}" for c, kind in told.items())


def with_durations(frame: Any) -> Any:
    spans = {
        c: F.expr(f"{c} * interval '0 00:00:00.000001' day to second")
        for c in columns()
        if kinds.is_duration(kind_of(c))
    }
    return frame.withColumns(spans)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of three files, with rows of all keys in each, and one that ends all windows."""
    path, table = tmp_path_factory.mktemp("numbers"), rows()
    part = [i * 3 // PER_KEY for _ in MOODS for i in range(PER_KEY)]
    pieces = [table.filter(pa.array([p == i for p in part])) for i in range(3)]
    late = pa.array([BEGIN + 60 * MINUTE]).view(table["ts"].type)
    last = pa.table(
        {"k": ["end"], "ts": late, **{c: pa.nulls(1, table[c].type) for c in columns()}}
    )
    write_files(path, [*pieces, last])
    return path


@pytest.fixture(scope="module")
def frame(spark, folder):
    return with_durations(spark.read.schema(schema()).parquet(str(folder))).where("k != 'end'")


@pytest.fixture(scope="module")
def stream(spark, folder):
    reader = spark.readStream.schema(schema()).option("maxFilesPerTrigger", 1)
    return with_durations(reader.parquet(str(folder)))


# What is asked, and what is right


def made(name: str, column: str) -> mt.Aggregate:
    return mt.Sum(column, overflow="null") if name == NULL else AGGREGATES[name].make(column)


def wanted_of(name: str, column: str, places: Any) -> Any:
    """Return what an aggregate gives over the values at some rows."""
    kind, values = kind_of(column), columns()[column][1]
    found = expected("Sum" if name == NULL else name, kind, [(values[i], None) for i in places])
    if found is OVERFLOW and name == NULL:
        return None
    is_days = name == "Range" and kinds.is_date32(
        kind
    )  # in seconds, which Spark has as microseconds
    return found * SECOND if is_days and found is not None else found


def type_of(name: str, column: str) -> pa.DataType | None:
    """Return the type of results on Spark; its durations are in microseconds."""
    kind = result_type("Sum" if name == NULL else name, kind_of(column))
    return pa.duration("us") if kind is not None and kinds.is_duration(kind) else kind


def windows() -> dict[Any, list[int]]:
    """Return the rows of each key's windows."""
    found: dict[Any, list[int]] = {}
    for i, (key, time) in enumerate(zip(*keys_and_times(), strict=True)):
        found.setdefault((key, time // MINUTE * MINUTE), []).append(i)
    return found


def frames(size: int | None) -> dict[Any, list[int]]:
    """Return the rows of the frame that ends with each row."""
    found = {}
    for i, place in enumerate(zip(*keys_and_times(), strict=True)):
        first = i // PER_KEY * PER_KEY
        found[place] = list(range(first if size is None else max(first, i - size + 1), i + 1))
    return found


@cache
def right_results(names: tuple[str, ...], shape: str) -> dict[tuple[str, str], dict[Any, Any]]:
    """Return the results by place of each aggregate over each column whose results fit."""
    shapes = {"windows": windows(), "three": frames(3), "all": frames(None)}
    answers = {}
    for name in (*names, NULL):
        for column in columns():
            if type_of(name, column) is None or not is_asked(name, column):
                continue
            results = {p: wanted_of(name, column, there) for p, there in shapes[shape].items()}
            if OVERFLOW not in results.values():
                answers[name, column] = results
    return answers


def is_asked(name: str, column: str) -> bool:
    """Whether results can be foretold: those over the largest floats may be infinite on the way."""
    is_float = kinds.is_floating(kind_of(column)) and column.endswith("_wild")
    return not is_float or name == "Count" or AGGREGATES.get(name, AGGREGATES["Sum"]).gives_values


def label(name: str, column: str) -> str:
    return f"{name.replace(' ', '_')}__{column}"


def compare(table: pa.Table, wanted: dict[Any, Any], time: str, prefix: str = "") -> None:
    """Compare results by key and time, all of them, and their types."""
    places = list(zip(table["k"].to_pylist(), as_plain(table[time]), strict=True))
    wrong = {}
    for (name, column), results in wanted.items():
        answer = table[prefix + label(name, column)]
        assert same_type(answer.type, type_of(name, column)), (name, column, answer.type)
        found = dict(zip(places, as_plain(answer), strict=True))
        assert found.keys() >= results.keys()
        assert len(found) == len(places)
        for place, right in results.items():
            if not agrees(found[place], right):
                wrong.setdefault((name, column), {})[place] = (found[place], right)
    assert not wrong, f"(result, expected) by place: {wrong}"


def same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    if kinds.is_timestamp(found) and kinds.is_timestamp(wanted):
        return (found.unit, found.tz is None) == (wanted.unit, wanted.tz is None)
    return found == wanted


def asked(aggregates: dict[str, mt.Aggregate], **options: Any) -> mt.Query:
    windows = {"minute": mt.Tumbling("1 minute")}
    return mt.Query(time="ts", keys="k", windows=windows, aggregates=aggregates, **options)


def test_there_is_something_to_compare():
    """Every type and aggregate is asked for, and some sums of what is wild do not fit."""
    for shape in ("windows", "three", "all"):
        answers = right_results(ALL, shape)
        for name in TYPES:
            assert {n for n in ALL if type_of(n, name) is not None} <= {
                n for n, column in answers if column == name
            }
    sums = right_results(ALL, "windows")
    for name in ("long", "large", "fraction", "span"):
        assert ("Sum", f"{name}_wild") not in sums
        of_plain, of_wild = ([*sums[NULL, c].values()] for c in (name, f"{name}_wild"))
        assert of_wild.count(None) > of_plain.count(None)


# In windows


@pytest.fixture(scope="module", params=[FOLDED, IN_ORDER], ids=["folded", "in order"])
def names(request):
    return request.param


@pytest.fixture(scope="module")
def batch(frame, names):
    """Return the results of a batch query."""
    query = asked({label(*pair): made(*pair) for pair in right_results(names, "windows")})
    assert query.plan().can_fold == (names == FOLDED)
    return mt.spark.aggregate(frame, query).toArrow()


def test_windows_of_a_batch(batch, names):
    compare(batch, right_results(names, "windows"), "start")


SPARKS = {"Count": F.count, "Sum": F.try_sum, "Mean": F.try_avg, "Min": F.min, "Max": F.max}
SPARKS |= {"Var": F.var_samp, "Std": F.stddev_samp, NULL: F.try_sum}
REFUSED_BY_SPARK = {("Sum", "truth"), (NULL, "truth")}
REFUSED_BY_SPARK |= {
    (n, t) for n in ("Mean", "Var", "Std") for t in ("truth", "day", "at", "local")
}


@pytest.mark.parametrize("names", [FOLDED], indirect=True, ids=["folded"])
def test_types_and_values_are_those_of_spark(frame, batch, names):
    """Where Spark has a result: sums that overflow on the way are null there, and not here."""
    pairs = [
        (name, column)
        for name, column in right_results(names, "windows")
        if name in SPARKS and (name, columns()[column][0]) not in REFUSED_BY_SPARK
    ]
    theirs = [SPARKS[name](column).alias(label(name, column)) for name, column in pairs]
    start = F.window("ts", "1 minute").start.alias("start")
    order = [("k", "ascending"), ("start", "ascending")]
    table = frame.groupBy("k", start).agg(*theirs).toArrow().sort_by(order)
    ours = batch.sort_by(order)
    assert ours["start"].to_pylist() == table["start"].to_pylist()
    for name, column in pairs:
        found, there = ours[label(name, column)], table[label(name, column)]
        assert found.type == there.type, (name, column)
        exact = ("Count", "Min", "Max", "Sum", NULL)
        if kinds.is_decimal(found.type) or (name in exact and not kinds.is_floating(found.type)):
            both = zip(as_plain(found), as_plain(there), strict=True)
            wrong = [(one, other) for one, other in both if other is not None and one != other]
            assert not wrong, (name, column, wrong)


def streamed(results: Any, checkpoint: Any) -> list[pa.Table]:
    """Run a stream to its end, and return the tables of its micro-batches."""
    tables: list[pa.Table] = []
    writer = results.writeStream.foreachBatch(lambda part, _: tables.append(part.toArrow()))
    writer = writer.outputMode("append").trigger(availableNow=True)
    ran(writer.option("checkpointLocation", str(checkpoint)).start)
    return tables


def test_windows_of_a_stream(stream, tmp_path, names):
    wanted = right_results(names, "windows")
    query = asked({label(*pair): made(*pair) for pair in wanted}, watermark="10 minutes")
    tables = streamed(mt.spark.aggregate(stream, query), tmp_path)
    assert len(tables) > 3
    compare(pa.concat_tables(tables), wanted, "start")


# In frames

SIZES = {"three": 3, "all": (None, 0)}
ROLLED = {"keys": "k", "order": "ts"}


@cache
def right_frames() -> dict[str, dict[tuple[str, str], dict[Any, Any]]]:
    """Return the results over frames of either size, for what fits in both."""
    both = {shape: right_results(ALL, shape) for shape in SIZES}
    pairs = [pair for pair in both["three"] if pair in both["all"]]
    return {shape: {pair: answers[pair] for pair in pairs} for shape, answers in both.items()}


def compare_frames(frame: Any, pairs: Any, plan: str) -> None:
    aggregates = {label(*pair): made(*pair) for pair in pairs}
    found = mt.spark.rolling(frame, size=SIZES, aggregates=aggregates, plan=plan, **ROLLED)
    table = found.toArrow()
    for shape, answers in right_frames().items():
        compare(table, {pair: answers[pair] for pair in pairs}, "ts", f"{shape}_")


def test_frames_by_our_kernels(frame):
    compare_frames(frame, right_frames()["all"], "muntin")


@pytest.fixture(scope="module")
def left_to_spark(frame):
    """Return the aggregates and columns whose small frames are left to Spark."""

    def is_native(*pair):
        return mt.spark.rolling_plan(frame, size=3, aggregates={"a": made(*pair)}, **ROLLED).native

    return [pair for pair in right_frames()["all"] if is_native(*pair)]


@pytest.fixture(params=["true", "false"], ids=["ansi", "not ansi"])
def ansi(request, spark):
    """Let Spark's own arithmetic raise errors, or wrap."""
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield request.param == "true"
    spark.conf.unset("spark.sql.ansi.enabled")


def test_frames_that_are_left_to_spark(frame, left_to_spark, ansi):
    """Only whole numbers wrap where Spark's arithmetic may."""
    assert {name for name, _ in left_to_spark} == {*ALL, NULL} - {"Range"}
    assert {("Sum", "long"), (NULL, "long_wild"), ("Mean", "long")} <= {*left_to_spark}
    pairs = [p for p in left_to_spark if ansi or kinds.is_integer(kind_of(p[1]))]
    compare_frames(frame, pairs, "native")


@pytest.mark.parametrize("name", ["Var", "Std", "Median"])
def test_frames_that_spark_would_round_are_not_left_to_it(frame, left_to_spark, name):
    """Doubles cannot hold squares of ints, nor longs; asked for, Spark's frames are taken."""
    rounded = {"long"} if name == "Median" else {"int", "long"}
    assert {c for n, c in left_to_spark if n == name and c in TYPES}.isdisjoint(rounded)
    assert (name, "short") in left_to_spark
    aggregates = {"a": AGGREGATES[name].make("long")}
    plan = mt.spark.rolling_plan(frame, size=3, aggregates=aggregates, **ROLLED)
    assert str(plan).startswith("muntin: of bigint columns, Spark rounds 'a' on the way")
    assert mt.spark.rolling_plan(
        frame, size=3, aggregates=aggregates, plan="native", **ROLLED
    ).native


# What does not fit

TOO_LARGE = [("Sum", "long"), ("Sum", "fraction"), ("Sum", "span")]


def overflowing(name: str, column: str, places: dict[Any, Any]) -> str:
    """Return a pattern of the keys that have a result that does not fit."""
    keys = {p[0] for p, there in places.items() if wanted_of(name, column, there) is OVERFLOW}
    assert keys
    return f"({'|'.join(sorted(keys))})"


@pytest.mark.parametrize(("name", "column"), TOO_LARGE)
def test_an_overflow_in_a_batch(frame, name, column):
    column = f"{column}_wild"
    keys = overflowing(name, column, windows())
    message = (
        rf"(?s)OverflowError: aggregate 'total' \({name.lower()}\).*'minute' \[.*of k='{keys}'"
    )
    with pytest.raises(PySparkException, match=message):
        mt.spark.aggregate(frame, asked({"total": made(name, column)})).collect()
    theirs = frame.groupBy("k", F.window("ts", "1 minute")).agg(F.sum(column))
    with pytest.raises(ArithmeticException):
        theirs.collect()


def test_an_overflow_in_a_stream(stream, tmp_path):
    """The query stops, and goes on from its checkpoint with the other choice."""
    pair = (NULL, "long_wild")
    strict = asked({label(*pair): mt.Sum("long_wild")}, watermark="10 minutes")
    keys = overflowing("Sum", "long_wild", windows())
    message = rf"(?s)OverflowError: aggregate '{label(*pair)}' \(sum\).*'minute' \[.*of k='{keys}'"
    with pytest.raises(StreamingQueryException, match=message):
        streamed(mt.spark.aggregate(stream, strict), tmp_path)
    query = asked({label(*pair): made(*pair)}, watermark="10 minutes")
    tables = streamed(mt.spark.aggregate(stream, query), tmp_path)
    compare(pa.concat_tables(tables), {pair: right_results(FOLDED, "windows")[pair]}, "start")


@pytest.mark.parametrize(
    ("name", "column"), [("Sum", "long"), ("Mean", "large"), ("Range", "long")]
)
def test_an_overflow_in_a_frame(frame, name, column):
    column = f"{column}_wild"
    keys = overflowing(name, column, frames(3))
    message = (
        rf"(?s)OverflowError: {name.lower()} of 'total' in the frame of row .*'k': '{keys}', 'ts'"
    )
    asked_for = {"size": 3, "aggregates": {"total": made(name, column)}, **ROLLED}
    with pytest.raises(PySparkException, match=message):
        mt.spark.rolling(frame, plan="muntin", **asked_for).collect()


@pytest.mark.usefixtures("ansi")
def test_an_overflow_in_a_frame_of_spark(frame):
    keys = overflowing("Sum", "long_wild", frames(3))
    message = rf'(?s)OverflowError: sum of .total. in the frame of row .*"k":"{keys}","ts"'
    asked_for = {"size": 3, "aggregates": {"total": mt.Sum("long_wild")}, **ROLLED}
    assert mt.spark.rolling_plan(frame, **asked_for).native
    with pytest.raises(PySparkException, match=message):
        mt.spark.rolling(frame, **asked_for).collect()


@pytest.mark.parametrize("plan", ["muntin", "native"])
def test_frames_of_few_values_do_not_overflow(spark, plan):
    values = pa.table({"at": [1, 2, 3, 4], "v": [2**62, 2**62, -(2**62), 1]})
    found = mt.spark.rolling(
        spark.createDataFrame(values), order="at", size=3, min_periods=3, plan=plan,
        aggregates={"total": mt.Sum("v")},
    )  # fmt: skip
    assert [row["total"] for row in found.orderBy("at").collect()] == [None, None, 2**62, 1]


# What cannot be computed with


@pytest.mark.parametrize("name", ["Sum", "Mean", "Range", "Var", "Std", "Median"])
def test_text_is_refused(frame, stream, name):
    message = "aggregate 'total' computes with numbers.*column 'text' is string: Concat joins text"
    aggregates = {"total": AGGREGATES[name].make("text")}
    with pytest.raises(TypeError, match=message):
        mt.spark.aggregate(frame, asked(aggregates))
    with pytest.raises(TypeError, match=message):
        mt.spark.aggregate(stream, asked(aggregates, watermark="10 minutes"))
    with pytest.raises(TypeError, match=message):
        mt.spark.rolling(frame, size=3, aggregates=aggregates, **ROLLED)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("Sum", "day"),
        ("Sum", "at"),
        ("Sum", "local"),
        ("Var", "at"),
        ("Std", "span"),
        ("Var", "day"),
    ],
)
def test_times_are_not_added_up(frame, name, column):
    with pytest.raises(TypeError, match=f"aggregate 'total' computes with .*column '{column}' is"):
        mt.spark.aggregate(frame, asked({"total": AGGREGATES[name].make(column)}))
