"""Values of results as numbers and texts, for tables that have no other types."""

import json
import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values as plain ones: bytes as they are, and lists and structs as JSON."""
    values = [plain(value) for value in column.to_pylist()]
    return nested_as_json(values) if kinds.is_nested(column.type) else values


def nested_as_json(values: list[Any]) -> list[str | None]:
    """Return nested values as JSON."""
    return [None if value is None else as_json(value) for value in values]


def as_json(value: Any) -> str:
    """Return a value as JSON, which has neither NaN nor infinities: they become texts.

    >>> as_json({"b": [1.5, float("nan"), float("-inf")], "a": b"x"})
    '{"b": [1.5, "NaN", "-Infinity"], "a": "78"}'
    """
    return json.dumps(_finite(plain(value)), ensure_ascii=False, allow_nan=False, default=bytes.hex)


def plain(value: Any) -> Any:
    """Return a value that SQLite and JSON have: times in ISO 8601, decimals and NaN as text."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")  # toArrow gives them in UTC
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return str(value) if isinstance(value, date | time | Decimal) else value


def _finite(value: Any) -> Any:
    """Return plain values with infinities as texts."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
