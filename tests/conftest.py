"""What several test files share."""

import pytest


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    """Return a Redis server for all tests that do not stop it."""
    from tests.redis_server import RedisServer

    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server
