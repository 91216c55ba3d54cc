"""Run a job on Spark: once through finished data, or a stream until it is interrupted."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from muntin.jobs.job import Job
from muntin.jobs.progress import Totals, behind, mark
from muntin.jobs.quiet_spark import interruptions, silence, started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from muntin.watch import Board

POLL_S = 0.2


def run_job(
    job: Job,
    console: Console,
    *,
    once: bool = False,
    page: Mapping[str, Any] | None = None,
    verbose: bool = False,
) -> None:
    """Run a job to its end, or its stream until it is interrupted, beside a live page if there is one.

    `page` has the parameters of `watch.serve`. With `once` a stream ends when it has taken what is
    there. Without `verbose` nothing is heard of Spark but its errors.
    """
    told = console if console.is_terminal else Console(stderr=True)
    with ExitStack() as stack:
        board = None if page is None else stack.enter_context(_page(job, told, page))
        stack.enter_context(silence(verbose))
        status = stack.enter_context(told.status("starting Spark"))
        spark = started(job.settings, verbose)
        job.sink.check(spark, job.source.stream)
        write = _writing(job, console, board)
        if job.source.stream:
            interrupted = _stream(job, spark, write, board, once, status)
        else:
            status.update("running")
            write(job.results(spark), None)
            interrupted = False
        status.stop()
        if board and not interrupted:
            _stay(told)


@contextmanager
def _page(job: Job, told: Console, page: Mapping[str, Any]) -> "Iterator[Board]":
    from muntin.watch import Board, serve

    board = Board(job.query, title=job.file.stem)
    with serve(board, **page) as server:
        told.print(f"live page: {server.url}")
        yield board


def _stay(told: Console) -> None:
    """Let the page be looked at when all is done."""
    told.print("done; the page stays until Ctrl-C")
    with interruptions() as interrupted:
        interrupted.wait()


def _writing(
    job: Job, console: Console, board: "Board | None"
) -> "Callable[[DataFrame, int | None], None]":
    """Return what takes results, of a micro-batch or of all."""
    sink = job.sink.writer(job.query.keys, console)

    def write(results: "DataFrame", batch: int | None) -> None:
        # A second look at a micro-batch would run it, and its state, a second time.
        looked_at_twice = batch is not None or board is not None
        results = results.persist() if looked_at_twice else results
        sink(results, batch)
        if board is not None:
            board.take(results.toArrow())
        if looked_at_twice:
            results.unpersist()

    return write


def _stream(
    job: Job,
    spark: "SparkSession",
    write: "Callable[[DataFrame, int | None], None]",
    board: "Board | None",
    once: bool,
    status: Status,
) -> bool:
    """Run a stream, and return whether it was interrupted."""
    from muntin.spark import check

    if job.sink.checkpoint:
        check(job.sink.checkpoint, job.query)
    writer = job.results(spark).writeStream.foreachBatch(write).outputMode(job.mode)
    if job.sink.checkpoint:
        writer = writer.option("checkpointLocation", job.sink.checkpoint)
    writer = writer.trigger(availableNow=True) if once else writer
    totals = Totals()
    status.update("waiting for rows")

    def take(progress: Mapping[str, Any]) -> None:
        totals.add(progress)
        status.update(escape(str(totals)))
        if board is not None:
            board.progress(progress)

    with interruptions() as interrupted:
        query = writer.start()
        _follow(query, interrupted, take)
        if interrupted.is_set():
            status.update("stopping")
            query.stop()
        else:
            query.awaitTermination()
    status.console.print(str(totals), highlight=False)
    return interrupted.is_set()


def _follow(
    query: "StreamingQuery", interrupted: threading.Event, take: Callable[[Mapping[str, Any]], None]
) -> None:
    """Pass on every progress until a stream ends or is interrupted."""
    seen: tuple[Any, Any] | None = None
    active = True
    while active and not interrupted.wait(POLL_S):
        active = query.isActive  # asked first: what comes between the two is passed on, too
        last = query.lastProgress
        if last is None or mark(last) == seen:
            continue
        recent = [json.loads(progress.json) for progress in query.recentProgress]
        for progress in behind(recent, seen):
            take(progress)
        seen = mark(recent[-1])
