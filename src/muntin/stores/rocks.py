"""A store on disk: RocksDB, embedded by rocksdict.

A put is one write batch, in RocksDB's log before the call returns: it survives the end of the process,
and after sync a failure of power. RocksDB locks its folder, so that one process at a time has the store.
Bytes go in and out as they are (raw mode): rocksdict never unpickles here.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from threading import Lock
from typing import Any

from muntin.stores.store import INSTALL, Key, Result, Store, StoreError

MEMTABLE_BYTES = 8 << 20
CACHE_BYTES = 8 << 20
FEW = 64  # up to this many blocks are deleted one by one: a deleted range slows reads for a while


class RocksStore(Store):
    """Keep windows in a folder, for this process alone.

    >>> import tempfile
    >>> from muntin import Max, RocksStore
    >>> from muntin.stores import stored
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RocksStore(folder) as store, stored(Max(), store, "readings") as window:
    ...         window.bulk_insert([3, 1, 2])
    ...     with RocksStore(folder) as store, stored(Max(), store, "readings") as window:
    ...         window.query()
    3
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        super().__init__()
        self._path = fspath(path)
        try:
            import rocksdict
        except ImportError as error:
            raise ImportError(f"RocksStore needs rocksdict: {INSTALL}") from error
        self._rocksdict = rocksdict
        self._opening = Lock()
        self._db: Any = None
        self._closed = False
        self._call("", "cannot be opened", lambda _: None)

    def get(self, window: str, keys: Sequence[Key]) -> list[bytes | None]:
        names = [_name(window, key) for key in keys]
        found: list[bytes | None] = self._call(window, "cannot read", lambda db: db.get(names))
        return found

    def put(self, window: str, items: Mapping[Key, bytes]) -> None:
        batch = self._rocksdict.WriteBatch(raw_mode=True)
        for key, value in items.items():
            batch.put(_name(window, key), value)
        self._write(window, batch)

    def delete_range(self, window: str, level: int, first: int, end: int) -> None:
        batch = self._rocksdict.WriteBatch(raw_mode=True)
        if end - first > FEW:
            batch.delete_range(_name(window, (level, first)), _name(window, (level, end)))
        else:
            for number in range(first, end):
                batch.delete(_name(window, (level, number)))
        self._write(window, batch)

    def sync(self) -> None:
        self._call("", "cannot sync", lambda db: db.flush_wal(True))

    def close(self) -> None:
        super().close()
        self._closed = True
        self._shut()

    def _write(self, window: str, batch: Any) -> None:
        try:
            self._call(window, "cannot write", lambda db: db.write(batch))
        except StoreError:
            # After a failed write RocksDB refuses all others until it is opened again.
            self._shut()
            raise

    def _call(self, window: str, what: str, call: Callable[[Any], Result]) -> Result:
        try:
            return call(self._opened())
        except Exception as error:  # rocksdict raises no narrower one
            raise StoreError(self.tell(window, f"{what}: {error}")) from error

    def _opened(self) -> Any:
        with self._opening:
            if self._closed:
                raise ValueError("it was closed")
            if self._db is None:
                self._db = self._rocksdict.Rdict(self._path, _options(self._rocksdict))
            return self._db

    def _shut(self) -> None:
        with self._opening:
            db, self._db = self._db, None
            if db is not None:
                try:
                    db.close()
                except Exception as error:  # the write that failed fails once more
                    if self._closed:
                        raise StoreError(self.tell("", f"cannot close: {error}")) from error

    def __repr__(self) -> str:
        return f"<RocksStore {self._path}>"


def _name(window: str, key: Key) -> bytes:
    """Return a key whose order is that of levels and numbers, and no other window's."""
    level, number = key
    text = window.encode()
    return len(text).to_bytes(2) + text + level.to_bytes(1) + number.to_bytes(8)


def _options(rocksdict: Any) -> Any:
    """Return options for few, large values that are written once: little memory, some compression."""
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(rocksdict.Cache(CACHE_BYTES))
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    return options
