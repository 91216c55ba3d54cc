"""Windows larger than memory: their elements in a key-value store, O(log n) of them here."""

from muntin.stores.memory import MemoryStore
from muntin.stores.redis import RedisStore
from muntin.stores.rocks import RocksStore
from muntin.stores.store import Key, Store, StoreError, WindowTakenError
from muntin.stores.stored_window import StoredAmta, stored

__all__ = [
    "Key",
    "MemoryStore",
    "RedisStore",
    "RocksStore",
    "Store",
    "StoreError",
    "StoredAmta",
    "WindowTakenError",
    "stored",
]
