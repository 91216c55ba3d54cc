"""Tiles of a published query in Redis: exactly once per micro-batch, by one writer.

    muntin:{name}:head       token, what the query is, writer, last micro-batch, watermark
    muntin:{name}:key:...    of one key: a block per level and stretch of time, and the last stamp
    muntin:{name}:due        the keys, by the time at which nothing of them is needed any more

Each write of a key is part of a script, which the server runs whole or not at all, and carries the
number of its micro-batch, which stays as the key's stamp. A key is written if its stamp is the one that
was read; if it is of this micro-batch already, that was done before. A writer that finds another token,
writer or stamp is refused: another one has taken its place, or the server lost data. When all keys are
written, the micro-batch is ended.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from muntin.stores.redis import Address, without_password
from muntin.stores.store import Result, StoreError, WindowTakenError

BEGIN = """
if redis.call('EXISTS', KEYS[1]) == 0 then
  if ARGV[4] ~= '0' then return {'lost', ''} end
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'about', ARGV[2], 'writer', ARGV[3],
             'batch', '-1', 'watermark', '')
end
if redis.call('HGET', KEYS[1], 'writer') ~= ARGV[3] then
  return {'taken', redis.call('HGET', KEYS[1], 'writer')}
end
return {'ours', redis.call('HGET', KEYS[1], 'batch')}
"""
WRITE = """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 'lost' end
if redis.call('HGET', KEYS[1], 'writer') ~= ARGV[2] then return 'taken' end
local a = 4
for i = 3, #KEYS do
  local stamp = redis.call('HGET', KEYS[i], 'stamp') or ''
  local read, due, puts, gone = ARGV[a], ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  a = a + 4
  if stamp ~= read and stamp ~= ARGV[3] then return 'moved' end
  if stamp == read then
    for p = 1, puts do redis.call('HSET', KEYS[i], ARGV[a + 2 * p - 2], ARGV[a + 2 * p - 1]) end
    for p = 1, gone do redis.call('HDEL', KEYS[i], ARGV[a + 2 * puts + p - 1]) end
    redis.call('HSET', KEYS[i], 'stamp', ARGV[3])
    redis.call('ZADD', KEYS[2], due, KEYS[i])
  end
  a = a + 2 * puts + gone
end
return 'done'
"""
END = """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 'lost' end
if redis.call('HGET', KEYS[1], 'writer') ~= ARGV[2] then return 'taken' end
if redis.call('HGET', KEYS[1], 'batch') ~= ARGV[3] then return 'moved' end
redis.call('HSET', KEYS[1], 'batch', ARGV[4], 'watermark', ARGV[5])
if ARGV[6] ~= '' then
  local names = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[6], 'LIMIT', 0, 10000)
  for _, name in ipairs(names) do redis.call('UNLINK', name); redis.call('ZREM', KEYS[2], name) end
end
return 'done'
"""
HEAD = ("token", "about", "writer", "batch", "watermark")
STAMP = "stamp"
KEYS_AT_ONCE = 256


class Head(NamedTuple):
    """What is said of a publication as a whole."""

    token: bytes
    about: bytes
    writer: str
    batch: int
    watermark: int | None


class KeyWrite(NamedTuple):
    """What is written of one key."""

    key: str
    read: bytes  # its stamp when it was read
    due: int  # when nothing of it is needed any more
    puts: dict[str, bytes]
    gone: list[str]


class Published:
    """The tiles of one published query on a server."""

    def __init__(self, address: Address, name: str) -> None:
        self.address, self.name = address, name
        self._client, self._failures = address.client()
        self._begin, self._write, self._end = (
            self._client.register_script(script) for script in (BEGIN, WRITE, END)
        )

    def head(self) -> Head | None:
        """Return what is said of the publication, if there is one."""
        found = self._call(lambda: self._client.hmget(self._place("head"), HEAD))
        return None if found[0] is None else self._head(found)

    def begin(self, token: str, about: bytes, writer: str, batch: int) -> Head:
        """Begin a micro-batch, the first one with a new publication; or say why that cannot be."""
        arguments = [token, about, writer, batch]
        said, detail = self._call(lambda: self._begin([self._place("head")], arguments))
        if said == b"taken":
            raise self._refusal("taken", detail.decode())
        head = self.head() if said == b"ours" else None
        if head is None or head.batch < batch - 1:
            raise self._refusal("lost")
        if head.batch > batch:
            raise StoreError(
                self.tell(
                    f"micro-batch {head.batch} was published, and the checkpoint goes on with {batch}: "
                    "it is an older copy; publish under another name"
                )
            )
        return head

    def write(self, head: Head, stamp: str, writes: Sequence[KeyWrite]) -> None:
        """Write some keys, those that were not written with this stamp before."""
        for start in range(0, len(writes), KEYS_AT_ONCE):
            some = writes[start : start + KEYS_AT_ONCE]
            arguments: list[Any] = [head.token, head.writer, stamp]
            for one in some:
                arguments += [one.read, one.due, len(one.puts), len(one.gone)]
                arguments += [part for item in one.puts.items() for part in item]
                arguments += one.gone
            keys = [self._place("head"), self._place("due"), *(self._of_key(w.key) for w in some)]
            self._check(self._call(lambda: self._write(keys, arguments)))  # noqa: B023

    def end(self, head: Head, batch: int, watermark: int | None, past: int | None) -> None:
        """End a micro-batch: move the watermark, and forget keys with nothing behind `past`."""
        told = ["" if number is None else number for number in (watermark, past)]
        arguments = [head.token, head.writer, head.batch, batch, *told]
        keys = [self._place("head"), self._place("due")]
        self._check(self._call(lambda: self._end(keys, arguments)))

    def read(
        self, asked: Sequence[tuple[str, Sequence[str]]]
    ) -> tuple[Head, list[list[bytes | None]]]:
        """Return what is said of all, and the stamp and some blocks of each key, all of one moment."""
        steps = self._client.pipeline(transaction=True)
        steps.hmget(self._place("head"), HEAD)
        for key, fields in asked:
            steps.hmget(self._of_key(key), (STAMP, *fields))
        said, *found = self._call(steps.execute)
        if said[0] is None:
            raise self._refusal("lost")
        return self._head(said), found

    def _head(self, found: list[Any]) -> Head:
        token, about, writer, batch, watermark = found
        time = int(watermark) if watermark else None
        return Head(token, about, writer.decode(), int(batch), time)

    def _check(self, answer: bytes) -> None:
        if answer != b"done":
            raise self._refusal(answer.decode())

    def _refusal(self, what: str, who: str = "") -> StoreError:
        if what == "taken":
            return WindowTakenError(
                self.tell(
                    f"it is being published by another stream{' (' + who + ')' if who else ''}: stop "
                    "that one, or publish under another name"
                )
            )
        return StoreError(
            self.tell(
                "it is not as this process left it: another one has written it, or the server lost "
                "what was written; delete it, and publish again with a new checkpoint"
            )
        )

    def tell(self, what: str) -> str:
        """Return a message that names the publication."""
        return f"publication {self.name!r} in Redis: {what}"

    def _place(self, part: str) -> str:
        return f"muntin:{{{quote(self.name, safe='')}}}:{part}"

    def _of_key(self, key: str) -> str:
        return self._place(f"key:{key}")

    def _call(self, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except self._failures as error:
            told = f"{type(error).__name__}: {without_password(self._client, error)}"
        raise StoreError(self.tell(told))  # not from error, which may tell the password

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
