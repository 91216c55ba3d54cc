"""Every aggregate x every type x extreme values through a query, against exact arithmetic.

Results are right in value and type, or there is an error that says which aggregate, key and window it is
about. Tables come in at once, in pieces, in order, late, folded, and after restarts, under all plans.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import muntin as mt
from muntin.spark.packing import Packing
from tests.number_oracle import (
    AGGREGATES,
    DTYPES,
    EVERY,
    OVERFLOW,
    SIZE,
    agrees,
    as_plain,
    as_table,
    expected_windows,
    overflowing,
    random_rows,
    result_type,
)

FEW = ("int8", "int64", "uint64", "float64", "bool", "decimal(38,10)")
FEW += ("timestamp[us, Europe/Berlin]", "duration[ns]", "string")


def asked(aggregate: mt.Aggregate, **options: Any) -> mt.Query:
    return mt.Query(
        time="t",
        keys=("k",),
        windows={"twenty": mt.Sliding(SIZE, EVERY)},
        aggregates={"answer": aggregate},
        **options,
    )


# Places: a query and a table in, tables of results out


def at_once(plan: str) -> Callable[[mt.Query, pa.Table], list[pa.Table]]:
    return lambda query, table: [query.run(table, plan)]


def in_order(query: mt.Query, table: pa.Table) -> list[pa.Table]:
    """Push sorted rows in pieces; windows are reported as soon as a row has passed them."""
    operator = replace(query, ordered=True).operator()
    return [*map(operator.process, pieces(table.sort_by("t"))), operator.complete()]


def in_pieces(query: mt.Query, table: pa.Table, restarts: bool = False) -> list[pa.Table]:
    """Push rows as they came while the watermark advances; windows are corrected afterwards."""
    query = replace(query, lateness=10_000)
    operator, results = query.operator(), []
    for i, piece in enumerate(pieces(table)):
        results.append(operator.process(piece))
        results.append(operator.advance(12 * i))
        operator = query.restore(operator.snapshot()) if restarts else operator
    return [*results, operator.complete()]


def with_restarts(query: mt.Query, table: pa.Table) -> list[pa.Table]:
    return in_pieces(query, table, restarts=True)


def folded_and_merged(query: mt.Query, table: pa.Table) -> list[pa.Table]:
    """Fold pieces apart from each other and merge them in two shards, as on Spark."""
    packing = Packing(f"numbers {query.aggregates} {table.schema}", query, table.slice(0, 0))
    shards: dict[int, list[bytes]] = {}
    for piece in pieces(table):
        for shard, packed in packing.pack(piece, 2):
            shards.setdefault(shard, []).append(packed)
    results = []
    for payloads in shards.values():
        operator = packing.operator(query)
        results += [*packing.feed(operator, payloads), operator.complete()]
    return results


def pieces(table: pa.Table) -> list[pa.Table]:
    rng = random.Random(table.num_rows)
    cuts = sorted({0, table.num_rows, *(rng.randint(0, table.num_rows) for _ in range(4))})
    return [table.slice(a, b - a) for a, b in pairwise(cuts)]


class Place(NamedTuple):
    """Where a query runs; `reports_early` if windows are reported before all their rows came."""

    run: Callable[[mt.Query, pa.Table], list[pa.Table]]
    reports_early: bool = False


PLACES = {
    "at once": Place(at_once("auto")),
    "eager": Place(at_once("eager")),
    "buckets": Place(at_once("buckets")),
    "tuple buffer": Place(at_once("tuple buffer")),
    "in order": Place(in_order),
    "in pieces": Place(in_pieces, reports_early=True),
    "with restarts": Place(with_restarts, reports_early=True),
    "folded and merged": Place(folded_and_merged),
}
SOMETIMES = ("at once", "with restarts", "in pieces")
OFTEN = [("at once", dtype) for dtype in DTYPES]
OFTEN += [(place, dtype) for place in PLACES if place != "at once" for dtype in FEW]


def matrix():
    """Return all places with many types, or each place once: most of them without a compiler."""
    for name, known in AGGREGATES.items():
        pairs = OFTEN
        if known.dtypes:
            compiled, interpreted, *_ = known.dtypes
            pairs = [(place, interpreted) for place in PLACES if place not in SOMETIMES]
            pairs += [("with restarts", compiled), *(("at once", d) for d in known.dtypes)]
        yield from ((place, dtype, name) for place, dtype in dict.fromkeys(pairs))


def results_of(tables: list[pa.Table]) -> tuple[pa.DataType, dict[Any, Any]]:
    """Return the type of results, and the last result of each window."""
    reports = [table for table in tables if table.num_rows]
    kind = reports[0].schema.field("answer").type
    results = {}
    for table in reports:
        assert table.schema.field("answer").type == kind
        names, starts = table["k"].to_pylist(), table["start"].to_pylist()
        results |= dict(
            zip(zip(names, starts, strict=True), as_plain(table["answer"]), strict=True)
        )
    return kind, results


def compare(results: dict[Any, Any], wanted: dict[Any, Any]) -> None:
    assert results.keys() == wanted.keys()
    wrong = {w: (results[w], wanted[w]) for w in wanted if not agrees(results[w], wanted[w])}
    assert not wrong, f"(result, expected) by window: {wrong}"


@pytest.mark.parametrize(("place", "dtype", "name"), list(matrix()))
def test_results_are_exact_and_keep_their_type(place, dtype, name):
    known, kind = AGGREGATES[name], DTYPES[dtype].type
    aggregate = known.make("v", "a") if known.takes_pairs else known.make("v")
    rows, run = random_rows(name, dtype), PLACES[place].run
    if result_type(name, kind) is None:
        if name != "Concat":
            refused(run, aggregate, as_table(rows, kind))
        return
    too_large = overflowing(name, kind, rows, PLACES[place].reports_early)
    fitting = [row for row in rows if row.k not in too_large]
    found, results = results_of(run(asked(aggregate), as_table(fitting, kind)))
    compare(results, expected_windows(name, kind, fitting))
    assert found == result_type(name, kind)
    if too_large:
        overflows(run, aggregate, as_table(rows, kind), too_large)
        if name in NULLS:
            nulls_instead(name, run, rows, kind)


def refused(run, aggregate, table):
    """The aggregate is refused, not its results found wanting."""
    with pytest.raises(TypeError) as error:
        run(asked(aggregate), table)
    message = str(error.value)
    assert "answer" in message or aggregate.name in message
    assert "'v'" in message or str(table.schema.field("v").type) in message


def overflows(run, aggregate, table, keys):
    with pytest.raises(OverflowError) as error:
        run(asked(aggregate), table)
    message = str(error.value)
    assert "answer" in message or aggregate.name in message
    assert any(key in message for key in keys)
    assert "twenty" in message


NULLS = {"Sum": mt.Sum, "Prod": mt.Prod, "Increase": mt.Increase}


def nulls_instead(name, run, rows, kind):
    wanted = expected_windows(name, kind, rows)
    assert OVERFLOW in wanted.values() or run in (in_pieces, with_restarts)
    wanted = {window: None if sum_ is OVERFLOW else sum_ for window, sum_ in wanted.items()}
    found, results = results_of(run(asked(NULLS[name]("v", overflow="null")), as_table(rows, kind)))
    compare(results, wanted)
    assert found == result_type(name, kind)


@pytest.mark.parametrize("name", ["Sum", "Mean", "Median", "Range", "Var", "Std", "GeoMean"])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([b"a", b"b"]),
        pa.array([1, 2], pa.time64("us")),
        pa.array([1, 2], pa.time32("s")),
        pa.array([[1], [2]]),
        pa.array([{"x": 1}, {"x": 2}]),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array(["a", "b"], pa.large_string()),
    ],
    ids=lambda array: str(array.type)[:12],
)
def test_what_is_no_number_is_refused(name, values):
    table = pa.table({"t": [1, 2], "k": ["a", "a"], "v": values})
    refused(at_once("auto"), AGGREGATES[name].make("v"), table)
