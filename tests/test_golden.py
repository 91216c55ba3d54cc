"""The papers' worked examples."""

from fractions import Fraction

import pytest

import muntin as mt
from muntin.aggregators.sba import count_chunk, time_chunk

FIG_2 = [5, 4, 6, 3, 0, 0, 1, 0, 2, 3, 1, 2, 7, 5, 3, 4, 9, 5, 4, 8]


@pytest.mark.parametrize("algorithm", mt.ALGORITHMS.values(), ids=mt.ALGORITHMS)
def test_max_count_trace_of_vldbj_2021_section_2(algorithm):
    if algorithm.missing(mt.MaxCount()):
        with pytest.raises(TypeError):
            algorithm(mt.MaxCount())
        return
    window = algorithm(mt.MaxCount())
    window.bulk_insert([4, 5, 3, 4, 0, 4, 4])
    assert window.query() == (5, 1)
    window.evict()
    assert window.query() == (5, 1)
    window.evict()
    assert window.query() == (4, 3)
    window.insert(2)
    assert window.query() == (4, 3)
    window.insert(6)
    assert window.query() == (6, 1)


@pytest.mark.parametrize("algorithm", [mt.Daba, mt.DabaLite])
def test_daba_cases_follow_the_intuitive_view(algorithm):
    """Each flip is followed by equally many shrinks and shifts (VLDBJ 2021, section 5)."""
    window = algorithm(mt.Collect())
    window.insert(0)
    cases = ""
    for position in range(1, 60):
        _, _, _, r_before, _, b_before, *_ = window._state
        window.insert(position)
        _, _, _, r, _, b, *_ = window._state
        cases += ("flip " if b != b_before else "") + ("shift " if r != r_before else "shrink ")
        window.check(range(position + 1))
    cycles = [cycle.split() for cycle in cases.split("flip")[1:-1]]
    assert [len(cycle) for cycle in cycles] == [2, 4, 8, 16]
    for cycle in cycles:
        m = len(cycle) // 2
        assert cycle == ["shrink"] * m + ["shift"] * m


@pytest.mark.parametrize("algorithm", [mt.Sba, mt.Pba])
def test_figure_2_of_kdd_2021(algorithm):
    """W[10, 2] with chunks of five slices: one lcs and one csa make each window."""
    window = algorithm(mt.Max(), range=10, slide=2, chunk=5)
    window.bulk_insert(FIG_2[:10])
    results = [window.query()]
    for i in range(10, 20, 2):
        window.bulk_evict(2)
        window.bulk_insert(FIG_2[i : i + 2])
        results.append(window.query())
    assert results == [6, 6, 7, 7, 9, 9]
    assert len(window._chunks) <= 2


@pytest.mark.parametrize("algorithm", [mt.Sba, mt.Pba])
def test_figure_3_of_kdd_2021(algorithm):
    """W[16, 1] with chunks of four: k = 4, and w1 is divided into five parts."""
    window = algorithm(mt.Max(), range=16, chunk=4)
    window.bulk_insert(FIG_2[:16])
    window.evict()
    window.insert(FIG_2[16])
    assert len(window._chunks) + bool(window._saa) == 5
    assert window.query() == max(FIG_2[1:17])


def waits(slices, chunk, slide_cost, rest_cost):
    """Whether lcs[1], which takes chunk - 1 steps, comes later than window 1 ends."""
    return chunk - 1 > (slices - chunk + 1) * slide_cost + rest_cost


@pytest.mark.parametrize("slide", [1, 2, 3, 5, 10])
def test_theorem_1_gives_the_largest_chunk_that_never_waits(slide):
    for length in range(slide, 400):
        slices, rest = divmod(length, slide)
        chunk = count_chunk(length, slide)
        assert slices // chunk == 1
        assert not waits(slices, chunk, slide, rest)
        assert chunk == slices or waits(slices, chunk + 1, slide, rest)


@pytest.mark.parametrize("combine_time", [0.001, 0.5, 1, 3])
@pytest.mark.parametrize("slide", [1, 2, 4])
def test_theorem_2_gives_the_largest_chunk_that_never_waits(slide, combine_time):
    for length in range(slide, 200):
        slices, rest = divmod(length, slide)
        chunk = time_chunk(length, slide, combine_time)
        slide_cost = slide / Fraction(combine_time) + 1
        rest_cost = rest / Fraction(combine_time) + 1 if rest else 0
        assert slices // chunk == 1
        assert not waits(slices, chunk, slide_cost, rest_cost)
        assert chunk == slices or waits(slices, chunk + 1, slide_cost, rest_cost)
    window = mt.Pba.timed(mt.Sum(), range=100, slide=slide, combine_time=combine_time)
    assert window.chunk == time_chunk(100, slide, combine_time)


def test_figure_5_of_vldb_2015():
    """The circular buffer of four leaves, inverted after the sixth event."""
    window = mt.FlatFat(mt.Collect())
    window.bulk_insert([4, 7, 3, 2])
    window.evict()
    window.insert(9)
    assert window.query() == [7, 3, 2, 9]


def test_figure_2_of_tpds_2019():
    """Timestamp 8 drives everything else out of a window of four time units."""
    for algorithm in (mt.LogMta, mt.Amta):
        window = algorithm(mt.Max())
        window.bulk_insert([1, 2, 3, 4])
        window.insert(8)
        window.bulk_evict(4)
        assert window.query() == 8
        window.check([8])


def test_figure_5_of_tpds_2019():
    """Sums of [1, 3, 2, 1, 2, 1, 1, 0, 3, 1] as two values leave: 15, 14, 11."""
    window = mt.Amta(mt.Sum())
    window.bulk_insert([1, 3, 2, 1, 2, 1, 1, 0, 3, 1])
    results = [window.query()]
    for _ in range(2):
        window.evict()
        results.append(window.query())
    assert results == [15, 14, 11]
