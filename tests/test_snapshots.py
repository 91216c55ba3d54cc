"""Snapshots restore exactly; anything else is one clear error, and runs nothing."""

import datetime as dt
import pickle
import random
import uuid
from decimal import Decimal

import msgpack
import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin as mt
from muntin.aggregates import close, seal, unseal
from muntin.aggregates.encoding import DAMAGE, HEADER, MAGIC, VERSION

ALGORITHMS = pytest.mark.parametrize("algorithm", mt.ALGORITHMS.values(), ids=mt.ALGORITHMS)


def window_of(algorithm, aggregate=None, n=23):
    options = {"range": 12, "slide": 1} if algorithm in (mt.Sba, mt.Pba) else {}
    window = algorithm(aggregate or mt.Sum(), **options)
    window.bulk_insert(range(n))
    window.bulk_evict(n // 2)
    window.insert(7)
    window.evict()
    return window


@ALGORITHMS
def test_a_restored_window_goes_on_alike(algorithm):
    window = window_of(algorithm)
    twin = algorithm.restore(window.snapshot(), mt.Sum())
    assert twin.snapshot() == window.snapshot()
    for value in range(50):
        for one in (window, twin):
            one.insert(value)
            one.evict()
        assert (twin.query(), len(twin)) == (window.query(), len(window))
    window.check()
    twin.check()


@ALGORITHMS
def test_truncated_bytes(algorithm):
    snapshot = window_of(algorithm).snapshot()
    for length in range(len(snapshot)):
        with pytest.raises(mt.SnapshotError):
            algorithm.restore(snapshot[:length], mt.Sum())


@ALGORITHMS
def test_altered_bytes(algorithm):
    snapshot = window_of(algorithm).snapshot()
    for i in range(len(snapshot)):
        altered = snapshot[:i] + bytes([snapshot[i] ^ 0x41]) + snapshot[i + 1 :]
        with pytest.raises(mt.SnapshotError):
            algorithm.restore(altered, mt.Sum())


class Bomb:
    """Would leave a trace if it were unpickled."""

    exploded = False

    def __reduce__(self):
        return (setattr, (Bomb, "exploded", True))


@pytest.mark.parametrize(
    ("foreign", "message"),
    [
        (b"", "not a muntin snapshot"),
        (b"PK\x03\x04 a zip file", "not a muntin snapshot"),
        (pickle.dumps(Bomb()), "not a muntin snapshot"),
        ("text", "bytes"),
        (None, "bytes"),
        (seal("something else"), "does not hold an aggregator"),
        (seal(["DabaLite", "sum", 5]), "does not hold an aggregator"),
        (b"MNTN\x00\x63" + seal(1)[6:], "snapshot format 99"),
        (seal(["DabaLite", "sum", {}]), "not that of a DabaLite"),
        (seal(["DabaLite", "sum", {"deque": pickle.dumps(Bomb())}]), "not that of a DabaLite"),
    ],
)
def test_foreign_bytes(foreign, message):
    with pytest.raises(mt.SnapshotError, match=message):
        mt.DabaLite.restore(foreign, mt.Sum())
    assert not Bomb.exploded


def test_another_algorithm_or_aggregate():
    snapshot = window_of(mt.Daba).snapshot()
    with pytest.raises(mt.SnapshotError, match="of a Daba, not of a DabaLite"):
        mt.DabaLite.restore(snapshot, mt.Sum())
    with pytest.raises(mt.SnapshotError, match="aggregate 'sum', not 'max'"):
        mt.Daba.restore(snapshot, mt.Max())
    snapshot = window_of(mt.Daba, mt.Quantile(q=0.5)).snapshot()
    with pytest.raises(mt.SnapshotError, match=r"quantile\(0\.5"):
        mt.Daba.restore(snapshot, mt.Quantile(q=0.9))


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(node, path=()):
    """Yield the path of every node of plain data."""
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, child in items if isinstance(node, dict | list | tuple) else ():
        yield from (
            places(child, (*path, key))
            if isinstance(child, dict | list | tuple)
            else [(*path, key)]
        )


def replaced(node, path, value):
    if not path:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return tuple(copy) if isinstance(node, tuple) else copy


LIES = {"sum": mt.Sum(), "max": mt.Max(), "collect": mt.Collect(), "var": mt.Var()}


@ALGORITHMS
@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), value=junk, name=st.sampled_from(sorted(LIES)))
def test_a_well_sealed_lie_is_an_error_or_a_window_in_shape(algorithm, seed, value, name):
    """Whoever can compute checksums gets nothing but SnapshotError, or a window that can be used."""
    aggregate = LIES[name] if not algorithm.missing(LIES[name]) else mt.Sum()
    content = unseal(window_of(algorithm, aggregate).snapshot())
    path = random.Random(seed).choice(list(places(content)))
    try:
        window = algorithm.restore(seal(replaced(content, path, value)), aggregate)
    except mt.SnapshotError:
        return
    try:
        while len(window):
            window.evict()
    except DAMAGE:
        pass  # a forged partial cannot be combined


ROUNDING = [1.0, 1e16, -1e16, 1.0, 0.1, 0.2, 0.3]


@ALGORITHMS
@pytest.mark.parametrize(
    "aggregate", [mt.Sum(), mt.Mean(), mt.Var(), mt.CountDistinct()], ids=lambda a: a.name
)
@pytest.mark.parametrize("kind", [float, np.float32])
def test_rounding_does_not_stand_in_the_way(algorithm, aggregate, kind):
    if algorithm.missing(aggregate):
        aggregate = mt.Sum()
    window = algorithm(aggregate)
    window.bulk_insert([kind(value) for value in [*ROUNDING, float("nan"), *ROUNDING, *ROUNDING]])
    window.bulk_evict(np.int64(5))
    twin = algorithm.restore(window.snapshot(), aggregate)
    for value in (1.0, float("nan")):
        window.insert(kind(value))
        twin.insert(kind(value))
        assert close(twin.query(), window.query())


@ALGORITHMS
def test_partials_may_be_arrays(algorithm):
    vectors = mt.Aggregate(
        "vectors",
        identity=np.zeros(2),
        lift=np.asarray,
        combine=lambda a, b: a + b,
        inverse=lambda a, b: a - b,
        commutative=True,
    )
    mt.testing.check_laws(vectors, [[1, 2], [3, 4]])
    window = algorithm(vectors)
    window.bulk_insert([[1, 2], [3, 4], [5, 6]])
    window.evict()
    window.check([[3, 4], [5, 6]])
    assert algorithm.restore(window.snapshot(), vectors).query().tolist() == [8, 10]


def test_what_is_nested_too_deep_is_refused_both_ways():
    nested = ()
    for _ in range(31):
        nested = (nested,)
    assert unseal(seal(nested)) == nested
    for _ in range(200):
        nested = (nested,)
    with pytest.raises(ValueError, match="32 deep"):
        seal(nested)
    body = msgpack.packb([])
    for _ in range(400):
        body = msgpack.packb(msgpack.ExtType(1, body))
    header = HEADER.pack(MAGIC, VERSION, xxhash.xxh3_128_digest(body))
    with pytest.raises(mt.SnapshotError, match="32 deep"):
        unseal(header + body)


VALUES = [
    None,
    True,
    -1,
    2**64,
    -(2**200),
    1.5,
    float("inf"),
    "text",
    b"bytes",
    (1, (2, [3])),
    {"a": (1,), 2: None},
    {1, 2},
    frozenset("ab"),
    dt.datetime(2026, 1, 2, 3, 4, 5, 6),
    dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
    dt.date(2026, 1, 2),
    dt.time(3, 4),
    dt.timedelta(1, 2, 3),
    Decimal("0.10"),
    uuid.UUID(int=7),
    1 + 2j,
    np.float32(1.5),
    np.int64(-3),
    np.datetime64("2026-01-02", "us"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_keep_their_type(value):
    restored = unseal(seal([value]))[0]
    assert restored == value
    assert type(restored) is type(value)


whole_numbers = st.integers(-(2**63), 2**63 - 1)


@given(
    kind=st.sampled_from([np.int16, np.int64, np.uint64, np.float64, np.bool_]),
    least=whole_numbers,
    span=st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63, 2**64 - 1]),
    shape=st.sampled_from([(0,), (0, 3), (1,), (7,), (4, 3), (2, 2, 2)]),
)
def test_arrays_keep_dtype_shape_and_values(kind, least, span, shape):
    """Whatever the distances between whole numbers, which decide in how many bytes they are written."""
    edges = [max(-(2**63), min(least + x, 2**63 - 1)) for x in (0, span // 2, span)]
    whole = np.resize(np.array(edges, np.int64), shape)
    array = np.array(whole, np.int64).astype(kind)
    restored = unseal(seal(array))
    assert restored.dtype == array.dtype
    assert restored.shape == array.shape
    assert (restored == array).all()
    assert restored.flags.writeable


@pytest.mark.parametrize(("span", "each"), [(255, 1), (65_535, 2), (2**32 - 1, 4), (2**32, 8)])
def test_whole_numbers_take_as_few_bytes_as_their_distances(span, each):
    array = np.array([5, 5 + span] * 500) + 10**15
    assert each * array.size <= len(seal(array)) < each * array.size + 100


def test_objects_need_an_encoder():
    own = mt.Aggregate("own", None, lift=lambda _: object(), combine=lambda a, b: a or b)
    window = mt.DabaLite(own)
    window.insert(1)
    with pytest.raises(TypeError, match="encode= and decode="):
        window.snapshot()
    coded = mt.Aggregate(
        "coded", None, lift=complex, combine=lambda a, b: a or b, encode=str, decode=complex
    )
    window = mt.DabaLite(coded)
    window.insert(1)
    assert mt.DabaLite.restore(window.snapshot(), coded).query() == 1


def test_a_slow_window_restores_between_slides():
    window = mt.Pba(mt.Collect(), range=7, slide=3)
    window.bulk_insert(range(7))
    window.evict()
    twin = mt.Pba.restore(window.snapshot(), mt.Collect())
    twin.bulk_evict(2)
    assert (twin.query(), twin.chunk) == ([3, 4, 5, 6], window.chunk)
