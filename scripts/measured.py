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


BATCH = "spark_batch"
"""Its rows are shown where there is no run of peers."""
SPARK = "Spark's `window`"
CHOSEN = (
    *(
        Shown(f"windows of {size} s, every {step} s", "peers", f"{size} s / {step} s", "Spark", SPARK)
        for size, step in ((60, 1), (600, 1), (3600, 1), (60, 60))
    ),
    *(
        Shown(f"question {name} of NEXMark", "peers", f"NEXMark {name}", "Spark", SPARK)
        for name in ("q5", "q7", "q11", "q12")
    ),
    Shown("windows of 60 s, every 1 s", BATCH, "60 s / 1 s", "Spark", SPARK),
    Shown("windows of 600 s, every 1 s", BATCH, "600 s / 1 s", "Spark", SPARK),
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
        if shown.benchmark == BATCH and "peers" in there:
            continue
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


AGREES, CANNOT = "agrees", "cannot say it"


def court() -> str:
    """Return who agrees with which case of `conformance/`, and who differs where and why."""
    run = kept().get("court")
    if run is None:
        return "No result is kept. `muntin bench court` runs the cases.\n"
    rows = run["results"]
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    return "\n".join(
        [machine(run), "", *counted(rows, engines), *differing(rows), *each(rows, engines)]
    )


def counted(rows: list[Row], engines: list[str]) -> list[str]:
    """Return a table of how many cases each engine can say, and how many agree."""
    lines = ["| engine | cases it can say | agrees | differs |", "|---|---|---|---|"]
    for engine in engines:
        words = [row["verdict"] for row in rows if row["engine"] == engine]
        said, agree = len(words) - words.count(CANNOT), words.count(AGREES)
        lines.append(f"| {engine} | {said} | {agree} | {said - agree} |")
    return [*lines, ""]


def differing(rows: list[Row]) -> list[str]:
    """Return a table of who differs where and why."""
    lines = ["## Who differs", "", "| case | who | what it has | why |", "|---|---|---|---|"]
    for row in rows:
        if row["verdict"] not in (AGREES, CANNOT):
            has = row["has"].replace("|", "\\|")
            lines.append(f"| {row['name']} | {row['engine']} | `{has}` | {row['why']} |")
    return [*lines, ""]


def each(rows: list[Row], engines: list[str]) -> list[str]:
    """Return a table of all cases, with a column per engine."""
    words = {AGREES: "yes", CANNOT: ""}
    lines = ["## All cases", "", f"| case | rule | {' | '.join(engines)} |"]
    lines.append("|---" * (len(engines) + 2) + "|")
    for source, group in groupby(rows, key=lambda row: str(row["source"])):
        lines.append(f"| **{source}** |{' |' * (len(engines) + 1)}")
        for name, verdicts in groupby(group, key=lambda row: str(row["name"])):
            found = [*verdicts]
            cells = [words.get(row["verdict"], row["verdict"]) for row in found]
            lines.append(f"| {name} | {found[0]['rule']} | {' | '.join(cells)} |")
    return [*lines, ""]


def cases(rows: list[Row]) -> str:
    """Return a table of ratios, a row for each who of a case."""
    lines = ["| case | who | ratio | |", "|---|---|---|---|"]
    for case, group in groupby(rows, key=lambda row: str(row["case"])):
        for number, row in enumerate(group):
            label = case if number == 0 else ""
            value = f"{row['value']:.3g}"
            lines.append(f"| {label} | {row['who']} | {value} | {row['ratio']} |")
    return "\n".join(lines) + "\n"
