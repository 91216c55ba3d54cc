"""The types of a query's results, which Spark wants to know before the first row.

On numbers a kernel tells its result's type. Other aggregates are tried: on a few values of the columns'
types, in windows of one, two and three rows.
"""

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from muntin.query import Query
from muntin.windows import Tumbling

TRIES = 3


def result_types(query: Query, empty: pa.Table, declared: dict[str, pa.DataType]) -> pa.Schema:
    """Return the names and types of the results' columns; `empty` is a table of the rows' types."""
    operator = query.operator()
    operator.expect(empty)
    fields = []
    for field in operator.results().schema:
        kind = declared.get(field.name, field.type)
        if kinds.is_null(kind) and field.name in query.aggregates:
            kind = _tried(query, field.name, empty.schema)
        fields.append(pa.field(field.name, _spark_knows(kind)))
    return pa.schema(fields)


def _tried(query: Query, name: str, schema: pa.Schema) -> pa.DataType:
    """Return the type that an aggregate's results have on a few values."""
    one = Query(
        time=query.time,
        windows={"try": Tumbling(1)},
        aggregates={name: query.aggregates[name]},
    )
    rows = {field.name: _samples(field.type) for field in schema if field.name in one.columns}
    found = pa.null()
    for count in range(1, TRIES + 1):
        columns = {n: pa.array(values[:count], schema.field(n).type) for n, values in rows.items()}
        columns[query.time] = pa.array([0] * count)
        try:
            kind = one.run(pa.table(columns)).schema.field(name).type
            found = (
                pa.unify_schemas(
                    [pa.schema([(name, found)]), pa.schema([(name, kind)])],
                    promote_options="permissive",
                )
                .field(name)
                .type
            )
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
    """Return three values of a type."""
    day = dt.datetime(2001, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    if kinds.is_boolean(kind):
        return [True, False, True]
    if kinds.is_integer(kind):
        return [1, 2, 4]
    if kinds.is_floating(kind):
        return [1.5, 2.25, 4.0]
    if kinds.is_decimal(kind):
        return [decimal.Decimal(i).scaleb(-kind.scale) for i in (1, 2, 4)]
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return ["a", "b", "ab"]
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return [b"a", b"b", b"ab"]
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
