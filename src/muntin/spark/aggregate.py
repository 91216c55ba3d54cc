"""Windows over a DataFrame of Spark: what is asked for is checked before anything runs."""

import pickle
import uuid
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    IntegralType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from muntin.query.native import ENGINES
from muntin.query.query import WINDOW_TIME, Query
from muntin.query.requirements import Requirements
from muntin.spark.batch import batch_results
from muntin.spark.chaining import DELAY, Upstream, event_time, upstream, window_time_field
from muntin.spark.clock import FAR, guarded, near_frame
from muntin.spark.native_windows import WindowsPlan, choose, native_windows
from muntin.spark.packing import Packing
from muntin.spark.result_types import arrow_schema, result_types
from muntin.spark.session import PARTITIONS, PROVIDER, ROCKSDB, working_copies
from muntin.spark.sql_conditions import answered
from muntin.spark.streaming import METRICS, Chain, stream_results

MODES = ("append", "update")
TIMES = (TimestampType, TimestampNTZType, DateType, IntegralType)
LAST_MICROSECOND = "INTERVAL '0.000001' SECOND"
UNHASHED = (MapType, ArrayType, VariantType)


def aggregate(
    df: DataFrame,
    query: Query,
    *,
    mode: str | None = None,
    types: Mapping[str, DataType | str] | None = None,
    metrics: str = METRICS,
    trust_functions: bool = False,
    plan: str = "auto",
    engine: str = "auto",
) -> DataFrame:
    """Return the windows of a query over a DataFrame: a stream, or one that is finished.

    The result has the keys, `window`, `start`, `end`, `kind` and a column per aggregate. A finished
    DataFrame gives what a stream gives after everything has arrived. On a stream, in mode "append" a
    window is reported once, when nothing can change it any more; in mode "update" when it is complete,
    and again with kind "update" or "retract" when late rows change it, and with kind "early" before it
    is complete, if the query says so. Without `mode` it is "update" if the query has a lateness or early
    results. `types` declares what results are where that cannot be found by trying, as
    for your own aggregates on objects. `metrics` is the name of the observed metrics in `lastProgress`.
    A checkpoint serves the query that wrote it, with windows added; your own functions are compared by
    their digests or `version`, and with `trust_functions` they are taken as they are. `plan` is a plan
    of `Query.operator`, such as "worst case". A condition `where` of an aggregate may be a text of SQL.
    `engine` says whose windows run: "muntin", or "native" for Spark's own. Of finished data "auto" takes
    Spark's where they give the same rows in less time; `aggregate_plan` tells.
    """
    mode = _checked(df, query, mode, plan, engine)
    engine = _with_types(engine, types)
    df, query = answered(df, query)
    before = _before(df, query, mode, engine)
    df = df if df.isStreaming else _timed(df, query)
    names = columns_asked(df, query)
    check_pickles(query)
    empty = pa.Table.from_batches([], arrow_schema(StructType([df.schema[n] for n in names])))
    declared = {name: _arrow_type(name, kind, query) for name, kind in (types or {}).items()}
    schema = _result_schema(df, query, result_types(query, empty, declared))
    asked, query = query, replace(query, max_ahead=None)  # what is ahead is dropped before
    copies = working_copies(df.sparkSession)
    packing = Packing(uuid.uuid4().hex, query, empty, trust_functions, plan, copies)
    if choose(engine, asked, df, plan, mode).native:
        if df.isStreaming:
            _held(df, query)  # or an error
        return native_windows(df, query, schema, metrics)
    if not df.isStreaming:
        partitions = int(df.sparkSession.conf.get(PARTITIONS) or 0)
        near = df if asked.ahead is None else near_frame(df, asked)
        return batch_results(selected(near, query, names), packing, schema, partitions)
    rows = selected(df if before.depth else _watermarked(df, asked), query, names)
    time = window_time_field(query, before.behind) if mode == "append" else None
    told = event_time(query, before.behind) if time else ""
    metrics = f"{metrics}_{before.depth + 1}" if before.depth and metrics == METRICS else metrics
    chain = Chain(before.behind, told, metrics)
    return stream_results(rows, packing, schema.add(time) if time else schema, mode, chain)


def _before(df: DataFrame, query: Query, mode: str, engine: str) -> Upstream:
    """Return what a stream consists of, or say what cannot be over the results of a query."""
    before = upstream(df, query, mode)
    if before.depth and query.ahead is not None:
        raise ValueError(
            "max_ahead is for rows, and the stream has results of windows: give it to the query before"
        )
    if before.depth and engine == "native":
        raise TypeError(
            "engine='native' cannot be: the stream has results of windows; leave engine out"
        )
    return before


def _timed(df: DataFrame, query: Query) -> DataFrame:
    """Return finished results with their `window_time`, if the query asks for it."""
    if query.time != WINDOW_TIME or WINDOW_TIME in df.columns or "end" not in df.columns:
        return df
    numbers = isinstance(df.schema["end"].dataType, IntegralType)
    return df.withColumn(WINDOW_TIME, F.col("end") - (1 if numbers else F.expr(LAST_MICROSECOND)))


def aggregate_plan(
    df: DataFrame,
    query: Query,
    *,
    mode: str | None = None,
    plan: str = "auto",
    engine: str = "auto",
) -> WindowsPlan:
    """Return whose windows `aggregate` takes with the same arguments; print it to see why."""
    mode = _checked(df, query, mode, plan, engine)
    df, query = answered(df, query)
    _before(df, query, mode, engine)
    df = df if df.isStreaming else _timed(df, query)
    columns_asked(df, query)
    return choose(engine, query, df, plan, mode)


def _checked(df: DataFrame, query: Query, mode: str | None, plan: str, engine: str) -> str:
    """Return the mode, or say what of the arguments cannot be."""
    if not isinstance(query, Query):
        raise TypeError(f"aggregate takes a muntin.Query, got {query!r}")
    if not isinstance(df, DataFrame):
        raise TypeError(
            f"aggregate takes a DataFrame of Spark, got {type(df).__module__}.{type(df).__qualname__}: "
            "without Spark, Query.run and Query.operator take other frames"
        )
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    early = query.early_every is not None
    mode = ("update" if query.allowed or early else "append") if mode is None else mode
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    if early and mode == "append":
        raise ValueError(
            "early results change, and mode 'append' gives what is final: take mode='update', or leave "
            "out early"
        )
    query.plan(plan)  # or an error
    return mode


def _with_types(engine: str, types: Mapping[str, DataType | str] | None) -> str:
    """Return the engine for results of declared types: Spark's windows have types of their own."""
    if types and engine == "native":
        raise TypeError(
            f"engine='native' cannot be: Spark knows the types of {', '.join(map(repr, types))}; leave "
            "types out"
        )
    return "muntin" if types else engine


def columns_asked(df: DataFrame, query: Query) -> list[str]:
    """Return the columns that a query needs, or say which is missing or of a type that cannot serve."""
    needs = Requirements.of(query)
    asked = {query.time: "time", **dict.fromkeys(query.keys, "keys")}
    asked |= {name: "aggregates" for name in query.columns if name not in asked}
    for name, part in asked.items():
        if df.columns.count(name) != 1:
            there = ", ".join(map(repr, df.columns))
            raise ValueError(
                f"no column {name!r}, which the query's {part} ask for: the DataFrame has {there}"
                if name not in df.columns
                else f"the DataFrame has two columns {name!r}: rename one"
            )
    kind = df.schema[query.time].dataType
    if df.isStreaming and not isinstance(kind, TimestampType):
        raise TypeError(
            f"the time column {query.time!r} is {kind.simpleString()}: Spark's watermark needs a "
            f"timestamp; cast it, or make one with timestamp_micros({query.time})"
        )
    if not isinstance(kind, TIMES):
        raise TypeError(
            f"the time column {query.time!r} is {kind.simpleString()}: times are timestamps, dates or "
            "whole numbers"
        )
    for name in query.keys:
        kind = df.schema[name].dataType
        if isinstance(kind, UNHASHED):
            raise TypeError(f"column {name!r} is {kind.simpleString()}, which cannot be a key")
    return [*(df.columns if needs.whole_rows else asked)]


def check_pickles(query: Query) -> None:
    """Refuse what cannot be sent to Spark's workers, by its name."""
    named = {f"aggregate {n!r}": a for n, a in query.aggregates.items()}
    for name, part in {**named, **{f"window {n!r}": w for n, w in query.windows.items()}}.items():
        try:
            pickle.loads(cloudpickle.dumps(part))  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever the user's objects raise
            raise TypeError(
                f"{name} cannot be sent to Spark's workers: {error}; let its functions refer to "
                "plain values only, and make connections, locks and files inside of them"
            ) from error


def _watermarked(df: DataFrame, query: Query) -> DataFrame:
    """Return the stream with the query's watermark, or with the one that it has."""
    provider = df.sparkSession.conf.get(PROVIDER)
    if provider != ROCKSDB:
        raise ValueError(
            f"state needs Spark's RocksDB store, and {PROVIDER} is {provider}: start with "
            f"muntin.spark.session(), or set it to {ROCKSDB}"
        )
    if _held(df, query) is not None:
        return df
    if query.ahead is not None:
        return guarded(df, query)
    return df.withWatermark(query.time, f"{query.delay} microseconds")


def _held(df: DataFrame, query: Query) -> int | None:
    """Return the delay in ms of the watermark that a stream has, or None if the query has one."""
    delays = {f.name: f.metadata[DELAY] for f in df.schema.fields if DELAY in f.metadata}
    held = delays.get(query.time)
    if held is None and query.watermark is None:
        raise ValueError(
            f"the stream has no watermark on {query.time!r}: say in the query how late rows may be "
            "(watermark='10 seconds'), or call withWatermark before"
        )
    if held is not None and query.ahead is not None:
        raise ValueError(
            f"the stream has a watermark on {query.time!r} already, which rows ahead of the clock move: "
            "leave withWatermark out, and say watermark= in the query beside max_ahead"
        )
    if held is not None and query.watermark is not None and query.delay != 1000 * held:
        raise ValueError(
            f"the stream has a watermark of {held} ms on {query.time!r} and the query one of "
            f"{query.delay / 1000:g} ms: leave one of them out"
        )
    return held


def selected(df: DataFrame, query: Query, names: list[str]) -> DataFrame:
    """Return the columns that are needed, times as microseconds."""
    moment = moment_of(df, query.time)
    columns = [moment if n == query.time else F.col(f"`{n}`") for n in names]
    named = [column.alias(name) for column, name in zip(columns, names, strict=True)]
    return df.select(*named, *([FAR] if FAR in df.columns else []))


def moment_of(df: DataFrame, name: str) -> Column:
    """Return a column of times, of which timestamps are microseconds."""
    moment = F.col(f"`{name}`")
    is_stamp = isinstance(df.schema[name].dataType, TimestampType)
    return F.unix_micros(moment) if is_stamp else moment


def _arrow_type(name: str, kind: DataType | str, query: Query) -> pa.DataType:
    if name not in query.aggregates:
        there = ", ".join(map(repr, query.aggregates))
        raise ValueError(f"types declares {name!r}, which is no aggregate: there are {there}")
    parsed = DataType.fromDDL(kind) if isinstance(kind, str) else kind
    return arrow_schema(StructType([StructField(name, parsed)])).field(0).type


def _result_schema(df: DataFrame, query: Query, results: pa.Schema) -> StructType:
    """Return the results' schema: keys as the DataFrame has them."""
    found = from_arrow_schema(results, prefer_timestamp_ntz=True)
    keys = {name: df.schema[name].dataType for name in query.keys}
    return StructType([StructField(f.name, keys.get(f.name, f.dataType)) for f in found.fields])
