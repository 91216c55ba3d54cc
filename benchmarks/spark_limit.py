"""A time limit for what runs on Spark: jobs that take longer are cancelled."""

import threading
import time
from collections.abc import Callable

from py4j.protocol import Py4JJavaError

from benchmarks.spark_streaming import session

CANCELLED = "SPARK_JOB_CANCELLED"


def seconds_within(limit: float, call: Callable[[], None]) -> float | None:
    """Return how long a call takes, None if it was stopped at the limit."""
    context, ended = session().sparkContext, threading.Event()

    def stop() -> None:
        wait = limit
        while not ended.wait(wait):
            context.cancelAllJobs()
            wait = 1.0  # a query may start another job in between

    watch = threading.Thread(target=stop)
    watch.start()
    began = time.perf_counter()
    try:
        call()
        return time.perf_counter() - began
    except Py4JJavaError as error:
        if CANCELLED not in str(error):
            raise
        return None
    finally:
        ended.set()
        watch.join()
        wait_idle()


def wait_idle() -> None:
    """Wait for the tasks of jobs that were cancelled."""
    tracker = session().sparkContext._jsc.sc().statusTracker()
    while any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
        time.sleep(0.1)
