"""Write the tables of README and documents, or check that they are what they are made from.

A table stands between two marks, such as `<!-- algorithms -->` and `<!-- /algorithms -->`. Tables of
algorithms and aggregates are made from the registries, tables of measured ratios from the results that
are kept in `benchmarks/results`.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from tests import catalogue

import muntin as mt
from scripts import measured

ROOT = Path(__file__).parent.parent


def main(arguments: list[str]) -> int:
    """Renew the tables between their marks; with --check only compare."""
    stale = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text()
        renewed = filled(text)
        if renewed != text:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in arguments:
                page.write_text(renewed)
    if stale and "--check" in arguments:
        print(f"{', '.join(stale)}: tables are not what they are made from: run make tables")
        return 1
    return 0


def filled(text: str) -> str:
    """Return a page with each table put between its marks.

    >>> filled("<!-- nothing -->\\n<!-- /nothing -->")
    '<!-- nothing -->\\n<!-- /nothing -->'
    """
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if begin in text and end in text:
            inside = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
            made = f"{begin}\n{table()}\n{end}"
            text = inside.sub(lambda _, made=made: made, text)
    return text


def algorithms() -> str:
    """Return a card per algorithm."""
    rows = [
        "| algorithm | order | asks for | combines | partials | from |",
        "|---|---|---|---|---|---|",
    ]
    for name, algorithm in mt.ALGORITHMS.items():
        card = algorithm.card
        facts = (f"`{name}`", card.ordering, card.needs, card.time, card.space, card.paper)
        rows.append(f"| {' | '.join(facts)} |")
    return "\n".join(rows) + "\n"


def aggregates() -> str:
    """Return the algebraic facts of every aggregate."""
    rows = ["| aggregate | what it is | facts |", "|---|---|---|"]
    for name, factory in mt.AGGREGATES.items():
        what = (factory.__doc__ or "").splitlines()[0]
        made, _ = catalogue.make(name)
        rows.append(f"| `{name}` | {what} | {', '.join(facts(made)) or 'associative'} |")
    return "\n".join(rows) + "\n"


def facts(aggregate: mt.Aggregate) -> list[str]:
    """Return what the aggregate declares, in words."""
    words = ["commutative", "invertible", "selective", "holistic", "approximate"]
    return [word for word in words if getattr(aggregate, word)]


TABLES: dict[str, Callable[[], str]] = {
    "algorithms": algorithms,
    "aggregates": aggregates,
    "results": measured.chosen,
    "measured": measured.everything,
    "conformance": measured.court,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
