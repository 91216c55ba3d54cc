"""A request that is not answered: a status of HTTP, and a sentence that says why."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

LONGEST = 80
"""So many characters of what was sent are repeated."""


class Refusal(Exception):  # noqa: N818 - the word of the whole package
    """A request is refused with a status and a sentence."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def unusable(reason: str) -> Refusal:
    """Return the refusal of a request that is JSON, and asks for what there cannot be."""
    return Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, reason)


def shown(value: Any) -> str:
    """Return what was sent, shortened.

    >>> shown("a"), shown(None)
    ("'a'", 'null')
    """
    text = "null" if value is None else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def listed(names: Iterable[str]) -> str:
    """Return names as they stand in a sentence."""
    return ", ".join(map(repr, names)) or "none"
