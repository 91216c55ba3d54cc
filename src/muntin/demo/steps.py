"""The demo, step by step; each says what it does and where things are."""

import inspect
import os
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

import muntin as mt
from muntin.demo import flights, native
from muntin.demo import stream_run as stream
from muntin.demo.current_results import Results
from muntin.demo.live_table import Board
from muntin.demo.native import Seconds
from muntin.demo.question import delays
from muntin.demo.report import Shown, write_report
from muntin.demo.sliding import show_slide
from muntin.demo.stream_run import Run

DAYS = ("2013-03-08", "2013-03-09")
MONTHS = ("2013-01-01", "2013-03-31")
STEPS = 6

Days = tuple[str, str]


def show(console: Console, folder: Path) -> None:
    """Show a window that slides, then flights on Spark, and leave a report in the folder."""
    began = time.perf_counter()
    folder.mkdir(exist_ok=True)
    _step(console, 1, "a window slides")
    show_slide(console)
    _step(console, 2, "Spark starts")
    spark = _start_spark(console, folder)
    show_flights(console, spark, DAYS, MONTHS, folder)
    console.print(f"The demo took {time.perf_counter() - began:.0f} seconds.")


def show_flights(console: Console, spark: Any, days: Days, months: Days, folder: Path) -> Shown:
    """Show the steps that need Spark: some days as a stream, some months at once, the report."""
    departures = flights.read_departures()
    few, many = flights.between(departures, *days), flights.between(departures, *months)
    with TemporaryDirectory(prefix="muntin-demo-") as work:
        stage = Stage(console, spark, delays(), Path(work))
        results, ours = stage.stream_in(few)
        theirs, compared = stage.beside(results, ours)
        finished = stage.at_once(few, many)
    shown = Shown(
        few=few,
        many=many,
        query=stage.query,
        results=results,
        ours=ours,
        theirs=theirs,
        compared=compared,
        finished=finished,
        spark=f"Spark {spark.version} on {spark.sparkContext.defaultParallelism} cores",
    )
    _step(console, 6, "a report")
    page = write_report(shown, folder)
    console.print(f"[bold]{page}[/]", soft_wrap=True)
    console.print(
        "has the pictures, the query, its plan and all figures; the pictures are beside it."
    )
    return shown


@dataclass(frozen=True)
class Stage:
    """Where the steps on Spark take place: files, checkpoints and the query that all of them ask."""

    console: Console
    spark: Any
    query: mt.Query
    work: Path

    @property
    def files(self) -> Path:
        """The folder of the stream's files."""
        return self.work / "flights"

    def stream_in(self, departures: pd.DataFrame) -> tuple[Results, Run]:
        """Stream departures through the query, and show results and corrections as they come."""
        _step(self.console, 3, f"{len(departures):,} flights stream in")
        full = flights.write_stream(departures, self.files)
        self.console.print(
            f"Flights from New York's airports, {flights.period(departures)}. A row's time is when its "
            "plane should have left, and it comes when the plane has left: every delay is a row "
            f"out of order. They are in {len(full)} files in {self.files}; Spark takes one file in a "
            "micro-batch. One query asks for three windows at once:\n"
        )
        self.console.print(_code(inspect.getsource(delays), "python"))
        results = Results([*self.query.windows])
        frame = mt.spark.aggregate(stream.read(self.spark, self.files), self.query)
        with Board(self.console, results, full) as board:
            run = stream.run(frame, "update", self.work / "ours", board.take)
        self.console.print(
            f"{run.late:,} flights were late, behind the watermark, and corrected what had been "
            f"reported; {run.dropped:,} came too late for any window."
        )
        return results, run

    def beside(self, results: Results, ours: Run) -> tuple[Run, int]:
        """Run Spark's own window on the same stream, compare, and say what both took."""
        _step(self.console, 4, "Spark's own window beside it")
        self.console.print("The same files, and one of the three windows, which Spark has too:\n")
        self.console.print(_code(native.SQL, "sql"))
        with self.console.status("Spark's own window"):
            table, theirs = native.on_stream(self.spark, self.files, self.query, self.work)
        compared = native.same_on_stream(results.now.values(), table, theirs.watermark)
        self.console.print(
            f"[bold green]The same results[/]: all {compared:,} windows that are final for Spark. "
            f"It waits {self.query.lateness} longer with each, because it corrects nothing."
        )
        self.console.print(_times(self.query, ours, theirs))
        return theirs, compared

    def at_once(self, few: pd.DataFrame, many: pd.DataFrame) -> Seconds:
        """Run the same window over finished data, by muntin and by Spark."""
        _step(self.console, 5, f"{len(many):,} flights at once")
        self.console.print(
            "With few rows, what counts is what any micro-batch costs, and one that goes through Python "
            f"costs more. So the same window, over {flights.period(many)}, finished and in one file. "
            "Spark copies each flight into 60 windows; muntin puts it into one slice."
        )
        flights.write_file(few, self.work / "few.parquet")
        flights.write_file(many, self.work / "many.parquet")
        with self.console.status("the same window over finished data"):
            seconds = native.on_finished(
                self.spark, self.work / "many.parquet", self.work / "few.parquet", self.query
            )
        self.console.print(
            f"[bold green]The same results[/]: all {seconds.windows:,} windows. After a short run each, "
            f"muntin took [bold]{seconds.ours:.1f} s[/], Spark [bold]{seconds.theirs:.1f} s[/]."
        )
        return seconds


def _step(console: Console, number: int, what: str) -> None:
    console.print()
    console.rule(f"[bold]{number} of {STEPS}: {what}[/]")


def _start_spark(console: Console, folder: Path) -> Any:
    messages = folder / "spark.log"
    with console.status("starting Spark"), stream.messages_to(messages):
        spark = mt.spark.session("muntin demo")
    cores = spark.sparkContext.defaultParallelism
    console.print(
        f"Spark {spark.version} on {cores} cores. Java is in {os.environ['JAVA_HOME']}, what Spark "
        f"itself says goes to {messages}.",
        soft_wrap=True,
    )
    return spark


def _code(text: str, language: str) -> Syntax:
    return Syntax(text, language, background_color="default")


def _times(query: mt.Query, ours: Run, theirs: Run) -> Table:
    table = Table("", "reported")
    for name in ("first micro-batch", "others, each", "all"):
        table.add_column(name, justify="right")
    asked = f"{len(query.windows)} windows, {len(query.aggregates)} aggregates, corrections"
    for who, what, run in (
        ("muntin", asked, ours),
        ("Spark", f"1 window, {len(native.COMPARED)} aggregates", theirs),
    ):
        table.add_row(who, what, *(f"{s:.1f} s" for s in (run.seconds[0], run.rest, run.total)))
    return table
