"""Whether a checkpoint serves a query, found out before the stream starts.

Spark's state reader gives the state as it was after the last micro-batch. The header of each shard says
which query it is of. Nothing is written.
"""

from collections import defaultdict
from pathlib import PurePath
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muntin.aggregates import SnapshotError
from muntin.query.changing import left_of
from muntin.query.query import Query, identity
from muntin.spark.shard import HEADER, Header
from muntin.spark.state_map import BLOCKS, StateMap, of_name

NO_STATE = "STDS_COMMITTED_BATCH_UNAVAILABLE"
OURS = "transformWithState"


def check(checkpoint: str | PurePath, query: Query, *, trust_functions: bool = False) -> None:
    """Raise SnapshotError, with one sentence, if a checkpoint cannot serve a query.

    Windows and aggregates may have come or gone, and the lateness may be another. A checkpoint without
    a complete micro-batch serves every query. Of a stream with several queries, one must be this one.
    `trust_functions` takes your own functions as they are. Cost: one read of the state.
    """
    if not isinstance(query, Query):
        raise TypeError(f"check takes a checkpoint and a muntin.Query, got {query!r}")
    known, errors = identity(query), []
    operators = _operators(str(checkpoint))
    for operator in operators:
        try:
            for header in _headers(str(checkpoint), operator):
                left_of(
                    query,
                    known,
                    header.query,
                    None,
                    trust_functions=trust_functions,
                    place="checkpoint",
                )
        except SnapshotError as error:
            errors.append(error)
    if operators and len(errors) == len(operators):
        raise errors[0]


def _operators(checkpoint: str) -> list[int]:
    """Return the numbers of the operators that may be shards; none if no micro-batch is complete."""
    try:
        rows = SparkSession.active().read.format("state-metadata").load(checkpoint).collect()
    except PySparkException as error:
        if error.getCondition() == NO_STATE:
            return []
        raise
    found = {row.operatorId for row in rows if row.operatorName.startswith(OURS)}
    if rows and not found:
        raise _not_ours(checkpoint)
    return sorted(found)


def _headers(checkpoint: str, operator: int) -> list[Header]:
    """Return the headers of all shards of an operator."""
    state = SparkSession.active().read.format("statestore").option("operatorId", operator)
    try:
        read = state.option("stateVarName", BLOCKS).load(checkpoint)
        rows = read.where(of_name(F.col("user_map_key.name"), HEADER)).collect()
    except PySparkException as error:
        if error.getCondition() == NO_STATE:
            return []
        raise _not_ours(checkpoint) from error
    shards: dict[Any, dict[Any, Any]] = defaultdict(dict)
    for row in rows:
        shards[row.key.shard][(row.user_map_key.name,)] = (row.user_map_value.piece,)
    return [Header.read(_block(pieces)) for pieces in shards.values()]


def _block(pieces: dict[Any, Any]) -> bytes:
    """Return the bytes of a shard's header."""
    block = StateMap(_Read(pieces)).get(HEADER)
    assert block is not None
    return block


def _not_ours(checkpoint: str) -> SnapshotError:
    return SnapshotError(
        f"the checkpoint {checkpoint} is of a stream without a query of muntin: choose another one"
    )


class _Read:
    """The pieces of a shard as a map of Spark's that is only read."""

    def __init__(self, pieces: dict[Any, Any]) -> None:
        self.getValue = pieces.get
