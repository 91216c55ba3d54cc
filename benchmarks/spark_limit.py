"""A time limit for what runs on Spark: jobs that take longer are cancelled."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError

from benchmarks.spark_runs import session, wait_idle

CANCELLED = "SPARK_JOB_CANCELLED"
MARGIN = 1.2
"""Spark gets so many times as long as would show what is asked."""


@dataclass(frozen=True)
class Native:
    """The seconds that Spark took, or after which it was stopped."""

    seconds: float
    stopped: bool

    def named(self, who: str) -> str:
        """Return who it is, and whether it was stopped."""
        return f"{who}, stopped after {self.seconds:.0f} s" if self.stopped else who

    @property
    def ratio(self) -> str:
        """What its time in multiples of ours is: a bound if it was stopped."""
        return "or more its/ours" if self.stopped else "its/ours"


def native_within(limit: float, turns: int, call: Callable[[], None]) -> Native:
    """Return the best of some runs; the first that reaches the limit is the last."""
    best = math.inf
    for _ in range(turns):
        taken = seconds_within(limit, call)
        if taken is None:
            break
        best = min(best, taken)
    return Native(min(best, limit), stopped=best == math.inf)


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
