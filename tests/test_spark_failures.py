"""Killed drivers and executors lose nothing and repeat nothing; damaged state is found out.

All runs are compared with one that nothing happened to. If a driver is killed between two of Spark's
logs, a later micro-batch takes two files: then it is the tables of a consumer that must be the same, and
micro-batches otherwise.
"""

import json
import random
import shutil
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.errors import StreamingQueryException

import muntin as mt
from muntin.spark.shard import SHORT_LOG
from tests import spark_job
from tests.patience import ran
from tests.spark_job import (
    FOLDED,
    KEPT,
    NAMES,
    TRACES,
    Job,
    ended,
    kill,
    kill_session,
    latest,
    members,
)
from tests.spark_streams import comparable, random_rows, write_files

FILES, ROWS = 8, 3000
KILLS = 10
IDENTITY = ("k", "n", "window", "start", "end")
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
OFTEN_SNAPSHOTS = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
    "spark.sql.streaming.minBatchesToRetain": "4",
}
EXECUTOR = "CoarseGrainedExecutorBackend"


# Results


def by_batch(home: Path) -> dict[str, dict[str, list[str]]]:
    """Return what each query reported in each micro-batch."""
    return {
        name: {
            path.stem: comparable(pq.read_table(path).to_pylist())
            for path in sorted((home / name / "sink").glob("*.parquet"))
        }
        for name in NAMES
    }


def final_table(home: Path, name: str) -> dict[tuple, dict]:
    """Return what a consumer has in the end; what is corrected or retracted must have been there."""
    table = {}
    for path in sorted((home / name / "sink").glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            window, kind = tuple(row.pop(part) for part in IDENTITY), row.pop("kind")
            there = kind in ("update", "retract")
            assert (window in table) == there, f"{kind} of {window}, which was there: {not there}"
            table[window] = row
            if kind == "retract":
                del table[window]
    return table


def assert_same(home: Path, unbroken: Path) -> None:
    """Assert that nothing is lost and nothing is there twice."""
    for name in NAMES:
        found, wanted = final_table(home, name), final_table(unbroken, name)
        lost, more = wanted.keys() - found.keys(), found.keys() - wanted.keys()
        assert not lost, f"{name}: windows were lost: {sorted(map(str, lost))[:5]}"
        assert not more, f"{name}: windows that should not be: {sorted(map(str, more))[:5]}"
        other = [(window, found[window], wanted[window]) for window in wanted]
        other = [entry for entry in other if entry[1] != entry[2]]
        assert not other, f"{name}: windows with other values than they should have: {other[:5]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder of files, a micro-batch each, whose rows are late by up to a minute."""
    made = tmp_path_factory.mktemp("failures") / "in"
    write_files(made, [random_rows(7, batch, ROWS) for batch in range(FILES)])
    return made


@pytest.fixture(scope="module")
def unbroken(spark, folder, tmp_path_factory) -> Path:
    """Return the home of a run that nothing happens to; its state is of changelogs or of snapshots."""
    home = tmp_path_factory.mktemp("unbroken")
    before = spark.conf.get(CHANGELOG)
    done = {}
    for name in NAMES:
        spark.conf.set(CHANGELOG, str(name == FOLDED).lower())
        done[name] = ran(partial(spark_job.start, spark, name, folder, home))
    spark.conf.set(CHANGELOG, before)
    for name, query in done.items():
        metrics = [progress["observedMetrics"]["muntin"] for progress in query.recentProgress]
        assert sum(m.rows for m in metrics) == FILES * ROWS
        assert sum(m.late for m in metrics) > ROWS, f"{name}: no rows are late"
        assert sum(m.dropped for m in metrics) == 0, f"{name}: results depend on the watermark"
        most = max(m.state_bytes for m in metrics)
        assert most > 2 * SHORT_LOG, f"{name}: {most} bytes are a log in each shard and no blocks"
    return home


def test_the_queries_take_both_ways_and_are_corrected(unbroken):
    assert spark_job.asked(FOLDED).plan().can_fold
    assert not spark_job.asked(KEPT).plan().can_fold
    reported = [pq.read_table(p) for p in (unbroken / KEPT / "sink").glob("*.parquet")]
    assert {kind for t in reported for kind in t["kind"].to_pylist()} == {
        "result",
        "update",
        "retract",
    }
    assert len(final_table(unbroken, FOLDED)) > 100
    assert len(final_table(unbroken, KEPT)) > 100


# Killed drivers


@pytest.fixture(scope="module")
def survivor(folder, tmp_path_factory) -> tuple[Path, list[str]]:
    """Return the home of a run that was killed again and again, and the queries that kills hit.

    Each life is of one query in turn and finds one more file, so that there is something to be done. The
    last one is of both and ends: Spark reports what is due after the last rows only in the same life.
    """
    rng = random.Random(11)
    home, files = tmp_path_factory.mktemp("survivor"), sorted(folder.iterdir())
    job = Job(home / "in", home, {"spark.master": "local[2]", **OFTEN_SNAPSHOTS}, ends=False)
    job.folder.mkdir()
    hit = []
    for life in range(KILLS):
        for path in files[: life // 2 + 2]:
            shutil.copy2(path, job.folder)
        job.names = (NAMES[life % 2],)
        with job.running() as process:
            aimed = life % 4 < 2  # a micro-batch of each query has just begun
            job.await_written(process, 1 if aimed else rng.randint(1, len(TRACES)))
            assert not ended(process, rng.uniform(0, 0.3)), "the job ended before it was killed"
            kill_session(process)
        hit += job.open_batches()
    for path in files:
        shutil.copy2(path, job.folder)
    job.names, job.ends = NAMES, True
    with job.running() as process:
        job.finish(process)
    return home, hit


def test_killed_drivers_lose_nothing_and_repeat_nothing(unbroken, survivor):
    home, hit = survivor
    assert min(map(hit.count, NAMES)) >= 3, f"only these kills hit a micro-batch: {hit}"
    assert_same(home, unbroken)


# Damaged state


def delete(path: Path) -> bytes:
    """Delete a file and the checksum that Hadoop has beside it here, and on few other file systems."""
    content = path.read_bytes()
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink()
    return content


def cut_short(path: Path) -> None:
    content = delete(path)
    path.write_bytes(content[: len(content) // 2])


def flip(path: Path) -> None:
    """Change a byte in each tenth of a file."""
    content = bytearray(delete(path))
    for position in range(len(content) // 20, len(content), len(content) // 10 or 1):
        content[position] ^= 0xFF
    path.write_bytes(content)


DAMAGES = {damage.__name__: damage for damage in (delete, cut_short, flip)}
NEEDED = {
    "changelog": (FOLDED, f"{FILES - 1}.changelog"),
    "snapshot": (KEPT, f"{FILES - 1}.zip"),
    "tables": (KEPT, "SSTs/*.sst"),
}
"""Files without which the state before the last micro-batch cannot be read."""
SPARKS_OWN = "CANNOT_LOAD_STATE_STORE|block checksum mismatch"
"""Errors of Spark, when it opens a table that is damaged or when it reads from it."""


@pytest.fixture(scope="module")
def fresh_workers(spark) -> Iterator[None]:
    """Have Spark start new Python workers, which have no copies of the state."""
    environment = spark.sparkContext.environment
    environment["MUNTIN_TEST_WORKERS"] = "fresh"
    yield
    del environment["MUNTIN_TEST_WORKERS"]


afterwards = pytest.mark.usefixtures("unbroken", "fresh_workers")  # in this order


def last_rows(home: Path, name: str) -> int:
    """Return the last micro-batch with rows; the one behind it has none."""
    return latest(home / name / "checkpoint" / "offsets") - 1


def before_last(home: Path, name: str, copy: Path) -> Path:
    """Copy a query's checkpoint as it was when the last micro-batch with rows had begun."""
    checkpoint, last = copy / name / "checkpoint", last_rows(home, name)
    shutil.copytree(home / name / "checkpoint", checkpoint)
    for done in (f"commits/{last}", f"commits/{last + 1}", f"offsets/{last + 1}"):
        delete(checkpoint / done)
    return checkpoint / "state" / "0"


def go_on(spark, name: str, folder: Path, home: Path) -> dict[str, list[str]]:
    """Run the rest of a stream, and return what it reports."""
    ran(partial(spark_job.start, spark, name, folder, home))
    return by_batch(home)[name]


def rest(home: Path, name: str) -> dict[str, list[str]]:
    """Return what was reported from the last micro-batch with rows on."""
    last = last_rows(home, name)
    return {batch: rows for batch, rows in by_batch(home)[name].items() if int(batch) >= last}


@afterwards
@pytest.mark.parametrize("name", NAMES)
def test_state_without_damage_goes_on_in_new_workers(spark, unbroken, folder, tmp_path, name):
    before_last(unbroken, name, tmp_path)
    assert go_on(spark, name, folder, tmp_path) == rest(unbroken, name)


@afterwards
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("what", NEEDED)
def test_damaged_state_is_an_error(spark, unbroken, folder, tmp_path, what, damage):
    name, pattern = NEEDED[what]
    state = before_last(unbroken, name, tmp_path)
    damaged = list(state.glob(f"[01]/{pattern}"))
    for path in damaged:
        DAMAGES[damage](path)
    assert len(damaged) >= 2, "a file for each shard"
    with pytest.raises(StreamingQueryException, match=SPARKS_OWN):
        go_on(spark, name, folder, tmp_path)
    assert by_batch(tmp_path)[name] == {}, "something was reported from damaged state"


@afterwards
def test_a_missing_shard_is_an_error(spark, unbroken, folder, tmp_path):
    shutil.rmtree(before_last(unbroken, FOLDED, tmp_path) / "1")
    with pytest.raises(StreamingQueryException, match="CANNOT_LOAD_STATE_STORE"):
        go_on(spark, FOLDED, folder, tmp_path)
    assert by_batch(tmp_path)[FOLDED] == {}, "something was reported from damaged state"


@afterwards
def test_a_damaged_snapshot_is_made_good_or_an_error(spark, survivor, tmp_path):
    home, _ = survivor
    damaged = list(before_last(home, KEPT, tmp_path).glob("[01]/*.zip"))
    for path in damaged:
        flip(path)
    assert damaged
    try:
        reported, message = go_on(spark, KEPT, home / "in", tmp_path), ""
    except StreamingQueryException as error:
        reported, message = by_batch(tmp_path)[KEPT], str(error)
    wanted = {} if "CANNOT_LOAD_STATE_STORE" in message else rest(home, KEPT)
    assert reported == wanted, message or "other results than from state without damage"


# A cluster


@dataclass
class Machine:
    """A Python without muntin, a Spark that writes beside it, muntin as a file, an empty cache."""

    python: str
    spark_home: Path
    package: Path
    cache: Path

    @classmethod
    def made(cls, home: Path) -> "Machine":
        venv.EnvBuilder(symlinks=True).create(home / "python")
        (packages,) = (home / "python" / "lib").glob("*/site-packages")
        link_entries(Path(pyspark.__file__).parents[1], packages)
        for path in packages.glob("*muntin*"):
            path.unlink()
        link_entries(Path(pyspark.__file__).parent, home / "spark")
        package = home / "shipped.zip"
        with zipfile.ZipFile(package, "w") as file:
            source = Path(mt.__file__).parents[1]
            for path in (source / "muntin").rglob("*.py"):
                file.write(path, path.relative_to(source))
        cache = home / "cache"
        cache.mkdir()
        return cls(str(home / "python" / "bin" / "python"), home / "spark", package, cache)

    def job(self, folder: Path, home: Path) -> Job:
        settings = {
            "spark.master": "local-cluster[2,1,1024]",
            "spark.submit.pyFiles": str(self.package),
            "spark.python.daemon.module": "pyspark.daemon",  # muntin's own starts before it is sent
            "spark.executorEnv.PYTHONPATH": "",  # else it were the driver's
            "spark.executorEnv.MUNTIN_CACHE_DIR": str(self.cache),
            **OFTEN_SNAPSHOTS,
        }
        return Job(
            folder,
            home,
            settings,
            self.python,
            {"SPARK_HOME": str(self.spark_home), "PYTHONPATH": str(self.package)},
            tell_paths=True,
        )

    def kernels(self) -> dict[str, int]:
        """Return the modules and the machine code in the cache, with the times they were written."""
        return {path.name: path.stat().st_mtime_ns for path in self.cache.rglob("*.*")}


def link_entries(source: Path, target: Path) -> None:
    """Link all that is in a folder from another one."""
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        (target / path.name).symlink_to(path)


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Machine:
    return Machine.made(tmp_path_factory.mktemp("machine"))


@dataclass(frozen=True)
class Ran:
    """A run on the cluster: its home, its log, and what it left in the cache of kernels."""

    home: Path
    log: str
    kernels: dict[str, int]


@pytest.fixture(scope="module")
def wounded(machine, folder, tmp_path_factory) -> Ran:
    """Return a run with an empty cache, one of whose executors is killed in a micro-batch."""
    job = machine.job(folder, tmp_path_factory.mktemp("wounded"))
    with job.running() as process:
        job.await_written(process, 25)
        while not job.open_batches():
            assert not ended(process, 0.03), "the job ended before an executor was killed"
        executors = [pid for pid, cmd in members(process.pid).items() if EXECUTOR in cmd]
        assert len(executors) == 2
        kill(random.Random(12).choice(executors))
        job.finish(process)
    return Ran(job.home, job.log.read_text(errors="replace"), machine.kernels())


@pytest.fixture(scope="module")
def whole(machine, wounded, folder, tmp_path_factory) -> Ran:
    """Return a run on new executors, which find the kernels of the one before."""
    assert wounded.kernels
    job = machine.job(folder, tmp_path_factory.mktemp("whole"))
    with job.running() as process:
        job.finish(process)
    return Ran(job.home, job.log.read_text(errors="replace"), machine.kernels())


def test_executors_have_the_package_that_was_sent(machine, whole):
    told = json.loads((whole.home / "paths.json").read_text())
    others = {str(machine.package), str(Path(mt.__file__).parents[1])}
    for worker in told:
        sent = Path(worker["package"]).is_relative_to(machine.spark_home / "work")
        assert sent, f"an executor has {worker['package']}"
        assert not others & {*worker["paths"]}, "an executor could have had another package"
    assert len(told) == 8


def test_a_cluster_reports_what_one_process_reports(whole, unbroken):
    assert "Lost executor" not in whole.log
    assert_same(whole.home, unbroken)
    assert by_batch(whole.home) == by_batch(unbroken)


def test_a_killed_executor_loses_nothing(wounded, unbroken):
    assert "Lost executor" in wounded.log
    assert_same(wounded.home, unbroken)
    assert by_batch(wounded.home) == by_batch(unbroken)


def test_kernels_are_compiled_once_per_machine(wounded, whole):
    suffixes = {Path(name).suffix for name in wounded.kernels}
    assert suffixes >= {".py", ".nbi", ".nbc"}, "nothing was compiled into an empty cache"
    again = {name for name, time in whole.kernels.items() if wounded.kernels.get(name) != time}
    assert not again, f"new executors compiled again: {sorted(again)}"
