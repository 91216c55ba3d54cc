"""Own windows between rows that open one: random streams against the definition, and what is called."""

import random

import pytest

import muntin as mt
from tests.window_oracle import WindowOracle, bounds

LIST = {"all": mt.Collect("v"), "sum": mt.Sum("v")}


class Barrels(mt.ContextAwareWindow):
    """A row opens a window when those before it have filled one, or if it says so."""

    def __init__(self, limit):
        self.limit = limit

    def begin(self):
        return [0]

    def opens(self, context, time, row):
        if row["fails"]:
            raise ArithmeticError(f"row {row['v']} at {time}")
        full = context[0] >= self.limit
        context[0] += row["x"]
        return full or row["p"]


class Marks(mt.ContextAwareWindow):
    """A row opens a window if it says so, or at times of a multiple of 7; nothing is remembered."""

    def opens(self, context, time, row):
        assert context is None
        if row["fails"]:
            raise ArithmeticError(f"row {row['v']} at {time}")
        return row["p"] or time % 7 == 0


def a_batch(draw, now, keys, numbers, *, ordered):
    rows = []
    for _ in range(draw.randint(1, 9)):
        now += draw.choice([0, 0, 1, 2, 5])
        t = now if ordered else now - draw.choice([0, 0, 0, 1, 3, 10, 30])
        p = draw.random() < 0.1
        row = {"t": t, "k": draw.choice(keys), "v": next(numbers), "x": draw.randint(0, 9), "p": p}
        rows.append({**row, "fails": False})
    return now, rows


def follow(current, table, aggregates=LIST):
    """Keep what a consumer has by a table of results; updates and retractions are of what it has."""
    said = set()
    for row in table.to_pylist():
        window = (row["k"],), row["window"], *bounds(row)
        assert window not in said, f"{window} came twice"
        said.add(window)
        if row["kind"] == "retract":
            del current[window]
        else:
            assert (row["kind"] == "update") == (window in current)
            current[window] = {name: row[name] for name in row if name in aggregates}


def refuse(draw, operator, rows, now):
    """Give an operator the rows with one at which the window's function fails."""
    bad = [*rows, {**draw.choice(rows), "t": now, "fails": True}]
    draw.shuffle(bad)
    with pytest.raises(ArithmeticError):
        operator.process(bad)


def check_a_stream(seed, ordered):
    draw = random.Random(seed)
    lateness = 0 if ordered else draw.choice([0, 3, 15, 100])
    windows = {"own": draw.choice([Barrels(draw.choice([1, 12, 40])), Marks()])}
    chosen = LIST if draw.random() < 0.5 else {"sum": LIST["sum"]}
    query = mt.Query(
        time="t",
        keys=("k",),
        windows=windows,
        aggregates=chosen,
        lateness=lateness,
        ordered=ordered,
    )
    operator = query.operator(draw.choice(["auto", "eager"]))
    oracle = WindowOracle(windows, chosen, lateness, keys=("k",), ordered=ordered)
    current, now, numbers = {}, 0, iter(range(10_000))
    keys = draw.choice(["a", "ab", "abcdefghijkl"])
    fails = draw.choice([0, 0.3])
    for _ in range(draw.randint(1, 12)):
        now, rows = a_batch(draw, now, keys, numbers, ordered=ordered)
        if draw.random() < fails and not ordered:
            refuse(draw, operator, rows, now)
        follow(current, operator.process(rows))
        oracle.process(rows)
        if draw.random() < 0.6:
            watermark = now - draw.choice([0, 2, 8])
            follow(current, operator.advance(watermark))
            oracle.advance(watermark)
        if draw.random() < 0.2:
            operator = query.restore(operator.snapshot())
        assert current == oracle.table(), seed


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("first_seed", range(0, 300, 50))
def test_random_streams_give_the_windows_of_the_definition(first_seed, ordered):
    for seed in range(first_seed, first_seed + 50):
        check_a_stream(seed, ordered)


class Counting(Barrels):
    """The same; says which rows it is shown, and whether that is to the context of their window."""

    def __init__(self, limit):
        super().__init__(limit)
        self._shown = []

    def opens(self, context, time, row):
        self._shown.append(row["v"])
        return super().opens(context, time, row)

    def describe(self):
        return "Counting"

    def shown(self):
        """Return what was shown since the last time."""
        shown, self._shown = self._shown, []
        return shown


def plain_rows(times, first=0):
    numbers = range(first, first + len(times))
    return [
        {"t": t, "v": v, "x": 1, "p": False, "fails": False}
        for t, v in zip(times, numbers, strict=True)
    ]


def counting(limit, **options):
    window = Counting(limit)
    query = mt.Query(time="t", windows={"own": window}, aggregates={"n": mt.Count()}, **options)
    return window, query.operator()


def test_in_order_a_row_is_shown_once_and_again_only_to_the_context_of_a_window_it_opens():
    window, operator = counting(10)
    for first in range(0, 100, 7):
        rows = plain_rows(range(first, min(first + 7, 100)), first)
        operator.process(rows)
        opening = [row["v"] for row in rows if row["v"] % 10 == 0 and row["v"] > 0]
        assert window.shown() == sorted([row["v"] for row in rows] + opening)
        operator.advance(first)
        assert window.shown() == []


def test_a_late_row_has_only_the_windows_seen_again_that_it_may_change():
    window, operator = counting(10, lateness=1000)
    operator.process(plain_rows(range(0, 1000, 10)))
    operator.advance(500)
    window.shown()
    (late,) = plain_rows([205], 100)
    operator.process([{**late, "x": 0}])
    assert set(window.shown()) == {*range(20, 31), 100}


def test_a_batch_that_is_refused_has_only_the_open_window_seen_again():
    window, operator = counting(10)
    operator.process(plain_rows(range(25)))
    window.shown()
    (bad,) = plain_rows([26], 26)
    with pytest.raises(ArithmeticError):
        operator.process([{**bad, "fails": True}])
    assert window.shown() == [26]
    operator.process([bad])
    assert window.shown() == [*range(20, 25), 26]
    operator.process(plain_rows([27], 27))
    assert window.shown() == [27]


def test_a_window_that_remembers_nothing_sees_each_row_once_even_if_it_is_late():
    shown = []

    class Once(mt.ContextAwareWindow):
        def opens(self, context, time, row):
            del context
            shown.append((time, row["v"]))
            return row["v"] % 5 == 0

    query = mt.Query(time="t", windows={"own": Once()}, aggregates={"n": mt.Count()}, lateness=1000)
    operator = query.operator()
    rows = [(t, v) for v, t in enumerate(random.Random(1).sample(range(200), 100))]
    for i in range(0, 100, 9):
        part = rows[i : i + 9]
        operator.process({"t": [t for t, _ in part], "v": [v for _, v in part]})
        operator.advance(2 * i)
    assert shown == rows
    assert "one per window" in query.explain()
