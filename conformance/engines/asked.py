"""What other engines need to know of a case: windows by kind and size, aggregates by name."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from conformance.cases import Case
from muntin.windows import Session, Sliding, Tumbling, Window

PLAIN = re.compile(r'^(\w+)\((?:"(\w+)")?\)$')


class CannotSayError(Exception):
    """An engine has no words of its own for what a case asks."""


@dataclass(frozen=True)
class Asked:
    """One window of time, and aggregates as (name, column)."""

    window: Window
    aggregates: dict[str, tuple[str, str | None]]
    keys: tuple[str, ...]


def asked(case: Case) -> Asked:
    """Return what a finished case asks, if it can be said with windows of time alone."""
    if case.steps is not None:
        raise CannotSayError("it is a stream")
    if set(case.asked) - {"windows", "aggregates", "keys", "on_bad_time"}:
        raise CannotSayError(f"no {', '.join(sorted(set(case.asked) - {'windows', 'aggregates'}))}")
    if len(case.asked["windows"]) > 1:
        raise CannotSayError("several windows in one query")
    if any(isinstance(row["t"], str) for row in case.rows):
        raise CannotSayError("calendars and time zones are not compared")
    (window,) = case.query().windows.values()
    kinds = (Tumbling, Sliding, Session)
    if not isinstance(window, kinds) or getattr(window, "measure", "time") != "time":
        raise CannotSayError(f"no {type(window).__name__}")
    return Asked(window, named_aggregates(case), case.keys)


def named_aggregates(case: Case) -> dict[str, tuple[str, str | None]]:
    """Return aggregates without parameters by their names and columns."""
    found = {}
    for name, text in case.asked["aggregates"].items():
        plain = PLAIN.match(text)
        if plain is None:
            raise CannotSayError(f"no {text}")
        found[name] = (plain[1], plain[2])
    return found


def rolled(case: Case) -> tuple[dict[str, Any], str, str, str | None]:
    """Return options, the name of the result, the aggregate and its column of a rolling case."""
    ((name, (aggregate, column)),) = named_aggregates(case).items()
    return case.rolling(), name, aggregate, column


def word(words: dict[str, Any], aggregate: str) -> Any:
    """Return an engine's word for an aggregate."""
    if aggregate not in words:
        raise CannotSayError(f"no {aggregate}")
    return words[aggregate]


def moment(value: Any) -> Any:
    """Return a time: a text is a date and time."""
    return datetime.fromisoformat(value) if isinstance(value, str) else value
