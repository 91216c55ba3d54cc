"""Which windows a saved state belongs to: plain data that is saved with it and compared later.

Windows of ours are known by name, parameters and a version, however a duration was written. Users'
predicates, policies and windows are known by the digests of their functions, or by `version`.
"""

from typing import Any

from muntin.aggregates.functions import NOT_BEHAVIOUR, is_ours
from muntin.aggregates.identity import Identity, functions_of, plain
from muntin.windows.contextual import Punctuation
from muntin.windows.window import Window

VERSIONS: dict[str, int] = {}
"""Of windows of ours whose saved state has come to mean something else; all others have version 1."""


def window_identity(window: Window) -> Identity:
    """Return what a saved state must agree in with the window that is to continue it."""
    kind = type(window)
    parameters = {name: value for name, value in _attributes(window).items() if name != "version"}
    if not is_ours(kind):
        return _own(window, parameters)
    identity = {"window": kind.__name__, "version": VERSIONS.get(kind.__name__, 1)}
    if isinstance(window, Punctuation) and window.last == 1:
        del parameters["last"]
    if isinstance(window, Punctuation) and callable(parameters["predicate"]):
        predicate = {"predicate": parameters.pop("predicate")}
        known = functions_of(predicate, window.version, "Punctuation")
        others = {"parameters": parameters} if parameters else {}
        return {**identity, "name": "predicate", "functions": known, **others}
    return {**identity, "parameters": {name: plain(value) for name, value in parameters.items()}}


def _own(window: Window, parameters: dict[str, Any]) -> Identity:
    kind, version = type(window), getattr(window, "version", None)
    parts = {
        name: part
        for base in reversed(kind.__mro__)
        if not is_ours(base)
        for name, part in vars(base).items()
        if name not in NOT_BEHAVIOUR and name != "version" and not _is_slot(part)
    }
    says = {} if is_ours(kind.describe) else {"description": window.describe()}
    return {
        "window": kind.__name__,
        "name": kind.__name__,
        **says,
        "parameters": {name: _parameter(value, version) for name, value in parameters.items()},
        "functions": functions_of(parts, version, f"window {kind.__name__}"),
    }


def _attributes(window: Window) -> dict[str, Any]:
    slots = [
        name
        for base in type(window).__mro__
        for name, part in vars(base).items()
        if _is_slot(part) and hasattr(window, name)
    ]
    return {**{name: getattr(window, name) for name in slots}, **getattr(window, "__dict__", {})}


def _is_slot(part: Any) -> bool:
    return type(part).__name__ == "member_descriptor"


def _parameter(value: Any, version: Any) -> Any:
    """Return an attribute as plain data; with a version, one without a digest counts by its type."""
    try:
        return plain(value)
    except TypeError:
        if version is None:
            raise
        return {"type": type(value).__qualname__}
