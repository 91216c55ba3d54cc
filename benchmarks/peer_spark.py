"""Spark's own windows and muntin on Spark, from files to the noop sink."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from tests.test_nexmark import IN_SQL

import muntin as mt
from benchmarks.peer_cases import Case, Question
from benchmarks.spark_runs import DELAY, session


def native(case: Case, path: Path) -> DataFrame:
    """Return the windows of Spark, or its answer to a question in SQL."""
    rows = session().read.parquet(str(path))
    if isinstance(case, Question):
        rows.createOrReplaceTempView("bids")
        return session().sql(IN_SQL[case.name])
    window = F.window("ts", f"{case.size} seconds", f"{case.step} seconds")
    asked = [F.sum("v").alias("s"), F.max("v").alias("m"), F.avg("v").alias("a")]
    groups = rows.withWatermark("ts", DELAY).groupBy("k", window)
    return groups.agg(*asked).select("k", "window.*", "s", "m", "a")


def muntin(case: Case, path: Path) -> DataFrame:
    """Return the results of the queries of a case."""
    rows = session().read.parquet(str(path))
    return reduce(mt.spark.aggregate, case.queries(), rows)


def run(frame: DataFrame) -> None:
    """Compute all results."""
    frame.write.format("noop").mode("overwrite").save()


ON_SPARK: dict[str, Callable[[Case, Path], Any]] = {"Spark": native, "muntin on Spark": muntin}
