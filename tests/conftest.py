"""What several test files share."""

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Return the one Spark session of the whole suite; starting it takes seconds."""
    from muntin.spark.session import session  # slow, and most tests do without Spark

    home = tmp_path_factory.mktemp("spark")
    temporary = home / "temporary"
    temporary.mkdir()
    started = session(
        "muntin tests",
        cores=2,
        partitions=2,
        settings={
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.local.dir": str(temporary),
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={temporary}",
        },
    )
    yield started
    started.stop()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    """Return a Redis server for all tests that do not stop it."""
    from tests.redis_server import RedisServer

    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server
