"""Windows of a calendar: against zoneinfo, pandas' months and, in random streams, their definition."""

import datetime as dt
from itertools import pairwise
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin as mt
from tests.test_query_properties import (
    COMMUTATIVE,
    EXACT,
    KEYS,
    MORE,
    PLANS,
    QUICK,
    drive,
    query_of,
    same,
    streams,
)
from tests.window_oracle import WindowOracle, read_results

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
HOUR = 3_600_000_000
DAY = 24 * HOUR
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "Pacific/Apia")


def at(zone, *day):
    return (dt.datetime(*day, tzinfo=ZoneInfo(zone)) - EPOCH) // dt.timedelta(microseconds=1)


def local(t, zone):
    return (EPOCH + dt.timedelta(microseconds=t)).astimezone(ZoneInfo(zone))


def hours(calendar, first, last):
    return [(end - start) / HOUR for start, end in calendar.closed(first, last)]


def test_days_have_23_and_25_hours_where_clocks_are_changed():
    berlin = mt.Calendar("1 day", zone="Europe/Berlin")
    spring = at("Europe/Berlin", 2026, 3, 28), at("Europe/Berlin", 2026, 3, 31)
    autumn = at("Europe/Berlin", 2026, 10, 24), at("Europe/Berlin", 2026, 10, 27)
    assert hours(berlin, *spring) == [24, 23, 24]
    assert hours(berlin, *autumn) == [24, 25, 24]
    assert hours(mt.Calendar("1 week", zone="Europe/Berlin"), *spring) == [7 * 24 - 1]
    assert hours(mt.Calendar("1 day"), *spring) == [24, 24, 24]


@pytest.mark.parametrize(
    ("zone", "day", "length"),
    [
        ("America/Sao_Paulo", (2018, 11, 4), 23),  # 00:00 is left out
        ("America/Sao_Paulo", (2018, 2, 17), 25),  # 23:00 comes twice
        ("America/Havana", (2026, 11, 1), 25),  # 00:00 comes twice
        ("America/Toronto", (1919, 3, 31), 23.5),  # from 23:30 to 00:30
        ("Pacific/Apia", (2011, 12, 29), 24),
        ("Pacific/Apia", (2011, 12, 31), 24),
        ("Australia/Lord_Howe", (2026, 4, 5), 24.5),
        ("Asia/Kolkata", (2026, 4, 5), 24),
    ],
)
def test_a_day_has_the_moments_of_its_date(zone, day, length):
    noon = at(zone, *day, 12)
    found = mt.Calendar("1 day", zone=zone).closed(noon, noon + 40 * HOUR)
    ((start, end),) = (w for w in found if w[0] <= noon < w[1])
    assert (end - start) / HOUR == length
    assert local(start - 1, zone).date() < dt.date(*day) < local(end, zone).date()
    for moment in (start, start + 1, noon, end - 1):
        assert local(moment, zone).date() == dt.date(*day)


def test_a_day_that_a_zone_leaves_out_has_no_window():
    zone = "Pacific/Apia"
    apia = mt.Calendar("1 day", zone=zone)
    found = list(apia.closed(at(zone, 2011, 12, 28), at(zone, 2012, 1, 2)))
    assert [local(start, zone).day for start, _ in found] == [28, 29, 31, 1]
    assert all(end == start for (_, end), (start, _) in pairwise(found))


def test_a_day_that_begins_twice_begins_with_the_first():
    """In Goose Bay clocks went from 00:01 back to 23:01 of the day before."""
    zone = "America/Goose_Bay"
    first, second = mt.Calendar("1 day", zone=zone).closed(
        at(zone, 2010, 11, 7), at(zone, 2010, 11, 9)
    )
    assert first == (at(zone, 2010, 11, 6), at(zone, 2010, 11, 7)) or first[1] == second[0]
    assert all(local(start, zone).hour == 0 for start, _ in (first, second))


@pytest.mark.parametrize(
    ("size", "offset"),
    [
        ("1 month", pd.offsets.MonthBegin(1)),
        ("1 quarter", pd.offsets.QuarterBegin(1, startingMonth=1)),
        ("1 year", pd.offsets.YearBegin(1)),
        ("1 week", pd.offsets.Week(1, weekday=0)),
        ("1 day", pd.offsets.Day(1)),
    ],
)
@pytest.mark.parametrize("zone", ZONES[:3])
def test_edges_are_those_of_pandas(size, offset, zone):
    days = pd.date_range(pd.Timestamp("1999-12-01"), pd.Timestamp("2004-04-01"), freq=offset)
    edges = days.tz_localize(zone).as_unit("us").astype("int64").tolist()
    found = list(mt.Calendar(size, zone=zone).closed(edges[0], edges[-1]))
    assert found == [*pairwise(edges)]


def test_a_month_from_each_day_ends_with_the_last_day_of_a_shorter_one():
    """As pandas' DateOffset(months=1), and java.time's plusMonths."""
    calendar = mt.Calendar("1 month", every="1 day")
    found = list(calendar.closed(at("UTC", 2026, 2, 1), at("UTC", 2026, 6, 1)))
    for start, end in found:
        moved = pd.Timestamp(start, unit="us") + pd.DateOffset(months=1)
        assert pd.Timestamp(end, unit="us") == moved
    starts, ends = zip(*found, strict=True)
    assert [*starts] == [*range(starts[0], starts[-1] + 1, DAY)]
    assert [*ends] == sorted(ends)


def test_weeks_and_months_are_counted_from_1970():
    assert list(mt.Calendar("2 weeks").closed(0, at("UTC", 1970, 2, 1))) == [
        (at("UTC", 1969, 12, 22), at("UTC", 1970, 1, 5)),
        (at("UTC", 1970, 1, 5), at("UTC", 1970, 1, 19)),
    ]
    upto = at("UTC", 2025, 1, 2)
    found = list(mt.Calendar("5 years").closed(at("UTC", 2022, 1, 1), upto))
    assert found == [(at("UTC", 2020, 1, 1), at("UTC", 2025, 1, 1))]
    upto = at("UTC", 1970, 2, 9)
    assert list(mt.Calendar("1 week", every="1 month").closed(0, upto)) == [
        (0, at("UTC", 1970, 1, 8)),
        (at("UTC", 1970, 2, 1), at("UTC", 1970, 2, 8)),
    ]


spans = st.sampled_from(["1 day", "2 days", "1 week", "1 month", "1 quarter", "3 weeks"])
calendars = st.builds(
    lambda size, every, zone: mt.Calendar(size, every, zone=zone),
    spans,
    spans,
    st.sampled_from(ZONES),
)


@QUICK
@given(calendars, st.integers(-(10**9), 10**9).map(lambda t: t * 10**6))
def test_edges_and_windows_agree(calendar, t):
    """The next edge is the first start or end, from wherever windows are listed."""
    some = list(calendar.closed(t - 250 * DAY, t + 400 * DAY))
    edges = {edge for window in some for edge in window}
    assert calendar.next_edge(t) == min(edge for edge in edges if edge > t)
    upto = t + 150 * DAY
    assert [w for w in some if t < w[1] <= upto] == list(calendar.closed(t, upto))
    assert all(0 < end - start <= calendar.longest for start, end in some)


UNIT = 5 * HOUR
BEGIN = at("UTC", 2026, 3, 20)


def scaled(stream):
    """Return a stream with times of so many hours since some days before clocks are changed."""
    for event in stream:
        if isinstance(event, dict):
            yield {**event, "t": event["t"] * UNIT + BEGIN}
        else:
            yield event if isinstance(event, str) else event * UNIT + BEGIN


def is_near(stream):
    """Whether a stream is near 0, so that it takes no more days than a test can."""
    return all(
        abs(e["t"] if isinstance(e, dict) else e) < 2000 for e in stream if not isinstance(e, str)
    )


@PLANS
@settings(QUICK, max_examples=MORE or 20)
@given(
    stream=streams().filter(is_near),
    some=st.lists(calendars, min_size=1, max_size=2),
    lateness=st.sampled_from([0, 40]),
    aggregates=st.sampled_from([COMMUTATIVE, EXACT]),
)
def test_every_table_is_the_oracles(plan, stream, some, lateness, aggregates):
    windows = {f"w{i}": window for i, window in enumerate(some)} | {"h": mt.Sliding("6 h", "2 h")}
    oracle = WindowOracle(windows, aggregates, lateness * UNIT, keys=KEYS)

    def advance(watermark, table):
        same(read_results(table, KEYS), oracle.advance(watermark))

    def process(rows, _table):
        oracle.process(rows)

    query = query_of(windows, aggregates, lateness=lateness * UNIT)
    counters = drive(query, scaled(stream), plan, process, advance).counters
    assert (counters.rows, counters.dropped) == (oracle.rows, oracle.dropped)


def test_rows_are_counted_in_local_days():
    first = dt.datetime(2026, 3, 28, tzinfo=ZoneInfo("Europe/Berlin")).astimezone(dt.UTC)
    rows = {"at": [first + dt.timedelta(minutes=30 * i) for i in range(2 * 71)]}
    days, count = {"day": mt.Calendar("1 day", zone="Europe/Berlin")}, {"n": mt.Count()}
    table = mt.Query(time="at", windows=days, aggregates=count, idle="3 days").run(rows)
    assert table["n"].to_pylist() == [48, 46, 48]
    with pytest.raises(ValueError, match="idle must be at least"):
        mt.Query(time="at", windows=days, aggregates=count, idle="1 day")


def test_a_time_beyond_the_calendar_is_refused():
    operator = query_of({"w": mt.Calendar("1 month")}, {"n": mt.Count()}).operator()
    with pytest.raises(ValueError, match="years 1 to 9999"):
        operator.process([{"t": 2**60, "room": "a", "plug": 1}])
    assert operator.counters.rows == 0
