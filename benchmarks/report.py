"""One table of findings, with a bar for speed."""

from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Finding

BLOCKS = 12
LONG_MS = 10_000
EIGHTHS = " ▏▎▍▌▋▊▉"
JUSTIFIED = {"measured": "right", "ratio": "right"}
STYLES = {"error": ".1e", "ms": ",.1f", "M rows/s": ".1f", "MB": ",.3f", "us": ",.1f"}
NOTE = (
    "its/ours: its time (or error) in multiples of muntin's on one thread. ours/its: the reverse, for "
    "what muntin is to come near. The bar is speed, the fastest of a case full."
)


def show(console: Console, findings: list[Finding]) -> None:
    """Print the findings and how many targets are met."""
    table = Table(box=SIMPLE_HEAD, title="measured and asked")
    for heading in ("fig.", "case and who", "measured", "speed", "ratio", "target", "met"):
        wraps = heading == "case and who"
        table.add_column(heading, no_wrap=not wraps, justify=JUSTIFIED.get(heading, "left"))
    for case, group in groupby(findings, key=lambda finding: finding.case):
        table.add_row("", f"[bold]{case}[/]")
        for finding in group:
            table.add_row(*cells(finding))
    console.print(table)
    asked = [finding for finding in findings if finding.met is not None]
    console.print(NOTE)
    console.print(f"{sum(bool(finding.met) for finding in asked)} of {len(asked)} targets met")


def cells(finding: Finding) -> list[str]:
    """Return one row of the table."""
    value = "" if not finding.ratio else f"{short(finding.value)} {finding.ratio}"
    speed = "" if finding.speed is None else bar(finding.speed)
    target = str(finding.target) if finding.target else ""
    met = {None: "", True: "[green]yes[/]", False: "[bold red]no[/]"}[finding.met]
    who = f"  [cyan]{finding.who}[/]" if finding.who == "muntin" else f"  {finding.who}"
    return [str(finding.figure), who, number(finding), speed, value, target, met]


def number(finding: Finding) -> str:
    """Return the measured number with its unit; long times are seconds."""
    if finding.unit == "ms" and finding.measured >= LONG_MS:
        return f"{finding.measured / 1e3:,.1f} s"
    return f"{finding.measured:{STYLES.get(finding.unit, ',.0f')}} {finding.unit}"


def short(value: float) -> str:
    """Return three digits of a ratio, more if it is large.

    >>> short(1.234), short(1234.5), short(5e10)
    ('1.23', '1,234', '5e+10')
    """
    return f"{value:,.0f}" if 100 <= value < 1e6 else f"{value:.3g}"


def bar(share: float) -> str:
    """Return blocks in proportion to a share of the fastest.

    >>> bar(0.5)
    '██████'
    """
    eighths = max(1, round(share * BLOCKS * 8))
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
