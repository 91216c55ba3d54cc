"""Reading batches: all kinds of frames give the same batch, all kinds of times the same microseconds."""

import datetime as dt
import decimal
import math
import uuid
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.dataframes.batches import read_batch

ROWS = 5
TABLE = pa.table(
    {
        "at": pa.array([30, 10, 20, 20, -5]),
        "plug": pa.array(["a", "b", None, "a", "é"]),
        "house": pa.array([1, 1, 2, None, 3]),
        "watts": pa.array([1.5, 2.5, None, 4.5, 5.5]),
        "count": pa.array([1, 2, 3, 4, 2**60]),
        "on": pa.array([True, False, None, True, True]),
        "note": pa.array(["x", None, "y", "", "z"]),
    }
)
KEYS, VALUES = ("plug", "house"), ("watts", "count", "on", "note")


def masked(column):
    """Return a column as NumPy has it: with a mask, or as objects."""
    if pa.types.is_string(column.type):
        return np.array(column.to_pylist(), object)
    filled = column.combine_chunks().fill_null(0 if column.type != pa.bool_() else False)
    mask = column.is_null().to_numpy()
    return np.ma.array(filled.to_numpy(zero_copy_only=False), mask=mask)


def rows_with_gaps():
    """Return rows as dicts, a null now as None and now as no entry at all."""
    rows = TABLE.to_pylist()
    return [{k: v for k, v in row.items() if v is not None or i % 2} for i, row in enumerate(rows)]


NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
FRAMES = {
    "arrow table": lambda: TABLE,
    "arrow chunks": lambda: pa.concat_tables([TABLE[:2], TABLE[2:2], TABLE[2:]]),
    "arrow batch": lambda: TABLE.to_batches()[0],
    "pandas": lambda: TABLE.to_pandas(types_mapper=NULLABLE.get),
    "pandas of arrow": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.from_arrow(TABLE),
    "dict of numpy": lambda: {name: masked(TABLE[name]) for name in TABLE.column_names},
    "dict of arrow": lambda: {name: TABLE[name] for name in TABLE.column_names},
    "dict of series": lambda: dict(pl.from_arrow(TABLE).to_dict()),
    "dict of lists": TABLE.to_pydict,
    "rows": TABLE.to_pylist,
    "rows with gaps": rows_with_gaps,
}


def listed(batch):
    """Return everything in a batch as lists."""
    keys = [key.to_pylist() for key in batch.keys]
    return batch.times.tolist(), keys, {n: c.objects() for n, c in batch.columns.items()}


EXPECTED = (
    TABLE["at"].to_pylist(),
    [TABLE[name].to_pylist() for name in KEYS],
    {name: TABLE[name].to_pylist() for name in VALUES},
)


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_frame_gives_the_same_batch(kind):
    batch = read_batch(FRAMES[kind](), "at", KEYS, VALUES)
    assert listed(batch) == EXPECTED
    assert (batch.rows, batch.bad_times, batch.time_type) == (ROWS, 0, pa.int64())
    assert batch.times.dtype == np.int64
    assert [batch.columns[name].values.dtype for name in VALUES] == ["f8", "i8", "i8", "O"]
    assert batch.columns["count"].valid is None or kind == "dict of numpy"


@pytest.mark.parametrize("kind", FRAMES)
def test_taking_rows_takes_them_of_every_column(kind):
    indices = [4, 0, 0, 2]
    batch = read_batch(FRAMES[kind](), "at", KEYS, VALUES).take(np.array(indices))
    again = read_batch(TABLE.take(indices), "at", KEYS, VALUES)
    assert listed(batch) == listed(again)
    assert batch.rows == len(indices)


NOON = dt.datetime(2026, 2, 28, 12, 0, 0)
PARIS = "Europe/Paris"
TIMES = {
    "arrow s": pa.array([NOON], pa.timestamp("s")),
    "arrow ms": pa.array([NOON], pa.timestamp("ms")),
    "arrow us": pa.array([NOON], pa.timestamp("us")),
    "arrow ns": pa.array([NOON], pa.timestamp("ns")),
    **{f"numpy {u}": np.array([NOON], f"M8[{u}]") for u in ("h", "m", "s", "ms", "us", "ns")},
    "numpy 10 us": np.array([NOON], "M8[10us]"),
    "numpy big-endian": np.array([NOON], ">M8[us]"),
    "numpy masked": np.ma.array(np.array([NOON], "M8[us]"), mask=[False]),
    "numpy strided": np.array([NOON, None], "M8[us]")[::2],
    "pandas": pd.Series([NOON]),
    "pandas of arrow": pd.Series([NOON], dtype=pd.ArrowDtype(pa.timestamp("ms"))),
    "polars": pl.Series([NOON]),
    "list": [NOON],
}
ZONED = {
    "arrow": pa.array([NOON], pa.timestamp("ms", PARIS)),
    "pandas": pd.Series([NOON]).dt.tz_localize("UTC").dt.tz_convert(PARIS),
    "polars": pl.Series([NOON]).dt.replace_time_zone("UTC").dt.convert_time_zone(PARIS),
}
DAYS = {
    "date32": pa.array([NOON.date()]),
    "date64": pa.array([NOON.date()], pa.date64()),
    "numpy": np.array([NOON], "M8[D]"),
    "polars": pl.Series([NOON.date()]),
    "list": [NOON.date()],
}


def times_of(column, **options):
    batch = read_batch({"t": column}, "t", (), (), **options)
    return batch.times.tolist(), batch.time_type


@pytest.mark.parametrize("kind", TIMES)
def test_times_of_every_kind_are_microseconds(kind):
    expected = int(NOON.replace(tzinfo=dt.UTC).timestamp()) * 1_000_000
    assert times_of(TIMES[kind]) == ([expected], pa.timestamp("us"))


@pytest.mark.parametrize("kind", ZONED)
def test_a_time_zone_is_kept_and_times_are_those_of_utc(kind):
    expected = int(NOON.replace(tzinfo=dt.UTC).timestamp()) * 1_000_000
    assert times_of(ZONED[kind]) == ([expected], pa.timestamp("us", PARIS))


@pytest.mark.parametrize("kind", DAYS)
def test_days_begin_at_midnight(kind):
    midnight = dt.datetime(2026, 2, 28, tzinfo=dt.UTC)
    assert times_of(DAYS[kind]) == ([int(midnight.timestamp()) * 1_000_000], pa.timestamp("us"))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint8(), pa.uint64(), pa.int64()])
def test_whole_numbers_stay_as_they_are(kind):
    assert times_of(pa.array([3, 1], kind)) == ([3, 1], pa.int64())
    assert times_of(np.array([3, 1], kind.to_pandas_dtype())) == ([3, 1], pa.int64())


@settings(deadline=None)
@given(st.lists(st.integers(-(2**50), 2**50).flatmap(lambda t: st.sampled_from([t, 1000 * t]))))
def test_times_finer_than_microseconds_are_bad_rows(ns):
    whole = [t // 1000 for t in ns if t % 1000 == 0]
    for times in (pa.array(ns, pa.timestamp("ns")), np.array(ns, "M8[ns]")):
        batch = read_batch({"t": times}, "t", (), (), on_bad_row="drop")
        assert (batch.times.tolist(), batch.bad_rows) == (whole, len(ns) - len(whole))
        if batch.bad_rows:
            row = next(i for i, t in enumerate(ns) if t % 1000)
            with pytest.raises(ValueError, match=rf"row {row} .*finer than 1 us"):
                read_batch({"t": times}, "t", (), ())


@pytest.mark.parametrize(
    "make", [lambda t: pa.array(t, pa.timestamp("s")), lambda t: np.array(t, "M8[s]")]
)
def test_times_beyond_microseconds_are_refused(make):
    edge = (2**63 - 1) // 1_000_000
    assert times_of(make([edge, -edge]))[0] == [edge * 1_000_000, -edge * 1_000_000]
    for far in (edge + 1, -edge - 1, 2**63 - 1, -(2**63) + 1):
        with pytest.raises(ValueError, match=r"the time of row 1 \(column 't'\) is too far off"):
            times_of(make([0, far]))
    with pytest.raises(ValueError, match=r"row 0 .* too far off"):
        times_of(pa.array([2**63], pa.uint64()))


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]),
    st.sampled_from([1, 7, 1000]),
    st.lists(
        st.integers(-(2**63) + 1, 2**63 - 1)
        | st.integers(-400, 400)
        | st.integers(-400, 400).map(lambda t: 10**12 * t),
        max_size=5,
    ),
)
def test_times_of_every_unit_of_numpy_are_exact_or_bad_rows(unit, many, ticks):
    exact = [microseconds_of(many * t, unit) for t in ticks]
    fits = [t for t in exact if t is not None and abs(t) < 2**63 and t.denominator == 1]
    batch = read_batch({"t": np.array(ticks, f"M8[{many}{unit}]")}, "t", (), (), on_bad_row="drop")
    assert (batch.times.tolist(), batch.bad_rows) == (fits, len(ticks) - len(fits))


def microseconds_of(ticks, unit):
    """Return a time of NumPy as a fraction; None if it is beyond what can be computed."""
    if unit in ("Y", "M"):
        years, months = divmod(ticks * (12 if unit == "Y" else 1), 12)
        cycles, year = divmod(years, 400)  # Gregorian: 146 097 days in 400 years
        if abs(years) > 150_000:
            return None
        day = dt.date(1970 + year, months + 1, 1) - dt.date(1970, 1, 1)
        return Fraction((146_097 * cycles + day.days) * 86_400 * 10**6)
    finer = ["s", "ms", "us", "ns", "ps", "fs", "as"]
    if unit in finer:
        return Fraction(ticks * 10**6, 1000 ** finer.index(unit))
    return Fraction(ticks * 10**6 * {"W": 604_800, "D": 86_400, "h": 3600, "m": 60}[unit])


NULL_TIMES = {
    "arrow": pa.array([5, None, 7, None]),
    "numpy": np.array([5, "NaT", 7, "NaT"], "M8[us]"),
    "numpy days": np.array([5, "NaT", 7, "NaT"], "M8[D]"),
    "masked": np.ma.array([5, 0, 7, 0], mask=[0, 1, 0, 1]),
    "pandas": pd.Series(pd.array([5, None, 7, None], dtype="Int64")),
    "pandas stamps": pd.Series(np.array([5, "NaT", 7, "NaT"], "M8[us]")),
    "polars": pl.Series([5, None, 7, None]),
    "list": [5, None, 7, None],
}


@pytest.mark.parametrize("kind", NULL_TIMES)
def test_rows_without_a_time_are_an_error_or_left_out(kind):
    batch = {
        "t": NULL_TIMES[kind],
        "k": ["a", "b", None, "d"],
        "v": [1, 2, None, 4],
        "o": list("wxyz"),
    }
    with pytest.raises(ValueError, match=r"row 1 \(column 't'\) is null.*on_bad_time='drop'"):
        read_batch(batch, "t", ("k",), ("v", "o"))
    times, keys, values = listed(
        dropped := read_batch(batch, "t", ("k",), ("v", "o"), on_bad_time="drop")
    )
    day = 86_400_000_000 if kind == "numpy days" else 1
    assert (times, keys, values) == (
        [5 * day, 7 * day],
        [["a", None]],
        {"v": [1, None], "o": ["w", "y"]},
    )
    assert (dropped.rows, dropped.bad_times) == (2, 2)


def test_nothing_but_null_times():
    batch = read_batch([{"t": None, "v": 1}], "t", (), ("v",), on_bad_time="drop")
    assert (batch.rows, batch.bad_times, batch.time_type) == (0, 1, pa.null())


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"t": [], "k": [], "v": []},
        TABLE[:0].rename_columns({"at": "t", "plug": "k", "watts": "v"}),
        pl.DataFrame({"t": [], "k": [], "v": []}),
        pd.DataFrame({"t": np.array([], "M8[ns]"), "k": [], "v": []}),
    ],
    ids=["list", "dict", "arrow", "polars", "pandas"],
)
def test_a_batch_may_have_no_rows(data):
    batch = read_batch(data, "t", ("k",), ("v",))
    assert (batch.rows, len(batch.times), len(batch.keys[0])) == (0, 0, 0)
    assert len(batch.columns["v"].values) == 0


def test_nan_is_a_null_in_pandas_only():
    data = {"t": [1, 2], "v": [math.nan, 1.0]}
    for frame in (data, pa.table(data), pl.DataFrame(data)):
        assert read_batch(frame, "t", (), ("v",)).columns["v"].valid is None
    assert read_batch(pd.DataFrame(data), "t", (), ("v",)).columns["v"].valid.tolist() == [
        False,
        True,
    ]


@pytest.mark.parametrize("kind", ["dict", "arrow", "polars"])
@pytest.mark.parametrize(
    "time", [np.arange(64), np.arange(64).astype("M8[us]")], ids=["whole", "us"]
)
def test_numbers_and_times_are_not_copied(kind, time):
    columns = {"t": time, "k": np.arange(64), "v": np.arange(64.0)}
    data = {"dict": dict, "arrow": pa.table, "polars": pl.DataFrame}[kind](columns)
    first, again = (read_batch(data, "t", ("k",), ("v",)) for _ in range(2))
    assert np.shares_memory(first.times, again.times)
    assert np.shares_memory(first.columns["v"].values, again.columns["v"].values)
    assert first.keys[0].buffers()[1].address == again.keys[0].buffers()[1].address


def test_values_of_any_kind_are_objects():
    half = decimal.Decimal("0.5")
    values = {
        "pair": [(1, 2), None],
        "mixed": [1, "a"],
        "large": [2**70, None],
        "exact": [half, half],
    }
    for kind in (list, lambda column: pl.Series(column, dtype=pl.Object)):
        data = {"t": [1, 2], **{name: kind(column) for name, column in values.items()}}
        batch = read_batch(data, "t", (), tuple(values))
        assert {name: column.objects() for name, column in batch.columns.items()} == values


def test_dictionaries_are_read_as_their_values():
    big = pa.array([2**60 + 1, None]).dictionary_encode()
    batch = read_batch({"t": [1, 2], "v": big}, "t", (), ("v",))
    assert batch.columns["v"].objects() == [2**60 + 1, None]


def test_string_views_can_be_taken():
    batch = read_batch({"t": [1, 2], "k": pa.array(["a", "b"], pa.string_view())}, "t", ("k",), ())
    assert batch.take(np.array([1])).keys[0].to_pylist() == ["b"]


GOOD = {"t": [1, 2], "k": ["a", "b"], "v": [0.5, 1.5]}
TWICE = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["t", "v", "v"])
MISTAKES = [
    ({"t": [1], "v": [2]}, KeyError, "no column 'k' in the batch: there are 't', 'v'"),
    (
        pd.DataFrame({"t": [1], "v": [2]}),
        KeyError,
        "no column 'k' in the batch: there are 't', 'v'",
    ),
    (pa.table({"t": [1]}), KeyError, "no column 'k' in the batch: there are 't'"),
    ([{"t": 1}, {"v": 2}], KeyError, "no column 'k' in the batch: there are 't', 'v'"),
    ({}, KeyError, "no column 't' in the batch: there are no columns"),
    (TWICE.append_column("k", [[1]]), ValueError, "there are 2 columns 'v'"),
    (TWICE.append_column("k", [[1]]).to_pandas(), ValueError, "there are 2 columns 'v'"),
    ({**GOOD, "t": [1.0, 2.0]}, TypeError, "time column 't' has the type double: times are"),
    ({**GOOD, "t": ["a", "b"]}, TypeError, "time column 't' has the type string: times are"),
    ({**GOOD, "t": [True, False]}, TypeError, "time column 't' has the type bool: times are"),
    ({**GOOD, "t": [1, "a"]}, TypeError, "column 't' is not of one type"),
    ({**GOOD, "k": [1, "a"]}, TypeError, "column 'k' is not of one type"),
    (
        {**GOOD, "k": pl.Series([object()] * 2, dtype=pl.Object)},
        TypeError,
        "'k' is not of one type",
    ),
    ({**GOOD, "v": [1.0]}, ValueError, "column 'v' has 1 rows, 't' has 2"),
    ({**GOOD, "k": ["a"]}, ValueError, "column 'k' has 1 rows, 't' has 2"),
    ({**GOOD, "v": 7}, TypeError, "column 'v' must be a flat array or a list, got 7"),
    ({**GOOD, "k": "ab"}, TypeError, "column 'k' must be a flat array or a list, got 'ab'"),
    ({**GOOD, "v": np.ones((2, 2))}, TypeError, "column 'v' must be a flat array or a list"),
    ([{"t": 1, "k": "a", "v": 1}, (2, "b", 2)], TypeError, "row 1 is (2, 'b', 2)"),
    (np.ones(3), TypeError, "a batch is an Arrow table .* list of dicts, got numpy.ndarray"),
    (pd.Series([1]), TypeError, "a batch is an Arrow table .*, got pandas"),
    (pl.LazyFrame(GOOD), TypeError, "a batch is an Arrow table .*, got polars.*LazyFrame"),
    (None, TypeError, "a batch is an Arrow table .*, got builtins.NoneType"),
]


OBJECTS = {
    "int": [1, 2**62, -5],
    "above int64": [2**63 + 5, 2**64 - 1],
    "above uint64": [2**70],
    "bool": [True, False],
    "float": [0.5, math.inf, 1e300],
    "not exact in float": [2**53 + 1],
    "Decimal": [decimal.Decimal("1.10"), decimal.Decimal("1E-30")],
    "Fraction": [Fraction(1, 3)],
    "str": ["a", "é", ""],
    "bytes": [b"a", b"\xff"],
    "date": [dt.date(2026, 1, 1)],
    "datetime": [dt.datetime(2026, 1, 1, 2, 3, 4, 567)],
    "zoned": [dt.datetime(2026, 7, 1, tzinfo=dt.UTC)],
    "Timestamp": [pd.Timestamp(1001)],
    "zoned Timestamp": [pd.Timestamp(1001, tz="UTC")],
    "timedelta": [dt.timedelta(microseconds=3)],
    "Timedelta": [pd.Timedelta(1001)],
    "time": [dt.time(1, 2, 3)],
    "zoned time": [dt.time(1, tzinfo=dt.UTC)],
    "UUID": [uuid.UUID(int=3)],
    "list": [[1, 2]],
    "list of times": [[dt.datetime(2026, 1, 1)]],
    "list of decimals": [[decimal.Decimal(3)]],
    "dict": [{"a": 1}],
    "numpy": [np.float16(0.1), np.uint64(2**64 - 1)],
    **{
        f"numpy {kind}": [*np.ones(1, kind)]
        for kind in ("f2", "f4", "f8", "g", "i1", "i8", "u8", "?", "M8[ns]", "M8[s]", "m8[us]")
    },
}


NO_KEYS = ("above int64", "above uint64", "Fraction", "zoned time", "numpy", "numpy g")
"""Kinds that Arrow has no type for; some are objects among values."""


def plain(item, role):
    """Return what can be compared; among values, moments with a zone are those of UTC."""
    if isinstance(item, dt.datetime | np.datetime64):
        moment = pd.Timestamp(item)
        return ("moment", role == "key" and moment.tz is not None, moment.value)
    if isinstance(item, dt.timedelta | np.timedelta64):
        return ("duration", pd.Timedelta(item).value)
    if isinstance(item, uuid.UUID):
        return item.bytes
    return item.item() if isinstance(item, np.generic) else item


@pytest.mark.parametrize("form", ["list", "pandas"])
@pytest.mark.parametrize("role", ["key", "value"])
@pytest.mark.parametrize("first", OBJECTS)
def test_objects_of_several_types_are_never_converted(first, role, form):
    """Arrow guesses one type from a few objects, and converts the others silently."""
    refused = []
    for second in OBJECTS:
        items = [*OBJECTS[first], None, *OBJECTS[second]]
        column = np.fromiter(items, object, len(items))
        made = items if form == "list" else pd.Series(column, dtype=object)
        data = {"t": range(len(items)), "c": made}
        names = (("c",), ()) if role == "key" else ((), ("c",))
        try:
            batch = read_batch(data, "t", *names)
        except (TypeError, ValueError):
            refused.append(second)
            continue
        held = batch.keys[0].to_pylist() if role == "key" else batch.columns["c"].objects()
        assert [plain(x, role) for x in held] == [plain(x, role) for x in items]
    assert first not in refused or first in NO_KEYS


@pytest.mark.parametrize(
    "mixed",
    [
        [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
        [dt.datetime(2026, 1, 1), dt.date(2026, 1, 1)],
        [dt.datetime(2026, 1, 1), decimal.Decimal(3)],
    ],
)
def test_times_of_several_types_are_refused(mixed):
    with pytest.raises(TypeError, match="column 't' is not of one type"):
        times_of(mixed)


def test_nanoseconds_of_pandas_are_bad_rows():
    for times in ([pd.Timestamp(1001)], pd.Series([pd.Timestamp(1001)], dtype=object)):
        with pytest.raises(ValueError, match="row 0 .*1001 ns, finer than 1 us"):
            times_of(times)


@pytest.mark.parametrize(("data", "error", "message"), MISTAKES)
def test_mistakes_are_named(data, error, message):
    with pytest.raises(error, match=message.replace("(", r"\(").replace(")", r"\)")):
        read_batch(data, "t", ("k",), ("v",))


def test_on_bad_time_is_one_of_two():
    with pytest.raises(ValueError, match="'error' or 'drop', got 'skip'"):
        read_batch(GOOD, "t", (), (), on_bad_time="skip")
