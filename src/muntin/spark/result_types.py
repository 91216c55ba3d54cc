"""The types of a query's results, which Spark wants to know before the first row.

Built-in aggregates declare the type of their results. Others are tried: on a few values of the columns'
types, in windows of one, two and three rows.
"""

import datetime as dt
import decimal
from dataclasses import replace
from inspect import signature
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from muntin.aggregates import Aggregate
from muntin.aggregates.conditions import conditions_of
from muntin.query.query import Query, columns_of
from muntin.windows import Tumbling

TRIES = 3
TIME = "__muntin_time"
TEXTS = (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)


def result_types(query: Query, empty: pa.Table, declared: dict[str, pa.DataType]) -> pa.Schema:
    """Return the names and types of the results' columns; `empty` is a table of the rows' types."""
    operator = query.operator()
    operator.expect(empty)
    fields = []
    for field in operator.results().schema:
        aggregate = query.aggregates.get(field.name)
        kind = field.type
        if field.name in declared:
            kind = declared[field.name]
        elif aggregate is not None:
            kind = _result_type(field, aggregate, empty.schema)
        fields.append(pa.field(field.name, _spark_knows(kind)))
    return pa.schema(fields)


def _result_type(field: pa.Field, aggregate: Aggregate, schema: pa.Schema) -> pa.DataType:
    if not kinds.is_null(field.type):
        return field.type
    inputs = {name: schema.field(name).type for name in columns_of(aggregate)}
    whole = replace(aggregate, where=None)
    asked = {n: schema.field(n).type for c in conditions_of(whole) for n in c.columns}
    return _like(_tried(field.name, whole, inputs | asked), list(inputs.values()))


def _tried(name: str, aggregate: Aggregate, inputs: dict[str, pa.DataType]) -> pa.DataType:
    """Return the type that an aggregate's results have on a few values."""
    query = Query(time=TIME, windows={"try": Tumbling(1)}, aggregates={name: aggregate})
    rows = {column: _samples(kind) for column, kind in inputs.items()}
    found = pa.null()
    for count in range(1, TRIES + 1):
        columns = {column: pa.array(rows[column][:count], kind) for column, kind in inputs.items()}
        columns[TIME] = pa.array([0] * count)
        try:
            kind = query.run(pa.table(columns)).schema.field(name).type
            both = [pa.schema([(name, found)]), pa.schema([(name, kind)])]
            found = pa.unify_schemas(both, promote_options="permissive").field(name).type
        except Exception as error:  # a user's functions may raise anything
            raise TypeError(
                f"the type of {name!r} could not be found by trying it on {rows!r}: {error!r}; "
                f"declare it with types={{{name!r}: 'double'}}, or whichever it is"
            ) from error
    if kinds.is_null(found):
        raise TypeError(
            f"the type of {name!r} could not be found: it gave null for {rows!r}; declare it with "
            f"types={{{name!r}: 'double'}}, or whichever it is"
        )
    return found


def _samples(kind: pa.DataType) -> list[Any]:
    """Return three values of a type, or nulls for one that is not known here."""
    day = dt.datetime(2001, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    if kinds.is_boolean(kind):
        return [True, False, True]
    if kinds.is_integer(kind):
        return [1, 2, 4]
    if kinds.is_floating(kind):
        return [1.5, 2.25, 4.0]
    if kinds.is_decimal(kind):
        return [decimal.Decimal(i).scaleb(-kind.scale) for i in (1, 2, 4)]
    if any(test(kind) for test in TEXTS):
        return ["a", "b", "ab"] if "string" in str(kind) else [b"a", b"b", b"ab"]
    if kinds.is_timestamp(kind):
        days = [day + dt.timedelta(i) for i in range(TRIES)]
        return days if kind.tz else [day.replace(tzinfo=None) for day in days]
    if kinds.is_date(kind):
        return [(day + dt.timedelta(i)).date() for i in range(TRIES)]
    if kinds.is_duration(kind):
        return [dt.timedelta(i) for i in range(TRIES)]
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return [[value] for value in _samples(kind.value_type)]
    if kinds.is_struct(kind):
        fields = {field.name: _samples(field.type) for field in kind}
        return [{name: values[i] for name, values in fields.items()} for i in range(TRIES)]
    if kinds.is_map(kind):
        pairs = zip(_samples(kind.key_type), _samples(kind.item_type), strict=True)
        return [[pair] for pair in pairs]
    return [None] * TRIES


def _like(kind: pa.DataType, inputs: list[pa.DataType]) -> pa.DataType:
    """Return the type of a tried result with the time zone that its columns have, and many digits."""
    if kinds.is_timestamp(kind) and any(kinds.is_timestamp(i) and i.tz for i in inputs):
        return pa.timestamp("us", "UTC")
    if kinds.is_decimal(kind):
        scales = [i.scale for i in inputs if kinds.is_decimal(i)] or [kind.scale]
        return pa.decimal128(38, min(max(scales) + 4, 18))
    if kinds.is_list(kind):
        return pa.list_(_like(kind.value_type, inputs))
    if kinds.is_struct(kind):
        return pa.struct([(field.name, _like(field.type, inputs)) for field in kind])
    return kind


def _spark_knows(kind: pa.DataType) -> pa.DataType:
    """Return a type that Spark has and that holds all values of one that it has not."""
    if kinds.is_uint64(kind):
        return pa.decimal128(20, 0)
    if kinds.is_unsigned_integer(kind):
        return pa.int64()
    if kinds.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if kinds.is_duration(kind):
        return pa.duration("us")
    if kinds.is_float16(kind):
        return pa.float32()
    if kinds.is_list(kind):
        return pa.list_(_spark_knows(kind.value_type))
    if kinds.is_struct(kind):
        return pa.struct([(field.name, _spark_knows(field.type)) for field in kind])
    return kind


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types of a Spark schema, times in UTC, as Spark before 4.3 has them anyway."""
    takes_zone = "timezone" in signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if takes_zone else to_arrow_schema(schema)


def fitted(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Return results in the types that were declared, or say which does not fit."""
    columns = []
    for field in wanted:
        column = table[field.name]
        try:
            if kinds.is_decimal(field.type) and kinds.is_decimal(column.type):
                column = pc.round(column, field.type.scale, "half_towards_infinity")
            columns.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TypeError(
                f"results of {field.name!r} are {column.type} and were declared {field.type}: "
                f"declare another type with types={{{field.name!r}: ...}} ({error})"
            ) from error
    return pa.Table.from_arrays(columns, schema=wanted)
