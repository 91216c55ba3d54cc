"""Queries on Spark: streams and batch frames, with slices shared by all windows."""

from muntin.spark.java import require_pyspark

require_pyspark()

from muntin.spark.aggregate import aggregate, aggregate_plan  # noqa: E402
from muntin.spark.as_of import as_of  # noqa: E402
from muntin.spark.check import check  # noqa: E402
from muntin.spark.publish import publish  # noqa: E402
from muntin.spark.rolling import rolling, rolling_plan  # noqa: E402
from muntin.spark.session import session  # noqa: E402
from muntin.spark.upsert import upsert  # noqa: E402

__all__ = [
    "aggregate",
    "aggregate_plan",
    "as_of",
    "check",
    "publish",
    "rolling",
    "rolling_plan",
    "session",
    "upsert",
]
