"""Run the benchmarks: `python -m benchmarks [--quick] [--check] [rolling kernels latency ... papers]`.

What is measured ends in one table, what is drawn in pictures; `papers` draws all and makes one page.
Each benchmark keeps its results in `benchmarks/results`, a quick run in `benchmarks/results/quick`. With
--check the results that are kept stay, and the new run is compared with them.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.progress import Progress

from benchmarks import (
    asking,
    break_even,
    check,
    combines,
    court,
    firing,
    kernels,
    latency,
    object_latency,
    objects,
    papers,
    plots,
    rollfun,
    rolling,
    row_edges,
    single_rows,
    slicing,
    slicing_plots,
    spark_batch,
    spark_rolling,
    spark_streaming,
    store_plots,
    stores,
)
from benchmarks.measure import FULL, QUICK, Finding, Scale, save
from benchmarks.report import show

MEASURED = {
    "rolling": rolling,
    "rollfun": rollfun,
    "kernels": kernels,
    "latency": latency,
    "slicing": slicing,
    "single_rows": single_rows,
    "firing": firing,
    "row_edges": row_edges,
    "asking": asking,
    "spark_streaming": spark_streaming,
    "spark_rolling": spark_rolling,
    "spark_batch": spark_batch,
    "stores": stores,
}
DRAWN = {
    "objects": objects,
    "object_latency": object_latency,
    "break_even": break_even,
    "combines": combines,
    "plots": plots,
    "slicing_plots": slicing_plots,
    "store_plots": store_plots,
}
TOLD = {"court": court}
PAPERS = "papers"
NAMES = (*MEASURED, *DRAWN, *TOLD, PAPERS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", nargs="*", help=f"any of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="fewer rows, sizes and repeats")
    parser.add_argument(
        "--check", action="store_true", help="compare with the last results by ratios"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.what) - {*NAMES}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}: any of {', '.join(NAMES)}")
    what = arguments.what or NAMES
    console = Console() if sys.stdout.isatty() else Console(width=120)
    scale = replace(QUICK if arguments.quick else FULL, checked=arguments.check)
    findings = [f for name in MEASURED if name in what for f in measured(console, name, scale)]
    if findings:
        show(console, findings)
    for name, module in {**DRAWN, **TOLD}.items():
        if name in what or drawn(name, what):
            module.main(console, scale)
    if PAPERS in what and not arguments.check:
        console.print(f"written: {papers.build(scale)}")
    if arguments.check:
        names = [name for name in (*MEASURED, *DRAWN) if name in what or drawn(name, what)]
        sys.exit(not check.report(console, names, scale))


def drawn(name: str, what: Sequence[str]) -> bool:
    """Whether a picture is drawn because the page of the papers has it."""
    return PAPERS in what and name in DRAWN


def measured(console: Console, name: str, scale: Scale) -> list[Finding]:
    """Run the jobs of one module behind a progress bar and keep their findings."""
    findings: list[Finding] = []
    with Progress(console=console, transient=True) as progress:
        jobs = MEASURED[name].jobs(scale)
        task = progress.add_task(name, total=len(jobs))
        for label, job in jobs:
            progress.update(task, description=f"{name}: {label}")
            findings += job()
            progress.advance(task)
    console.print(f"raw results: {save(name, findings, scale)}")
    return findings


if __name__ == "__main__":
    main()
