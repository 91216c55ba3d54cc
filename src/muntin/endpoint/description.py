"""What a server answers, as OpenAPI describes it."""

from typing import Any

import pyarrow as pa

from muntin._version import __version__
from muntin.endpoint.answers import AT, KEYS, Limits
from muntin.endpoint.json_values import MOMENT, WHOLE, form_of
from muntin.query.as_of import columns_of
from muntin.query.query import Query

TYPES = "application/json"
REASONS = {
    "400": "The body is not JSON.",
    "401": "The token is missing or wrong.",
    "403": "The server was asked by a name that is not its own.",
    "408": "The body did not come in time.",
    "413": "The body is too large.",
    "422": "The keys or the time cannot be looked up: of another type, too many, or expired.",
    "503": "The store is away, or has another publication by now.",
}
EVERYWHERE = ("401", "403")


def description(
    query: Query, types: dict[str, pa.DataType], time: pa.DataType, limits: Limits
) -> Any:
    """Return the description of a server.

    query: the query that was published.
    types: the types of its keys.
    time: the type of its times.
    limits: what a request may ask for.
    """
    keys = {name: key_schema(kind) for name, kind in types.items()}
    results: dict[str, Any] = {f"{window}_{name}": {} for window, name in columns_of(query)}
    moment = _schema(WHOLE if pa.types.is_integer(time) else MOMENT)
    asked: dict[str, Any] = {AT: moment}
    if keys:
        asked[KEYS] = {"type": "array", "maxItems": limits.keys, "items": _object(keys)}
    answer = {AT: moment, "rows": {"type": "array", "items": _object(keys | results)}}
    lookup = {
        "summary": "What the windows hold at a time, for each key; rows before the time count.",
        "requestBody": {"required": True, "content": {TYPES: {"schema": _object(asked)}}},
        "responses": _responses(_object(answer), *REASONS),
    }
    health = _object({"status": {"const": "ok"}, "watermark": {"type": ["integer", "null"]}})
    return {
        "openapi": "3.1.0",
        "info": {"title": "muntin", "version": __version__},
        "security": [{}, {"bearer": []}, {"basic": []}],
        "paths": {
            "/lookup": {"post": lookup},
            "/health": {"get": _get("Whether lookups are answered.", health, "503")},
            "/openapi.json": {"get": _get("This description.", {"type": "object"}, "503")},
            "/metrics": {"get": _metrics()},
        },
        "components": {
            "securitySchemes": {
                kind: {"type": "http", "scheme": kind} for kind in ("bearer", "basic")
            }
        },
    }


def key_schema(kind: pa.DataType) -> dict[str, Any]:
    """Return the schema of a key, which may be null.

    >>> key_schema(pa.int8())
    {'type': ['integer', 'null'], 'minimum': -128, 'maximum': 127}
    """
    form = form_of(kind)
    assert form is not None
    schema = _schema(form)
    if form is WHOLE:
        signed = int(pa.types.is_signed_integer(kind))
        most = 2 ** (kind.bit_width - signed) - 1
        schema |= {"minimum": -(most + 1) * signed, "maximum": most}
    return schema | {"type": [form.name, "null"]}


def _schema(form: Any) -> dict[str, Any]:
    return {"type": form.name} | ({"format": form.form} if form.form else {})


def _object(members: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": [*members],
        "additionalProperties": False,
    }


def _get(what: str, schema: dict[str, Any], *reasons: str) -> dict[str, Any]:
    return {"summary": what, "responses": _responses(schema, *EVERYWHERE, *reasons)}


def _metrics() -> dict[str, Any]:
    fine = {"description": "Metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    refused = _responses({}, *EVERYWHERE)
    return {"summary": "Figures for Prometheus.", "responses": refused | {"200": fine}}


def _responses(schema: dict[str, Any], *reasons: str) -> dict[str, Any]:
    """Return what comes back: an answer, or an error that says what is wrong."""
    error = _object({"error": {"type": "string"}})
    found = {"200": {"description": "The answer.", "content": {TYPES: {"schema": schema}}}}
    for status in reasons:
        found[status] = {"description": REASONS[status], "content": {TYPES: {"schema": error}}}
    return found
