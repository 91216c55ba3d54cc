"""Rows ahead of the clock: one far in the future would move the watermark, and end a stream for good."""

import time
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.dataframes.batches import Batch
from muntin.query.at_time import time_of
from muntin.query.query import Query


def near(batch: Batch, query: Query, now: Any) -> Batch:
    """Return the rows whose time is at most `max_ahead` after now, by the clock if it is not given.

    Times without a zone are compared with the clock as if they were in UTC.
    """
    if query.ahead is None:
        if now is not None:
            raise ValueError(
                f"now={now!r} is for a query with max_ahead: give it one, such as '1 day', or leave now "
                "out"
            )
        return batch
    if now is None and pa.types.is_integer(batch.time_type):
        raise ValueError(
            f"the times in {query.time!r} are whole numbers, which a clock does not tell: say what is "
            f"now, as in now={int(batch.times.max(initial=0))}"
        )
    limit = (time.time_ns() // 1000 if now is None else time_of(now, "now")) + query.ahead
    kept = np.flatnonzero(batch.times <= limit)
    return batch if len(kept) == batch.rows else batch.take(kept)
