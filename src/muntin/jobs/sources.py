"""Where a job's rows come from: files, Kafka or Spark's rate, finished or as a stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from muntin.jobs.safe import masked
from muntin.jobs.sections import Section, nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = ("parquet", "json", "csv")
FORMATS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(FILES, ("path", "schema", "stream")),
    "kafka": ("servers", "topic", "schema", "stream"),
    "rate": (),
}
SHAPED = ("select", "where", "options")


@dataclass(frozen=True)
class Source:
    """Rows to come; `options` are Spark's own and may hold secrets, as `place` may."""

    format: str
    stream: bool
    place: str = field(repr=False)
    schema: str | None
    select: tuple[str, ...]
    where: str | None = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)

    def describe(self) -> str:
        """Say in a line what is read."""
        what = {"kafka": f"topic {self.place} of Kafka", "rate": "Spark's rate of rows"}
        parts = [what.get(self.format, f"{self.format} files in {masked(self.place)}")]
        parts[0] += ", as a stream" if self.stream else ", as it is now"
        parts += [f"where {self.where}"] if self.where else []
        parts += [f"select {', '.join(self.select)}"] if self.select else []
        return "; ".join(parts)

    def load(self, spark: "SparkSession") -> "DataFrame":
        """Return the rows as Spark has them, shaped."""
        reader: Any = spark.readStream if self.stream else spark.read
        if self.format in FILES:
            reader = reader.schema(self.schema) if self.schema else reader
            rows = reader.format(self.format).options(**self.options).load(self.place)
        elif self.format == "kafka":
            rows = self._messages(spark, reader)
        else:
            rows = reader.format(self.format).options(**self.options).load()
        rows = rows.where(self.where) if self.where else rows
        shaped: DataFrame = rows.selectExpr(*self.select) if self.select else rows
        return shaped

    def _messages(self, spark: "SparkSession", reader: Any) -> "DataFrame":
        from muntin.spark import kafka

        kafka.register(spark)
        rows: DataFrame = reader.format("muntin_kafka").options(**self.options).load()
        if self.schema is None:
            return rows
        escaped = self.schema.replace("\\", "\\\\").replace("'", "\\'")
        value = f"from_json(cast(value as string), '{escaped}') as value"
        return rows.selectExpr(*(value if name == "value" else name for name in rows.columns))


def read_source(section: Section) -> Source:
    """Return the source that a job file describes, or say what is wrong with it."""
    kind = section.need("format", str, '"parquet"')
    if kind not in FORMATS:
        raise section.error(f"there is no source {kind!r}: {nearest(kind, FORMATS)}", "format")
    section.only(("format", *FORMATS[kind], *SHAPED), f" of the source {kind!r}")
    stream = kind == "rate" or bool(section.get("stream", bool, False))
    schema = section.get("schema", str, None)
    if kind in FILES and stream and schema is None:
        raise section.error(
            "a stream of files needs a schema, because it starts before there are any: write it like "
            'schema = "at timestamp, plug string, watts double"'
        )
    options = section.options()
    place = ""
    if kind in FILES:
        place = section.place("path", '"readings"')
    elif kind == "kafka":
        place = section.need("topic", str, '"plugs"')
        servers = section.need("servers", str, '"host:9092"')
        options = {"bootstrap.servers": servers, "topic": place, **options}
    select, where = section.texts("select"), section.get("where", str, None)
    return Source(kind, stream, place, schema, select, where, options)
