"""The Spark session of all tests, and of the documents that are tests."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fixed", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")  # no clock and no chance decides whether a test passes


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Return the one Spark session of the whole suite; starting it takes seconds."""
    from muntin.spark.session import session  # slow, and most tests do without Spark

    home = tmp_path_factory.mktemp("spark")
    temporary = home / "temporary"
    temporary.mkdir()
    java = f"-Djava.io.tmpdir={temporary} -Dderby.system.home={temporary}"
    started = session(
        "muntin tests",
        cores=2,
        partitions=2,
        settings={
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.local.dir": str(temporary),
            "spark.driver.extraJavaOptions": java,
        },
    )
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def _spark_of_documents(request):
    """Start the suite's session before a document asks for one: whatever runs first, there is one."""
    examples = request.node.dtest.examples if isinstance(request.node, pytest.DoctestItem) else ()
    if any("spark.session()" in example.source for example in examples):
        request.getfixturevalue("spark")
