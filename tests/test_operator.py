"""The operator as its users meet it: what it counts, what it undoes, what it forgets."""

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.slicing.partials import Partials


def query_of(windows, aggregates, **options):
    return mt.Query(time="t", windows=windows, aggregates=aggregates, **options)


def counted_sum(calls, **options):
    """Return a sum that counts its combines and inverses; lambdas over a list are not compiled."""

    def combine(a, b):
        calls.append("combine")
        return a + b

    return mt.Aggregate("sum", 0, lambda v: v, combine, commutative=True, columns=("v",), **options)


# Slices


@pytest.mark.parametrize(("ordered", "most"), [(False, 7), (True, 4)])
def test_in_order_slices_begin_only_where_windows_begin(ordered, most):
    operator = query_of({"w": mt.Sliding(11, 4)}, {"n": mt.Count()}, ordered=ordered).operator()
    for t in range(100):
        operator.process({"t": [t]})
        operator.advance(t)
    assert operator.counters.slices <= most


def test_a_row_is_combined_once_however_many_windows_it_is_in():
    calls = []
    windows = {f"w{n}": mt.Sliding(1000 * n, 1000) for n in range(1, 6)}
    operator = query_of(windows, {"total": counted_sum(calls)}).operator()
    operator.process({"t": np.arange(1000), "v": np.arange(1000)})
    assert len(calls) <= 1000  # one of them tries whether it can be compiled


def test_stretches_that_come_in_the_wrong_order_make_no_place_slice_by_slice(monkeypatch):
    """Two files of one batch, the later one first: each slice is put behind the last one of its key."""
    steps, replay = [], Partials.replay

    def counted(self, log, count, parts):
        steps.extend(log[:count, 0].tolist())
        return replay(self, log, count, parts)

    monkeypatch.setattr(Partials, "replay", counted)
    query = mt.Query(
        time="t", keys="k", windows={"w": mt.Tumbling(1)}, aggregates={"n": mt.Count()}
    )
    times = np.concatenate([np.repeat(np.arange(a, a + 100), 5) for a in (200, 0)])
    operator = query.operator()
    operator.process({"t": times, "k": np.tile(np.arange(5), 200)})
    assert steps == [0] * 1000, "every step is a new slice"
    assert operator.advance(1000)["n"].to_pylist() == [1] * 1000


def test_many_windows_do_not_walk_all_slices_each():
    calls, n = [], 200
    windows = {f"w{k}": mt.Tumbling(64 + k) for k in range(n)}
    operator = query_of(windows, {"total": counted_sum(calls)}).operator()
    operator.process({"t": np.arange(2048), "v": np.ones(2048, int)})
    calls.clear()
    results = operator.advance(2048)
    assert results.num_rows > 2000
    assert len(calls) < 2048 * 11 + results.num_rows


def test_only_changes_cost_combines_as_rows_do():
    calls = []
    hours = {"hour": mt.Sliding(3600, 1)}
    operator = query_of(hours, {"total": counted_sum(calls)}, emit="changes").operator()
    rows = 50
    operator.process({"t": np.arange(rows) * 10_000, "v": np.arange(rows) + 1})
    assert operator.advance(10_000 * rows).num_rows == 2 * rows
    assert len(calls) < 4 * rows


# Count slices, EDBT 2019, Figure 6


@pytest.mark.parametrize("invertible", [True, False])
def test_a_late_row_moves_rows_between_count_slices_by_the_inverse(invertible):
    calls = []

    def inverse(total, part):
        calls.append("inverse")
        return total - part

    aggregate = counted_sum(calls, inverse=inverse if invertible else None)
    windows = {"hundred": mt.Tumbling(100, measure="count")}
    operator = query_of(windows, {"total": aggregate}, lateness=10_000).operator()
    operator.process({"t": np.arange(1000) * 2, "v": np.arange(1000)})
    operator.advance(1998)
    calls.clear()
    operator.process({"t": [1], "v": [5000]})
    updates = operator.advance(2000).to_pylist()
    expected = np.insert(np.arange(1000), 1, 5000)
    assert [row["kind"] for row in updates] == ["update"] * 9 + ["result"]
    assert [row["total"] for row in updates] == [
        int(expected[row["start"] : row["end"]].sum()) for row in updates
    ]
    if invertible:
        assert calls.count("inverse") == 9
        assert calls.count("combine") < 250
    else:
        assert calls.count("combine") > 900


# Nothing is half done


def brittle(word):
    def combine(a, b):
        if word in b:
            raise RuntimeError(f"{b!r} cannot be added")
        return a + b

    return mt.Aggregate("joined", "", str, combine, columns=("s",))


@pytest.mark.parametrize("bad", [{"t": [2, 2], "s": ["y", "z"]}, {"t": [2], "s": ["z"]}])
def test_a_batch_that_cannot_be_combined_leaves_no_trace(bad):
    windows = {"ten": mt.Tumbling(10), "gap": mt.Session(3), "two": mt.Tumbling(2, measure="count")}
    operator = query_of(windows, {"text": brittle("z"), "n": mt.Count()}).operator()
    operator.process({"t": [1], "s": ["x"]})
    before = operator.snapshot()
    with pytest.raises(RuntimeError, match="cannot be added"):
        operator.process(bad)
    assert operator.snapshot() == before


def test_windows_that_could_not_be_reported_are_reported_later():
    failing = [True]

    def lower(partial):
        if failing[0]:
            raise RuntimeError("not now")
        return partial

    aggregate = mt.Aggregate("text", "", str, lambda a, b: a + b, lower, columns=("s",))
    operator = query_of(
        {"ten": mt.Tumbling(10), "gap": mt.Session(2)}, {"text": aggregate}
    ).operator()
    operator.process({"t": [1, 2, 15], "s": ["a", "b", "c"]})
    with pytest.raises(RuntimeError, match="not now"):
        operator.advance(12)
    failing[0] = False
    assert operator.advance(12)["text"].to_pylist() == ["ab", "ab"]


def test_a_first_batch_that_is_refused_settles_no_type():
    operator = query_of({"ten": mt.Tumbling(10)}, {"text": brittle("z")}, keys=("k",)).operator()
    with pytest.raises(RuntimeError):
        operator.process({"t": [1, 2], "s": ["a", "z"], "k": ["p", "p"]})
    operator.process({"t": [1, 2], "s": ["a", "b"], "k": [7, 7]})
    (row,) = operator.advance(20).to_pylist()
    assert (row["k"], row["text"]) == (7, "ab")


def test_a_null_before_any_value_does_not_settle_the_type():
    operator = query_of({"ten": mt.Tumbling(10)}, {"total": mt.Sum("v")}).operator()
    operator.process([{"t": 1, "v": None}])
    operator.process([{"t": 2, "v": 5}])
    operator.process([{"t": 3, "v": 7}])
    assert operator.advance(10)["total"].to_pylist() == [12]


# What is kept, and for how long


def test_keys_that_have_gone_are_forgotten():
    operator = query_of({"ten": mt.Tumbling(10)}, {"n": mt.Count()}, keys=("k",)).operator()
    for batch in range(40):
        keys = np.arange(2000) + 2000 * batch
        operator.process({"t": np.full(2000, 20 * batch), "k": keys})
        results = operator.advance(20 * batch + 15)
        assert results["k"].to_pylist() == keys.tolist()
    assert operator.counters.keys < 10_000


def test_results_keep_their_types_from_table_to_table():
    operator = query_of({"ten": mt.Tumbling(10)}, {"last": mt.Last("s")}).operator()
    operator.process([{"t": 1, "s": "a"}, {"t": 15, "s": None}])
    tables = [operator.advance(10), operator.advance(20)]
    assert [table.schema.field("last").type for table in tables] == [pa.string(), pa.string()]


def test_a_moment_in_another_unit_is_the_same_moment():
    operator = query_of({"ten": mt.Tumbling(10)}, {"latest": mt.Max("d")}).operator()
    operator.process({"t": [1], "d": np.array(["2026-01-01"], "M8[ms]")})
    operator.process({"t": [2], "d": np.array(["2026-01-02"], "M8[us]")})
    assert str(operator.advance(10)["latest"][0]) == "2026-01-02 00:00:00"
    with pytest.raises(TypeError, match="'d'"):
        operator.process({"t": [3], "d": [5]})


def test_a_finite_table_gives_all_windows_in_order_or_not():
    query = query_of({"ten": mt.Tumbling(10), "gap": mt.Session(4)}, {"all": mt.Collect("v")})
    times = np.random.default_rng(1).permutation(300)
    results = query.run({"t": times, "v": times}).to_pylist()
    assert [row["all"] for row in results if row["window"] == "ten"] == [
        list(range(start, start + 10)) for start in range(0, 300, 10)
    ]
    assert [row["all"] for row in results if row["window"] == "gap"] == [list(range(300))]


def test_queries_and_plans_show_themselves_in_notebooks():
    query = mt.Query(
        time="t",
        keys=("plug",),
        windows={"<b>": mt.Tumbling(10), "active": mt.Session(5)},
        aggregates={"peak": mt.Max("watts")},
    )
    shown = query._repr_html_()
    assert "&lt;b&gt;: Tumbling 10<br>active: Session with a gap of 5" in shown
    assert "peak: max(watts)" in shown
    plan = query.plan()._repr_html_()
    assert plan.count("<tr>") == 3
    assert "not kept: every aggregate is commutative" in plan
