"""Loops over slices and keys, interpreted: each against a plain definition, without a compiler."""

import random
from bisect import bisect_left, bisect_right
from itertools import groupby

import numpy as np
import pytest

from muntin.kernels.codegen.interpret import bind
from muntin.kernels.loops import slice_partials
from muntin.kernels.loops.slice_log import LOG_COLUMNS
from muntin.slicing.limits import ALWAYS, NEVER
from muntin.slicing.loops import arena_moves, grid_reports, grid_slices, key_hashing, session_slices
from muntin.slicing.tables import (
    END,
    GONE_COLUMNS,
    GROUP_COLUMNS,
    GROUP_FIRST,
    GROUP_KEY,
    GROUP_LAST,
    GROUP_LATE,
    GROUP_ROW,
    GROUP_ROWS,
    GROUP_START,
    HI,
    KEY,
    KIND,
    LISTED_COLUMNS,
    LO,
    MOVE_COLUMNS,
    PERIOD_COLUMNS,
    PLAIN_SLICE,
    REPORT_COLUMNS,
    RESULT,
    ROW_COLUMNS,
    ROW_TIME,
    SESSION_COLUMNS,
    SLICE_LAST,
    SLICE_START,
    START,
    UPDATE,
    BatchRows,
    Definitions,
    HashTable,
    KeyTimes,
    Rooms,
    Runs,
    Watermarks,
)

U = np.uint64
SEEDS = pytest.mark.parametrize("seed", range(8))
TEXTS = bind(
    slice_partials,
    U=int,
    lift=lambda row: (row,),
    combine=lambda a, b: a + b,
    lower=lambda partial: partial,
)
"""The loops over partials, for tuples of rows: an aggregate whose order is seen."""


def whole(*shape, fill=0):
    return np.full(shape, fill, np.int64)


# The arena


@SEEDS
def test_runs_keep_their_items_while_rooms_are_claimed(seed):
    draw = random.Random(seed)
    keys, places = 4, 4096
    rooms = Rooms(*(whole(keys) for _ in range(5)), np.zeros(keys, np.bool_), whole(keys))
    items, top, held = whole(places, 1), 0, [[] for _ in range(keys)]
    dropped = [0] * keys
    for number in range(60):
        new = np.array([draw.randrange(keys) for _ in range(draw.randint(1, 6))])
        found, moves = whole(len(new)), whole(len(new), MOVE_COLUMNS)
        claimed = arena_moves.claim_room(new, found, 0, rooms, top, places, moves)
        counted, top, count = claimed
        assert sorted(found[:counted]) == sorted(set(new))
        arena_moves.move_runs(items, items, moves[:count])
        for k in new.tolist():
            items[rooms.head[k] + rooms.length[k], 0] = number
            rooms.length[k] += 1
            held[k].append(number)
        if draw.random() < 0.5:  # the oldest leave
            k = draw.randrange(keys)
            gone = draw.randint(0, len(held[k]))
            dropped[k] += gone
            rooms.head[k] += gone
            rooms.length[k] -= gone
            del held[k][:gone]
        for k in range(keys):
            first = rooms.head[k]
            assert items[first : first + rooms.length[k], 0].tolist() == held[k]
            assert first - rooms.drift[k] == dropped[k]
            assert rooms.base[k] <= first
            assert first + rooms.length[k] <= rooms.base[k] + rooms.room[k]


def test_a_full_arena_claims_nothing():
    rooms = Rooms(*(whole(1) for _ in range(5)), np.zeros(1, np.bool_), whole(1))
    keys, items = whole(3), whole(3)
    assert arena_moves.claim_room(items, keys, 0, rooms, 0, 2, whole(3, 3)) == (1, 0, -1)
    assert rooms.more[0] == 3
    arena_moves.widen_rooms(keys[:1], rooms)
    assert rooms.room[0] >= 3
    assert arena_moves.claim_room(items, keys, 1, rooms, 0, 4, whole(3, 3))[0] == 1
    assert rooms.more[0] == 0


@SEEDS
def test_find_is_a_binary_search(seed):
    draw = random.Random(seed)
    starts = sorted(draw.sample(range(1000), draw.randint(0, 60)))
    table = whole(len(starts) + 1, 1)
    table[: len(starts), SLICE_START] = starts
    for t in [*starts, *(draw.randint(-5, 1005) for _ in range(50))]:
        lo = draw.randint(0, len(starts))
        found = arena_moves.find(table, lo, len(starts), t)
        assert found == max(lo, bisect_left(starts, t))


@SEEDS
def test_rows_are_merged_behind_those_of_equal_time(seed):
    draw = random.Random(seed)
    old = sorted(draw.randint(0, 20) for _ in range(draw.randint(0, 12)))
    new = sorted(draw.randint(0, 20) for _ in range(draw.randint(1, 8)))
    table, rows = whole(40, ROW_COLUMNS), whole(len(new), ROW_COLUMNS, fill=1)
    table[3 : 3 + len(old), ROW_TIME], rows[:, ROW_TIME] = old, new
    names = [None] * 3 + [f"old {i}" for i in range(len(old))] + [None] * 30
    runs, cut, moves = Runs(table, whole(1, fill=3), np.array([len(old)])), whole(1), whole(40, 3)
    bounds = (np.array([0]), np.array([len(new)]))
    count = arena_moves.insert_rows(runs, np.array([0]), rows, bounds, cut, moves)
    before = list(names)
    for source, target, _ in moves[:count].tolist():
        names[target] = before[source]
    for i, place in enumerate(rows[:, 1].tolist()):
        names[place] = f"new {i}"
    tagged = [(t, 0, f"old {i}") for i, t in enumerate(old)]
    tagged += [(t, 1, f"new {i}") for i, t in enumerate(new)]
    expected = sorted(tagged, key=lambda row: row[:2])
    assert names[3 : 3 + len(expected)] == [name for _, _, name in expected]
    assert table[3 : 3 + len(expected), ROW_TIME].tolist() == [t for t, _, _ in expected]
    assert cut[0] == bisect_right(old, new[0])


# Edges and groups


@SEEDS
def test_edges_are_those_of_all_windows(seed):
    draw = random.Random(seed)
    pairs = [(draw.randint(1, 9), draw.randint(0, 8)) for _ in range(draw.randint(1, 4))]
    steps = np.array([step for step, _ in pairs])
    offsets = np.array([offset % step for step, offset in pairs])
    lo = draw.randint(-50, 50)
    hi = lo + draw.randint(0, 80)
    inside = {
        e for s, o in zip(steps, offsets, strict=True) for e in range(lo - 9, hi + 1) if e % s == o
    }
    expected = sorted({max(e for e in inside if e <= lo), *(e for e in inside if e > lo)})
    space = int(sum((hi - lo) // steps + 2))
    edges = whole(space)
    count = grid_slices.ordered_edges(steps, offsets, lo, hi, whole(space), edges)
    assert edges[:count].tolist() == expected


@SEEDS
def test_rows_find_the_edge_before_them(seed):
    draw = random.Random(seed)
    edges = np.array(sorted(draw.sample(range(200), 12)))
    rows = [draw.randint(int(edges[0]), int(edges[-1]) - 1) for _ in range(40)]
    out = whole(40)
    grid_slices.slice_starts(np.array(rows), edges, whole(17), out)
    assert out.tolist() == [edges[bisect_right(edges, t) - 1] for t in rows]
    first = whole(len(edges))
    grid_slices.cut_rows(np.array(sorted(rows)), edges, first)
    assert first.tolist() == [bisect_left(sorted(rows), e) for e in edges]


@SEEDS
def test_groups_are_rows_that_share_key_and_slice(seed):
    draw = random.Random(seed)
    rows = [(draw.randrange(3), draw.randint(0, 40)) for _ in range(50)]
    keys, times = (np.array(column) for column in zip(*rows, strict=True))
    batch = BatchRows(keys, times // 10 * 10, times, times)
    group, found, after = whole(50), whole(50, GROUP_COLUMNS), np.array([5, 15, 25])
    secret = np.array([3, 5, 7, 11], U)
    hashing = HashTable(np.zeros(128, np.int32), secret)
    with np.errstate(over="ignore"):
        count = grid_slices.group_rows(batch, after, 1, hashing, group, found)
    for g in range(count):
        mine = [i for i in range(50) if group[i] == g]
        k, start = found[g, GROUP_KEY], found[g, GROUP_START]
        assert mine == [i for i, (key, t) in enumerate(rows) if (key, t // 10 * 10) == (k, start)]
        assert found[g, GROUP_ROWS] == len(mine)
        assert found[g, GROUP_LATE] == sum(times[i] < after[k] for i in mine)
        assert found[g, GROUP_FIRST] == min(times[mine])
        assert found[g, GROUP_LAST] == max(times[mine])
        assert found[g, GROUP_ROW] == mine[0]


def test_a_row_before_the_last_of_its_key_is_found():
    keys, times = np.array([0, 1, 0, 1]), np.array([5, 3, 6, 2])
    assert grid_slices.first_fall(keys, times, whole(2)) == 3
    assert grid_slices.first_fall(keys[:3], times[:3], whole(2)) == -1
    ranks, following = whole(4), np.array([10, 0])
    grid_slices.rank_rows(keys, following, ranks)
    assert (ranks.tolist(), following.tolist()) == ([10, 0, 11, 1], [12, 2])


# From groups to windows


class Grid:
    """Slices of several keys with tuples of rows as partials; windows are reported as these."""

    def __init__(self, keys, periods, changes=False):
        self.keys = keys
        self.periods = np.array(periods).reshape(-1, PERIOD_COLUMNS)
        self.runs = Runs(whole(keys * 64, PLAIN_SLICE), np.arange(keys) * 64, whole(keys))
        self.times = KeyTimes(*(whole(keys, fill=f) for f in (NEVER, NEVER, NEVER, ALWAYS)))
        self.partials = ([None] * (keys * 64),)
        self.after, self.changes = np.array([ALWAYS]), changes

    def insert(self, rows):
        """Take rows (key, time), which are late if they are before the last watermark."""
        found, parts = [], []
        for (k, start), grouped in groupby(sorted(rows), lambda row: (row[0], row[1] // 5 * 5)):
            mine = [t for _, t in grouped]
            late = sum(t < self.after[0] for t in mine)
            found.append([k, start, len(mine), late, mine[0], mine[-1], 0])
            parts.append(tuple(mine))
        log = whole(4 * len(found), LOG_COLUMNS)
        steps = grid_slices.place_groups(
            np.array(found), whole(0), self.runs, self.times, self.periods, log
        )
        TEXTS.replay(log, steps, (parts,), self.partials, 0, False)

    def advance(self, watermark, keep=ALWAYS):
        """Return the windows that are due as (key, window, start, end, rows, kind)."""
        upto, keep = np.array([watermark]), np.array([keep])
        marks = Watermarks(self.after, upto, np.array([ALWAYS]), keep, 0)
        windows = Definitions(self.periods, whole(0, LISTED_COLUMNS), 0, self.changes)
        out = whole(512, REPORT_COLUMNS)
        key, count, _ = grid_reports.report_grid(
            (0, self.keys), self.runs, self.times, marks, windows, (out, whole(65))
        )
        assert key == self.keys
        self.after = upto
        return [
            (*line[:LO].tolist(), self.rows(*line[LO:KIND]), line[KIND]) for line in out[:count]
        ]

    def rows(self, lo, hi):
        return tuple(sorted(sum((self.partials[0][p] for p in range(lo, hi)), ())))


def windows_of(rows, periods, after, upto):
    """Return every window with after < end <= upto that holds rows, by its definition."""
    found = []
    for k in sorted({key for key, _ in rows}):
        for d, (size, every, origin) in enumerate(periods):
            for start in range(origin - 200 * every, 400, every):
                mine = tuple(sorted(t for key, t in rows if key == k and start <= t < start + size))
                if mine and after < start + size <= upto:
                    found.append((k, d, start, start + size, mine))
    return found


@SEEDS
def test_windows_are_reported_once_with_their_rows_and_again_when_late_rows_come(seed):
    draw = random.Random(seed)
    periods = [(10, 5, 0), (20, 10, 0), (5, 5, 0)]
    grid, seen, reported, mark = Grid(3, periods), [], {}, -1000
    for step in range(6):
        rows = [(draw.randrange(3), draw.randint(step * 8, step * 8 + 30)) for _ in range(8)]
        seen += rows
        before, mark = mark, step * 10
        grid.insert(rows)
        found = {line[: END + 1]: line for line in grid.advance(mark)}
        expected = {w[: END + 1]: w[4] for w in windows_of(seen, periods, -1000, mark)}
        for window, line in found.items():
            assert line[4] == expected[window]
            assert line[5] == (UPDATE if window in reported else RESULT)
            assert window not in reported or line[4] != reported[window]
        reported |= {window: line[4] for window, line in found.items()}
        assert reported == expected, before


def test_slices_that_no_window_needs_are_dropped():
    grid = Grid(2, [(10, 5, 0)])
    grid.insert([(0, t) for t in range(0, 60, 5)] + [(1, 3)])
    grid.advance(30, keep=20)
    starts = grid.runs.table[
        grid.runs.head[0] : grid.runs.head[0] + grid.runs.length[0], SLICE_START
    ]
    assert starts.tolist() == list(range(20, 60, 5))
    assert grid.runs.length[1] == 0


def test_changes_report_ends_at_which_a_slice_enters_or_leaves():
    grid = Grid(1, [(20, 5, 0)], changes=True)
    grid.insert([(0, 3)])
    found = grid.advance(60)
    assert [(line[START], line[END], line[4]) for line in found] == [(-15, 5, (3,)), (5, 25, ())]


def test_slices_between_which_no_window_starts_are_joined():
    grid = Grid(1, [(10, 10, 0)])
    grid.insert([(0, 2), (0, 7), (0, 12)])
    log = whole(16, LOG_COLUMNS)
    owners = np.full(16, -1)
    key, steps = grid_slices.join_slices(np.array([0]), grid.runs, grid.periods, 0, log, owners)
    assert owners[:steps].tolist() == [0] * steps
    TEXTS.replay(log, steps, ([],), grid.partials, 0, False)
    assert key == 1
    assert grid.runs.length[0] == 2
    assert grid.partials[0][:2] == [(2, 7), (12,)]


# Sessions


def sessions_of(times, gap):
    """Return the sessions of one key as tuples of times."""
    found = []
    for t in sorted(times):
        if found and t <= found[-1][-1] + gap:
            found[-1].append(t)
        else:
            found.append([t])
    return [tuple(session) for session in found]


@SEEDS
def test_sessions_are_extended_and_joined(seed):
    draw, gap = random.Random(seed), 4
    runs = Runs(whole(64, SESSION_COLUMNS), whole(1), whole(1))
    partials, due, seen = ([None] * 64,), whole(1), []
    for _ in range(5):
        times = sorted(draw.randint(0, 60) for _ in range(draw.randint(1, 5)))
        seen += times
        group, found = whole(len(times)), whole(len(times), GROUP_COLUMNS)
        arguments = (whole(len(times)), np.array(times), gap, whole(1, fill=-1), group, found)
        count = session_slices.group_sessions(*arguments)
        parts = (
            [tuple(t for t, g in zip(times, group, strict=True) if g == i) for i in range(count)],
        )
        notes = session_slices.Notes(whole(256, LOG_COLUMNS), whole(64, GONE_COLUMNS))
        done, steps, _ = session_slices.place_sessions(0, found[:count], gap, runs, due, notes)
        assert done == count
        TEXTS.replay(notes.log, steps, parts, partials, 0, False)
        held = [tuple(sorted(p)) for p in partials[0][runs.head[0] : runs.head[0] + runs.length[0]]]
        assert held == sessions_of(seen, gap)
    out = whole(64, REPORT_COLUMNS)
    key, count = session_slices.report_sessions(
        (0, 1), runs, due, (np.array([30]), np.array([30]), 0), gap, out
    )
    complete = [s for s in sessions_of(seen, gap) if s[-1] + gap < 30]
    assert (key, count) == (1, len(complete))
    assert out[:count, [KEY, START, END]].tolist() == [[0, s[0], s[-1] + gap] for s in complete]
    assert (out[:count, HI] - out[:count, LO] == 1).all()
    kept = runs.table[runs.head[0] : runs.head[0] + runs.length[0], SLICE_LAST]
    assert all(last + 2 * gap > 30 for last in kept)


# Keys


@SEEDS
def test_keys_get_numbers_in_the_order_in_which_they_come(seed):
    draw = random.Random(seed)
    texts = [bytes(draw.choices(b"ab", k=draw.randint(0, 11))) for _ in range(60)]
    expected = {text: n for n, text in enumerate(dict.fromkeys(texts))}
    data = np.frombuffer(b"".join(texts), np.uint8)
    offsets = np.append(0, np.cumsum([len(t) for t in texts]))
    secret = np.array([draw.getrandbits(64) | 1 for _ in range(4)], U)
    table = key_hashing.Texts(
        np.full(257, -1, np.int32), np.empty(64, U), secret, whole(65), np.empty(1024, np.uint8)
    )
    out = whole(60)
    with np.errstate(over="ignore"):
        column = key_hashing.TextColumn(data, offsets, [])
        row, count = key_hashing.number_texts(column, U(0), table, U(0), out)
    assert (row, count) == (60, len(expected))
    assert out.tolist() == [expected[text] for text in texts]
    words = np.array([draw.choice([1, 2, 2**62, -3]) for _ in range(30)])
    numbers, held = whole(30), key_hashing.Words(np.full(17, -1, np.int32), whole(2), secret)
    with np.errstate(over="ignore"):
        row, count = key_hashing.number_words((words, []), U(0), held, U(0), numbers)
    seen = dict.fromkeys(words.tolist())
    assert count == min(len(seen), 2)  # there is room for two
    assert row == next((i for i, w in enumerate(words) if list(seen).index(w) >= 2), 30)
