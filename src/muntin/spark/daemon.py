"""Spark's Python daemon with what queries need imported before it forks workers.

A worker then starts in milliseconds, where it would import Numba and Arrow for seconds. A local session
has it as `spark.python.daemon.module`; on a cluster it can be set where muntin is installed.
"""

import numba  # noqa: F401
import pyspark.sql.pandas.serializers  # noqa: F401
from pyspark.daemon import manager

import muntin.spark.streaming  # noqa: F401

if __name__ == "__main__":
    manager()
