"""Stores that are down, slow, full or altered: a clear error, nothing changed, the next call works."""

import pickle
import random
import ssl
import subprocess
import sys
import textwrap
import threading
import traceback
from contextlib import contextmanager
from socket import create_connection, socket

import pytest
import trustme

import muntin as mt
from muntin.aggregates import seal
from muntin.stores import MemoryStore, RedisStore, RocksStore, StoreError, stored
from muntin.stores.rocks import _name
from muntin.stores.store import RECORD
from tests.oracle import Oracle
from tests.patience import HUNG_S
from tests.redis_server import RedisServer, free_port
from tests.test_stores import settled


class Failing(MemoryStore):
    """Raises, or gives wrong bytes, when it is told to."""

    def __init__(self):
        super().__init__()
        self.fails = lambda: False

    def get(self, window, keys):
        if self.fails():
            raise StoreError(self.tell(window, "down"))
        return super().get(window, keys)

    def put(self, window, items):
        if self.fails():
            raise StoreError(self.tell(window, "down"))
        super().put(window, items)

    def delete_range(self, window, level, first, end):
        if self.fails():
            raise StoreError(self.tell(window, "down"))
        super().delete_range(window, level, first, end)


@pytest.mark.parametrize("seed", range(40))
def test_a_call_that_fails_changes_nothing(seed):
    rng = random.Random(seed)
    store = Failing()
    window = stored(mt.Collect(), store, "w", buffer=rng.choice([2, 4, 8]))
    oracle = Oracle(mt.Collect())
    failures, told = 0, set()
    for position in range(300):
        store.fails = lambda: rng.random() < 0.5
        n = rng.choice([0, len(oracle) // 4, len(oracle) // 2, len(oracle)])
        action, arguments, after = rng.choice(
            [
                ("insert", [position], [*oracle.values, position]),
                ("insert", [position], [*oracle.values, position]),
                ("bulk_evict", [n], oracle.values[n:]),
                ("evict", [], oracle.values[1:]),
                ("flush", [], oracle.values),
            ]
        )
        if action == "evict" and not len(oracle):
            continue
        while True:
            try:
                getattr(window, action)(*arguments)
                break
            except StoreError as error:
                told.add(str(error))
                failures += 1
                assert (len(window), window.query()) == (len(oracle), oracle.query())
        oracle.values = after
        store.fails = lambda: False
        settled(store)
        assert window.query() == oracle.query()
        window.check(oracle.values)
    assert failures > 20
    assert told == {"<MemoryStore>, window 'w': down"}
    store.fails = lambda: False
    window.insert(300)
    oracle.insert(300)
    store.fails = lambda: True
    with pytest.raises(StoreError, match="down"):
        window.close()
    store.fails = lambda: False
    window.close()
    with stored(mt.Collect(), store, "w") as window:
        window.check(oracle.values)


def window_in(store, n=200):
    with stored(mt.Sum(), store, "w", buffer=4) as window:
        window.bulk_insert(range(n))
        window.bulk_evict(20)


@pytest.mark.parametrize("wrong", ["altered", "shortened", "missing", "swapped", "foreign"])
def test_altered_blocks_are_found_out(wrong):
    store = MemoryStore()
    window_in(store)
    items = store._windows["w"]
    blocks = [key for key in items if key != RECORD and key[0] == 0 and 12 < key[1] < 30]
    good = dict(items)
    for key in blocks:
        if wrong == "altered":
            items[key] = good[key][:-3] + bytes([good[key][-3] ^ 1]) + good[key][-2:]
        elif wrong == "shortened":
            items[key] = good[key][:-1]
        elif wrong == "missing":
            del items[key]
        elif wrong == "swapped":
            items[key] = good[(0, key[1] + 1)]
        else:
            items[key] = pickle.dumps(ValueError())
    window = stored(mt.Sum(), store, "w")
    with pytest.raises(StoreError, match=r"<MemoryStore>, window 'w': block \d+ of level 0"):
        window.bulk_evict(60)
    assert (len(window), window.query()) == (180, sum(range(20, 200)))
    items.update(good)
    window.bulk_evict(60)
    window.check(range(80, 200))


def test_an_altered_record_is_found_out():
    store = MemoryStore()
    window_in(store, n=30)
    items = store._windows["w"]
    good = items[RECORD]
    bad = [good[:i] + bytes([good[i] ^ 0x41]) + good[i + 1 :] for i in range(len(good))]
    bad += [good[:i] for i in range(0, len(good), 7)]
    bad += [b"", pickle.dumps(ValueError()), seal(["w", 255, 0, {}]), seal(5), items[(0, 5)]]
    bad += [seal(["other", 255, 0, {}]), seal(["w", 255, 0, {"format": 2}])]
    for message in bad:
        items[RECORD] = message
        with pytest.raises(
            StoreError, match="<MemoryStore>, window 'w': its record cannot be read"
        ):
            stored(mt.Sum(), store, "w")
    items[RECORD] = good
    stored(mt.Sum(), store, "w").check(range(20, 30))


def test_redis_goes_away_and_comes_back(tmp_path):
    values = list(range(2000))
    with RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        with RedisStore(server.url, timeout=HUNG_S) as store:
            window = stored(mt.Collect(), store, "w", buffer=16)
            for turn in range(6):
                window.bulk_insert(values[window.inserted : window.inserted + 200])
                server.kill()
                where = f"<RedisStore 127.0.0.1:{server.port}/0>, window 'w': ConnectionError"
                with pytest.raises(StoreError, match=where):
                    window.bulk_insert(values[window.inserted : window.inserted + 100])
                with pytest.raises(StoreError, match=where):
                    window.flush()
                assert window.query() == values[window.evicted : window.inserted]
                server.start()
                window.insert(values[window.inserted])
                window.bulk_evict(turn * 10)
                window.check(values[window.evicted : window.inserted])
            window.close()
        with RedisStore(server.url) as store, stored(mt.Collect(), store, "w") as window:
            window.check(values[window.evicted : window.inserted])


def test_redis_that_lost_its_data_is_noticed(tmp_path):
    with RedisServer(tmp_path) as server, RedisStore(server.url) as store:
        window = stored(mt.Sum(), store, "w", buffer=4)
        window.bulk_insert(range(100))
        server.kill()
        server.start()
        with pytest.raises(StoreError, match="the server lost what was written"):
            window.flush()
        with pytest.raises(StoreError, match="block .* of level .* is missing|cannot be read"):
            window.bulk_evict(50)
        assert window.query() == sum(range(100))


def test_redis_that_went_back_in_time_is_noticed(redis_server):
    names = [f"muntin:{{back}}:{name}" for name in ("stamp", "255:0")]
    with RedisStore(redis_server.url) as store:
        with stored(mt.Sum(), store, "back", buffer=4) as window:
            window.bulk_insert(range(3))
            window.flush()
            earlier = store._client.mget(names)
            window.bulk_insert(range(3))
        window = stored(mt.Sum(), store, "back", buffer=4)
        window.insert(1)
        store._client.mset(dict(zip(names, earlier, strict=True)))
        with pytest.raises(StoreError, match="the server lost what was written"):
            window.flush()


def wait_at_most(store, seconds):
    """Let a store wait so long for answers, on new connections."""
    pool = store._client.connection_pool
    pool.connection_kwargs.update(socket_timeout=seconds, socket_connect_timeout=seconds)
    pool.disconnect()
    pool.reset()


def test_redis_that_is_slow_or_full(tmp_path):
    with RedisServer(tmp_path) as server, RedisStore(server.url, timeout=HUNG_S) as store:
        window = stored(mt.Sum(), store, "w", buffer=4)
        window.bulk_insert(range(99))
        server.pause()
        wait_at_most(store, 0.3)
        with pytest.raises(StoreError, match=r"window 'w': TimeoutError"):
            window.flush()
        server.resume()
        wait_at_most(store, HUNG_S)
        window.flush()
        window.bulk_insert(range(99))
        store._client.config_set("maxmemory", 1)
        with pytest.raises(StoreError, match=r"window 'w': .*maxmemory"):
            window.flush()
        assert window.query() == 2 * sum(range(99))
        store._client.config_set("maxmemory", 0)
        window.close()
        with stored(mt.Sum(), store, "w") as window:
            assert window.query() == 2 * sum(range(99))


def test_a_disk_that_is_full(tmp_path):
    code = f"""
        import resource
        import muntin as mt
        from muntin.stores import stored
        store = mt.RocksStore({str(tmp_path / "rocks")!r})
        window = stored(mt.Sum(), store, "w", buffer=64)
        window.bulk_insert(range(1000))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        errors = []
        while len(errors) < 3:
            try:
                window.bulk_insert([1] * 1000)
            except mt.StoreError as error:
                errors.append(str(error))
        assert all("window 'w'" in error for error in errors), errors
        assert "cannot write: IO error" in errors[0], errors[0]
        assert window.query() == sum(range(1000)) + window.inserted - 1000
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        window.insert(1)
        window.bulk_evict(500)
        total = window.query()
        window.close()
        store.close()
        store = mt.RocksStore({str(tmp_path / "rocks")!r})
        window = stored(mt.Sum(), store, "w")
        assert window.query() == total
        window.check([*range(500, 1000), *[1] * (window.inserted - 1000)])
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_a_folder_that_is_no_store(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"<RocksStore .*/file>: cannot be opened"):
        RocksStore(tmp_path / "file")


def test_a_store_that_was_closed(tmp_path, redis_server):
    for opened in (lambda: RocksStore(tmp_path), lambda: RedisStore(redis_server.url)):
        store = opened()
        window = stored(mt.Sum(), store, "closed", buffer=4)
        window.bulk_insert(range(100))
        window.flush()
        window.insert(100)
        store.close()
        for call in (window.flush, lambda: window.bulk_evict(50), window.close):  # noqa: B023
            with pytest.raises(StoreError, match="it was closed"):
                call()
        with opened() as store, stored(mt.Sum(), store, "closed") as window:
            window.check(range(100))


class Bomb:
    """Would leave a trace if it were unpickled."""

    exploded = False

    def __reduce__(self):
        return (setattr, (Bomb, "exploded", True))


def test_nothing_is_unpickled(tmp_path):
    import rocksdict

    other = rocksdict.Rdict(str(tmp_path))  # not raw: rocksdict pickles objects
    other[_name("w", RECORD)[1:]] = Bomb()
    other.put(_name("w", RECORD), pickle.dumps(Bomb()))
    other.close()
    with RocksStore(tmp_path) as store:
        store.put("w", {RECORD: pickle.dumps(Bomb())})
        with pytest.raises(StoreError, match="not a muntin snapshot"):
            stored(mt.Sum(), store, "w")
    assert not Bomb.exploded


# Credentials and TLS

SECRET = "hunter2-and-more"


def all_of(error):
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__context__)


def test_credentials_are_never_told(tmp_path):
    with RedisServer(tmp_path, "--requirepass", SECRET) as server:
        place = f"127.0.0.1:{server.port}/0"
        with RedisStore(f"redis://:{SECRET}@{place}") as store:
            with stored(mt.Sum(), store, "w") as window:
                window.insert(1)
            assert SECRET not in repr(store)
            assert SECRET not in repr(window)
        for url in (f"redis://:{SECRET}x@{place}", f"redis://eve:{SECRET}@{place}"):
            with RedisStore(url) as store:
                with pytest.raises(StoreError, match="AuthenticationError") as refused:
                    stored(mt.Sum(), store, "w")
                assert SECRET not in all_of(refused.value)
    with RedisStore(f"redis://:{SECRET}@127.0.0.1:{free_port()}") as store:
        with pytest.raises(StoreError, match="ConnectionError") as refused:
            stored(mt.Sum(), store, "w")
        assert SECRET not in all_of(refused.value)


def test_a_server_that_repeats_what_it_was_told(tmp_path):
    options = ["--rename-command", "HELLO", "x", "--rename-command", "AUTH", "y"]
    with (
        RedisServer(tmp_path, *options) as server,
        RedisStore(f"redis://:{SECRET}@127.0.0.1:{server.port}") as store,
    ):
        with pytest.raises(StoreError, match="unknown command") as told:
            stored(mt.Sum(), store, "w")
        assert SECRET not in all_of(told.value)


@pytest.mark.parametrize(
    "url",
    [f"redis://:{SECRET}#x@h:1/0", f"http://:{SECRET}@h", f"redis://:{SECRET}@h:port", f"{SECRET}"],
)
def test_a_url_that_cannot_be_read_is_not_shown(url):
    with pytest.raises(ValueError, match="not the URL of a Redis server") as told:
        RedisStore(url)
    assert SECRET not in all_of(told.value)


@contextmanager
def tls_in_front_of(port, authority):
    """Take TLS connections and hand on what is in them to a server without."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    listener = socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def hand_on(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass  # the other side is gone
        target.close()

    def serve():
        while True:
            try:
                client = context.wrap_socket(listener.accept()[0], server_side=True)
            except ssl.SSLError:
                continue  # a client that does not trust us
            except OSError:
                return
            behind = create_connection(("127.0.0.1", port))
            for pair in ((client, behind), (behind, client)):
                threading.Thread(target=hand_on, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def test_tls_by_url(redis_server, tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with tls_in_front_of(redis_server.port, authority) as port:
        url = f"rediss://127.0.0.1:{port}/0"
        trusting = f"{url}?ssl_ca_certs={tmp_path / 'ca.pem'}"
        with RedisStore(trusting) as store, stored(mt.Sum(), store, "tls", buffer=4) as window:
            window.bulk_insert(range(100))
            assert window.query() == 4950
        with RedisStore(url) as store, pytest.raises(StoreError, match="certificate verify failed"):
            stored(mt.Sum(), store, "tls")
