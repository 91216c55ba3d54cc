"""Blocks in a map of Spark's state store: what comes back, in pieces that go through fast."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin as mt
from muntin.spark import state_map as state
from muntin.spark.state_map import StateMap, eight_bits, seven_bits


class MapState(dict):
    """The part of Spark's MapState that is used, with its tuples."""

    def getValue(self, key):
        return self.get(key)

    def updateValue(self, key, value):
        self[key] = value

    def containsKey(self, key):
        return key in self

    def removeKey(self, key):
        del self[key]


@given(st.binary(max_size=60))
def test_seven_bits_are_ascii_and_a_seventh_longer(block):
    text = seven_bits(block)
    assert text.isascii()
    assert len(text) == 8 * -(-len(block) // 7) + 1
    assert eight_bits(text) == block


@pytest.mark.parametrize(
    "text", ["", "ab", seven_bits(b"block")[:-1], seven_bits(b"1234567") + "\0"]
)
def test_other_texts_are_no_blocks(text):
    with pytest.raises(mt.SnapshotError, match=f"{len(text)} characters"):
        eight_bits(text)


@pytest.mark.parametrize("text", ["\x7f" * 8 + "\7", "é" * 8 + "\0"])
def test_characters_that_seven_bits_do_not_have(text):
    with pytest.raises(mt.SnapshotError, match="not a block"):
        eight_bits(text)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.binary(max_size=60)), max_size=12),
    st.integers(1, 20),
)
def test_blocks_are_those_put_last_and_leave_nothing_behind(steps, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "PIECE", piece)
        held = MapState()
        store, expected = StateMap(held), {}
        for name, block in steps:
            if block is None:
                store.delete(name)
                expected.pop(name, None)
            else:
                store.put(name, block)
                expected[name] = block
            assert {n: store.get(n) for n in "ab"} == {n: expected.get(n) for n in "ab"}
        lengths = [len(seven_bits(block)) for block in expected.values()]
        assert len(held) == sum(length // piece + 1 for length in lengths)


def test_a_lost_piece_is_an_error(monkeypatch):
    monkeypatch.setattr(state, "PIECE", 8)
    held = MapState()
    StateMap(held).put("log/1", bytes(50))
    del held[("log/1#3",)]
    with pytest.raises(mt.SnapshotError, match="'log/1' ends after 3 pieces"):
        StateMap(held).get("log/1")
