"""What several test files share."""

import pytest


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    """Return a Redis server for all tests that do not stop it."""
    from tests.redis_server import RedisServer

    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres():
    """Return a PostgreSQL server for all tests; who kills it starts it again."""
    from tests.postgres_server import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["memory", "rocks", "redis"])
def opener(request, tmp_path):
    """Return a function that opens the same store again and again, after it was closed."""
    from muntin.stores import MemoryStore, RedisStore, RocksStore

    if request.param == "memory":
        store = MemoryStore()
        yield lambda: store
    elif request.param == "rocks":
        yield lambda: RocksStore(tmp_path / "rocks")
    else:
        server = request.getfixturevalue("redis_server")
        yield lambda: RedisStore(server.url)
        with RedisStore(server.url) as store:
            store._client.flushall()
