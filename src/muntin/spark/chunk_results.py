"""One aggregate over the frames of a chunk of rows, by the kernel that serves it, as an Arrow array."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from muntin.dataframes.arrow_results import DoesNotFitError, results_as_arrow
from muntin.dataframes.batches import Batch
from muntin.dataframes.columns import Column
from muntin.dataframes.rolling_results import too_large
from muntin.kernels.order_statistics import roll_ranks
from muntin.kernels.rolling_columns import Rows, roll_objects, roll_spans
from muntin.kernels.spans import Spans
from muntin.query.bound_aggregates import BoundAggregate, owned


class Chunk(Protocol):
    """Rows in order."""

    @property
    def batch(self) -> Batch: ...

    def arrow(self, name: str) -> pa.Array: ...


def rolled(
    feed: BoundAggregate,
    chunk: Chunk,
    spans: Spans,
    least: int | None,
    name_of: Callable[[int], str],
) -> pa.Array:
    """Return the aggregate of each span; null for those of fewer than `least` values.

    `name_of` gives the name of a span, for an error.
    """
    enough = np.ones(len(spans.starts), np.bool_)
    if least is not None:
        enough = _values(feed, chunk.batch, spans) >= least
    try:
        results = _rolled(feed, chunk, spans if enough.all() else spans.only(enough))
    except DoesNotFitError as error:
        span = int(np.flatnonzero(enough)[error.row])
        raise too_large(feed.aggregate, f"{feed.name!r} in {name_of(span)}", error.kind) from None
    if enough.all():
        return results
    return results.take(pa.array(np.cumsum(enough) - 1, mask=~enough))


def _rolled(feed: BoundAggregate, chunk: Chunk, spans: Spans) -> pa.Array:
    aggregate, batch = feed.aggregate, chunk.batch
    value = batch.columns[feed.columns[0]] if feed.columns else None
    if aggregate.picks and aggregate.kernel and value is not None and value.is_numeric:
        numbers = (owned(value.values), np.arange(batch.rows))
        found = roll_spans(aggregate, Rows(numbers, value.valid), spans, threads=1)
        rows = pa.array(found.arrays[0], mask=found.missing(1))
        return chunk.arrow(feed.columns[1]).take(rows)
    if aggregate.rank is not None and value is not None and _is_number(value):
        values, counts = roll_ranks(aggregate, value.values, value.valid, spans)
        missing = counts == 0
        rule = "mean" if aggregate.rank[1] else "value"
        return results_as_arrow(
            rule, values, missing if missing.any() else None, feed.types[0].as_arrow()
        )
    if feed.kernels.columns is None:
        inputs = feed.inputs(batch)[0].tolist()
        return feed.results((np.fromiter(roll_objects(aggregate, inputs, spans), object),))
    *arrays, valid = feed.inputs(batch)
    all_there = all(batch.columns[name].valid is None for name in feed.columns)
    form = feed.types[0].form if feed.types else ""
    rows = Rows(tuple(arrays), None if all_there else valid, form)
    found = roll_spans(aggregate, rows, spans, 1)
    fewest = 1 if aggregate.kernel is None else aggregate.kernel.least
    outs = (np.where(found.missing(fewest), 0, fewest), *found.arrays)
    if feed.kernels.overflows and not found.overflows:  # nothing could
        outs = (*outs, np.zeros(len(outs[0]), np.bool_))
    return feed.results(outs)


def _is_number(column: Column) -> bool:
    return column.is_numeric and column.dtype.kind not in "mM"


def _values(feed: BoundAggregate, batch: Batch, spans: Spans) -> Any:
    """Return the number of values in each span: of rows, for an aggregate that takes nulls along."""
    aggregate = feed.aggregate
    names = feed.columns[:1] if aggregate.picks else () if aggregate.nulls else feed.columns
    there = [v for name in names if (v := batch.columns[name].valid) is not None]
    if not there:
        return spans.ends - spans.starts
    sums = np.append(0, np.cumsum(np.logical_and.reduce(there)))
    return sums[spans.ends] - sums[spans.starts]
