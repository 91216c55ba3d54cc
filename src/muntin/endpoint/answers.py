"""Answers to requests for lookups: what is asked is checked, looked up, and written as JSON."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pyarrow as pa

from muntin.aggregates import SnapshotError
from muntin.endpoint.json_values import form_of, read_column, read_json, read_time, written
from muntin.endpoint.refusal import Refusal, listed, shown, unusable
from muntin.serving.lookup import Lookup
from muntin.stores import StoreError

AT, KEYS = "at", "keys"


@dataclass(frozen=True)
class Limits:
    """What a request may ask for."""

    keys: int = 1000
    body: int = 1_000_000  # bytes


class Answers:
    """Answers requests from a publication. One that was away is opened again."""

    def __init__(self, open_lookup: Callable[[], Lookup], limits: Limits) -> None:
        self.limits = limits
        self._open = open_lookup
        self._lookup: Lookup | None = None
        self.open()

    def open(self) -> Lookup:
        """Return the lookup, a new one if the last one failed; refuse keys that JSON cannot say."""
        lookup = self._lookup
        if lookup is None:
            try:
                lookup = self._open()
            except KeyError as error:
                raise SnapshotError(
                    f"{error.args[0]}; for a lookup, publish a condition in SQL as a boolean column, "
                    "and name that column in where="
                ) from error
            for name, kind in lookup.key_types.items():
                if form_of(kind) is None:
                    raise SnapshotError(
                        f"key {name!r} was published as {kind}, which cannot be asked for in JSON: "
                        "publish it as a text, a number, a time or a boolean"
                    )
            self._lookup = lookup
        return lookup

    def published(self) -> Lookup:
        """Return the lookup, or refuse a request because there is none."""
        with self._available():
            return self.open()

    def answer(self, body: bytes) -> dict[str, Any]:
        """Return what the windows hold for the keys and the time that a body names."""
        asked = read_json(body)
        lookup = self.published()
        names = [*lookup.key_types]
        keys = self._keys(_members(asked, [AT, KEYS] if names else [AT]), names)
        at = read_time(asked[AT], lookup.time_type)
        columns = [
            read_column([key[name] for key in keys], kind, name)
            for name, kind in lookup.key_types.items()
        ]
        with self._available():
            found = _looked_up(lookup, pa.table(columns, names), at)
        lists = [written(column.combine_chunks()) for column in found.columns]
        rows = [dict(zip(found.column_names, row, strict=True)) for row in zip(*lists, strict=True)]
        return {AT: asked[AT], "rows": rows}

    def health(self) -> dict[str, Any]:
        """Return that the publication can be read, and its watermark."""
        with self._available():
            return {"status": "ok", "watermark": self.open().watermark()}

    def _keys(self, asked: dict[str, Any], names: list[str]) -> list[dict[str, Any]]:
        """Return the keys that are asked for, each with all its columns."""
        keys = asked.get(KEYS, [])
        if not isinstance(keys, list):
            raise unusable(f"'keys' is a list of objects, got {shown(keys)}")
        if len(keys) > self.limits.keys:
            raise unusable(
                f"a request may ask for {self.limits.keys} keys, got {len(keys)}: send several requests"
            )
        return [_members(key, names, f"keys[{i}]") for i, key in enumerate(keys)]

    @contextmanager
    def _available(self) -> Iterator[None]:
        """Refuse a request because the publication cannot be read, and open it again next time."""
        try:
            yield
        except (StoreError, ValueError, TypeError) as error:
            self._lookup = None
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error


def _looked_up(lookup: Lookup, keys: pa.Table, at: int) -> pa.Table:
    """Return what a lookup gives; what it refuses is a refusal of the request."""
    try:
        return lookup.get(keys if lookup.key_types else None, at=at)
    except SnapshotError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise unusable(str(error)) from error


def _members(value: Any, names: list[str], place: str = "the body") -> dict[str, Any]:
    """Return an object that has just these members."""
    if not isinstance(value, dict):
        raise unusable(f"{place} is an object with {listed(names)}, got {shown(value)}")
    for name in value:
        if name not in names:
            raise unusable(f"{place}: {shown(name)} is not known: there is {listed(names)}")
    for name in names:
        if name not in value:
            raise unusable(f"{place}: {name!r} is missing")
    return value
