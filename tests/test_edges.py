"""Where slices begin: edges put in order by cells are those that a sort gives."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.slicing.edges import Lattice

steps = st.one_of(st.integers(1, 12), st.integers(1, 10**12))


@settings(deadline=None)  # the first example compiles
@given(
    st.lists(st.tuples(steps, st.integers(0, 10**6)), min_size=1, max_size=20),
    st.integers(-(10**12), 10**12),
    st.integers(0, 1000),
)
def test_edges_come_in_order_and_once(pairs, lo, length):
    lattices = sorted({(step, offset % step) for step, offset in pairs})
    every, offsets = (np.array(column, np.int64) for column in zip(*lattices, strict=True))
    before = [(lo - offset) // step * step + offset for step, offset in lattices]
    inside = {
        edge
        for (step, _), first in zip(lattices, before, strict=True)
        for edge in range(first + step, lo + length + 1, step)
    }
    found = Lattice(every, offsets).between(lo, lo + length)
    assert found.tolist() == [max(before), *sorted(inside)]


def test_without_windows_there_are_no_edges():
    assert len(Lattice.of([]).between(0, 100)) == 0
