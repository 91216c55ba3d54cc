"""What `muntin serve` answers from: the query of a job file, and where it is published.

[serve]
store = "redis://localhost:6379"
name = "power"
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from muntin.jobs.job import read_query, read_sections
from muntin.jobs.quiet_spark import interruptions
from muntin.jobs.sections import Section
from muntin.query.query import Query
from muntin.serving.layout import Layout
from muntin.serving.lookup import Lookup
from muntin.stores import RedisStore

INSTALL = 'pip install "muntin[serve]"'
NEEDED = ("query", "windows", "aggregates", "serve")
KNOWN = ("store", "name", "keys", "body")


@dataclass(frozen=True)
class Serving:
    """A published query; its store may hold a password, and is not shown."""

    query: Query
    store: RedisStore = field(repr=False)
    name: str
    limits: Mapping[str, int]

    def lookup(self) -> Lookup:
        """Return a lookup in the publication."""
        return Lookup(self.store, self.query, self.name)


def read_serving(file: Path) -> Serving:
    """Return what a job file serves, or say what is wrong with it, and where."""
    sections = read_sections(file, NEEDED)
    query = read_query(sections["query"], sections["windows"], sections["aggregates"])
    section = sections["serve"]
    section.only(KNOWN)
    url = section.need("store", str, '"redis://localhost:6379"')
    name = section.get("name", str, "query") or ""
    limits = {key: _count(section, key) for key in ("keys", "body") if key in section}
    try:
        Layout.of(query)
        return Serving(query, RedisStore(url), name, limits)
    except ValueError as error:
        raise section.error(error) from error


def serve_job(file: Path, console: Console, page: Mapping[str, Any]) -> None:
    """Serve the lookups of a job file until it is interrupted.

    `page` has the host, the port and the token, as `LookupServer` takes them.
    """
    serving = read_serving(file)
    try:
        from muntin.endpoint.server import LookupServer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"muntin serve needs {error.name}: {INSTALL}") from error
    from muntin.endpoint.answers import Answers, Limits

    answers = Answers(serving.lookup, Limits(**serving.limits))
    with interruptions() as interrupted, LookupServer(answers, **page) as server:
        console.print(f"lookups: {server.url}/lookup", highlight=False, soft_wrap=True)
        interrupted.wait()


def _count(section: Section, key: str) -> int:
    """Return a limit of a request."""
    value = dict(section.items())[key]
    if type(value) is not int or value < 1:
        raise section.error(f"this must be a whole number above zero, got {value!r}", key)
    return value
