"""Conditions in SQL: Spark answers them before the rows leave it, each in a boolean column."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from muntin.aggregates import Aggregate
from muntin.aggregates.conditions import Condition
from muntin.query.query import Query

ANSWER = "__muntin_where_"


def answered(df: DataFrame, query: Query) -> tuple[DataFrame, Query]:
    """Return a DataFrame with the answers to conditions in SQL, and the query that reads them there.

    What is no column of the DataFrame is SQL. A condition stays known by its text, and the column of its
    answers is named by it: rows in a checkpoint have that column.
    """
    read: dict[Condition, Condition] = {}
    for condition in query.conditions:
        text = condition.column
        if text is None:
            continue
        name = text
        if text not in df.columns:
            name = ANSWER + blake2b(text.encode(), digest_size=8).hexdigest()
            read[condition] = Condition(condition.text, ("column", name))
            df = _with_answer(df, name, text)
        kind = df.schema[name].dataType
        if not isinstance(kind, BooleanType):
            raise TypeError(f"where={text!r} is {kind.simpleString()}, neither true nor false")
    if not read:
        return df, query
    reading = {name: _reading(a, read) for name, a in query.aggregates.items()}
    return df, replace(query, aggregates=reading)


def _with_answer(df: DataFrame, name: str, text: str) -> DataFrame:
    try:
        return df.withColumn(name, F.expr(text))
    except AnalysisException as error:
        raise ValueError(
            f"where={text!r} is neither a column of the DataFrame nor a condition in SQL: {error}"
        ) from error


def _reading(aggregate: Aggregate, read: Mapping[Condition, Condition]) -> Aggregate:
    """Return an aggregate, and its parts, with conditions that read the answers."""
    where = aggregate.where
    return replace(
        aggregate,
        where=read.get(where, where),
        parts=tuple(_reading(part, read) for part in aggregate.parts),
    )
