"""A window sliding in the terminal: what DABA Lite holds, and what it saves."""

import time
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from muntin.aggregates import Aggregate, MaxCount
from muntin.aggregators import ALGORITHMS, Aggregator, DabaLite

READINGS = [4, 5, 3, 4, 0, 4, 4, 2, 6, 1, 3, 3, 7, 2, 5, 5, 1, 0, 6, 2, 4, 7, 7, 3]
WINDOW = 8
SUBLISTS = {
    "front": "bold white on blue",
    "left": "black on bright_cyan",
    "right": "black on bright_green",
    "accumulator": "bold white on dark_blue",
    "back": "bold white on dark_green",
}


class Combines:
    """An aggregate that counts how often it combines."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.n = 0
        self._combine = aggregate.combine
        self.aggregate = replace(aggregate, combine=self._count)

    def _count(self, a: Any, b: Any) -> Any:
        self.n += 1
        return self._combine(a, b)


def show_slide(console: Console) -> None:
    """Show the window slide, then what sliding costs each algorithm."""
    console.print(
        f"The last {WINDOW} readings of a stream, and how often the largest occurs among them.\n"
        "DABA Lite holds one partial per reading and never combines more than six times per slide:\n"
    )
    _slide(console)
    console.print("What a slide costs:")
    console.print(_costs(console))


def _slide(console: Console) -> None:
    combines = Combines(MaxCount())
    window = DabaLite(combines.aggregate)
    worst = 0
    pause = 0.25 if console.is_terminal else 0.0
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        for i, reading in enumerate(READINGS):
            before = combines.n
            if len(window) == WINDOW:
                window.evict()
            window.insert(reading)
            result = window.query()
            worst = max(worst, combines.n - before)
            facts = f"{combines.n - before} combines, at worst {worst}"
            live.update(_frame(i, window, result, facts), refresh=True)
            time.sleep(pause)


def _frame(i: int, window: DabaLite, result: tuple[int, int], facts: str) -> RenderableType:
    start = i + 1 - len(window)
    stream = Text("stream  ")
    for k, reading in enumerate(READINGS[: i + 1]):
        stream.append(f" {reading} ", style="bold reverse" if k >= start else "dim")
    held = Text("held    ")
    f, e, l, r, a, b, *_ = window._state
    for p, partial in zip(range(f, e), window._between(f, e), strict=True):
        held.append(f" {partial[0]}x{partial[1]} ", style=SUBLISTS[_sublist(p, l, r, a, b)])
    legend = Text("        ")
    for name, style in SUBLISTS.items():
        legend.append(f" {name} ", style=style)
    top, times = result
    answer = Text.from_markup(f"result   the largest is [bold]{top}[/], {times} times    ({facts})")
    return Group(stream, held, legend, answer, Text())


def _sublist(p: int, l: int, r: int, a: int, b: int) -> str:
    if p < l:
        return "front"
    if p < r:
        return "left"
    if p < a:
        return "right"
    return "accumulator" if p < b else "back"


def _costs(console: Console, n: int = 4096, slides: int = 20_000) -> Table:
    table = Table("algorithm", "combines per slide, mean", "worst", "microseconds per slide")
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("recalculate everything", f"{n - 1}", f"{n - 1}", "", style="dim")
    names = ["TwoStacksLite", "DabaLite", "Amta", "FlatFat"]
    with console.status(f"sliding windows of {n} readings") as status:
        for name in names:
            status.update(f"sliding {name} over {slides} readings")
            table.add_row(name, *_cost(ALGORITHMS[name], n, slides))
    return table


def _cost(algorithm: type[Aggregator], n: int, slides: int) -> tuple[str, str, str]:
    combines = Combines(MaxCount())
    counted, plain = algorithm(combines.aggregate), algorithm(MaxCount())
    readings = list(islice(cycle(READINGS), slides))
    for window in (counted, plain):
        window.bulk_insert(islice(cycle(READINGS), n))
        window.query()
    worst, start = 0, combines.n
    for reading in readings:
        before = combines.n
        _step(counted, reading)
        worst = max(worst, combines.n - before)
    began = time.perf_counter()
    for reading in readings:
        _step(plain, reading)
    elapsed = time.perf_counter() - began
    return f"{(combines.n - start) / slides:.2f}", f"{worst}", f"{1e6 * elapsed / slides:.2f}"


def _step(window: Aggregator, reading: int) -> None:
    window.evict()
    window.insert(reading)
    window.query()
