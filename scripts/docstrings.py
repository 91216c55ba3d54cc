"""Shows docstrings as they are meant: doctests as code, angle brackets as such."""

import re
from typing import Any

import griffe

BRACKETED = re.compile(r"`[^`]*`|<(\w+)>")


class ReadableDocstrings(griffe.Extension):
    """Prepares every docstring before it is read as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Take note of an object that was found."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)


def readable(text: str) -> str:
    """Put doctests between fences (one ends at the next empty line), and keep <names> elsewhere."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith(">>>") and not inside:
            lines.append("```pycon")
            inside = True
        if not line.strip() and inside:
            lines.append("```")
            inside = False
        lines.append(line if inside else BRACKETED.sub(_escaped, line))
    return "\n".join([*lines, "```"] if inside else lines).replace("<BLANKLINE>", "")


def _escaped(found: re.Match[str]) -> str:
    return f"&lt;{found[1]}&gt;" if found[1] else found[0]
