"""Windows that rows say: gaps in a column, sessions of a longest length, and windows that assign."""

import datetime as dt
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import muntin as mt
from tests.test_query_properties import Asked, Joined, same
from tests.window_oracle import WindowOracle, read_results

STREAMS = 400
TOTALS = {"rows": mt.Count(), "total": mt.Sum("n")}
LISTS = {"rows": mt.Count(), "list": mt.Collect("n")}


def drawn_windows(rng, ordered):
    """Return some windows; those that begin before their rows are not for ordered streams."""
    small, most = rng.randint(1, 12), rng.randint(1, 30)
    kinds = {
        "gaps": mt.Session(column="gap"),
        "limited gaps": mt.Session(column="gap", longest=most),
        "limited": mt.Session(small, longest=most),
        "asked": Asked(small),
        "joined": Joined(small, 0 if ordered else rng.choice([0, 3, 9])),
    }
    return {name: kinds[name] for name in rng.sample([*kinds], rng.choice([1, 1, 2, 5]))}


def drawn_rows(rng, clock, count, last, *, ordered):
    """Return rows around a clock, some of them late, with gaps of many lengths."""
    rows = []
    for _ in range(rng.choice([0, 1, 3, 12])):
        clock += rng.choice([0, 0, 1, 1, 2, 5, 20])
        k, t = rng.choice("ab"), clock - rng.choice([0, 0, 1, 4, 15, 40])
        if ordered:
            t = last[k] = max(t, last.get(k, t))
        gap = rng.choice([1, 2, 3, 5, 9, 30])
        rows.append({"t": t, "k": k, "n": count + len(rows), "gap": gap})
    return rows, clock


@pytest.mark.parametrize("seed", range(4))
def test_what_rows_say_is_merged_and_reported_as_defined(seed):
    """Longer gaps than before, late rows, restarts, two batches between two watermarks."""
    for number in range(seed, STREAMS, 4):
        rng = random.Random(number)
        ordered = rng.random() < 0.25
        windows, aggregates = drawn_windows(rng, ordered), rng.choice([TOTALS, LISTS])
        lateness = 0 if ordered else rng.choice([0, 0, 6, 30])
        query = mt.Query(
            time="t", keys="k", windows=windows, aggregates=aggregates,
            lateness=lateness, ordered=ordered,
        )  # fmt: skip
        operator = query.operator(rng.choice(["auto", "eager", "naive"]))
        oracle = WindowOracle(windows, aggregates, lateness, keys=("k",), ordered=ordered)
        clock, count, last = rng.randint(-50, 50), 0, {}
        for _ in range(rng.randint(2, 12)):
            rows, clock = drawn_rows(rng, clock, count, last, ordered=ordered)
            count += len(rows)
            if rows:
                table, told = operator.process(rows), oracle.process(rows)
                assert not ordered or same(read_results(table, ("k",)), told) is None
            if rng.random() < 0.7:
                watermark = clock - rng.choice([0, 3, 8, 20])
                got = read_results(operator.advance(watermark), ("k",))
                same(got, oracle.advance(watermark))
            if rng.random() < 0.3:
                operator = query.restore(operator.snapshot())
        same(read_results(operator.advance(10**6), ("k",)), oracle.advance(10**6))
        assert operator.counters.dropped == oracle.dropped
        assert operator.counters.rows_kept == 0


@pytest.mark.parametrize("seed", range(3))
def test_gaps_that_are_all_the_same_make_the_sessions_of_that_gap(seed):
    rng = random.Random(seed)
    for _ in range(30):
        gap, lateness = rng.randint(1, 12), rng.choice([0, 7])
        windows = mt.Session(gap), mt.Session(column="gap"), mt.Session(gap, longest=10**9)
        operators = [query_of(window, lateness=lateness).operator() for window in windows]
        clock = 0
        for _ in range(8):
            rows, clock = drawn_rows(rng, clock, 0, {}, ordered=False)
            watermark, tables = clock - rng.choice([0, 5]), []
            for operator in operators:
                if rows:
                    operator.process([row | {"gap": gap} for row in rows])
                tables.append(read_results(operator.advance(watermark)))
            assert tables[0] == tables[1] == tables[2]


def query_of(window, aggregates=LISTS, **options):
    return mt.Query(time="t", windows={"w": window}, aggregates=aggregates, **options)


def told(table):
    """Return what a table says of one window."""
    return [tuple(row.values())[-5:] for row in table.to_pylist()]


def rows_of(*triples):
    """Return rows of (time, gap or end, number)."""
    times, gaps, numbers = zip(*triples, strict=True)
    return {"t": list(times), "gap": list(gaps), "n": list(numbers)}


# What Flink's own tests of dynamic gaps and of merging expect


def test_gaps_of_keys_and_rows_are_those_of_flinks_example():
    """Its watermarks say that no row comes at that time or before; in milliseconds."""
    query = mt.Query(
        time="t", keys="k", windows={"w": mt.Session(column="gap")}, aggregates={"n": mt.Sum("n")}
    )
    operator, reported = query.operator(), []
    batches = [
        ([("key1", 3, 10), ("key2", 4, 5000), ("key2", 5, 6000)], 8999),
        ([("key2", 1, 9000), ("key2", 2, 10000), ("key2", 10, 10500)], 12999),
        ([("key2", 10, 13000), ("key2", 10, 13500), ("key2", 1, 14000)], 16999),
    ]
    for elements, watermark in batches:
        for k, n, t in elements:
            gap = 3000 if k == "key1" else 1000 if n == 10 else 2000
            operator.process({"t": [t], "k": [k], "n": [n], "gap": [gap]})
        table = operator.advance(watermark + 1).to_pylist()
        assert {row["kind"] for row in table} == {"result"}
        reported.append({(row["k"], row["n"], row["start"], row["end"]) for row in table})
    assert reported == [
        {("key1", 3, 10, 3010), ("key2", 9, 5000, 8000)},
        {("key2", 13, 9000, 12000)},
        {("key2", 21, 13000, 16000)},
    ]


class Said(mt.ContextAwareWindow):
    """Rows say their windows."""

    def assign(self, time, row):
        del time
        return row["spans"]


class Merged(Said):
    """Rows say what they stand for."""

    merging = True


@pytest.mark.parametrize(
    ("spans", "merged"),
    [
        ([(0, 1), (1, 2), (2, 3), (4, 5), (5, 6)], [(0, 3), (4, 6)]),  # that follow each other
        ([(1, 2), (0, 2), (5, 6), (4, 7)], [(0, 2), (4, 7)]),  # that cover others
        ([(4, 6), (0, 2)], [(0, 2), (4, 6)]),
    ],
)
def test_windows_merge_as_those_of_flink_do(spans, merged):
    rows = [{"t": start, "spans": [(start, end)], "n": 1} for start, end in spans]
    table = query_of(Merged(), {"n": mt.Count()}).run(rows).to_pylist()
    assert [(row["start"], row["end"]) for row in table] == merged
    assert sum(row["n"] for row in table) == len(spans)


# Sessions


def test_a_gap_that_is_shorter_than_what_is_left_ends_nothing():
    table = query_of(mt.Session(column="gap")).run(rows_of((0, 20, 1), (3, 1, 2), (20, 5, 3)))
    assert told(table) == [(0, 25, "result", 3, [1, 2, 3])]


def test_a_late_row_with_a_long_gap_joins_what_was_reported():
    operator = query_of(mt.Session(column="gap"), lateness=100).operator()
    operator.process(rows_of((0, 5, 1), (20, 5, 2)))
    assert told(operator.advance(30)) == [(0, 5, "result", 1, [1]), (20, 25, "result", 1, [2])]
    operator.process(rows_of((2, 18, 3)))
    assert told(operator.advance(31)) == [
        (0, 5, "retract", None, None),
        (20, 25, "retract", None, None),
        (0, 25, "result", 3, [1, 3, 2]),
    ]


def test_a_row_later_than_longest_after_the_first_opens_another_session():
    window = mt.Session(4, longest=6)
    rows = {"t": [0, 3, 6, 7, 10, 13, 30], "n": [*range(7)]}
    assert told(query_of(window).run(rows)) == [
        (0, 10, "result", 3, [0, 1, 2]),
        (7, 17, "result", 3, [3, 4, 5]),
        (30, 34, "result", 1, [6]),
    ]


def test_a_late_row_draws_all_sessions_behind_it_again():
    operator = query_of(mt.Session(4, longest=6), lateness=50).operator()
    operator.process({"t": [2, 5, 8, 10, 30], "n": [0, 1, 2, 3, 4]})
    assert [row[:3] for row in told(operator.advance(20))] == [
        (2, 12, "result"),
        (10, 14, "result"),
    ]
    operator.process({"t": [0], "n": [5]})
    assert told(operator.advance(21)) == [
        (2, 12, "retract", None, None),
        (10, 14, "retract", None, None),
        (0, 9, "result", 3, [5, 0, 1]),
        (8, 14, "result", 2, [2, 3]),
    ]


NOON = dt.datetime(2026, 1, 31, 12)
MINUTE = dt.timedelta(minutes=1)


@pytest.mark.parametrize(
    "gaps",
    [
        [5 * MINUTE, 10 * MINUTE, MINUTE],
        ["5 min", "10 minutes", "60 s"],
        np.array([5, 10, 1], "m8[m]"),
        pd.Series([5, 10, 1]).mul(MINUTE),
        pa.array([5, 10, 1], pa.duration("s")),
        [np.timedelta64(5, "m"), 10 * MINUTE, "1 min"],
    ],
)
def test_gaps_are_durations_where_times_are_moments(gaps):
    scale = 60 if isinstance(gaps, pa.Array) else 1
    gaps = pa.array([x * scale for x in (5, 10, 1)], pa.duration("s")) if scale > 1 else gaps
    data = {"t": [NOON, NOON + 4 * MINUTE, NOON + 14 * MINUTE], "gap": gaps, "n": [1, 2, 3]}
    (row,) = query_of(mt.Session(column="gap")).run(data).to_pylist()
    assert (row["start"], row["end"], row["list"]) == (NOON, NOON + 15 * MINUTE, [1, 2, 3])


def test_a_gap_may_be_a_key():
    query = query_of(mt.Session(column="gap"), keys="gap")
    table = query.run(rows_of((0, 5, 1), (4, 2, 2), (5, 5, 3))).to_pylist()
    assert [(row["gap"], row["start"], row["end"]) for row in table] == [(5, 0, 10), (2, 4, 6)]


@pytest.mark.parametrize("bad", [None, 0, -3, "5 s", 2**61])
def test_a_row_without_a_gap_is_refused_or_left_out(bad):
    rows = {"t": [1, 2, 3], "gap": [2, bad, 2], "n": [1, 2, 3]}
    operator = query_of(mt.Session(column="gap")).operator()
    before = operator.snapshot()
    with pytest.raises(ValueError, match=r"row 1 has 'gap' = .*for window 'w'.*on_bad_row='drop'"):
        operator.process(rows)
    assert operator.snapshot() == before
    lenient = query_of(mt.Session(column="gap"), on_bad_row="drop").operator()
    lenient.process(rows)
    assert told(lenient.advance(9)) == [(1, 5, "result", 2, [1, 3])]
    assert lenient.counters.bad_rows == 1


@pytest.mark.parametrize(
    ("times", "gaps", "says"),
    [
        ([1, 2], [1.5, 2.5], "must be whole numbers, as times are; it has float64"),
        ([1, 2], np.array([1, 2], "m8[s]"), "must be whole numbers, as times are"),
        ([NOON, NOON], [1, 2], "must be durations, as times are timestamps; it has int64"),
    ],
)
def test_gaps_of_another_type_are_refused(times, gaps, says):
    with pytest.raises(TypeError, match=says):
        query_of(mt.Session(column="gap")).run({"t": times, "gap": gaps, "n": [1, 2]})


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: mt.Session(), "such as Session.'5 min'., or the column"),
        (lambda: mt.Session(5, column="gap"), "got gap=5 and column='gap'"),
        (lambda: mt.Session(column=5), "column is the name of a column, got 5"),
        (lambda: mt.Session("5 s", longest=60), "longest is a bare number beside a duration"),
        (lambda: mt.Session(5, longest=0), "longest must be above zero"),
        (lambda: query_of(mt.Session(column="t")), "is in a column of its own, not in 't'"),
        (lambda: query_of(mt.Session(5, longest=9), idle=4), "idle must be at least"),
        (lambda: query_of(Said(), idle=4), "'w' assigns may reach over idle=4"),
    ],
)
def test_sessions_that_cannot_be_are_refused_by_name(made, says):
    with pytest.raises((TypeError, ValueError), match=says):
        made()


def test_a_gap_over_which_a_life_could_end_is_refused():
    operator = query_of(mt.Session(column="gap"), idle=10, lateness=3).operator()
    operator.process(rows_of((1, 7, 1)))
    with pytest.raises(ValueError, match="row 0 has a gap of 8 for window 'w', longer than idle"):
        operator.process(rows_of((2, 8, 2)))
    assert told(operator.advance(50)) == [(1, 8, "result", 1, [1])]


@pytest.mark.parametrize("window", [mt.Session(column="gap"), mt.Session(5, longest=9), Said()])
def test_a_window_cannot_be_added_when_rows_have_come(window):
    operator = query_of(mt.Tumbling(10)).operator()
    operator.process({"t": [1], "gap": [1], "n": [1], "spans": [[(1, 5)]]})
    before = operator.snapshot()
    with pytest.raises(ValueError, match="'more' cannot be added to a stream of which rows have"):
        operator.add_window("more", window)
    assert operator.snapshot() == before
    with pytest.raises(ValueError, match="says nothing about a time"):
        mt.as_of({"t": [1]}, {"t": [1], "gap": [1]}, query_of(window), at="t")


# Windows that rows assign


def test_a_row_is_in_the_windows_that_it_says_each_once():
    rows = [
        {"t": 1, "n": 1, "spans": [(0, 10), (5, 8), (0, 10)]},
        {"t": 2, "n": 2, "spans": []},
        {"t": 7, "n": 3, "spans": [(5, 8), (20, 30)]},
    ]
    operator = query_of(Said()).operator()
    operator.process(rows)
    assert told(operator.advance(8)) == [(5, 8, "result", 2, [1, 3])]
    assert told(operator.advance(30)) == [(0, 10, "result", 1, [1]), (20, 30, "result", 1, [3])]
    assert operator.counters.dropped == 1
    assert operator.counters.rows_kept == 0


def test_a_row_that_two_merged_stretches_have_counts_once():
    rows = [{"t": 0, "n": 1, "spans": [(0, 2), (6, 8)]}, {"t": 1, "n": 2, "spans": [(2, 6)]}]
    operator = query_of(Merged(), lateness=50).operator()
    operator.process(rows[:1])
    assert told(operator.advance(9)) == [(0, 2, "result", 1, [1]), (6, 8, "result", 1, [1])]
    operator.process(rows[1:])
    assert told(operator.advance(10))[-1] == (0, 8, "result", 2, [1, 2])


def test_bounds_may_be_moments():
    rows = [{"t": NOON, "n": 1, "spans": [(NOON, NOON + MINUTE)]}]
    (row,) = query_of(Said()).run(rows).to_pylist()
    assert (row["start"], row["end"]) == (NOON, NOON + MINUTE)


def test_rows_of_windows_that_are_past_leave_no_gaps_behind_one_that_is_open():
    operator = query_of(Said()).operator()
    operator.process([{"t": 0, "n": 0, "spans": [(0, 10_000)]}])
    for t in range(1, 500):
        operator.process([{"t": t, "n": t, "spans": [(t, t + 5)]}])
        operator.advance(t)
        assert operator.counters.rows_kept < 25
    assert told(operator.advance(10_000))[0] == (0, 10_000, "result", 1, [0])


@pytest.mark.parametrize(
    ("spans", "says"),
    [
        (None, "gave None; a list of"),
        ("soon", "gave 'soon'; a list of"),
        ([3], "gave 3 among its windows"),
        ([(5, 5)], "ends behind its start"),
        ([(7, 5)], "row 1 at 2, gave .7, 5.: a window ends behind its start"),
        ([(0, 2**62)], "within 2..61 of 0"),
        ([(True, 5)], "a time is needed, got True"),
        ([(0.5, 5)], "0.5 is not a time"),
    ],
)
def test_what_is_no_window_is_refused_with_its_row(spans, says):
    operator = query_of(Said()).operator()
    before = operator.snapshot()
    rows = [{"t": 1, "n": 1, "spans": [(0, 9)]}, {"t": 2, "n": 1, "spans": spans}]
    with pytest.raises((TypeError, ValueError), match=says):
        operator.process(rows)
    assert operator.snapshot() == before


@pytest.mark.parametrize(
    ("kind", "spans"), [(Said, [(0, 5)]), (Merged, [(4, 9)]), (Merged, [(0, 5)])]
)
def test_in_an_ordered_stream_windows_are_not_behind_the_row(kind, spans):
    operator = query_of(kind(), ordered=True).operator()
    with pytest.raises(ValueError, match="in an ordered stream.*leave ordered=True out"):
        operator.process([{"t": 5, "n": 1, "spans": spans}])


def test_a_window_has_one_of_opens_and_assign():
    class Both(Said):
        def opens(self, context, time, row):
            return context is time is row

    class Neither(mt.ContextAwareWindow):
        pass

    with pytest.raises(TypeError, match="the window Both has both opens and assign"):
        Both()
    with pytest.raises(TypeError, match="the window Neither is abstract, without opens and assign"):
        Neither()


# Examples of users


class Auction(mt.ContextAwareWindow):
    """From the auction's opening until it closes, which its own rows and its bids say."""

    def assign(self, time, row):
        return [(row["opened"], row["closes"])] if time < row["closes"] else []


def test_q6_the_prices_at_which_the_last_auctions_of_a_seller_closed():
    """An auction closes when its rows say: its best bid is there then, and not before."""
    rng = random.Random(6)
    bids = []
    for auction in range(40):
        opened, lasts = auction * 5, rng.randint(3, 60)
        for _ in range(rng.randint(1, 6)):
            t = opened + rng.randrange(lasts + 9)
            bids.append(
                {"t": t, "seller": auction % 3, "auction": auction, "price": rng.randint(1, 99),
                 "opened": opened, "closes": opened + lasts}
            )  # fmt: skip
    bids.sort(key=lambda bid: bid["t"])
    query = mt.Query(
        time="t", keys=("seller", "auction"), windows={"auction": Auction()},
        aggregates={"price": mt.Max("price")},
    )  # fmt: skip
    operator, closed = query.operator(), []
    for bid in bids:
        operator.process([bid])
        closed += operator.advance(bid["t"]).to_pylist()
    closed += operator.advance(10_000).to_pylist()
    best = {}
    for bid in bids:
        if bid["t"] < bid["closes"]:
            known = best.get(bid["auction"], (bid["closes"], bid["seller"], 0))
            best[bid["auction"]] = (*known[:2], max(known[2], bid["price"]))
    assert {r["auction"]: (r["end"], r["seller"], r["price"]) for r in closed} == best
    rolled = mt.Query(
        time="end", keys="seller", windows={"ten": mt.Sliding(10, 1, measure="count")},
        aggregates={"mean": mt.Mean("price")},
    )  # fmt: skip
    means = rolled.run(closed).to_pylist()
    for seller in range(3):
        prices = [price for _, of, price in sorted(best.values()) if of == seller]
        wanted = [sum(prices[i : i + 10]) / 10 for i in range(len(prices) - 9)]
        assert sorted(r["mean"] for r in means if r["seller"] == seller) == pytest.approx(
            sorted(wanted)
        )


class Trip(mt.ContextAwareWindow):
    """From a start row to its stop row; between a stop and the next start rows are in no trip."""

    merging = True

    def __init__(self, silence):
        self.silence = silence

    def assign(self, time, row):
        if row["event"] == "stop":
            return [(row["since"], time + 1)]
        return [(time, time + self.silence)] if row["moving"] else []


def test_start_and_stop_rows():
    """Rows on the way hold a trip open for a while; the stop row says since when it was."""
    events = [
        (0, "start", None, True), (4, "", None, True), (9, "stop", 0, False),
        (30, "", None, False), (50, "start", None, True), (70, "stop", 50, False),
    ]  # fmt: skip
    names = ("t", "event", "since", "moving")
    rows = [dict(zip(names, event, strict=True)) | {"n": event[0]} for event in events]
    assert told(query_of(Trip(3)).run(rows)) == [
        (0, 10, "result", 3, [0, 4, 9]),
        (50, 71, "result", 2, [50, 70]),
    ]


class Shift(mt.ContextAwareWindow):
    """A window from each start row, and one from each row behind a stop."""

    def begin(self):
        return {"stopped": False}

    def opens(self, context, time, row):
        del time
        opens = row["event"] == "start" or context["stopped"]
        context["stopped"] = row["event"] == "stop"
        return opens


def test_start_and_stop_rows_may_open_windows():
    events = [(1, "start"), (2, ""), (4, "stop"), (6, ""), (7, ""), (9, "start"), (12, "stop")]
    rows = {
        "t": [t for t, _ in events],
        "event": [e for _, e in events],
        "n": [t for t, _ in events],
    }
    table = query_of(Shift()).run(rows)
    assert told(table) == [
        (1, 6, "result", 3, [1, 2, 4]),
        (6, 9, "result", 2, [6, 7]),
    ]


def test_the_plan_says_what_is_kept():
    said = query_of(mt.Session(column="gap"), TOTALS, lateness=5).explain()
    assert "w (Session with the gap in gap)" in said
    assert "rows:   kept: a late row may join windows, or part them" in said
    assert "state:  the rows of windows that are open or may change and 5 of lateness" in said
    assert repr(mt.Session(5, longest=60)) == "<Session with a gap of 5, 60 at most>"


# The last stretches between rows that open one


def test_the_last_stretches_are_those_that_closed_or_as_many_as_there_are():
    rows = {"t": [1, 2, 3, 4, 5, 6, 7], "p": [0, 0, 1, 1, 0, 1, 1], "n": [*range(1, 8)]}
    operator = query_of(mt.Punctuation("p", last=2), lateness=3).operator()
    operator.process(rows)
    assert told(operator.advance(7)) == [
        (1, 3, "result", 2, [1, 2]),
        (1, 4, "result", 3, [1, 2, 3]),
        (3, 6, "result", 3, [3, 4, 5]),
        (4, 7, "result", 3, [4, 5, 6]),
    ]
    operator.process({"t": [5], "p": [1], "n": [8]})
    assert told(operator.advance(8)) == [
        (3, 6, "retract", None, None),
        (4, 7, "retract", None, None),
        (3, 5, "result", 2, [3, 4]),
        (4, 6, "result", 3, [4, 5, 8]),
        (5, 7, "result", 3, [5, 8, 6]),
    ]


def test_each_life_of_a_key_has_its_own_stretches():
    rows = {"t": [1, 2, 3, 40, 41, 42], "p": [1, 1, 1, 1, 1, 1], "n": [*range(6)]}
    operator = query_of(mt.Punctuation("p", last=3), idle=10).operator()
    operator.process(rows)
    assert [row[:2] for row in told(operator.advance(90))] == [(1, 2), (1, 3), (40, 41), (40, 42)]


def test_rows_before_the_last_stretches_are_forgotten():
    operator = query_of(mt.Punctuation("p", last=3)).operator()
    for t in range(200):
        operator.process({"t": [2 * t, 2 * t + 1], "p": [1, 0], "n": [t, t]})
        operator.advance(2 * t)
        assert operator.counters.rows_kept <= 8


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: mt.Punctuation("p", last=0), "last must be above zero, got 0"),
        (lambda: mt.Punctuation("p", last="3"), "last is a whole number of rows, got '3'"),
        (lambda: query_of(mt.Punctuation("p", last=2), early=True), "no window of the query"),
    ],
)
def test_last_stretches_that_cannot_be_are_refused_by_name(made, says):
    with pytest.raises((TypeError, ValueError), match=says):
        made()
