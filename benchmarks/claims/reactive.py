"""Tangwongsan, Hirzel, Schneider and Wu, VLDB 2015: the Reactive Aggregator and FlatFAT."""

import numpy as np

from benchmarks.claims.reading import TIE, Claim, Found, Paper, Reading, Section, short, times

NEVER = "never"
# Table 3: from which window on FlatFAT is faster, and ten times faster, than evaluating anew.
PUBLISHED = {
    "Count": (None, None),
    "Sum": (370, 5200),
    "Sum of doubles": (290, 5200),
    "Max": (260, 5200),
    "Max of doubles": (130, 3600),
    "Mean": (10, 900),
    "MinCount": (200, 4480),
    "Std": (10, 700),
    "ArgMax": (130, 2770),
    "ArgMax of doubles": (250, 5810),
    "Collect": (None, None),
}
PAYING = [who for who, (size, _) in PUBLISHED.items() if size is not None]
STRAIGHT = 1 - 1 / TIE


def rows(found: Found) -> list[list[str]]:
    """Return the paper's table beside ours."""
    cells = [["aggregate", "faster from: paper", "ours", "10 times from: paper", "ours"]]
    for who, (even, ten) in PUBLISHED.items():
        line = found.line(who)
        sizes = (even, line[1], ten, line[10])
        cells.append([who, *(NEVER if size is None else short(size) for size in sizes)])
    return cells


def within(factor: int, limit: int) -> Reading:
    """Read whether all that pay off in the paper do so from a window no larger than its largest."""

    def read(found: Found) -> Reading:
        sizes = {who: found.line(who)[factor] for who in PAYING}
        never = [who for who, size in sizes.items() if size is None]
        if never:
            return Reading(f"never for {', '.join(never)}", False)
        said = (
            f"from windows of {short(min(sizes.values()))} to {short(max(sizes.values()))} values"
        )
        return Reading(said, max(sizes.values()) <= limit)

    return read


def never(who: str) -> Reading:
    """Read whether FlatFAT does not pay off in any window that was tried."""

    def read(found: Found) -> Reading:
        size = found.line(who)[1]
        return Reading(NEVER if size is None else f"from {short(size)} values", size is None)

    return read


def costlier_sooner(found: Found) -> Reading:
    """Read whether the costly standard deviation pays off before the cheap sum."""
    std, total = found.line("Std")[1], found.line("Sum")[1]
    said = f"Std from {name(std)} values, Sum from {name(total)}"
    return Reading(said, std is not None and (total is None or std <= total))


def name(size: float | None) -> str:
    return NEVER if size is None else short(size)


def logarithmic(found: Found) -> Reading:
    """Read how far costs are from a straight line over the logarithm of n."""
    worst = 0.0
    for panel in ("Max", "Std"):
        line = found.line("FlatFat", panel)
        xs, ys = np.log2([*line]), np.array([*line.values()])
        fitted = np.polyval(np.polyfit(xs, ys, 1), xs)
        worst = max(worst, float(np.max(np.abs(fitted / ys - 1))))
    said = f"no cost is further than {100 * worst:.0f} % from a straight line over log n"
    return Reading(said, worst <= STRAIGHT)


PAPER = Paper(
    "reactive",
    "General Incremental Sliding-Window Aggregation",
    "Tangwongsan, Hirzel, Schneider, Wu; VLDB 2015",
    (
        Section(
            "Table 3, section 6.2",
            "Windows from which FlatFAT is faster than folding anew",
            "break_even",
            "Table 3",
            (
                Claim(
                    "Except for Count and Collect, FlatFAT is faster from windows of 10 to 370 "
                    "values on.",
                    within(1, 370),
                    "Interpreted, every step of the tree costs statements of Python beside its "
                    "combine.",
                ),
                Claim(
                    "It is ten times faster from windows of 700 to 5,810 values on.",
                    within(10, 5810),
                    "Interpreted, every step of the tree costs statements of Python beside its "
                    "combine.",
                ),
                Claim(
                    "The costlier the aggregate, the sooner it pays off: StdDev before Sum.",
                    costlier_sooner,
                ),
                Claim(
                    "Never for Count.",
                    never("Count"),
                    "The paper's system reads the size of its container. Recalc folds a count as "
                    "it folds any aggregate, by n combines.",
                ),
                Claim(
                    "Never for Collect, which has to copy the window either way.",
                    never("Collect"),
                    "The paper's system copies the window once. Recalc folds lists by combine, "
                    "which copies what it has so far at each of n steps; the tree copies at each "
                    "of log n levels.",
                ),
            ),
            table=rows,
            setting="Both run interpreted: FlatFat against Recalc, which folds the window at each "
            "slide.",
        ),
        Section(
            "Figures 7 and 11, Table 4, section 6.2",
            "Cost of a slide over the size of the window",
            "objects",
            "Figures 7 and 11",
            (
                Claim(
                    "The cost of a slide grows with log n.",
                    logarithmic,
                    "Where a window's objects no longer fit into the processor's cache, steps get "
                    "slower.",
                ),
                Claim(
                    "B-Int (Arasu and Widom) has the same complexity and costs 1.02 to 1.39 times "
                    "as much.",
                    times("BInt", "FlatFat", 1.0, panel="Max"),
                ),
            ),
            picture="objects_trees",
        ),
    ),
    "Figures 6 and 8 to 10 (throughput at other slides and capacities of the same two methods) "
    "and Figure 12 (memory of a process of C++).",
)
