"""Tables of ratios from the results that are kept in `benchmarks/results`."""

import json
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
NONE = "No result is kept. `make bench` measures your machine.\n"
Row = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """A ratio of the README: how it is said, and by what its benchmark, case and peer begin."""

    says: str
    benchmark: str
    case: str
    who: str
    peer: str


CHOSEN = (
    Shown("windows of 60 s, every 1 s", "spark_batch", "60 s / 1 s", "Spark", "Spark's `window`"),
    Shown("windows of 600 s, every 1 s", "spark_batch", "600 s / 1 s", "Spark", "Spark's `window`"),
    Shown("rolling maximum of 1024 rows", "rolling", "max, n = 1024", "Polars", "Polars"),
    Shown("rolling maximum of 1024 rows", "rolling", "max, n = 1024", "pandas", "pandas"),
    Shown("rolling maximum of 1024 rows", "rolling", "max, n = 1024", "DuckDB", "DuckDB"),
    Shown("rolling median of 1024 rows", "rolling", "median, n = 1024", "Polars", "Polars"),
    Shown("rolling median of 1024 rows", "rolling", "median, n = 1024", "pandas", "pandas"),
)  # fmt: skip


def kept() -> dict[str, Row]:
    """Return what is kept, by benchmark; a full run comes before a quick one."""
    found: dict[str, Row] = {}
    for folder in (RESULTS / "quick", RESULTS):
        for path in sorted(folder.glob("*.json")):
            found[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return found


def chosen() -> str:
    """Return the table of the README: who is how many times faster."""
    there, rows, used = kept(), [], {}
    for shown in CHOSEN:
        run = there.get(shown.benchmark, {"results": []})
        ratio = next((said(row) for row in run["results"] if matches(row, shown)), None)
        if ratio is not None:
            rows.append(f"| {shown.says} | {shown.peer} | {ratio} |")
            used[shown.benchmark] = run
    if not rows:
        return NONE
    lines = ["| what | beside | its time, in multiples of muntin's |", "|---|---|---|", *rows, ""]
    return "\n".join([*lines, *(f"{machine(run)}" for run in [*used.values()][:1])]) + "\n"


def matches(row: Row, shown: Shown) -> bool:
    """Whether a finding is the one that is shown."""
    begins = row.get("case", "").startswith(shown.case) and row["who"].startswith(shown.who)
    return begins and "its/ours" in row["ratio"]


def said(row: Row) -> str:
    """Return a ratio as it is written; a bound says that it is one.

    >>> said({"ratio": "or more its/ours", "value": 81.23}), said({"ratio": "its/ours", "value": 0.8})
    ('81 or more', '0.80')
    """
    value = row["value"]
    number = f"{value:,.0f}" if value >= 20 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"
    return f"{number} or more" if row["ratio"] != "its/ours" else number


def machine(run: Row) -> str:
    """Return where and when a run was made."""
    facts, versions = run["machine"], run["versions"]
    names = ("muntin", "python", "pyspark", "polars", "pandas", "duckdb")
    with_them = ", ".join(f"{name} {versions[name]}" for name in names if name in versions)
    size = "a quick run" if run["quick"] else "a full run"
    where = f"{facts['cores']} cores ({facts['cpu']})"
    return f"Measured on {run['date']} by {size} on {where}: {with_them}."


def everything() -> str:
    """Return all ratios that are kept, a section for each benchmark."""
    sections = []
    for name, run in kept().items():
        rows = [row for row in run["results"] if row.get("ratio")]
        if rows:
            sections.append(f"## {name}\n\n{machine(run)}\n\n{cases(rows)}")
    return "\n".join(sections) or NONE


def cases(rows: list[Row]) -> str:
    """Return a table of ratios, a row for each who of a case."""
    lines = ["| case | who | ratio | |", "|---|---|---|---|"]
    for case, group in groupby(rows, key=lambda row: str(row["case"])):
        for number, row in enumerate(group):
            label = case if number == 0 else ""
            value = f"{row['value']:.3g}"
            lines.append(f"| {label} | {row['who']} | {value} | {row['ratio']} |")
    return "\n".join(lines) + "\n"
