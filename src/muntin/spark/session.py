"""A local Spark session with the settings that windows need.

State lives in RocksDB, which transformWithStateInPandas demands, and a micro-batch writes what changed
in it and not the whole. There are as many shuffle partitions as cores, because each costs a Python
worker and a state store. Arrow batches are limited by their rows and not by their bytes, which Spark
would add up again after every row. Nothing listens beyond this machine. Spark reads JAVA_HOME and
PYSPARK_PYTHON from the environment, so they are set there.

Two settings lower the fixed cost of a micro-batch. Workers and the JVM talk through Unix sockets,
because small messages wait on TCP. Checkpoints are written through Hadoop's FileSystem: its FileContext
starts several processes for each small file on a local disk. The renames of both are atomic there.
"""

import atexit
import os
import re
import socket
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from muntin.spark.java import provide_java, require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PARTITIONS = "spark.sql.shuffle.partitions"
WORKING_COPIES = "spark.muntin.workingCopies"
"""How many bytes of working copies a Python worker keeps, such as 512m or 2g."""
SOCKETS = "spark.python.unix.domain.socket.enabled"
SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
DEFAULTS = {
    PROVIDER: ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.python.daemon.module": "muntin.spark.daemon",
    "spark.master": "local[*]",
}


def session(
    name: str = "muntin",
    *,
    cores: int | None = None,
    partitions: int | None = None,
    memory: str | None = None,
    settings: Mapping[str, str | int | float | bool] | None = None,
) -> "SparkSession":
    """Start a local session, or return the one that runs, with its state store set to RocksDB.

    `cores` is all of them unless given, `partitions` (of a shuffle) as many as there are cores, `memory`
    what Spark takes unless given ("4g"). `settings` are Spark's own and win over everything else. A
    running session takes over what of these is given and can still be changed; other differences are
    errors. Costs 5 to 20 seconds for the first session of a process.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    given = _given(cores, partitions, memory, settings)
    running = _running()
    if running is not None:
        return _changed(running, {PROVIDER: ROCKSDB, **given})
    provide_java(os.environ)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    own = {"spark.app.name": name, "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    chosen = {**DEFAULTS, **_sockets(), **own, **given}
    spark = SparkSession.builder.config(map={**chosen}).getOrCreate()
    if PARTITIONS not in given:
        spark.conf.set(PARTITIONS, spark.sparkContext.defaultParallelism)
    return spark


def working_copies(spark: "SparkSession") -> int:
    """Return how many bytes of working copies the setting allows a worker."""
    given = spark.conf.get(WORKING_COPIES, "1g") or ""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", given.strip().lower())
    if not found:
        raise ValueError(
            f"{WORKING_COPIES} is {given!r}: write a number of bytes, or one and k, m, g or t, such as "
            "512m"
        )
    number, unit = found.groups()
    return int(number) << 10 * " kmgt".index(unit or " ")


def _sockets() -> dict[str, str]:
    """Return the settings of Unix sockets, in a folder of this user with a short name, as they need."""
    return {SOCKETS: "true", SOCKET_FOLDER: _socket_folder()} if hasattr(socket, "AF_UNIX") else {}


@cache
def _socket_folder() -> str:
    """Return a folder that goes when the process ends; nobody else may read it."""
    folder = tempfile.TemporaryDirectory(prefix="muntin-", dir="/tmp")
    atexit.register(folder.cleanup)
    return folder.name


def _given(
    cores: int | None,
    partitions: int | None,
    memory: str | None,
    settings: Mapping[str, str | int | float | bool] | None,
) -> dict[str, str]:
    """Return the arguments that are given as settings of Spark's, or say what is wrong with them."""
    given = {}
    if cores is not None:
        given["spark.master"] = f"local[{_positive('cores', cores)}]"
    if partitions is not None:
        given[PARTITIONS] = str(_positive("partitions", partitions))
    if memory is not None:
        if not isinstance(memory, str):
            raise TypeError(f"memory must be a text such as '4g', got {memory!r}")
        if not re.fullmatch(r"[1-9]\d*[kmgt]", memory):
            raise ValueError(f"memory must be a number and one of k, m, g, t, got {memory!r}")
        given["spark.driver.memory"] = memory
    if not isinstance(settings, Mapping | None):
        raise TypeError(f"settings must be a dict, got {type(settings)!r}")
    for key, value in (settings or {}).items():
        if not (isinstance(key, str) and isinstance(value, str | int | float)):
            raise TypeError(
                f"settings must map names to texts, numbers or bools; {key!r} is {type(value)!r}"
            )
        given[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return given


def _positive(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be 1 or more, got {value}")
    return value


def _running() -> "SparkSession | None":
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    try:
        running = SparkSession.active()
    except PySparkRuntimeError:  # there is none
        return None
    # Where only the context was stopped, Spark still names the session.
    return None if not is_remote() and running.sparkContext._jsc is None else running


def _changed(running: "SparkSession", given: dict[str, str]) -> "SparkSession":
    """Change the settings of a running session, all or none."""
    new = {key: value for key, value in given.items() if running.conf.get(key, None) != value}
    for key, value in new.items():
        # Spark would take spark.master without a word and without an effect; and it does not list
        # the settings of the state store, which work for queries that start later.
        if not (
            running.conf.isModifiable(key) or key.startswith("spark.sql.streaming.stateStore.")
        ):
            raise ValueError(
                f"the running session has {key}={running.conf.get(key, None)}, which cannot be changed "
                f"to {value}: stop the session first, or leave this setting as it is"
            )
    for key, value in new.items():
        running.conf.set(key, value)
    return running
