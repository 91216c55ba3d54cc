"""Run the benchmarks: `python -m benchmarks [--quick] [rolling kernels latency slicing ... papers]`.

What is measured ends in one table, what is drawn in pictures; `papers` draws all and makes one page.
"""

import argparse
import sys

from rich.console import Console
from rich.progress import Progress

from benchmarks import (
    break_even,
    combines,
    firing,
    kernels,
    latency,
    object_latency,
    objects,
    papers,
    plots,
    rolling,
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
    "kernels": kernels,
    "latency": latency,
    "slicing": slicing,
    "single_rows": single_rows,
    "firing": firing,
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
PAPERS = "papers"
NAMES = (*MEASURED, *DRAWN, PAPERS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", nargs="*", help=f"any of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="fewer rows, sizes and repeats")
    arguments = parser.parse_args()
    unknown = set(arguments.what) - {*NAMES}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}: any of {', '.join(NAMES)}")
    what = arguments.what or NAMES
    console = Console() if sys.stdout.isatty() else Console(width=120)
    scale = QUICK if arguments.quick else FULL
    findings = [f for name in MEASURED if name in what for f in measured(console, name, scale)]
    if findings:
        show(console, findings)
    for name, module in DRAWN.items():
        if name in what or PAPERS in what:
            module.main(console, scale)
    if PAPERS in what:
        console.print(f"written: {papers.build(scale)}")


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
    console.print(f"raw results: {save(name, findings)}")
    return findings


if __name__ == "__main__":
    main()
