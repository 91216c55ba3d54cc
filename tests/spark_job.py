"""A program that runs queries over a folder of files, and a job that starts it and can kill it.

It goes on from the checkpoints, until all files are taken or without an end. A sink has one file per
micro-batch, which a micro-batch that runs again writes anew. Nothing else of the tests is imported,
because the program also runs where only its own path is known:
`python spark_job.py '{"folder": ..., "home": ..., ...}'`.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "ts timestamp, k string, n int, v bigint, x double, s string, b boolean"
FOLDED, KEPT = NAMES = ("folded", "kept")
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # starts sooner
LONGEST_RUN = 600
TRACES = (
    "checkpoint/offsets/[0-9]*",
    "checkpoint/state/0/*/*.changelog",
    "sink/*.parquet",
    "checkpoint/commits/[0-9]*",
)
"""What a micro-batch writes, in this order."""


def asked(name: str) -> Any:
    """Return the query whose rows are folded before the shuffle, or the one whose rows are kept."""
    import muntin as mt

    late = {"time": "ts", "keys": ("k", "n"), "watermark": "5 s", "lateness": "80 s"}
    sums = {"sum": mt.Sum("v"), "max": mt.Max("v"), "rows": mt.Count()}
    if name == FOLDED:
        return mt.Query(windows={"a": mt.Sliding("20 s", "200 ms")}, aggregates=sums, **late)
    windows = {"s": mt.Session("100 ms"), "t": mt.Tumbling("8 s")}
    return mt.Query(windows=windows, aggregates={"all": mt.Collect("v"), **sums}, **late)


def start(spark: Any, name: str, folder: Path, home: Path, ends: bool = True) -> Any:
    """Start a query from its checkpoint, with its sink beside it."""
    import muntin as mt

    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    sink = home / name / "sink"
    sink.mkdir(parents=True, exist_ok=True)

    def keep(frame: Any, batch: int) -> None:
        path = sink / f"{batch:04}.parquet"
        pq.write_table(frame.toArrow(), path.with_suffix(".tmp"))
        os.replace(path.with_suffix(".tmp"), path)

    trigger = {"availableNow": True} if ends else {"processingTime": "0 seconds"}
    writer = mt.spark.aggregate(rows, asked(name)).writeStream.foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(home / name / "checkpoint"))
    return writer.outputMode("update").trigger(**trigger).start()


def package_paths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield where a worker has muntin from, and where it looks for packages."""
    import muntin

    found = {"package": [os.path.abspath(muntin.__file__)], "paths": [sys.path]}
    for _ in batches:
        yield pa.RecordBatch.from_pydict(found)


def end_with_the_test() -> None:
    """End when the standard input ends, which it does when the test that has started this one ends."""
    sys.stdin.read()
    os._exit(1)


def main(given: dict[str, Any]) -> None:
    """Run queries at once, in a session of this process alone."""
    threading.Thread(target=end_with_the_test, daemon=True).start()
    from muntin.spark.session import session

    spark = session("muntin failures", partitions=2, settings=given["settings"])
    folder, home = Path(given["folder"]), Path(given["home"])
    if given["tell_paths"]:
        told = spark.range(8, numPartitions=8).mapInArrow(
            package_paths, "package string, paths array<string>"
        )
        found = [row.asDict() for row in told.collect()]
        (home / "paths.json").write_text(json.dumps(found))
    started = [start(spark, name, folder, home, given["ends"]) for name in given["names"]]
    for query in started:
        query.awaitTermination()
    spark.stop()


@dataclass
class Job:
    """A run of this program, in a session of the system's that no other process is in."""

    folder: Path
    home: Path
    settings: dict[str, str] = field(default_factory=dict)
    python: str = sys.executable
    environment: dict[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = NAMES
    ends: bool = True
    tell_paths: bool = False

    @contextmanager
    def running(self) -> Iterator[Popen]:
        """Start the program, and kill all that is left of it in the end."""
        temporary = self.home / "temporary"
        temporary.mkdir(parents=True, exist_ok=True)
        java = f"{SMALL_JVM} -Djava.io.tmpdir={temporary}"
        settings = {
            "spark.local.dir": str(temporary),
            "spark.sql.warehouse.dir": str(self.home / "warehouse"),
            "spark.driver.extraJavaOptions": java,
            "spark.executor.extraJavaOptions": java,
            **self.settings,
        }
        given = {
            "folder": str(self.folder),
            "home": str(self.home),
            "settings": settings,
            "names": self.names,
            "ends": self.ends,
            "tell_paths": self.tell_paths,
        }
        with (
            open(self.log, "ab") as log,
            Popen(
                [self.python, __file__, json.dumps(given)],
                cwd=self.home,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **self.environment},
                stdin=PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                kill_session(process)

    @property
    def log(self) -> Path:
        """All that the program prints."""
        return self.home / "log.txt"

    def finish(self, process: Popen) -> None:
        """Wait until all files are taken."""
        code = process.wait(LONGEST_RUN)
        assert code == 0, f"the job failed:\n{self.log.read_text(errors='replace')[-5000:]}"

    def written(self) -> set[tuple[str, int]]:
        """Return all that micro-batches leave behind, as it is now: path and time."""
        found = set()
        for path in (p for n in self.names for t in TRACES for p in (self.home / n).glob(t)):
            with suppress(FileNotFoundError):  # Spark has deleted it in between
                found.add((str(path), path.stat().st_mtime_ns))
        return found

    def await_written(self, process: Popen, count: int) -> None:
        """Wait until so much more is written."""
        before, begun = self.written(), time.monotonic()
        while len(self.written() - before) < count:
            assert time.monotonic() < begun + LONGEST_RUN, "the job does nothing any more"
            if ended(process, 0.03):
                self.finish(process)
                raise AssertionError("the job came to its end before it could be killed")

    def open_batches(self) -> list[str]:
        """Return the queries that have begun a micro-batch and not committed it."""
        logs = {name: self.home / name / "checkpoint" for name in self.names}
        return [n for n, log in logs.items() if latest(log / "offsets") > latest(log / "commits")]


def latest(log: Path) -> int:
    """Return the last micro-batch in one of Spark's logs."""
    return max((int(path.name) for path in log.glob("[0-9]*")), default=-1)


def ended(process: Popen, seconds: float) -> bool:
    """Wait for so long, or until the process has ended."""
    try:
        process.wait(seconds)
    except TimeoutExpired:
        return False
    return True


def members(session: int) -> dict[int, str]:
    """Return the commands of all living processes of a session, by their ids.

    Spark's Python daemons make process groups of their own, but stay in the session.
    """
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, of = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):  # it has ended in between
            continue
        if int(of) == session and state not in "ZX":
            found[int(folder.name)] = command
    return found


def kill_session(process: Popen) -> None:
    """Kill a process and all that it has started, and wait until they are gone."""
    while left := members(process.pid):
        for pid in left:
            kill(pid)
        ended(process, 0.01)
    process.wait()


def kill(pid: int) -> None:
    """Kill a process that may have ended already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
