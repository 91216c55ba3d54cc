"""The papers' bounds, in counted combines: a complexity regression fails here, not on a stopwatch."""

import math
import random
import threading
from dataclasses import replace

import pytest

import muntin as mt
from tests.counting import counted, spans

SIZES = [1, 2, 3, 5, 8, 31, 100, 1 << 10, 1 << 14, 1 << 16]


class Run:
    """Drive a window of positions 0, 1, 2, ... and count what each operation combines."""

    def __init__(self, make, aggregate=None):
        aggregate, self.counter = counted(aggregate or spans())
        self.window = make(aggregate)
        self.position = 0

    def insert(self, n=1):
        for _ in range(n):
            self.counter.during("insert", self.window.insert, self.position)
            self.position += 1

    def evict(self, n=1):
        for _ in range(n):
            self.counter.during("evict", self.window.evict)

    def bulk_evict(self, n):
        self.counter.during("bulk_evict", self.window.bulk_evict, n)

    def query(self):
        return self.counter.during("query", self.window.query)

    def slide(self, n=1):
        for _ in range(n):
            self.insert()
            self.evict()
            self.query()

    def measure(self):
        """Forget what was counted so far: the steady state begins here."""
        self.counter.worst.clear()
        self.counter.total.clear()
        self.counter.calls.clear()
        return self.counter


def static(make, n, aggregate=None, rounds=None):
    """Fill a window of n and slide it on for several lengths."""
    run = Run(make, aggregate)
    run.insert(n)
    counter = run.measure()
    run.slide(rounds or max(64, min(4 * n, 1 << 17)))
    return counter


def adversarial(make, n):
    """Grow, drain, oscillate around every size on the way, and jump at random."""
    run, rng = Run(make), random.Random(n)
    for size in {1, 2, 3, n // 3 + 1, n // 2 + 1, n}:
        run.insert(size)
        run.slide(3)
        run.evict(size)
    for _ in range(max(2, min(30, (1 << 17) // n))):
        run.insert(rng.randint(0, n))
        run.evict(rng.randint(0, len(run.window)))
        run.slide(rng.randint(0, 5))
        run.query()
    return run.counter


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    ("algorithm", "insert", "evict", "mean_insert", "mean_evict"),
    [(mt.DabaLite, 3, 2, 2, 1), (mt.Daba, 4, 3, 2.5, 1.5)],
    ids=["DabaLite", "Daba"],
)
def test_daba_is_worst_case_constant(algorithm, insert, evict, mean_insert, mean_evict, n):
    counter = static(algorithm, n)
    # Nothing is combined with the identity, hence "at most".
    assert counter.mean("insert") + counter.mean("evict") <= mean_insert + mean_evict
    if n >= 100:
        assert counter.mean("insert") == pytest.approx(mean_insert, rel=0.05)
        assert counter.mean("evict") == pytest.approx(mean_evict, rel=0.05)
    for run in (counter, adversarial(algorithm, n)):
        assert run.worst["insert"] <= insert
        assert run.worst["evict"] <= evict
        assert run.worst["query"] <= 1


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("algorithm", [mt.TwoStacks, mt.TwoStacksLite])
def test_two_stacks_is_amortised_constant(algorithm, n):
    counter = static(algorithm, n)
    for run in (counter, adversarial(algorithm, n)):
        assert run.worst["insert"] <= 1
        assert run.worst["query"] <= 1
        assert run.total["evict"] <= run.calls["insert"] + n  # each value is flipped once
    assert counter.worst["evict"] <= n
    assert n < 100 or counter.worst["evict"] == n  # the flip is there


@pytest.mark.parametrize("n", SIZES)
def test_subtract_on_evict_is_constant(n):
    counter = static(mt.SubtractOnEvict, n, mt.Sum())
    assert counter.worst == {"insert": 1, "evict": 1, "query": 0}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("values", ["rising", "falling", "random", "sawtooth"])
def test_slick_deque_needs_fewer_than_two(n, values):
    rng = random.Random(7)
    value = {
        "rising": lambda p: p,
        "falling": lambda p: -p,
        "random": lambda _: rng.random(),
        "sawtooth": lambda p: -(p % (n + 1)),
    }[values]
    run = Run(mt.SlickDeque, replace(mt.Max(), lift=value))
    run.insert(n)
    run.slide(max(64, min(4 * n, 1 << 17)))
    assert run.counter.mean("insert") < 2
    assert run.counter.worst["evict"] == run.counter.worst["query"] == 0


@pytest.mark.parametrize("n", SIZES)
def test_flat_fit_is_amortised_constant(n):
    assert adversarial(mt.FlatFit, n).worst["query"] <= 3 * n + 8
    counter = static(mt.FlatFit, n)
    assert counter.worst["insert"] == counter.worst["evict"] == 0
    assert counter.mean("query") < 3
    assert counter.worst["query"] <= n


@pytest.mark.parametrize("n", [8, 64, 1 << 10, 1 << 14])
def test_flat_fat_updates(n):
    aggregate, counter = counted(mt.Sum())
    window = mt.FlatFat(aggregate)
    window.bulk_insert(range(n))
    window.query()
    assert window.capacity == n
    rng = random.Random(n)
    for m in [1, 2, 3, n // 4, n // 3, n // 2, n - 1, n]:
        for places in (rng.sample(range(n), m), range(m), range(0, n, n // m)):
            changes = dict.fromkeys(list(places)[:m], 1)
            before = counter.combines
            window.update(changes)
            window.query()
            assert counter.combines - before <= m * (1 + math.ceil(math.log2(n / m)))


@pytest.mark.parametrize("n", [8, 64, 1 << 10, 1 << 14])
def test_flat_fat_builds_and_answers_in_bounds(n):
    # Above the seam of an inverted buffer FlatFAT combines what are no neighbours, and never reads it.
    aggregate, counter = counted(replace(spans(), combine=lambda a, b: (a[0], b[1])))
    window = mt.FlatFat(aggregate)
    window.bulk_insert(range(n))
    window.query()
    assert counter.combines <= 2 * n  # growing rebuilds nothing that was not asked for
    log = int(math.log2(n))
    for end in {0, 1, n // 3, n - 1, n}:
        before = counter.combines
        assert window.prefix(end) == ((0, end - 1) if end else None)
        assert window.suffix(end) == ((end, n - 1) if end < n else None)
        assert counter.combines - before <= 2 * log
    window.bulk_evict(n // 3)
    window.bulk_insert(range(n, n + n // 3))  # now the buffer is inverted
    window.query()
    before = counter.combines
    assert window.query() == (n // 3, n + n // 3 - 1)
    assert counter.combines - before <= 2 * log + 1


@pytest.mark.parametrize("n", SIZES)
def test_log_mta_is_logarithmic(n):
    for run in (static(mt.LogMta, n, rounds=2000), adversarial(mt.LogMta, min(n, 1 << 14))):
        bound = math.ceil(math.log2(n)) + 1
        assert max(run.worst["insert"], run.worst["evict"]) <= bound
        assert run.worst["query"] <= 1


@pytest.mark.parametrize("n", SIZES)
def test_amta_is_amortised_constant(n):
    counter = static(mt.Amta, n)
    assert counter.mean("insert") + counter.mean("evict") <= 4
    for run in (counter, adversarial(mt.Amta, n)):
        assert run.worst["insert"] <= 4 * (math.log2(n) + 2)
        assert run.worst["evict"] <= 4 * (math.log2(n) + 2)
        assert run.worst["query"] <= 1
        assert run.total["insert"] + run.total["evict"] <= 6 * run.calls["insert"]


@pytest.mark.parametrize("n", SIZES)
def test_b_int_inserts_in_constant_and_queries_in_logarithmic_time(n):
    assert adversarial(mt.BInt, n).mean("insert") <= 1
    counter = static(mt.BInt, n, rounds=4096)
    assert counter.mean("insert") <= 1
    assert counter.worst["evict"] == 0
    assert counter.worst["query"] <= 2 * math.log2(n) + 1


@pytest.mark.parametrize("n", SIZES[4:])
@pytest.mark.parametrize("algorithm", [mt.Amta, mt.LogMta, mt.Fiba])
def test_bulk_eviction_is_logarithmic_whatever_it_removes(algorithm, n):
    rng = random.Random(n)
    some = {
        1,
        2,
        n // 7,
        n // 2,
        n // 2 + 1,
        n - 2,
        n - 1,
        n,
        *(rng.randint(1, n) for _ in range(8)),
    }
    for offset in (0, 1, n // 3):
        for k in some:
            run = Run(algorithm)
            run.insert(n + offset)
            run.bulk_evict(offset)
            counter = run.measure()
            run.bulk_evict(k)
            assert counter.worst["bulk_evict"] <= 6 * math.log2(n)
            assert run.query() == ((offset + k, offset + n - 1) if k < n else None)
            if n > 1 << 14:
                break


@pytest.mark.parametrize("slide", [1, 2, 3, 7])
@pytest.mark.parametrize("slices", [1, 2, 3, 10, 1000, 1 << 14])
@pytest.mark.parametrize("ragged", [False, True], ids=["whole", "ragged"])
@pytest.mark.parametrize("algorithm", [mt.Sba, mt.Pba])
def test_boundary_aggregators_merge_three_times_per_slide(algorithm, slices, slide, ragged):
    length = slices * slide + (slide - 1 if ragged else 0)
    here = threading.get_ident()
    aggregate, counter = counted(spans())
    inner = aggregate.combine

    def combine(a, b):
        # Only what delays the caller counts: the lcs of a chunk is the second thread's work.
        if threading.get_ident() != here:
            return spans().combine(a, b)
        return inner(a, b)

    window = algorithm(replace(aggregate, combine=combine), range=length, slide=slide)
    assert slices // window.chunk == 1  # k = 1
    window.bulk_insert(range(length))
    inside_a_slice = slide - 1
    for start in range(slide, min(4 * length, 4096) + slide, slide):
        counter.during("evict", window.bulk_evict, slide)
        before = counter.combines
        window.bulk_insert(range(start + length - slide, start + length))
        assert window.query() == (start, start + length - 1)
        spent = counter.combines - before - inside_a_slice
        assert spent <= 3 + (length % slide != 0)
    if algorithm is mt.Pba:
        assert counter.worst["evict"] == 0
    else:
        assert counter.total["evict"] <= counter.calls["evict"] + window.chunk
        assert counter.worst["evict"] <= max(0, window.chunk - 2)


class Token:
    """A partial that knows how many of its kind are alive."""

    alive = 0

    def __init__(self, *_):
        Token.alive += 1

    def __del__(self):
        Token.alive -= 1


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 1000])
@pytest.mark.parametrize(
    ("algorithm", "bound"),
    [
        (mt.DabaLite, lambda n: n + 2),
        (mt.TwoStacksLite, lambda n: n + 1),
        (mt.Daba, lambda n: 2 * n),
        (mt.TwoStacks, lambda n: 2 * n),
        (mt.FlatFit, lambda n: n),
        (mt.Recalc, lambda n: n),
        (mt.Sba, lambda n: (3 * n + 13) / 2),
        (mt.Pba, lambda n: (3 * n + 13) / 2),
        (mt.Amta, lambda n: 2 * n + math.log2(n) + 2),
        (mt.LogMta, lambda n: 2 * n + 2),
        (mt.BInt, lambda n: 2 * n),
        (mt.Fiba, lambda n: 2 * n + 1),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_stored_partials(algorithm, bound, n):
    aggregate = mt.Aggregate("token", None, lift=Token, combine=Token)
    options = {"range": n} if algorithm in (mt.Sba, mt.Pba) else {}
    before = Token.alive
    window = algorithm(aggregate, **options)
    window.bulk_insert(range(n))
    for _ in range(4 * n + 8):
        window.evict()
        window.insert(0)
        window.query()
        assert Token.alive - before <= bound(n)


@pytest.mark.parametrize("evicted", [1, 63, 1000, 1900, 1999, 2000])
@pytest.mark.parametrize("algorithm", [mt.Amta, mt.LogMta, mt.BInt])
def test_what_a_bulk_eviction_drops_is_freed_at_once(algorithm, evicted):
    aggregate = mt.Aggregate("token", None, lift=Token, combine=Token)
    before = Token.alive
    window = algorithm(aggregate)
    window.bulk_insert(range(2000))
    window.bulk_evict(evicted)
    # Amta has R0, R1 and a stack besides, and a stale ancestor of the oldest leaf on each level.
    assert Token.alive - before <= 2 * len(window) + 2 * math.log2(2000) + 2
