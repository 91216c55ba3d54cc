"""The columns that a source will have, as far as its schema and select tell without Spark."""

import re
from collections.abc import Iterator
from pathlib import Path

from muntin.jobs.sources import FILES, Source
from muntin.query.query import Query

OPENING, CLOSING, QUOTES = "(<[", ")>]", "`'\""
NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))\s*")
ALIAS = re.compile(r".*\sas\s+(?:`((?:[^`]|``)+)`|(\w+))\s*", re.IGNORECASE | re.DOTALL)
UNKNOWN = ("://", "=", "*", "?", "[", "{")
"""What in a path means that its folders cannot be looked at here, or may have columns in their names."""
RATE = ("timestamp", "value")


def missing_columns(source: Source, query: Query) -> tuple[dict[str, str], list[str]]:
    """Return the columns that a query needs and a source will not have, and those that it will have.

    The columns that are missing come with what asks for them. Nothing is missing where it is not known
    what will be there.
    """
    there = _columns(source)
    if there is None:
        return {}, []
    asked = {query.time: "time", **dict.fromkeys(query.keys, "keys")}
    computed = [c for one in query.conditions if one.column is None for c in one.columns]
    for name in (*query.value_columns, *computed):
        asked.setdefault(name, "aggregates and windows")
    return {name: part for name, part in asked.items() if name not in there}, there


def _columns(source: Source) -> list[str] | None:
    """Return the names of a source's columns, or None where they are not known."""
    read = _read_columns(source)
    if not source.select:
        return read
    names: list[str] = []
    for expression in source.select:
        alias = ALIAS.fullmatch(expression) or NAME.fullmatch(expression)
        if expression.strip() == "*" and read is not None:
            names += read
        elif alias:
            names.append(_name(alias))
        else:
            return None
    return names


def _read_columns(source: Source) -> list[str] | None:
    """Return the columns before the select; folders named like plug=tv would add some to a schema."""
    if source.format == "rate":
        return [*RATE]
    if source.format not in FILES or source.schema is None or _may_have_partitions(source.place):
        return None
    found = [NAME.match(field) for field in _fields(source.schema)]
    return None if None in found else [_name(match) for match in found if match]


def _may_have_partitions(place: str) -> bool:
    return any(sign in place for sign in UNKNOWN) or any(Path(place).glob("*=*"))


def _name(match: re.Match[str]) -> str:
    quoted, plain = match.groups()
    return quoted.replace("``", "`") if quoted else plain


def _fields(schema: str) -> Iterator[str]:
    """Yield the fields of a schema in DDL, which commas outside of all brackets and quotes part."""
    field, depth, quote = "", 0, ""
    for character in schema:
        if quote:
            quote = "" if character == quote else quote
        elif character in QUOTES:
            quote = character
        elif character == "," and depth == 0:
            yield field
            field = ""
            continue
        depth += 0 if quote else (character in OPENING) - (character in CLOSING)
        field += character
    yield field
