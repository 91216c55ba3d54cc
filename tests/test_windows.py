"""Where windows start and end: against their definition, in every way of writing them."""

import datetime as dt
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.policies import last
from muntin.windows import (
    Calendar,
    ContextAwareWindow,
    ContextFreeWindow,
    Cumulate,
    Delta,
    Fixed,
    LastN,
    Policy,
    Punctuation,
    Session,
    Sliding,
    Tumbling,
)

HOUR = 3_600_000_000
DAY = 24 * HOUR
FAR = 200

sizes = st.integers(1, 40)
times = st.integers(-120, 120)
periodic = st.one_of(
    st.builds(lambda size, origin: Tumbling(size, origin=origin), sizes, times),
    st.builds(lambda size, every, o: Sliding(size, every, origin=o), sizes, sizes, times),
    st.builds(lambda size, every, o: Delta("km", size, every, origin=o), sizes, sizes, times),
    st.builds(
        lambda size, every, o: Sliding(size, every, measure="count", origin=o), sizes, sizes, times
    ),
)
cumulating = st.builds(
    lambda step, steps, o: Cumulate(step * steps, step, origin=o),
    st.integers(1, 9),
    st.integers(1, 6),
    times,
)
context_free = st.one_of(periodic, cumulating, st.builds(Fixed, times, sizes))


def defined(window):
    """Return all windows that a test can reach, by the words of the definition."""
    if isinstance(window, Fixed):
        return [(window.start, window.start + window.size)]
    if isinstance(window, Cumulate):
        starts = (k * window.size + window.origin for k in range(-2 * FAR, 2 * FAR))
        steps = range(window.step, window.size + 1, window.step)
        return [(start, start + length) for start in starts for length in steps]
    starts = (k * window.every + window.origin for k in range(-2 * FAR, 2 * FAR))
    return [(start, start + window.size) for start in starts]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(window=context_free, t=times)
def test_the_next_edge_is_the_first_start_or_end_after_a_time(window, t):
    edges = {edge for span in defined(window) for edge in span}
    assert window.next_edge(t) == min((edge for edge in edges if edge > t), default=None)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(window=context_free, after=times, length=st.integers(-5, 100))
def test_closed_gives_the_windows_that_end_in_between_in_order(window, after, length):
    upto = after + length
    expected = [(start, end) for start, end in defined(window) if after < end <= upto]
    assert list(window.closed(after, upto)) == expected


@settings(max_examples=50, deadline=None, derandomize=True)
@given(window=context_free, after=times, cuts=st.lists(st.integers(0, 30), max_size=5))
def test_no_window_is_lost_or_told_twice_where_a_stretch_is_cut(window, after, cuts):
    upto, pieces = after, []
    for cut in cuts:
        pieces += window.closed(upto, upto + cut)
        upto += cut
    assert pieces == list(window.closed(after, upto))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(every=sizes, origin=times, after=times)
def test_last_n_ends_at_multiples_of_every(every, origin, after):
    end = LastN(3, every, origin=origin).first_end(after)
    assert (end - origin) % every == 0
    assert after < end <= after + every


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("1 hour", HOUR),
        ("1h", HOUR),
        (dt.timedelta(hours=1), HOUR),
        (np.timedelta64(1, "h"), HOUR),
        ("90 min", 90 * 60_000_000),
        (250, 250),
        (np.int64(250), 250),
    ],
)
def test_a_length_may_be_written_in_many_ways(written, length):
    assert Tumbling(written) == Tumbling(length)
    assert Sliding(written, written) == Sliding(length, length)
    assert (Tumbling(written).size, Tumbling(written).every) == (length, length)
    assert Session(written).gap == LastN(5, written).every == Fixed(0, written).size == length


@pytest.mark.parametrize(
    "written",
    [
        "1970-01-02",
        "1970-01-02 00:00",
        dt.datetime(1970, 1, 2),
        dt.datetime(1970, 1, 2, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        np.datetime64("1970-01-02"),
        DAY,
        np.int64(DAY),
    ],
)
def test_an_origin_and_a_start_are_times_in_many_ways(written):
    assert Tumbling("1 hour", origin=written).origin == DAY
    assert Fixed(written, "1 hour").start == DAY
    assert LastN(1, "1 hour", origin=written).origin == DAY


@pytest.mark.parametrize("measure", ["time", "count"])
def test_a_tumbling_window_is_a_sliding_one_that_moves_by_its_size(measure):
    tumbling, sliding = Tumbling(7, measure=measure), Sliding(7, 7, measure=measure)
    assert list(tumbling.closed(-20, 20)) == list(sliding.closed(-20, 20))


def test_a_delta_moves_by_its_size_unless_told_otherwise():
    assert Delta("km", 100).every == 100
    assert Delta("km", 100, 10).every == 10
    assert Delta("km", 100).measure == "km"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Tumbling(0), ValueError, "size must be above zero, got 0"),
        (lambda: Tumbling("0 s"), ValueError, "size must be above zero, got '0 s'"),
        (lambda: Tumbling(-5), ValueError, "got -5"),
        (lambda: Tumbling(0, measure="count"), ValueError, "size must be above zero"),
        (lambda: Sliding(10, 0), ValueError, "every must be above zero, got 0"),
        (lambda: Sliding(10, -1, measure="count"), ValueError, "every must be above zero"),
        (lambda: Session(0), ValueError, "gap must be above zero, got 0"),
        (lambda: Session("-1 min"), ValueError, "gap must be above zero, got '-1 min'"),
        (lambda: LastN(0, 10), ValueError, "n must be above zero"),
        (lambda: LastN(3, 0), ValueError, "every must be above zero"),
        (lambda: Fixed(5, 0), ValueError, "size must be above zero"),
        (lambda: Delta("km", 0), ValueError, "size must be above zero"),
        (lambda: Delta("km", 5, 0), ValueError, "every must be above zero"),
        (lambda: Delta("", 5), ValueError, "name of a column, got ''"),
        (lambda: Delta("count", 5), ValueError, "name of a column, got 'count'"),
        (lambda: Delta("time", 5), ValueError, "name of a column, got 'time'"),
        (lambda: Tumbling("1 fortnight"), ValueError, "'1 fortnight' is not a duration"),
        (lambda: Fixed("noon", 5), ValueError, "'noon' is not a time"),
        (lambda: Sliding("1 s", 100), TypeError, "every is a bare number beside a duration"),
        (lambda: Sliding(100, "1 s"), TypeError, "size is a bare number beside a duration"),
        (lambda: Sliding(np.timedelta64(9, "s"), np.int64(1)), TypeError, "every is a bare number"),
        (lambda: Cumulate("1 day", 10), TypeError, "step is a bare number beside a duration"),
        (lambda: Cumulate(10, 4), ValueError, "step=4 must divide size=10"),
        (lambda: Cumulate(10, 20), ValueError, "step=20 must divide size=10"),
        (lambda: Cumulate(10, 0), ValueError, "step must be above zero"),
        (lambda: Calendar("1 hour"), ValueError, "'1 hour' is not a number of days"),
        (lambda: Calendar("1 month 1 day"), ValueError, "is not a number of days"),
        (lambda: Calendar("0 days"), ValueError, "must be above zero"),
        (lambda: Calendar(30), TypeError, "size is a text such as '1 month', got 30"),
        (lambda: Calendar("1 month", 1), TypeError, "every is a text such as '1 month', got 1"),
        (lambda: Calendar("1 day", zone="Europe/Atlantis"), ValueError, "'Europe/Atlantis'"),
        (lambda: Calendar("1 day", zone=1), TypeError, "zone is the name of a time zone"),
        (lambda: Calendar("99999 years"), ValueError, "10000 years"),
        (lambda: Fixed("2026-01-31", 5), TypeError, "bare number beside the moment '2026-01-31'"),
        (lambda: Tumbling(1.5), TypeError, "a duration is needed"),
        (lambda: Tumbling(True), TypeError, "a duration is needed"),
        (lambda: Tumbling("1 hour", measure="count"), TypeError, "whole number of rows"),
        (lambda: Tumbling(True, measure="count"), TypeError, "whole number of rows"),
        (lambda: Tumbling(5, measure=None), TypeError, "measure"),
        (lambda: LastN("1 hour", "1 hour"), TypeError, "n is a whole number of rows"),
        (lambda: Delta("km", "1 hour"), TypeError, "whole number of 'km'"),
        (lambda: Fixed(True, 5), TypeError, "a time is needed"),
        (lambda: Punctuation(3), TypeError, "boolean column, or a function of a row; got 3"),
    ],
)
def test_what_cannot_be_a_window_is_refused_in_its_own_words(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("measure", ["rows", "counts", "km"])
def test_a_measure_that_is_neither_time_nor_count_is_refused(measure):
    with pytest.raises(ValueError, match=measure):
        Tumbling(5, measure=measure)


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (Tumbling(10), "<Tumbling 10>"),
        (Tumbling(10, measure="count"), "<Tumbling 10 rows>"),
        (Tumbling(10, origin=3), "<Tumbling 10 from 3>"),
        (Sliding(10, 5), "<Sliding 10 every 5>"),
        (Delta("km", 100, 10), "<Delta 100 of km every 10 of km>"),
        (Fixed(5, 10), "<Fixed 5 to 15>"),
        (Cumulate(60, 10), "<Cumulate 60 by 10>"),
        (Cumulate("1 day", "1 hour", origin=5), "<Cumulate 1 d by 1 h from 5>"),
        (Calendar("1 month"), "<Calendar 1 month in UTC>"),
        (
            Calendar("2 quarters", "1 week", zone="Europe/Berlin"),
            "<Calendar 6 months every 1 week in Europe/Berlin>",
        ),
        (Session(10), "<Session with a gap of 10>"),
        (LastN(3, 20), "<LastN 3 rows every 20>"),
        (Policy(last(3), 20, origin=5), "<Policy last(3) every 20 from 5>"),
        (Punctuation("ends"), "<Punctuation by ends>"),
    ],
)
def test_a_window_says_what_it_is(window, text):
    assert repr(window) == text
    assert window.describe() == text[1:-1]


@pytest.mark.parametrize(
    ("window", "context"),
    [
        (Tumbling(10), "context free"),
        (Delta("km", 10), "context free"),
        (Fixed(0, 10), "context free"),
        (Session(10), "session"),
        (Punctuation("ends"), "forward context free"),
        (LastN(3, 10), "forward context aware"),
        (Policy(last(3), 10), "forward context aware"),
    ],
)
def test_a_window_knows_the_context_it_needs(window, context):
    assert window.context == context


@pytest.mark.parametrize(
    "make",
    [
        lambda n: Tumbling(n),
        lambda n: Session(n),
        lambda n: LastN(n, 5),
        lambda n: Fixed(0, n),
        lambda n: Policy(last(n), 5),
    ],
)
def test_windows_are_values(make):
    assert make(3) == make(3)
    assert hash(make(3)) == hash(make(3))
    assert make(3) != make(4)
    with pytest.raises(FrozenInstanceError):
        make(3).size = 5


def test_a_punctuation_is_a_column_or_a_function():
    assert Punctuation("ends").opens(None, 0, {"ends": True}) is True
    assert Punctuation("ends").opens(None, 0, {"ends": None}) is False
    above = Punctuation(lambda row: row["v"] > 3)
    assert [above.opens(None, 0, {"v": v}) for v in (3, 4)] == [False, True]


def test_a_punctuation_by_a_callable_object_says_what_it_is():
    class Above:
        def __call__(self, row):
            return row["v"] > 3

    assert "Above" in repr(Punctuation(Above()))


@pytest.mark.parametrize("kind", [ContextFreeWindow, ContextAwareWindow])
def test_a_window_of_ones_own_must_say_where_it_starts_and_ends(kind):
    class Vague(kind):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Vague()


def test_durations_show_themselves_as_they_are_written():
    assert Sliding("60 min", dt.timedelta(seconds=90)).describe() == "Sliding 1 h every 90 s"
    assert Sliding(HOUR, 90).describe() == "Sliding 3600000000 every 90"
    assert Session("0.5 s").describe() == "Session with a gap of 500 ms"
    assert LastN(1000, np.timedelta64(2, "W")).describe() == "LastN 1000 rows every 2 w"
