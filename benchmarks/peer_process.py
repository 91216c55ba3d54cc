"""One engine on one case, in a process of its own.

    python -m benchmarks.peer_process ENGINE CASE FOLDER TURNS

It answers the few rows and writes what it has beside them; then it waits for a line, since results are
compared first. It prints the seconds of each turn over all rows, a line each.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.measure import seconds_of
from benchmarks.peer_cases import CASES
from benchmarks.peer_engines import LOCAL, CannotSayError

READY, CANNOT = "ready", "cannot"
BYTEWAX = "Bytewax"
ON_SPARK = ("muntin on Spark", "Spark")
NAMES = (*ON_SPARK, *LOCAL, BYTEWAX)


def main(engine: str, name: str, folder: Path, turns: int) -> None:
    """Run an engine on the files of a case."""
    case = CASES[name]
    answer, table, run = parts(engine)
    try:
        found = answer(case, folder / "few")
    except CannotSayError as reason:
        print(f"{CANNOT} {reason}", flush=True)
        return
    pq.write_table(table(found).select([*case.columns]), folder / "found.parquet")
    print(READY, flush=True)
    if not sys.stdin.readline():
        return
    for _ in range(turns):
        print(seconds_of(lambda: run(answer(case, folder / "rows"))), flush=True)


def parts(engine: str) -> tuple[Callable[..., Any], Callable[[Any], Any], Callable[[Any], Any]]:
    """Return what answers, what makes a table of an answer, and what computes it to its end."""
    if engine in ON_SPARK:
        spark = import_module("benchmarks.peer_spark")
        return spark.ON_SPARK[engine], lambda frame: frame.toArrow(), spark.run
    if engine == BYTEWAX:
        return import_module("benchmarks.peer_bytewax").answer, as_it_is, as_it_is
    return LOCAL[engine], as_it_is, as_it_is


def as_it_is(table: Any) -> Any:
    """Return a table that is computed already."""
    return table


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
