"""A store on the network: Redis, by redis-py.

A put is one Lua script, which the server runs whole or not at all. The script also sees to it that there
is one writer. A lease, renewed while the process lives, keeps others from claiming the window. A stamp
changes with every put: a writer whose lease ran out and was taken, or whose server lost data, finds
another stamp than its own last one and is refused. A put that was done but not answered finds its own
stamp, so that it can be repeated.
What survives the server is the server's to say: all, with appendonly yes and appendfsync always. Its
maxmemory-policy must be noeviction. Messages never carry the URL, nor the errors of redis-py as they
are: both may tell the password.
"""

import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Event, Thread
from typing import Any, NamedTuple
from urllib.parse import quote

from muntin.stores.store import INSTALL, Key, Result, Store, StoreError, WindowTakenError

PUT = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return {'taken', holder} end
local stamp = redis.call('GET', KEYS[2]) or ''
if stamp ~= ARGV[2] and stamp ~= ARGV[3] then return {'moved', stamp} end
for i = 3, #KEYS do redis.call('SET', KEYS[i], ARGV[i + 2]) end
redis.call('SET', KEYS[2], ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[4])
return {'done', ''}
"""
RENEW = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
"""
RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""
MOVED = (
    "it is not as this process left it: another process has written it since, or the server lost what "
    "was written; open it again"
)
AT_ONCE = 1000  # keys per UNLINK


class Address(NamedTuple):
    """Where a server is; never shown, for the URL may hold a password."""

    url: str
    timeout: float

    def __repr__(self) -> str:
        return "<the address of a Redis server>"

    def client(self) -> tuple[Any, tuple[type[BaseException], ...]]:
        """Return a client, and what it raises."""
        try:
            import redis
        except ImportError as error:
            raise ImportError(f"Redis needs redis: {INSTALL}") from error
        return _client(redis, self.url, self.timeout), (redis.RedisError, OSError)


class RedisStore(Store):
    """Keep windows on a Redis server, where any process can go on with them.

    The URL is `redis://[user:password@]host[:port][/database]`, with TLS `rediss://`. A call takes at
    most `timeout` seconds, twice if it has to connect again. A process that ends without closing its
    windows holds them for `lease` more seconds.
    """

    def __init__(self, url: str, *, timeout: float = 5.0, lease: float = 10.0) -> None:
        super().__init__()
        self.address = Address(url, timeout)
        self._client, self._failures = self.address.client()
        self._put, self._renew, self._release = (
            self._client.register_script(script) for script in (PUT, RENEW, RELEASE)
        )
        self._lease_ms = round(lease * 1000)
        self._token = f"{socket.gethostname()}, process {os.getpid()}, {secrets.token_hex(8)}"
        self._claims = 0
        self._stamps: dict[str, tuple[str, str, int]] = {}  # the last, how others begin, how many
        self._stop = Event()
        self._closed = False

    def claim(self, window: str) -> None:
        super().claim(window)
        lease, stamp = _place(window, "lease"), _place(window, "stamp")
        try:
            holder, left_ms, found = self._call(window, lambda: self._claim(lease, stamp))
            if holder != self._token:
                raise WindowTakenError(self.tell(window, _taken(holder, left_ms)))
        except StoreError:
            super().release(window)
            raise
        self._claims += 1
        self._stamps[window] = found, f"{self._token}, {self._claims}", 0
        if len(self._stamps) == 1:
            self._stop = Event()
            Thread(target=self._keep, args=(self._stop,), daemon=True, name="muntin-lease").start()

    def _claim(self, lease: str, stamp: str) -> tuple[str, int, str]:
        steps = self._client.pipeline(transaction=True)
        steps.set(lease, self._token, nx=True, px=self._lease_ms)
        steps.get(lease)
        steps.pttl(lease)
        steps.get(stamp)
        _, holder, left_ms, found = steps.execute()
        return holder.decode(), left_ms, (found or b"").decode()

    def _keep(self, stop: Event) -> None:
        """Renew the leases until there are none."""
        while not stop.wait(self._lease_ms / 3000):
            for window in list(self._stamps):
                try:
                    self._renew([_place(window, "lease")], [self._token, self._lease_ms])
                except self._failures:
                    break  # the next put finds out what became of the lease

    def release(self, window: str) -> None:
        super().release(window)
        if self._stamps.pop(window, None) is not None:
            if not self._stamps:
                self._stop.set()
            self._call(window, lambda: self._release([_place(window, "lease")], [self._token]))

    def get(self, window: str, keys: Sequence[Key]) -> list[bytes | None]:
        names = [_place(window, *key) for key in keys]
        found: list[bytes | None] = self._call(window, lambda: self._client.mget(names))
        return found

    def put(self, window: str, items: Mapping[Key, bytes]) -> None:
        if window not in self._stamps:
            raise StoreError(self.tell(window, "it was closed"))
        stamp, beginning, puts = self._stamps[window]
        mine = f"{beginning}, {puts + 1}"
        keys = [_place(window, "lease"), _place(window, "stamp")]
        keys += [_place(window, *key) for key in items]
        arguments = [self._token, stamp, mine, self._lease_ms, *items.values()]
        answer, detail = self._call(window, lambda: self._put(keys, arguments))
        if answer == b"taken":
            raise WindowTakenError(
                self.tell(window, f"it was taken over by {_who(detail.decode())}")
            )
        if answer == b"moved":
            raise StoreError(self.tell(window, MOVED))
        self._stamps[window] = mine, beginning, puts + 1

    def delete_range(self, window: str, level: int, first: int, end: int) -> None:
        for start in range(first, end, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, end))
            names = [_place(window, level, number) for number in numbers]
            self._call(window, partial(self._client.unlink, *names))

    def close(self) -> None:
        super().close()
        for window in list(self._stamps):
            with suppress(StoreError):  # the lease runs out by itself
                self.release(window)
        self._closed = True
        self._client.close()

    def _call(self, window: str, call: Callable[[], Result]) -> Result:
        if self._closed:
            raise StoreError(self.tell(window, "it was closed"))
        try:
            return call()
        except self._failures as error:
            told = f"{type(error).__name__}: {without_password(self._client, error)}"
        raise StoreError(self.tell(window, told))  # not from error, which may tell the password

    def __repr__(self) -> str:
        where = self._client.connection_pool.connection_kwargs
        place = where.get("path") or f"{where.get('host', 'localhost')}:{where.get('port', 6379)}"
        return f"<RedisStore {place}/{where.get('db', 0)}>"


def without_password(client: Any, error: BaseException) -> str:
    """Return the message of an error of a client."""
    password = client.connection_pool.connection_kwargs.get("password")
    return str(error).replace(password, "***") if password else str(error)


def _client(redis: Any, url: str, timeout: float) -> Any:
    try:
        client = redis.Redis.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 1, (redis.ConnectionError,)),
            retry_on_error=[redis.ConnectionError],
        )
        client.connection_pool.connection_kwargs["decode_responses"] = False
        return client
    except (TypeError, ValueError):
        pass
    raise ValueError(
        "this is not the URL of a Redis server (it is not shown, for it may hold a password); it is "
        "redis://[user:password@]host[:port][/database], or rediss:// with TLS; in a password, write "
        "what is not a letter or digit as in urllib.parse.quote(password, safe='')"
    )


def _taken(holder: str, left_ms: int) -> str:
    return (
        f"it is being written by {_who(holder)}; close it there or, if that process is gone, wait "
        f"{max(left_ms, 0) / 1000:.1f} s for its lease to end"
    )


def _who(token: str) -> str:
    return token.rpartition(", ")[0]


def _place(window: str, *parts: Any) -> str:
    """Return a key; the braces keep a window's keys together on a cluster."""
    return ":".join(["muntin", f"{{{quote(window, safe='')}}}", *map(str, parts)])
