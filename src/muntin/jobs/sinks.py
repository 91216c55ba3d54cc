"""Where a job's results go: files, a table, or the console.

A writer takes a DataFrame and the number of its micro-batch, or None for finished data. Spark delivers a
micro-batch twice after a crash: files then replace the folder of that micro-batch, and a table that is
kept current is left as it was; a table behind JDBC gets its rows again.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console

from muntin.jobs.console_table import show
from muntin.jobs.safe import masked
from muntin.jobs.sections import JobError, Section, nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Writer = Callable[["DataFrame", int | None], None]

FILES = ("parquet", "json", "csv")
FORMATS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(FILES, ("path", "options")),
    "console": (),
    "sqlite": ("path", "table"),
    "postgres": ("url", "table"),
    "delta": ("path", "table", "options"),
    "kafka": ("servers", "topic", "options"),
    "jdbc": ("url", "table", "options"),
}
CURRENT = ("sqlite", "postgres", "delta", "kafka")
"""Tables that updates and retractions change; the options of these are texts."""
ADDRESSES = {"delta": "delta:", "kafka": "kafka://"}
OF_STREAMS = ("checkpoint", "mode")
MODES = ("append", "update")
PLACES = {
    "sqlite": ("path", '"power.db"', "table"),
    "postgres": ("url", '"postgresql://user@host/power"', "table"),
    "delta": ("path", '"warehouse"', "table"),
    "kafka": ("servers", '"host:9092"', "topic"),
    "jdbc": ("url", '"jdbc:mysql://host/power"', "table"),
}
"""What says where a table is, such a text, and what says which table it is."""
FLAT = ("csv", "jdbc")
NESTED = ("array", "map", "struct")


@dataclass(frozen=True)
class Sink:
    """Where results go; `options` are Spark's own and may hold secrets, as addresses may."""

    format: str
    place: str = field(repr=False)
    table: str
    checkpoint: str | None = field(repr=False)
    mode: str | None
    options: Mapping[str, Any] = field(repr=False)

    def describe(self, stream: bool) -> str:
        """Say in a line what is written."""
        place = masked(self.place)
        files = f"{self.format} files in {place}"
        what = {
            "console": "tables on the console",
            "sqlite": f"table {self.table} of the SQLite file {place}, kept current",
            "postgres": f"table {self.table} of PostgreSQL at {place}, kept current",
            "delta": f"Delta table {self.table} in {place}, kept current",
            "kafka": f"topic {self.table} of Kafka at {place}, a message for each change",
            "jdbc": f"table {self.table} behind {':'.join(self.place.split(':')[:2])}, appended to",
        }
        parts = [what.get(self.format, files + (", a folder per micro-batch" if stream else ""))]
        parts += [f"checkpoint {masked(self.checkpoint)}"] if self.checkpoint else []
        return "; ".join(parts)

    def check(self, spark: "SparkSession", stream: bool) -> None:
        """Refuse a stream that would write over the files of another one, and a missing driver."""
        if self.format == "jdbc":
            _check_driver(spark, self._jdbc)
        if not stream or self.format not in FILES or not _exists(spark, self.place):
            return
        if not _exists(spark, f"{self.checkpoint}/metadata"):
            raise JobError(
                f"{masked(self.place)} has results already, and the checkpoint "
                f"{masked(str(self.checkpoint))} is new: "
                "choose another path, or go on with the checkpoint of these results"
            )

    def writer(self, keys: tuple[str, ...], console: Console) -> Writer:
        """Return what writes results."""
        if self.format == "console":
            return lambda results, batch: show(console, results, keys, batch)
        if self.format in CURRENT:
            return self._upsert(keys)
        return self._append if self.format == "jdbc" else self._save

    def _upsert(self, keys: tuple[str, ...]) -> Writer:
        from muntin.spark import upsert

        place = ADDRESSES.get(self.format, "") + self.place
        write = upsert(place, self.table, keys, {n: str(v) for n, v in self.options.items()})
        # A table takes a micro-batch once; finished data counts as new each time that it is run.
        return lambda results, batch: write(results, time.time_ns() if batch is None else batch)

    @property
    def _jdbc(self) -> dict[str, Any]:
        return {"url": self.place, "dbtable": self.table, **self.options}

    def _append(self, results: "DataFrame", batch: int | None) -> None:
        del batch
        _flattened(results).write.format("jdbc").options(**self._jdbc).mode("append").save()

    def _save(self, results: "DataFrame", batch: int | None) -> None:
        if batch is not None and results.isEmpty():
            return
        shaped = _flattened(results) if self.format in FLAT else results
        writer = shaped.write.format(self.format).options(**self.options)
        if batch is None:
            writer.save(self.place)
        else:
            writer.mode("overwrite").save(f"{self.place}/micro_batch={batch}")


def read_sink(section: Section, stream: bool) -> Sink:
    """Return the sink that a job file describes, or say what is wrong with it."""
    kind = section.need("format", str, '"console"')
    if kind not in FORMATS:
        raise section.error(f"there is no sink {kind!r}: {nearest(kind, FORMATS)}", "format")
    section.only(("format", *FORMATS[kind], *OF_STREAMS), f" of the sink {kind!r}")
    for key in OF_STREAMS:
        if key in section and not stream:
            raise section.error("this is for streams, and the source is none: leave it out", key)
    mode = section.get("mode", str, None)
    if mode not in (None, *MODES):
        raise section.error(f"this must be one of {', '.join(MODES)}, got {mode!r}", "mode")
    if stream and kind != "console" and "checkpoint" not in section:
        raise section.error(
            'a stream needs a checkpoint to go on from: write it like checkpoint = "checkpoints/plugs"'
        )
    place = table = ""
    if kind in FILES:
        place = section.place("path", '"results"')
    elif kind in PLACES:
        name, example, named = PLACES[kind]
        place = section.place(name, example) if name == "path" else section.need(name, str, example)
        table = section.need(named, str, '"plugs"')
    checkpoint = section.place("checkpoint", "") if "checkpoint" in section else None
    return Sink(kind, place, table, checkpoint, mode, section.options())


def _flattened(results: "DataFrame") -> "DataFrame":
    """Return results with lists and structs as JSON, for sinks that have no such types."""
    columns = [
        f"to_json(`{f.name}`) as `{f.name}`" if f.dataType.typeName() in NESTED else f"`{f.name}`"
        for f in results.schema.fields
    ]
    return results.selectExpr(*columns)


def _check_driver(spark: "SparkSession", options: Mapping[str, Any]) -> None:
    """Refuse a database whose driver Spark cannot find."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    jvm: Any = spark.sparkContext._jvm
    given = {name: str(value) for name, value in options.items()}
    try:
        jdbc = jvm.org.apache.spark.sql.execution.datasources.jdbc
        jdbc.JDBCOptions(jvm.PythonUtils.toScalaMap(given))
    except (Py4JJavaError, PySparkException) as error:
        kind = ":".join(given["url"].split(":")[:2])
        other = ', or take format = "postgres", which needs none' if "postgres" in kind else ""
        raise JobError(
            f'Spark has no driver for {kind}: name its jar in [spark], jars = "driver.jar", and its '
            f'class in [sink], options = {{ driver = "org.example.Driver" }}{other}'
        ) from error


def _exists(spark: "SparkSession", place: str) -> bool:
    """Whether a file or folder is there, on whatever file system it is."""
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(place)
    return bool(path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path))
