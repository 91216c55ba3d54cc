"""`idle`: where rows of a key are further apart, a new life begins, as if of another key.

The definition is the oracle's: the sorted rows of a key are parted where they are more than `idle`
apart, and each part is a key. A window of a life that is not the first is reported once no row can come
that joins this life to the one before; else what was reported of the older one could not be corrected.
"""

import random
from itertools import pairwise

import numpy as np
import pytest

import muntin as mt
from muntin import policies
from muntin.aggregates import SnapshotError, seal, unseal
from muntin.query.forgetting import FEW_LIVES
from muntin.query.operator import MANY_KEYS
from muntin.windows import ContextFreeWindow, Session, Ticking
from tests.window_oracle import WindowOracle, as_plain, bounds, complete

LIST = {"list": mt.Collect("v"), "n": mt.Count()}
KINDS = {
    "count": lambda rng: mt.Sliding(rng.randint(1, 5), rng.randint(1, 5), measure="count"),
    "last": lambda rng: mt.LastN(rng.randint(1, 4), rng.randint(2, 9), origin=rng.randint(0, 3)),
    "punctuation": lambda _rng: mt.Punctuation("p"),
    "own": lambda _rng: EveryThird(),
    "last policy": lambda rng: mt.Policy(policies.last(3), rng.randint(2, 9)),
    "within": lambda rng: mt.Policy(policies.within(rng.randint(3, 15), "t"), rng.randint(2, 9)),
    "delta": lambda rng: mt.Delta("km", rng.randint(2, 9), rng.randint(2, 5)),
    "sliding": lambda rng: mt.Sliding(rng.randint(1, 9), rng.randint(1, 5)),
    "session": lambda rng: mt.Session(rng.randint(1, 6)),
}


class EveryThird(mt.ContextAwareWindow):
    """A window begins with every third row."""

    def begin(self):
        return {"rows": 0}

    def opens(self, context, _time, _row):
        if context is None:
            return True
        context["rows"] += 1
        return context["rows"] > 3


class Days(mt.ContextFreeWindow):
    """A window of one's own, of which only it knows how long it is."""

    def __init__(self, length):
        self.length = length

    def next_edge(self, t):
        return (t // self.length + 1) * self.length

    def closed(self, after, upto):
        end = self.next_edge(after)
        while end <= upto:
            yield end - self.length, end
            end += self.length


class LivesOracle(WindowOracle):
    """What a query with `idle` must report; a life is a key of its own."""

    def __init__(self, *arguments, idle, **options):
        super().__init__(*arguments, **options)
        self.idle = idle

    def _complete(self):
        for name, window in self.windows.items():
            for key, rows in self.counted[name].items():
                for life, own in enumerate(self._lives(window, sorted(rows))):
                    for start, end, content in complete(window, own, self._clock(key)):
                        if not isinstance(window, Ticking) or end <= own[-1].t + self.idle:
                            yield name, (key, life), start, end, content

    def _lives(self, window, rows):
        of_time = isinstance(window, ContextFreeWindow) and window.measure == "time"
        if of_time or isinstance(window, Session):
            return [rows]
        cuts = [i for i in range(1, len(rows)) if rows[i].t - rows[i - 1].t > self.idle]
        lives = [rows[i:j] for i, j in pairwise([0, *cuts, len(rows)])]
        if self.ordered:
            return lives
        past = self.watermark - self.lateness
        known = (before[-1].t + self.idle < past for before in lives)
        return lives[: 1 + next((i for i, sure in enumerate(known) if not sure), len(lives))]

    def listed(self, changes):
        results, retracted = changes
        lines = [
            (key, name, start, end, kind, [as_plain(v) for v in values.values()])
            for ((key, _), name, start, end), (kind, values) in results.items()
        ]
        lines += [(key, name, *span, "retract", None) for (key, _), name, *span in retracted]
        return sorted(lines, key=repr)


def listed(table):
    lines = []
    for row in table.to_pylist():
        values = None if row["kind"] == "retract" else [as_plain(row[n]) for n in LIST]
        lines.append(((row["k"],), row["window"], *bounds(row), row["kind"], values))
    return sorted(lines, key=repr)


def stream(rng, batches, ordered):
    """Return batches of rows with gaps of all lengths, each followed by a watermark."""
    now, made, arrival = 0, [], 0
    for _ in range(batches):
        rows = []
        for _ in range(rng.randint(0, 6)):
            now += rng.choice([0, 0, 1, 2, 5, 12, 25, 40])
            t = now if ordered else now - rng.choice([0, 0, 1, 4, 9, 20, 30])
            arrival += 1
            key, mark = rng.choice("ab"), rng.random() < 0.3
            rows.append({"t": t, "k": key, "v": arrival, "p": mark, "km": t - t // 3})
        made.append((rows, now - rng.choice([0, 3, 10, 30])))
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "ordered"])
@pytest.mark.parametrize("seed", range(25))
def test_what_is_reported_is_what_the_definition_gives(kind, ordered, seed):
    rng = random.Random(f"{kind} {ordered} {seed}")
    windows = {"w": KINDS[kind](rng)}
    if rng.random() < 0.3:
        windows["ten"] = mt.Tumbling(10)
    lateness = rng.choice([0, 0, 4, 15])
    idle = lateness + 10 + rng.choice([0, 3, 12])
    query = mt.Query(
        time="t", keys="k", windows=windows, aggregates=LIST, lateness=lateness, ordered=ordered,
        idle=idle,
    )  # fmt: skip
    options = {"time": "t", "keys": ("k",), "ordered": ordered, "idle": idle}
    operator, oracle = query.operator(), LivesOracle(windows, LIST, lateness, **options)
    for rows, watermark in [*stream(rng, 25, ordered), ([], 10_000)]:
        found = operator.process(rows) if rows else operator.results()
        expected = oracle.process(rows) if rows else None
        if ordered and rows:
            assert listed(found) == oracle.listed(expected)
        elif rng.random() < 0.1:
            operator = query.restore(operator.snapshot())
        watermark = min(watermark, 2000)
        assert listed(operator.advance(watermark)) == oracle.listed(oracle.advance(watermark))
    assert operator.counters.dropped == oracle.dropped
    assert operator.counters.rows == oracle.rows


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("sliding", "session")])
@pytest.mark.parametrize("seed", range(6))
def test_batch_and_stream_end_with_the_same_table(kind, seed):
    rng = random.Random(f"{kind} {seed}")
    query = mt.Query(
        time="t", keys="k", windows={"w": KINDS[kind](rng)}, aggregates=LIST, lateness=15, idle=30
    )
    made = stream(rng, 30, False)
    rows, operator = [], query.operator()
    kept: dict = {}
    for batch, watermark in [*made, ([], 5000)]:
        dropped = operator.counters.dropped
        operator.process(batch) if batch else None
        if operator.counters.dropped == dropped:
            rows += batch
        else:  # a row was too late: the batch is not there for either
            pytest.fail("streams of this test have no row that is too late")
        keep(kept, operator.advance(min(watermark, min_time(made, batch))))
    whole: dict = {}
    keep(whole, query.run(sorted(rows, key=lambda row: row["t"])))
    assert kept == whole


def min_time(made, batch):
    """Return a watermark that leaves every row that comes later in time."""
    at = next((i for i, (rows, _) in enumerate(made) if rows is batch), len(made))
    later = [row["t"] for rows, _ in made[at + 1 :] for row in rows]
    return min(later, default=5000)


def keep(table, reported):
    """Do what a consumer does: keep the last row of each window, and delete what is retracted."""
    for row in reported.to_pylist():
        name = (row["k"], *bounds(row))
        if row["kind"] == "retract":
            del table[name]
        else:
            table[name] = row["list"]


def query_of(window, **options):
    options = {"idle": 20, **options}
    return mt.Query(time="t", keys="k", windows={"w": window}, aggregates=LIST, **options)


def one_by_one(*times, key="a"):
    return [{"t": t, "k": key, "v": t, "p": False, "km": t} for t in times]


def test_a_late_row_that_bridges_a_gap_joins_two_lives():
    operator = query_of(mt.Tumbling(2, measure="count"), lateness=20).operator()
    operator.process(one_by_one(1, 2, 30, 31))
    assert operator.advance(40)["list"].to_pylist() == [[1, 2]]  # a row at 20 may still come
    operator.process(one_by_one(20))
    found = operator.advance(41).to_pylist()
    assert [(row["start"], row["list"]) for row in found] == [(2, [20, 30])]
    operator.process(one_by_one(100, 101, 102))
    found = operator.advance(130).to_pylist()
    assert [(row["start"], row["kind"], row["list"]) for row in found] == [
        (0, "result", [100, 101])
    ]


def test_ticks_end_with_the_last_row_and_idle():
    table = query_of(mt.LastN(1, 10)).run(one_by_one(5, 12) + one_by_one(95, key="b"))
    ends = [(row["k"], row["end"]) for row in table.to_pylist()]
    assert ends == [("a", 10), ("a", 20), ("a", 30), ("b", 100), ("b", 110)]


def test_a_row_that_extends_a_life_brings_the_ticks_that_were_not_reported():
    operator = query_of(mt.LastN(1, 10), lateness=20).operator()
    operator.process(one_by_one(5))
    assert operator.advance(35)["end"].to_pylist() == [10, 20]
    operator.process(one_by_one(21))
    found = operator.advance(36).to_pylist()
    assert [(row["end"], row["kind"], row["list"]) for row in found] == [(30, "result", [21])]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"idle": 19, "lateness": 10, "windows": {"w": mt.Sliding(10, 5)}}, "at least .* 20"),
        ({"idle": 19, "windows": {"w": mt.Session(20)}}, "'w' together, 20; got 19"),
        ({"idle": 9, "lateness": 10, "windows": {"w": mt.LastN(2, 100)}}, "at least"),
        ({"idle": 9, "windows": {"w": mt.Fixed(0, 10)}}, "at least"),
        ({"idle": -1, "windows": {"w": mt.LastN(2, 100)}}, "idle must not be negative"),
    ],
)
def test_an_idle_time_that_cannot_be_kept_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        mt.Query(time="t", aggregates=LIST, **options)


def test_a_state_serves_a_query_with_the_same_idle():
    operator = query_of(mt.LastN(2, 10)).operator()
    operator.process(one_by_one(1, 50))
    with pytest.raises(SnapshotError, match="idle"):
        query_of(mt.LastN(2, 10), idle=30).restore(operator.snapshot())
    assert query_of(mt.LastN(2, 10)).restore(operator.snapshot()).counters.rows_kept == 2


def ends_of(rows, window):
    return {row["end"]: row["list"] for row in rows if row["window"] == window}


def test_windows_and_aggregates_come_while_rows_wait_for_their_life():
    operator = query_of(mt.LastN(2, 10), lateness=10).operator()
    operator.process(one_by_one(1, 50))
    operator.add_window("pairs", mt.Tumbling(2, measure="count"))
    operator.add_window("more", mt.LastN(1, 10))
    operator.add_aggregate("sum", mt.Sum("v"))
    operator.process(one_by_one(49, 55, 61))
    operator = operator.query.restore(operator.snapshot())
    rows = operator.advance(100).to_pylist()
    assert ends_of(rows, "w") == {
        10: [1], 20: [1], 50: [49], 60: [50, 55], 70: [55, 61], 80: [55, 61],
    }  # fmt: skip
    assert [row["sum"] for row in rows if row["window"] == "w"] == [None] * 4 + [116] * 2
    assert ends_of(rows, "pairs") == {2: [55, 61]}  # 49 is before the key's last row
    assert ends_of(rows, "more") == {60: [55], 70: [61], 80: [61]}


def test_a_life_that_began_after_a_window_came_is_whole():
    operator = query_of(mt.Tumbling(2, measure="count")).operator()
    operator.process(one_by_one(1))
    operator.add_window("last", mt.LastN(3, 10))
    operator.process(one_by_one(5, 50))
    assert ends_of(operator.advance(100).to_pylist(), "last") == {60: [50], 70: [50]}


@pytest.mark.parametrize("ordered", [False, True])
def test_windows_in_rows_come_to_a_query_that_had_none(ordered):
    operator = query_of(mt.Tumbling(10), ordered=ordered).operator()
    rows = operator.process(one_by_one(1, 7)).to_pylist()
    operator.add_window("pairs", mt.Tumbling(2, measure="count"))
    rows += operator.process(one_by_one(12, 20)).to_pylist()
    operator = operator.query.restore(operator.snapshot())
    rows += operator.process(one_by_one(45, 50)).to_pylist()
    rows += operator.advance(100).to_pylist()
    pairs = [row["list"] for row in rows if row["window"] == "pairs"]
    assert pairs == [[12, 20], [45, 50]]
    operator.remove_window("pairs")
    assert operator.counters.rows_kept == 0


def test_lateness_changes_while_rows_wait_for_their_life():
    operator = query_of(mt.Tumbling(2, measure="count")).operator()
    operator.process(one_by_one(1, 2, 30, 31))
    assert operator.advance(23)["list"].to_pylist() == [[1, 2]]
    operator.change_lateness(15)
    with pytest.raises(ValueError, match="idle must be at least"):
        operator.change_lateness(21)
    assert operator.advance(35)["list"].to_pylist() == [[30, 31]]  # none joins 2: 23 was passed
    operator.process(one_by_one(24))
    assert operator.advance(36)["list"].to_pylist() == [[24, 30]]


@pytest.mark.parametrize("lateness", [0, 4])
def test_windows_of_ones_own_are_measured_when_rows_come(lateness):
    operator = query_of(Days(16), lateness=lateness).operator()
    operator.process(one_by_one(1, 17))
    assert operator.advance(100)["list"].to_pylist() == [[1], [17]]
    operator = query_of(Days(21 - lateness), lateness=lateness).operator()
    before = operator.snapshot()
    longest = 20 - lateness
    with pytest.raises(ValueError, match=rf"'w' \[0, {longest + 1}\) .* lateness, {longest}:"):
        operator.process(one_by_one(1, 7))
    assert operator.snapshot() == before


def test_a_row_that_cannot_be_lifted_is_refused_with_its_batch():
    def checked(value):
        if value == 13:
            raise ValueError("no 13")
        return value

    picky = mt.Aggregate(
        "picky", 0, checked, lambda a, b: str(a) + str(b), columns=("v",), commutative=False
    )
    query = mt.Query(
        time="t", keys="k", windows={"w": mt.LastN(2, 10)}, aggregates={"n": picky}, idle=20
    )
    operator = query.operator()
    operator.process(one_by_one(1, 12))
    before = operator.snapshot()
    with pytest.raises(ValueError, match="no 13"):
        operator.process(one_by_one(2, 13))
    assert operator.snapshot() == before


@pytest.mark.parametrize("values", [[None, None, 4], [None, None, "x"], [None, 2.5, None]])
def test_rows_wait_that_came_before_the_type_of_a_column_was_known(values):
    query = mt.Query(
        time="t",
        keys="k",
        windows={"w": mt.Tumbling(3, measure="count")},
        aggregates={"top": mt.Max("v"), "n": mt.Count()},
        idle=20,
    )
    operator = query.operator()
    for t, value in enumerate(values):
        operator.process([{"t": t, "k": 1, "v": value}])
    if values[-1] is not None:
        operator = query.restore(operator.snapshot())
    assert operator.advance(50).to_pylist()[0]["top"] == max(v for v in values if v is not None)


@pytest.mark.parametrize("ordered", [False, True])
def test_lives_that_ended_are_forgotten(ordered):
    operator = query_of(mt.Punctuation("p"), ordered=ordered).operator()
    most = 0
    for i in range(40 * FEW_LIVES):
        operator.process(one_by_one(30 * i, 30 * i + 1))
        operator.advance(30 * i + 2)
        most = max(most, operator.counters.rows_kept + operator.counters.slices)
    assert operator.counters.keys == 1
    assert most <= 6 * FEW_LIVES


@pytest.mark.parametrize(
    "part",
    [
        ("owner",), ("of_key",), ("last",), ("names",), ("waiting",),
        ("waiting", "keys"), ("waiting", "times"), ("waiting", "inputs"), ("waiting", "extra"),
    ],
)  # fmt: skip
def test_lives_that_were_altered_are_refused(part):
    operator = query_of(mt.Punctuation("p")).operator()
    operator.process(one_by_one(1, 50))
    operator.advance(10)
    refused = 0
    for forged in (None, [], 7, np.array([5]), np.array([-9]), np.array([0.5]), [[]], {}):
        state = unseal(operator.snapshot())
        *way, last = part
        place = state["lives"]
        for name in way:
            place = place[name]
        place[last] = forged
        try:
            again = operator.query.restore(seal(state))
        except SnapshotError:
            refused += 1
        else:  # it may be the state of another stream
            again.advance(1000)
    assert refused >= 4


@pytest.mark.parametrize("kind", ["last", "last policy", "within"])
@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "ordered"])
@pytest.mark.parametrize("seed", range(12))
def test_changes_of_ticks_say_where_a_life_ends(kind, ordered, seed):
    rng = random.Random(f"changes {kind} {ordered} {seed}")
    options = {"time": "t", "keys": "k", "aggregates": LIST, "ordered": ordered, "lateness": 4}
    options |= {"windows": {"w": KINDS[kind](rng)}, "idle": rng.choice([10, 14, 25])}
    every = mt.Query(**options).operator()
    changes = mt.Query(**options, emit="changes").operator()
    tables: list = [{}, {}]
    for rows, watermark in [*stream(rng, 25, ordered), ([], 3000)]:
        for operator, table in zip((every, changes), tables, strict=True):
            for reported in (operator.process(rows) if rows else operator.results(),
                             operator.advance(watermark)):  # fmt: skip
                by_end(table, reported)
    window = options["windows"]["w"]
    for key in "ab":
        found = [(end, values) for (k, end), values in sorted(tables[1].items()) if k == key]
        found.append((window.first_end(3000), None))
        held = {
            end: values
            for (first, values), (last, _) in pairwise(found)
            for end in range(first, last, window.every)
            if values is not None
        }
        assert held == {end: values for (k, end), values in tables[0].items() if k == key}


def by_end(table, reported):
    for row in sorted(reported.to_pylist(), key=lambda row: row["kind"] != "retract"):
        if row["kind"] == "retract":
            del table[row["k"], row["end"]]
        else:
            table[row["k"], row["end"]] = None if row["kind"] == "empty" else row["list"]


@pytest.mark.parametrize("ordered", [False, True])
def test_keys_whose_lives_have_ended_are_forgotten_when_changes_are_asked_for(ordered):
    operator = query_of(mt.LastN(1, 70), ordered=ordered, emit="changes").operator()
    for i in range(600):
        for key in range(10):
            operator.process(one_by_one(30 * i, key=f"{i} {key}"))
        operator.advance(30 * i)
    operator.advance(10**6)
    assert operator.counters.rows_kept <= FEW_LIVES
    assert operator.counters.keys < MANY_KEYS
