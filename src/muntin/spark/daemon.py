"""Spark's Python daemon with what queries need imported before it forks workers.

A worker then starts in milliseconds, where it would import Numba and Arrow for seconds. Memory that a
worker frees stays with it for the next micro-batch, because the system gives it back page by page. What
was imported is frozen: Spark collects garbage after every task, and would go through all of it. A local
session has this as `spark.python.daemon.module`; on a cluster it can be set where muntin is installed.
"""

import ctypes
import gc
import platform

import numba  # noqa: F401
import pyarrow as pa
import pyspark.sql.pandas.serializers  # noqa: F401
from pyspark.daemon import manager

import muntin.spark.streaming  # noqa: F401

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT, LARGEST = 1 << 28, 1 << 25
"""How much free memory a worker keeps, and from which size on (glibc's largest) arrays are apart."""


def keep_memory() -> None:
    """Let freed memory stay with the process, where the C library is glibc; forked ones do the same."""
    if platform.libc_ver()[0] == "glibc":
        library = ctypes.CDLL(None)
        library.mallopt(M_TRIM_THRESHOLD, KEPT)
        library.mallopt(M_MMAP_THRESHOLD, LARGEST)
        pa.set_memory_pool(pa.system_memory_pool())


if __name__ == "__main__":
    keep_memory()
    gc.collect()
    gc.freeze()
    manager()
