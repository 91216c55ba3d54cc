"""Write the README's tables from the registries, or check that they are what the registries say."""

import sys
from pathlib import Path

from tests import catalogue

import muntin as mt

README = Path(__file__).parent.parent / "README.md"


def main(arguments: list[str]) -> int:
    """Renew the tables between their marks; with --check only compare."""
    text = README.read_text()
    renewed = between(text, "algorithms", algorithms())
    renewed = between(renewed, "aggregates", aggregates())
    if "--check" in arguments:
        if renewed != text:
            print("README.md is not what the registries say: run make tables")
            return 1
        return 0
    README.write_text(renewed)
    return 0


def between(text: str, name: str, table: str) -> str:
    """Put the table between its marks."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{table}\n{end}{after}"


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
