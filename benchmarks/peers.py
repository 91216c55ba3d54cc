"""Figures 31 and 32: muntin and its peers on windows and on questions of NEXMark, in one run.

Each engine reads the rows of a case from Parquet files and computes all results, in a process of its
own, on as many cores as it takes by itself; Spark has two, and 4 GB. Before that it answers a few rows:
what it has must be what muntin has, and that call warms it up. Rows of windows span two hours. A peer
that reaches the time limit is stopped, and its ratio is a bound; one that fails has none. Spark's own
windows are compared with muntin on Spark, everyone else with muntin in one process. Memory is that of
the process and all it started, at its peak.
"""

import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from os import environ, killpg, sysconf
from pathlib import Path
from signal import SIGKILL
from time import perf_counter

import pyarrow.parquet as pq

from benchmarks import peer_process
from benchmarks.measure import Finding, Findings, Scale
from benchmarks.peer_cases import CASES, Case, answer, write

LIMIT, QUICK_LIMIT = 600.0, 30.0
PATIENCE = 300.0
"""Seconds for the start of an engine and the few rows."""
TURNS, ENOUGH = 5, 3.0
"""An engine has so many turns, or fewer if they have taken so many seconds; the best counts."""
EVERY = 0.1
"""Seconds from one look at the memory to the next."""
PACKAGES = {"Bytewax": "bytewax"}
LEFT_OUT = "Pathway and Flink SQL are left out: there is nothing here that runs them."
OURS = {"Spark": "muntin on Spark"}
MUNTIN = "muntin"
STOPPED, FAILED = "stopped", "failed"
PAGE = sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Ran:
    """The seconds that an engine took, or after which it came to an `end`, and its peak of memory."""

    seconds: float
    end: str
    peak_mb: float

    @property
    def ratio(self) -> str:
        """What its time in multiples of ours is: a bound if it was stopped, nothing if it failed."""
        return {"": "its/ours", STOPPED: "or more its/ours"}.get(self.end, "")

    def named(self, who: str) -> str:
        """Return who it is, and how it came to an end before it was done."""
        return f"{who}, {self.end} after {self.seconds:.0f} s" if self.end else who


def jobs(scale: Scale) -> list[tuple[str, Callable[[], Findings]]]:
    """Return what is measured here."""
    return [(name, partial(compared, scale, case)) for name, case in CASES.items()]


def notes() -> list[str]:
    """Return a sentence for each engine that does not take part."""
    there = {name: find_spec(package) for name, package in PACKAGES.items()}
    absent = [
        f"{name} is left out: pip install {PACKAGES[name]} adds it."
        for name, found in there.items()
        if found is None
    ]
    return [*absent, LEFT_OUT]


def engines() -> list[str]:
    """Return the engines that are installed, muntin first."""
    there = [n for n in peer_process.NAMES if n not in PACKAGES or find_spec(PACKAGES[n])]
    return sorted(there, key=lambda name: not name.startswith(MUNTIN))


def compared(scale: Scale, case: Case) -> Findings:
    """Yield what is found of a case: on Spark and in one process, times and then memory."""
    yield from sorted(found(scale, case), key=lambda finding: (finding.figure, finding.case))


def found(scale: Scale, case: Case) -> Findings:
    """Yield the seconds and the memory of each engine that can say a case, and its ratios."""
    with tempfile.TemporaryDirectory(prefix="muntin-peers-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write(folder, case, scale.quick)
        took = {engine: ran(engine, case, folder, scale) for engine in engines()}
    of = {engine: result for engine, result in took.items() if result is not None}
    fastest = min(result.seconds for result in of.values() if not result.end)
    told = case.told(scale.quick)
    for engine, result in of.items():
        ours = of[OURS.get(engine, MUNTIN)]
        where = " on Spark" if engine in OURS or engine in OURS.values() else ""
        who, speed = result.named(engine), fastest / result.seconds
        peer = engine != MUNTIN and engine not in OURS.values()
        ratio = result.ratio if peer else ""
        value = result.seconds / ours.seconds if ratio else None
        seconds = 1e3 * result.seconds
        yield Finding(31, f"{told}{where}", who, seconds, "ms", speed, ratio, value)
        ratio = "its/ours" if peer and not result.end else ""
        share = result.peak_mb / ours.peak_mb if ratio else None
        memory = f"memory, {told}{where}"
        yield Finding(32, memory, who, result.peak_mb, "MB", None, ratio, share)


def ran(engine: str, case: Case, folder: Path, scale: Scale) -> Ran | None:
    """Run an engine, and compare its results with muntin's; None if it cannot say the case."""
    command = [sys.executable, "-m", "benchmarks.peer_process", engine, str(case), str(folder)]
    with open(folder / "log", "w+b") as log:
        process = subprocess.Popen(
            [*command, str(TURNS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            start_new_session=True, cwd=Path(__file__).parent.parent,
            env={**environ, "TMPDIR": str(folder)},
        )  # fmt: skip
        watch = Watch(process)
        try:
            return watched(engine, case, folder, watch, scale)
        except EndedError:
            log.seek(0)
            text = log.read().decode(errors="replace")
            raise RuntimeError(f"{case}: {engine} has failed:\n{text[-2000:]}") from None
        finally:
            watch.end()


def watched(engine: str, case: Case, folder: Path, watch: "Watch", scale: Scale) -> Ran | None:
    """Talk with the process of an engine."""
    said = watch.line(PATIENCE)
    if said is None:
        raise RuntimeError(f"{case}: {engine} has not answered a few rows in {PATIENCE:.0f} s")
    if said.startswith(peer_process.CANNOT):
        return None
    check(engine, case, folder)
    ours = engine.startswith(MUNTIN)
    limit = QUICK_LIMIT if scale.quick else LIMIT
    began, end, seconds = perf_counter(), "", []
    watch.go()
    while len(seconds) < TURNS and sum(seconds) < ENOUGH:
        try:
            line = watch.line(None if ours else limit)
        except EndedError:
            if ours:
                raise
            return Ran(perf_counter() - began, FAILED, watch.peak / 1e6)
        if line is None:
            end = "" if seconds else STOPPED
            break
        seconds.append(float(line))
    return Ran(min(seconds, default=limit), end, watch.peak / 1e6)


def check(engine: str, case: Case, folder: Path) -> None:
    """Raise unless an engine has the results that muntin has; muntin comes first, and leaves its own."""
    found, kept = folder / "found.parquet", folder / "ours.parquet"
    if not kept.exists():
        found.rename(kept)
        return
    ours, theirs = (answer(pq.read_table(path), case.columns) for path in (kept, found))
    if not case.same(ours, theirs):
        only = [sorted({*a} - {*b}, key=str)[:3] for a, b in ((ours, theirs), (theirs, ours))]
        raise AssertionError(f"{case}: only muntin has {only[0]}, only {engine} has {only[1]}")


class EndedError(Exception):
    """A process has ended before it said what it had to."""


class Watch:
    """The lines that a process prints, and the most memory that it and what it started had."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process, self.peak = process, 0
        self._lines: queue.Queue[str] = queue.Queue()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=t) for t in (self._read, self._look)]
        for thread in self._threads:
            thread.start()

    def line(self, limit: float | None) -> str | None:
        """Return the next line, None if there is none within so many seconds; no limit, if None."""
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            return None
        if not line:
            raise EndedError
        return line.strip()

    def go(self) -> None:
        """Let the process go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """End the process and all that it started, which is in its session."""
        with suppress(ProcessLookupError):
            killpg(self.process.pid, SIGKILL)
        self.process.wait()
        with suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

    def _look(self) -> None:
        while not self._ended.wait(EVERY):
            self.peak = max(self.peak, resident(self.process.pid))


def resident(group: int) -> int:
    """Return the bytes of memory that the processes of a session have; 0 where there is no /proc."""
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            # After the name, which may have spaces: state, parent, group, session.
            facts = (path / "stat").read_text().rpartition(")")[2].split()
            if int(facts[3]) == group:
                total += int((path / "statm").read_text().split()[1]) * PAGE
    return total
