"""`idle`: where neighbouring rows of a key are further apart, a new life begins, as if of another key.

The definition is the oracle's: the sorted rows of a key are parted where they are more than `idle`
apart, and each part is a key. A window of a life that is not the first is reported once no row can come
that joins this life to the one before; else what was reported of the older one could not be corrected.
"""

import random
from itertools import pairwise

import pytest

import muntin as mt
from muntin import policies
from muntin.windows import ContextFreeWindow, Session, Ticking
from tests.window_oracle import WindowOracle, as_plain, complete

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
        lines.append(((row["k"],), row["window"], row["start"], row["end"], row["kind"], values))
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
