"""One page with the papers' figures from our own runs, and what they say to the papers' claims.

The page is built of results that are kept, and has its pictures inside, so that it is one file.
Whether a claim agrees with our runs is read from the points of its figure when the page is built.
"""

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.claims import PAPERS
from benchmarks.claims.reading import TIE, Claim, Found, Paper, Reading, Section
from benchmarks.drawing import DOTS_PER_INCH
from benchmarks.measure import Scale

SOURCES = sorted({section.source for paper in PAPERS for section in paper.sections})
PAGE_DOTS_PER_INCH = 96
PNG_WIDTH = slice(16, 20)
"""The bytes of a PNG that have its width."""
OPENING = (
    "Every picture and number below comes from runs of muntin on one machine. What a paper claims "
    "is told in our words, with its figure. Whether our runs agree is computed from their points: "
    f"what is said to be the same may differ by {TIE} times, because others may use the machine "
    "too; what is said to be faster has to be faster. Where runs differ from a claim, the page "
    "says why. The data sets of the papers are not public or not at hand: streams have their "
    "rates, values and disorder instead."
)
VERDICTS = {True: "agrees", False: "differs"}
CSS = """
body {
  font: 16px/1.5 system-ui, sans-serif; color: #222;
  max-width: 1080px; margin: 2em auto; padding: 0 1em;
}
h1, h2, h3 { line-height: 1.2 }
h2 { border-top: 2px solid #0b5fa5; padding-top: .6em; margin-top: 2em }
a { color: #0b5fa5 }
figure { margin: 1em 0 }
img { max-width: 100%; height: auto }
.scroll { overflow-x: auto }
table { border-collapse: collapse; margin: 1em 0 }
th, td { text-align: left; vertical-align: top; padding: .35em 1em .35em 0 }
tr { border-bottom: 1px solid #ddd }
.number { text-align: right; font-variant-numeric: tabular-nums }
.claims { width: 100% }
.claims td { width: 45% }
.claims td:last-child { width: 10% }
.agrees { color: #1d7a45 }
.differs { color: #b3261e; font-weight: 600 }
.small { color: #555; font-size: .92em }
"""


def build(scale: Scale) -> Path:
    """Write the page from the results that are there, and return where it is."""
    results = {source: read_results(source, scale) for source in SOURCES}
    read = {
        paper.key: [(section, readings(section, results)) for section in paper.sections]
        for paper in PAPERS
    }
    body = [head(scale), summary(read)]
    for paper in PAPERS:
        body += [opening(paper)]
        body += [shown(section, found, told, scale) for section, (found, told) in read[paper.key]]
        body += [f'<p class="small">Not drawn: {escape(paper.left_out)}</p>']
    path = measure.folder(scale) / "papers.html"
    path.write_text(document("\n".join(body)), encoding="utf-8")
    return path


def read_results(source: str, scale: Scale) -> list[dict[str, Any]]:
    """Return the points that a module has kept."""
    path = measure.folder(scale) / f"{source}.json"
    if not path.exists():
        quick = " --quick" if scale.quick else ""
        raise FileNotFoundError(f"{path} is missing: run python -m benchmarks {source}{quick}")
    points: list[dict[str, Any]] = measure.load(path)["results"]
    return points


def readings(
    section: Section, results: dict[str, list[dict[str, Any]]]
) -> tuple[Found, list[tuple[Claim, Reading]]]:
    """Return the points of a section, and what they say to each of its claims."""
    found = Found([p for p in results[section.source] if str(p["figure"]) == section.figure])
    return found, [(claim, claim.read(found)) for claim in section.claims]


def document(body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>muntin: the papers' figures from our own runs</title>\n<style>{CSS}</style>\n"
        f"</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def head(scale: Scale) -> str:
    """Return what the page is, and the machine's facts."""
    facts = {**measure.versions(), **measure.machine()}
    facts["measured"] = "quick: short runs and fewer sizes" if scale.quick else "in full"
    rows = "".join(line("td", (n, str(f)), [False] * 2, "") for n, f in facts.items())
    return (
        f"<h1>The papers' figures, from our own runs</h1>\n<p>{OPENING}</p>\n<table>{rows}</table>"
    )


def summary(read: dict[str, list[tuple[Section, Any]]]) -> str:
    """Return how many claims agree, paper by paper."""
    rows = [["paper", "figures and tables", "claims", "agree", "differ"]]
    for paper in PAPERS:
        verdicts = [r.agrees for _, (_, told) in read[paper.key] for _, r in told]
        counts = (len(paper.sections), len(verdicts), sum(verdicts), verdicts.count(False))
        rows.append([f"{paper.title}, {paper.published}", *map(str, counts)])
    return f"<h2>At a glance</h2>\n{table(rows, [paper.key for paper in PAPERS])}"


def opening(paper: Paper) -> str:
    return (
        f'<h2 id="{paper.key}">{escape(paper.title)}</h2>\n'
        f'<p class="small">{escape(paper.published)}</p>'
    )


def shown(
    section: Section, found: Found, told: Iterable[tuple[Claim, Reading]], scale: Scale
) -> str:
    """Return a figure or table with its claims."""
    parts = [f"<h3>{escape(section.where)}: {escape(section.title)}</h3>"]
    if section.setting:
        parts.append(f'<p class="small">{escape(section.setting)}</p>')
    if section.picture:
        parts.append(picture(section, scale))
    if section.table:
        parts.append(table(section.table(found)))
    rows = "".join(verdict(claim, reading) for claim, reading in told)
    heading = "<tr><th>the paper</th><th>our runs</th><th></th></tr>"
    parts.append(f'<div class="scroll"><table class="claims">{heading}{rows}</table></div>')
    return "\n".join(parts)


def picture(section: Section, scale: Scale) -> str:
    """Return a picture as bytes in the page."""
    data = (measure.folder(scale) / f"{section.picture}.png").read_bytes()
    text = base64.b64encode(data).decode("ascii")
    label = escape(f"{section.where}: {section.title}", quote=True)
    pixels = int.from_bytes(data[PNG_WIDTH])
    width = round(pixels * PAGE_DOTS_PER_INCH / DOTS_PER_INCH)
    source = f"data:image/png;base64,{text}"
    return f'<figure><img width="{width}" alt="{label}" src="{source}"></figure>'


def verdict(claim: Claim, reading: Reading) -> str:
    """Return a row: what the paper says, what our runs say, and whether they agree."""
    ours = escape(reading.ours)
    if not reading.agrees:
        ours += f'<br><span class="small">Why: {escape(claim.why)}</span>'
    word = VERDICTS[reading.agrees]
    return f'<tr><td>{escape(claim.says)}</td><td>{ours}</td><td class="{word}">{word}</td></tr>'


def table(rows: list[list[str]], links: Sequence[str] = ()) -> str:
    """Return a table; its first row is the heading, first cells link to ids, numbers stand right."""
    right = [any(map(is_number, column)) for column in zip(*rows[1:], strict=True)]
    lines = [line("th", rows[0], right, "")]
    lines += [
        line("td", row, right, link) for row, link in zip_longest(rows[1:], links, fillvalue="")
    ]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def line(tag: str, row: Sequence[str], right: list[bool], link: str) -> str:
    cells = [escape(text) for text in row]
    if link:
        cells[0] = f'<a href="#{link}">{cells[0]}</a>'
    classes = [' class="number"' if number else "" for number in right]
    made = (f"<{tag}{c}>{text}</{tag}>" for c, text in zip(classes, cells, strict=True))
    return f"<tr>{''.join(made)}</tr>"


def is_number(text: str) -> bool:
    return re.fullmatch(r"\d[\d,]*(\.\d+)?", text) is not None
