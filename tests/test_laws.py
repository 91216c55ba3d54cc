"""Every aggregate keeps the laws it declares, and a false declaration is caught."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin as mt
from muntin.testing import LawError, check_laws
from tests import catalogue


@pytest.mark.parametrize("name", catalogue.ALL)
def test_declared_laws_hold(name):
    aggregate, inputs = catalogue.make(name)

    @settings(max_examples=15, deadline=None)
    @given(st.lists(inputs, min_size=1, max_size=5))
    def laws(samples):
        check_laws(aggregate, samples)

    laws()


def plus_one(a, b):
    return a + b + 1


FALSE = {
    "not associative": replace(mt.Max(), combine=lambda a, b: (a + b) / 2),
    "identity is not neutral": replace(mt.Max(), identity=100),
    "inverse is wrong": replace(mt.Count(), inverse=plus_one),
    "not commutative": replace(mt.Collect(), commutative=True),
    "not selective": replace(mt.Count(), selective=True),
    "decode does not undo encode": replace(mt.Count(), encode=str, decode=lambda s: int(s) + 1),
    "encode does not give plain data": replace(mt.Count(), encode=lambda _: object(), decode=id),
    "combine changes its arguments": mt.Aggregate(
        "append", [], lift=lambda v: [v], combine=lambda a, b: a.extend(b) or a
    ),
}


@pytest.mark.parametrize("law", FALSE)
def test_a_false_declaration_is_caught(law):
    with pytest.raises(LawError, match=law):
        check_laws(FALSE[law], [3, 1, 2])


def test_samples_are_needed():
    with pytest.raises(ValueError, match="at least one sample"):
        check_laws(mt.Max(), [])
