"""Queries that change while they run: each case that was wrong once, and what is refused."""

from dataclasses import replace

import pyarrow as pa
import pytest

import muntin as mt
from muntin.query.operator import LOOK_EVERY
from muntin.query.query import COLUMNS, MEASURES
from muntin.spark.packing import Packing
from muntin.spark.shard import Copies, Shard
from tests.window_oracle import bounds


class Fours(mt.ContextFreeWindow):
    """A window of one's own: [0, 4), [4, 8), ..."""

    def next_edge(self, t):
        return (t // 4 + 1) * 4

    def closed(self, after, upto):
        for end in range((after // 4 + 1) * 4, upto + 1, 4):
            yield end - 4, end


SUMS = {"n": mt.Count(), "s": mt.Sum("v")}
LIST = {"c": mt.Collect("v")}


def query(windows, aggregates, **options):
    return mt.Query(time="t", windows=windows, aggregates=aggregates, **options)


def process(operator, *times, **columns):
    return operator.process({"t": list(times), "v": list(times), **columns}).to_pylist()


def told(table, *names):
    """Return the start, end and values of the windows of some names."""
    rows = table if isinstance(table, list) else table.to_pylist()
    parts = (*COLUMNS, *MEASURES)
    return [
        (*bounds(row), *(v for name, v in row.items() if name not in parts))
        for row in rows
        if row["window"] in names
    ]


def test_slices_that_were_joined_are_not_believed_to_be_cut():
    operator = query({"a": mt.Sliding(15, 10)}, SUMS, ordered=True).operator()
    process(operator, 3, 7)
    operator.add_window("b", mt.Tumbling(10, origin=5))
    found = process(operator, 9, 20) + process(operator, 40)
    assert told(found, "b") == [(15, 25, 1, 20)]


def test_the_last_rows_that_are_added_begin_after_the_last_row():
    operator = query({"a": mt.Tumbling(1000)}, LIST, lateness=1000).operator()
    process(operator, 60, 70)
    operator.advance(80)
    operator.add_window("b", mt.LastN(2, 10))
    process(operator, 55, 105)
    assert told(operator.advance(110), "b") == []
    process(operator, 107)
    assert told(operator.advance(120), "b") == [(0, 110, [105, 107]), (0, 120, [105, 107])]


def test_rows_are_folded_again_in_slices_as_they_were_cut():
    windows = {"a": mt.Delta("km", 4), "b": mt.Delta("km", 20)}
    operator = query(windows, LIST, lateness=100).operator()
    process(operator, 5, 7, km=[5, 7])
    operator.remove_window("a")
    operator = operator.query.restore(operator.snapshot())
    process(operator, 9, km=[9])
    process(operator, 1, 30, km=[1, 30])
    assert told(operator.advance(40), "b") == [(0, 20, [1, 5, 7, 9])]


def test_rows_as_dicts_go_with_the_window_that_needed_them():
    windows = {"l": mt.LastN(2, 10), "p": mt.Punctuation("p")}
    operator = query(windows, {"n": mt.Count()}).operator()
    operator.process({"t": [1], "p": [True]})
    operator.remove_window("p")
    operator.process({"t": [3], "p": [False]})
    assert told(operator.advance(10), "l") == [(0, 10, 2)]


def test_the_last_ticks_do_not_depend_on_other_windows():
    rows = {"t": [1, 25], "v": [1, 2]}
    alone = query({"l": mt.LastN(2, 10)}, SUMS).run(rows)
    beside = query({"l": mt.LastN(2, 10), "long": mt.Tumbling(1000)}, SUMS).run(rows)
    assert told(beside, "l") == told(alone, "l")


def test_windows_that_do_not_repeat_are_reported_once_beside_one_that_does():
    windows = {"own": mt.Fixed(72, 8), "sliding": mt.Sliding(31, 8)}
    operator = query(windows, SUMS, lateness=15, emit="changes").operator()
    operator.advance(80)
    process(operator, 79)
    assert told(operator.advance(86), "own") == [(72, 80, 1, 79)]
    assert told(operator.advance(134), "own") == []


def test_changes_of_an_added_window_begin_with_its_first_end():
    operator = query({"a": mt.Tumbling(100)}, {"n": mt.Count()}, emit="changes").operator()
    process(operator, 10)
    operator.add_window("b", mt.Sliding(10, 1))
    process(operator, 12)
    assert told(operator.advance(40), "b") == [(11, 21, 1), (13, 23, None)]


@pytest.mark.parametrize("plan", ["auto", "eager", "naive", "buckets"])
@pytest.mark.parametrize("ordered", [False, True])
def test_an_added_aggregate_is_null_where_a_row_is_from_before(plan, ordered):
    windows = {"w": mt.Tumbling(10), "s": mt.Session(3), "n": mt.Tumbling(2, measure="count")}
    operator = query(windows, {"n": mt.Count()}, ordered=ordered, lateness=20).operator(plan)
    found = process(operator, 1, 2, 8)
    operator.add_aggregate("c", mt.Collect("v"))
    found += process(operator, 9, 21, 22)
    operator = operator.query.restore(operator.snapshot())
    found += process(operator, 45, 46) + operator.advance(60).to_pylist()
    assert sorted(told(found, "w")) == [
        (0, 10, 4, None),
        (20, 30, 2, [21, 22]),
        (40, 50, 2, [45, 46]),
    ]
    assert sorted(told(found, "s"))[1:] == [
        (8, 12, 2, None),
        (21, 25, 2, [21, 22]),
        (45, 49, 2, [45, 46]),
    ]
    counted = {bounds(row)[0]: row.get("c") for row in found if row["window"] == "n"}
    assert counted == {0: None, 2: None, 4: [21, 22], 6: [45, 46]}


def test_rows_are_kept_as_long_as_an_aggregate_needs_them():
    operator = query({"w": mt.Tumbling(10)}, {"n": mt.Count()}, lateness=50).operator()
    process(operator, 1, 2)
    operator.add_aggregate("c", mt.Collect("v"))
    process(operator, 14, 12)
    assert operator.counters.rows_kept == 2
    operator.remove_aggregate("c")
    assert operator.counters.rows_kept == 0
    assert told(operator.advance(20), "w") == [(0, 10, 2), (10, 20, 2)]


def test_an_aggregate_over_some_windows_costs_the_others_nothing():
    windows = {"short": mt.Tumbling(5), "long": mt.Tumbling(10)}
    operator = query(windows, {**SUMS, "m": mt.Median("v").over("long")}).operator()
    process(operator, 1, 7, 8)
    lanes = operator.plain()["lanes"]
    assert {tuple(names): held for _, names, held, _ in lanes} == {
        ("short",): ["n", "s"],
        ("long",): ["n", "s", "m"],
    }
    table = operator.advance(10)
    assert told(table, "short") == [(0, 5, 1, 1, None), (5, 10, 2, 15, None)]
    assert told(table, "long") == [(0, 10, 3, 16, 7.0)]


def test_an_aggregate_is_over_windows_that_the_query_has():
    with pytest.raises(ValueError, match="'m' is over window 'hour', which the query has not"):
        query({"w": mt.Tumbling(5)}, {"m": mt.Median("v").over("hour")})
    with pytest.raises(TypeError, match="names of windows"):
        mt.Median("v").over()


def test_raised_lateness_holds_for_windows_that_end_later():
    operator = query({"w": mt.Tumbling(10)}, {"n": mt.Count()}).operator()
    process(operator, 5, 15)
    operator.advance(10)
    operator.change_lateness(100)
    process(operator, 6, 16)
    assert operator.counters.dropped == 1
    assert told(operator.advance(20), "w") == [(10, 20, 2)]
    process(operator, 17)
    assert told(operator.advance(21), "w") == [(10, 20, 3)]


def test_a_state_serves_a_query_with_nothing_in_common_but_its_keys():
    operator = query({"w": mt.Session(5), "p": mt.Tumbling(10)}, SUMS).operator()
    process(operator, 1, 2)
    other = query({"x": mt.Tumbling(20)}, {"top": mt.Max("v")})
    operator = other.restore(operator.snapshot())
    process(operator, 9, 25)
    assert told(operator.advance(40), "x") == [(0, 20, None), (20, 40, 25)]
    for refused in (
        replace(other, ordered=True),
        replace(other, time="v"),
        replace(other, keys="k"),
    ):
        with pytest.raises(mt.SnapshotError, match="of another query"):
            refused.restore(operator.snapshot())


def test_aggregates_are_added_at_once_of_which_one_is_over_some_windows():
    asked = query({"w": mt.Tumbling(10), "x": mt.Tumbling(5)}, {"n": mt.Count()})
    operator = asked.operator()
    process(operator, 1)
    more = {"s": mt.Sum("v"), "m": mt.Median("v").over("w")}
    operator = replace(asked, aggregates=more).restore(operator.snapshot())
    process(operator, 13, 18)
    table = operator.advance(20)
    assert told(table, "w") == [(0, 10, None, None), (10, 20, 31, 15.5)]
    assert told(table, "x") == [(0, 5, None, None), (10, 15, 13, None), (15, 20, 18, None)]


def test_a_window_that_was_added_stays_whole_when_another_is():
    """In an ordered stream slices are joined where windows end; an added window knew of its ends."""
    operator = query({"a": mt.Session(10)}, {"n": mt.Count()}, ordered=True, keys="k").operator()
    process(operator, 1, k=["a"])
    operator.add_window("b", mt.Sliding(5, 7))
    process(operator, 9, 14, k=["a", "b"])
    operator.add_window("c", mt.Tumbling(8))
    assert told(process(operator, 15, k=["a"]), "b") == [(7, 12, "a", 1)]


@pytest.mark.parametrize("window", [Fours(), mt.Cumulate(6, 3), mt.Fixed(3, 4)])
def test_windows_that_are_listed_wait_for_keys(window, monkeypatch):
    monkeypatch.setattr("muntin.query.operator.MANY_KEYS", 1)
    operator = query({"w": window}, {"n": mt.Count()}, ordered=True, keys="k").operator()
    process(operator, 4, k=["a"])
    for watermark in range(20, 20 + 2 * LOOK_EVERY):
        operator.advance(watermark)
    assert operator.counters.keys == 0
    found = process(operator, 88, 99, k=["a", "a"])
    assert (len(found) > 0) == (not isinstance(window, mt.Fixed))


def test_a_punctuation_knows_of_rows_from_before_it_was_added_when_their_key_was_forgotten(
    monkeypatch,
):
    monkeypatch.setattr("muntin.query.operator.MANY_KEYS", 1)
    operator = query({"w": mt.Tumbling(10)}, LIST, keys="k").operator()
    process(operator, 5, k=["a"], p=[False])
    operator.add_window("p", mt.Punctuation("p"))
    for watermark in range(20, 20 + 2 * LOOK_EVERY):
        operator.advance(watermark)
    assert operator.counters.keys == 0
    process(operator, 61, 63, 68, k=["a"] * 3, p=[False, True, True])
    assert told(operator.advance(70), "p") == [(63, 68, "a", [63])]


def test_changes_begin_with_nulls_whose_type_is_not_known():
    """`Last` of nulls is null, a count of them 0, and a sum that was added has no value."""
    aggregates = {"n": mt.Count("v"), "last": mt.Last("v", nulls=True)}
    operator = query({"w": mt.Tumbling(5)}, aggregates, emit="changes", lateness=20).operator()
    operator.process({"t": [1, 6], "v": [None, None]})
    operator.add_aggregate("m", mt.Count("v"))
    found = told(operator.advance(10), "w")
    assert found == [(0, 5, 0, None, None)]
    operator.process({"t": [12, 17, 23], "v": [None, None, 3]})
    assert told(operator.advance(25), "w") == [(10, 15, 0, None, 0), (20, 25, 1, 3, 1)]


class Blocks(dict):
    """A state store in memory."""

    def put(self, name, block):
        self[name] = block

    def delete(self, name):
        del self[name]


def micro_batch(asked, store, times, watermark, columns=("t", "v")):
    """Let a shard take rows, as a stream that was started again; return what it reports."""
    table = pa.table({name: pa.array(times, pa.int64()) for name in columns})
    packing = Packing(f"{id(asked)}", asked, table.slice(0, 0))
    packed = [payload for _, payload in packing.pack(table, 1)] if len(table) else []
    done = Shard(packing, store, {"columns": [(c, "int64") for c in columns]}, Copies()).take(
        packed, watermark
    )
    return [] if done.results is None else done.results.to_pylist()


def test_a_window_that_is_added_to_a_store_counts_no_rows_that_were_dropped_while_folding():
    asked, store = query({"a": mt.Sliding(5, 10)}, {"n": mt.Count()}), Blocks()
    micro_batch(asked, store, [3, 7], 0)
    more = replace(asked, windows={**asked.windows, "b": mt.Tumbling(10)})
    found = micro_batch(more, store, [9, 14], 20)
    assert told(found, "b") == [(10, 20, 1)]


@pytest.mark.parametrize("beside", [mt.Fixed(3, 4), mt.Sliding(7, 3)])
def test_a_window_that_is_added_to_a_store_begins_where_the_cuts_are_known(beside):
    asked, store = query({"a": beside}, {"n": mt.Count()}), Blocks()
    micro_batch(asked, store, [4, 6], 0)
    micro_batch(asked, store, [3, 5], 1)
    more = replace(asked, windows={**asked.windows, "b": mt.Tumbling(5)})
    found = micro_batch(more, store, [4, 11], 20)
    assert told(found, "b") == [(10, 15, 1)]


def test_a_log_is_replayed_under_what_is_left_of_the_query_that_wrote_it():
    asked, store = query({"a": mt.Tumbling(10), "s": mt.Session(3)}, SUMS), Blocks()
    micro_batch(asked, store, [3, 7], 0, ("t", "v"))
    other = query(
        {"a": mt.Tumbling(10), "n": mt.Tumbling(1, measure="count")}, {"top": mt.Max("w")}
    )
    found = micro_batch(other, store, [8, 11], 20, ("t", "w"))
    assert told(found, "a") == [(0, 10, None), (10, 20, 11)]
    assert told(found, "n") == [(0, 1, 8), (1, 2, 11)]


def test_what_has_no_meaning_is_refused_before_anything_is_written():
    asked, store = query({"a": mt.Tumbling(10)}, SUMS), Blocks()
    micro_batch(asked, store, [3, 7], 0)
    before = dict(store)
    with pytest.raises(mt.SnapshotError, match=r"\'size\': 10\}\} in the checkpoint"):
        micro_batch(replace(asked, windows={"a": mt.Tumbling(12)}), store, [8], 20)
    assert store == before
