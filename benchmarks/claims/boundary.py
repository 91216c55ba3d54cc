"""Zhang, Akbarinia and Toumani, KDD 2021: the Parallel Boundary Aggregator."""

from collections.abc import Callable

from benchmarks.claims.reading import (
    LAST,
    Claim,
    Found,
    Paper,
    Read,
    Reading,
    Section,
    every,
    short,
    times,
)
from benchmarks.object_latency import BOUNDARY, COUNT, COUNTED, HOURS, SUMMARY, TIME

GIL = (
    "Interpreted threads of one process take turns: while the second thread computes lcs, this "
    "one waits. The card of Pba says so."
)
STATEMENTS = (
    "Interpreted, statements count and not combines: Sba keeps slices, chunks and a csa in "
    "Python, where a stack or a deque is one call into C."
)
LONGER = TIME.format(HOURS[-1])
LARGER = COUNT.format(COUNTED[-1])


def summaries(panels: list[str]) -> Callable[[Found], list[list[str]]]:
    """Return what makes the paper's table of summaries."""

    def rows(found: Found) -> list[list[str]]:
        cells = [["window", "algorithm", *SUMMARY]]
        for panel in panels:
            there = {p["who"] for p in found.points if p["panel"] == panel}
            for who in (name for name in BOUNDARY if name in there):
                line = found.line(who, f"{panel}, summary")
                cells.append([panel, who, *(short(line[what]) for what in SUMMARY)])
        return cells

    return rows


def largest(a: str, b: str, least: float, panel: str) -> Read:
    """Read whether a's largest latency is at least so many times b's."""

    def read(found: Found) -> Reading:
        ours, theirs = (found.line(who, f"{panel}, summary")["Max"] for who in (a, b))
        said = f"largest: {a} {short(ours)}, {b} {short(theirs)} nanoseconds ({panel})"
        return Reading(said, ours >= least * theirs)

    return read


def medians(a: str, b: str, panel: str) -> Read:
    """Read whether a's median is at most b's."""

    def read(found: Found) -> Reading:
        ours, theirs = (found.line(who, f"{panel}, summary")["Med"] for who in (a, b))
        said = f"medians: {a} {short(ours)}, {b} {short(theirs)} nanoseconds ({panel})"
        return Reading(said, ours <= theirs)

    return read


PAPER = Paper(
    "boundary",
    "Efficient Incremental Computation of Aggregations over Sliding Windows",
    "Zhang, Akbarinia, Toumani; KDD 2021",
    (
        Section(
            "Figure 4, section 5.1.1",
            "Throughput of the maximum, interpreted",
            "objects",
            "Figure 4",
            (
                Claim(
                    "SBA is faster than Two-Stacks at every size.",
                    times("Sba", "TwoStacks", 1.0, panel="Max"),
                    STATEMENTS,
                ),
                Claim(
                    "SBA is faster than SlickDeque at every size.",
                    times("Sba", "SlickDeque", 1.0, panel="Max"),
                    STATEMENTS,
                ),
                Claim(
                    "PBA gets better with larger windows, and better than SBA.",
                    times("Pba", "Sba", 1.0, panel="Max", at=LAST),
                    GIL,
                ),
                Claim(
                    "PBA has 2.5 times the throughput of Two-Stacks from 2^15 on.",
                    times("Pba", "TwoStacks", 2.5, panel="Max", at=LAST),
                    GIL,
                ),
                Claim(
                    "Recalculating falls behind soon.",
                    times("Sba", "Recalc", 10, panel="Max", at=LAST),
                    STATEMENTS,
                ),
            ),
            picture="objects_boundary",
        ),
        Section(
            "Figure 4, section 5.1.1",
            "The same, compiled: rolling over an array",
            "plots",
            "Figures 4 and 10",
            (
                Claim(
                    "SBA is faster than Two-Stacks at every size.",
                    every(
                        times("Sba", "TwoStacksLite", 1.0, panel="max"),
                        times("Sba", "TwoStacksLite", 1.0, panel="std"),
                    ),
                    "Two-Stacks Lite, with one partial per value, stands for Two-Stacks here.",
                ),
            ),
            picture="throughput",
            setting="Compiled loops have Sba and the Lite versions; two threads take halves of "
            "the array each instead of PBA's hand-over of chunks.",
        ),
        Section(
            "Figure 7, Tables 2 and 3, section 5.1.2",
            "Latency of single windows, interpreted",
            "object_latency",
            "Figure 7",
            (
                Claim(
                    "Two-Stacks has periodic spikes, an order of magnitude above SlickDeque's.",
                    largest("TwoStacks", "SlickDeque", 10, LARGER),
                    STATEMENTS,
                ),
                Claim(
                    "SBA has periodic spikes too, lower than those of Two-Stacks.",
                    every(*(largest("TwoStacks", "Sba", 1.0, p) for p in (LARGER, LONGER))),
                    STATEMENTS,
                ),
                Claim(
                    "PBA has none: its largest latency is below SBA's by an order of magnitude.",
                    every(*(largest("Sba", "Pba", 10, p) for p in (LARGER, LONGER))),
                    GIL,
                ),
                Claim(
                    "SBA and PBA have lower medians than Two-Stacks.",
                    every(medians("Sba", "TwoStacks", LARGER), medians("Sba", "TwoStacks", LONGER)),
                    STATEMENTS,
                ),
            ),
            picture="object_instances",
            table=summaries([COUNT.format(n) for n in COUNTED] + [TIME.format(n) for n in HOURS]),
            setting="Tables 2 and 3 are in nanoseconds. A slice of the MomentSketch is a second; "
            "an hour has 3,600. SlickDeque does not serve a MomentSketch: it is neither selective "
            "nor has it an inverse.",
        ),
    ),
    "Figures 5 and 6 (other slides, and windows of time), in which the paper finds what it finds "
    "in Figure 4, and Figure 8 (Flink).",
)
