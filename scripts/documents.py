"""What the documents get when they are built: pictures, and tables from the registries.

mkdocs calls the functions `on_...` by their names. A picture is named `pictures/<name>.svg`; a line
`<!-- algorithms -->`, `<!-- aggregates -->` or `<!-- card: Name -->` becomes a table. Marks around a
table that is there already go.
"""

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import muntin as mt
from scripts import tables
from scripts.pictures.album import PICTURES, as_svg

MARK = re.compile(r"^<!-- (algorithms|aggregates|card: \w+) -->$", re.MULTILINE)
AROUND = re.compile(r"^<!-- (\w+) -->\n(.*?)^<!-- /\1 -->$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every picture, drawn anew."""
    for name, draw in PICTURES.items():
        files.append(File.generated(config, f"pictures/{name}.svg", content=as_svg(draw())))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Put the tables in their places, and show doctests as a session of Python."""
    bare = AROUND.sub(lambda mark: mark[2], markdown)
    text = MARK.sub(lambda mark: table(mark[1]), bare)
    return text.replace("```python\n>>>", "```pycon\n>>>").replace("<BLANKLINE>", "")


def table(name: str) -> str:
    """Return the table that a mark asks for."""
    if name == "algorithms":
        return tables.algorithms()
    if name == "aggregates":
        return tables.aggregates()
    card = mt.ALGORITHMS[name.removeprefix("card: ")].card
    return "\n".join(
        [
            "| order | asks for | combines | partials | from |",
            "|---|---|---|---|---|",
            f"| {card.ordering} | {card.needs} | {card.time} | {card.space} | {card.paper} |",
        ]
    )
