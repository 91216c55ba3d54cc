"""Run cases on engines, and compare what comes out with what must."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from conformance.cases import Case, Row
from conformance.engines import ENGINES, CannotSayError

AGREES, DIFFERS, FAILS, CANNOT = "agrees", "differs", "fails", "cannot say it"
CLOSE = 1e-9


@dataclass(frozen=True)
class Verdict:
    """What an engine did with a case; `why` says what differs, or why it cannot say it."""

    case: Case
    engine: str
    word: str
    why: str = ""

    @property
    def explained(self) -> bool:
        """Whether the case knows why this engine differs, or it does not."""
        return self.word in (AGREES, CANNOT) or self.engine in self.case.differs


def run(case: Case, engine: str) -> Verdict:
    """Run a case on an engine."""
    try:
        found = ENGINES[engine](case)
    except CannotSayError as error:
        return Verdict(case, engine, CANNOT, str(error))
    except Exception as error:  # whatever an engine raises is its answer
        return Verdict(case, engine, FAILS, f"{type(error).__name__}: {error}".splitlines()[0])
    wrong = difference(case.expected, found, ordered=case.rolls)
    return Verdict(case, engine, DIFFERS if wrong else AGREES, wrong)


def run_all(cases: Iterable[Case], engines: Iterable[str]) -> list[Verdict]:
    """Run every case on every engine."""
    names = [*engines]
    return [run(case, engine) for case in cases for engine in names]


def difference(expected: list[Row], found: list[Row], *, ordered: bool) -> str:
    """Return the first difference in words, nothing if there is none.

    >>> difference([{"n": 1}], [{"n": 1.0}], ordered=False)
    ''
    >>> difference([{"n": None}], [{"n": float("nan")}], ordered=True)
    "has {'n': nan} instead of {'n': None}"
    >>> difference([{"n": 1}, {"n": 2}], [{"n": 2}], ordered=False)
    "has not {'n': 1}"
    """
    if ordered:
        pairs = zip(expected, found, strict=False)
        for want, have in pairs:
            if not same(want, have):
                return f"has {have} instead of {want}"
        return "" if len(expected) == len(found) else f"has {len(found)} rows, not {len(expected)}"
    left = [*found]
    for want in expected:
        there = next((i for i, have in enumerate(left) if same(want, have)), None)
        if there is None:
            return f"has not {want}"
        del left[there]
    return f"has also {left[0]}" if left else ""


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal: null is not NaN, and doubles may differ in the last bits."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, int | float) and isinstance(b, int | float):
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE)
    return bool(a == b)
