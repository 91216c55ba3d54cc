"""The key table against a dict of tuples: types, nulls, cuts into batches, forgetting, saving."""

import datetime as dt
import decimal
import itertools
import math
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.aggregates import seal, unseal
from muntin.slicing import key_table as keys
from muntin.slicing.key_table import KeyTable

D = decimal.Decimal
NAN = math.nan
STAMP = dt.datetime(2026, 2, 28, 23, 59, 59, 999999)
POINT = pa.struct([("x", pa.int32()), ("name", pa.struct([("text", pa.string())]))])
POINTS = [
    {"x": 1, "name": {"text": "a"}},
    {"x": 1, "name": None},
    {"x": None, "name": {"text": "a"}},
]

VALUES = {
    pa.int64(): [0, -1, 2**63 - 1, -(2**63)],
    pa.int8(): [0, -1, 127],
    pa.uint64(): [0, 2**63, 2**64 - 1],
    pa.uint8(): [0, 200, 255],
    pa.bool_(): [True, False],
    pa.float64(): [0.0, -0.0, NAN, -NAN, 1.5, math.inf],
    pa.float32(): [0.0, -0.0, NAN, 0.1],
    pa.float16(): [0.0, -0.0, NAN, 0.5],
    pa.date32(): [dt.date(1969, 12, 31), dt.date(2026, 2, 28)],
    pa.time64("us"): [dt.time(0), dt.time(23, 59, 59, 1)],
    pa.timestamp("us"): [STAMP, dt.datetime(1960, 1, 1)],
    pa.timestamp("us", "Europe/Paris"): [STAMP.replace(tzinfo=dt.UTC)],
    pa.duration("s"): [dt.timedelta(0), dt.timedelta(days=-1)],
    pa.decimal128(20, 2): [D("1.20"), D("-1.20"), D("0.00")],
    pa.decimal256(50, 2): [D("1.20"), D("-1.20")],
    pa.string(): ["", "a", "plug-1", "plug-2", "eight by", "eight bytes and more", "é"],
    pa.large_string(): ["", "a", "ab"],
    pa.string_view(): ["", "a", "longer than twelve bytes"],
    pa.binary(): [b"", b"\0", b"\0\0", b"\xff"],
    pa.binary(3): [b"abc", b"abd"],
    pa.dictionary(pa.int8(), pa.string()): ["a", "b"],
    pa.uuid(): [uuid.UUID(int=1), uuid.UUID(int=2)],
    pa.null(): [None],
    POINT: POINTS,
}
"""Of each type some values that are easily taken for one another."""

columns = st.sampled_from([*VALUES]).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.sampled_from([None, *VALUES[kind]])))
)


def as_key(value):
    """Return what tells a value from others: NaN is one value, and 0.0 == -0.0 in Python already."""
    if isinstance(value, dict):
        return tuple((name, as_key(x)) for name, x in value.items())
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def numbered(rows):
    """Number rows by their first appearance."""
    seen = {}
    return [seen.setdefault(tuple(map(as_key, row)), len(seen)) for row in rows], [*seen]


def rows_of(arrays):
    return [tuple(map(as_key, row)) for row in zip(*(a.to_pylist() for a in arrays), strict=True)]


def array_of(values, kind):
    if isinstance(kind, pa.DictionaryType):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


def number_all(table, array):
    return table.number([array], len(array)).tolist()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(columns, min_size=1, max_size=3), st.lists(st.integers(0, 30), max_size=4), st.data()
)
def test_numbers_are_those_of_a_dict_whatever_the_cuts(parts, cuts, data):
    rows = min(len(values) for _, values in parts)
    arrays = [array_of([None, *values[:rows]], kind)[1:] for kind, values in parts]
    expected, distinct = numbered(rows_of(arrays))
    names = tuple("abc"[: len(arrays)])
    table = KeyTable(names)
    edges = [0, *sorted(min(cut, rows) for cut in cuts), rows]
    numbers = []
    for lo, hi in itertools.pairwise(edges):
        numbers += table.number([array[lo:hi] for array in arrays], hi - lo).tolist()
        if data.draw(st.booleans(), "restart"):
            table = KeyTable.from_plain(names, unseal(seal(table.plain())))
    assert numbers == expected
    assert len(table) == len(distinct)
    assert rows_of(table.columns(np.array(numbers, np.int64))) == rows_of(arrays)

    alive = np.array(data.draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table))))
    table.keep(alive)
    kept = [key for key, lives in zip(distinct, alive, strict=True) if lives]
    assert rows_of(table.columns(np.arange(len(table)))) == kept
    again = [kept.index(row) if row in kept else None for row in rows_of(arrays)]
    numbers = table.number(arrays, rows).tolist()
    assert [n if n < len(kept) else None for n in numbers] == again
    assert rows_of(table.columns(np.array(numbers, np.int64))) == rows_of(arrays)


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_a_key_column_keeps_its_type(kind):
    array = array_of([*VALUES[kind], None], kind)
    table = KeyTable(("k",))
    (back,) = table.columns(table.number([array], len(array)))
    assert back.type == getattr(kind, "value_type", kind)
    assert rows_of([back]) == rows_of([array])


@pytest.mark.parametrize("kind", ["words", "texts", "pairs"])
def test_many_keys_in_random_order(kind):
    rng = np.random.default_rng(5)
    drawn = rng.integers(0, 20_000, 60_000)
    first = drawn == drawn[0]  # a null that is there before the table grows
    made = {
        "words": [pa.array(drawn << 40, mask=first)],
        "texts": [pa.array(np.array([f"a rather long name {i}" for i in drawn]), mask=first)],
        "pairs": [pa.array(drawn // 100), pa.array([str(i % 100) for i in drawn])],
    }[kind]
    table = KeyTable(tuple("ab"[: len(made)]))
    numbers = np.concatenate(
        [table.number([a[lo : lo + 7000] for a in made], len(made[0][lo : lo + 7000]))
         for lo in range(0, 60_000, 7000)]
    )  # fmt: skip
    _, starts, inverse = np.unique(drawn, return_index=True, return_inverse=True)
    assert (numbers == np.argsort(np.argsort(starts))[inverse]).all()
    assert all(a.equals(b) for a, b in zip(table.columns(numbers), made, strict=True))


def test_texts_with_the_same_hash_are_different_keys():
    def after_eight(block):  # what hash_of holds after the first 8 bytes of a text of 16
        word = (16 ^ block) * 0x9E3779B97F4A7C15 % 2**64
        return word ^ word >> 32

    def text(*blocks):
        return b"".join(block.to_bytes(8, "little") for block in blocks)

    texts = [text(i, after_eight(i)) for i in range(50)]
    table = KeyTable(("k",))
    assert number_all(table, pa.array(texts + texts[::-1])) == [*range(50), *range(49, -1, -1)]
    assert len({*table.hashes()[:50].tolist()}) == 1


def test_without_key_columns_there_is_one_key_once_there_are_rows():
    table = KeyTable(())
    assert table.number([], 0).tolist() == []
    assert len(table) == 0
    assert table.number([], 3).tolist() == [0, 0, 0]
    assert len(table) == 1
    assert table.columns(np.array([0, 0])) == []
    assert len(KeyTable.from_plain((), table.plain())) == 1
    table.keep(np.array([False]))
    assert len(table) == 0


UTC, DAY = STAMP.replace(microsecond=0, tzinfo=dt.UTC), dt.date(2026, 2, 28)
FAMILIES = [
    (1, pa.int32(), pa.int64()),
    (1, pa.int64(), pa.uint8()),
    (0.5, pa.float64(), pa.float32()),
    (UTC, pa.timestamp("us", "UTC"), pa.timestamp("s", "Europe/Paris")),
    (DAY, pa.date32(), pa.date64()),
    (D("1.5"), pa.decimal128(5, 1), pa.decimal128(9, 3)),
    (b"abc", pa.binary(3), pa.binary()),
    (None, pa.int32(), pa.null()),
    ({"a": 1}, pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64())])),
    (None, pa.struct([("a", pa.int32())]), pa.null()),
]


@pytest.mark.parametrize(("value", "first", "then"), FAMILIES, ids=str)
def test_types_of_one_family_are_one_column(value, first, then):
    table = KeyTable(("k",))
    assert number_all(table, pa.array([value], first)) == [0]
    assert number_all(table, pa.array([value], then)) == [0]
    assert table.columns(np.array([0]))[0].equals(pa.array([value], first))


def test_texts_of_any_layout_are_one_column():
    table = KeyTable(("k",))
    for kind in (pa.large_string(), pa.string(), pa.string_view()):
        assert number_all(table, pa.array(["a", "b"], kind)) == [0, 1]
    assert number_all(table, pa.array(["b", "a"]).dictionary_encode()) == [1, 0]
    assert table.columns(np.array([1]))[0].equals(pa.array(["b"], pa.large_string()))


def test_a_column_of_nulls_takes_the_type_that_comes():
    table = KeyTable(("a", "b"))
    assert table.number([pa.nulls(2), pa.array([1, 2])], 2).tolist() == [0, 1]
    table = KeyTable.from_plain(("a", "b"), table.plain())
    struct = pa.array([{"x": None}, None, {"x": None}])
    assert table.number([struct, pa.array([1, 2, 1])], 3).tolist() == [2, 1, 2]
    struct = pa.array([{"x": "here"}, None, {"x": None}])
    assert table.number([struct, pa.array([1, 1, 1])], 3).tolist() == [3, 0, 2]
    named = [None, None, {"x": None}, {"x": "here"}]
    assert table.columns(np.arange(4))[0].to_pylist() == named


CLASHES = [
    (pa.array([1], pa.int32()), pa.array([2**40]), "had the type int32 and now has int64.*range"),
    (pa.array([1]), pa.array(["a"]), "had the type int64 and now has string: cast"),
    (pa.array(["a"]), pa.array([b"a"]), "had the type string and now has binary: cast"),
    (pa.array([0.5], pa.float32()), pa.array([0.1]), "had the type float and now has double: cast"),
    (pa.array([STAMP]), pa.array([STAMP.replace(tzinfo=dt.UTC)]), "timestamp.us. and now has"),
    (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("ns")), "would lose data"),
    (pa.array([{"a": 1}]), pa.array([{"b": 1}]), "had the type struct<a: int64> and now has str"),
    (pa.array([{"a": 1}]), pa.array([{"a": "x"}]), r"\.a' had the type int64 and now has string"),
    (pa.array([1]), pa.array([[1]]), "list<.*>, which cannot be a key"),
    (pa.array([1]), pa.array([{}]), "struct<>, which cannot be a key"),
]


@pytest.mark.parametrize(("first", "then", "message"), CLASHES)
def test_other_types_are_refused_and_nothing_changes(first, then, message):
    table = KeyTable(("new", "k"))
    table.number([pa.array(["x"]), first], 1)
    before = table.plain()
    with pytest.raises(TypeError, match=f"key column 'k.*{message}"):
        table.number([pa.array(["y"]), then], 1)
    assert table.plain() == before
    assert table.number([pa.array(["z", "x"]), pa.concat_arrays([first, first])], 2).tolist() == [
        1,
        0,
    ]


@pytest.mark.parametrize("kind", ["words", "texts"])
def test_a_table_that_cannot_grow_is_unchanged(kind, monkeypatch):
    made = pa.array(range(100)) if kind == "words" else pa.array([str(i) for i in range(100)])
    table = KeyTable(("k",))
    table.number([made[:5]], 5)

    def no_memory(_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(keys, "_doubled", no_memory)
        with pytest.raises(MemoryError):
            table.number([made[::-1]], 100)
    assert len(table) == 5
    assert number_all(table, made) == [*range(100)]


def test_columns_that_are_too_short_are_not_read():
    table = KeyTable(("a", "b"))
    with pytest.raises(ValueError, match=r"\[2, 1\] rows, not 2"):
        table.number([pa.array([1, 2]), pa.array([1])], 2)
    with pytest.raises(ValueError, match="alive must tell of 0 keys, got 1"):
        table.keep(np.array([True]))


def test_saved_keys_that_are_damaged_are_refused():
    table = KeyTable(("k",))
    table.number([pa.array(["a", "b"])], 2)
    rows, stream = table.plain()
    with pytest.raises(ValueError, match=r"keys by \['k'\], not by \['other'\]"):
        KeyTable.from_plain(("other",), (rows, stream))
    for end in range(len(stream) - 8):  # the last 8 bytes only say that nothing follows
        with pytest.raises(ValueError, match="cannot be read"):
            KeyTable.from_plain(("k",), (rows, stream[:end]))
    with pytest.raises(ValueError, match=r"\[2\] rows, not 3"):
        KeyTable.from_plain(("k",), (3, stream))
    with pytest.raises(ValueError, match="2 keys were saved, and 1 of them"):
        KeyTable.from_plain(("k",), (rows, stream.replace(b"ab", b"aa")))


@settings(max_examples=100, deadline=None)
@given(st.lists(columns, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_equal_keys_have_equal_hashes_wherever_they_are_numbered(parts, chance):
    rows = min(len(values) for _, values in parts)
    order = list(range(rows))
    chance.shuffle(order)
    found = []
    for which in (list(range(rows)), order):
        table = KeyTable(tuple("abc"[: len(parts)]))
        mine = [array_of([None, *(v[i] for i in which)], kind)[1:] for kind, v in parts]
        numbers = table.number(mine, rows)
        found.append(dict(zip(which, table.hashes()[numbers].tolist(), strict=True)))
    assert found[0] == found[1]


HASHES = [
    "0x0",
    "0xf7a4bbce8a8c5939",
    "0x286b85fc627c4b49",
    "0xb78b9f38a670e787",
]


def test_hashes_stay_as_they_are_because_checkpoints_depend_on_them():
    table = KeyTable(("number", "text"))
    table.number(
        [pa.array([0, 1, None, 7]), pa.array(["", "plug-1", "eight bytes and more", None])], 4
    )
    assert [hex(h) for h in table.hashes()] == HASHES
    assert KeyTable(()).hashes().tolist() == []


def test_hashes_of_neighbours_are_spread():
    table = KeyTable(("k",))
    table.number([pa.array(np.arange(6000))], 6000)
    for shards in (2, 3, 8, 200):
        counts = np.bincount(table.hashes().astype(np.uint64) % np.uint64(shards), minlength=shards)
        assert counts.min() > 0.3 * 6000 / shards
        assert counts.max() < 2 * 6000 / shards
