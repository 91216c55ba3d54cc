"""A store in memory: the same blocks of bytes, without a server or a disk.

For tests, and for windows that should be small in memory but need not outlive the process: a float takes
9 bytes in a block and 32 as a Python object.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from muntin.stores.store import Key, Store


class MemoryStore(Store):
    """Keep windows' blocks in this process.

    >>> from muntin import MemoryStore, Sum
    >>> from muntin.stores import stored
    >>> store = MemoryStore()
    >>> with stored(Sum(), store, "readings") as window:
    ...     window.bulk_insert(range(5000))
    >>> stored(Sum(), store, "readings").query()
    12497500
    """

    def __init__(self) -> None:
        super().__init__()
        self._windows: defaultdict[str, dict[Key, bytes]] = defaultdict(dict)

    def get(self, window: str, keys: Sequence[Key]) -> list[bytes | None]:
        items = self._windows[window]
        return [items.get(key) for key in keys]

    def put(self, window: str, items: Mapping[Key, bytes]) -> None:
        self._windows[window].update(items)

    def delete_range(self, window: str, level: int, first: int, end: int) -> None:
        items = self._windows[window]
        for number in range(first, end):
            items.pop((level, number), None)

    def __repr__(self) -> str:
        return "<MemoryStore>"
