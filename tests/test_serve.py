"""The server of lookups: answers are those of Lookup, and what it cannot answer is a sentence."""

import datetime as dt
import decimal
import json
import random
import re
import socket
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import jsonschema
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

import muntin as mt
from muntin.cli import SERVE, main
from muntin.endpoint.answers import Answers, Limits
from muntin.endpoint.json_values import written
from muntin.endpoint.server import LookupServer
from muntin.jobs import JobError
from muntin.jobs.serving import read_serving
from muntin.stores import StoreError
from tests.redis_server import RedisServer
from tests.test_published import NUMBERS, OBJECTS, SCHEMA, WINDOWS, Stream, rows_of

TOKEN = "a token of this test"
LIMITS = Limits(keys=20, body=4000)
HOUR = {"hour": mt.Sliding("1 hour", "1 min")}
CARDS = pa.schema(
    [
        ("t", pa.timestamp("us")),
        ("card", pa.string()),
        ("day", pa.date32()),
        ("seen", pa.timestamp("us", "Europe/Berlin")),
        ("price", pa.decimal128(8, 2)),
        ("small", pa.int8()),
        ("weight", pa.float32()),
        ("new", pa.bool_()),
        ("v", pa.float64()),
    ]
)
CARD_KEYS = ("card", "day", "seen", "price", "small", "weight", "new")
START = dt.datetime(2026, 3, 8, 20)


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def store(redis):
    with mt.RedisStore(redis.url) as store:
        store._client.flushall()
        yield store


def numbers_query(**changes):
    asked = {"windows": WINDOWS, "aggregates": NUMBERS | OBJECTS, "watermark": 40} | changes
    return mt.Query(time="t", keys="key", **asked)


def published(store, query, rows, schema=SCHEMA):
    """Publish rows, and return a lookup in them."""
    stream = Stream(store, query, schema=schema)
    table = pa.Table.from_pylist(rows, schema)
    head = stream.begin()
    done = stream.writer.write(head, "0", table)
    stream.published.end(head, 0, done.latest - query.delay, None)
    stream.published.close()
    return mt.Lookup(store, query)


def card_rows():
    """Return rows with keys of each type that can be asked for, with nulls."""
    rng, rows = random.Random(5), []
    for i in range(40):
        rows.append(
            {
                "t": START + dt.timedelta(minutes=i),
                "card": rng.choice(["a", "ü'\"\n", "", None]),
                "day": rng.choice([dt.date(2026, 3, 8), None]),
                "seen": dt.datetime(2026, 3, 8, 9, rng.randrange(2), tzinfo=dt.UTC),
                "price": decimal.Decimal(rng.choice(["12.50", "-0.05"])),
                "small": rng.choice([-128, 127]),
                "weight": rng.choice([0.1, 2.5, None]),
                "new": rng.choice([True, False]),
                "v": rng.choice([1.5, float("inf"), None]),
            }
        )
    return rows


def serving(store, query, limits=LIMITS, **place):
    return LookupServer(Answers(lambda: mt.Lookup(store, query), limits), **place)


def ask(server, body, **options):
    return httpx.post(f"{server.url}/lookup", timeout=30, **options, **_content(body))


def _content(body):
    return {"content": body} if isinstance(body, bytes) else {"content": json.dumps(body).encode()}


def refused(answer, status):
    """Return the sentence that an error has."""
    assert answer.status_code == status, answer.text
    assert [*answer.json()] == ["error"]
    return answer.json()["error"]


def as_json(table):
    """Return a table's rows as JSON has them, by Python's own ways."""
    return json.loads(json.dumps(table.to_pylist(), default=str).replace("Infinity", '"Infinity"'))


def test_answers_are_those_of_the_lookup(store):
    query, rng = numbers_query(), random.Random(1)
    rows = rows_of(1, 400, 20_000, 40)
    lookup = published(store, query, rows)
    latest = max(row["t"] for row in rows)
    with serving(store, query) as server:
        for _ in range(20):
            keys = [rng.randrange(5) for _ in range(rng.randrange(6))]
            at = latest + rng.randrange(1, 4000)
            answer = ask(server, {"keys": [{"key": key} for key in keys], "at": at})
            assert answer.status_code == 200, answer.text
            wanted = lookup.get(pa.table({"key": pa.array(keys, pa.int64())}), at=at)
            assert answer.json() == {"at": at, "rows": as_json(wanted)}
            assert list(answer.json()["rows"][0] if keys else []) == (
                wanted.column_names if keys else []
            )


def test_many_at_once_get_what_they_asked_for(store):
    query = numbers_query()
    rows = rows_of(2, 300, 20_000, 40)
    lookup = published(store, query, rows)
    latest = max(row["t"] for row in rows)

    def same(i):
        at, keys = latest + 1 + i * 37, [i % 3, (i + 1) % 4]
        answer = ask(server, {"keys": [{"key": key} for key in keys], "at": at})
        return answer.json()["rows"] == as_json(lookup.get({"key": keys}, at=at))

    with serving(store, query) as server, ThreadPoolExecutor(8) as threads:
        assert all(threads.map(same, range(60)))


def test_keys_of_every_type_and_numbers_that_json_lacks(store):
    query = mt.Query(
        time="t", keys=CARD_KEYS, windows=HOUR, watermark="1 hour",
        aggregates={"n": mt.Count(), "most": mt.Max("v"), "last": mt.Last("t")},
    )  # fmt: skip
    rows = card_rows()
    lookup = published(store, query, rows, CARDS)
    at = "2026-03-08T21:00:00"
    keys = [{name: row[name] for name in CARD_KEYS} for row in rows]
    wanted = lookup.get(
        pa.Table.from_pylist(keys, CARDS.empty_table().select(CARD_KEYS).schema), at=at
    )
    assert min(wanted["hour_n"].to_pylist()) >= 1
    with serving(store, query, Limits()) as server:
        for moment in (at, "2026-03-08 21:00:00Z", "2026-03-08T22:00:00.000+01:00"):
            answer = ask(server, {"keys": json.loads(json.dumps(keys, default=str)), "at": moment})
            assert answer.status_code == 200, answer.text
            found = answer.json()["rows"]
            assert [row["hour_n"] for row in found] == wanted["hour_n"].to_pylist()
            most = [{"Infinity": float("inf")}.get(r["hour_most"], r["hour_most"]) for r in found]
            assert most == wanted["hour_most"].to_pylist()
            last = [dt.datetime.fromisoformat(row["hour_last"]) for row in found]
            assert last == wanted["hour_last"].to_pylist()
            again = ask(server, {"keys": [{n: r[n] for n in CARD_KEYS} for r in found], "at": at})
            assert again.json()["rows"] == found


def test_a_query_without_keys(store):
    query = mt.Query(
        time="t", windows={"w": mt.Tumbling(10)}, aggregates={"n": mt.Count()}, watermark=5
    )
    published(store, query, [{"t": 3, "key": 1, "n": 1, "v": 1.0}])
    with serving(store, query) as server:
        assert ask(server, {"at": 7}).json() == {"at": 7, "rows": [{"w_n": 1}]}
        assert "'keys' is not known" in refused(ask(server, {"at": 7, "keys": []}), 422)


NESTED = [
    (pa.array([[1.5, float("nan")], None, []]), [[1.5, "NaN"], None, []]),
    (
        pa.array([{"a": 1, "t": dt.datetime(2026, 1, 2)}, None]),
        [{"a": 1, "t": "2026-01-02T00:00:00.000000"}, None],
    ),
    (
        pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        [[{"key": "a", "value": 1}], None, []],
    ),
    (pa.array([[[1], None], [[2, 3]]]), [[[1], None], [[2, 3]]]),
    (pa.array([b"\xff", None]), ["/w==", None]),
    (pa.array([5, None], pa.duration("ms")), [5, None]),
    (pa.array([1, None], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001", None]),
    (pa.array([0], pa.timestamp("s", "Europe/Berlin")), ["1970-01-01T00:00:00Z"]),
    (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
    (pa.array([2**63 - 1, None]), [2**63 - 1, None]),
    (pa.array([decimal.Decimal("1.20")]), ["1.20"]),
    (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
    (pa.nulls(2), [None, None]),
]


@pytest.mark.parametrize(
    ("column", "said"), NESTED, ids=lambda given: str(getattr(given, "type", ""))
)
def test_results_of_every_type_are_written_as_they_are(column, said):
    assert written(column) == said
    twice = pa.concat_arrays([column, column])
    assert written(twice.slice(len(column))) == said
    json.dumps(said, allow_nan=False)


WRONG = [
    (b"", 400, "the body is not JSON"),
    (b"{", 400, "the body is not JSON"),
    (b"\xff", 400, "the body is not JSON"),
    (b'{"at": NaN}', 400, "NaN is no number of JSON"),
    (b'{"at": 1, "at": 2}', 400, "'at' is there twice"),
    (b"[" * 3900, 400, "the body is not JSON"),
    (b'{"at": ' + b"9" * 3900 + b', "keys": []}', 422, "beyond 2\\*\\*61"),
    ([], 422, "the body is an object with 'at', 'keys', got \\[\\]"),
    ({"at": 1}, 422, "the body: 'keys' is missing"),
    ({"keys": []}, 422, "the body: 'at' is missing"),
    ({"keys": [], "at": None}, 422, "'at': this is a whole number .*, got null"),
    ({"keys": [], "at": 1.0}, 422, "'at': this is a whole number"),
    ({"keys": [], "at": True}, 422, "'at': this is a whole number"),
    ({"keys": [], "at": 10**30}, 422, "beyond 2\\*\\*61"),
    ({"keys": {}, "at": 1}, 422, "'keys' is a list of objects, got {}"),
    ({"keys": [1], "at": 1}, 422, "keys\\[0\\] is an object with 'key', got 1"),
    ({"keys": [{"key": 1}, {"kee": 1}], "at": 1}, 422, "keys\\[1\\]: 'kee' is not known"),
    ({"keys": [{}], "at": 1}, 422, "keys\\[0\\]: 'key' is missing"),
    ({"keys": [{"key": "1"}], "at": 1}, 422, "keys\\[0\\], 'key': .* \\(Arrow's int64\\), got '1'"),
    ({"keys": [{"key": True}], "at": 1}, 422, "keys\\[0\\], 'key': this is a whole number"),
    ({"keys": [{"key": 1}, {"key": 2**63}], "at": 1}, 422, "keys\\[1\\], 'key': .*, got 922"),
    ({"keys": [{"key": "\ud800" * 200}], "at": 1}, 422, "got '.*\\.\\.\\."),
    ({"keys": [{"key": 1}], "\ud800": 1}, 422, "is not known"),
    ({"keys": [{"key": 1}] * 21, "at": 1}, 422, "may ask for 20 keys, got 21"),
    ({"keys": [{"key": 1}], "at": -(10**12)}, 422, "have expired: ask for a later time"),
    (b" " * 4001, 413, "a body may have 4000 bytes"),
    (b" " * 4000, 400, "the body is not JSON"),
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A server of lookups with a Redis that no other test empties."""
    with RedisServer(tmp_path_factory.mktemp("alone")) as redis, mt.RedisStore(redis.url) as store:
        query = numbers_query()
        published(store, query, rows_of(1, 400, 20_000, 40))
        with serving(store, query) as server:
            yield server


@pytest.mark.parametrize(("body", "status", "says"), WRONG)
def test_what_cannot_be_answered_is_a_sentence(alone, body, status, says):
    answer = ask(alone, body)
    assert refused(answer, status)
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(answer.json()["error"])


def test_keys_that_a_type_cannot_hold_are_refused(store):
    query = mt.Query(
        time="t", keys=CARD_KEYS, windows=HOUR, watermark="1 hour", aggregates={"n": mt.Count()}
    )
    rows = card_rows()
    published(store, query, rows, CARDS)
    right = json.loads(json.dumps({n: rows[0][n] for n in CARD_KEYS}, default=str))
    at = "2026-03-08T21:00:00"
    wrong = [
        *[("card", value) for value in (1, ["a"], {}, "\ud800")],
        *[("day", value) for value in ("yesterday", 20_000, "2026-02-30", "")],
        *[("seen", value) for value in ("2026-03-08", "2026-03-08T09:00:00", 5, "9:00")],
        *[("price", value) for value in (12.5, 12, "12.505", "1e9", "NaN", "")],
        *[("small", value) for value in (128, -129, 1.0, "1")],
        *[("weight", value) for value in (2**24 + 1, 1e39, 10**400, "0.1", True)],
        *[("new", value) for value in (1, "true", 0)],
    ]
    with serving(store, query) as server:
        assert ask(server, {"keys": [right], "at": at}).status_code == 200
        for name, value in wrong:
            answer = ask(server, {"keys": [right, right | {name: value}], "at": at})
            sentence = refused(answer, 422)
            assert sentence.startswith(f"keys[1], {name!r}: this is "), (name, value)
        for time in (5, "now", "", "2026-03-08T21:00:00.0000001", "2026-13-01", "-1", [at]):
            assert refused(ask(server, {"keys": [right], "at": time}), 422)[:9] == "'at': thi"


# What the server says of itself


def test_random_requests_from_its_own_description(alone):
    rng = random.Random(11)
    described = httpx.get(f"{alone.url}/openapi.json").json()
    lookup = described["paths"]["/lookup"]["post"]
    schema = lookup["requestBody"]["content"]["application/json"]["schema"]
    statuses = set()
    for _ in range(150):
        value = random_value(rng, schema)
        jsonschema.validate(value, schema, jsonschema.Draft202012Validator)
        body = json.dumps(value).encode()
        kind = rng.randrange(4)
        if kind == 1:
            value = spoilt(rng, value)
            body = json.dumps(value).encode()
        elif kind == 2:
            place = rng.randrange(len(body))
            body = body[:place] + rng.randbytes(rng.randrange(3)) + body[place + rng.randrange(3) :]
        answer = ask(alone, body)
        statuses.add(answer.status_code)
        status = str(answer.status_code)
        assert status in ({"200", "422"} if kind in (0, 3) else {"200", "400", "413", "422"}), (
            body,
            answer.text,
        )
        content = lookup["responses"][status]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), content, jsonschema.Draft202012Validator)
        if kind in (0, 3) and status == "422":
            assert "ask for" in answer.json()["error"] or "2**61" in answer.json()["error"]
    assert statuses >= {200, 400, 422}


def random_value(rng, schema):
    """Return a value of a schema."""
    kind = schema["type"]
    kind = rng.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        return {name: random_value(rng, part) for name, part in schema["properties"].items()}
    if kind == "array":
        many = rng.randrange(min(schema["maxItems"], 6) + 1)
        return [random_value(rng, schema["items"]) for _ in range(many)]
    low, high = schema.get("minimum", -(10**25)), schema.get("maximum", 10**25)
    whole = [low, high, rng.randrange(low, high), rng.randrange(3), 19_990 + rng.randrange(5000)]
    return {"integer": rng.choice([n for n in whole if low <= n <= high]), "null": None}[kind]


def spoilt(rng, value):
    """Return a value with something else somewhere in it."""
    other = rng.choice([None, 1.5, "x", "\ud800", [], {}, True, 10**40, [[]], {"key": {}}, -1])
    if not value or not isinstance(value, dict | list) or rng.random() < 0.2:
        return other
    if isinstance(value, list):
        place = rng.randrange(len(value))
        return [*value[:place], spoilt(rng, value[place]), *value[place + 1 :]]
    name = rng.choice(list(value))
    if rng.random() < 0.2:
        return {n: v for n, v in value.items() if n != name} | {rng.choice(["", "k", name]): other}
    return value | {name: spoilt(rng, value[name])}


def test_its_description_names_keys_times_and_limits(alone):
    described = httpx.get(f"{alone.url}/openapi.json").json()
    assert described["openapi"] == "3.1.0"
    assert set(described["paths"]) == {"/lookup", "/health", "/metrics", "/openapi.json"}
    lookup = described["paths"]["/lookup"]["post"]
    asked = lookup["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert asked["at"] == {"type": "integer"}
    assert asked["keys"]["maxItems"] == 20
    key = {"type": ["integer", "null"], "minimum": -(2**63), "maximum": 2**63 - 1}
    assert asked["keys"]["items"]["properties"] == {"key": key}
    assert set(lookup["responses"]) == {"200", "400", "401", "403", "408", "413", "422", "503"}


def test_health_and_metrics(store):
    query = numbers_query()
    published(store, query, rows_of(1, 50, 2000, 40))
    with serving(store, query) as server:
        health = httpx.get(f"{server.url}/health")
        watermark = mt.Lookup(store, query).watermark()
        assert health.json() == {"status": "ok", "watermark": watermark}
        ask(server, {"keys": [{"key": 1}, {"key": 2}], "at": 5000})
        ask(server, b"{")
        httpx.get(f'{server.url}/none/"')
        answer = httpx.get(f"{server.url}/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["muntin_requests_total", "/lookup", "200"] == 1
    assert samples["muntin_requests_total", "/lookup", "400"] == 1
    assert samples["muntin_requests_total", "/health", "200"] == 1
    assert samples["muntin_requests_total", "other", "404"] == 1
    assert samples["muntin_looked_up_keys_total",] == 2
    assert samples["muntin_request_seconds_count",] == 4
    assert samples["muntin_request_seconds_bucket", "+Inf"] == 4
    assert samples["muntin_request_seconds_sum",] > 0


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("GET", "/lookup", 405, "GET is not for this path: it takes POST"),
        ("DELETE", "/health", 405, "it takes"),
        ("GET", "/", 404, "there is /lookup, /health"),
        ("POST", "/lookup/", 404, "there is /lookup"),
        ("GET", "/../etc/passwd", 404, "there is /lookup"),
    ],
)
def test_other_paths_and_methods(alone, method, path, status, says):
    assert says in refused(httpx.request(method, alone.url + path), status)


# Who may ask


def test_those_who_ask_by_another_name_are_refused(alone):
    answer = httpx.get(f"{alone.url}/health", headers={"Host": "evil.example"})
    assert "ask for this server at 127.0.0.1 or localhost" in refused(answer, 403)


@pytest.mark.parametrize("path", ["/lookup", "/health", "/metrics", "/openapi.json", "/none"])
def test_a_token_is_needed_everywhere_and_by_any_name(store, path):
    query = numbers_query()
    published(store, query, rows_of(1, 50, 2000, 40))
    with serving(store, query, host="0.0.0.0", token=TOKEN) as server:
        url = f"http://127.0.0.1:{server.url.rsplit(':')[-1]}{path}"
        for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Basic !"}):
            answer = httpx.get(url, headers=headers)
            assert "send the token" in refused(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Basic")
        for options in (
            {"auth": ("any", TOKEN)},
            {"headers": {"Authorization": f"Bearer {TOKEN}", "Host": "elsewhere"}},
        ):
            assert httpx.get(url, **options).status_code in (200, 404, 405)


def test_other_machines_need_a_token(store):
    query = numbers_query()
    published(store, query, rows_of(1, 50, 2000, 40))
    with pytest.raises(ValueError, match="other machines may reach the server on 0.0.0.0"):
        serving(store, query, host="0.0.0.0")
    with serving(store, query) as server, pytest.raises(OSError, match="cannot be served"):
        serving(store, query, port=int(server.url.rsplit(":")[-1]))


def test_a_body_that_ends_early_is_no_request(alone):
    host, port = alone.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"POST /lookup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
    assert httpx.get(f"{alone.url}/health").status_code == 200


def test_a_large_body_in_pieces_is_refused_before_it_ends(alone):
    def endless():
        while True:
            yield b" " * 1000

    try:
        answer = httpx.post(f"{alone.url}/lookup", content=endless())
    except (httpx.WriteError, httpx.ReadError):
        return  # the server has closed the connection while we still sent
    assert "4000 bytes" in refused(answer, 413)


# A store that goes away


def test_a_store_that_dies_and_comes_back(tmp_path):
    query = numbers_query()
    body = {"keys": [{"key": 1}], "at": 5000}
    with RedisServer(tmp_path) as redis, mt.RedisStore(redis.url) as store:
        rows = rows_of(1, 50, 2000, 40)
        published(store, query, rows)
        with serving(store, query) as server:
            before = ask(server, body)
            assert before.status_code == 200
            redis.kill()
            assert "publication 'query' in Redis" in refused(ask(server, body), 503)
            assert "publication 'query' in Redis" in refused(ask(server, body), 503)
            for path in ("/health", "/openapi.json"):
                refused(httpx.get(server.url + path), 503)
            redis.start()
            assert "nothing is published" in refused(ask(server, body), 503)
            published(store, query, rows)
            assert ask(server, body).json() == before.json()
            store._client.flushall()
            assert refused(httpx.get(f"{server.url}/health"), 503)
            published(store, numbers_query(aggregates={"n": mt.Count()}), rows)
            assert "another query" in refused(ask(server, body), 503)


def test_a_damaged_block_is_no_answer(store):
    query = numbers_query()
    published(store, query, rows_of(1, 50, 2000, 40))
    with serving(store, query) as server:
        for key in store._client.keys("*key:*"):
            for field in store._client.hkeys(key):
                if b":" in field:
                    store._client.hset(key, field, b"damage")
        answer = ask(server, {"keys": [{"key": 1}], "at": 2001})
        assert "is damaged" in refused(answer, 503)


def test_a_store_that_hangs_holds_up_nobody_else(tmp_path):
    query = numbers_query()
    with RedisServer(tmp_path) as redis, mt.RedisStore(redis.url, timeout=0.5) as store:
        published(store, query, rows_of(1, 50, 2000, 40))
        with serving(store, query) as server:
            redis.pause()
            statuses = []
            asking = threading.Thread(
                target=lambda: statuses.append(ask(server, {"keys": [], "at": 5000}).status_code)
            )
            asking.start()
            assert httpx.get(f"{server.url}/metrics").status_code == 200
            asking.join()
            assert statuses == [503]
            redis.resume()
            assert httpx.get(f"{server.url}/health").status_code == 200


# The job file and the command

JOB = """
[query]
time = "t"
keys = ["key"]
watermark = "40us"

[windows]
w = 'Sliding("400us", "10us")'

[aggregates]
n = 'Count()'

[serve]
store = "URL"
"""


def write(tmp_path, text):
    file = tmp_path / "job.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('store = "URL"', "", r"\[serve\]: store is missing: write it like store = \"redis://"),
        ("[serve]", "[spark]", r"the table \[serve\] is missing"),
        ("URL", "http://me:secret@host", r"\[serve\]: this is not the URL of a Redis server"),
        ('store = "URL"', 'store = "redis://h"\nkeyz = 1', r"\[serve\] keyz: .* did you mean keys"),
        ('store = "URL"', 'store = "redis://h"\nkeys = 0', r"\[serve\] keys: .* above zero, got 0"),
        ('store = "URL"', 'store = "redis://h"\nbody = true', r"\[serve\] body: .*, got True"),
        ('store = "URL"', "store = 5", r"\[serve\] store: this must be a text"),
        ('"URL"', '"redis://h"\nname = 5', r"\[serve\] name: this must be a text"),
        ('Sliding("400us", "10us")', 'Session("5us")', "cannot be published|says nothing"),
    ],
)
def test_a_wrong_job_names_its_place(tmp_path, old, new, says):
    assert old in JOB
    text = JOB.replace(old, new).replace("URL", "redis://h")
    with pytest.raises(JobError, match=says) as raised:
        read_serving(write(tmp_path, text))
    assert "secret" not in str(raised.value)


def test_the_table_in_the_documents_and_the_one_in_the_help_are_read(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "command.md").read_text()
    (documented,) = re.findall(r"```toml\n(\[serve\]\n.*?)```", page, re.DOTALL)
    helped = textwrap.dedent(SERVE.split(":\n", 1)[1])
    for table in (documented, helped):
        read = read_serving(write(tmp_path, JOB[: JOB.index("[serve]")] + table))
        assert (read.name, Limits(**read.limits)) == ("query", Limits())


def test_the_command_serves_until_it_is_stopped(store, redis, tmp_path):
    file = write(tmp_path, JOB.replace("URL", redis.url))
    query = read_serving(file).query
    published(store, query, [{"t": 5, "key": 1, "n": 1, "v": None}])
    (tmp_path / "token").write_text(TOKEN)
    code = "import sys; from muntin.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "serve", str(file), "--token-file", f"{tmp_path}/token"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        said = process.stdout.readline()
        assert said.startswith("lookups: http://127.0.0.1:")
        body = json.dumps({"keys": [{"key": 1}], "at": 9})
        answer = httpx.post(said.split()[1], content=body, auth=("any", TOKEN), timeout=60)
        assert answer.json() == {"at": 9, "rows": [{"key": 1, "w_n": 1}]}
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--host", "0.0.0.0"], 2, "--token-file is missing: other machines may reach the server"),
        (["--token-file", "none"], 2, "--token-file none: "),
        ([], 1, "nothing is published under this name yet"),
    ],
)
def test_the_command_says_why_it_does_not_start(redis, tmp_path, capsys, arguments, code, says):
    file = write(tmp_path, JOB.replace("URL", redis.url))
    assert main(["serve", str(file), *arguments]) == code
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("module", ["starlette", "uvicorn"])
def test_a_package_that_is_missing_is_named(monkeypatch, tmp_path, capsys, module):
    for name in [*sys.modules]:
        if name.split(".")[0] == module or name == "muntin.endpoint.server":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    file = write(tmp_path, JOB.replace("URL", "redis://h"))
    assert main(["serve", str(file)]) == 1
    assert f'needs {module}: pip install "muntin[serve]"' in capsys.readouterr().err.replace(
        f"{module}.applications", module
    )


def test_a_key_that_json_cannot_say_is_told_at_the_start(store):
    schema = SCHEMA.set(1, pa.field("key", pa.binary()))
    query = numbers_query(aggregates={"n": mt.Count()})
    published(store, query, [{"t": 5, "key": b"a", "n": 1, "v": None}], schema)
    with pytest.raises(
        mt.SnapshotError, match="was published as binary, which cannot be asked for"
    ):
        serving(store, query)


def test_a_condition_in_sql_is_refused_and_a_column_is_served(store):
    rows = [{"t": 5 + i, "key": 1, "n": 1, "v": 1.5, "large": bool(i)} for i in range(3)]
    query = numbers_query(aggregates={"n": mt.Count(where="large")})
    published(store, query, rows, SCHEMA.append(pa.field("large", pa.bool_())))
    with serving(store, query) as server:
        answer = ask(server, {"keys": [{"key": 1}], "at": 50})
        assert answer.json()["rows"][0]["long_n"] == 2

    def opened():
        raise KeyError("no column 'v > 1' in the batch")

    with pytest.raises(
        mt.SnapshotError, match="no column 'v > 1' .* as a boolean column, and name"
    ):
        Answers(opened, LIMITS)


def test_a_lookup_tells_its_types_and_watermark(store):
    query = numbers_query()
    lookup = published(store, query, [{"t": 500, "key": 1, "n": 1, "v": None}])
    assert lookup.key_types == {"key": pa.int64()}
    assert lookup.time_type == pa.int64()
    assert lookup.watermark() == 460
    store._client.flushall()
    with pytest.raises(StoreError, match="it is another one by now"):
        lookup.watermark()
