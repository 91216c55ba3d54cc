"""A published query gives what as_of gives over the rows that were published, or an error."""

import random
import uuid

import pyarrow as pa
import pytest

import muntin as mt
from muntin.aggregates import close, seal
from muntin.serving.blocks import FORMAT
from muntin.serving.layout import FAN, Layout
from muntin.serving.lookup import published_as
from muntin.serving.writer import Writer
from muntin.stores import StoreError
from muntin.stores.published import Published
from tests.redis_server import RedisServer
from tests.test_query_properties import Shifts

WINDOWS = {
    "tumbling": mt.Tumbling(70, origin=3),
    "sliding": mt.Sliding(400, 10, origin=1),
    "long": mt.Sliding(6000, 100),
    "cumulate": mt.Cumulate(300, 20),
    "day": mt.Calendar("1 day", zone="Europe/Berlin"),
}
EXACT = {"exact": mt.Sliding(150, every=mt.rows(1)), "sliding": mt.Sliding(400, 10, origin=1)}
NUMBERS = {"n": mt.Count(), "sum": mt.Sum("n"), "max": mt.Max("v"), "mean": mt.Mean("n")}
OBJECTS = {"list": mt.Collect("n"), "kinds": mt.CountDistinct("n"), "median": mt.Median("v")}
SCHEMA = pa.schema([("t", pa.int64()), ("key", pa.int64()), ("n", pa.int64()), ("v", pa.float64())])
KEYS = [0, 1, 2, 7, 1]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def store(server):
    with mt.RedisStore(server.url) as store:
        store._client.flushall()
        yield store


class Stream:
    """Publishes micro-batches without Spark, as `muntin.spark.publish` does."""

    def __init__(self, store, query, writer="me", schema=SCHEMA):
        self.query, self.batch, self.who = query, 0, writer
        self.published = Published(store.address, "query")
        self.writer = Writer(self.published, query, schema.empty_table())
        content = {"format": FORMAT, "query": published_as(query)}
        self.about = seal({**content, "schema": schema.serialize().to_pybytes()})

    def begin(self):
        return self.published.begin(uuid.uuid4().hex, self.about, self.who, self.batch)

    def take(self, rows, *, again=False):
        """Publish a micro-batch; `again` writes it twice, as after a crash before its end."""
        table = pa.Table.from_pylist(rows, SCHEMA)
        head = self.begin()
        done = self.writer.write(head, str(self.batch), table)
        if again:
            head = self.begin()
            done = self.writer.write(head, str(self.batch), table)
        watermark = max(head.watermark or -(2**60), done.latest - self.query.delay)
        past = Layout.of(self.query).past(self.query, watermark) - 1
        self.published.end(head, self.batch, watermark, past)
        self.batch += 1
        return done


def rows_of(seed, count, spread, late):
    rng = random.Random(seed)
    times = sorted(rng.randrange(-50, spread) for _ in range(count))
    rows = [
        {
            "t": t,
            "key": rng.randrange(3),
            "n": rng.choice([None, *range(60)]),
            "v": rng.choice([None, 1.5, 2.0, -3.25]),
        }
        for t in times
    ]
    return sorted(rows, key=lambda row: row["t"] + rng.uniform(0, late))


def batches_of(rows, seed):
    rng = random.Random(seed)
    while rows:
        many = rng.randrange(1, 60)
        yield rows[:many]
        rows = rows[many:]


def assert_as_of(found, query, rows, t):
    table = pa.Table.from_pylist(rows, SCHEMA)
    labels = pa.table({"key": KEYS, "at": [t] * len(KEYS)})
    wanted = mt.as_of(labels, table, query, at="at").drop_columns(["at"])
    assert found.column_names == wanted.column_names
    for got, right in zip(found.to_pylist(), wanted.to_pylist(), strict=True):
        for column, value in right.items():
            assert close(got[column], value), (t, got["key"], column, got[column], value)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("windows", "aggregates"),
    [(WINDOWS, NUMBERS), (EXACT, NUMBERS), (WINDOWS, OBJECTS), (EXACT, OBJECTS)],
    ids=["slices", "moments", "objects", "objects of moments"],
)
def test_a_lookup_gives_what_as_of_gives(store, seed, windows, aggregates):
    query = mt.Query(time="t", keys="key", windows=windows, aggregates=aggregates, watermark=40)
    rng = random.Random(seed)
    stream, seen, lookup = Stream(store, query), [], None
    for rows in batches_of(rows_of(seed, 500, 30_000, 40), seed):
        done = stream.take(rows, again=rng.random() < 0.3)
        assert done.dropped == 0
        seen += rows
        lookup = lookup or mt.Lookup(store, query)
        latest = max(row["t"] for row in seen)
        for t in (latest + 1, latest + rng.randrange(1, 3000)):
            assert_as_of(lookup.get({"key": KEYS}, at=t), query, seen, t)
    assert len(seen) == 500


def test_a_lookup_before_the_latest_row_is_exact_or_an_error(store):
    query = mt.Query(
        time="t", keys="key", windows={"w": mt.Sliding(400, 10)}, aggregates=NUMBERS, watermark=5000
    )
    stream, rows = Stream(store, query), rows_of(4, 300, 4000, 0)
    stream.take(rows)
    lookup, answered, refused = mt.Lookup(store, query), 0, 0
    for t in range(-100, 4000, 41):
        try:
            found = lookup.get({"key": KEYS}, at=t)
        except ValueError as error:
            refused += "ends within a slice" in str(error)
            continue
        answered += 1
        assert_as_of(found, query, rows, t)
    assert answered > 5
    assert refused > 5
    for t in range(0, 4000, 130):
        assert_as_of(lookup.get({"key": KEYS}, at=t), query, rows, t)


def test_a_long_window_reads_few_tiles(store):
    query = mt.Query(
        time="t", keys="key", windows={"w": mt.Sliding(43_200, 1)}, aggregates={"n": mt.Count()},
        watermark=100,
    )  # fmt: skip
    stream = Stream(store, query)
    rows = [{"t": t, "key": 0, "n": 1, "v": 1.0} for t in range(50_000)]
    for start in range(0, 50_000, 5000):
        stream.take(rows[start : start + 5000])
    lookup = mt.Lookup(store, query)
    assert lookup.get({"key": [0]}, at=50_000)["w_n"].to_pylist() == [43_200]
    layout = Layout.of(query)
    assert len(layout.fields(6_800, 50_000)) <= 2 * len(layout.widths) <= 8
    held = store._client.hgetall(lookup._published._of_key("(0,)"))
    least = 45_000 - 43_200 - 102  # by the watermark before the last micro-batch
    assert len(held) <= (50_000 - least) / FAN * 1.1 + 20  # old blocks have left
    assert min(int(name[2:]) for name in held if name.startswith(b"0:")) >= least // FAN - 1


def test_what_is_late_or_gone(store):
    query = mt.Query(
        time="t", keys="key", windows={"w": mt.Sliding(20, 10)}, aggregates={"n": mt.Count()},
        watermark=10,
    )  # fmt: skip
    stream = Stream(store, query)
    stream.take([{"t": 5, "key": 1, "n": 1, "v": None}, {"t": 1000, "key": 2, "n": 1, "v": None}])
    assert len(store._client.keys("*key:*")) == 2
    stream.take([{"t": 10_000, "key": 2, "n": 1, "v": None}])
    assert [*store._client.keys("*key:*")] == [b"muntin:{query}:key:(2,)"]
    assert stream.take([{"t": 9_000, "key": 1, "n": 1, "v": None}]).dropped == 1
    lookup = mt.Lookup(store, query)
    with pytest.raises(ValueError, match="window 'w' at 9000 needs rows from 8980 on"):
        lookup.get({"key": [1]}, at=9000)
    assert lookup.get({"key": [1, 2]}, at=10_001)["w_n"].to_pylist() == [0, 1]


def test_another_query_another_writer_and_damage(store):
    query = mt.Query(
        time="t", keys="key", windows={"w": mt.Sliding(20, 10)}, aggregates={"n": mt.Count()},
        watermark=10,
    )  # fmt: skip
    with pytest.raises(StoreError, match="nothing is published"):
        mt.Lookup(store, query)
    stream = Stream(store, query)
    stream.take([{"t": 5, "key": 1, "n": 1, "v": None}])
    lookup = mt.Lookup(store, query)
    for other in ({"windows": {"w": mt.Sliding(20, 5)}}, {"aggregates": {"n": mt.Sum("n")}}):
        parts = {"windows": query.windows, "aggregates": query.aggregates} | other
        with pytest.raises(mt.SnapshotError, match="another query"):
            mt.Lookup(store, mt.Query(time="t", keys="key", **parts))
    with pytest.raises(StoreError, match="being published by another stream"):
        Stream(store, query, writer="you").take([{"t": 6, "key": 1, "n": 1, "v": None}])
    late = Stream(store, query)
    stream.take([{"t": 7, "key": 1, "n": 1, "v": None}])
    with pytest.raises(StoreError, match="it is an older copy"):
        late.take([{"t": 7, "key": 1, "n": 1, "v": None}])
    name = lookup._published._of_key("(1,)")
    block = store._client.hget(name, "0:0")
    for damaged in (block[:-1], block[:5], bytes([block[0] ^ 1]) + block[1:]):
        store._client.hset(name, "0:0", damaged)
        with pytest.raises(mt.SnapshotError, match="damaged"):
            lookup.get({"key": [1]}, at=8)
    store._client.hset(name, "0:0", block)
    moved = {field: store._client.hget(name, field) for field in store._client.hkeys(name)}
    store._client.hset(lookup._published._of_key("(2,)"), mapping=moved)
    with pytest.raises(mt.SnapshotError, match="damaged, or is of another place"):
        lookup.get({"key": [2]}, at=8)
    store._client.flushall()
    with pytest.raises(StoreError, match="lost"):
        lookup.get({"key": [1]}, at=8)
    with pytest.raises(StoreError, match="lost"):
        stream.take([{"t": 7, "key": 1, "n": 1, "v": None}])


def test_a_writer_that_is_overtaken_changes_nothing(store):
    """Two attempts of a micro-batch, and one of the micro-batch before, which wakes up late."""
    query = mt.Query(
        time="t", keys="key", windows={"w": mt.Tumbling(100)}, aggregates={"n": mt.Count()},
        watermark=10,
    )  # fmt: skip
    rows = pa.Table.from_pylist([{"t": 5, "key": 1, "n": 1, "v": None}], SCHEMA)
    slow, fast = Stream(store, query), Stream(store, query)
    before = slow.begin()
    late = []
    write = slow.published.write
    slow.published.write = lambda *arguments: late.append(arguments)
    slow.writer.write(before, "0", rows)
    for t in (5, 6, 7):
        fast.take([{"t": t, "key": 1, "n": 1, "v": None}])
    with pytest.raises(StoreError, match="not as this process left it"):
        write(*late[0])
    assert mt.Lookup(store, query).get({"key": [1]}, at=50)["w_n"].to_pylist() == [3]


def test_a_server_that_is_gone_is_an_error(tmp_path):
    query = mt.Query(
        time="t", keys="key", windows={"w": mt.Tumbling(100)}, aggregates={"n": mt.Count()},
        watermark=10,
    )  # fmt: skip
    with RedisServer(tmp_path) as server, mt.RedisStore(server.url) as store:
        stream = Stream(store, query)
        stream.take([{"t": 5, "key": 1, "n": 1, "v": None}])
        lookup = mt.Lookup(store, query)
        server.kill()
        with pytest.raises(StoreError, match="publication 'query' in Redis"):
            lookup.get({"key": [1]}, at=50)
        with pytest.raises(StoreError, match="publication 'query' in Redis"):
            stream.take([{"t": 6, "key": 1, "n": 1, "v": None}])
        server.start()  # and has kept nothing
        with pytest.raises(StoreError, match="lost"):
            lookup.get({"key": [1]}, at=50)
        with pytest.raises(StoreError, match="lost"):
            stream.take([{"t": 6, "key": 1, "n": 1, "v": None}])


@pytest.mark.parametrize(
    "window",
    [mt.Session(5), mt.LastN(3, 5), mt.Punctuation("mark"), Shifts()],
    ids=lambda window: type(window).__name__,
)
def test_windows_that_cannot_be_published(window):
    query = mt.Query(time="t", windows={"w": window}, aggregates={"n": mt.Count()}, watermark=1)
    with pytest.raises(ValueError, match="window 'w' .* cannot be published"):
        Layout.of(query)


def test_keys_of_several_columns_and_texts(store):
    schema = pa.schema([("t", pa.int64()), ("a", pa.string()), ("b", pa.float64())])
    query = mt.Query(
        time="t", keys=("a", "b"), windows={"w": mt.Tumbling(100)}, aggregates={"n": mt.Count()},
        watermark=10,
    )  # fmt: skip
    stream = Stream(store, query, schema=schema)
    head = stream.begin()
    keys = [("x", 0.0), ("x", -0.0), ("', 'y", 1.0), (None, float("nan"))]
    rows = pa.table({"t": [1, 2, 3, 4], "a": [a for a, _ in keys], "b": [b for _, b in keys]})
    stream.writer.write(head, "0", rows.cast(schema))
    asked = {"a": ["x", "', 'y", None, "y"], "b": [-0.0, 1, float("nan"), 0]}
    found = mt.Lookup(store, query).get(asked, at=5)
    assert found["w_n"].to_pylist() == [2, 1, 1, 0]
    with pytest.raises(TypeError, match="key 'b' was published as double"):
        mt.Lookup(store, query).get({"a": ["x"], "b": ["no"]}, at=5)
