"""Tables of a job file: each value has a kind, and a name that is not known is an error that helps."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
KINDS = {str: "a text", bool: "true or false"}


class JobError(ValueError):
    """A job file is wrong; the message says where, and what to do."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant, or else which there are.

    >>> nearest("maxx", ["Min", "Max", "Mean"])
    'did you mean Max?'
    >>> nearest("zzz", ["Min", "Max"])
    'there are Min, Max'
    """
    names = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), names, n=1)
    return f"did you mean {names[close[0]]}?" if close else f"there are {', '.join(names.values())}"


class Section:
    """One table of a job file, which knows where it is."""

    def __init__(self, file: Path, name: str, values: Any) -> None:
        self._file = file
        self._name = name
        if not isinstance(values, dict):
            raise JobError(f"{file}: [{name}] is a table, got {_kind(values)}")
        self._values = values

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def error(self, what: object, key: str = "") -> JobError:
        """Return an error that says where it is."""
        return JobError(f"{self._file}, [{self._name}]{' ' if key else ''}{key}: {what}")

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return what is in the table."""
        return self._values.items()

    def only(self, known: Iterable[str], what: str = "") -> None:
        """Refuse names that are not among those that are known."""
        names = list(known)
        for key in self._values:
            if key not in names:
                raise self.error(f"this is not known{what}: {nearest(key, names)}", key)

    def need(self, key: str, kind: type[T], example: str) -> T:
        """Return a value that must be there."""
        if key not in self._values:
            raise self.error(f"{key} is missing: write it like {key} = {example}")
        return self.get(key, kind, None)  # type: ignore[return-value]

    def get(self, key: str, kind: type[T], default: T | None) -> T | None:
        """Return a value of the right kind, or the default."""
        value = self._values.get(key, default)
        if value is not default and not isinstance(value, kind):
            raise self.error(f"this must be {KINDS[kind]}, got {_kind(value)}", key)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return one text or a list of them as several."""
        given = self._values.get(key, [])
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise self.error(f"this must be a text or a list of texts, got {_kind(given)}", key)
        return tuple(texts)

    def place(self, key: str, example: str) -> str:
        """Return a path, which a job file gives relative to itself, or an address as it is."""
        given = self.need(key, str, example)
        return given if "://" in given else str(self._file.absolute().parent / given)

    def options(self) -> dict[str, Any]:
        """Return what is under `options`, by dotted names."""
        return Section(self._file, f"{self._name}.options", self._values.get("options", {})).flat()

    def flat(self, prefix: str = "") -> dict[str, Any]:
        """Return settings by their dotted names, which TOML reads as tables in tables."""
        flat: dict[str, Any] = {}
        for key, value in self._values.items():
            if isinstance(value, dict):
                inner = Section(self._file, f"{self._name}.{key}", value)
                flat |= inner.flat(f"{prefix}{key}.")
            elif isinstance(value, str | int | float):
                flat[prefix + key] = value
            else:
                raise self.error(
                    f"this must be a text, a number, true or false, got {_kind(value)}", key
                )
        return flat


def _kind(value: Any) -> str:
    """Say what a value is; a text, a list or a table may hold secrets, and is not shown."""
    kinds = {str: "a text", list: "a list", dict: "a table"}
    return next((what for kind, what in kinds.items() if isinstance(value, kind)), repr(value))
