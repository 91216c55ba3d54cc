"""`run` over a whole table: each window as in a query of its own, and as a stream ends with it."""

import random
from collections import defaultdict

import pytest

import muntin as mt
from muntin.query.requirements import last_end
from muntin.windows import Ticking
from tests.changing_cases import WHICH, parted, pool, step_of
from tests.test_query_properties import KEYS, WINDOWS, WITH_CHANGES, written
from tests.window_oracle import as_plain, bounds

AGGREGATES = {"rows": WHICH[0], "list": WHICH[1]}
CASES = 30


def case(number):
    """Return rows, some windows of all kinds, and the rest of a query."""
    chance = random.Random(number)
    ordered = chance.random() < 0.4
    events = chance.choices(pool()[0], k=chance.choice((5, 20, 50)))
    stream = parted(chance, written(events, chance.randint(1, 3), chance.randint(-50, 50), ordered))
    rows = [step_of(event)[1] for event in stream if isinstance(event, dict)]
    options = {"ordered": ordered, "emit": chance.choice(("every", "every", "changes"))}
    options["idle"] = chance.choice((None, None, 100, 140))
    there = [*(WITH_CHANGES if options["emit"] == "changes" else WINDOWS)]
    there = [kind for kind in there if options["idle"] is None or kind not in ("asked", "joined")]
    kinds = chance.sample(there, chance.choice((2, 4, len(there))))
    windows = {kind: chance.choice(pool()[1])[kind] for kind in kinds}
    return chance, rows, windows, options


def query_of(windows, options):
    return mt.Query(time="t", keys=KEYS, windows=windows, aggregates=AGGREGATES, **options)


def lines(table, name):
    """Return what is reported of a window, key by key in its order."""
    found = defaultdict(list)
    for row in table.to_pylist():
        if row["window"] == name:
            key, values = tuple(row[k] for k in KEYS), [as_plain(row[a]) for a in AGGREGATES]
            found[key].append((*bounds(row), row["kind"], *values))
    return found


@pytest.mark.parametrize("first", range(0, 4 * CASES, CASES))
def test_run_reports_of_a_window_what_it_reports_in_a_query_of_its_own(first):
    for number in range(first, first + CASES):
        _, rows, windows, options = case(number)
        if not rows:
            continue
        table = query_of(windows, options).run(rows)
        for name, window in windows.items():
            alone = query_of({name: window}, options).run(rows)
            assert lines(table, name) == lines(alone, name), (number, name)


@pytest.mark.parametrize("first", range(0, 4 * CASES, CASES))
def test_a_stream_ends_with_the_table_that_run_gives(first):
    """But for ticks behind the last row, and for where windows of changes only are empty in the end."""
    for number in range(first, first + CASES):
        chance, rows, windows, options = case(number)
        if not rows:
            continue
        query = query_of(windows, options)
        latest = max(row["t"] for row in rows)
        operator, told = query.operator(), []
        for i in range(0, len(rows), size := chance.randint(1, 9)):
            told += operator.process(rows[i : i + size]).to_pylist()
            coming = min((row["t"] for row in rows[i + size :]), default=latest)
            told += operator.advance(coming).to_pylist()
        told += operator.advance(latest + 400).to_pylist()
        for name, window in windows.items():
            last = last_end([window], latest, options["idle"])
            beyond = "result" if isinstance(window, Ticking) else "empty"
            kept = [
                row
                for row in told
                if row["window"] == name
                and (
                    window.measure != "time"
                    or row["kind"] not in (beyond, "empty")
                    or row["end"] <= last
                )
            ]
            whole = [row for row in query.run(rows).to_pylist() if row["window"] == name]
            assert {row["kind"] for row in kept} <= {"result", "empty"}
            assert in_order(kept) == in_order(whole), (number, name)


def in_order(rows):
    return sorted(map(str, rows))
