"""The court: every case of `conformance/` on every engine, and who differs where and why.

Nothing is timed. An engine that has no words of its own for a case is left out of it.
"""

from typing import Any

from conformance.cases import cases
from conformance.engines import ENGINES
from conformance.runner import AGREES, CANNOT, Verdict, run
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.measure import Scale, save

UNKNOWN = "not known"


def main(console: Console, scale: Scale) -> None:
    """Run the cases, print who differs, and keep it all."""
    verdicts = [
        run(case, engine)
        for case in track([*cases()], description="court", console=console)
        for engine in ENGINES
    ]
    console.print(differences(verdicts))
    console.print(counts(verdicts))
    console.print(f"raw results: {save('court', [*map(plain, verdicts)], scale)}")


def plain(verdict: Verdict) -> dict[str, Any]:
    """Return what is kept of a verdict."""
    case = verdict.case
    told = {"name": case.name, "source": case.source, "rule": case.rule}
    why = case.differs.get(verdict.engine, "")
    found = {"engine": verdict.engine, "verdict": verdict.word, "has": verdict.why, "why": why}
    return told | found


def differences(verdicts: list[Verdict]) -> Table:
    """Return a table of who differs, with what, and why as far as the case knows."""
    table = Table(box=SIMPLE_HEAD, title="who differs")
    for heading in ("case", "who", "what it has", "why"):
        table.add_column(heading)
    for verdict in verdicts:
        if verdict.word not in (AGREES, CANNOT):
            why = verdict.case.differs.get(verdict.engine, UNKNOWN)
            table.add_row(verdict.case.name, verdict.engine, verdict.why, why)
    return table


def counts(verdicts: list[Verdict]) -> Table:
    """Return how many cases each engine can say, and in how many it agrees."""
    table = Table(box=SIMPLE_HEAD)
    for heading in ("engine", "cases", "agrees", "differs"):
        table.add_column(heading, justify="left" if heading == "engine" else "right")
    for engine in ENGINES:
        words = [v.word for v in verdicts if v.engine == engine and v.word != CANNOT]
        agrees = words.count(AGREES)
        table.add_row(engine, *map(str, (len(words), agrees, len(words) - agrees)))
    return table
