"""Tangwongsan, Hirzel and Schneider, VLDB Journal 2021: Two-Stacks Lite, DABA and DABA Lite."""

from functools import partial

from benchmarks.claims.reading import (
    FIRST,
    LAST,
    TIE,
    Claim,
    Found,
    Paper,
    Read,
    Reading,
    Section,
    every,
    left,
    short,
    times,
)

worst = partial(times, at=LAST, place="in the worst round")
fastest = partial(times, at=FIRST, place="in the fastest round")
SHOWN = ("Sum", "GeoMean", "Bloom")
CACHE = "The objects of a large window no longer fit into the processor's cache."
RINGS = (
    "Interpreted, a push onto a list is one call into C, and the ring of the Lite version "
    "computes every place in Python. Compiled loops have the Lite versions only."
)


def median(a: str, b: str, most: float, panel: str, unit: str = "microseconds") -> Read:
    """Read whether half of a's operations take at most so many times as long as half of b's."""

    def read(found: Found) -> Reading:
        one, other = (middle(found.line(who, panel)) for who in (a, b))
        of = f" ({panel})" if panel else ""
        said = f"medians: {a} {short(one)}, {b} {short(other)} {unit}{of}"
        return Reading(said, one <= most * other)

    return read


def middle(line: dict[float, float]) -> float:
    """Return what the slower half of operations takes at least."""
    return line[min(line, key=lambda share: abs(share - 0.5))]


def competitive(found: Found) -> Reading:
    """Read whether FlatFIT comes nearer to Two-Stacks Lite as the aggregate gets costlier."""
    ratio = {}
    for panel in ("Sum", "Bloom"):
        fit, stacks = found.line("FlatFit", panel), found.line("TwoStacksLite", panel)
        ratio[panel] = min(fit[n] / stacks[n] for n in fit)
    said = f"FlatFit has at least {short(ratio['Sum'])} of TwoStacksLite's rate with Sum"
    return Reading(
        f"{said}, {short(ratio['Bloom'])} with Bloom", ratio["Bloom"] >= ratio["Sum"] / TIE
    )


IN_ORDER = Section(
    "Figure 10, section 7.1",
    "Throughput of windows of constant size, interpreted",
    "objects",
    "Figure 10",
    (
        Claim(
            "All keep a nearly constant throughput as the window grows.",
            every(
                *(left(who, 0.5, panel="Sum") for who in ("TwoStacksLite", "DabaLite", "FlatFit")),
                left("Fiba", 0.5, panel="Sum"),
            ),
            CACHE,
        ),
        Claim(
            "Two-Stacks Lite is always faster than Two-Stacks.",
            times("TwoStacksLite", "TwoStacks", 1.0, panel="Sum"),
            RINGS,
        ),
        Claim(
            "DABA Lite is always faster than DABA.",
            times("DabaLite", "Daba", 1.0, panel="Sum"),
            RINGS,
        ),
        Claim(
            "Two-Stacks Lite tends to be the fastest, ahead of DABA Lite, FlatFIT and FiBA.",
            every(
                *(
                    times("TwoStacksLite", who, 1.0, panel="GeoMean")
                    for who in ("DabaLite", "FlatFit", "Fiba")
                )
            ),
        ),
        Claim(
            "FlatFIT gets more competitive as the aggregate gets costlier.",
            competitive,
            "A filter of ten thousand bits is combined as fast as a few statements of Python run, "
            "so that the aggregate does not dominate here.",
        ),
    ),
    picture="objects_in_order",
    setting="The paper's are compiled C++. These are the objects of muntin, pure Python, so that "
    "a round has a floor of about half a microsecond. Bloom filters of single values are made "
    "before.",
)

COMPILED = Section(
    "Figure 10, section 7.1",
    "The same, compiled: rolling over an array",
    "plots",
    "Figures 4 and 10",
    (
        Claim(
            "DABA Lite and Two-Stacks Lite keep a nearly constant throughput as the window grows.",
            every(
                left("DabaLite", 0.5, panel="max"),
                left("TwoStacksLite", 0.5, panel="max"),
            ),
            CACHE,
        ),
        Claim(
            "Two-Stacks Lite has a higher throughput than DABA Lite.",
            times("TwoStacksLite", "DabaLite", 1.0, panel="max"),
            "Compiled, a flip is a chain in which each combine waits for the one before it. The "
            "two running aggregates of DABA Lite do not wait for each other, and a processor "
            "likely works on both at once.",
        ),
    ),
    picture="throughput",
    setting="Beside them: Sba, which rolling takes by default, and libraries that have the same.",
)

LATENCY = Section(
    "Figure 9, section 7.1",
    "Latency of single rounds, interpreted",
    "object_latency",
    "Figure 9",
    (
        Claim(
            "Two-Stacks and Two-Stacks Lite have a lower typical latency than DABA and DABA Lite.",
            every(
                *(median("TwoStacksLite", "DabaLite", 1.0, panel) for panel in SHOWN),
                median("TwoStacks", "Daba", 1.0, "Sum"),
            ),
        ),
        Claim(
            "Their worst latency is an order of magnitude higher.",
            every(*(worst("TwoStacksLite", "DabaLite", 10, panel=panel) for panel in SHOWN)),
        ),
        Claim(
            "FiBA has a high median, and a worst case below that of Two-Stacks.",
            every(
                median("DabaLite", "Fiba", 1.0, "Sum"),
                worst("TwoStacksLite", "Fiba", 1.0, panel="Sum"),
            ),
        ),
        Claim(
            "FlatFIT has a high floor when the aggregate is cheap: its fastest round is slower "
            "than that of Two-Stacks Lite.",
            fastest("FlatFit", "TwoStacksLite", 1.0, panel="Sum"),
        ),
    ),
    picture="object_latency",
    setting="The paper has violins. Here a line shows which share of the rounds takes as long or "
    "longer: the typical round is on the left, the worst on the right. A round's least time of "
    "several runs counts.",
)

TICKS = Section(
    "Figure 9, section 7.1",
    "The same, compiled, by a clock inside the loop",
    "plots",
    "Figures 7 and 9",
    (
        Claim(
            "The worst latency of Two-Stacks Lite is an order of magnitude above that of DABA "
            "Lite.",
            worst("TwoStacksLite", "DabaLite", 10),
        ),
        Claim(
            "The typical operation of Two-Stacks Lite is at least as fast.",
            median("TwoStacksLite", "DabaLite", TIE, "", "ticks"),
        ),
    ),
    picture="latency",
)

PAPER = Paper(
    "daba",
    "In-Order Sliding-Window Aggregation in Worst-Case Constant Time",
    "Tangwongsan, Hirzel, Schneider; VLDB Journal 2021",
    (IN_ORDER, COMPILED, LATENCY, TICKS),
    "Figure 11 (windows that are filled and drained in turn) and Figure 12 (a data set of the "
    "DEBS 2012 challenge). Its theorems are under Combines.",
)
