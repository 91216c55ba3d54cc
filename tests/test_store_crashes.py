"""Crashes: whatever the moment, the window is then as it was after some operation, and none too old."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import muntin as mt
from muntin.stores import MemoryStore, RedisStore, StoreError, stored
from muntin.stores.store import WindowTakenError
from tests.oracle import Oracle
from tests.patience import HUNG_S
from tests.redis_server import RedisServer
from tests.store_writer import WINDOW, affine, heads, open_store, value

KILLS = 50
LATEST_S = 0.02


class Writers:
    """Starts writers, one after the other, and kills them."""

    def __init__(self, kind, place):
        command = [sys.executable, "-m", "tests.store_writer", kind, str(place)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def run_and_kill(self, buffer, flushes, seconds):
        """Kill a writer some time after so many flushes; return evicted and inserted at each of them."""
        self.process.stdin.write(f"{buffer}\n")
        said = self.process.stdout.readline
        writer = int(said().removeprefix("pid "))
        lines = [said() for _ in range(flushes)]
        time.sleep(seconds)  # the moment of the crash
        os.kill(writer, signal.SIGKILL)
        while not (line := said()).startswith("ended"):
            lines.append(line)
        assert line == f"ended {signal.SIGKILL}\n"
        return [tuple(map(int, line.split())) for line in lines]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.communicate()


def opened(store, deadline_s=HUNG_S):
    """Open the window as soon as the lease of the writer that was killed has run out."""
    until = time.monotonic() + deadline_s
    while True:
        try:
            return stored(affine(), store, WINDOW, buffer=8)
        except WindowTakenError:
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.mark.parametrize("kind", ["rocks", "redis"])
def test_killed_at_random(kind, tmp_path, redis_server):
    place = tmp_path if kind == "rocks" else redis_server.url
    rng = random.Random(11)
    told, reached = (0, 0), set()
    with Writers(kind, place) as writers:
        for _ in range(KILLS):
            buffer, flushes = rng.choice([4, 7, 16, 64]), rng.choice([0, 0, 1, 2, 5, 10])
            lines = writers.run_and_kill(buffer, flushes, rng.uniform(0, LATEST_S))
            told = max([told, *lines], key=lambda state: state[1])
            with open_store(kind, place) as store, opened(store) as window:
                least, most = heads(window.inserted)
                assert least <= window.evicted <= most
                assert window.inserted >= told[1]
                assert window.evicted >= told[0]
                values = [value(i) for i in range(window.evicted, window.inserted)]
                oracle = Oracle(affine())
                oracle.values = values
                assert window.query() == oracle.query()
                window.check(values)
                reached.add(window.inserted)
    assert len(reached) > KILLS / 2


def test_the_server_is_killed_at_random(tmp_path):
    rng = random.Random(5)
    with RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        with RedisStore(server.url, timeout=HUNG_S) as store:
            window = stored(affine(), store, "w", buffer=4)
            oracle = Oracle(affine())
            failures = 0
            for _ in range(10):
                killed = subprocess.Popen(
                    ["sh", "-c", f"sleep {rng.uniform(0, 0.05):.3f}; kill -9 {server.process.pid}"]
                )
                while True:
                    try:
                        if len(oracle) < 100:
                            window.insert(len(oracle))
                            oracle.insert(len(oracle))
                        else:
                            window.bulk_evict(90)
                            oracle.evict(90)
                    except StoreError:
                        break
                failures += 1
                killed.wait()
                server.kill()
                server.start()
                assert window.query() == oracle.query()
                window.check(oracle.values)
            window.close()
            assert failures == 10
        with RedisStore(server.url) as store, stored(affine(), store, "w") as window:
            window.check(oracle.values)


class Torn(MemoryStore):
    """A store that is not atomic: it ends after so many writes, in the middle of a put."""

    def __init__(self, lives):
        super().__init__()
        self.lives = lives

    def put(self, window, items):
        for key, item in items.items():
            self._live()
            super().put(window, {key: item})

    def delete_range(self, window, level, first, end):
        for number in range(first, end):
            self._live()
            super().delete_range(window, level, number, number + 1)

    def _live(self):
        if not self.lives:
            raise KeyboardInterrupt
        self.lives -= 1


def torn_after(lives):
    """Run a window until its store ends; return the store, and the window's states up to then."""
    store, states = Torn(lives), [(0, 0)]
    try:
        window = stored(mt.Collect(), store, "w", buffer=4)
        for i in range(150):
            window.insert(i)
            states.append((window.evicted, window.inserted))
            if i % 11 == 10:
                window.bulk_evict(len(window) // 2)
            elif i % 3 == 0:
                window.evict()
            store.soon(lambda: None).result()
            if window._cleaning is not None:
                window._cleaning.result()
            states.append((window.evicted, window.inserted))
    except KeyboardInterrupt:
        return store, states
    return None, states


def test_a_put_that_is_torn_anywhere_leaves_the_last_window():
    lives = 0
    while True:
        store, states = torn_after(lives)
        if store is None:
            break
        store.lives = 10**6
        store.release("w")
        with stored(mt.Collect(), store, "w", buffer=4) as window:
            assert (window.evicted, window.inserted) in states
            assert states[-1][1] - window.inserted <= 8
            window.check(range(window.evicted, window.inserted))
            window.bulk_insert(range(window.inserted, 200))
            window.bulk_evict(len(window) // 2)
            window.check(range(window.evicted, 200))
        lives += 1
    assert lives > 100
