"""A Spark that is heard only if it is asked to speak, and signals that stop it in order."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def started(settings: Mapping[str, Any], verbose: bool) -> "SparkSession":
    """Return a session; unless `verbose`, its JVM and workers have nowhere to print.

    They inherit where errors are printed from this process, as it is when they start.
    """
    from muntin.spark import session

    if verbose:
        return session(settings=settings)
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        return session(settings=settings)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def silence(verbose: bool) -> Iterator[None]:
    """Keep what PySpark logs of errors, which are raised as well, from being printed."""
    if not verbose:
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@contextmanager
def interruptions() -> Iterator[threading.Event]:
    """Let the first Ctrl-C or SIGTERM set an event; a second one does what it did before.

    PySpark's own answer to Ctrl-C is to cancel jobs, which would make a micro-batch fail.
    """
    interrupted = threading.Event()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: Any) -> None:
        del number, frame
        restore()
        interrupted.set()

    for number in SIGNALS:
        signal.signal(number, note)
    try:
        yield interrupted
    finally:
        restore()
