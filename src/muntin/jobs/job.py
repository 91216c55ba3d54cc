"""A job: a source, a query, a sink, and the settings of the Spark that runs it.

A job file is TOML. It is read without Spark, and everything in it that can be checked by then is.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.jobs import names
from muntin.jobs.columns import missing_columns
from muntin.jobs.safe import masked
from muntin.jobs.sections import JobError, Section, nearest
from muntin.jobs.sinks import Sink, read_sink
from muntin.jobs.sources import Source, read_source
from muntin.query.native import ENGINES
from muntin.query.query import WINDOW_TIME, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NEEDED = ("source", "query", "windows", "aggregates", "sink")
SECTIONS = (*NEEDED, "spark", "serve")
RUNNING = ("plan", "engine")
"""What of [query] says how it runs, and not what it means."""
PARAMETERS = [f.name for f in fields(Query) if f.init and f.name not in ("windows", "aggregates")]


@dataclass(frozen=True)
class Job:
    """What a job file says; `settings` are Spark's own and may hold secrets."""

    file: Path
    source: Source
    query: Query
    sink: Sink
    settings: Mapping[str, Any] = field(repr=False)
    plan: str = "auto"
    engine: str = "auto"

    def explain(self) -> str:
        """Say what is read, how the query will run and why, and what is written; without secrets.

        A column that the query needs is a JobError if it is not in the schema that the source has.
        """
        missing, there = missing_columns(self.source, self.query)
        for name, part in missing.items():
            raise JobError(
                f"{self.file}, [query]: no column {name!r}, which the query's {part} ask for: the "
                f"source has {', '.join(there)}; {nearest(name, there)}"
            )
        lines = [
            f"source: {self.source.describe()}",
            "",
            self.query.explain(self.plan),
            "",
            *([] if self.engine == "auto" else [f"engine: {self.engine}", ""]),
            f"sink: {self.sink.describe(self.source.stream)}",
        ]
        return masked("\n".join(lines))

    @property
    def mode(self) -> str:
        """Whether a stream reports windows once, or again when they change."""
        return self.sink.mode or (
            "update" if self.query.allowed or self.query.early_every is not None else "append"
        )

    def results(self, spark: "SparkSession") -> "DataFrame":
        """Return the query's windows over the source."""
        from muntin.spark import aggregate

        rows = self.source.load(spark)
        results = aggregate(rows, self.query, mode=self.mode, plan=self.plan, engine=self.engine)
        return results.drop(WINDOW_TIME)  # nothing reads them as a stream


def read_job(file: Path) -> Job:
    """Return the job that a file describes, or say what is wrong with it, and where."""
    sections = read_sections(file, NEEDED)
    source = read_source(sections["source"])
    sink = read_sink(sections["sink"], source.stream)
    query = read_query(sections["query"], sections["windows"], sections["aggregates"])
    if source.stream and query.watermark is None:
        raise sections["query"].error(
            'a stream needs a watermark, which says how late rows may be: watermark = "10 seconds"'
        )
    settings = sections["spark"].flat("spark.")
    plan, engine = _plan(sections["query"], query), _engine(sections["query"])
    return Job(file, source, query, sink, settings, plan, engine)


def read_sections(file: Path, needed: Iterable[str]) -> dict[str, Section]:
    """Return the tables of a job file, of which some have to be there."""
    content = _content(file)
    for name in content:
        if name not in SECTIONS:
            raise JobError(f"{file}, [{name}]: this is not known: {nearest(name, SECTIONS)}")
    for name in needed:
        if name not in content:
            raise JobError(f"{file}: the table [{name}] is missing")
    return {name: Section(file, name, content.get(name, {})) for name in SECTIONS}


def _content(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise JobError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise JobError(f"{file} is not TOML: {error}") from error


def read_query(section: Section, windows: Section, aggregates: Section) -> Query:
    """Return the query that three tables of a job file describe."""
    section.only([*PARAMETERS, *RUNNING])
    section.need("time", str, '"at"')
    given = {name: value for name, value in section.items() if name not in RUNNING}
    given["keys"] = section.texts("keys")
    given["ordered"] = section.get("ordered", bool, False)
    given["windows"] = _each(windows, names.window)
    given["aggregates"] = _each(aggregates, names.aggregate)
    try:
        return Query(**given)
    except (TypeError, ValueError) as error:
        raise section.error(error) from error


def _plan(section: Section, query: Query) -> str:
    """Return the plan that the query is to run by."""
    plan = section.get("plan", str, None) or "auto"
    try:
        query.plan(plan)
    except ValueError as error:
        raise section.error(error, "plan") from error
    return plan


def _engine(section: Section) -> str:
    """Return whose windows run, which Spark decides when it has the rows."""
    engine = section.get("engine", str, None) or "auto"
    if engine not in ENGINES:
        raise section.error(f"an engine is one of {', '.join(ENGINES)}, got {engine!r}", "engine")
    return engine


def _each(section: Section, read: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what is named in a table, each by its name."""
    made = {}
    for name, text in section.items():
        try:
            made[name] = read(text)
        except (TypeError, ValueError) as error:
            raise section.error(error, name) from error
    return made
