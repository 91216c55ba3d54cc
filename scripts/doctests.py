"""Shows the examples of docstrings as code: each doctest becomes a fenced block."""

from typing import Any

import griffe


class FencedDoctests(griffe.Extension):
    """Puts the doctests of every docstring between fences, before it is read as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Take note of an object that was found."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a text with its doctests between fences; one ends at the next empty line."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith(">>>") and not inside:
            lines.append("```python")
            inside = True
        if not line.strip() and inside:
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines).replace("<BLANKLINE>", "")
