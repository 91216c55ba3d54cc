"""An aggregate that an algorithm cannot serve is refused at construction, with a way out."""

import pytest

import muntin as mt

CASES = [
    (mt.SubtractOnEvict, mt.Max(), "no inverse"),
    (mt.SubtractOnEvict, mt.Collect(), "no inverse"),
    (mt.SubtractOnEvict, mt.Var(), "no inverse"),
    (mt.SlickDeque, mt.Collect(), "neither selective nor has it an inverse"),
    (mt.SlickDeque, mt.Var(), "neither selective nor has it an inverse"),
    (mt.SlickDeque, mt.M4(), "neither selective nor has it an inverse"),
]


@pytest.mark.parametrize(("algorithm", "aggregate", "lacks"), CASES)
def test_the_refusal_names_algorithm_property_and_what_would_serve(algorithm, aggregate, lacks):
    with pytest.raises(TypeError) as refusal:
        algorithm(aggregate)
    message = str(refusal.value)
    assert message.startswith(algorithm.__name__)
    assert aggregate.name in message
    assert lacks in message
    served = message.split("These would: ")[1].split(", ")
    assert "DabaLite" in served
    for name in mt.ALGORITHMS:
        if name in served:
            assert len(mt.ALGORITHMS[name](aggregate)) == 0
        else:
            with pytest.raises(TypeError):
                mt.ALGORITHMS[name](aggregate)


def test_slick_deque_serves_both_kinds():
    assert mt.SlickDeque(mt.Max()).query() is None
    assert mt.SlickDeque(mt.Sum()).query() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slide": 0}, "slide must be 1 or more"),
        ({"range": 2, "slide": 3}, "at least the slide of 3, got 2"),
        ({"range": 8, "chunk": 0}, "1 or more slices"),
    ],
)
def test_impossible_windows_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        mt.Sba(mt.Max(), **options)


def test_a_query_between_slides_is_refused():
    window = mt.Sba(mt.Max(), range=6, slide=3)
    window.bulk_insert(range(6))
    window.evict()
    with pytest.raises(RuntimeError, match="evict 2 more"):
        window.query()
    window.bulk_evict(2)
    assert window.query() == 5
