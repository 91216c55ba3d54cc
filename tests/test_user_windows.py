"""Windows of users' own, whole: where they start and end, late rows, keys, snapshots.

A context-free window (market hours) and a context-aware one (until a sum is reached), each over a stream
that can be followed on paper. A bar in a timeline is an edge. The properties of all windows, these kinds
included, are in `test_query_properties.py`.
"""

import pytest

import muntin as mt
from tests.window_oracle import read_results

DAY, OPENS, CLOSES, FRIDAY, WEEK = 24, 9, 17, 4, 7
PLANS = pytest.mark.parametrize("plan", ["auto", "eager", "naive"])


class MarketHours(mt.ContextFreeWindow):
    """[9, 17) of Monday to Friday; times are hours since the start of a Monday."""

    def next_edge(self, t):
        day, hour = divmod(t, DAY)
        if day % WEEK <= FRIDAY and hour < CLOSES:
            return day * DAY + (OPENS if hour < OPENS else CLOSES)
        day += 1
        while day % WEEK > FRIDAY:
            day += 1
        return day * DAY + OPENS

    def closed(self, after, upto):
        edge = self.next_edge(after)
        while edge <= upto:
            if edge % DAY == CLOSES:
                yield edge - (CLOSES - OPENS), edge
            edge = self.next_edge(edge)

    def describe(self):
        return f"MarketHours {OPENS} to {CLOSES}"


class UntilSum(mt.ContextAwareWindow):
    """A window takes rows until the sum of a column since its start has reached a limit."""

    def __init__(self, column, limit):
        self.column, self.limit = column, limit

    def begin(self):
        return {"sum": 0}

    def opens(self, context, time, row):
        del time
        full = context["sum"] >= self.limit
        context["sum"] += row[self.column]
        return full

    def describe(self):
        return f"UntilSum of {self.column} reaches {self.limit}"


def rows_of(times, values, **more):
    return {"t": list(times), "v": list(values)} | more


def told(table, *keys):
    """Return what a table says: {(key, start, end): (kind, values)} of one window."""
    results, retracted = read_results(table, keys)
    said = {
        (*key, start, end): (kind, *values.values())
        for (key, _, start, end), (kind, values) in results.items()
    }
    return said | {(*key, start, end): "retract" for key, _, start, end in retracted}


# Market hours. Tuesday starts at 24, Saturday at 120, the next Monday at 168.


def market(**options):
    return mt.Query(
        time="t",
        windows={"market": MarketHours()},
        aggregates={"trades": mt.Count(), "top": mt.Max("v")},
        **options,
    )


def test_the_edges_of_market_hours():
    window = MarketHours()
    edges = {0: 9, 8: 9, 9: 17, 16: 17, 17: 33, 100: 105, 113: 177}
    assert {t: window.next_edge(t) for t in edges} == edges
    assert list(window.closed(17, 41)) == [(33, 41)]
    assert list(window.closed(113, 200)) == [(177, 185)]


@PLANS
def test_each_market_day_is_a_window(plan):
    #        Monday                Tuesday       Friday    Saturday   Monday
    # hour   8 |9  10  12   17|    |9  17|       |9  16 |    12       |9  11 |
    # t      8     10  12   17      33  41           112     132          179
    # v      9      4   7    9       5   9             6       9            3
    rows = rows_of([8, 10, 12, 17, 33, 41, 112, 132, 179], [9, 4, 7, 9, 5, 9, 6, 9, 3])
    assert told(market().run(rows, plan=plan)) == {
        (9, 17): ("result", 2, 7),
        (33, 41): ("result", 1, 5),
        (105, 113): ("result", 1, 6),
        (177, 185): ("result", 1, 3),
    }


def test_trades_outside_of_market_hours_are_dropped():
    operator = market().operator()
    operator.process(rows_of([8, 9, 16, 17, 130], [1, 1, 1, 1, 1]))
    assert operator.counters.rows == 5
    assert operator.counters.dropped == 3
    assert operator.counters.slices == 1
    assert operator.counters.rows_kept == 0


@PLANS
def test_a_late_trade_corrects_its_day_while_the_lateness_lasts(plan):
    # Monday  |9   11   14  17|   20     24
    # first        4              ^ Monday is reported
    # late              8                ^ and corrected; then 20 hours of lateness are over
    operator = market(lateness=20).operator(plan=plan)
    operator.process(rows_of([11], [4]))
    assert told(operator.advance(20)) == {(9, 17): ("result", 1, 4)}
    operator.process(rows_of([14], [8]))
    assert told(operator.advance(24)) == {(9, 17): ("update", 2, 8)}
    operator.advance(37)
    operator.process(rows_of([12], [9]))
    assert told(operator.advance(100)) == {}
    assert (operator.counters.late, operator.counters.dropped) == (2, 1)


@PLANS
def test_market_hours_share_slices_with_days(plan):
    # t        10   20 | 24   34   40 |         bars are days
    # market   xx             xx   xx           [9, 17) and [33, 41)
    query = mt.Query(
        time="t",
        windows={"market": MarketHours(), "day": mt.Tumbling(DAY)},
        aggregates={"sum": mt.Sum("v")},
    )
    assert query.explain().count("slices:") == 1
    table = query.run(rows_of([34, 10, 20, 40, 24], [8, 1, 2, 16, 4]), plan=plan)
    lines = {(line["window"], line["start"]): line["sum"] for line in table.to_pylist()}
    assert lines == {
        ("market", 9): 1,
        ("day", 0): 1 + 2,
        ("market", 33): 8 + 16,
        ("day", 24): 4 + 8 + 16,
    }


def test_changes_only_is_for_windows_that_repeat_and_every_market_day_is_reported():
    rows = rows_of([10, 34, 58], [5, 5, 5])
    starts = [line["start"] for line in market(emit="changes").run(rows).to_pylist()]
    assert starts == [9, 33, 57]


def test_market_hours_are_found_again_after_a_restart():
    query = market(lateness=20)
    operator = query.operator()
    operator.process(rows_of([11, 35], [4, 6]))
    assert told(operator.advance(20)) == {(9, 17): ("result", 1, 4)}
    twin = query.restore(operator.snapshot())
    for one in (operator, twin):
        one.process(rows_of([13, 36], [8, 1]))
        assert told(one.advance(41)) == {
            (9, 17): ("update", 2, 8),
            (33, 41): ("result", 2, 6),
        }
        assert told(one.advance(500)) == {}


# Until a sum is reached. Litres are filled into barrels of 100; the row that fills one is its last.

#   t        1   2   3 | 5   6   8 | 9
#   litres  40  30  50 |20  70  30 |10          120 and 120; the third barrel is not full
LITRES = rows_of([1, 2, 3, 5, 6, 8, 9], [40, 30, 50, 20, 70, 30, 10])


def barrels(limit=100, **options):
    return mt.Query(
        time="t",
        windows={"barrel": UntilSum("v", limit)},
        aggregates={"rows": mt.Count(), "litres": mt.Sum("v")},
        **options,
    )


def test_a_barrel_is_closed_by_the_row_that_opens_the_next():
    assert told(barrels().run(LITRES)) == {
        (1, 5): ("result", 3, 120),
        (5, 9): ("result", 3, 120),
    }


def test_nothing_is_reported_before_the_watermark_has_passed_the_next_start():
    operator = barrels().operator()
    assert operator.process(LITRES).num_rows == 0
    assert told(operator.advance(4)) == {}
    assert told(operator.advance(5)) == {(1, 5): ("result", 3, 120)}
    assert told(operator.advance(100)) == {(5, 9): ("result", 3, 120)}
    assert operator.counters.rows_kept == 1  # that of the open barrel


def test_a_late_row_moves_the_edges_behind_it():
    #   before   40  30  50 |20  70  30 |10
    #   late             ^ 35 at time 2
    #   after    40  30  35 |50  20  70 |30  10
    #   t         1   2   2 | 3   5   6 | 8   9
    operator = barrels(lateness=100).operator()
    operator.process(LITRES)
    assert told(operator.advance(20)) == {
        (1, 5): ("result", 3, 120),
        (5, 9): ("result", 3, 120),
    }
    operator.process(rows_of([2], [35]))
    assert told(operator.advance(21)) == {
        (1, 5): "retract",
        (5, 9): "retract",
        (1, 3): ("result", 3, 105),
        (3, 8): ("result", 3, 140),
    }
    assert (operator.counters.late, operator.counters.dropped) == (1, 0)


def test_a_late_row_that_moves_no_edge_is_an_update():
    #   before   40  30     50 |20  70  30 |10
    #   late            ^ 5 at time 2: 125, full by the same row
    operator = barrels(lateness=100).operator()
    operator.process(LITRES)
    operator.advance(20)
    operator.process(rows_of([2], [5]))
    assert told(operator.advance(21)) == {(1, 5): ("update", 4, 125)}


def test_a_late_row_may_be_the_first_of_all():
    #   before      40  30  50 |20  70  30 |10
    #   late      ^ 90 at time 0
    #   after    90 40 |30  50  20 |70  30 |10
    #   t         0  1 | 2   3   5 | 6   8 | 9
    operator = barrels(lateness=100).operator()
    operator.process(LITRES)
    operator.advance(20)
    operator.process(rows_of([0], [90]))
    assert told(operator.advance(21)) == {
        (1, 5): "retract",
        (5, 9): "retract",
        (0, 2): ("result", 2, 130),
        (2, 6): ("result", 3, 100),
        (6, 9): ("result", 2, 100),
    }


def test_a_row_that_is_too_late_moves_nothing():
    operator = barrels(lateness=10).operator()
    operator.process(LITRES)
    operator.advance(20)
    operator.process(rows_of([2], [35]))
    assert told(operator.advance(21)) == {}
    assert (operator.counters.late, operator.counters.dropped) == (1, 1)


def test_rows_of_one_time_are_never_parted():
    #   t        1 | 2   2   3   4 | 5
    #   litres  60 |50  10  20  50 | 1      after 50 the barrel is full: 10 opens one, and 50 is in it
    assert told(barrels().run(rows_of([1, 2, 2, 3, 4, 5], [60, 50, 10, 20, 50, 1]))) == {
        (1, 2): ("result", 1, 60),
        (2, 5): ("result", 4, 130),
    }


def test_every_key_has_a_context_of_its_own():
    #   well 1    60      60 |     1
    #   well 2        90      10 |     1
    #   t          1   2   3   4   5   6
    rows = rows_of(range(1, 7), [60, 90, 60, 10, 1, 1], well=[1, 2, 1, 2, 1, 2])
    assert told(barrels(keys=("well",)).run(rows), "well") == {
        (1, 1, 5): ("result", 2, 120),
        (2, 2, 6): ("result", 2, 100),
    }


@pytest.mark.parametrize("cut", range(1, 7))
def test_batches_order_and_restarts_make_no_difference(cut):
    """The rows come backwards, in two batches, with a report and a restart between them."""
    times, litres = LITRES["t"][::-1], LITRES["v"][::-1]
    query = barrels(lateness=100)
    operator = query.operator()
    operator.process(rows_of(times[:cut], litres[:cut]))
    kept = told(operator.advance(9))
    operator = query.restore(operator.snapshot())
    operator.process(rows_of(times[cut:], litres[cut:]))
    kept |= told(operator.advance(30))
    final = {window: said[1:] for window, said in kept.items() if said != "retract"}
    assert final == {(1, 5): (3, 120), (5, 9): (3, 120)}


def test_what_a_window_says_of_itself_is_compared_with_a_snapshots():
    snapshot = barrels(limit=100).operator().snapshot()
    with pytest.raises(mt.SnapshotError, match=r"reaches 90.*reaches 100"):
        barrels(limit=90).restore(snapshot)
