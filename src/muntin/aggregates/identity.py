"""Which aggregate a saved state belongs to: plain data that is saved with it and compared later.

What is ours is known by name, parameters and version. Users' functions are known by a digest for one
Python version, or by the `version` that the user gave in place of it. `overflow` is not part of it:
a stream that stopped can continue with another choice.
"""

from collections.abc import Mapping
from typing import Any

from muntin.aggregates.aggregate import FUNCTIONS, Aggregate
from muntin.aggregates.encoding import SnapshotError
from muntin.aggregates.functions import KNOWN, PYTHON, digest

FACTS = ("commutative", "selective", "holistic", "nulls")
PLAIN = (type(None), bool, int, float, str, bytes)

Identity = dict[str, Any]


def identity_of(aggregate: Aggregate) -> Identity:
    """Return what a saved state must agree in with the aggregate that is to continue it."""
    identity: Identity = {
        "name": aggregate.name,
        "columns": list(aggregate.columns),
        "parameters": {name: plain(value) for name, value in aggregate.parameters},
        "parts": [identity_of(part) for part in aggregate.parts],
        "over": sorted(aggregate.only),
        "where": None if aggregate.where is None else aggregate.where.text,
    }
    if aggregate.is_built_in:
        return {**identity, "nulls": aggregate.nulls, "version": aggregate.version}
    functions = {name: f for name in FUNCTIONS if (f := getattr(aggregate, name)) is not None}
    identity |= {name: getattr(aggregate, name) for name in FACTS}
    what = f"aggregate {aggregate.name!r}"
    known = functions_of(functions, aggregate.version, what)
    if aggregate.version is None:
        known["digests"]["identity"] = _element(aggregate.identity)
    return {**identity, "functions": known}


def _element(element: Any) -> str:
    """Return a digest of an identity element, or its type if there is none."""
    try:
        return digest(element)
    except TypeError:
        return type(element).__qualname__


def functions_of(functions: Mapping[str, Any], version: Any, what: str) -> Identity:
    """Return what a user's functions are known by: the version given, or a digest of each."""
    if version is not None:
        return {"version": version}
    digests = {name: digest(f, f"{what}: {name}") for name, f in functions.items()}
    return {"python": PYTHON, "digests": digests}


def plain(value: Any) -> Any:
    """Return a parameter as plain data that does not depend on how it was written."""
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, Aggregate):
            return identity_of(value)
        if isinstance(value, tuple | list):
            return [plain(item) for item in value]
        if hasattr(value, "known_by"):
            return value.known_by()
        return value if isinstance(value, PLAIN) else {"digest": digest(value, "a parameter")}
    return int(value)


def refuse_other(
    wanted: Identity, saved: Any, what: str, *, trust_functions: bool = False, place: str = ""
) -> None:
    """Raise SnapshotError with all that differs between what is wanted and what was saved."""
    if not isinstance(saved, dict):
        raise SnapshotError(f"the {place or 'snapshot'} does not say which {what} it is of")
    found = differences(wanted, saved, place or "snapshot", trust_functions)
    if found:
        raise SnapshotError(f"the {place or 'snapshot'} is of another {what}: {'; '.join(found)}")


Path = tuple[str, ...]
"""Where in an identity something is: ("windows", "last hour", "size")."""
NAMED = ("windows", "aggregates")
"""Parts of a query that have several things by name."""


def differences(wanted: Any, saved: Any, place: str, trusted: bool, path: Path = ()) -> list[str]:
    """Return in words what differs, part by part."""
    if not (isinstance(wanted, dict) and isinstance(saved, dict)):
        return [] if _same(wanted, saved, place, trusted) else [_differ(path, wanted, saved, place)]
    if ("functions" in wanted) != ("functions" in saved):
        ours, theirs = (_whose(identity) for identity in (wanted, saved))
        return [f"{_told(path)} is {ours} here and {theirs} in the {place}"]
    if {*wanted} != {*saved} or (path[-1:] in [(n,) for n in NAMED] and [*wanted] != [*saved]):
        return [_differ(path, [*wanted], [*saved], place)]
    found = []
    for name, mine in wanted.items():
        if name == "functions":
            found += _functions(mine, saved[name], place, trusted, _told(path))
        else:
            below = path if name == "parameters" else (*path, name)
            found += differences(mine, saved[name], place, trusted, below)
    return found


def _same(wanted: Any, saved: Any, place: str, trusted: bool) -> bool:
    if isinstance(wanted, list) and isinstance(saved, list | tuple):
        pairs = zip(wanted, saved, strict=False)
        return len(wanted) == len(saved) and not any(
            differences(a, b, place, trusted) for a, b in pairs
        )
    return bool(type(wanted) is type(saved) and wanted == saved)


def _differ(path: Path, wanted: Any, saved: Any, place: str) -> str:
    part, *inner = path or ("it",)
    for name in reversed(inner):
        wanted, saved = {name: wanted}, {name: saved}
    return f"{part} is {wanted!r} here and {saved!r} in the {place}"


def _told(path: Path) -> str:
    if path[:1] and path[0] in NAMED:
        path = (f"{path[0][:-1]} {path[1]!r}", *path[2:])
    return ": ".join(path) or "it"


def _whose(identity: Identity) -> str:
    return f"your own {identity.get('name')!r}" if "functions" in identity else "one of muntin's"


def _functions(mine: Any, theirs: Any, place: str, trusted: bool, what: str) -> list[str]:
    """Compare versions, or digests made by the same Python."""
    if not isinstance(theirs, dict):
        return [f"{what}: the {place} does not say which functions it is of"]
    if "version" in mine and "version" in theirs:
        versions = mine["version"], theirs["version"]
        same = _same(*versions, place, trusted)
        return [] if same else [_differ((f"{what}: version",), *versions, place)]
    if trusted:
        return []
    if "version" in mine or "version" in theirs:
        version = mine.get("version", theirs.get("version"))
        where = "only here" if "version" in mine else f"only in the {place}"
        return [f"{what}: version={version!r} is given {where}; {TRUST}"]
    if mine["python"] != theirs.get("python"):
        return [
            f"{what}: its functions are known by digests of Python {theirs.get('python')} in the "
            f"{place}, and this is Python {mine['python']}; {TRUST}, and with version= the next state "
            "does not depend on Python"
        ]
    digests = theirs.get("digests")
    held = digests if isinstance(digests, dict) else {}
    names = [n for n in {**mine["digests"], **held} if mine["digests"].get(n) != held.get(n)]
    return [
        f"{what}: its {'' if name == 'identity' else 'function '}{name} is another one here than in "
        f"the {place}; if it means the same, {TRUST}, or give version= in place of digests"
        for name in names
    ]


TRUST = "trust_functions=True continues with it"

KNOWN[Aggregate] = identity_of
