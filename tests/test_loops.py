"""Loop files as they are: imported, interpreted, and compared with brute force, without a compiler."""

import ast
import bisect
import importlib
import math
import pkgutil
import random
import subprocess
import sys
import traceback
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import muntin
from muntin.kernels import loops as kernel_loops
from muntin.kernels.codegen.interpret import bind
from muntin.kernels.codegen.loop_source import loops_text
from muntin.kernels.loops import (
    find_spans,
    object_partials,
    roll_ranks,
    roll_rows,
    roll_spans,
    slice_log,
    slice_partials,
)
from muntin.kernels.loops import instructions as plain
from muntin.kernels.loops.loop_arguments import Spans, Suffixes
from muntin.slicing import loops as slicing_loops

SOURCE = Path(muntin.__file__).parent
FILES = [
    file.name
    for package in (kernel_loops, slicing_loops)
    for file in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]
INDICES = {"python": int, "unsigned": np.uint64}
TEXT = {"lift": str, "combine": lambda a, b: a + b, "lower": lambda a: f"<{a}>"}
"""An aggregate that is not commutative: the text of its values, one after the other."""
ADDED = {"lift": int, "combine": lambda a, b: a + b, "lower": int, "without": lambda a, b: a - b}


def window(values):
    return f"<{''.join(map(str, values))}>" if len(values) else None


def room(size):
    return ([None] * size,)


def numbers(seed, size, most=9):
    generator = random.Random(seed)
    return [generator.randrange(most + 1) for _ in range(size)]


@pytest.mark.parametrize("name", FILES)
def test_every_loop_file_is_a_module(name):
    assert importlib.import_module(name).__doc__


def test_these_tests_need_no_compiler():
    chosen = "not compiler and not columns"  # the others, and not those that only read the source
    code = f"""
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None  # importing them is an error
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", {chosen!r}, {__file__!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 9, 14, 30])
@pytest.mark.parametrize("rows", [1, 2, 13, 70, 131])
def test_windows_of_n_rows(index, n, rows):
    loops = bind(roll_rows, U=index, **TEXT)
    values = numbers(n, rows)
    period = max(n - 1, 1)
    for size in {1, 2, 5, (period + 1) // 2, period} & set(range(1, period + 1)):
        for cut in {0, min(rows // period, 2) * period}:
            outs = room(rows)
            for lo, hi in ((0, cut), (cut, rows)):
                at = roll_rows.Stretches(
                    index(size),
                    [None] * 4,
                    [None] * 4,
                    room(4 * size),
                    room(4 * (1 - -period // size)),
                )
                if lo < hi:
                    bounds = index(lo), index(hi)
                    with np.errstate(over="ignore"):  # the row before row 0, which is not read
                        assert not loops.roll_rows((values,), outs, index(n), *bounds, at)
            assert outs[0] == [window(values[max(0, i - n + 1) : i + 1]) for i in range(rows)]


@pytest.mark.parametrize("n", [2, 4, 9])
@pytest.mark.parametrize("place", [0, 1, 20, 63, 99])
def test_a_plain_form_says_that_it_met_nan(n, place):
    def watch(seen, values, i):
        return seen + values[0][i]

    values = [1.0] * 100
    values[place] = math.nan
    loops = bind(roll_rows, U=int, watch=watch, lift=float, combine=max, lower=float)
    for given in (values, [1.0] * 100):
        at = roll_rows.Stretches(n - 1, [0] * 4, [0] * 4, room(4 * n), room(8))
        # the ramp is watched with the rows after it
        assert loops.roll_rows((given,), room(100), n, 0, 100, at) == any(x != x for x in given)


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("seed", range(8))
def test_windows_from_row_to_row(index, seed):
    generator = random.Random(seed)
    values = numbers(seed, 60)
    starts = sorted(generator.randrange(61) for _ in range(40))
    ends = sorted(max(start, generator.randrange(61)) for start in starts)
    lo = generator.randrange(40)
    outs = room(40)
    for bounds in ((0, lo), (lo, 40)):
        if bounds[0] < bounds[1]:
            bind(roll_spans, U=index, **TEXT).roll_spans(
                (values,),
                outs,
                Spans(starts, ends),
                *map(index, bounds),
                Suffixes(room(64), index(63)),
            )
    assert outs[0] == [window(values[s:e]) for s, e in zip(starts, ends, strict=True)]


@pytest.mark.parametrize(("past", "now"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("size", [1, 3, 20, 1000])
def test_windows_of_time(past, now, size):
    generator = random.Random(size)
    times = sorted(generator.randrange(80) for _ in range(60))
    values, outs = numbers(size, 60), room(60)
    frame = roll_spans.TimeFrame(times, size, past, now)
    loops = bind(roll_spans, U=int, **TEXT)
    for lo, hi in ((0, 25), (25, 60)):
        slots = 2
        while lo < hi:  # a window that is longer than the arrays stops the loop
            lo = loops.roll_times((values,), outs, frame, lo, hi, Suffixes(room(slots), slots - 1))
            slots *= 2
    assert slots > 4 or size < 20
    for k, t in enumerate(times):
        held = [j for j in range(k + 1) if t - size + past <= times[j] < t + now]
        assert outs[0][k] == window([values[j] for j in held])


def sorted_block(values, valid, base):
    """Return a block of rows, sorted by the loop, and its order."""
    n, u = len(values), np.uint64
    keys, spare = np.array(values, u), np.empty(n, u)
    rows, spare_rows, ranks = np.empty((3, n), np.uint32)
    counts = np.zeros((roll_ranks.DIGITS, roll_ranks.DIGIT_VALUES), np.int32)
    swapped = roll_ranks.sort_rows(keys, rows, spare, spare_rows, counts, ranks)
    order = spare_rows if swapped else rows
    ordered = [values[i] for i in order]
    bits = np.zeros(n // 64 + 2, u)
    return roll_ranks.RankBlock(ordered, ranks, valid, u(base), bits), order


@pytest.mark.parametrize("most", [0, 5, 3000, 2**64 - 1])
def test_rows_are_sorted_by_their_keys(most):
    values = numbers(most, 150, most)
    block, order = sorted_block(values, [True] * 150, 0)
    assert order.tolist() == sorted(range(150), key=lambda i: values[i])
    assert block.ordered == sorted(values)
    assert [block.ordered[rank] for rank in block.ranks] == values


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("interpolate", [False, True])
def test_order_statistics(share, interpolate):
    generator = random.Random(7)
    base, rows, u = 10, 140, np.uint64
    values = numbers(1, rows, 30)
    valid = [generator.random() < 0.8 for _ in values]
    starts = sorted(base + generator.randrange(rows) for _ in range(60))
    ends = sorted(min(base + rows, start + generator.randrange(50)) for start in starts)
    places = [share * max(n - 1, 0) for n in range(rows + 1)]
    weights = [float(place % 1) if interpolate else 0.0 for place in places]
    wanted = roll_ranks.WantedRanks([int(place) for place in places], weights)
    results = roll_ranks.RankResults([None] * 60, [None] * 60)
    block, _ = sorted_block(values, valid, base)
    roll_ranks.roll_ranks(block, Spans(starts, ends), u(0), u(60), wanted, results)
    for k in range(60):
        held = range(starts[k] - base, ends[k] - base)
        inside = sorted(values[i] for i in held if valid[i])
        assert results.counts[k] == len(inside)
        if not inside:
            assert results.values[k] is None
            continue
        place = places[len(inside)]
        low, high = inside[int(place)], inside[min(int(place) + 1, len(inside) - 1)]
        share_of = place % 1 if interpolate else 0
        assert results.values[k] == pytest.approx(float(low + share_of * (high - low)))


def test_values_whose_difference_is_no_float_are_interpolated():
    assert roll_ranks.between(-1e308, 1e308, 0.5) == 0.0
    assert roll_ranks.between(math.inf, math.inf, 0.5) == math.inf


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("reach", [0.0, 1.0, 2.5])
def test_frames_over_a_range_of_values(is_open, reach):
    generator = random.Random(3)
    groups, nulls = [0, 9, 9 + 12, 30], [2, 0, 9]
    known = [first + count for first, count in zip(groups, nulls, strict=False)]
    values = [0.0] * 30
    for g, there in enumerate(known):
        size = groups[g + 1] - there
        some = sorted(float(generator.randrange(6)) for _ in range(size))
        values[there : groups[g + 1]] = (some + [math.nan] * 3)[-size:] if size else []
    lows, highs = [x - reach for x in values], [x + reach for x in values]
    starts, ends = [None] * 30, [None] * 30
    find_spans.find_starts(values, groups, known, lows, is_open, starts)
    find_spans.find_ends(values, groups, known, highs, is_open, ends)

    def key(x):
        return (x != x, 0.0 if x != x else x)  # NaN is equal to NaN, and the largest

    for g, there in enumerate(known):
        for i in range(groups[g], there):
            assert (starts[i], ends[i]) == (groups[g], there)
        inside = [key(x) for x in values[there : groups[g + 1]]]
        left, right = bisect.bisect_left, bisect.bisect_right
        for i in range(there, groups[g + 1]):
            first = (right if is_open else left)(inside, key(lows[i]))
            after = (left if is_open else right)(inside, key(highs[i]))
            assert (starts[i], ends[i]) == (there + first, there + after)


BASES = pytest.mark.parametrize("base", [0, 64])


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@BASES
def test_rows_are_folded_into_slices(index, base):
    loops, values = bind(slice_partials, U=index, **TEXT), numbers(0, 20)
    lo, hi, place = [0, 3, 4, 11], [3, 4, 11, 20], [5, 0, 2, 7]
    folded, merged = room(base + 8), room(base + 8)
    loops.fold_spans((values,), lo, hi, folded, place, index(base))
    loops.merge_spans(([str(v) for v in values],), lo, hi, merged, place, index(base))
    expected = room(base + 8)
    for a, b, p in zip(lo, hi, place, strict=True):
        expected[0][base + p] = "".join(map(str, values[a:b]))
    assert folded == merged == expected


def test_rows_are_folded_into_groups_in_their_order():
    values, group = numbers(1, 30), numbers(2, 30, 4)
    first = [group.index(g) for g in range(5)]
    parts = room(5)
    bind(slice_partials, **TEXT).fold_groups((values,), group, first, parts)
    assert parts[0] == [
        "".join(str(v) for v, h in zip(values, group, strict=True) if h == g) for g in range(5)
    ]


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@BASES
def test_slices_move_over_their_rows_with_an_inverse(index, base):
    rows = numbers(3, 40)
    a, b, shift, place = [0, 12, 20, 30], [8, 15, 24, 36], [3, 1, 0, 4], [3, 0, 1, 2]
    partials, undone = room(base + 4), [False] * 4
    for j, p in enumerate(place):
        partials[0][base + p] = sum(rows[a[j] + shift[j] : b[j] + shift[j]])
    before = list(partials[0])

    def without(total, part):
        return NotImplemented if total == before[base] else total - part

    loops = bind(slice_partials, U=index, **{**ADDED, "without": without})
    shifts = slice_partials.Shifts(place, a, b, shift)
    loops.shift_spans((rows,), partials, index(base), shifts, undone)
    assert undone == [False, True, False, False]
    expected = [sum(rows[a[j] : b[j]]) for j in range(4)]
    assert [partials[0][base + p] for p in place] == [expected[0], before[base], *expected[2:]]


def replayed(log, parts, partials, base, in_order_only):
    """Do the steps of a log to a list."""
    slices = partials[base:]
    for step, place, other in log:
        if step == slice_log.NEW:
            slices[place] = parts[other]
        elif step == slice_log.ADD or (step == slice_log.LATE and not in_order_only):
            slices[place] += parts[other]
        elif step == slice_log.JOIN:
            slices[place] += slices[other]
        elif step == slice_log.OPEN:
            slices[place + 1 : other + 1] = slices[place:other]
        elif step == slice_log.CLOSE:
            slices[place : other - 1] = slices[place + 1 : other]
    return partials[:base] + slices


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("in_order_only", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_partials_follow_the_log_of_their_slices(index, in_order_only, seed):
    generator = random.Random(seed)
    base = 8 * (seed % 2)
    steps = list(range(6)) * 4
    generator.shuffle(steps)
    log = np.zeros((len(steps) + 1, slice_log.LOG_COLUMNS), np.int64)
    for row, step in zip(log, steps, strict=False):
        place = generator.randrange(7)
        moves = step in (slice_log.OPEN, slice_log.CLOSE, slice_log.JOIN)
        other = generator.randrange(place + 1, 8) if moves else generator.randrange(5)
        row[[slice_log.LOG_STEP, slice_log.LOG_PLACE, slice_log.LOG_OTHER]] = step, place, other
    parts, partials = list("vwxyz"), list("abcdefgh" * (1 + seed % 2))
    expected = replayed(log[:-1].tolist(), parts, partials, base, in_order_only)
    bind(slice_partials, U=index, **TEXT).replay(
        log, len(steps), (parts,), (partials,), index(base), in_order_only
    )
    assert partials == expected
    assert set(steps) == {getattr(slice_log, s) for s in "NEW ADD LATE JOIN OPEN CLOSE".split()}


def queries(seed):
    """Return windows over 32 slices: of one key in order, of another, and in no order."""
    generator = random.Random(seed)
    lo, hi = [], []
    for first, count in ((0, 10), (13, 12), (2, 5)):
        starts = sorted(generator.randrange(first, first + 18) for _ in range(count))
        lo += starts
        hi += sorted(min(32, start + 1 + generator.randrange(9)) for start in starts)
    return lo, hi, [0, 10, 22, 27]


QUERIES = {
    "spans": lambda loops, on, spans, outs, _, index: loops.query_spans(
        *on, spans, outs, Suffixes(room(32), index(31))
    ),
    "folds": lambda loops, on, spans, outs, *_: loops.query_folds(*on, *spans, outs),
    "tree": lambda loops, on, spans, outs, *_: loops.query_tree(*on, *spans, outs),
    "table": lambda loops, on, spans, outs, keys, index: loops.query_table(
        *on, spans, outs, keys, slice_partials.Table(room(192), index(32))
    ),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_windows_are_merged_from_slices(index, query, seed):
    loops, base = bind(slice_partials, U=index, **TEXT), 32
    slices = [str(v) for v in numbers(seed, 32)]
    partials = ([None] * base + slices,)
    if query == "tree":
        loops.update_trees(partials, index(base), [0], [32], [0], [32])
    lo, hi, keys = queries(seed)
    outs = room(len(lo))
    QUERIES[query](loops, (partials, index(base)), Spans(lo, hi), outs, keys, index)
    assert outs[0] == [window(slices[s:e]) for s, e in zip(lo, hi, strict=True)]


@pytest.mark.parametrize("seed", range(6))
def test_a_tree_follows_changed_leaves_within_the_run_of_a_key(seed):
    generator = random.Random(seed)
    loops, base = bind(slice_partials, **TEXT), 32
    slices = [str(v) for v in numbers(seed, 32)]
    partials = ([None] * base + slices,)
    first, after = sorted(generator.sample(range(33), 2))
    loops.update_trees(partials, np.uint64(base), [first], [after], [first], [after])
    a, b = sorted(generator.choices(range(first, after + 1), k=2))
    partials[0][base + a : base + b] = slices[a:b] = ["x"] * (b - a)
    loops.update_trees(partials, np.uint64(base), [a], [b], [first], [after])
    lo = [s for s in range(first, after) for _ in range(s, after)]
    hi = [e for s in range(first, after) for e in range(s + 1, after + 1)]
    outs = room(len(lo))
    loops.query_tree(partials, np.uint64(base), lo, hi, outs)
    assert outs[0] == [window(slices[s:e]) for s, e in zip(lo, hi, strict=True)]


def test_a_boundary_costs_at_most_three_combines_per_slice():
    combines = []

    def combine(a, b):
        combines.append(1)
        return a + b

    loops = bind(slice_partials, U=int, **{**TEXT, "combine": combine})
    partials = (list("abcdefgh" * 8),)
    lo, hi = list(range(40)), list(range(16, 56))
    loops.query_spans(partials, 0, Spans(lo, hi), room(40), Suffixes(room(64), 63))
    assert len(combines) <= 3 * 56


def test_a_traceback_names_the_loop_file_and_its_line():
    def combine(a, b):
        raise RuntimeError(f"no {a} and {b}")

    loops = bind(slice_partials, U=int, **{**TEXT, "combine": combine})
    with pytest.raises(RuntimeError, match="no 1 and 2") as raised:
        loops.fold_spans(([1, 2],), [0], [2], room(1), [0], 0)
    frame = traceback.extract_tb(raised.value.__traceback__)[-2]
    assert frame.filename == slice_partials.__file__
    assert frame.name == "fold_spans"
    line = Path(frame.filename).read_text().splitlines()[frame.lineno - 1]
    assert "combine(acc, lift_at(values, i))" in line


def test_loops_that_are_not_bound_say_so():
    for name, arguments in (("lift", 1), ("combine", 2), ("lower", 1), ("without", 2)):
        with pytest.raises(NotImplementedError, match="bind"):
            getattr(object_partials, name)(*[None] * arguments)


@pytest.mark.parametrize("seed", range(3))
def test_machine_instructions_as_python(seed):
    words = [1, 2**63, 2**64 - 1, *(random.Random(seed).getrandbits(64) | 1 << 20 for _ in "abc")]
    for word in map(np.uint64, words):
        digits = f"{int(word):064b}"
        assert plain.leading_zeros(word) == digits.index("1")
        assert plain.trailing_zeros(word) == digits[::-1].index("1")
        high, low = divmod(int(word) ** 2, 2**64)
        assert plain.folded(word, word) == high ^ low
    array = np.zeros(6)
    plain.put_four(array, np.uint64(1), 1, 2, 3, 4)
    assert array.tolist() == [0, 1, 2, 3, 4, 0]
    assert plain.clock() <= plain.clock()


def test_the_text_of_loops_has_the_fields_of_their_named_tuples():
    text = loops_text(roll_spans)
    for struct in (Spans, Suffixes, roll_spans.TimeFrame):  # whose order is part of machine code
        assert f"import {struct.__name__}  # {', '.join(struct._fields)}\n" in text
    assert "import Grid  # n, size, count" in loops_text(roll_rows)


def test_no_file_is_hidden_from_the_linters():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "ignore-errors" not in text, path
        assert "noqa: F821" not in text, path


def literal_columns(path):
    """Yield the subscripts of several indices of which one is a number."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            parts = [p.operand if isinstance(p, ast.UnaryOp) else p for p in node.slice.elts]
            if any(isinstance(p, ast.Constant) and type(p.value) is int for p in parts):
                yield f"{path.name}:{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("package", ["kernels", "slicing"])
def test_columns_have_names(package):
    found = [x for path in (SOURCE / package).rglob("*.py") for x in literal_columns(path)]
    assert found == []


def test_two_loops_of_one_name_are_refused():
    from types import ModuleType

    from muntin.slicing.loops import session_slices

    other = ModuleType("muntin.slicing.loops.others")
    exec("def new_session(table, p, found, g):\n    pass", vars(other))
    other.new_session.__module__ = other.__name__
    with pytest.raises(ValueError, match="both have new_session"):
        loops_text(session_slices, other)
