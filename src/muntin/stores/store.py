"""What a store does for windows: blocks of bytes under a window's id, a level and a number.

Many windows share a store, each under its own id, and each written by one process at a time: a window
claims its id before it reads and releases it when it is closed. A put is atomic, or at least writes
its items in order: a window puts the record that refers to blocks last, and deletes blocks only after
a record that no longer refers to them, so that a crash at any point leaves a record whose blocks are
there.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar

from muntin.aggregates import SnapshotError

Result = TypeVar("Result")

Key = tuple[int, int]
"""The number of a level, and that of a block in it."""

RECORD: Key = (255, 0)
"""Where a window's own record is: no tree has so many levels."""

INSTALL = 'pip install "muntin[stores]"'


class StoreError(RuntimeError):
    """A store failed, or holds something else than was put; names the store and the window.

    The window is as it was before the call. Calls work again once the store does.
    """


class OtherWindowError(StoreError, SnapshotError):
    """A window in a store was left under another aggregate or policy; the message says what differs."""


class WindowTakenError(StoreError):
    """The window is being written by someone else."""


class Store:
    """A key-value store under windows; a subclass says how to get, put and delete."""

    def __init__(self) -> None:
        self._claimed: set[str] = set()
        self._worker: ThreadPoolExecutor | None = None

    def claim(self, window: str) -> None:
        """Become the window's only writer, or raise WindowTakenError."""
        if window in self._claimed:
            raise WindowTakenError(self.tell(window, "it is already open; close it there first"))
        self._claimed.add(window)

    def release(self, window: str) -> None:
        """Let the window be claimed by others."""
        self._claimed.discard(window)

    def get(self, window: str, keys: Sequence[Key]) -> list[bytes | None]:
        """Return what was put under each key, None where there is nothing."""
        raise NotImplementedError

    def put(self, window: str, items: Mapping[Key, bytes]) -> None:
        """Write all items or none; if that cannot be, in their order."""
        raise NotImplementedError

    def delete_range(self, window: str, level: int, first: int, end: int) -> None:
        """Delete the blocks of a level with numbers in [first, end); there may be none."""
        raise NotImplementedError

    def sync(self) -> None:
        """Make what was put survive a failure of power, where that is this process's to say."""

    def soon(self, call: Callable[..., Result], *arguments: Any) -> "Future[Result]":
        """Call in the background, after whatever was asked for before."""
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="muntin-store")
        return self._worker.submit(call, *arguments)

    def close(self) -> None:
        """Finish what goes on in the background; windows in the store can no longer be used."""
        if self._worker is not None:
            self._worker.shutdown()
            self._worker = None

    def tell(self, window: str, what: str) -> str:
        """Return a message that names the store, and the window if there is one."""
        return f"{self!r}, window {window!r}: {what}" if window else f"{self!r}: {what}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
